"""Approximate search on the command line: build, search and knn with --recall, --list-size and their like."""

import numpy as np
import pytest


@pytest.fixture
def data(folder):
    """Rows of low intrinsic dimension, and queries like them."""
    random = np.random.default_rng(4)
    turn = random.standard_normal((6, 64)).astype(np.float32)
    base = random.standard_normal((3000, 6)).astype(np.float32) @ turn
    queries = random.standard_normal((50, 6)).astype(np.float32) @ turn
    np.save("base.npy", base)
    np.save("queries.npy", queries)
    return base, queries


def recall(a, b):
    return np.mean([len(set(x) & set(y)) / len(y) for x, y in zip(a["indices"], b["indices"], strict=True)])


@pytest.mark.covers("build", "--index", "--max-degree", "--build-list-size", "--alpha", "--seed")
@pytest.mark.covers("build", "--code-bits", "--code-dim")
@pytest.mark.covers("search", "--recall", "--list-size", "--beam-width", "--rerank")
def test_a_saved_graph_states_its_recall(kith, data):
    built = kith("build", "base.npy", "-o", "graph.kith", "--index", "vamana", "--json").json
    assert built["index"] == "vamana" and built["recall_curve"]["queries"] == 187
    exact = kith("search", "graph.kith", "queries.npy", "--recall", 1, "--json").json
    assert exact["statistics"]["certified"] and exact["statistics"]["recall"] == 1
    found = kith("search", "graph.kith", "queries.npy", "--recall", 0.9, "--json").json
    assert not found["statistics"]["certified"]
    assert found["statistics"]["recall"] >= 0.9 and recall(found, exact) >= 0.9
    usual = kith("search", "graph.kith", "queries.npy")
    assert "% or more of the 10 nearest rows" in usual.err
    short = kith("search", "graph.kith", "queries.npy", "--list-size", 10, "--json").json
    long = kith("search", "graph.kith", "queries.npy", "--list-size", 200, "--json").json
    assert recall(short, exact) < recall(long, exact)
    assert (short["statistics"]["list_size"], long["statistics"]["list_size"]) == (10, 200)
    wide = kith("search", "graph.kith", "queries.npy", "--list-size", 50, "--beam-width", 16, "--json").json
    slim = kith("search", "graph.kith", "queries.npy", "--list-size", 50, "--json").json
    assert wide["statistics"]["hops"] > slim["statistics"]["hops"]
    few = kith("search", "graph.kith", "queries.npy", "--list-size", 50, "--rerank", 12, "--json").json
    assert few["statistics"]["candidates"] == 50 * 12
    text = kith("search", "graph.kith", "queries.npy", "--list-size", 50, "-v").err
    assert "hops" in text and "list size" in text
    info = kith("info", "graph.kith").out
    assert "max degree" in info and "recall@10 with list size 16" in info
    # Other parameters, other graphs; the file says with which.
    files = set()
    for option, value, label in [
        ("--max-degree", 16, "max degree"),
        ("--build-list-size", 70, "build list size"),
        ("--alpha", 1.3, "alpha"),
        ("--seed", 5, None),
        ("--code-bits", 4, "bits a value of its codes"),
        ("--code-dim", 32, "values a code"),
    ]:
        kith("build", "base.npy", "-o", "other.kith", "--index", "vamana", option, value)
        files.add(open("other.kith", "rb").read())
        if label:
            assert kith("info", "other.kith", "--json").json["files"][0]["details"][label] == str(value)
    assert len(files | {open("graph.kith", "rb").read()}) == 7


