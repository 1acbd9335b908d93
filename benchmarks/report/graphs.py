"""The sections of docs/benchmarks.md on graphs, and their pictures, from results of benchmarks/vamana."""

from dataclasses import replace
from html import escape

from .ladder import IMAGES, RESULTS, report_package
from .text import duration, figure, mebibytes, table

TARGETS = ("0.90", "0.95", "0.99")
SHOWN_THREADS = 1  # of the pictures; the tables and `kith report` have all
USUAL_BUILD_LIST = 128  # a heading names another

INTRODUCTION = """## Graphs

`Vamana` beside graphs of other libraries: what share of the k nearest neighbours is found (*recall*, against exact answers,
ties counted as found), and how many queries a second that leaves. Every library works in a process of its own, from its
wheel, is built by the same number of threads and takes turns with the others (`python -m benchmarks.vamana`). A search has
one number that trades time for recall, the length of its list where it has one; rates at 0.90, 0.95 and 0.99 are
interpolated between two measured lengths, or are that of the shortest where it finds more already; - is never reached.
*Memory* is what a process grew by in building, so that rows count where a library copies them; Kith does not.
`kith report FILE` draws every curve and names all parameters.
"""


def pictures(path):
    """{name: chart} of one results file, the curves of SHOWN_THREADS threads. Two files may be on the same rows."""
    report_package()
    import kith_report._inputs
    import kith_report._recall_charts

    curves = [c for c in kith_report._inputs.read_results([path]).curves if c.threads == SHOWN_THREADS]
    charts = []
    for chart in kith_report._recall_charts.recall_charts(curves):
        charts.append(replace(chart, name=f"recall-{path.stem}{chart.name[chart.name.index('-k-') :]}"))
    return {chart.name: chart for chart in charts}


def files(results=RESULTS):
    return sorted(results.glob("vamana-*.json"))


def draw(results=RESULTS, images=IMAGES):
    """Writes the pictures of all results; their paths."""
    report_package()
    import kith_report._draw

    drawn = []
    for path in files(results):
        for name, chart in pictures(path).items():
            drawn.append(images / f"{name}.svg")
            drawn[-1].write_bytes(kith_report._draw.svg_file(chart.draw, name, chart.title, chart.alt))
    return drawn


def stale(results=RESULTS, images=IMAGES):
    """Pictures that do not show what the results say."""
    found = []
    for path in files(results):
        for name, chart in pictures(path).items():
            picture = images / f"{name}.svg"
            if not picture.is_file() or f"<desc>{escape(chart.alt)}</desc>" not in picture.read_text():
                found.append(picture)
    return found


def rate_at(library, threads, k, target):
    for run in library["runs"]:
        if (run["threads"], run["k"]) == (threads, k):
            return run["queries_per_second_at"][target]
    return None


def rates_table(result, threads, k):
    rows = [[f"k = {k}, {threads} thread{'' if threads == 1 else 's'}", *(f"at {target}" for target in TARGETS),
             "build", "memory"]]  # fmt: skip
    kith = next((library for library in result["libraries"] if library["name"] == "Kith"), None)
    for library in result["libraries"]:
        name = f"{library['name']} {library['version']}"
        cells = []
        for target in TARGETS:
            rate = rate_at(library, threads, k, target)
            own = None if kith is None else rate_at(kith, threads, k, target)
            beside = f" ({figure(own / rate)})" if library is not kith and own and rate else ""
            cells.append("-" if rate is None else f"{figure(rate)}{beside}")
        build = f"{duration(library['build_seconds'])}, {library['build_threads']} threads"
        if "build_date" in library:
            build += f", on {library['build_date']}"
            build += " beside other work" if library["build_load"] > library["build_threads"] + 0.5 else ""
        memory = mebibytes(library["memory_bytes"])
        if "build_peak_bytes" in library:
            memory += f" (peak {mebibytes(library['build_peak_bytes'])})"
        rows.append([f"**{name}**" if library is kith else name, *cells, build, memory])
    return table(rows)


def stated_table(library):
    """What Kith takes when it is asked for a recall."""
    rows = [["asked", "k", "threads", "list", "stated", "found", "queries/s"]]
    for said in library["stated"]:
        rows.append([f"{said['asked']:.2f}", str(said["k"]), str(said["threads"]), str(said["setting"]),
                     f"{said['stated']:.3f}", f"{said['recall']:.4f}", figure(said["queries_per_second"])])  # fmt: skip
    return table(rows)


def render_graphs(path, result):
    """The section of one results file."""
    data, machine = result["data"], result["machine"]
    blurred = (
        f" Other work ran beside it (load {result['load']:g}), which blurs the figures." if result["load"] > 0.5 else ""
    )
    kith = next((library.get("parameters", {}) for library in result["libraries"] if library["name"] == "Kith"), {})
    made = ", codes of 4 bits" if kith.get("code_bits") == 4 else ""
    if (longer := kith.get("build_list_size", USUAL_BUILD_LIST)) != USUAL_BUILD_LIST:
        made += f", built with a list of {longer}"
    parts = [
        f"### {data['name']}: {data['rows']:,} x {data['dim']} {data['dtype']}{made}\n",
        f"{data['text']} {data['queries']:,} queries. {machine['cpu']}, {machine['cores']} cores; Kith at "
        f"{result['commit']}, {result['date'][:10]}.{blurred} In brackets how many times more queries Kith answers.\n",
    ]
    for chart in pictures(path).values():
        parts.append(f"![{chart.alt}](images/{chart.name}.svg)\n")
    runs = list(dict.fromkeys((run["threads"], run["k"]) for library in result["libraries"] for run in library["runs"]))
    parts += [f"{rates_table(result, threads, k)}\n" for threads, k in sorted(runs, key=lambda run: (run[1], run[0]))]
    for library in result["libraries"]:
        if library["stated"]:
            parts.append(f"{library['name']} asked for a recall in place of a list:\n\n{stated_table(library)}\n")
        if "graph_hash" in library:
            parts.append(f"Hash of the graph: `{library['graph_hash']}`, the same on every machine.\n")
    parts += [f"Not measured: {lost['name']}: {lost['error']}.\n" for lost in result["failed"]]
    parts.append(f"Measured with:\n\n```sh\n{result['command']}\n```\n")
    return "\n".join(parts)
