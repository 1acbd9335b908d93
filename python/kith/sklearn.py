"""Kith behind scikit-learn's interface: :class:`NearestNeighbors` and :class:`KNeighborsTransformer`.

Needs scikit-learn 1.6 or newer and SciPy: ``pip install 'kith[sklearn]'``. They take the place of the classes
of the same names in ``sklearn.neighbors`` and answer exactly: float64 evaluation, ties to the lower row.

>>> import numpy as np
>>> from kith.sklearn import NearestNeighbors
>>> X = np.array([[0.0], [1.0], [3.0]])
>>> NearestNeighbors(n_neighbors=1).fit(X).kneighbors(return_distance=False).tolist()
[[1], [0], [1]]
"""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np

try:
    from joblib import effective_n_jobs
    from scipy.sparse import csr_matrix
    from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError as error:  # pragma: no cover
    raise ImportError(
        "kith.sklearn needs scikit-learn 1.6 or newer and SciPy; run: pip install 'kith[sklearn]'"
    ) from error

from ._arrays import common_dtype
from ._errors import InvalidArgument
from ._index import BruteForce, knn
from ._neighbors import Neighbors

__all__ = ["KNeighborsTransformer", "NearestNeighbors"]

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
_ALGORITHMS = ("auto", "brute", "brute_force")
# Element types searched as they are; everything else becomes float64.
_DTYPES = [np.float64, np.float32, np.float16, np.uint8, np.int8]


class _KNeighborsBase(BaseEstimator):  # type: ignore[misc]
    """What both estimators share: the parameters, fit and the searches."""

    def __init__(
        self,
        n_neighbors: int = 5,
        *,
        algorithm: str = "auto",
        metric: str = "minkowski",
        p: float = 2,
        filter: str = "auto",
        n_jobs: int | None = None,
    ) -> None:
        self.n_neighbors = n_neighbors
        self.algorithm = algorithm
        self.metric = metric
        self.p = p
        self.filter = filter
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any = None) -> Any:
        """Keeps the training vectors and builds the index over them.

        Args:
            X: array-like ``[n, d]``. float64, float32, float16, uint8 and int8 are searched as they are (the
                distances of all but float64 come as float32), other numbers become float64.
            y: ignored, present for pipelines.

        Returns:
            self.

        Raises:
            ValueError: an unknown metric, algorithm or filter, n_neighbors below 1, NaN or inf in X.
        """
        metric = self._kith_metric()
        if self.algorithm not in _ALGORITHMS:
            raise InvalidArgument(
                f"algorithm {self.algorithm!r} is not one of Kith's; use one of {', '.join(_ALGORITHMS)}"
            )
        self._check_n_neighbors(self.n_neighbors)
        threads = self._threads()
        X = validate_data(self, X, dtype=_DTYPES)
        self._fit_X = X
        self._index = BruteForce(X, metric=metric, filter=self.filter, threads=threads)
        self.n_samples_fit_ = X.shape[0]
        self.effective_metric_ = metric
        return self

    def kneighbors(self, X: Any = None, n_neighbors: int | None = None, return_distance: bool = True) -> Any:
        """The nearest training vectors of each row of ``X``.

        Args:
            X: array-like ``[q, d]``; None for the training vectors themselves, each then not counted among its
                own neighbours.
            n_neighbors: how many; None for the estimator's.
            return_distance: False for the indices alone.

        Returns:
            ``(distances, indices)``, both ``[q, n_neighbors]``, nearest first, or ``indices`` (int64).

        Raises:
            ValueError: n_neighbors below 1 or above the number of training vectors (less one without X).
            sklearn.exceptions.NotFittedError: fit was not called.
        """
        check_is_fitted(self)
        k = self.n_neighbors if n_neighbors is None else n_neighbors
        self._check_n_neighbors(k)
        available = self.n_samples_fit_ - (X is None)
        if k > available:
            raise InvalidArgument(
                f"n_neighbors is {k}, there are {self.n_samples_fit_} training vectors"
                f"{' and none is its own neighbour' if X is None else ''}; use at most {available}"
            )
        if X is None:
            found = self._index.search(self._fit_X, k + 1, threads=self._threads())
            distances, indices = _without_self(*found)
        else:
            distances, indices = self._search(X, k)
        return (distances, indices) if return_distance else indices

    def kneighbors_graph(self, X: Any = None, n_neighbors: int | None = None, mode: str = "connectivity") -> Any:
        """The same as a sparse matrix.

        Args:
            X, n_neighbors: as for :meth:`kneighbors`.
            mode: ``"connectivity"`` for ones, ``"distance"`` for the distances.

        Returns:
            scipy CSR matrix ``[q, n_samples_fit_]`` with n_neighbors entries a row, nearest first.

        Raises:
            ValueError: another mode, or as for :meth:`kneighbors`.
        """
        _check_mode(mode)
        distances, indices = self.kneighbors(X, n_neighbors)
        queries, k = indices.shape
        values = distances if mode == "distance" else np.ones((queries, k))
        starts = np.arange(0, queries * k + 1, k, dtype=np.int64)
        return csr_matrix((values.ravel(), indices.ravel(), starts), shape=(queries, self.n_samples_fit_))

    def _search(self, X: Any, k: int) -> Neighbors:
        X = validate_data(self, X, dtype=_DTYPES, reset=False)
        if common_dtype(X.dtype.name, self._index.dtype) == self._index.dtype:
            return self._index.search(X, k, threads=self._threads())
        # float64 queries to float32 vectors: rounding the queries would not be exact, so widen the vectors.
        return knn(
            self._fit_X, X, k, metric=self.effective_metric_, filter=self.filter, threads=self._threads()
        )

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

    @staticmethod
    def _check_n_neighbors(value: Any) -> None:
        if not isinstance(value, numbers.Integral):
            raise TypeError(f"n_neighbors is {value!r}; use an integer of at least 1")
        if value < 1:
            raise InvalidArgument(f"n_neighbors is {value}; use at least 1")

    def __getstate__(self) -> dict[str, Any]:
        # The index can be built again from the vectors: no need to write them twice.
        state = dict(super().__getstate__())
        state.pop("_index", None)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if hasattr(self, "_fit_X"):
            self._index = BruteForce(self._fit_X, metric=self.effective_metric_, filter=self.filter)


