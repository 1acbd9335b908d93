"""A terrain that does not fit in memory, in relief: Kith's demo of point tiles; see tools/demo.sh."""

import sys
import time

import numpy as np

from tools.coast_demo.kith import Kith, arguments
from tools.scan_demo import oracle

from . import picture

ROWS, LIMIT, NEIGHBORS = 40_000_000, 512, 16
SIZE, SUN = 1200, (-1.0, 1.0, 1.2)
CHECKED, AROUND = 4, 8.0  # normals that the oracle repeats, from the points within so many metres


def check(points, table, rows):
    """The oracle looks at the points around each row; all of them are read once for it."""
    near = [[] for _ in rows]
    for first in range(0, len(points), picture.BLOCK):
        block = points[first : first + picture.BLOCK, :2]
        for found, row in zip(near, rows, strict=True):
            found.append(first + np.flatnonzero((np.abs(block - points[row, :2]) < AROUND).all(axis=1)))
    for found, row in zip(near, rows, strict=True):
        some = np.concatenate(found)
        oracle.check(points[some], table[some, :3], table[some, 3], NEIGHBORS, [int(np.searchsorted(some, row))])


def main():
    parser = arguments("relief", __doc__)
    parser.add_argument("--rows", type=int, default=ROWS, help=f"points of the terrain [default: {ROWS}]")
    parser.add_argument("--limit", type=int, default=LIMIT, help=f"MiB of memory for kith [default: {LIMIT}]")
    options = parser.parse_args()
    started = time.perf_counter()
    kith = Kith.of(options)
    out = kith.folder

    print("Kith demo: a terrain larger than memory\n")
    print("1. The terrain: hills, trees and roofs, 4 points a square metre, as an airborne laser scan has them")
    kith.run("generate", "terrain_scan", "-n", options.rows, "-o", out / "terrain.npy")
    points = np.load(out / "terrain.npy", mmap_mode="r")
    print(f"  {len(points):,} points, {points.nbytes / 1e6:,.0f} MB")

    print(
        f"\n2. Normals from the {NEIGHBORS} nearest of each, within {options.limit} MiB: through tiles on disk, exact"
    )
    line = ["normals", out / "terrain.npy", "-k", NEIGHBORS, "--memory-limit", f"{options.limit}MiB", *kith.threads]
    # Named, so that a terrain that would fit goes through tiles as well.
    told, seconds = kith.run(*line, "--inside", "kd_tree", "-o", out / "terrain-normals.npy")
    table = np.load(out / "terrain-normals.npy", mmap_mode="r")
    statistics = told["statistics"]
    print(
        f"  {statistics['tiles']:,} tiles, {100 * statistics['crossed'] / len(points):.1f} % of the points needed another "
        f"than their own, {seconds:.1f} s"
    )

    print("\n3. The oracle: the same by NumPy in float64")
    rows = np.random.default_rng(len(points)).choice(len(points), CHECKED, replace=False)
    try:
        check(points, table, rows)
    except AssertionError as error:
        sys.exit(f"demo: the oracle disagrees: {error}")
    print(f"  {CHECKED} normals, chosen at random, agree")

    print("\n4. The picture: the normals under a sun in the north-west")
    path = options.out / "terrain-relief.png"
    picture.write(path, picture.colours(*picture.grid(points, table, SIZE, SUN)))
    print(f"  {path}")
    for name in ["terrain.npy", "terrain-normals.npy"]:
        (out / name).unlink()
    print(
        f"\n{len(table):,} normals in {seconds:.1f} s within {options.limit} MiB, files read and written. Everything: "
        f"{time.perf_counter() - started:.1f} s."
    )


if __name__ == "__main__":
    main()
