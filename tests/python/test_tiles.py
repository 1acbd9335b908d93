"""kith.PointTiles: answers of a tree in memory, from files and arrays."""

import os
import signal
import subprocess
import sys

import kith
import numpy as np
import pytest


@pytest.fixture
def points():
    random = np.random.default_rng(3)
    rows = random.random((2500, 3)) * [20, 20, 0.1]
    rows[100:130] = rows[99]
    return rows


@pytest.fixture
def tiles(points, tmp_path):
    return kith.PointTiles.build(tmp_path / "tiles", points, tile_points=100)


def same(answer, neighbors):
    distances, indices = answer
    return np.array_equal(distances, neighbors.distances) and np.array_equal(indices, neighbors.indices)


def test_build_from_files_and_arrays(points, tmp_path):
    np.save(tmp_path / "a.npy", points[:1000])
    np.save(tmp_path / "b.npy", points[1000:])
    tree = kith.KdTree(points)
    for clouds in [points, [tmp_path / "a.npy", str(tmp_path / "b.npy")]]:
        tiles = kith.PointTiles.build(tmp_path / "tiles", clouds, tile_points=200, threads=1)
        assert (tiles.rows, tiles.dim, tiles.dtype, tiles.tile_points) == (2500, 3, "float64", 200)
        assert tiles.tiles >= 12 and tiles.nan_rows == 0
        assert same(tiles.all_knn(tmp_path / "r", 5), tree.all_knn(5))
    one = kith.PointTiles.build(tmp_path / "tiles", tmp_path / "a.npy")
    assert one.rows == 1000 and one.folder == tmp_path / "tiles"
    assert "1,000 x 3 float64" in repr(kith.PointTiles.open(tmp_path / "tiles"))


def test_build_from_an_iterator(points, tmp_path):
    blocks = (points[first : first + 700] for first in range(0, 2500, 700))
    tiles = kith.PointTiles.build(tmp_path / "tiles", blocks, tile_points=200)
    assert same(tiles.all_knn(tmp_path / "r", 5), kith.KdTree(points).all_knn(5))
    assert sorted(os.listdir(tmp_path)) == ["r.distances.npy", "r.indices.npy", "tiles"]
    for wrong, text in [
        (iter([]), "without arrays"),
        (iter([points, points.astype(np.float32)]), "float32"),
        (iter([points[0]]), r"\(3,\)"),
    ]:
        with pytest.raises(kith.InvalidArgument, match=text):
            kith.PointTiles.build(tmp_path / "other", wrong)
    assert "other" not in os.listdir(tmp_path)


@pytest.mark.parametrize("metric", ["sqeuclidean", "euclidean", "manhattan"])
def test_all_knn(points, tiles, tmp_path, metric):
    tree = kith.KdTree(points, metric=metric)
    for inside in ["kd_tree", "octree", "brute_force"]:
        answer = tiles.all_knn(tmp_path / "r", 6, metric=metric, inside=inside)
        assert same(answer, tree.all_knn(6))
        assert answer.files == (tmp_path / "r.indices.npy", tmp_path / "r.distances.npy")
        assert answer.rows is None
        assert answer.statistics.queries == 2500
        assert answer.statistics.bytes_read == answer.statistics.tile_bytes == 2500 * 32
    assert same(tiles.all_knn(tmp_path / "r", 6, metric=metric, include_self=True), tree.all_knn(6, include_self=True))
    assert same(tiles.all_knn(tmp_path / "r", 6, metric=metric, radius=0.3), tree.all_knn(6, radius=0.3))


def test_order_and_type(points, tiles, tmp_path):
    answer = tiles.all_knn(tmp_path / "r", 4, order="tiles", index_dtype="uint32")
    assert answer.indices.dtype == answer.rows.dtype == np.uint32
    back = np.argsort(answer.rows)
    expected = kith.KdTree(points).all_knn(4)
    assert np.array_equal(answer.indices[back], expected.indices)
    assert np.array_equal(answer.distances[back], expected.distances)


def test_search(points, tiles):
    queries = np.random.default_rng(5).random((60, 3)) * 20
    tree = kith.KdTree(points, metric="euclidean")
    assert same(tiles.search(queries, 7, metric="euclidean", threads=2), tree.search(queries, 7))
    assert same(tiles.search(queries, 7, metric="euclidean", radius=1.5), tree.search(queries, 7, radius=1.5))
    wide = tiles.search(queries.astype(np.float32), 3, metric="euclidean", inside="octree")
    assert same(wide, tree.search(queries.astype(np.float32), 3))
    narrow = kith.PointTiles.build(tiles.folder, points.astype(np.float32))
    with pytest.raises(TypeError, match="float64"):
        narrow.search(queries)


