"""Charts of graphs: recall against queries a second, Kith's graph beside those of others."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from . import _draw
from ._charts import Chart, Table, add_legend, handle, tick
from ._draw import MARKERS, Frame
from ._inputs import Curve
from ._text import duration, faster_words, figure, short, size, slug

TARGETS = ("0.90", "0.95", "0.99")
LEAST, MOST = 0.5, 0.9998  # recalls outside are not drawn, or at the edge
TICKS = (0.5, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999)


def _place(recall: float) -> float:
    """Recall as a length: each step towards 1 that halves what is missed is as long as the one before."""
    return -math.log10(1 - min(recall, MOST))


def _axis(axes: Any, frame: Frame) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    ticks = [t for t in TICKS if not frame.narrow or t in (0.5, 0.9, 0.99, 0.999)]
    axes.set_xlim(_place(LEAST) - 0.03, _place(MOST) + 0.05)
    axes.set_xticks([_place(t) for t in ticks], [f"{t:g}" for t in ticks])
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(10, subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: tick(short(value))))
    axes.set_xlabel("recall; to the right is better")
    axes.set_ylabel("queries a second, logarithmic")


def recall_chart(curves: Sequence[Curve]) -> Chart:
    """Of curves over the same rows with the same k and threads, Kith's among them."""
    first = curves[0]
    looks: dict[str, tuple[str, str]] = {}
    for curve in curves:
        others = sum(name != "Kith" for name in looks)
        look = (_draw.SERIES[1 + others % (len(_draw.SERIES) - 1)], MARKERS[1 + others % (len(MARKERS) - 1)])
        looks[curve.library] = ("engine", "o") if curve.library == "Kith" else look

    def draw(frame: Frame) -> Any:
        columns = 1 if frame.narrow else 3
        figure_, axes = frame.start((320 if frame.narrow else 400) + 19 * math.ceil(len(curves) / columns))
        for curve in sorted(curves, key=lambda c: c.library == "Kith"):
            role, marker = looks[curve.library]
            own = curve.library == "Kith"
            shown = [p for p in curve.points if p.recall >= LEAST]
            axes.plot([_place(p.recall) for p in shown], [p.queries_per_second for p in shown], "-", marker=marker,
                      color=frame.paint[role], markersize=7 if own else 5.5, linewidth=2.6 if own else 1.5,
                      markerfacecolor=frame.paint[role] if own else frame.paint["surface"], markeredgewidth=1.4,
                      zorder=4 if own else 3)  # fmt: skip
        _axis(axes, frame)
        add_legend(axes, frame, [
            handle(frame, f"{c.library} {c.version}", *looks[c.library], hollow=c.library != "Kith", line="-", size=7)
            for c in curves
        ], columns, 1)  # fmt: skip
        return figure_

    own = next((c for c in curves if c.library == "Kith"), None)
    head = [
        "library",
        "build",
        "memory",
        *(f"queries/s at {t}" for t in TARGETS),
        *(f"Kith is at {t}" for t in TARGETS),
    ]
    rows = []
    for curve in curves:
        rates = [curve.at.get(t) for t in TARGETS]
        kith = [own.at.get(t) if own is not None else None for t in TARGETS]
        beside = [
            "" if curve is own or not mine or not other else faster_words(mine / other)
            for mine, other in zip(kith, rates, strict=True)
        ]
        rows.append((f"{curve.library} {curve.version}", duration(curve.build_seconds), size(curve.memory_bytes),
                     *("-" if rate is None else figure(rate) for rate in rates), *beside))  # fmt: skip
    notes = [f"{c.library}: {c.parameters}." for c in curves if c.parameters]
    for curve in curves:
        for said in curve.stated:
            notes.append(
                f"Asked for a recall of {said.asked:g}, {curve.library} takes a list of {said.setting}, states at least "
                f"{said.stated:.3f} for queries like its rows and finds {said.recall:.4f} at {figure(said.queries_per_second)} "
                "queries a second."
            )
    notes += [f"Not measured: {name}: {why}." for name, why in first.failed]
    what = f"{first.data}, {first.rows:,} rows of d {first.dim} ({first.dtype}), k {first.k}, {first.where}"
    said = ", ".join(f"{t}: {figure(rate)}" for t in TARGETS if own is not None and (rate := own.at.get(t)))
    return Chart(
        slug(f"recall-{first.data}-{first.rows}-k-{first.k}-threads-{first.threads}"),
        f"{first.data}, k {first.k}, {first.where}",
        f"{first.rows:,} rows of d {first.dim} ({first.dtype}), {first.queries:,} queries. Each mark is a length of the list that a "
        "search keeps; recall is measured against exact answers. Higher and farther right is better. Rates at a recall "
        "are interpolated between two marks; memory is what the process grew by, rows included where a library copies them.",
        f"Recall against queries a second of {len(curves)} libraries over {what}."
        + (f" Kith at recall {said}." if said else ""),
        draw, Table(tuple(head), tuple(rows), strong=frozenset(i for i, c in enumerate(curves) if c is own)), tuple(notes),
    )  # fmt: skip


def recall_charts(curves: Sequence[Curve]) -> list[Chart]:
    """A chart for each set of rows, k and number of threads, in the order they were measured."""
    groups: dict[tuple[object, ...], list[Curve]] = {}
    for curve in curves:
        groups.setdefault((curve.source, curve.data, curve.rows, curve.k, curve.threads), []).append(curve)
    return [recall_chart(group) for group in groups.values()]
