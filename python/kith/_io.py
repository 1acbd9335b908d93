"""Files of vectors, point clouds and results; docs/formats.md lists the formats."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _arrow, _kith, _repack, _unpack
from ._arrays import numbers, plain_array, to_rows
from ._errors import InvalidArgument, IoError
from ._evaluate import as_arrays
from ._index import _integer
from ._neighbors import Neighbors, from_parts
from ._table_files import read_answer, read_table, write_answer, write_table
from ._whole import whole_file

__all__ = ["copy_points", "read", "read_neighbors", "write", "write_neighbors"]


def read(
    path: str | os.PathLike[str],
    *,
    format: str | None = None,
    member: str = "",
    first_row: int = 0,
    max_rows: int | None = None,
) -> NDArray[Any]:
    """The vectors or points of a file, ``[n, d]``, in the file's element type.

    Files whose rows lie as Kith needs them are memory-mapped: the array is read-only then and costs no memory.
    Point clouds give ``[n, 3]``; LAS gives float64 with scale and offset applied. So do LAZ and COPC, which laspy with
    lazrs reads, and E57, which pye57 reads (``pip install laspy lazrs pye57``): worker processes unpack them into a file
    for temporary ones first.

    Parquet and Arrow files (``.parquet``, ``.arrow``, ``.feather``) give a column of vectors: lists of numbers, of one
    length in all rows, without nulls. pyarrow reads them (``pip install pyarrow``), Parquet batch by batch into
    one allocation; of an Arrow file in one piece the memory-mapped file is the array.

    Args:
        path: fvecs, bvecs, fbin, u8bin, i8bin, npy, HDF5, PCD, PLY, LAS, LAZ, E57, Parquet, Arrow or text; with the
            column after a colon if you like, ``"rows.parquet:embedding"``.
        format: name of the format where extension and content do not tell it: ``"fvecs"``, ``"npy"``, ...
        member: dataset of an HDF5 file; ``"train"`` if empty. Column of a Parquet or Arrow file; if empty, the one
            that has vectors.
        first_row: rows to skip.
        max_rows: rows to read at most; None for all.

    Raises:
        IoError: the file is missing, truncated, corrupt or foreign.
        InvalidArgument: an unknown format, rows outside the file, no such column, a row that is null or of another
            length than the first.
        TypeError: a column of no numbers.
        OutOfMemory: the file does not fit the memory.
        ImportError: the file holds bfloat16 and the package ml_dtypes is not installed, or is a table and pyarrow is not.
    """
    if format is None and _arrow.is_table(os.fspath(path)):
        most = None if max_rows is None else _integer(max_rows, "max_rows")
        return read_table(os.fspath(path), member, _integer(first_row, "first_row"), most)
    rows = -1 if max_rows is None else _integer(max_rows, "max_rows")
    if format is None and _unpack.is_packed(os.fspath(path)):
        with tempfile.TemporaryDirectory(prefix="kith-") as folder:
            plain = os.path.join(folder, "cloud.npy")
            try:
                _unpack.unpack(os.fspath(path), plain)
            except (_unpack.CannotUnpack, OSError) as error:
                raise IoError(str(error)) from None
            # The map stays good without the name.
            unpacked, _ = _kith.read(plain, "", member, _integer(first_row, "first_row"), rows)
            return np.asarray(unpacked)
    array, dtype = _kith.read(os.fspath(path), format or "", member, _integer(first_row, "first_row"), rows)
    if dtype == "bfloat16":
        try:
            import ml_dtypes
        except ImportError as error:
            raise ImportError(
                f"'{os.fspath(path)}' holds bfloat16, which NumPy lacks; run: pip install ml_dtypes"
            ) from error
        array = array.view(ml_dtypes.bfloat16)
    result: NDArray[Any] = array
    return result


def write(path: str | os.PathLike[str], array: Any, *, format: str | None = None, ids: Any = None) -> None:
    """Writes vectors ``[n, d]`` to a file, whole or not at all.

    Args:
        path: its extension chooses the format: ``.npy``, ``.fvecs``, ``.fbin``, ``.h5``, ``.ply``, ``.parquet``,
            ``.arrow``, ... In the last two the column is called ``vector``, or as ``"rows.parquet:NAME"`` says.
        array: as the dataset of :func:`kith.knn`. An element type that the format cannot hold is refused.
        format: name of the format, instead of the extension.
        ids: Parquet and Arrow: a column ``id`` beside it, an array, list or column of ``n`` of any type.

    Raises:
        IoError: the file cannot be written.
        InvalidArgument: the format cannot hold the array, or is unknown; ids of another number, or for another format.
        ImportError: pyarrow is needed and not installed.
    """
    if format is None and _arrow.is_table(os.fspath(path)):
        write_table(os.fspath(path), array, ids)
        return
    _refuse_ids(path, ids=ids)
    _kith.write(os.fspath(path), to_rows(array, "array"), format or "")


def _refuse_ids(path: str | os.PathLike[str], **given: Any) -> None:
    for name, ids in given.items():
        if ids is not None:
            raise InvalidArgument(f"{name}: '{os.fspath(path)}' has no place for them; write a .parquet or .arrow file")


def copy_points(
    path: str | os.PathLike[str],
    source: str | os.PathLike[str],
    *,
    columns: Mapping[str, Any] | tuple[Sequence[str], Any] | None = None,
    keep: Any = None,
) -> None:
    """A LAS, LAZ or PLY file once more, with further columns, with some of its points, or both.

    All that the file has stays as it is: every attribute of a point, comments, records of the header, what follows the
    points. In LAS and LAZ the columns become extra bytes, in PLY properties of the vertices; what is called the same in
    the file gives way. Where points go, counts and bounds are made anew, and elements of a PLY beside its vertices, which
    refer to points by number, are left out. The file is read and written in blocks, and appears whole or not at all.

    Args:
        path: where it goes, ``.las``, ``.laz`` or ``.ply``. LAZ on either side needs laspy with lazrs
            (``pip install laspy lazrs pye57``).
        source: the file the points come from: LAS or LAZ for LAS or LAZ, PLY for PLY.
        columns: names and arrays ``[points]``, or ``(names, array)`` with an array ``[points, names]``, which may be
            memory-mapped. float32 is written as float, everything else as double.
        keep: the points that stay, an array of bool ``[points]``; None for all.

    Raises:
        InvalidArgument: files of different formats, columns or a mask of another length, a name that cannot be.
        IoError: the file is missing, truncated or corrupt, the other cannot be written, or laspy is missing.
    """
    target, origin = os.fspath(path), os.fspath(source)
    names, table = _columns(columns)
    if target.lower().endswith(".laz") or _unpack.is_packed(origin):
        _copy_packed(target, origin, names, table, keep)
        return
    rows = to_rows(table, "columns") if table is not None else None
    kept = None if keep is None else _kith.RowSet(_mask(keep, _kith.count_rows(origin)).tobytes())
    _kith.copy_points(target, origin, names, rows, kept)


def _columns(columns: Any) -> tuple[list[str], NDArray[Any] | None]:
    """Their names, and one array [points, names] of float32 or float64."""
    if not columns:
        return [], None
    if isinstance(columns, Mapping):
        names = list(columns)
        arrays = [plain_array(column, f"columns: '{name}'") for name, column in columns.items()]
        for name, array in zip(names, arrays, strict=True):
            if array.ndim != 1 or len(array) != len(arrays[0]):
                raise InvalidArgument(
                    f"columns: '{name}' has shape {array.shape}, '{names[0]}' {arrays[0].shape}; give one number a point"
                )
        table = np.stack(arrays, axis=1)
    else:
        names, table = list(columns[0]), columns[1]
        if getattr(table, "ndim", 0) != 2 or table.shape[1] != len(names):
            raise InvalidArgument(
                f"columns: {len(names)} names and an array of shape {np.shape(table)}; use [points, names]"
            )
    return names, table if table.dtype in (np.float32, np.float64) else numbers(table, "columns")


def _mask(keep: Any, rows: int) -> NDArray[np.bool_]:
    mask = plain_array(keep, "keep")
    if mask.dtype != np.bool_:
        raise TypeError(f"keep: an array of {mask.dtype}; an array of bool is needed, a flag a point")
    if mask.shape != (rows,):
        raise InvalidArgument(f"keep has the shape {mask.shape}, ({rows},) is needed: a flag for each point")
    return mask


def _copy_packed(target: str, origin: str, names: list[str], table: NDArray[Any] | None, keep: Any) -> None:
    if not target.lower().endswith((".laz", ".las")) or not _unpack.is_las(origin):
        raise InvalidArgument(
            f"cannot write '{target}': points of '{origin}' keep their attributes in LAS and LAZ files, and LAZ files take "
            "those of LAS and LAZ; name an output of that format"
        )
    try:
        gone = None if keep is None else ~_mask(keep, _unpack.count_points(origin))
    except _unpack.CannotUnpack as error:
        raise IoError(str(error)) from None
    try:
        with whole_file(target) as temporary:
            _repack.repack(origin, temporary, target.lower().endswith(".laz"), names, table, gone)
    except ValueError as error:
        raise InvalidArgument(str(error)) from None
    except (_unpack.CannotUnpack, OSError) as error:
        raise IoError(str(error)) from None


def read_neighbors(path: str | os.PathLike[str]) -> Neighbors:
    """Results or ground truth: of Kith, ivecs, big-ann, ann-benchmarks HDF5, npy of indices; Parquet and Arrow files
    with columns ``indices`` and ``distances``.

    Distances are NaN where the file has none.

    Raises:
        IoError: the file is missing, truncated, corrupt or foreign.
        InvalidArgument, ImportError: of Parquet and Arrow files as for :func:`read`.
    """
    if _arrow.is_table(os.fspath(path)):
        return Neighbors(*read_answer(os.fspath(path)))
    return from_parts(_kith.read_neighbors(os.fspath(path)))


def write_neighbors(
    path: str | os.PathLike[str], neighbors: Any, *, format: str | None = None, ids: Any = None, query_ids: Any = None
) -> list[str]:
    """Writes results; a path ``r`` without extension gives ``r.indices.npy`` and ``r.distances.npy``.

    Args:
        path: ``.ivecs`` (and an ``.fvecs`` beside it), ``.ibin``, ``.h5``, ``.json``, ``.txt``, ``.parquet``, ``.arrow``
            or none.
        neighbors: :class:`Neighbors`, ``(distances, indices)`` or an array of indices.
        format: name of the format, instead of the extension.
        ids, query_ids: Parquet and Arrow: as for :meth:`Neighbors.to_arrow`, whose columns the file has.

    Returns:
        The paths of the files written.

    Raises:
        IoError: a file cannot be written.
        InvalidArgument: the format is unknown or holds no results; too few ids, or ids for another format.
        ImportError: pyarrow is needed and not installed.
    """
    if format is None and _arrow.is_table(os.fspath(path)):
        if _arrow.split_name(os.fspath(path))[1]:
            raise InvalidArgument(
                f"'{os.fspath(path)}' names a column; answers have columns of their own, leave it out"
            )
        write_answer(os.fspath(path), *as_arrays(neighbors), ids, query_ids)
        return [os.fspath(path)]
    _refuse_ids(path, ids=ids, query_ids=query_ids)
    return [os.fspath(p) for p in _kith.write_neighbors(os.fspath(path), *as_arrays(neighbors), format or "")]
