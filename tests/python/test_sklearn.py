"""kith.sklearn: scikit-learn's own checks, and the same answers as its estimators."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

sklearn = pytest.importorskip("sklearn")
import kith  # noqa: E402
from kith.sklearn import KNeighborsTransformer, NearestNeighbors, RadiusNeighborsTransformer  # noqa: E402
from sklearn.base import clone  # noqa: E402
from sklearn.datasets import load_iris, make_blobs  # noqa: E402
from sklearn.model_selection import GridSearchCV  # noqa: E402
from sklearn.neighbors import KNeighborsClassifier  # noqa: E402
from sklearn.neighbors import KNeighborsTransformer as TheirTransformer  # noqa: E402
from sklearn.neighbors import NearestNeighbors as TheirNeighbors  # noqa: E402
from sklearn.neighbors import RadiusNeighborsTransformer as TheirRadiusTransformer  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.utils.estimator_checks import parametrize_with_checks  # noqa: E402


@parametrize_with_checks(
    [
        NearestNeighbors(),
        NearestNeighbors(n_neighbors=2, metric="cosine"),
        NearestNeighbors(n_neighbors=2, algorithm="kd_tree", radius=3),
        KNeighborsTransformer(),
        KNeighborsTransformer(mode="connectivity", n_neighbors=3),
        NearestNeighbors(n_neighbors=2, algorithm="vamana", recall=0.9),
        KNeighborsTransformer(algorithm="kd_tree", n_neighbors=3),
        KNeighborsTransformer(algorithm="vamana", n_neighbors=3, max_degree=16, build_list_size=50),
        RadiusNeighborsTransformer(),
        RadiusNeighborsTransformer(mode="connectivity", radius=2, metric="manhattan"),
    ]
)
def test_estimator_checks(estimator, check):
    check(estimator)


@pytest.fixture
def blobs():
    X, y = make_blobs(n_samples=300, n_features=7, centers=5, random_state=3)
    return X, y


METRICS = ["minkowski", "euclidean", "l2", "sqeuclidean", "manhattan", "l1", "cityblock", "cosine"]


@pytest.mark.parametrize("metric", METRICS)
def test_same_neighbours_as_scikit_learn(blobs, metric):
    X, _ = blobs
    ours = NearestNeighbors(n_neighbors=6, metric=metric).fit(X[:250])
    theirs = TheirNeighbors(n_neighbors=6, metric=metric, algorithm="brute").fit(X[:250])
    distances, indices = ours.kneighbors(X[250:])
    their_distances, their_indices = theirs.kneighbors(X[250:])
    np.testing.assert_array_equal(indices, their_indices)
    np.testing.assert_allclose(distances, their_distances, rtol=1e-7, atol=1e-7)
    np.testing.assert_array_equal(ours.kneighbors(return_distance=False), theirs.kneighbors(return_distance=False))


@pytest.mark.parametrize(("p", "metric"), [(1, "manhattan"), (2, "euclidean")])
def test_p_chooses_the_minkowski_metric(blobs, p, metric):
    X, _ = blobs
    a = NearestNeighbors(metric="minkowski", p=p).fit(X)
    assert a.effective_metric_ == metric
    np.testing.assert_array_equal(a.kneighbors(X)[0], NearestNeighbors(metric=metric).fit(X).kneighbors(X)[0])


@pytest.mark.parametrize("mode", ["distance", "connectivity"])
def test_graphs_equal_scikit_learns(blobs, mode):
    X, _ = blobs
    ours = KNeighborsTransformer(mode=mode, n_neighbors=4)
    theirs = TheirTransformer(mode=mode, n_neighbors=4, algorithm="brute")
    for a, b in [
        (ours.fit_transform(X), theirs.fit_transform(X)),
        (ours.transform(X[:9] + 0.5), theirs.transform(X[:9] + 0.5)),
        (ours.kneighbors_graph(mode=mode), theirs.kneighbors_graph(mode=mode)),
        (ours.kneighbors_graph(X[:5], 2), theirs.kneighbors_graph(X[:5], 2)),
    ]:
        assert a.format == "csr" and a.shape == b.shape
        np.testing.assert_array_equal(a.indptr, b.indptr)
        np.testing.assert_allclose(a.toarray(), b.toarray(), atol=1e-6)
    assert list(ours.get_feature_names_out()[:2]) == ["kneighborstransformer0", "kneighborstransformer1"]


def test_pipeline_with_a_precomputed_classifier():
    X, y = load_iris(return_X_y=True)
    pipeline = make_pipeline(
        KNeighborsTransformer(n_neighbors=10), KNeighborsClassifier(n_neighbors=5, metric="precomputed")
    )
    alone = KNeighborsClassifier(n_neighbors=5, algorithm="brute")
    np.testing.assert_array_equal(
        pipeline.fit(X[::2], y[::2]).predict(X[1::2]), alone.fit(X[::2], y[::2]).predict(X[1::2])
    )
    search = GridSearchCV(pipeline, {"kneighborsclassifier__n_neighbors": [1, 3, 5]}, cv=3)
    assert search.fit(X, y).best_score_ > 0.9


def test_training_vectors_are_not_their_own_neighbours_even_among_duplicates():
    X = np.zeros((6, 2))
    indices = NearestNeighbors(n_neighbors=2).fit(X).kneighbors(return_distance=False)
    # Ties go to the lower row: 0 and 1, less oneself.
    assert indices.tolist() == [[1, 2], [0, 2], [0, 1], [0, 1], [0, 1], [0, 1]]


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "uint8", "int8"])
def test_element_types_are_kept(dtype):
    X = np.arange(24).reshape(8, 3).astype(dtype)
    estimator = NearestNeighbors(n_neighbors=3).fit(X)
    distances, indices = estimator.kneighbors(X)
    assert distances.dtype == (np.float64 if dtype == "float64" else np.float32)
    np.testing.assert_array_equal(indices[:, 0], np.arange(8))


def test_float64_queries_to_float32_vectors_are_not_rounded():
    X = np.array([[1.0], [3.0]], np.float32)
    estimator = NearestNeighbors(n_neighbors=2).fit(X)
    distances, indices = estimator.kneighbors([[2 + 2**-40]])  # rounds to 2, where both are equally far
    assert indices.tolist() == [[1, 0]]
    assert distances.dtype == np.float64


def test_pickle_and_clone_answer_the_same(blobs):
    X, _ = blobs
    estimator = NearestNeighbors(n_neighbors=3, metric="cosine", filter="fp32").fit(X)
    again = pickle.loads(pickle.dumps(estimator))
    assert again.get_params() == estimator.get_params()
    for a, b in zip(estimator.kneighbors(X), again.kneighbors(X), strict=True):
        np.testing.assert_array_equal(a, b)
    with pytest.raises(sklearn.exceptions.NotFittedError):
        clone(estimator).kneighbors(X)


@pytest.mark.parametrize("n_jobs", [None, -1, 1, 2])
def test_n_jobs_changes_no_answer(blobs, n_jobs):
    X, _ = blobs
    expected = kith.knn(X, X, 5, metric="euclidean")
    distances, indices = NearestNeighbors(n_jobs=n_jobs).fit(X).kneighbors(X)
    np.testing.assert_array_equal(indices, expected.indices)
    np.testing.assert_array_equal(distances, expected.distances)


@pytest.mark.parametrize(
    ("parameters", "error", "words"),
    [
        ({"metric": "haversine"}, ValueError, "haversine.*use one of"),
        ({"p": 3}, ValueError, "p is 3"),
        ({"algorithm": "ball_tree"}, ValueError, "ball_tree.*use one of.*kd_tree"),
        ({"algorithm": "octree"}, ValueError, "octree|dimension"),
        ({"algorithm": "kd_tree", "metric": "cosine"}, ValueError, "cosine"),
        ({"algorithm": "kd_tree", "filter": "int8"}, ValueError, "'int8' belongs to brute force"),
        ({"algorithm": "vamana", "filter": "int8"}, ValueError, "'int8' belongs to brute force"),
        ({"algorithm": "vamana", "metric": "manhattan"}, ValueError, "manhattan"),
        ({"algorithm": "vamana", "max_degree": 2}, ValueError, "max_degree of 2"),
        ({"algorithm": "vamana", "build_list_size": 8}, ValueError, "build_list_size of 8"),
        ({"algorithm": "vamana", "alpha": 3.0}, ValueError, "alpha of 3"),
        ({"algorithm": "vamana", "recall": 1.5}, ValueError, "recall is 1.5"),
        ({"algorithm": "vamana", "recall": 0.9, "list_size": 20}, ValueError, "give one of them"),
        ({"algorithm": "kd_tree", "recall": 0.9}, ValueError, "'kd_tree' has no recall.*'vamana'"),
        ({"list_size": 50, "seed": 1}, ValueError, "'auto' has no seed, list_size.*'vamana'"),
        ({"radius": -1}, ValueError, "radius is -1"),
        ({"radius": float("nan")}, ValueError, "radius is nan"),
        ({"radius": "far"}, TypeError, "radius is 'far'"),
        ({"filter": "int3"}, ValueError, "int3"),
        ({"n_neighbors": 0}, ValueError, "at least 1"),
        ({"n_neighbors": 1.5}, TypeError, "1.5"),
        ({"n_jobs": 0}, ValueError, "n_jobs"),
    ],
)
def test_wrong_parameters_are_refused(parameters, error, words):
    with pytest.raises(error, match=words):
        NearestNeighbors(**parameters).fit(np.eye(9))


def test_filter_and_n_jobs_reach_the_search(blobs, monkeypatch):
    X, _ = blobs
    assert NearestNeighbors(filter="fp32").fit(X)._index.filter == "fp32"
    assert NearestNeighbors(filter="none").fit(X)._index.filter == "none"
    seen = []
    search = kith.BruteForce.search
    monkeypatch.setattr(
        kith.BruteForce,
        "search",
        lambda self, Q, k, threads: seen.append(threads) or search(self, Q, k, threads=threads),
    )
    for n_jobs in (None, -1, 3):
        NearestNeighbors(n_jobs=n_jobs, algorithm="brute").fit(X).kneighbors(X)
    assert seen == [0, 0, 3]


def test_wrong_calls_are_refused():
    estimator = KNeighborsTransformer(n_neighbors=2).fit(np.eye(3))
    with pytest.raises(ValueError, match="at most 3"):
        estimator.kneighbors(np.eye(3), 4)
    with pytest.raises(ValueError, match="none is its own neighbour; use at most 2"):
        estimator.kneighbors(n_neighbors=3)
    with pytest.raises(ValueError, match="mode 'other'"):
        estimator.kneighbors_graph(mode="other")
    with pytest.raises(ValueError, match="mode 'other'"):
        KNeighborsTransformer(mode="other").fit(np.eye(3))
    with pytest.raises(ValueError, match="NaN"):
        estimator.kneighbors([[np.nan, 0, 0]])


ALGORITHMS = {"brute": "brute_force", "brute_force": "brute_force", "kd_tree": "kd_tree", "octree": "octree"}


@pytest.mark.parametrize("metric", ["minkowski", "sqeuclidean", "manhattan"])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_algorithms_change_no_bit(algorithm, metric):
    X = np.random.default_rng(1).integers(0, 9, (400, 3)).astype(np.float64)  # full of ties
    plain = NearestNeighbors(7, metric=metric, algorithm="brute").fit(X[:300])
    other = NearestNeighbors(7, metric=metric, algorithm=algorithm).fit(X[:300])
    assert other._index.type == ALGORITHMS[algorithm]
    for queries in (X[300:], None):
        for a, b in zip(plain.kneighbors(queries), other.kneighbors(queries), strict=True):
            np.testing.assert_array_equal(a, b)
    again = pickle.loads(pickle.dumps(other))
    assert again._index.type == other._index.type
    np.testing.assert_array_equal(again.kneighbors(X)[1], other.kneighbors(X)[1])
    narrow = NearestNeighbors(3, metric=metric, algorithm=algorithm).fit(X.astype(np.float32))
    assert narrow.kneighbors(X + 1e-12)[0].dtype == np.float64


def test_auto_takes_what_choose_index_names(blobs):
    big = np.random.default_rng(1).standard_normal((40_000, 3))
    for X in (big, blobs[0], big[:50]):
        expected = kith.choose_index(*X.shape, 0, 5, "euclidean").index
        assert NearestNeighbors().fit(X)._index.type == expected
    assert NearestNeighbors().fit(big)._index.type == "kd_tree"
    assert NearestNeighbors(metric="cosine").fit(big)._index.type == "brute_force"
    assert NearestNeighbors(filter="fp32").fit(big)._index.type == "brute_force"


@pytest.mark.parametrize("algorithm", ["brute", "kd_tree"])
@pytest.mark.parametrize(("metric", "radius"), [("euclidean", 4.0), ("sqeuclidean", 16.0), ("manhattan", 9.0)])
def test_searches_by_radius_equal_scikit_learns(blobs, algorithm, metric, radius):
    X, _ = blobs
    ours = NearestNeighbors(metric=metric, algorithm=algorithm, radius=radius).fit(X[:250])
    theirs = TheirNeighbors(metric=metric, algorithm="brute", radius=radius).fit(X[:250])
    for queries in (X[250:], None):
        for a, b in zip(
            ours.radius_neighbors(queries, sort_results=True),
            theirs.radius_neighbors(queries, sort_results=True),
            strict=True,
        ):
            assert a.shape == b.shape and a.dtype == object and sum(map(len, a)) > 100
            for x, y in zip(a, b, strict=True):
                np.testing.assert_allclose(x, y, rtol=1e-9)
        for a, b in zip(
            ours.radius_neighbors(queries, radius / 2, return_distance=False),
            theirs.radius_neighbors(queries, radius / 2, return_distance=False),
            strict=True,
        ):
            np.testing.assert_array_equal(np.sort(a), np.sort(b))
        for mode in ("connectivity", "distance"):
            a = ours.radius_neighbors_graph(queries, mode=mode, sort_results=True)
            b = theirs.radius_neighbors_graph(queries, mode=mode, sort_results=True)
            assert a.format == "csr" and a.shape == b.shape
            np.testing.assert_allclose(a.toarray(), b.toarray(), rtol=1e-9)
    assert pickle.loads(pickle.dumps(ours)).radius_neighbors_graph(X).nnz == ours.radius_neighbors_graph(X).nnz


def test_a_second_fit_forgets_the_tree_of_the_first(blobs):
    X, _ = blobs
    estimator = NearestNeighbors(algorithm="brute", radius=1e9).fit(X)
    assert len(estimator.radius_neighbors(X[:1])[1][0]) == 300
    assert len(estimator.fit(X[:20]).radius_neighbors(X[:1])[1][0]) == 20


def test_float64_queries_by_radius_are_not_rounded():
    estimator = NearestNeighbors(radius=1.0).fit(np.array([[1.0], [3.0]], np.float32))
    distances, indices = estimator.radius_neighbors([[2 + 2**-40]])  # rounds to 2, where both are within 1
    assert indices[0].tolist() == [1] and distances[0].dtype == np.float64
    signed = NearestNeighbors(radius=2.0).fit(np.array([[100], [-3]], np.int8))
    assert signed.radius_neighbors(np.array([[101], [200]], np.uint8), return_distance=False)[0].tolist() == [0]


@pytest.mark.parametrize("mode", ["distance", "connectivity"])
def test_radius_graphs_equal_scikit_learns(blobs, mode):
    X, _ = blobs
    ours = RadiusNeighborsTransformer(mode=mode, radius=4.0)
    theirs = TheirRadiusTransformer(mode=mode, radius=4.0, algorithm="brute")
    for a, b in [
        (ours.fit_transform(X), theirs.fit_transform(X)),
        (ours.transform(X[:9] + 0.5), theirs.transform(X[:9] + 0.5)),
    ]:
        assert a.format == "csr" and a.nnz == b.nnz
        np.testing.assert_allclose(a.toarray(), b.toarray(), atol=1e-6)
    assert RadiusNeighborsTransformer(algorithm="octree").fit(X[:, :3])._index.type == "octree"
    assert list(ours.get_feature_names_out()[:1]) == ["radiusneighborstransformer0"]


def test_wrong_searches_by_radius_are_refused(blobs):
    X, _ = blobs
    estimator = NearestNeighbors().fit(X)
    with pytest.raises(ValueError, match="sort_results"):
        estimator.radius_neighbors(X, return_distance=False, sort_results=True)
    with pytest.raises(ValueError, match="radius is -2"):
        estimator.radius_neighbors(X, -2)
    with pytest.raises(ValueError, match="mode 'other'"):
        estimator.radius_neighbors_graph(X, mode="other")
    with pytest.raises(ValueError, match="not cosine"):
        NearestNeighbors(metric="cosine").fit(X).radius_neighbors(X)
    with pytest.raises(ValueError, match="'brute' has no search by radius"):
        RadiusNeighborsTransformer(algorithm="brute").fit(X)
    with pytest.raises(ValueError, match="mode 'other'"):
        RadiusNeighborsTransformer(mode="other").fit(X)
    with pytest.raises(ValueError, match="cosine"):
        RadiusNeighborsTransformer(metric="cosine").fit(X)
    with pytest.raises(sklearn.exceptions.NotFittedError):
        NearestNeighbors().radius_neighbors(X)


@pytest.fixture(scope="module")
def long_rows():
    """(training, queries) of low intrinsic dimension, float32."""
    turn = np.random.default_rng(1).standard_normal((6, 24))
    values = (np.random.default_rng(2).standard_normal((2200, 6)) @ turn).astype(np.float32)
    return values[:2000], values[2000:]


@pytest.mark.parametrize("metric", ["euclidean", "sqeuclidean", "cosine", "inner_product"])
def test_a_graph_keeps_its_recall_and_true_distances(long_rows, metric):
    X, Q = long_rows
    graph = NearestNeighbors(8, metric=metric, algorithm="vamana", recall=0.9).fit(X)
    exact = NearestNeighbors(8, metric=metric).fit(X)
    assert graph.effective_algorithm_ == graph.index_.type == "vamana"
    assert type(graph.index_) is kith.Vamana and graph.index_.metric == metric
    for queries in (Q, None):
        distances, indices = graph.kneighbors(queries)
        true_distances, true_indices = exact.kneighbors(queries)
        assert kith.evaluate(indices, true_indices).recall >= 0.9
        found = indices == true_indices
        np.testing.assert_array_equal(distances[found], true_distances[found])
        if queries is None:
            assert (indices != np.arange(len(X))[:, None]).all()
    whole = graph.set_params(recall=1).kneighbors(Q)
    for a, b in zip(whole, exact.kneighbors(Q), strict=True):
        np.testing.assert_array_equal(a, b)


def test_the_graphs_parameters_reach_it(long_rows, monkeypatch):
    X, Q = long_rows
    given = {"max_degree": 12, "build_list_size": 40, "alpha": 1.3, "seed": 5, "code_bits": 4, "code_dim": 24}
    estimator = NearestNeighbors(4, algorithm="vamana", list_size=25, **given).fit(X)
    assert {name: getattr(estimator.index_, name) for name in given} == given
    plain = NearestNeighbors(algorithm="vamana").fit(X).index_
    assert (plain.max_degree, plain.build_list_size, plain.alpha, plain.seed, plain.code_bits) == (64, 128, 1.05, 0, 8)
    seen = []
    search = kith.Vamana.search
    monkeypatch.setattr(
        kith.Vamana, "search", lambda self, Q, k, **how: seen.append((k, how)) or search(self, Q, k, **how)
    )
    estimator.kneighbors(Q)
    estimator.kneighbors()
    estimator.set_params(list_size=None, recall=0.8, n_jobs=2).kneighbors(Q)
    KNeighborsTransformer(n_neighbors=4, algorithm="vamana", list_size=30).fit(X).transform(Q)
    assert seen == [
        (4, {"threads": 0, "list_size": 25}),
        (5, {"threads": 0, "list_size": 25}),
        (4, {"threads": 2, "recall": 0.8}),
        (5, {"threads": 0, "list_size": 30}),
    ]
    with pytest.raises(ValueError, match="list_size of 3"):
        estimator.set_params(recall=None, list_size=3).kneighbors(Q)


def test_a_graph_is_pickled_not_built_again(long_rows, monkeypatch):
    X, Q = long_rows
    estimator = NearestNeighbors(6, algorithm="vamana", recall=0.9).fit(X)
    expected = estimator.kneighbors(Q)
    content = pickle.dumps(estimator)
    fresh = clone(estimator)
    assert fresh.get_params() == estimator.get_params()
    with pytest.raises(sklearn.exceptions.NotFittedError):
        fresh.kneighbors(Q)
    assert fresh.fit(X).index_.graph_hash == estimator.index_.graph_hash
    monkeypatch.setattr(kith.Vamana, "__init__", lambda *_, **__: pytest.fail("built again"))
    again = pickle.loads(content)
    assert again.index_.graph_hash == estimator.index_.graph_hash
    assert again.effective_algorithm_ == "vamana"
    for a, b in zip(again.kneighbors(Q), expected, strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_graph_refuses_what_it_cannot_do(long_rows):
    X, Q = long_rows
    estimator = NearestNeighbors(3, algorithm="vamana").fit(X)
    for search in (estimator.radius_neighbors, estimator.radius_neighbors_graph):
        with pytest.raises(ValueError, match="'vamana' has no search by radius; use 'auto', 'brute', 'kd_tree'"):
            search(Q)
    with pytest.raises(ValueError, match="'vamana' has no search by radius; use auto, kd_tree"):
        RadiusNeighborsTransformer(algorithm="vamana").fit(X)
    with pytest.raises(TypeError, match="float64.*would round"):
        estimator.kneighbors(Q.astype(np.float64))
    assert estimator.kneighbors(Q[:2].tolist())[0].dtype == np.float32  # a list has no type of its own


def test_a_pipeline_over_a_graph(long_rows):
    X, _ = long_rows
    y = (X[:, 0] > 0).astype(int)
    classifier = make_pipeline(
        KNeighborsTransformer(n_neighbors=10, algorithm="vamana", recall=0.95),
        KNeighborsClassifier(n_neighbors=5, metric="precomputed"),
    )
    assert classifier.fit(X[::2], y[::2]).score(X[1::2], y[1::2]) > 0.9


def test_the_algorithm_in_effect_is_named(blobs):
    X, _ = blobs
    for algorithm, name in ALGORITHMS.items():
        assert NearestNeighbors(algorithm=algorithm).fit(X[:, :3]).effective_algorithm_ == name
    transformer = KNeighborsTransformer().fit(X)
    assert transformer.effective_algorithm_ == transformer.index_.type == kith.choose_index(300, 7, 0, 5).index
    assert RadiusNeighborsTransformer().fit(X).effective_algorithm_ == "kd_tree"
    with pytest.raises(sklearn.exceptions.NotFittedError):
        _ = NearestNeighbors().index_
