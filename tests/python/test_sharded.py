"""kith.Sharded: answers of one index, from files and arrays."""

import os
import pickle
import subprocess
import sys

import kith
import numpy as np
import pytest


@pytest.fixture
def rows():
    random = np.random.default_rng(3)
    values = random.integers(0, 5, (700, 3)).astype(np.float32)
    values[400, 1] = np.nan
    return values


def same(answer, expected):
    return np.array_equal(answer.distances, expected.distances) and np.array_equal(answer.indices, expected.indices)


def test_build_from_files_and_arrays(rows, tmp_path):
    np.save(tmp_path / "a.npy", rows[:100])
    np.save(tmp_path / "b.npy", rows[100:])
    np.save(tmp_path / "c.npy", rows)
    tree = kith.KdTree(rows)
    for source in [rows, [tmp_path / "a.npy", str(tmp_path / "b.npy")], tmp_path / "c.npy"]:
        shards = kith.Sharded.build(source, tmp_path / "s", 6, index="kd_tree", partition="rows", threads=1)
        assert (shards.rows, shards.dim, shards.dtype, shards.metric) == (700, 3, "float32", "sqeuclidean")
        assert (shards.shards, shards.type) == (6, "kd_tree")
        assert shards.shard_rows == [116, 117, 117, 116, 117, 117] and shards.folder == tmp_path / "s"
        assert shards.bytes == sum(path.stat().st_size for path in (tmp_path / "s").glob("*.kith"))
        assert same(shards.search(rows[:40], 200), tree.search(rows[:40], 200))
    assert "700 x 3 float32, sqeuclidean in 6 x kd_tree" in repr(kith.Sharded.open(tmp_path / "s"))
    assert sorted(os.listdir(tmp_path)) == ["a.npy", "b.npy", "c.npy", "s"]


@pytest.mark.parametrize("metric", ["sqeuclidean", "euclidean", "inner_product", "cosine", "manhattan"])
def test_metrics(rows, tmp_path, metric):
    shards = kith.Sharded.build(rows, tmp_path / "s", 5, metric=metric)
    found = shards.search(rows[:30], 9)
    assert same(found, kith.knn(rows, rows[:30], 9, metric))
    statistics = found.statistics
    assert statistics.index == "brute_force" and statistics.certified and statistics.nan_rows == 1


def test_parameters_reach_the_shards(rows, tmp_path):
    graph = {"max_degree": 9, "build_list_size": 40, "alpha": 1.2, "seed": 3, "code_bits": 4}
    kith.Sharded.build(np.nan_to_num(rows), tmp_path / "g", 1, index="vamana", **graph)
    built = kith.load(tmp_path / "g" / "shard-0.kith")
    assert {name: getattr(built, name) for name in graph} == graph
    kith.Sharded.build(np.nan_to_num(rows), tmp_path / "p", 1, index="vamana", codes="pq", pq_subspaces=1)
    assert kith.load(tmp_path / "p" / "shard-0.kith").codes == "pq"
    kith.Sharded.build(rows, tmp_path / "b", 1, filter="fp16", directions=False)
    assert kith.load(tmp_path / "b" / "shard-0.kith").filter == "fp16"
    kith.Sharded.build(rows, tmp_path / "t", 1, index="octree", leaf_size=7)
    assert kith.load(tmp_path / "t" / "shard-0.kith").leaf_size == 7
    for index, parameter in [("kd_tree", "filter"), ("brute_force", "leaf_size"), ("octree", "seed")]:
        with pytest.raises(kith.InvalidArgument, match=f"not with {parameter}"):
            kith.Sharded.build(
                rows, tmp_path / "no", 2, index=index, **{parameter: "auto" if parameter == "filter" else 1}
            )
    with pytest.raises(TypeError, match="leaf_size"):
        kith.Sharded.build(rows, tmp_path / "no", 2, index="kd_tree", leaf_size="large")
    assert not (tmp_path / "no").exists()


