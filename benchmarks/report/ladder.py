"""docs/from-a-loop-to-the-roofline.md, the ladder as a story, from results of `kith ladder`; and its pictures.

What a rung does and what limits it is prose (story.py); every figure, and every word that says who was faster, comes
from the results.
"""

import importlib.util
import re
import sys
import textwrap
from html import escape
from pathlib import Path

from .story import CHAPTERS, FLOOR, FOOT, HEAD, SPEED_UP
from .text import table

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks/results"
PAGE = ROOT / "docs/from-a-loop-to-the-roofline.md"
IMAGES = ROOT / "docs/images"
MAIN = "ladder-h200.json"  # one GPU; other ladder-*.json tell of several


def report_package():
    """kith.report by its folder: no compiled module is needed."""
    name = "kith_report"
    if name not in sys.modules:
        folder = ROOT / "python/kith/report"
        spec = importlib.util.spec_from_file_location(
            name, folder / "__init__.py", submodule_search_locations=[str(folder)]
        )
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    import kith_report._inputs
    import kith_report._ladder_charts
    import kith_report._text

    return kith_report


def read(path):
    (ladder,) = report_package()._inputs.read_results([path]).ladders
    return ladder


def times_of(case):
    """Rungs that ran, by id."""
    return {t.rung.id: t for t in case.measured}


def duration(seconds):
    return report_package()._text.duration(seconds)


def figure(value):
    return report_package()._text.figure(value)


def main_cases(ladder):
    """The cases that the story is told of: those that have published figures, where any has."""
    return [case for case in ladder.cases if case.published] or list(ladder.cases)


def short(case):
    points = {2**20: "1M", 2**24: "16.7M"}.get(case.points, f"{case.points:,}")
    return f"{case.dim}; {case.queries:,}; {points}; {case.k}"


def numbered(ladder):
    return {rung.id: rung for rung in ladder.rungs}


def wrapped(text):
    """A paragraph in the lines of the other pages; the four numbers of a case stay together."""
    text = re.sub(r"\d+; [\d,]+; [\d,.M]+; \d+", lambda case: case[0].replace(" ", "\0"), text)
    return textwrap.fill(text, 120, break_long_words=False, break_on_hyphens=False).replace("\0", " ") + "\n"


def words(ratio):
    """1.5 times faster, 2 times slower, equally fast."""
    if 0.95 <= ratio <= 1.05:
        return "equally fast"
    return f"{figure(ratio)} times faster" if ratio > 1 else f"{figure(1 / ratio)} times slower"


def gain(ladder, name, before):
    """What one rung is worth beside another, in a sentence; nothing where no case has both."""
    if name == "several-gpus" and ladder.gpus < 2:
        return ""  # it did the work of the rung before; what it is worth has a section of its own
    found = []
    for case in main_cases(ladder):
        times = times_of(case)
        if name in times and before in times:
            found.append((times[before].seconds / times[name].seconds, case))
    if not found:
        return ""
    rungs = numbered(ladder)
    beside = f"rung {rungs[before].number}"
    start = f"**Measured:** rung {rungs[name].number}, beside {beside},"
    if len(found) == 1:
        return f"{start} is {words(found[0][0])} ({short(found[0][1])})."
    (low, worst), (high, best) = (pick(found, key=lambda pair: pair[0]) for pick in (min, max))
    if words(low) == words(high):
        return f"{start} is {words(low)} in all {len(found)} cases."
    return f"{start} is from {words(low)} ({short(worst)}) to {words(high)} ({short(best)})."


def chapter_table(ladder, ids):
    """Rungs of a chapter by cases; only cases in which one of them ran."""
    cases = [c for c in main_cases(ladder) if any(name in times_of(c) for name in ids)]
    if not cases:
        return "None of these rungs was measured.\n"
    rungs = numbered(ladder)
    rows = [["d; q; n; k", *(short(c) for c in cases)]]
    for name in ids:
        if name not in rungs:
            continue
        row = [f"{rungs[name].number} {rungs[name].name}"]
        for case in cases:
            timing = times_of(case).get(name)
            row.append("" if timing is None else time_of(timing))
        rows.append(row)
    built = any(rungs[name].tree for name in ids if name in rungs)
    return table(rows) + (
        "\n\n*In brackets: building the tree, done once for all searches and not part of the time.*" if built else ""
    )


def time_of(timing):
    words = duration(timing.seconds) + ("" if timing.right else " (wrong)")
    return words + (f" ({duration(timing.build)})" if timing.rung.tree and timing.build is not None else "")


def fallbacks(ladder, ids):
    """What rungs did otherwise than they are called, each said once."""
    said = {}
    for case in main_cases(ladder):
        for name, timing in times_of(case).items():
            if name in ids and timing.fallback:
                said.setdefault((timing.rung.number, timing.fallback), []).append(short(case))
    return [f"Rung {number} ({'; '.join(f'`{c}`' for c in cases)}): {text}." for (number, text), cases in said.items()]