@pytest.mark.covers("build", "--codes", "--rabitq-bits", "--pq-subspaces")
def test_walks_on_other_codes(kith, data):
    exact = kith("knn", "base.npy", "queries.npy", "--json").json
    sizes = {}
    for options, label, value in [
        (("--codes", "rabitq"), "codes", "rabitq"),
        (("--codes", "rabitq", "--rabitq-bits", 2), "bits a value of RaBitQ", "2"),
        (("--codes", "pq"), "codes", "pq"),
        (("--codes", "pq", "--pq-subspaces", 4), "subspaces of PQ", "4"),
    ]:
        kith("build", "base.npy", "-o", "graph.kith", "--index", "vamana", *options)
        details = kith("info", "graph.kith", "--json").json["files"][0]["details"]
        assert details[label] == value and 0 < int(details["bytes a code"]) < int(details["values a code"])
        sizes[options] = len(open("graph.kith", "rb").read())
        found = kith("search", "graph.kith", "queries.npy", "--recall", 0.9, "--json").json
        assert recall(found, exact) >= 0.88 and found["statistics"]["filter"] == options[1]
    assert len(set(sizes.values())) == 4
    for options, word in [
        (("--codes", "opq"), "opq"),
        (("--rabitq-bits", 4), "take rabitq codes"),
        (("--codes", "pq", "--rabitq-bits", 4), "with pq codes"),
    ]:
        assert word in kith("build", "base.npy", "-o", "no.kith", "--index", "vamana", *options, code=1).err


@pytest.mark.covers("knn", "--recall", "--list-size", "--beam-width", "--rerank")
def test_one_search_by_a_graph(kith, data):
    exact = kith("knn", "base.npy", "queries.npy", "--json").json
    assert exact["statistics"]["certified"]
    # So few rows are searched exactly sooner than a graph is built.
    auto = kith("knn", "base.npy", "queries.npy", "--recall", 0.9, "--json").json
    assert auto["index"]["name"] == exact["index"]["name"] and "sooner than a graph" in auto["index"]["reason"]
    assert auto["statistics"]["certified"] and auto["indices"] == exact["indices"]
    found = kith("knn", "base.npy", "queries.npy", "--index", "vamana", "--recall", 0.9, "--json").json
    assert recall(found, exact) >= 0.9 and not found["statistics"]["certified"]
    walked = kith("knn", "base.npy", "queries.npy", "--index", "vamana", "--list-size", 64, "--json").json
    assert walked["statistics"]["list_size"] == 64
    wide = kith("knn", "base.npy", "queries.npy", "--list-size", 64, "--beam-width", 9, "--json").json
    assert wide["statistics"]["hops"] > walked["statistics"]["hops"]
    few = kith("knn", "base.npy", "queries.npy", "--list-size", 64, "--rerank", 10, "--json").json
    assert few["statistics"]["candidates"] == 500
    # A recall of 1 is any exact index's.
    whole = kith("knn", "base.npy", "queries.npy", "--recall", 1, "--json").json
    assert whole["statistics"]["certified"] and whole["indices"] == exact["indices"]


def test_distances_are_true(kith, data):
    base, queries = data
    found = kith("knn", "base.npy", "queries.npy", "--list-size", 20, "--json").json
    for query, rows, distances in zip(queries, found["indices"], found["distances"], strict=True):
        true = ((query.astype(np.float64) - base[rows].astype(np.float64)) ** 2).sum(axis=1).astype(np.float32)
        np.testing.assert_allclose(distances, true, rtol=1e-6)


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["--index", "kd_tree", "--recall", 0.9], "--recall is for graphs"),
        (["--index", "brute_force", "--list-size", 20], "use --index vamana"),
        (["--recall", 0.9, "--radius", 1], "--recall is for graphs, --radius is not"),
        (["--list-size", 20, "--filter", "int8"], "--list-size is for graphs, --filter is not"),
        (["--index", "vamana", "--metric", "manhattan"], "use brute_force or kd_tree or octree"),
        (["--index", "vamana", "--list-size", 5], "list_size of 5 for 10 neighbours"),
        (["--recall", 1.5], "--recall 1.5"),
        (["--recall", 0], "--recall 0"),
        (["--index", "vamana", "--recall", 0.9, "--list-size", 20], "give one of them"),
        (["--index", "vamana", "--beam-width", 2], "beam_width without list_size"),
        (["--index", "vamana", "--list-size", 20, "--rerank", 5], "rerank of 5"),
    ],
)
def test_refusals(kith, data, arguments, words):
    assert words in kith("knn", "base.npy", "queries.npy", *arguments, code=1).err


