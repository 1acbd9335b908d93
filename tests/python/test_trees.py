"""KdTree and Octree: the bits of brute force, and what trees do beyond search."""

from __future__ import annotations

import concurrent.futures
import copy
import gc
import pickle
import threading
from types import SimpleNamespace

import kith
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from .oracle import DTYPES, assert_exact, oracle_distances, random_rows
from .test_execution import run_python

METRICS = ["sqeuclidean", "euclidean", "manhattan"]


@pytest.fixture(params=[kith.KdTree, kith.Octree])
def Tree(request):
    return request.param


@pytest.fixture(params=METRICS)
def tree_metric(request):
    return request.param


def grid(rows, dim, seed, dtype="float64", values=5):
    """Few different points: ties and duplicates everywhere."""
    return np.random.default_rng(seed).integers(0, values, (rows, dim)).astype(DTYPES[dtype])


def assert_same(a, b):
    np.testing.assert_array_equal(a.indices, b.indices)
    assert a.distances.dtype == b.distances.dtype and a.distances.tobytes() == b.distances.tobytes()


@pytest.mark.parametrize("dim", [2, 3])
def test_every_element_type_and_metric(Tree, dtype, tree_metric, dim):
    X, Q = random_rows(dtype, 300, dim, 1), random_rows(dtype, 11, dim, 2)
    assert_exact(Tree(X, metric=tree_metric).search(Q, 7), X, Q, 7, tree_metric)


@pytest.mark.parametrize("dim", [1, 2, 7, 16, 40])
def test_a_kd_tree_takes_any_dimension(tree_metric, dim):
    X, Q = random_rows("float32", 500, dim, 1), random_rows("float32", 9, dim, 2)
    assert_exact(kith.KdTree(X, tree_metric).search(Q, 5), X, Q, 5, tree_metric)


@given(
    dtype=st.sampled_from(list(DTYPES)),
    metric=st.sampled_from(METRICS),
    rows=st.integers(0, 300),
    queries=st.integers(0, 9),
    dim=st.integers(1, 5),
    k=st.integers(1, 320),
    leaf_size=st.sampled_from([0, 1, 3, 100]),
    kind=st.sampled_from(["normal", "grid", "endless"]),
    radius=st.sampled_from([None, 0, 1, 2.5, 1e4]),
    seed=st.integers(0, 2**32 - 1),
)
@settings(max_examples=200, deadline=None)
def test_the_bits_of_brute_force(dtype, metric, rows, queries, dim, k, leaf_size, kind, radius, seed):
    rng = np.random.default_rng(seed)
    if kind == "grid":
        X, Q = grid(rows, dim, seed, dtype), grid(queries, dim, seed + 1, dtype)
    else:
        X, Q = random_rows(dtype, rows, dim, seed), random_rows(dtype, queries, dim, seed + 1)
    if kind == "endless" and dtype not in ("int8", "uint8"):
        for array in (X, Q):
            array[rng.random(array.shape) < 0.1] = rng.choice([np.nan, np.inf, -np.inf])
    expected = kith.BruteForce(X, metric).search(Q, k)
    trees = [kith.KdTree(X, metric, leaf_size)] + ([kith.Octree(X, metric, leaf_size)] if dim in (2, 3) else [])
    everything = kith.BruteForce(X, metric).search(Q, max(1, rows))
    for tree in trees:
        assert_same(tree.search(Q, k), expected)
        assert_same(tree.search(X, k), kith.BruteForce(X, metric).search(X, k))
        if radius is None:
            continue
        # Within a radius: a prefix of all rows, in the same order.
        found = tree.radius_search(Q, radius)
        assert len(found) == queries
        for i, (distances, indices) in enumerate(found):
            kept = (everything.distances[i] <= radius) & (everything.indices[i] >= 0)
            np.testing.assert_array_equal(indices, everything.indices[i][kept])
            assert distances.tobytes() == everything.distances[i][kept].tobytes()
        np.testing.assert_array_equal(found.counts(), tree.count_within(Q, radius))
        near = tree.search(Q, k, radius)
        kept = expected.distances <= radius
        np.testing.assert_array_equal(near.indices, np.where(kept, expected.indices, -1))
        np.testing.assert_array_equal(near.distances, np.where(kept, expected.distances, np.inf))


def test_ties_go_to_the_lower_row(Tree, tree_metric):
    X, Q = grid(400, 3, 5), grid(20, 3, 6)
    every = oracle_distances(X, Q, tree_metric)
    expected = np.argsort(every, axis=1, kind="stable")[:, :50]
    distances, indices = Tree(X, tree_metric).search(Q, 50)
    np.testing.assert_array_equal(indices, expected)
    np.testing.assert_array_equal(distances, np.take_along_axis(every, expected, 1))


