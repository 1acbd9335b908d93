"""python -m benchmarks.tiles.peak_memory [-n ROWS...]: the peak memory of point tiles beside the limit they are given.

Generates terrain, builds tiles, asks for all nearest neighbours and for normals, each as a process of its own whose peak
the kernel tells (ru_maxrss). Writes benchmarks/results/tiles-memory.json. Needs build/bin/kith.
"""

import argparse
import datetime
import json
import os
import sys
import tempfile
from pathlib import Path

from benchmarks.run import commit, cpu_name

from .process import measured

ROOT = Path(__file__).resolve().parents[2]
KITH = os.environ.get("KITH", str(ROOT / "build" / "bin" / "kith"))
MIB = 1 << 20


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-n", "--rows", type=int, nargs="+", default=[4_000_000, 10_000_000])
    parser.add_argument("--limits", type=int, nargs="+", default=[128, 256], help="MiB")
    options = parser.parse_args()
    runs = []
    with tempfile.TemporaryDirectory() as folder:
        for rows in options.rows:
            cloud, tiles = f"{folder}/cloud.npy", f"{folder}/tiles"
            measured([KITH, "generate", "terrain_scan", "-n", rows, "--utm", "-o", cloud, "-q"])
            for limit in options.limits:
                within = ["--memory-limit", f"{limit}MiB", "-q"]
                for name, call in [
                    ("build", ["build", cloud, "--index", "point_tiles", "-o", tiles]),
                    ("all_knn_8", ["all-knn", tiles, "-k", 8, "-o", f"{folder}/r"]),
                    ("normals_16", ["normals", tiles, "-k", 16, "-o", f"{folder}/n.npy"]),
                ]:
                    took = measured([KITH, *call, *within])
                    runs.append({"rows": rows, "limit": limit * MIB, "call": name, "peak": took["peak_bytes"]})
                    runs[-1] |= {key: round(took[key], 2) for key in ("processor_seconds", "seconds")}
                    print(
                        f"{rows:,} points, limit {limit} MiB, {name}: peak {took['peak_bytes'] / MIB:.1f} MiB, "
                        f"{took['processor_seconds']:.1f} s"
                    )
    report = {"kind": "tiles memory", "date": datetime.date.today().isoformat(), "commit": commit()}
    report |= {"command": "python -m benchmarks.tiles.peak_memory " + " ".join(sys.argv[1:])}
    report |= {"machine": {"cpu": cpu_name()}, "runs": runs}
    (ROOT / "benchmarks" / "results" / "tiles-memory.json").write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
