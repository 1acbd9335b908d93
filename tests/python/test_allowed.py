"""allowed=: only some rows may be found, by every index."""

from __future__ import annotations

import kith
import numpy as np
import pytest

N = 2000


@pytest.fixture(scope="module")
def data():
    random = np.random.default_rng(12)
    return random.standard_normal((N, 3)).astype(np.float32), random.standard_normal((40, 3)).astype(np.float32)


def expected(X, Q, flags, k):
    """The answer over the allowed rows alone, in the numbers of all."""
    answer = kith.knn(X[flags], Q, k, index="brute_force")
    indices = np.where(answer.indices < 0, -1, np.flatnonzero(flags)[answer.indices]) if flags.any() else answer.indices
    return answer.distances, indices


@pytest.mark.parametrize("index", ["brute_force", "kd_tree", "octree", "vamana"])
@pytest.mark.parametrize("share", [1, 0.5, 0.1, 0.01, 1 / N, 0])
def test_the_nearest_allowed_rows(data, index, share):
    X, Q = data
    flags = np.zeros(N, bool)
    flags[np.random.default_rng(3).permutation(N)[: int(share * N)]] = True
    distances, indices = expected(X, Q, flags, 10)
    more = {"recall": 1.0} if index == "vamana" else {}
    built = {"brute_force": kith.BruteForce, "kd_tree": kith.KdTree, "octree": kith.Octree, "vamana": kith.Vamana}[
        index
    ](X)
    for answer in (
        built.search(Q, 10, allowed=flags, **more),
        built.search(Q, 10, allowed=list(flags), **more),
        *([kith.knn(X, Q, 10, index=index, allowed=flags)] if index != "vamana" else []),
    ):
        assert np.array_equal(answer.indices, indices)
        assert np.array_equal(answer.distances, distances)


def test_a_radius_holds_beside_it(data):
    X, Q = data
    flags = np.arange(N) % 7 == 0
    distances, indices = expected(X, Q, flags, 10)
    near = distances <= 0.2
    answer = kith.KdTree(X).search(Q, 10, 0.2, allowed=flags)
    assert np.array_equal(answer.indices, np.where(near, indices, -1))
    assert np.array_equal(answer.distances, np.where(near, distances, np.inf))


def test_what_is_no_set_of_rows_is_refused(data):
    X, Q = data
    tree = kith.KdTree(X)
    with pytest.raises(TypeError, match=r"an array of int64.*flags\[numbers\] = True"):
        tree.search(Q, allowed=np.arange(5))
    with pytest.raises(kith.InvalidArgument, match=r"shape \(5,\), \(2000,\) is needed"):
        tree.search(Q, allowed=np.ones(5, bool))
    with pytest.raises(kith.InvalidArgument, match="shape"):
        kith.knn(X, Q, allowed=np.ones((N, 1), bool))
