"""The section of docs/benchmarks.md on graphs beside exact search, from a result of benchmarks/vamana/crossover.py."""

import math

from .text import figure, table


def milliseconds(seconds):
    return figure(1000 * seconds)


def repays(build, exact, walked):
    """After how many queries a graph has repaid its build; None where it is not quicker."""
    return None if exact <= walked else build / (exact - walked)


def rounded(number):
    """To two digits, in thousands or millions."""
    if number is None:
        return "never"
    digits = 10 ** max(0, math.floor(math.log10(max(number, 1))) - 1)
    number = round(number / digits) * digits
    return f"{number / 1e6:g}M" if number >= 1e6 else f"{number:,.0f}"


def render_crossover(result):
    rows = [["rows", "exact, once", "exact", "one query", "graph built", *(f"recall {r}" for r in ("0.90", "0.95", "0.99")),
             "one query at 0.95", "repaid at 0.95 after"]]  # fmt: skip
    for case in result["cases"]:
        graph = case["graph"]
        count = case["queries"]
        after = repays(case["graph_build_seconds"], case["exact_seconds"] / count, graph["0.95"]["seconds"] / count)
        rows.append([
            f"{case['rows']:,}", milliseconds(case["exact_once_seconds"]), milliseconds(case["exact_seconds"]),
            milliseconds(case["exact_one_query_seconds"]), f"{case['graph_build_seconds']:.2f} s",
            *(f"{milliseconds(graph[r]['seconds'])} ({graph[r]['recall']:.3f})" for r in ("0.90", "0.95", "0.99")),
            milliseconds(graph["0.95"]["one_query_seconds"]), f"{rounded(after)} queries",
        ])  # fmt: skip
    machine = result["machine"].get("gpu") or result["machine"]["cpu"]
    count = result["cases"][0]["queries"]
    return "\n".join([
        f"## A graph or exact search: {result['dim']}-dimensional {result['dtype']}, {result['device']}\n",
        f"Milliseconds for {count:,} queries at once, k = {result['k']}, rows of one gaussian mixture and answers in host memory; "
        "*once* makes the codes, searches and forgets; graphs are asked for a recall (measured beside). "
        f"{machine}; Kith at {result['commit']}, {result['date']}.\n",
        table(rows),
        f"\nMeasured with:\n\n```sh\n{result['command']}\n```\n",
    ])  # fmt: skip
