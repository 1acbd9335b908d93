"""Trees from the command line: knn --index, build, all-knn, radius, normals, outliers, against brute force in NumPy."""

import json
import os
import re
import signal
import struct
import subprocess
import time

import numpy as np
import oracle
import pytest
from program import KITH, files_of
from test_terminal import on_a_terminal

TREES = ["kd_tree", "octree"]
TREE_METRICS = ["sqeuclidean", "euclidean", "manhattan"]


@pytest.fixture
def cloud(folder):
    """500 points on a wavy sheet in f32, some of them equal, and 40 queries; both as npy and the points as PLY."""
    random = np.random.default_rng(4)
    points = random.random((500, 3)) * [10, 10, 0.2]
    points[:, 2] += np.sin(points[:, 0])
    points[50:60] = points[40]
    points = points.astype(np.float32)
    queries = (random.random((40, 3)) * [10, 10, 2]).astype(np.float32)
    np.save("points.npy", points)
    np.save("queries.npy", queries)
    write_ply("points.ply", points)
    return points, queries


def write_ply(path, points, extra=""):
    kind = "float" if points.dtype == np.float32 else "double"
    head = f"ply\nformat binary_little_endian 1.0\nelement vertex {len(points)}\n"
    head += "".join(f"property {kind} {axis}\n" for axis in "xyz") + extra + "end_header\n"
    with open(path, "wb") as file:
        file.write(head.encode() + np.ascontiguousarray(points).tobytes())


def read_ply(path):
    """The vertices of a binary PLY file as a structured array."""
    with open(path, "rb") as file:
        head, data = file.read().split(b"end_header\n", 1)
    lines = head.decode().splitlines()
    assert lines[1] == "format binary_little_endian 1.0"
    rows = int(next(line.split()[2] for line in lines if line.startswith("element vertex")))
    fields = [line.split()[1:] for line in lines if line.startswith("property")]
    table = np.frombuffer(data, dtype=[(name, {"float": "<f4", "double": "<f8"}[kind]) for kind, name in fields])
    assert len(table) == rows
    return table


def read_pcd(path):
    with open(path, "rb") as file:
        head, data = file.read().split(b"DATA binary\n", 1)
    lines = {line.split()[0]: line.split()[1:] for line in head.decode().splitlines() if not line.startswith("#")}
    table = np.frombuffer(
        data, dtype=[(name, f"<f{size}") for name, size in zip(lines["FIELDS"], lines["SIZE"], strict=True)]
    )
    assert len(table) == int(lines["POINTS"][0]) and set(lines["TYPE"]) == {"F"}
    return table


def write_las(path, integers, scale=0.01, offset=(500000.0, 5400000.0, 300.0)):
    """LAS 1.2, point format 1, with an intensity and a time that only a true copy keeps."""
    head = bytearray(227)
    head[:4], head[24], head[25], head[104] = b"LASF", 1, 2, 1
    struct.pack_into("<HII", head, 94, 227, 227, 0)
    struct.pack_into("<HII", head, 105, 28, len(integers), len(integers))
    struct.pack_into("<6d", head, 131, scale, scale, scale, *offset)
    with open(path, "wb") as file:
        file.write(head)
        for i, (x, y, z) in enumerate(integers):
            file.write(struct.pack("<iiiHBBBBHd", x, y, z, i % 65536, 9, 2, 0, 0, 7, i * 0.5))


def pair(stem):
    return np.load(f"{stem}.indices.npy"), np.load(f"{stem}.distances.npy")


def three(stem):
    return tuple(np.load(f"{stem}.{part}.npy") for part in ("offsets", "indices", "distances"))


def other_rows(points, k, metric="euclidean", radius=np.inf):
    """(indices, distances) of the k nearest other rows, -1 and inf where there are fewer within the radius."""
    every = oracle.distances(points, points, metric).astype(np.float32).astype(np.float64)
    every[np.arange(len(points)), np.arange(len(points))] = np.inf
    every[every > radius] = np.inf
    order = np.argsort(every, axis=1, kind="stable")[:, :k]
    distances = np.take_along_axis(every, order, axis=1)
    return np.where(np.isinf(distances), -1, order), distances


# kith knn --index


@pytest.mark.covers("knn", "--index", "--json")
@pytest.mark.parametrize("metric", TREE_METRICS)
def test_every_index_gives_the_same_bytes(kith, cloud, metric):
    points, queries = cloud
    for index in ["brute_force", *TREES]:
        kith("knn", "points.npy", "queries.npy", "-k", 7, "--metric", metric, "--index", index, "-o", index)
        told = kith("knn", "points.npy", "queries.npy", "--index", index, "--json").json
        assert told["statistics"]["index"] == told["index"]["name"] == index and "reason" not in told["index"]
    oracle.check(*pair("kd_tree"), points, queries, metric)
    for part in ["indices", "distances"]:
        want = open(f"brute_force.{part}.npy", "rb").read()
        assert all(open(f"{index}.{part}.npy", "rb").read() == want for index in TREES)


def test_auto_says_what_it_takes_and_why(kith, folder):
    random = np.random.default_rng(5)
    np.save("points.npy", random.random((60_000, 3), dtype=np.float32))
    np.save("high.npy", random.random((300, 40), dtype=np.float32))
    many = kith("knn", "points.npy", "points.npy", "-k", 4, "-o", "r")
    reason = re.search(r"--index auto takes kd_tree: (.+)", many.err)[1]
    assert "auto takes" not in kith("knn", "points.npy", "points.npy", "-k", 4, "-o", "r", "-q").err
    told = kith("knn", "points.npy", "points.npy", "-k", 4, "-o", "r", "--json", "-q").json
    assert told["index"]["name"] == told["statistics"]["index"] == "kd_tree" and told["index"]["reason"] == reason
    few = kith("knn", "points.npy", "points.npy", "-k", 4, "--max-queries", 1, "--json").json
    assert few["index"]["name"] == few["statistics"]["index"] == "brute_force"
    high = kith("knn", "high.npy", "high.npy", "--json").json["index"]
    assert high["name"] == "brute_force" and high["reason"] != reason
    cosine = kith("knn", "points.npy", "points.npy", "--max-queries", 9, "--metric", "cosine", "--json").json["index"]
    assert cosine["name"] == "brute_force" and "cosine" in cosine["reason"]


def test_options_of_one_index_decide(kith, cloud):
    def taken(*options):
        told = kith("knn", "points.npy", "queries.npy", "--json", *options).json
        assert told["index"]["name"] == told["statistics"]["index"]
        return told["index"]["name"], told["index"]["reason"]

    assert taken("--filter", "fp32") == ("brute_force", "--filter is its option")
    assert taken("--filter", "auto")[0] == "brute_force"
    assert taken("--radius", 1)[0] == "kd_tree" and "--radius" in taken("--radius", 1)[1]
    assert taken("--leaf-size", 5)[0] == "kd_tree" and "--leaf-size" in taken("--leaf-size", 5)[1]


