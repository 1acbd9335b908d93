"""The report's charts: each a drawing, what it says in words, and the table of the same numbers."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from . import _draw
from ._draw import MARKERS, Drawing, Frame
from ._inputs import Search
from ._ladder import Case, Ladder, Timing, seconds_of
from ._text import cut, duration, figure, percent, short, slug, times

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
class _Mark:
    """A dot in a row of dots."""

    value: float
    series: str
    label: str = ""


def _log_axis(axes: Any, low: float, high: float, room: float, write: Any, frame: Frame) -> None:
    """A logarithmic x axis from `low` to `high`, with `room` of its width kept free on the right."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    low, high = low / 1.4, high * 1.25
    decades = math.log10(high / low)
    axes.set_xscale("log")
    axes.set_xlim(low, low * 10 ** (decades / (1 - room)))
    steps = (1.0, 2.0, 5.0) if decades < 1.6 else (1.0,)  # a short axis would have one number or none
    axes.xaxis.set_major_locator(LogLocator(10, subs=steps, numticks=6 if frame.narrow else 9))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: _tick(write(value))))


def _tick(text: str) -> str:
    """A power of ten without digits that say nothing: 1.00 ms is 1 ms."""
    return re.sub(r"\.0+(?!\d)", "", text)


def _rows(frame: Frame, labels: Sequence[str], legend_lines: int) -> tuple[Any, Any, float]:
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


def _legend(axes: Any, frame: Frame, handles: Sequence[Any], columns: int, narrow: int = 2) -> None:
    if len(handles) < 2:
        return
    axes.legend(
        handles=list(handles), loc="lower left", bbox_to_anchor=(0, 1), ncols=narrow if frame.narrow else columns,
        borderaxespad=0, handletextpad=0.4, columnspacing=1.4, borderpad=0.3,
    )  # fmt: skip


def _handle(
    frame: Frame, label: str, role: str, marker: str, *, hollow: bool = False, line: str = "", size: float = 8
) -> Any:
    from matplotlib.lines import Line2D

    colour = frame.paint[role]
    return Line2D(
        [], [], color=colour, marker=marker, linestyle=line or "none", markersize=size, label=label,
        markerfacecolor="none" if hollow else colour, markeredgecolor=colour, markeredgewidth=1.6,
    )  # fmt: skip


# ---------------------------------------------------------------------------------------------- the ladder


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
        figure_, axes, room = _rows(frame, [_rung_label(t) for t in shown], lines)
        values = [seconds_of(t) for t in shown] + [s for t in shown for s in t.published]
        values += [case.floor] if case.floor is not None else []
        _log_axis(axes, min(values), max(values), room, duration, frame)
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
                axes.hlines(below, *_ends(timing.published), color=paint["published"], linewidth=1.6, zorder=3)
                axes.plot(
                    timing.published, [below] * len(timing.published), "D", markersize=6, color=paint["published"],
                    markerfacecolor=paint["surface"], markeredgewidth=1.5, zorder=3,
                )  # fmt: skip
            axes.annotate(
                duration(seconds) + ("" if timing.right else " (wrong)"), (seconds, index), xytext=(9, 0),
                textcoords="offset points", va="center", color=paint["ink"], fontsize=11.5, zorder=7,
                weight="bold" if timing.rung.engine else "normal",
            )  # fmt: skip
        handles = [_handle(frame, *_KINDS[kind][:3], hollow=_KINDS[kind][3]) for kind in kinds]
        if published:
            handles.append(_handle(frame, "published, on a V100", "published", "D", hollow=True, size=6))
        if case.floor is not None:
            axes.axvline(case.floor, color=paint["floor"], linewidth=1.8, linestyle=(0, (5, 3)), zorder=2)
            handles.append(_handle(frame, f"floor: {duration(case.floor)}", "floor", "", line="--"))
        _legend(axes, frame, handles, 3)
        axes.set_xlabel("time of one search, logarithmic; shorter is better")
        return figure_

    return draw


