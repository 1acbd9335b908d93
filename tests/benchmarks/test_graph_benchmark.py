"""benchmarks.vamana: recall and rates, rows, a run of it, and the page made from its results."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks.datasets import generated
from benchmarks.report import graphs, make_docs
from benchmarks.vamana import curve, data
from benchmarks.vamana.libraries import LIBRARIES

ROOT = Path(__file__).resolve().parents[2]
FIXTURE = ROOT / "tests/data/report/vamana.json"


def test_ties_count_and_repetitions_do_not():
    base = np.array([[0.0], [1.0], [-1.0], [5.0]], np.float32)
    queries = np.zeros((2, 1), np.float32)
    limits = np.array([1.0, 1.0])  # of k = 2: row 0, and row 1 or 2
    assert curve.recall_of([[0, 1], [0, 2]], base, queries, limits) == 1
    assert curve.recall_of([[0, 0], [3, 0]], base, queries, limits) == 0.5
    assert curve.recall_of([[-1, 0], [9, 7]], base, queries, limits) == 0.25
    assert curve.true_distances(base, queries, np.array([[3, 3], [2, -1]])).tolist() == [[25, np.inf], [1, np.inf]]


def test_true_distances_in_blocks(monkeypatch):
    random = np.random.default_rng(1)
    base, queries = random.integers(0, 255, (90, 8)).astype(np.uint8), random.integers(0, 255, (31, 8)).astype(np.uint8)
    found = np.argsort(random.random((31, 90)), axis=1)[:, :7]
    whole = ((base[found].astype(int) - queries[:, None]) ** 2).sum(axis=2)
    monkeypatch.setattr(curve, "BLOCK", 100)
    np.testing.assert_array_equal(curve.true_distances(base, queries, found), whole)


def test_rates_at_a_recall():
    points = [{"setting": s, "recall": r, "queries_per_second": q} for s, r, q in [(40, 0.96, 100), (20, 0.9, 400)]]
    assert curve.at_recall(points, 0.93) == pytest.approx(200)  # half way, of logarithms
    assert curve.at_recall(points, 0.9) == 400 and curve.at_recall(points, 0.5) == 400
    assert curve.at_recall(points, 0.96) == pytest.approx(100) and curve.at_recall(points, 0.97) is None
    assert curve.at_recall([], 0.9) is None


def test_the_mixture_is_what_it_says():
    rows = generated.gaussian_mixture(20_000, 96, 25, seed=3)
    assert rows.dtype == np.float32 and rows.shape == (20_000, 96)
    assert np.array_equal(rows[:1000], generated.gaussian_mixture(20_000, 96, 25, seed=3)[:1000])
    assert not np.array_equal(rows[:1000], generated.gaussian_mixture(20_000, 96, 25, seed=4)[:1000])
    variances = np.exp(-np.arange(96) / generated.decay_for(25, 96))
    assert variances.sum() ** 2 / (variances**2).sum() == pytest.approx(25)
    # Centres and scatter share the spectrum, so all of it has about the same participation ratio.
    found = np.linalg.eigvalsh(np.cov(rows.T))
    assert 18 < found.sum() ** 2 / (found**2).sum() < 27
    assert 96 < found.sum() < 160  # the scatter's d, and 0.36 of it between centres
    assert np.abs(np.corrcoef(rows.T) - np.eye(96)).max() > 0.1  # turned: no axis is a latent one


def run(*arguments):
    package = Path(__import__("kith").__file__).parents[1]
    line = [sys.executable, "-m", "benchmarks.vamana", "--package", str(package), *map(str, arguments)]
    return subprocess.run(line, cwd=ROOT, capture_output=True, text=True)


def fake(folder, name, code):
    """A virtual environment's python that does something else."""
    python = folder / LIBRARIES[name].package / "bin/python"
    python.parent.mkdir(parents=True)
    python.write_text(f"#!/bin/sh\n{code}\n")
    python.chmod(0o755)


