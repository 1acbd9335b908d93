"""Index objects: properties, files, pickles, results."""

from __future__ import annotations

import copy
import os
import pickle

import kith
import numpy as np
import pytest

from .oracle import DTYPES, random_rows


def test_properties(dtype, metric):
    index = kith.BruteForce(random_rows(dtype, 30, 7, 1), metric=metric)
    assert (index.rows, index.dim, index.dtype, index.metric) == (30, 7, dtype, metric)
    assert index.type == "brute_force"
    assert index.filter in ("int8", "fp16", "fp32", "none")
    assert index.memory_bytes >= 0
    assert repr(index) == f"BruteForce(30 x 7 {dtype}, {metric})"


def test_saved_and_loaded_answers_the_same(dtype, metric, tmp_path):
    X, Q = random_rows(dtype, 60, 5, 1)[::2], random_rows(dtype, 4, 5, 2)
    path = tmp_path / "rows.kith"
    index = kith.BruteForce(X, metric=metric)
    index.save(path)
    expected = index.search(Q, 6)
    for again in (kith.BruteForce.load(path), kith.load(str(path))):
        assert type(again) is kith.BruteForce
        assert (again.rows, again.dim, again.dtype, again.metric) == (30, 5, dtype, metric)
        answer = again.search(Q, 6)
        np.testing.assert_array_equal(answer.indices, expected.indices)
        assert answer.distances.tobytes() == expected.distances.tobytes()


def test_leading_directions_are_left_out_on_request():
    random = np.random.default_rng(5)
    X = (random.random((20_000, 128)) * np.exp(-np.arange(128) / 6)).astype(np.float32)
    along, plain = kith.BruteForce(X), kith.BruteForce(X, directions=False)
    answers = [index.search(X[:40], 5) for index in (along, plain)]
    assert answers[0].statistics.directions > 0
    assert answers[1].statistics.directions == 0
    np.testing.assert_array_equal(answers[0].indices, answers[1].indices)
    assert answers[0].distances.tobytes() == answers[1].distances.tobytes()


def in_clusters(rows: int, dim: int) -> np.ndarray:
    random = np.random.default_rng(8)
    centres = random.standard_normal((30, dim))
    return (centres[random.integers(30, size=rows)] + 0.05 * random.standard_normal((rows, dim))).astype(np.float32)


@pytest.mark.parametrize("metric", ["sqeuclidean", "cosine"])
def test_clustered_rows_are_searched_by_lists(metric):
    X = in_clusters(30_000, 32)
    indexes = [kith.BruteForce(X, metric, lists=lists) for lists in (None, 0, 12)]
    chosen, plain, asked = (index.search(X[:40], 5) for index in indexes)
    assert chosen.statistics.lists > 20 and asked.statistics.lists > 4
    assert plain.statistics.lists == 0
    assert chosen.statistics.pairs < plain.statistics.pairs / 4
    for answer in (chosen, asked):
        np.testing.assert_array_equal(answer.indices, plain.indices)
        assert answer.distances.tobytes() == plain.distances.tobytes()


def test_lists_are_saved_as_they_were_asked_for(tmp_path):
    X = in_clusters(30_000, 32)
    for lists in (0, 9):
        kith.BruteForce(X, lists=lists).save(tmp_path / "i.kith")
        assert (kith.load(tmp_path / "i.kith").search(X[:4], 5).statistics.lists > 0) == (lists > 0)


@pytest.mark.parametrize(
    ("lists", "error", "words"),
    [
        (-1, kith.InvalidArgument, "lists = -1: use 0 for none"),
        (1.5, TypeError, "lists"),
        ("many", TypeError, "lists"),
    ],
)
def test_lists_that_are_none(lists, error, words):
    with pytest.raises(error, match=words):
        kith.BruteForce(np.zeros((9, 3), np.float32), lists=lists)


def test_lists_need_a_metric_of_lengths():
    with pytest.raises(kith.InvalidArgument, match="4 lists need a metric"):
        kith.BruteForce(np.zeros((9, 3), np.float32), "manhattan", lists=4)


def test_pickles_and_copies_answer_the_same(dtype):
    X = random_rows(dtype, 40, 5, 1)
    index = kith.BruteForce(X, metric="euclidean")
    again = pickle.loads(pickle.dumps(index))
    assert type(again) is kith.BruteForce
    np.testing.assert_array_equal(again.search(X, 4).distances, index.search(X, 4).distances)
    assert copy.copy(index) is index and copy.deepcopy(index) is index


def test_files_that_cannot_be_opened(tmp_path):
    missing, foreign = tmp_path / "missing.kith", tmp_path / "foreign.kith"
    foreign.write_bytes(b"not an index at all" * 100)
    for path in (missing, foreign, tmp_path):
        for load in (kith.load, kith.BruteForce.load):
            with pytest.raises(kith.IoError, match=path.name) as caught:
                load(path)
            assert isinstance(caught.value, OSError)


def test_a_pipe_is_refused_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "p.kith")
    with pytest.raises(kith.IoError, match="p.kith.*not a regular file"):
        kith.load(tmp_path / "p.kith")
    (tmp_path / "shards").mkdir()
    os.mkfifo(tmp_path / "shards/manifest.json")
    with pytest.raises(kith.IoError, match="shards"):
        kith.Sharded.open(tmp_path / "shards")


def test_a_truncated_file_is_refused(tmp_path):
    path = tmp_path / "rows.kith"
    kith.BruteForce(random_rows("float32", 500, 8, 1)).save(path)
    content = path.read_bytes()
    for size in (0, 7, 100, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:size])
        with pytest.raises(kith.IoError):
            kith.load(path)


