"""Files of point tiles: clouds that come as arrays one after the other, and answers that stay on disk."""

from __future__ import annotations

import fcntl
import glob
import os
import shutil
import struct
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _arrow, _unpack
from ._arrays import NOT_NUMBERS, plain_array
from ._errors import InvalidArgument, IoError
from ._tables import as_array

__all__ = ["TileAnswer", "TileStatistics"]


@dataclass(frozen=True)
class TileStatistics:
    """What a search of tiles did."""

    queries: int = 0  #: rows that were answered
    nan_rows: int = 0  #: rows with a NaN: never found, and without neighbours
    nan_queries: int = 0  #: queries with a NaN
    tiles: int = 0  #: there are
    tile_bytes: int = 0  #: of all tiles
    bytes_read: int = 0  #: of tiles, each time that one was read
    bytes_direct: int = 0  #: of them, those that came past the page cache, through io_uring
    tiles_read_again: int = 0  #: reads of a tile after its first
    crossed: int = 0  #: queries that needed another tile than their own
    visits: int = 0  #: searches of a query in another tile
    postponed: int = 0  #: queries that waited for the last sweep
    resumed_tiles: int = 0  #: tiles that an interrupted run had done before this one
    reader: str = "pread"  #: what read tiles: ``io_uring`` or ``pread``
    read_seconds: float = 0.0  #: that it was at work in this run, a search beside it or not
    waited_seconds: float = 0.0  #: in which the search waited for it, and for what GPUs do with it
    device: str = "cpu"  #: what has searched
    device_seconds: float = 0.0  #: of GPUs: in which a call was under way on one, copies included
    seconds: float = 0.0  #: wall time


@dataclass(frozen=True)
class TileAnswer:
    """Nearest neighbours in files, as memory-mapped arrays; unpacks as ``distances, indices = answer``."""

    distances: NDArray[Any]  #: ``[rows, k]``, float64 for float64 data, else float32
    indices: NDArray[Any]  #: ``[rows, k]``, int64 with -1 for none, or uint32 with 2**32 - 1 for none
    rows: NDArray[Any] | None  #: with ``order="tiles"`` the rows that the answers are of, else None
    files: tuple[Path, ...]
    statistics: TileStatistics

    def __iter__(self) -> Any:
        return iter((self.distances, self.indices))


def answer_of(files: list[str], statistics: dict[str, Any]) -> TileAnswer:
    """An answer that the library has written: indices, distances and, in the order of tiles, rows."""
    indices, distances, *rows = (mapped(file) for file in files)
    return TileAnswer(
        distances, indices, rows[0] if rows else None, tuple(map(Path, files)), TileStatistics(**statistics)
    )


def gather(arrays: Iterator[Any], path: str) -> None:
    """One npy of arrays that come one after the other."""
    header_bytes, rows, dim = 128, 0, 0
    dtype: np.dtype[Any] | None = None
    with open(path, "wb") as file:
        file.write(bytes(header_bytes))
        for array in arrays:
            block = np.ascontiguousarray(plain_array(as_array(array, "clouds"), "clouds"))
            if block.dtype.kind in NOT_NUMBERS + "O":
                raise TypeError(f"clouds: {block.dtype.name} in place of numbers")
            if block.ndim != 2:
                raise InvalidArgument(f"clouds: an array of shape {block.shape}; use arrays [n, d]")
            if dtype is None:
                dim, dtype = block.shape[1], block.dtype
            elif (dim, dtype) != (block.shape[1], block.dtype):
                raise InvalidArgument(
                    f"clouds: rows of {block.shape[1]} {block.dtype} after rows of {dim} {dtype}; they must be the same"
                )
            file.write(block.tobytes())
            rows += len(block)
        if dtype is None:
            raise InvalidArgument("clouds: an iterator without arrays; give one array at least")
        descr = "<V2" if dtype.name == "bfloat16" else dtype.str
        text = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': ({rows}, {dim}), }}"
        file.seek(0)
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", header_bytes - 10))
        file.write(text.ljust(header_bytes - 11).encode() + b"\n")


def mark_temporary(path: str) -> None:
    """Says to the library that no run to come finds this file, so that none is to go on from it."""
    os.utime(path, (0, 0))


@contextmanager
def folder_beside(folder: str | os.PathLike[str]) -> Iterator[str]:
    """A temporary folder beside ``folder``, locked while it is used; those of processes that were killed go."""
    place = Path(os.path.abspath(folder))
    prefix = f".kith-{place.name}-"
    for older in place.parent.glob(f"{glob.escape(prefix)}*"):
        descriptor = _locked(older)
        if descriptor is not None:
            shutil.rmtree(older, ignore_errors=True)
            os.close(descriptor)
    while True:
        with tempfile.TemporaryDirectory(prefix=prefix, dir=place.parent, ignore_cleanup_errors=True) as beside:
            descriptor = _locked(beside)
            try:
                # Another process may have taken it for an older one before it was locked.
                if os.path.isdir(beside):
                    yield beside
                    return
            finally:
                if descriptor is not None:
                    os.close(descriptor)


def _locked(folder: str | os.PathLike[str]) -> int | None:
    """A descriptor that holds the lock of a folder; None where another process does, or there are no locks."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


@contextmanager
def unpacked(files: list[str], folder: str | os.PathLike[str], threads: int) -> Iterator[list[str]]:
    """The same files, with an npy beside ``folder`` in the place of each that is LAZ, E57 or a table, for as long."""

    def foreign(file: str) -> bool:
        return _arrow.is_table(file) or _unpack.is_packed(file)

    if not any(map(foreign, files)):
        yield files
        return
    with folder_beside(folder) as beside:
        plain = []
        for number, file in enumerate(files):
            if foreign(file):
                output = os.path.join(beside, f"{number}.npy")
                try:
                    (_arrow if _arrow.is_table(file) else _unpack).unpack(file, output, threads)
                except (_unpack.CannotUnpack, _arrow.CannotRead, OSError) as error:
                    raise IoError(str(error)) from None
                except _arrow.BadTable as error:
                    raise InvalidArgument(str(error)) from None
                file = output
            plain.append(file)
        yield plain


def mapped(file: str | os.PathLike[str]) -> NDArray[Any]:
    try:
        array: NDArray[Any] = np.load(file, mmap_mode="r")
    except ValueError:  # an array without elements cannot be mapped
        array = np.load(file)
    return array
