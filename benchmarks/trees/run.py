"""python -m benchmarks.trees.run [CASE...]: measures the trees and keeps benchmarks/results/trees-cpu.json.

With --set SET Kith runs on that instruction set, and trees-cpu-SET.json is kept; nanoflann stays compiled for the
processor.
Needs build/bin/tree_bench and build/bin/kith, and a virtual environment with benchmarks/requirements.txt for the
Python peers (`make bench-trees` sees to all of it). Run it with nothing else running. Cases that are not named keep
their figures. Afterwards `python -m benchmarks.report` writes docs/benchmarks.md anew.
"""

import argparse
import datetime
import json
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from benchmarks.run import PEERS_SETS, commit, environment

from .cases import SWEEP_K, SWEEP_SIZES, TREE_CASES, seeded

ROOT = Path(__file__).resolve().parents[2]
SWEEP, CROSSOVER = "leaf-sizes", "crossover"


def bench_line(program, rows, queries, case, options, kth, output):
    line = [program, rows, "-k", ",".join(map(str, case.k)), "--seconds", case.seconds, "--limit", case.limit]
    line += ["--threads", options.threads, "--repeats", options.repeats, "--kth-distances", kth, "-o", output]
    return [str(word) for word in line + ([] if queries is None else ["--queries", queries])]


def peer_line(name, rows, queries, case, options, threads, kth):
    line = [sys.executable, "-m", "benchmarks.trees.peers", name, rows, "-k", ",".join(map(str, case.k))]
    line += ["--threads", threads, "--repeats", options.repeats, "--seconds", case.seconds, "--kth-distances", kth]
    return [str(word) for word in line + ([] if queries is None else ["--queries", queries])]


def run_peer(line, limit):
    """What the peer said of itself, with "runs"; "gave_up" is the limit when a task took longer."""
    process = subprocess.Popen(line, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    about, runs, gave_up = None, [], False

    def stop():
        nonlocal gave_up
        gave_up = True
        process.kill()

    while True:
        # A task may be repeated; the limit is for the first time.
        timer = threading.Timer(limit, stop)
        timer.start()
        said = process.stdout.readline()
        timer.cancel()
        if not said:
            break
        value = json.loads(said)
        if about is None:
            about = value
        else:
            runs.append(value)
            label = f"{value['task']} k={value['k']}" if "k" in value else value["task"]
            print(f"{label:14} {about['name']:10} {value['median_seconds'] * 1e3:20.2f} ms"
                  f"  {value.get('differing')} differ", file=sys.stderr, flush=True)  # fmt: skip
    if process.wait() != 0 and not gave_up:
        sys.exit(f"error: {' '.join(line)} failed")
    return {**(about or {}), "runs": runs, **({"gave_up": limit} if gave_up else {})}


def run_case(name, options):
    case = TREE_CASES[name]
    rows, queries = case.files(options.kith)
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "result.json"
        line = bench_line(options.tree_bench, rows, queries, case, options, folder, output)
        subprocess.run(line, check=True, env=environment(options.set))
        result = json.loads(output.read_text())
        if options.set:
            result["machine"]["instruction_sets"] = options.set
        wanted = case.peers if options.peers is None else tuple(p for p in options.peers.split(",") if p)
        result["peers"] = [
            run_peer(
                peer_line(peer, rows, queries, case, options, result["threads"], folder),
                max(case.limit, 3 * case.seconds),
            )
            for peer in wanted
        ]
    return result


def run_sweep(options):
    rows, queries = seeded("uniform")(options.kith)
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "result.json"
        line = [options.tree_bench, rows, "--queries", queries, "-k", ",".join(map(str, SWEEP_K)), "-o", output]
        line += ["--leaf-sizes", ",".join(map(str, SWEEP_SIZES)), "--nanoflann-leaf-sizes", "0"]
        line += ["--threads", options.threads, "--repeats", options.repeats]
        subprocess.run([str(word) for word in line], check=True)
        return json.loads(output.read_text())


def run_crossover(options):
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "result.json"
        line = [options.crossover, "--threads", options.threads, "-o", output]
        subprocess.run([str(word) for word in line], check=True)
        return json.loads(output.read_text())


def stamp(measure, options):
    """What `measure` says, and when, at which commit, and beside how much other work (the load) it was measured."""
    load = os.getloadavg()[0]
    result = measure(options)
    now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    return {"commit": commit(), "date": now, "load": round(load, 1), **result}


def main():
    listing = "\n".join(f"  {name:17} {case.title}" for name, case in TREE_CASES.items())
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.trees.run",
        description="Measures Kith's trees beside nanoflann, SciPy and pykdtree.",
        epilog=f"cases:\n{listing}\n  {SWEEP:17} Kith's trees by leaf size\n"
        f"  {CROSSOVER:17} brute force beside the k-d tree, for choose_index",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("case", nargs="*", metavar="CASE", help="default: all")
    parser.add_argument("--kith", type=Path, default=ROOT / "build/bin/kith")
    parser.add_argument("--tree-bench", type=Path, default=ROOT / "build/bin/tree_bench")
    parser.add_argument("--crossover", type=Path, default=ROOT / "build/bin/tree_crossover")
    parser.add_argument("--set", choices=PEERS_SETS, help="instruction set that Kith is held to")
    parser.add_argument("--out", type=Path, help="default benchmarks/results/trees-cpu.json, or trees-cpu-SET.json")
    parser.add_argument("--peers", help="peers in place of each case's own: scipy,pykdtree; none: ''")
    parser.add_argument("--threads", type=int, default=0, help="threads of all (default: one per core)")
    parser.add_argument("--repeats", type=int, default=5, help="at most so many a task (default 5)")
    options = parser.parse_args()
    # The leaf sizes and where a tree pays are those of the processor's best set.
    names = options.case or [*TREE_CASES, *([] if options.set else [SWEEP, CROSSOVER])]
    if options.set and {SWEEP, CROSSOVER} & set(names):
        parser.error(f"--set {options.set}: {SWEEP} and {CROSSOVER} are measured without it")
    if options.out is None:
        options.out = ROOT / f"benchmarks/results/trees-cpu{f'-{options.set}' if options.set else ''}.json"
    known = {*TREE_CASES, SWEEP, CROSSOVER}
    if unknown := [name for name in names if name not in known]:
        parser.error(f"there is no case '{unknown[0]}'; there are: {', '.join([*TREE_CASES, SWEEP, CROSSOVER])}")
    if (load := os.getloadavg()[0]) > 0.5:
        print(f"warning: the load is {load:.1f}; other work on this machine blurs the figures", file=sys.stderr)
    kept = json.loads(options.out.read_text()) if options.out.is_file() else {"kind": "trees", "cases": {}}
    if options.set:
        kept["set"] = options.set
    for name in names:
        print(f"\n== {name}", file=sys.stderr, flush=True)
        if name == SWEEP:
            kept["leaf_sizes"] = stamp(run_sweep, options)
        elif name == CROSSOVER:
            kept["crossover"] = stamp(run_crossover, options)
        else:
            kept["cases"][name] = stamp(lambda given, name=name: run_case(name, given), options)
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    main()