def test_a_run_measures_and_names_what_fails(tmp_path):
    peers = tmp_path / "peers"
    fake(peers, "faiss", "echo 'first word' >&2; echo \"Illegal wheel in $PWD/build.\" >&2; exit 3")
    fake(peers, "usearch", "kill -ILL $$")
    fake(peers, "ngt", "exec sleep 60")
    common = ["--dataset", "embeddings-768", "--rows", 600, "--queries", 20, "--repeats", 2, "--seconds", 0.01]
    done = run(
        *common, "--folder", tmp_path / "rows", "--peers-folder", peers, "--peers", "hnswlib,faiss,usearch,ngt",
        "--limit", 20, "--threads", "1,2", "-k", "5,10", "-o", tmp_path / "r.json",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    result = json.loads((tmp_path / "r.json").read_text())
    errors = {lost["name"]: lost["error"] for lost in result["failed"]}
    assert "pip install hnswlib" in errors["hnswlib"]
    assert errors["faiss HNSW"] == "exit code 3: Illegal wheel in ./build"
    assert errors["usearch"].startswith("SIGILL") and errors["NGT ONNG"] == "gave up after 20 s"
    assert str(ROOT) not in json.dumps(result) and str(tmp_path) not in json.dumps(result)
    (kith,) = result["libraries"]
    assert kith["name"] == "Kith" and kith["graph_hash"] and kith["build_seconds"] > 0 and kith["memory_bytes"] > 0
    assert kith["build_peak_bytes"] > 0
    expected = {"max_degree": 64, "build_list_size": 128, "code_bits": 8}
    assert expected.items() <= kith["parameters"].items() and kith["parameters"]["code_dim"] > 0
    assert kith["build_threads"] == 2
    assert [(r["threads"], r["k"]) for r in kith["runs"]] == [(1, 5), (1, 10), (2, 5), (2, 10)]
    for one in kith["runs"]:
        settings = [point["setting"] for point in one["points"]]
        assert settings == sorted(set(settings)) and settings[0] >= one["k"]
        assert one["points"][-1]["recall"] > 0.9 and one["queries_per_second_at"]["0.90"] > 0
    recalls = {r["threads"]: [p["recall"] for p in r["points"]] for r in kith["runs"] if r["k"] == 10}
    assert recalls[1] == recalls[2]
    assert {said["asked"] for said in kith["stated"]} <= {0.9, 0.95, 0.99}
    data_of = result["data"]
    assert (data_of["rows"], data_of["dim"], data_of["dtype"], data_of["queries"]) == (600, 768, "float32", 20)
    # Kept rows are used again; another graph has another hash.
    again = run(
        *common, "--folder", tmp_path / "rows", "--peers", "", "--max-degree", 16, "--build-list-size", 64, "--code-bits", 4,
        "--code-dim", 64, "--threads", 1, "--build-threads", 2, "--enough", 0.99, "--commit", "0123456789ab",
        "-k", 10, "-o", tmp_path / "s.json",
    )  # fmt: skip
    assert again.returncode == 0 and "making rows" in done.stderr and "making rows" not in again.stderr
    said = json.loads((tmp_path / "s.json").read_text())
    (other,) = said["libraries"]
    assert said["commit"] == "0123456789ab" and other["build_threads"] == 2
    recalls = [point["recall"] for point in other["runs"][0]["points"]]
    assert max(recalls[:-1], default=0) <= 0.99 < recalls[-1]
    assert other["parameters"] == {"max_degree": 16, "build_list_size": 64, "code_bits": 4, "code_dim": 64}
    assert other["graph_hash"] != kith["graph_hash"]


PEER = """
import numpy as np

class Index:
    def __init__(self, space, dim): pass
    def init_index(self, rows, M, ef_construction): print("built from", rows)
    def add_items(self, base, num_threads): self.base = base
    def save_index(self, path): np.save(open(path, "wb"), self.base)
    def load_index(self, path): self.base = np.load(path)
    def set_ef(self, size): pass
    def knn_query(self, queries, k, num_threads):
        return np.argsort(((queries[:, None] - self.base) ** 2).sum(axis=2), axis=1)[:, :k], None
"""


def test_builds_are_kept(tmp_path):
    (tmp_path / "site/hnswlib-9.dist-info").mkdir(parents=True)
    (tmp_path / "site/hnswlib-9.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: hnswlib\nVersion: 9\n")
    (tmp_path / "site/hnswlib.py").write_text(PEER)
    fake(tmp_path / "peers", "hnswlib", f'PYTHONPATH={tmp_path}/site exec {sys.executable} "$@"')
    kept, output = tmp_path / "kept", tmp_path / "r.json"

    def measured(*more, rows=600):
        done = run(
            "--dataset", "embeddings-768", "--rows", rows, "--queries", 20, "--quick", "--threads", 1, "-k", 10,
            "--folder", tmp_path / "rows", "--peers-folder", tmp_path / "peers", "--peers", "hnswlib", "--keep", kept,
            "-o", output, *more,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return json.loads(output.read_text())["libraries"] if output.exists() else []

    assert measured("--build-only") == [] and len(list(kept.glob("hnswlib-*"))) == 1
    (note,) = kept.glob("*/build.json")
    built = json.loads(note.read_text())
    kith, peer = measured()
    assert "build_date" not in kith and built.items() <= peer.items() and peer["version"] == "9"
    assert peer["build_date"] and peer["runs"][0]["points"][0]["recall"] == 1
    # Half a folder, other rows and other parameters are built anew.
    note.unlink()
    assert "build_date" not in measured()[1] and note.exists()
    assert "build_date" not in measured(rows=500)[1]
    assert "build_date" not in measured("--m", 16)[1]
    assert len(list(kept.glob("hnswlib-*"))) == 3
    text = graphs.rates_table({"libraries": [{**peer, "build_date": "2026-01-02", "build_load": 3.0}]}, 1, 10)
    assert "1 threads, on 2026-01-02 beside other work |" in text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--dataset", "x"], "invalid choice: 'x'"),
        (["--dataset", "embeddings-768", "--peers", "nobody"], "no peer 'nobody'; there are: hnswlib"),
        (["--dataset", "embeddings-768", "-k", "0"], "-k 0: 1 to 100"),
        (["--dataset", "embeddings-768", "-k", "101"], "-k 101: 1 to 100"),
        (["--dataset", "embeddings-768", "--build-threads", "0"], "--build-threads 0: 1 or more"),
        (["--dataset", "embeddings-768", "--build-only"], "--build-only wants --keep FOLDER"),
        (["--dataset", "embeddings-768", "--enough", "0.9"], "--enough 0.9: 0.99 to 1"),
    ],
)
def test_bad_arguments_are_named(arguments, words):
    done = run(*arguments)
    assert done.returncode == 2 and words in done.stderr


