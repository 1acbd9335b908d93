"""kith bench, its peers, and the page made from its results."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from benchmarks import run as runner
from benchmarks.cases import CASES
from benchmarks.datasets import DATASETS
from benchmarks.peers import PEERS, exactness, open_peer
from benchmarks.report import make_docs

INSTALLED = ("numpy", "scipy", "sklearn")  # the peers that the tests' own environment has


def bench(kith, *arguments):
    """(exit code, JSON, stderr)"""
    done = subprocess.run([kith, "bench", *map(str, arguments), "--json"], capture_output=True, text=True)
    return done.returncode, json.loads(done.stdout) if done.stdout else None, done.stderr


def test_every_option_shows_in_the_result(kith, files, tmp_path):
    code, result, errors = bench(
        kith, *files, "-k", "1,3", "--metric", "cosine,manhattan", "--filter", "fp32", "--threads", "1,2",
        "--repeats", 2, "--batch", 5, "--max-queries", 15, "--label", "case=x", "-o", tmp_path / "r.json",
    )  # fmt: skip
    assert code == 0, errors
    assert result == json.loads((tmp_path / "r.json").read_text())
    assert result["data"] == {
        "base": "base.npy", "queries_file": "queries.npy", "rows": 300, "dim": 6, "dtype": "f32", "queries": 15,
    }  # fmt: skip
    assert result["labels"] == {"case": "x"}
    assert str(tmp_path) not in json.dumps(result)  # no folder of this machine
    combinations = [(r["metric"], r["threads"], r["k"]) for r in result["runs"]]
    assert combinations == [(m, t, k) for m in ("cosine", "manhattan") for t in (1, 2) for k in (1, 3)]
    for item in result["runs"]:
        assert item["filter_asked"] == "fp32"
        assert len(item["seconds"]) == 2 and item["calls"] == 2 * 3
        assert item["median_seconds"] == pytest.approx(np.median(item["seconds"]))
        assert item["queries_per_second"] == pytest.approx(15 / item["median_seconds"])
        assert item["memory"]["data_bytes"] == 300 * 6 * 4 and item["memory"]["peak_bytes"] > 2**20


def test_generated_data(kith):
    code, result, errors = bench(
        kith, "--generate", "terrain_scan", "--rows", 500, "--dim", 3, "--queries", 7, "--dtype", "f64",
        "--seed", 4, "--utm", "--repeats", 1,
    )  # fmt: skip
    assert code == 0, errors
    data = result["data"]
    assert (data["generator"], data["seed"], data["utm"], data["normalize"]) == ("terrain_scan", 4, True, False)
    assert (data["rows"], data["dim"], data["dtype"], data["queries"]) == (500, 3, "f64", 7)


@pytest.mark.parametrize("peer", INSTALLED)
@pytest.mark.parametrize("metric", ["sqeuclidean", "euclidean", "inner_product", "cosine", "manhattan"])
def test_peers_agree(kith, files, peer, metric):
    code, result, errors = bench(
        kith, *files, "-k", 4, "--metric", metric, "--repeats", 2, "--batch", 8, "--threads", 1,
        "--peers", peer, "--peers-python", sys.executable,
    )  # fmt: skip
    if metric not in open_peer(peer).metrics:
        assert code == 1 and f"cannot do {metric}" in errors
        return
    assert code == 0, errors
    (found,) = result["runs"][0]["peers"]
    assert found["name"] == peer and found["recall"] == 1 and found["exact_queries"] == 20
    assert len(found["seconds"]) == 2 and found["calls"] == 2 * 3
    assert found["ratio"] == pytest.approx(found["median_seconds"] / result["runs"][0]["median_seconds"])


def test_peers_get_other_formats_as_npy(kith, tmp_path):
    points = np.random.default_rng(2).standard_normal((50, 3))
    (tmp_path / "p.xyz").write_text("".join(f"{x} {y} {z}\n" for x, y, z in points))
    code, result, errors = bench(
        kith, tmp_path / "p.xyz", tmp_path / "p.xyz", "-k", 3, "--max-queries", 9, "--repeats", 1,
        "--peers", "numpy", "--peers-python", sys.executable,
    )  # fmt: skip
    assert code == 0, errors
    assert result["data"]["queries"] == 9 and result["runs"][0]["peers"][0]["exact_queries"] == 9


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "name the files BASE and QUERIES"),
        (["--rows", "5"], "--generate"),
        (["--generate", "gaussian", "--max-queries", "5"], "--queries N"),
        (["--generate", "gaussian", "-k", "0"], "-k 0"),
        (["--generate", "gaussian", "--repeats", "0"], "--repeats 0"),
        (["--generate", "gaussian", "--batch", "-1"], "--batch -1"),
        (["--generate", "gaussian", "--threads", "-1"], "--threads -1"),
        (["--generate", "gaussian", "--label", "x"], "NAME=VALUE"),
        (["--generate", "gaussian", "-o", "/nowhere/x.json"], "does not exist"),
        (["--generate", "gaussian", "--rows", "9", "--peers", "nobody", "--peers-python", sys.executable], "no peer 'nobody'"),
        (["--generate", "gaussian", "--rows", "9", "--peers", "numpy", "--peers-runner", "/nowhere"], "'/nowhere' does not exist"),
        (["--generate", "gaussian", "--rows", "9", "--peers", "numpy", "--peers-python", "/nowhere"], "--peers-python"),
        (["--generate", "gaussian", "--rows", "9", "--peers", "numpy", "--peers-python", "/bin/true"], "ended without an answer"),
        (["--generate", "gaussian", "--rows", "9", "--peers", "numpy", "-k", "10", "--peers-python", sys.executable], "9 rows"),
    ],
)  # fmt: skip
def test_bad_arguments_are_one_clear_line(kith, arguments, message):
    code, _, errors = bench(kith, *arguments)
    assert code in (1, 2) and message in json.loads(errors)["error"]["message"]


def test_cases_name_what_exists():
    for name, case in CASES.items():
        assert case.dataset in DATASETS and set(case.peers) <= set(PEERS), name


def test_the_runner_names_files_relatively(tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "ensure", lambda name: {r: tmp_path / f"{name}.{r}.npy" for r in ("base", "queries")})
    line, folder = runner.command("c", CASES["sift-photos-1m"], "kith", ("faiss",), 2, "out.json")
    assert folder == tmp_path
    assert line[:4] == ["kith", "bench", "sift-photos-1m.base.npy", "sift-photos-1m.queries.npy"]
    assert line[line.index("--peers") + 1] == "faiss" and line[line.index("--threads") + 1] == "2"


def test_a_set_holds_kith_and_peers_and_shows_on_the_page(kith, files, tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "ensure", lambda name: dict(zip(("base", "queries"), files, strict=True)))
    case = "sift-photos-1m"
    monkeypatch.setattr(
        sys, "argv",
        ["run", case, "--set", "avx2", "--kith", str(kith), "--peers", "", "--out", str(tmp_path), "--threads", "1"],
    )  # fmt: skip
    environment = runner.environment("avx2")
    assert (environment["KITH_INSTRUCTION_SET"], environment["OPENBLAS_CORETYPE"]) == ("avx2", "Haswell")
    assert environment["FAISS_SIMD_LEVEL"] == "AVX2" and runner.environment(None) == dict(os.environ)
    sets = json.loads(subprocess.run([kith, "devices", "--json"], capture_output=True, text=True).stdout)
    if "avx2" not in json.dumps(sets):
        pytest.skip("no AVX2")
    runner.main()
    result = json.loads((tmp_path / f"{case}-avx2.json").read_text())
    assert result["runs"][0]["statistics"]["instruction_set"] == "avx2"
    assert result["labels"]["peers"] == "OPENBLAS_CORETYPE=Haswell FAISS_SIMD_LEVEL=AVX2"
    page = make_docs.render(tmp_path)
    assert "Kith on avx2, the peers held to such instructions (OPENBLAS_CORETYPE=Haswell" in page
    assert CASES[case].title in page and "on avx2:" in page


def test_the_page_is_what_the_results_say():
    assert make_docs.DOCUMENT.read_text() == make_docs.render(), "run: python -m benchmarks.report"


def test_the_page_shows_the_figures_measured(kith, files, tmp_path):
    case = "sift-photos-1m"
    code, result, errors = bench(
        kith, *files, "-k", 2, "--repeats", 1, "--peers", "numpy", "--peers-python", sys.executable,
        "-o", tmp_path / f"{case}.json", "--label", "commit=abc123",
    )  # fmt: skip
    assert code == 0, errors
    page = make_docs.render(tmp_path)
    assert CASES[case].title in page and "300 x 6 f32, 20 queries" in page and "abc123" in page
    assert f"**{make_docs.figure(result['runs'][0]['peers'][0]['ratio'])}**" in page


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.01234, "0.0123"),
        (1.234, "1.23"),
        (12.34, "12.3"),
        (123.4, "123"),
        (1234.5, "1,234"),
        (99.96, "100"),
        (9.996, "10.0"),
    ],
)
def test_figures(value, text):
    assert make_docs.figure(value) == text


def test_exactness(kith, tmp_path, monkeypatch):
    """Points in large coordinates: the float32 expansion fails, Kith does not."""
    random = np.random.default_rng(8)
    cloud = (random.uniform(0, 300, (4000, 3)) + [5e5, 5.4e6, 100]).astype(np.float32)
    np.save(tmp_path / "small_utm.npy", cloud)
    monkeypatch.setattr(exactness, "BATCHES", (10, 40))
    monkeypatch.setattr(exactness, "KITH_BATCHES", (7, 40))
    monkeypatch.setattr(
        sys, "argv",
        ["exactness", str(tmp_path / "small_utm.npy"), "--kith", str(kith), "--out", str(tmp_path), "--queries", "40",
         "--peers", "numpy", "-k", "5", "--threads", "1", "--text", "Made up."],
    )  # fmt: skip
    exactness.main()
    result = json.loads((tmp_path / "exactness-small-utm.json").read_text())
    assert result["kith_recall"] == 1 and result["oracle_queries"] == 40 and result["k"] == 5
    assert [p["batch"] for p in result["peers"]] == [10, 40]
    assert all(p["recall"] < 0.9 for p in result["peers"])
    assert result["expansion_negative_share"] > 0
    page = make_docs.render(tmp_path)
    assert "Exactness: small_utm.npy" in page and "Made up." in page
