"""Point tiles from the command line: the answers of a tree in memory, within a limit, from folders and through them."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest
from program import KITH, files_of
from test_memory_limit import MIB, peak_of


@pytest.fixture
def cloud(folder):
    """3000 points on a wavy sheet, some of them equal, in two files and in one, and 50 queries."""
    random = np.random.default_rng(4)
    points = random.random((3000, 3)) * [30, 30, 0.2]
    points[:, 2] += np.sin(points[:, 0])
    points[50:90] = points[40]
    points = points.astype(np.float32)
    np.save("points.npy", points)
    np.save("a.npy", points[:1100])
    np.save("b.npy", points[1100:])
    np.save("queries.npy", (random.random((50, 3)) * [30, 30, 2]).astype(np.float32))
    return points


@pytest.fixture
def tiles(kith, cloud):
    kith("build", "points.npy", "--index", "point_tiles", "--tile-points", 100, "-o", "tiles")
    return "tiles"


def answer(name):
    return np.load(f"{name}.indices.npy"), np.load(f"{name}.distances.npy")


def same(a, b):
    return all(np.array_equal(x, y) and x.dtype == y.dtype for x, y in zip(answer(a), answer(b), strict=True))


@pytest.mark.covers("build", "BASE", "--index", "--tile-points", "--output", "--json", "--quiet")
def test_build(kith, cloud):
    outcome = kith("build", "a.npy", "b.npy", "--index", "point_tiles", "--tile-points", 200, "-o", "tiles")
    assert "wrote tiles: point_tiles of 3,000 rows x 3 f32" in outcome.err
    assert files_of(Path("tiles")) == ["manifest.json", "segment-0.bin"]
    told = kith(
        "build", "a.npy", "b.npy", "--index", "point_tiles", "--tile-points", 3000, "-o", "tiles", "--json"
    ).json
    assert (told["rows"], told["tiles"], told["tile_points"], told["dtype"]) == (3000, 1, 3000, "f32")
    assert kith("build", "a.npy", "--index", "point_tiles", "-o", "tiles", "-q").err == ""
    assert kith("info", "tiles", "--json").json["files"][0]["rows"] == 1100


@pytest.mark.covers("all-knn", "POINTS", "--neighbors", "--metric", "--inside", "--output", "--threads")
@pytest.mark.parametrize("inside", ["kd_tree", "octree", "brute_force"])
@pytest.mark.parametrize("metric", ["euclidean", "sqeuclidean", "manhattan"])
def test_all_knn_is_that_of_a_tree(kith, tiles, inside, metric):
    kith("all-knn", "points.npy", "-k", 7, "--metric", metric, "-o", "tree")
    kith("all-knn", tiles, "-k", 7, "--metric", metric, "--inside", inside, "-o", "r", "--threads", 2)
    assert same("r", "tree")


@pytest.mark.covers("all-knn", "--include-self", "--radius", "--json", "--statistics")
def test_all_knn_shares_options(kith, tiles):
    kith("all-knn", "points.npy", "-k", 7, "--radius", 0.5, "--include-self", "-o", "tree")
    outcome = kith("all-knn", tiles, "-k", 7, "--radius", 0.5, "--include-self", "-o", "r", "-v")
    assert same("r", "tree")
    assert "crossed" in outcome.err and "postponed" in outcome.err
    told = kith("all-knn", tiles, "-k", 7, "-o", "r", "--json").json
    assert told["queries"] == 3000 and told["index"]["name"] == "point_tiles"
    assert told["statistics"]["bytes_read"] == told["statistics"]["tile_bytes"] == 3000 * 20
    assert 0 < told["statistics"]["crossed"] < 3000
    assert told["files"] == ["r.indices.npy", "r.distances.npy"]


@pytest.mark.covers("all-knn", "--order", "--index-dtype")
def test_order_and_type_of_row_numbers(kith, tiles):
    kith("all-knn", tiles, "-k", 3, "-o", "tree")
    kith("all-knn", tiles, "-k", 3, "-o", "r", "--order", "tiles", "--index-dtype", "u32")
    indices, distances = answer("r")
    rows = np.load("r.rows.npy")
    assert rows.dtype == indices.dtype == np.uint32
    assert sorted(rows) == list(range(3000)) and list(rows) != list(range(3000))
    back = np.argsort(rows)
    assert np.array_equal(indices[back], answer("tree")[0])
    assert np.array_equal(distances[back], answer("tree")[1])


def test_what_tiles_would_ignore_is_refused(kith, tiles):
    for arguments, part in [
        (["all-knn", tiles, "-o", "r", "--index", "octree"], "--inside"),
        (["all-knn", tiles, "-o", "r", "--leaf-size", 8], "--leaf-size"),
        (["all-knn", tiles, "-o", "r", "--tile-points", 8], "--tile-points"),
        (["all-knn", tiles], "-o"),
        (["all-knn", tiles, "-o", "r.json"], "npy"),
        (["all-knn", tiles, "-o", "r", "--metric", "cosine"], "cosine"),
        (["all-knn", "a.npy", "b.npy", "-o", "r", "--index", "octree"], "--inside"),
        (["search", tiles, "queries.npy", "--recall", 0.5], "--recall"),
        (["search", tiles, "queries.npy", "--allowed", "queries.npy"], "--allowed"),
        (["build", "points.npy", "--index", "point_tiles", "-o", "t", "--metric", "euclidean"], "--metric"),
        (["build", "points.npy", "--index", "point_tiles", "-o", "t", "--leaf-size", 5], "--leaf-size"),
        (["build", "points.npy", "--index", "point_tiles", "-o", "t", "--filter", "int8"], "--filter"),
        (["build", "points.npy", "--index", "point_tiles", "-o", "t", "--tile-points", 0], "--tile-points 0"),
        (["build", "points.npy", "--index", "point_tiles", "-o", "-"], "folder"),
        (["build", "points.npy", "--index", "kd_tree", "-o", "t", "--tile-points", 9], "--tile-points"),
        (["build", "a.npy", "b.npy", "-o", "t"], "2 files"),
        (["info", tiles, "--stats"], "--stats"),
    ]:
        outcome = kith(*arguments, code=1)
        assert part in outcome.err, (arguments, outcome.err)
    kith("build", "points.npy", "--index", "kd_tree", "-o", "tree.kith")
    assert "--inside" in kith("search", "tree.kith", "queries.npy", "--inside", "octree", code=1).err
    assert "--metric" in kith("search", "tree.kith", "queries.npy", "--metric", "euclidean", code=1).err
    assert not os.path.exists("t")


@pytest.mark.covers(
    "search", "INDEX", "QUERIES", "--neighbors", "--inside", "--metric", "--max-queries", "--statistics"
)
@pytest.mark.parametrize("metric", ["euclidean", "manhattan"])
def test_search_is_that_of_a_tree(kith, tiles, metric):
    kith("build", "points.npy", "--index", "kd_tree", "--metric", metric, "-o", "tree.kith")
    kith("search", "tree.kith", "queries.npy", "-k", 9, "-o", "tree")
    outcome = kith("search", tiles, "queries.npy", "-k", 9, "--metric", metric, "--inside", "octree", "-o", "r", "-v")
    assert same("r", "tree")
    assert "crossed" in outcome.err
    kith("search", tiles, "queries.npy", "-k", 9, "--max-queries", 4, "-o", "r.json")
    with open("r.json") as file:
        assert json.load(file)["queries"] == 4


@pytest.mark.covers("search", "--order", "--index-dtype", "--memory-limit", "--json")
def test_queries_through_tiles(kith, tiles, folder):
    np.save("many.npy", (np.random.default_rng(8).random((200_000, 3)) * 30).astype(np.float32))
    kith("search", tiles, "many.npy", "-k", 20, "-o", "memory")
    before = files_of(folder)
    outcome = kith("search", tiles, "many.npy", "-k", 20, "-o", "r", "--memory-limit", "20MiB")
    assert "do not fit in memory: through tiles in" in outcome.err
    assert same("r", "memory")
    assert files_of(folder) == sorted([*before, "r.indices.npy", "r.distances.npy"])
    kith("build", "many.npy", "--index", "point_tiles", "-o", "asked")
    told = kith(
        "search", tiles, "asked", "-k", 20, "-o", "r", "--order", "tiles", "--index-dtype", "u32", "--json"
    ).json
    assert told["queries"] == 200_000 and told["files"][2] == "r.rows.npy"
    back = np.argsort(np.load("r.rows.npy"))
    assert np.array_equal(answer("r")[0][back], answer("memory")[0])
    kith("search", tiles, "queries.npy", "-k", 2, "-o", "r", "--index-dtype", "u32")
    assert answer("r")[0].dtype == np.uint32
    assert "--max-queries" in kith("search", tiles, "asked", "-o", "r", "--max-queries", 3, code=1).err


@pytest.mark.covers("all-knn", "--tile-points")
def test_several_files_go_through_tiles(kith, cloud, folder):
    kith("all-knn", "points.npy", "-k", 5, "-o", "tree")
    before = files_of(folder)
    outcome = kith("all-knn", "a.npy", "b.npy", "-k", 5, "-o", "r", "--tile-points", 100)
    assert "2 files are one cloud" in outcome.err
    assert same("r", "tree")
    assert files_of(folder) == sorted([*before, "r.indices.npy", "r.distances.npy"])
    told = kith("all-knn", "points.npy", "-k", 5, "-o", "r", "--tile-points", 100, "--json").json
    assert told["statistics"]["tiles"] > 20


@pytest.mark.covers("all-knn", "--memory-limit")
def test_what_does_not_fit_goes_through_tiles(kith, folder):
    np.save("large.npy", np.random.default_rng(1).random((300_000, 3)))
    kith("all-knn", "large.npy", "-k", 16, "-o", "tree")
    outcome = kith("all-knn", "large.npy", "-k", 16, "-o", "r", "--memory-limit", "40MiB")
    assert "do not fit in memory: through tiles in" in outcome.err
    assert same("r", "tree")
    assert files_of(folder) == [
        "large.npy",
        "r.distances.npy",
        "r.indices.npy",
        "tree.distances.npy",
        "tree.indices.npy",
    ]
    # Where the answer is to be shown, or written as one file, memory is needed after all.
    assert "--memory-limit is 40" in kith("all-knn", "large.npy", "-k", 16, "--memory-limit", "40MiB", code=3).err


@pytest.mark.covers("build", "--memory-limit", "--threads")
def test_memory_stays_within_the_limit(kith, folder):
    random = np.random.default_rng(2)
    points = random.random((1_500_000, 3)) * [1000, 1000, 1]
    np.save("large.npy", points)  # 36 MB, 48 MB as tiles, 192 MB of answer
    limit = 48 * MIB
    _, start, _ = peak_of(folder, "--version")
    code, peak, err = peak_of(
        folder, "build", "large.npy", "--index", "point_tiles", "-o", "tiles", "--memory-limit", "48MiB", "-q"
    )
    assert code == 0, err
    assert peak - start <= limit + 64 * MIB
    code, peak, err = peak_of(folder, "all-knn", "tiles", "-k", 8, "-o", "r", "--memory-limit", "48MiB", "-q")
    assert code == 0, err
    assert peak - start <= limit + 64 * MIB
    code, _, err = peak_of(folder, "all-knn", "tiles", "-k", 8, "-o", "r", "--memory-limit", "2MiB")
    assert code != 0 and "the limit is 2097152" in err and "--tile-points" in err


@pytest.mark.covers("build", "--memory-limit")
@pytest.mark.parametrize("kind", ["xyz", "ply", "las"])
def test_files_are_never_held_whole(kith, folder, kind):
    np.save("large.npy", (np.random.default_rng(2).random((5_000_000, 3)) * 1000).round(3))
    kith("convert", "large.npy", f"large.{kind}")
    os.remove("large.npy")
    limit = 16 * MIB
    assert os.path.getsize(f"large.{kind}") > limit + 64 * MIB
    _, start, _ = peak_of(folder, "--version")
    code, peak, err = peak_of(
        folder, "build", f"large.{kind}", "--index", "point_tiles", "-o", "tiles", "--memory-limit", limit, "-q"
    )
    assert code == 0, err
    assert peak - start <= limit + 64 * MIB
    told = kith("info", "tiles", "--json").json["files"][0]
    assert told["rows"] == 5_000_000


@pytest.mark.parametrize("kind", ["xyz", "ply", "pcd", "las"])
def test_tiles_of_every_format_are_those_of_its_rows(kith, cloud, folder, kind):
    kith("convert", "points.npy", f"c.{kind}")
    kith("convert", f"c.{kind}", "c.npy")
    for name in ["c.npy", f"c.{kind}"]:
        kith("build", name, "--index", "point_tiles", "--tile-points", 100, "-o", name + ".tiles")
    segments = [os.path.join(f"{name}.tiles", "segment-0.bin") for name in ["c.npy", f"c.{kind}"]]
    one, other = (Path(segment).read_bytes() for segment in segments)
    if kind != "las":
        assert one == other
        return
    assert len(one) == 3000 * 32 and len(other) == 3000 * 20  # its integers are kept
    for name in ["c.npy", f"c.{kind}"]:
        kith("all-knn", name + ".tiles", "-k", 5, "-o", f"answer-{name[2:]}")
    for part in ["indices", "distances"]:
        assert Path(f"answer-npy.{part}.npy").read_bytes() == Path(f"answer-{kind}.{part}.npy").read_bytes()


@pytest.mark.covers("info", "FILE")
def test_info(kith, tiles):
    told = kith("info", tiles, "--json").json["files"][0]
    assert told["format"] == "point_tiles" and told["rows"] == 3000 and told["bytes"] == 60000
    shown = kith("info", tiles, "points.npy").out
    assert "points each" in shown and "points.npy" in shown


@pytest.mark.covers("verify", "INDEX", "--json", "--quiet")
def test_verify(kith, tiles):
    kith("build", "points.npy", "--index", "kd_tree", "-o", "tree.kith")
    told = kith("verify", tiles, "tree.kith", "--json").json
    assert [entry["file"] for entry in told["sound"]] == [tiles, "tree.kith"]
    assert "sound (point_tiles, 3,000 rows" in kith("verify", tiles).out
    for path in ["tiles/segment-0.bin", "tiles/manifest.json", "tree.kith"]:
        with open(path, "r+b") as file:
            file.seek(-30, os.SEEK_END)
            byte = file.read(1)
            file.seek(-30, os.SEEK_END)
            file.write(bytes([byte[0] ^ 1]))
        outcome = kith("verify", "-q", tiles if "tiles" in path else path, code=2)
        assert path in outcome.err
        with open(path, "r+b") as file:
            file.seek(-30, os.SEEK_END)
            file.write(byte)
    assert "no such" in kith("verify", "nothing.kith", code=2).err.lower()


@pytest.mark.parametrize("work", ["build", "all-knn", "through tiles"])
@pytest.mark.parametrize("delay", [0.3, 0.8])
def test_ctrl_c_leaves_nothing(kith, folder, work, delay):
    np.save("large.npy", np.random.default_rng(5).random((3_000_000, 3)))
    calls = {
        "build": ["build", "large.npy", "--index", "point_tiles", "-o", "t", "--tile-points", "1000"],
        "all-knn": ["all-knn", "tiles", "-k", "200", "-o", "r"],
        "through tiles": ["all-knn", "large.npy", "-k", "200", "-o", "r", "--memory-limit", "300MiB"],
    }
    if work == "all-knn":
        kith("build", "large.npy", "--index", "point_tiles", "-o", "tiles")
    before = files_of(folder)
    process = subprocess.Popen(
        [str(KITH), *calls[work], "--threads", "1"],
        cwd=folder,
        stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    time.sleep(delay)
    if process.poll() is not None:
        pytest.skip("the work was over before the signal came")
    process.send_signal(signal.SIGINT)
    sent = time.monotonic()
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert time.monotonic() - sent < 4
    assert files_of(folder) == before
