"""Answers of knn and BruteForce against the float64 oracle, and the edges of the contract."""

from __future__ import annotations

import kith
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from .oracle import DTYPES, FILTERS, METRICS, assert_exact, oracle_distances, random_rows


@pytest.mark.parametrize("dim", [1, 3, 17, 64])
def test_every_element_type_and_metric(dtype, metric, dim):
    X, Q = random_rows(dtype, 300, dim, 1), random_rows(dtype, 11, dim, 2)
    assert_exact(kith.knn(X, Q, 7, metric=metric), X, Q, 7, metric)


@given(
    dtype=st.sampled_from(list(DTYPES)),
    metric=st.sampled_from(METRICS),
    filter=st.sampled_from(FILTERS),
    rows=st.integers(0, 70),
    queries=st.integers(0, 9),
    dim=st.integers(1, 40),
    k=st.integers(1, 80),
    seed=st.integers(0, 2**32 - 1),
)
@settings(max_examples=150, deadline=None)
def test_any_shape(dtype, metric, filter, rows, queries, dim, k, seed):
    X, Q = random_rows(dtype, rows, dim, seed), random_rows(dtype, queries, dim, seed + 1)
    answer = kith.knn(X, Q, k, metric=metric, filter=filter)
    assert_exact(answer, X, Q, k, metric)
    kept = kith.BruteForce(X, metric=metric, filter=filter).search(Q, k)
    np.testing.assert_array_equal(kept.indices, answer.indices)
    np.testing.assert_array_equal(kept.distances, answer.distances)


@pytest.mark.parametrize("metric", ["sqeuclidean", "manhattan", "inner_product"])
def test_integers_are_exact_and_ties_go_to_the_lower_row(metric):
    rng = np.random.default_rng(5)
    X = rng.integers(0, 3, (400, 4)).astype(np.uint8)  # 81 different rows: full of ties
    Q = rng.integers(0, 3, (20, 4)).astype(np.uint8)
    distances, indices = kith.knn(X, Q, 50, metric=metric)
    every = oracle_distances(X, Q, metric)
    expected = np.argsort(every, axis=1, kind="stable")[:, :50]
    np.testing.assert_array_equal(indices, expected)
    np.testing.assert_array_equal(distances, np.take_along_axis(every, expected, 1))


def test_metrics_say_what_they_mean():
    X, Q = np.array([[3.0, 4.0], [0.0, 2.0]]), np.array([[0.0, 1.0]])
    expected = {
        "sqeuclidean": [1, 18],
        "euclidean": [1, np.sqrt(18)],
        "manhattan": [1, 6],
        "inner_product": [-4, -2],
        "cosine": [0, 1 - 4 / 5],
    }
    for metric, values in expected.items():
        distances, indices = kith.knn(X, Q, 2, metric=metric)
        np.testing.assert_allclose(distances, [values], rtol=1e-15, atol=1e-16)
        assert indices.tolist() == ([[0, 1]] if metric == "inner_product" else [[1, 0]])


def test_default_k_and_metric():
    X = random_rows("float32", 30, 4, 1)
    answer = kith.knn(X, X[:2])
    assert answer.indices.shape == (2, 10)
    np.testing.assert_array_equal(answer.distances, kith.knn(X, X[:2], 10, "sqeuclidean").distances)
    np.testing.assert_array_equal(kith.BruteForce(X).search(X[:2]).indices, answer.indices)


def test_more_neighbours_than_rows_are_padded():
    answer = kith.knn(np.eye(3), np.eye(3)[:1], 5)
    assert answer.indices.tolist() == [[0, 1, 2, -1, -1]]
    assert answer.distances.tolist() == [[0, 2, 2, np.inf, np.inf]]


def test_no_rows_and_no_queries(dtype):
    nothing, rows = np.empty((0, 4), DTYPES[dtype]), random_rows(dtype, 5, 4, 1)
    answer = kith.knn(nothing, rows, 2)
    assert (answer.indices == -1).all() and np.isposinf(answer.distances).all()
    answer = kith.knn(rows, nothing, 2)
    assert answer.indices.shape == answer.distances.shape == (0, 2)
    assert kith.knn(nothing, nothing, 1).indices.shape == (0, 1)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize("metric", METRICS)
