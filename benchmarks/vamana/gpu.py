"""Graphs on one GPU: recall against queries a second, Kith's beside CAGRA of cuVS where that is installed, in one run.

    python3 gpu.py CASE... [-o OUT.json] [--repeat N] [--seconds N] [--build-on cpu] [--limits BYTES,...]
    CASE: kind,dim,rows     mixture-u8,128,10000000   mixture-f32,96,10000000
          BASE.npy:QUERIES.npy                        rows of one's own, uint8 or float32

Needs Python, torch and a GPU, and the package kith (PYTHONPATH). Mixtures are those of
benchmarks/datasets/generated.py (gaussian_mixture), drawn on the GPU. Queries and answers stay on the GPU, the
median of whole calls counts. Recall is against exact answers of Kith's brute force; the first queries' answers
are compared with those of the CPU's walk, bit for bit, and a difference ends the run with an error.
"""

import argparse
import datetime
import itertools
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

import kith
import numpy as np
import torch

QUERIES = 10_000
COMPARED = 200  # queries whose answers the CPU finds, too
ALONE = 2000  # queries of which each has a call of its own
LISTS = (10, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024)
ITOPK = (16, 32, 64, 128, 256, 512)
WARM_UPS = 2


def decay_for(ratio, dim):
    low, high = 1e-3, 1e6
    for _ in range(200):
        tau = (low * high) ** 0.5
        variances = np.exp(-np.arange(dim) / tau)
        low, high = (tau, high) if variances.sum() ** 2 / (variances**2).sum() < ratio else (low, tau)
    return tau


def mixture(rows, dim, ratio, seed, gaussians=2000):
    """float32 [rows, dim] in blocks, on the GPU."""
    random = torch.Generator(device="cuda").manual_seed(seed)

    def normal(*shape):
        return torch.randn(*shape, generator=random, device="cuda")

    variances = np.exp(-np.arange(dim) / decay_for(ratio, dim))
    spread = torch.tensor(np.sqrt(variances * dim / variances.sum()), dtype=torch.float32, device="cuda")
    basis, _ = torch.linalg.qr(normal(dim, dim))
    centres = normal(gaussians, dim) * (0.6 * spread)
    scale = 0.7 + 0.6 * torch.rand(gaussians, generator=random, device="cuda")
    weight = torch.exp(0.5 * normal(gaussians))
    for first in range(0, rows, 1 << 20):
        count = min(1 << 20, rows - first)
        own = torch.multinomial(weight, count, replacement=True, generator=random)
        yield (centres[own] + scale[own, None] * normal(count, dim) * spread) @ basis


def draw(kind, dim, rows):
    """(base, queries) as NumPy arrays, from one mixture."""
    small = kind == "mixture-u8"
    out = np.empty((rows + QUERIES, dim), np.uint8 if small else np.float32)
    at = 0
    for block in mixture(rows + QUERIES, dim, 6 if small else 25, 7):
        values = torch.clamp(torch.round(36 * block + 20), 0, 255).to(torch.uint8) if small else block
        out[at : at + len(block)] = values.cpu().numpy()
        at += len(block)
    return out[:rows], out[rows:]


def timed(search, options):
    """Median seconds of a call, by as many as fill the time asked for, at least options.repeat."""
    for _ in range(WARM_UPS):
        search()
    times = []
    while len(times) < options.repeat or (sum(times) < options.seconds and len(times) < 100):
        torch.cuda.synchronize()
        started = time.perf_counter()
        search()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - started)
    return statistics.median(times)


def recall_of(found, limits, distances_of):
    """Share of the k nearest found: what lies within the k-th true distance counts, so that ties do not."""
    distances = distances_of(found)
    return float((distances <= limits[:, None] * (1 + 1e-6)).float().mean())


class Rows:
    def __init__(self, base, queries, k):
        self.base, self.queries = base, queries
        self.asked = torch.from_numpy(np.ascontiguousarray(queries)).cuda()
        self.given = torch.from_numpy(base).cuda()
        exact = kith.knn(base, queries, k, device="cuda")
        self.limits = torch.from_numpy(np.ascontiguousarray(exact.distances[:, -1])).cuda()

    def distances_of(self, found):
        """Squared distances of rows found, [queries, k]; -1 is infinitely far."""
        rows = torch.as_tensor(np.asarray(found.cpu() if hasattr(found, "cpu") else found).astype(np.int64)).cuda()
        near = self.given[rows.clamp(min=0)].float() - self.asked.float()[:, None, :]
        return torch.where(rows < 0, torch.inf, (near * near).sum(dim=2))