def test_properties(Tree, dtype, tree_metric):
    tree = Tree(random_rows(dtype, 300, 3, 1), metric=tree_metric, leaf_size=17)
    assert isinstance(tree, (kith.PointTree, kith.Index))
    assert (tree.rows, tree.dim, tree.dtype, tree.metric, tree.leaf_size) == (300, 3, dtype, tree_metric, 17)
    assert (tree.n, tree.m) == (300, 3)
    assert tree.type == {kith.KdTree: "kd_tree", kith.Octree: "octree"}[Tree]
    assert tree.memory_bytes >= 300 * 3 * 4
    assert repr(tree) == f"{Tree.__name__}(300 x 3 {dtype}, {tree_metric})"
    assert Tree(np.eye(3)).leaf_size > 1 and Tree(np.eye(3)).metric == "sqeuclidean"
    assert tree.search(tree_rows(tree)).statistics.index == tree.type


def tree_rows(tree):
    return random_rows(tree.dtype, 4, tree.dim, 2)


def test_defaults(Tree):
    X = random_rows("float32", 300, 3, 1)
    tree = Tree(X)
    assert_same(tree.search(X), kith.knn(X, X, 10, "sqeuclidean", index="brute_force"))
    assert tree.all_knn().indices.shape == (300, 10)
    assert tree.search(X[0], 2).indices.shape == (1, 2)


def test_leaf_size_changes_the_tree_and_no_bit(Tree):
    X = random_rows("float32", 3000, 3, 1)
    trees = [Tree(X, leaf_size=size) for size in (0, 1, 8, 500)]
    assert len({tree.memory_bytes for tree in trees}) > 1
    for tree in trees:
        assert_same(tree.search(X[:50], 5), trees[0].search(X[:50], 5))


def test_the_array_may_change_after_the_build(Tree):
    X = random_rows("float64", 500, 3, 1)
    expected = kith.knn(X, X, 3)
    changing = X.copy()
    tree = Tree(changing)
    changing[:] = np.nan
    assert_same(tree.search(X, 3), expected)


def test_layouts_and_lists(Tree):
    X = random_rows("float64", 60, 3, 1)
    expected = kith.knn(X[::2], X, 4)
    assert_same(Tree(X[::2]).search(X, 4), expected)
    assert_same(Tree(np.asfortranarray(X[::2])).search(X[:, ::-1].copy()[:, ::-1], 4), expected)
    assert_same(Tree(X[::2].tolist()).search(X.tolist(), 4), expected)
    narrow = X.astype(np.float16)
    assert_same(Tree(X).search(narrow, 4), kith.knn(X, narrow, 4))


# all_knn


@pytest.mark.parametrize("data", [grid(300, 3, 1), random_rows("float32", 300, 3, 1)], ids=["grid", "normal"])
def test_all_knn_is_a_search_for_the_others(Tree, data):
    tree = Tree(data)
    wide = kith.BruteForce(data).search(data, 300)
    others = wide.indices != np.arange(300)[:, np.newaxis]
    for k in (1, 4, 299):
        answer = tree.all_knn(k)
        np.testing.assert_array_equal(answer.indices, wide.indices[others].reshape(300, 299)[:, :k])
        np.testing.assert_array_equal(answer.distances, wide.distances[others].reshape(300, 299)[:, :k])
        assert_same(tree.all_knn(k, include_self=True), kith.BruteForce(data).search(data, k))
    assert (tree.all_knn(301).indices[:, 299:] == -1).all()
    near = tree.all_knn(4, radius=0.5)
    kept = tree.all_knn(4).distances <= 0.5
    assert kept.any() and not kept.all()
    np.testing.assert_array_equal(near.indices, np.where(kept, tree.all_knn(4).indices, -1))


def test_rows_with_a_nan_have_no_neighbours(Tree):
    X = grid(20, 3, 1)
    X[3, 1] = np.nan
    tree = Tree(X)
    answer = tree.all_knn(2)
    assert answer.indices[3].tolist() == [-1, -1] and np.isinf(answer.distances[3]).all()
    assert not (answer.indices == 3).any() and answer.statistics.nan_rows == 1
    found = tree.radius_search(X, 1.0)
    assert found.statistics.nan_queries == 1 and len(found[3][1]) == 0
    assert np.isnan(tree.normals(k=5).normals[3]).all() and tree.outliers(k=3).outlier[3]


