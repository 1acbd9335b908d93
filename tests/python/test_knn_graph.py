"""kith.all_knn and kith.knn_graph: the rows' own neighbours, exact and by a graph, as arrays and as a sparse matrix."""

from __future__ import annotations

import kith
import numpy as np
import pytest

from .oracle import DTYPES, oracle_distances

scipy_sparse = pytest.importorskip("scipy.sparse")
METRICS = ["sqeuclidean", "euclidean", "cosine", "manhattan"]


def points(count=400, dim=3, seed=3, dtype="float32"):
    values = np.random.default_rng(seed).standard_normal((count, dim)) * 20
    return values.astype(DTYPES[dtype]) if dtype not in ("int8", "uint8") else np.abs(values).astype(dtype)


def others(X, k, metric):
    """The oracle: (distances, indices) of the k nearest other rows, ties to the lower row."""
    distances = oracle_distances(X, X, metric)
    np.fill_diagonal(distances, np.inf)
    indices = np.argsort(distances, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(distances, indices, axis=1), indices


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int8", "uint8"])
def test_the_nearest_others_of_every_row(dtype, metric):
    X = points(dtype=dtype)
    answer = kith.all_knn(X, 5, metric=metric)
    distances, _ = others(X, 5, metric)
    assert answer.distances.dtype == (np.float64 if dtype == "float64" else np.float32)
    np.testing.assert_allclose(answer.distances, distances, rtol=1e-5, atol=1e-6)
    assert (answer.indices != np.arange(len(X))[:, None]).all()
    brute = kith.all_knn(X, 5, metric=metric, index="brute_force")
    np.testing.assert_array_equal(answer.indices, brute.indices)
    assert answer.distances.tobytes() == brute.distances.tobytes()


@pytest.mark.parametrize("index", ["auto", "brute_force", "kd_tree", "octree"])
@pytest.mark.parametrize("include_self", [False, True])
def test_indexes_change_no_bit_even_among_ties(index, include_self):
    X = np.random.default_rng(1).integers(0, 4, (500, 3)).astype(np.float32)  # 64 places: nothing but ties
    expected = kith.all_knn(X, 12, include_self, index="brute_force")
    found = kith.all_knn(X, 12, include_self, index=index, threads=2)
    np.testing.assert_array_equal(found.indices, expected.indices)
    assert found.distances.tobytes() == expected.distances.tobytes()
    if include_self:
        np.testing.assert_array_equal(found.indices[:, 0], np.arange(500))
        assert (found.distances[:, 0] == 0).all() and (np.diff(found.distances, axis=1) >= 0).all()
        np.testing.assert_array_equal(found.indices[:, 1:], kith.all_knn(X, 11, index=index).indices)
    else:
        np.testing.assert_array_equal(found.indices, others(X, 12, "euclidean")[1])


def test_euclidean_unless_said_otherwise():
    X = points()
    assert kith.all_knn(X, 2).distances.tobytes() == kith.all_knn(X, 2, metric="euclidean").distances.tobytes()
    tree = kith.KdTree(X, "manhattan")
    assert kith.all_knn(X, 2, index=tree).distances.tobytes() == tree.all_knn(2).distances.tobytes()


@pytest.mark.parametrize("metric", ["cosine", "sqeuclidean"])
def test_equal_rows_and_zero_rows_are_their_own_first_neighbours(metric):
    X = np.tile(points(3, 5), (20, 1))
    X[7] = 0
    answer = kith.all_knn(X, 4, include_self=True, metric=metric)
    np.testing.assert_array_equal(answer.indices[:, 0], np.arange(60))
    assert (answer.distances[:, 0] == 0).all()
    assert all(len(set(row)) == 4 for row in answer.indices.tolist())


def test_by_inner_product_a_row_is_where_its_product_puts_it():
    X = points(60, 4)
    answer = kith.all_knn(X, 5, include_self=True, metric="inner_product")
    np.testing.assert_array_equal(answer.indices, kith.knn(X, X, 5, metric="inner_product").indices)
    assert (answer.indices[:, 0] != np.arange(60)).any()
    without = kith.all_knn(X, 5, metric="inner_product")
    assert (without.indices != np.arange(60)[:, None]).all()


@pytest.mark.parametrize("index", ["brute_force", "kd_tree", "vamana"])
@pytest.mark.parametrize("include_self", [False, True])
def test_few_rows_and_rows_with_nan(index, include_self):
    X = points(6)
    X[2, 1] = np.nan
    answer = kith.all_knn(X, 8, include_self, index=index)
    assert answer.indices.shape == (6, 8)
    assert (answer.indices[2] == -1).all() and np.isinf(answer.distances[2]).all()
    for row in (0, 1, 3, 4, 5):
        found = answer.indices[row][answer.indices[row] >= 0].tolist()
        assert sorted(found) == [r for r in (0, 1, 3, 4, 5) if include_self or r != row]
        assert not include_self or found[0] == row
    graph = kith.knn_graph(X, 8, include_self=include_self, index=index)
    assert np.diff(graph.indptr).tolist() == [4 + include_self] * 2 + [0] + [4 + include_self] * 3
    one = kith.all_knn(X[:1], 2, include_self, index=index)
    assert one.indices.tolist() == [[0, -1] if include_self else [-1, -1]]
    assert kith.knn_graph(np.empty((0, 3)), 2, index=index).shape == (0, 0)


@pytest.fixture(scope="module")
def long_rows():
    turn = np.random.default_rng(1).standard_normal((6, 24))
    return (np.random.default_rng(2).standard_normal((2500, 6)) @ turn).astype(np.float32)


@pytest.mark.parametrize("include_self", [False, True])
def test_a_graph_reaches_the_recall(long_rows, include_self):
    exact = kith.all_knn(long_rows, 10, include_self)
    assert exact.statistics.certified
    sooner = kith.all_knn(long_rows, 10, include_self, recall=0.9)
    assert sooner.statistics.index == exact.statistics.index  # of so few rows
    np.testing.assert_array_equal(sooner.indices, exact.indices)
    rough = kith.all_knn(long_rows, 10, include_self, index="vamana", recall=0.9)
    assert rough.statistics.index == "vamana" and not rough.statistics.certified
    assert kith.evaluate(rough, exact).recall >= 0.9
    if include_self:
        np.testing.assert_array_equal(rough.indices[:, 0], np.arange(2500))
    else:
        assert (rough.indices != np.arange(2500)[:, None]).all()
    graph = kith.Vamana(long_rows, metric="euclidean")
    again = kith.all_knn(long_rows, 10, include_self, index=graph, recall=0.9)
    np.testing.assert_array_equal(again.indices, rough.indices)
    better = kith.all_knn(long_rows, 10, include_self, index=graph, recall=0.99)
    assert better.statistics.list_size > again.statistics.list_size
    assert better.statistics.recall >= 0.99 > again.statistics.recall >= 0.9
    assert kith.evaluate(better, exact).recall >= 0.98
    # Not the list for 11 neighbours, which is that for 100.
    assert again.statistics.list_size < 60 < graph.search(long_rows[:9], 11, recall=0.9).statistics.list_size
    whole = kith.all_knn(long_rows, 10, include_self, index="vamana", recall=1)
    np.testing.assert_array_equal(whole.indices, exact.indices)
    for index in ("kd_tree", kith.KdTree(long_rows, "euclidean")):  # a recall of 1 is anyone's
        np.testing.assert_array_equal(
            kith.all_knn(long_rows, 10, include_self, index=index, recall=1).indices, exact.indices
        )
    assert kith.all_knn(long_rows, 10, recall=1).statistics.index == kith.all_knn(long_rows, 10).statistics.index


def test_a_graph_puts_itself_in_front_even_where_it_missed_it():
    # Many equal rows: a search finds the first k of them, the row itself mostly not.
    X = np.repeat(points(10, 8), 60, axis=0)
    answer = kith.all_knn(X, 5, include_self=True, index="vamana")
    np.testing.assert_array_equal(answer.indices[:, 0], np.arange(600))
    assert (answer.distances == 0).all()
    assert all(len(set(row)) == 5 for row in answer.indices.tolist())


@pytest.mark.parametrize("dtype", ["float32", "float64", "uint8"])
@pytest.mark.parametrize("mode", ["distance", "connectivity"])
@pytest.mark.parametrize("include_self", [False, True])
def test_the_matrix_is_scikit_learns(dtype, mode, include_self):
    neighbors = pytest.importorskip("sklearn.neighbors")
    X = points(dtype=dtype)
    ours = kith.knn_graph(X, 6, mode, include_self)
    theirs = neighbors.kneighbors_graph(
        X.astype(np.float64), 6, mode=mode, metric="euclidean", include_self=include_self
    )
    assert ours.format == "csr" and ours.shape == theirs.shape == (400, 400)
    assert ours.dtype == (np.float64 if dtype == "float64" else np.float32)
    assert ours.indices.dtype == ours.indptr.dtype == np.int32
    np.testing.assert_array_equal(ours.indptr, theirs.indptr)
    if dtype != "uint8":  # full of ties, which the two break differently
        np.testing.assert_array_equal((ours != 0).toarray(), (theirs != 0).toarray())
    np.testing.assert_allclose(np.sort(ours.toarray()), np.sort(theirs.toarray()), rtol=1e-5, atol=1e-5)
    assert (np.diff(ours.indices.reshape(400, 6), axis=1) > 0).all()
    fresh = scipy_sparse.csr_matrix((ours.data, ours.indices, ours.indptr), shape=ours.shape)
    assert fresh.has_canonical_format  # as it says of itself
    if include_self:
        assert (ours.indices.reshape(400, 6) == np.arange(400)[:, None]).any(axis=1).all()
        assert (ours.diagonal() == (0 if mode == "distance" else 1)).all()


def test_the_matrix_in_pieces(monkeypatch):
    from kith import _pieces

    X = points(1000)
    X[5] = np.nan
    whole = [kith.knn_graph(X, 7, include_self=own, index="brute_force") for own in (False, True)]
    monkeypatch.setattr(_pieces, "_ELEMENTS", 50)
    for own, expected in enumerate(whole):
        found = kith.knn_graph(X, 7, include_self=bool(own), index="brute_force")
        for name in ("indptr", "indices", "data"):
            np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))


