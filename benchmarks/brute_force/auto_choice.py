"""What the automatic choice of codes takes beside the best fixed one, on 40 shapes of data, on the same machine.

    PYTHONPATH=build/python python benchmarks/brute_force/auto_choice.py OUT.json [--sets avx512_vnni,avx2] [--shapes REGEX]
        [--repeat N] [--seconds S] [--threads N] [--calibrate] [--device cuda] [--commit NAME]

A fixed choice is a filter, with leading directions where they pay or without. An index is built by each, and all are
searched in turns, so that a slow moment of the machine hits all alike; the median of a choice's searches counts, after a
warm-up. Choices that come to the same codes count as one. Every instruction set is searched in a process of its own
(KITH_INSTRUCTION_SET). Choices go by built-in figures, or with --calibrate by those that this machine is measured to have for
each set first. A GPU (--device) gets twice the rows and ten times the queries, which lie on the host. Answers
that are not those of filter none, bit for bit, end the run with status 1. Needs numpy.
"""

import argparse
import dataclasses
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from timing import times_of

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT))

from benchmarks.datasets.generated import gaussian_mixture  # noqa: E402
from benchmarks.run import cpu_name  # noqa: E402

CHOICES = [("auto", None)] + [(name, along) for name in ("int8", "fp16", "fp32") for along in (True, False)]
REFERENCE = ("none", None)


@dataclasses.dataclass(frozen=True)
class Shape:
    rows: int
    dim: int
    queries: int
    k: int
    data: str  # uniform, gaussian, clusters, mixture
    dtype: str = "float32"
    metric: str = "sqeuclidean"

    def __str__(self):
        metric = "" if self.metric == "sqeuclidean" else f", {self.metric}"
        return f"{self.data} {self.rows:,} x {self.dim} {self.dtype}{metric}; {self.queries:,} queries, k = {self.k:,}"


SHAPES = [
    Shape(200_000, 16, 200, 10, "uniform"),
    Shape(200_000, 32, 200, 1, "uniform"),
    Shape(200_000, 64, 200, 10, "uniform"),
    Shape(200_000, 128, 100, 10, "uniform"),
    Shape(200_000, 128, 100, 100, "uniform"),
    Shape(100_000, 256, 100, 10, "uniform"),
    Shape(50_000, 768, 100, 10, "uniform"),
    Shape(200_000, 128, 1, 10, "uniform"),
    Shape(200_000, 128, 100, 10, "uniform", "uint8"),
    Shape(200_000, 32, 200, 10, "gaussian"),
    Shape(200_000, 128, 100, 10, "gaussian"),
    Shape(100_000, 256, 100, 10, "gaussian"),
    Shape(50_000, 768, 100, 100, "gaussian"),
    Shape(20_000, 1536, 100, 10, "gaussian"),
    Shape(100_000, 64, 50, 1000, "gaussian"),
    Shape(20_000, 64, 1000, 10, "gaussian"),
    Shape(200_000, 128, 100, 10, "gaussian", "int8"),
    Shape(100_000, 128, 100, 10, "gaussian", "float16"),
    Shape(100_000, 64, 100, 10, "gaussian", "float64"),
    Shape(200_000, 32, 100, 10, "clusters"),
    Shape(200_000, 128, 100, 10, "clusters"),
    Shape(100_000, 384, 100, 10, "clusters"),
    Shape(200_000, 128, 100, 10, "clusters", "uint8"),
    Shape(200_000, 64, 100, 10, "mixture"),
    Shape(200_000, 96, 100, 10, "mixture"),
    Shape(200_000, 128, 100, 1, "mixture"),
    Shape(200_000, 128, 100, 100, "mixture"),
    Shape(200_000, 128, 1, 10, "mixture"),
    Shape(100_000, 128, 50, 1000, "mixture"),
    Shape(5_000, 128, 1000, 10, "mixture"),
    Shape(100_000, 384, 100, 10, "mixture"),
    Shape(100_000, 384, 100, 10, "mixture", "float16"),
    Shape(100_000, 384, 100, 10, "mixture", metric="cosine"),
    Shape(100_000, 384, 100, 10, "mixture", metric="inner_product"),
    Shape(100_000, 768, 100, 10, "mixture"),
    Shape(100_000, 768, 100, 100, "mixture"),
    Shape(100_000, 768, 1, 10, "mixture"),
    Shape(40_000, 1536, 100, 10, "mixture"),
    Shape(200_000, 128, 100, 10, "mixture", "uint8"),
    Shape(100_000, 128, 100, 10, "mixture", "float64"),
]


