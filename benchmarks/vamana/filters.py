"""python -m benchmarks.vamana.filters: searches over some of the rows, Kith's graph beside faiss and hnswlib, in one process.

For each share of allowed rows, drawn at random or the rows nearest to one point ("together"), every library searches with
the shortest list of a sweep that finds the recall asked for among the allowed rows; Kith is told the recall alone. Answers
are compared with exact ones over the allowed rows. hnswlib's filter is a Python function called for each row it meets, so
few queries are put to it. Needs kith, faiss-cpu and hnswlib; a library that is not there is left out and named.
"""

import argparse
import importlib.metadata
import json
import sys
import time
from datetime import datetime, timezone
from pathlib import Path

import kith
import numpy as np

from benchmarks.run import commit, cpu_name
from benchmarks.vamana import data
from benchmarks.vamana.curve import true_distances

SHARES = (1.0, 0.5, 0.1, 0.01, 0.001, 0.0001)
LISTS = (10, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 2048, 4096)
SECONDS = 0.5  # least time a setting is repeated for
SLOW_QUERIES = 50  # put to hnswlib


def allowed_rows(base, share, kind, random):
    count = max(1, round(share * len(base)))
    mask = np.zeros(len(base), bool)
    if kind == "spread" or count == len(base):
        mask[random.choice(len(base), count, replace=False)] = True
    else:
        centre = base[random.integers(len(base))].astype(np.float32)
        distances = np.concatenate([
            np.square(part.astype(np.float32) - centre).sum(axis=1) for part in np.array_split(base, 20)
        ])  # fmt: skip
        mask[np.argpartition(distances, count - 1)[:count]] = True
    return mask


class Kith:
    name = "Kith"
    version = kith.__version__

    def __init__(self, base, options):
        self.index = kith.Vamana(base, max_degree=options.max_degree, threads=options.build_threads)

    def measure(self, queries, k, mask, options, recall_of):
        rate, found = timed(
            lambda: self.index.search(queries, k, recall=options.recall, allowed=mask, threads=options.threads)
        )
        said = found.statistics
        how = "exact" if said.certified else f"list {said.list_size}"
        if said.fallbacks and not said.certified:
            how += f", {said.fallbacks} of {len(queries)} exact"
        return {"queries_per_second": rate * len(queries), "recall": recall_of(found.indices), "how": how}


class Sweep:
    """A library that takes a list size: the shortest that finds enough."""

    def measure(self, queries, k, mask, options, recall_of):
        queries = queries[: self.most_queries].astype(np.float32)
        best = None
        for size in LISTS:
            if size < k:
                continue
            rate, found = timed(lambda size=size: self.search(queries, k, size, mask, options.threads))
            best = {"queries_per_second": rate * len(queries), "recall": recall_of(found), "how": f"list {size}"}
            if best["recall"] >= options.recall:
                return best
        return best  # the longest list, and what it found


class Faiss(Sweep):
    name = "faiss HNSW"
    most_queries = 1000

    def __init__(self, base, options):
        import faiss

        self.faiss, self.version = faiss, faiss.__version__
        faiss.omp_set_num_threads(options.build_threads)
        self.index = faiss.IndexHNSWFlat(base.shape[1], 32)
        self.index.hnsw.efConstruction = 200
        self.index.add(base.astype(np.float32))

    def search(self, queries, k, size, mask, threads):
        self.faiss.omp_set_num_threads(threads)
        selector = self.faiss.IDSelectorBitmap(np.packbits(mask, bitorder="little"))
        parameters = self.faiss.SearchParametersHNSW(sel=selector, efSearch=size)
        return self.index.search(queries, k, params=parameters)[1]


