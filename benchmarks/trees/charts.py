"""python -m benchmarks.trees.charts: draws docs/images/leaf-size.svg and which-index.png from trees-cpu.json."""

import argparse
import json
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COLOURS = ("#1b6ca8", "#d1495b", "#3a7d44", "#8d6a9f")
SHORT = {1: "1 query", 100: "100 queries"}


def start():
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    # Text stays text and ids do not change from run to run: small files, small differences.
    plt.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "kith", "font.size": 9, "axes.spines.top": False,
                         "axes.spines.right": False})  # fmt: skip
    return plt


def save(plt, figure, path):
    path.parent.mkdir(parents=True, exist_ok=True)
    # No date or version in the file: the same figures make the same bytes.
    metadata = {"Date": None} if path.suffix == ".svg" else {"Software": None}
    figure.savefig(path, bbox_inches="tight", dpi=110, metadata=metadata)
    plt.close(figure)


def draw_leaf_sizes(sweep, path):
    """Time over leaf size: a panel a task, a line a tree."""
    plt = start()
    figure, panels = plt.subplots(1, len(sweep["runs"]), figsize=(2.6 * len(sweep["runs"]), 2.6), layout="constrained")
    for axes, run in zip(panels, sweep["runs"], strict=True):
        for name, colour in zip(("kd_tree", "octree"), COLOURS, strict=False):
            own = sorted((e["leaf_size"], e["median_seconds"]) for e in run["entries"] if e["name"] == name)
            axes.plot([x for x, _ in own], [y * 1e3 for _, y in own], "o-", color=colour, ms=3, label=name)
        axes.set_xscale("log", base=2)
        axes.set_xticks([8, 16, 32, 64, 128], ["8", "16", "32", "64", "128"])
        axes.set_ylim(bottom=0)
        title = {"build": "build", "search": "search, k = 1"}.get(run["task"], f"all-kNN, k = {run.get('k')}")
        axes.set_title(title, fontsize=9)
        axes.set_xlabel("points a leaf")
    panels[0].set_ylabel(f"ms, {sweep['rows']:,} uniform points")
    panels[0].legend(frameon=False)
    save(plt, figure, path)


def ratio(point):
    """How many times longer brute force takes; bounds where one was left out for its time, None where both were."""
    brute_force, tree = point["brute_force"], point["kd_tree"]
    if brute_force is None and tree is None:
        return None
    return 100.0 if brute_force is None else 0.01 if tree is None else brute_force / tree


def draw_crossover(crossover, path):
    """A panel for each number of queries and k: dimension by rows, coloured by what is quicker; a dot: auto's choice."""
    plt = start()
    import numpy as np
    from matplotlib.colors import LogNorm

    points = crossover["points"]
    dims, rows, ks = (sorted({p[c] for p in points}) for c in ("dim", "rows", "k"))
    asked = [("1 query", lambda p: p["queries"] == 1), ("100 queries", lambda p: p["queries"] == 100),
             ("as many queries as rows", lambda p: p["queries"] == p["rows"])]  # fmt: skip
    figure, panels = plt.subplots(len(ks), len(asked), figsize=(9, 1.9 * len(ks)), sharex=True, sharey=True,
                                  squeeze=False)  # fmt: skip
    for down, k in enumerate(ks):
        for along, (title, wanted) in enumerate(asked):
            axes = panels[down][along]
            field = np.full((len(rows), len(dims)), np.nan)
            for p in points:
                value = ratio(p)
                if p["k"] != k or not wanted(p) or value is None:
                    continue
                x, y = dims.index(p["dim"]), rows.index(p["rows"])
                field[y, x] = value
                text = f"{value:.2g}" if value < 10 else f"{value:.0f}"
                mark = ">" if p["brute_force"] is None else "<" if p["kd_tree"] is None else text
                weight = "bold" if p["chosen"] == "kd_tree" else "normal"
                axes.text(x, y, mark, ha="center", va="center", fontsize=6.5, weight=weight)
            edges = np.arange(len(dims) + 1) - 0.5, np.arange(len(rows) + 1) - 0.5
            image = axes.pcolormesh(
                *edges, field, cmap="RdYlGn", norm=LogNorm(0.02, 50), edgecolors="white", linewidth=1
            )
            axes.set_xticks(range(len(dims)), map(str, dims))
            axes.set_yticks(range(len(rows)), [f"{n:,}" for n in rows])
            if down == 0:
                axes.set_title(title, fontsize=9)
            if along == 0:
                axes.set_ylabel(f"k = {k}\nrows")
    for axes in panels[-1]:
        axes.set_xlabel("dimension")
    bar = figure.colorbar(image, ax=panels, fraction=0.02, pad=0.02, ticks=[0.1, 1, 10])
    bar.ax.set_yticklabels(["brute force 10 x", "equal", "k-d tree 10 x"])
    save(plt, figure, path)


def main():
    parser = argparse.ArgumentParser(prog="python -m benchmarks.trees.charts", description=__doc__)
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks/results/trees-cpu.json")
    parser.add_argument("--out", type=Path, default=ROOT / "docs/images")
    options = parser.parse_args()
    result = json.loads(options.results.read_text())
    for key, draw, name in (
        ("leaf_sizes", draw_leaf_sizes, "leaf-size.svg"), ("crossover", draw_crossover, "which-index.png"),
    ):  # fmt: skip
        if key in result:
            draw(result[key], options.out / name)
            print(options.out / name)


if __name__ == "__main__":
    main()
