"""Answers of trees: rows within a radius, normals, outliers."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ._neighbors import SearchStatistics

__all__ = ["Normals", "Outliers", "RadiusNeighbors"]


class RadiusNeighbors:
    """The rows within a radius of each query, as compressed sparse rows.

    ``found[i]`` is the pair ``(distances, indices)`` of query i; ``len(found)`` is the number of queries, and
    a loop goes over such pairs. All of them at once: query i has
    ``indices[offsets[i]:offsets[i + 1]]``, which is what ``scipy.sparse.csr_matrix((distances, indices,
    offsets), shape=(queries, rows))`` takes.

    Attributes:
        offsets: int64 ``[queries + 1]``, from 0 to the number of all neighbours.
        indices: int64 ``[offsets[-1]]``, numbers of dataset rows.
        distances: ``[offsets[-1]]``, in units of the metric; float64 for float64 data, else float32.
        statistics: a :class:`SearchStatistics`.

    Raises:
        ValueError: the three arrays do not fit each other.
    """

    __slots__ = ("distances", "indices", "offsets", "statistics")

    offsets: NDArray[np.int64]
    indices: NDArray[np.int64]
    distances: NDArray[Any]
    statistics: SearchStatistics

    def __init__(
        self,
        offsets: NDArray[np.int64],
        indices: NDArray[np.int64],
        distances: NDArray[Any],
        statistics: SearchStatistics | None = None,
    ) -> None:
        if (
            offsets.ndim != 1
            or len(offsets) == 0
            or indices.shape != (offsets[-1],)
            or distances.shape != indices.shape
        ):
            raise ValueError(
                f"offsets have shape {offsets.shape}, indices {indices.shape}, distances {distances.shape}; they must "
                "be [queries + 1], and twice [offsets[-1]]"
            )
        self.offsets = offsets
        self.indices = indices
        self.distances = distances
        self.statistics = SearchStatistics() if statistics is None else statistics

    def __len__(self) -> int:
        """Number of queries."""
        return len(self.offsets) - 1

    def __getitem__(self, query: int) -> tuple[NDArray[Any], NDArray[np.int64]]:
        number = operator.index(query)
        if not -len(self) <= number < len(self):
            raise IndexError(f"query {number}; there are {len(self)}")
        number %= len(self)
        part = slice(self.offsets[number], self.offsets[number + 1])
        return self.distances[part], self.indices[part]

    def __iter__(self) -> Iterator[tuple[NDArray[Any], NDArray[np.int64]]]:
        return (self[query] for query in range(len(self)))

    def counts(self) -> NDArray[np.int64]:
        """How many rows each query has, int64 ``[queries]``."""
        return np.diff(self.offsets)

    def __repr__(self) -> str:
        return f"RadiusNeighbors of {len(self):,} queries, {len(self.indices):,} in all ({self.distances.dtype})"


class Normals(NamedTuple):
    """What :meth:`PointTree.normals` finds; unpacks as ``normals, curvature``.

    The arrays are NumPy's, or of a tree over an array on a GPU that GPU's, as those of :class:`Neighbors`.
    """

    normals: NDArray[np.float64]  #: ``[rows, dim]``, of length 1, any if neighbours coincide; NaN: fewer than dim
    curvature: NDArray[np.float64]  #: ``[rows]``, least variance over the sum of all: 0 (a plane) to 1/dim


@dataclass(frozen=True, eq=False)
class Outliers:
    """What :meth:`PointTree.outliers` finds. ``X[~found.outlier]`` are the points to keep."""

    outlier: NDArray[np.bool_]  #: ``[rows]``
    mean_distance: NDArray[np.float64]  #: ``[rows]``, to the neighbours, in units of the metric; NaN without any
    mean: float  #: of mean_distance over all points
    deviation: float  #: its standard deviation (of the sample)
    threshold: float  #: mean + ratio * deviation; points beyond it are outliers
