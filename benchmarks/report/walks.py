"""docs/from-bang-to-one-kernel.md, BANG part by part, from results of `kith ladder --case graph`; and its pictures.

What a rung does is prose (walk_story.py); every figure, and every word that says who was faster, comes from the results,
ladder-graph-*.json. Where there are none the page says so.
"""

from html import escape

from . import ladder as of_ladders
from .ladder import IMAGES, RESULTS, ROOT, picture, read, report_package, words, wrapped
from .text import table
from .walk_story import CHAPTERS, FAULTS, FOOT, HEAD, PUBLISHED

PAGE = ROOT / "docs/from-bang-to-one-kernel.md"
PATTERN = "ladder-graph-*.json"

# The paper's, as this project's notes keep them: variant, where, queries a second, recall.
PAPER = (
    ("BANG Base", "one A100, graph and vectors in host memory", 190_000, 0.90),
    ("BANG Base", "one A100, graph and vectors in host memory", 130_000, 0.95),
)


def charts_of():
    report_package()
    import kith_report._walk_charts

    return kith_report._walk_charts


def ladders(results):
    return [read(path) for path in sorted(results.glob(PATTERN))]


def cases(found):
    """Those with a GPU's rungs first, larger ones first: the story is told of the first that has a rung."""
    both = [(ladder, case) for ladder in found for case in ladder.graphs if case.measured]
    return sorted(both, key=lambda pair: (not pair[0].gpu, -pair[1].points, pair[1].list_size))


def short(case):
    points = f"{case.points // 10**6}M" if case.points % 10**6 == 0 else f"{case.points:,}"
    return f"{case.queries:,} queries, {points} rows, lists of {case.list_size}"


def times_of(case):
    return {timing.rung.id: timing for timing in case.measured}


def gain(shown, name, before):
    """One rung beside another: rate and recall, in a sentence a case that has both."""
    out = []
    for _, case in shown:
        times = times_of(case)
        if name not in times or before not in times:
            continue
        mine, other = times[name], times[before]
        if any("for want of memory" in (timing.fallback or "") for timing in (mine, other)):
            continue
        recall = f"at a recall of {mine.recall:.3f} beside {other.recall:.3f}"
        if f"{mine.recall:.3f}" == f"{other.recall:.3f}":
            recall = f"at the same recall of {mine.recall:.3f}"
        out.append(f"{words(other.seconds / mine.seconds)} {recall} ({short(case)})")
    numbers = {t.rung.id: t.rung.number for _, case in shown for t in case.timings}
    if not out:
        return ""
    return f"**Measured:** rung {numbers[name]}, beside rung {numbers[before]}, is {'; '.join(out)}."


def published():
    rows = [["published", "on", "queries/s", "recall"]]
    rows += [[what, where, f"{rate:,}", f"{recall:.2f}"] for what, where, rate, recall in PAPER]
    return "## The published figures\n\n" + PUBLISHED + "\n" + table(rows) + "\n"


def measured(shown):
    """A section a case: machine, table, picture."""
    if not any(ladder.gpu for ladder, _ in shown):
        words_ = "No result of a GPU is in benchmarks/results yet (ladder-graph-*.json), so no figure of one is here."
        out = ["## Measured\n", wrapped(words_)]
        if not shown:
            return out
    else:
        out = ["## Measured\n"]
    for ladder, case in shown:
        facts = dict(ladder.machine)
        cpu = f"{facts.get('cpu', 'a CPU')}, {facts.get('cores', '?')} cores"
        gpu = f"{ladder.gpu}, CUDA {facts.get('GPU runtime', '?')}; " if ladder.gpu else ""
        commit = f" ({facts['commit'][:12]})" if "commit" in facts else ""
        made = f"{gpu}{cpu}; Kith {facts['kith']}{commit}; {facts['measured'][:10]}"
        rows = charts_of().walk_table(case)
        out += [
            f"### {case.dim} dimensions, {short(case)}\n",
            wrapped(f"{made}. Data: {case.data}. Lists of {case.degree} neighbours; k = {case.k}."),
            table([list(rows.head), *map(list, rows.rows)]) + "\n",
        ]
        out += [picture(name, chart.title) for name, chart in charts(ladder, case).items()]
        out += [wrapped(note) for chart in charts(ladder, case).values() for note in chart.notes]
        out += [f"```sh\n{ladder.command}\n```\n"] if ladder.command else []
    return out


def charts(ladder, case):
    """Name of the picture's file to the chart of the report."""
    source = ladder.source.removesuffix(".json")
    made = charts_of().walk_charts(ladder, case)
    return {f"{source}-{chart.name}": chart for chart in made}


def render(results=RESULTS):
    shown = cases(ladders(results))
    out = [HEAD, published()]
    for title, parts in CHAPTERS:
        out.append(f"## {title}\n")
        for name, text, befores in parts:
            out += [wrapped(block) for block in text.strip().split("\n\n") if block]
            out += [wrapped(sentence) for before in befores if (sentence := gain(shown, name, before))]
    return "\n".join([*out, FAULTS, *measured(shown), FOOT])


def all_charts(results):
    return {name: chart for ladder, case in cases(ladders(results)) for name, chart in charts(ladder, case).items()}


def draw(results=RESULTS, images=IMAGES):
    """Writes the pictures; needs matplotlib. The paths written."""
    of_ladders.report_package()
    from kith_report._draw import svg_file

    written = []
    for name, chart in all_charts(results).items():
        path = images / f"{name}.svg"
        path.write_bytes(svg_file(chart.draw, name, chart.title, chart.alt))
        written.append(path)
    return written


def stale(results=RESULTS, page=PAGE, images=IMAGES):
    """What is not what the results say: paths. A picture says in its description what it shows."""
    found = [] if page.is_file() and page.read_text() == render(results) else [page]
    for name, chart in all_charts(results).items():
        path = images / f"{name}.svg"
        if not path.is_file() or f"<desc>{escape(chart.alt)}</desc>" not in path.read_text():
            found.append(path)
    return found
