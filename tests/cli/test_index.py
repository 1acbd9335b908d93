"""kith build, search, evaluate and info: saved indexes and results."""

from pathlib import Path

import h5py
import numpy as np
import oracle
import pytest
from program import files_of


@pytest.fixture
def data(folder):
    random = np.random.default_rng(3)
    base = random.standard_normal((300, 9)).astype(np.float32)
    queries = random.standard_normal((20, 9)).astype(np.float32)
    np.save("base.npy", base)
    np.save("queries.npy", queries)
    return base, queries


@pytest.mark.covers("build", "BASE", "--output", "--metric")
@pytest.mark.covers("search", "INDEX", "QUERIES", "--neighbors", "--output")
@pytest.mark.parametrize("metric", ["sqeuclidean", "euclidean", "inner_product", "cosine", "manhattan"])
def test_build_and_search(kith, data, metric):
    base, queries = data
    kith("build", "base.npy", "-o", "base.kith", "--metric", metric)
    kith("search", "base.kith", "queries.npy", "-k", 6, "-o", "r")
    oracle.check(np.load("r.indices.npy"), np.load("r.distances.npy"), base, queries, metric)
    kith("knn", "base.npy", "queries.npy", "-k", 6, "--metric", metric, "-o", "direct")
    assert open("r.distances.npy", "rb").read() == open("direct.distances.npy", "rb").read()


@pytest.mark.covers("build", "--json", "--index")
@pytest.mark.covers("info", "FILE", "--json")
def test_info_names_the_index(kith, data):
    built = kith("build", "base.npy", "-o", "base.kith", "--metric", "cosine", "--index", "brute_force", "--json").json
    assert built["index"] == "brute_force" and built["rows"] == 300 and built["dtype"] == "f32"
    told = kith("info", "base.kith", "--json").json["files"][0]
    assert told["format"] == "index" and told["rows"] == 300 and told["dim"] == 9
    assert told["details"]["index"] == "brute_force" and told["details"]["metric"] == "cosine"
    text = kith("info", "base.kith").out
    assert "brute_force" in text and "cosine" in text and "300" in text
    assert "'kd_tre'" in kith("build", "base.npy", "-o", "x", "--index", "kd_tre", code=1).err


@pytest.mark.covers("build", "--filter")
@pytest.mark.covers("search", "--statistics", "--json")
def test_filter_of_the_index(kith, data):
    kith("build", "base.npy", "-o", "plain.kith", "--filter", "none")
    kith("build", "base.npy", "-o", "half.kith", "--filter", "fp16")
    kith("build", "base.npy", "-o", "chosen.kith")
    for name, chosen in [("plain", False), ("half", False), ("chosen", True)]:
        header = Path(f"{name}.kith").read_bytes()[:4096]
        assert (b'"filter_chosen_on":"cpu"' in header) == chosen
    for name, filter in [("plain", "none"), ("half", "fp16")]:
        assert kith("search", f"{name}.kith", "queries.npy", "--json").json["statistics"]["filter"] == filter
    text = kith("search", "half.kith", "queries.npy", "-v").err
    assert "fp16" in text and "fallbacks" in text
    assert "fallbacks" not in kith("search", "half.kith", "queries.npy").err


@pytest.mark.covers("build", "--base-member")
@pytest.mark.covers("search", "--query-member", "--max-queries")
def test_hdf5_members(kith, data):
    base, queries = data
    with h5py.File("all.h5", "w") as file:
        file["train"], file["test"] = base, queries
        file["part"], file["few"] = base[:100], queries[:7]
    kith("build", "all.h5", "-o", "all.kith")
    kith("build", "all.h5", "-o", "part.kith", "--base-member", "part")
    answer = kith("search", "all.kith", "all.h5", "-k", 2, "--json").json
    oracle.check(answer["indices"], answer["distances"], base, queries)
    answer = kith("search", "part.kith", "all.h5", "-k", 2, "--query-member", "few", "--max-queries", 4, "--json").json
    assert answer["queries"] == 4
    oracle.check(answer["indices"], answer["distances"], base[:100], queries[:4])


@pytest.mark.covers("search", "--format")
def test_search_format(kith, data):
    kith("build", "base.npy", "-o", "base.kith")
    kith("search", "base.kith", "queries.npy", "-o", "out", "--format", "table")
    assert "out" in files_of(__import__("pathlib").Path("."))


@pytest.mark.covers("build", "--quiet", "--device", "--threads", "--memory-limit")
@pytest.mark.covers("search", "--quiet", "--device", "--threads", "--memory-limit")
def test_execution_options(kith, data):
    assert "wrote base.kith" in kith("build", "base.npy", "-o", "base.kith").err
    assert kith("build", "base.npy", "-o", "base.kith", "--quiet", "--threads", 2, "--device", "cpu").err == ""
    assert "wrote" in kith("search", "base.kith", "queries.npy", "-o", "r").err
    assert kith("search", "base.kith", "queries.npy", "-o", "r", "-q", "--threads", 1, "--device", "cpu").err == ""
    for call in [("build", "base.npy", "-o", "no.kith"), ("search", "base.kith", "queries.npy", "-o", "no")]:
        assert "--memory-limit" in kith(*call, "--memory-limit", "100", code=3).err
        assert "--threads -2" in kith(*call, "--threads", -2, code=1).err
        assert "cuda:77" in kith(*call, "--device", "cuda:77", code=4).err
    assert not [name for name in files_of(__import__("pathlib").Path(".")) if name.startswith("no")]


