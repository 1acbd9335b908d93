"""Charts of walks through a graph, the ladder's rungs 41 and up: queries a second and recall, a bar a rung."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ._charts import Chart, Table, add_legend, dot_rows, handle, log_axis
from ._draw import Drawing, Frame
from ._ladder import Case, Ladder, Timing, seconds_of
from ._text import figure, short, slug, times

# What a rung leaves out or changes, by its id: it is shown beside the rung it is made from.
ABLATIONS = {
    "bang-no-prefetch": "bang-base", "bang-no-async": "bang-base", "bang-no-bloom": "bang-in-memory",
    "bang-atomic-add": "bang-in-memory", "bang-one-size": "bang-in-memory", "bang-8-bytes": "bang-in-memory",
    "bang-16-bytes": "bang-in-memory", "bang-32-bytes": "bang-in-memory", "bang-64-bytes": "bang-in-memory",
}  # fmt: skip


def rate(case: Case, timing: Timing) -> float:
    """Queries a second."""
    return case.queries / seconds_of(timing)


def recall_of(timing: Timing) -> float:
    assert timing.recall is not None
    return timing.recall


def _label(timing: Timing) -> str:
    return f"{timing.rung.number}. {timing.rung.name}"


def _role(timing: Timing) -> str:
    if timing.rung.engine:
        return "engine"
    return "published" if timing.rung.id in ABLATIONS else "rung"


_ROLES = {
    "rung": "a whole search",
    "published": "BANG with one part changed",
    "engine": "Kith",
}


def _bars(shown: list[Timing], values: list[float], write: Callable[[float], str], name: str, log: bool) -> Drawing:
    def draw(frame: Frame) -> Any:
        roles = [role for role in _ROLES if any(_role(t) == role for t in shown)]
        figure_, axes, room = dot_rows(frame, [_label(t) for t in shown], 2 if frame.narrow else 1)
        if log:
            log_axis(axes, min(values), max(values), room, short, frame)
        else:
            axes.set_xlim(0, 1 / (1 - room))
            axes.set_xticks([0, 0.25, 0.5, 0.75, 1])
        start = axes.get_xlim()[0]
        for index, (timing, value) in enumerate(zip(shown, values, strict=True)):
            axes.barh(
                index, value - start, left=start, height=0.5, color=frame.paint[_role(timing)], alpha=0.75, zorder=3
            )
            axes.annotate(
                write(value) + ("" if timing.right else " (fails)"), (value, index), xytext=(6, 0),
                textcoords="offset points", va="center", color=frame.paint["ink"], fontsize=11.5, zorder=7,
                weight="bold" if timing.rung.engine else "normal",
            )  # fmt: skip
        add_legend(axes, frame, [handle(frame, _ROLES[role], role, "s") for role in roles], 3, 2)
        axes.set_xlabel(name)
        return figure_

    return draw


def beside(case: Case, timing: Timing) -> tuple[Timing, float] | None:
    """The rung that one is made from, and how many times its queries a second this one has."""
    whole = next((t for t in case.measured if t.rung.id == ABLATIONS.get(timing.rung.id)), None)
    return (whole, seconds_of(whole) / seconds_of(timing)) if whole is not None else None


def walk_table(case: Case) -> Table:
    rows = []
    for timing in case.measured:
        changed = beside(case, timing)
        floor = "" if timing.recall_floor is None else f"{timing.recall_floor:g}"
        rows.append((
            _label(timing), figure(rate(case, timing)), f"{recall_of(timing):.4f}", floor,
            "" if changed is None else f"{times(changed[1])} of rung {changed[0].rung.number}",
            "true" if timing.wrong == 0 else f"{timing.wrong:,} wrong",
        ))  # fmt: skip
    head = ("rung", "queries/s", "recall", "must reach", "queries/s beside", "distances")
    strong = frozenset(i for i, t in enumerate(case.measured) if t.rung.engine)
    return Table(head, tuple(rows), frozenset({0, 4, 5}), strong)


def walk_charts(ladder: Ladder, case: Case) -> list[Chart]:
    """Queries a second, and recall, of a case's rungs."""
    shown = case.measured
    rates = [rate(case, t) for t in shown]
    recalls = [recall_of(t) for t in shown]
    where = f"{case.title}, worklists of {case.list_size}, a graph of up to {case.degree} neighbours"
    notes = [f"Rung {t.rung.number}: {t.fallback}." for t in shown if t.fallback]
    skipped = [t for t in case.timings if t.seconds is None and t.rung.number > 40]
    for reason in dict.fromkeys(t.skipped for t in skipped):
        numbers = ", ".join(str(t.rung.number) for t in skipped if t.skipped == reason)
        notes.append(f"Not run: {numbers}: {reason}.")
    table = walk_table(case)
    said = " ".join(
        f"{_label(t)}: {figure(r)} a second, recall {recall_of(t):.3f}." for t, r in zip(shown, rates, strict=True)
    )
    name = f"{slug(case.name)}-lists-{case.list_size}"
    return [
        Chart(
            f"walks-rate-{name}", f"Queries a second: {where}",
            "All rungs walk through the same graph with lists of the same length. A bar is the rate of a search alone, on a "
            f"logarithmic scale; longer is faster. Data: {case.data}.",
            f"{len(shown)} searches of {where}, by queries a second. {said}",
            _bars(shown, rates, figure, "queries a second, logarithmic", True), table, tuple(notes),
        ),
        Chart(
            f"walks-recall-{name}", f"Recall: {where}",
            "The share of the nearest rows that each rung found, against brute force. It depends on the graph, the list's length and "
            "what the walk compares; not on where things lie or when they are copied.",
            f"{len(shown)} searches of {where}, by recall. {said}",
            _bars(shown, recalls, lambda value: f"{value:.3f}", "recall", False), table,
        ),
    ]  # fmt: skip
