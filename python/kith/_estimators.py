"""What the estimators of kith.sklearn share: checks, fit, searches for the k nearest and within a radius."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from scipy.sparse import csr_matrix
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from ._arrays import common_dtype
from ._errors import InvalidArgument
from ._index import BruteForce, Index, choose_index, knn, number
from ._knn_graph import search_others, without_self
from ._neighbors import Neighbors
from ._pieces import keep
from ._point_tree import PointTree
from ._tree_queries import ragged
from ._trees import KdTree, Octree
from ._vamana import Vamana

# scikit-learn's names of metrics; there "l2" always is the rooted one.
_METRICS = {
    "euclidean": "euclidean",
    "l2": "euclidean",
    "sqeuclidean": "sqeuclidean",
    "manhattan": "manhattan",
    "l1": "manhattan",
    "cityblock": "manhattan",
    "cosine": "cosine",
    "inner_product": "inner_product",
}
ALGORITHMS = {
    "auto": "auto",
    "brute": "brute_force",
    "brute_force": "brute_force",
    "kd_tree": "kd_tree",
    "octree": "octree",
    "vamana": "vamana",
}
# Parameters that only a graph has: of its build, and of a search.
_BUILD = ("max_degree", "build_list_size", "alpha", "seed", "code_bits", "code_dim")
_SEARCH = ("recall", "list_size")
_TREES = {"kd_tree": KdTree, "octree": Octree}
RADIUS_ALGORITHMS = "'auto', 'brute', 'kd_tree' or 'octree'"
_TREE_METRICS = ("euclidean", "sqeuclidean", "manhattan")
# Element types searched as they are; everything else becomes float64.
_DTYPES = [np.float64, np.float32, np.float16, np.uint8, np.int8]


class NeighborsBase(BaseEstimator):  # type: ignore[misc]
    """What all estimators share: checks, fit, the index."""

    algorithm: str
    metric: str
    p: float
    filter: str
    n_jobs: int | None

    def fit(self, X: Any, y: Any = None) -> Any:
        """Keeps the training vectors and builds the index over them.

        Args:
            X: array-like ``[n, d]``. float64, float32, float16, uint8 and int8 are searched as they are (the
                distances of all but float64 come as float32), other numbers become float64.
            y: ignored, present for pipelines.

        Returns:
            self.

        Raises:
            ValueError: an unknown metric, algorithm or filter, n_neighbors below 1, radius below 0, NaN or inf in
                X, a tree or a graph for a metric that has none, a filter for either, a parameter of the graph for
                another algorithm.
        """
        metric = self._kith_metric()
        if self.algorithm not in ALGORITHMS:
            raise InvalidArgument(
                f"algorithm {self.algorithm!r} is not one of Kith's; use one of {', '.join(ALGORITHMS)}"
            )
        self._check_parameters()
        self._check_graph()
        self._threads()
        X = validate_data(self, X, dtype=_DTYPES)
        self._fit_X = X
        self.n_samples_fit_ = X.shape[0]
        self.effective_metric_ = metric
        self._index = self._build()
        self.effective_algorithm_ = self._index.type
        return self

    @property
    def index_(self) -> Index:
        """The index of Kith's over the training vectors, for what it knows beyond this interface."""
        check_is_fitted(self)
        return self._index

    def _check_parameters(self) -> None:
        """Refuses parameters of the estimator's own."""

    def _build(self) -> Index:
        """The index over the training vectors."""
        X, metric, threads = self._fit_X, self.effective_metric_, self._threads()
        kind = ALGORITHMS[self.algorithm]
        if kind == "auto":
            kind = self._choose() if self.filter == "auto" else "brute_force"
        if kind == "brute_force":
            return BruteForce(X, metric=metric, filter=self.filter, threads=threads)
        if self.filter != "auto":
            raise InvalidArgument(
                f"the filter {self.filter!r} belongs to brute force; leave it at 'auto' for algorithm "
                f"{self.algorithm!r}"
            )
        if kind == "vamana":
            return Vamana(X, metric=metric, threads=threads, **self._graph(_BUILD))
        return _TREES[kind](X, metric=metric, threads=threads)

    def _check_graph(self) -> None:
        """Refuses parameters of a graph that nothing would take, before one is built."""
        given = self._graph(_BUILD + _SEARCH)
        if given and ALGORITHMS[self.algorithm] != "vamana":
            raise InvalidArgument(
                f"algorithm {self.algorithm!r} has no {', '.join(given)}; leave that at None, or use algorithm 'vamana'"
            )
        if "recall" in given and "list_size" in given:
            raise InvalidArgument("recall and list_size both say how far to search; give one of them")
        if not 0 < given.get("recall", 1) <= 1:
            raise InvalidArgument(f"recall is {given['recall']}; use a number above 0 and at most 1")

    def _graph(self, names: tuple[str, ...]) -> dict[str, Any]:
        """Those of the graph's parameters that were given."""
        values = {name: getattr(self, name, None) for name in names}
        return {name: value for name, value in values.items() if value is not None}

    def _choose(self) -> str:
        """The index for algorithm "auto": an estimator is fitted for many queries."""
        rows, dim = self._fit_X.shape
        k: int = getattr(self, "n_neighbors", 1)
        return choose_index(rows, dim, 0, k, self.effective_metric_).index

    def _queries(self, X: Any) -> tuple[Any, bool]:
        """The checked queries, and whether the index can take them unrounded."""
        own = self._index.dtype if self._index.type == "vamana" and not hasattr(X, "dtype") else _DTYPES
        X = validate_data(self, X, dtype=own, reset=False)
        return X, common_dtype(X.dtype.name, self._index.dtype) == self._index.dtype

    def _kith_metric(self) -> str:
        metric = self.metric
        if metric == "minkowski":
            if self.p not in (1, 2):
                raise InvalidArgument(f"p is {self.p!r}; Kith has the Minkowski metrics with p = 1 and p = 2")
            return "manhattan" if self.p == 1 else "euclidean"
        if metric not in _METRICS:
            raise InvalidArgument(
                f"metric {metric!r} is not one of Kith's; use one of minkowski, {', '.join(_METRICS)}"
            )
        return _METRICS[metric]

    def _threads(self) -> int:
        if self.n_jobs is None or self.n_jobs == -1:
            return 0
        return int(effective_n_jobs(self.n_jobs))

    def __getstate__(self) -> dict[str, Any]:
        # An index can be built again from the vectors: no need to write them twice. But a graph takes long to build.
        state = dict(super().__getstate__())
        if not isinstance(state.get("_index"), Vamana):
            state.pop("_index", None)
        state.pop("_radius_tree", None)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if hasattr(self, "_fit_X") and not hasattr(self, "_index"):
            self._index = self._build()


