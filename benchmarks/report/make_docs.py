"""Makes docs/benchmarks.md from the results: `python -m benchmarks.report` (--check: only compare)."""

import json
from pathlib import Path

from benchmarks.cases import CASES
from benchmarks.run import PEERS_SETS

from . import graphs
from .auto_choice import render_auto_choice
from .crossover import render_crossover
from .directions import render_directions
from .filters import render_filters
from .gpu import render_gpu
from .gpu_data import render_gpu_data
from .gpu_graphs import render_gpu_graphs
from .sweep import render_sweep
from .text import duration, figure, mebibytes, table
from .tiles import render_tiles
from .trees import render_trees
from .trees_gpu import render_trees_gpu

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks/results"
DOCUMENT = ROOT / "docs/benchmarks.md"

HEAD = """# Benchmarks

<!-- Made by `python -m benchmarks.report` from benchmarks/results/*.json; change those, not this file. -->

Kith beside its peers. First brute force, all of them looking at every row; then [trees](#trees), [GPUs](#gpu) and
[clouds larger than memory](#clouds-larger-than-memory).
Each comparison is one run of `kith bench`: Kith and
the peers work on the same files with the same number of threads and take turns, so that a slow moment of
the machine hits all alike. One search is not timed, then the median of the repeats counts; loading and
building are not part of it. *Ratio* is how many times longer the peer took than Kith. Kith's answers are
exact by its [contract](exact-contract.md); *recall* is the share of them the peer found, *same lists* the
share of queries for which it found the same rows in the same order.
"""

FOOT = """## Measure it yourself

```sh
make bench                                        # brute force: datasets, peers, all cases, this page
make bench-trees                                  # the trees
make bench-tiles                                  # clouds larger than memory, beside Open3D
build/venv/bin/python -m benchmarks.vamana --dataset sift-photos-u8                # graphs; --help says what peers need
python3 benchmarks/vamana/gpu.py CASE... -o FILE                                   # graphs on a GPU; wants torch, and cuVS
build/venv-peers/bin/python -m benchmarks.vamana.crossover -o FILE                 # graphs or exact search; wants the package
build/venv-peers/bin/python -m benchmarks.vamana.filters -o FILE                   # graphs, some of the rows; wants hnswlib
build/venv-peers/bin/python -m benchmarks.trees.run uniform coast                  # some cases of them
build/venv-peers/bin/python -m benchmarks.run single-query-1m-128                  # one case
build/venv-peers/bin/python -m benchmarks.run --set avx2                           # all of them, Kith and peers on AVX2
PYTHONPATH=build/python build/venv-peers/bin/python benchmarks/brute_force/auto_choice.py FILE  # auto or a fixed choice
build/venv-peers/bin/python -m benchmarks.peers.exactness CLOUD.pcd
build/venv-peers/bin/python -m benchmarks.report                                   # this page
```

The datasets are made on first use and kept in `~/.cache/kith/datasets` (`python -m benchmarks.datasets --help`
lists them, and the Debian packages they need). `kith bench --help` explains how to measure anything else.
"""


def setting(result):
    """What was measured where, in one line."""
    data, machine = result["data"], result["machine"]
    lines = [
        f"{data['rows']:,} x {data['dim']} {data['dtype']}, {data['queries']:,} queries",
        f"{machine['cpu']}, {machine['cores']} cores ({machine['instruction_sets'].split()[0]})",
        f"Kith {result['kith']} ({result['labels'].get('commit', 'unknown')}), {result['date'][:10]}",
    ]
    return "; ".join(lines) + "."


