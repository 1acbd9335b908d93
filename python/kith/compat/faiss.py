"""faiss's flat indexes, and its HNSW graphs from files, by faiss's names and conventions, answered by Kith.

``from kith.compat import faiss`` in the place of ``import faiss``. faiss itself is not needed. As there, vectors become
float32, L2 distances are squared, inner products descend, and a missing neighbour has id -1 at the largest float (the
lowest for inner products). Answers of flat indexes are exact: float64 distances rounded once, ties to the lower id.

>>> import numpy as np
>>> from kith.compat import faiss
>>> index = faiss.IndexFlatL2(2)
>>> index.add(np.array([[0, 0], [3, 4], [1, 0]], np.float32))
>>> D, I = index.search(np.zeros((1, 2), np.float32), 2)
>>> D.tolist(), I.tolist(), index.ntotal
([[0.0, 1.0]], [[0, 2]], 3)
"""

from __future__ import annotations

import os
import struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._arrays import NOT_NUMBERS, plain_array
from .._errors import InvalidArgument, IoError
from .._graph_files import export_graph, import_graph
from .._index import BruteForce, Index, _integer, number
from .._tables import as_array
from .._vamana import Vamana
from .._whole import whole_file
from ._faiss_selectors import (
    IDSelector,
    IDSelectorAnd,
    IDSelectorArray,
    IDSelectorBatch,
    IDSelectorNot,
    IDSelectorOr,
    IDSelectorRange,
    SearchParameters,
    SearchParametersHNSW,
)

__all__ = [
    "METRIC_INNER_PRODUCT",
    "METRIC_L2",
    "IDSelector",
    "IDSelectorAnd",
    "IDSelectorArray",
    "IDSelectorBatch",
    "IDSelectorNot",
    "IDSelectorOr",
    "IDSelectorRange",
    "IndexFlat",
    "IndexFlatIP",
    "IndexFlatL2",
    "IndexHNSWFlat",
    "SearchParameters",
    "SearchParametersHNSW",
    "normalize_L2",
    "read_index",
    "write_index",
]

METRIC_INNER_PRODUCT = 0
METRIC_L2 = 1

_METRICS = {METRIC_INNER_PRODUCT: "inner_product", METRIC_L2: "sqeuclidean"}
_FARTHEST = np.finfo(np.float32).max
_HEADER = struct.Struct("<4siqqqBi")  # kind, d, ntotal, twice 2**20, trained, metric
_BLOCK = 1 << 22  # answers of a range search that are held at a time

Floats = NDArray[np.float32]
Ids = NDArray[np.int64]


def _vectors(x: Any, d: int, what: str = "x") -> Floats:
    array = plain_array(as_array(x, what), what)
    if array.dtype.kind in NOT_NUMBERS + "O":
        raise TypeError(f"{what} is not an array of numbers; vectors [n, {d}] are needed")
    array = np.ascontiguousarray(array, dtype=np.float32)
    if array.ndim != 2 or array.shape[1] != d:
        raise InvalidArgument(f"{what} has the shape {array.shape}; vectors [n, {d}] are needed")
    return array


def _into(given: Any, found: NDArray[Any], what: str) -> NDArray[Any]:
    """The caller's array for an answer, filled."""
    if given is None:
        return found
    if not isinstance(given, np.ndarray) or given.shape != found.shape or given.dtype != found.dtype:
        raise InvalidArgument(f"{what}: an array of {found.dtype} of shape {found.shape} is needed")
    given[...] = found
    return given