@pytest.mark.covers("knn", "--radius")
@pytest.mark.parametrize("metric", TREE_METRICS)
@pytest.mark.parametrize("index", ["auto", *TREES])
def test_knn_within_a_radius(kith, cloud, index, metric):
    points, queries = cloud
    radius = 1.5
    kith(
        "knn", "points.npy", "queries.npy", "-k", 9, "--radius", radius, "--metric", metric, "--index", index, "-o", "r"
    )
    indices, distances = pair("r")
    order, want = oracle.knn(points, queries, 9, metric)
    assert (want <= radius).any() and (want > radius).any()
    near = want <= radius
    assert ((indices >= 0) == near).all() and np.isinf(distances[~near]).all()
    np.testing.assert_allclose(distances[near], want[near], rtol=1e-6)
    assert (indices[near] == order[near]).all()


@pytest.mark.covers("knn", "--index", "--leaf-size")
@pytest.mark.covers("all-knn", "--index", "--leaf-size")
@pytest.mark.covers("radius", "--index", "--leaf-size", "--json")
@pytest.mark.covers("normals", "--index", "--leaf-size", "--json")
@pytest.mark.covers("outliers", "--index", "--leaf-size", "--json")
@pytest.mark.parametrize("command", ["knn", "all-knn", "radius", "count", "normals", "outliers"])
def test_the_tree_is_the_one_asked_for(kith, cloud, command):
    call = {
        "knn": ["knn", "points.npy", "queries.npy", "-o", "r"],
        "all-knn": ["all-knn", "points.npy", "-o", "r"],
        "radius": ["radius", "points.npy", "queries.npy", "-r", 1, "-o", "r"],
        "count": ["radius", "points.npy", "queries.npy", "-r", 1, "--count", "-o", "r"],
        "normals": ["normals", "points.npy", "-o", "n.npy"],
        "outliers": ["outliers", "points.npy", "-o", "c.npy"],
    }[command]
    for index, size in [("kd_tree", 3), ("octree", 3), ("octree", 300), ("kd_tree", 300)]:
        told = kith(*call, "--index", index, "--leaf-size", size, "--json").json
        assert told["index"] == {"name": index, "leaf_size": size}


@pytest.mark.covers("build", "--leaf-size", "--index")
@pytest.mark.covers("search", "INDEX")
@pytest.mark.parametrize("index", TREES)
def test_trees_on_disk(kith, cloud, index):
    points, queries = cloud
    built = kith(
        "build", "points.npy", "-o", "t.kith", "--index", index, "--leaf-size", 5, "--metric", "euclidean", "--json"
    ).json
    assert built["index"] == index and built["leaf_size"] == 5 and "reason" not in built
    details = kith("info", "t.kith", "--json").json["files"][0]["details"]
    assert details["index"] == index and details["leaf size"] == "5" and details["points"] == "500"
    assert details["NaN rows"] == "0" and int(details["nodes"]) > 1 and int(details["levels"]) > 1
    text = kith("info", "t.kith").out
    assert all(words in text for words in [index, "leaf size", "nodes", "levels"])
    assert len({re.match(r"  \S+( \S+)*? {2,}", line).end() for line in text.splitlines()[1:]}) == 1, text
    kith("build", "points.npy", "-o", "large.kith", "--index", index, "--leaf-size", 400, "-q")
    fewer = kith("info", "large.kith", "--json").json["files"][0]["details"]
    assert int(fewer["nodes"]) < int(details["nodes"])
    kith("search", "t.kith", "queries.npy", "-k", 6, "-o", "r")
    oracle.check(*pair("r"), points, queries, "euclidean")
    assert kith("search", "t.kith", "queries.npy", "--json").json["statistics"]["index"] == index
    assert kith("search", "t.kith", "queries.npy", "--json").json["metric"] == "euclidean"
    # The leaf size is not in an answer, but a search without it is refused where it makes no sense.
    for size in [1, 4096]:
        kith(
            "knn",
            "points.npy",
            "queries.npy",
            "-k",
            6,
            "--metric",
            "euclidean",
            "--index",
            index,
            "--leaf-size",
            size,
            "-o",
            "s",
        )
        assert open("s.distances.npy", "rb").read() == open("r.distances.npy", "rb").read()
    for size in [0, -1, 4097]:
        error = kith("knn", "points.npy", "queries.npy", "--index", index, "--leaf-size", size, code=1).err
        assert f"--leaf-size {size}" in error and "4096" in error


def test_build_auto(kith, folder):
    random = np.random.default_rng(6)
    np.save("points.npy", random.random((40_000, 3), dtype=np.float32))
    np.save("high.npy", random.random((100, 40), dtype=np.float32))
    built = kith("build", "points.npy", "-o", "t.kith", "--index", "auto", "--json")
    assert built.json["index"] == "kd_tree"
    assert f"--index auto takes kd_tree: {built.json['reason']}" in built.err
    assert kith("build", "high.npy", "-o", "t.kith", "--index", "auto", "--json").json["index"] == "brute_force"
    assert (
        kith("build", "points.npy", "-o", "t.kith", "--index", "auto", "--filter", "fp32", "--json").json["index"]
        == "brute_force"
    )
    assert (
        kith("build", "high.npy", "-o", "t.kith", "--index", "auto", "--leaf-size", 9, "--json").json["leaf_size"] == 9
    )
    assert "index" in kith("build", "points.npy", "-o", "t.kith", "--json").json  # brute_force unless asked
    assert kith("info", "t.kith", "--json").json["files"][0]["details"]["index"] == "brute_force"


def test_info_counts_nan_rows(kith, cloud):
    points, _ = cloud
    points[[3, 9]] = np.nan
    np.save("holes.npy", points)
    kith("build", "holes.npy", "-o", "t.kith", "--index", "octree")
    details = kith("info", "t.kith", "--json").json["files"][0]["details"]
    assert details["NaN rows"] == "2" and details["points"] == "498"


def test_different_types_meet(kith, cloud):
    points, queries = cloud
    np.save("wide.npy", queries.astype(np.float64))
    outcome = kith("knn", "points.npy", "wide.npy", "-k", 3, "--index", "kd_tree", "-o", "r")
    assert "searched as f64" in outcome.err
    oracle.check(*pair("r"), points, queries)
    np.save("half.npy", points.astype(np.float16))
    kith("radius", "half.npy", "wide.npy", "-r", 1, "-o", "r")
    check_radius(three("r"), points.astype(np.float16), queries, 1.0)


# kith all-knn


@pytest.mark.covers("all-knn", "POINTS", "--neighbors", "--metric", "--index", "--output")
@pytest.mark.parametrize("index", ["auto", *TREES])
@pytest.mark.parametrize("metric", TREE_METRICS)
def test_all_knn(kith, cloud, index, metric):
    points, _ = cloud
    outcome = kith("all-knn", "points.ply", "-k", 5, "--metric", metric, "--index", index, "-o", "r")
    indices, distances = pair("r")
    want, truth = other_rows(points, 5, metric)
    assert (indices == want).all() and not (indices == np.arange(500)[:, None]).any()
    np.testing.assert_allclose(distances, truth, rtol=1e-6)
    assert outcome.out == "" and "500 queries" in outcome.err
    told = kith("all-knn", "points.npy", "-k", 5, "--metric", metric, "--index", index, "--json").json
    assert told["statistics"]["index"] == ("octree" if index == "octree" else "kd_tree")
    assert told["metric"] == metric and told["indices"] == want.tolist()