def test_rows_with_nan_are_never_found_and_are_counted(dtype, metric):
    X = random_rows(dtype, 40, 5, 1)
    X[3, 2] = X[17, 0] = np.nan
    Q = random_rows(dtype, 6, 5, 2)
    Q[4, 4] = np.nan
    answer = kith.knn(X, Q, 40, metric=metric)
    good = [0, 1, 2, 3, 5]
    assert (answer.indices[4] == -1).all() and np.isposinf(answer.distances[4]).all()
    assert (answer.indices[good, 38:] == -1).all()
    expected = sorted(set(range(40)) - {3, 17})
    assert all(sorted(answer.indices[q, :38]) == expected for q in good)
    assert not np.isnan(answer.distances).any()
    assert answer.statistics.nan_rows == 2
    assert answer.statistics.nan_queries == 1


def test_zero_vectors_under_cosine_are_at_distance_one():
    X = np.array([[0.0, 0.0], [1.0, 0.0], [-1.0, 0.0]])
    distances, indices = kith.knn(X, np.array([[2.0, 0.0], [0.0, 0.0]]), 3, metric="cosine")
    assert indices.tolist() == [[1, 0, 2], [0, 1, 2]]
    assert distances.tolist() == [[0, 1, 2], [1, 1, 1]]


def test_float64_tells_rows_apart_that_float32_merges():
    X = np.array([[500000.0, 4e6], [500000.001, 4e6], [500000.002, 4e6]])
    distances, indices = kith.knn(X, X, 1)
    assert indices.ravel().tolist() == [0, 1, 2]
    assert distances.dtype == np.float64 and (distances == 0).all()


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_threads_change_no_bit(dtype, metric, threads):
    X, Q = random_rows(dtype, 3000, 24, 1), random_rows(dtype, 70, 24, 2)
    alone = kith.knn(X, Q, 12, metric=metric, threads=1)
    index = kith.BruteForce(X, metric=metric, threads=threads)
    for other in (kith.knn(X, Q, 12, metric=metric, threads=threads), index.search(Q, 12, threads=threads)):
        np.testing.assert_array_equal(other.indices, alone.indices)
        assert other.distances.tobytes() == alone.distances.tobytes()


@pytest.mark.parametrize("filter", FILTERS)
def test_filters_change_no_bit(dtype, filter):
    X, Q = random_rows(dtype, 2000, 32, 1), random_rows(dtype, 30, 32, 2)
    expected = kith.knn(X, Q, 9, filter="none")
    answer = kith.knn(X, Q, 9, filter=filter)
    np.testing.assert_array_equal(answer.indices, expected.indices)
    assert answer.distances.tobytes() == expected.distances.tobytes()
    index = kith.BruteForce(X, filter=filter)
    assert index.filter in FILTERS[1:]
    if filter != "auto":
        assert index.filter == filter
        assert index.search(Q, 3).statistics.filter == filter


def test_one_query_may_be_one_dimensional():
    X = random_rows("float32", 20, 6, 1)
    answer = kith.knn(X, X[4], 3)
    assert answer.indices.dtype is np.dtype(np.int64)
    assert answer.indices.shape == (1, 3) and answer.indices[0, 0] == 4
    np.testing.assert_array_equal(kith.BruteForce(X).search(X[4], 3).indices, answer.indices)


NARROWER = {
    ("int8", "uint8"): "float32",
    ("int8", "float16"): "float16",
    ("uint8", "float16"): "float16",
    ("int8", "bfloat16"): "bfloat16",
    ("uint8", "bfloat16"): "bfloat16",
    ("float16", "bfloat16"): "float32",
    ("float16", "float32"): "float32",
    ("float32", "float64"): "float64",
    ("uint8", "float64"): "float64",
}


@pytest.mark.parametrize(("pair", "common"), NARROWER.items())
def test_element_types_that_differ_meet_in_the_common_one(pair, common):
    a, b = random_rows(pair[0], 60, 8, 1), random_rows(pair[1], 9, 8, 2)
    for X, Q in ((a, b), (np.concatenate([b, b, b]), a[:5])):
        mixed = kith.knn(X, Q, 5)
        same = kith.knn(X.astype(DTYPES[common]), Q.astype(DTYPES[common]), 5)
        np.testing.assert_array_equal(mixed.indices, same.indices)
        assert mixed.distances.dtype == same.distances.dtype
        np.testing.assert_array_equal(mixed.distances, same.distances)
    # NumPy has int16 for int8 with uint8, and nothing for its float16 with bfloat16.
    if set(pair) not in ({"int8", "uint8"}, {"float16", "bfloat16"}):
        assert DTYPES[common] == np.result_type(a, b)


