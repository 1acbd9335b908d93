"""Ctrl-C raises KeyboardInterrupt in every method soon, whatever k and radius. It is to take 0.3 s at most; the limit
here is for machines that do much else."""

import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest

SOON = 2.0

SETUP = """
    import sys
    import numpy as np
    import kith
    rng = np.random.default_rng(1)
    X = rng.standard_normal((200_000, 3))
    wide = rng.standard_normal((50_000, 96)).astype(np.float32)
    {setup}
    print("ready", flush=True)
    try:
        {call}
        print("over", flush=True)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
        import os
        os._exit(0)  # what is left is the interpreter's to free
"""

TREE = "tree = kith.KdTree(X, 'euclidean')"

CALLS = {
    "knn": ("", "kith.knn(wide, wide, 1000, threads=1)"),
    "knn none": ("", "kith.knn(X, X, 1000, index='brute_force', filter='none', threads=1)"),
    "BruteForce.search": ("index = kith.BruteForce(wide)", "index.search(wide, 1000, threads=1)"),
    "BruteForce": ("big = np.tile(wide, (30, 1))", "kith.BruteForce(big, threads=1)"),
    "KdTree": ("big = rng.random((8_000_000, 3))", "kith.KdTree(big, threads=1)"),
    "Octree": ("big = rng.random((8_000_000, 3))", "kith.Octree(big, threads=1)"),
    "search": (TREE, "tree.search(X, 1000, threads=1)"),
    "all_knn": (TREE, "tree.all_knn(1000, threads=1)"),
    "all_knn of rows": ("", "kith.all_knn(wide, 1000, threads=1)"),
    "knn_graph by a graph": ("", "kith.knn_graph(wide, 50, recall=0.95, threads=1)"),
    "radius_search": (TREE, "tree.radius_search(X, 1.0, threads=1)"),
    "radius_search of all": (TREE, "tree.radius_search(X[:1000], 1e9, threads=1)"),
    "count_within": (TREE, "tree.count_within(X, 1e9, threads=1)"),
    "normals": (TREE, "tree.normals(k=2000, threads=1)"),
    "normals of all": (TREE, "tree.normals(radius=1e9, threads=1)"),
    "outliers": (TREE, "tree.outliers(k=2000, threads=1)"),
    "density": (TREE, "tree.density(k=2000, threads=1)"),
    "density by radius": (TREE, "tree.density(radius=1e9, threads=1)"),
    "query": (TREE, "tree.query(X, k=1000)"),
    "query_radius": (TREE, "tree.query_radius(X, 1.0, return_distance=True, threads=1)"),
    "query_ball_point": (TREE, "tree.query_ball_point(X, 1.0)"),
    "evaluate": ("I = rng.integers(0, 10**6, (10_000, 2000))", "kith.evaluate(I, I)"),
    "write": ("big = rng.random((4_000_000, 3))", "kith.write('t.xyz', big)"),
    "read": ("kith.write('t.xyz', np.tile(X, (10, 1)))", "kith.read('t.xyz')"),
    "write_neighbors": (
        "I = rng.integers(0, 10**6, (30_000, 1000))",
        "kith.write_neighbors('t.txt', (I.astype(np.float64), I))",
    ),
    "read_neighbors": (
        "I = rng.integers(0, 10**6, (8000, 1000)); kith.write_neighbors('t.txt', (I.astype(np.float64), I))",
        "kith.read_neighbors('t.txt')",
    ),
    "NearestNeighbors.kneighbors": (
        "from kith.sklearn import NearestNeighbors; model = NearestNeighbors(n_neighbors=1000, n_jobs=1).fit(X)",
        "model.kneighbors()",
    ),
    "NearestNeighbors.radius_neighbors": (
        "from kith.sklearn import NearestNeighbors; model = NearestNeighbors(radius=1.0, n_jobs=1).fit(X)",
        "model.radius_neighbors()",
    ),
}


@pytest.mark.parametrize("work", CALLS)
def test_ctrl_c_ends_every_call_soon(tmp_path, work):
    setup, call = CALLS[work]
    if "sklearn" in setup:
        pytest.importorskip("sklearn")
    process = subprocess.Popen(
        [sys.executable, "-u", "-c", textwrap.dedent(SETUP.replace("{setup}", setup).replace("{call}", call))],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A run in the background inherits an ignored SIGINT; Python would then install no handler.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        assert process.stdout.readline().strip() == "ready", process.stderr.read()
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        sent = time.monotonic()
        answer = process.stdout.readline().strip()
        seconds = time.monotonic() - sent
        if answer == "over":
            pytest.skip("the call was over before the signal came")
        assert answer == "interrupted", process.stderr.read()
        if record := os.environ.get("KITH_RECORD_SECONDS"):  # a file for the figures
            with open(record, "a") as out:
                out.write(f"{work}\t{seconds:.3f}\n")
        assert seconds < SOON
        assert not [path for path in tmp_path.iterdir() if path.name.endswith(".tmp")]
    finally:
        process.kill()
        process.communicate()
