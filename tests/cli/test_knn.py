"""kith knn against the float64 oracle, and each of its options."""

import json

import h5py
import numpy as np
import oracle
import pytest
from program import files_of

METRICS = ["sqeuclidean", "euclidean", "inner_product", "cosine", "manhattan"]


@pytest.fixture
def data(folder):
    random = np.random.default_rng(1)
    base = random.standard_normal((400, 12)).astype(np.float32)
    queries = random.standard_normal((25, 12)).astype(np.float32)
    np.save("base.npy", base)
    np.save("queries.npy", queries)
    return base, queries


def pair(stem):
    return np.load(f"{stem}.indices.npy"), np.load(f"{stem}.distances.npy")


@pytest.mark.covers("knn", "BASE", "QUERIES", "--metric", "--neighbors", "--output")
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("k", [1, 7, 400])
def test_oracle(kith, data, metric, k):
    base, queries = data
    outcome = kith("knn", "base.npy", "queries.npy", "-k", k, "--metric", metric, "-o", "r")
    indices, distances = pair("r")
    assert indices.shape == distances.shape == (25, k)
    assert indices.dtype == np.int64 and distances.dtype == np.float32
    oracle.check(indices, distances, base, queries, metric)
    assert outcome.out == ""
    assert "r.indices.npy" in outcome.err


def test_k_beyond_the_rows_is_filled_up(kith, data):
    kith("knn", "base.npy", "queries.npy", "-k", 402, "-o", "r")
    indices, distances = pair("r")
    assert (indices[:, 400:] == -1).all() and np.isinf(distances[:, 400:]).all()
    assert (indices[:, :400] >= 0).all()


def test_k_is_ten_by_default(kith, data):
    assert kith("knn", "base.npy", "queries.npy", "--json").json["k"] == 10


@pytest.mark.covers("knn", "--json")
def test_json_is_the_whole_answer(kith, data):
    base, queries = data
    outcome = kith("knn", "base.npy", "queries.npy", "-k", 3, "--json")
    answer = outcome.json
    assert answer["queries"] == 25 and answer["metric"] == "sqeuclidean"
    oracle.check(answer["indices"], answer["distances"], base, queries)
    assert "filter" in answer["statistics"]


def test_json_with_output_names_the_files(kith, data):
    answer = kith("knn", "base.npy", "queries.npy", "-k", 3, "--json", "-o", "r").json
    assert answer["files"] == ["r.indices.npy", "r.distances.npy"]
    assert "indices" not in answer


def test_infinity_is_null_in_json(kith, data):
    answer = kith("knn", "base.npy", "queries.npy", "-k", 401, "--json").json
    assert answer["distances"][0][-1] is None and answer["indices"][0][-1] == -1


@pytest.mark.covers("knn", "QUERIES")
def test_table_shows_the_beginning_and_counts_the_rest(kith, data):
    base, queries = data
    text = kith("knn", "base.npy", "queries.npy", "-k", 12).out
    lines = text.splitlines()
    assert lines[0].split() == ["query", "rank", "row", "distance"]
    assert len(lines) == 1 + 10 * 10 + 1
    rows = [line.split() for line in lines[1:-1]]
    want, _ = oracle.knn(base, queries, 10)
    assert [int(row[2]) for row in rows] == want[:10].ravel().tolist()
    assert "15 more queries" in lines[-1] and "2 more neighbours" in lines[-1] and "-o FILE" in lines[-1]


def test_small_tables_are_whole(kith, data):
    lines = kith("knn", "base.npy", "queries.npy", "-k", 2, "--max-queries", 3).out.splitlines()
    assert len(lines) == 1 + 6


@pytest.mark.covers("knn", "--max-queries")
def test_max_queries(kith, data):
    base, queries = data
    kith("knn", "base.npy", "queries.npy", "-k", 4, "--max-queries", 6, "-o", "r")
    indices, distances = pair("r")
    assert len(indices) == 6
    oracle.check(indices, distances, base, queries[:6])


def test_same_file_twice(kith, data):
    base, _ = data
    kith("knn", "base.npy", "base.npy", "-k", 3, "--max-queries", 50, "-o", "r")
    indices, distances = pair("r")
    assert indices[:, 0].tolist() == list(range(50)) and (distances[:, 0] == 0).all()
    oracle.check(indices, distances, base, base[:50])


