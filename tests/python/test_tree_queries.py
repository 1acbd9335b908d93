"""KdTree and Octree in the place of scipy's cKDTree and scikit-learn's KDTree."""

from __future__ import annotations

import math

import kith
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kith._tree_queries import _largest_square

from .oracle import random_rows

scipy_spatial = pytest.importorskip("scipy.spatial")
sklearn_neighbors = pytest.importorskip("sklearn.neighbors")

P = {"sqeuclidean": 2, "euclidean": 2, "manhattan": 1}


@pytest.fixture(params=[kith.KdTree, kith.Octree])
def Tree(request):
    return request.param


@pytest.fixture(params=list(P))
def metric(request):
    return request.param


@pytest.fixture
def points():
    return random_rows("float64", 1500, 3, 1), random_rows("float64", 24, 3, 2)


def assert_scipys(ours, theirs, rtol=1e-14):
    for a, b in zip(ours, theirs, strict=True):
        assert np.shape(a) == np.shape(b)
    np.testing.assert_allclose(ours[0], theirs[0], rtol=rtol)
    np.testing.assert_array_equal(ours[1], theirs[1])


@pytest.mark.parametrize("k", [1, 2, 7, 1600, [1], [2], [3, 1], [1, 2, 3], [1600], np.int32(3)], ids=str)
@pytest.mark.parametrize("shape", [(24,), (), (2, 3, 4), (0,)], ids=str)
def test_query_is_scipys(Tree, metric, points, k, shape):
    X, Q = points
    Q = Q[0] if shape == () else Q[: math.prod(shape)].reshape(*shape, 3)
    ours, theirs = Tree(X, metric), scipy_spatial.cKDTree(X)
    answer = ours.query(Q, k)
    assert_scipys(answer, theirs.query(Q, k, p=P[metric]))
    assert_scipys(ours.query(Q, k, 0.5, P[metric], np.inf, -1), answer)
    assert np.asarray(answer[0]).dtype == np.float64 and np.asarray(answer[1]).dtype == np.int64


@pytest.mark.parametrize("bound", [0.0, 0.1, 0.3, np.inf, 1e-300])
def test_distance_upper_bound_is_scipys(Tree, metric, points, bound):
    X, Q = points
    ours = Tree(X, metric).query(Q, 3, distance_upper_bound=bound)
    assert_scipys(ours, scipy_spatial.cKDTree(X).query(Q, 3, p=P[metric], distance_upper_bound=bound))
    assert (ours[1] == 1500).any() == (bound < np.inf)


def test_distance_upper_bound_is_exclusive(Tree, metric):
    X = np.array([[0.0, 0], [3, 4]])
    tree = Tree(X, metric)
    distance = 7.0 if metric == "manhattan" else 5.0
    assert tree.query(X[1], 2, distance_upper_bound=distance)[1].tolist() == [1, 2]
    assert tree.query(X[1], 2, distance_upper_bound=np.nextafter(distance, 9))[1].tolist() == [1, 0]
    # With any distance that is found as the bound, it is that one which is missing.
    points = random_rows("float32", 200, 2, 1)
    tree = Tree(points, metric)
    distances, _ = tree.query(points[0], 10)
    for i, bound in enumerate(distances):
        assert np.isfinite(tree.query(points[0], 10, distance_upper_bound=bound)[0]).sum() == i
        assert np.isfinite(tree.query(points[0], 10, distance_upper_bound=np.nextafter(bound, 9))[0]).sum() == i + 1


def test_squared_trees_answer_roots_of_float64(Tree):
    X = random_rows("float64", 2000, 3, 1)
    for data in (X, X.astype(np.float32)):
        squared = Tree(data)
        distances, indices = squared.query(data, 5)
        raw = squared.search(data, 5)
        np.testing.assert_array_equal(distances, np.sqrt(raw.distances.astype(np.float64)))
        np.testing.assert_array_equal(indices, raw.indices)
    # The bits of a euclidean tree, in a search by radius, too.
    rooted = Tree(X, "euclidean")
    for a, b in zip(Tree(X).query(X, 5), rooted.query(X, 5), strict=True):
        np.testing.assert_array_equal(a, b)
    for r in np.unique(rooted.all_knn(2).distances)[:50]:
        assert Tree(X).query_ball_point(X[:20], r).tolist() == rooted.query_ball_point(X[:20], r).tolist()
        assert (Tree(X).query_radius(X, r, count_only=True) == rooted.count_within(X, r)).all()


@given(st.floats(0, allow_nan=False))
@settings(max_examples=500)
def test_the_largest_square(radius):
    square = _largest_square(radius)
    assert math.sqrt(square) <= radius
    assert math.isinf(square) or math.sqrt(math.nextafter(square, math.inf)) > radius


def test_missing_neighbours(Tree):
    X = np.array([[0.0, 0], [np.inf, 0], [np.nan, 0]])
    tree = Tree(X)
    distances, indices = tree.query([[1.0, 0], [np.nan, 0]], 3)
    assert distances.tolist() == [[1, np.inf, np.inf], [np.inf] * 3] and indices.tolist() == [[0, 3, 3], [3, 3, 3]]
    assert tree.n == 3 and Tree(np.empty((0, 2))).query([1.0, 2]) == (np.inf, 0)


