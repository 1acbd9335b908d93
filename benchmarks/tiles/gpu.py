"""python -m benchmarks.tiles.gpu [-n ROWS]: normals of a cloud on disk through tiles on a GPU, from the file to the file.

Generates terrain as float32 in metres, divides it among tiles (`kith build`, the source not in the page cache), removes the
source, and finds the normal of every point from its 16 nearest (`kith normals --device cuda --value-dtype f32`, in the order
of the input). Neither has a limit on memory but the machine's. In the same run: what the disk gives readers and writers of
large blocks past the page cache, how busy the GPU says it is and what it takes of its memory, and a check: of stretches of
rows cut out of the source before it went, or with --check all of all rows, the normals that a tree in memory gives on the
GPU, rounded in the same way, must be the same bytes. With --cold the normals are found twice: the second time the page cache
has nothing of the tiles, as of a cloud larger than memory; stretches of the answer must be what they were. Prints a line a step
and writes --json. Needs nvidia-smi and NumPy.
"""

import argparse
import concurrent.futures
import datetime
import json
import mmap
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np

from .disk import BLOCK, forget
from .process import measured

ROOT = Path(__file__).resolve().parents[2]
KITH = os.environ.get("KITH", str(ROOT / "build" / "bin" / "kith"))
K = 16
GIB = 1 << 30


def commit():
    """That of the sources here."""
    words = ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"]
    return subprocess.run(words, stdout=subprocess.PIPE, text=True).stdout.strip()


class Gpu(threading.Thread):
    """Asks nvidia-smi how busy the GPU is and what of its memory is taken, until it is stopped."""

    def __init__(self):
        super().__init__(daemon=True)
        self.samples, self.over = [], threading.Event()
        self.start()

    def run(self):
        query = ["nvidia-smi", "--query-gpu=utilization.gpu,memory.used", "--format=csv,noheader,nounits"]
        while not self.over.wait(0.2):
            line = subprocess.run(query, stdout=subprocess.PIPE, text=True).stdout.splitlines()[0]
            self.samples.append([int(word) for word in line.split(",")])

    def stop(self):
        self.over.set()
        self.join()
        busy = [sample[0] for sample in self.samples]
        return {
            "busy_share_by_driver": round(sum(busy) / max(1, len(busy)) / 100, 3),
            "peak_device_bytes": max((sample[1] for sample in self.samples), default=0) << 20,
        }