@pytest.mark.covers("all-knn", "--include-self", "--json")
def test_all_knn_with_self_is_knn(kith, cloud):
    kith("all-knn", "points.npy", "-k", 4, "--include-self", "-o", "all")
    kith("knn", "points.npy", "points.npy", "-k", 4, "--metric", "euclidean", "-o", "one")
    for part in ["indices", "distances"]:
        assert open(f"all.{part}.npy", "rb").read() == open(f"one.{part}.npy", "rb").read()
    told = kith("all-knn", "points.npy", "-k", 4, "--include-self", "--json").json
    assert told["indices"] == np.load("one.indices.npy").tolist()


@pytest.mark.covers("all-knn", "--radius", "--leaf-size")
def test_all_knn_within_a_radius(kith, cloud):
    points, _ = cloud
    kith("all-knn", "points.npy", "-k", 20, "--radius", 0.6, "--leaf-size", 3, "-o", "r")
    indices, distances = pair("r")
    want, truth = other_rows(points, 20, radius=0.6)
    assert (indices == want).all() and (want == -1).any()
    np.testing.assert_allclose(distances, truth, rtol=1e-6)
    assert "--leaf-size 5000" in kith("all-knn", "points.npy", "--leaf-size", 5000, code=1).err


@pytest.mark.covers("all-knn", "--format", "--member", "--statistics", "--quiet")
def test_all_knn_shares_the_options_of_knn(kith, cloud):
    import h5py

    points, _ = cloud
    with h5py.File("all.h5", "w") as file:
        file["train"], file["part"] = points, points[:60]
    assert kith("all-knn", "all.h5", "-k", 1, "--json").json["queries"] == 500
    assert kith("all-knn", "all.h5", "-k", 1, "--member", "part", "--json").json["queries"] == 60
    kith("all-knn", "points.npy", "-k", 2, "-o", "out", "--format", "json")
    assert json.load(open("out"))["k"] == 2
    shown = kith("all-knn", "points.npy", "-k", 2, "-v")
    assert "490 more queries" in shown.out and "kd_tree" in shown.err and "pairs" in shown.err
    assert kith("all-knn", "points.npy", "-k", 2, "-o", "r", "-q").err == ""


# kith radius


def check_radius(found, points, queries, radius, metric="euclidean", most=None, sort=False):
    offsets, indices, distances = found
    every = oracle.distances(points, queries, metric)
    assert offsets.shape == (len(queries) + 1,) and offsets[0] == 0 and offsets[-1] == len(indices) == len(distances)
    assert offsets.dtype == indices.dtype == np.int64
    for i in range(len(queries)):
        rows, far = indices[offsets[i] : offsets[i + 1]], distances[offsets[i] : offsets[i + 1]]
        if sort:
            order = np.lexsort((rows, far))
            rows, far = rows[order], far[order]
        truth = np.argsort(every[i], kind="stable")
        truth = truth[every[i][truth] <= radius][:most]
        assert rows.tolist() == truth.tolist(), i
        np.testing.assert_allclose(far, every[i][rows], rtol=1e-6)


@pytest.mark.covers("radius", "POINTS", "QUERIES", "--radius", "--metric", "--index", "--output")
@pytest.mark.parametrize("index", ["auto", *TREES])
@pytest.mark.parametrize("metric", TREE_METRICS)
def test_radius(kith, cloud, index, metric):
    points, queries = cloud
    outcome = kith("radius", "points.npy", "queries.npy", "-r", 1.2, "--metric", metric, "--index", index, "-o", "r")
    check_radius(three("r"), points, queries, 1.2, metric)
    assert outcome.out == "" and "40 queries" in outcome.err and "r.offsets.npy" in outcome.err
    told = kith("radius", "points.npy", "queries.npy", "-r", 1.2, "--index", index, "--json").json
    assert told["statistics"]["index"] == ("octree" if index == "octree" else "kd_tree")


def test_radius_in_metres_unless_asked(kith, cloud):
    points, queries = cloud
    kith("radius", "points.npy", "queries.npy", "-r", 2, "-o", "r")
    kith("radius", "points.npy", "queries.npy", "-r", 4, "--metric", "sqeuclidean", "-o", "s")
    assert np.load("r.indices.npy").tolist() == np.load("s.indices.npy").tolist()


@pytest.mark.covers("radius", "--max-neighbors", "--unsorted", "--max-queries", "--leaf-size")
def test_radius_options(kith, cloud):
    points, queries = cloud
    kith("radius", "points.npy", "queries.npy", "-r", 2, "--max-neighbors", 5, "-o", "few")
    check_radius(three("few"), points, queries, 2, most=5)
    kith("radius", "points.npy", "queries.npy", "-r", 2, "--unsorted", "--leaf-size", 3, "-o", "any")
    check_radius(three("any"), points, queries, 2, sort=True)
    kith("radius", "points.npy", "queries.npy", "-r", 2, "-o", "all")
    assert np.load("any.indices.npy").tolist() != np.load("all.indices.npy").tolist()
    kith("radius", "points.npy", "queries.npy", "-r", 2, "--max-queries", 7, "-o", "seven")
    check_radius(three("seven"), points, queries[:7], 2)
    kith("radius", "points.npy", "points.npy", "-r", 2, "--max-queries", 7, "-o", "seven")
    check_radius(three("seven"), points, points[:7], 2)
    kith("radius", "points.npy", "queries.npy", "-r", 0, "-o", "zero")
    assert np.load("zero.offsets.npy").tolist() == [0] * 41
    assert "--leaf-size 0" in kith("radius", "points.npy", "queries.npy", "-r", 2, "--leaf-size", 0, code=1).err


@pytest.mark.covers("radius", "--count", "--json")
def test_radius_count(kith, cloud):
    points, queries = cloud
    want = (oracle.distances(points, queries, "euclidean") <= 1.5).sum(axis=1)
    kith("radius", "points.npy", "queries.npy", "-r", 1.5, "--count", "-o", "n")
    assert np.load("n.counts.npy").tolist() == want.tolist() and np.load("n.counts.npy").dtype == np.int64
    kith("radius", "points.npy", "queries.npy", "-r", 1.5, "--count", "-o", "m.npy")
    assert np.load("m.npy").tolist() == want.tolist()
    told = kith("radius", "points.npy", "queries.npy", "-r", 1.5, "--count", "--json").json
    assert told["counts"] == want.tolist() and told["neighbors"] == want.sum()
    assert kith("radius", "points.npy", "queries.npy", "-r", 1.5, "--count", "--json", "-o", "n").json["files"] == [
        "n.counts.npy"
    ]
    shown = kith("radius", "points.npy", "queries.npy", "-r", 1.5, "--count").out.splitlines()
    assert [int(line.split()[1]) for line in shown[1:11]] == want[:10].tolist() and "30 more queries" in shown[11]