# Within a radius


def test_a_radius_is_inclusive_and_in_units_of_the_metric(Tree):
    X = np.array([[0.0, 0], [3, 4], [6, 8]])
    for metric, radius in (("sqeuclidean", 25), ("euclidean", 5), ("manhattan", 7)):
        tree = Tree(X, metric)
        assert tree.radius_search(X[0], radius).indices.tolist() == [0, 1]
        assert tree.radius_search(X[0], np.nextafter(radius, 0)).indices.tolist() == [0]
        assert tree.count_within(X, radius).tolist() == [2, 3, 2]
        assert tree.search(X[:1], 3, radius).indices.tolist() == [[0, 1, -1]]


def test_radius_neighbors(Tree):
    X = random_rows("float32", 500, 3, 1)
    tree = Tree(X)
    found = tree.radius_search(X[:20], 0.3)
    assert type(found) is kith.RadiusNeighbors and len(found) == 20 == len(list(found))
    assert found.offsets.dtype is found.indices.dtype is np.dtype(np.int64)
    assert found.distances.dtype == np.float32
    assert found.offsets[0] == 0 and found.offsets[-1] == len(found.indices) == len(found.distances)
    for i in (0, 7, -1, np.int64(3)):
        distances, indices = found[i]
        np.testing.assert_array_equal(indices, found.indices[found.offsets[i % 20] : found.offsets[i % 20 + 1]])
        assert (np.diff(distances) >= 0).all() and distances[0] == 0 and indices[0] == i % 20
    for i in (20, -21):
        with pytest.raises(IndexError, match="there are 20"):
            found[i]
    with pytest.raises(TypeError):
        found["a"]
    assert repr(found) == f"RadiusNeighbors of 20 queries, {len(found.indices):,} in all (float32)"
    assert found.statistics.index == tree.type and found.statistics.pairs > 0
    again = pickle.loads(pickle.dumps(found))
    np.testing.assert_array_equal(again.indices, found.indices)
    assert again.statistics == found.statistics
    none = tree.radius_search(X[:0], 1)
    assert len(none) == 0 and list(none) == [] and none.offsets.tolist() == [0]
    with pytest.raises(ValueError, match="offsets have shape"):
        kith.RadiusNeighbors(found.offsets, found.indices[1:], found.distances)


def test_sorted_and_max_neighbors(Tree):
    X = random_rows("float32", 2000, 3, 1)
    tree = Tree(X)
    everything = tree.radius_search(X[:50], 1.0)
    loose = tree.radius_search(X[:50], 1.0, sorted=False)
    np.testing.assert_array_equal(loose.offsets, everything.offsets)
    assert (loose.indices != everything.indices).any()  # ignored, they would come sorted
    for (a, b), (c, d) in zip(everything, loose, strict=True):
        order = np.lexsort((d, c))
        np.testing.assert_array_equal(b, d[order])
        np.testing.assert_array_equal(a, c[order])
    for most in (1, 5, 3000):
        few = tree.radius_search(X[:50], 1.0, max_neighbors=most)
        for (a, b), (c, d) in zip(everything, few, strict=True):
            np.testing.assert_array_equal(d, b[:most])
            np.testing.assert_array_equal(c, a[:most])


# Normals, outliers, density


def test_normals_are_those_of_the_covariance(Tree):
    X = random_rows("float64", 300, 3, 1)
    tree = Tree(X)
    normals, curvature = found = tree.normals(k=9)
    assert normals is found.normals and curvature is found.curvature
    assert normals.shape == (300, 3) and curvature.shape == (300,) and normals.dtype == curvature.dtype == np.float64
    neighbours = tree.all_knn(9, include_self=True).indices
    for i in range(300):
        values, vectors = np.linalg.eigh(np.cov(X[neighbours[i]].T))
        assert abs(vectors[:, 0] @ normals[i]) > 1 - 1e-9
        assert curvature[i] == pytest.approx(values[0] / values.sum(), abs=1e-9)
    assert (np.take_along_axis(normals, np.abs(normals).argmax(1)[:, None], 1) > 0).all()
    other = tree.normals(k=20)
    assert not np.allclose(other.normals, normals)
    by_radius = tree.normals(radius=0.3)
    assert not np.allclose(by_radius.normals, normals, equal_nan=True)
    lonely = tree.radius_search(X, 0.3).counts() < 3
    assert lonely.any() and np.isnan(by_radius.normals[lonely]).all()
    both = tree.normals(k=9, radius=0.3)
    few = tree.radius_search(X, 0.3).counts() <= 9
    np.testing.assert_array_equal(both.normals[few], by_radius.normals[few])


