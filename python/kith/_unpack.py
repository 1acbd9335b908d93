"""Compressed clouds (LAZ, COPC, E57) as npy files of coordinates, by worker processes that each decode a share.

Needs numpy, and laspy with lazrs or pye57; imports nothing of Kith, so that workers start at once:
``python _unpack.py FILE OUT OFFSET FIRST COUNT SCAN`` writes rows of FILE into the npy OUT.
"""

from __future__ import annotations

import os
import signal
import struct
import subprocess
import sys
from typing import Any

__all__ = ["CannotUnpack", "count_points", "is_las", "is_packed", "require", "unpack"]

_HEADER_BYTES = 128
_BLOCK = 250_000  # rows a worker has in memory
_ROW_BYTES = 24  # three float64
_LEAST_SHARE = 1_000_000  # rows that are worth a process

Share = tuple[int, int, int, int]  # row of the npy, row of the file or scan, rows, scan


class CannotUnpack(Exception):
    """Why, in one line."""


def is_packed(path: str) -> bool:
    """Whether it is LAZ (COPC, too) by its first bytes, or LAZ or E57 by its suffix."""
    suffix = os.path.splitext(path)[1].lower()
    if suffix == ".e57":
        return True
    try:
        with open(path, "rb") as file:
            start = file.read(105)
    except OSError:
        start = b""
    return start[104] >= 64 if start.startswith(b"LASF") and len(start) == 105 else suffix == ".laz"


def is_las(path: str) -> bool:
    """Whether it is LAS or LAZ by its first bytes; a file that is not there is none."""
    try:
        with open(path, "rb") as file:
            return file.read(4) == b"LASF"
    except OSError:
        return path.lower().endswith((".las", ".laz"))


def count_points(path: str) -> int:
    """Of a LAS or LAZ file."""
    return sum(share[2] for share in _shares(path, 1))


def require(path: str) -> Any:
    try:
        if path.lower().endswith(".e57"):
            import pye57

            return pye57
        import laspy

        if not laspy.LazBackend.detect_available():
            raise ImportError
        return laspy
    except ImportError:
        raise CannotUnpack(
            f"'{path}' is read by {'pye57' if path.lower().endswith('.e57') else 'laspy with lazrs'}, which "
            f"'{sys.executable}' does not have; install it (pip install laspy lazrs pye57)"
        ) from None