def test_queries_are_widened_to_the_index_but_never_rounded():
    X = random_rows("float32", 50, 8, 1)
    index = kith.BruteForce(X)
    for narrow in ("float16", "bfloat16", "int8", "uint8"):
        Q = random_rows(narrow, 4, 8, 2)
        np.testing.assert_array_equal(index.search(Q, 3).indices, kith.knn(X, Q.astype(np.float32), 3).indices)
    with pytest.raises(TypeError, match=r"queries: .*float64.*float32.*astype\(numpy.float32\)"):
        index.search(X[:2].astype(np.float64), 3)
    with pytest.raises(TypeError, match=r"astype\(ml_dtypes.bfloat16\)"):
        kith.BruteForce(random_rows("bfloat16", 5, 8, 1)).search(X[:1], 3)


def test_k_may_be_any_integer_and_nothing_else():
    X = np.eye(4)
    assert kith.knn(X, X, np.int32(2)).indices.shape == (4, 2)
    with pytest.raises(TypeError, match="k: 2.0 is not an integer"):
        kith.knn(X, X, 2.0)
    with pytest.raises(kith.InvalidArgument, match="k is 0"):
        kith.knn(X, X, 0)
    with pytest.raises(kith.InvalidArgument, match="k is -1"):
        kith.BruteForce(X).search(X, -1)
    with pytest.raises(kith.InvalidArgument, match="k is 9223372036854775808"):
        kith.knn(X, X, 2**63)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"metric": "l2"}, "euclidean.*sqeuclidean"),
        ({"metric": "chebyshev"}, "chebyshev"),
        ({"filter": "fp8"}, "fp8"),
        ({"threads": -1}, "-1 threads"),
        ({"threads": 5000}, "5000 threads"),
        ({"memory_limit": -1}, "limit of -1 bytes"),
        ({"device_memory_limit": -1}, "device memory limit of -1 bytes"),
        ({"device_memory_limit": 2**20}, "the device cpu is no GPU"),
        ({"device": "gpu"}, "'gpu'"),
    ],
)
def test_arguments_outside_the_limits(arguments, words):
    X = np.eye(4)
    for call in (lambda: kith.knn(X, X, 1, **arguments), lambda: kith.BruteForce(X, **arguments)):
        with pytest.raises(kith.InvalidArgument, match=words) as caught:
            call()
        assert isinstance(caught.value, ValueError) and isinstance(caught.value, kith.Error)
    if arguments.keys() & {"threads", "memory_limit", "device"}:
        with pytest.raises(kith.InvalidArgument, match=words):
            kith.BruteForce(X).search(X, 1, **arguments)


def test_dimensions_must_agree():
    with pytest.raises(kith.InvalidArgument, match="dimension 3.*4"):
        kith.knn(np.eye(4), np.eye(3), 1)
    with pytest.raises(kith.InvalidArgument, match="dimension 0"):
        kith.knn(np.empty((3, 0)), np.empty((3, 0)), 1)


def test_a_device_that_is_not_there():
    here = {device.name for device in kith.devices()}
    with pytest.raises(kith.DeviceError) as caught:
        kith.knn(np.eye(2), np.eye(2), 1, device="cuda:99")
    assert isinstance(caught.value, RuntimeError)
    assert "cuda:99" not in here and "cpu" in here
    assert kith.knn(np.eye(2), np.eye(2), 1, device="cpu").indices.tolist() == [[0], [1]]


def test_memory_limit_is_kept_or_refused():
    X, Q = random_rows("float32", 20000, 64, 1), random_rows("float32", 2000, 64, 2)
    with pytest.raises(kith.OutOfMemory, match="1000|byte") as caught:
        kith.knn(X, Q, 100, memory_limit=1000)
    assert isinstance(caught.value, MemoryError)
    enough = kith.knn(X, Q, 100, memory_limit=2**30)
    np.testing.assert_array_equal(enough.indices, kith.knn(X, Q, 100).indices)