class _Searched:
    """What both kinds of index have."""

    d: int  #: values a vector
    metric_type: int  #: METRIC_L2 or METRIC_INNER_PRODUCT
    is_trained = True
    ntotal: int  #: vectors in the index

    def _found(self, q: Floats, k: int, params: SearchParameters | None) -> tuple[Floats, Ids]:
        """Distances and ids as Kith gives them."""
        raise NotImplementedError

    def _rows_between(self, first: int, last: int) -> Floats:
        raise NotImplementedError

    def _nearest(self, q: Floats, k: int, params: SearchParameters | None) -> tuple[Floats, Ids]:
        if params is not None and not isinstance(params, SearchParameters):
            raise TypeError(f"params: a {type(params).__name__}; use SearchParameters of kith.compat.faiss")
        if self.ntotal == 0 or len(q) == 0:
            distances, ids = np.full((len(q), k), np.inf, np.float32), np.full((len(q), k), -1, np.int64)
        else:
            distances, ids = self._found(q, k, params)
        if self.metric_type == METRIC_INNER_PRODUCT:
            distances = -distances
        missing = ids < 0
        if missing.any():
            distances[missing] = -_FARTHEST if self.metric_type == METRIC_INNER_PRODUCT else _FARTHEST
        return distances, ids

    def search(
        self, x: Any, k: int, *, params: SearchParameters | None = None, D: Any = None, I: Any = None
    ) -> tuple[Floats, Ids]:
        """The k nearest of each row of ``x``: ``(D, I)``, float32 and int64 ``[n, k]``, written to the caller's arrays
        of these names where they are given.

        Args:
            x: queries ``[n, d]``, made float32.
            k: neighbours a query, at least 1; missing ones have id -1.
            params: which rows may be found, by their ``sel``.

        Raises:
            InvalidArgument: another shape, k below 1, arrays for the answer that do not fit.
        """
        q, count = _vectors(x, self.d), _integer(k, "k")
        if count < 1:
            raise InvalidArgument(f"k is {count}; use at least 1")
        distances, ids = self._nearest(q, count, params)
        return _into(D, distances, "D"), _into(I, ids, "I")

    def assign(self, x: Any, k: int = 1) -> Ids:
        """The ids alone, ``[n, k]``; ``[n]`` for k = 1."""
        ids = self.search(x, k)[1]
        return ids.ravel() if k == 1 else ids

    def reconstruct(self, key: int) -> Floats:
        """A copy of one vector, ``[d]``."""
        return self.reconstruct_n(key, 1).reshape(self.d)

    def reconstruct_n(self, n0: int = 0, ni: int = -1) -> Floats:
        """A copy of ``ni`` vectors from id ``n0`` on, ``[ni, d]``; -1: of all that follow.

        Raises:
            InvalidArgument: ids outside the index.
        """
        first, count = _integer(n0, "n0"), _integer(ni, "ni")
        last = self.ntotal if count == -1 else first + count
        if not 0 <= first <= last <= self.ntotal:
            raise InvalidArgument(f"vectors {first} to {last} were asked for; the index has {self.ntotal}")
        return self._rows_between(first, last)

    def reconstruct_batch(self, key: Any) -> Floats:
        """Copies of the vectors of some ids, ``[len(key), d]``."""
        return np.stack([self.reconstruct(int(each)) for each in key]) if len(key) else np.empty((0, self.d), "f4")

    def train(self, x: Any) -> None:
        """Nothing is learnt; the shape of ``x`` is checked."""
        _vectors(x, self.d)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(d={self.d}, ntotal={self.ntotal:,})"


