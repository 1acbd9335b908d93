"""kith shard, and what search, radius, info and verify do with a folder of shards."""

import os
import signal
import subprocess
import time
from pathlib import Path

import h5py
import numpy as np
import oracle
import pytest
from program import KITH, files_of


@pytest.fixture
def data(folder):
    random = np.random.default_rng(3)
    base = random.standard_normal((300, 9)).astype(np.float32)
    queries = random.standard_normal((20, 9)).astype(np.float32)
    np.save("base.npy", base)
    np.save("queries.npy", queries)
    return base, queries


@pytest.fixture
def points(folder):
    rows = np.random.default_rng(5).integers(0, 6, (400, 3)).astype(np.float32)
    np.save("points.npy", rows)
    return rows


def read(name):
    return Path(f"{name}.indices.npy").read_bytes(), Path(f"{name}.distances.npy").read_bytes()


@pytest.mark.covers("shard", "BASE", "--output", "--shards", "--metric")
@pytest.mark.parametrize("metric", ["sqeuclidean", "euclidean", "inner_product", "cosine", "manhattan"])
def test_shards_answer_as_one_index(kith, data, metric):
    base, queries = data
    np.save("a.npy", base[:37])
    np.save("b.npy", base[37:])
    kith("shard", "a.npy", "b.npy", "-n", 5, "-o", "base.shards", "--metric", metric)
    assert files_of(Path("base.shards")) == ["manifest.json", *(f"shard-{i}.kith" for i in range(5))]
    kith("search", "base.shards", "queries.npy", "-k", 80, "-o", "r")
    kith("build", "base.npy", "-o", "base.kith", "--metric", metric)
    kith("search", "base.kith", "queries.npy", "-k", 80, "-o", "one")
    assert read("r") == read("one")
    oracle.check(np.load("r.indices.npy"), np.load("r.distances.npy"), base, queries, metric)


# What kith build makes of the same rows is, byte for byte, the one shard.
@pytest.mark.covers("shard", "--index", "--leaf-size", "--filter", "--max-degree", "--build-list-size", "--alpha")
@pytest.mark.covers("shard", "--seed", "--code-bits", "--code-dim", "--codes", "--rabitq-bits", "--pq-subspaces")
@pytest.mark.parametrize(
    "options",
    [
        ["--filter", "fp16"],
        ["--index", "kd_tree", "--leaf-size", 7],
        ["--index", "vamana"],
        ["--index", "vamana", "--max-degree", 9],
        ["--index", "vamana", "--build-list-size", 70],
        ["--index", "vamana", "--alpha", 1.3],
        ["--index", "vamana", "--seed", 5],
        ["--index", "vamana", "--code-bits", 4],
        ["--index", "vamana", "--code-dim", 32],
        ["--index", "vamana", "--codes", "rabitq", "--rabitq-bits", 3],
        ["--index", "vamana", "--codes", "pq", "--pq-subspaces", 5],
    ],
    ids=lambda options: " ".join(map(str, options)),
)
def test_options_of_the_index(kith, folder, options):
    random = np.random.default_rng(8)
    np.save("base.npy", random.standard_normal((300, 40 if "--code-dim" in options else 9)).astype(np.float32))
    kith("shard", "base.npy", "-n", 1, "-o", "s", *options)
    kith("build", "base.npy", "-o", "one.kith", *options)
    kith("build", "base.npy", "-o", "plain.kith", *options[: 2 if options[0] == "--index" else 0])
    shard = Path("s/shard-0.kith").read_bytes()
    assert shard == Path("one.kith").read_bytes()
    assert (shard == Path("plain.kith").read_bytes()) == (len(options) == 2 and options[0] == "--index")


