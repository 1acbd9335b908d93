"""kith.ray.knn, all_knn and build on a cluster: the bits of one machine, whatever dies meanwhile."""

import filecmp
import os
import signal
import subprocess
import sys
import textwrap

import kith
import kith.ray
import numpy as np
import pytest
from kith.ray import _work

pytestmark = pytest.mark.usefixtures("cluster")


def same(answer, expected):
    return (
        np.array_equal(answer.indices, expected.indices) and answer.distances.tobytes() == expected.distances.tobytes()
    )


def test_knn_of_files_arrays_and_parquet(rows, tmp_path):
    np.save(tmp_path / "a.npy", rows[:5000])
    kith.write(tmp_path / "b.parquet", rows[5000:])
    queries = rows[::7].copy()
    expected = kith.knn(rows, queries, 9)
    seen = []
    answer = kith.ray.knn(
        [tmp_path / "a.npy", tmp_path / "b.parquet"], queries, 9, output=tmp_path / "r", shards=3, block=400,
        progress=lambda done, total: seen.append((done, total)),
    )  # fmt: skip
    assert same(answer, expected)
    assert seen[-1] == (3 * len(queries), 3 * len(queries)) and sorted(seen) == seen
    blocks = -(-len(queries) // 400)
    assert (answer.statistics.tasks, answer.statistics.resumed) == (4 * blocks, 0)
    assert answer.statistics.queries == len(queries) and answer.statistics.certified
    assert sorted(os.listdir(tmp_path)) == ["a.npy", "b.parquet", "r.distances.npy", "r.indices.npy"]
    assert same(kith.ray.knn(rows, queries, 9, output=tmp_path / "o.parquet", index="kd_tree", leaf_size=5), expected)
    found = kith.read_neighbors(tmp_path / "o.parquet")
    assert np.array_equal(found.indices, expected.indices)


def test_knn_of_a_ray_dataset(vectors, tmp_path):
    import pyarrow as pa
    import ray

    listed = pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)), vectors.shape[1])
    dataset = ray.data.from_arrow([pa.table({"v": listed[:3000]}), pa.table({"v": listed[3000:]})])
    answer = kith.ray.knn(dataset, vectors[:50], 5, output=tmp_path / "r", metric="cosine", shards=2)
    assert same(answer, kith.knn(vectors, vectors[:50], 5, "cosine"))


@pytest.mark.parametrize("metric", ["sqeuclidean", "inner_product"])
def test_knn_of_shards(vectors, tmp_path, metric):
    built = kith.ray.build(vectors, 3, tmp_path / "s", metric=metric)
    kith.Sharded.build(vectors, tmp_path / "one", 3, metric=metric)
    names = sorted(os.listdir(tmp_path / "one"))
    assert filecmp.cmpfiles(tmp_path / "s", tmp_path / "one", names, shallow=False)[0] == names
    expected = kith.knn(vectors, vectors[:300], 9, metric)
    assert same(kith.ray.knn(built, vectors[:300], 9, output=tmp_path / "r"), expected)
    assert same(kith.ray.knn(tmp_path / "s", vectors[:300], 9, output=tmp_path / "r"), expected)
    with pytest.raises(kith.InvalidArgument, match="not that of the shards"):
        kith.ray.knn(built, vectors[:3], 9, output=tmp_path / "r", metric="manhattan")
    with pytest.raises(kith.InvalidArgument, match="leave out shards, leaf_size"):
        kith.ray.knn(built, vectors[:3], 9, output=tmp_path / "r", shards=2, leaf_size=3)


def test_graphs_are_built_side_by_side(vectors, tmp_path):
    built = kith.ray.build(vectors[:3000], 2, tmp_path / "g", index="vamana", max_degree=16, build_list_size=40)
    kith.Sharded.build(vectors[:3000], tmp_path / "one", 2, index="vamana", max_degree=16, build_list_size=40)
    assert filecmp.dircmp(tmp_path / "g", tmp_path / "one").diff_files == []
    for options in ({"recall": 0.9}, {"list_size": 60, "beam_width": 2}):
        expected = built.search(vectors[:200], 8, **options)
        answer = kith.ray.knn(built, vectors[:200], 8, output=tmp_path / "r", **options)
        assert same(answer, expected)
        assert answer.statistics.recall == expected.statistics.recall and not answer.statistics.certified


@pytest.mark.parametrize("include_self", [False, True])
@pytest.mark.parametrize("how", [{}, {"index": "brute_force", "shards": 3}, {"index": "kd_tree", "block": 5000}])
def test_all_knn(rows, tmp_path, how, include_self):
    expected = kith.all_knn(rows, 6, include_self)
    assert same(kith.ray.all_knn(rows, 6, output=tmp_path / "r", include_self=include_self, **how), expected)


def test_tiles(rows, tmp_path):
    tiles = kith.PointTiles.build(tmp_path / "t", rows, tile_points=300)
    answer = kith.ray.all_knn(tiles, 6, output=tmp_path / "r", metric="manhattan", shards=5)
    assert same(answer, kith.all_knn(rows, 6, metric="manhattan")) and answer.statistics.tasks == 5
    assert same(kith.ray.knn(tiles, rows[:900], 6, output=tmp_path / "q", block=200), kith.knn(rows, rows[:900], 6))
    for call in (lambda: kith.ray.all_knn(tiles, 6, output=tmp_path / "r", tile_points=9),
                 lambda: kith.ray.all_knn(tiles, 6, output=tmp_path / "r", index="octree"),
                 lambda: kith.ray.all_knn(tiles, 6, output=tmp_path / "r", block=3)):  # fmt: skip
        with pytest.raises(kith.InvalidArgument, match="not for point tiles"):
            call()


