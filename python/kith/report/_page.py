"""The report as one HTML page: nothing is loaded, nothing runs, it opens from a disk."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from . import _draw, _ladder_charts, _leaf_charts, _recall_charts, _search_charts, _walk_charts
from ._charts import Chart, Table
from ._inputs import Results
from ._ladder import Ladder, seconds_of
from ._ladder_charts import compared
from ._text import duration, escape, faster_words, plural, slug, times


@dataclass(frozen=True)
class Section:
    """A part of the page: its charts, or why there are none."""

    title: str
    introduction: str
    charts: tuple[Chart, ...]
    missing: str  # said where there are no charts
    groups: tuple[tuple[str, int], ...] = ()  # a heading before the chart of that number


def sections(results: Results) -> list[Section]:
    """All of them, also those that these inputs hold nothing for."""
    ladders = results.ladders
    cases = [(ladder, case) for ladder in ladders for case in ladder.cases if case.measured]
    walks = [(ladder, case) for ladder in ladders for case in ladder.graphs if case.measured]
    groups: list[tuple[str, int]] = []
    if len(ladders) > 1:
        at = 0
        for ladder in ladders:
            groups.append((f"{ladder.source}: {ladder.hardware}", at))
            at += sum(bool(case.measured) for case in ladder.cases)
    speed_ups = [chart for ladder in ladders if (chart := _ladder_charts.speedup_chart(ladder))]
    rooflines = [chart for ladder in ladders if (chart := _ladder_charts.roofline_chart(ladder))]
    no_ladder = "no input is a result of kith ladder" + (" but for walks through graphs" if ladders else "")
    exact = any(ladder.cases for ladder in ladders)
    no_search = "no input is a result of kith bench or gpu_search"
    searches = results.searches
    scaling = [c for worker in ("thread", "GPU") if (c := _search_charts.scaling_chart(searches, worker))]
    surplus = _search_charts.surplus_chart(searches)
    return [
        Section(
            "The ladder",
            "The same question answered by ever better programs: the first rung is a plain loop on one core, every further rung "
            "adds one idea, and the last ones are Kith. A mark farther to the left is a faster search; each step of the scale is "
            "ten times.",
            tuple(_ladder_charts.ladder_chart(ladder, case) for ladder, case in cases),
            "no rung was measured" if exact else no_ladder, tuple(groups),
        ),
        Section("What each rung is worth", "", tuple(speed_ups),
                "no case has two rungs that ran" if exact else no_ladder),
        Section("The roofline", "", tuple(rooflines),
                "the ladder was run without a GPU, whose rates make the roof" if exact else no_ladder),
        Section("Two layers", "Coarse leaves, and inside each a search of its own: what point tiles grew out of.",
                tuple(chart for _, case in cases if (chart := _leaf_charts.leaf_chart(case))),
                "no input is a result of kith ladder --case tiles"),
        Section("Walks through a graph", "BANG's search, part by part, between a plain walk and Kith's: not every nearest row is found, "
                "and how many are is measured.",
                tuple(chart for ladder, case in walks for chart in _walk_charts.walk_charts(ladder, case)),
                "no input is a result of kith ladder --case graph"),
        Section("Recall against queries a second", "A graph finds most of the nearest neighbours and looks at few of the rows: how many "
                "it finds, and how soon, is a choice made anew with every search.",
                tuple(_recall_charts.recall_charts(results.curves)),
                "no input is a result of kith's benchmark of graphs (python -m benchmarks.vamana)"),
        Section("Queries a second", "",
                tuple(c for worker in ("thread", "GPU") if (c := _search_charts.qps_chart(searches, worker))), no_search),
        Section("Scaling", "", tuple(scaling),
                "no search was measured with different numbers of threads (kith bench --threads 1,2,4) or GPUs" if searches else no_search),
        Section("What the certified filter keeps", "", (surplus,) if surplus else (),
                "no search had a filter" if searches else no_search),
    ]  # fmt: skip


def left_out(parts: Iterable[Section]) -> list[tuple[str, str]]:
    """What the inputs hold nothing for, and why."""
    return [(part.title, part.missing) for part in parts if not part.charts]


def all_charts(parts: Iterable[Section]) -> list[Chart]:
    """With names that are all different, also where two inputs have the same case."""
    seen: dict[str, int] = {}
    charts = []
    for part in parts:
        for chart in part.charts:
            seen[chart.name] = seen.get(chart.name, 0) + 1
            count = seen[chart.name]
            name = chart.name if count == 1 else f"{chart.name}-{count}"
            charts.append(Chart(name, chart.title, chart.caption, chart.alt, chart.draw, chart.table, chart.notes))
    return charts


def table_html(table: Table, caption: str, stacked: bool = False) -> str:
    """A table in a box of its own that scrolls; where the page is narrow, a stacked one has a line a cell instead."""

    def cell(column: int, text: str) -> str:
        if column == 0:
            return f'<th scope="row" class="text">{escape(text)}</th>'
        name = f' data-name="{escape(table.head[column])}"' if stacked else ""
        if column not in table.words:
            return f"<td{name}>{escape(text)}</td>"
        return f'<td class="text{" wrap" if len(text) > 24 else ""}"{name}>{escape(text)}</td>'

    def head(column: int, text: str) -> str:
        style = ' class="text"' if column in table.words else ""
        return f'<th scope="col"{style}>{escape(text)}</th>'

    lines = [f'<div class="scroll{" stacked" if stacked else ""}" role="region" tabindex="0" aria-label="{escape("Table: " + caption)}">',
             f"<table><caption>{escape(caption)}</caption>",
             "<thead><tr>" + "".join(head(i, text) for i, text in enumerate(table.head)) + "</tr></thead><tbody>"]  # fmt: skip
    for index, row in enumerate(table.rows):
        strong = ' class="strong"' if index in table.strong else ""
        lines.append(f"<tr{strong}>" + "".join(cell(i, text) for i, text in enumerate(row)) + "</tr>")
    lines.append("</tbody></table></div>")
    return "\n".join(lines)


def _svg_html(chart: Chart, narrow: bool) -> str:
    """The drawing with its name and what it shows, for readers of the screen's text."""
    text = _draw.svg(chart.draw, chart.name, narrow=narrow)
    head, body = text.split(">", 1)
    own = f"{chart.name}-{'narrow' if narrow else 'wide'}"
    return (
        f'{head} class="{"narrow" if narrow else "wide"}" role="img" aria-labelledby="{own}-title {own}-alt">'
        f'<title id="{own}-title">{escape(chart.title)}</title><desc id="{own}-alt">{escape(chart.alt)}</desc>{body}'
    )


