"""The sections of docs/benchmarks.md on graphs on a GPU, from results of benchmarks/vamana/gpu.py."""

from .text import figure, table

TARGETS = ("0.90", "0.95", "0.97", "0.99")


def rate(library, target):
    found = library["queries_per_second_at"].get(target)
    return "-" if found is None else figure(found)


def one_query(library):
    """From an array on the GPU, and from the host where that was measured."""
    alone = library.get("one_query_seconds")
    if alone is None:
        return "-"
    host = library.get("one_query_from_host_seconds")
    return f"{1e6 * alone:,.0f} us" + ("" if host is None else f", {1e6 * host:,.0f}")


def bytes_a_query(case, library, point):
    """That a walk reads from the host's memory: edges without a copy on the GPU, and the rows it evaluates."""
    row = case["dim"] * {"uint8": 1, "float32": 4}[case["dtype"]]
    edges = (point["hops"] - point["cached_hops"]) * 4 * library["parameters"]["max_degree"]
    return (edges if "graph" in library["placement"] else 0) + point["candidates"] * row


def render_link(result, case):
    """What walks through a graph in the host's memory take of the link; none where nothing lies there."""
    link = result["machine"].get("link_bytes_per_second")
    hosts = [library for library in case["libraries"] if "host" in library.get("placement", "")]
    if link is None or not hosts:
        return ""
    rows = [["graph", "list", "recall", "queries/s", "steps", "of them cached", "rows", "GB/s", "of the link"]]
    for library in hosts:
        for point in library["points"]:
            rate_of_bytes = bytes_a_query(case, library, point) * point["queries_per_second"]
            rows.append([
                library["name"], str(point["setting"]), f"{point['recall']:.3f}", figure(point["queries_per_second"]),
                f"{point['hops']:.1f}", f"{point['cached_hops'] / point['hops']:.0%}", f"{point['candidates']:.1f}",
                f"{rate_of_bytes / 1e9:.1f}", f"{rate_of_bytes / link:.0%}",
            ])  # fmt: skip
    return (
        "Read from the host's memory by the walks themselves, a query's steps and rows; the link carries "
        f"{link / 1e9:.1f} GB/s in one large copy. Reads from anywhere are bound by their number, not by their bytes "
        f"([gpu.md](gpu.md)).\n\n{table(rows)}\n"
    )


def render_gpu_graphs(result):
    sizes = " and ".join(f"{case['rows']:,} x {case['dim']} {case['dtype']}" for case in result["cases"])
    parts = [
        f"## Graphs on a GPU: {sizes}\n",
        f"Queries a second of {result['cases'][0]['queries']:,} at once, k = {result['k']}, at a recall, by interpolation between "
        f"the settings measured; queries and answers stay on the GPU. {result['machine']['gpu']} (driver); Kith at "
        f"{result['commit']}, {result['date']}. *One* is the time of a call for one query by the first list that finds 0.95, from an array on the GPU and, where it "
        "stands, from one on the host. CAGRA of cuVS "
        "searches with search_width 1. The mixtures are those of [benchmarks/vamana/gpu.py](../benchmarks/vamana/gpu.py); Kith's answers "
        "were compared with the CPU's, bit for bit.\n",
    ]
    for case in result["cases"]:
        rows = [["library", "build s", *(f"at {target}" for target in TARGETS), "one", "where"]]
        for library in case["libraries"]:
            rows.append([
                library["name"], f"{library['build_seconds']:.1f}", *(rate(library, target) for target in TARGETS),
                one_query(library), library.get("placement", "cuda resident"),
            ])  # fmt: skip
        parts.append(f"{case['case']}:\n\n{table(rows)}\n")
        parts.append(render_link(result, case))
    parts.append(f"Measured with:\n\n```sh\n{result['command']}\n```\n")
    return "\n".join(part for part in parts if part)
