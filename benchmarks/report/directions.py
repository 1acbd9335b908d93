"""The section on exact search along leading directions, from results of benchmarks/brute_force/directions.py."""

from .text import figure, table

INTRODUCTION = """Filters that compare the coordinates along the leading directions and the length of the rest (step 11 of
[the proof](exact-contract.md)), beside all values (*before*) and {peer}, in the same run. {queries} queries in one call by
{threads} threads, then one query a call by one; medians, ms. m is the number of directions that the index chose, 0 where it
keeps all values. Building is an index for any number of searches. {answers}
"""


def cell(line, what):
    before = line["before"][what] if line["before"] else None
    return [figure(line[what]), figure(before) if before else "", figure(line["faiss"][what])]


def render_directions(result):
    lines = result["results"]
    wrong = sum(line["wrong_queries"] for line in lines)
    right = wrong == 0 and all(line["equal_to_before"] for line in lines)
    parts = [
        "### Along leading directions, on the CPU\n",
        INTRODUCTION.format(
            peer=f"faiss {lines[0]['faiss']['version']} IndexFlatL2", queries=f"{result['queries']:,}",
            threads=result["threads"],
            answers="Answers before and now are the same bits, and none is farther than faiss's." if right
            else f"{wrong} answers were wrong.",
        ),
        f"{result['machine']}; Kith at {result['commit']}, {result['date']}: `{result['command']}`."
        + (f" {result['note']}" if "note" in result else "") + "\n",
    ]  # fmt: skip
    head = ["", "m", "candidates a query", "now", "before", "faiss", "one query", "before", "faiss", "build", "before"]
    for which in dict.fromkeys(line["set"] for line in lines):
        rows = []
        for line in (line for line in lines if line["set"] == which):
            name = f"{line['data']}, k = {line['k']}, {line['filter']}"
            rows.append([
                name, str(line["directions"]), f"{line['candidates']:,.0f}", *cell(line, "median_ms"),
                *cell(line, "single_ms"), *cell(dict(line, faiss=dict(line["faiss"], build_ms=0)), "build_ms")[:2],
            ])  # fmt: skip
        parts.append(table([[which, *head[1:]], *rows]) + "\n")
    return "\n".join(parts)