def _chart_html(chart: Chart, heading: bool) -> str:
    parts = [f'<h3 id="{chart.name}">{escape(chart.title)}</h3>' if heading else ""]
    parts += [
        f"<p>{escape(chart.caption)}</p>",
        "<figure>",
        _svg_html(chart, False),
        _svg_html(chart, True),
        "</figure>",
    ]
    parts += [f"<details open><summary>The numbers</summary>{table_html(chart.table, chart.title)}"]
    parts += [f'<p class="note">{escape(note)}</p>' for note in chart.notes]
    return "\n".join([part for part in parts if part] + ["</details>"])


def glance_table(ladder: Ladder) -> Table:
    """A row a case: the fastest of the rungs, Kith's fastest, the one beside the other."""
    floors = any(case.floor is not None for case in ladder.cases)
    rows = []
    for case in ladder.cases:
        own, other, ratio = compared(case)
        row = [case.short, f"{other.rung.number}. {other.rung.name}" if other else "", duration(seconds_of(other)) if other else "",
               own.rung.name if own else "", duration(seconds_of(own)) if own else "", faster_words(ratio) if ratio else ""]  # fmt: skip
        rows.append(tuple(row + ([duration(case.floor) if case.floor is not None else ""] if floors else [])))
    head = (
        "case",
        "fastest other rung",
        "time",
        "Kith's fastest",
        "its time",
        "Kith is",
        *(["the floor"] if floors else []),
    )
    return Table(head, tuple(rows), frozenset({0, 1, 3, 5}))


