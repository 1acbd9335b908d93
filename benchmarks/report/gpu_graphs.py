"""The sections of docs/benchmarks.md on graphs on a GPU, from results of benchmarks/vamana/gpu.py."""

from .text import figure, table

TARGETS = ("0.90", "0.95", "0.97", "0.99")


def rate(library, target):
    found = library["queries_per_second_at"].get(target)
    return "-" if found is None else figure(found)


def render_gpu_graphs(result):
    sizes = " and ".join(f"{case['rows']:,} x {case['dim']} {case['dtype']}" for case in result["cases"])
    parts = [
        f"## Graphs on a GPU: {sizes}\n",
        f"Queries a second of {result['cases'][0]['queries']:,} at once, k = {result['k']}, at a recall, by interpolation between "
        f"the settings measured; queries and answers stay on the GPU. {result['machine']['gpu']} (driver); Kith at "
        f"{result['commit']}, {result['date']}. *One* is the time of one query by the first list that finds 0.95. CAGRA of cuVS "
        "searches with search_width 1. The mixtures are those of [benchmarks/vamana/gpu.py](../benchmarks/vamana/gpu.py); Kith's answers "
        "were compared with the CPU's, bit for bit.\n",
    ]
    for case in result["cases"]:
        rows = [["library", "build s", *(f"at {target}" for target in TARGETS), "one", "where"]]
        for library in case["libraries"]:
            alone = library.get("one_query_seconds")
            rows.append([
                library["name"], f"{library['build_seconds']:.1f}", *(rate(library, target) for target in TARGETS),
                "-" if alone is None else f"{1e6 * alone:,.0f} us", library.get("placement", "cuda resident"),
            ])  # fmt: skip
        parts.append(f"{case['case']}:\n\n{table(rows)}\n")
    parts.append(f"Measured with:\n\n```sh\n{result['command']}\n```\n")
    return "\n".join(parts)