def rates(folder, total, workers):
    """(written, read) bytes a second of so many at once, each a file of its own, past the page cache."""
    names = [f"{folder}/rate-{i}" for i in range(workers)]

    def write(name):
        buffer = mmap.mmap(-1, BLOCK)
        buffer.write(os.urandom(BLOCK))
        file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_DIRECT)
        for _ in range(total // workers // BLOCK):
            os.writev(file, [buffer])
        os.fsync(file)
        os.close(file)

    def read(name):
        buffer = mmap.mmap(-1, BLOCK)
        file = os.open(name, os.O_RDONLY | os.O_DIRECT)
        while os.readv(file, [buffer]) > 0:
            pass
        os.close(file)

    found = []
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        for work in (write, read):
            start = time.monotonic()
            list(pool.map(work, names))
            found.append(round(total / (time.monotonic() - start)))
    for name in names:
        os.unlink(name)
    return found


def run(*words):
    """What a command of kith took, and what it says of itself."""
    told = measured([KITH, *words, "--json", "-q"], stdout=subprocess.PIPE)
    return told, json.loads(told.pop("out"))


def narrow(path):
    """An npy of normals as float32."""
    return np.load(path, mmap_mode="r").astype(np.float32)


def same(left, right):
    return np.array_equal(left.view(np.uint32), right.view(np.uint32))


def find(tiles, normals, order):
    """Normals of all points: what the command took, what the GPU did, and what it says of the search."""
    gpu = Gpu()
    words = ["-k", str(K), "--device", "cuda", "--value-dtype", "f32", "--order", order, "-o", normals]
    search, told = run("normals", tiles, *words)
    return search | gpu.stop() | {"statistics": told["statistics"]}


def stretches(path):
    """200 stretches of an array, from all over it, 100,000 rows each."""
    found = np.load(path, mmap_mode="r")
    firsts = np.linspace(0, max(0, len(found) - 100_000), 200).astype(np.int64)
    return np.concatenate([found[first : first + 100_000] for first in firsts])


def cut_out(cloud, rows, folder):
    """Stretches of rows, each in a file: [(first row, file)]."""
    stretch = min(rows, 8_000_000)
    cuts = []
    for i, first in enumerate(np.linspace(0, rows - stretch, 3).astype(np.int64)):
        path = f"{folder}/cut-{i}.npy"
        np.save(path, np.load(cloud, mmap_mode="r")[first : first + stretch])
        cuts.append((int(first), path))
    return cuts


def check(cuts, normals, folder):
    """Rows compared, all the same: those far from the ends of a stretch, whose neighbours are all in it."""
    found, compared = np.load(normals, mmap_mode="r"), 0
    for first, path in cuts:
        run("normals", path, "-k", str(K), "--device", "cuda", "-o", f"{folder}/cut.normals.npy")
        right, points = narrow(f"{folder}/cut.normals.npy"), np.load(path, mmap_mode="r")
        x = points[:, 0]
        inside = (x > x.min() + 250) & (x < x.max() - 250)  # strips are 200 m wide
        if not inside.any():
            inside[:] = len(points) == len(found)
        if not same(right[inside], found[first : first + len(points)][inside]):
            sys.exit(f"error: normals of rows from {first} on are not those of a tree in memory")
        compared += int(inside.sum())
    return compared


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-n", "--rows", type=int, default=1_000_000_000)
    parser.add_argument("--tile-points", type=int, default=1 << 20)
    parser.add_argument("--folder", default=str(ROOT / "build"), help="on the disk that is measured")
    parser.add_argument("--disk-bytes", type=int, default=8 * GIB, help="that its rates are measured by")
    parser.add_argument("--check", choices=["some", "all"], default="some")
    parser.add_argument("--order", choices=["input", "tiles"], default="input")
    parser.add_argument("--cold", action="store_true", help="find them once more, with no tile in the page cache")
    parser.add_argument("--commit", default="")
    parser.add_argument("--json", default=str(ROOT / "benchmarks" / "results" / "tiles-gpu.json"))
    options = parser.parse_args()
    folder = Path(options.folder) / "tiles-gpu"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    cloud, tiles, normals = f"{folder}/cloud.npy", f"{folder}/cloud.tiles", f"{folder}/normals.npy"
    report = {"kind": "tiles gpu", "date": datetime.date.today().isoformat(), "commit": options.commit or commit()}
    report["command"] = f"python -m benchmarks.tiles.gpu -n {options.rows} --tile-points {options.tile_points}"
    report["command"] += " --cold" if options.cold else ""
    report |= {"rows": options.rows, "k": K, "tile_points": options.tile_points, "order": options.order, "note": ""}
    query = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
    name = subprocess.run(query, stdout=subprocess.PIPE, text=True).stdout.splitlines()[0]
    report["machine"] = {"gpu": name, "cores": os.cpu_count(), "load": round(os.getloadavg()[0], 1)}
    disk = {workers: rates(folder, options.disk_bytes, workers) for workers in (1, 4)}
    report["disk_bytes_a_second"] = {
        str(workers): {"write": write, "read": read} for workers, (write, read) in disk.items()
    }
    print(f"disk: {report['disk_bytes_a_second']}", flush=True)

    took, _ = run("generate", "terrain_scan", "-n", str(options.rows), "--dtype", "f32", "-o", cloud)
    print(f"generated in {took['seconds']:.1f} s", flush=True)
    cuts = cut_out(cloud, options.rows, folder) if options.check == "some" else [(0, cloud)]
    forget([cloud])
    build, told = run("build", cloud, "--index", "point_tiles", "--tile-points", str(options.tile_points), "-o", tiles)
    report["build"] = build | {"tiles": told["tiles"], "tile_bytes": told["bytes"]}
    print(f"build: {report['build']}", flush=True)
    if options.check == "some":
        os.unlink(cloud)
    report["normals"] = find(tiles, normals, options.order)
    print(f"normals: {report['normals']}", flush=True)
    report["seconds"] = round(build["seconds"] + report["normals"]["seconds"], 3)
    if not options.cold:
        shutil.rmtree(tiles)
    if options.order == "input":
        report["rows_compared"] = check(cuts, normals, folder)
    if options.cold:
        before = stretches(normals)
        os.unlink(normals)
        forget(Path(tiles).iterdir())
        report["cold"] = find(tiles, normals, options.order)
        print(f"cold: {report['cold']}", flush=True)
        if not same(before, stretches(normals)):
            sys.exit("error: normals of tiles that were not in memory are others")
    print(f"{options.rows:,} points in {report['seconds']:.1f} s; {report.get('rows_compared', 0):,} rows compared")
    shutil.rmtree(folder)
    Path(options.json).write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