def test_normals_point_towards_the_viewpoint():
    rng = np.random.default_rng(1)
    ball = rng.standard_normal((2000, 3))
    ball /= np.linalg.norm(ball, axis=1, keepdims=True)
    tree = kith.KdTree(ball)
    inwards = tree.normals(k=12, viewpoint=[0, 0, 0]).normals
    assert ((inwards * ball).sum(1) < -0.9).all()
    far = tree.normals(k=12, viewpoint=np.array([0, 0, 100.0])).normals
    assert ((far * ([0, 0, 100.0] - ball)).sum(1) >= 0).all() and not np.array_equal(far, inwards)
    circle = ball[:, :2] / np.linalg.norm(ball[:, :2], axis=1, keepdims=True)
    flat = kith.Octree(circle).normals(k=5, viewpoint=(0.0, 0.0)).normals
    assert ((flat * circle).sum(1) < -0.99).all()


def test_outliers_are_those_of_the_formula(Tree):
    X = random_rows("float64", 400, 3, 1)
    X[5] += 40
    tree = Tree(X, "euclidean")
    for k, ratio in ((4, 2.0), (9, 0.5)):
        found = tree.outliers(k=k, ratio=ratio)
        mean = tree.all_knn(k).distances.mean(axis=1)
        np.testing.assert_allclose(found.mean_distance, mean, rtol=1e-13)
        assert found.mean == pytest.approx(mean.mean()) and found.deviation == pytest.approx(mean.std(ddof=1))
        assert found.threshold == pytest.approx(found.mean + ratio * found.deviation)
        assert found.outlier.dtype == np.bool_ and found.outlier[5] and found.outlier.any()
        np.testing.assert_array_equal(found.outlier, found.mean_distance > found.threshold)
    assert tree.outliers(k=4).threshold == tree.outliers(k=4, ratio=2).threshold
    by_radius = tree.outliers(radius=1.0)
    assert np.isnan(by_radius.mean_distance[5]) and by_radius.outlier[5]
    assert tree.outliers(k=2, radius=1.0).mean != by_radius.mean
    assert len(X[~found.outlier]) < 400


def test_density_is_points_over_the_ball(Tree):
    X = random_rows("float64", 300, 3, 1)
    for metric in ("sqeuclidean", "euclidean"):
        tree = Tree(X, metric)
        reach = tree.all_knn(5).distances[:, -1] ** (0.5 if metric == "sqeuclidean" else 1)
        np.testing.assert_allclose(tree.density(k=5), 5 / (4 / 3 * np.pi * reach**3), rtol=1e-12)
        radius = 0.25 if metric == "sqeuclidean" else 0.5
        expected = tree.count_within(X, radius) / (4 / 3 * np.pi * 0.5**3)
        np.testing.assert_allclose(tree.density(radius=radius), expected, rtol=1e-12)
        assert not np.allclose(tree.density(k=5, radius=radius), tree.density(k=5))


@pytest.mark.parametrize("method", ["normals", "outliers", "density"])
def test_neighbourhoods_outside_the_limits(method):
    call = getattr(kith.KdTree(random_rows("float64", 30, 3, 1)), method)
    for arguments, words in [
        ({}, "needs k, a radius, or both"),
        ({"k": 0}, "k is 0; use 1 or more, or None"),
        ({"k": -1}, "k is -1"),
        ({"k": 0, "radius": 1}, "k is 0"),
        ({"radius": -1}, "radius of -1"),
        ({"radius": float("nan")}, "radius of nan"),
    ]:
        with pytest.raises(kith.InvalidArgument, match=words):
            call(**arguments)
    with pytest.raises(TypeError, match="k: 2.5 is not an integer"):
        call(k=2.5)
    with pytest.raises(TypeError, match="radius: 'far' is not a number"):
        call(radius="far")


