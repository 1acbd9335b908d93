"""python -m benchmarks.tiles.peers [-n ROWS]: normals by Kith, by Open3D, and by a script of tiles with a border.

Each is a process of its own that reads an npy and writes one; they take turns. Time and peak memory are those of the
process. Of each the answers are checked afterwards: the k-th distances of a sample of rows and the normals beside SciPy's
tree over the whole cloud, which shares nothing with any of them; the normals of Kith's tiles beside those of its tree in
memory, bit by bit. Where Kith is wrong, nothing is written and the exit status is 1.

Writes benchmarks/results/tiles-peers.json. Needs build/bin/kith and benchmarks/tiles/requirements.txt (`make bench-tiles`
sees to both). Run it with nothing else running.
"""

import argparse
import datetime
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.run import commit, cpu_name

from .process import measured
from .worker import PEERS

ROOT = Path(__file__).resolve().parents[2]
KITH = os.environ.get("KITH", str(ROOT / "build" / "bin" / "kith"))
WORKER = [sys.executable, str(Path(__file__).with_name("worker.py"))]
MIB = 1 << 20
DEGREE = np.cos(np.radians(1.0))


def contenders(options, cloud):
    """{name: (command without its output, what it is)}, in the order of their turns."""
    kith = [KITH, "normals", cloud, "-k", options.k, "--threads", options.threads, "-q", "-o"]
    # Naming what is inside a tile asks for tiles, whatever would fit.
    limit = ["--memory-limit", f"{options.limit}MiB", "--inside", "kd_tree"]
    made = {
        "kith-tiles": ([*kith[:-1], *limit, "-o"], f"kith normals --memory-limit {options.limit}MiB: through tiles"),
        "kith": (kith, "kith normals: a tree in memory"),
    }
    wanted = PEERS if options.peers is None else [name for name in options.peers.split(",") if name]
    for name in wanted:
        made[name] = ([*WORKER, name, cloud, options.k], None)
    return made


def worker_options(options):
    return ["--threads", options.threads, "--side", options.side, "--border", options.border]


def run(name, command, output, options):
    """One turn: what the process took, and what it says of itself."""
    if name in PEERS:
        took = measured([*command, output, *worker_options(options)], stdout=subprocess.PIPE)
        took |= json.loads(took.pop("out").splitlines()[-1])
    else:
        took = measured([*command, output])
    print(f"{name:14} {took['seconds']:8.2f} s  {took['peak_bytes'] / MIB:8.0f} MiB", file=sys.stderr, flush=True)
    return took


def asked(name, cloud, sample, folder, options):
    """The k-th distances of the sample as this peer's search finds them."""
    if name == "kith":
        rows = Path(folder) / "sample-rows.npy"
        if not rows.is_file():
            np.save(rows, np.load(cloud, mmap_mode="r")[np.load(sample)])
        found = f"{folder}/kith-sample"
        command = [KITH, "knn", cloud, rows, "-k", options.k, "--metric", "euclidean", "--index", "kd_tree", "-q"]
        subprocess.run([str(word) for word in [*command, "-o", found]], check=True)
        return np.load(f"{found}.distances.npy", mmap_mode="r")[:, -1]
    out = f"{folder}/{name}-sample.npy"
    command = [*WORKER, name, cloud, options.k, out, "--sample", sample, *worker_options(options)]
    subprocess.run([str(word) for word in command], check=True, stdout=subprocess.DEVNULL)
    return np.load(out)


def wrong_neighbors(found, exact):
    """For how many rows the k-th neighbour is not as near as it should be, rounding aside."""
    return int((np.abs(np.asarray(found, np.float64) - exact) > 1e-9 * np.maximum(exact, 1)).sum())


def wrong_normals(normals, exact, unique):
    """How many of those that one plane alone fits are more than a degree off, up to their sign."""
    cosine = np.abs(np.einsum("ij,ij->i", normals[unique, :3], exact[unique]))
    return int((~(cosine >= DEGREE)).sum())


def same_bits(a, b):
    """Whether two arrays in files are the same, a block in memory."""
    a, b = np.load(a, mmap_mode="r"), np.load(b, mmap_mode="r")
    block = 1 << 18
    return a.shape == b.shape and all(
        a[at : at + block].tobytes() == b[at : at + block].tobytes() for at in range(0, len(a), block)
    )


def check(name, output, exact, folder, cloud, sample, options):
    """{"wrong_neighbors", "wrong_normals"} of a contender."""
    normals, unique = np.load(f"{exact}.normals.npy"), np.load(f"{exact}.unique.npy")
    result = {"wrong_normals": wrong_normals(np.load(output, mmap_mode="r")[np.load(sample)], normals, unique)}
    # Tiles: of the same bits as the tree's normals, which stand on all of their neighbours.
    if name != "kith-tiles":
        result["wrong_neighbors"] = wrong_neighbors(asked(name, cloud, sample, folder, options), np.load(exact))
    return result


