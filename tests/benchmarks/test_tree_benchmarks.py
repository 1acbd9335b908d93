"""The benchmarks of the trees: data, peers, the runner, charts, the fit, the page."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks.datasets import tree_points
from benchmarks.report import make_docs
from benchmarks.trees import cases, charts, fit, peers, run

ROOT = Path(__file__).resolve().parents[2]


def test_morton_order():
    random = np.random.default_rng(1)
    points = random.random((2000, 3), np.float32)
    order = tree_points.morton_order(points)
    assert sorted(order) == list(range(2000))
    # Cells of a half, then of a quarter of the cube follow each other in blocks.
    for cells in (2, 4):
        cell = (points[order] * cells).astype(int) @ [1, cells, cells**2]
        assert (np.diff(cell) != 0).sum() == cells**3 - 1
    eight = np.array([[x, y, z] for z in (0.1, 0.9) for y in (0.1, 0.9) for x in (0.1, 0.9)], np.float32)
    assert tree_points.morton_order(eight).tolist() == list(range(8))


def test_points_are_what_their_names_say(monkeypatch):
    monkeypatch.setattr(tree_points, "ROWS", 3000)
    monkeypatch.setattr(tree_points, "ROWS_8D", 500)
    made = tree_points.make(lambda text: None)
    assert made["uniform"].shape == (3000, 3) and made["uniform-8d"].shape == (500, 8)
    assert all(points.dtype == np.float32 for points in made.values())
    assert set(made) == {name + tail for name in made for tail in ("", ".queries") if ".queries" not in name}
    assert np.array_equal(np.sort(made["uniform-sorted"], axis=0), np.sort(made["uniform"], axis=0))
    assert np.unique(made["half-same"], axis=0, return_counts=True)[1].max() == pytest.approx(1500, abs=1)
    assert set(np.unique(made["twice"], axis=0, return_counts=True)[1]) == {2}
    line = made["line"].astype(np.float64)
    assert np.allclose(line[:, 1] / line[:, 0], 0.5) and line[:, 0].max() / line[:, 0].min() > 1e11
    assert not np.array_equal(made["uniform"], made["uniform.queries"])
    again = tree_points.make(lambda text: None)
    assert all(np.array_equal(made[name], again[name]) for name in made)


def test_coast_in_other_orders(tmp_path, monkeypatch):
    monkeypatch.setattr(tree_points, "ROWS", 50)
    points = np.random.default_rng(2).random((1001, 3), np.float32)
    np.save(tmp_path / "coast.npy", points)
    made = tree_points.make_coast(lambda text: None, {"points": tmp_path / "coast.npy"})
    assert not np.array_equal(made["shuffled"], points)
    assert np.array_equal(np.unique(made["shuffled"], axis=0), np.unique(points, axis=0))
    assert len(np.unique(made["duplicated"], axis=0)) == 501 and len(made["duplicated"]) == 1001
    gap = np.linalg.norm(made["queries"][:, None] - points, axis=2).min(axis=1)
    assert made["queries"].shape == (50, 3) and 0 < np.median(gap) < 0.01


@pytest.fixture
def points(tmp_path):
    random = np.random.default_rng(3)
    rows, queries = random.random((400, 3), np.float32), random.random((90, 3), np.float32)
    np.save(tmp_path / "rows.npy", rows)
    np.save(tmp_path / "queries.npy", queries)
    return rows, queries


def kth(rows, queries, k):
    squares = ((queries[:, None].astype(np.float64) - rows) ** 2).sum(axis=2)
    return np.sort(squares, axis=1)[:, k - 1 : k].astype(np.float32)


@pytest.mark.parametrize("name", peers.PEERS)
def test_peers_are_timed_and_compared(points, tmp_path, name):
    pytest.importorskip("pykdtree" if name == "pykdtree" else "scipy")
    rows, queries = points
    np.save(tmp_path / "all_knn.5.npy", kth(rows, rows, 5))
    wrong = kth(rows, queries, 1)
    wrong[:7] *= 1.01
    np.save(tmp_path / "search.1.npy", wrong)
    said = []
    peers.measure(name, rows, queries, (1, 5), 1, 2, 60, tmp_path, said.append)
    about, build, *tasks = said
    assert about["name"] == name and about["version"] and build["task"] == "build" and len(build["seconds"]) == 2
    assert [(t["task"], t["k"], t["queries"]) for t in tasks] == [
        ("all_knn", 1, 400),
        ("all_knn", 5, 400),
        ("search", 1, 90),
    ]
    assert [t["differing"] for t in tasks] == [None, 0, 7]
    said.clear()
    peers.measure(name, rows, None, (2,), 1, 5, 0, None, said.append)  # no time for repeats, no other queries
    assert [len(t["seconds"]) for t in said[1:]] == [1, 1]


def test_a_peer_that_takes_too_long_is_given_up():
    script = 'import time\nprint(\'{"name": "x", "version": "1"}\', flush=True)\nprint(\'{"task": "build", "median_seconds": 1}\', flush=True)\ntime.sleep(60)'
    result = run.run_peer([sys.executable, "-c", script], 2)
    assert result["name"] == "x" and result["gave_up"] == 2 and [r["task"] for r in result["runs"]] == ["build"]
    with pytest.raises(SystemExit, match="failed"):
        run.run_peer([sys.executable, "-c", "raise SystemExit(3)"], 20)


def test_every_option_is_in_the_lines():
    case = cases.TreeCase("t", "x", None, k=(1, 8), seconds=7, limit=9)
    options = SimpleNamespace(threads=2, repeats=4)
    line = run.bench_line("tree_bench", "r.npy", "q.npy", case, options, "kth", "o.json")
    assert line == ["tree_bench", "r.npy", "-k", "1,8", "--seconds", "7", "--limit", "9", "--threads", "2",
                    "--repeats", "4", "--kth-distances", "kth", "-o", "o.json", "--queries", "q.npy"]  # fmt: skip
    assert "--queries" not in run.bench_line("tree_bench", "r.npy", None, case, options, "kth", "o.json")
    line = run.peer_line("scipy", "r.npy", "q.npy", case, options, 2, "kth")
    assert line[1:] == ["-m", "benchmarks.trees.peers", "scipy", "r.npy", "-k", "1,8", "--threads", "2", "--repeats",
                        "4", "--seconds", "7", "--kth-distances", "kth", "--queries", "q.npy"]  # fmt: skip


def test_unknown_cases_are_named(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["run", "nothing"])
    with pytest.raises(SystemExit):
        run.main()
    assert "no case 'nothing'" in capsys.readouterr().err


def bench_program(name):
    program = Path(os.environ.get("KITH", ROOT / "build/bin/kith")).resolve().with_name(name)
    if not program.is_file():
        pytest.skip(f"{name} is not built (KITH_BUILD_BENCHMARKS)")
    return program


def test_tree_bench_times_and_compares(points, tmp_path):
    rows, queries = points
    program = bench_program("tree_bench")

    def bench(*options):
        line = [program, tmp_path / "rows.npy", *options, "-o", tmp_path / "o.json"]
        done = subprocess.run([str(word) for word in line], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return json.loads((tmp_path / "o.json").read_text())

    result = bench("--queries", tmp_path / "queries.npy", "-k", "3,5", "--leaf-sizes", "8,32", "--nanoflann-leaf-sizes",
                   "10", "--threads", 1, "--repeats", 2, "--kth-distances", tmp_path)  # fmt: skip
    assert (result["rows"], result["dim"], result["threads"]) == (400, 3, 1)
    assert [(r["task"], r.get("k")) for r in result["runs"]] == [
        ("build", None),
        ("all_knn", 3),
        ("all_knn", 5),
        ("search", 1),
    ]
    for item in result["runs"]:
        names = [(e["name"], e["leaf_size"]) for e in item["entries"]]
        assert names == [("kd_tree", 8), ("octree", 8), ("kd_tree", 32), ("octree", 32), ("nanoflann", 10)]
        assert all(len(e["seconds"]) == 2 for e in item["entries"])
        if item["task"] != "build":
            assert [e.get("differing") for e in item["entries"]] == [None, 0, 0, 0, 0]
    assert np.allclose(np.load(tmp_path / "all_knn.5.npy"), kth(rows, rows, 5), rtol=1e-5)
    assert np.allclose(np.load(tmp_path / "search.1.npy"), kth(rows, queries, 1), rtol=1e-5)
    short = bench("-k", "1", "--nanoflann-leaf-sizes", "0", "--repeats", 9, "--seconds", 0)
    assert [e["name"] for e in short["runs"][0]["entries"]] == ["kd_tree", "octree"]
    assert [len(e["seconds"]) for e in short["runs"][0]["entries"]] == [1, 1] and len(short["runs"]) == 2
    given_up = bench("-k", "1", "--limit", "-1")
    assert all(e["median_seconds"] is None for e in given_up["runs"][1]["entries"])


def entry(name, leaf_size, seconds, **more):
    return {"name": name, "leaf_size": leaf_size, "seconds": [seconds], "median_seconds": seconds, **more}


def made_up(differing=0):
    """A results file of one case, and of everything else."""
    build = {"task": "build", "entries": [
        entry("kd_tree", 0, 0.1, memory_bytes=16_000), entry("octree", 0, 0.05, memory_bytes=20_000),
        entry("nanoflann", 10, 0.3), entry("nanoflann", 32, 0.25)]}  # fmt: skip
    knn = {"task": "all_knn", "k": 8, "queries": 1000, "entries": [
        entry("kd_tree", 0, 0.2), entry("octree", 0, 0.3, differing=0), entry("nanoflann", 10, 0.8, differing=differing),
        entry("nanoflann", 32, None, differing=0)]}  # fmt: skip
    scipy = {"name": "scipy", "version": "1.2", "note": "", "gave_up": 60,
             "runs": [{"task": "build", "seconds": [1.0], "median_seconds": 1.0}]}  # fmt: skip
    machine = {"cpu": "Some CPU", "cores": 2, "instruction_sets": "avx2 portable"}
    stamp = {"commit": "abc123", "date": "2026-01-02T03:04:05+00:00", "machine": machine, "threads": 2}
    case = {**stamp, "rows": 1000, "dim": 3, "nanoflann": {"version": "1.4.2", "threaded_build": False},
            "runs": [build, knn], "peers": [scipy]}  # fmt: skip
    sweep = {
        **case,
        "runs": [{"task": "build", "entries": [entry(n, s, s / 100) for s in (8, 128) for n in ("kd_tree", "octree")]}]
        * 2,
    }
    shape = {"dim": 3, "k": 1, "chosen": "kd_tree", "build": 0.1}
    crossover = {**stamp, "points": [
        {**shape, "rows": 1000, "queries": 1, "brute_force": 0.001, "kd_tree": 0.004},
        {**shape, "rows": 1000, "queries": 100, "brute_force": 0.2, "kd_tree": 0.01},
        {**shape, "rows": 1000, "queries": 1000, "brute_force": None, "kd_tree": 0.02}]}  # fmt: skip
    return {"kind": "trees", "cases": {"uniform": case}, "leaf_sizes": sweep, "crossover": crossover}


def cells(page, first):
    (line,) = [line for line in page.splitlines() if line.startswith(f"| {first} |")]
    return [cell.strip() for cell in line.strip("|").split("|")][1:]


def test_the_page_shows_the_figures(tmp_path):
    (tmp_path / "trees-cpu.json").write_text(json.dumps(made_up()))
    page = make_docs.render(tmp_path)
    assert "## Trees" in page and "Some CPU, 2 cores (avx2), 2 threads; nanoflann 1.4.2, built by one thread" in page
    assert cells(page, "1,000 x 3") == ["**KdTree**", "**Octree**", "nanoflann 1.4.2", "its best leaf", "scipy 1.2"]
    assert cells(page, "build") == [
        "100 ms",
        "50.0 ms (0.5)",
        "300 ms (3.00, leaf 10)",
        "250 ms (2.50, leaf 32)",
        "1.00 s (10.0)",
    ]
    assert cells(page, "all-kNN, k = 8") == [
        "200 ms",
        "300 ms (1.50)",
        "800 ms (4.00, leaf 10)",
        "800 ms (4.00, leaf 10)",
        "above the limit",
    ]
    assert "All answers agree." in page and "kd_tree 16.0, octree 20.0" in page and "Kith abc123, 2026-01-02" in page
    assert "8, 128 points a leaf" in page and "images/leaf-size.svg" in page
    assert "blurs" not in page
    loaded = made_up(differing=5)
    loaded["cases"]["uniform"]["load"] = 3.2
    (tmp_path / "trees-cpu.json").write_text(json.dumps(loaded))
    assert "(load 3.2), which blurs the figures" in make_docs.render(tmp_path)
    assert "5 answers differ." in make_docs.render(tmp_path)


def test_charts(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    (tmp_path / "r.json").write_text(json.dumps(made_up()))
    monkeypatch.setattr(sys, "argv", ["charts", "--results", str(tmp_path / "r.json"), "--out", str(tmp_path)])
    charts.main()
    sweep = (tmp_path / "leaf-size.svg").read_text()
    crossover = (tmp_path / "which-index.png").read_bytes()
    assert "points a leaf" in sweep and "1,000 uniform points" in sweep
    assert crossover.startswith(b"\x89PNG") and len(crossover) > 5000
    charts.main()
    assert (tmp_path / "leaf-size.svg").read_text() == sweep
    assert (tmp_path / "which-index.png").read_bytes() == crossover
    taken = [charts.ratio({"brute_force": b, "kd_tree": t}) for b, t in ((3, 2), (None, 2), (3, None), (None, None))]
    assert taken == [1.5, 100, 0.01, None]


def test_the_fit_finds_constants_back():
    pytest.importorskip("scipy")
    shapes = np.array([(n, d, q, k) for n in (1e3, 1e5) for d in (2, 6, 16) for q in (1, 100, 1e4) for k in (1, 30)])
    inputs = list(shapes.T)
    for model, start in ((fit.brute_force_cost, fit.BRUTE_FORCE), (fit.tree_cost, fit.TREE)):
        true = np.array(list(start.values())) * 1.2
        seconds = model(true, *inputs)
        seconds[3] = np.nan
        assert fit.fit(model, start, inputs, seconds) == pytest.approx(true, rel=0.01)


def test_the_fit_names_the_constants_of_choose():
    source = (ROOT / "src/any_index/choose.cpp").read_text()
    (costs,) = re.findall(r"constexpr Costs on_cpu = \{(.*?)\};", source, re.DOTALL)
    for name in [*fit.BRUTE_FORCE, *fit.TREE]:
        assert re.search(rf"\.{name} = [0-9]", costs), name
