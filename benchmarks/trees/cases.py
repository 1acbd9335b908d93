"""The measured cases of the trees: which points, which neighbours, which peers."""

import dataclasses
import subprocess

from benchmarks.datasets import cache_folder, ensure


@dataclasses.dataclass(frozen=True)
class TreeCase:
    """One run of tree_bench on `files(kith)`: (rows, queries or None)."""

    title: str
    text: str
    files: object
    k: tuple = (1, 8, 20, 32)
    seconds: float = 30  # no further round of a task after this time
    limit: float = 300  # a single search that takes longer is given up
    peers: tuple = ("scipy", "pykdtree")


def seeded(name):
    def files(kith):
        made = ensure("tree-points")
        return made[name], made[f"{name}.queries"]

    return files


def coast(kith):
    return ensure("coast")["points"], ensure("tree-coast")["queries"]


def shuffled_coast(kith):
    made = ensure("tree-coast")
    return made["shuffled"], made["queries"]


def duplicated_coast(kith):
    made = ensure("tree-coast")
    return made["duplicated"], made["queries"]


def run_once(path, *line):
    """Makes a file by the kith program, whose last argument is its name, unless it is there."""
    if not path.is_file():
        subprocess.run([*map(str, line), str(path), "--quiet"], check=True)
    return path


def terrain(kith):
    """2,000,000 points as an airborne scanner sees them, in its order."""
    common = (kith, "generate", "terrain_scan", "-d", 3, "--dtype", "f32")
    rows = run_once(cache_folder() / "tree-terrain.npy", *common, "-n", 2_000_000, "-o")
    queries = run_once(
        cache_folder() / "tree-terrain.queries.npy", *common, "-n", 500_000, "--first-row", 2_000_000, "-o"
    )
    return rows, queries


def building(kith):
    """The largest scan of CGAL's data: 100,000 points of a building."""
    return run_once(cache_folder() / "tree-building.npy", kith, "convert", ensure("scans")["building.ply"]), None


TREE_CASES = {
    "uniform": TreeCase("Uniform, shuffled", "A unit cube, evenly filled.", seeded("uniform")),
    "uniform-sorted": TreeCase(
        "Uniform, sorted along the Morton curve", "The same points in an order that suits caches.",
        seeded("uniform-sorted"),
    ),
    "coast": TreeCase(
        "The world's coastlines", "The points of GSHHG on the unit sphere in the file's order (bins of one degree); "
        "queries some 12 km from the coast.", coast, seconds=60, limit=600,
    ),
    "coast-shuffled": TreeCase(
        "The world's coastlines, shuffled", "The same points in random order.", shuffled_coast, k=(8,), seconds=60,
        limit=600, peers=(),
    ),
    "coast-duplicated": TreeCase(
        "The world's coastlines, half of them duplicated", "Half of the points are replaced by copies of the others.",
        duplicated_coast, k=(8,), seconds=60, limit=600, peers=(),
    ),
    "terrain": TreeCase(
        "Airborne scan of a terrain, generated", "`kith generate terrain_scan`, in the order of its strips.", terrain
    ),
    "building": TreeCase(
        "Scan of a building", "`building.ply` of CGAL's demo data, in the file's order.", building
    ),
    "clustered": TreeCase(
        "Clusters", "1000 normal clouds whose widths span three powers of ten, shuffled.", seeded("clustered")
    ),
    "half-same": TreeCase(
        "Half of the points at one place", "The other half uniform. A peer that looks at every one of the equal points "
        "for every one of them needs minutes.", seeded("half-same"), k=(1, 8), limit=20,
    ),
    "twice": TreeCase("Every point twice", "Uniform, shuffled.", seeded("twice"), k=(8,)),
    "line": TreeCase(
        "A line with growing gaps", "Collinear points over twelve powers of ten: cells of equal size are full or empty.",
        seeded("line"), k=(1, 8), limit=60,
    ),
    "uniform-8d": TreeCase(
        "Uniform in eight dimensions", "The unit cube, evenly filled.", seeded("uniform-8d"), k=(1, 8, 20)
    ),
}  # fmt: skip

# Of what the leaf-size sweep is measured on.
SWEEP_SIZES = (8, 12, 16, 24, 32, 48, 64, 96, 128)
SWEEP_K = (1, 8, 32)
