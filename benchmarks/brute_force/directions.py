"""Exact search along leading directions: before, now, and faiss's flat index, on the same CPU and threads.

    PYTHONPATH=build/python python benchmarks/brute_force/directions.py OUT.json [--before FOLDER] [--data REGEX]
        [--k 10,100] [--queries N] [--repeat N] [--sets avx512_vnni,avx2] [--threads N] [--commit NAME]

FOLDER is build/python of an earlier commit. Data: vectors like a text encoder's, whose variances fall (gaussian_mixture
of benchmarks/datasets/generated.py, participation ratio 40); image descriptors (sift-photos), as bytes and as float32;
uniform values, which have no leading directions. Every build and instruction set is searched in a process of its own
(KITH_INSTRUCTION_SET): all queries in one call, then one query a call. Medians of whole searches count, after a warm-up.
An answer of this build that differs from the earlier one's in a bit, or that is farther than faiss's by float64, ends the
run with status 1. Needs numpy and faiss-cpu.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import numpy as np
from cpu_sweep import too_far
from timing import times_of

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT))

from benchmarks.datasets import ensure  # noqa: E402
from benchmarks.datasets.generated import gaussian_mixture  # noqa: E402

SINGLE = 30  # calls of one query


def mixture(rows, dim, queries):
    both = gaussian_mixture(rows + queries, dim, 40, 20260405)
    return both[:rows], both[rows:]


def uniform(rows, dim, queries):
    random = np.random.default_rng(7)
    return random.random((rows, dim), np.float32), random.random((queries, dim), np.float32)


def photos(dtype, rows, queries):
    files = ensure("sift-photos")
    base = np.load(files["base"], mmap_mode="r")
    step = len(base) // rows
    return np.ascontiguousarray(base[: rows * step : step]).astype(dtype), np.load(files["queries"])[:queries].astype(
        dtype
    )


DATA = {
    "mixture 200,000 x 768": partial(mixture, 200_000, 768),
    "sift-photos 400,000 x 128 u8": partial(photos, np.uint8, 400_000),
    "sift-photos 400,000 x 128 f32": partial(photos, np.float32, 400_000),
    "uniform 200,000 x 768": partial(uniform, 200_000, 768),
    "uniform 400,000 x 128": partial(uniform, 400_000, 128),
}


def kith_alone(folder, ks, repeat, threads, stem):
    """Runs in a process of its own: its instruction set is chosen once."""
    import kith

    rows, asked = np.load(folder + "/base.npy"), np.load(folder + "/queries.npy")
    build = times_of(lambda: kith.BruteForce(rows, threads=threads), 1, warm_ups=1)
    index = build.answer
    one_shot = times_of(lambda: kith.knn(rows, asked, k=ks[0], threads=threads), 1, warm_ups=0).median
    for k in ks:
        times = times_of(lambda k=k: index.search(asked, k=k, threads=threads), repeat, warm_ups=1)
        single = [
            times_of(lambda i=i, k=k: index.search(asked[i : i + 1], k=k, threads=1), 1, warm_ups=0).median
            for i in range(-5, SINGLE)
        ][5:]
        s = times.answer.statistics
        np.save(f"{stem}.{k}.npy", times.answer.indices)
        np.save(f"{stem}.{k}.distances.npy", times.answer.distances)
        line = {"k": k, "median_ms": times.median, "single_ms": float(np.median(single)), "filter": s.filter}
        line |= {"directions": getattr(s, "directions", 0), "candidates": s.candidates / len(asked)}
        line |= {"build_ms": build.median, "one_shot_ms": one_shot}
        print(json.dumps(line), flush=True)


def faiss_alone(folder, ks, repeat, threads, stem):
    import faiss

    faiss.omp_set_num_threads(threads)
    rows = np.load(folder + "/base.npy").astype(np.float32)
    asked = np.load(folder + "/queries.npy").astype(np.float32)
    flat = faiss.IndexFlatL2(rows.shape[1])
    flat.add(rows)
    for k in ks:
        times = times_of(partial(flat.search, asked, k), repeat, warm_ups=1)
        faiss.omp_set_num_threads(1)
        single = [times_of(partial(flat.search, asked[i : i + 1], k), 1, warm_ups=0).median for i in range(SINGLE)]
        faiss.omp_set_num_threads(threads)
        np.save(f"{stem}.{k}.npy", times.answer[1])
        line = {"k": k, "median_ms": times.median, "single_ms": float(np.median(single)), "version": faiss.__version__}
        print(json.dumps(line), flush=True)


def run(which, folder, args, stem, path=None, instruction_set=None):
    """{k: figures} of one engine in a process of its own."""
    environment = dict(os.environ)
    if path is not None:
        environment["PYTHONPATH"] = path
    if instruction_set is not None:
        environment["KITH_INSTRUCTION_SET"] = instruction_set
    done = subprocess.run(
        [sys.executable, __file__, f"--{which}", folder, args.k, str(args.repeat), str(args.threads), stem],
        env=environment, capture_output=True, text=True,
    )  # fmt: skip
    if done.returncode != 0:
        sys.exit(done.stderr)
    return {line["k"]: line for line in map(json.loads, done.stdout.splitlines())}


def same_bits(one, other, k):
    return all(
        np.array_equal(np.load(f"{one}.{k}{part}"), np.load(f"{other}.{k}{part}"))
        for part in (".npy", ".distances.npy")
    )


def measure(name, folder, args):
    """The lines of one set of rows, and whether all answers were right."""
    rows, queries = DATA[name](args.queries)
    np.save(folder + "/base.npy", rows)
    np.save(folder + "/queries.npy", queries)
    peer = run("faiss", folder, args, folder + "/faiss")
    lines, right = [], True
    for which in args.sets.split(","):
        now = run("kith", folder, args, folder + "/now", instruction_set=which)
        before = {}
        if args.before:
            before = run("kith", folder, args, folder + "/before", path=args.before, instruction_set=which)
        for k, line in now.items():
            wrong = int(too_far(rows, queries, np.load(f"{folder}/now.{k}.npy"), np.load(f"{folder}/faiss.{k}.npy")))
            equal = not before or same_bits(folder + "/now", folder + "/before", k)
            right &= wrong == 0 and equal
            lines.append({
                "data": name, "set": which, **line, "before": before.get(k), "faiss": peer[k], "wrong_queries": wrong,
                "equal_to_before": equal,
            })  # fmt: skip
            was = before.get(k, {"median_ms": float("nan"), "single_ms": float("nan"), "build_ms": float("nan")})
            print(
                f"{name:30} {which:12} k {k:4} batch {line['median_ms']:8.1f} (before {was['median_ms']:8.1f}, faiss "
                f"{peer[k]['median_ms']:8.1f})  single {line['single_ms']:7.2f} ({was['single_ms']:7.2f}, "
                f"{peer[k]['single_ms']:7.2f})  build {line['build_ms']:6.0f} ({was['build_ms']:6.0f})  {line['filter']} "
                f"{line['directions']} directions {line['candidates']:7.0f} cand/q  wrong {wrong} equal {equal}",
                flush=True,
            )
    return lines, right


def main():
    if len(sys.argv) > 1 and sys.argv[1] in ("--kith", "--faiss"):
        alone = kith_alone if sys.argv[1] == "--kith" else faiss_alone
        folder, ks, repeat, threads, stem = sys.argv[2:]
        alone(folder, [int(k) for k in ks.split(",")], int(repeat), int(threads), stem)
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--before")
    parser.add_argument("--data", default=".")
    parser.add_argument("--k", default="10,100")
    parser.add_argument("--queries", type=int, default=500)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--sets", default="avx512_vnni,avx2")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--commit", default="unknown")
    args = parser.parse_args()
    cpu = next(line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name"))
    options = [word for word in sys.argv[2:] if word not in (args.before, "--before")]
    results, all_right = [], True
    for name in DATA:
        if not re.search(args.data, name):
            continue
        with tempfile.TemporaryDirectory() as folder:
            lines, right = measure(name, folder, args)
        results += lines
        all_right &= right
        out = {
            "kind": "directions", "machine": f"{cpu}, {os.cpu_count()} cores", "commit": args.commit,
            "threads": args.threads, "queries": args.queries, "date": time.strftime("%Y-%m-%d"),
            "command": " ".join(["directions.py OUT.json", *options]), "results": results,
        }  # fmt: skip
        Path(args.out).write_text(json.dumps(out, indent=1) + "\n")
    sys.exit(not all_right)


if __name__ == "__main__":
    main()
