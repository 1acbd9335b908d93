"""python -m benchmarks.tiles.in_memory [-n ROWS]: a cloud through tiles beside the tree in memory, from file to file.

All nearest neighbours and normals, each command a process of its own that reads the same npy from the disk (the page cache
gives it up before), and writes its answer: through tiles with partition and output, in the order of the input and of the
tiles. They take turns. Answers are compared byte by byte; where they differ nothing is written and the exit status is 1.
Beside them, in the same run, what the disk gives one reader and one writer, and how much of a command's time its traffic
takes at that rate: 1 is as quick as the disk.

Writes benchmarks/results/tiles-in-memory.json. Needs build/bin/kith. Run it with nothing else running.
"""

import argparse
import datetime
import filecmp
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.run import commit, cpu_name

from .disk import forget, read_rate, write_rate
from .process import measured

ROOT = Path(__file__).resolve().parents[2]
KITH = os.environ.get("KITH", str(ROOT / "build" / "bin" / "kith"))
MIB = 1 << 20
TASKS = {  # name: (command, files of the answer)
    "all-knn, k = 8": (["all-knn", "-k", 8], [".indices.npy", ".distances.npy"]),
    "normals, k = 16": (["normals", "-k", 16], [".npy"]),
}


def commands(task, cloud, folder, options):
    """{way: (command, stem of its files)}."""
    words, files = TASKS[task]
    start = [KITH, words[0], cloud, *words[1:], "--threads", options.threads, "-q"]
    tail = ".npy" if files == [".npy"] else ""
    # Naming what is inside a tile asks for tiles, whatever would fit.
    limit = ["--memory-limit", f"{options.limit}MiB", "--inside", "kd_tree"]
    ways = {"memory": [], "tiles": limit, "tiles, their order": [*limit, "--order", "tiles"]}
    return {
        way: ([*start, *more, "-o", f"{folder}/{number}{tail}"], f"{folder}/{number}")
        for number, (way, more) in enumerate(ways.items())
    }


def same_answers(files, memory, tiles, by_tile):
    """Whether the three are one answer: two byte by byte, the third by the rows beside it."""
    if not all(filecmp.cmp(memory + file, tiles + file, shallow=False) for file in files):
        return False
    rows = np.load(f"{by_tile}.rows.npy", mmap_mode="r")
    if not np.array_equal(np.bincount(rows, minlength=len(rows)), np.ones(len(rows), np.int64)):
        return False
    block = 1 << 17
    for file in files:
        whole, part = np.load(memory + file, mmap_mode="r"), np.load(by_tile + file, mmap_mode="r")
        for at in range(0, len(rows), block):
            if whole[rows[at : at + block]].tobytes() != part[at : at + block].tobytes():
                return False
    return True


def compare(task, cloud, folder, options, rates):
    """The entries of a task: each way's turns, and its share of the disk's rate."""
    ways = commands(task, cloud, folder, options)
    turns = {way: [] for way in ways}
    for _ in range(options.repeat):
        rates["read"].append(round(read_rate([cloud])))
        rates["written"].append(round(write_rate(folder)))
        for way, (command, _) in ways.items():
            forget([cloud])
            turns[way].append(measured(command))
            took = turns[way][-1]
            print(f"{task:16} {way:20} {took['seconds']:7.2f} s  {took['peak_bytes'] / MIB:6.0f} MiB  "
                  f"{took['read_bytes'] / MIB:6.0f} MiB read, {took['written_bytes'] / MIB:6.0f} written",
                  file=sys.stderr, flush=True)  # fmt: skip
    if not same_answers(TASKS[task][1], *(stem for _, stem in ways.values())):
        sys.exit(f"error: {task}: the answers of tiles are not those of the tree in memory")
    entries = []
    for way, took in turns.items():
        entry = {"task": task, "way": way, "seconds": [turn["seconds"] for turn in took]}
        for key in ("processor_seconds", "peak_bytes", "read_bytes", "written_bytes"):
            entry[key] = statistics.median(turn[key] for turn in took)
        entry["median_seconds"] = statistics.median(entry["seconds"])
        entries.append(entry)
    for path in Path(folder).glob("[012].*"):
        path.unlink()
    return entries


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-n", "--rows", type=int, default=10_000_000)
    parser.add_argument("--limit", type=int, default=512, help="of the tiles, in MiB [default: 512]")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--note", default="", help="kept with the result, as what else ran on the machine")
    parser.add_argument("-o", "--out", type=Path, default=ROOT / "benchmarks" / "results" / "tiles-in-memory.json")
    options = parser.parse_args()
    load = os.getloadavg()[0]
    rates = {"read": [], "written": []}
    with tempfile.TemporaryDirectory(dir=ROOT / "build") as folder:
        cloud = f"{folder}/cloud.npy"
        generate = [KITH, "generate", "terrain_scan", "-n", str(options.rows), "--utm", "-o", cloud, "-q"]
        subprocess.run(generate, check=True)
        forget([cloud])
        entries = [entry for task in TASKS for entry in compare(task, cloud, folder, options, rates)]
    report = {"kind": "tiles in memory", "date": datetime.date.today().isoformat(), "commit": commit()}
    report["command"] = f"python -m benchmarks.tiles.in_memory -n {options.rows} --limit {options.limit}"
    report["machine"] = {"cpu": cpu_name(), "cores": os.cpu_count(), "load": round(load, 1)}
    report |= {"rows": options.rows, "limit": options.limit * MIB, "threads": options.threads, "note": options.note}
    report |= {"disk_bytes_a_second": {way: statistics.median(rate) for way, rate in rates.items()}}
    options.out.write_text(json.dumps({**report, "entries": entries}, indent=1) + "\n")


if __name__ == "__main__":
    main()
