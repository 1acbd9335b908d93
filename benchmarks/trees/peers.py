"""python -m benchmarks.trees.peers NAME ROWS: times one Python peer on the files of tree_bench.

Prints a JSON object a line: first {"name", "version", "note"}, then each task as it is done, so that a caller who
loses patience has the earlier ones. Compares with the distances that tree_bench --kth-distances has written.
"""

import argparse
import json
import os
import sys
import time
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))


def open_scipy(threads):
    import scipy
    from scipy.spatial import cKDTree

    def search(tree, queries, k):
        distances, indices = tree.query(queries, k, workers=threads)
        return indices, distances

    return {"name": "scipy", "version": scipy.__version__, "note": "cKDTree, float64, workers"}, cKDTree, search


def open_pykdtree(threads):
    os.environ["OMP_NUM_THREADS"] = str(threads)  # read when the module is loaded
    import importlib.metadata

    from pykdtree.kdtree import KDTree

    def search(tree, queries, k):
        distances, indices = tree.query(queries, k)
        return indices, distances

    version = importlib.metadata.version("pykdtree")
    return {"name": "pykdtree", "version": version, "note": "KDTree, float32, OpenMP"}, KDTree, search


PEERS = {"scipy": open_scipy, "pykdtree": open_pykdtree}


def differing(path, squared):
    """For how many queries the farthest distance is not Kith's within rounding; None without a file."""
    import numpy as np

    if not path.is_file():
        return None
    expected = np.load(path)[:, 0].astype(np.float64)
    return int((np.abs(squared - expected) > 2e-6 * np.maximum(squared, expected)).sum())


def measure(name, rows, queries, ks, threads, repeats, seconds, kth, say):
    """Times build, all-kNN for every k, and separate queries; `say` gets each result."""
    import numpy as np

    about, build, search = PEERS[name](threads)
    say(about)

    def timed(work):
        spent = []
        while len(spent) < repeats and (not spent or sum(spent) < seconds):
            started = time.perf_counter()
            answer = work()
            spent.append(time.perf_counter() - started)
        return answer, {"seconds": spent, "median_seconds": median(spent)}

    tree, result = timed(lambda: build(rows))
    say({"task": "build", **result})
    tasks = [("all_knn", k, rows) for k in ks]
    if queries is not None:
        tasks.append(("search", 1, queries))
    for task, k, asked in tasks:
        (_, distances), result = timed(lambda k=k, asked=asked: search(tree, asked, k))
        farthest = np.asarray(distances, np.float64).reshape(len(asked), -1)[:, -1]
        differ = differing(kth / f"{task}.{k}.npy", farthest**2) if kth else None
        say({"task": task, "k": k, "queries": len(asked), **result, "differing": differ})


def main():
    import numpy as np

    parser = argparse.ArgumentParser(prog="python -m benchmarks.trees.peers", description=__doc__)
    parser.add_argument("name", choices=PEERS)
    parser.add_argument("rows", type=Path, help="npy, float32")
    parser.add_argument("--queries", type=Path)
    parser.add_argument("-k", default="8", help="several by commas")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=30, help="no further repeat after this time")
    parser.add_argument("--kth-distances", type=Path, help="the folder that tree_bench wrote")
    options = parser.parse_args()
    measure(
        options.name, np.load(options.rows), None if options.queries is None else np.load(options.queries),
        [int(k) for k in options.k.split(",")], options.threads, options.repeats, options.seconds,
        options.kth_distances, lambda value: print(json.dumps(value), flush=True),
    )  # fmt: skip


if __name__ == "__main__":
    main()
