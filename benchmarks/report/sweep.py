"""The sections on data that is not uniform, from results of benchmarks/brute_force/gpu_sweep.py and cpu_sweep.py."""

from .text import figure, table

PLACES = {"gpu": "on a GPU", "cpu": "on the CPU"}

INTRODUCTION = """Gaussian values, and clusters around gaussian centres whose rows spread by a given share of the distances
between centres (1: as far as the centres); of them the first are the largest. {queries} queries, medians of whole searches, ms; in
brackets the time by that of {peers}, on the same machine in the same run{independent}. Kith's answers were compared;
{wrong}. The worst ratio is {worst}.{lists}
"""


def peers_of(result):
    """{(dim, rows, k): ms} of the quickest float32 brute force, and the peers' names."""
    if result["on"] == "cpu":
        return {}, result["peer"]
    times, names = {}, set()
    for line in result["results"]:
        if line["engine"] != "kith":
            names.add({"torch": "torch's float32 matmul and topk", "cuvs": "cuVS's brute force"}[line["engine"]])
            key = line["dim"], line["rows"], line["k"]
            times[key] = min(times.get(key, float("inf")), line["median_ms"])
    return times, "the quicker of " + " and ".join(sorted(names)) if len(names) > 1 else "".join(names)


def render_sweep(result):
    gpu = result["on"] == "gpu"
    times, peers = peers_of(result)
    lines = [line for line in result["results"] if line.get("engine", "kith") == "kith"]
    for line in lines:
        if gpu:
            line["ratio"] = line["median_ms"] / times[line["dim"], line["rows"], line["k"]]
    wrong = sum(line["wrong_cells" if gpu else "wrong_queries"] for line in lines)
    dims = sorted({line["dim"] for line in lines})
    parts = [
        f"### Data that is not uniform, {PLACES[result['on']]}\n",
        INTRODUCTION.format(
            queries=f"{lines[0]['queries']:,}", peers=peers, worst=figure(max(line["ratio"] for line in lines)),
            independent=" (whose time does not depend on the values)" if gpu else "",
            lists=" *l*: the rows were divided into lists." if any(line.get("lists") for line in lines) else "",
            wrong="none was wrong" if wrong == 0 else f"{wrong} were wrong",
        ),
        f"{result['machine']}; Kith at {result['commit']}, {result['date']}: `{result['command']}`.\n",
    ]  # fmt: skip
    sets = sorted({line.get("set", "") for line in lines}, reverse=True)
    for rows, k, which in sorted({(line["rows"], line["k"], line.get("set", "")) for line in lines}):
        some = [line for line in lines if (line["rows"], line["k"], line.get("set", "")) == (rows, k, which)]
        kinds = list(dict.fromkeys(line["data"] for line in some))
        cells = {
            (line["data"], line["dim"]): f"{figure(line['median_ms'])} ({line['ratio']:.2f})"
            + (" *l*" if line.get("lists") else "")
            for line in some
        }
        head = [f"{rows:,} rows, k = {k}" + (f", {which}" if len(sets) > 1 else ""), *(f"d = {dim}" for dim in dims)]
        parts.append(table([head] + [[kind, *(cells.get((kind, dim), "") for dim in dims)] for kind in kinds]) + "\n")
    return "\n".join(parts)
