"""The benchmarks of point tiles: what processes take, peers, their checks, the page."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks.report import make_docs, tiles
from benchmarks.tiles import disk, in_memory, peers, worker
from benchmarks.tiles.process import measured

ROOT = Path(__file__).resolve().parents[2]


def test_what_a_process_takes(capfd):
    code = "a = bytearray(b'1') * 100_000_000; print(sum(range(10_000_000)))"
    took = measured([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert took["out"] == "49999995000000\n"
    assert 100_000_000 < took["peak_bytes"] < 150_000_000
    assert took["seconds"] > 0 and took["processor_seconds"] > 0
    held = bytearray(b"1") * 300_000_000  # what starts a process does not count
    assert measured([sys.executable, "-c", "pass"])["peak_bytes"] < 60_000_000
    del held
    with pytest.raises(SystemExit, match="status 3"):
        measured([sys.executable, "-c", "raise SystemExit(3)"])


def test_rates_of_the_disk(tmp_path):
    path = tmp_path / "some"
    path.write_bytes(bytes(9_000_000))
    try:
        disk.forget([path])
        assert disk.read_rate([path]) > 0 and disk.write_rate(tmp_path, disk.BLOCK) > 0
    except OSError as error:
        pytest.skip(f"no direct access to files here: {error}")
    assert [entry.name for entry in tmp_path.iterdir()] == ["some"]


@pytest.fixture
def cloud(tmp_path):
    random = np.random.default_rng(3)
    points = random.random((4000, 3)) * [60, 60, 1]
    points[:, 2] += np.sin(points[:, 0] / 5)
    np.save(tmp_path / "cloud.npy", points)
    np.save(tmp_path / "sample.npy", np.sort(random.choice(4000, 900, replace=False)))
    return points


def exactly(points, k):
    """k-th distances, each row its own first, and normals by all pairs."""
    squares = ((points[:, None] - points) ** 2).sum(axis=2)
    near = np.argsort(squares, axis=1)[:, :k]
    return np.sqrt(np.sort(squares, axis=1)[:, k - 1]), worker.fit(points[near])[0]


def by_worker(tmp_path, *words):
    line = [sys.executable, peers.WORKER[1], *map(str, words)]
    done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("name", [*worker.PEERS, "reference"])
def test_workers(cloud, tmp_path, name):
    pytest.importorskip("open3d" if name.startswith("open3d") else "scipy")
    kth, normals = exactly(cloud, 9)
    sample = np.load(tmp_path / "sample.npy")
    wide = ["--side", 25, "--border", 12]
    said = by_worker(tmp_path, name, "cloud.npy", 9, "k.npy", "--sample", "sample.npy", *wide)
    assert said["version"] and peers.wrong_neighbors(np.load(tmp_path / "k.npy"), kth[sample]) == 0
    all_unique = np.ones(len(cloud), bool)
    if name == "reference":
        found = np.load(tmp_path / "k.npy.normals.npy")
        assert peers.wrong_normals(found, normals[sample], np.load(tmp_path / "k.npy.unique.npy")) == 0
        return
    said = by_worker(tmp_path, name, "cloud.npy", 9, "n.npy", *wide)
    assert said["work_seconds"] > 0
    assert peers.wrong_normals(np.load(tmp_path / "n.npy"), normals, all_unique) == 0
    if name != "scipy-tiles":
        return
    by_worker(tmp_path, name, "cloud.npy", 9, "k.npy", "--sample", "sample.npy", "--side", 25, "--border", 0.2)
    assert peers.wrong_neighbors(np.load(tmp_path / "k.npy"), kth[sample]) > 10
    by_worker(tmp_path, name, "cloud.npy", 9, "n.npy", "--side", 25, "--border", 0.2)
    assert peers.wrong_normals(np.load(tmp_path / "n.npy"), normals, all_unique) > 10


def test_tiles_with_their_borders(tmp_path, cloud):
    (tmp_path / "tiles").mkdir()
    corner = cloud[:, :2].min(axis=0)
    rows = []
    for path in worker.split(tmp_path / "cloud.npy", 20, 3, tmp_path / "tiles"):
        tile = np.fromfile(path, worker.ROW)
        low = corner + 20 * np.array([int(part) for part in path.name.split("_")])
        place = cloud[:, :2] - low
        wanted = ((place >= -3) & (place <= 23)).all(axis=1)
        assert sorted(map(tuple, tile["point"])) == sorted(map(tuple, cloud[wanted]))
        own = tile["row"][tile["row"] >= 0]
        assert np.array_equal(cloud[own], tile["point"][tile["row"] >= 0])
        rows += own.tolist()
    assert sorted(rows) == list(range(len(cloud)))


def test_wrong_answers_are_found():
    exact = np.array([1.0, 2, 3])
    assert peers.wrong_neighbors(exact * (1 + 1e-14), exact) == 0
    assert peers.wrong_neighbors(np.array([1, 2.001, np.inf]), exact) == 2
    normals = np.array([[0, 0, 1.0], [0, 1, 0], [1, 0, 0], [0, np.nan, 0]])
    tilted = np.array([[0, 0, -1.0], [0, np.cos(0.03), np.sin(0.03)], [0, 1, 0], [0, 1, 0]])
    assert peers.wrong_normals(tilted, normals, np.array([True, True, True, False])) == 2
    good = {"name": "kith", "wrong_neighbors": 0, "wrong_normals": 0, "same_bits_as_tree": True}
    assert peers.faults([good, good]) == []
    assert peers.faults([{**good, "same_bits_as_tree": False}, {**good, "wrong_normals": 2}]) == [
        "normals of tiles are not those of the tree in memory", "kith: 2 wrong normals",
    ]  # fmt: skip
    assert peers.given(["-n", "5", "--note", "-n", "-o", "x", "--limit", "9"]) == ["-n", "5", "--limit", "9"]


def run(module, kith, output, *words):
    line = [sys.executable, "-m", f"benchmarks.tiles.{module}", "-o", output, *words]
    (ROOT / "build").mkdir(exist_ok=True)
    environment = {"KITH": str(kith), "PATH": "/usr/bin:/bin"}
    return subprocess.run([*map(str, line)], cwd=ROOT, env=environment, capture_output=True, text=True)


def test_peers_and_their_page(kith, tmp_path):
    pytest.importorskip("scipy")
    output = tmp_path / "peers.json"
    words = ["-n", 20_000, "--limit", 16, "--sample", 3000, "--repeat", 1, "--peers", "scipy-tiles", "--border", 0.5]
    done = run("peers", kith, output, *words, "--note", "Beside a test.")
    assert done.returncode == 0, done.stderr
    result = json.loads(output.read_text())
    ours, tree, script = result["entries"]
    assert ours["wrong_neighbors"] == ours["wrong_normals"] == tree["wrong_neighbors"] == 0
    assert script["wrong_neighbors"] > 0 and script["version"]
    assert str(tmp_path) not in output.read_text() and result["command"].endswith("--border 0.5")
    page = tiles.render_peers(result)
    assert f"| {script['wrong_neighbors']:,} |" in page and "Beside a test." in page and "20,000 points" in page


def test_a_wrong_answer_of_kith_is_no_result(kith, tmp_path):
    """A program that gives other normals than it should where a limit is given."""
    pytest.importorskip("scipy")
    fake = tmp_path / "kith"
    fake.write_text(
        f"""#!{sys.executable}