def render_run(run, queries):
    """The table of one combination, and a line on what the search did."""
    statistics, memory = run["statistics"], run["memory"]
    latency = run["batch"] == 1
    head = ["", "one query" if latency else "median", "queries/s", "ratio", "recall", "same lists", "building"]
    rows = [head]

    def row(name, r, *quality):
        time = r["median_call_seconds"] if latency else r["median_seconds"]
        rows.append([name, duration(time), figure(r["queries_per_second"]), *quality, duration(r["build_seconds"])])

    row("**Kith**", run, "1", "exact", "")
    for peer in run["peers"]:
        same = f"{100 * peer['exact_queries'] / max(1, queries):.1f} %"
        row(f"{peer['name']} {peer['version']}", peer, f"**{figure(peer['ratio'])}**", f"{peer['recall']:.4f}", same)
    kernels = f" on {statistics['instruction_set']}" if statistics["instruction_set"] else ""
    beyond = memory["beyond_data_and_codes_bytes"]
    notes = (
        f"k = {run['k']}, {run['metric']}, {run['threads']} threads, {len(run['seconds'])} repeats. "
        f"Filter {statistics['filter']}{kernels}: {figure(run['candidates_per_query'])} candidates a query of "
        f"{figure(statistics['pairs'] / max(1, queries))} rows, {statistics['fallbacks']} fallbacks. "
        f"Memory: data {mebibytes(memory['data_bytes'])}, codes {mebibytes(memory['codes_bytes'])}, "
        f"peak {mebibytes(memory['peak_bytes'])}, that is {mebibytes(beyond)} beyond data and codes."
    )
    return f"{table(rows)}\n\n{notes}\n"


def render_runs(result):
    return [f"{setting(result)}\n", *(render_run(run, result["data"]["queries"]) for run in result["runs"])]


def render_case(name, results):
    """A case: its result and those of single instruction sets, whichever there are; None without any."""
    paths = {which: results / f"{name}-{which}.json" for which in PEERS_SETS}
    held = {which: json.loads(path.read_text()) for which, path in paths.items() if path.is_file()}
    own = results / f"{name}.json"
    if not held and not own.is_file():
        return None
    parts = [f"## {CASES[name].title}\n", f"{CASES[name].text}\n"]
    if own.is_file():
        parts += render_runs(json.loads(own.read_text()))
    for which, result in held.items():
        parts += [
            f"Kith on {which}, the peers held to such instructions ({result['labels']['peers']}), which the BLAS in faiss's package "
            "does not find on processors newer than itself:\n"
        ]
        parts += render_runs(result)
    return "\n".join(parts)


def render_exactness(result):
    rows = [["", "queries a call", "recall@" + str(result["k"]), "distances of 0 or less that are not 0"]]
    rows.append(["**Kith**", "any", f"{result['kith_recall']:.4f}", "none"])
    for peer in result["peers"]:
        rows.append([
            f"{peer['name']} {peer['version']}", f"{peer['batch']:,}", f"{peer['recall']:.4f}",
            f"{100 * peer['nonpositive_share']:.1f} %",
        ])  # fmt: skip
    return (
        f"## Exactness: {result['cloud']}\n\n{result['text']}\n\n"
        f"{result['rows']:,} points {result['dtype']}, {result['queries']:,} of them as queries, k = {result['k']}. "
        f"Kith's answer was compared with plain NumPy in float64 for {result['oracle_queries']} of the queries, and "
        f"its bits for {' and '.join(map(str, result['kith_threads']))} threads and batches of "
        f"{', '.join(map(str, result['kith_batches']))}. Expanded in float32, {100 * result['expansion_negative_share']:.1f} % "
        f"of the true squared distances come out negative.\n\n{table(rows)}\n"
    )


def render(results=RESULTS):
    """The text of docs/benchmarks.md."""
    parts = [HEAD]
    parts += filter(None, (render_case(name, results) for name in CASES))
    for path in sorted(results.glob("exactness-*.json")):
        parts.append(render_exactness(json.loads(path.read_text())))
    parts += [graphs.INTRODUCTION] if graphs.files(results) else []
    parts += [graphs.render_graphs(path, json.loads(path.read_text())) for path in graphs.files(results)]
    makers = {"trees": render_trees, "gpu": render_gpu, "gpu_data": render_gpu_data, "sweep": render_sweep,
              "directions": render_directions, "auto_choice": render_auto_choice, "trees_gpu": render_trees_gpu,
              "filters": render_filters, "graph_crossover": render_crossover, "vamana_gpu": render_gpu_graphs}  # fmt: skip
    others = [json.loads(path.read_text()) for path in sorted(results.glob("*.json"))]
    for kind, make in makers.items():
        parts += [make(result) for result in others if result.get("kind") == kind]
    parts += [text] if (text := render_tiles(others)) else []
    return "\n".join([*parts, FOOT])
