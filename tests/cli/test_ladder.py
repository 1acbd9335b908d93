"""kith ladder: what runs, what is left out and why, what it writes. The rungs' answers are tested in tests/ladder."""

import json
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest
from program import KITH, files_of

SMALL = ["--device", "cpu", "--repeat", "2"]
ON_CPU = {1, 15, 17, 20, 21, 22}
RUNG_FIELDS = {
    "number", "id", "title", "device", "engine", "devices", "ms", "min_ms", "max_ms", "runs", "ms_with_copies", "build_ms",
    "checked", "wrong", "recall", "recall_floor", "skipped", "fallback", "published_ms", "published_what", "published_source",
}  # fmt: skip


def ran(case):
    return {rung["number"] for rung in case["rungs"] if rung["skipped"] is None}


@pytest.mark.covers("ladder", "--case", "--device", "--json")
def test_rungs_on_the_processor_run_and_the_rest_say_why(kith):
    out = kith("ladder", "--case", "3,20,500", "--case", "16,5,300,4", *SMALL, "--json").json
    assert out["schema"] == "kith-ladder/1" and out["machine"]["gpu"] is None and out["repeat"] == 2
    assert [case["name"] for case in out["cases"]] == ["3,20,500,1", "16,5,300,4"]
    first, second = out["cases"]
    assert (first["dim"], first["queries"], first["points"], first["k"]) == (3, 20, 500, 1)
    assert (second["dim"], second["queries"], second["points"], second["k"]) == (16, 5, 300, 4)
    assert ran(first) == ON_CPU and ran(second) == ON_CPU - {17, 22}
    for case in out["cases"]:
        assert [rung["number"] for rung in case["rungs"]] == list(range(1, 56))
        assert case["graph"] is None and case["files"] is None and case["floor_ms"] is None and case["published"] == []
        for rung in case["rungs"]:
            assert set(rung) == RUNG_FIELDS
            if rung["skipped"] is None:
                assert rung["checked"] is True and rung["wrong"] == 0 and rung["runs"] == 2
                assert 0 < rung["min_ms"] <= rung["ms"] <= rung["max_ms"]
                assert (rung["build_ms"] is not None) == (rung["number"] != 1)
            else:
                assert rung["ms"] is None and rung["checked"] is None and rung["runs"] == 0
            assert rung["recall"] is None and rung["recall_floor"] is None
    assert first["rungs"][3]["skipped"] == "no GPU: --device cpu"
    assert {rung["skipped"] for rung in first["rungs"][26:40]} == {"is for --case tiles; --rungs runs it all the same"}
    assert first["rungs"][40]["skipped"] == "is for --case graph" and first["rungs"][41]["skipped"].startswith("no GPU")
    assert second["rungs"][16]["skipped"] == "is for 3 dimensions, not 16"


def test_published_figures_stand_beside(kith):
    out = kith("ladder", "--case", "3,1024,65536", *SMALL, "--rungs", "15,21", "--json").json
    (case,) = out["cases"]
    by_number = {rung["number"]: rung for rung in case["rungs"]}
    assert by_number[15]["published_ms"] == [1.07, 1.24] and "V100" in by_number[15]["published_source"]
    assert by_number[18]["published_ms"] == [0.98] and by_number[1]["published_ms"] is None
    assert {entry["rung"] for entry in case["published"]} == {15, 16, 17, 18}
    shown = kith("ladder", "--case", "3,1024,65536", *SMALL, "--rungs", "15,21")
    line = next(line for line in shown.out.splitlines() if line.startswith(" 15 "))
    assert line.endswith("1.07 / 1.24") and "times as fast as" in shown.out


@pytest.mark.covers("ladder", "--rungs")
def test_rungs_are_chosen_by_number_range_and_name(kith):
    case = kith("ladder", "--case", "3,9,200", *SMALL, "--rungs", "15-17,engine-cpu", "--json").json["cases"][0]
    assert ran(case) == {15, 17, 20}
    assert case["rungs"][0]["skipped"] == "not among --rungs"
    # Named, a rung runs on what it is no good for.
    assert ran(kith("ladder", "--case", "20,1,300", *SMALL, "--json").json["cases"][0]) == {1, 20}
    assert ran(kith("ladder", "--case", "20,1,300", *SMALL, "--rungs", "15,21", "--json").json["cases"][0]) == {15, 21}


