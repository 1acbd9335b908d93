"""The report's charts: each a drawing, what it says in words, and the table of the same numbers."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ._draw import Drawing, Frame
from ._text import cut

# Rows a chart of dots shows; the table beside it has all.
MOST_ROWS = 40
LABEL = 58  # letters of a row's name
BESIDE_MARK = 78.0  # pixels for the number beside the last dot


@dataclass(frozen=True)
class Table:
    """The first column names the row."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    words: frozenset[int] = frozenset({0})  # columns of words; the others are numbers
    strong: frozenset[int] = frozenset()  # rows to set off


@dataclass(frozen=True)
class Chart:
    name: str  # of its files, and of its ids on the page
    title: str
    caption: str  # how to read it
    alt: str  # what it shows, for those who cannot see it
    draw: Drawing
    table: Table
    notes: tuple[str, ...] = field(default=())


@dataclass(frozen=True)
class Mark:
    """A dot in a row of dots."""

    value: float
    series: str
    label: str = ""


def log_axis(axes: Any, low: float, high: float, room: float, write: Any, frame: Frame) -> None:
    """A logarithmic x axis from `low` to `high`, with `room` of its width kept free on the right."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    low, high = low / 1.4, high * 1.25
    decades = math.log10(high / low)
    axes.set_xscale("log")
    axes.set_xlim(low, low * 10 ** (decades / (1 - room)))
    steps = (1.0, 2.0, 5.0) if decades < 1.6 else (1.0,)  # a short axis would have one number or none
    axes.xaxis.set_major_locator(LogLocator(10, subs=steps, numticks=6 if frame.narrow else 9))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: tick(write(value))))


def tick(text: str) -> str:
    """A power of ten without digits that say nothing: 1.00 ms is 1 ms."""
    return re.sub(r"\.0+(?!\d)", "", text)


def dot_rows(frame: Frame, labels: Sequence[str], legend_lines: int) -> tuple[Any, Any, float]:
    """A figure with a row a label, the first on top; the labels stand beside it, or above each row where it is narrow."""
    row = 42.0 if frame.narrow else 25.0
    figure_, axes = frame.start(row * len(labels) + 52 + 19 * legend_lines)
    axes.grid(False, axis="y")
    axes.set_ylim(len(labels) - 0.4, -0.75 if frame.narrow else -0.6)
    if frame.narrow:
        axes.set_yticks([])
        for index, label in enumerate(labels):
            axes.annotate(
                cut(label, 46), (0, index), xycoords=("axes fraction", "data"), xytext=(0, 10),
                textcoords="offset points", color=frame.paint["ink"], fontsize=11.5, zorder=6,
                bbox={"facecolor": frame.paint["surface"], "edgecolor": "none", "pad": 1},
            )  # fmt: skip
    else:
        axes.set_yticks(range(len(labels)), [cut(label, LABEL) for label in labels])
        axes.tick_params(axis="y", labelcolor=frame.paint["ink"])
    inside = (
        frame.width - 20 if frame.narrow else frame.width - 30 - 6.6 * max(len(cut(label, LABEL)) for label in labels)
    )
    return figure_, axes, BESIDE_MARK / max(inside, 180.0)


def add_legend(axes: Any, frame: Frame, handles: Sequence[Any], columns: int, narrow: int = 2) -> None:
    if len(handles) < 2:
        return
    axes.legend(
        handles=list(handles), loc="lower left", bbox_to_anchor=(0, 1), ncols=narrow if frame.narrow else columns,
        borderaxespad=0, handletextpad=0.4, columnspacing=1.4, borderpad=0.3,
    )  # fmt: skip


def handle(
    frame: Frame, label: str, role: str, marker: str, *, hollow: bool = False, line: str = "", size: float = 8
) -> Any:
    from matplotlib.lines import Line2D

    colour = frame.paint[role]
    return Line2D(
        [], [], color=colour, marker=marker, linestyle=line or "none", markersize=size, label=label,
        markerfacecolor="none" if hollow else colour, markeredgecolor=colour, markeredgewidth=1.6,
    )  # fmt: skip


def ends(values: Sequence[float]) -> tuple[float, float]:
    return min(values), max(values)