def chapter(ladder, title, parts):
    known = {part[0] for part in parts if part[0]}
    out = [f"## {title}\n"]
    for name, text, befores in parts:
        out += [
            block + "\n" if block.startswith("- ") else wrapped(block) for block in text.strip().split("\n\n") if block
        ]
        out += [wrapped(sentence) for before in befores if (sentence := gain(ladder, name, before))]
    if known:
        order = [rung.id for rung in ladder.rungs if rung.id in known]
        out.append(chapter_table(ladder, order) + "\n")
        out += [wrapped(text) for text in fallbacks(ladder, known)]
    return out


def best(ladder):
    """The table of who is fastest, and in words where Kith is not."""
    compared = report_package()._ladder_charts.compared
    rows = [
        ["d; q; n; k", "best other rung", "its time", "Kith's best", "its time", "Kith is", "floor", "floor / time"]
    ]
    slower, without, trees = [], [], {}
    for case in ladder.cases:
        own, other, ratio = compared(case)
        if ratio is None:
            without.append(case)
            continue
        rows.append([
            short(case), f"{other.rung.number} {other.rung.name}", duration(other.seconds), own.rung.name, duration(own.seconds),
            f"**{words(ratio)}**", "" if case.floor is None else duration(case.floor),
            "" if case.floor is None else report_package()._text.percent(case.floor / own.seconds),
        ])  # fmt: skip
        if ratio < 0.95:
            slower.append(f"{short(case)} ({words(ratio)} than rung {other.rung.number})")
        if uneven := report_package()._ladder_charts.trees_left_out(case):
            trees.setdefault(uneven, []).append(short(case))
    out = [table(rows) + "\n", FLOOR]
    if slower:
        out.append(wrapped(f"**Kith is not the fastest at {'; at '.join(slower)}.**"))
    else:
        out.append("In each of these cases the fastest rung is one of Kith's.\n")
    for (whose, reason), cases in trees.items():
        out.append(wrapped(f"A tree is the fastest, and {whose} did not run, at {'; at '.join(cases)}: {reason}."))
    if without:
        out.append(f"Not compared, for want of a rung of either kind: {'; '.join(map(short, without))}.\n")
    return out


AIMS = (
    "at least 5 times the best other rung at 16; 1,024; 1M; 1, and at least 3 times in every other case of many queries"
)


def aims(ladder):
    """What the project aims at, and whether it is met."""
    compared = report_package()._ladder_charts.compared
    met, missed = [], []
    for case in ladder.cases:
        _, _, ratio = compared(case)
        if case.queries < 2 or ratio is None:
            continue
        wanted = 5 if (case.dim, case.queries, case.points) == (16, 1024, 2**20) else 3
        (met if ratio >= wanted else missed).append(f"{short(case)} ({figure(ratio)} of {wanted})")
    lines = [f"Kith aims at more than being first: {AIMS}."]
    lines.append(f"Reached: {', '.join(met) if met else 'nowhere'}.")
    lines.append(f"**Not reached: {', '.join(missed)}.**" if missed else "The aim is met in all of them.")
    return wrapped(" ".join(lines))


def published(ladder):
    """The reports' figures beside the same rung here."""
    rungs = {rung.number: rung for rung in ladder.rungs}
    rows = [["d; q; n; k", "published", "on a V100", "the same rung here", "here, copies included"]]
    for case in ladder.cases:
        times = times_of(case)
        for p in case.published:
            mine = times.get(rungs[p.rung].id) if p.rung in rungs else None
            here = "" if p.rung is None else "left out" if mine is None else duration(mine.seconds)
            copies = "" if mine is None or mine.with_copies is None else duration(mine.with_copies)
            rows.append([short(case), p.what, " to ".join(duration(s) for s in dict.fromkeys(p.seconds)), here, copies])
    return table(rows) + "\n" if len(rows) > 1 else "These cases have no published figures.\n"


SEVERAL = """The same search on one GPU and on several of the same host, the points dealt out among them.

Rung 9 adds little to the search itself: it takes the nearer of the GPUs' answers. The engine runs a thread per GPU,
makes sure that each GPU's list is complete, and merges the lists, which costs time even in a short search. Several GPUs
are for data that one cannot hold, and for searches that take milliseconds ([gpu.md](gpu.md#several-gpus)); the reports'
cases are over sooner, and one GPU serves them better.
"""