@pytest.mark.covers("knn", "--format")
@pytest.mark.parametrize(
    "format, files",
    [
        ("npy", ["out.x.distances.npy", "out.x.indices.npy"]),
        ("json", ["out.x"]),
        ("table", ["out.x"]),
        ("ibin", ["out.x"]),
        ("hdf5", ["out.x"]),
        ("ivecs", ["out.fvecs", "out.x"]),
    ],
)
def test_format_of_the_output(kith, data, format, files):
    kith("knn", "base.npy", "queries.npy", "-k", 3, "-o", "out.x", "--format", format)
    assert files_of_output() == files
    if format == "json":
        json.load(open("out.x"))
    if format == "hdf5":
        with h5py.File("out.x") as file:
            assert set(file) == {"neighbors", "distances"}


def files_of_output():
    from pathlib import Path

    return [name for name in files_of(Path(".")) if name.startswith("out")]


def test_format_needs_an_output(kith, data):
    assert "--output" in kith("knn", "base.npy", "queries.npy", "--format", "json", code=1).err


@pytest.mark.covers("knn", "--filter")
def test_filter_is_used_and_changes_nothing(kith, data):
    kith("knn", "base.npy", "queries.npy", "-o", "plain")
    for name in ["auto", "int8", "fp16", "fp32", "none"]:
        statistics = kith("knn", "base.npy", "queries.npy", "--filter", name, "-o", name, "--json").json["statistics"]
        for part in ["indices", "distances"]:
            assert open(f"plain.{part}.npy", "rb").read() == open(f"{name}.{part}.npy", "rb").read()
        if name != "auto":
            assert statistics["filter"] == name


@pytest.mark.covers("knn", "--directions")
def test_all_values_are_compared_on_request(kith, folder):
    """So many queries earn what finding directions costs, where few of these hold the variance."""
    random = np.random.default_rng(2)
    values = (random.standard_normal((50_000, 96)) * np.exp(-np.arange(96) / 4)).astype(np.float32)
    np.save("base.npy", values[:20_000])
    np.save("queries.npy", values[20_000:])
    along = kith("knn", "base.npy", "queries.npy", "-k", 3, "--directions", "on", "-o", "along", "--json").json
    plain = kith("knn", "base.npy", "queries.npy", "-k", 3, "--directions", "off", "-o", "plain", "--json").json
    assert along["statistics"]["directions"] > 0
    assert plain["statistics"]["directions"] == 0
    for part in ["indices", "distances"]:
        assert open(f"plain.{part}.npy", "rb").read() == open(f"along.{part}.npy", "rb").read()


@pytest.mark.covers("knn", "--lists")
def test_clustered_rows_are_searched_by_lists(kith, folder):
    random = np.random.default_rng(4)
    values = np.repeat(random.standard_normal((20, 24)), 150, axis=0) + 0.01 * random.standard_normal((3000, 24))
    np.save("base.npy", values.astype(np.float32))
    listed = kith("knn", "base.npy", "base.npy", "-k", 3, "--lists", 20, "-o", "listed", "--json").json
    plain = kith("knn", "base.npy", "base.npy", "-k", 3, "--lists", 0, "-o", "plain", "--json").json
    assert listed["statistics"]["lists"] > 10
    assert listed["statistics"]["pairs"] < plain["statistics"]["pairs"] / 4
    assert plain["statistics"]["lists"] == 0
    for part in ["indices", "distances"]:
        assert open(f"plain.{part}.npy", "rb").read() == open(f"listed.{part}.npy", "rb").read()
    text = kith("knn", "base.npy", "base.npy", "--lists", 20, "-o", "again", "--statistics").err
    assert "\n  lists " in text


@pytest.mark.covers("knn", "--statistics")
def test_statistics(kith, data):
    quiet = kith("knn", "base.npy", "queries.npy", "-o", "r")
    assert "fallbacks" not in quiet.err
    for flag in ["-v", "--statistics"]:
        outcome = kith("knn", "base.npy", "queries.npy", "-o", "r", flag)
        for word in ["filter", "candidates", "fallbacks", "NaN rows", "search time"]:
            assert word in outcome.err


@pytest.mark.covers("knn", "--quiet")
def test_quiet(kith, data):
    for flag in ["-q", "--quiet"]:
        assert kith("knn", "base.npy", "queries.npy", "-o", "r", flag).err == ""


def test_nan_rows_are_noted(kith, folder):
    base = np.zeros((5, 2), dtype=np.float32)
    base[2, 1] = np.nan
    np.save("base.npy", base)
    np.save("queries.npy", np.full((1, 2), np.nan, dtype=np.float32))
    outcome = kith("knn", "base.npy", "base.npy", "-k", 5, "-o", "r", "--json")
    indices = np.load("r.indices.npy")
    assert 2 not in indices and (indices[2] == -1).all()
    assert outcome.json["statistics"]["nan_rows"] == 1
    assert "1 row with NaN" in outcome.err