def test_one_point_and_one_neighbour_are_numbers(Tree, points):
    distance, index = Tree(points[0]).query(points[0][7])
    assert isinstance(distance, float) and isinstance(index, np.int64) and (distance, index) == (0, 7)


def test_numbers_of_any_type_to_a_float64_tree(Tree, points):
    tree, theirs = Tree(points[0]), scipy_spatial.cKDTree(points[0])
    for x in ([1, 2, 3], [[1, 2, 3]], np.eye(3, dtype=np.int64), np.eye(3, dtype=bool), np.eye(3, dtype=np.float16),
              np.eye(3, dtype=np.uint8), ((0.5, 1, 2),)):  # fmt: skip
        assert_scipys(tree.query(x, 2), theirs.query(x, 2))
    narrow = Tree(points[0].astype(np.float32))
    assert narrow.query([0.5, 1, 2])[1] == theirs.query([0.5, 1, 2])[1]
    with pytest.raises(TypeError, match="would round them"):
        narrow.query(points[1])


@pytest.mark.parametrize("r", [0.0, 0.2, 0.5, np.linspace(0, 0.6, 24)], ids=["zero", "small", "large", "each"])
def test_query_ball_point_is_scipys(Tree, metric, points, r):
    X, Q = points
    X[5] = X[6] = Q[0]
    ours, theirs = Tree(X, metric), scipy_spatial.cKDTree(X)
    p = P[metric]
    for call in (
        lambda tree, **p: tree.query_ball_point(Q, r, **p),
        lambda tree, **p: tree.query_ball_point(Q, r, return_sorted=True, **p),
    ):
        a, b = call(ours), call(theirs, p=p)
        assert a.dtype == b.dtype == object and a.shape == b.shape and a.tolist() == b.tolist()
        assert all(type(rows) is list for rows in a)
    a = ours.query_ball_point(Q, r, p, 0.5, -1, False)
    assert [sorted(rows) for rows in a] == theirs.query_ball_point(Q, r, p).tolist()
    a, b = (tree.query_ball_point(Q, r, p, return_length=True) for tree in (ours, theirs))
    assert a.dtype == b.dtype and a.tolist() == b.tolist()
    if np.ndim(r) == 0:
        a = ours.query_ball_point(Q[0], r)
        assert type(a) is list and sorted(a) == sorted(theirs.query_ball_point(Q[0], r, p))
        assert ours.query_ball_point(Q[0], r, return_length=True) == len(a)
    else:
        cube = Q.reshape(2, 3, 4, 3)
        a, b = (tree.query_ball_point(cube, r.reshape(2, 3, 4), p) for tree in (ours, theirs))
        assert a.shape == b.shape == (2, 3, 4) and a.tolist() == b.tolist()
    assert ours.query_ball_point(Q[:0], 0.5).shape == (0,)


def test_query_ball_point_sorts_as_asked(Tree, points):
    tree = Tree(points[0])
    loose = tree.query_ball_point(points[0], 1.0, return_sorted=False)
    tidy = tree.query_ball_point(points[0], 1.0, return_sorted=True)
    assert loose.tolist() != tidy.tolist() == tree.query_ball_point(points[0], 1.0).tolist()
    assert [sorted(rows) for rows in loose] == tidy.tolist()
    one = tree.query_ball_point(points[0][0], 1.0, return_sorted=True)
    assert one == tidy[0] and sorted(tree.query_ball_point(points[0][0], 1.0)) == one


def test_query_is_scikit_learns(Tree, metric, points):
    X, Q = points
    theirs = sklearn_neighbors.KDTree(X, metric="manhattan" if metric == "manhattan" else "euclidean")
    ours = Tree(X, metric)
    for k in (2, 5):
        assert_scipys(
            ours.query(Q, k, return_distance=True, sort_results=True), theirs.query(Q, k, return_distance=True)
        )
        np.testing.assert_array_equal(
            ours.query(Q, k=k, return_distance=False), theirs.query(Q, k=k, return_distance=False)
        )
        assert_scipys(ours.query(Q, k, sort_results=False), theirs.query(Q, k))
    assert_scipys(ours.query(Q, [1]), theirs.query(Q, 1))  # scipy's way to keep the axis


