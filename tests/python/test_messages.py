"""What the package says is true and can be followed from Python."""

from __future__ import annotations

import kith
import numpy as np
import pytest

X = np.random.default_rng(1).random((50, 3)).astype(np.float32)


@pytest.mark.parametrize("index", ["foo", "", "bruteforce"])
def test_unknown_indexes_name_the_choices(index):
    with pytest.raises(
        kith.InvalidArgument,
        match=rf"index '{index}' is not one Kith knows; use brute_force, kd_tree, octree, vamana or auto",
    ):
        kith.knn(X, X, 2, index=index)


@pytest.mark.parametrize("call", [
    lambda **names: kith.knn(X, X, 2, **names),
    lambda **names: kith.BruteForce(X, **names),
    lambda **names: kith.KdTree(X, **names),
    lambda **names: kith.choose_index(50, 3, **names),
], ids=["knn", "BruteForce", "KdTree", "choose_index"])  # fmt: skip
@pytest.mark.parametrize("value", [1, None, b"euclidean"])
def test_metrics_that_are_no_names(call, value):
    with pytest.raises(TypeError, match=r"metric: .* is not a name; use 'sqeuclidean', 'euclidean'"):
        call(metric=value)


@pytest.mark.parametrize(
    "names, message",
    [
        ({"index": 3}, r"index: 3 is not a name; use 'brute_force', 'kd_tree', 'octree', 'vamana' or 'auto'"),
        ({"filter": 8}, r"filter: 8 is not a name; use 'auto', 'int8', 'fp16', 'fp32' or 'none'"),
        ({"device": 0}, r"device: 0 is not a name; use 'cpu', 'cuda', 'cuda:1', 'cuda:0,1', 'all' or 'auto'"),
    ],
)
def test_other_names_that_are_none(names, message):
    with pytest.raises(TypeError, match=message):
        kith.knn(X, X, 2, **names)


def test_a_missing_gpu_is_told_without_options_of_the_command():
    with pytest.raises(kith.DeviceError, match="use the device cpu") as caught:
        kith.knn(X, X, 2, device="cuda:99")
    assert "--" not in str(caught.value)


def test_one_dimension():
    with pytest.raises(kith.InvalidArgument, match="an array of 1 dimension;"):
        kith.KdTree(X[:, 0])
    with pytest.raises(kith.InvalidArgument, match="an array of 3 dimensions;"):
        kith.KdTree(X[None])


def test_a_tree_does_not_pay_off_for_one_query():
    assert "a tree over 100000 rows does not pay off for 1 query " in kith.choose_index(100_000, 3, 1, 10).reason


def test_a_path_where_rows_are_wanted_names_read():
    with pytest.raises(TypeError, match=r"dataset: .*kith\.read\(path\) gives those of a file"):
        kith.BruteForce("rows.npy")


def test_rows_of_different_lengths():
    with pytest.raises(kith.InvalidArgument, match="queries: rows of different lengths"):
        kith.knn(X, [[1.0, 2.0, 3.0], [4.0]], 1)


def test_a_folder_is_opened_by_its_own_class(tmp_path):
    kith.Sharded.build(X, tmp_path / "shards", 2)
    with pytest.raises(kith.IoError, match=r"is a folder; open shards with kith\.Sharded\.open, point tiles with"):
        kith.load(tmp_path / "shards")
    with pytest.raises(TypeError, match=r"Sharded are made by Sharded\.build"):
        kith.Sharded(tmp_path / "shards")
    with pytest.raises(TypeError, match="is one folder; a list of folders is needed"):
        kith.Sharded.join(tmp_path / "joined", str(tmp_path / "shards"))


def test_more_neighbours_than_memory_holds():
    tree = kith.KdTree(X)
    for call in (tree.query, tree.search):
        with pytest.raises(kith.OutOfMemory, match="ask for fewer neighbours"):
            call(X[:2], 2**40)


def test_radii_that_are_none():
    tree = kith.KdTree(X)
    for call in (tree.radius_search, tree.count_within, tree.query_radius, tree.query_ball_point):
        with pytest.raises(TypeError, match="'0.5' is not a number"):
            call(X[:2], "0.5")
        with pytest.raises(kith.InvalidArgument, match="beyond float64"):
            call(X[:2], 10**400)
    with pytest.raises(TypeError, match="r: an array of <U3 is not one of numbers"):
        tree.query_radius(X[:2], ["0.5", "0.6"])


def test_a_viewpoint_that_is_none(tmp_path):
    tiles = kith.PointTiles.build(tmp_path / "tiles", X)
    for normals in (kith.KdTree(X).normals, lambda **options: tiles.normals(tmp_path / "normals.npy", **options)):
        with pytest.raises(TypeError, match="viewpoint: 'x' is not an array of numbers"):
            normals(k=5, viewpoint="x")
        with pytest.raises(kith.InvalidArgument, match=r"viewpoint: an array of 2 dimensions; \[dim\] is needed"):
            normals(k=5, viewpoint=[[0, 0, 0]])