def test_radius_json_and_screen(kith, cloud):
    points, queries = cloud
    told = kith("radius", "points.npy", "queries.npy", "-r", 1.2, "--json").json
    check_radius(tuple(np.array(told[key]) for key in ["offsets", "indices", "distances"]), points, queries, 1.2)
    assert told["radius"] == 1.2 and told["metric"] == "euclidean" and told["neighbors"] == len(told["indices"])
    told = kith("radius", "points.npy", "queries.npy", "-r", 1.2, "--json", "-o", "r").json
    assert told["files"] == ["r.offsets.npy", "r.indices.npy", "r.distances.npy"] and "indices" not in told
    shown = kith("radius", "points.npy", "queries.npy", "-r", 3).out
    assert shown.splitlines()[0].split() == ["query", "rank", "row", "distance"] and "30 more queries" in shown
    assert "none within the radius" in kith("radius", "points.npy", "queries.npy", "-r", 0).out


@pytest.mark.covers("radius", "--base-member", "--query-member", "--quiet")
def test_radius_members(kith, cloud):
    import h5py

    points, queries = cloud
    with h5py.File("all.h5", "w") as file:
        file["train"], file["test"], file["part"], file["few"] = points, queries, points[:99], queries[:5]
    kith("radius", "all.h5", "all.h5", "-r", 2, "-o", "r")
    check_radius(three("r"), points, queries, 2)
    assert (
        kith(
            "radius", "all.h5", "all.h5", "-r", 2, "--base-member", "part", "--query-member", "few", "-o", "r", "-q"
        ).err
        == ""
    )
    check_radius(three("r"), points[:99], queries[:5], 2)


def test_radius_files_appear_all_or_none(kith, cloud, folder):
    kith("radius", "points.npy", "queries.npy", "-r", 1, "-o", "r")
    before = {name: (folder / name).read_bytes() for name in files_of(folder)}
    kith("radius", "points.npy", "queries.npy", "-r", 2, "-o", "r", "--memory-limit", 20_000, code=3)
    (folder / "s.distances.npy").mkdir()
    kith("radius", "points.npy", "queries.npy", "-r", 2, "-o", "s", code=2)
    (folder / "s.distances.npy").rmdir()
    assert {name: (folder / name).read_bytes() for name in files_of(folder)} == before


# kith normals


def true_normals(points, k=None, radius=np.inf, viewpoint=None):
    """[n, dim + 1]: normals and curvatures by NumPy."""
    points = np.asarray(points, dtype=np.float64)
    dim = points.shape[1]
    out = np.full((len(points), dim + 1), np.nan)
    for i, every in enumerate(oracle.distances(points, points, "euclidean")):
        rows = np.argsort(every, kind="stable")
        rows = rows[every[rows] <= radius][:k]
        if len(rows) < dim:
            continue
        values, vectors = np.linalg.eigh(np.cov(points[rows].T, bias=True))
        normal = vectors[:, 0]
        towards = normal[np.abs(normal).argmax()] if viewpoint is None else (np.asarray(viewpoint) - points[i]) @ normal
        out[i] = [*(-normal if towards < 0 else normal), max(values[0], 0) / values.sum() if values.sum() > 0 else 0]
    return out


@pytest.fixture
def rough(folder):
    """Points in general position: every neighbourhood has one least direction."""
    points = (np.random.default_rng(7).random((300, 3)) * [10, 10, 1]).astype(np.float32)
    np.save("points.npy", points)
    write_ply("points.ply", points)
    return points


def close(found, want):
    np.testing.assert_allclose(np.asarray(found, dtype=np.float64), want, atol=1e-5)


@pytest.mark.covers("normals", "POINTS", "--neighbors", "--output", "--index")
@pytest.mark.parametrize("index", ["auto", *TREES])
def test_normals(kith, rough, index):
    outcome = kith("normals", "points.ply", "-k", 12, "--index", index, "-o", "n.npy")
    found = np.load("n.npy")
    assert found.shape == (300, 4) and found.dtype == np.float64 and outcome.out == "" and "300 points" in outcome.err
    close(found, true_normals(rough, 12))
    np.testing.assert_allclose(np.linalg.norm(found[:, :3], axis=1), 1, rtol=1e-12)
    told = kith("normals", "points.npy", "-k", 12, "--index", index, "-o", "n.npy", "--json").json
    assert told["index"]["name"] == ("octree" if index == "octree" else "kd_tree") and told["without_normal"] == 0


@pytest.mark.covers("normals", "--radius", "--viewpoint", "--leaf-size")
def test_normals_options(kith, rough):
    kith("normals", "points.npy", "-o", "n.npy")
    close(np.load("n.npy"), true_normals(rough, 20))
    outcome = kith("normals", "points.npy", "--radius", 0.8, "-o", "n.npy")
    want = true_normals(rough, None, 0.8)
    assert 0 < np.isnan(want).any(axis=1).sum() < 300
    assert f"{np.isnan(want).any(axis=1).sum()} points without a normal" in outcome.err
    close(np.load("n.npy"), want)
    kith("normals", "points.npy", "-k", 9, "--radius", 1.5, "--leaf-size", 3, "-o", "n.npy")
    close(np.load("n.npy"), true_normals(rough, 9, 1.5))
    for viewpoint in ["-5,3.5,-20", "5,5,1e3"]:
        kith("normals", "points.npy", "-k", 12, "--viewpoint", viewpoint, "-o", "n.npy")
        close(np.load("n.npy"), true_normals(rough, 12, viewpoint=[float(x) for x in viewpoint.split(",")]))
    assert "--leaf-size 0" in kith("normals", "points.npy", "-o", "n.npy", "--leaf-size", 0, code=1).err


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("extension", ["ply", "pcd"])
def test_normals_in_point_clouds(kith, folder, kind, extension):
    points = (np.random.default_rng(8).random((200, 3)) * [10, 10, 1]).astype(kind)
    points[7] = np.nan
    if kind == np.float64:
        points += [500_000, 5_400_000, 0]  # f32 would merge these
    write_ply("points.ply", points)
    outcome = kith("normals", "points.ply", "-k", 10, "-o", f"n.{extension}")
    table = (read_ply if extension == "ply" else read_pcd)(f"n.{extension}")
    names = ["nx", "ny", "nz"] if extension == "ply" else ["normal_x", "normal_y", "normal_z"]
    assert table.dtype.names == ("x", "y", "z", *names, "curvature")
    assert table.dtype["x"] == kind and table.dtype["curvature"] == np.float32
    for axis, name in enumerate("xyz"):
        np.testing.assert_array_equal(table[name], points[:, axis])
    kith("normals", "points.ply", "-k", 10, "-o", "n.npy", "-q")
    want = np.load("n.npy").astype(np.float32)
    np.testing.assert_array_equal(np.column_stack([table[name] for name in [*names, "curvature"]]), want)
    assert (
        np.isnan(want[7]).all() and np.isnan(want).any(axis=1).sum() == 1 and "1 point without a normal" in outcome.err
    )
    back = kith("info", f"n.{extension}", "--json").json["files"][0]
    assert back["rows"] == 200 and "curvature" in str(back["details"])