def test_refusals_of_saved_indexes(kith, data):
    kith("build", "base.npy", "-o", "base.kith")
    assert "use vamana" in kith("search", "base.kith", "queries.npy", "--recall", 0.9, code=1).err
    assert (
        "--max-degree is for graphs"
        in kith("build", "base.npy", "-o", "x.kith", "--index", "kd_tree", "--max-degree", 8, code=1).err
    )
    assert (
        "max_degree of 3"
        in kith("build", "base.npy", "-o", "x.kith", "--index", "vamana", "--max-degree", 3, code=1).err
    )


def test_a_memory_limit_is_kept(kith, data):
    assert (
        "limit" in kith("build", "base.npy", "-o", "x.kith", "--index", "vamana", "--memory-limit", "700kB", code=3).err
    )


@pytest.mark.covers("tune", "INDEX", "QUERIES", "--neighbors", "--recall", "--output", "--max-queries", "--json")
@pytest.mark.covers("search", "--tune")
@pytest.mark.covers("knn", "--tune")
def test_queries_of_another_kind_are_tuned_for(kith, data):
    random = np.random.default_rng(6)
    np.save("wild.npy", random.standard_normal((300, 64)).astype(np.float32) * 4)
    kith("build", "base.npy", "-o", "graph.kith", "--index", "vamana")
    words = ("tune", "graph.kith", "wild.npy", "-k", "5,10", "--recall", "0.99,0.8", "-o", "wild.tune")
    tuned = kith(*words, "--json").json
    assert tuned["queries"] == 300 and {p["k"] for p in tuned["points"]} == {5, 10} and tuned["file"] == "wild.tune"
    assert tuned["distribution"]["other"]
    assert all(p["lower"] <= p["recall"] <= p["upper"] for p in tuned["points"])
    chosen = {(c["k"], c["recall"]): c["list_size"] for c in tuned["choices"]}
    assert set(chosen) == {(5, 0.99), (5, 0.8), (10, 0.99), (10, 0.8)} and chosen[10, 0.8] < chosen[10, 0.99]
    by = ("--recall", 0.99, "--json")
    found = kith("search", "graph.kith", "wild.npy", *by, "--tune", "wild.tune").json["statistics"]
    assert found["list_size"] == chosen[10, 0.99]
    point = next(p for p in tuned["points"] if (p["k"], p["list_size"]) == (10, found["list_size"]))
    assert found["recall"] == point["lower"]
    assert found["recall"] != kith("search", "graph.kith", "wild.npy", *by).json["statistics"]["recall"]
    # kith knn builds the same graph.
    once = kith("knn", "base.npy", "wild.npy", "--index", "vamana", *by, "--tune", "wild.tune").json
    assert once["statistics"]["list_size"] == chosen[10, 0.99]
    page = kith("tune", "graph.kith", "wild.npy", "--max-queries", 100)
    assert "distributed otherwise than the rows" in page.out and "recall 0.95 at k = 10: a list of" in page.out
    assert kith("tune", "graph.kith", "wild.npy", "--max-queries", 90, "--json").json["queries"] == 90
    assert "may be distributed" in kith("tune", "graph.kith", "queries.npy").out
    kith("build", "base.npy", "-o", "other.kith", "--index", "vamana", "--seed", 8)
    assert "graph of hash" in kith("search", "other.kith", "wild.npy", "--tune", "wild.tune", code=1).err
    kith("build", "base.npy", "-o", "exact.kith")
    assert "brute_force" in kith("tune", "exact.kith", "wild.npy", code=1).err
    assert "no tuning" in kith("search", "graph.kith", "wild.npy", "--tune", "base.npy", code=2).err
    assert "--recall 1" in kith("tune", "graph.kith", "wild.npy", "--recall", 1, code=1).err
    assert "a k of 0" in kith("tune", "graph.kith", "wild.npy", "-k", 0, code=1).err
    assert "an input of this command" in kith("tune", "graph.kith", "wild.npy", "-o", "wild.npy", code=1).err


