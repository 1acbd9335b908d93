"""The curve of docs/adapters.md: ann-benchmarks' own runner over Kith, hnswlib and faiss on the same file.

python -m benchmarks.adapters.curve CHECKOUT BASE QUERIES runs it (no Docker: run.py --local), writes
benchmarks/results/adapters-ann-benchmarks.json and draws docs/images/adapters-ann-benchmarks.svg; without arguments it only draws.
Needs the package kith, hnswlib, faiss-cpu, h5py, docker (the client), psutil, ansicolors and, to draw, matplotlib.
"""

import argparse
import datetime
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

from benchmarks.adapters import hdf5, install
from benchmarks.run import commit
from benchmarks.sharded.__main__ import cpu_name

ROOT = pathlib.Path(__file__).resolve().parents[2]
RESULT = ROOT / "benchmarks/results/adapters-ann-benchmarks.json"
PICTURE = ROOT / "docs/images/adapters-ann-benchmarks.svg"
PAGE = ROOT / "docs/adapters.md"
DATASET = "sift-128-euclidean"  # a name that the runner knows; the file in its place is ours
LISTS = [10, 15, 20, 30, 40, 60, 80, 120, 200, 400]
#: One group each; the peers' are the adapters that ann-benchmarks has.
GROUPS = {
    "kith": ("kith", "KithVamana", [{"max_degree": 64, "build_list_size": 128}], LISTS),
    "kith-exact": ("kith", "KithExact", None, None),
    "hnswlib": ("hnswlib", "HnswLib", [{"M": 16, "efConstruction": 200}], LISTS),
    "hnsw(faiss)": ("faiss_hnsw", "FaissHNSW", [{"M": 16, "efConstruction": 200}], LISTS),
}


def write_definitions(folder):
    for name, (module, constructor, built, asked) in GROUPS.items():
        group = {"args": {}, "arg_groups": built, "query_args": [asked]} if built else {"args": []}
        entry = {
            "base_args": ["@metric"], "constructor": constructor, "disabled": False, "docker_tag": "none", "name": name,
            "module": f"ann_benchmarks.algorithms.{module}", "run_groups": {"group": group},
        }  # fmt: skip
        place = folder / re.sub(r"\W", "_", name)
        place.mkdir(parents=True, exist_ok=True)
        (place / "config.yml").write_text(json.dumps({"float": {"any": [entry]}}))  # YAML, as all JSON is


def measure(checkout, base, queries, k=10):
    import kith

    checkout = pathlib.Path(checkout).resolve()
    install.install("ann-benchmarks", checkout)
    (checkout / "data").mkdir(exist_ok=True)
    rows, asked = kith.read(base), kith.read(queries)
    hdf5.write(rows, asked, checkout / f"data/{DATASET}.hdf5")
    write_definitions(checkout / "kith-definitions")
    for name in GROUPS:  # one a process, in turn: none is left running beside the next
        run_one(checkout, name, k)
    return {
        "format": "kith-adapters",
        "command": "python -m benchmarks.adapters.curve CHECKOUT base.npy queries.npy",
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "kith": kith.__version__, "commit": commit(),
        "ann_benchmarks": subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=checkout, check=True, capture_output=True, text=True).stdout.strip(),
        "machine": {"cpu": cpu_name(), "cores": len(os.sched_getaffinity(0)), "load": os.getloadavg()[0]},
        "data": {"rows": len(rows), "dim": rows.shape[1], "queries": len(asked), "k": k},
        "runs": read_results(checkout, k),
    }  # fmt: skip