@pytest.mark.covers("ladder", "--case")
def test_rungs_of_two_layers(kith):
    """Their own cases are large; named, they run on any."""
    case = kith("ladder", "--case", "3,9,9000,20", *SMALL, "--rungs", "27-40", "--json").json["cases"][0]
    assert ran(case) == set(range(27, 41))
    assert all(rung["checked"] for rung in case["rungs"][26:40])
    assert "leaf-tree-64k" in kith("ladder", "--case", "tiles", "--list").out
    assert "all, published, tiles, or graph" in kith("ladder", "--case", "tile", code=1).err


@pytest.mark.covers("ladder", "--case", "--list-size")
def test_walks_through_a_graph(kith):
    """True distances, and the recall that was measured; the promise is for long lists."""

    def go(*more):
        return kith("ladder", "--case", "graph:24,50,3000", *SMALL, *more, "--json").json["cases"][0]

    case = go()
    assert case["name"] == "graph:24,50,3000,10" and "mixture" in case["data"]
    assert case["graph"]["list_size"] == 64 and case["graph"]["degree"] >= 64 and len(case["graph"]["hash"]) == 16
    assert ran(case) == {20, 41, 54}
    by_number = {rung["number"]: rung for rung in case["rungs"]}
    assert by_number[20]["recall"] == 1 and by_number[20]["recall_floor"] == 1
    for number in (41, 54):
        rung = by_number[number]
        assert rung["checked"] is True and rung["wrong"] == 0 and rung["recall_floor"] == 0.85 <= rung["recall"] <= 1
    assert by_number[1]["skipped"].startswith("is for cases of exact search")
    assert by_number[42]["skipped"] == "no GPU: --device cpu"

    short = {rung["number"]: rung for rung in go("--list-size", "10")["rungs"]}
    assert short[41]["recall"] < by_number[41]["recall"] and short[41]["recall_floor"] is None
    assert short[41]["checked"] is True and short[20]["recall_floor"] == 1
    shown = kith("ladder", "--case", "graph:24,50,3000,5", *SMALL).out
    assert "recall" in shown and "queries/s" in shown and "lists of 64" in shown
    # Exact searches take its data, when they are named.
    assert ran(go("--rungs", "1,15,20")) == {1, 15, 20}


@pytest.mark.covers("ladder", "--case")
def test_walks_through_a_graph_on_a_gpu(kith):
    (case,) = kith("ladder", "--case", "graph:96,200,20000", "--repeat", "2", "--json").json["cases"]
    by_id = {rung["id"]: rung for rung in case["rungs"]}
    if by_id["bang-base"]["skipped"] is not None:
        assert by_id["bang-base"]["skipped"].startswith("no GPU")
        pytest.skip("needs a GPU")
    assert set(range(41, 56)) <= ran(case)
    assert all(rung["checked"] for rung in case["rungs"] if rung["skipped"] is None)
    # Where things lie, and when they are copied, changes nothing of what is found.
    same = ("bang-base", "bang-in-memory", "bang-no-prefetch", "bang-no-async", "bang-one-size")
    assert len({by_id[name]["recall"] for name in same}) == 1
    assert by_id["bang-no-bloom"]["recall"] < by_id["bang-in-memory"]["recall"]
    assert by_id["engine-graph"]["recall"] == by_id["engine-graph-cpu"]["recall"]


def clusters_of_bytes(rows, dim, seed):
    """Bytes around 40 centres, those of every seed the same."""
    centres = np.random.default_rng(1).integers(40, 216, (40, dim))
    random = np.random.default_rng(seed)
    noise = random.normal(0, 12, (rows, dim))
    return np.clip(np.rint(centres[random.integers(0, 40, rows)] + noise), 0, 255).astype(np.uint8)


@pytest.fixture
def own(folder):
    """base.npy and queries.npy, and what of them is refused: floats, longer rows, another dimension, no rows."""
    base, queries = clusters_of_bytes(3000, 24, 2), clusters_of_bytes(50, 24, 3)
    files = {
        "base": base, "queries": queries, "floats": base.astype(np.float32), "narrow": queries[:, :23],
        "long": np.zeros((9, 259), np.uint8), "none": base[:0],
    }  # fmt: skip
    for name, rows in files.items():
        np.save(f"{name}.npy", rows)
    return files


