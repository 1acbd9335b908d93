"""Where have we seen this before? Kith's demo on details of Debian's wallpapers; see tools/demo.sh."""

import json
import sys
import time

import numpy as np

from benchmarks.datasets import ensure
from tools.coast_demo.kith import Kith, arguments

from . import oracle, picture

NEIGHBORS = 10
RECALL = 0.95
ALIKE = 150.0  # distance below which two descriptors are taken to be of the same thing
LINES, PATCHES, EACH, LEAST = 40, 18, 2, 7.0
CHECKED = 8  # answers that the oracle repeats


def parse():
    parser = arguments("photo", __doc__)
    parser.add_argument("--recall", type=float, default=RECALL, help=f"to ask of the graph (default {RECALL})")
    return parser.parse_args()


def names(titles):
    """Titles, the second version of a picture named as such."""
    return [f"{title}, again" if title in titles[:number] else title for number, title in enumerate(titles)]


def main():
    options = parse()
    started = time.perf_counter()
    kith = Kith.of(options)
    out = kith.folder

    print("Kith demo: where have we seen this detail before?\n")
    print(
        "1. An album: what SIFT finds in the wallpapers of Debian's Plasma and GNOME; some pictures are held out and ask"
    )
    try:
        files = ensure("photo-details")
    except (FileNotFoundError, ModuleNotFoundError) as error:
        print(f"  left out: {error}")
        return
    rows, queries = np.load(files["base"]), np.load(files["queries"])
    row_places, places = np.load(files["base-places"]), np.load(files["queries-places"])
    album, asking = len(np.unique(row_places[:, 0])), len(np.unique(places[:, 0]))
    print(
        f"  {len(rows):,} details of {album} pictures, {rows.shape[1]} bytes each; {len(queries):,} of {asking} others"
    )

    print("\n2. A graph over the album, which measures its own recall")
    _, build_seconds = kith.run("build", files["base"], "--index", "vamana", *kith.threads, "-o", out / "album.kith")
    print(f"    {build_seconds:.1f} s")

    print(f"\n3. The {NEIGHBORS} nearest of each new detail: by the graph, and all of them exactly")
    asked = ["search", out / "album.kith", files["queries"], "-k", NEIGHBORS, *kith.threads]
    said, _ = kith.run(*asked, "--recall", options.recall, "-o", out / "graph")
    whole, _ = kith.run(*asked, "--recall", 1, "-o", out / "exact")
    about = said["statistics"]
    found, distances = np.load(out / "graph.indices.npy"), np.load(out / "graph.distances.npy")
    measured = kith.run("evaluate", out / "graph", out / "exact")[0]["recall_with_ties"]
    rates = [len(queries) / answer["statistics"]["seconds"] for answer in (said, whole)]
    stated = f"stated: at least {about['recall']:.3f}, measured: {measured:.4f}"
    print(f"  recall asked: {options.recall:g}, {stated}; {rates[0]:,.0f} queries/s with a list of "
          f"{about['list_size']}, exactly {rates[1]:,.0f}")  # fmt: skip

    print("\n4. The oracle: the same questions to NumPy in whole numbers, all details looked at")
    sample = np.random.default_rng(len(rows)).choice(len(queries), CHECKED, replace=False)
    try:
        oracle.check(rows, queries, np.load(out / "exact.indices.npy"), found, distances, sample)
    except AssertionError as error:
        sys.exit(f"demo: the oracle disagrees: {error}")
    print(f"  {CHECKED} answers, chosen at random, agree, and the graph's distances are true")

    print("\n5. The picture")
    from PIL import Image

    titles = names(json.loads(files["titles.json"].read_bytes()))
    nearest, near = row_places[found[:, 0]], distances[:, 0] < ALIKE**2
    first, second = picture.most_alike(places, nearest, near)
    between = np.flatnonzero((places[:, 0] == first) & (nearest[:, 0] == second) & near)
    spread = picture.choose(places[between], nearest[between], distances[between, 0], LINES, LINES, 0, 25)
    shown = picture.choose(places, nearest, distances[:, 0], PATCHES, EACH, LEAST)
    wanted = {first, second, *places[shown, 0].astype(int).tolist(), *nearest[shown, 0].astype(int).tolist()}
    images = {number: np.asarray(Image.open(files[f"{number:02}.jpg"]).convert("RGB")) for number in wanted}
    path = out / "photo-details.png"
    picture.draw(
        path, images, titles, places, nearest, distances[:, 0], between[spread], shown,
        "The same detail in another picture",
        f"{len(queries):,} details asked of {len(rows):,} by a graph. Recall {stated}. {rates[0]:,.0f} queries/s. "
        "Above each pair: its distance.",
    )  # fmt: skip
    print(f"  {options.out / path.name}")
    print(
        f"\n{int(near.sum()):,} of {len(queries):,} details are seen again in the album, nearest of all "
        f'"{titles[first]}" in "{titles[second]}". Everything: {time.perf_counter() - started:.1f} s.'
    )


if __name__ == "__main__":
    main()