@pytest.mark.covers("shard", "--json", "--index")
@pytest.mark.covers("info", "FILE", "--json")
@pytest.mark.covers("verify", "INDEX", "--json")
def test_info_and_verify(kith, points):
    built = kith(
        "shard", "points.npy", "-n", 7, "-o", "s", "--index", "kd_tree", "--metric", "euclidean", "--json"
    ).json
    assert (built["index"], built["shards"], built["rows"], built["dim"]) == ("kd_tree", 7, 400, 3)
    assert (built["dtype"], built["metric"]) == ("f32", "euclidean")
    assert built["bytes"] == sum(path.stat().st_size for path in Path("s").glob("shard-*"))
    told = kith("info", "s", "--json").json["files"][0]
    assert (told["format"], told["rows"], told["dim"], told["dtype"]) == ("sharded", 400, 3, "f32")
    assert told["details"]["index"] == "kd_tree" and told["details"]["shards"] == 7
    assert told["details"]["rows a shard"] == "57 to 58"
    text = kith("info", "s").out
    assert "kd_tree" in text and "euclidean" in text and "57 to 58" in text
    assert "--stats is for files" in kith("info", "s", "--stats", code=1).err
    assert "sound (sharded, 400 rows in 7 shards)" in kith("verify", "s").out
    assert kith("verify", "s", "--json").json["sound"][0]["content"] == "sharded, 400 rows in 7 shards"
    auto = kith("shard", "points.npy", "-n", 2, "-o", "auto", "--index", "auto", "--json").json
    assert auto["index"] in ("kd_tree", "brute_force") and auto["reason"]


@pytest.mark.covers("shard", "--partition")
@pytest.mark.parametrize("index", ["kd_tree", "brute_force"])
def test_partition(kith, points, index):
    kith("build", "points.npy", "-o", "one.kith", "--index", index)
    kith("search", "one.kith", "points.npy", "-k", 9, "-o", "one")
    for asked, got in [("auto", "space" if index == "kd_tree" else "rows"), ("rows", "rows"), ("space", "space")]:
        command = ("shard", "points.npy", "-n", 4, "-o", "s", "--index", index)
        assert kith(*command, "--partition", asked, "--json").json["partition"] == got
        assert f"4 shards of {index} by {got}, 400 rows" in kith(*command, "--partition", asked).err
        assert kith("info", "s", "--json").json["files"][0]["details"]["partition"] == got
        assert len(files_of(Path("s"))) == (9 if got == "space" else 5)
        kith("search", "s", "points.npy", "-k", 9, "-o", "r")
        assert read("r") == read("one")
    numbers = [np.fromfile(f"s/shard-{i}.rows", "<u4") for i in range(4)]
    assert sorted(np.concatenate(numbers)) == list(range(400))
    Path("s/shard-2.rows").write_bytes(numbers[2][::-1].tobytes())
    for call in (["verify", "s"], ["search", "s", "points.npy"]):
        assert "'s/shard-2.rows' is corrupt" in kith(*call, code=2).err
    np.save("wide.npy", np.zeros((20, 17), np.float32))
    call = ("shard", "wide.npy", "-n", 2, "-o", "no", "--partition")
    assert "takes up to 16 dimensions" in kith(*call, "space", code=1).err
    assert "place" in kith(*call, "place", code=1).err and not Path("no").exists()


def test_damage_is_named(kith, points):
    kith("shard", "points.npy", "-n", 3, "-o", "s")
    shard = Path("s/shard-1.kith")
    whole = shard.read_bytes()
    shard.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    assert "s/shard-1.kith" in kith("verify", "s", code=2).err
    assert "s/shard-1.kith" in kith("search", "s", "points.npy", code=2).err
    shard.unlink()
    for command in (["verify", "s"], ["search", "s", "points.npy"], ["info", "s"]):
        assert "'s/shard-1.kith' is missing" in kith(*command, code=2).err
    shard.symlink_to("/etc/hostname")
    assert "a link" in kith("search", "s", "points.npy", code=2).err
    # Another kind of folder says what it is.
    for command in (["all-knn", "s"], ["normals", "s", "-o", "n.npy"]):
        assert "manifest of shards, not of point tiles" in kith(*command, code=2).err
    assert "use kith search" in kith("knn", "s", "points.npy", code=1).err