@pytest.mark.covers("tune", "--threads", "--memory-limit", "--quiet")
@pytest.mark.covers("insert", "INDEX", "ROWS", "--output", "--json", "--quiet", "--threads", "--memory-limit")
def test_rows_are_inserted(kith, data):
    base, queries = data
    random = np.random.default_rng(9)
    more = base[:400] + random.standard_normal((400, 64)).astype(np.float32) * 0.1
    np.save("more.npy", more)
    kith("build", "base.npy", "-o", "graph.kith", "--index", "vamana")
    said = kith("insert", "graph.kith", "more.npy", "-o", "larger.kith", "--json", "--threads", 1).json
    assert (said["rows"], said["inserted"]) == (3400, 400) and said["recall_curve"]["points"]
    outcome = kith("insert", "graph.kith", "more.npy", "-o", "again.kith", "--threads", 3)
    assert "400 rows more, now 3,400 rows" in outcome.err
    with open("larger.kith", "rb") as one, open("again.kith", "rb") as two:
        assert one.read() == two.read()
    assert kith("insert", "graph.kith", "more.npy", "-o", "quiet.kith", "-q").err == ""
    np.save("all.npy", np.concatenate([base, more]))
    exact = kith("knn", "all.npy", "queries.npy", "--json", "--index", "brute_force").json
    assert recall(kith("search", "larger.kith", "queries.npy", "--recall", 0.95, "--json").json, exact) >= 0.94
    np.save("far.npy", more * 1000)
    assert "build the index anew" in kith("insert", "graph.kith", "far.npy", "-o", "x.kith", code=1).err
    assert "limit" in kith("insert", "graph.kith", "more.npy", "-o", "x.kith", "--memory-limit", "1MiB", code=3).err
    assert "limit" in kith("tune", "graph.kith", "queries.npy", "--memory-limit", "1MiB", code=3).err
    assert "extension" in kith("insert", "graph.kith", "more.npy", "-o", "x.npy", code=1).err
    kith("insert", "graph.kith", "more.npy", "-o", "graph.kith", code=1)
    assert kith("tune", "graph.kith", "queries.npy", "-q", "--threads", 1, "-o", "q.tune").err == ""
    assert "--threads -1" in kith("tune", "graph.kith", "queries.npy", "--threads", -1, code=1).err


@pytest.mark.covers("tune", "--input-format", "--query-member", "--device", "--device-memory-limit")
@pytest.mark.covers("insert", "--member", "--input-format", "--device", "--device-memory-limit")
def test_inputs_of_tune_and_insert(kith, data, folder):
    h5py = pytest.importorskip("h5py")
    base, queries = data
    with h5py.File("data.hdf5", "w") as file:
        file["rows"] = base[:30] + 0.5
        file["asked"] = queries[:20]
    kith("build", "base.npy", "-o", "graph.kith", "--index", "vamana")
    tune, insert = ("tune", "graph.kith"), ("insert", "graph.kith", "-o", "more.kith")
    assert kith(*tune, "data.hdf5", "--query-member", "asked", "--json").json["queries"] == 20
    assert kith(*insert, "data.hdf5", "--member", "rows", "--json").json["inserted"] == 30
    (folder / "queries.npy").rename(folder / "queries")
    assert kith(*tune, "queries", "--input-format", "npy", "--json").json["queries"] == 50
    assert kith(*insert, "queries", "--input-format", "npy", "--json").json["inserted"] == 50
    for command in (tune, insert):
        assert "nothing" in kith(*command, "base.npy", "--device", "nothing", code=1).err
        assert "--device cpu is none" in kith(*command, "base.npy", "--device-memory-limit", "2GiB", code=1).err
