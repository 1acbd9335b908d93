"""python -m benchmarks.vamana.stated_recall: does a graph find what it says it finds?

Twenty sets of rows and queries: generated ones of several kinds (distributions, element types, metrics, sizes), and SIFT
descriptors of photographs, once with queries of the same photographs and once of others. Every graph is built, searched
to the recall asked for, and compared with exact answers for queries that it has not seen; queries of another
distribution than the rows go by a tuning that kith tune made from others of their kind. A set holds where the recall
found is at most 0.01 below the one asked for; its interval covers where the recall found lies within the one that was
stated for the list. Keeps benchmarks/results/stated-recall.json.
Needs build/bin/kith.
"""

import argparse
import datetime
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from benchmarks.datasets import ensure
from benchmarks.run import commit, cpu_name

from .data import photos

ROOT = Path(__file__).resolve().parents[2]
KITH = os.environ.get("KITH", ROOT / "build/bin/kith")
ASKED = (0.9, 0.95, 0.99)
MAIN = 0.95
K = 10
QUERIES = 30_000  # of the photographs there are 10,000
TUNED_BY = 2_000


@dataclass(frozen=True)
class Set:
    """Rows and queries: `kind` and `options` of kith generate; `other`, where queries are of another kind."""

    name: str
    kind: str
    rows: int
    dim: int
    metric: str = "sqeuclidean"
    dtype: str = "f32"
    options: tuple = ()
    other: tuple = field(default=())


def low(intrinsic):
    return ("--intrinsic-dim", intrinsic)


SETS = (
    Set("low-16", "low_intrinsic_dimension", 20_000, 96, options=low(16)),
    Set("low-10-f16", "low_intrinsic_dimension", 30_000, 64, "euclidean", "f16", low(10)),
    Set("low-24-u8", "low_intrinsic_dimension", 20_000, 96, dtype="u8", options=low(24)),
    Set("low-12-cosine", "low_intrinsic_dimension", 20_000, 48, "cosine", options=low(12)),
    Set("low-8-product", "low_intrinsic_dimension", 20_000, 32, "inner_product", options=low(8)),
    Set("low-16-100k", "low_intrinsic_dimension", 100_000, 64, options=low(16)),
    Set("clusters-64", "clusters", 20_000, 64),
    Set("clusters-64-u8", "clusters", 50_000, 64, dtype="u8"),
    Set("clusters-48-cosine", "clusters", 20_000, 48, "cosine"),
    Set("gaussian-16", "gaussian", 30_000, 16, "euclidean"),
    Set("gaussian-24-i8", "gaussian", 20_000, 24, dtype="i8"),
    Set("gaussian-20-f64", "gaussian", 20_000, 20, dtype="f64"),
    Set("gaussian-16-product", "gaussian", 20_000, 16, "inner_product"),
    Set("uniform-12", "uniform", 20_000, 12, "euclidean"),
    Set("sift-photos", "sift-photos", 50_000, 128, dtype="u8"),
    Set("low-16, gaussian queries", "low_intrinsic_dimension", 20_000, 32, options=low(16), other=("gaussian",)),
    Set("clusters, uniform queries", "clusters", 20_000, 24, other=("uniform",)),
    Set(
        "low-10, noisy queries",
        "low_intrinsic_dimension",
        20_000,
        48,
        options=low(10),
        other=("low_intrinsic_dimension", *low(10), "--noise", 0.5),
    ),
    Set("gaussian product, clustered queries", "gaussian", 20_000, 16, "inner_product", other=("clusters",)),
    Set("some photos, queries of all", "sift-photos", 50_000, 128, dtype="u8", other=("all photos",)),
)


