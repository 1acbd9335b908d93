"""Where is the nearest coast? Kith's demo on 10,995,687 real points; see tools/demo.sh."""

import os
import sys
import time

import numpy as np

from benchmarks.datasets import ensure
from benchmarks.datasets.coast import SEA_LEVEL, unit_sphere

from . import oracle, picture
from .kith import Kith, arguments
from .places import coordinates, globe_grid, kilometres, read_places

SHORES = {1: "sea", 2: "lake", 3: "lake island", 4: "island pond", 6: "under ice"}
GRID = 0.25  # degrees: 660,070 places, about one for every pixel of the map
CHECKED = 8  # answers of each kind that the oracle repeats


def parse():
    parser = arguments("coast", __doc__)
    parser.add_argument(
        "--grid", type=float, default=GRID, metavar="DEGREES", help=f"spacing of the grid (default {GRID})"
    )
    return parser.parse_args()


def far_apart(grid, km, count, separation_km, numbers=None):
    """Numbers of the grid points farthest from the coast, no two within separation_km of each other.

    Chosen among `numbers`, by default among all.
    """
    points, chosen = unit_sphere(grid), []
    left = np.arange(len(grid)) if numbers is None else np.sort(numbers)
    while len(chosen) < count and len(left) > 0:
        chosen.append(left[km[left].argmax()])
        left = left[kilometres(np.linalg.norm(points[left] - points[chosen[-1]], axis=1)) > separation_km]
    return chosen


