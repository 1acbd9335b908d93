"""The neighbours of every row among the rows themselves: as arrays, and as a sparse matrix that others take."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._arrays import to_rows
from ._errors import InvalidArgument, OutOfMemory
from ._gpu import default_device
from ._index import Index, _integer, choose_index, flag, knn, name_of, number
from ._neighbors import Neighbors
from ._pieces import pieces
from ._point_tree import PointTree
from ._progress import Progress
from ._tables import as_array
from ._trees import KdTree, Octree
from ._vamana import Vamana

__all__ = ["all_knn", "arranged", "knn_graph", "search_others", "without_self"]

_MODES = "'distance' or 'connectivity'"
_TREES = {"kd_tree": KdTree, "octree": Octree}


def all_knn(
    X: Any,
    k: int = 10,
    include_self: bool = False,
    metric: str | None = None,
    index: str | Index = "auto",
    recall: float | None = None,
    threads: int = 0,
    memory_limit: int = 0,
    progress: Progress = False,
    device: str | None = None,
    device_memory_limit: int = 0,
) -> Neighbors:
    """The k nearest other rows of every row of ``X``: exactly, or with ``recall`` approximately.

    ``(answer.indices, answer.distances)`` is what UMAP calls ``precomputed_knn``, with ``include_self=True``.

    Args:
        X: dataset ``[n, d]``; see :func:`kith.knn`.
        k: neighbours a row, at least 1. More than there are pads with index -1 and distance inf.
        include_self: whether a row counts among its k neighbours. It is then the first of them, at distance 0, before
            rows equal to it; under ``"inner_product"`` it is where its product puts it.
        metric: as for :func:`kith.knn`; None: ``"euclidean"``, or the metric of an index that is given.
        index: ``"auto"``, ``"brute_force"``, ``"kd_tree"`` or ``"octree"``, which give the same bits, or ``"vamana"``,
            which is approximate; or an index that was built over ``X`` before.
        recall: share of the neighbours to find, above 0 and at most 1, by a graph where that is quicker; see :meth:`Vamana.search`. None:
            all of them, but 0.95 by a graph.
        threads, memory_limit, progress, device, device_memory_limit: as for :func:`kith.knn`. What builds an index and
            then searches reports two times.

    Returns:
        :class:`Neighbors` of NumPy arrays, both ``[n, k]``, wherever ``X`` lies; index -1 and distance inf for rows with
        a NaN.

    Raises:
        InvalidArgument: k below 1, an unknown metric or index, a recall outside its limits or for an exact index, an
            index of other rows or of another metric.
        TypeError, OutOfMemory, DeviceError, KeyboardInterrupt: as for :func:`kith.knn`.
    """
    X = as_array(X, "dataset")  # once: it may copy
    count, rows = _integer(k, "k"), to_rows(X, "dataset")
    include_self = flag(include_self, "include_self")
    if count < 1:
        raise InvalidArgument(f"k is {count}; use at least 1")
    if recall is not None and not 0 < (recall := number(recall, "recall")) <= 1:
        raise InvalidArgument(f"recall of {recall}: use above 0, to 1 for the exact answer")
    place = default_device(rows) if device is None else device
    how: dict[str, Any] = {"threads": threads, "progress": progress, "device": place}
    limits: dict[str, Any] = {"memory_limit": memory_limit, "device_memory_limit": device_memory_limit}
    searched: Index
    if isinstance(index, Index):
        _check_index(index, metric, recall, rows.rows, rows.dim)
        metric, searched = index.metric, index
        if device is None:
            how["device"] = None
    else:
        metric = "euclidean" if metric is None else metric
        kind = _kind(index, recall, rows.rows, rows.dim, count, metric, place)
        if kind == "brute_force":
            answer = knn(X, X, count + (not include_self), metric, index=kind, **how, **limits)
            return arranged(answer.numpy(), include_self, metric)
        if kind == "vamana":
            searched = Vamana(X, metric, threads=threads, progress=progress, device=place, memory_limit=memory_limit)
        else:
            searched = _TREES[kind](X, metric, **how, **limits)
        limits["memory_limit"] = _left(memory_limit, searched.memory_bytes, f"the index over {rows.rows:,} rows")
    if isinstance(searched, PointTree):
        answer = searched.all_knn(count, include_self, **how, **limits).numpy()
        return _self_first(answer) if include_self else answer
    wanted = count + (not include_self)
    if isinstance(searched, Vamana):
        answer = search_others(searched, X, wanted, 0.95 if recall is None else recall, **how, **limits)
    else:
        answer = searched.search(X, wanted, **how, **limits)
    return arranged(answer.numpy(), include_self, metric)


def knn_graph(
    X: Any,
    k: int = 10,
    mode: str = "distance",
    include_self: bool = False,
    metric: str | None = None,
    index: str | Index = "auto",
    recall: float | None = None,
    threads: int = 0,
    memory_limit: int = 0,
    progress: Progress = False,
    device: str | None = None,
    device_memory_limit: int = 0,
) -> Any:
    """The graph of the k nearest other rows of every row of ``X``, as a sparse matrix.

    Needs SciPy. For what takes ``metric="precomputed"``: scikit-learn, HDBSCAN, scanpy and others.

    Args:
        mode: ``"distance"`` for the distances, zeros stored as well, ``"connectivity"`` for ones.
        X, k, include_self, metric, index, recall: as for :func:`all_knn`.
        threads, memory_limit, progress, device, device_memory_limit: as for :func:`all_knn`.

    Returns:
        ``scipy.sparse.csr_matrix`` ``[n, n]``, the columns of each row ascending; indices are int32 where they fit, else
        int64, values float64 for float64 data, else float32. k entries a row, fewer where fewer were found.

    Raises:
        InvalidArgument: another mode; and as for :func:`all_knn`.
        ImportError: SciPy is not there.
        TypeError, OutOfMemory, DeviceError, KeyboardInterrupt: as for :func:`kith.knn`.
    """
    try:
        from scipy.sparse import csr_matrix
    except ImportError as error:  # pragma: no cover
        raise ImportError("kith.knn_graph needs SciPy; run: pip install scipy") from error
    if name_of(mode, "mode", _MODES) not in ("distance", "connectivity"):
        raise InvalidArgument(f"mode {mode!r} is not known; use {_MODES}")
    X = as_array(X, "dataset")
    rows = to_rows(X, "dataset").rows
    count = min(_integer(k, "k"), max(rows, 1))
    width = np.int32 if rows * max(count, 1) < 2**31 else np.int64
    columns_bytes = (rows * max(count, 0) + rows + 1) * np.dtype(width).itemsize
    answer = all_knn(
        X, count, include_self, metric, index, recall, threads, _left(memory_limit, columns_bytes, "the columns"),
        progress, device, device_memory_limit,
    )  # fmt: skip
    starts, columns, values = _compressed(answer.distances, answer.indices, width)
    if mode == "connectivity":
        values.fill(1)
    graph = csr_matrix((values, columns, starts), shape=(rows, rows), copy=False)
    graph.has_sorted_indices = graph.has_canonical_format = True  # nobody need look
    return graph


def _kind(index: Any, recall: float | None, rows: int, dim: int, k: int, metric: str, device: str) -> str:
    """The type of index that answers, by name."""
    kind = name_of(index, "index", "'auto', the name of an index type, or an index")
    if recall not in (None, 1) and kind not in ("auto", "vamana"):
        raise InvalidArgument(
            f"recall belongs to a graph; leave it out for index {kind!r}, which is exact, or use 'vamana'"
        )
    if kind in ("brute_force", "vamana", *_TREES):
        return kind
    if kind != "auto":
        raise InvalidArgument(
            f"index {kind!r} is not known; use 'auto', 'brute_force', {', '.join(map(repr, _TREES))} or 'vamana'"
        )
    return choose_index(rows, dim, rows, k, metric, device, 1 if recall is None else recall).index


def _check_index(index: Index, metric: str | None, recall: float | None, rows: int, dim: int) -> None:
    if (index.rows, index.dim) != (rows, dim):
        raise InvalidArgument(f"the index holds {index.rows:,} x {index.dim} rows, X {rows:,} x {dim}; build it over X")
    if metric is not None and metric != index.metric:
        raise InvalidArgument(f"metric {metric!r} is not that of the index, {index.metric!r}; leave it out")
    if recall not in (None, 1) and not isinstance(index, Vamana):
        raise InvalidArgument(f"recall belongs to a graph; leave it out for an index of type {index.type!r}")


def _left(limit: int, taken: int, what: str) -> int:
    """What is left of a limit on memory, 0 for none, when so many bytes are taken."""
    if not limit:
        return 0
    if limit <= taken:
        raise OutOfMemory(
            f"{what} alone take {taken:,} bytes, memory_limit is {limit:,}; raise it, or ask for fewer neighbours"
        )
    return limit - taken


def search_others(graph: Vamana, X: Any, k: int, recall: float, **how: Any) -> Neighbors:
    """The k nearest of the rows of the graph to each of them, itself among them, to a recall of the others.

    What was measured when the graph was built is just this: rows as queries, none its own neighbour. So the list for
    k - 1 and a place for the row itself will do; a search for any k would take the one for k.
    """
    measured = min((point.k for point in graph.recall_curve if point.k >= max(k - 1, 1)), default=0)
    enough = [p for p in graph.recall_curve if p.k == measured and p.lower >= recall]
    if not 0 < recall < 1 or not enough:
        return graph.search(X, k, recall=recall, **how)
    answer = graph.search(X, k, list_size=max(enough[0].list_size + 1, k), **how)
    if not answer.statistics.certified:
        answer.statistics = replace(answer.statistics, recall=enough[0].lower)
    return answer


def arranged(answer: Neighbors, include_self: bool, metric: str, rows: NDArray[np.int64] | None = None) -> Neighbors:
    """Of a search for the rows themselves, or for those that are named: each first, or not at all."""
    if include_self:
        return answer if metric == "inner_product" else _self_first(answer, rows)
    distances, indices = without_self(answer.distances, answer.indices, rows)
    return Neighbors(distances, indices, answer.statistics)


def without_self(
    distances: NDArray[Any], indices: NDArray[np.int64], rows: NDArray[np.int64] | None = None
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Drops from k + 1 neighbours of every row itself; where ties kept it out, the last. In the memory of the arguments.

    Args:
        rows: that the neighbours are of; None: all of them.
    """
    queries, wide = indices.shape
    near, others = distances.reshape(-1), indices.reshape(-1)
    for part in pieces(queries, wide):
        own = np.arange(part.start, part.stop) if rows is None else rows[part]
        mask = indices[part] != own[:, np.newaxis]
        mask[mask.all(axis=1), -1] = False
        to = slice(part.start * (wide - 1), part.stop * (wide - 1))  # never behind what is still to be read
        near[to], others[to] = distances[part][mask], indices[part][mask]
    kept = queries * (wide - 1)
    return near[:kept].reshape(queries, wide - 1), others[:kept].reshape(queries, wide - 1)