def test_wide_indices_where_narrow_ones_do_not_reach():
    from kith._knn_graph import _compressed

    starts, columns, values = _compressed(np.ones((2, 2), np.float32), np.array([[1, 0], [0, -1]]), np.int64)
    assert starts.dtype == columns.dtype == np.int64
    assert (starts.tolist(), columns.tolist(), values.tolist()) == ([0, 2, 3], [0, 1, 0], [1, 1, 1])


def test_threads_limits_progress_and_lists():
    X = points(3000, 20)
    seen = []
    answer = kith.all_knn(X, 3, threads=1, progress=lambda done, total: seen.append((done, total)))
    assert seen and seen[-1][0] == seen[-1][1]
    np.testing.assert_array_equal(answer.indices, kith.all_knn(X, 3, threads=3).indices)
    for index in ("brute_force", "kd_tree", "vamana"):
        with pytest.raises(kith.OutOfMemory, match="limit"):
            kith.all_knn(X, 3, index=index, memory_limit=20_000)
        with pytest.raises(kith.OutOfMemory, match="limit"):
            kith.knn_graph(X, 3, index=index, memory_limit=20_000)
        kith.knn_graph(X, 3, index=index, memory_limit=2**28)
    assert kith.all_knn([[0.0], [1.0], [3.0]], 1).indices.tolist() == [[1], [0], [1]]


