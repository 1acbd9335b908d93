"""How exact is "exact"? Recall of peers on a point cloud in large coordinates.

    python -m benchmarks.peers.exactness CLOUD [--queries 1000] [-k 10]

A sample of the cloud's own points are the queries. Kith's answer is checked against plain NumPy in float64
for a part of them, and must be the same bits with one thread and two and for every batch size; the peers
are asked with several batch sizes, because theirs can differ.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from . import open_peer

ROOT = Path(__file__).resolve().parents[2]
BATCHES = (1, 10, 100, 1000)
KITH_BATCHES = (1, 7, 1000)
KITH_THREADS = (1, 2)
SEED = 20260103


def kith(program, *arguments):
    subprocess.run([str(program), *map(str, arguments), "--quiet"], check=True, stdout=subprocess.DEVNULL)


def kith_search(program, folder, base, queries, k, threads, batch):
    """Kith's (indices, distances), `batch` queries a call of the program."""
    indices, distances = [], []
    for first in range(0, len(queries), batch):
        np.save(folder / "part.npy", queries[first : first + batch])
        kith(program, "knn", base, folder / "part.npy", "-k", k, "--threads", threads, "-o", folder / "answer")
        indices.append(np.load(folder / "answer.indices.npy"))
        distances.append(np.load(folder / "answer.distances.npy"))
    return np.concatenate(indices), np.concatenate(distances)


def oracle(rows, query, k):
    """The k nearest rows in float64, ties to the lower index: Kith's contract for sqeuclidean, d = 3.

    (dx^2 + dz^2) + dy^2, rounded once to the type of the data, is Kith's order of summation.
    """
    squares = (query.astype(np.float64) - rows) ** 2
    sums = ((squares[:, 0] + squares[:, 2]) + squares[:, 1]).astype(rows.dtype)
    return np.lexsort((np.arange(len(sums)), sums))[:k]


def recall(found, truth):
    return float(np.mean([len(set(f) & set(t)) / len(t) for f, t in zip(found, truth, strict=True)]))


def measure_peer(name, rows, queries, k, truth, threads):
    """One entry a batch size: recall, and the share of distances <= 0 between points that differ."""
    peer = open_peer(name)
    peer.build(rows, "sqeuclidean", threads)
    prepared = peer.prepare(queries)
    entries = []
    for batch in BATCHES:
        part = prepared[: min(len(prepared), 200 * batch)]  # single queries: 200 of them are enough
        answers = [peer.search(part[i : i + batch], k) for i in range(0, len(part), batch)]
        indices = np.concatenate([a[0] for a in answers])
        distances = np.concatenate([a[1] for a in answers])
        differ = (rows[indices] != queries[: len(part), None, :]).any(axis=2)
        entries.append({
            "name": peer.name, "version": peer.version, "batch": batch, "queries": len(part),
            "recall": recall(indices, truth[: len(part)]),
            "nonpositive_share": float((distances[differ] <= 0).mean()),
        })  # fmt: skip
    return entries


def main():
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers.exactness", description=__doc__.split("\n")[0])
    parser.add_argument("cloud", type=Path, help="point cloud in any format Kith reads")
    parser.add_argument("--text", default="", help="a sentence on the cloud, for docs/benchmarks.md")
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("-k", type=int, default=10)
    parser.add_argument("--peers", default="faiss,sklearn,numpy")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--kith", type=Path, default=ROOT / "build/bin/kith")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks/results")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        base = folder / "cloud.npy"
        kith(options.kith, "convert", options.cloud, base)
        rows = np.load(base)
        chosen = np.random.default_rng(SEED).choice(len(rows), min(options.queries, len(rows)), replace=False)
        queries = rows[chosen]
        truth, distances = kith_search(options.kith, folder, base, queries, options.k, 1, len(queries))
        for threads in KITH_THREADS:
            for batch in KITH_BATCHES:
                few = queries[: min(len(queries), 20 * batch)]
                again = kith_search(options.kith, folder, base, few, options.k, threads, batch)
                for mine, first in zip(again, (truth, distances), strict=True):
                    if mine.tobytes() != first[: len(few)].tobytes():
                        sys.exit(f"error: kith's answer differs with {threads} threads and batches of {batch}")
        sample = range(0, len(queries), max(1, len(queries) // 50))
        found = recall([truth[i] for i in sample], [oracle(rows, queries[i], options.k) for i in sample])

        # The expansion |q|^2 + |x|^2 - 2 q.x in float32, for the true neighbours.
        q, x = queries.astype(np.float32)[:, None, :], rows.astype(np.float32)[truth]
        products = np.einsum("qkd,qkd->qk", np.broadcast_to(q, x.shape), x)
        expanded = (q * q).sum(2) + (x * x).sum(2) - 2 * products
        result = {
            "cloud": options.cloud.name, "text": options.text, "rows": len(rows), "dtype": str(rows.dtype),
            "queries": len(queries), "k": options.k, "kith_recall": found, "oracle_queries": len(sample),
            "kith_threads": KITH_THREADS, "kith_batches": KITH_BATCHES,
            "expansion_negative_share": float((expanded < 0).mean()), "peers": [],
        }  # fmt: skip
        for peer in options.peers.split(","):
            result["peers"] += measure_peer(peer, rows, queries, options.k, truth, options.threads)
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / f"exactness-{options.cloud.stem.replace('_', '-')}.json"
    path.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