def _glance(ladder: Ladder, named: bool) -> list[str]:
    """The few figures to remember of a ladder, and the table they come from."""
    ratios = [(ratio, case) for case in ladder.cases if (ratio := compared(case)[2])]
    parts = [f"<h3>{escape(ladder.source)}: {escape(ladder.hardware)}</h3>"] if named else []
    tiles = []
    if ratios:
        low, high = min(r for r, _ in ratios), max(r for r, _ in ratios)
        words = times(low) if len(ratios) == 1 else f"{times(low)} to {times(high)}"
        tiles.append((words, f"faster than the best other rung, over {plural(len(ratios), 'case')}; below 1 is slower"))
    gains = [
        (seconds_of(case.base) / seconds_of(own), case)
        for case in ladder.cases
        if case.base and (own := case.fastest(True))
    ]
    if gains:
        best, case = max(gains, key=lambda pair: pair[0])
        assert case.base is not None
        tiles.append((times(best), f"from rung {case.base.rung.number} to Kith, where it is most: {case.short}"))
    checked = [t for case in ladder.cases for t in case.measured if t.checked is not None]
    wrong = [t for t in checked if not t.right]
    if checked:
        words = f"{len(checked) - len(wrong)} of {len(checked)}"
        tiles.append((words, "measured answers are the engine's, index by index"))
    if tiles:
        unbroken = ((a.replace(" ×", "\u00a0×"), b) for a, b in tiles)
        parts.append(
            '<ul class="tiles">'
            + "".join(f"<li><strong>{escape(a)}</strong>{escape(b)}</li>" for a, b in unbroken)
            + "</ul>"
        )
    parts.append(table_html(glance_table(ladder), f"At a glance: {ladder.hardware}", stacked=True))
    slower = [case for ratio, case in ratios if ratio < 0.995]
    if slower:
        parts.append(
            f"<p><strong>Kith is not the fastest</strong> in {plural(len(slower), 'case')}: {escape('; '.join(c.short for c in slower))}.</p>"
        )
    uneven = {case.short: found for case in ladder.cases if (found := _ladder_charts.trees_left_out(case))}
    for whose, reason in dict.fromkeys(uneven.values()):
        names = "; ".join(name for name, found in uneven.items() if found == (whose, reason))
        parts.append(
            f"<p>A tree is the fastest, and {escape(whose)} did not run, at {escape(names)}: {escape(reason)}.</p>"
        )
    if wrong:
        names = ", ".join(dict.fromkeys(f"{t.rung.number} ({t.rung.name})" for t in wrong))
        parts.append(
            f"<p><strong>Wrong answers</strong> were given by rung {escape(names)}; such a rung counts nowhere as the fastest.</p>"
        )
    copies = (
        "; “with copies” is from host memory to host memory: copies, building and search"
        if ladder.include_copies
        else ""
    )
    parts.append(f'<p class="note">Medians of up to {plural(ladder.repeat, "run")}, data where the rung works on it{copies}.'
                 + (f" Made by <code>{escape(ladder.command)}</code>." if ladder.command else "") + "</p>")  # fmt: skip
    return parts


WORDS = (
    ("case", "d dimensions, q queries, n points (or rows), and k neighbours to find for each query"),
    ("rung", "one program of the ladder; every rung answers the same question with the same indices"),
    ("floor", "the least time that brute force in float32 can take on this hardware, by its memory or its arithmetic"),
    ("Kith, the engine", "the library itself; its answers are exact: the same bits as comparing every pair in float64"),
    ("recall", "share of the k nearest neighbours that was found; of a row as near as the last of them, too"),
    ("candidate", "a row that the filter could not rule out and that is evaluated exactly"),
    ("median", "the middle one of several runs; the first run is not counted"),
    ("× and “times faster”", "how many times longer the other one took"),
)