@pytest.mark.covers("knn", "--base-member", "--query-member")
def test_hdf5_members(kith, data):
    base, queries = data
    with h5py.File("all.hdf5", "w") as file:
        file["train"], file["test"] = base, queries
        file["other"], file["more"] = base[100:200], queries[:5]
    answer = kith("knn", "all.hdf5", "all.hdf5", "-k", 3, "--json").json
    oracle.check(answer["indices"], answer["distances"], base, queries)
    answer = kith(
        "knn", "all.hdf5", "all.hdf5", "-k", 3, "--json", "--base-member", "other", "--query-member", "more"
    ).json
    oracle.check(answer["indices"], answer["distances"], base[100:200], queries[:5])


def test_members_are_for_hdf5(kith, data):
    assert "leave the member out" in kith("knn", "base.npy", "queries.npy", "--query-member", "test", code=1).err
    assert "leave the member out" in kith("knn", "base.npy", "base.npy", "--base-member", "test", code=1).err


@pytest.mark.covers("knn", "--memory-limit")
def test_memory_limit(kith, data):
    for size in ["1KiB", "1k", "1000", "0.5KiB", "1KB"]:
        outcome = kith("knn", "base.npy", "queries.npy", "-o", "r", "--memory-limit", size, code=3)
        assert "--memory-limit" in outcome.err and "raise " in outcome.err
    assert files_of(__import__("pathlib").Path(".")) == ["base.npy", "queries.npy"]
    for size in ["none", "0", "4GiB", "1.5G", "2GB", "500MiB", "1T", "50%", "100%", "12.5 %"]:
        kith("knn", "base.npy", "queries.npy", "-o", "r", "--memory-limit", size)
    for size in ["x", "-1", "4Q", "4GiX", "", "1e3", "%", "50%%"]:
        assert "is not a size" in kith("knn", "base.npy", "queries.npy", "--memory-limit", size, code=1).err
    for share in ["0%", "101%"]:
        assert "is not a share" in kith("knn", "base.npy", "queries.npy", "--memory-limit", share, code=1).err
    tiny = kith("knn", "base.npy", "queries.npy", "-o", "r", "--memory-limit", "0.0000000001%", code=3)
    assert "--memory-limit" in tiny.err and "the limit is 1;" in tiny.err


def test_answers_beyond_the_machine_are_refused(kith, data):
    for k in [10**14, 2**62, 2**63 - 1]:
        assert "this machine has" in kith("knn", "base.npy", "queries.npy", "-k", k, code=3).err


@pytest.mark.covers("knn", "--threads")
def test_threads(kith, data):
    for threads in [0, 1, 2]:
        kith("knn", "base.npy", "queries.npy", "-o", f"t{threads}", "--threads", threads)
        assert open("t0.distances.npy", "rb").read() == open(f"t{threads}.distances.npy", "rb").read()
    for threads in [-1, 5000]:
        assert str(threads) in kith("knn", "base.npy", "queries.npy", "--threads", threads, code=1).err


@pytest.mark.covers("knn", "--device")
def test_device(kith, data):
    for device in ["cpu", "auto"]:
        kith("knn", "base.npy", "queries.npy", "-o", "r", "--device", device)
    assert "cuda:99" in kith("knn", "base.npy", "queries.npy", "--device", "cuda:99", code=4).err
    assert "'tpu'" in kith("knn", "base.npy", "queries.npy", "--device", "tpu", code=1).err


def gpus(kith):
    listed = kith("devices", "--json").json["devices"]
    return [entry["device"] for entry in listed if entry["device"] != "cpu" and entry["usable"]]


def test_without_a_gpu_the_reason_is_said(kith, data):
    if gpus(kith):
        pytest.skip("there is a GPU")
    for device in ["cuda", "cuda:0,1", "all"]:
        error = kith("knn", "base.npy", "queries.npy", "--device", device, code=4).err
        assert "CUDA" in error and "use the device cpu" in error
    assert kith("knn", "base.npy", "queries.npy", "--device", "auto", "--json", code=0).json


def test_a_gpu_gives_the_same_graph_and_answers(kith, data):
    if not gpus(kith):
        pytest.skip("needs a GPU")
    for device in ["cpu", "cuda"]:
        kith("build", "base.npy", "--index", "vamana", "--device", device, "-o", f"{device}.kith")
    assert open("cpu.kith", "rb").read() == open("cuda.kith", "rb").read()
    for device in ["cpu", "cuda"]:
        kith("search", "cpu.kith", "queries.npy", "--list-size", "40", "--device", device, "-o", device)
    for part in ["indices", "distances"]:
        assert open(f"cpu.{part}.npy", "rb").read() == open(f"cuda.{part}.npy", "rb").read()