def test_normals_in_two_dimensions(kith, folder):
    points = np.random.default_rng(9).random((150, 2))
    np.save("flat.npy", points)
    kith("normals", "flat.npy", "-k", 6, "--viewpoint", "3,4", "-o", "n.npy")
    assert np.load("n.npy").shape == (150, 3)
    close(np.load("n.npy"), true_normals(points, 6, viewpoint=[3, 4]))
    assert "write .npy" in kith("normals", "flat.npy", "-o", "n.ply", code=1).err
    assert "2" in kith("normals", "flat.npy", "--viewpoint", "1,2,3", "-o", "n.npy", code=1).err


def test_normals_of_bytes(kith, folder):
    points = np.random.default_rng(10).integers(0, 255, (100, 3)).astype(np.uint8)
    np.save("bytes.npy", points)
    assert "written as f32" in kith("normals", "bytes.npy", "-o", "n.ply").err
    table = read_ply("n.ply")
    assert table.dtype["x"] == np.float32 and (table["y"] == points[:, 1]).all()


@pytest.mark.covers("normals", "--json", "--quiet", "--member")
def test_normals_json_and_members(kith, rough):
    import h5py

    with h5py.File("all.h5", "w") as file:
        file["train"], file["part"] = rough, rough[:60]
    told = kith("normals", "all.h5", "-o", "n.npy", "--json").json
    assert told.pop("index")["name"] == "kd_tree" and told == {
        "file": "n.npy",
        "rows": 300,
        "dim": 3,
        "without_normal": 0,
    }
    assert kith("normals", "all.h5", "-o", "n.npy", "--member", "part", "-q").err == ""
    close(np.load("n.npy"), true_normals(rough[:60], 20))


# kith outliers


def true_outliers(points, k=20, ratio=2.0, metric="euclidean", radius=np.inf):
    _, distances = other_rows(points, k, metric, radius)
    found = ~np.isinf(distances)
    count = found.sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.where(found, distances, 0).sum(axis=1) / count
    held = mean[count > 0]
    threshold = held.mean() + ratio * held.std(ddof=1)
    return ~(mean <= threshold), held.mean(), held.std(ddof=1), threshold


@pytest.fixture
def noisy(folder):
    random = np.random.default_rng(11)
    points = (random.random((400, 3)) * [10, 10, 0.5]).astype(np.float32)
    points[::40, 2] += random.random(10).astype(np.float32) * 8 + 2
    np.save("points.npy", points)
    write_ply("points.ply", points)
    return points


@pytest.mark.covers("outliers", "POINTS", "--neighbors", "--ratio", "--radius", "--metric", "--index", "--output")
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"k": 5},
        {"ratio": 1},
        {"metric": "manhattan", "k": 8},
        {"k": 30, "radius": 1.5},
        {"radius": 1.0},
        {"index": "octree"},
    ],
    ids=str,
)
def test_outliers(kith, noisy, options):
    arguments = [word for name, value in options.items() for word in (f"--{name}" if name != "k" else "-k", value)]
    how = {name: value for name, value in options.items() if name != "index"}
    if "radius" in how and "k" not in how:
        how["k"] = 399
    flags, mean, deviation, threshold = true_outliers(noisy, **how)
    assert 0 < flags.sum() < 100
    told = kith("outliers", "points.npy", *arguments, "-o", "clean.npy", "--json").json
    assert told["outliers"] == flags.sum() and told["rows"] == 400 and told["file"] == "clean.npy"
    np.testing.assert_allclose(
        [told["mean"], told["deviation"], told["threshold"]], [mean, deviation, threshold], rtol=1e-5
    )
    np.testing.assert_array_equal(np.load("clean.npy"), noisy[~flags])


@pytest.mark.covers("outliers", "--mark", "--json")
def test_marks(kith, noisy):
    flags, *_ = true_outliers(noisy)
    outcome = kith("outliers", "points.npy", "--mark", "-o", "m.npy")
    marks = np.load("m.npy")
    assert marks.dtype == bool and marks.tolist() == flags.tolist() and "400 flags" in outcome.err
    told = kith("outliers", "points.npy", "--mark", "--json").json
    assert told["outlier"] == flags.tolist() and told["outliers"] == flags.sum()
    assert "outlier" not in kith("outliers", "points.npy", "--mark", "--json", "-o", "m.npy").json
    for call in [["--mark"], ["--json"], []]:
        assert "-o (--output) is missing" in kith("outliers", "points.npy", *call, code=1).err
    assert "'.ply'" in kith("outliers", "points.npy", "--mark", "-o", "m.ply", code=1).err


def test_outliers_says_what_it_did(kith, noisy):
    flags, mean, deviation, threshold = true_outliers(noisy)
    text = kith("outliers", "points.npy", "-o", "clean.npy").err
    assert f"removed {flags.sum()} of 400 points" in text
    for value in [mean, deviation, threshold]:
        assert f"{value:.4f}"[:5] in text


@pytest.mark.parametrize("extension", ["ply", "pcd", "xyz", "npy"])
def test_outliers_formats(kith, noisy, extension):
    flags, *_ = true_outliers(noisy)
    kith("outliers", "points.ply", "-o", f"clean.{extension}")
    kith("convert", f"clean.{extension}", "back.npy")
    np.testing.assert_array_equal(np.load("back.npy"), noisy[~flags])


def test_outliers_of_las_keep_everything(kith, folder):
    random = np.random.default_rng(12)
    integers = (random.random((300, 3)) * [1000, 1000, 50]).astype(int)
    integers[::50, 2] += 5000
    write_las("scan.las", integers)
    kith("outliers", "scan.las", "-k", 6, "-o", "clean.las")
    marks = kith("outliers", "scan.las", "-k", 6, "--mark", "--json").json["outlier"]
    kept = [i for i in range(300) if not marks[i]]
    assert 280 < len(kept) < 300
    old, new = open("scan.las", "rb").read(), open("clean.las", "rb").read()
    assert new[227:] == b"".join(old[227 + 28 * i : 255 + 28 * i] for i in kept)
    assert new[131:179] == old[131:179], "scale and offset"
    assert struct.unpack_from("<I", new, 107)[0] == len(kept)
    top = struct.unpack_from("<6d", new, 179)
    np.testing.assert_allclose(top[0], 500000 + 0.01 * integers[kept, 0].max())
    np.testing.assert_allclose(top[5], 300 + 0.01 * integers[kept, 2].min())


def test_outliers_into_las(kith, noisy):
    flags, *_ = true_outliers(noisy)
    outcome = kith("outliers", "points.ply", "-o", "clean.las")
    assert "the scale is" in outcome.err
    kith("convert", "clean.las", "back.npy")
    np.testing.assert_allclose(np.load("back.npy"), noisy[~flags], atol=0.0005)