@pytest.mark.covers("ladder", "--base", "--queries", "--neighbors", "--input-format", "--list-size")
def test_walks_through_a_graph_of_rows_of_ones_own(kith, own):
    def go(*more, base="base.npy", case="graph"):
        what = ["--case", case, "--base", base, "--queries", "queries.npy"]
        return kith("ladder", *what, *SMALL, *more, "--json").json["cases"][0]

    case = go()
    assert case["name"] == "graph:24,50,3000,10"
    assert case["files"] == {"base": "base.npy", "queries": "queries.npy", "dtype": "u8"}
    assert case["data"].startswith("rows of base.npy, queries of queries.npy, bytes (u8)")
    assert ran(case) == {20, 41, 54} and case["graph"]["list_size"] == 64
    by_number = {rung["number"]: rung for rung in case["rungs"]}
    assert by_number[20]["recall"] == 1 and all(by_number[number]["checked"] for number in (20, 41, 54))
    # What these rows are like nobody knows.
    assert by_number[20]["recall_floor"] == 1 and by_number[41]["recall_floor"] is None
    assert by_number[41]["recall"] > 0.9
    assert by_number[1]["skipped"] == "reads rows of float32, and these are bytes"
    assert by_number[42]["skipped"] == "no GPU: --device cpu"

    assert go("-k", "3")["name"] == "graph:24,50,3000,3"
    assert go("-k", "100")["graph"]["list_size"] == 100
    assert go("--list-size", "20")["graph"]["list_size"] == 20
    # Sizes that are those of the files may be said.
    assert go(case="graph:24,50,3000,4")["name"] == "graph:24,50,3000,4"
    assert go("-k", "5", case="graph:24,50,3000")["name"] == "graph:24,50,3000,5"

    # Rows with something between them; a name that tells no format; folders stay the machine's business.
    kith("convert", "base.npy", "base.bvecs")
    kith("convert", "base.npy", "base.u8bin")
    Path("sub").mkdir()
    Path("base.u8bin").rename("sub/rows")
    for same in (go(base="base.bvecs"), go("--input-format", "u8bin", base="sub/rows")):
        assert same["graph"]["hash"] == case["graph"]["hash"]
        assert {rung["number"]: rung["recall"] for rung in same["rungs"]} == {
            rung["number"]: rung["recall"] for rung in case["rungs"]
        }
    assert same["files"]["base"] == "rows"
    shown = kith("ladder", "--case", "graph", "--base", "base.npy", "--queries", "queries.npy", *SMALL).out
    assert "24 dimensions, 50 queries, 3,000 points, k = 10" in shown and "rows of base.npy" in shown
    # The engine's exact searches take bytes, too.
    assert ran(go("--rungs", "1,15,20,21")) == {20, 21}


@pytest.mark.covers("ladder", "--base", "--queries", "--device-memory-limit")
def test_walks_through_a_graph_of_rows_of_ones_own_on_a_gpu(kith, folder):
    """Wherever rows and graph lie, the answer is the same."""
    np.save("base.npy", clusters_of_bytes(20_000, 96, 2))
    np.save("queries.npy", clusters_of_bytes(200, 96, 3))

    def go(*more):
        what = ["--case", "graph", "--base", "base.npy", "--queries", "queries.npy", "--repeat", "2"]
        (case,) = kith("ladder", *what, *more, "--json").json["cases"]
        return {rung["id"]: rung for rung in case["rungs"]}

    rungs = go()
    if rungs["bang-base"]["skipped"] is not None:
        assert rungs["bang-base"]["skipped"].startswith("no GPU")
        pytest.skip("needs a GPU")
    assert {20, 23} | set(range(41, 56)) <= {rung["number"] for rung in rungs.values() if rung["skipped"] is None}
    assert all(rung["checked"] for rung in rungs.values() if rung["skipped"] is None)
    same = ("bang-base", "bang-in-memory", "bang-no-prefetch", "bang-no-async", "bang-one-size")
    assert len({rungs[name]["recall"] for name in same}) == 1
    assert rungs["engine-graph"]["recall"] == rungs["engine-graph-cpu"]["recall"]
    assert rungs["engine-graph"]["fallback"] is None
    small = go("--rungs", "42,55", "--device-memory-limit", "70MB")
    assert small["engine-graph"]["fallback"] == "graph and rows in host memory"
    assert small["engine-graph"]["recall"] == rungs["engine-graph"]["recall"]
    assert small["bang-base"]["recall"] == rungs["bang-base"]["recall"]


OWN = ["--base", "base.npy", "--queries", "queries.npy"]


