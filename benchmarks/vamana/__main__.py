"""python -m benchmarks.vamana BASE.npy QUERIES.npy: graphs of three libraries over the same rows, in one process.

Each library builds once. Then, in turns, every list size (ef) of every library answers all queries, `--repeats` times;
the best of each counts, so that what else the machine does falls on all alike. Recall@k is checked against exact
answers. `--mixture N,D` makes rows in place of files: unit vectors around centres whose spread decays over a rotated basis,
like embeddings. Needs kith, hnswlib and faiss-cpu; a library that is not there is left out and named.
"""

import argparse
import json
import platform
import subprocess
import sys
import time
from datetime import datetime, timezone
from pathlib import Path

import kith
import numpy as np

LISTS = (10, 12, 16, 20, 24, 32, 40, 48, 64, 96, 128, 192, 256, 384, 512)
TARGETS = (0.90, 0.95, 0.99)


def mixture(rows, dim, queries, seed=7):
    """(base, queries), unit vectors: 1,000 gaussian clusters in a latent basis with decaying variances, rotated."""
    random = np.random.default_rng(seed)
    scale = np.exp(-np.arange(dim) / (2 * 40)).astype(np.float32)
    turn = np.linalg.qr(random.standard_normal((dim, dim)))[0].astype(np.float32)
    centres = random.standard_normal((1000, dim)).astype(np.float32) * 0.6
    labels = random.integers(0, 1000, rows + queries)
    values = (centres[labels] + random.standard_normal((rows + queries, dim), dtype=np.float32)) * scale @ turn
    values /= np.linalg.norm(values, axis=1, keepdims=True)
    return values[:rows], values[rows:]


class Kith:
    name = "kith Vamana"
    version = kith.__version__

    def __init__(self, base, arguments):
        self.threads = arguments.threads
        self.index = kith.Vamana(
            base, max_degree=arguments.max_degree, build_list_size=arguments.build_list_size, threads=self.threads
        )
        self.parameters = {"max_degree": arguments.max_degree, "build_list_size": arguments.build_list_size}
        self.bytes = self.index.memory_bytes

    def search(self, queries, k, size):
        return self.index.search(queries, k, list_size=size, threads=self.threads).indices


class Hnswlib:
    name = "hnswlib"

    def __init__(self, base, arguments):
        import hnswlib

        self.version = getattr(hnswlib, "__version__", "")
        self.threads = arguments.threads
        self.index = hnswlib.Index("l2", base.shape[1])
        self.index.init_index(len(base), M=arguments.m, ef_construction=arguments.ef_construction)
        self.index.set_num_threads(self.threads)
        self.index.add_items(base.astype(np.float32, copy=False))
        self.parameters = {"M": arguments.m, "ef_construction": arguments.ef_construction}
        self.bytes = self.index.index_file_size()

    def search(self, queries, k, size):
        self.index.set_ef(max(size, k))
        return self.index.knn_query(queries.astype(np.float32, copy=False), k, num_threads=self.threads)[0]


class FaissHnsw:
    name = "faiss HNSW"

    def __init__(self, base, arguments):
        import faiss

        self.version = faiss.__version__
        faiss.omp_set_num_threads(arguments.threads)
        self.index = faiss.IndexHNSWFlat(base.shape[1], arguments.m)
        self.index.hnsw.efConstruction = arguments.ef_construction
        self.index.add(base.astype(np.float32, copy=False))
        self.parameters = {"M": arguments.m, "efConstruction": arguments.ef_construction}
        self.bytes = None

    def search(self, queries, k, size):
        self.index.hnsw.efSearch = max(size, k)
        return self.index.search(queries.astype(np.float32, copy=False), k)[1]


LIBRARIES = {"kith": Kith, "hnswlib": Hnswlib, "faiss": FaissHnsw}


def recall_of(found, truth):
    return float(np.mean([len(np.intersect1d(a, b)) for a, b in zip(found, truth, strict=True)]) / truth.shape[1])