def at_recall(points, target):
    """Queries a second at a recall, between the two points around it, log-linear; None where none reaches it."""
    ordered = sorted(points, key=lambda p: p["recall"])
    for before, after in itertools.pairwise(ordered):
        if before["recall"] < target <= after["recall"]:
            share = (target - before["recall"]) / (after["recall"] - before["recall"])
            logs = np.log([before["queries_per_second"], after["queries_per_second"]])
            return float(np.exp(logs[0] + share * (logs[1] - logs[0])))
    return max((p["queries_per_second"] for p in ordered if p["recall"] >= target), default=None)


def kith_points(rows, index, k, options, limit):
    """(points, what lies where, the time of one query and its list) with so much device memory; 0: all there is."""
    points = []
    for size in (size for size in LISTS if size >= k):

        def search(size=size):
            return index.search(rows.asked, k, list_size=size, device="cuda", device_memory_limit=limit)

        found = search()
        wanted = index.search(rows.queries[:COMPARED], k, list_size=size, device="cpu")
        if not np.array_equal(np.asarray(found.indices.cpu())[:COMPARED], wanted.indices):
            sys.exit(f"list {size}: the GPU's answers are not the CPU's")
        seconds = timed(search, options)
        points.append({
            "setting": size, "recall": recall_of(found.indices, rows.limits, rows.distances_of),
            "queries_per_second": len(rows.queries) / seconds, "hops": found.statistics.hops / len(rows.queries),
            "distances": found.statistics.distances / len(rows.queries),
            "cached_hops": found.statistics.cached_hops / len(rows.queries),
            "candidates": found.statistics.candidates / len(rows.queries),
        })  # fmt: skip
        print(f"  Kith list {size}: {points[-1]}", flush=True)
        if points[-1]["recall"] > 0.9995:
            break
    return {
        "placement": found.statistics.instruction_set, "device_memory_limit": limit, "points": points,
        **one_at_a_time(rows, index, k, limit),
    }  # fmt: skip


def one_at_a_time(rows, index, k, limit):
    """Median seconds of a call for one query, always another one, with the shortest list that finds 0.95 of them all:
    from an array of PyTorch on the GPU, and from one of NumPy."""

    def search(queries, size):
        return index.search(queries, k, list_size=size, device="cuda", device_memory_limit=limit)

    def finds(size):
        return recall_of(search(rows.asked, size).indices, rows.limits, rows.distances_of)

    size = next((size for size in range(k, 129) if finds(size) >= 0.95), 0)
    if size == 0:
        return {}
    wanted = index.search(rows.queries[:COMPARED], k, list_size=size, device="cpu")
    seconds = {}
    for place, queries in (("gpu", rows.asked), ("host", rows.queries)):
        each = [queries[i : i + 1] for i in range(min(ALONE, len(queries)))]
        for i in range(len(wanted.indices)):
            found = np.asarray(search(each[i], size).numpy().indices)
            if not np.array_equal(found[0], wanted.indices[i]):
                sys.exit(f"one query, list {size}: the GPU's answer is not the CPU's")
        times = []
        for query in each:
            started = time.perf_counter()
            search(query, size)
            times.append(time.perf_counter() - started)
        seconds[place] = statistics.median(times)
    print(f"  one query, list {size}: {seconds}", flush=True)
    return {"one_query_seconds": seconds["gpu"], "one_query_from_host_seconds": seconds["host"],
            "one_query_setting": size}  # fmt: skip


def link_bytes_per_second(options):
    """From page-locked memory to the GPU, by one large copy."""
    here = torch.empty(1 << 30, dtype=torch.uint8, pin_memory=True)
    there = torch.empty_like(here, device="cuda")
    return len(here) / timed(lambda: there.copy_(here, non_blocking=True), options)


def kith_graphs(rows, k, options):
    """A graph of each of the parameters asked for, with all memory and with each limit."""
    graphs = []
    for asked in options.kith.split(","):
        degree, build_list, values = (int(number) for number in asked.split("/"))
        parameters = {"max_degree": degree, "build_list_size": build_list, "code_dim": values}
        started = time.perf_counter()
        index = kith.Vamana(rows.base, device=options.build_on, **parameters)
        build = time.perf_counter() - started
        for limit in (0, *(int(limit) for limit in options.limits.split(",") if limit)):
            name = f"Kith {degree}/{build_list}" + (f", {index.code_dim} values a code" if values else "")
            graphs.append({
                "name": name + (f", {limit:,} bytes" if limit else ""), "version": kith.__version__,
                "parameters": {**parameters, "code_dim": index.code_dim}, "build_seconds": build,
                "built_on": options.build_on, "graph_hash": f"{index.graph_hash:016x}",
                "memory_bytes": index.memory_bytes, **kith_points(rows, index, k, options, limit),
            })  # fmt: skip
        del index
    return graphs