def _shares(path: str, workers: int) -> list[Share]:
    library = require(path)
    try:
        if path.lower().endswith(".e57"):
            with open(path, "rb"):  # the library's message does not name the reason
                pass
            file = library.E57(path)
            shares, row = [], 0
            for scan in range(file.scan_count):
                count = int(file.get_header(scan).point_count)
                shares.append((row, 0, count, scan))
                row += count
            file.close()
            return shares
        with library.open(path) as file:
            rows = int(file.header.point_count)
            # COPC: chunks of many sizes, whose places laspy does not look up.
            if any(record.user_id == "copc" for record in file.header.vlrs):
                workers = 1
    except CannotUnpack:
        raise
    except Exception as error:
        reason = getattr(error, "strerror", None) or str(error).strip() or type(error).__name__
        raise CannotUnpack(f"cannot read '{path}': {reason}") from None
    parts = max(1, min(workers, rows // _LEAST_SHARE))
    ends = [rows * part // parts for part in range(parts + 1)]
    return [(begin, begin, end - begin, 0) for begin, end in zip(ends, ends[1:], strict=False)]


def unpack(path: str, output: str, workers: int = 0) -> int:
    """Writes an npy of float64 ``[rows, 3]`` and returns the rows. At most ``workers`` processes, 0: one a core.

    LAZ: integer times scale plus offset, in two roundings, as of LAS. E57: all scans in one frame; a point that its
    scan calls invalid becomes NaN, so that row numbers are those of the file.
    """
    workers = workers or len(os.sched_getaffinity(0))
    shares = _shares(path, workers)
    rows = sum(share[2] for share in shares)
    with open(output, "wb") as file:
        text = f"{{'descr': '<f8', 'fortran_order': False, 'shape': ({rows}, 3), }}"
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", _HEADER_BYTES - 10))
        file.write(text.ljust(_HEADER_BYTES - 11).encode() + b"\n")
        file.truncate(_HEADER_BYTES + rows * _ROW_BYTES)
    waiting = [share for share in shares if share[2] > 0][::-1]
    running: list[subprocess.Popen[bytes]] = []
    try:
        while waiting or running:
            while waiting and len(running) < workers:
                words = [str(number) for number in waiting.pop()]
                call = [sys.executable, "-B", os.path.abspath(__file__), path, output, *words]
                running.append(subprocess.Popen(call, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE))
            worker = running.pop(0)
            try:
                told = worker.communicate()[1].decode(errors="replace").strip()
            except BaseException:
                running.append(worker)
                raise
            if worker.returncode != 0:
                reason = told.splitlines()[-1] if told else f"its reader ended with status {worker.returncode}"
                raise CannotUnpack(f"cannot read '{path}': {reason}")
    finally:
        for worker in running:
            worker.kill()
            worker.communicate()
    return rows


def _laz(path: str, first: int, count: int) -> Any:
    import laspy
    import numpy as np

    some = laspy.DecompressionSelection.base() | laspy.DecompressionSelection.Z
    with laspy.open(path, laz_backend=laspy.LazBackend.Lazrs, decompression_selection=some) as file:
        scales, offsets = file.header.scales, file.header.offsets
        if first > 0:
            file.seek(first)
        while count > 0:
            points = file.read_points(min(count, _BLOCK))
            if len(points) == 0:
                raise EOFError(f"it ends {count} points too early")
            axes = [
                np.asarray(points[name]) * scales[axis] + offsets[axis] for axis, name in enumerate(("X", "Y", "Z"))
            ]
            yield np.stack(axes, axis=1)
            count -= len(points)


def _e57(path: str, scan: int, count: int) -> Any:
    import numpy as np
    import pye57
    from pye57 import libe57

    file = pye57.E57(path)
    header = file.get_header(scan)
    fields = ["cartesianX", "cartesianY", "cartesianZ"]
    if any(field not in header.point_fields for field in fields):
        raise ValueError(f"scan {scan} has no cartesian coordinates, but {', '.join(header.point_fields)}")
    if "cartesianInvalidState" in header.point_fields:
        fields.append("cartesianInvalidState")
    buffers = libe57.VectorSourceDestBuffer()
    columns = []
    for field in fields:
        column, buffer = file.make_buffer(field, min(count, _BLOCK))
        columns.append(column)
        buffers.append(buffer)
    reader = header.points.reader(buffers)
    while count > 0:
        here = reader.read()
        if here == 0:
            raise EOFError(f"scan {scan} ends {count} points too early")
        points = np.stack([column[:here].astype(np.float64) for column in columns[:3]], axis=1)
        if header.has_pose():
            points = file.to_global(points, header.rotation, header.translation)
        if len(columns) > 3:
            points[columns[3][:here] != 0] = np.nan
        yield points
        count -= here


def _work(path: str, output: str, row: int, first: int, count: int, scan: int) -> None:
    import numpy as np

    blocks = _e57(path, scan, count) if path.lower().endswith(".e57") else _laz(path, first, count)
    with open(output, "r+b") as file:
        file.seek(_HEADER_BYTES + row * _ROW_BYTES)
        for block in blocks:
            file.write(np.ascontiguousarray(block, dtype="<f8").data)


if __name__ == "__main__":
    if sys.argv[1] == "unpack":  # unpack FILE OUT WORKERS, for the command line; says on stdout why not
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # not without the workers
        try:
            unpack(sys.argv[2], sys.argv[3], int(sys.argv[4]))
        except (CannotUnpack, OSError) as error:
            print(error)
            sys.exit(1)
        sys.exit(0)
    try:
        _work(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:7]))
    except Exception as error:
        sys.exit(str(error).strip() or type(error).__name__)