@pytest.mark.covers("search", "--allowed", "--neighbors", "--max-queries", "--statistics", "--json")
def test_search_options(kith, data):
    base, queries = data
    kith("shard", "base.npy", "-n", 4, "-o", "s")
    flags = np.arange(300) % 7 == 3
    np.save("flags.npy", flags)
    answer = kith("search", "s", "queries.npy", "-k", 5, "--allowed", "flags.npy", "--max-queries", 3, "--json").json
    rows = np.flatnonzero(flags)
    found = np.searchsorted(rows, answer["indices"])
    assert np.array_equal(rows[found], answer["indices"])
    oracle.check(found, answer["distances"], base[rows], queries[:3])
    assert answer["statistics"]["index"] == "brute_force" and answer["statistics"]["certified"]
    assert "fallbacks" in kith("search", "s", "queries.npy", "-v").err
    for option in (["--recall", 0.9], ["--list-size", 20]):
        assert "takes no" in kith("search", "s", "queries.npy", *option, code=1).err
    for option in (["--metric", "euclidean"], ["--inside", "octree"], ["--order", "tiles"], ["--tune", "x"]):
        assert option[0] in kith("search", "s", "queries.npy", *option, code=1).err
    np.save("narrow.npy", queries[:, :4])
    assert "have dimension 9, the queries 'narrow.npy' have 4" in kith("search", "s", "narrow.npy", code=1).err
    np.save("wide.npy", queries.astype(np.float64))
    assert "searched as f32" in kith("search", "s", "wide.npy", "-o", "r").err


def test_graphs(kith, folder):
    random = np.random.default_rng(4)
    base, queries = (random.standard_normal((rows, 12)).astype(np.float32) for rows in (4000, 100))
    np.save("base.npy", base)
    np.save("queries.npy", queries)
    kith("shard", "base.npy", "-n", 3, "-o", "s", "--index", "vamana", "--max-degree", 16, "--build-list-size", 32)
    answer = kith("search", "s", "queries.npy", "--recall", 0.9, "-k", 10, "--json").json
    assert not answer["statistics"]["certified"] and 0.9 <= answer["statistics"]["recall"] < 1
    kith("knn", "base.npy", "queries.npy", "-k", 10, "-o", "truth")
    truth = np.load("truth.indices.npy")
    shared = [len(set(a) & set(b)) for a, b in zip(truth.tolist(), answer["indices"], strict=True)]
    assert np.mean(shared) >= 9
    assert "as the index has measured itself" in kith("search", "s", "queries.npy", "-o", "r").err


@pytest.mark.covers("radius", "POINTS", "--radius", "--count", "--max-neighbors", "--unsorted")
def test_radius(kith, points):
    kith("shard", "points.npy", "-n", 6, "-o", "s", "--index", "octree", "--metric", "euclidean")
    for options in ([], ["--max-neighbors", 9], ["--count"]):
        call = ("points.npy", "-r", 1.5, "--max-queries", 50, *options)
        kith("radius", "points.npy", *call, "-o", "one")
        kith("radius", "s", *call, "-o", "r")
        for name in ["counts"] if options == ["--count"] else ["offsets", "indices", "distances"]:
            assert Path(f"r.{name}.npy").read_bytes() == Path(f"one.{name}.npy").read_bytes()
    unsorted = kith("radius", "s", "points.npy", "-r", 1.5, "--unsorted", "--json").json
    assert unsorted["index"]["name"] == "octree"
    assert unsorted["neighbors"] == kith("radius", "points.npy", "points.npy", "-r", 1.5, "--json").json["neighbors"]
    wrong = kith("radius", "s", "points.npy", "-r", 1, "--metric", "manhattan", code=1).err
    assert "is euclidean" in wrong and "--metric euclidean" in wrong
    for option in (["--index", "kd_tree"], ["--leaf-size", 8], ["--inside", "octree"]):
        assert option[0] in kith("radius", "s", "points.npy", "-r", 1, *option, code=1).err
    kith("shard", "points.npy", "-n", 2, "-o", "flat", "--metric", "euclidean")
    assert "kd_tree or octree" in kith("radius", "flat", "points.npy", "-r", 1, code=1).err


@pytest.mark.covers("shard", "--base-member")
@pytest.mark.covers("shard", "--input-format")
def test_inputs(kith, data):
    base, queries = data
    with h5py.File("all.h5", "w") as file:
        file["train"], file["part"] = base, base[:100]
    assert kith("shard", "all.h5", "-n", 2, "-o", "all", "--json").json["rows"] == 300
    assert kith("shard", "all.h5", "-n", 2, "-o", "part", "--base-member", "part", "--json").json["rows"] == 100
    Path("raw").write_bytes(base.shape[0].to_bytes(4, "little") + (9).to_bytes(4, "little") + base.tobytes())
    assert "raw" in kith("shard", "raw", "-n", 2, "-o", "no", code=2).err
    kith("shard", "raw", "-n", 2, "-o", "raw.shards", "--input-format", "fbin")
    for name in ("all", "raw.shards"):
        for i in range(2):
            kith("shard", "base.npy", "-n", 2, "-o", "plain")
            assert Path(f"{name}/shard-{i}.kith").read_bytes() == Path(f"plain/shard-{i}.kith").read_bytes()
    piped = subprocess.run([KITH, "shard", "-", "-n", "2", "-o", "piped"], stdin=open("base.npy", "rb"), check=False)
    assert piped.returncode == 0
    assert Path("piped/shard-1.kith").read_bytes() == Path("plain/shard-1.kith").read_bytes()


