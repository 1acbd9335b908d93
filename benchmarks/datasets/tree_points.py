"""Seeded points for the trees: spread evenly, in clusters, equal, on a line; and coast in other orders."""

import numpy as np

SEED = 20260401
ROWS = 1_000_000
ROWS_8D = 200_000  # in eight dimensions a query costs some fifty times more


def morton_order(points):
    """Row numbers along the Morton curve of a grid of 2^21 cells an axis; points [n, 3] in [0, 1)."""
    key = np.zeros(len(points), np.uint64)
    for axis in range(3):
        cell = (points[:, axis].astype(np.float64) * (1 << 21)).astype(np.uint64)
        # Spreads 21 bits to every third place.
        for shift, mask in (
            (32, 0x1F00000000FFFF), (16, 0x1F0000FF0000FF), (8, 0x100F00F00F00F00F),
            (4, 0x10C30C30C30C30C3), (2, 0x1249249249249249),
        ):  # fmt: skip
            cell = (cell | (cell << np.uint64(shift))) & np.uint64(mask)
        key |= cell << np.uint64(axis)
    return np.argsort(key, kind="stable")


def clusters(random, rows, centres):
    """Normal clouds around 1000 centres, whose widths span three powers of ten."""
    member = random.integers(len(centres), size=rows)
    width = 10 ** np.linspace(-4, -1, len(centres))
    return (centres[member] + random.standard_normal((rows, 3)) * width[member, None]).astype(np.float32)


def half_at_one_place(random, rows):
    points = random.random((rows, 3), np.float32)
    points[random.permutation(rows)[: rows // 2]] = points[0]
    return points


def line(random, rows):
    """On one line through the origin, gaps growing by a constant factor over twelve powers of ten; shuffled.

    Cells of equal size hold nearly nothing or nearly all of it.
    """
    place = 10 ** random.uniform(-6, 6, rows)
    return (place[:, None] * np.array([1, 0.5, 0.25])).astype(np.float32)


def make(log):
    """The files of `tree-points`: {CASE: rows, CASE.queries: other points of the same kind}."""
    log("  drawing points")
    made = {}

    def draw(name, recipe):
        random = np.random.default_rng([SEED, len(made)])
        made[name], made[f"{name}.queries"] = recipe(random), recipe(random)

    draw("uniform", lambda random: random.random((ROWS, 3), np.float32))
    made["uniform-sorted"] = made["uniform"][morton_order(made["uniform"])]
    made["uniform-sorted.queries"] = made["uniform.queries"][morton_order(made["uniform.queries"])]
    centres = np.random.default_rng(SEED).random((1000, 3))
    draw("clustered", lambda random: clusters(random, ROWS, centres))
    draw("half-same", lambda random: half_at_one_place(random, ROWS))
    draw("twice", lambda random: random.permutation(np.tile(random.random((ROWS // 2, 3), np.float32), (2, 1))))
    draw("line", lambda random: line(random, ROWS))
    draw("uniform-8d", lambda random: random.random((ROWS_8D, 8), np.float32))
    return made


def near(points, count, random):
    """Places near points: `count` random rows, moved by a normal error of 0.1 % of the extent."""
    rows = points[random.integers(len(points), size=count)]
    scale = 1e-3 * float((points.max(axis=0) - points.min(axis=0)).max())
    return (rows + scale * random.standard_normal(rows.shape)).astype(np.float32)


def make_coast(log, coast):
    """The files of `tree-coast`: the points of `coast` shuffled, half of them replaced by the other half; queries."""
    log("  shuffling the coast")
    points, random = np.load(coast["points"]), np.random.default_rng(SEED)
    order = random.permutation(len(points))
    half = len(points) // 2
    duplicated = points.copy()
    duplicated[order[:half]] = points[order[half : 2 * half]]
    return {"shuffled": points[order], "duplicated": duplicated, "queries": near(points, ROWS, random)}
