"""Ctrl-C: every command ends soon, whatever k and radius, and leaves no file. It is to take 0.3 s at most; the limit
here is for machines that do much else."""

import os
import signal
import subprocess
import time

import numpy as np
import pytest
from program import KITH, files_of

SOON = 2.0


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Points that all of the calls below have much to do with."""
    folder = tmp_path_factory.mktemp("interrupts")
    rng = np.random.default_rng(5)
    points = rng.standard_normal((200_000, 3))
    np.save(folder / "g3.npy", points)
    np.save(folder / "many.npy", np.tile(points, (30, 1)) + np.repeat(np.arange(30), 200_000)[:, None])
    np.save(folder / "wide.npy", rng.standard_normal((40_000, 128)).astype(np.float32))
    np.save(folder / "a.indices.npy", rng.integers(0, 10**6, (20_000, 1000)))
    for call in [
        ["build", "g3.npy", "-o", "tree.kith", "--index", "kd_tree"],
        ["build", "wide.npy", "-o", "brute.kith", "--filter", "none"],
        ["convert", "many.npy", "many.xyz", "--rows", "0:3000000"],
    ]:
        subprocess.run([str(KITH), *call, "--quiet"], cwd=folder, check=True)
    return folder


LONG = {
    "knn": ["knn", "wide.npy", "wide.npy", "-k", 1000, "-o", "r"],
    "knn none": ["knn", "g3.npy", "g3.npy", "-k", 1000, "--index", "brute_force", "--filter", "none", "-o", "r"],
    "knn fp32": ["knn", "g3.npy", "g3.npy", "-k", 1000, "--index", "brute_force", "-o", "r"],
    "knn all": ["knn", "g3.npy", "g3.npy", "-k", 200_000, "--max-queries", 1500, "--index", "brute_force", "-o", "r"],
    "knn tree": ["knn", "g3.npy", "g3.npy", "-k", 1000, "--index", "kd_tree", "-o", "r"],
    "search": ["search", "brute.kith", "wide.npy", "-k", 1000, "-o", "r"],
    "search tree": ["search", "tree.kith", "g3.npy", "-k", 1000, "-o", "r"],
    "all-knn": ["all-knn", "g3.npy", "-k", 1000, "-o", "r"],
    "all-knn all": ["all-knn", "g3.npy", "-k", 5000, "--index", "octree", "-o", "r"],
    "radius": ["radius", "g3.npy", "g3.npy", "-r", 1, "--unsorted", "-o", "r"],
    "radius all": ["radius", "many.npy", "g3.npy", "-r", 1e9, "--max-queries", 100, "-o", "r"],
    "radius count": ["radius", "g3.npy", "g3.npy", "-r", 1e9, "--count", "-o", "r"],
    "radius nearest": ["radius", "g3.npy", "g3.npy", "-r", 1e9, "--max-neighbors", 1000, "-o", "r"],
    "normals": ["normals", "g3.npy", "-k", 2000, "-o", "n.ply"],
    "normals of all": ["normals", "g3.npy", "--radius", 1e9, "-o", "n.npy"],
    "outliers": ["outliers", "g3.npy", "-k", 2000, "-o", "c.ply"],
    "outliers of all": ["outliers", "g3.npy", "--radius", 1e9, "-o", "c.ply"],
    "build kd_tree": ["build", "many.npy", "-o", "b.kith", "--index", "kd_tree"],
    "build octree": ["build", "many.npy", "-o", "b.kith", "--index", "octree"],
    "convert to text": ["convert", "many.npy", "t.xyz"],
    "convert text": ["convert", "many.xyz", "t.npy"],
    "all-knn of text": ["all-knn", "many.xyz", "-k", 10, "-o", "r"],
    "generate": ["generate", "gaussian", "-n", 20_000_000, "-d", 16, "--dtype", "u8", "-o", "g.npy"],
    "codes": ["codes", "wide.npy", "--kind", "pq", "-o", "q.kith"],
    "evaluate": ["evaluate", "a", "a"],
    "info": ["info", "many.xyz"],
    "bench": ["bench", "--generate", "gaussian", "--rows", 200_000, "--dim", 64, "--queries", 20_000, "-k", 1000],
    "ladder": ["ladder", "--case", "16,64,1048576", "--rungs", "1-3", "--device", "cpu"],
}
# Of work that was over before the signal came.
RESULTS = ["b.kith", "q.kith", "t.xyz", "t.npy", "g.npy"]
ONE_THREAD = {"evaluate", "info", "convert to text", "convert text", "bench"}


def start(data, work, *more):
    threads = [] if work in ONE_THREAD else ["--threads", 1]
    return subprocess.Popen(
        [str(KITH), *map(str, [*LONG[work], *threads, *more])],
        cwd=data,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        # A run in the background inherits an ignored SIGINT.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def interrupt(process, signals=1):
    """Seconds from the last signal to the end."""
    if process.poll() is not None:
        assert process.returncode == 0, process.stderr.read()
        pytest.skip("the work was over before the signal came")
    for _ in range(signals):
        process.send_signal(signal.SIGINT)
    sent = time.monotonic()
    _, err = process.communicate(timeout=60)
    seconds = time.monotonic() - sent
    assert process.returncode == 130, err
    assert b"interrupted" in err and err.count(b"\n") == 1
    return seconds


@pytest.mark.parametrize("delay", [0.4, 1.0])
@pytest.mark.parametrize("work", LONG)
def test_ctrl_c_ends_every_command_soon(data, work, delay):
    for name in RESULTS:
        (data / name).unlink(missing_ok=True)
    before = files_of(data)
    process = start(data, work)
    time.sleep(delay)
    seconds = interrupt(process)
    if record := os.environ.get("KITH_RECORD_SECONDS"):  # a file for the figures
        with open(record, "a") as out:
            out.write(f"{work}\t{delay}\t{seconds:.3f}\n")
    assert seconds < SOON
    assert files_of(data) == before


@pytest.mark.parametrize("work", ["radius count", "normals of all", "convert to text"])
def test_a_second_ctrl_c_ends_at_once(data, work):
    before = files_of(data)
    process = start(data, work)
    time.sleep(0.7)
    assert interrupt(process, signals=2) < SOON
    assert files_of(data) == before
