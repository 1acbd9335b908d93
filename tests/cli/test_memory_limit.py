"""--memory-limit holds as the peak of what a command has in memory, over what it has when it starts: whether it does
the work or refuses it. 64 MiB are allowed for the threads, the allocator and what is at work at any moment."""

import json
import subprocess
import sys

import numpy as np
import pytest
from program import KITH

MIB = 1 << 20
LIMITS = {"64MiB": 64 * MIB, "200MiB": 200 * MIB, "1GiB": 1024 * MIB}

# A process takes over the peak of the one that starts it: this one is small.
LAUNCHER = """
import json, os, sys
out = os.open("out", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
err = os.open("err", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
actions = [(os.POSIX_SPAWN_DUP2, out, 1), (os.POSIX_SPAWN_DUP2, err, 2)]
pid = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ, file_actions=actions)
_, status, usage = os.wait4(pid, 0)
print(json.dumps([os.waitstatus_to_exitcode(status), usage.ru_maxrss * 1024]))
"""


def peak_of(folder, *arguments):
    """(exit status, peak bytes in memory, stderr)"""
    call = [sys.executable, "-I", "-S", "-c", LAUNCHER, str(KITH), *map(str, arguments)]
    ran = subprocess.run(call, cwd=folder, capture_output=True, check=True, timeout=300)
    code, peak = json.loads(ran.stdout)
    return code, peak, (folder / "err").read_text()


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Files of some tens of MiB."""
    folder = tmp_path_factory.mktemp("memory")
    rng = np.random.default_rng(3)
    points = rng.standard_normal((200_000, 3))
    np.save(folder / "points.npy", points)
    np.save(folder / "few.npy", points[:20_000])
    vectors = rng.standard_normal((200_000, 32)).astype(np.float32)
    np.save(folder / "vectors.npy", vectors)
    np.save(folder / "queries.npy", vectors[:20_000])
    for call in [
        ["convert", "points.npy", "points.xyz"],
        ["convert", "points.npy", "points.las"],
        ["convert", "points.npy", "points.ply"],
        ["build", "vectors.npy", "-o", "brute.kith", "--index", "brute_force"],
        ["build", "points.npy", "-o", "tree.kith", "--index", "kd_tree"],
        ["knn", "few.npy", "few.npy", "-k", "40", "-o", "answer.json"],
        ["knn", "few.npy", "few.npy", "-k", "40", "-o", "answer"],
    ]:
        subprocess.run([str(KITH), *call, "--quiet"], cwd=folder, check=True)
    return folder


@pytest.fixture(scope="module")
def start(data):
    code, peak, _ = peak_of(data, "--version")
    assert code == 0
    return peak


WORK = {
    "knn": ["knn", "vectors.npy", "queries.npy", "-k", 100, "-o", "r"],
    "knn none": ["knn", "vectors.npy", "queries.npy", "-k", 100, "--filter", "none", "--max-queries", 500, "-o", "r"],
    "knn long lists": ["knn", "few.npy", "few.npy", "-k", 800, "--index", "brute_force", "-o", "r"],
    "knn tree": ["knn", "points.npy", "points.npy", "-k", 100, "--index", "kd_tree", "-o", "r"],
    "knn json": ["knn", "points.npy", "points.npy", "-k", 20, "--index", "octree", "--json"],
    "knn one": ["knn", "points.npy", "points.npy", "-k", 1, "-o", "r.ivecs.npy"],
    "search brute force": ["search", "brute.kith", "queries.npy", "-k", 100, "-o", "r"],
    "search tree": ["search", "tree.kith", "points.npy", "-k", 100, "-o", "r.h5"],
    "all-knn": ["all-knn", "points.npy", "-k", 100, "-o", "r"],
    "all-knn long lists": ["all-knn", "few.npy", "-k", 1000, "-o", "r"],
    "all-knn json": ["all-knn", "points.npy", "-k", 20, "--json"],
    "all-knn text": ["all-knn", "points.xyz", "-k", 20, "-o", "r.txt"],
    "radius all": ["radius", "few.npy", "few.npy", "-r", 1e9, "-o", "r"],
    "radius many": ["radius", "few.npy", "few.npy", "-r", 0.6, "-o", "r"],
    "radius few": ["radius", "points.npy", "points.npy", "-r", 0.05, "-o", "r"],
    "radius nearest": ["radius", "points.npy", "points.npy", "-r", 1e9, "--max-neighbors", 50, "-o", "r"],
    "radius count": ["radius", "points.npy", "points.npy", "-r", 0.05, "--count", "-o", "r"],
    "radius json": ["radius", "points.npy", "points.npy", "-r", 0.05, "--json"],
    "normals": ["normals", "points.npy", "-k", 10, "-o", "n.ply"],
    "normals of all": ["normals", "few.npy", "--radius", 0.5, "-o", "n.npy"],
    "outliers": ["outliers", "points.xyz", "-k", 10, "-o", "c.ply"],
    "outliers las": ["outliers", "points.las", "-k", 10, "-o", "c.las"],
    "outliers json": ["outliers", "points.npy", "--mark", "--json"],
    "build": ["build", "vectors.npy", "-o", "b.kith"],
    "build fp32": ["build", "vectors.npy", "-o", "b.kith", "--filter", "fp32"],
    "build kd_tree": ["build", "points.npy", "-o", "b.kith", "--index", "kd_tree"],
    "build octree": ["build", "points.npy", "-o", "b.kith", "--index", "octree"],
    "convert": ["convert", "vectors.npy", "v.npy", "--dtype", "f64"],
    "convert text": ["convert", "points.xyz", "p.npy"],
    "convert las": ["convert", "points.las", "p.ply"],
    "convert hdf5": ["convert", "vectors.npy", "v.h5"],
    "convert results": ["convert", "answer.json", "a.ivecs.npy", "--format", "npy"],
    "generate": ["generate", "uniform", "-n", 400_000, "-d", 64, "-o", "g.npy"],
    "generate clusters": ["generate", "clusters", "-n", 1000, "-d", 64, "--clusters", 300_000, "-o", "g.npy"],
}

# What 1 GiB does not suffice for.
NEVER = {"radius all"}


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("work", WORK)
def test_the_peak_stays_below_the_limit(data, start, work, limit):
    code, peak, err = peak_of(data, *WORK[work], "--memory-limit", limit)
    assert code in (0, 3), err
    assert peak <= start + LIMITS[limit] + 64 * MIB, (
        f"{(peak - start) / MIB:.0f} MiB over the start, exit status {code}"
    )
    if code == 3:
        assert "limit" in err and "bytes" in err or "raise it" in err, err
    if limit == "1GiB":
        assert code == (3 if work in NEVER else 0), err


def test_a_radius_answer_that_cannot_fit_is_refused_with_what_was_found(data, start):
    code, peak, err = peak_of(data, "radius", "few.npy", "few.npy", "-r", 1e9, "-o", "x", "--memory-limit", "100MiB")
    assert code == 3 and "neighbours found so far" in err and "use a smaller radius" in err
    assert peak <= start + 100 * MIB + 64 * MIB
    assert not (data / "x.offsets.npy").exists()


def test_a_radius_answer_that_fits_only_once_is_the_same(data):
    # What is found is kept twice for a while; below that it is searched for twice.
    calls = {"tight": "160MiB", "wide": "1GiB"}
    for name, limit in calls.items():
        code, _, err = peak_of(data, "radius", "few.npy", "few.npy", "-r", 0.6, "-o", name, "--memory-limit", limit)
        assert code == 0, err
    for part in ["offsets", "indices", "distances"]:
        tight, wide = (np.load(data / f"{name}.{part}.npy") for name in calls)
        assert tight.nbytes > 0 and np.array_equal(tight, wide)
    found = np.load(data / "wide.offsets.npy")[-1]
    assert 16 * found < 160 * MIB < 32 * found


# What goes through tiles where it does not fit, and the file to compare.
ANY_LIMIT = {
    "normals": (["normals", "s.npy", "-k", 16, "-o", "a.npy"], "a.npy"),
    "normals of f32": (["normals", "s32.npy", "-k", 16, "-o", "a.npy"], "a.npy"),
    "normals of las": (["normals", "s.las", "-k", 16, "-o", "a.npy"], "a.npy"),
    "outliers": (["outliers", "s.npy", "-k", 16, "-o", "a.npy"], "a.npy"),
    "outliers marked": (["outliers", "s.xyz", "-k", 16, "--mark", "-o", "a.npy"], "a.npy"),
    "all-knn 1": (["all-knn", "s.npy", "-k", 1, "-o", "a"], "a.indices.npy"),
    "all-knn 8": (["all-knn", "s.npy", "-k", 8, "-o", "a"], "a.indices.npy"),
    "knn": (["knn", "s.npy", "s.npy", "-k", 8, "-o", "a"], "a.indices.npy"),
    "knn of others": (["knn", "s.npy", "few.npy", "-k", 8, "-o", "a"], "a.indices.npy"),
}
LIMITS_IN_MIB = [4, 5, 6, 7, 8, 9, 10, 12, 16, 40]


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    folder = tmp_path_factory.mktemp("small")
    calls = [
        ["generate", "terrain_scan", "--utm", "-n", "60000", "-o", "s.npy"],
        ["convert", "s.npy", "s.las"],
        ["convert", "s.npy", "s.xyz"],
    ]
    for call in calls:
        subprocess.run([str(KITH), *call, "--quiet"], cwd=folder, check=True)
    points = np.load(folder / "s.npy")
    np.save(folder / "s32.npy", points.astype(np.float32))
    np.save(folder / "few.npy", points[:20_000])
    return folder


@pytest.mark.parametrize("work", ANY_LIMIT)
def test_no_limit_between_tiles_and_memory_is_refused(small, work):
    call, file = ANY_LIMIT[work]
    answers, ways = set(), []
    for limit in LIMITS_IN_MIB:
        code, _, err = peak_of(small, *call, "--memory-limit", f"{limit}MiB")
        assert code == 0, f"{limit} MiB: {err}"
        answers.add((small / file).read_bytes())
        ways.append("through tiles in" in err)
    assert len(answers) == 1
    assert ways[0] and not ways[-1] and sorted(ways, reverse=True) == ways


@pytest.mark.parametrize("limit", [5, 8])
def test_what_must_be_in_memory_is_refused_with_the_limit_that_was_given(small, limit):
    call = ["all-knn", "s.npy", "-k", 8, "--memory-limit", f"{limit}MiB", "--json"]
    for more, remedy in {
        (): "name an npy file with -o, so that it goes through point tiles",
        ("-o", "a", "--index", "kd_tree"): "leave --index out, so that it goes through point tiles",
        ("-o", "a", "--index", "octree"): "leave --index out, so that it goes through point tiles",
        ("-o", "a", "--leaf-size", 16): "leave --leaf-size out, so that it goes through point tiles",
    }.items():
        code, _, err = peak_of(small, *call, *more)
        assert code == 3 and f"--memory-limit is {limit}.00 MiB; raise it, or {remedy}" in err, err
