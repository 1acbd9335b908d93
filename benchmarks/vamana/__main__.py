"""python -m benchmarks.vamana --dataset NAME: recall against queries a second, Kith's graph beside others, in one run.

Each library works in a process of its own, with the Python of its own virtual environment: PEERS/NAME/bin/python, where
NAME is that of its package. All are built first, one after the other, by the most threads asked for, or --build-threads.
Then they take turns: for each number of threads and each k every library answers all queries with every setting of its
list, as often as fills --seconds, and then the next; that as many times as --repeats says. The best of a setting counts,
so that a slow moment of the machine falls on none alone. Recall is that against exact answers, ties counted as found.
Builds that take hours can be kept (--keep) and used by later runs; --build-only makes them beside other work.
With --one-at-a-time what is there lies in OUTPUT.partial after each library. What fails is named with its error. Run it
with nothing else running; `python -m benchmarks.report` then writes docs/benchmarks.md anew.
"""

import argparse
import contextlib
import datetime
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import numpy as np

from benchmarks.run import commit, cpu_name

from .curve import at_recall
from .data import FOLDER, SETS, prepare
from .libraries import LIBRARIES

ROOT = Path(__file__).resolve().parents[2]
TARGETS = (0.90, 0.95, 0.99)
PEERS = tuple(name for name in LIBRARIES if name != "kith")
QUICK = {"rows": 20_000, "queries": 500, "repeats": 1, "seconds": 0.1}
USUAL = {"rows": 1_000_000, "queries": 2_000, "repeats": 3, "seconds": 0.5}


class Failed(Exception):
    """What a library died of, in a line."""