def compare(options, folder):
    """The entries of all contenders, in the order of their turns."""
    cloud, sample, exact = (f"{folder}/{name}.npy" for name in ("cloud", "sample", "exact"))
    generate = [KITH, "generate", "terrain_scan", "-n", options.rows, "--dtype", "f64", "-o", cloud, "-q"]
    subprocess.run([str(word) for word in generate], check=True)
    size = min(options.sample, options.rows)
    np.save(sample, np.sort(np.random.default_rng(1).choice(options.rows, size, replace=False)))
    said = subprocess.run(
        [*map(str, [*WORKER, "reference", cloud, options.k, exact, "--sample", sample, *worker_options(options)])],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout
    chosen = contenders(options, cloud)
    turns = {name: [] for name in chosen}
    for repeat in range(options.repeat):
        for name, (command, _) in chosen.items():
            output = f"{folder}/{name}.npy"
            if name in PEERS and repeat >= options.peer_repeat:
                continue
            Path(output).unlink(missing_ok=True)  # or a rename onto it waits until the system has freed it
            turns[name].append(run(name, command, output, options))
    entries = []
    for name, (_, what) in chosen.items():
        took = turns[name]
        entry = {"name": name, "note": what or took[0]["note"], "version": took[0].get("version", version())}
        entry["seconds"] = [turn["seconds"] for turn in took]
        entry["median_seconds"] = statistics.median(entry["seconds"])
        entry["processor_seconds"] = statistics.median(turn["processor_seconds"] for turn in took)
        entry["peak_bytes"] = max(turn["peak_bytes"] for turn in took)
        if name in PEERS:
            entry["work_seconds"] = statistics.median(turn["work_seconds"] for turn in took)
        entry |= check(name, f"{folder}/{name}.npy", exact, folder, cloud, sample, options)
        entries.append(entry)
    tiles, tree = entries[0], entries[1]
    tiles["same_bits_as_tree"] = same_bits(f"{folder}/kith-tiles.npy", f"{folder}/kith.npy")
    tiles["wrong_neighbors"] = tree["wrong_neighbors"]
    fitted = int(np.load(f"{exact}.unique.npy").sum())
    return entries, {"sample": size, "sample_normals": fitted, "reference": json.loads(said)}


def version():
    return subprocess.check_output([KITH, "--version"], text=True).split()[1]


def faults(entries):
    """What is wrong with Kith's answers, in words; none where nothing is."""
    tiles, tree = entries[0], entries[1]
    found = [] if tiles["same_bits_as_tree"] else ["normals of tiles are not those of the tree in memory"]
    for entry in (tiles, tree):
        for what in ("wrong_neighbors", "wrong_normals"):
            if entry[what] > 0:
                found.append(f"{entry['name']}: {entry[what]} {what.replace('_', ' ')}")
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-n", "--rows", type=int, default=10_000_000)
    parser.add_argument("-k", type=int, default=16, help="neighbours of a normal, the point itself included")
    parser.add_argument("--limit", type=int, default=128, help="of Kith's tiles, in MiB [default: 128]")
    parser.add_argument("--threads", type=int, default=2, help="of all, on as many cores [default: 2]")
    parser.add_argument("--side", type=float, default=100, help="of the script's tiles, in metres [default: 100]")
    parser.add_argument("--border", type=float, default=2, help="around them, in metres [default: 2]")
    parser.add_argument("--sample", type=int, default=1_000_000, help="rows whose answers are checked")
    parser.add_argument("--repeat", type=int, default=3, help="turns of Kith")
    parser.add_argument("--peer-repeat", type=int, default=1, help="turns of its peers")
    parser.add_argument("--peers", help=f"by commas [default: {','.join(PEERS)}]")
    parser.add_argument("--note", default="", help="kept with the result, as what else ran on the machine")
    parser.add_argument("-o", "--out", type=Path, default=ROOT / "benchmarks" / "results" / "tiles-peers.json")
    options = parser.parse_args()
    load = os.getloadavg()[0]
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: options.threads])  # of all that is started here
    with tempfile.TemporaryDirectory(dir=ROOT / "build") as folder:
        entries, about = compare(options, folder)
    for entry in entries:
        print(json.dumps(entry))
    if wrong := faults(entries):
        sys.exit("error: " + "; ".join(wrong))
    report = {"kind": "tiles peers", "date": datetime.date.today().isoformat(), "commit": commit()}
    report["command"] = "python -m benchmarks.tiles.peers" + "".join(f" {word}" for word in given(sys.argv[1:]))
    report["machine"] = {"cpu": cpu_name(), "cores": os.cpu_count(), "load": round(load, 1)}
    report |= {"rows": options.rows, "k": options.k, "threads": options.threads, "limit": options.limit * MIB}
    report |= {"side": options.side, "border": options.border, "note": options.note, **about, "entries": entries}
    options.out.write_text(json.dumps(report, indent=1) + "\n")


def given(words):
    """Options as they were given, without what names files of this machine or is a note."""
    kept, skip = [], False
    for word in words:
        if not skip and word not in ("-o", "--out", "--note"):
            kept.append(word)
        skip = not skip and word in ("-o", "--out", "--note")
    return kept


if __name__ == "__main__":
    main()
