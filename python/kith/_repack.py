"""LAS and LAZ files as LAS or LAZ files with further columns and without some points, through laspy, block by block.

Needs laspy with lazrs; imports nothing of Kith: ``python _repack.py FROM OUT laz|las COLUMNS DROPPED NAME...``, where
COLUMNS is an npy [points, names] and DROPPED an npy of bool, or '' for none.
"""

from __future__ import annotations

import sys
from typing import Any

try:
    from ._unpack import CannotUnpack, require
except ImportError:  # run as a program
    from _unpack import CannotUnpack, require  # type: ignore[import-not-found, no-redef]

__all__ = ["repack"]

_BLOCK = 250_000  # points in memory


def _header(laspy: Any, source: Any, names: list[str], columns: Any) -> Any:
    """The header of the file to write: the source's, with the columns in the place of those called the same."""
    from copy import deepcopy

    header = deepcopy(source)
    for index in reversed(range(len(header.vlrs))):
        if header.vlrs[index].user_id == "copc":  # offsets into a file that is laid out differently
            header.vlrs.pop(index)
    if names:
        there = set(header.point_format.dimension_names)
        extra = set(header.point_format.extra_dimension_names)
        for name in names:
            if name in there - extra:
                raise ValueError(f"a column cannot be called '{name}', as an attribute of LAS is; call it differently")
        header.remove_extra_dims([name for name in names if name in extra])
        header.add_extra_dims([laspy.ExtraBytesParams(name=name, type=columns.dtype) for name in names])
    return header


def repack(source: str, output: str, compress: bool, names: list[str], values: Any, gone: Any) -> int:
    """Writes ``output`` and returns the points in it. ``values`` [points, names] and the flags ``gone``, or None."""
    import numpy as np

    laspy = require(source if source.lower().endswith(".laz") else source + ".laz")
    try:
        reader = laspy.open(source)
    except OSError as error:
        raise CannotUnpack(f"cannot read '{source}': {error.strerror or error}") from None
    except Exception as error:
        raise CannotUnpack(f"cannot read '{source}': {str(error).strip() or type(error).__name__}") from None
    with reader:
        rows = int(reader.header.point_count)
        for what, array in (("columns", values), ("flags", gone)):
            if array is not None and len(array) != rows:
                raise ValueError(f"'{source}' has {rows} points, the {what} have {len(array)}; give one for each")
        header = _header(laspy, reader.header, names, values)
        evlrs = [record for record in reader.evlrs or [] if record.user_id != "copc"]
        written = at = 0
        with (
            open(output, "wb+") as file,
            laspy.open(file, mode="w", header=header, do_compress=compress, closefd=False) as writer,
        ):
            while at < rows:
                try:
                    points = reader.read_points(min(_BLOCK, rows - at))
                except Exception as error:
                    raise CannotUnpack(
                        f"cannot read '{source}': {str(error).strip() or type(error).__name__}"
                    ) from None
                count = len(points)
                if count == 0:
                    raise CannotUnpack(f"cannot read '{source}': it ends {rows - at} points too early")
                block = laspy.PackedPointRecord.zeros(count, header.point_format)
                for name in points.array.dtype.names:
                    if name in block.array.dtype.names and name not in names:
                        block.array[name] = points.array[name]
                for number, name in enumerate(names):
                    block.array[name] = values[at : at + count, number]
                if gone is not None:
                    block = laspy.PackedPointRecord(
                        block.array[~np.asarray(gone[at : at + count])], header.point_format
                    )
                if len(block) > 0:
                    writer.write_points(block)
                    written += len(block)
                at += count
            if evlrs:
                writer.write_evlrs(laspy.vlrs.vlrlist.VLRList(evlrs))
    return written


def _main(source: str, output: str, format: str, columns: str, dropped: str, *names: str) -> None:
    import numpy as np

    def array(path: str) -> Any:
        if not path:
            return None
        try:
            return np.load(path, mmap_mode="r")
        except ValueError:  # no elements
            return np.load(path)

    repack(source, output, format == "laz", list(names), array(columns), array(dropped))


if __name__ == "__main__":
    try:
        _main(*sys.argv[1:])
    except (CannotUnpack, OSError) as error:
        print(error)
        sys.exit(1)
    except Exception as error:
        print(f"cannot write '{sys.argv[2]}': {str(error).strip() or type(error).__name__}")
        sys.exit(1)