def test_a_gpu_gives_the_same_files(kith, data):
    if not gpus(kith):
        pytest.skip("needs a GPU")
    kith("knn", "base.npy", "queries.npy", "-o", "cpu")
    # A limit below the size of the data is one of the GPU's memory: the rows stream through.
    for more in [(), ("--filter", "none"), ("--filter", "fp16"), ("--memory-limit", "20MB")]:
        kith("knn", "base.npy", "queries.npy", "-o", "gpu", "--device", "cuda", *more)
        for part in ["indices", "distances"]:
            assert open(f"cpu.{part}.npy", "rb").read() == open(f"gpu.{part}.npy", "rb").read()
    refused = kith(
        "knn", "base.npy", "queries.npy", "--device", "cuda", "--filter", "fp16", "--metric", "manhattan", code=1
    )
    assert "fp16" in refused.err


@pytest.mark.parametrize(
    "base_type, query_type, searched",
    [
        (np.uint8, np.float32, np.float32),
        (np.uint8, np.int8, np.float32),
        (np.float16, np.float32, np.float32),
        (np.float32, np.float64, np.float64),
        (np.float64, np.uint8, np.float64),
    ],
)
def test_mixed_element_types(kith, folder, base_type, query_type, searched):
    random = np.random.default_rng(2)
    base = random.integers(0, 100, (50, 4)).astype(base_type)
    queries = (random.integers(0, 100, (5, 4)) / (1 if query_type in (np.int8, np.uint8) else 7)).astype(query_type)
    np.save("base.npy", base)
    np.save("queries.npy", queries)
    outcome = kith("knn", "base.npy", "queries.npy", "-k", 3, "-o", "r")
    indices, distances = pair("r")
    assert distances.dtype == (np.float64 if searched == np.float64 else np.float32)
    oracle.check(indices, distances, base, queries)
    short = {np.float32: "f32", np.float64: "f64"}[searched]
    assert f"searched as {short}" in outcome.err


def test_ties_go_to_the_lower_row(kith, folder):
    np.save("base.npy", np.zeros((20, 3), dtype=np.float32))
    answer = kith("knn", "base.npy", "base.npy", "-k", 5, "--max-queries", 2, "--json").json
    assert answer["indices"] == [[0, 1, 2, 3, 4]] * 2


def test_empty_files(kith, data):
    np.save("none.npy", np.zeros((0, 12), dtype=np.float32))
    answer = kith("knn", "none.npy", "queries.npy", "-k", 2, "--json").json
    assert answer["indices"] == [[-1, -1]] * 25
    assert kith("knn", "base.npy", "none.npy", "-k", 2, "--json").json["indices"] == []


@pytest.mark.covers("knn", "--allowed")
@pytest.mark.covers("search", "--allowed")
def test_only_allowed_rows_are_found(kith, data):
    base, queries = data
    flags = np.random.default_rng(5).random(400) < 0.1
    np.save("flags.npy", flags)
    np.save("numbers.npy", np.flatnonzero(flags))
    with open("numbers.txt", "w") as file:
        file.writelines(f"{row}\n" for row in np.flatnonzero(flags)[::-1])
    wanted, _ = oracle.knn(base[flags], queries, 10)
    wanted = np.flatnonzero(flags)[wanted]
    for file in ("flags.npy", "numbers.npy", "numbers.txt"):
        kith("knn", "base.npy", "queries.npy", "-k", 10, "--allowed", file, "-o", "r")
        assert np.array_equal(pair("r")[0], wanted), file
    for index in ("brute_force", "kd_tree", "vamana"):
        kith("build", "base.npy", "-o", f"{index}.kith", "--index", index)
        kith("search", f"{index}.kith", "queries.npy", "-k", 10, "--allowed", "flags.npy", "-o", "r")
        assert np.array_equal(pair("r")[0], wanted), index
    np.save("short.npy", flags[:-1])
    failed = kith("knn", "base.npy", "queries.npy", "--allowed", "short.npy", code=2).err
    assert "short.npy" in failed and "399 flags for 400 rows" in failed
    failed = kith("knn", "base.npy", "queries.npy", "--allowed", "base.npy", code=2).err
    assert "base.npy" in failed and "2 dimensions" in failed
    failed = kith("knn", "base.npy", "queries.npy", "--allowed", "numbers.txt", "-o", "numbers.txt", code=1).err
    assert "numbers.txt" in failed