def kith(*arguments):
    """What a command says as JSON, or nothing for one that says nothing."""
    line = [str(word) for word in (KITH, *arguments)]
    ran = subprocess.run(line, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return json.loads(ran.stdout) if ran.stdout.strip().startswith(b"{") else None


def make(its, folder):
    """Paths of rows, queries, and queries to tune by (None for queries like the rows)."""
    rows, queries, tuning = (folder / f"{part}.npy" for part in ("rows", "queries", "tuning"))
    if its.kind == "sift-photos":
        if not its.other:  # rows of all photographs, as the queries are
            base, asked = photos(np.uint8)(its.rows, 10_000, print)
            np.save(rows, base)
            np.save(queries, asked)
            return rows, queries, None
        files = ensure("sift-photos")
        np.save(rows, np.load(files["base"], mmap_mode="r")[: its.rows])  # of the first photographs
        asked = np.load(files["queries"])
        np.save(tuning, asked[:TUNED_BY])
        np.save(queries, asked[TUNED_BY:])
        return rows, queries, tuning

    # Sets with one seed would be made from the same random numbers, and their samples err together.
    seed = 1 + SETS.index(its)

    def generate(kind, first, count, path, options):
        words = ("-n", count, "-d", its.dim, "--dtype", its.dtype, "--seed", seed, "--first-row", first)
        kith("generate", kind, *words, *options, "-o", path)

    generate(its.kind, 0, its.rows, rows, its.options)
    if not its.other:
        generate(its.kind, its.rows, QUERIES, queries, its.options)
        return rows, queries, None
    kind, *options = its.other
    generate(kind, its.rows, QUERIES, queries, options)
    generate(kind, its.rows + QUERIES, TUNED_BY, tuning, options)
    return rows, queries, tuning


def measure(its, folder):
    rows, queries, tuning = make(its, folder)
    graph, truth, answer = (folder / name for name in ("graph.kith", "truth", "answer"))
    built = kith("build", rows, "-o", graph, "--index", "vamana", "--metric", its.metric, "--json")
    points = built["recall_curve"]["points"]
    result = {"name": its.name, "rows": its.rows, "dim": its.dim, "dtype": its.dtype, "metric": its.metric}
    result["queries_are_rows_kind"] = not its.other
    if tuning is not None:
        tuned = kith("tune", graph, tuning, "-k", K, "-o", folder / "tune.json", "--json")
        points, result["named_other"] = tuned["points"], tuned["distribution"]["other"]
    kith("search", graph, queries, "-k", K, "--recall", 1, "-o", truth)
    result["asked"] = []
    for asked in ASKED:
        by = ("--tune", folder / "tune.json") if tuning is not None else ()
        said = kith("search", graph, queries, "-k", K, "--recall", asked, *by, "-o", answer, "--json")["statistics"]
        found = kith("evaluate", answer, truth, "--json")["recall_with_ties"]
        one = {"recall": asked, "found": found, "exact": said["certified"], "holds": found >= asked - 0.01}
        if not said["certified"]:
            point = next(p for p in points if p["k"] == K and p["list_size"] == said["list_size"])
            lower, upper = point["lower"], point["upper"]
            one |= {"list_size": said["list_size"], "stated": point["recall"], "interval": [lower, upper]}
        one["covers"] = said["certified"] or lower <= found <= upper
        result["asked"].append(one)
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="*", help="names of sets; default all")
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "benchmarks/results/stated-recall.json")
    options = parser.parse_args()
    results = []
    for its in SETS:
        if options.sets and its.name not in options.sets:
            continue
        with tempfile.TemporaryDirectory(prefix="kith-recall-") as folder:
            results.append(measure(its, Path(folder)))
        for one in results[-1]["asked"]:
            words = "exactly" if one["exact"] else f"{one['stated']:.4f} {one['interval']} with {one['list_size']}"
            print(f"{its.name:36} {one['recall']} {one['found']:.4f} {words} {one['covers']}", file=sys.stderr)
    summary = {}
    for asked in ASKED:
        ones = [one for result in results for one in result["asked"] if one["recall"] == asked]
        summary[str(asked)] = {what: sum(one[what] for one in ones) for what in ("holds", "covers")} | {"of": len(ones)}
    report = {
        "kind": "stated recall",
        "date": datetime.date.today().isoformat(),
        "commit": commit(),
        "command": "python -m benchmarks.vamana.stated_recall",
        "machine": {"cpu": cpu_name()},
        "k": K,
        "main": MAIN,
        "summary": summary,
        "results": results,
    }
    options.output.write_text(json.dumps(report, indent=1) + "\n")
    print(json.dumps(summary), file=sys.stderr)


if __name__ == "__main__":
    main()
