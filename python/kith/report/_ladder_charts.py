"""Charts of a ladder: its rungs, what each is worth, and what the hardware allows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from . import _draw
from ._charts import (
    Chart,
    Table,
    add_legend,
    dot_rows,
    ends,
    handle,
    log_axis,
    tick,
)
from ._draw import MARKERS, Drawing, Frame
from ._ladder import Case, Ladder, Timing, seconds_of
from ._text import duration, faster_words, figure, percent, short, slug, times


def _rung_label(timing: Timing) -> str:
    return f"{timing.rung.number}. {timing.rung.name}"


_KINDS = {
    "cpu": ("a rung on the CPU", "rung", "s", True),
    "gpu": ("a rung on the GPU", "rung", "o", False),
    "engine cpu": ("Kith on the CPU", "engine", "s", True),
    "engine gpu": ("Kith on the GPU", "engine", "o", False),
}


def _kind(timing: Timing) -> str:
    return ("engine " if timing.rung.engine else "") + ("cpu" if timing.rung.device == "cpu" else "gpu")


def _times_text(seconds: Sequence[float]) -> str:
    return " to ".join(duration(value) for value in dict.fromkeys(seconds))


def _draw_ladder(case: Case) -> Drawing:
    def draw(frame: Frame) -> Any:
        shown, paint = case.measured, frame.paint
        kinds = [kind for kind in _KINDS if any(_kind(t) == kind for t in shown)]
        published = any(t.published for t in shown)
        entries = len(kinds) + published + (case.floor is not None)
        lines = math.ceil(entries / 2) if frame.narrow else math.ceil(entries / 3)
        figure_, axes, room = dot_rows(frame, [_rung_label(t) for t in shown], lines)
        values = [seconds_of(t) for t in shown] + [s for t in shown for s in t.published]
        values += [case.floor] if case.floor is not None else []
        log_axis(axes, min(values), max(values), room, duration, frame)
        start = axes.get_xlim()[0]
        for index, timing in enumerate(shown):
            _, role, marker, hollow = _KINDS[_kind(timing)]
            seconds = seconds_of(timing)
            axes.hlines(index, start, seconds, color=paint[role], linewidth=4 if timing.rung.engine else 2, alpha=0.35)
            axes.plot(
                seconds, index, marker, markersize=9 if timing.rung.engine else 7, color=paint[role], markeredgewidth=1.8,
                markerfacecolor=paint["surface"] if hollow else paint[role], zorder=4,
            )  # fmt: skip
            if timing.published:
                below = index + 0.3  # out of the way of the number beside the mark
                axes.hlines(below, *ends(timing.published), color=paint["published"], linewidth=1.6, zorder=3)
                axes.plot(
                    timing.published, [below] * len(timing.published), "D", markersize=6, color=paint["published"],
                    markerfacecolor=paint["surface"], markeredgewidth=1.5, zorder=3,
                )  # fmt: skip
            axes.annotate(
                duration(seconds) + ("" if timing.right else " (wrong)"), (seconds, index), xytext=(9, 0),
                textcoords="offset points", va="center", color=paint["ink"], fontsize=11.5, zorder=7,
                weight="bold" if timing.rung.engine else "normal",
            )  # fmt: skip
        handles = [handle(frame, *_KINDS[kind][:3], hollow=_KINDS[kind][3]) for kind in kinds]
        if published:
            handles.append(handle(frame, "published, on a V100", "published", "D", hollow=True, size=6))
        if case.floor is not None:
            axes.axvline(case.floor, color=paint["floor"], linewidth=1.8, linestyle=(0, (5, 3)), zorder=2)
            handles.append(handle(frame, f"floor: {duration(case.floor)}", "floor", "", line="--"))
        add_legend(axes, frame, handles, 3)
        axes.set_xlabel("time of one search, logarithmic; shorter is better")
        return figure_

    return draw


def compared(case: Case) -> tuple[Timing | None, Timing | None, float | None]:
    """Kith's fastest, the other rungs' fastest, and how many times faster Kith's is."""
    own, other = case.fastest(True), case.fastest(False)
    ratio = seconds_of(other) / seconds_of(own) if own is not None and other is not None else None
    return own, other, ratio