def test_outliers_says_what_is_lost(kith, noisy):
    head, data = open("points.ply", "rb").read().split(b"end_header\n", 1)
    table = np.empty(400, dtype=[("p", "<f4", 3), ("q", "<f4")])
    table["p"], table["q"] = noisy, 1
    open("rich.ply", "wb").write(head + b"property float quality\nend_header\n" + table.tobytes())
    text = kith("outliers", "rich.ply", "-o", "clean.pcd").err
    assert "x y z quality" in text and "only x, y and z" in text
    for cloud, file in [("points.ply", "clean.pcd"), ("rich.ply", "clean.ply")]:
        assert "only x" not in kith("outliers", cloud, "-o", file).err


@pytest.mark.covers("outliers", "--quiet", "--member", "--leaf-size")
def test_outliers_members(kith, noisy):
    import h5py

    with h5py.File("all.h5", "w") as file:
        file["train"], file["part"] = noisy, noisy[:90]
    assert kith("outliers", "all.h5", "-o", "c.npy", "--json").json["rows"] == 400
    assert kith("outliers", "all.h5", "-o", "c.npy", "--member", "part", "--json").json["rows"] == 90
    assert kith("outliers", "points.npy", "-o", "c.npy", "-q", "--leaf-size", 2).err == ""
    assert "--leaf-size 0" in kith("outliers", "points.npy", "-o", "n.npy", "--leaf-size", 0, code=1).err


# Edges and failures


def test_nothing_but_nan(kith, folder):
    np.save("nan.npy", np.full((6, 3), np.nan))
    outcome = kith("all-knn", "nan.npy", "-k", 2, "-o", "r")
    assert (np.load("r.indices.npy") == -1).all() and "6 rows with NaN" in outcome.err
    outcome = kith("radius", "nan.npy", "nan.npy", "-r", 5, "-o", "r")
    assert np.load("r.offsets.npy").tolist() == [0] * 7 and "6 queries with NaN" in outcome.err
    assert kith("radius", "nan.npy", "nan.npy", "-r", 5, "--count", "--json").json["counts"] == [0] * 6
    kith("normals", "nan.npy", "-o", "n.npy")
    assert np.isnan(np.load("n.npy")).all()
    told = kith("outliers", "nan.npy", "-o", "clean.npy", "--json").json
    assert told["outliers"] == 6 and told["mean"] is None and np.load("clean.npy").shape == (0, 3)


def test_no_points(kith, folder):
    np.save("none.npy", np.zeros((0, 3), np.float32))
    kith("knn", "none.npy", "none.npy", "-k", 2, "--index", "octree", "-o", "r")
    assert np.load("r.indices.npy").shape == (0, 2)
    kith("all-knn", "none.npy", "-k", 2, "-o", "r")
    assert np.load("r.indices.npy").shape == (0, 2)
    kith("radius", "none.npy", "none.npy", "-r", 1, "-o", "r")
    assert [len(part) for part in three("r")] == [1, 0, 0]
    kith("normals", "none.npy", "-o", "n.ply")
    assert len(read_ply("n.ply")) == 0
    assert kith("outliers", "none.npy", "-o", "clean.ply", "--json").json["outliers"] == 0
    kith("build", "none.npy", "--index", "kd_tree", "-o", "t.kith")
    assert kith("info", "t.kith", "--json").json["files"][0]["rows"] == 0


@pytest.fixture
def data(folder):
    points = np.random.default_rng(5).random((200, 3)).astype(np.float32)
    np.save("points.npy", points)
    np.save("high.npy", np.zeros((9, 6), np.float32))
    open("foreign.npy", "wb").write(b"GIF89a" + bytes(100))
    os.mkdir("folder")
    return files_of(folder)


TREE_COMMANDS = [
    ["all-knn", "points.npy"],
    ["radius", "points.npy", "points.npy", "-r", "1"],
    ["normals", "points.npy"],
    ["outliers", "points.npy"],
]
KNN = ["knn", "points.npy", "points.npy"]