class KNeighborsMixin:
    """Searches for the k nearest."""

    n_neighbors: int
    n_samples_fit_: int

    def kneighbors(self: Any, X: Any = None, n_neighbors: int | None = None, return_distance: bool = True) -> Any:
        """The nearest training vectors of each row of ``X``; most of them, where a graph answers.

        Args:
            X: array-like ``[q, d]``; None for the training vectors themselves, each then not counted among its
                own neighbours.
            n_neighbors: how many; None for the estimator's.
            return_distance: False for the indices alone.

        Returns:
            ``(distances, indices)``, both ``[q, n_neighbors]``, nearest first, or ``indices`` (int64).

        Raises:
            ValueError: n_neighbors below 1 or above the number of training vectors (less one without X); a list_size
                below it.
            TypeError: queries that a graph would have to round.
            sklearn.exceptions.NotFittedError: fit was not called.
        """
        check_is_fitted(self)
        k = self.n_neighbors if n_neighbors is None else n_neighbors
        self._check_n_neighbors(k)
        available = self.n_samples_fit_ - (X is None)
        if k > available:
            raise InvalidArgument(
                f"n_neighbors is {k}, the number of training vectors {self.n_samples_fit_}"
                f"{' and none is its own neighbour' if X is None else ''}; use at most {available}"
            )
        if X is None:
            distances, indices = self._others(k)
        else:
            distances, indices = self._search(X, k)
        return (distances, indices) if return_distance else indices

    def kneighbors_graph(self: Any, X: Any = None, n_neighbors: int | None = None, mode: str = "connectivity") -> Any:
        """The same as a sparse matrix.

        Args:
            X, n_neighbors: as for :meth:`kneighbors`.
            mode: ``"connectivity"`` for ones, ``"distance"`` for the distances.

        Returns:
            scipy CSR matrix ``[q, n_samples_fit_]`` with n_neighbors entries a row, nearest first.

        Raises:
            ValueError: another mode, or as for :meth:`kneighbors`.
        """
        check_mode(mode)
        distances, indices = self.kneighbors(X, n_neighbors)
        queries, k = indices.shape
        values = distances if mode == "distance" else np.ones((queries, k))
        starts = np.arange(0, queries * k + 1, k, dtype=np.int64)
        return csr_matrix((values.ravel(), indices.ravel(), starts), shape=(queries, self.n_samples_fit_))

    def _search(self: Any, X: Any, k: int) -> Neighbors:
        X, fits = self._queries(X)
        if fits or isinstance(self._index, Vamana):  # the graph says itself that it would have to round
            answer: Neighbors = self._index.search(X, k, threads=self._threads(), **self._graph(_SEARCH))
            return answer
        # float64 queries to float32 vectors: rounding the queries would not be exact, so widen the vectors.
        return knn(
            self._fit_X,
            X,
            k,
            metric=self.effective_metric_,
            filter=self.filter,
            index=self._index.type,
            threads=self._threads(),
        )

    def _others(self: Any, k: int) -> tuple[Any, Any]:
        """The k nearest others of every training vector."""
        if isinstance(self._index, PointTree):
            distances, indices = self._index.all_knn(k, threads=self._threads())
            return distances, indices
        if isinstance(self._index, Vamana) and self.list_size is None:
            recall = 0.95 if self.recall is None else self.recall
            return without_self(*search_others(self._index, self._fit_X, k + 1, recall, threads=self._threads()))
        return without_self(*self._index.search(self._fit_X, k + 1, threads=self._threads(), **self._graph(_SEARCH)))

    @staticmethod
    def _check_n_neighbors(value: Any) -> None:
        if not isinstance(value, numbers.Integral):
            raise TypeError(f"n_neighbors is {value!r}; use an integer of at least 1")
        if value < 1:
            raise InvalidArgument(f"n_neighbors is {value}; use at least 1")


