"""The picture: two pictures joined by what was found to be the same, and single details side by side."""

import numpy as np

SIDE = 96  # pixels of a patch
INK, PAPER = "#1c2026", "#ffffff"


def patch(image, x, y, diameter, degrees, side=SIDE):
    """The detail as its descriptor sees it: turned upright, at one size; float [side, side, 3] from an image uint8.

    A descriptor of SIFT looks at about six times the keypoint's diameter; places outside of the picture repeat its rim.
    """
    reach = 3 * diameter
    steps = (np.arange(side) + 0.5) / side * 2 - 1
    across, down = np.meshgrid(steps * reach, steps * reach)
    turn = np.radians(degrees)
    columns = x + across * np.cos(turn) - down * np.sin(turn)
    rows = y + across * np.sin(turn) + down * np.cos(turn)
    columns, rows = np.clip(columns, 0, image.shape[1] - 1.001), np.clip(rows, 0, image.shape[0] - 1.001)
    left, top = columns.astype(int), rows.astype(int)
    right, low = (columns - left)[..., None], (rows - top)[..., None]
    image = image.astype(np.float64) / 255
    above = image[top, left] * (1 - right) + image[top, left + 1] * right
    below = image[top + 1, left] * (1 - right) + image[top + 1, left + 1] * right
    return above * (1 - low) + below * low


def choose(places, found_places, distances, count, each, least, apart=40):
    """Numbers of queries to show: the nearest first, at most `each` of one picture, of a diameter of at least `least`
    pixels, no two within `apart` pixels of one another."""
    chosen = []
    for number in np.argsort(distances, kind="stable"):
        own, other = places[number], found_places[number]
        if min(own[3], other[3]) < least:
            continue
        same = [places[n] for n in chosen if places[n][0] == own[0]]
        if len(same) == each or any(np.hypot(*(p[1:3] - own[1:3])) < apart for p in same):
            continue
        chosen.append(int(number))
        if len(chosen) == count:
            break
    return chosen


def most_alike(places, found_places, near):
    """(asking picture, found picture) with the most queries in `near` (a mask) that lead from the one to the other."""
    pairs, counts = np.unique(np.stack([places[near, 0], found_places[near, 0]]), axis=1, return_counts=True)
    return tuple(int(n) for n in pairs[:, counts.argmax()])


def draw(path, images, titles, places, found_places, distances, joined, shown, head, foot):
    """Writes the PNG, whole or not at all.

    images   {number: uint8 [h, w, 3]}
    joined   queries to join by lines, all of one picture and found in one other
    shown    queries to show as pairs of patches
    """
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.patches import ConnectionPatch
    from matplotlib.patheffects import withStroke

    columns = 6
    down = -(-len(shown) // columns)
    figure = plt.figure(figsize=(14, 6.1 + 1.6 * down), facecolor=PAPER)
    grid = figure.add_gridspec(
        2, 1, height_ratios=[4.7, 1.6 * down], left=0.02, right=0.98, top=0.9, bottom=0.05, hspace=0.12
    )
    two = grid[0].subgridspec(1, 2, wspace=0.03)
    pair = int(places[joined[0], 0]), int(found_places[joined[0], 0])
    axes = []
    for at, (number, words) in enumerate(zip(pair, ("asked", "found"), strict=True)):
        axes.append(figure.add_subplot(two[at]))
        axes[-1].imshow(images[number])
        axes[-1].set_title(f"{words}: {titles[number]}", fontsize=11, color=INK, loc="left")
        axes[-1].axis("off")
    rim = [withStroke(linewidth=2, foreground=INK)]  # seen on any ground
    for query in joined:
        ends = places[query, 1:3], found_places[query, 1:3]
        how = {"coordsA": "data", "coordsB": "data", "axesA": axes[0], "axesB": axes[1]}
        axes[1].add_artist(ConnectionPatch(*ends, **how, color=PAPER, lw=0.8, path_effects=rim))
        for one, end in zip(axes, ends, strict=True):
            one.plot(*end, "o", ms=3, color=PAPER, markeredgecolor=INK, markeredgewidth=0.6)
    cells = grid[1].subgridspec(down, columns, wspace=0.08, hspace=0.3)
    for at, query in enumerate(shown):
        own, other = places[query], found_places[query]
        gap = np.ones((SIDE, 4, 3))
        both = np.hstack([patch(images[int(own[0])], *own[1:]), gap, patch(images[int(other[0])], *other[1:])])
        cell = figure.add_subplot(cells[at // columns, at % columns])
        cell.imshow(np.clip(both, 0, 1))
        cell.axis("off")
        cell.set_title(
            f"{titles[int(own[0])]} > {titles[int(other[0])]}, {distances[query] ** 0.5:.0f}", fontsize=8.5, color=INK
        )
    figure.text(0.02, 0.965, head, fontsize=15, weight="bold", color=INK)
    figure.text(0.02, 0.93, foot, fontsize=11, color=INK)
    temporary = path.with_name(f".{path.name}")
    figure.savefig(temporary, format="png", dpi=100, metadata={"Software": None})
    plt.close(figure)
    temporary.replace(path)