def cagra_graph(rows, k, options, degree, intermediate, algorithm):
    import cuvs
    from cuvs.neighbors import cagra

    started = time.perf_counter()
    chosen = cagra.IndexParams(
        metric="sqeuclidean", graph_degree=degree, intermediate_graph_degree=intermediate, build_algo=algorithm
    )
    index = cagra.build(chosen, rows.given)
    torch.cuda.synchronize()
    build = time.perf_counter() - started
    indices = torch.empty((len(rows.queries), k), dtype=torch.uint32, device="cuda")
    distances = torch.empty((len(rows.queries), k), dtype=torch.float32, device="cuda")
    points = []
    for size in (size for size in ITOPK if size >= k):
        how = cagra.SearchParams(itopk_size=size, search_width=1)

        def search(how=how):
            cagra.search(how, index, rows.asked, k, neighbors=indices, distances=distances)

        seconds = timed(search, options)
        recall = recall_of(indices, rows.limits, rows.distances_of)
        points.append({"setting": size, "recall": recall, "queries_per_second": len(rows.queries) / seconds})
        print(f"  CAGRA {degree}/{intermediate} {algorithm} itopk {size}: {points[-1]}", flush=True)
        if recall > 0.9995:
            break
    return {
        "name": f"CAGRA {degree}/{intermediate} {algorithm}", "version": cuvs.__version__, "build_seconds": build,
        "parameters": {"graph_degree": degree, "intermediate_graph_degree": intermediate, "build_algo": algorithm},
        "points": points,
    }  # fmt: skip


def cagra_builds(options):
    try:
        import cuvs.neighbors.cagra  # noqa: F401
    except ImportError:
        return []
    return [tuple(build.split("/")) for build in options.cagra.split(",") if build]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="+", metavar="CASE")
    parser.add_argument("-k", type=int, default=10)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.2)
    parser.add_argument(
        "--kith", default="64/128/0", help="max_degree/build_list_size/code_dim, by commas (default %(default)s)"
    )
    parser.add_argument("--limits", default="", help="bytes of device memory, by commas: searches with so much, too")
    parser.add_argument("--build-on", default="cuda", help="cuda (default) or cpu")
    parser.add_argument(
        "--cagra", default="64/128/ivf_pq,32/64/ivf_pq", help="degree/intermediate/algorithm, by commas"
    )
    parser.add_argument("--commit", default="", help="of the program, for the result")
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    driver = subprocess.run(
        ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"], capture_output=True, text=True
    ).stdout.strip()
    result = {
        "format": "kith-vamana-gpu", "format_version": 1, "kind": "vamana_gpu",
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"), "commit": options.commit,
        "command": "python3 " + " ".join(sys.argv), "machine": {"gpu": driver, "link_bytes_per_second": link_bytes_per_second(options)},
        "k": options.k, "cases": [],
    }  # fmt: skip
    for case in options.cases:
        if ":" in case:
            base, queries = (np.load(name) for name in case.split(":"))
        else:
            kind, dim, count = case.split(",")
            base, queries = draw(kind, int(dim), int(count))
        print(f"{case}: {base.shape} {base.dtype}", flush=True)
        rows = Rows(base, queries, options.k)
        graphs = kith_graphs(rows, options.k, options)
        for degree, intermediate, algorithm in cagra_builds(options):
            graphs.append(cagra_graph(rows, options.k, options, int(degree), int(intermediate), algorithm))
        for graph in graphs:
            graph["queries_per_second_at"] = {
                f"{target:.2f}": at_recall(graph["points"], target) for target in (0.9, 0.95, 0.97, 0.99)
            }
            print(
                f"{graph['name']}: built in {graph['build_seconds']:.2f} s, {graph['queries_per_second_at']}",
                flush=True,
            )
        result["cases"].append({
            "case": case, "rows": len(base), "dim": base.shape[1], "dtype": base.dtype.name,
            "queries": len(queries), "libraries": graphs,
        })  # fmt: skip
        if options.output:
            options.output.write_text(json.dumps(result, indent=1) + "\n")
        del rows, base, queries
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