def several(ladders):
    """The rungs for several GPUs, from runs with several."""
    rows = [["d; q; n; k", "GPUs", "rung", "one GPU", "all of them", "they are"]]
    pairs = (("several-gpus", "occupancy"), ("engine-several-gpus", "engine"))
    for ladder in ladders:
        for case in ladder.cases:
            times = times_of(case)
            for many, one in pairs:
                if many in times and one in times:
                    ratio = times[one].seconds / times[many].seconds
                    rows.append([short(case), str(ladder.gpus), f"{times[many].rung.number} {times[many].rung.name}",
                                 duration(times[one].seconds), duration(times[many].seconds), words(ratio)])  # fmt: skip
    return rows


def charts(ladder):
    """Name of the picture's file to the chart of the report."""
    package = report_package()
    found = {
        f"ladder-{c.name.replace(',', '-')}": package._ladder_charts.ladder_chart(ladder, c)
        for c in ladder.cases
        if c.measured
    }
    for name, make in (
        ("ladder-speed-up", package._ladder_charts.speedup_chart),
        ("ladder-roofline", package._ladder_charts.roofline_chart),
    ):
        chart = make(ladder)
        if chart is not None:
            found[name] = chart
    return found


def picture(name, title):
    return f"![{title}](images/{name}.svg)\n"


def render(results=RESULTS):
    """The text of the page; None where the ladder was not measured."""
    path = results / MAIN
    if not path.is_file():
        return None
    ladder = read(path)
    found = charts(ladder)
    facts = dict(ladder.machine)
    gpu = f"{ladder.gpu}, CUDA {facts.get('GPU runtime', '?')}" if ladder.gpu else "no GPU"
    setting = f"{gpu}; {facts.get('cpu', 'a CPU')}, {facts.get('cores', '?')} cores; Kith {facts['kith']}"
    setting += f" ({facts['commit'][:12]})" if "commit" in facts else ""
    checked = [t for case in ladder.cases for t in case.measured if t.checked is not None]
    right = sum(t.right for t in checked)
    out = [
        HEAD,
        wrapped(
            "All points are whole numbers, so float32 sums are exact and points at equal distances are frequent; ties go "
            f"to the lower index. The answers of {len(checked)} searches were compared with the engine's, cell by cell: "
            + ("all are the same." if right == len(checked) else f"**{len(checked) - right} of them differ.**")
        ),
        wrapped(
            f"Measured on {setting}; {facts['measured'][:10]}. A time is the median of up to {ladder.repeat} searches, with the "
            "data already where they are searched."
        ),
    ]
    if "ladder-speed-up" in found:
        out += [picture("ladder-speed-up", found["ladder-speed-up"].title), SPEED_UP]
    for title, parts in CHAPTERS:
        out += chapter(ladder, title, parts)
    others = [
        read(p) for p in sorted(results.glob("ladder-*.json")) if p.name != MAIN and p.name[:13] != "ladder-graph-"
    ]
    rows = several([ladder, *others])
    rows = [rows[0]] + [row for row in rows[1:] if row[1] != "1"]
    if len(rows) > 1:
        out += ["## Several GPUs\n", SEVERAL, table(rows) + "\n"]
    out += ["## Who is fastest\n", *best(ladder), aims(ladder)]
    if "ladder-roofline" in found:
        chart = found["ladder-roofline"]
        out += ["## Under the roofline\n", wrapped(chart.caption), picture("ladder-roofline", chart.title)]
        out += [table([list(chart.table.head), *map(list, chart.table.rows)]) + "\n", *map(wrapped, chart.notes)]
    out += ["## Then and now\n", "The reports measured on a Tesla V100 of 2017; where there are two figures, two reports measured the same case.\n",
            published(ladder)]  # fmt: skip
    out.append("## Every case\n")
    for case in ladder.cases:
        name = f"ladder-{case.name.replace(',', '-')}"
        if name in found:
            out += [f"### {found[name].title}\n", picture(name, found[name].title)]
    commands = "\n".join(ladder_.command for ladder_ in [ladder, *others] if ladder_.command)
    out.append(FOOT.format(commands=commands))
    return "\n".join(out)


def draw(results=RESULTS, images=IMAGES):
    """Writes the pictures; needs matplotlib. The paths written."""
    report_package()
    from kith_report._draw import svg_file

    written = []
    for name, chart in charts(read(results / MAIN)).items():
        path = images / f"{name}.svg"
        path.write_bytes(svg_file(chart.draw, name, chart.title, chart.alt))
        written.append(path)
    return written


def stale(results=RESULTS, page=PAGE, images=IMAGES):
    """What is not what the results say: paths. A picture says in its description what it shows."""
    text = render(results)
    if text is None:
        return [page] if page.exists() else []
    found = [] if page.is_file() and page.read_text() == text else [page]
    for name, chart in charts(read(results / MAIN)).items():
        path = images / f"{name}.svg"
        if not path.is_file() or f"<desc>{escape(chart.alt)}</desc>" not in path.read_text():
            found.append(path)
    return found