def test_options_of_a_search(rows, tmp_path):
    shards = kith.Sharded.build(rows, tmp_path / "s", 5, index="octree", metric="euclidean")
    tree = kith.Octree(rows, "euclidean")
    assert same(shards.search(rows[:9], 50, radius=1.5), tree.search(rows[:9], 50, radius=1.5))
    allowed = np.arange(700) >= 650
    assert same(shards.search(rows[:9], 5, allowed=allowed), tree.search(rows[:9], 5, allowed=allowed))
    for most in (0, 7):
        mine = shards.radius_search(rows[:9], 1.5, max_neighbors=most)
        theirs = tree.radius_search(rows[:9], 1.5, max_neighbors=most)
        for name in ("offsets", "indices", "distances"):
            assert np.array_equal(getattr(mine, name), getattr(theirs, name))
    loose = shards.radius_search(rows[:9], 1.5, sorted=False)
    assert sorted(loose.indices.tolist()) == sorted(tree.radius_search(rows[:9], 1.5).indices.tolist())
    assert np.array_equal(shards.count_within(rows[:9], 1.5), tree.count_within(rows[:9], 1.5))
    for option in ("recall", "list_size", "beam_width", "rerank"):
        with pytest.raises(kith.InvalidArgument, match=f"octree takes no {option}"):
            shards.search(rows[:9], 5, **{option: 1})
    with pytest.raises(kith.InvalidArgument):
        shards.radius_search(rows[:9], -1.0)
    with pytest.raises(TypeError, match="float64"):
        shards.search(rows[:9].astype(np.float64), 5)
    assert shards.search(rows[0], 3).indices.shape == (1, 3)


def test_graphs_by_recall(tmp_path):
    random = np.random.default_rng(1)
    base, queries = (random.standard_normal((n, 16)).astype(np.float32) for n in (3000, 60))
    shards = kith.Sharded.build(base, tmp_path / "s", 3, index="vamana", max_degree=16, build_list_size=32)
    found = shards.search(queries, 10, recall=0.9)
    assert not found.statistics.certified and 0.9 <= found.statistics.recall < 1
    assert kith.evaluate(found, kith.knn(base, queries, 10)).recall >= 0.88
    assert shards.search(queries, 10, list_size=33, beam_width=2, rerank=12).statistics.list_size == 33
    assert same(shards.search(queries, 10, recall=1), kith.knn(base, queries, 10))


def test_opened_lazily_closed_and_pickled(rows, tmp_path):
    kith.Sharded.build(rows, tmp_path / "s", 4)
    with kith.Sharded.open(tmp_path / "s") as shards:
        assert shards.open_shards == 0 and shards.memory_bytes == 0
        expected = shards.search(rows[:5], 3)
        assert shards.open_shards == 4 and shards.memory_bytes > 0
        copy = pickle.loads(pickle.dumps(shards))
        assert len(pickle.dumps(shards)) < 1000 and copy.open_shards == 0
        assert same(copy.search(rows[:5], 3), expected)
    assert shards.open_shards == 0
    assert same(shards.search(rows[:5], 3, memory_limit=20_000), expected)
    assert shards.open_shards < 4


def test_refusals(rows, tmp_path):
    for count in (0, -1, 701):
        with pytest.raises(kith.InvalidArgument, match="use 1 to 700"):
            kith.Sharded.build(rows, tmp_path / "s", count)
    with pytest.raises(kith.InvalidArgument, match="'tree' is not one"):
        kith.Sharded.build(rows, tmp_path / "s", 2, index="tree")
    with pytest.raises(kith.InvalidArgument, match="cosine"):
        kith.Sharded.build(rows, tmp_path / "s", 2, index="kd_tree", metric="cosine")
    with pytest.raises(TypeError, match="Sharded.build"):
        kith.Sharded()
    with pytest.raises(kith.IoError, match="no such folder"):
        kith.Sharded.open(tmp_path / "s")
    with pytest.raises(kith.OutOfMemory, match="more shards"):
        np.save(tmp_path / "a.npy", rows)
        kith.Sharded.build(tmp_path / "a.npy", tmp_path / "s", 2, memory_limit=3000)
    assert os.listdir(tmp_path) == ["a.npy"]
    shards = kith.Sharded.build(rows, tmp_path / "s", 2)
    shards.verify()
    shard = tmp_path / "s" / "shard-1.kith"
    content = bytearray(shard.read_bytes())
    content[-9] ^= 1
    shard.write_bytes(content)
    for call in (shards.verify, lambda: shards.search(rows[:2], 2)):
        with pytest.raises(kith.IoError, match=r"shard-1\.kith"):
            call()


def test_progress_and_its_exceptions(rows, tmp_path):
    reports = []
    shards = kith.Sharded.build(rows, tmp_path / "s", 4, progress=lambda done, total: reports.append((done, total)))
    assert reports[-1] == (700, 700) and reports == sorted(reports)
    reports.clear()
    shards.search(rows[:5], 3, progress=lambda done, total: reports.append((done, total)))
    assert reports[-1] == (700, 700)

    def stop(done, total):
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        kith.Sharded.build(rows, tmp_path / "no", 4, progress=stop)
    assert not (tmp_path / "no.kith-work").exists()