class Process:
    """A library at work; see worker.py."""

    def __init__(self, name, python, files, options):
        self.name, self.limit = name, options.limit
        line = [python, ROOT / "benchmarks/vamana/worker.py", name, "--threads", options.build_threads]
        line += [f"--{role}={path}" for role, path in files.items()]
        line += ["--k", ",".join(map(str, options.k)), "--seconds", options.seconds, "--enough", options.enough]
        for option in ("max_degree", "build_list_size", "code_bits", "code_dim", "m", "ef_construction"):
            line += [f"--{option.replace('_', '-')}", getattr(options, option)]
        # Threads that wait for work must not take a core from the library whose turn it is.
        environment = {
            **os.environ,
            "OMP_WAIT_POLICY": "passive",
            "OMP_NUM_THREADS": str(max(options.build_threads, *options.threads)),
        }
        if options.keep:
            line += ["--keep", options.keep.resolve()]
        if name == "kith":
            environment["PYTHONPATH"] = os.pathsep.join([str(options.package), *environment.get("PYTHONPATH", "").split(os.pathsep)])  # fmt: skip
        self.errors = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            [str(word) for word in line], cwd=ROOT, env=environment, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors,
        )  # fmt: skip

    def answer(self):
        """The next object it says. @raises Failed"""
        gave_up = threading.Event()

        def stop():
            gave_up.set()
            self.process.kill()

        timer = threading.Timer(self.limit, stop)
        timer.start()
        line = self.process.stdout.readline()
        timer.cancel()
        if not line:
            raise Failed(f"gave up after {self.limit:.0f} s" if gave_up.is_set() else self.last_words())
        value = json.loads(line)
        if "error" in value:
            raise Failed(value["error"])
        return value

    def ask(self, **task):
        try:
            self.process.stdin.write(json.dumps(task) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise Failed(self.last_words()) from None
        return self.answer()

    def last_words(self):
        code = self.process.wait()
        self.errors.seek(0)
        lines = [line for line in self.errors.read().decode(errors="replace").splitlines() if line.strip()]
        how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        # A folder of this machine is nobody else's business.
        return f"{how}: {lines[-1].replace(str(ROOT), '.').rstrip('. ')[-300:] if lines else 'no word'}"

    def close(self):
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        self.errors.close()


def python_of(name, options):
    """The interpreter that has a library. @raises Failed with the remedy"""
    if name == "kith":
        return sys.executable
    package = LIBRARIES[name].package
    for folder in (package, name):
        python = options.peers_folder / folder / "bin/python"
        if python.exists():
            return python
    folder = options.peers_folder / package
    raise Failed(f"no virtual environment: python3 -m venv {package} && {package}/bin/pip install {package} numpy in "
                 f"{folder.parent.name}")  # fmt: skip


def merge(points, more):
    """Of points with the same setting the one with the higher rate."""
    for point in more:
        known = points.setdefault(point["setting"], point)
        if point["queries_per_second"] > known["queries_per_second"]:
            points[point["setting"]] = point


def measure(names, files, options, log):
    """(results of the libraries, what failed) of one group of libraries, which are in memory together."""
    alive, results, failed = {}, {}, []

    def lost(name, error, at=""):
        log(f"  {name} fails{at}: {error}")
        failed.append({"name": LIBRARIES[name].name, "error": f"{error}{at}"})

    try:
        for name in names:
            try:
                process = Process(name, python_of(name, options), files, options)
                alive[name] = process
                results[name] = {**process.answer(), "runs": {}, "stated": []}
                about = results[name]
                log(f"  {about['name']} {about['version']}: built in {about['build_seconds']:.1f} s, "
                    f"{about['memory_bytes'] / 2**20:,.0f} MiB")  # fmt: skip
            except Failed as error:
                lost(name, error)
                if name in alive:
                    alive.pop(name).close()
                results.pop(name, None)
        if options.build_only:
            return results, failed
        refused = set()
        for turn in range(options.repeats):
            for threads in options.threads:
                for k in options.k:
                    for name, process in list(alive.items()):
                        if (name, threads) in refused:
                            continue
                        try:
                            found = process.ask(do="sweep", k=k, threads=threads)["points"]
                            merge(results[name]["runs"].setdefault((threads, k), {}), found)
                            for target in TARGETS if turn == 0 else ():
                                said = process.ask(do="stated", k=k, threads=threads, recall=target)
                                if said:
                                    results[name]["stated"].append(
                                        {"threads": threads, "k": k, "asked": target, **said}
                                    )
                        except Failed as error:
                            lost(name, error, f" ({threads} threads, k = {k})")
                            refused.add((name, threads))
                            if process.process.poll() is not None:
                                alive.pop(name).close()
            log(f"  round {turn + 1} of {options.repeats} done")
    finally:
        for process in alive.values():
            process.close()
    return results, failed


def finished(result):
    """A library's result as the file has it."""
    runs = []
    for (threads, k), points in sorted(result["runs"].items()):
        ordered = sorted(points.values(), key=lambda point: point["setting"])
        runs.append({"threads": threads, "k": k, "points": ordered,
                     "queries_per_second_at": {f"{t:.2f}": at_recall(ordered, t) for t in TARGETS}})  # fmt: skip
    return {**result, "runs": runs}


def exact_answers(options):
    """exact(base, queries, k) by Kith's exact engine, in a process of its own."""

    def exact(base, queries, k):
        with tempfile.TemporaryDirectory() as folder:
            rows, asked, truth = (f"{folder}/{name}.npy" for name in ("rows", "queries", "truth"))
            np.save(rows, base)
            np.save(asked, queries)
            code = "import sys, numpy as n, kith; a, b, c, k = sys.argv[1:]; n.save(c, kith.knn(n.load(a), n.load(b), int(k)).indices)"
            environment = {**os.environ, "PYTHONPATH": str(options.package)}
            subprocess.run([sys.executable, "-c", code, rows, asked, truth, str(k)], check=True, env=environment)
            return np.load(truth)

    return exact


def numbers(text):
    return [int(word) for word in text.split(",")]


def parse():
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.vamana", description=__doc__.split("\n\n")[0],
        epilog="datasets:\n" + "\n".join(f"  {name:17} {rows.text}" for name, rows in SETS.items())
        + f"\npeers: {', '.join(PEERS)}", formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    add = parser.add_argument
    add("--dataset", choices=SETS, required=True)
    add("--rows", type=int, help=f"default {USUAL['rows']:,}")
    add("--queries", type=int, help=f"default {USUAL['queries']:,}")
    add("--threads", type=numbers, default=[1, 2], help="of searches, by commas (default 1,2)")
    add("--build-threads", type=int, help="of builds (default: the most of searches)")
    add("-k", type=numbers, default=[10, 100], help="by commas (default 10,100)")
    add("--peers", default=",".join(PEERS), help="by commas; '' for none (default: all)")
    add("--peers-folder", type=Path, default=ROOT / "build/peers", help="virtual environments (default build/peers)")
    add(
        "--folder", type=Path, default=FOLDER, help="where rows and exact answers are kept (default build/vamana-bench)"
    )
    add(
        "--package",
        type=Path,
        default=ROOT / "build/python",
        help="folder with the package kith (default build/python)",
    )
    add("--repeats", type=int, help=f"rounds (default {USUAL['repeats']})")
    add("--seconds", type=float, help=f"least time a setting and round (default {USUAL['seconds']})")
    add("--enough", type=float, default=0.9995, help="lists grow until so great a recall (default 0.9995)")
    add("--commit", help="what is measured, where there is no repository")
    add("--limit", type=float, default=3600, help="seconds after which a task is given up (default 3600)")
    add("--keep", type=Path, help="folder where builds of peers are kept and found by later runs")
    add("--build-only", action="store_true", help="make what --keep lacks and measure nothing")
    add("--one-at-a-time", action="store_true", help="one library in memory, then the next: where memory is short")
    add("--max-degree", type=int, default=64, help="of Kith, SVS, DiskANN, SymphonyQG (default 64)")
    add("--build-list-size", type=int, default=0, help="of Kith (default 0: chosen by the build)")
    add("--code-bits", type=int, default=0, help="of Kith (default 0: as the data ask)")
    add("--code-dim", type=int, default=0, help="of Kith (default 0: chosen by the build)")
    add("--m", type=int, default=32, help="of HNSW (default 32)")
    add("--ef-construction", type=int, default=200, help="of the peers (default 200)")
    add("--quick", action="store_true", help=f"to try it: {QUICK['rows']:,} rows, few queries, one short round")
    add(
        "-o", "--output", type=Path, help="default benchmarks/results/vamana-DATASET.json; with --quick standard output"
    )
    options = parser.parse_args()
    for name, value in (QUICK if options.quick else USUAL).items():
        if getattr(options, name) is None:
            setattr(options, name, value)
    asked = [name for name in options.peers.split(",") if name]
    if unknown := [name for name in asked if name not in PEERS]:
        parser.error(f"there is no peer '{unknown[0]}'; there are: {', '.join(PEERS)}")
    options.names = ["kith", *asked]
    if options.build_threads is None:
        options.build_threads = max(options.threads)
    if options.build_only and not options.keep:
        parser.error("--build-only wants --keep FOLDER: nothing would be left of what it builds")
    if options.build_threads < 1:
        parser.error(f"--build-threads {options.build_threads}: 1 or more")
    if not max(TARGETS) <= options.enough <= 1:
        parser.error(f"--enough {options.enough:g}: {max(TARGETS)} to 1, so that every rate of the page is found")
    if min(options.k) < 1 or max(options.k) > min(100, options.rows):
        parser.error(f"-k {','.join(map(str, options.k))}: 1 to {min(100, options.rows)}")
    return options


def write(result, options, last):
    """To the file of results, or beside it until all groups are there; to standard output only what is whole."""
    output = options.output or (None if options.quick else ROOT / f"benchmarks/results/vamana-{options.dataset}.json")
    text = json.dumps(result, indent=1) + "\n"
    if output is not None:
        output.parent.mkdir(parents=True, exist_ok=True)
        partial = output.with_name(f"{output.stem}.partial")
        temporary = output.with_name(f".{output.name}")
        temporary.write_text(text)
        temporary.replace(output if last else partial)
        if last:
            partial.unlink(missing_ok=True)
    if last:
        print(text if output is None else f"{output}\n", end="")


def main():
    options = parse()

    def log(text):
        print(text, file=sys.stderr, flush=True)

    if (load := os.getloadavg()[0]) > 0.5:
        log(f"warning: the load is {load:.1f}; other work on this machine blurs the figures")
    files = prepare(options.dataset, options.rows, options.queries, options.folder, exact_answers(options), log)
    base = np.load(files["base"], mmap_mode="r")
    if options.build_only:
        options.names = [name for name in options.names if LIBRARIES[name].save]
    groups = [[name] for name in options.names] if options.one_at_a_time else [options.names]
    given = " ".join(Path(word).name if "/" in word else word for word in sys.argv[1:])
    about = {
        "format": "kith-vamana", "format_version": 1, "kind": "vamana",
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"), "commit": options.commit or commit(),
        "load": round(load, 1), "command": f"python -m benchmarks.vamana {given}",
        "machine": {"cpu": cpu_name(), "cores": os.cpu_count(),
                    "memory_bytes": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")},
        "data": {"name": options.dataset, "text": SETS[options.dataset].text, "rows": len(base), "dim": base.shape[1],
                 "dtype": base.dtype.name, "queries": options.queries},
        "repeats": options.repeats, "together": not options.one_at_a_time,
    }  # fmt: skip
    libraries, failed = [], []
    for done, group in enumerate(groups, 1):
        results, lost = measure(group, files, options, log)
        failed += lost
        if options.build_only:
            continue
        measured = [finished(result) for result in results.values()]
        libraries += measured
        for library in measured:
            for run in library["runs"]:
                figures = ", ".join(
                    f"{t}: {'-' if v is None else f'{v:,.0f}'}" for t, v in run["queries_per_second_at"].items()
                )
                log(f"{library['name']:22} {run['threads']} threads, k = {run['k']:3}: {figures}")
        if "kith" in group and "kith" not in results:
            sys.exit("error: Kith itself failed")
        # After each group: what took hours is kept where the rest is cut short.
        waiting = [{"name": LIBRARIES[name].name, "error": "the run was cut short"} for name in sum(groups[done:], [])]
        write({**about, "libraries": libraries, "failed": failed + waiting}, options, last=done == len(groups))
    if options.build_only:
        sys.exit(f"error: {len(failed)} not built" if failed else None)


if __name__ == "__main__":
    main()
