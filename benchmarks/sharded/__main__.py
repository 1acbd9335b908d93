"""python -m benchmarks.sharded [-n ROWS] [--shards S] [--index TYPE ...] [--partition P]: shards against one index of the same rows.

Random rows, shuffled by nature: shards of rows that follow each other cover all of the space, which is the worst case for trees. Both are built, saved and
opened; then searches of one and the other alternate, and medians of their processor time, which other work on the machine
hardly changes, and the ratio are printed and written to benchmarks/results/sharded.json, with the wall time. Exact answers must be the same bits. Needs the package (PYTHONPATH=build/python).
"""

import argparse
import datetime
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

import kith
import numpy as np

from benchmarks.run import commit

ROOT = Path(__file__).resolve().parents[2]
#: index: dimension, what a search is told, what it is built with.
CASES = {
    "brute_force": (96, {}, {}),
    "kd_tree": (3, {}, {}),
    "octree": (3, {}, {}),
    "vamana": (96, {"recall": 0.95}, {"max_degree": 32, "build_list_size": 64}),
}


def cpu_name():
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")


def seconds(call):
    """Wall time, and what it answers."""
    start = time.perf_counter()
    answer = call()
    return time.perf_counter() - start, answer


def both_times(call):
    """Wall time, and processor time of all threads."""
    start = time.process_time()
    wall, _ = seconds(call)
    return wall, time.process_time() - start


def measure(index, rows, queries, options, folder):
    dim, how, built_with = CASES[index]
    random = np.random.default_rng(1)
    # As many directions as embeddings have: a graph over noise alone would show nothing.
    spread = random.standard_normal((dim, dim)) * (0.8 ** np.arange(dim) if dim > 3 else 1)
    make = lambda count: (random.standard_normal((count, dim)) @ spread.T).astype(np.float32)  # noqa: E731
    base, asked = make(rows), make(queries)
    if options.sorted:
        base = base[np.argsort(base[:, 0], kind="stable")]
    build_shards, many = seconds(
        lambda: kith.Sharded.build(
            base,
            folder / index,
            options.shards,
            index=index,
            partition=options.partition,
            threads=options.threads,
            **built_with,
        )
    )
    classes = {"brute_force": kith.BruteForce, "kd_tree": kith.KdTree, "octree": kith.Octree, "vamana": kith.Vamana}
    build_one, one = seconds(lambda: classes[index](base, threads=options.threads, **built_with))
    one.save(folder / f"{index}.kith")
    one = kith.load(folder / f"{index}.kith")
    how = {**how, "threads": options.threads}
    first, second = one.search(asked, options.k, **how), many.search(asked, options.k, **how)  # both open
    if first.statistics.certified and not (
        np.array_equal(first.indices, second.indices) and np.array_equal(first.distances, second.distances)
    ):
        raise SystemExit(f"{index}: shards answer otherwise than one index")
    times = {"one": [], "shards": []}
    for _ in range(options.repeat):
        times["one"].append(both_times(lambda: one.search(asked, options.k, **how)))
        times["shards"].append(both_times(lambda: many.search(asked, options.k, **how)))
    wall = {name: statistics.median(pair[0] for pair in pairs) for name, pairs in times.items()}
    cpu = {name: statistics.median(pair[1] for pair in pairs) for name, pairs in times.items()}
    truth = kith.knn(base, asked, options.k)
    return {
        "index": index,
        "rows": rows,
        "dim": dim,
        "partition": many.partition,
        "queries": queries,
        "wall_seconds": wall,
        "cpu_seconds": cpu,
        "ratio": cpu["shards"] / cpu["one"],
        "wall_ratio": wall["shards"] / wall["one"],
        "build_seconds": {"one": build_one, "shards": build_shards},
        "recall": {"one": kith.evaluate(first, truth).recall, "shards": kith.evaluate(second, truth).recall},
        "stated": {"one": first.statistics.recall, "shards": second.statistics.recall},
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-n", "--rows", type=int, default=200_000)
    parser.add_argument("-q", "--queries", type=int, default=2_000)
    parser.add_argument("-k", type=int, default=10)
    parser.add_argument("--shards", type=int, default=8)
    parser.add_argument("--index", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--partition", choices=["auto", "rows", "space"], default="auto")
    parser.add_argument("--sorted", action="store_true", help="rows along their first axis: shards are slabs of space")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--repeat", type=int, default=7)
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "benchmarks" / "results" / "sharded.json")
    options = parser.parse_args()
    cases = []
    with tempfile.TemporaryDirectory(prefix="kith-") as folder:
        for index in options.index:
            case = measure(index, options.rows, options.queries, options, Path(folder))
            cases.append(case)
            times = {name: value * 1e3 for name, value in case["cpu_seconds"].items()}
            print(
                f"{index:12} one {times['one']:9.1f} ms, {options.shards} shards {times['shards']:9.1f} ms, "
                f"ratio {case['ratio']:.2f}, of wall time {case['wall_ratio']:.2f}, recall {case['recall']['one']:.4f} and {case['recall']['shards']:.4f}"
            )
    result = {
        "benchmark": "sharded",
        "date": datetime.date.today().isoformat(),
        "commit": commit(),
        "cpu": cpu_name(),
        "shards": options.shards,
        "sorted": options.sorted,
        "k": options.k,
        "threads": options.threads or os.cpu_count(),
        "repeat": options.repeat,
        "command": " ".join(["python -m benchmarks.sharded", *sys.argv[1:]]),
        "cases": cases,
    }
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