def test_ctrl_c_leaves_nothing(tmp_path):
    program = (
        "import kith, numpy as np, os, signal, threading\n"
        "rows = np.random.default_rng(1).standard_normal((60000, 32)).astype('f')\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # a shell's background jobs ignore it
        "threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()\n"
        "try:\n"
        f"    kith.Sharded.build(rows, {str(tmp_path / 's')!r}, 4, index='vamana')\n"
        "except KeyboardInterrupt:\n"
        "    print('stopped')\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and done.stdout == "stopped\n", done.stderr
    assert os.listdir(tmp_path) == []


def test_by_space(rows, tmp_path):
    np.save(tmp_path / "a.npy", rows)
    tree = kith.KdTree(rows)
    for source in [rows, tmp_path / "a.npy"]:
        shards = kith.Sharded.build(source, tmp_path / "s", 6, index="kd_tree")
        assert (shards.partition, sum(shards.shard_rows)) == ("space", 700)
        assert shards.bytes == sum(path.stat().st_size for path in (tmp_path / "s").glob("shard-*"))
        numbers = [shards.row_numbers(i) for i in range(6)]
        assert sorted(np.concatenate(numbers)) == list(range(700)) and numbers[2].dtype == np.int64
        assert same(shards.search(rows[:40], 200), tree.search(rows[:40], 200))
        near, expected = shards.radius_search(rows[:40], 0.4), tree.radius_search(rows[:40], 0.4)
        assert np.array_equal(near.indices, expected.indices) and np.array_equal(near.offsets, expected.offsets)
        assert np.array_equal(shards.count_within(rows[:40], 0.4), tree.count_within(rows[:40], 0.4))
        one = shards.shard(2).search(rows[:5], 3)
        assert same(one, kith.knn(rows[numbers[2]], rows[:5], 3))
    assert kith.Sharded.build(rows, tmp_path / "s", 6, index="kd_tree", partition="rows").partition == "rows"
    with pytest.raises(kith.InvalidArgument, match="use the partition rows"):
        kith.Sharded.build(rows, tmp_path / "no", 6, metric="cosine", partition="space")
    with pytest.raises(kith.InvalidArgument, match="auto, rows or space"):
        kith.Sharded.build(rows, tmp_path / "no", 6, partition="place")
    with pytest.raises(TypeError):
        kith.Sharded.build(rows, tmp_path / "no", 6, partition=3)


def test_shards_that_were_built_apart(rows, tmp_path):
    whole = kith.Sharded.build(rows, tmp_path / "whole", 4, index="kd_tree", partition="rows", leaf_size=9)
    parts = [tmp_path / "a", str(tmp_path / "b")]
    kith.Sharded.build(rows[:350], parts[0], 2, index="kd_tree", partition="rows", leaf_size=9)
    kith.Sharded.build(rows[350:], parts[1], 2, index="kd_tree", partition="rows", leaf_size=9)
    joined = kith.Sharded.join(tmp_path / "joined", parts)
    for name in os.listdir(tmp_path / "whole"):
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "joined" / name).read_bytes()
    assert same(joined.search(rows[:20], 9), whole.search(rows[:20], 9))
    with pytest.raises(kith.InvalidArgument, match="name one or more"):
        kith.Sharded.join(tmp_path / "none", [])
    kith.Sharded.build(rows, tmp_path / "c", 2)
    with pytest.raises(kith.InvalidArgument, match="built alike"):
        kith.Sharded.join(tmp_path / "none", [parts[0], tmp_path / "c"])
    assert not (tmp_path / "none").exists()


def test_one_shard_alone(rows, tmp_path):
    shards = kith.Sharded.build(rows, tmp_path / "s", 5, index="octree", partition="rows")
    assert np.array_equal(shards.row_numbers(2), np.arange(280, 420))
    third = shards.shard(2, threads=1)
    assert isinstance(third, kith.Octree) and third.rows == 140 and shards.open_shards == 1
    assert same(third.search(rows[:9], 4), kith.knn(rows[280:420], rows[:9], 4))
    with pytest.raises(kith.InvalidArgument, match="use 0 to 4"):
        shards.shard(5)
    with pytest.raises(TypeError):
        shards.shard("2")