@pytest.mark.parametrize("r", [0.0, 0.3, np.linspace(0, 0.6, 24)], ids=["zero", "one", "each"])
def test_query_radius_is_scikit_learns(Tree, metric, points, r):
    X, Q = points
    theirs = sklearn_neighbors.KDTree(X, metric="manhattan" if metric == "manhattan" else "euclidean")
    ours = Tree(X, metric)
    a, b = ours.query_radius(Q, r), theirs.query_radius(Q, r)
    assert a.dtype == b.dtype == object and a.shape == b.shape
    for x, y in zip(a, b, strict=True):
        assert x.dtype == np.int64
        np.testing.assert_array_equal(np.sort(x), np.sort(y))
    a, b = (tree.query_radius(Q, r, count_only=True) for tree in (ours, theirs))
    assert a.dtype == b.dtype
    np.testing.assert_array_equal(a, b)
    for x, y in zip(*(tree.query_radius(Q, r, True, sort_results=True) for tree in (ours, theirs)), strict=True):
        assert len(x) == len(y) == 24
        for part, other in zip(x, y, strict=True):
            np.testing.assert_allclose(part, other, rtol=1e-14)
            assert part.dtype == other.dtype
    indices, distances = ours.query_radius(Q, r, return_distance=True)
    tidy, _ = ours.query_radius(Q, r, return_distance=True, sort_results=True)
    for i in range(24):
        np.testing.assert_allclose(distances[i], np.linalg.norm(X[indices[i]] - Q[i], P[metric], axis=1), rtol=1e-13)
        np.testing.assert_array_equal(np.sort(indices[i]), np.sort(tidy[i]))
    np.testing.assert_array_equal(ours.query_radius(Q, r, count_only=True, threads=1), a)


def test_what_is_refused(points):
    X, Q = points
    tree = kith.KdTree(X)
    for call, words in [
        (lambda: tree.query(Q, 0), "k is 0"),
        (lambda: tree.query(Q, [1, 0]), r"k is \[1, 0\]"),
        (lambda: tree.query(Q, []), r"k is \[\]"),
        (lambda: tree.query(Q, p=1), "p is 1; this tree was built for p = 2.*manhattan"),
        (lambda: tree.query(Q, p=np.inf), "p is inf"),
        (lambda: kith.KdTree(X, "manhattan").query(Q, p=2), "p is 2; this tree was built for p = 1.*euclidean"),
        (lambda: tree.query_ball_point(Q, 1, p=3), "p is 3"),
        (lambda: tree.query(Q, eps=-1), "eps is -1"),
        (lambda: tree.query_ball_point(Q, 1, eps=float("nan")), "eps is nan"),
        (lambda: tree.query(Q, distance_upper_bound=-1), "distance_upper_bound is -1"),
        (lambda: tree.query(Q, distance_upper_bound=float("nan")), "distance_upper_bound is nan"),
        (lambda: tree.query(Q, workers=0), "workers is 0"),
        (lambda: tree.query_ball_point(Q, 1, workers=-2), "workers is -2"),
        (lambda: tree.query(Q[:, :2]), r"shape \(24, 2\); the tree has dimension 3"),
        (lambda: tree.query(1.0), "dimension 3"),
        (lambda: tree.query_ball_point(Q, -1), "radius of -1"),
        (lambda: tree.query_ball_point(Q, float("nan")), "radius of nan"),
        (lambda: tree.query_ball_point(Q, [-1.0] * 24), "radius of -1"),
        (lambda: tree.query_ball_point(Q, [1.0] * 5), r"radii of shape \(5,\)"),
        (lambda: tree.query_radius(Q[0], 1), r"\[q, d\] is needed"),
        (lambda: tree.query_radius(Q, -1), "radius of -1"),
        (lambda: tree.query_radius(Q, 1, sort_results=True), "sort_results needs return_distance"),
        (lambda: tree.query_radius(Q, 1, True, True), "cannot both be true"),
        (lambda: tree.query_radius(Q, 1, threads=-1), "-1 threads"),
    ]:
        with pytest.raises(ValueError, match=words) as caught:
            call()
        assert isinstance(caught.value, kith.InvalidArgument)
    for call, words in [
        (lambda: tree.query(Q, 2.5), "k: 2.5"),
        (lambda: tree.query(Q, [1.5]), "k: "),
        (lambda: tree.query(Q, 2, False), "give return_distance by its name"),
        (lambda: tree.query(Q, sort_results=3), "sort_results: 3"),
        (lambda: tree.query(Q, workers=1.5), "integer"),
        (lambda: tree.query(Q, distance_upper_bound="far"), "distance_upper_bound: 'far'"),
    ]:
        with pytest.raises(TypeError, match=words):
            call()


def test_workers_reach_the_search(points, monkeypatch):
    X, Q = points
    tree = kith.KdTree(X)
    seen = []
    for name in ("search", "radius_search", "count_within"):
        method = getattr(kith.PointTree, name)

        def spy(self, *arguments, method=method, threads):
            seen.append(threads)
            return method(self, *arguments, threads=threads)

        monkeypatch.setattr(kith.PointTree, name, spy)
    for workers, threads in ((1, 1), (3, 3), (-1, 0), (None, 1)):
        tree.query(Q, workers=workers)
        tree.query_ball_point(Q, 0.1, workers=workers)
        tree.query_ball_point(Q, 0.1, workers=workers, return_length=True)
        assert seen == [threads] * 3
        seen.clear()
    tree.query(Q)
    tree.query_radius(Q, 0.1)
    tree.query_radius(Q, 0.1, threads=2)
    assert seen == [1, 0, 2]
