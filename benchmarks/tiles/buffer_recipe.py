"""python -m benchmarks.tiles.buffer_recipe [CLOUD...]: how wrong neighbours are that are sought in tiles with a border.

The usual recipe for a scan that does not fit in memory: square tiles, each with a border ("buffer") of so many metres
around it; the neighbours of a tile's points are sought among its points and its border's. What lies farther is missed,
and nothing says so. Counted here: the points of which at least one of the k neighbours is wrong, for a generated terrain
and for the scans named. Writes benchmarks/results/tiles-buffer.json. Needs build/bin/kith and the Python
package (PYTHONPATH=build/python).
"""

import argparse
import datetime
import json
import os
import subprocess
import tempfile
from pathlib import Path

import kith
import numpy as np

from benchmarks.run import commit

ROOT = Path(__file__).resolve().parents[2]
KITH = os.environ.get("KITH", str(ROOT / "build" / "bin" / "kith"))
WIDTHS = [0.0, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0]  # metres


def recipe(points, side, width, k):
    """Distances of the k nearest others as the recipe finds them; inf where a tile and its border have too few."""
    found = np.full((len(points), k), np.inf)
    corner = points[:, :2].min(axis=0)
    tile = np.floor((points[:, :2] - corner) / side).astype(np.int64)
    for x, y in np.unique(tile, axis=0):
        low = corner + np.array([x, y]) * side
        inside = ((points[:, :2] >= low - width) & (points[:, :2] <= low + side + width)).all(axis=1)
        own = (tile == [x, y]).all(axis=1)
        some = np.flatnonzero(inside | own)
        distances, _ = kith.KdTree(points[some], metric="euclidean").all_knn(k)
        found[own] = distances[own[some]]
    return found


def measure(name, text, points, side, k):
    exact, _ = kith.KdTree(points, metric="euclidean").all_knn(k)
    runs = []
    for width in WIDTHS:
        wrong = (recipe(points, side, width, k) != exact).any(axis=1)
        runs.append({"width": width, "wrong_points": int(wrong.sum()), "share": round(float(wrong.mean()), 8)})
        print(f"{name}: border {width:5.2f} m, {runs[-1]['wrong_points']:,} of {len(points):,} points wrong")
        if not wrong.any():
            break
    return {"cloud": name, "text": text, "points": len(points), "k": k, "tile_side": side, "runs": runs}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("clouds", nargs="*", type=Path, help="scans, in metres")
    parser.add_argument("-n", "--rows", type=int, default=2_000_000, help="points of the terrain [default: 2000000]")
    parser.add_argument("-k", type=int, default=16)
    parser.add_argument("--side", type=float, default=100, help="of a tile, in metres [default: 100]")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        call = [KITH, "generate", "terrain_scan", "-n", str(options.rows), "-o", f"{folder}/terrain.npy", "-q"]
        subprocess.run(call, check=True)
        terrain = np.load(f"{folder}/terrain.npy")
    about = "kith generate terrain_scan: hills, trees and roofs, 4 points a square metre"
    results = [measure("terrain", about, terrain, options.side, options.k)]
    for path in options.clouds:
        points = np.asarray(kith.read(path), dtype=np.float64)
        results.append(measure(path.name, "a scan", points, options.side, options.k))
    report = {
        "date": datetime.date.today().isoformat(),
        "commit": commit(),
        "clouds": results,
    }
    (ROOT / "benchmarks" / "results" / "tiles-buffer.json").write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