def _self_first(answer: Neighbors, rows: NDArray[np.int64] | None = None) -> Neighbors:
    """Every row in front of its own neighbours, which keep their order; the last goes where it was not among them."""
    distances, indices = answer.distances, answer.indices
    for part in pieces(*indices.shape):
        near, found = distances[part], indices[part]
        own = np.arange(part.start, part.stop) if rows is None else rows[part]
        known = found[:, 0] >= 0  # rows with a NaN have no neighbours
        near[known, 0] = np.where(found[known, 0] == own[known], 0, near[known, 0])
        late = np.flatnonzero(known & (found[:, 0] != own))
        if not len(late):
            continue
        at = found[late] == own[late, np.newaxis]
        last = np.where(at.any(axis=1), at.argmax(axis=1), found.shape[1] - 1)
        # Up to where the row itself was, everything moves back by one.
        order = np.arange(found.shape[1])[np.newaxis] - (np.arange(found.shape[1]) <= last[:, np.newaxis])
        order[:, 0] = 0
        near[late] = np.take_along_axis(near[late], order, axis=1)
        found[late] = np.take_along_axis(found[late], order, axis=1)
        near[late, 0], found[late, 0] = 0, own[late]
    return answer


def _compressed(
    distances: NDArray[Any], indices: NDArray[np.int64], width: Any
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """(starts, columns, values) of a CSR matrix: columns ascend, padding is left out. Values in distances' memory."""
    rows, k = indices.shape
    starts = np.zeros(rows + 1, width)
    columns, values = np.empty(rows * k, width), distances.reshape(-1)
    end = 0
    for part in pieces(rows, k):
        order = np.argsort(indices[part], axis=1)
        found = np.take_along_axis(indices[part], order, axis=1)
        near = np.take_along_axis(distances[part], order, axis=1)
        kept = found >= 0
        starts[part.start + 1 : part.stop + 1] = end + np.cumsum(kept.sum(axis=1))
        begin, end = end, int(starts[part.stop])
        columns[begin:end], values[begin:end] = found[kept], near[kept]
    return starts, columns[:end], values[:end]
