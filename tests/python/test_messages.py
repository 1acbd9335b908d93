"""What the package says is true and can be followed from Python."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from pathlib import Path

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


@pytest.mark.parametrize("path", ["rows.npy", b"rows.npy", Path("rows.npy")])
def test_a_path_where_rows_are_wanted_names_read(path):
    for call in (kith.BruteForce, kith.KdTree(X).query, lambda rows: kith.knn(X, rows, 1)):
        with pytest.raises(TypeError, match=r"is a path, not an array; read it with kith\.read\(path\)"):
            call(path)


def test_lists_of_different_lengths():
    tree = kith.KdTree(X)
    for call in (tree.query, lambda rows: kith.knn(X, rows, 1), lambda rows: tree.query_radius(rows, 1)):
        with pytest.raises(kith.InvalidArgument, match="queries: lists of different lengths"):
            call([[1.0, 2.0, 3.0], [4.0]])
    with pytest.raises(kith.InvalidArgument, match="r: lists of different lengths"):
        tree.query_radius(X[:2], [[0.5], [0.5, 0.6]])
    with pytest.raises(kith.InvalidArgument, match="allowed: lists of different lengths"):
        kith.knn(X, X, 1, allowed=[[True], [True, False]])


def test_what_an_array_says_itself_is_kept():
    class Lazy:
        def __array__(self, *_args, **_kwargs):
            raise ValueError("chunk 7 cannot be decoded")

    with pytest.raises(ValueError, match="chunk 7 cannot be decoded"):
        kith.KdTree(Lazy())


def test_a_folder_is_opened_by_its_own_class(tmp_path):
    shards = kith.Sharded.build(X, tmp_path / "shards", 2)
    for path in (tmp_path / "shards", str(tmp_path / "shards").encode()):
        with pytest.raises(
            kith.IoError, match=r"shards' is a folder; open shards with kith\.Sharded\.open, point tiles"
        ):
            kith.load(path)
    with pytest.raises(TypeError, match=r"Sharded are made by Sharded\.build"):
        kith.Sharded(tmp_path / "shards")
    with pytest.raises(TypeError, match=r"PointTiles are made by PointTiles\.build"):
        kith.PointTiles(tmp_path / "tiles")
    with pytest.raises(TypeError, match="is one folder; a list of folders is needed"):
        kith.Sharded.join(tmp_path / "joined", str(tmp_path / "shards"))
    for parts in (None, [1], [shards]):
        with pytest.raises(TypeError, match="parts: a list of folders is needed"):
            kith.Sharded.join(tmp_path / "joined", parts)


def test_a_member_where_there_is_none(tmp_path):
    np.save(tmp_path / "rows.npy", X)
    with pytest.raises(kith.InvalidArgument, match="no members to choose 'a' from; leave the member out"):
        kith.read(tmp_path / "rows.npy", member="a")


def test_codes_above_the_limit():
    with pytest.raises(kith.OutOfMemory, match=r"raise it, or use filter auto or none \(build a saved index again"):
        kith.BruteForce(X, filter="fp32", memory_limit=10)


def test_more_neighbours_than_memory_holds():
    tree = kith.KdTree(X)
    for call in (tree.query, tree.search):
        with pytest.raises(kith.OutOfMemory, match="ask for fewer neighbours"):
            call(X[:2], 2**40)


def test_what_is_not_a_radius(tmp_path):
    tree, tiles = kith.KdTree(X), kith.PointTiles.build(tmp_path / "tiles", X)
    for call in (
        tree.radius_search,
        tree.count_within,
        tree.query_radius,
        tree.query_ball_point,
        lambda rows, radius: tiles.search(rows, 1, radius=radius),
        lambda rows, radius: tiles.all_knn(tmp_path / "answer", 1, radius=radius),
    ):
        for text in ("0.5", np.array("0.5")):
            with pytest.raises(TypeError, match="is not a number|text in place of numbers"):
                call(X[:2], text)
        for number in (10**400, -(10**400)):
            with pytest.raises(kith.InvalidArgument, match="does not fit in float64"):
                call(X[:2], number)
    with pytest.raises(TypeError, match="r: text in place of numbers"):
        tree.query_radius(X[:2], ["0.5", "0.6"])
    with pytest.raises(kith.InvalidArgument, match="r: a number does not fit in float64"):
        tree.query_radius(X[:2], [10**400, 1])


@pytest.mark.parametrize("numbers", [[Decimal("0.5")] * 2, [Fraction(1, 2)] * 2, np.array([0.5, 0.5], object)])
def test_radii_of_other_number_types(numbers):
    tree = kith.KdTree(X)
    for found, wanted in zip(tree.query_radius(X[:2], numbers), tree.query_radius(X[:2], 0.5), strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_what_is_not_a_viewpoint(tmp_path):
    tiles = kith.PointTiles.build(tmp_path / "tiles", X)
    for normals in (kith.KdTree(X).normals, lambda **options: tiles.normals(tmp_path / "normals.npy", **options)):
        for text in ("x", ["9", "9", "9"]):
            with pytest.raises(TypeError, match="viewpoint: text in place of numbers"):
                normals(k=5, viewpoint=text)
        with pytest.raises(kith.InvalidArgument, match=r"viewpoint: an array of 2 dimensions; \[dim\] is needed"):
            normals(k=5, viewpoint=[[0, 0, 0]])
        with pytest.raises(kith.InvalidArgument, match="coordinate 1 of the viewpoint is nan; use a number"):
            normals(k=5, viewpoint=[0, np.nan, 0])
        with pytest.raises(kith.InvalidArgument, match="viewpoint: a number does not fit in float64"):
            normals(k=5, viewpoint=[10**400, 0, 0])


def test_lists_of_different_lengths_elsewhere(tmp_path):
    ragged = (None, [[1, 2], [3]])
    kith.write(tmp_path / "a.ply", X)
    for call, what in (
        (lambda: kith.evaluate(ragged, np.zeros((2, 2), int)), "indices"),
        (lambda: kith.write_neighbors(tmp_path / "r", ragged), "indices"),
        (
            lambda: kith.copy_points(tmp_path / "b.ply", tmp_path / "a.ply", columns={"a": [[1], [1, 2]]}),
            "columns: 'a'",
        ),
        (lambda: kith.copy_points(tmp_path / "b.ply", tmp_path / "a.ply", keep=[[True], [True, False]]), "keep"),
        (lambda: kith.PointTiles.build(tmp_path / "t", iter([[[1.0, 2.0], [4.0]]])), "clouds"),
    ):
        with pytest.raises(kith.InvalidArgument, match=f"{what}: lists of different lengths"):
            call()
    with pytest.raises(TypeError, match="columns: text in place of numbers"):
        kith.copy_points(tmp_path / "b.ply", tmp_path / "a.ply", columns={"a": ["x"] * len(X)})
    with pytest.raises(TypeError, match="clouds: str.* in place of numbers"):
        kith.PointTiles.build(tmp_path / "t", iter([[["1", "2", "3"]]]))