import os, subprocess, sys
words = sys.argv[1:]
ended = subprocess.run([{str(kith)!r}, *words]).returncode
if "--memory-limit" in words:
    stem = words[words.index("-o") + 1]
    with open(stem if os.path.exists(stem) else stem + ".distances.npy", "r+b") as file:
        file.seek(-1, 2)
        last = file.read(1)
        file.seek(-1, 2)
        file.write(bytes([last[0] ^ 1]))
sys.exit(ended)
"""
    )
    fake.chmod(0o755)
    words = ["-n", 5000, "--limit", 16, "--sample", 500, "--repeat", 1, "--peers", ""]
    done = run("peers", fake, tmp_path / "out.json", *words)
    assert done.returncode == 1 and "normals of tiles are not those" in done.stderr
    done = run("in_memory", fake, tmp_path / "out.json", "-n", 5000, "--limit", 32, "--repeat", 1)
    if "Invalid argument" not in done.stderr:  # direct access to files
        assert done.returncode == 1 and "the answers of tiles are not" in done.stderr
    assert not (tmp_path / "out.json").exists()


def test_tiles_beside_memory_and_their_page(kith, tmp_path):
    output = tmp_path / "memory.json"
    done = run("in_memory", kith, output, "-n", 20_000, "--limit", 32, "--repeat", 1)
    if "Invalid argument" in done.stderr:
        pytest.skip("no direct access to files here")
    assert done.returncode == 0, done.stderr
    result = json.loads(output.read_text())
    assert [entry["way"] for entry in result["entries"]] == ["memory", "tiles", "tiles, their order"] * 2
    page = tiles.render_in_memory(result)
    assert "all-knn, k = 8: **tiles**, `--order tiles`" in page and page.count(" % |") == 6
    assert tiles.render_tiles([{"kind": "trees"}]) == ""
    assert tiles.render_tiles([result]).startswith("## Clouds larger than memory")


def test_the_disk_s_share():
    entry = {"read_bytes": 300, "written_bytes": 100, "median_seconds": 8.0}
    assert tiles.disk_share(entry, {"read": 100, "written": 50}) == "62 %"


def test_answers_by_tile_are_compared(tmp_path):
    rows = np.random.default_rng(1).permutation(50)
    whole = np.arange(100.0).reshape(50, 2)
    for name, array in {"m": whole, "t": whole, "o": whole[rows]}.items():
        np.save(tmp_path / f"{name}.npy", array)
    np.save(tmp_path / "o.rows.npy", rows)
    stems = [str(tmp_path / name) for name in "mto"]
    assert in_memory.same_answers([".npy"], *stems)
    np.save(tmp_path / "o.npy", whole[rows[::-1]])
    assert not in_memory.same_answers([".npy"], *stems)
    np.save(tmp_path / "o.npy", whole[rows])
    np.save(tmp_path / "o.rows.npy", np.zeros(50, np.int64))
    assert not in_memory.same_answers([".npy"], *stems)
    np.save(tmp_path / "t.npy", whole + 1)
    assert not in_memory.same_answers([".npy"], *stems)


def test_the_page_of_benchmarks_names_them():
    results = [json.loads(path.read_text()) for path in sorted(make_docs.RESULTS.glob("tiles-*.json"))]
    if any(result.get("kind") in tiles.MAKERS for result in results):
        assert "## Clouds larger than memory" in make_docs.render()