def _ends(values: Sequence[float]) -> tuple[float, float]:
    return min(values), max(values)


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


def faster_words(ratio: float) -> str:
    """3.2 times faster; where it is not faster, it says so."""
    if 0.995 <= ratio < 1.005:
        return "equally fast"
    return f"{figure(ratio)} times faster" if ratio > 1 else f"{figure(1 / ratio)} times slower"


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
        figure_, axes, _ = _rows(frame, [f"{r.number}. {r.name}" for r in rungs], math.ceil(len(cases) / columns))
        _log_axis(axes, min(factor.values()), max(factor.values()), 0.02, times, frame)
        for index, rung in enumerate(rungs):
            own = [factor[case.name, rung.number] for case in cases if (case.name, rung.number) in factor]
            axes.hlines(index, *_ends(own), color=frame.paint["grid"], linewidth=5, zorder=1)
        handles = []
        for at, case in enumerate(cases):
            role, marker = _draw.SERIES[at % len(_draw.SERIES)], MARKERS[at % len(MARKERS)]
            found = [(factor[case.name, r.number], i) for i, r in enumerate(rungs) if (case.name, r.number) in factor]
            axes.plot([x for x, _ in found], [y for _, y in found], marker, color=frame.paint[role], markersize=7,
                      linestyle="none", markerfacecolor="none", markeredgewidth=1.6, zorder=3)  # fmt: skip
            handles.append(_handle(frame, case.short, role, marker, hollow=True, size=7))
        axes.axvline(1, color=frame.paint["engine"], linewidth=1.4, zorder=2)
        _legend(axes, frame, handles, columns, columns)
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
                x, *_ends([case.operations / seconds_of(t) for t in found]), color=paint["grid"], linewidth=4, zorder=1
            )
            for timing in found:
                axes.plot(x, case.operations / seconds_of(timing), marker, color=paint[role], markeredgewidth=1.5,
                          markersize=10 if timing.rung.engine else 6, zorder=4,
                          markerfacecolor=paint[role] if timing.rung.engine else paint["surface"])  # fmt: skip
            handles.append(_handle(frame, case.short, role, marker, size=7))
        axes.set_xlim(low, high)
        axes.set_ylim(min(values) / 2, max([*values, peak]) * 6)
        axes.xaxis.set_major_locator(LogLocator(10, numticks=9))
        axes.yaxis.set_major_locator(LogLocator(10, numticks=9))
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_minor_locator(NullLocator())
            axis.set_major_formatter(FuncFormatter(lambda value, _: _tick(short(value))))
        axes.annotate(f"flat: arithmetic, {short(peak)} instructions/s\nslope: memory, {short(bandwidth)}B/s", (0, 1),
                      xycoords="axes fraction", xytext=(6, -5), textcoords="offset points", va="top", color=paint["floor"])  # fmt: skip
        handles += [
            _handle(frame, "filled: Kith", "muted", "o"),
            _handle(frame, "hollow: the other rungs", "muted", "o", hollow=True),
        ]
        _legend(axes, frame, handles, columns, 1)
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


# ---------------------------------------------------------------------------------------------- searches