def test_refusals():
    X = points()
    tree = kith.KdTree(X)
    for given, words in [
        ({"k": 0}, "k is 0"),
        ({"index": "ball_tree"}, "'ball_tree' is not known.*'vamana'"),
        ({"index": "octree", "recall": 0.9}, "recall belongs to a graph.*'octree'"),
        ({"index": tree, "recall": 0.9}, "recall belongs to a graph.*'kd_tree'"),
        ({"index": tree, "metric": "euclidean"}, "'euclidean' is not that of the index, 'sqeuclidean'"),
        ({"index": kith.KdTree(X[:99])}, "holds 99 x 3 rows, X 400 x 3"),
        ({"recall": 1.5}, "recall of 1.5"),
        ({"recall": 0, "index": "vamana"}, "recall of 0"),
        ({"metric": "l2"}, "l2"),
        ({"metric": "cosine", "index": "kd_tree"}, "cosine"),
        ({"metric": "manhattan", "index": "vamana", "recall": 0.9}, "manhattan"),
    ]:
        with pytest.raises(kith.InvalidArgument, match=words):
            kith.all_knn(X, **given)
        with pytest.raises(kith.InvalidArgument, match=words):
            kith.knn_graph(X, **given)
    with pytest.raises(kith.InvalidArgument, match="mode 'other'.*'connectivity'"):
        kith.knn_graph(X, mode="other")
    with pytest.raises(TypeError, match="index"):
        kith.all_knn(X, index=3)
    with pytest.raises(kith.DeviceError):
        kith.all_knn(X, device="cuda:77")
