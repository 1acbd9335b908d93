"""Exact search on data that is not uniform, beside float32 brute force on the same GPU.

    PYTHONPATH=python python3 gpu_sweep.py OUT.json [--dims 32,128,...] [--rows 200000,1000000] [--k 1,10,100]
        [--kinds REGEX] [--queries N] [--repeat N] [--engines kith,torch,cuvs] [--commit SHA] [--add OTHER.json]

Gaussian values, clusters (as `kith generate clusters` makes them: the first are the largest), near-duplicates, a low
intrinsic dimension, made on the GPU by torch from fixed seeds. Rows, queries and answers stay on the GPU; the median of
whole calls counts, after two warm-ups. The time of float32 brute force (torch: matmul and topk; cuVS where it is
installed) does not depend on the values: it is measured once a shape, on the gaussian data. Kith's answers are
compared: `--check` of the queries with a search without a filter, bit by bit, alone and as part of the batch, and some
with distances in float64 by torch. A wrong cell ends the run with status 1. cuVS wants a process of its own: run it first,
and add its file.
"""

import argparse
import itertools
import json
import re
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import torch
from gpu_torch import torch_peer
from timing import times_of


def gaussian(rows, dim, generator):
    return torch.randn(rows, dim, generator=generator, device="cuda")


def clusters(count, spread, normalized=False, skew=2):
    def make(rows, dim, generator):
        centres = torch.randn(count, dim, generator=torch.Generator("cuda").manual_seed(99), device="cuda")
        chosen = (torch.rand(rows, generator=generator, device="cuda") ** skew * count).long().clamp_(max=count - 1)
        data = torch.randn(rows, dim, generator=generator, device="cuda").mul_(spread)
        for begin in range(0, rows, 1 << 18):
            data[begin : begin + (1 << 18)] += centres[chosen[begin : begin + (1 << 18)]]
        return data / data.norm(dim=1, keepdim=True) if normalized else data

    return make


def near_duplicates(count, noise):
    return clusters(count, noise, skew=1)


def low_intrinsic_dimension(intrinsic, noise=0.05):
    def make(rows, dim, generator):
        mapping = torch.randn(intrinsic, dim, generator=torch.Generator("cuda").manual_seed(98), device="cuda")
        latent = torch.randn(rows, intrinsic, generator=generator, device="cuda")
        data = torch.randn(rows, dim, generator=generator, device="cuda").mul_(noise)
        return data.addmm_(latent, mapping, alpha=intrinsic**-0.5)

    return make


KINDS = {
    "gaussian": gaussian,
    **{
        f"clusters {c} spread {s}": clusters(c, s)
        for c, s in itertools.product((10, 100, 1000, 10000), (0.05, 0.25, 0.5))
    },
    "clusters 1000 spread 0.1 normalized": clusters(1000, 0.1, normalized=True),
    "near-duplicates 1000 noise 1e-3": near_duplicates(1000, 1e-3),
    "low intrinsic dimension 16": low_intrinsic_dimension(16),
}