def _labels(searches: Sequence[Search], *, where: bool = True) -> list[str]:
    """A label a search: what sets it apart from the others."""

    def varies(*names: str) -> bool:
        return len({tuple(getattr(s, name) for name in names) for s in searches}) > 1

    labels = []
    for s in searches:
        words = [s.data.removesuffix(".npy").removesuffix(".base")] if s.data and varies("data") else []
        words.append(f"d {s.dim}, q {s.queries:,}, n {_tick(short(s.rows))}")
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
        figure_, axes, room = _rows(frame, [label for label, _ in rows_shown], lines)
        values = [s.queries_per_second for _, s in rows_shown] + [
            p.queries_per_second for _, s in rows_shown for p in s.peers
        ]
        _log_axis(axes, min(values), max(values), room, short, frame)
        for index, (_, s) in enumerate(rows_shown):
            own = [s.queries_per_second, *(p.queries_per_second for p in s.peers)]
            axes.hlines(index, *_ends(own), color=frame.paint["grid"], linewidth=5, zorder=1)
            for name, value in [(p.name, p.queries_per_second) for p in s.peers] + [("Kith", s.queries_per_second)]:
                role, marker, hollow = look[name]
                axes.plot(value, index, marker, color=frame.paint[role], markersize=7 if hollow else 9, markeredgewidth=1.6,
                          markerfacecolor=frame.paint["surface"] if hollow else frame.paint[role], zorder=3)  # fmt: skip
            axes.annotate(short(max(own)) if s.queries_per_second == max(own) else "", (max(own), index), xytext=(9, 0),
                          textcoords="offset points", va="center", color=frame.paint["ink"], weight="bold", fontsize=11.5, zorder=7)  # fmt: skip
        _legend(axes, frame, [_handle(frame, n, r, m, hollow=h) for n, (r, m, h) in look.items()], 4)
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
        handles = [_handle(frame, f"as many times faster as {worker}s", "muted", "", line="--")]
        for at, (label, group) in enumerate(shown):
            role, marker = _draw.SERIES[at % len(_draw.SERIES)], MARKERS[at % len(MARKERS)]
            axes.plot([n for n, _ in group], [factor(group, s) for _, s in group], "-", marker=marker, color=frame.paint[role],
                      markersize=7, linewidth=1.8, markerfacecolor=frame.paint["surface"], markeredgewidth=1.6)  # fmt: skip
            handles.append(_handle(frame, cut(label, 44), role, marker, hollow=True, line="-", size=7))
        axes.set_xticks(counts, [str(n) for n in counts])
        axes.set_ylim(bottom=0)
        _legend(axes, frame, handles, columns, 1)
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
        figure_, axes, room = _rows(frame, [label for label, _ in shown], 2 if frame.narrow else 1)
        values = [v for _, s in shown for v in (s.k, s.rows, max(candidates(s), 1))]
        _log_axis(axes, min(values), max(values), room, short, frame)
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
        _legend(axes, frame, [
            _handle(frame, "k: must be kept", "floor", "D", hollow=True, size=7), _handle(frame, "kept by the filter", "engine", "o"),
            _handle(frame, "all rows", "rung", "|", size=11),
        ], 3)  # fmt: skip
        axes.set_xlabel("rows a query, logarithmic")
        return figure_

    head = ("search", "filter", "rows", "k", "kept a query", "kept / k", "of all rows", "fallbacks")
    rows = tuple(
        (label, s.filter, f"{s.rows:,}", str(s.k), figure(candidates(s)), figure(candidates(s) / s.k), percent(candidates(s) / s.rows),
         f"{s.fallbacks:,}")
        for label, s in zip(labels, unique, strict=True)
    )  # fmt: skip
    least, most = _ends([candidates(s) / s.rows for s in unique])
    return Chart(
        "surplus", "What the certified filter keeps",
        "Kith looks at every row through a filter of one or two bytes a value, which carries a proof that it never drops a "
        "neighbour; what it keeps is evaluated exactly. The surplus is what it keeps beyond k. Fallbacks are queries that the "
        "filter kept too much for and that were evaluated exactly from then on.",
        f"{len(unique)} searches: the filter keeps between {percent(least)} and {percent(most)} of the rows. "
        + " ".join(f"{label}: {row[4]} kept for k {row[3]}." for label, row in list(zip(labels, rows, strict=True))[:8]),
        draw, Table(head, rows, frozenset({0, 1})),
        (f"The chart shows the first {MOST_ROWS} of {len(unique)} searches; the table has all.",) if len(unique) > MOST_ROWS else (),
    )  # fmt: skip