def test_neighbourhoods_that_a_tree_cannot_have():
    deep = kith.KdTree(random_rows("float64", 30, 4, 1))
    with pytest.raises(kith.InvalidArgument, match="dimension 2 or 3, these have 4"):
        deep.normals(k=5)
    tree = kith.KdTree(random_rows("float64", 30, 3, 1), "manhattan")
    for call in (tree.normals, tree.density):
        with pytest.raises(kith.InvalidArgument, match="euclidean"):
            call(k=5)
    tree = kith.KdTree(random_rows("float64", 30, 3, 1))
    with pytest.raises(kith.InvalidArgument, match="viewpoint has 2 coordinates, the points have 3"):
        tree.normals(k=5, viewpoint=[0, 0])
    with pytest.raises(kith.InvalidArgument, match="viewpoint: an array of 2 dimensions"):
        tree.normals(k=5, viewpoint=[[0, 0, 0]])
    for ratio in (-1, float("inf")):
        with pytest.raises(kith.InvalidArgument, match="ratio"):
            tree.outliers(k=5, ratio=ratio)


# Memory, files, pickles


def test_answers_keep_the_librarys_memory(Tree):
    X = random_rows("float32", 1000, 3, 1)
    tree = Tree(X)
    normals, curvature = tree.normals(k=5)
    outliers = tree.outliers(k=5)
    found = tree.radius_search(X, 0.1)
    arrays = [*tree.search(X, 3), *tree.all_knn(3), found.offsets, found.indices, found.distances, normals, curvature]
    arrays += [outliers.outlier, outliers.mean_distance, tree.density(k=3), tree.count_within(X, 0.1)]
    copies = [array.copy() for array in arrays]
    del tree, found, outliers
    gc.collect()
    for array, before in zip(arrays, copies, strict=True):
        assert not array.flags.owndata and array.flags.writeable and array.flags.c_contiguous
        np.testing.assert_array_equal(array, before)


def test_saved_loaded_and_pickled_trees_answer_the_same(Tree, dtype, tree_metric, tmp_path):
    X, Q = random_rows(dtype, 500, 3, 1), random_rows(dtype, 7, 3, 2)
    tree = Tree(X, tree_metric, leaf_size=9)
    path = tmp_path / "points.kith"
    tree.save(path)
    expected = tree.search(Q, 6)
    for again in (Tree.load(path), kith.load(str(path)), kith.PointTree.load(path), pickle.loads(pickle.dumps(tree))):
        assert type(again) is Tree
        assert (again.rows, again.dim, again.dtype, again.metric, again.leaf_size) == (500, 3, dtype, tree_metric, 9)
        assert_same(again.search(Q, 6), expected)
        assert_same(again.all_knn(3), tree.all_knn(3))
    assert copy.copy(tree) is tree and copy.deepcopy(tree) is tree


def test_files_of_another_type_are_refused(tmp_path):
    kith.KdTree(np.eye(3)).save(tmp_path / "kd.kith")
    kith.BruteForce(np.eye(3)).save(tmp_path / "bf.kith")
    for Class, name, type_ in [
        (kith.Octree, "kd.kith", "kd_tree"),
        (kith.BruteForce, "kd.kith", "kd_tree"),
        (kith.KdTree, "bf.kith", "brute_force"),
    ]:
        with pytest.raises(kith.IoError, match=f"holds an index of type {type_}; use kith.load"):
            Class.load(tmp_path / name)
    for arguments, words in [({"threads": -1}, "-1 threads"), ({"memory_limit": -5}, "-5"), ({"device": "tpu"}, "tpu")]:
        with pytest.raises(kith.InvalidArgument, match=words):
            kith.KdTree.load(tmp_path / "kd.kith", **arguments)
    with pytest.raises(TypeError, match="kith.KdTree"):
        kith.PointTree()


# How calls run

CALLS = {
    "search": lambda tree, X, **how: tree.search(X, 5, **how).indices,
    "all_knn": lambda tree, X, **how: tree.all_knn(5, **how).indices,
    "radius_search": lambda tree, X, **how: tree.radius_search(X, 0.1, **how).indices,
    "count_within": lambda tree, X, **how: tree.count_within(X, 0.1, **how),
    "normals": lambda tree, X, **how: tree.normals(k=8, **how).normals,
    "outliers": lambda tree, X, **how: tree.outliers(k=8, **how).mean_distance,
    "density": lambda tree, X, **how: tree.density(k=8, **how),
}


@pytest.mark.parametrize("name", CALLS)
def test_threads_change_no_bit(name):
    X = random_rows("float32", 20_000, 3, 1)
    expected = CALLS[name](kith.KdTree(X, threads=1), X, threads=1)
    for threads in (2, 3):
        assert CALLS[name](kith.KdTree(X, threads=threads), X, threads=threads).tobytes() == expected.tobytes()
    for threads in (-1, 5000):
        with pytest.raises(kith.InvalidArgument, match=f"{threads} threads"):
            CALLS[name](kith.KdTree(X[:9]), X[:9], threads=threads)


