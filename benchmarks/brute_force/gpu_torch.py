"""Peers of gpu_search on the same GPU: torch (float32 matmul and topk) and, where it is installed, FAISS.

    python3 gpu_torch.py OUT.json [--seconds N] [--repeat N] [CASE...]        CASE: d,queries,rows,k

Uniform data made on the GPU, squared Euclidean distances by their expansion, rows in tiles so that the
matrix of distances stays small, the tiles' answers merged. Needs only Python, torch and a GPU, so that it
runs on a GPU host from the bundle's folder. The median of whole calls counts, answers stay on the GPU.
"""

import argparse
import json
import statistics
import time

import torch

CASES = (
    (128, 512, 8192, 16), (3, 1024, 65536, 1), (16, 1024, 65536, 1), (3, 1024, 1048576, 1), (16, 1024, 1048576, 1),
    (3, 1, 16777216, 1), (16, 1, 16777216, 1), (128, 1, 1000000, 10), (768, 1, 1000000, 10), (768, 100, 1000000, 10),
    (96, 10000, 1000000, 10), (128, 10000, 1000000, 10), (128, 10000, 1000000, 100), (768, 10000, 1000000, 10),
    (768, 10000, 1000000, 100), (96, 10000, 10000000, 10),
)  # fmt: skip
WARM_UPS = 2
LONGEST = 3.0  # seconds of one search; what is expected to take longer is left out
MATRIX_BYTES = 4 << 30  # of one tile's distances; topk needs some more


def expected_seconds(dim, queries, rows):
    """Of one search on an H200: the product at 36 TFLOP/s, the matrix written and read for topk."""
    return queries * rows * (2 * dim / 36e12 + 14e-12)


def tile_rows(queries):
    return max(1, MATRIX_BYTES // (4 * queries))


def torch_search(queries, rows, norms, k):
    """(squared distances [q, k], rows [q, k]); `norms` are the rows' squared norms."""
    values, indices = [], []
    for start in range(0, rows.shape[0], tile_rows(queries.shape[0])):
        end = min(rows.shape[0], start + tile_rows(queries.shape[0]))
        matrix = torch.addmm(norms[start:end].unsqueeze(0), queries, rows[start:end].t(), alpha=-2)
        found = torch.topk(matrix, min(k, end - start), dim=1, largest=False)
        values.append(found.values)
        indices.append(found.indices + start)
        del matrix
    values, indices = torch.cat(values, dim=1), torch.cat(indices, dim=1)
    if values.shape[1] > k:
        values, at = torch.topk(values, k, dim=1, largest=False)
        indices = torch.gather(indices, 1, at)
    return values + (queries * queries).sum(dim=1, keepdim=True), indices


def torch_peer(queries, rows, k):
    norms = (rows * rows).sum(dim=1)  # an index would keep them, so they are not timed
    return lambda: torch_search(queries, rows, norms, k)


def faiss_peer():
    """A function like torch_peer, or None where FAISS for GPUs is not installed."""
    try:
        import faiss
        import faiss.contrib.torch_utils

        resources = faiss.StandardGpuResources()
    except (ImportError, AttributeError):
        return None
    return lambda queries, rows, k: lambda: faiss.knn_gpu(resources, queries, rows, k)


def median_ms(search, repeat):
    for _ in range(WARM_UPS):
        search()
    times = []
    for _ in range(repeat):
        torch.cuda.synchronize()
        start = time.perf_counter()
        search()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e3


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", help="JSON file to write")
    parser.add_argument("cases", nargs="*", metavar="CASE", help="d,queries,rows,k (default: gpu_search's cases)")
    parser.add_argument("--seconds", type=float, default=40, help="start no case that would end later (40)")
    parser.add_argument("--repeat", type=int, default=5, help="searches whose median counts (5)")
    arguments = parser.parse_args()
    begin = time.perf_counter()
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.manual_seed(1)
    peers = {"torch fp32 matmul+topk": torch_peer}
    if (faiss := faiss_peer()) is not None:
        peers["faiss knn_gpu"] = faiss
    cases = [tuple(int(v) for v in text.split(",")) for text in arguments.cases] or CASES
    results = []
    print(f"torch {torch.__version__}, {torch.cuda.get_device_name()}, peers: {', '.join(peers)}")
    print(f"{'d':>5} {'q':>6} {'n':>9} {'k':>5} | {'median ms':>10} {'QPS':>11}  peer")
    for dim, count, n, k in cases:
        expected = expected_seconds(dim, count, n)
        left = arguments.seconds - (time.perf_counter() - begin)
        if expected > LONGEST or len(peers) * (WARM_UPS + arguments.repeat) * expected > left:
            print(f"{dim:5} {count:6} {n:9} {k:5} | left out: it would take about {expected:.2g} s a search")
            continue
        rows = torch.rand(n, dim, device="cuda", dtype=torch.float32)
        queries = torch.rand(count, dim, device="cuda", dtype=torch.float32)
        for name, make in peers.items():
            ms = median_ms(make(queries, rows, k), arguments.repeat)
            results.append({"dim": dim, "queries": count, "rows": n, "k": k, "median_ms": ms, "peer": name})
            print(f"{dim:5} {count:6} {n:9} {k:5} | {ms:10.4f} {count / ms * 1e3:11.0f}  {name}", flush=True)
        del rows, queries
        torch.cuda.empty_cache()
        with open(arguments.out, "w") as out:  # after every case: a run that is stopped leaves what it has
            json.dump(results, out, indent=1)
    peak = torch.cuda.max_memory_allocated() / 2**30
    print(f"{time.perf_counter() - begin:.1f} s in all; peak memory {peak:.1f} GiB")


if __name__ == "__main__":
    main()