def test_limits_and_progress(points, tiles, tmp_path):
    with pytest.raises(kith.OutOfMemory, match="the limit is 1000"):
        tiles.all_knn(tmp_path / "r", 4, memory_limit=1000)
    with pytest.raises(kith.OutOfMemory, match="the limit is 1000"):
        tiles.search(points, 4, memory_limit=1000)
    with pytest.raises(kith.OutOfMemory, match="the limit is 1000"):
        kith.PointTiles.build(tmp_path / "t", points, memory_limit=1000)
    seen = []
    kith.PointTiles.build(tmp_path / "t", points, progress=lambda done, total: seen.append((done, total)))
    tiles.all_knn(tmp_path / "r", 4, progress=lambda done, total: seen.append((done, total)))
    tiles.search(points, 4, progress=lambda done, total: seen.append((done, total)))
    tiles.verify(progress=lambda done, total: seen.append((done, total)))
    assert seen.count((2500, 2500)) == 5


def test_errors(points, tiles, tmp_path):
    with pytest.raises(kith.IoError, match="manifest.json"):
        kith.PointTiles.open(tmp_path)
    with pytest.raises(kith.IoError):
        kith.PointTiles.build(tmp_path / "t", tmp_path / "none.npy")
    with pytest.raises(TypeError, match="PointTiles.build"):
        kith.PointTiles()
    for wrong in [{"metric": "cosine"}, {"inside": "oak"}, {"order": "any"}, {"index_dtype": "int8"}, {"radius": -1}]:
        with pytest.raises(kith.InvalidArgument, match=str(next(iter(wrong.values())))):
            tiles.all_knn(tmp_path / "r", 4, **wrong)
    with pytest.raises(TypeError):
        tiles.all_knn(tmp_path / "r", 4, metric=3)
    with pytest.raises(kith.InvalidArgument, match="k is 0"):
        tiles.all_knn(tmp_path / "r", 0)
    segment = tiles.folder / "segment-0.bin"
    data = bytearray(segment.read_bytes())
    data[100] ^= 4
    segment.write_bytes(data)
    with pytest.raises(kith.IoError, match="segment-0.bin"):
        tiles.verify()
    with pytest.raises(kith.IoError, match="segment-0.bin"):
        tiles.all_knn(tmp_path / "r", 4)
    assert sorted(os.listdir(tmp_path)) == ["tiles"]


def test_without_rows(tmp_path):
    empty = kith.PointTiles.build(tmp_path / "tiles", np.empty((0, 3)))
    answer = empty.all_knn(tmp_path / "r", 3)
    assert answer.indices.shape == answer.distances.shape == (0, 3)


def test_queries_in_tiles(points, tiles, tmp_path):
    queries = np.random.default_rng(6).random((300, 3)) * 20
    asked = kith.PointTiles.build(tmp_path / "asked", queries, tile_points=40)
    tree = kith.KdTree(points, metric="euclidean")
    answer = tiles.search_tiles(tmp_path / "r", asked, 6, metric="euclidean", threads=2)
    assert same(answer, tree.search(queries, 6)) and answer.statistics.queries == 300
    answer = tiles.search_tiles(
        tmp_path / "r", asked, 6, metric="euclidean", radius=1.0, inside="octree", order="tiles"
    )
    expected = tree.search(queries, 6, radius=1.0)
    assert np.array_equal(answer.distances[np.argsort(answer.rows)], expected.distances)
    assert tiles.search_tiles(tmp_path / "r", asked, 2, index_dtype="uint32").indices.dtype == np.uint32
    with pytest.raises(TypeError, match="no PointTiles"):
        tiles.search_tiles(tmp_path / "r", queries, 6)


@pytest.mark.parametrize("how", [{"k": 9}, {"radius": 1.2}, {"k": 9, "radius": 0.7}])
@pytest.mark.parametrize("metric", ["sqeuclidean", "euclidean"])
def test_normals_and_outliers(points, tiles, tmp_path, how, metric):
    tree = kith.KdTree(points, metric=metric)
    normals, curvature = tiles.normals(tmp_path / "n", **how, viewpoint=[1, 2, 30], metric=metric, threads=2)
    expected = tree.normals(**how, viewpoint=[1, 2, 30])
    assert np.array_equal(normals, expected.normals, equal_nan=True)
    assert np.array_equal(curvature, expected.curvature, equal_nan=True)
    found = tiles.outliers(tmp_path / "o", **how, ratio=1.5, metric=metric, inside="octree")
    expected = tree.outliers(**how, ratio=1.5)
    assert np.array_equal(found.outlier, expected.outlier)
    assert np.array_equal(found.mean_distance, expected.mean_distance, equal_nan=True)
    assert (found.mean, found.deviation, found.threshold) == (expected.mean, expected.deviation, expected.threshold)


