"""Files of vectors, point clouds and results; docs/formats.md lists the formats."""

from __future__ import annotations

import os
from typing import Any

from numpy.typing import NDArray

from . import _kith
from ._arrays import to_rows
from ._evaluate import as_arrays
from ._index import _integer
from ._neighbors import Neighbors, from_parts

__all__ = ["read", "read_neighbors", "write", "write_neighbors"]


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
    Point clouds give ``[n, 3]``; LAS gives float64 with scale and offset applied.

    Args:
        path: fvecs, bvecs, fbin, u8bin, i8bin, npy, HDF5, PCD, PLY, LAS or text.
        format: name of the format where extension and content do not tell it: ``"fvecs"``, ``"npy"``, ...
        member: dataset of an HDF5 file; ``"train"`` if empty.
        first_row: rows to skip.
        max_rows: rows to read at most; None for all.

    Raises:
        IoError: the file is missing, truncated, corrupt or foreign.
        InvalidArgument: an unknown format, rows outside the file.
        OutOfMemory: the file does not fit the memory.
        ImportError: the file holds bfloat16 and the package ml_dtypes is not installed.
    """
    rows = -1 if max_rows is None else _integer(max_rows, "max_rows")
    array, dtype = _kith.read(os.fspath(path), format or "", member, _integer(first_row, "first_row"), rows)
    if dtype == "bfloat16":
        try:
            import ml_dtypes
        except ImportError as error:
            raise ImportError(
                f"'{os.fspath(path)}' holds bfloat16, which NumPy lacks; run: pip install 'kith[bfloat16]'"
            ) from error
        array = array.view(ml_dtypes.bfloat16)
    result: NDArray[Any] = array
    return result


def write(path: str | os.PathLike[str], array: Any, *, format: str | None = None) -> None:
    """Writes vectors ``[n, d]`` to a file, whole or not at all.

    Args:
        path: its extension chooses the format: ``.npy``, ``.fvecs``, ``.fbin``, ``.h5``, ``.ply``, ...
        array: as the dataset of :func:`kith.knn`. An element type that the format cannot hold is refused.
        format: name of the format, instead of the extension.

    Raises:
        IoError: the file cannot be written.
        InvalidArgument: the format cannot hold the array, or is unknown.
    """
    _kith.write(os.fspath(path), to_rows(array, "array"), format or "")


def read_neighbors(path: str | os.PathLike[str]) -> Neighbors:
    """Results or ground truth: of Kith, ivecs, big-ann, ann-benchmarks HDF5, npy of indices.

    Distances are NaN where the file has none.

    Raises:
        IoError: the file is missing, truncated, corrupt or foreign.
    """
    return from_parts(_kith.read_neighbors(os.fspath(path)))


def write_neighbors(path: str | os.PathLike[str], neighbors: Any, *, format: str | None = None) -> list[str]:
    """Writes results; a path ``r`` without extension gives ``r.indices.npy`` and ``r.distances.npy``.

    Args:
        path: ``.ivecs`` (and an ``.fvecs`` beside it), ``.ibin``, ``.h5``, ``.json``, ``.txt`` or none.
        neighbors: :class:`Neighbors`, ``(distances, indices)`` or an array of indices.
        format: name of the format, instead of the extension.

    Returns:
        The paths of the files written.

    Raises:
        IoError: a file cannot be written.
        InvalidArgument: the format is unknown or holds no results.
    """
    return [os.fspath(p) for p in _kith.write_neighbors(os.fspath(path), *as_arrays(neighbors), format or "")]
