"""Exact search on data that is not uniform, beside faiss's flat index on the same CPU and threads.

    PYTHONPATH=build/python python benchmarks/brute_force/cpu_sweep.py OUT.json [--dims 32,128,...] [--rows 200000]
        [--k 1,10,100] [--kinds REGEX] [--queries N] [--repeat N] [--sets avx512_vnni,avx2,...]

The kinds of data of gpu_sweep.py, made by NumPy from fixed seeds. Every instruction set is searched in a process of its
own (KITH_INSTRUCTION_SET); the median of whole searches counts, after a warm-up. Rows that faiss finds nearer than Kith
does, by float64, end the run with status 1. Needs numpy and faiss-cpu.
"""

import argparse
import itertools
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
from timing import times_of


def clusters(count, spread, skew=2):
    def make(rows, dim, random):
        centres = np.random.default_rng(99).standard_normal((count, dim), dtype=np.float32)
        chosen = (random.random(rows) ** skew * count).astype(np.int64)
        return centres[chosen] + np.float32(spread) * random.standard_normal((rows, dim), dtype=np.float32)

    return make


KINDS = {
    "gaussian": lambda rows, dim, random: random.standard_normal((rows, dim), dtype=np.float32),
    **{f"clusters {c} spread {s}": clusters(c, s) for c, s in itertools.product((10, 100, 10000), (0.05, 0.5))},
    "near-duplicates 1000 noise 1e-3": clusters(1000, 1e-3, skew=1),
}


def kith_alone(base, queries, ks, repeat):
    """Runs in a process of its own: its instruction set is chosen once."""
    import kith

    rows, asked = np.load(base, mmap_mode="r"), np.load(queries)
    index = kith.BruteForce(np.ascontiguousarray(rows), metric="sqeuclidean")
    for k in ks:
        times = times_of(lambda k=k: index.search(asked, k), repeat, warm_ups=1)
        s = times.answer.statistics
        np.save(queries + f".{k}.npy", times.answer.indices)
        line = {"k": k, "median_ms": times.median, "filter": s.filter, "set": s.instruction_set}
        line["candidates"], line["lists"] = s.candidates / len(asked), s.lists
        print(json.dumps(line), flush=True)


def too_far(rows, queries, mine, theirs):
    """Queries whose k-th row is farther, in float64, than another engine's k-th row."""
    count = 0
    for q in range(0, len(queries), max(1, len(queries) // 50)):
        kth = [((rows[list_[q]].astype(np.float64) - queries[q]) ** 2).sum(axis=1).max() for list_ in (mine, theirs)]
        count += kth[0] > kth[1]
    return count


def main():
    if len(sys.argv) > 1 and sys.argv[1] == "--alone":
        kith_alone(sys.argv[2], sys.argv[3], [int(k) for k in sys.argv[4].split(",")], int(sys.argv[5]))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--dims", default="32,128,256,768")
    parser.add_argument("--rows", default="200000")
    parser.add_argument("--k", default="1,10,100")
    parser.add_argument("--kinds", default=".")
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--sets", default="avx512_vnni,avx2")
    parser.add_argument("--commit", default="unknown")
    args = parser.parse_args()
    import faiss

    results, status = [], 0
    cpu = next(line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name"))

    def write():
        """After every case: what was measured stays when the rest is cut short."""
        out = {
            "kind": "sweep", "on": "cpu", "machine": f"{cpu}, {os.cpu_count()} cores", "commit": args.commit,
            "peer": f"faiss {faiss.__version__} IndexFlatL2", "date": time.strftime("%Y-%m-%d"),
            "command": "cpu_sweep.py " + " ".join(sys.argv[1:]), "results": results,
        }  # fmt: skip
        Path(args.out).write_text(json.dumps(out, indent=1) + "\n")

    for dim, (kind, make), n in itertools.product(
        map(int, args.dims.split(",")), KINDS.items(), map(int, args.rows.split(","))
    ):
        if not re.search(args.kinds, kind):
            continue
        random = np.random.default_rng(7)
        rows, queries = make(n, dim, random), make(args.queries, dim, random)
        with tempfile.TemporaryDirectory() as folder:
            base, asked = os.path.join(folder, "base.npy"), os.path.join(folder, "queries.npy")
            np.save(base, rows)
            np.save(asked, queries)
            flat = faiss.IndexFlatL2(dim)
            flat.add(rows)
            peer = {}
            for k in map(int, args.k.split(",")):
                times = times_of(partial(flat.search, queries, k), args.repeat, warm_ups=1)
                peer[k], found = times.median, times.answer[1]
                np.save(os.path.join(folder, f"faiss.{k}.npy"), found)
            flat = None
            for which in args.sets.split(","):
                run = subprocess.run(
                    [sys.executable, __file__, "--alone", base, asked, args.k, str(args.repeat)],
                    env={**os.environ, "KITH_INSTRUCTION_SET": which}, capture_output=True, text=True, check=True,
                )  # fmt: skip
                for line in map(json.loads, run.stdout.splitlines()):
                    k = line["k"]
                    mine, theirs = np.load(asked + f".{k}.npy"), np.load(os.path.join(folder, f"faiss.{k}.npy"))
                    wrong = too_far(rows, queries, mine, theirs)
                    status |= wrong > 0
                    ratio = line["median_ms"] / peer[k]
                    results.append(
                        dict(line, data=kind, dim=dim, rows=n, queries=args.queries, faiss_ms=peer[k], ratio=ratio,
                             wrong_queries=int(wrong))
                    )  # fmt: skip
                    print(
                        f"{dim:4} {n:8} k {k:4} {line['set']:12} {line['median_ms']:9.1f} ms, faiss {peer[k]:9.1f}, ratio "
                        f"{ratio:5.2f}  {line['filter']:5} {line['candidates']:9.0f} cand/q  wrong {wrong}  {kind}",
                        flush=True,
                    )
        write()
    sys.exit(status)


if __name__ == "__main__":
    main()