@pytest.mark.parametrize(
    "arguments, code, message",
    [
        (["--case", "graph", "--base", "base.npy"], 1, "--base needs the rows to search for; name --queries"),
        (["--case", "graph", "--queries", "queries.npy"], 1, "searched for in --base; name that, too"),
        (OWN, 1, "--case published: --base and --queries are for one case of graphs; use --case graph"),
        (["--case", "3,1,5", *OWN], 1, "use --case graph"),
        (["--case", "tiles", *OWN], 1, "use --case graph"),
        (["--case", "graph", "--case", "graph", *OWN], 1, "for one case of graphs"),
        (["--case", "graph:24,50,300", *OWN], 1, "'base.npy' has 3000 rows, not 300; leave the sizes out"),
        (["--case", "graph:24,5,3000", *OWN], 1, "'queries.npy' has 50 rows, not 5; leave the sizes out"),
        (["--case", "graph:25,50,3000", *OWN], 1, "'base.npy' has 24 dimensions, not 25; leave the sizes out"),
        (["--case", "graph:24,50,3000,4", *OWN, "-k", "5"], 1, "finds k = 4, and -k is 5; leave one of them out"),
        (["--case", "graph", *OWN, "-k", "0"], 1, "-k 0: use 1 to 65536"),
        (["--case", "graph", *OWN, "--list-size", "9"], 1, "case graph finds k = 10; use 10 or more"),
        (["--case", "graph", "-k", "5"], 1, "-k 5 is for the rows of --base"),
        (["--case", "graph", "--input-format", "npy"], 1, "--input-format npy is that of --base and --queries"),
        (["--case", "graph", "--base", "floats.npy", "--queries", "queries.npy"], 1, "'floats.npy' has rows of f32; rows of bytes (u8) are needed"),
        (["--case", "graph", "--base", "base.npy", "--queries", "floats.npy"], 1, "'floats.npy' has rows of f32; rows of bytes (u8) are needed"),
        (["--case", "graph", "--base", "base.npy", "--queries", "narrow.npy"], 1, "the queries 'narrow.npy' have 23"),
        (["--case", "graph", "--base", "long.npy", "--queries", "long.npy"], 1, "'long.npy' has 259 dimensions"),
        (["--case", "graph", "--base", "none.npy", "--queries", "queries.npy"], 1, "'none.npy' has 0 rows"),
        (["--case", "graph", "--base", "gone.npy", "--queries", "queries.npy"], 2, "gone.npy"),
        (["--case", "graph", *OWN, "-o", "base.npy"], 1, "base.npy"),
    ],
)  # fmt: skip
def test_rows_that_no_graph_of_the_ladder_takes(kith, own, arguments, code, message):
    before = files_of(Path.cwd())
    out = kith("ladder", *arguments, *SMALL, code=code)
    assert out.out == "" and message in out.err, out.err
    assert files_of(Path.cwd()) == before and len(np.load("base.npy")) == 3000


@pytest.mark.covers("ladder", "--list", "--json")
def test_list(kith):
    listed = kith("ladder", "--list", "--json").json["rungs"]
    assert [rung["number"] for rung in listed] == list(range(1, 56)) and listed[3]["id"] == "fused"
    shown = kith("ladder", "--list").out
    assert len(shown.splitlines()) == 55 and all(rung["id"] in shown for rung in listed)


@pytest.mark.covers("ladder", "--repeat", "--threads")
def test_runs_and_threads(kith):
    def go(*more):
        return kith("ladder", "--case", "3,400,3000", "--device", "cpu", "--rungs", "20,15", "--json", *more).json

    out = go("--repeat", "5", "--threads", "1")
    assert out["repeat"] == 5 and out["machine"]["threads"] == 1
    assert {rung["runs"] for rung in out["cases"][0]["rungs"] if rung["skipped"] is None} == {5}
    assert go("--threads", "2")["machine"]["threads"] == 2


@pytest.mark.covers("ladder", "--include-copies")
def test_copies_are_timed_when_asked(kith):
    case = kith("ladder", "--case", "3,20,2000", *SMALL, "--include-copies", "--json").json["cases"][0]
    for rung in case["rungs"]:
        assert (rung["ms_with_copies"] is not None) == (rung["skipped"] is None)
    # A tree's time with all that belongs to it has the build in it.
    tree = case["rungs"][14]
    assert tree["ms_with_copies"] > tree["ms"]
    assert "with copies" in kith("ladder", "--case", "3,20,2000", *SMALL, "--include-copies").out
    assert "with copies" not in kith("ladder", "--case", "3,20,2000", *SMALL).out


