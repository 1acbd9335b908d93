"""Charts of searches: queries a second, scaling, and what the filter keeps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from . import _draw
from ._charts import (
    MOST_ROWS,
    Chart,
    Table,
    add_legend,
    dot_rows,
    ends,
    handle,
    log_axis,
    tick,
)
from ._draw import MARKERS, Frame
from ._inputs import Search
from ._text import cut, duration, faster_words, figure, percent, short, slug, times


def _labels(searches: Sequence[Search], *, where: bool = True) -> list[str]:
    """A label a search: what sets it apart from the others."""

    def varies(*names: str) -> bool:
        return len({tuple(getattr(s, name) for name in names) for s in searches}) > 1

    labels = []
    for s in searches:
        words = [s.data.removesuffix(".npy").removesuffix(".base")] if s.data and varies("data") else []
        words.append(f"d {s.dim}, q {s.queries:,}, n {tick(short(s.rows))}")
        words += [s.dtype] if varies("dtype") else []
        words.append(f"k {s.k}")
        words += [s.metric] if varies("metric") else []
        words += [s.filter] if varies("filter") else []
        if s.batch:
            words.append("one query a call" if s.batch == 1 else f"{s.batch} a call")
        words += [s.where] if where and varies("where") else []
        words += [s.mode] if s.mode else []
        labels.append(", ".join(words))
    return labels


def qps_chart(searches: Sequence[Search], worker: str) -> Chart | None:
    """Queries a second, beside the peers of the same run."""
    found = [s for s in searches if s.worker == worker]
    if not found:
        return None
    labels = _labels(found)
    peers = list(dict.fromkeys(p.name for s in found for p in s.peers))
    look = {"Kith": ("engine", "o", False)}
    for at, peer in enumerate(peers):
        look[peer] = (_draw.SERIES[1 + at % (len(_draw.SERIES) - 1)], MARKERS[1 + at % (len(MARKERS) - 1)], True)
    rows_shown = list(zip(labels, found, strict=True))[:MOST_ROWS]

    def draw(frame: Frame) -> Any:
        lines = math.ceil(len(look) / (2 if frame.narrow else 4))
        figure_, axes, room = dot_rows(frame, [label for label, _ in rows_shown], lines)
        values = [s.queries_per_second for _, s in rows_shown] + [
            p.queries_per_second for _, s in rows_shown for p in s.peers
        ]
        log_axis(axes, min(values), max(values), room, short, frame)
        for index, (_, s) in enumerate(rows_shown):
            own = [s.queries_per_second, *(p.queries_per_second for p in s.peers)]
            axes.hlines(index, *ends(own), color=frame.paint["grid"], linewidth=5, zorder=1)
            for name, value in [(p.name, p.queries_per_second) for p in s.peers] + [("Kith", s.queries_per_second)]:
                role, marker, hollow = look[name]
                axes.plot(value, index, marker, color=frame.paint[role], markersize=7 if hollow else 9, markeredgewidth=1.6,
                          markerfacecolor=frame.paint["surface"] if hollow else frame.paint[role], zorder=3)  # fmt: skip
            axes.annotate(short(max(own)) if s.queries_per_second == max(own) else "", (max(own), index), xytext=(9, 0),
                          textcoords="offset points", va="center", color=frame.paint["ink"], weight="bold", fontsize=11.5, zorder=7)  # fmt: skip
        add_legend(axes, frame, [handle(frame, n, r, m, hollow=h) for n, (r, m, h) in look.items()], 4)
        axes.set_xlabel("queries a second, logarithmic; more is better")
        return figure_

    head = (
        "search",
        "rows",
        "metric",
        "on",
        "time",
        "queries/s",
        *(part for peer in peers for part in (peer, "Kith is")),
    )
    table = []
    for label, s in zip(labels, found, strict=True):
        row = [label, f"{s.rows:,}", s.metric, s.where, duration(s.seconds), figure(s.queries_per_second)]
        for peer in peers:
            mine = next((p for p in s.peers if p.name == peer), None)
            row += ["", ""] if mine is None else [
                figure(mine.queries_per_second), "" if mine.ratio is None else faster_words(mine.ratio)
            ]  # fmt: skip
        table.append(tuple(row))
    best = max(found, key=lambda s: s.queries_per_second)
    worst = min((p.ratio for s in found for p in s.peers if p.ratio is not None), default=None)
    alt = f"{len(found)} searches by their queries a second; the most is {figure(best.queries_per_second)} ({best.shape})."
    if worst is not None:
        alt += (
            f" Beside {', '.join(peers)} Kith is at least {faster_words(worst)}."
            if worst > 1
            else f" At worst Kith is {faster_words(worst)} than a peer."
        )
    where = "on the CPU" if worker == "thread" else "on GPUs"
    notes = (
        (f"The chart shows the first {MOST_ROWS} of {len(found)} searches; the table has all.",)
        if len(found) > MOST_ROWS
        else ()
    )
    return Chart(
        f"queries-per-second-{'cpu' if worker == 'thread' else 'gpu'}", f"Queries a second {where}",
        ("Brute force, exact answers. " + ("The peers ran in turns with Kith on the same data, with the same number of threads. " if peers else "")
         + f"{_common(found)}"),
        alt, draw, Table(head, tuple(table), frozenset({0, 2, 3})), notes,
    )  # fmt: skip


def _common(searches: Sequence[Search]) -> str:
    """What all of them share, which the labels leave out."""
    words = []
    for name, attribute in (
        ("type", "dtype"),
        ("metric", "metric"),
        ("filter", "filter"),
        ("on", "where"),
        ("data", "data"),
    ):
        values = {str(getattr(s, attribute)) for s in searches} - {""}
        if len(values) == 1:
            words.append(f"{name} {values.pop()}")
    return f"All: {', '.join(words)}." if words else ""


def scaling_chart(searches: Sequence[Search], worker: str) -> Chart | None:
    """The same search with more threads, or on more GPUs."""
    groups: dict[tuple[object, ...], dict[int, Search]] = {}
    for s in searches:
        if s.worker == worker:
            key = (s.source, s.data, s.rows, s.dim, s.dtype, s.queries, s.k, s.metric, s.filter, s.batch, s.mode)
            groups.setdefault(key, {}).setdefault(s.workers, s)
    found = [sorted(group.items()) for group in groups.values() if len(group) > 1]
    if not found:
        return None
    labels = _labels([group[0][1] for group in found], where=False)  # how many there are is the axis
    shown = list(zip(labels, found, strict=True))[:10]

    def factor(group: list[tuple[int, Search]], s: Search) -> float:
        return group[0][0] * group[0][1].seconds / s.seconds

    def draw(frame: Frame) -> Any:
        columns = 1 if frame.narrow else 2
        figure_, axes = frame.start((300 if frame.narrow else 340) + 19 * math.ceil((len(shown) + 1) / columns))
        counts = sorted({n for _, group in shown for n, _ in group})
        axes.plot(counts, counts, color=frame.paint["muted"], linestyle=(0, (5, 3)), linewidth=1.6)
        handles = [handle(frame, f"as many times faster as {worker}s", "muted", "", line="--")]
        for at, (label, group) in enumerate(shown):
            role, marker = _draw.SERIES[at % len(_draw.SERIES)], MARKERS[at % len(MARKERS)]
            axes.plot([n for n, _ in group], [factor(group, s) for _, s in group], "-", marker=marker, color=frame.paint[role],
                      markersize=7, linewidth=1.8, markerfacecolor=frame.paint["surface"], markeredgewidth=1.6)  # fmt: skip
            handles.append(handle(frame, cut(label, 44), role, marker, hollow=True, line="-", size=7))
        axes.set_xticks(counts, [str(n) for n in counts])
        axes.set_ylim(bottom=0)
        add_legend(axes, frame, handles, columns, 1)
        axes.set_xlabel(f"{worker}s")
        axes.set_ylabel("times faster than one")
        return figure_

    head = ("search", f"{worker}s", "time", "queries/s", "times faster", "of ideal")
    rows = tuple(
        (label, str(n), duration(s.seconds), figure(s.queries_per_second), times(factor(group, s)), percent(factor(group, s) / n))
        for label, group in zip(labels, found, strict=True) for n, s in group
    )  # fmt: skip
    top = max((factor(group, group[-1][1]), group[-1][0]) for group in found)
    return Chart(
        f"scaling-{slug(worker)}s", f"Scaling over {worker}s",
        f"The same search with more {worker}s, against the fewest that were measured"
        + (" (taken to be as many times one as there are)." if any(group[0][0] > 1 for group in found) else "."),
        f"Speed-up of {len(found)} search{'' if len(found) == 1 else 'es'} over the number of {worker}s; the largest is {times(top[0])} with {top[1]}.",
        draw, Table(head, rows),
        (f"The chart shows the first 10 of {len(found)}; the table has all.",) if len(found) > 10 else (),
    )  # fmt: skip


def surplus_chart(searches: Sequence[Search]) -> Chart | None:
    """What the certified filter kept beside what had to be kept."""
    found = [s for s in searches if s.certified]
    # The same search with other threads or GPUs keeps the same or nearly so: the first stands for all.
    kept: dict[tuple[object, ...], Search] = {}
    for s in found:
        kept.setdefault(
            (s.source, s.data, s.rows, s.dim, s.dtype, s.queries, s.k, s.metric, s.filter, s.batch, s.worker, s.mode), s
        )
    unique = list(kept.values())
    if not unique:
        return None
    labels = [
        label if len({s.worker for s in unique}) == 1 else f"{label} ({'CPU' if s.worker == 'thread' else 'GPU'})"
        for label, s in zip(_labels(unique, where=False), unique, strict=True)
    ]
    shown = list(zip(labels, unique, strict=True))[:MOST_ROWS]

    def candidates(s: Search) -> float:
        assert s.candidates is not None
        return s.candidates

    def draw(frame: Frame) -> Any:
        figure_, axes, room = dot_rows(frame, [label for label, _ in shown], 2 if frame.narrow else 1)
        values = [v for _, s in shown for v in (s.k, s.rows, max(candidates(s), 1))]
        log_axis(axes, min(values), max(values), room, short, frame)
        for index, (_, s) in enumerate(shown):
            value = max(candidates(s), 1)
            axes.hlines(index, s.k, s.rows, color=frame.paint["grid"], linewidth=5, zorder=1)
            axes.hlines(index, s.k, value, color=frame.paint["engine"], linewidth=3, alpha=0.4, zorder=2)
            for mark, x, role, filled in (
                ("|", s.rows, "rung", True),
                ("D", s.k, "floor", False),
                ("o", value, "engine", True),
            ):
                axes.plot(x, index, mark, color=frame.paint[role], markersize=11 if mark == "|" else 7, markeredgewidth=1.8,
                          markerfacecolor=frame.paint[role] if filled else frame.paint["surface"], zorder=3)  # fmt: skip
            axes.annotate(figure(candidates(s)), (value, index), xytext=(8, 0), textcoords="offset points", va="center",
                          color=frame.paint["ink"], weight="bold", fontsize=11.5, zorder=7)  # fmt: skip
        add_legend(axes, frame, [
            handle(frame, "k: must be kept", "floor", "D", hollow=True, size=7), handle(frame, "kept by the filter", "engine", "o"),
            handle(frame, "all rows", "rung", "|", size=11),
        ], 3)  # fmt: skip
        axes.set_xlabel("rows a query, logarithmic")
        return figure_

    head = ("search", "filter", "rows", "k", "kept a query", "kept / k", "of all rows", "fallbacks")
    rows = tuple(
        (label, s.filter, f"{s.rows:,}", str(s.k), figure(candidates(s)), figure(candidates(s) / s.k), percent(candidates(s) / s.rows),
         f"{s.fallbacks:,}")
        for label, s in zip(labels, unique, strict=True)
    )  # fmt: skip
    least, most = ends([candidates(s) / s.rows for s in unique])
    return Chart(
        "surplus", "What the certified filter keeps",
        "Kith compares every row, through a filter of one or two bytes a value, which carries a proof that it never drops a "
        "neighbour; what it keeps is evaluated exactly. The surplus is what it keeps beyond k. Fallbacks are queries that the "
        "filter kept too much for and that were evaluated exactly from then on.",
        f"{len(unique)} searches: the filter keeps between {percent(least)} and {percent(most)} of the rows. "
        + " ".join(f"{label}: {row[4]} kept for k {row[3]}." for label, row in list(zip(labels, rows, strict=True))[:8]),
        draw, Table(head, rows, frozenset({0, 1})),
        (f"The chart shows the first {MOST_ROWS} of {len(unique)} searches; the table has all.",) if len(unique) > MOST_ROWS else (),
    )  # fmt: skip