def test_queries_the_index_cannot_hold(kith, data):
    base, queries = data
    kith("build", "base.npy", "-o", "base.kith")
    np.save("wide.npy", queries.astype(np.float64))
    outcome = kith("search", "base.kith", "wide.npy", "-o", "r")
    assert "searched as f32" in outcome.err
    oracle.check(np.load("r.indices.npy"), np.load("r.distances.npy"), base, queries)
    np.save("wide.npy", queries.astype(np.float64) + 1e-12)
    error = kith("search", "base.kith", "wide.npy", code=1).err
    assert "the queries are f64, the index is f32" in error and "row 0 column 0" in error


def test_search_wants_an_index(kith, data):
    error = kith("search", "base.npy", "queries.npy", code=2).err
    assert "not an index" in error and "kith build" in error


def test_corrupt_index(kith, data):
    kith("build", "base.npy", "-o", "base.kith")
    whole = open("base.kith", "rb").read()
    open("base.kith", "wb").write(whole[:-100])
    kith("search", "base.kith", "queries.npy", code=2)
    damaged = bytearray(whole)
    damaged[-50] ^= 1
    open("base.kith", "wb").write(bytes(damaged))
    kith("search", "base.kith", "queries.npy", code=2)


@pytest.fixture
def results(folder):
    truth = np.array([[0, 1, 2], [3, 4, 5]])
    found = np.array([[0, 2, 9], [3, 4, 5]])
    np.save("truth.indices.npy", truth)
    np.save("truth.distances.npy", np.array([[1, 2, 3], [1, 1, 1]], dtype=np.float32))
    np.save("found.indices.npy", found)
    np.save("found.distances.npy", np.array([[1, 3, 3], [1, 1, 1]], dtype=np.float32))


@pytest.mark.covers("evaluate", "RESULT", "TRUTH", "--neighbors", "--json", "--quiet")
def test_evaluate(kith, results):
    figures = kith("evaluate", "found", "truth", "--json").json
    assert figures["recall"] == pytest.approx(5 / 6)
    assert figures["recall_with_ties"] == 1.0  # row 9 is as near as the true third
    assert figures["distance_ratio"] == pytest.approx((1 + 1.5 + 1 + 3) / 6)
    for name in ("recall", "recall_with_ties", "distance_ratio"):
        lower, upper = figures[name + "_interval"]
        assert lower <= figures[name] <= upper and lower < upper
    lower, upper = figures["exact_share_interval"]
    assert 0 < lower < 0.5 < upper < 1
    assert figures["exact_queries"] == 1 and figures["queries"] == 2 and figures["k"] == 3
    assert kith("evaluate", "found", "truth", "--json", "-k", 1).json["recall"] == 1.0
    assert kith("evaluate", "truth", "found", "--json", "-k", 2).json["recall"] == pytest.approx(3 / 4)
    outcome = kith("evaluate", "found", "truth", "-q")
    lower, upper = figures["recall_interval"]
    assert (
        f"recall@3          0.833333  ({lower:.6f} to {upper:.6f})" in outcome.out
        and "1 (50 %)" in outcome.out
        and outcome.err == ""
    )


def test_evaluate_without_distances(kith, results):
    np.save("alone.npy", np.array([[0, 1, 2], [3, 4, 5]], dtype=np.int32))
    figures = kith("evaluate", "alone.npy", "truth", "--json").json
    assert figures["recall"] == 1.0 and figures["recall_with_ties"] is None and figures["distance_ratio"] is None
    assert figures["recall_with_ties_interval"] == [None, None] and 0 < figures["recall_interval"][0] < 1
    assert "unknown" in kith("evaluate", "alone.npy", "truth").out


def test_evaluate_refuses(kith, results):
    np.save("long.indices.npy", np.zeros((5, 3), dtype=np.int64))
    assert "5 queries" in kith("evaluate", "long", "truth", code=1).err
    assert "4" in kith("evaluate", "found", "truth", "-k", 4, code=1).err
    assert "-1" in kith("evaluate", "found", "truth", "-k", -1, code=1).err
    kith("evaluate", "nothing", "truth", code=2)


@pytest.mark.covers("info", "--stats", "--member", "--quiet")
def test_info_stats(kith, folder):
    rows = np.array([[1, 2], [np.nan, 0], [np.inf, 0], [0, 0], [1, 2], [1, 2], [-3, 9]], dtype=np.float32)
    np.save("rows.npy", rows)
    assert "stats" not in kith("info", "rows.npy", "--json").json["files"][0]
    stats = kith("info", "rows.npy", "--json", "--stats", "-q").json["files"][0]["stats"]
    assert stats["minimum"] == -3 and stats["maximum"] == 9
    assert stats["mean"] == pytest.approx(np.nanmean(np.where(np.isfinite(rows), rows, np.nan)))
    assert (stats["nan_rows"], stats["infinite_rows"], stats["zero_rows"], stats["duplicate_rows"]) == (1, 1, 1, 2)
    text = kith("info", "rows.npy", "--stats").out
    assert "-3 to 9" in text and "duplicate rows  2" in text
    with h5py.File("two.h5", "w") as file:
        file["train"], file["test"] = np.ones((3, 2), np.float32), np.full((4, 2), 5, np.float32)
    assert kith("info", "two.h5", "--stats", "--json").json["files"][0]["stats"]["maximum"] == 1
    told = kith("info", "two.h5", "--stats", "--member", "test", "--json").json["files"][0]["stats"]
    assert told["maximum"] == 5 and told["rows"] == 4
    kith("info", "two.h5", "--member", "test", code=1)


def test_info_goes_on_after_a_bad_file(kith, folder):
    np.save("good.npy", np.zeros((2, 2), np.float32))
    open("bad.npy", "w").write("not numpy")
    outcome = kith("info", "bad.npy", "good.npy", "gone.npy", code=2)
    assert "good.npy" in outcome.out and "bad.npy" in outcome.err and "gone.npy" in outcome.err