def _without_self(distances: Any, indices: Any) -> tuple[Any, Any]:
    """Drops from k + 1 neighbours of every training vector itself; where ties kept it out, the last."""
    queries, wide = indices.shape
    keep = indices != np.arange(queries)[:, np.newaxis]
    keep[keep.all(axis=1), -1] = False
    shape = (queries, wide - 1)
    return distances[keep].reshape(shape), indices[keep].reshape(shape)


class NearestNeighbors(_KNeighborsBase):
    """Finds the nearest training vectors, exactly, as ``sklearn.neighbors.NearestNeighbors`` does.

    Args:
        n_neighbors: neighbours a query.
        algorithm: ``"auto"``, ``"brute"`` or ``"brute_force"``; the answer is the same.
        metric: ``"minkowski"`` (with p), ``"euclidean"`` or ``"l2"``, ``"sqeuclidean"``, ``"manhattan"``,
            ``"l1"`` or ``"cityblock"``, ``"cosine"``, ``"inner_product"`` (its sign flipped).
        p: 1 or 2, the power of ``"minkowski"``.
        filter: as for :func:`kith.knn`; the answer is the same.
        n_jobs: threads; None or -1 for all cores, -2 for all but one.

    Attributes:
        n_samples_fit_: number of training vectors.
        n_features_in_: their dimension.
        feature_names_in_: their names, where X had some.
        effective_metric_: Kith's name of the metric.
    """


class KNeighborsTransformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, _KNeighborsBase):  # type: ignore[misc]
    """Turns vectors into the sparse graph of their nearest training vectors, as its namesake in scikit-learn.

    For pipelines that end in an estimator with ``metric="precomputed"``. A training vector is its own first
    neighbour; with ``mode="distance"`` there is one neighbour more than n_neighbors, so that n_neighbors
    others remain.

    Args:
        mode: ``"distance"`` or ``"connectivity"``, the values of the graph.
        n_neighbors: neighbours a query, beside itself.
        algorithm: ``"auto"``, ``"brute"`` or ``"brute_force"``; the answer is the same.
        metric: ``"minkowski"`` (with p), ``"euclidean"`` or ``"l2"``, ``"sqeuclidean"``, ``"manhattan"``,
            ``"l1"`` or ``"cityblock"``, ``"cosine"``, ``"inner_product"`` (its sign flipped).
        p: 1 or 2, the power of ``"minkowski"``.
        filter: as for :func:`kith.knn`; the answer is the same.
        n_jobs: threads; None or -1 for all cores, -2 for all but one.

    Attributes:
        n_samples_fit_: number of training vectors.
        n_features_in_: their dimension.
        feature_names_in_: their names, where X had some.
        effective_metric_: Kith's name of the metric.
    """

    def __init__(
        self,
        *,
        mode: str = "distance",
        n_neighbors: int = 5,
        algorithm: str = "auto",
        metric: str = "minkowski",
        p: float = 2,
        filter: str = "auto",
        n_jobs: int | None = None,
    ) -> None:
        super().__init__(
            n_neighbors, algorithm=algorithm, metric=metric, p=p, filter=filter, n_jobs=n_jobs
        )
        self.mode = mode

    def fit(self, X: Any, y: Any = None) -> Any:
        _check_mode(self.mode)
        super().fit(X, y)
        self._n_features_out = self.n_samples_fit_
        return self

    def transform(self, X: Any) -> Any:
        """The graph: CSR matrix ``[q, n_samples_fit_]``.

        Args:
            X: array-like ``[q, d]``.
        """
        check_is_fitted(self)
        return self.kneighbors_graph(X, self.n_neighbors + (self.mode == "distance"), self.mode)

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """``fit(X).transform(X)``; every vector is among its own neighbours."""
        return self.fit(X, y).transform(X)


def _check_mode(mode: Any) -> None:
    if mode not in ("connectivity", "distance"):
        raise InvalidArgument(f"mode {mode!r} is not known; use 'connectivity' or 'distance'")
