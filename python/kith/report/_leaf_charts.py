"""Charts of the search in two layers, the ladder's rungs 27 to 40: time by the size of the leaves, a line an inside."""

from __future__ import annotations

import math
import re
from typing import Any

from ._charts import Chart, Table, add_legend, handle, tick
from ._draw import Frame
from ._ladder import Case, Timing, seconds_of
from ._text import duration, slug

# What is inside a leaf, by the start of a rung's id: its name, colour and marker.
_INSIDE = {
    "leaf-brute-": ("brute force in the leaves", "published", "s"),
    "leaf-tree-": ("a k-d tree in the leaves", "rung", "o"),
}
# Searches without leaves of that kind, as lines across, by id.
_BESIDE: dict[str, tuple[str, str, Any]] = {
    "best-first": ("best-first, leaves of 16", "muted", (0, (1, 2))),
    "engine-kd-tree-cpu": ("Kith: k-d tree in memory", "engine", "-"),
    "engine-tiles": ("Kith: point tiles on disk", "engine", (0, (5, 3))),
}
_UNIT = {"k": 1 << 10, "m": 1 << 20}


def leaf_points(rung_id: str) -> int | None:
    """Points of a leaf as the rung's id says: leaf-tree-64k has 65,536; None where it has no leaves of a size."""
    found = re.fullmatch(r"leaf-(?:brute|tree)-(\d+)([km])", rung_id)
    return int(found[1]) * _UNIT[found[2]] if found else None


def _size(points: float) -> str:
    return f"{points / _UNIT['m']:g}M" if points >= _UNIT["m"] else f"{points / _UNIT['k']:g}k"


def _lines(case: Case) -> dict[str, list[tuple[int, Timing]]]:
    """What was measured of each inside, by ascending leaves."""
    lines: dict[str, list[tuple[int, Timing]]] = {}
    for start in _INSIDE:
        own = [(points, t) for t in case.measured if t.rung.id.startswith(start) and (points := leaf_points(t.rung.id))]
        if own:
            lines[start] = sorted(own, key=lambda pair: pair[0])
    return lines


def leaf_chart(case: Case) -> Chart | None:
    """None where no inside was measured with two sizes of leaves."""
    lines = _lines(case)
    if all(len(line) < 2 for line in lines.values()):
        return None
    beside = [(t, *_BESIDE[t.rung.id]) for t in case.measured if t.rung.id in _BESIDE]

    def draw(frame: Frame) -> Any:
        from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

        columns = 1 if frame.narrow else 2
        entries = len(lines) + len(beside)
        figure_, axes = frame.start((300 if frame.narrow else 340) + 19 * math.ceil(entries / columns))
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        handles = []
        for start, line in lines.items():
            name, role, marker = _INSIDE[start]
            axes.plot([points for points, _ in line], [seconds_of(t) for _, t in line], "-", marker=marker,
                      color=frame.paint[role], markersize=7, linewidth=1.8, markerfacecolor=frame.paint["surface"],
                      markeredgewidth=1.6, zorder=3)  # fmt: skip
            handles.append(handle(frame, name, role, marker, hollow=True, line="-", size=7))
        for timing, name, role, style in beside:
            axes.axhline(seconds_of(timing), color=frame.paint[role], linestyle=style, linewidth=1.6, zorder=2)
            handles.append(handle(frame, name, role, "", line=style))
        values = [seconds_of(t) for line in lines.values() for _, t in line] + [seconds_of(t) for t, *_ in beside]
        axes.set_ylim(min(values) / 1.4, max(values) * 1.4)
        steps = (1.0, 2.0, 5.0) if max(values) < 30 * min(values) else (1.0,)
        axes.yaxis.set_major_locator(LogLocator(10, subs=steps, numticks=9))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: tick(duration(value))))
        sizes = sorted({points for line in lines.values() for points, _ in line})
        axes.set_xticks(sizes, [_size(points) for points in sizes])
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_minor_locator(NullLocator())
        add_legend(axes, frame, handles, columns, 1)
        axes.set_xlabel("points in a leaf, logarithmic")
        axes.set_ylabel("time, logarithmic; less is better")
        return figure_

    head = ("search", "points in a leaf", "time", "building")
    rows = [_row(_INSIDE[start][0], _size(points), t) for start, line in lines.items() for points, t in line]
    rows += [_row(name, "", t) for t, name, *_ in beside]
    best = {start: min(line, key=lambda pair: seconds_of(pair[1])) for start, line in lines.items()}
    said = " ".join(
        f"With {_INSIDE[start][0]} {_size(points)} points are the best: {duration(seconds_of(t))}."
        for start, (points, t) in best.items()
    )
    said += "".join(f" {name}: {duration(seconds_of(t))}." for t, name, *_ in beside)
    return Chart(
        f"leaves-{slug(case.name)}", f"Two layers: {case.title}",
        "Coarse leaves, found best first by their boxes, and inside them brute force or a tree: the published experiment on the size "
        "of the leaves. Small ones cost many visits; large ones, with brute force, many pairs. Building comes before the time, but point tiles "
        f"read theirs from the disk and build their trees within it. Data: {case.data or 'uniform'}.",
        f"Time by the points of a leaf. {said}", draw, Table(head, tuple(rows)),
    )  # fmt: skip


def _row(name: str, size: str, timing: Timing) -> tuple[str, ...]:
    time = duration(seconds_of(timing)) + ("" if timing.right else " (fails)")
    return name, size, time, "" if timing.build is None else duration(timing.build)
