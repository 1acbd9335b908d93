"""Kith behind scikit-learn's interface: :class:`NearestNeighbors` and the two transformers.

Needs scikit-learn 1.6 or newer and SciPy: ``pip install scikit-learn scipy``. They take the place of the classes
of the same names in ``sklearn.neighbors`` and answer exactly: float64 evaluation, ties to the lower row. Where
``algorithm="vamana"`` asks for it, a graph answers approximately, to a stated recall.

>>> import numpy as np
>>> from kith.sklearn import NearestNeighbors
>>> X = np.array([[0.0], [1.0], [3.0]])
>>> NearestNeighbors(n_neighbors=1).fit(X).kneighbors(return_distance=False).tolist()
[[1], [0], [1]]
"""

from __future__ import annotations

from typing import Any

try:
    from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
    from sklearn.utils.validation import check_is_fitted

    from ._estimators import ALGORITHMS, KNeighborsMixin, NeighborsBase, RadiusMixin, check_mode
except ImportError as error:  # pragma: no cover
    raise ImportError(
        "kith.sklearn needs scikit-learn 1.6 or newer and SciPy; run: pip install scikit-learn scipy"
    ) from error

from ._errors import InvalidArgument

__all__ = ["KNeighborsTransformer", "NearestNeighbors", "RadiusNeighborsTransformer"]


class NearestNeighbors(KNeighborsMixin, RadiusMixin, NeighborsBase):
    """Finds the nearest training vectors as ``sklearn.neighbors.NearestNeighbors`` does, exactly unless a graph is asked.

    Args:
        n_neighbors: neighbours a query.
        algorithm: ``"auto"``, ``"brute"`` or ``"brute_force"``, ``"kd_tree"``, ``"octree"`` (2 or 3 dimensions), whose
            answer is the same; or ``"vamana"``, a graph, which is approximate (:class:`kith.Vamana`) and has no
            searches by radius.
        metric: ``"minkowski"`` (with p), ``"euclidean"`` or ``"l2"``, ``"sqeuclidean"``, ``"manhattan"``,
            ``"l1"`` or ``"cityblock"``, ``"cosine"``, ``"inner_product"`` (its sign flipped). Trees and
            searches by radius know neither of the last two.
        p: 1 or 2, the power of ``"minkowski"``.
        filter: as for :func:`kith.knn`; the answer is the same.
        n_jobs: threads; None or -1 for all cores, -2 for all but one.
        radius: of :meth:`radius_neighbors`, in units of the metric.
        recall, list_size: of searches in a graph, at most one of them: the share of the neighbours to find (0.95 where
            neither is given), or the length of the list; as for :meth:`kith.Vamana.search`.
        max_degree, build_list_size, alpha, seed, code_bits, code_dim: of the graph's build; None for what
            :class:`kith.Vamana` takes.

    Attributes:
        n_samples_fit_: number of training vectors.
        n_features_in_: their dimension.
        feature_names_in_: their names, where X had some.
        effective_metric_: Kith's name of the metric.
        effective_algorithm_: Kith's name of the type of index that answers.
        index_: that index.
    """

    def __init__(
        self,
        n_neighbors: int = 5,
        *,
        algorithm: str = "auto",
        metric: str = "minkowski",
        p: float = 2,
        filter: str = "auto",
        n_jobs: int | None = None,
        radius: float = 1.0,
        recall: float | None = None,
        list_size: int | None = None,
        max_degree: int | None = None,
        build_list_size: int | None = None,
        alpha: float | None = None,
        seed: int | None = None,
        code_bits: int | None = None,
        code_dim: int | None = None,
    ) -> None:
        self.n_neighbors = n_neighbors
        self.algorithm = algorithm
        self.metric = metric
        self.p = p
        self.filter = filter
        self.n_jobs = n_jobs
        self.radius = radius
        self.recall = recall
        self.list_size = list_size
        self.max_degree = max_degree
        self.build_list_size = build_list_size
        self.alpha = alpha
        self.seed = seed
        self.code_bits = code_bits
        self.code_dim = code_dim

    def _check_parameters(self) -> None:
        self._check_n_neighbors(self.n_neighbors)
        self._check_radius(self.radius)

    def fit(self, X: Any, y: Any = None) -> Any:
        self._radius_tree = None
        return super().fit(X, y)


class KNeighborsTransformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, KNeighborsMixin, NeighborsBase):  # type: ignore[misc]
    """Turns vectors into the sparse graph of their nearest training vectors, as its namesake in scikit-learn.

    For pipelines that end in an estimator with ``metric="precomputed"``. A training vector is its own first
    neighbour; with ``mode="distance"`` there is one neighbour more than n_neighbors, so that n_neighbors
    others remain.

    Args:
        mode: ``"distance"`` or ``"connectivity"``, the values of the graph.
        n_neighbors: neighbours a query, beside itself.
        algorithm: ``"auto"``, ``"brute"`` or ``"brute_force"``, ``"kd_tree"``, ``"octree"`` (2 or 3 dimensions), whose
            answer is the same; or ``"vamana"``, a graph, which is approximate (:class:`kith.Vamana`).
        metric: ``"minkowski"`` (with p), ``"euclidean"`` or ``"l2"``, ``"sqeuclidean"``, ``"manhattan"``,
            ``"l1"`` or ``"cityblock"``, ``"cosine"``, ``"inner_product"`` (its sign flipped). Trees and
            searches by radius know neither of the last two.
        p: 1 or 2, the power of ``"minkowski"``.
        filter: as for :func:`kith.knn`; the answer is the same.
        n_jobs: threads; None or -1 for all cores, -2 for all but one.
        recall, list_size: of searches in a graph, at most one of them: the share of the neighbours to find (0.95 where
            neither is given), or the length of the list; as for :meth:`kith.Vamana.search`.
        max_degree, build_list_size, alpha, seed, code_bits, code_dim: of the graph's build; None for what
            :class:`kith.Vamana` takes.

    Attributes:
        n_samples_fit_: number of training vectors.
        n_features_in_: their dimension.
        feature_names_in_: their names, where X had some.
        effective_metric_: Kith's name of the metric.
        effective_algorithm_: Kith's name of the type of index that answers.
        index_: that index.
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
        recall: float | None = None,
        list_size: int | None = None,
        max_degree: int | None = None,
        build_list_size: int | None = None,
        alpha: float | None = None,
        seed: int | None = None,
        code_bits: int | None = None,
        code_dim: int | None = None,
    ) -> None:
        self.mode = mode
        self.n_neighbors = n_neighbors
        self.algorithm = algorithm
        self.metric = metric
        self.p = p
        self.filter = filter
        self.n_jobs = n_jobs
        self.recall = recall
        self.list_size = list_size
        self.max_degree = max_degree
        self.build_list_size = build_list_size
        self.alpha = alpha
        self.seed = seed
        self.code_bits = code_bits
        self.code_dim = code_dim

    def _check_parameters(self) -> None:
        check_mode(self.mode)
        self._check_n_neighbors(self.n_neighbors)

    def fit(self, X: Any, y: Any = None) -> Any:
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


class RadiusNeighborsTransformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, RadiusMixin, NeighborsBase):  # type: ignore[misc]
    """Turns vectors into the sparse graph of the training vectors within a radius, as its namesake in scikit-learn.

    Args:
        mode: ``"distance"`` or ``"connectivity"``, the values of the graph.
        radius: in units of the metric, inclusive.
        algorithm: ``"auto"``, ``"kd_tree"`` or ``"octree"`` (2 or 3 dimensions); the answer is the same.
        metric: ``"minkowski"`` (with p), ``"euclidean"`` or ``"l2"``, ``"sqeuclidean"``, ``"manhattan"``,
            ``"l1"`` or ``"cityblock"``.
        p: 1 or 2, the power of ``"minkowski"``.
        n_jobs: threads; None or -1 for all cores, -2 for all but one.

    Attributes:
        n_samples_fit_: number of training vectors.
        n_features_in_: their dimension.
        feature_names_in_: their names, where X had some.
        effective_metric_: Kith's name of the metric.
        effective_algorithm_: Kith's name of the type of index that answers.
        index_: that index.
    """

    filter = "auto"

    def __init__(
        self,
        *,
        mode: str = "distance",
        radius: float = 1.0,
        algorithm: str = "auto",
        metric: str = "minkowski",
        p: float = 2,
        n_jobs: int | None = None,
    ) -> None:
        self.mode = mode
        self.radius = radius
        self.algorithm = algorithm
        self.metric = metric
        self.p = p
        self.n_jobs = n_jobs

    def _check_parameters(self) -> None:
        check_mode(self.mode)
        self._check_radius(self.radius)
        if ALGORITHMS[self.algorithm] in ("brute_force", "vamana"):
            raise InvalidArgument(f"algorithm {self.algorithm!r} has no search by radius; use auto, kd_tree or octree")

    def _choose(self) -> str:
        return "kd_tree"

    def fit(self, X: Any, y: Any = None) -> Any:
        super().fit(X, y)
        self._n_features_out = self.n_samples_fit_
        return self

    def transform(self, X: Any) -> Any:
        """The graph: CSR matrix ``[q, n_samples_fit_]``, each row nearest first.

        Args:
            X: array-like ``[q, d]``.
        """
        check_is_fitted(self)
        return self.radius_neighbors_graph(X, mode=self.mode, sort_results=True)

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """``fit(X).transform(X)``; every vector is among its own neighbours."""
        return self.fit(X, y).transform(X)
