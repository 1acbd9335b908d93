"""Finished tasks put together: the files of an answer."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._io import write_neighbors
from .._neighbors import Neighbors
from .._tile_files import mapped
from ._units import read_unit, sync_folder
from ._work import Work

__all__ = ["Answer", "RunStatistics", "blocks_of_units", "in_order", "put_in_place"]

#: Formats of answers beside npy.
_OTHERS = (".parquet", ".pq", ".arrow", ".feather", ".ipc", ".ivecs", ".ibin", ".h5", ".hdf5", ".json", ".txt")
_GATHERED_BYTES = 64 << 20  # of an answer, put in order at a time


@dataclass(frozen=True)
class RunStatistics:
    """What a call did on the cluster."""

    queries: int = 0  #: rows that were answered
    tasks: int = 0  #: finished by this call
    resumed: int = 0  #: that a call before had finished, and which were not done again
    certified: bool = True  #: every answer is the nearest rows, by proof
    recall: float = 1.0  #: the least that a part states, see :class:`kith.SearchStatistics`
    seconds: float = 0.0  #: wall time


@dataclass(frozen=True)
class Answer:
    """Nearest neighbours in files, as memory-mapped arrays; unpacks as ``distances, indices = answer``."""

    distances: NDArray[Any]  #: ``[queries, k]``, float64 for float64 data, else float32
    indices: NDArray[np.int64]  #: ``[queries, k]``, -1 for none
    files: tuple[Path, ...]
    statistics: RunStatistics

    def __iter__(self) -> Iterator[NDArray[Any]]:
        return iter((self.distances, self.indices))


Lists = tuple[NDArray[Any], NDArray[np.int64]]


def blocks_of_units(files: list[str], notes: list[dict[str, Any]]) -> Iterator[Lists]:
    """The lists of blocks of queries, one block after the other."""
    for file in files:
        (distances, indices), its = read_unit(file)
        notes.append(its)
        yield distances, indices


def in_order(files: list[str], rows: int, k: int, notes: list[dict[str, Any]]) -> Iterator[Lists]:
    """The lists of all rows in their order, from tasks that each have some rows, in ascending runs.

    Some rows at a time are gathered from all tasks: of each run the rows of a block lie together.
    """
    units = []
    for file in files:
        (numbers, distances, indices), its = read_unit(file)
        notes.append(its)
        starts = [0, *(np.flatnonzero(np.diff(numbers) < 0) + 1).tolist(), len(numbers)]
        units.append((numbers, distances, indices, starts))
    width = units[0][1].dtype if units else np.dtype(np.float32)
    step = max(1, _GATHERED_BYTES // max(1, k * (8 + width.itemsize)))
    for first in range(0, rows, step):
        last = min(rows, first + step)
        near, found = np.empty((last - first, k), width), np.empty((last - first, k), np.int64)
        for numbers, distances, indices, starts in units:
            for begin, end in zip(starts[:-1], starts[1:], strict=True):
                low, high = begin + np.searchsorted(numbers[begin:end], [first, last])
                if low < high:
                    places = numbers[low:high] - first
                    near[places], found[places] = distances[low:high], indices[low:high]
        yield near, found


def _header(dtype: np.dtype[Any], shape: tuple[int, int]) -> dict[str, Any]:
    return {"descr": dtype.str, "fortran_order": False, "shape": shape}


def put_in_place(output: str, lists: Iterator[Lists], shape: tuple[int, int], dtype: str, work: Work) -> Answer:
    """Writes an answer, whole or not at all: ``r.indices.npy`` and ``r.distances.npy``, or a file of another format.

    Args:
        lists: of all queries, some at a time.
        shape, dtype: of the distances.
    """
    whole = output[: -len(".npy")] if output.endswith(".npy") else output
    names = ("indices.npy", "distances.npy")
    made = [work.file(name) for name in names]
    with open(made[0], "wb") as indices, open(made[1], "wb") as distances:
        np.lib.format.write_array_header_1_0(indices, _header(np.dtype("<i8"), shape))
        np.lib.format.write_array_header_1_0(distances, _header(np.dtype(dtype), shape))
        for near, found in lists:
            indices.write(np.ascontiguousarray(found, "<i8").data)
            distances.write(np.ascontiguousarray(near, dtype).data)
        for file in (indices, distances):
            file.flush()
            os.fsync(file.fileno())
    arrays = [mapped(file) for file in made]
    if os.path.splitext(output)[1].lower() in _OTHERS:
        files = write_neighbors(output, Neighbors(arrays[1], arrays[0]))
    else:
        files = [f"{whole}.{name}" for name in names]
        for name, target in zip(made, files, strict=True):
            os.replace(name, target)
        sync_folder(os.path.dirname(os.path.abspath(files[0])))
    return Answer(arrays[1], arrays[0], tuple(map(Path, files)), RunStatistics())
