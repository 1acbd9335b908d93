"""From how many rows and queries on a graph answers sooner than exact search: what choose_index knows of graphs.

    python -m benchmarks.vamana.crossover [--device cpu|cuda] [--rows N,...] [--dim D] [--dtype u8|f32] [-k K] [-o OUT.json]

Needs the package kith (PYTHONPATH). Rows and queries are from one gaussian mixture (benchmarks/datasets/generated.py),
rounded and clipped to bytes for u8. For each number of rows: seconds of a one-shot exact search of 10,000 queries (1,000 on the CPU), of an exact
search with its codes there, of building a graph, and of searches of it by the stated recalls 0.90, 0.95 and 0.99,
medians of whole calls with warm-up. The measured recall stands beside, and a recall below the stated one less the
sampling error of these queries ends the run with an error.
"""

import argparse
import datetime
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

import kith
import numpy as np

from benchmarks.datasets.generated import gaussian_mixture

RECALLS = (0.90, 0.95, 0.99)


def draw(rows, dim, dtype, seed=7):
    """[rows, dim] of one mixture."""
    values = gaussian_mixture(rows, dim, min(6 if dtype == "u8" else 25, dim), seed)
    return np.clip(np.round(36 * values + 20), 0, 255).astype(np.uint8) if dtype == "u8" else values


def timed(call, options):
    """(median seconds, last answer): as many calls as fill the time asked for, at least options.repeat."""
    answer = call()
    times = []
    while len(times) < options.repeat or (sum(times) < options.seconds and len(times) < 50):
        started = time.perf_counter()
        answer = call()
        times.append(time.perf_counter() - started)
    return statistics.median(times), answer


def recall_of(found, exact):
    return float((found.distances <= exact.distances[:, -1:]).mean())


def measure(base, queries, options):
    where = {"device": options.device}
    k = options.k
    once, exact = timed(lambda: kith.knn(base, queries, k, index="brute_force", **where), options)
    one_once, _ = timed(lambda: kith.knn(base, queries[:1], k, index="brute_force", **where), options)
    started = time.perf_counter()
    scan = kith.BruteForce(base, **where)
    result = {
        "rows": len(base), "queries": len(queries), "exact_once_seconds": once, "exact_one_query_once_seconds": one_once,
        "exact_build_seconds": time.perf_counter() - started,
    }  # fmt: skip
    result["exact_seconds"], again = timed(lambda: scan.search(queries, k, **where), options)
    result["exact_one_query_seconds"], _ = timed(lambda: scan.search(queries[:1], k, **where), options)
    if not np.array_equal(exact.indices, again.indices):
        sys.exit(f"{len(base)} rows: two exact answers differ")
    started = time.perf_counter()
    graph = kith.Vamana(base, **where)
    result["graph_build_seconds"] = time.perf_counter() - started
    result["graph"] = {}
    for recall in RECALLS:
        seconds, found = timed(lambda asked=recall: graph.search(queries, k, recall=asked, **where), options)
        one, _ = timed(lambda asked=recall: graph.search(queries[:1], k, recall=asked, **where), options)
        measured = recall_of(found, exact)
        if measured < recall - 3 * (recall * (1 - recall) / len(queries)) ** 0.5 - 0.01:
            sys.exit(f"{len(base)} rows: stated recall {recall}, measured {measured}")
        result["graph"][f"{recall:.2f}"] = {
            "seconds": seconds, "one_query_seconds": one, "recall": measured,
            "list_size": found.statistics.list_size, "index": found.statistics.index,
        }  # fmt: skip
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--rows", default="30000,100000,300000,1000000")
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--dtype", default="u8", choices=("u8", "f32"))
    parser.add_argument("--queries", type=int, default=0)
    parser.add_argument("-k", type=int, default=10)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.2)
    parser.add_argument("--commit", default="", help="of the program, for the result")
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    queries = options.queries or (10_000 if options.device == "cuda" else 1_000)
    sizes = [int(size) for size in options.rows.split(",")]
    machine = {"cpu": next((line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines()
                            if line.startswith("model name")), "")}  # fmt: skip
    if options.device == "cuda":
        asked = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
        machine["gpu"] = subprocess.run(asked, capture_output=True, text=True).stdout.strip()
    result = {
        "format": "kith-graph-crossover", "format_version": 1, "kind": "graph_crossover",
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"), "commit": options.commit,
        "command": "python3 " + " ".join(sys.argv), "machine": machine, "device": options.device, "dim": options.dim,
        "dtype": options.dtype, "k": options.k, "cases": [],
    }  # fmt: skip
    both = draw(max(sizes) + queries, options.dim, options.dtype)
    for size in sizes:
        case = measure(both[:size], both[-queries:], options)
        result["cases"].append(case)
        print(json.dumps(case), flush=True)
        if options.output:
            options.output.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
