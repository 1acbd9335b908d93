"""Which way does every piece of a scanned building face? Kith's demo on 100,000 real points; see tools/demo.sh."""

import sys
import time

import numpy as np

from benchmarks.datasets import ensure
from tools.coast_demo.kith import Kith, arguments

from . import oracle, picture

SCAN = "building.ply"
NEIGHBORS = 16
EYE, TARGET, VIEW = (-60.0, -42.0, 13.0), (0.0, -5.8, 3.0), 27.0  # metres, degrees
SUN = (-1.0, -0.55, 1.1)
DISC = 0.13  # metres: a little more than points are apart
SIZE = (1280, 720)
CHECKED = 8  # normals that the oracle repeats


def main():
    options = arguments("scan", __doc__).parse_args()
    started = time.perf_counter()
    kith = Kith.of(options)
    out = kith.folder

    print("Kith demo: which way does the wall face?\n")
    print("1. A scan: building.ply of CGAL's demo data, points measured on a building")
    try:
        scan = ensure("scans")[SCAN]
    except FileNotFoundError as error:  # it lies under /usr/share/doc, which small containers leave out
        print(f"  left out: {error}")
        return
    kith.run("convert", scan, out / "scan.npy")
    points = np.load(out / "scan.npy")
    extent = " x ".join(f"{side:.0f}" for side in np.ptp(points, axis=0))
    print(f"  {len(points):,} points, {extent} m")

    print(f"\n2. The normal and the curvature at every point, from its {NEIGHBORS} nearest; towards the camera")
    viewpoint = ",".join(f"{c:g}" for c in EYE)
    line = ["normals", out / "scan.npy", "-k", NEIGHBORS, "--viewpoint", viewpoint, *kith.threads]
    _, seconds = kith.run(*line, "-o", out / "scan-normals.npy")
    table = np.load(out / "scan-normals.npy")
    normals, curvature = table[:, :3], table[:, 3]

    print("\n3. The oracle: the same by NumPy in float64, all points looked at")
    rows = np.random.default_rng(len(points)).choice(len(points), CHECKED, replace=False)
    try:
        oracle.check(points, normals, curvature, NEIGHBORS, rows)
    except AssertionError as error:
        sys.exit(f"demo: the oracle disagrees: {error}")
    print(f"  {CHECKED} normals, chosen at random, agree")

    print("\n4. The picture")
    path = options.out / "scan-normals.png"
    picture.write(path, picture.render(points, normals, curvature, EYE, TARGET, VIEW, DISC, SUN, SIZE))
    print(f"  {path}")
    walls = np.abs(normals[:, 2]) < 0.17  # within 10 degrees of upright
    level = np.abs(normals[:, 2]) > 0.98
    print(
        f"\n{len(points):,} normals in {seconds:.2f} s, files read and written: {100 * walls.mean():.0f} % of the points are "
        f"on walls, {100 * level.mean():.0f} % on level ground and ledges. Everything: {time.perf_counter() - started:.1f} s."
    )


if __name__ == "__main__":
    main()