@pytest.mark.parametrize("name", CALLS)
def test_progress_of_every_call(name, Tree):
    X = random_rows("float32", 3000, 3, 1)
    tree = Tree(X)
    seen = []
    CALLS[name](tree, X, progress=lambda done, total: seen.append((done, total, threading.get_ident())))
    assert seen and seen[-1][0] == seen[-1][1] > 0 and {thread for *_, thread in seen} == {threading.get_ident()}

    def fail(done, total):
        raise LookupError("enough")

    with pytest.raises(LookupError, match="enough"):
        CALLS[name](tree, X, progress=fail)
    with pytest.raises(TypeError, match="progress"):
        CALLS[name](tree, X, progress=1)


def test_concurrent_searches_of_one_tree(Tree):
    X = random_rows("float32", 5000, 3, 1)
    tree = Tree(X)
    expected = [CALLS[name](tree, X) for name in CALLS]
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(lambda name: CALLS[name](tree, X, threads=2), list(CALLS) * 4))
    for answer, want in zip(answers, expected * 4, strict=True):
        assert answer.tobytes() == want.tobytes()


def test_progress_of_building_and_files(Tree, tmp_path):
    seen = []

    def note(done, total):
        seen.append((done, total))

    tree = Tree(random_rows("float32", 30_000, 3, 1), progress=note)
    assert seen and seen[-1][0] == seen[-1][1]
    tree.save(tmp_path / "i.kith", progress=note)
    Tree.load(tmp_path / "i.kith", progress=note)


@pytest.mark.parametrize("name", CALLS)
def test_devices(name, Tree):
    X = random_rows("float32", 100, 3, 1)
    tree = Tree(X)
    for device in (None, "cpu", "auto"):
        np.testing.assert_array_equal(CALLS[name](Tree(X, device=device), X, device=device), CALLS[name](tree, X))
    for call in (lambda d: CALLS[name](tree, X, device=d), lambda d: Tree(X, device=d)):
        with pytest.raises(kith.DeviceError):
            call("cuda:77")
        with pytest.raises(kith.InvalidArgument, match="'gpu'"):
            call("gpu")
    with pytest.raises(kith.DeviceError):
        kith.knn(X, X, 3, index=tree.type, device="cuda:77")


def test_scipys_and_scikit_learns_calls_answer_on_the_host(monkeypatch):
    # What an array on a GPU becomes; where there is none, another refusal comes first.
    tree = kith.KdTree(np.eye(3))
    monkeypatch.setattr("kith._tree_queries.gpu_rows", lambda *_: SimpleNamespace(device="cuda:0", dtype="float64"))
    for call in (lambda: tree.query(1), lambda: tree.query_ball_point(1, 1), lambda: tree.query_radius(1, 1)):
        with pytest.raises(TypeError, match=r"lies on cuda:0; query and its like answer in NumPy's arrays.*\.cpu\(\)"):
            call()


def test_memory_limits(Tree):
    X = random_rows("float32", 20_000, 3, 1)
    with pytest.raises(kith.OutOfMemory, match="the limit is 1000"):
        Tree(X, memory_limit=1000)
    tree = Tree(X, memory_limit=2**26)
    for call in (
        lambda limit: tree.search(X, 10, memory_limit=limit),
        lambda limit: tree.all_knn(10, memory_limit=limit),
        lambda limit: tree.radius_search(X, 0.5, memory_limit=limit),
        lambda limit: tree.count_within(X, 0.5, memory_limit=limit),
        lambda limit: tree.normals(5, memory_limit=limit),
        lambda limit: tree.outliers(5, memory_limit=limit),
        lambda limit: tree.density(5, memory_limit=limit),
    ):
        with pytest.raises(kith.OutOfMemory, match="the limit is 1000"):
            call(1000)
        with pytest.raises(kith.InvalidArgument, match="-1 bytes"):
            call(-1)
        call(2**32)


@pytest.mark.parametrize(
    ("dim", "call"),
    [
        (14, "tree.all_knn(9, threads=1)"),
        (14, "tree.search(X, 9, threads=1)"),
        (14, "kith.knn(X, X, 9, index='kd_tree', threads=1)"),
        (14, "tree.count_within(X, 9, threads=1)"),
        (3, "tree.normals(k=2000, threads=1)"),
    ],
)
def test_ctrl_c_ends_a_call_soon(dim, call):
    code, out, err = run_python(
        f"""
        import time
        import numpy as np
        import kith
        X = np.random.default_rng(1).standard_normal((300_000, {dim})).astype(np.float32)
        tree = kith.KdTree(X)
        print("ready")
        start = time.monotonic()
        try:
            {call}
        except KeyboardInterrupt:
            print("interrupted after", round(time.monotonic() - start, 1))
        """,
        interrupt_after=0.3,
    )
    assert code == 0, err
    assert out.startswith("interrupted after"), (out, err)
    assert float(out.split()[-1]) < 10  # seconds; the whole call takes minutes