class IndexFlat(_Searched):
    """Vectors as they are, searched exactly by :class:`kith.BruteForce`, which is built by the first search after a change.

    Args:
        d: values a vector.
        metric: ``METRIC_L2`` or ``METRIC_INNER_PRODUCT``.

    Raises:
        InvalidArgument: d below 1, another metric.
    """

    _store: Floats  # with room for more behind the first ntotal
    _index: Index | None

    def __init__(self, d: int, metric: int = METRIC_L2) -> None:
        self.d, self.metric_type = _integer(d, "d"), metric
        if self.d < 1:
            raise InvalidArgument(f"d is {self.d}; use at least 1")
        if metric not in _METRICS:
            raise InvalidArgument(f"metric {metric}; use METRIC_L2 (1) or METRIC_INNER_PRODUCT (0)")
        self.reset()

    def add(self, x: Any) -> None:
        """Copies the rows of ``x`` ``[n, d]`` to the end; their ids go on from ``ntotal``."""
        rows = _vectors(x, self.d)
        needed = self.ntotal + len(rows)
        if needed > len(self._store):
            grown = np.empty((needed if self.ntotal == 0 else max(needed, self.ntotal * 3 // 2), self.d), np.float32)
            grown[: self.ntotal] = self._store[: self.ntotal]
            self._store = grown
        # An index that searches at this moment does not look beyond its own rows.
        self._store[self.ntotal : needed] = rows
        self.ntotal, self._index = needed, None

    def reset(self) -> None:
        """Removes all vectors."""
        self._store = np.empty((0, self.d), np.float32)
        self._index = None
        self.ntotal = 0

    def remove_ids(self, x: Any) -> int:
        """Removes the ids of a selector or an array and returns how many these were; later ids move up."""
        selector = x if isinstance(x, IDSelector) else IDSelectorBatch(x)
        kept = self._store[: self.ntotal][~selector.flags(self.ntotal)]
        removed = self.ntotal - len(kept)
        self._store, self._index, self.ntotal = kept, None, len(kept)
        return removed

    def _rows_between(self, first: int, last: int) -> Floats:
        copy: Floats = self._store[first:last].copy()
        return copy

    def _found(self, q: Floats, k: int, params: SearchParameters | None) -> tuple[Floats, Ids]:
        index = self._index
        if index is None:
            index = self._index = BruteForce(self._store[: self.ntotal], metric=_METRICS[self.metric_type])
        allowed = None if params is None or params.sel is None else params.sel.flags(self.ntotal)
        answer = index.search(q, k, allowed=allowed)
        return answer.distances, answer.indices

    def range_search(
        self, x: Any, thresh: float, *, params: SearchParameters | None = None
    ) -> tuple[NDArray[np.uint64], Floats, Ids]:
        """All vectors nearer than ``thresh`` (squared; for inner products: those above it), ids ascending.

        Returns:
            ``(lims, D, I)``: of query i ``D[lims[i]:lims[i + 1]]``, with uint64 ``lims`` ``[n + 1]``.

        Raises:
            InvalidArgument: another shape.
        """
        q, limit = _vectors(x, self.d), np.float32(number(thresh, "thresh"))
        found: dict[int, tuple[Floats, Ids]] = {}
        waiting, k = np.arange(len(q)), min(64, self.ntotal)
        while len(waiting) and k:
            more = []
            for part in np.split(waiting, range(max(1, _BLOCK // k), len(waiting), max(1, _BLOCK // k))):
                distances, ids = self._nearest(q[part], k, params)
                near = distances > limit if self.metric_type == METRIC_INNER_PRODUCT else distances < limit
                near &= ids >= 0
                for place, query in enumerate(part.tolist()):
                    if near[place, -1] and k < self.ntotal:
                        more.append(query)
                        continue
                    order = np.argsort(ids[place][near[place]])
                    found[query] = distances[place][near[place]][order], ids[place][near[place]][order]
            waiting, k = np.array(more, np.int64), min(4 * k, self.ntotal)
        none = np.empty(0, np.float32), np.empty(0, np.int64)
        pairs = [found.get(query, none) for query in range(len(q))]
        lims = np.cumsum([0, *(len(ids) for _, ids in pairs)]).astype(np.uint64)
        sides = [np.concatenate(parts) for parts in zip(none, *pairs, strict=True)]
        return lims, sides[0], sides[1]

    def __getstate__(self) -> dict[str, Any]:
        return {"d": self.d, "metric_type": self.metric_type, "rows": self._store[: self.ntotal]}

    def __setstate__(self, state: dict[str, Any]) -> None:
        IndexFlat.__init__(self, state["d"], state["metric_type"])
        self.add(state["rows"])


class IndexFlatL2(IndexFlat):
    """:class:`IndexFlat` for squared L2 distances."""

    def __init__(self, d: int) -> None:
        super().__init__(d, METRIC_L2)


class IndexFlatIP(IndexFlat):
    """:class:`IndexFlat` for inner products."""

    def __init__(self, d: int) -> None:
        super().__init__(d, METRIC_INNER_PRODUCT)


class HNSW:
    """What of ``index.hnsw`` a search goes by."""

    def __init__(self, efSearch: int) -> None:
        self.efSearch = efSearch  #: length of the list that the walk keeps


class IndexHNSWFlat(_Searched):
    """faiss's HNSW graph, read by :func:`read_index` and walked by :class:`kith.Vamana`, the attribute ``graph``.

    ``index.hnsw.efSearch`` is the length of the list, as in faiss; ``graph.search(x, k, recall=...)`` sets it by a recall.
    """

    graph: Vamana  #: what searches
    hnsw: HNSW
    _file: NDArray[np.uint8]

    def __init__(self, *_: Any) -> None:
        raise TypeError("IndexHNSWFlat is read from a file of faiss, by read_index; to build a graph, use kith.Vamana")

    @classmethod
    def _open(cls, path: str) -> IndexHNSWFlat:
        self = cls.__new__(cls)
        self.graph = import_graph(path, format="faiss").index
        self._file = np.memmap(path, np.uint8, mode="r")
        self.d, self.ntotal = self.graph.dim, self.graph.rows
        self.metric_type = METRIC_INNER_PRODUCT if self.graph.metric == "inner_product" else METRIC_L2
        self.hnsw = HNSW(self._search_list())
        return self

    def _search_list(self) -> int:
        """efSearch, which stands after the arrays of the graph."""
        at = _HEADER.size
        for element in (8, 4, 4, 8, 4):
            at += 8 + element * int(self._file[at : at + 8].view("<u8")[0])
        return max(1, int(self._file[at + 12 : at + 16].view("<i4")[0]))

    def _rows_between(self, first: int, last: int) -> Floats:
        begin = len(self._file) - 4 * self.d * (self.ntotal - first)  # the rows end the file
        bytes_ = self._file[begin : begin + 4 * self.d * (last - first)].tobytes()
        return np.frombuffer(bytes_, "<f4").astype(np.float32).reshape(-1, self.d)

    def _found(self, q: Floats, k: int, params: SearchParameters | None) -> tuple[Floats, Ids]:
        own = params.efSearch if isinstance(params, SearchParametersHNSW) else None
        size = max(_integer(self.hnsw.efSearch if own is None else own, "efSearch"), min(k, self.ntotal))
        allowed = None if params is None or params.sel is None else params.sel.flags(self.ntotal)
        answer = self.graph.search(q, k, list_size=size, allowed=allowed)
        return answer.distances, answer.indices


def normalize_L2(x: Floats) -> None:
    """Divides each row of a float32 array by its norm, in place; rows of zeros stay.

    Raises:
        InvalidArgument: an array of another type or shape.
    """
    if not isinstance(x, np.ndarray) or x.ndim != 2 or x.dtype != np.float32:
        raise InvalidArgument("x: an array [n, d] of float32 is needed, since it is changed in place")
    norms = np.sqrt((x.astype(np.float64) ** 2).sum(axis=1, keepdims=True))
    np.divide(x, norms, out=x, where=norms > 0, casting="same_kind")


def read_index(path: str | os.PathLike[str]) -> IndexFlat | IndexHNSWFlat:
    """An index that faiss, or :func:`write_index`, has written: IndexFlat (L2 and IP) or IndexHNSWFlat.

    Raises:
        IoError: the file is missing, truncated, corrupt or foreign.
        InvalidArgument: a faiss index of another type or metric.
    """
    name = os.fspath(path)
    try:
        with open(name, "rb") as file:
            start = file.read(_HEADER.size + 8)
            if len(start) < _HEADER.size + 8:
                raise IoError(f"'{name}' is no index of faiss, or truncated: it has {len(start)} bytes")
            if start[:4] == b"IHNf":
                return IndexHNSWFlat._open(name)
            if start[:4] not in (b"IxF2", b"IxFI", b"IxFl"):
                if start[:2] in (b"Ix", b"IH", b"Iw", b"IB"):
                    kind = start[:4].decode("latin1")
                    raise InvalidArgument(
                        f"'{name}' is a faiss index of type {kind!r}; IndexFlat and IndexHNSWFlat are read"
                    )
                raise IoError(f"'{name}' is no index of faiss")
            _, d, ntotal, _, _, _, metric = _HEADER.unpack(start[: _HEADER.size])
            (values,) = struct.unpack("<Q", start[_HEADER.size :])
            there = (os.fstat(file.fileno()).st_size - len(start)) // 4
            if d < 1 or ntotal < 0 or values != d * ntotal or values > there:
                raise IoError(
                    f"'{name}' is truncated or corrupt: {ntotal} x {d} vectors, {values} values, {there} there"
                )
            if metric not in _METRICS:
                raise InvalidArgument(f"'{name}' has faiss's metric {metric}; 0 (inner product) and 1 (L2) are read")
            index = IndexFlatIP(d) if metric == METRIC_INNER_PRODUCT else IndexFlatL2(d)
            index._store = np.fromfile(file, "<f4", values).astype(np.float32, copy=False).reshape(ntotal, d)
            index.ntotal = ntotal
            return index
    except IoError:
        raise
    except OSError as error:
        raise IoError(f"cannot read '{name}': {error.strerror or error}") from None


def write_index(index: IndexFlat | IndexHNSWFlat, path: str | os.PathLike[str]) -> None:
    """Writes a file that faiss reads, whole or not at all.

    Raises:
        IoError: the file cannot be written.
        TypeError: another kind of index.
    """
    name = os.fspath(path)
    if isinstance(index, IndexHNSWFlat):
        export_graph(index.graph, name, "faiss")
        return
    if not isinstance(index, IndexFlat):
        raise TypeError(
            f"index: a {type(index).__name__}; IndexFlat and IndexHNSWFlat of kith.compat.faiss are written"
        )
    kind = b"IxFI" if index.metric_type == METRIC_INNER_PRODUCT else b"IxF2"
    rows = index._store[: index.ntotal]
    try:
        with whole_file(name) as temporary, open(temporary, "wb") as file:
            file.write(_HEADER.pack(kind, index.d, index.ntotal, 1 << 20, 1 << 20, 1, index.metric_type))
            file.write(struct.pack("<Q", rows.size))
            file.write(rows.astype("<f4", copy=False).data)
    except OSError as error:
        raise IoError(f"cannot write '{name}': {error.strerror or error}") from None
