"""The section on brute force on GPUs over data of several kinds, from a list of gpu_search's cases."""

from .text import figure, table

HEADING = "Other data on a GPU"

INTRODUCTION = """Rows, queries and answers in GPU memory; medians of whole searches by `gpu_search`, ms. *Mixtures* are like
embeddings, of the given participation ratio; the others are uniform or what `kith generate` makes. Codes may be made along leading
directions where that promises to be quicker (*along* how many), rows in clusters be divided into *lists*. The answers to 16 queries of each case (to all where they are fewer) were compared with an
unfiltered search: {wrong}. {peers}
"""


def name_of(case):
    return (
        f"{case['data'].replace(':', ', ratio ').replace('_', ' ')}; {case['dim']}; {case['queries']:,}; "
        f"{case['rows']:,}; {case['k']}; {case['dtype']}"
    )


def render_gpu_data(result):
    cases = result["cases"]
    wrong = sum(case["wrong_cells"] for case in cases)
    parts = [
        f"### {result.get('heading', HEADING)}\n",
        INTRODUCTION.format(wrong="none differs" if wrong == 0 else f"{wrong} cells differ", peers=result["peers"]),
        f"{result['machine']}; Kith at {result['commit']}, {result['date']}: `{result['command']}`.\n",
    ]
    # Beside whom, where the result says so.
    peers = {"before_ms": "before", "certex_ms": "certex", "cuvs_ms": "cuVS"}
    peers = {key: name for key, name in peers.items() if any(key in case for case in cases)}
    rows = [
        ["d; queries; rows; k", "filter", "along", "lists", "candidates a query", "build", "median", *peers.values()]
    ]
    for case in cases:
        rows.append([
            name_of(case), case["filter"], str(case["directions"] or ""), str(case.get("lists") or ""), figure(case["candidates"] / case["queries"]),
            figure(case["build_ms"]), figure(case["median_ms"]), *(figure(case[key]) if key in case else "" for key in peers),
        ])  # fmt: skip
    parts.append(table(rows) + "\n")
    return "\n".join(parts)
