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