@pytest.mark.covers("ladder", "--device-memory-limit")
def test_a_limit_on_gpu_memory_leaves_rungs_out(kith):
    def go(limit):
        what = ["--case", "3,200,20000", "--rungs", "3,4,23", "--repeat", "1"]
        out = kith("ladder", *what, "--device-memory-limit", limit, "--json").json
        return {rung["number"]: rung for rung in out["cases"][0]["rungs"]}

    rungs = go("50%")
    if rungs[4]["skipped"] is not None:
        assert rungs[4]["skipped"].startswith("no GPU")
        pytest.skip("needs a GPU")
    assert all(rungs[number]["skipped"] is None for number in (3, 4, 23)) and rungs[3]["fallback"] is None
    # Points, queries and answers are 244,000 bytes, and the matrix would be 16 MB.
    assert "within" in go("4MiB")[3]["fallback"]
    rungs = go("230kB")
    assert all("the limit is 230000" in rungs[number]["skipped"] for number in (3, 4)) and rungs[23]["ms"] is None


@pytest.mark.covers("ladder", "--output", "--quiet")
def test_file(kith, folder):
    said = kith("ladder", "--case", "3,5,50", *SMALL, "-o", "out.json")
    assert "wrote out.json" in said.err and "Serial loop" in said.out
    written = json.loads(Path("out.json").read_text())
    assert written["schema"] == "kith-ladder/1" and written["command"][:2] == ["kith", "ladder"]
    assert kith("ladder", "--case", "3,5,50", *SMALL, "-q", "-o", "out.json").err == ""
    assert files_of(folder) == ["out.json"]


@pytest.mark.parametrize(
    "arguments, code, message",
    [
        (["--case", "3,1"], 1, "DIM,QUERIES,POINTS"),
        (["--case", "3,0,5"], 1, "--case '3,0,5'"),
        (["--case", "3,1,5,1,1"], 1, "--case"),
        (["--case", "3,1,99999999999"], 1, "less than 2147483648"),
        (["--case", "99999999,1,5"], 1, "16777216"),
        (["--case", "16777216,1,2147483647"], 3, "this machine has"),
        (["--case", "3,2147483647,5,2147483647"], 3, "this machine has"),
        (["--case", "graph:96,1"], 1, "graph: before them for a case of graphs"),
        (["--case", "graph:99999,1,5"], 1, "32768"),
        (["--case", "graph:96,1,2147483647"], 3, "this machine has"),
        (["--list-size", "20"], 1, "--list-size is for cases of graphs"),
        (["--case", "graph", "--list-size", "9"], 1, "finds k = 10; use 10 or more"),
        (["--case", "graph", "--list-size", "65537"], 1, "use 1 to 65536"),
        (["--rungs", "0"], 1, "no such rung; use 1 to 55"),
        (["--rungs", "56"], 1, "no such rung"),
        (["--rungs", "9-3"], 1, "the range is empty"),
        (["--rungs", "fusd"], 1, "no rung has that name"),
        (["--repeat", "0"], 1, "--repeat 0: use 1 to 10000"),
        (["--repeat", "1e3"], 1, "not a whole number"),
        (["--threads", "-1"], 1, "--threads -1"),
        (["--device", "gpu"], 1, "'gpu'"),
        (["--device-memory-limit", "lots"], 1, "'lots' is not a size"),
        (
            ["--device", "cpu", "--device-memory-limit", "2GiB"],
            1,
            "--device-memory-limit 2GiB limits the memory of GPUs",
        ),
        (["--device", "cuda:99"], 4, "cuda:99 is not there"),
        (["--rung", "3"], 1, "did you mean '--rungs'?"),
        (["-o", "gone/x.json"], 2, "its folder does not exist"),
        (["x"], 1, "too many"),
    ],
)
def test_bad_input_is_one_line_and_no_file(kith, folder, arguments, code, message):
    out = kith("ladder", *arguments, code=code)
    assert out.out == "" and message in out.err, out.err
    assert files_of(folder) == []


def test_interruption_leaves_no_file(folder):
    arguments = [KITH, "ladder", "--device", "cpu", "--case", "16,100000,200000", "--rungs", "1", "-o", "out.json"]
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130 and b"interrupted" in err
    assert files_of(folder) == []