class RadiusMixin:
    """Searches for all within a radius. They need a tree: where the index is brute force one is built for them; a graph
    cannot tell whether it has found all, and refuses."""

    radius: float
    n_samples_fit_: int
    _radius_tree: PointTree | None

    def radius_neighbors(
        self: Any, X: Any = None, radius: float | None = None, return_distance: bool = True, sort_results: bool = False
    ) -> Any:
        """The training vectors within a radius (inclusive) of each row of ``X``.

        Args:
            X: array-like ``[q, d]``; None for the training vectors themselves, each then not counted among its
                own neighbours.
            radius: in units of the metric; None for the estimator's.
            return_distance: False for the indices alone.
            sort_results: nearest first, ties to the lower row; needs return_distance.

        Returns:
            ``(distances, indices)``: arrays ``[q]`` of arrays, or ``indices``.

        Raises:
            ValueError: a radius below 0, sort_results without return_distance, metrics that no tree supports (cosine,
                inner product), a graph.
            sklearn.exceptions.NotFittedError: fit was not called.
        """
        check_is_fitted(self)
        if sort_results and not return_distance:
            raise InvalidArgument("return_distance must be True if sort_results is True")
        offsets, indices, distances = self._within(X, radius, sort_results)
        shape = (len(offsets) - 1,)
        found = ragged(indices, offsets, shape)
        return (ragged(distances, offsets, shape), found) if return_distance else found

    def radius_neighbors_graph(
        self: Any, X: Any = None, radius: float | None = None, mode: str = "connectivity", sort_results: bool = False
    ) -> Any:
        """The same as a sparse matrix.

        Args:
            X, radius: as for :meth:`radius_neighbors`.
            mode: ``"connectivity"`` for ones, ``"distance"`` for the distances.
            sort_results: each row of the matrix nearest first.

        Returns:
            scipy CSR matrix ``[q, n_samples_fit_]``.

        Raises:
            ValueError: another mode, or as for :meth:`radius_neighbors`.
        """
        check_is_fitted(self)
        check_mode(mode)
        offsets, indices, distances = self._within(X, radius, sort_results)
        values = distances if mode == "distance" else np.ones(len(indices))
        return csr_matrix((values, indices, offsets), shape=(len(offsets) - 1, self.n_samples_fit_))

    def _within(self: Any, X: Any, radius: float | None, sort: bool) -> tuple[Any, Any, Any]:
        """(offsets, indices, distances)"""
        limit = self.radius if radius is None else radius
        self._check_radius(limit)
        if isinstance(self._index, Vamana):
            raise InvalidArgument(f"algorithm 'vamana' has no search by radius; use {RADIUS_ALGORITHMS}")
        if self.effective_metric_ not in _TREE_METRICS:
            raise InvalidArgument(
                f"a search by radius needs one of the metrics {', '.join(_TREE_METRICS)}, not {self.effective_metric_}"
            )
        if X is None:
            queries, fits = self._fit_X, True
        else:
            queries, fits = self._queries(X)
        if fits:
            tree = self._tree()
        else:  # as in a search for the k nearest: the vectors are widened
            wide = common_dtype(self._fit_X.dtype.name, queries.dtype.name)
            tree = KdTree(self._fit_X.astype(wide), self.effective_metric_, threads=self._threads())
            queries = queries.astype(wide, copy=False)
        found = tree.radius_search(queries, limit, sorted=sort, threads=self._threads())
        if X is not None:
            return found.offsets, found.indices, found.distances
        starts = found.offsets

        def others(rows: slice, part: slice) -> Any:
            counts = np.diff(starts[rows.start : rows.stop + 1])
            return found.indices[part] != np.repeat(np.arange(rows.start, rows.stop), counts)

        return keep(starts, found.indices, found.distances, others)

    def _tree(self: Any) -> PointTree:
        if isinstance(self._index, PointTree):
            return self._index
        tree: PointTree | None = getattr(self, "_radius_tree", None)
        if tree is None:
            tree = self._radius_tree = KdTree(self._fit_X, self.effective_metric_, threads=self._threads())
        return tree

    @staticmethod
    def _check_radius(value: Any) -> None:
        if not isinstance(value, numbers.Real) or isinstance(value, bool):
            raise TypeError(f"radius is {value!r}; use a number of 0 or more")
        if not number(value, "radius") >= 0:
            raise InvalidArgument(f"radius is {value}; use 0 or more")


def check_mode(mode: Any) -> None:
    if mode not in ("connectivity", "distance"):
        raise InvalidArgument(f"mode {mode!r} is not known; use 'connectivity' or 'distance'")