def for_gpu(shape):
    """The same with more to do; a single query stays one."""
    return dataclasses.replace(shape, rows=2 * shape.rows, queries=shape.queries * (1 if shape.queries == 1 else 10))


def draw(shape):
    """Rows and queries of a shape."""
    random = np.random.default_rng(17)
    count = shape.rows + shape.queries
    if shape.data == "uniform":
        values = random.random((count, shape.dim), np.float32) * 2 - 1
    elif shape.data == "gaussian":
        values = random.standard_normal((count, shape.dim), np.float32)
    elif shape.data == "clusters":
        centres = random.standard_normal((1000, shape.dim), np.float32)
        values = centres[random.integers(1000, size=count)] + np.float32(0.1) * random.standard_normal(
            (count, shape.dim), np.float32
        )
    else:
        values = gaussian_mixture(count, shape.dim, min(40, shape.dim / 3), 20260405)
    if shape.dtype == "uint8":
        values = np.clip(np.round(36 * values + 128), 0, 255)
    elif shape.dtype == "int8":
        values = np.clip(np.round(30 * values), -127, 127)
    values = values.astype(shape.dtype)
    return values[: shape.rows], values[shape.rows :]


def alone(folder, shape, repeat, seconds, threads, device):
    """Runs in a process of its own: its instruction set is chosen once."""
    import kith

    def timed(index):
        return times_of(lambda: index.search(queries, shape.k, threads=threads), 1, warm_ups=0)

    rows, queries = np.load(folder + "/rows.npy"), np.load(folder + "/queries.npy")
    indexes = {}
    lines = {}
    wanted = None
    for choice in [REFERENCE, *CHOICES]:
        name, along = choice

        def build(name=name, along=along):
            return kith.BruteForce(
                rows, metric=shape.metric, filter=name, directions=along, threads=threads, device=device
            )

        try:
            built = times_of(build, 1, warm_ups=0)
        except kith.InvalidArgument:  # a filter that these rows cannot have
            continue
        index = built.answer
        found = timed(index).answer
        if wanted is None:
            wanted = found
        same = np.array_equal(found.indices, wanted.indices) and np.array_equal(found.distances, wanted.distances)
        if along and found.statistics.directions == 0:
            continue  # none that pay: the choice without them
        indexes[choice] = index
        lines[choice] = {
            "filter": name, "along": bool(along), "took": found.statistics.filter,
            "directions": found.statistics.directions, "candidates": found.statistics.candidates / len(queries),
            "build_ms": built.median, "same_bits": same, "times": [],
        }  # fmt: skip
    first = time.perf_counter()
    rounds = 0
    while rounds < repeat or (time.perf_counter() - first < seconds and rounds < 200):
        for choice, index in indexes.items():
            # What takes far longer than another is not the best, however often it is measured.
            times = lines[choice]["times"]
            if rounds >= 2 and min(times) > 2.5 * min(min(line["times"]) for line in lines.values()):
                continue
            times.append(timed(index).median)
        rounds += 1
    # Choices that came to the same codes are one, measured more often.
    same_codes = {}
    for line in lines.values():
        same_codes.setdefault((line["took"], line["directions"]), []).extend(line.pop("times"))
    for line in lines.values():
        line["median_ms"] = statistics.median(same_codes[line["took"], line["directions"]])
    print(json.dumps(list(lines.values())))


def environment_of(which, args):
    calibration = {"KITH_CALIBRATION": args.calibration or "off"}
    return {**os.environ, **calibration, **({} if on_gpu(args) else {"KITH_INSTRUCTION_SET": which})}


