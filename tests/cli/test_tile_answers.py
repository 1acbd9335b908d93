"""normals, outliers, radius and knn of point tiles: the bytes that a tree in memory gives."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from program import files_of


@pytest.fixture
def cloud(folder):
    """2500 points on a wavy sheet, some of them equal and one of them NaN, and 60 queries."""
    random = np.random.default_rng(14)
    points = random.random((2500, 3)) * [30, 30, 0.2]
    points[:, 2] += np.sin(points[:, 0])
    points[50:90] = points[40]
    points[7, 1] = np.nan
    np.save("points.npy", points)
    np.save("a.npy", points[:900])
    np.save("b.npy", points[900:])
    np.save("queries.npy", random.random((60, 3)) * [30, 30, 2])
    return points


@pytest.fixture
def tiles(kith, cloud):
    kith("build", "points.npy", "--index", "point_tiles", "--tile-points", 100, "-o", "tiles")
    return "tiles"


def same(a, b):
    with open(a, "rb") as one, open(b, "rb") as other:
        return one.read() == other.read()


@pytest.mark.covers(
    "normals", "POINTS", "--neighbors", "--radius", "--viewpoint", "--inside", "--output", "--json", "--statistics"
)
@pytest.mark.parametrize("near", [["-k", 12], ["--radius", 1.5], ["-k", 12, "--radius", 0.8, "--viewpoint", "0,0,9"]])
def test_normals(kith, tiles, near):
    kith("normals", "points.npy", *near, "-o", "tree.npy")
    outcome = kith("normals", tiles, *near, "-o", "n.npy", "-v")
    assert same("n.npy", "tree.npy")
    assert "crossed" in outcome.err and "wrote n.npy" in outcome.err
    told = kith("normals", tiles, *near, "-o", "n.npy", "--inside", "octree", "--json").json
    assert same("n.npy", "tree.npy")
    assert told["files"] == ["n.npy"] and told["rows"] == 2500 and told["index"]["inside"] == "octree"


@pytest.mark.covers("normals", "POINTS", "--tile-points", "--order", "--index-dtype", "--value-dtype", "--memory-limit")
def test_normals_through_tiles(kith, cloud, folder):
    kith("normals", "points.npy", "-k", 9, "-o", "tree.npy")
    before = files_of(folder)
    outcome = kith("normals", "a.npy", "b.npy", "-k", 9, "-o", "n.npy", "--tile-points", 100)
    assert "2 files are one cloud: through tiles in n.npy.normals.kith-tiles" in outcome.err
    assert same("n.npy", "tree.npy")
    assert files_of(folder) == sorted([*before, "n.npy"])
    kith("normals", "points.npy", "-k", 9, "-o", "o.npy", "--order", "tiles", "--index-dtype", "u32")
    rows = np.load("o.rows.npy")
    assert rows.dtype == np.uint32
    assert np.array_equal(np.load("o.npy")[np.argsort(rows)], np.load("tree.npy"), equal_nan=True)
    kith("normals", "points.npy", "-k", 9, "-o", "f.npy", "--value-dtype", "f32")
    found = np.load("f.npy")
    assert found.dtype == np.float32
    assert np.array_equal(found, np.load("tree.npy").astype(np.float32), equal_nan=True)
    np.save("large.npy", np.random.default_rng(3).random((300_000, 3)))
    kith("normals", "large.npy", "-k", 8, "-o", "tree.npy")
    outcome = kith("normals", "large.npy", "-k", 8, "-o", "n.npy", "--memory-limit", "24MiB")
    assert "do not fit in memory: through tiles in" in outcome.err
    assert same("n.npy", "tree.npy")
    # Formats that hold the points as well.
    kith("normals", "large.npy", "-k", 8, "-o", "tree.ply")
    kith("normals", "large.npy", "-k", 8, "-o", "n.ply", "--memory-limit", "24MiB")
    assert same("n.ply", "tree.ply")


@pytest.mark.covers(
    "outliers", "POINTS", "--neighbors", "--radius", "--ratio", "--metric", "--inside", "--mark", "--json", "--output"
)
@pytest.mark.parametrize("near", [["-k", 12], ["--radius", 0.7], ["-k", 12, "--radius", 0.8, "--metric", "manhattan"]])
def test_outliers(kith, tiles, near):
    for how, name in [([], "kept"), (["--mark"], "marks")]:
        tree = kith("outliers", "points.npy", *near, "--ratio", 1, "-o", f"tree-{name}.npy", *how)
        outcome = kith("outliers", tiles, *near, "--ratio", 1, "-o", f"{name}.npy", *how)
        assert same(f"{name}.npy", f"tree-{name}.npy")
        assert outcome.err.replace(name, f"tree-{name}") == tree.err or "NaN can never" in outcome.err
    expected = kith("outliers", "points.npy", *near, "-o", "tree.npy", "--json").json
    told = kith("outliers", tiles, *near, "-o", "kept.npy", "--inside", "octree", "--json").json
    for key in ["rows", "outliers", "mean", "deviation", "threshold", "ratio", "metric"]:
        assert told[key] == expected[key], key
    assert told["file"] == "kept.npy" and told["statistics"]["tiles"] > 20


@pytest.mark.covers("outliers", "--tile-points", "--memory-limit", "--statistics")
def test_outliers_through_tiles(kith, cloud, folder):
    kith("outliers", "points.npy", "-k", 9, "-o", "tree.npy")
    before = files_of(folder)
    outcome = kith("outliers", "a.npy", "b.npy", "-k", 9, "-o", "o.npy", "--tile-points", 100, "-v")
    assert "2 files are one cloud" in outcome.err and "crossed" in outcome.err
    assert same("o.npy", "tree.npy")
    assert files_of(folder) == sorted([*before, "o.npy"])
    np.save("large.npy", np.random.default_rng(3).random((300_000, 3)))
    kith("outliers", "large.npy", "-k", 8, "-o", "tree.npy")
    outcome = kith("outliers", "large.npy", "-k", 8, "-o", "o.npy", "--memory-limit", "24MiB")
    assert "do not fit in memory: through tiles in" in outcome.err
    assert same("o.npy", "tree.npy")


@pytest.mark.covers(
    "radius",
    "POINTS",
    "QUERIES",
    "--radius",
    "--max-neighbors",
    "--count",
    "--inside",
    "--metric",
    "--index-dtype",
    "--order",
    "--json",
    "--statistics",
)
@pytest.mark.parametrize("metric", ["euclidean", "sqeuclidean", "manhattan"])
def test_radius(kith, tiles, metric):
    kith("build", "queries.npy", "--index", "point_tiles", "--tile-points", 20, "-o", "asked")
    for queries, among in [("queries.npy", "queries.npy"), ("queries.npy", "asked"), ("points.npy", tiles)]:
        for more in [[], ["--max-neighbors", 4]]:
            how = ["-r", 0.9, "--metric", metric, *more]
            kith("radius", "points.npy", queries, *how, "-o", "tree")
            kith("radius", tiles, among, *how, "-o", "r", "--inside", "octree")
            for part in ["offsets", "indices", "distances"]:
                assert same(f"r.{part}.npy", f"tree.{part}.npy"), (queries, more, part)
        kith("radius", "points.npy", queries, "-r", 0.9, "--metric", metric, "--count", "-o", "tree")
        kith("radius", tiles, among, "-r", 0.9, "--metric", metric, "--count", "-o", "r")
        assert same("r.counts.npy", "tree.counts.npy")
    told = kith("radius", tiles, tiles, "-r", 0.9, "-o", "r", "--index-dtype", "u32", "--json").json
    assert told["neighbors"] == np.load("r.offsets.npy")[-1] and told["queries"] == 2500
    assert np.load("r.indices.npy").dtype == np.uint32
    kith("radius", tiles, tiles, "-r", 0.9, "--count", "-o", "in-order")
    kith("radius", tiles, tiles, "-r", 0.9, "--count", "-o", "c", "--order", "tiles")
    back = np.argsort(np.load("c.counts.rows.npy"))
    assert np.array_equal(np.load("c.counts.npy")[back], np.load("in-order.counts.npy"))
    assert "crossed" in kith("radius", tiles, "asked", "-r", 0.9, "-o", "r", "-v").err
    assert "query" in kith("radius", tiles, "queries.npy", "-r", 0.9, "--max-queries", 3).out


@pytest.mark.covers(
    "knn", "BASE", "QUERIES", "--inside", "--metric", "--radius", "--memory-limit", "--order", "--index-dtype"
)
def test_knn(kith, tiles, folder):
    kith("knn", "points.npy", "queries.npy", "-k", 6, "--metric", "euclidean", "-o", "tree")
    kith("knn", tiles, "queries.npy", "-k", 6, "--metric", "euclidean", "--inside", "octree", "-o", "r")
    for part in ["indices", "distances"]:
        assert same(f"r.{part}.npy", f"tree.{part}.npy")
    kith("knn", "points.npy", "queries.npy", "-k", 6, "--radius", 0.5, "-o", "tree")
    kith("knn", tiles, "queries.npy", "-k", 6, "--radius", 0.5, "-o", "r", "--order", "tiles", "--index-dtype", "u32")
    back = np.argsort(np.load("r.rows.npy"))
    assert np.load("r.indices.npy").dtype == np.uint32
    assert np.array_equal(np.load("r.distances.npy")[back], np.load("tree.distances.npy"))
    random = np.random.default_rng(3)
    np.save("large.npy", random.random((400_000, 3)))
    np.save("many.npy", random.random((200_000, 3)))
    before = files_of(folder)
    for queries in ["many.npy", "large.npy"]:
        kith("knn", "large.npy", queries, "-k", 8, "-o", "tree")
        outcome = kith("knn", "large.npy", queries, "-k", 8, "-o", "r", "--memory-limit", "24MiB")
        assert "do not fit in memory: through tiles in" in outcome.err
        for part in ["indices", "distances"]:
            assert same(f"r.{part}.npy", f"tree.{part}.npy")
    assert files_of(folder) == before


def test_what_tiles_would_ignore_is_refused(kith, tiles):
    for arguments, part in [
        (["normals", tiles, "-o", "n.npy", "--index", "octree"], "--inside"),
        (["normals", tiles, "-o", "n.npy", "--leaf-size", 8], "--leaf-size"),
        (["normals", tiles, "-o", "n.npy", "--tile-points", 8], "--tile-points"),
        (["normals", tiles, "-o", "n.ply", "--order", "tiles"], "--order"),
        (["normals", tiles, "-o", "n.ply", "--value-dtype", "f32"], "--value-dtype"),
        (["normals", tiles, "-o", "-", "--format", "ply"], "files"),
        (["normals", tiles, "-o", "n.npy", "--radius", 1, "--inside", "brute_force"], "brute_force"),
        (["normals", tiles, "-o", "n.npy", "--viewpoint", "1,2"], "viewpoint"),
        (["outliers", tiles, "-o", "n.fvecs"], "npy, ply, pcd, las or xyz"),
        (["outliers", tiles, "--mark", "--json"], "-o"),
        (["outliers", tiles, "-o", "n.npy", "--leaf-size", 8], "--leaf-size"),
        (["all-knn", tiles, "--member", "x", "-o", "r"], "--member"),
        (["normals", tiles, "-o", "n.npy", "--input-format", "las"], "--input-format"),
        (["normals", tiles, "-o", "n.npy", "--index-dtype", "u32"], "--index-dtype"),
        (["normals", "points.npy", "-o", "n.npy", "--index-dtype", "u32"], "--order tiles"),
        (["outliers", tiles, "-o", "n.npy", "--radius", "inf"], "--radius inf"),
        (["knn", tiles, "queries.npy", "--base-member", "x"], "--base-member"),
        (["search", tiles, tiles, "-o", "r", "--query-member", "x"], "--query-member"),
        (["search", tiles, tiles, "-o", "r", "--input-format", "npy"], "--input-format"),
        (["radius", tiles, tiles, "-r", 1, "-o", "r", "--base-member", "x"], "--base-member"),
        (["radius", tiles, tiles, "-r", 1, "-o", "r", "--input-format", "npy"], "--input-format"),
        (["radius", tiles, tiles, "-r", 1, "--count", "-o", "r", "--index-dtype", "u32"], "--index-dtype"),
        (["radius", tiles, tiles, "-r", 1], "-o"),
        (["radius", tiles, tiles, "-r", 1, "-o", "r", "--max-queries", 4], "--max-queries"),
        (["radius", tiles, tiles, "-r", 1, "-o", "r", "--unsorted"], "sorted"),
        (["radius", tiles, tiles, "-r", 1, "-o", "r", "--order", "tiles"], "order"),
        (["radius", tiles, "queries.npy", "-r", 1, "-o", "r", "--index-dtype", "u32"], "--index-dtype"),
        (["radius", "points.npy", "queries.npy", "-r", 1, "--inside", "octree"], "--inside"),
        (["knn", tiles, "queries.npy", "--filter", "int8"], "--filter"),
        (["knn", tiles, "queries.npy", "--recall", 0.9], "--recall"),
        (["knn", tiles, "queries.npy", "--metric", "cosine"], "cosine"),
        (["knn", "points.npy", "queries.npy", "--inside", "octree"], "--inside"),
    ]:
        outcome = kith(*arguments, code=1)
        assert part in outcome.err, (arguments, outcome.err)


@pytest.mark.parametrize("damaged", ["manifest.json", "segment-0.bin"])
def test_damaged_tiles_are_refused_by_name(kith, tiles, damaged):
    shutil.copytree(tiles, "other")
    with open(f"other/{damaged}", "r+b") as file:
        file.seek(300)
        byte = file.read(1)
        file.seek(300)
        file.write(bytes([byte[0] ^ 1]))
    outcome = kith("normals", "other", "-o", "n.npy", code=2)
    assert damaged in outcome.err


@pytest.mark.parametrize("command", ["all-knn", "normals", "outliers"])
def test_a_folder_of_tiles_stands_alone(kith, tiles, command):
    for others in (["a.npy"], ["nosuch.npy"]):
        error = kith(command, tiles, *others, "-o", "out.npy", code=1).err
        assert "'tiles' is a folder of point tiles" in error and "name it alone" in error
        assert "'tiles' is a folder" in kith(command, *others, tiles, "-o", "out.npy", code=1).err
    assert not any(name.startswith("out") for name in files_of(Path()))


@pytest.mark.parametrize("command", ["all-knn", "normals", "outliers"])
def test_lists_that_no_file_could_hold_are_refused(kith, tiles, command):
    for k in (2**62, 2**63 - 1, 2**40 + 1):
        assert "lists of up to 1099511627776" in kith(command, tiles, "-k", k, "-o", "out.npy", code=1).err
    assert "memory" in kith(command, tiles, "-k", 2**40, "-o", "out.npy", code=3).err
    assert not any(name.startswith("out") for name in files_of(Path()))


def test_what_lies_beside_tiles_is_not_lost(kith, tiles):
    Path("tiles", "mine.txt").write_text("mine")
    error = kith("build", "a.npy", "--index", "point_tiles", "-o", "tiles", code=2).err
    assert "'mine.txt', which would be lost" in error
    assert Path("tiles", "mine.txt").read_text() == "mine"
    Path("tiles", "mine.txt").unlink()
    kith("build", "a.npy", "--index", "point_tiles", "-o", "tiles")


def test_outliers_as_text(kith, cloud):
    kith("outliers", "points.npy", "-k", 9, "-o", "tree.xyz")
    kith("outliers", "points.npy", "-k", 9, "-o", "o.xyz", "--tile-points", 100)
    assert same("o.xyz", "tree.xyz")
    np.save("alone.npy", np.full((3, 3), np.nan))
    kith("outliers", "alone.npy", "-k", 1, "-o", "none.xyz", "--tile-points", 100)
    assert Path("none.xyz").read_text() == "0\n"


def test_why_a_folder_cannot_be_read(kith, cloud):
    """As in a folder without permission, which is none to root."""
    Path("folder").mkdir()
    Path("folder", "manifest.json").symlink_to("manifest.json")
    assert "cannot read 'folder/manifest.json': Too many" in kith("normals", "folder", "-o", "n.npy", code=2).err