# Bad input


def test_trees_that_cannot_be_built(Tree):
    with pytest.raises(kith.InvalidArgument, match="metric cosine has no bounding boxes"):
        Tree(np.eye(3), "cosine")
    with pytest.raises(kith.InvalidArgument, match="metric inner_product has no bounding boxes"):
        Tree(np.eye(3), "inner_product")
    with pytest.raises(kith.InvalidArgument, match="chebyshev"):
        Tree(np.eye(3), "chebyshev")
    for size in (-1, 4097):
        with pytest.raises(kith.InvalidArgument, match=f"leaf size of {size}"):
            Tree(np.eye(3), leaf_size=size)
    with pytest.raises(TypeError, match="metric: 16 is not a name.*leaf_size="):  # scipy's and scikit-learn's second
        Tree(np.eye(3), 16)
    with pytest.raises(TypeError, match="leaf_size: 1.5"):
        Tree(np.eye(3), leaf_size=1.5)
    with pytest.raises(TypeError, match="int64.*numpy.float64"):
        Tree(np.eye(3, dtype=np.int64))
    with pytest.raises(kith.InvalidArgument, match="dimension"):
        Tree(np.zeros(3))
    with pytest.raises(kith.InvalidArgument, match="-1 threads"):
        Tree(np.eye(3), threads=-1)
    with pytest.raises(kith.InvalidArgument, match="dim"):
        kith.Octree(np.eye(4))


def test_searches_that_cannot_be_done(Tree):
    tree = Tree(random_rows("float32", 30, 3, 1))
    Q = random_rows("float32", 2, 3, 2)
    for call, words in [
        (lambda: tree.search(Q, 0), "k is 0"),
        (lambda: tree.all_knn(0), "k is 0"),
        (lambda: tree.search(Q, 2**63), "k is 9223372036854775808"),
        (lambda: tree.search(Q, 1, -1), "radius of -1"),
        (lambda: tree.all_knn(1, radius=float("nan")), "radius of nan"),
        (lambda: tree.radius_search(Q, -1), "radius of -1"),
        (lambda: tree.count_within(Q, -1), "radius of -1"),
        (lambda: tree.radius_search(Q, 1, max_neighbors=-1), "at most -1"),
        (lambda: tree.search(Q[:, :2], 1), "dimension 2.*3"),
        (lambda: tree.radius_search(Q[:, :2], 1), "dimension 2.*3"),
    ]:
        with pytest.raises(kith.InvalidArgument, match=words):
            call()
    for call, words in [
        (lambda: tree.search(Q.astype(np.float64), 1), "would round them"),
        (lambda: tree.radius_search(Q, "1 m"), "radius: '1 m' is not a number"),
        (lambda: tree.search(Q, 1.5), "k: 1.5 is not an integer"),
        (lambda: tree.radius_search(Q, 1, max_neighbors=0.5), "max_neighbors: 0.5"),
    ]:
        with pytest.raises(TypeError, match=words):
            call()


def test_no_rows_and_no_queries(Tree):
    tree = Tree(np.empty((0, 3)))
    assert tree.search(np.eye(3), 2).indices.tolist() == [[-1, -1]] * 3
    assert tree.radius_search(np.eye(3), 2).counts().tolist() == [0, 0, 0]
    assert tree.count_within(np.eye(3), 2).tolist() == [0, 0, 0]
    assert tree.all_knn(2).indices.shape == (0, 2)
    assert tree.normals(k=3).normals.shape == (0, 3) and tree.outliers(k=3).outlier.shape == (0,)
    assert tree.density(k=3).shape == (0,)
    assert Tree(np.eye(3)).search(np.empty((0, 3)), 2).indices.shape == (0, 2)
    one = Tree(np.ones((1, 3)))
    assert one.all_knn(1).indices.tolist() == [[-1]] and one.search(np.zeros((1, 3)), 1).distances.tolist() == [[3]]