def run_one(checkout, name, k):
    """The runner's worker now and then ends before its queue has been filled, and reports success: then once more."""
    made = checkout / f"results/{DATASET}/{k}/{name}"
    shutil.rmtree(made, ignore_errors=True)
    for _ in range(10):
        subprocess.run(
            [sys.executable, "run.py", "--local", "--force", "--runs", "1", "-k", str(k), "--dataset", DATASET]
            + ["--definitions", "kith-definitions", "--algorithm", name],
            cwd=checkout, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        if len(list(made.glob("*.hdf5"))) == len(GROUPS[name][3] or [None]):
            return
    raise SystemExit(f"ann-benchmarks' runner gave no results of {name}; run it by hand in {checkout}")


def read_results(checkout, k):
    """Recall as ann-benchmarks counts it: answers no farther than the k-th true one, and a thousandth."""
    import h5py
    import numpy as np

    with h5py.File(checkout / f"data/{DATASET}.hdf5") as file:
        limit = file["distances"][:, k - 1 : k] + 1e-3
    runs = []
    for name in GROUPS:
        for path in sorted((checkout / f"results/{DATASET}/{k}/{name}").glob("*.hdf5")):
            with h5py.File(path) as file:
                recall = float(np.mean(np.sum(file["distances"][:, :k] <= limit, axis=1) / k))
                runs.append(
                    {"algorithm": name, "name": file.attrs["name"], "recall": recall, "build_seconds": float(file.attrs["build_time"]),
                     "queries_per_second": 1 / float(file.attrs["best_search_time"])}
                )  # fmt: skip
    return runs


def pareto(runs):
    """Of one algorithm, those that no other beats in both, by recall."""
    best, kept = 0.0, []
    for run in sorted(runs, key=lambda run: (-run["recall"], -run["queries_per_second"])):
        if run["queries_per_second"] > best:
            best = run["queries_per_second"]
            kept.append(run)
    return kept[::-1]


def draw(result):
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.hashsalt": "kith", "svg.fonttype": "none", "font.size": 10})
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4.4), layout="constrained")
    for name, mark in zip(GROUPS, "o*sD", strict=True):
        front = pareto([run for run in result["runs"] if run["algorithm"] == name])
        axes.plot(
            [r["recall"] for r in front],
            [r["queries_per_second"] for r in front],
            marker=mark,
            label=name,
            markersize=5 if mark != "*" else 12,
        )
    data = result["data"]
    axes.set(yscale="log", xlabel=f"recall of {data['k']}", ylabel="queries a second, one thread")
    axes.set_title(f"ann-benchmarks: {data['rows']:,} SIFT descriptors of {data['dim']}", loc="left", fontsize=10)
    axes.grid(alpha=0.3, which="both")
    axes.legend()
    figure.savefig(PICTURE, metadata={"Date": None})


def table(result):
    data, machine = result["data"], result["machine"]
    lines = [
        f"{data['rows']:,} x {data['dim']} float32, {data['queries']:,} queries one at a time, k = {data['k']}; {machine['cpu']}, {machine['cores']} "
        f"cores, load {machine['load']:.1f}; ann-benchmarks {result['ann_benchmarks']}, Kith {result['kith']} ({result['commit']}), {result['date'][:10]}.",
        "", "| | build | queries/s at recall 0.90 | 0.95 | 0.99 | 1.00 |", "|---|--:|--:|--:|--:|--:|",
    ]  # fmt: skip
    for name in GROUPS:
        runs = [run for run in result["runs"] if run["algorithm"] == name]
        cells = []
        for floor in (0.9, 0.95, 0.99, 0.99995):
            fast = [run["queries_per_second"] for run in runs if run["recall"] >= floor]
            cells.append(f"{max(fast):,.0f}" if fast else "-")
        lines.append(f"| {name} | {runs[0]['build_seconds']:.1f} s | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def write_page(result):
    before, _, rest = PAGE.read_text().partition("<!-- curve -->\n")
    _, _, after = rest.partition("<!-- end of the curve -->")
    PAGE.write_text(f"{before}<!-- curve -->\n{table(result)}\n<!-- end of the curve -->{after}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.adapters.curve", description=__doc__)
    parser.add_argument("what", nargs="*", help="CHECKOUT BASE QUERIES; none: only draw")
    options = parser.parse_args()
    if options.what:
        RESULT.write_text(json.dumps(measure(*options.what), indent=1) + "\n")
    told = json.loads(RESULT.read_text())
    draw(told)
    write_page(told)
    print(table(told))