def refine(kith, index, centres, step, side, name):
    """(longitude/latitude, km, row) of the farthest place of a side x side grid around each centre."""
    stretch = 1 / np.maximum(np.cos(np.radians(centres[:, 1])), 0.05)  # a degree of longitude is shorter
    offsets = (np.arange(side) - side // 2) * step
    east, north = np.meshgrid(offsets, offsets)
    longitude = centres[:, :1] + stretch[:, None] * east.ravel()
    latitude = np.clip(centres[:, 1:] + north.ravel(), -90, 90)
    around = np.column_stack([((longitude + 180) % 360 - 180).ravel(), latitude.ravel()])
    rows, chords = kith.nearest(index, unit_sphere(around), name)
    winners = chords.reshape(len(centres), -1).argmax(axis=1) + np.arange(len(centres)) * side * side
    return around[winners], kilometres(chords[winners]), rows[winners]


def poles_of_inaccessibility(kith, index, grid, km, spacing, count=6):
    """[(longitude, latitude, km, row)]: the places farthest from the coast, each the best of its region.

    A region can have several tops of nearly the same height, which the grid alone may rank wrongly: the five
    best of each are refined twice, then the best of each twice more.
    """
    points, tops = unit_sphere(grid), []
    for at in far_apart(grid, km, count, 3000):
        region = np.flatnonzero(kilometres(np.linalg.norm(points - points[at], axis=1)) < 1500)
        tops += far_apart(grid, km, 5, max(2 * 111 * spacing, 100), region)
    centres = grid[tops]
    for turn in range(1, 5):
        centres, km, rows = refine(kith, index, centres, spacing / 4**turn, 9, f"poles{turn}")
        if turn == 2:
            centres = centres[far_apart(centres, km, count, 3000)]
    return [(*centres[i], km[i], rows[i]) for i in np.argsort(-km)]


def table(title, rows):
    """Prints rows of text under one heading, columns as wide as they need; the second row is a rule."""
    widths = [max(len(row[c]) for row in rows) for c in range(len(rows[0]))]
    lines = [
        "  ".join(t.rjust(w) if t.endswith(" km") or t.replace(".", "").replace(",", "").isdigit() else t.ljust(w)
                  for t, w in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]  # fmt: skip
    return "\n".join([title, *(f"  {line}" for line in [lines[0], "-" * len(lines[0]), *lines[1:]])])


def place_rows(places, order, sea, shore, lonlat, level):
    head = ["place", "country", "to the sea", "nearest sea coast", "to any shore", "which is"]
    return [head] + [
        [
            places[i].name,
            places[i].country,
            f"{sea[1][i]:,.1f} km",
            coordinates(*lonlat[sea[0][i]]),
            f"{shore[1][i]:,.1f} km",
            SHORES[int(level[shore[0][i]])],
        ]
        for i in order
    ]


def main():
    options = parse()
    started = time.perf_counter()
    kith = Kith.of(options)
    out = kith.folder

    print("Kith demo: where is the nearest coast?\n")
    print("1. The coast: every point of GSHHG's full-resolution shoreline, on the unit sphere")
    files = ensure("coast")
    points = np.load(files["points"], mmap_mode="r")
    lonlat = np.load(files["lonlat"], mmap_mode="r")
    level = np.load(files["level"])
    sea_rows = np.flatnonzero(level == SEA_LEVEL)
    sea_file = out / "sea.npy"
    if not sea_file.is_file() or sea_file.stat().st_mtime < files["points"].stat().st_mtime:
        np.save(out / ".sea.npy", points[sea_rows])
        os.replace(out / ".sea.npy", sea_file)
    sea_points = np.load(sea_file, mmap_mode="r")
    print(f"  {len(points):,} points of every shore (sea, lakes, islands in lakes), {len(sea_points):,} of the sea")

    print("\n2. Two k-d trees")
    shore_index, sea_index = out / "shore.kith", out / "sea.kith"
    kith.build(files["points"], shore_index)
    kith.build(sea_file, sea_index)

    places = read_places()
    positions = np.array([(p.longitude, p.latitude) for p in places])
    queries = unit_sphere(positions)
    print(f"\n3. {len(places)} cities of Debian's time zones: the nearest shore of any kind, the nearest sea")
    found_shore = kith.nearest(shore_index, queries, "cities-shore")
    found_sea = kith.nearest(sea_index, queries, "cities-sea")

    spacing = options.grid
    grid = globe_grid(spacing)
    grid_queries = unit_sphere(grid)
    print(f"\n4. A grid of {len(grid):,} places, {spacing:g} degrees apart, over the globe")
    grid_shore = kith.nearest(shore_index, grid_queries, "grid-shore")
    grid_sea = kith.nearest(sea_index, grid_queries, "grid-sea")
    grid_km = kilometres(grid_sea[1])

    print("\n5. The places farthest from the sea, refined by finer grids")
    poles = poles_of_inaccessibility(kith, sea_index, grid, grid_km, spacing)

    print("\n6. The oracle: the same questions to NumPy in float64, all points, compared bit for bit")
    before = time.perf_counter()
    random = np.random.default_rng(len(grid))
    for cloud, asked, (rows, chords) in (
        (points, queries, found_shore),
        (points, grid_queries, grid_shore),
        (sea_points, queries, found_sea),
        (sea_points, grid_queries, grid_sea),
    ):
        try:
            oracle.check(cloud, asked, rows, chords, random.choice(len(asked), CHECKED, replace=False))
        except AssertionError as error:
            sys.exit(f"demo: the oracle disagrees: {error}")
    print(
        f"  {4 * CHECKED} answers, chosen at random, agree: same row, same distance "
        f"({time.perf_counter() - before:.1f} s)"
    )

    sea = (sea_rows[found_sea[0]], kilometres(found_sea[1]))
    shore = (found_shore[0], kilometres(found_shore[1]))
    order = np.argsort(sea[1], kind="stable")
    everything = table("All cities, by their distance to the sea", place_rows(places, order, sea, shore, lonlat, level))
    (out / "cities.txt").write_text(everything + "\n")
    print()
    print(table("Cities nearest to the sea", place_rows(places, order[:10], sea, shore, lonlat, level)))
    print()
    print(table("Cities farthest from the sea", place_rows(places, order[:-16:-1], sea, shore, lonlat, level)))
    print()
    rows = [["place on Earth", "to the sea", "nearest sea coast", "nearest city of the table"]]
    for longitude, latitude, km, row in poles:
        chords = np.linalg.norm(queries - unit_sphere(np.array([(longitude, latitude)])), axis=1)
        near = int(chords.argmin())
        rows.append([
            coordinates(longitude, latitude), f"{km:,.1f} km", coordinates(*lonlat[sea_rows[row]]),
            f"{places[near].name}, {places[near].country} ({kilometres(chords[near]):,.0f} km)",
        ])  # fmt: skip
    print(table("Farthest from the sea anywhere (the first is known as Point Nemo)", rows))

    print("\n7. The map")
    picture.draw(
        out / "coast.png", spacing, grid, grid_km, lonlat[sea_rows], places, [p[:3] for p in poles[:2]],
        f"Distance to the nearest of {len(sea_points):,} points of the sea coast, exact: "
        f"measured at {len(grid):,} places",
    )  # fmt: skip
    print(
        f"\nBuilding two trees over {len(points) + len(sea_points):,} points took {kith.build_seconds:.1f} s, searching "
        f"{kith.search_seconds:.1f} s: {kith.queries:,} queries, files read and written. "
        f"Everything: {time.perf_counter() - started:.1f} s."
    )


if __name__ == "__main__":
    main()
