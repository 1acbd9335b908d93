"""python -m benchmarks.on_ray.gpus [--rows N] [--gpus G] [--all-knn]: brute force in shards, one actor a GPU, against one on one GPU.

Rows of a mixture of gaussians with a falling spectrum, as bytes, in a file; the queries are of the same mixture. Each call begins
with nothing: it starts its actors, which read their rows from the file and copy them to their GPU, and answers all queries. Printed and
kept are its time, the time until the first block was answered, and the rate of the others. The answers must be the same bytes, and those
to some queries the ones of the CPU, or nothing is written. Results go to benchmarks/results/on_ray_gpus.json. Needs the package with
its GPU part, Ray, and GPUs.
"""

import argparse
import datetime
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

# Before NumPy and Ray are imported: rows are made by threads of one core each; the loopback alone, no report to anybody.
os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1")
os.environ.update(RAY_USAGE_STATS_ENABLED="0", RAY_worker_register_timeout_seconds="180")

import kith
import kith.ray
import numpy as np

from benchmarks.datasets.generated import GaussianMixture
from benchmarks.on_ray.__main__ import digest
from benchmarks.run import commit
from benchmarks.sharded.__main__ import seconds

ROOT = Path(__file__).resolve().parents[2]
STEP = 1 << 14
#: Participation ratio of the spectrum, and what a standard deviation of the mixture becomes as bytes.
RATIO, DEVIATION = 20, 30


def write_mixture(path, rows, dim, seed, mixture):
    """Rows as bytes around 128, the same from any number of threads."""
    made = np.lib.format.open_memmap(path, "w+", np.uint8, (rows, dim))

    def fill(first):
        random = np.random.default_rng([seed, first])
        values = mixture.block(random, mixture.members(random, min(STEP, rows - first)))
        values *= np.float32(DEVIATION)
        values += np.float32(128)
        made[first : first + len(values)] = np.clip(np.rint(values, out=values), 0, 255, out=values)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for _ in pool.map(fill, range(0, rows, STEP)):
            pass
    made.flush()


def gpu_names():
    command = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\n")[:-1]


def search(folder, gpus, options):
    """All queries, or rows, by so many actors, each with a GPU and a shard of its own."""
    import ray

    cpus, base = options.cpus, str(folder / "base.npy")

    ray.init(
        num_cpus=max(os.cpu_count(), gpus * cpus),
        num_gpus=gpus,
        object_store_memory=256 << 20,
        include_dashboard=False,
        log_to_driver=False,
    )
    reports = []
    try:
        start = time.perf_counter()
        how = {
            "output": folder / f"by-{gpus}",
            "shards": gpus,
            "index": "brute_force",
            "metric": "sqeuclidean",
            "num_cpus": cpus,
            "num_gpus": 1,
            "progress": lambda done, total: reports.append((time.perf_counter() - start, done, total)),
        }
        if options.all_knn:
            answer = kith.ray.all_knn(base, options.k, **how)
        else:
            answer = kith.ray.knn(base, str(folder / "queries.npy"), options.k, **how)
        took = time.perf_counter() - start
    finally:
        ray.shutdown()
    # When every actor has answered one block its rows lie on its GPU.
    first = next(report for report in reports if report[1] >= gpus * min(1 << 14, report[2] // gpus))
    last = reports[-1]
    result = {
        "gpus": gpus,
        "seconds": round(took, 2),
        "seconds_to_first_blocks": round(first[0], 2),
        "queries_per_second_after": round((last[1] - first[1]) / gpus / (last[0] - first[0])),
        "certified": answer.statistics.certified,
        "sha256": digest(answer),
    }
    print(result, flush=True)
    return result, answer


def same_as_the_cpu(folder, answer, options):
    """Whether the CPU answers some of them alike."""
    base = kith.read(folder / "base.npy")
    queries = base if options.all_knn else kith.read(folder / "queries.npy")
    some = np.linspace(0, len(queries) - 1, options.check, dtype=np.int64)
    expected = kith.knn(base, queries[some], options.k + options.all_knn, device="cpu")
    for row, near, distances in zip(some, expected.indices, expected.distances, strict=True):
        keep = near != row if options.all_knn else slice(None)
        if not np.array_equal(answer.indices[row], near[keep][: options.k]) or not np.array_equal(
            answer.distances[row], distances[keep][: options.k]
        ):
            return False
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=400_000_000)
    parser.add_argument("--dim", type=int, default=96)
    parser.add_argument("--queries", type=int, default=1 << 20)
    parser.add_argument("--all-knn", action="store_true", help="the rows themselves in place of queries")
    parser.add_argument("-k", type=int, default=10)
    parser.add_argument("--gpus", type=int, nargs="+", help="numbers of actors; 1 and all there are unless told")
    parser.add_argument("--cpus", type=int, default=4, help="of each actor")
    parser.add_argument("--check", type=int, default=64, help="queries that the CPU answers, too")
    parser.add_argument("--commit", help="the commit measured, if this is no checkout")
    parser.add_argument("--folder", type=Path, help="where to work; files in it that are there are taken")
    parser.add_argument("--only-make", action="store_true", help="the files of rows and queries, no search")
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "benchmarks" / "results" / "on_ray_gpus.json")
    options = parser.parse_args()
    folder = options.folder or Path(tempfile.mkdtemp(prefix="kith-on-ray-gpus-"))
    mixture = GaussianMixture(np.random.default_rng(7), options.dim, RATIO)
    for seed, (name, rows) in enumerate([("base.npy", options.rows), ("queries.npy", options.queries)]):
        if not (folder / name).exists():
            took, _ = seconds(lambda: write_mixture(folder / name, rows, options.dim, seed, mixture))  # noqa: B023
            print(f"{name}: {rows:,} x {options.dim} in {took:.1f} s", flush=True)
    if options.only_make:
        return
    names = gpu_names()
    results, answers = [], []
    for gpus in options.gpus or sorted({1, len(names)}):
        result, answer = search(folder, gpus, options)
        results.append(result)
        answers.append(answer)
    if len({result["sha256"] for result in results}) != 1 or not all(result["certified"] for result in results):
        raise SystemExit("the answers differ, or are not certified")
    if not same_as_the_cpu(folder, answers[0], options):
        raise SystemExit("the CPU answers otherwise")
    print(f"the CPU's {options.check} answers are the same", flush=True)
    import ray

    measured = {
        "benchmark": "on_ray_gpus",
        "machine": names,
        "cores": os.cpu_count(),
        "ray": ray.__version__,
        "commit": options.commit or commit(),
        "date": datetime.date.today().isoformat(),
        "command": " ".join(["python -m benchmarks.on_ray.gpus", *sys.argv[1:]]),
        "rows": options.rows,
        "dim": options.dim,
        "dtype": "uint8",
        "queries": options.rows if options.all_knn else options.queries,
        "k": options.k,
        "checked_by_cpu": options.check,
        "results": results,
        "speedup": {
            "whole": round(results[0]["seconds"] / results[-1]["seconds"], 2),
            "search": round(results[-1]["queries_per_second_after"] / results[0]["queries_per_second_after"], 2),
        },
    }
    print(measured["speedup"], flush=True)
    options.output.write_text(json.dumps(measured, indent=1) + "\n")
    if options.folder is None:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