def at_recall(points, target):
    """Queries a second where the curve crosses a recall, between two measured points; None where it never does."""
    points = sorted(points, key=lambda point: point["list"])
    for before, after in zip([None, *points], points, strict=False):
        if after["recall"] < target:
            continue
        if before is None:
            return after["qps"]
        share = (target - before["recall"]) / max(after["recall"] - before["recall"], 1e-12)
        return float(np.exp(np.log(before["qps"]) * (1 - share) + np.log(after["qps"]) * share))
    return None


def cpu_name():
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor()


def measure(base, queries, arguments, log):
    truth = kith.knn(base, queries, arguments.k, threads=arguments.threads).indices
    built = {}
    for name in arguments.libraries:
        started = time.perf_counter()
        try:
            library = LIBRARIES[name](base, arguments)
        except ModuleNotFoundError as error:
            log(f"{name} is left out: {error}")
            continue
        built[name] = (library, time.perf_counter() - started)
        log(f"{library.name} {library.version}: built in {built[name][1]:.1f} s")
    points = {name: {} for name in built}
    for _ in range(arguments.repeats):
        for size in LISTS:
            if size < arguments.k:
                continue
            for name, (library, _seconds) in built.items():
                point = points[name].setdefault(size, {"list": size, "qps": 0.0})
                if point.get("recall", 0) > 0.9995:
                    continue
                started = time.perf_counter()
                found = library.search(queries, arguments.k, size)
                point["qps"] = max(point["qps"], len(queries) / (time.perf_counter() - started))
                point["recall"] = recall_of(found, truth)
    return [
        {
            "name": library.name,
            "version": library.version,
            "parameters": library.parameters,
            "build_s": round(seconds, 2),
            "bytes": library.bytes,
            "points": list(points[name].values()),
            "qps_at": {str(target): at_recall(points[name].values(), target) for target in TARGETS},
        }
        for name, (library, seconds) in built.items()
    ]


def main():
    parser = argparse.ArgumentParser(prog="python -m benchmarks.vamana", description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", metavar="FILE", help="BASE.npy QUERIES.npy")
    parser.add_argument("--mixture", metavar="N,D", help="make N rows of D dimensions in place of files")
    parser.add_argument("--rows", type=int, help="only the first rows")
    parser.add_argument("--float", action="store_true", help="rows as float32, whatever they are")
    parser.add_argument("-k", type=int, default=10)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--max-degree", type=int, default=32)
    parser.add_argument("--build-list-size", type=int, default=128)
    parser.add_argument("--m", type=int, default=32, help="of HNSW")
    parser.add_argument("--ef-construction", type=int, default=200)
    parser.add_argument("--libraries", nargs="+", choices=LIBRARIES, default=list(LIBRARIES))
    parser.add_argument("-o", "--output", metavar="FILE", help="write the result there as JSON")
    arguments = parser.parse_args()
    if arguments.mixture:
        rows, dim = map(int, arguments.mixture.split(","))
        base, queries = mixture(rows, dim, 1000)
    elif len(arguments.files) == 2:
        base, queries = (np.load(file, mmap_mode="r") for file in arguments.files)
        base = np.ascontiguousarray(base[: arguments.rows])
        queries = np.ascontiguousarray(queries)
    else:
        parser.error("give BASE.npy and QUERIES.npy, or --mixture")
    if arguments.float:
        base, queries = base.astype(np.float32), queries.astype(np.float32)

    def log(text):
        print(text, file=sys.stderr, flush=True)

    libraries = measure(base, queries, arguments, log)
    for library in libraries:
        figures = ", ".join(f"{t}: {v:,.0f}" if v else f"{t}: -" for t, v in library["qps_at"].items())
        print(f"{library['name']:12} build {library['build_s']:8.1f} s   queries/s at recall {figures}")
    if arguments.output:
        commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
        result = {
            "kind": "vamana",
            "date": datetime.now(timezone.utc).strftime("%Y-%m-%d"),
            "commit": commit,
            "cpu": cpu_name(),
            "command": "python -m benchmarks.vamana " + " ".join(Path(a).name if "/" in a else a for a in sys.argv[1:]),
            "rows": len(base),
            "dim": base.shape[1],
            "dtype": str(base.dtype),
            "queries": len(queries),
            "k": arguments.k,
            "threads": arguments.threads,
            "libraries": libraries,
        }
        Path(arguments.output).write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