def test_sets_have_words_for_the_page():
    assert set(data.SETS) == {"sift-photos-u8", "sift-photos-f32", "embeddings-768", "sentences-384"}
    assert all(rows.text.endswith(".") for rows in data.SETS.values())


def test_the_page_says_what_the_results_say(tmp_path):
    (tmp_path / "vamana-invented.json").write_text(FIXTURE.read_text())
    text = make_docs.render(tmp_path)
    assert "### invented: 20,000 x 24 uint8" in text and "TEST DATA: all figures invented, 2 cores" in text
    assert "| k = 10, 1 thread | at 0.90 | at 0.95 | at 0.99 | build | memory |" in text
    assert "| **Kith 0.1.0** | 27,000 | 17,500 | 7,000 | 12.5 s, 2 threads | 19 MiB |" in text
    assert "| Other & <Graph> 9.9 | 13,500 (2.00) | 8,750 (2.00) | 3,500 (2.00) | 50.0 s, 2 threads | 30 MiB |" in text
    assert "| Third 1 | 54,000 (0.5) | 35,000 (0.5) | - | 80.0 s, 2 threads | 39 MiB |" in text
    assert "| 0.95 | 10 | 1 | 32 | 0.953 | 0.9601 | 16,000 |" in text
    assert "Not measured: Absent: SIGILL: no word." in text and "`00000000invented`" in text
    assert "blurs" not in text
    pytest.importorskip("matplotlib")
    images = tmp_path / "images"
    images.mkdir()
    (missing,) = graphs.stale(tmp_path, images)
    assert graphs.draw(tmp_path, images) == [missing] and f"images/{missing.name}" in text
    assert graphs.stale(tmp_path, images) == []
    value = json.loads(FIXTURE.read_text())
    value["libraries"][0]["runs"][0]["queries_per_second_at"]["0.99"] = 7500.0
    (tmp_path / "vamana-invented.json").write_text(json.dumps(value))
    assert graphs.stale(tmp_path, images) == [missing]
    value["libraries"][0]["parameters"] |= {"code_bits": 4, "build_list_size": 200}
    (tmp_path / "vamana-invented.json").write_text(json.dumps(value))
    assert "uint8, codes of 4 bits, built with a list of 200\n" in make_docs.render(tmp_path)


def test_no_results_no_section(tmp_path):
    assert "## Graphs" not in make_docs.render(tmp_path)