CASES = [
    ([*KNN, "--index", "kdtree"], 1, "did you mean 'kd_tree'?"),
    ([*KNN, "--index", "brute_force", "--radius", "1"], 1, "--radius is for trees"),
    ([*KNN, "--index", "brute_force", "--leaf-size", "8"], 1, "--leaf-size is for trees"),
    ([*KNN, "--index", "kd_tree", "--filter", "int8"], 1, "--index kd_tree would ignore it"),
    ([*KNN, "--index", "octree", "--filter", "auto"], 1, "--index octree would ignore it"),
    ([*KNN, "--radius", "1", "--filter", "int8"], 1, "leave one of them out"),
    ([*KNN, "--index", "kd_tree", "--directions", "off"], 1, "--directions is for brute_force"),
    ([*KNN, "--radius", "1", "--directions", "on"], 1, "--radius is for trees"),
    ([*KNN, "--index", "kd_tree", "--lists", "9"], 1, "--lists is for brute_force"),
    ([*KNN, "--index", "brute_force", "--lists", "few"], 1, "--lists few: use auto, 0 for none, or how many"),
    ([*KNN, "--index", "brute_force", "--lists", "-3"], 1, "--lists -3: use auto, 0 for none, or how many"),
    ([*KNN, "--lists", "5", "--metric", "manhattan"], 1, "5 lists need a metric"),
    ([*KNN, "--radius", "-1"], 1, "--radius -1"),
    ([*KNN, "--radius", "nan"], 1, "--radius nan"),
    ([*KNN, "--radius", "near"], 1, "'near' is not a number"),
    ([*KNN, "--radius", "1", "--metric", "cosine"], 1, "no tree supports cosine"),
    ([*KNN, "--index", "kd_tree", "--metric", "cosine"], 1, "cosine"),
    (["knn", "high.npy", "high.npy", "--index", "octree"], 1, "dim"),
    (
        ["build", "points.npy", "-o", "t", "--index", "kd_tree", "--filter", "int8"],
        1,
        "--index kd_tree would ignore it",
    ),
    (["build", "points.npy", "-o", "t", "--leaf-size", "8"], 1, "--leaf-size is for trees"),
    (["build", "points.npy", "-o", "t", "--index", "octree", "--metric", "cosine"], 1, "cosine"),
    (["all-knn", "points.npy", "-k", "0"], 1, "-k 0"),
    (["all-knn", "points.npy", "--index", "brute_force"], 1, "'brute_force' is not one of auto, kd_tree, octree"),
    (["all-knn", "points.npy", "--max-queries", "3"], 1, "no option '--max-queries'"),
    (["all-knn", "points.npy", "--radius", "-2"], 1, "--radius -2"),
    (["all-knn", "points.npy", "--metric", "cosine"], 1, "no tree supports cosine"),
    (["all-knn", "points.npy", "--metric", "euclid"], 1, "did you mean 'euclidean'?"),
    (["all-knn", "high.npy", "--index", "octree"], 1, "dim"),
    (["all-knn", "points.npy", "-o", "r.unknown"], 1, "'.unknown'"),
    (["all-knn"], 1, "POINTS is missing"),
    (["radius", "points.npy", "points.npy"], 1, "-r (--radius) is missing"),
    (["radius", "points.npy", "points.npy", "-r", "-1"], 1, "--radius -1"),
    (["radius", "points.npy", "points.npy", "-r", "1", "--max-neighbors", "0"], 1, "--max-neighbors 0"),
    (
        ["radius", "points.npy", "points.npy", "-r", "1", "--max-neighbors", "3", "--unsorted"],
        1,
        "leave out --unsorted",
    ),
    (["radius", "points.npy", "points.npy", "-r", "1", "--count", "--unsorted"], 1, "leave out --unsorted"),
    (
        ["radius", "points.npy", "points.npy", "-r", "1", "--count", "--max-neighbors", "3"],
        1,
        "leave out --max-neighbors",
    ),
    (["radius", "points.npy", "points.npy", "-r", "1", "--max-queries", "-3"], 1, "--max-queries -3"),
    (["radius", "points.npy", "high.npy", "-r", "1"], 1, "dimension 3"),
    (["radius", "points.npy", "gone.npy", "-r", "1"], 2, "gone.npy"),
    (["radius", "points.npy", "points.npy", "-r", "1", "-o", "r.txt"], 1, "'.txt'"),
    (
        ["radius", "points.npy", "points.npy", "-r", "1", "--metric", "inner_product"],
        1,
        "no tree supports inner_product",
    ),
    (["normals", "points.npy"], 1, "-o (--output) is missing"),
    (
        ["normals", "points.npy", "-o", "n.las"],
        1,
        "las keeps the attributes of LAS and LAZ points, 'points.npy' is npy; write .ply",
    ),
    (["normals", "points.npy", "-o", "n.xyz"], 1, "xyz cannot hold normals"),
    (["normals", "points.npy", "-o", "n"], 1, "no extension"),
    (["normals", "points.npy", "-o", "n.ply", "-k", "0"], 1, "-k 0"),
    (["normals", "points.npy", "-o", "n.ply", "--radius", "-1"], 1, "--radius -1"),
    (["normals", "points.npy", "-o", "n.ply", "--viewpoint", "1,2"], 1, "2 coordinates, the points have 3"),
    (["normals", "points.npy", "-o", "n.ply", "--viewpoint", "1,2,up"], 1, "--viewpoint '1,2,up'"),
    (["normals", "points.npy", "-o", "n.ply", "--viewpoint", "1,2,"], 1, "--viewpoint '1,2,'"),
    (["normals", "points.npy", "-o", "n.ply", "--viewpoint", "1,2,inf"], 1, "--viewpoint '1,2,inf'"),
    (["normals", "points.npy", "-o", "n.ply", "--metric", "manhattan"], 1, "no option '--metric'"),
    (["normals", "high.npy", "-o", "n.npy"], 1, "dimension 6"),
    (["outliers", "points.npy", "-o", "c.ply", "--ratio", "-1"], 1, "--ratio -1"),
    (["outliers", "points.npy", "-o", "c.ply", "--ratio", "nan"], 1, "--ratio nan"),
    (["outliers", "points.npy", "-o", "c.ply", "-k", "-2"], 1, "-k -2"),
    (["outliers", "points.npy", "-o", "c.ply", "--metric", "cosine"], 1, "no tree supports cosine"),
    (["outliers", "points.npy", "-o", "c.unknown"], 1, "'.unknown'"),
    (["outliers", "high.npy", "-o", "c.ply"], 1, "dimension 3"),
    (["outliers", "points.npy", "-o", "c.laz"], 1, "laz keeps the attributes of LAS and LAZ points"),
] + [
    case
    for command in TREE_COMMANDS
    for output in [[] if "-o" in command else ["-o", "x.npy" if command[0] in ("normals", "outliers") else "x"]]
    for case in [
        ([command[0], "gone.npy", *command[2:], *output], 2, "gone.npy"),
        ([command[0], "folder", *command[2:], *output], 2, "folder"),
        ([command[0], "foreign.npy", *command[2:], *output], 2, "foreign.npy"),
        ([*command, "-o", "gone/x.npy"], 2, "no folder 'gone'"),
        ([*command, "-o", "folder"], 1, "no LAS, LAZ or PLY file")
        if command[0] in ("normals", "outliers")
        else ([*command, "-o", "folder"], 2, "is a folder"),
        ([*command, *output, "--threads", "-1"], 1, "--threads -1"),
        ([*command, *output, "--memory-limit", "100"], 3, "--memory-limit"),
        ([*command, *output, "--device", "cuda:77"], 4, "cuda:77"),
        ([*command, *output, "--leaf-sise", "7"], 1, "did you mean '--leaf-size'?"),
    ]
]


@pytest.mark.covers("all-knn", "--device-memory-limit")
@pytest.mark.covers("radius", "--device-memory-limit")
@pytest.mark.covers("normals", "--device-memory-limit")
@pytest.mark.covers("outliers", "--device-memory-limit")
@pytest.mark.covers("knn", "--device-memory-limit")
@pytest.mark.covers("build", "--device-memory-limit")
@pytest.mark.covers("shard", "--device-memory-limit")
@pytest.mark.covers("search", "--device-memory-limit")
@pytest.mark.parametrize(
    "command",
    [
        ["all-knn", "p.npy"],
        ["radius", "p.npy", "p.npy", "-r", "1"],
        ["normals", "p.npy", "-o", "n.npy"],
        ["outliers", "p.npy", "-o", "c.npy"],
        ["knn", "p.npy", "p.npy"],
        ["build", "p.npy", "-o", "i.kith"],
        ["shard", "p.npy", "-n", "2", "-o", "s"],
        ["search", "t.kith", "p.npy"],
    ],
    ids=lambda command: command[0],
)
def test_a_limit_on_gpu_memory(kith, folder, command):
    np.save("p.npy", np.random.default_rng(3).random((200, 3)).astype(np.float32))
    kith("build", "p.npy", "-o", "t.kith", "--index", "kd_tree", "-q")
    for size in ["2GiB", "50%"]:
        error = kith(*command, "--device-memory-limit", size, code=1).err
        assert f"--device-memory-limit {size}" in error and "--device cpu" in error and "--memory-limit" in error
    for size, words in [("x", "is not a size"), ("-1", "is not a size"), ("0%", "is not a share")]:
        assert words in kith(*command, "--device-memory-limit", size, code=1).err
    kith(*command, "--device-memory-limit", "none")
    kith(*command, "--device", "auto", "--device-memory-limit", "50%")  # of a GPU, where there is one
    listed = kith("devices", "--json").json["devices"]
    if any(entry["device"] != "cpu" and entry["usable"] for entry in listed):
        error = kith(*command, "--device", "cuda", "--device-memory-limit", "900", code=3).err
        assert "GPU memory" in error or "memory of cuda:0" in error


