"""The answer of every search."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._gpu import in_library

__all__ = ["Neighbors", "SearchStatistics"]


@dataclass(frozen=True)
class SearchStatistics:
    """What a search did. Counters are exact but, except for the NaN counts, may differ from run to run."""

    index: str = ""  #: index type: ``"brute_force"``, ``"kd_tree"``, ``"octree"`` or ``"vamana"``
    filter: str = ""  #: ``"int8"``, ``"fp16"``, ``"fp32"`` or ``"none"``
    directions: int = 0  #: leading directions that the filter compared; 0: all values
    lists: int = 0  #: lists that the rows are divided into; 0: every row is looked at
    instruction_set: str = ""  #: kernel path that ran
    pairs: int = 0  #: (query, row) pairs the filter, or a leaf of a tree, looked at
    candidates: int = 0  #: pairs the filter kept and that were evaluated exactly
    fallbacks: int = 0  #: queries that left the chosen filter for a finer one
    nan_rows: int = 0  #: dataset rows with a NaN: never returned
    nan_queries: int = 0  #: queries with a NaN: answered by -1 and inf
    collapsed_rows: int = 0  #: rows equal to an earlier row, evaluated once with it
    hops: int = 0  #: graphs: nodes whose neighbours were looked at
    cached_hops: int = 0  #: of them, those whose edges a GPU has while the graph is on the host
    distances: int = 0  #: graphs: distances of codes that were evaluated
    list_size: int = 0  #: graphs: length of the list, as given or as the recall required
    #: the answer is the nearest rows, by proof; False: mostly, as an approximate index finds them
    certified: bool = True
    #: share of the nearest rows that the index has measured itself to find, at least, with 99 % confidence; 1
    #: where certified, 0 where nothing is known
    recall: float = 1.0
    seconds: float = 0.0  #: wall time of the search


class Neighbors:
    """The k nearest rows of each query; unpacks as ``distances, indices = neighbors``.

    Each row ascends by (distance, index). Rows with fewer than k answers end in index -1 and distance inf.

    Attributes:
        distances: ``[queries, k]``; float64 for float64 data, float32 for every other element type.
        indices: int64 ``[queries, k]``, numbers of dataset rows.
        statistics: a :class:`SearchStatistics`.

    The arrays are NumPy's, or where the queries lie on a GPU, that GPU's: PyTorch's or CuPy's as the queries
    are, else :class:`GpuArray`. :meth:`numpy` copies them to the host.

    Made by searches, and by hand from two arrays of one shape for :func:`kith.evaluate` and
    :func:`kith.write_neighbors`.

    Raises:
        ValueError: the shapes differ or are not ``[queries, k]``.
    """

    __slots__ = ("_statistics", "distances", "indices")

    distances: NDArray[Any]
    indices: NDArray[np.int64]
    _statistics: SearchStatistics | dict[str, Any]  # as the compiled part gives them, until somebody asks

    def __init__(
        self,
        distances: NDArray[Any],
        indices: NDArray[np.int64],
        statistics: SearchStatistics | None = None,
    ) -> None:
        if distances.ndim != 2 or distances.shape != indices.shape:
            raise ValueError(
                f"distances have shape {distances.shape}, indices {indices.shape}; both must be [queries, k]"
            )
        self.distances = distances
        self.indices = indices
        self._statistics = {} if statistics is None else statistics

    @property
    def statistics(self) -> SearchStatistics:
        """What the search did."""
        if isinstance(self._statistics, dict):
            self._statistics = SearchStatistics(**self._statistics)
        return self._statistics

    @statistics.setter
    def statistics(self, value: SearchStatistics) -> None:
        self._statistics = value

    def __iter__(self) -> Iterator[NDArray[Any]]:
        return iter((self.distances, self.indices))

    def __len__(self) -> int:
        """2: distances and indices."""
        return 2

    def __getitem__(self, item: int) -> NDArray[Any]:
        return (self.distances, self.indices)[item]

    def numpy(self) -> Neighbors:
        """The same in NumPy's arrays; itself where they are that already."""
        if isinstance(self.indices, np.ndarray):
            return self
        return Neighbors(_to_numpy(self.distances), _to_numpy(self.indices), self.statistics)

    def to_arrow(self, ids: Any = None, query_ids: Any = None) -> Any:
        """A ``pyarrow.Table`` with a row a query: ``query``, ``indices``, ``ids`` where they are given, ``distances``.

        All but the first are lists of k, over the memory of this answer where that is NumPy's.

        Args:
            ids: the caller's id of each row that was searched: an array, list or column (Arrow, pandas, polars,
                datasets) of any type. A missing neighbour's is null.
            query_ids: those of the queries, in place of their numbers.

        Raises:
            InvalidArgument: too few ids, or not one for each query.
            ImportError: pyarrow is not installed (``pip install pyarrow``).
        """
        from ._table_files import answer_table

        host = self.numpy()
        return answer_table(host.distances, host.indices, ids, query_ids)

    def __repr__(self) -> str:
        queries, k = self.indices.shape
        head = f"Neighbors of {queries:,} queries, k = {k:,} ({self.distances.dtype})"
        if not isinstance(self.indices, np.ndarray):
            return f"{head} on {self.indices.device}"
        if not queries or not k:
            return head
        shown_rows, shown = min(queries, 3), min(k, 4)
        lines = [head]
        for q in range(shown_rows):
            pairs = [f"{i} at {d:.6g}" for d, i in zip(self.distances[q, :shown], self.indices[q, :shown], strict=True)]
            lines.append(f"  query {q}: " + ", ".join(pairs) + (", ..." if k > shown else ""))
        if queries > shown_rows:
            lines.append("  ...")
        return "\n".join(lines)


def _to_numpy(array: Any) -> NDArray[Any]:
    """A copy on the host of an array of Kith, PyTorch or CuPy."""
    if hasattr(array, "get"):  # CuPy
        copy: NDArray[Any] = array.get()
    else:
        copy = (array.cpu() if hasattr(array, "cpu") else array).numpy()
    return plain_int64(copy) if copy.dtype.kind == "i" else copy


def plain_int64(array: NDArray[Any]) -> NDArray[np.int64]:
    # The module makes "long long" of 8 bytes: equal to int64, but NumPy prints and pickles it as another.
    return array.view(np.int64)


def from_parts(parts: tuple[Any, ...], library: str = "", room: tuple[Any, Any] | None = None) -> Neighbors:
    """From the (distances, indices, statistics) of the compiled part, on a GPU in arrays of the library: in ``room``
    where the answer was put there."""
    distances, indices, statistics = parts
    if room is not None:
        distances, indices = room
    elif isinstance(indices, np.ndarray):
        indices = plain_int64(indices)
    else:
        distances, indices = in_library(library, distances), in_library(library, indices)
    neighbors = Neighbors.__new__(Neighbors)  # their shapes are right
    neighbors.distances, neighbors.indices, neighbors._statistics = distances, indices, statistics
    return neighbors