def test_radius(points, tiles, tmp_path):
    queries = np.random.default_rng(7).random((80, 3)) * 20
    asked = kith.PointTiles.build(tmp_path / "asked", queries, tile_points=20)
    tree = kith.KdTree(points, metric="euclidean")
    for most in [0, 3]:
        expected = tree.radius_search(queries, 1.5, max_neighbors=most)
        own = tree.radius_search(points, 1.5, max_neighbors=most)
        in_files = {"output": tmp_path / "r", "metric": "euclidean"}
        for found, right in [
            (tiles.radius_search(queries, 1.5, most, metric="euclidean", inside="octree"), expected),
            (tiles.radius_search(asked, 1.5, most, **in_files), expected),
            (tiles.radius_search(tiles, 1.5, most, **in_files), own),
        ]:
            assert np.array_equal(found.offsets, right.offsets)
            assert np.array_equal(found.indices, right.indices)
            assert np.array_equal(found.distances, right.distances)
    counts = tree.count_within(queries, 1.5)
    assert np.array_equal(tiles.count_within(queries, 1.5, metric="euclidean"), counts)
    assert np.array_equal(tiles.count_within(asked, 1.5, output=tmp_path / "c", metric="euclidean"), counts)
    with pytest.raises(kith.InvalidArgument, match="output is None"):
        tiles.radius_search(tiles, 1.5)
    with pytest.raises(kith.InvalidArgument, match="leave output out"):
        tiles.count_within(queries, 1.5, output="r")
    with pytest.raises(kith.InvalidArgument, match="brute_force"):
        tiles.count_within(queries, 1.5, inside="brute_force")
    with pytest.raises(kith.OutOfMemory):
        tiles.radius_search(queries, 30, memory_limit=1_000_000)


def test_a_build_from_an_iterator_that_was_killed_begins_anew(tmp_path):
    """Its temporary file had another name; neither that nor the folder of the work is in the way, or stays."""
    script = """if True:
        import os, signal, sys, threading, time
        import kith, numpy as np
        journal = sys.argv[1] + ".kith-work/journal"
        def watch():
            while not (os.path.exists(journal) and open(journal).read().count("\\n") > 1):
                time.sleep(0.001)
            os.kill(os.getpid(), signal.SIGKILL)
        threading.Thread(target=watch, daemon=True).start()
        points = np.random.default_rng(1).random((2_000_000, 3))
        kith.PointTiles.build(sys.argv[1], iter([points]), tile_points=500, memory_limit=8_000_000)
    """
    ended = subprocess.run([sys.executable, "-c", script, str(tmp_path / "tiles")])
    if ended.returncode != -signal.SIGKILL:
        pytest.skip("the machine was too quick to be interrupted in time")
    assert [name for name in os.listdir(tmp_path) if name.startswith(".kith-tiles-")]
    points = np.random.default_rng(2).random((3000, 3))
    tiles = kith.PointTiles.build(tmp_path / "tiles", iter([points]), tile_points=200)
    assert tiles.rows == 3000
    assert os.listdir(tmp_path) == ["tiles"]


def test_another_call_finds_work_that_is_not_its_own(tiles, tmp_path):
    work = tmp_path / "r.indices.npy.kith-work"
    work.mkdir()
    (work / "letter.txt").write_text("dear")
    with pytest.raises(kith.IoError, match="in the way"):
        tiles.all_knn(tmp_path / "r", 4)
    assert tiles.all_knn(tmp_path / "other", 4).statistics.resumed_tiles == 0


def test_parts_of_the_tiles(tmp_path):
    """Each row once, with the bits of all_knn."""
    rows = np.random.default_rng(6).integers(0, 6, (900, 3)).astype(np.float32)
    tiles = kith.PointTiles.build(tmp_path / "t", rows, tile_points=60)
    for how in ({}, {"include_self": True, "metric": "manhattan", "inside": "octree"}, {"radius": 1.0}):
        whole = tiles.all_knn(tmp_path / "w", 5, **how)
        seen = []
        for first in range(0, tiles.tiles, 3):
            numbers, found = tiles.all_knn_of_tiles(first, min(first + 3, tiles.tiles), 5, threads=1, **how)
            assert np.array_equal(found.indices, whole.indices[numbers])
            assert found.distances.tobytes() == whole.distances[numbers].tobytes()
            seen += numbers.tolist()
        assert sorted(seen) == list(range(900))
    with pytest.raises(kith.InvalidArgument, match="use 0 to"):
        tiles.all_knn_of_tiles(0, 1000, 5)
    with pytest.raises(TypeError):
        tiles.all_knn_of_tiles("0", 1, 5)