# knn(index=...)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("index", ["auto", "brute_force", "kd_tree", "octree"])
def test_knn_by_any_index_gives_the_same_bits(index, metric, dtype):
    X, Q = random_rows(dtype, 2000, 3, 1), random_rows(dtype, 30, 3, 2)
    answer = kith.knn(X, Q, 6, metric, index=index)
    assert_same(answer, kith.BruteForce(X, metric).search(Q, 6))
    if index != "auto":
        assert answer.statistics.index == index


def test_knn_takes_what_choose_index_names():
    X = random_rows("float32", 30_000, 3, 1)
    choice = kith.choose_index(30_000, 3, 30_000, 4)
    assert choice.index == "kd_tree" and choice.reason
    answer = kith.knn(X, X, 4)
    assert answer.statistics.index == "kd_tree"
    for queries in (1, 100, 3000):
        few = kith.knn(X, X[:queries], 4)
        assert few.statistics.index == kith.choose_index(30_000, 3, queries, 4).index
    # A filter that is named, a metric without boxes, a limit that holds no tree: brute force.
    for arguments in ({"filter": "fp32"}, {"filter": "none"}, {"metric": "cosine"}, {"memory_limit": 1_400_000}):
        assert kith.knn(X, X[:3000], 4, **arguments).statistics.index == "brute_force"
    assert_same(kith.knn(X, X[:3000], 4, memory_limit=1_400_000), kith.knn(X, X[:3000], 4))
    wide = kith.knn(X, X[:3000].astype(np.float64), 4)  # widened on the way
    assert wide.distances.dtype == np.float64


def test_knn_refuses_what_an_index_cannot_do():
    X = random_rows("float32", 3000, 3, 1)
    for arguments, words in [
        ({"index": "kd_tree", "metric": "cosine"}, "cosine has no bounding boxes"),
        ({"index": "kd_tree", "filter": "int8"}, "filter int8 belongs to brute force"),
        ({"index": "graph"}, "index 'graph'.*kd_tree"),
    ]:
        with pytest.raises(kith.InvalidArgument, match=words):
            kith.knn(X, X[:2], 1, **arguments)
    with pytest.raises(kith.InvalidArgument, match="dim"):
        kith.knn(np.eye(4), np.eye(4), 1, index="octree")
    for index in ("kd_tree", "auto", "octree"):
        with pytest.raises(kith.InvalidArgument, match="k is 0"):
            kith.knn(X, X, 0, index=index)
        with pytest.raises(kith.InvalidArgument, match="dimension 2"):
            kith.knn(X, X[:, :2], 1, index=index)
    with pytest.raises(kith.OutOfMemory):
        kith.knn(X, X, 4, index="kd_tree", memory_limit=1000)
    # The tree itself counts: with what is left the answer does not fit.
    answer = 3000 * 100 * 12
    with pytest.raises(kith.OutOfMemory):
        kith.knn(X, X, 100, index="kd_tree", memory_limit=answer + 1000)
    assert kith.knn(X, X, 100, index="kd_tree", memory_limit=2 * answer).indices.shape == (3000, 100)


def test_choose_index():
    assert kith.choose_index(10**7, 3).index == "kd_tree"
    assert kith.choose_index(10**7, 3, 1).index == "brute_force"
    # Every argument counts, wherever the crossovers lie.
    for changes in ({"k": 10**7}, {"dim": 128}, {"queries": 1}, {"metric": "cosine"}):
        given = {"rows": 10**7, "dim": 3, "queries": 0, "k": 1} | changes
        assert kith.choose_index(**given).index == "brute_force", changes
    assert kith.choose_index(10**7, 128).index == "brute_force"
    assert kith.choose_index(10**7, 3, metric="cosine").index == "brute_force"
    assert kith.choose_index(10**7, 128, recall=0.95).index == "vamana"
    assert kith.choose_index(10**7, 128, 10, recall=0.95).index == "brute_force"
    for arguments, words in [
        ((-1, 3), "rows is -1"),
        ((1, 0), "dim is 0"),
        ((1, 1, -1), "queries is -1"),
        ((1, 1, 0, 0), "k is 0"),
        ((1, 1, 0, 1, "l2"), "l2"),
        ((1, 1, 0, 1, "euclidean", "gpu"), "gpu"),
        ((1, 1, 0, 1, "euclidean", "cpu", 0), "recall of 0"),
        ((1, 1, 0, 1, "euclidean", "cpu", 1.5), "recall of 1.5"),
    ]:
        with pytest.raises(kith.InvalidArgument, match=words):
            kith.choose_index(*arguments)
    with pytest.raises(TypeError, match="rows: 1.5"):
        kith.choose_index(1.5, 3)