def test_arguments(rows, tmp_path):
    def refused(match, **how):
        with pytest.raises(kith.InvalidArgument, match=match):
            kith.ray.knn(rows, rows[:3], **{"k": 2, "output": tmp_path / "r", **how})

    refused("k is 0", k=0)
    refused("num_cpus is 0", num_cpus=0)
    refused("no machine", num_cpus=3)  # each has one or two, all of them more
    refused("no machine", num_gpus=1)
    refused("num_gpus is -1", num_gpus=-1)
    refused("takes one or more", device="cuda")
    refused("retries is -1", retries=-1)
    refused("block is -1", block=-1)
    refused("shards is 0", shards=0)
    refused("kith.ray.build", index="vamana")
    refused("leave it out", recall=0.9)
    refused("metric", metric="l2")
    with pytest.raises(kith.Error):  # what a task raises is raised here
        kith.ray.knn(rows, rows[:3, :2], 2, output=tmp_path / "r")
    with pytest.raises(kith.OutOfMemory):
        kith.ray.knn(rows, rows[:3], 2, output=tmp_path / "r", index="kd_tree", memory_limit=1000)
    assert os.listdir(tmp_path) == []


MOMENTS = [0.0, 0.2, 0.45, 0.7, 0.95]


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_node_dies(cluster, rows, tmp_path, moment):
    """At five moments of the work; the same bytes come out."""
    expected = kith.all_knn(rows, 5)
    victim = cluster.add_node(num_cpus=2, object_store_memory=80 << 20)
    cluster.wait_for_nodes()
    killed = []

    def progress(done, total):
        if not killed and done >= moment * total:
            killed.append(done)
            cluster.remove_node(victim, allow_graceful=False)

    how = {"index": "brute_force", "shards": 6, "block": 1500}
    if moment == 0:
        cluster.remove_node(victim, allow_graceful=False)  # Ray still counts on it
        killed.append(0)
    answer = kith.ray.all_knn(rows, 5, output=tmp_path / "r", progress=progress, **how)
    assert killed and same(answer, expected)
    assert answer.statistics.tasks == 8 * 7 and answer.statistics.resumed == 0


DRIVER = """
import os, signal, sys
import numpy as np, ray, kith, kith.ray
ray.init(address=sys.argv[1], log_to_driver=False)
calls = []
def progress(done, total):
    calls.append(done)
    if len(calls) == int(sys.argv[4]):
        os.kill(os.getpid(), signal.SIGKILL)
how = eval(sys.argv[5])
kith.ray.all_knn(sys.argv[2], 5, output=sys.argv[3], progress=progress, **how)
"""


@pytest.mark.parametrize(
    "how", [{"shards": 12, "tile_points": 300}, {"index": "brute_force", "shards": 1, "block": 500}]
)
def test_the_driver_dies(cluster, rows, tmp_path, monkeypatch, how):
    """What it had finished is not done again, which is counted, and not touched."""
    np.save(tmp_path / "x.npy", rows)
    output = tmp_path / "r"
    command = [sys.executable, "-c", textwrap.dedent(DRIVER), cluster.address, tmp_path / "x.npy", output, "6"]
    process = subprocess.run([*map(str, command), repr(how)], capture_output=True, text=True, timeout=300)
    assert process.returncode == -signal.SIGKILL, process.stderr
    work = tmp_path / "r.kith-ray-work"
    with pytest.raises(kith.IoError, match="another call, whose k is 5"):
        kith.ray.all_knn(tmp_path / "x.npy", 6, output=tmp_path / "r", **how)

    def units():
        return {file.name: file.stat().st_mtime_ns for file in work.glob("*.unit")}

    monkeypatch.setattr(_work.Work, "remove", lambda self: None)
    before = units()
    answer = kith.ray.all_knn(tmp_path / "x.npy", 5, output=tmp_path / "r", **how)
    after = units()
    assert same(answer, kith.all_knn(rows, 5))
    assert 0 < len(before) < len(after)
    tiled = "tile_points" in how  # whose tiles were a task of their own
    assert answer.statistics.resumed >= len(before) + tiled
    assert answer.statistics.resumed + answer.statistics.tasks == len(after) + tiled
    assert {name: after[name] for name in before} == before
    print(f"\ndriver killed: {answer.statistics.resumed} tasks found finished, {answer.statistics.tasks} done")


def test_a_task_that_is_lost_for_good(rows, tmp_path, monkeypatch):
    """It ends with the name of the folder that the same call goes on from."""
    from kith.ray import _batch

    def dies(*_):  # in here Ray sends it along; of this file it would only send the name
        os.kill(os.getpid(), signal.SIGKILL)

    monkeypatch.setattr(_batch, "of_tiles", dies)
    tiles = kith.PointTiles.build(tmp_path / "t", rows, tile_points=3000)
    with pytest.raises(kith.ray.WorkLost, match=r"r\.kith-ray-work"):
        kith.ray.all_knn(tiles, 5, output=tmp_path / "r", retries=0)
    monkeypatch.undo()
    assert same(kith.ray.all_knn(tiles, 5, output=tmp_path / "r"), kith.all_knn(rows, 5))


def test_the_object_store_stays_small(vectors, tmp_path):
    """Answers of some tens of MB go through files: what the stores hold does not grow with them."""
    import ray

    before = ray.available_resources().get("object_store_memory", 0)
    least = []
    kith.ray.knn(
        vectors, vectors, 200, output=tmp_path / "r", shards=2, block=500,
        progress=lambda *_: least.append(ray.available_resources().get("object_store_memory", 0)),
    )  # fmt: skip
    assert (tmp_path / "r.indices.npy").stat().st_size > 12e6
    assert before - min(least) < 4 << 20