def trees_left_out(case: Case) -> tuple[str, str] | None:
    """Where the fastest is a tree and the other side's trees did not run: whose these are, and why. Not like with like."""
    right = [t for t in case.measured if t.right]
    first = min(right, key=seconds_of, default=None)
    if first is None or not first.rung.tree:
        return None
    theirs = [t for t in case.timings if t.rung.engine != first.rung.engine and t.rung.tree]
    if not theirs or any(t.seconds is not None for t in theirs):
        return None
    return "the ladder's trees" if first.rung.engine else "Kith's trees", theirs[0].skipped


def ladder_chart(ladder: Ladder, case: Case) -> Chart:
    measured, base = case.measured, case.base
    own, other, ratio = compared(case)
    head = ["rung", "time"]
    head += [f"faster than rung {base.rung.number}"] if base else []
    head += ["than the one before"]
    head += ["floor / time"] if case.floor is not None else []
    head += ["with copies"] if ladder.include_copies else []
    head += ["building"] if any(t.build is not None for t in measured) else []
    head += ["answer"] + (["published, V100"] if any(t.published for t in measured) else [])
    rows: list[tuple[str, ...]] = []
    strong: set[int] = set()
    for timing, before in zip(measured, [None, *measured], strict=False):
        seconds = seconds_of(timing)
        row = [_rung_label(timing), duration(seconds)]
        if base is not None:
            row.append(times(seconds_of(base) / seconds))
        row.append(times(seconds_of(before) / seconds) if before is not None and _one_idea(before, timing) else "")
        if case.floor is not None:
            row.append(percent(case.floor / seconds) if timing.rung.device != "cpu" else "")
        if ladder.include_copies:
            row.append("" if timing.with_copies is None else duration(timing.with_copies))
        if "building" in head:
            row.append("" if timing.build is None else duration(timing.build))
        row.append(answer(timing))
        if head[-1] != "answer":
            what = f" ({timing.published_what})" if timing.published_what else ""
            row.append(_times_text(timing.published) + what if timing.published else "")
        if timing is own:
            strong.add(len(rows))
        rows.append(tuple(row))
    alt = f"{len(measured)} rungs by their time for {case.title}. "
    if base is not None:
        alt += f"Rung {base.rung.number}, {base.rung.name}: {duration(seconds_of(base))}. "
    if other is not None:
        alt += f"The fastest rung that is not Kith, {other.rung.name}: {duration(seconds_of(other))}. "
    if own is not None:
        alt += f"Kith's fastest, {own.rung.name}: {duration(seconds_of(own))}" + (
            f", {faster_words(ratio)}. " if ratio else ". "
        )
    if case.floor is not None:
        alt += f"The hardware's floor: {duration(case.floor)}."
    notes = [f"Rung {t.rung.number}: {t.fallback}." for t in measured if t.fallback]
    notes += [f"{p.what}: {_times_text(p.seconds)}, published ({p.source})." for p in case.published if p.rung is None]
    unmeasured = {t.rung.number: t for t in case.timings if t.seconds is None}
    for p in case.published:
        if p.rung in unmeasured:
            notes.append(f"Rung {p.rung} did not run here; published: {_times_text(p.seconds)} ({p.what}; {p.source}).")
    for reason, numbers in _reasons(case).items():
        notes.append(f"Not run: {numbers}: {reason}.")
    nearest = "the nearest" if case.k == 1 else f"the {case.k} nearest"
    caption = f"Every rung answers the same question: {nearest} of {case.points:,} points for "
    caption += (
        f"{'one query' if case.queries == 1 else f'each of {case.queries:,} queries'}, in {case.dim} dimensions. "
    )
    if case.data:
        caption += f"Data: {case.data}. "
    if case.floor is not None:
        by = {
            "bandwidth": "it must read every point once",
            "arithmetic": "it must do every subtraction and multiply-add once",
        }
        caption += (
            f"The dashed line is what brute force in float32 takes on this GPU at least: {by.get(case.floor_by, case.floor_by)}. "
            "What looks at fewer pairs (a tree) or fewer bits (an int8 filter) can pass it."
        )
    return Chart(f"ladder-{slug(case.name)}", case.title[0].upper() + case.title[1:], caption, alt, _draw_ladder(case),
                 Table(tuple(head), tuple(rows), frozenset({0, head.index("answer"), len(head) - 1}), frozenset(strong)), tuple(notes))  # fmt: skip


