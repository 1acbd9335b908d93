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
    assert built["index"] == "vamana" and built["recall_curve"]["queries"] == 750
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


@pytest.mark.covers("knn", "--recall", "--list-size", "--beam-width", "--rerank")
def test_one_search_by_a_graph(kith, data):
    exact = kith("knn", "base.npy", "queries.npy", "--json").json
    assert exact["statistics"]["certified"]
    found = kith("knn", "base.npy", "queries.npy", "--recall", 0.9, "--json").json
    assert found["index"]["name"] == "vamana" and "--recall" in found["index"]["reason"]
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