@pytest.mark.covers("shard", "--quiet", "--device", "--threads", "--memory-limit", "--shards", "--output")
def test_execution_options_and_refusals(kith, data):
    assert (
        "wrote s: 3 shards of brute_force by rows, 300 rows x 9 f32"
        in kith("shard", "base.npy", "-n", 3, "-o", "s").err
    )
    assert kith("shard", "base.npy", "-n", 3, "-o", "s", "-q", "--threads", 2, "--device", "cpu").err == ""
    call = ("shard", "base.npy", "-o", "no")
    assert "more shards than 3" in kith(*call, "-n", 3, "--memory-limit", "3000", code=3).err
    assert "--threads -2" in kith(*call, "-n", 3, "--threads", -2, code=1).err
    assert "cuda:77" in kith(*call, "-n", 3, "--device", "cuda:77", code=4).err
    assert "-n 0" in kith(*call, "-n", 0, code=1).err
    assert "use 1 to 300" in kith(*call, "-n", 301, code=1).err
    assert "standard output" in kith("shard", "base.npy", "-n", 2, "-o", "-", code=1).err
    assert "'missing.npy'" in kith("shard", "missing.npy", "-n", 2, "-o", "no", code=2).err
    Path("mine").mkdir()
    Path("mine/notes").write_text("x")
    assert "holds no shards" in kith("shard", "base.npy", "-n", 2, "-o", "mine", code=2).err
    assert not [name for name in files_of(Path(".")) if name.startswith("no") and name != "notes"]


def test_a_folder_larger_than_the_limit(kith, folder):
    base = np.random.default_rng(1).standard_normal((60_000, 32)).astype(np.float32)  # 7.7 MB
    np.save("base.npy", base)
    kith("shard", "base.npy", "-n", 8, "-o", "s", "--memory-limit", "4MiB")
    np.save("queries.npy", base[:50])
    kith("search", "s", "queries.npy", "-o", "little", "--memory-limit", "3MiB")
    kith("search", "s", "queries.npy", "-o", "much")
    assert read("little") == read("much")
    assert "limit" in kith("search", "s", "queries.npy", "-k", 60_000, "--memory-limit", "3MiB", code=3).err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_stopped_it_leaves_nothing_and_killed_it_goes_on(kith, folder, number):
    np.save("base.npy", np.random.default_rng(1).standard_normal((40_000, 16)).astype(np.float32))
    command = [KITH, "shard", "base.npy", "-n", "40", "-o", "s", "--index", "vamana"]
    process = subprocess.Popen(command, cwd=folder, stderr=subprocess.DEVNULL)
    work = Path("s.kith-work/shards/shard-1.kith")
    # The journal knows of a shard when the next one is there; killed just before, it is built once more.
    following = Path("s.kith-work/shards/shard-2.kith")
    until = time.monotonic() + 60
    while not following.exists() and time.monotonic() < until:
        time.sleep(0.01)
    assert following.exists()
    process.send_signal(number)
    assert process.wait(timeout=60) in (130, 143, -signal.SIGKILL)
    if number != signal.SIGKILL:
        assert files_of(Path(".")) == ["base.npy"]
        return
    assert not os.path.exists("s")
    small = ("shard", "base.npy", "-n", 39, "-o", "s", "--index", "vamana")
    assert "shards is 40 there, 39 here" in kith(*small, code=2).err
    before = work.stat().st_mtime_ns
    assert "interrupted" in kith("shard", "base.npy", "-n", 40, "-o", "s", "--index", "vamana").err
    assert Path("s/shard-1.kith").stat().st_mtime_ns == before
    assert files_of(Path(".")) == ["base.npy", "s"]
    kith("verify", "s")