@pytest.mark.covers("all-knn", "--device", "--threads", "--memory-limit")
@pytest.mark.covers("radius", "--device", "--threads", "--memory-limit")
@pytest.mark.covers("normals", "--device", "--threads", "--memory-limit")
@pytest.mark.covers("outliers", "--device", "--threads", "--memory-limit")
@pytest.mark.parametrize(
    "arguments, code, words", CASES, ids=lambda value: " ".join(value) if isinstance(value, list) else ""
)
def test_one_clear_line(kith, data, folder, arguments, code, words):
    outcome = kith(*arguments, code=code)
    assert outcome.out == ""
    lines = outcome.err.splitlines()
    assert lines[0].startswith(f"kith {arguments[0]}: error: ") and words in lines[0]
    assert len(lines) == 1 or (len(lines) == 2 and lines[1].startswith("try 'kith"))
    assert files_of(folder) == data, "a failing call left something behind"
    error = json.loads(kith(*arguments, "--json", code=code).err)["error"]
    assert error["exit_code"] == code and words in error["message"]


def test_a_folder_that_cannot_be_written(kith, data, folder):
    (folder / "folder").chmod(0o500)
    # Root may write anywhere but into the kernel's own folder.
    target = "/sys/x.npy" if os.geteuid() == 0 else "folder/x.npy"
    for command in TREE_COMMANDS:
        error = kith(*command, "-o", target, code=2).err
        assert error.count("\n") == 1 and target.split("/x")[0] in error
    assert files_of(folder) == data


def test_full_outputs(kith, data):
    assert "No space left" in kith("all-knn", "points.npy", "--format", "json", "-o", "/dev/full", code=2).err
    with open("/dev/full", "w") as full:
        for command in [*TREE_COMMANDS[:2], ["outliers", "points.npy", "--mark", "--json"]]:
            assert "standard output" in kith(*command, code=2, stdout=full).err


def test_the_tree_counts_as_memory(kith, folder):
    points = np.random.default_rng(13).random((20_000, 3), dtype=np.float32)
    np.save("points.npy", points)
    calls = [["knn", "points.npy", "points.npy", "--index", "kd_tree", "-k", 1, "--max-queries", 1, "-o", "r"]]
    calls += [
        ["all-knn", "points.npy", "-k", 1, "-o", "r"],
        ["radius", "points.npy", "points.npy", "-r", 0.01, "--count", "-o", "r"],
    ]
    calls += [["normals", "points.npy", "-o", "n.npy"], ["outliers", "points.npy", "--mark", "-o", "m.npy"]]
    for call in calls:
        kith(*call, "--memory-limit", "20MB")
        error = kith(*call, "--memory-limit", 2 * points.nbytes, code=3).err
        assert error.count("\n") == 1 and "kith " + call[0] in error


@pytest.mark.parametrize(
    "arguments, stage",
    [
        (["all-knn", "points.npy", "-k", "200", "-o", "r"], "all-knn"),
        (["radius", "points.npy", "points.npy", "-r", "0.2", "--count", "-o", "r"], "count"),
        (["normals", "points.npy", "-k", "2000", "-o", "n.ply"], "normals"),
        (["outliers", "points.npy", "-k", "2000", "-o", "c.npy"], "outliers"),
    ],
    ids=str,
)
def test_a_bar_on_a_terminal(folder, arguments, stage):
    np.save("points.npy", np.random.default_rng(6).random((300_000, 3)))
    command = [str(KITH), *arguments, "--threads", "1"]
    code, seen = on_a_terminal(command, stop_when=lambda text: text.count(stage.encode() + b" ") > 3)
    assert code == 130
    frames = seen.split("\r\x1b[K")
    assert any(re.match(rf"{stage} +\d+% \[#* *\]", frame) for frame in frames), seen
    assert frames[-1].strip() == f"kith {arguments[0]}: error: interrupted; no output was written"
    assert files_of(folder) == ["points.npy"]


def test_threads_do_not_change_the_answer(kith, cloud):
    for threads in [1, 2]:
        kith("normals", "points.npy", "-o", f"{threads}.npy", "--threads", threads, "--device", "auto")
        kith(
            "radius", "points.npy", "points.npy", "-r", 1, "-o", f"r{threads}", "--threads", threads, "--device", "cpu"
        )
    for name in ["{}.npy", "r{}.indices.npy", "r{}.distances.npy"]:
        assert open(name.format(1), "rb").read() == open(name.format(2), "rb").read()


@pytest.mark.parametrize("command", ["all-knn", "radius", "normals", "outliers"])
def test_a_signal_stops_cleanly(folder, command):
    # In 8 dimensions a tree has much to look at; its answer of moderate size takes long.
    np.save("points.npy", np.random.default_rng(6).random((400_000, 8 if command == "all-knn" else 3)))
    before = files_of(folder)
    arguments = {
        "all-knn": ["points.npy", "-k", "20", "-o", "r"],
        "radius": ["points.npy", "points.npy", "-r", "0.2", "--count", "-o", "r"],
        "normals": ["points.npy", "-k", "2000", "-o", "n.ply"],
        "outliers": ["points.npy", "-k", "2000", "-o", "c.npy"],
    }[command]
    process = subprocess.Popen(
        [str(KITH), command, *arguments, "--threads", "1"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    time.sleep(1.5)
    process.send_signal(signal.SIGINT)
    start = time.monotonic()
    out, err = process.communicate(timeout=30)
    assert time.monotonic() - start < 5 and process.returncode == 130
    assert out == b"" and err == f"kith {command}: error: interrupted; no output was written\n".encode()
    assert files_of(folder) == before


@pytest.mark.parametrize("index", ["kd_tree", "octree"])
def test_a_gpu_gives_the_same_files(kith, folder, index):
    listed = kith("devices", "--json").json["devices"]
    if not any(entry["device"] != "cpu" and entry["usable"] for entry in listed):
        pytest.skip("needs a GPU")
    np.save("p.npy", np.random.default_rng(9).random((30_000, 3), dtype=np.float32))
    for device in ["cpu", "cuda"]:
        os.mkdir(device)
        how = ["--index", index, "--device", device]
        kith("all-knn", "p.npy", "-k", 8, *how, "-o", f"{device}/a")
        kith("knn", "p.npy", "p.npy", "-k", 5, "--radius", 0.1, *how, "-o", f"{device}/k")
        kith("radius", "p.npy", "p.npy", "-r", 0.02, *how, "-o", f"{device}/r")
        kith("radius", "p.npy", "p.npy", "-r", 0.02, "--count", *how, "-o", f"{device}/c.npy")
        kith("normals", "p.npy", *how, "-o", f"{device}/n.npy")
        kith("outliers", "p.npy", "--mark", *how, "-o", f"{device}/o.npy")
        kith("build", "p.npy", *how, "-o", f"{device}.kith")
    for built in ["cpu", "cuda"]:
        for searched in ["cpu", "cuda"]:
            kith("search", f"{built}.kith", "p.npy", "-k", 6, "--device", searched, "-o", f"{searched}/s-{built}")
    for name in os.listdir("cpu"):
        assert open(f"cpu/{name}", "rb").read() == open(f"cuda/{name}", "rb").read(), name
    for part in ["indices", "distances"]:
        assert open(f"cpu/s-cpu.{part}.npy", "rb").read() == open(f"cuda/s-cuda.{part}.npy", "rb").read()
    error = kith("normals", "p.npy", "-o", "n.npy", "--device", "cuda", "--device-memory-limit", "100kB", code=3).err
    assert "GPU memory" in error and "100000" in error