def test_a_file_that_cannot_be_written(tmp_path):
    index = kith.BruteForce(np.eye(3))
    with pytest.raises(kith.IoError, match="nowhere"):
        index.save(tmp_path / "nowhere" / "rows.kith")
    assert list(tmp_path.iterdir()) == []


def test_an_index_has_no_constructor():
    with pytest.raises(TypeError, match="BruteForce"):
        kith.Index()


@pytest.mark.parametrize(
    ("arguments", "words"), [({"threads": -1}, "-1 threads"), ({"memory_limit": -5}, "-5"), ({"device": "tpu"}, "tpu")]
)
def test_load_checks_its_arguments(tmp_path, arguments, words):
    kith.BruteForce(np.eye(3)).save(tmp_path / "i.kith")
    for load in (kith.load, kith.BruteForce.load):
        with pytest.raises(kith.InvalidArgument, match=words):
            load(tmp_path / "i.kith", **arguments)


def test_neighbors_unpack_print_and_pickle():
    X = random_rows("float64", 20, 3, 1)
    answer = kith.knn(X, X[:5], 6)
    distances, indices = answer
    assert len(answer) == 2 and distances is answer.distances is answer[0] and indices is answer.indices is answer[1]
    text = repr(answer)
    assert text.startswith("Neighbors of 5 queries, k = 6 (float64)\n  query 0: 0 at 0, ")
    assert text.count("\n") == 4 and text.endswith("...")
    assert repr(kith.knn(X, X[:0], 6)) == "Neighbors of 0 queries, k = 6 (float64)"
    again = pickle.loads(pickle.dumps(answer))
    np.testing.assert_array_equal(again.indices, indices)
    assert again.statistics == answer.statistics
    with pytest.raises(ValueError, match="shape"):
        kith.Neighbors(np.zeros((2, 3)), np.zeros((2, 4), np.int64))
    with pytest.raises(IndexError):
        answer[2]


def test_statistics():
    X = random_rows("float32", 200, 8, 1)
    statistics = kith.knn(X, X[:3], 2, index="brute_force").statistics
    assert statistics.index == "brute_force"
    assert statistics.filter in ("int8", "fp16", "fp32", "none")
    with pytest.raises(AttributeError):
        statistics.pairs = 5


def test_devices_and_version():
    cpu = kith.devices()[0]
    assert cpu.name == "cpu" and cpu.usable and cpu.cores >= 1 and cpu.memory_bytes > 2**20
    assert "portable" in cpu.instruction_sets
    assert kith.__version__.count(".") == 2


def test_exceptions_are_also_pythons_own():
    assert issubclass(kith.InvalidArgument, (kith.Error, ValueError))
    for ours, theirs in [
        (kith.InvalidArgument, ValueError),
        (kith.OutOfMemory, MemoryError),
        (kith.DeviceError, RuntimeError),
        (kith.IoError, OSError),
        (kith.Cancelled, Exception),
    ]:
        assert issubclass(ours, theirs) and issubclass(ours, kith.Error)
        assert f"{ours.__module__}.{ours.__qualname__}" == f"kith.{ours.__name__}"
        assert pickle.loads(pickle.dumps(ours("text"))).args == ("text",)


def test_evaluate():
    X = random_rows("float32", 100, 8, 1)
    truth = kith.knn(X, X[:10], 5)
    perfect = kith.evaluate(truth, truth)
    assert (perfect.queries, perfect.k, perfect.recall, perfect.exact_queries) == (10, 5, 1.0, 10)
    assert perfect.recall_with_ties == 1.0 and perfect.distance_ratio == 1.0
    wrong = truth.indices.copy()
    wrong[0, 4] = next(i for i in range(100) if i not in wrong[0])
    worse = kith.evaluate((truth.distances, wrong), truth)
    assert worse.recall == pytest.approx(49 / 50) and worse.exact_queries == 9
    assert worse.recall_interval[0] < worse.recall < worse.recall_interval[1]
    assert worse.exact_share_interval[0] < 0.9 < worse.exact_share_interval[1]
    assert worse.distance_ratio_interval == (1.0, 1.0) and worse.recall_with_ties_interval[1] == 1.0
    assert kith.evaluate(wrong, truth, k=4).recall == 1.0
    alone = kith.evaluate(wrong.astype(np.int32), truth.indices)
    assert alone.recall == pytest.approx(49 / 50) and np.isnan(alone.distance_ratio)
    with pytest.raises(kith.InvalidArgument, match="k is 6"):
        kith.evaluate(truth, truth, 6)
    with pytest.raises(kith.InvalidArgument, match="10 queries.* 9"):
        kith.evaluate(truth, truth.indices[:9])
    with pytest.raises(TypeError, match="integers"):
        kith.evaluate(truth.distances, truth)
    with pytest.raises(TypeError, match="no result"):
        kith.evaluate("truth", truth)
    with pytest.raises(ValueError, match="queries, k"):
        kith.evaluate(truth.indices[0], truth)


def test_dtype_names_are_numpys():
    assert set(DTYPES) == {"float32", "float64", "float16", "bfloat16", "int8", "uint8"}
    for name, dtype in DTYPES.items():
        assert kith.BruteForce(np.zeros((2, 2), dtype)).dtype == name


def test_directions_are_saved_as_they_were_asked_for(tmp_path):
    random = np.random.default_rng(6)
    X = (random.random((20_000, 128)) * np.exp(-np.arange(128) / 6)).astype(np.float32)
    plain = kith.BruteForce(X, directions=False)
    plain.save(tmp_path / "plain.kith")
    assert kith.load(tmp_path / "plain.kith").search(X[:40], 5).statistics.directions == 0