def _one_idea(before: Timing, after: Timing) -> bool:
    """Whether the two are steps of one climb: the same kind of program on the same side."""
    if before.rung.engine or after.rung.engine or before.rung.tree != after.rung.tree:
        return False
    return (before.rung.device == "cpu") == (after.rung.device == "cpu")


def answer(timing: Timing) -> str:
    """Whether its indices were the engine's."""
    if timing.checked is None:
        return "not compared"
    return "right" if timing.right else f"{timing.wrong:,} wrong"


def _reasons(case: Case) -> dict[str, str]:
    """Why rungs were skipped: reason to the rungs' numbers."""
    found: dict[str, list[int]] = {}
    for timing in case.timings:
        if timing.seconds is None:
            found.setdefault(_without_number(timing.skipped, timing.rung.number), []).append(timing.rung.number)
    return {reason: _numbers(numbers) for reason, numbers in found.items()}


def _without_number(reason: str, number: int) -> str:
    """So that rungs skipped alike share a line: '--rungs 15' is each one's own number."""
    return reason.replace(f"--rungs {number}", "--rungs")


def _numbers(numbers: Sequence[int]) -> str:
    """Rungs 11 to 14 and 18."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    words = [str(a) if a == b else f"{a} and {b}" if b == a + 1 else f"{a} to {b}" for a, b in runs]
    text = words[0] if len(words) == 1 else ", ".join(words[:-1]) + " and " + words[-1]
    return f"rung{'' if len(numbers) == 1 else 's'} {text}"


def speedup_chart(ladder: Ladder) -> Chart | None:
    """All cases over each other: what every rung is worth, against the fastest of its case."""
    best = {
        case.name: min(map(seconds_of, right))
        for case in ladder.cases
        if (right := [t for t in case.measured if t.right])
    }
    cases = [case for case in ladder.cases if case.name in best and len(case.measured) > 1]
    if not cases:
        return None
    rungs = [r for r in ladder.rungs if any(t.rung.number == r.number for c in cases for t in c.measured)]
    factor = {(c.name, t.rung.number): seconds_of(t) / best[c.name] for c in cases for t in c.measured}

    def draw(frame: Frame) -> Any:
        columns = 1 if frame.narrow else 2
        figure_, axes, _ = dot_rows(frame, [f"{r.number}. {r.name}" for r in rungs], math.ceil(len(cases) / columns))
        log_axis(axes, min(factor.values()), max(factor.values()), 0.02, times, frame)
        for index, rung in enumerate(rungs):
            own = [factor[case.name, rung.number] for case in cases if (case.name, rung.number) in factor]
            axes.hlines(index, *ends(own), color=frame.paint["grid"], linewidth=5, zorder=1)
        handles = []
        for at, case in enumerate(cases):
            role, marker = _draw.SERIES[at % len(_draw.SERIES)], MARKERS[at % len(MARKERS)]
            found = [(factor[case.name, r.number], i) for i, r in enumerate(rungs) if (case.name, r.number) in factor]
            axes.plot([x for x, _ in found], [y for _, y in found], marker, color=frame.paint[role], markersize=7,
                      linestyle="none", markerfacecolor="none", markeredgewidth=1.6, zorder=3)  # fmt: skip
            handles.append(handle(frame, case.short, role, marker, hollow=True, size=7))
        axes.axvline(1, color=frame.paint["engine"], linewidth=1.4, zorder=2)
        add_legend(axes, frame, handles, columns, columns)
        axes.set_xlabel("times longer than the fastest, logarithmic" if frame.narrow else
                        "times longer than the fastest of the same case, logarithmic; 1 is the fastest")  # fmt: skip
        return figure_

    head = ("rung", *(case.short for case in cases))
    rows = tuple(
        (
            f"{r.number}. {r.name}",
            *(times(factor[c.name, r.number]) if (c.name, r.number) in factor else "" for c in cases),
        )
        for r in rungs
    )
    (name, number), most = max(factor.items(), key=lambda item: item[1])
    slowest = next(r for r in rungs if r.number == number)
    where = next(case.short for case in cases if case.name == name)
    winners = {min((t for t in c.measured if t.right), key=seconds_of).rung.name for c in cases}
    return Chart(
        f"speed-up-{slug(ladder.source)}", "What each rung is worth",
        "How many times longer a rung takes than the fastest one of the same case. A mark is a case; down the ladder a rung "
        "that helps moves the marks to the left. An empty place in the table is a rung that did not run in that case.",
        f"{len(rungs)} rungs in {_count(len(cases), 'case')} by how many times longer they take than the fastest of the case. The most "
        f"is {times(most)}: {slowest.name} at {where}. The fastest: {', '.join(sorted(winners))}.",
        draw, Table(head, rows, strong=frozenset(i for i, r in enumerate(rungs) if r.engine)),
    )  # fmt: skip


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


# ---------------------------------------------------------------------------------------------- the roofline


def roofline_chart(ladder: Ladder) -> Chart | None:
    """Rungs that look at every pair, under what the GPU's memory and arithmetic allow."""
    bandwidth, peak = ladder.bandwidth, ladder.instructions
    if bandwidth is None or peak is None:
        return None
    points: list[tuple[Case, list[Timing]]] = []
    for case in ladder.cases:
        found = [t for t in case.measured if t.rung.device == "gpu" and not t.rung.tree]
        if found:
            points.append((case, found))
    if not points:
        return None
    intensity = {case.name: case.operations / case.bytes for case, _ in points}

    def roof(x: float) -> float:
        return min(peak, bandwidth * x)

    shift = _side_by_side(intensity)

    def draw(frame: Frame) -> Any:
        from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

        paint = frame.paint
        columns = 1 if frame.narrow else 3
        lines = math.ceil((len(points) + 2) / columns)
        figure_, axes = frame.start((380 if frame.narrow else 430) + 19 * lines)
        axes.set_xscale("log")
        axes.set_yscale("log")
        xs = [intensity[c.name] * shift[c.name] for c, _ in points]
        ridge = peak / bandwidth
        low, high = min([*xs, ridge]) / 3, max([*xs, ridge]) * 3
        axes.plot([low, ridge, high], [roof(low), peak, peak], color=paint["floor"], linewidth=2.2, zorder=2)
        handles = []
        values = [case.operations / seconds_of(t) for case, found in points for t in found]
        for at, (case, found) in enumerate(points):
            role, marker = _draw.SERIES[at % len(_draw.SERIES)], MARKERS[at % len(MARKERS)]
            x = intensity[case.name] * shift[case.name]
            axes.vlines(
                x, *ends([case.operations / seconds_of(t) for t in found]), color=paint["grid"], linewidth=4, zorder=1
            )
            for timing in found:
                axes.plot(x, case.operations / seconds_of(timing), marker, color=paint[role], markeredgewidth=1.5,
                          markersize=10 if timing.rung.engine else 6, zorder=4,
                          markerfacecolor=paint[role] if timing.rung.engine else paint["surface"])  # fmt: skip
            handles.append(handle(frame, case.short, role, marker, size=7))
        axes.set_xlim(low, high)
        axes.set_ylim(min(values) / 2, max([*values, peak]) * 6)
        axes.xaxis.set_major_locator(LogLocator(10, numticks=9))
        axes.yaxis.set_major_locator(LogLocator(10, numticks=9))
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_minor_locator(NullLocator())
            axis.set_major_formatter(FuncFormatter(lambda value, _: tick(short(value))))
        axes.annotate(f"flat: arithmetic, {short(peak)} instructions/s\nslope: memory, {short(bandwidth)}B/s", (0, 1),
                      xycoords="axes fraction", xytext=(6, -5), textcoords="offset points", va="top", color=paint["floor"])  # fmt: skip
        handles += [
            handle(frame, "filled: Kith", "muted", "o"),
            handle(frame, "hollow: the other rungs", "muted", "o", hollow=True),
        ]
        add_legend(axes, frame, handles, columns, 1)
        axes.set_xlabel("float32 instructions a byte of brute force")
        axes.set_ylabel("float32 instructions a second")
        return figure_

    head = (
        "case",
        "instructions a byte",
        "the roof there",
        "fastest other rung",
        "its rate",
        "Kith's rate",
        "of the roof",
    )
    rows = []
    for case, found in points:
        own = min((t for t in found if t.rung.engine and t.right), key=seconds_of, default=None)
        other = min((t for t in found if not t.rung.engine and t.right), key=seconds_of, default=None)
        x = intensity[case.name]
        rows.append((
            case.short, figure(x), f"{short(roof(x))}/s", _rung_label(other) if other else "",
            f"{short(case.operations / seconds_of(other))}/s" if other else "",
            f"{short(case.operations / seconds_of(own))}/s" if own else "",
            percent(case.operations / seconds_of(own) / roof(x)) if own else "",
        ))  # fmt: skip
    ridge = peak / bandwidth
    above = [row[0] for row, (case, found) in zip(rows, points, strict=True)
             if any(t.rung.engine and case.operations / seconds_of(t) > roof(intensity[case.name]) for t in found)]  # fmt: skip
    notes = []
    if above:
        notes.append(
            f"Above the roof: {'; '.join(above)}. Kith can pass it where its filter reads one byte a value in place of four and "
            "multiplies on the tensor cores, which the axes do not count."
        )
    return Chart(
        f"roofline-{slug(ladder.source)}", "The roofline",
        "The orange line is what the chip allows: on its slope memory is the limit, on its flat part arithmetic is. A column of "
        "marks is a case; a mark is a rung that looks at every pair, at the rate at which it gets through brute force's work "
        f"(2 d instructions a pair). Left of {figure(ridge)} instructions a byte a search is bound by memory. Cases of the same "
        "intensity stand side by side.",
        f"{len(points)} cases under the roof of {ladder.gpu}: {short(bandwidth)}B/s of memory, {short(peak)} float32 instructions a "
        "second. " + " ".join(f"{row[0]}: Kith {row[5]}, {row[6]} of the roof." for row in rows if row[5]),
        draw, Table(head, tuple(rows), frozenset({0, 3})), tuple(notes),
    )  # fmt: skip


def _side_by_side(intensity: dict[str, float]) -> dict[str, float]:
    """Factors that set cases of much the same intensity next to each other, around where they all belong."""
    groups: list[list[str]] = []
    for name in sorted(intensity, key=lambda n: intensity[n]):
        if groups and intensity[name] < 1.2 * intensity[groups[-1][0]]:
            groups[-1].append(name)
        else:
            groups.append([name])
    shift = {}
    for group in groups:
        step = min(1.24, 2.0 ** (1 / len(group)))
        for at, name in enumerate(group):
            shift[name] = step ** (at - (len(group) - 1) / 2)
    return shift
