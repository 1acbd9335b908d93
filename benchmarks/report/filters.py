"""The sections of docs/benchmarks.md on searches over some of the rows, from results of benchmarks.vamana.filters."""

from .text import figure, table

KINDS = {"spread": "drawn at random", "together": "nearest to one row"}


def render_filters(result):
    libraries = [library["name"] for library in result["libraries"]]
    heads = ["allowed", "rows", *(f"{name} {head}" for name in libraries for head in ("queries/s", "recall", "by"))]
    parts = [
        f"## Some of the rows: {result['rows']:,} x {result['dim']}, {result['dataset']}\n",
        f"The {result['k']} nearest among allowed rows, recall {result['recall']:.2f} asked of Kith; the other libraries search "
        "with the shortest list of a sweep that finds as much, or the longest. *exact* is an exact search of the allowed rows. "
        f"{result['queries']:,} queries, {result['machine']['threads']} thread, {result['machine']['cpu']}; Kith at "
        f"{result['commit']}, {result['date']}. hnswlib calls a Python function for each row it meets.\n",
    ]
    for kind, text in KINDS.items():
        rows = [heads]
        for share in dict.fromkeys(case["share"] for case in result["cases"] if case["kind"] == kind):
            cells = []
            for name in libraries:
                case = next(
                    c for c in result["cases"] if (c["kind"], c["share"], c["library"]) == (kind, share, name)
                )  # fmt: skip
                cells += [figure(case["queries_per_second"]), f"{case['recall']:.3f}", case["how"]]
                count = case["rows"]
            rows.append([f"{100 * share:g} %", f"{count:,}", *cells])
        parts.append(f"Rows {text}:\n\n{table(rows)}\n")
    parts.append(f"Measured with:\n\n```sh\n{result['command']}\n```\n")
    return "\n".join(parts)