def calibrate(args):
    """What calibrating for each set finds; it is kept where searches of this run look."""
    for which in args.sets.split(","):
        code = f"import kith; kith.calibrate(threads={args.threads})"
        subprocess.run([sys.executable, "-c", code], env=environment_of(which, args), check=True)
    return json.loads(Path(args.calibration).read_text())["calibrations"]


def measure(shape, which, folder, args):
    environment = environment_of(which, args)
    task = {"folder": folder, "shape": dataclasses.asdict(shape), "repeat": args.repeat, "seconds": args.seconds,
            "threads": args.threads, "device": args.device}  # fmt: skip
    done = subprocess.run(
        [sys.executable, __file__, "--alone", json.dumps(task)], env=environment, capture_output=True, text=True
    )
    if done.returncode != 0:
        sys.exit(done.stderr)
    choices = json.loads(done.stdout)
    auto = next(line for line in choices if line["filter"] == "auto")
    best = min((line for line in choices if line["filter"] != "auto"), key=lambda line: line["median_ms"])
    return {
        "shape": str(shape), "set": which, "ratio": auto["median_ms"] / best["median_ms"], "auto": auto,
        "best": best, "choices": choices, "wrong": sum(not line["same_bits"] for line in choices),
    }  # fmt: skip


def on_gpu(args):
    return args.device != "cpu"


def machine_of(args):
    name = f"{cpu_name()}, {os.cpu_count()} cores"
    if not on_gpu(args):
        return name
    which = args.device.partition(":")[2] or "0"
    asked = ["nvidia-smi", "-i", which, "--query-gpu=name,driver_version", "--format=csv,noheader"]
    gpu, driver = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.splitlines()[0].split(", ")
    return f"{gpu}, driver {driver}; {name}"


def main():
    if len(sys.argv) > 1 and sys.argv[1] == "--alone":
        task = json.loads(sys.argv[2])
        alone(**{**task, "shape": Shape(**task["shape"])})
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--sets", default="avx512_vnni,avx2")
    parser.add_argument("--shapes", default=".")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.5, help="least time a shape is searched")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--device", default="cpu", help="cpu, or the GPU that all is done on: cuda or cuda:1")
    parser.add_argument("--calibrate", action="store_true", help="the CPU first, a set at a time; choices go by that")
    parser.add_argument("--commit", default="unknown")
    args = parser.parse_args()
    if on_gpu(args):
        if args.calibrate:
            parser.error("--calibrate: a GPU's filters go by built-in figures")
        args.sets = args.device
    with tempfile.TemporaryDirectory() as kept:
        args.calibration = kept + "/calibration.json" if args.calibrate else None
        sys.exit(any(line["wrong"] for line in run(args)))


def run(args):
    calibrations = calibrate(args) if args.calibrate else []
    results = []
    for shape in map(for_gpu, SHAPES) if on_gpu(args) else SHAPES:
        if not re.search(args.shapes, str(shape)):
            continue
        with tempfile.TemporaryDirectory() as folder:
            rows, queries = draw(shape)
            np.save(folder + "/rows.npy", rows)
            np.save(folder + "/queries.npy", queries)
            for which in args.sets.split(","):
                line = measure(shape, which, folder, args)
                results.append(line)
                auto, best = line["auto"], line["best"]
                print(
                    f"{which:12} {shape!s:75} auto {auto['took']} {auto['directions']:3} {auto['median_ms']:8.2f} ms   best "
                    f"{best['took']} {best['directions']:3} {best['median_ms']:8.2f} ms   {line['ratio']:.2f}  wrong "
                    f"{line['wrong']}", flush=True,
                )  # fmt: skip
        out = {
            "kind": "auto_choice", "machine": machine_of(args), "device": args.device, "commit": args.commit,
            "threads": args.threads, "date": time.strftime("%Y-%m-%d"),
            "command": " ".join(["auto_choice.py OUT.json", *sys.argv[2:]]), "calibrations": calibrations, "results": results,
        }  # fmt: skip
        Path(args.out).write_text(json.dumps(out, indent=1) + "\n")
    return results


if __name__ == "__main__":
    main()