def style() -> str:
    if __package__ and not __package__.startswith("_"):
        text = resources.files(__package__).joinpath("_style.css").read_text("utf-8")
    else:
        text = Path(__file__).with_name("_style.css").read_text("utf-8")
    return text.replace("/* palette:light */", _draw.palette(False)).replace("/* palette:dark */", _draw.palette(True))


def render(results: Results, title: str) -> tuple[str, list[Chart]]:
    """The page and the charts on it."""
    parts = sections(results)
    charts = all_charts(parts)
    named = iter(charts)
    hardware = list(dict.fromkeys([ladder.hardware for ladder in results.ladders]))
    out = [
        "<!doctype html>", '<html lang="en">', "<head>", '<meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:\">",
        '<meta name="color-scheme" content="light dark">', '<link rel="icon" href="data:,">',
        f"<title>{escape(title)}</title>", f"<style>\n{style()}</style>", "</head>", "<body>",
        '<a class="skip" href="#content">To the content</a>', "<header>", f"<h1>{escape(title)}</h1>",
    ]  # fmt: skip
    out.append(
        '<p class="lead">Kith finds nearest neighbours: of many points or vectors, the k that lie nearest to each query, exactly'
        + (", or most of them by a graph" if results.curves else "")
        + ". This page shows how fast it does so"
        + (f" on {escape(' and '.join(hardware))}" if hardware else "")
        + (", step by step from a plain loop to the engine" if results.ladders else "")
        + ".</p>"
    )
    sources = ", ".join(machine.source for machine in results.machines)
    out.append(f'<p class="quiet">Made from {escape(sources)}; every figure is measured and comes from there.</p>')
    missing = left_out(parts)
    links = ([("At a glance", "at-a-glance")] if any(ladder.cases for ladder in results.ladders) else []) + [
        (p.title, slug(p.title)) for p in parts if p.charts
    ]
    links += [("Machines", "machines"), *([("Not in this report", "left-out")] if missing else []), ("Words", "words")]
    out.append(
        '</header>\n<nav aria-label="Sections"><ul>'
        + "".join(f'<li><a href="#{a}">{escape(t)}</a></li>' for t, a in links)
        + "</ul></nav>"
    )
    out.append('<main id="content">')
    exact = [ladder for ladder in results.ladders if ladder.cases]
    if exact:
        out.append('<section aria-labelledby="at-a-glance"><h2 id="at-a-glance">At a glance</h2>')
        for ladder in exact:
            out += _glance(ladder, len(exact) > 1)
        out.append("</section>")
    for part in parts:
        if not part.charts:
            continue
        own = slug(part.title)
        out.append(f'<section aria-labelledby="{own}"><h2 id="{own}">{escape(part.title)}</h2>')
        if part.introduction:
            out.append(f"<p>{escape(part.introduction)}</p>")
        groups = {at: heading for heading, at in part.groups}
        for index in range(len(part.charts)):
            if index in groups:
                out.append(f"<h3>{escape(groups[index])}</h3>")
            out.append(_chart_html(next(named), heading=len(part.charts) > 1 or part.title == "The ladder"))
        out.append("</section>")
    out.append('<section aria-labelledby="machines"><h2 id="machines">Machines</h2>')
    for machine in results.machines:
        out.append(f"<h3>{escape(machine.source)}</h3>")
        out.append(
            table_html(
                Table((machine.kind, "what the file says"), machine.rows, frozenset({0, 1})),
                f"Machine of {machine.source}",
            )
        )
    out.append("</section>")
    if missing:
        out.append('<section aria-labelledby="left-out"><h2 id="left-out">Not in this report</h2><ul>')
        out += [f"<li>{escape(name)}: {escape(why)}.</li>" for name, why in missing]
        out.append("</ul></section>")
    out.append('<section aria-labelledby="words"><h2 id="words">Words</h2><dl>')
    out += [f"<dt>{escape(word)}</dt><dd>{escape(meaning)}</dd>" for word, meaning in WORDS]
    out += ["</dl></section>", "</main>", '<footer><p class="quiet">Made by kith report. Nothing on this page is loaded from elsewhere.</p></footer>',
            "</body>", "</html>", ""]  # fmt: skip
    return "\n".join(out), charts