class Hnswlib(Sweep):
    name = "hnswlib"
    most_queries = SLOW_QUERIES

    def __init__(self, base, options):
        import hnswlib

        self.version = importlib.metadata.version("hnswlib")
        self.index = hnswlib.Index("l2", base.shape[1])
        self.index.init_index(len(base), M=32, ef_construction=200)
        self.index.set_num_threads(options.build_threads)
        self.index.add_items(base.astype(np.float32))

    def search(self, queries, k, size, mask, threads):
        self.index.set_ef(size)
        found = np.full((len(queries), k), -1, np.int64)
        for i, query in enumerate(queries):
            try:
                found[i] = self.index.knn_query(query, k, num_threads=threads, filter=mask.__getitem__)[0][0]
            except RuntimeError:  # it found fewer than k
                continue
        return found


LIBRARIES = {"kith": Kith, "faiss": Faiss, "hnswlib": Hnswlib}


def timed(search):
    """(calls a second, the answer): the best of as many calls as fill SECONDS, after one to warm up."""
    search()
    best, spent = float("inf"), 0.0
    while spent < SECONDS:
        started = time.perf_counter()
        found = search()
        seconds = time.perf_counter() - started
        best, spent = min(best, seconds), spent + seconds
    return 1 / best, found


def main():
    parser = argparse.ArgumentParser(prog="python -m benchmarks.vamana.filters", description=__doc__.splitlines()[0])
    parser.add_argument("--dataset", choices=data.SETS, default="sift-photos-u8")
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("-k", type=int, default=10)
    parser.add_argument("--recall", type=float, default=0.95)
    parser.add_argument("--threads", type=int, default=1, help="of the searches")
    parser.add_argument("--build-threads", type=int, default=2)
    parser.add_argument("--max-degree", type=int, default=64)
    parser.add_argument("--libraries", nargs="+", choices=LIBRARIES, default=list(LIBRARIES))
    parser.add_argument("-o", "--output", metavar="FILE", required=True, help="write the result there as JSON")
    options = parser.parse_args()

    def log(text):
        print(text, file=sys.stderr, flush=True)

    files = data.prepare(
        options.dataset, options.rows, options.queries, data.FOLDER,
        lambda base, queries, k: kith.knn(base, queries, k).indices, log,
    )  # fmt: skip
    base, queries = np.load(files["base"]), np.load(files["queries"])
    libraries = []
    for name in options.libraries:
        try:
            libraries.append(LIBRARIES[name](base, options))
        except ModuleNotFoundError as error:
            log(f"{name} is left out: {error}")
    cases = []
    random = np.random.default_rng(data.SEED)
    for kind in ("spread", "together"):
        for share in SHARES:
            if kind == "together" and share == 1.0:
                continue
            mask = allowed_rows(base, share, kind, random)
            exact = kith.knn(base, queries, options.k, allowed=mask)
            within = exact.distances[:, -1:] * (1 + 1e-6)

            def recall_of(found, exact=exact, mask=mask, within=within):
                found = np.asarray(found).astype(np.int64)
                named = found >= 0
                distances = true_distances(base, queries[: len(found)], found)  # infinite for a row named before
                if not mask[found[named]].all() or np.isinf(distances[named]).any():
                    raise SystemExit("a library returned a row that is not allowed, or one twice")
                hit = np.count_nonzero(named & (distances <= within[: len(found)]))
                return hit / np.count_nonzero(exact.indices[: len(found)] >= 0)

            for library in libraries:
                measured = library.measure(queries, options.k, mask, options, recall_of)
                log(f"{kind} {share:g} {library.name}: {measured}")
                cases.append(
                    {"kind": kind, "share": share, "rows": int(mask.sum()), "library": library.name, **measured}
                )
                if library.name == "Kith" and measured["recall"] < options.recall - 0.01:
                    raise SystemExit(f"recall {measured['recall']:.4f} where {options.recall} was asked for")
    result = {
        "kind": "filters",
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%d"),
        "commit": commit(),
        "command": "python -m benchmarks.vamana.filters " + " ".join(sys.argv[1:]),
        "machine": {"cpu": cpu_name(), "threads": options.threads},
        "dataset": options.dataset,
        "rows": len(base),
        "dim": base.shape[1],
        "queries": len(queries),
        "k": options.k,
        "recall": options.recall,
        "libraries": [{"name": library.name, "version": library.version} for library in libraries],
        "cases": cases,
    }
    Path(options.output).write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