def wrong_cells(index, plain, queries, rows, answer, k, some):
    """Cells of `some` queries that differ from a search without a filter, or whose row is not as near as it should be."""
    asked = queries[:: max(1, len(queries) // some)].contiguous()
    found = index.search(asked, k)
    truth = plain.search(asked, k)
    indices, expected = torch.from_dlpack(found.indices), torch.from_dlpack(truth.indices)
    distances, exact = torch.from_dlpack(found.distances), torch.from_dlpack(truth.distances)
    wrong = int((indices != expected).sum()) + int((distances.view(torch.int32) != exact.view(torch.int32)).sum())
    # The batch gave the same as the queries alone.
    batch = torch.from_dlpack(answer.indices)[:: max(1, len(queries) // some)]
    wrong += int((batch != expected).sum())
    # And float64 agrees on the distance of the k-th.
    for i in range(min(4, len(asked))):
        exact64 = ((rows.double() - asked[i].double()) ** 2).sum(dim=1) if len(rows) <= 200_000 else None
        if exact64 is None:
            break
        kth = torch.topk(exact64, k, largest=False).values[-1]
        wrong += int(abs(float(distances[i, k - 1]) - float(kth)) > 1e-6 * float(kth))
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--dims", default="32,128,256,768")
    parser.add_argument("--rows", default="200000,1000000")
    parser.add_argument("--k", default="1,10,100")
    parser.add_argument("--kinds", default=".")
    parser.add_argument("--queries", type=int, default=10000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--check", type=int, default=32)
    parser.add_argument("--engines", default="kith,torch")
    parser.add_argument("--filter", default="auto")
    parser.add_argument("--commit", default="unknown")
    parser.add_argument("--add", help="a file of other engines' results on the same machine")
    args = parser.parse_args()
    engines = args.engines.split(",")
    if "kith" in engines:
        import kith
    if "cuvs" in engines:
        from cuvs.neighbors import brute_force
    results, status = [], 0
    for dim in map(int, args.dims.split(",")):
        for name, make in KINDS.items():
            dense = name == "gaussian"
            if not dense and (engines == ["cuvs"] or not re.search(args.kinds, name)):
                continue
            counts = [int(n) for n in args.rows.split(",")]
            generator = torch.Generator("cuda").manual_seed(7)
            everything = make(max(counts), dim, generator)
            queries = make(args.queries, dim, generator)
            for n in counts:
                rows = everything[:n]
                case = {"data": name, "dim": dim, "rows": n, "queries": args.queries}
                if "kith" in engines and re.search(args.kinds, name):
                    torch.cuda.synchronize()
                    begin = time.perf_counter()
                    index = kith.BruteForce(rows, metric="sqeuclidean", filter=args.filter)
                    build = (time.perf_counter() - begin) * 1e3
                    plain = kith.BruteForce(rows, metric="sqeuclidean", filter="none")
                    for k in map(int, args.k.split(",")):
                        median, low, high, answer = times_of(
                            partial(index.search, queries, k), args.repeat, 2, torch.cuda.synchronize
                        )
                        s = answer.statistics
                        wrong = wrong_cells(index, plain, queries, rows, answer, k, args.check)
                        line = dict(
                            case, engine="kith", k=k, median_ms=median, min_ms=low, max_ms=high, build_ms=build,
                            filter=s.filter, candidates=s.candidates / args.queries, fallbacks=s.fallbacks, wrong_cells=wrong,
                        )  # fmt: skip
                        results.append(line)
                        print(
                            f"{dim:4} {n:8} k {k:4} {median:9.2f} ms  {s.filter:5} {line['candidates']:9.0f} cand/q "
                            f"{s.fallbacks:5} fall  build {build:7.1f}  wrong {wrong}  {name}",
                            flush=True,
                        )
                        status |= wrong > 0
                    del index, plain, answer
                for engine in ("torch", "cuvs"):
                    if engine not in engines or not dense:
                        continue
                    for k in map(int, args.k.split(",")):
                        if engine == "torch":
                            search = torch_peer(queries, rows, k)
                        else:
                            built = brute_force.build(rows.contiguous(), metric="sqeuclidean")
                            search = partial(brute_force.search, built, queries, k)
                        median, low, high, _ = times_of(search, args.repeat, 2, torch.cuda.synchronize)
                        results.append(
                            dict(case, data="any", engine=engine, k=k, median_ms=median, min_ms=low, max_ms=high)
                        )
                        print(f"{dim:4} {n:8} k {k:4} {median:9.2f} ms  {engine}", flush=True)
            del everything, queries, rows
            torch.cuda.empty_cache()
    machine = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True).stdout.split("(")[0].strip()
    if args.add:
        results += json.loads(Path(args.add).read_text())["results"]
    out = {
        "kind": "sweep", "on": "gpu", "machine": machine, "commit": args.commit, "date": time.strftime("%Y-%m-%d"),
        "command": "gpu_sweep.py " + " ".join(sys.argv[1:]), "results": results,
    }  # fmt: skip
    Path(args.out).write_text(json.dumps(out, indent=1) + "\n")
    sys.exit(status)


if __name__ == "__main__":
    main()
