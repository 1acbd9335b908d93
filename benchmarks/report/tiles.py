"""The section of docs/benchmarks.md on clouds larger than memory, from results of benchmarks/tiles."""

from .text import duration, figure, mebibytes, table

INTRODUCTION = """## Clouds larger than memory

[Point tiles](point-tiles.md) within a limit on memory: `kith normals CLOUD --memory-limit ...`, partition and output included.
"""

PEERS = """### Normals beside Open3D and a script of tiles

{rows:,} points of `kith generate terrain_scan`, float64, k = {k}, the point itself included; {cpu}, {threads} cores. Every
process reads an npy and writes one, and its time and peak memory are those of the whole process; *the work alone* is
without start, reading and writing, where the process can tell. They take turns: {turns}. The script ([worker.py](../benchmarks/tiles/worker.py))
is the usual recipe: square tiles of {side:g} m with a border of {border:g} m, on disk, SciPy's `cKDTree` over each, planes by NumPy.
*Ratio* is how many times longer, or how many times more, than Kith through tiles.

Answers of {sample:,} rows, chosen at random, were compared with SciPy's tree over the whole cloud, which has no part in the others:
*wrong neighbours* are rows whose {k}-th neighbour is not as near as it should be, *wrong normals* rows whose normal is more than
a degree off, of the {sample_normals:,} that one plane alone fits. Kith's normals from tiles are, of all rows, the bits of its tree in memory.
"""

IN_MEMORY = """### Through tiles beside the tree in memory

{rows:,} points, float64, from the disk to the disk, {threads} cores, {cpu}; tiles within {limit}, partition and output included. The answers
are the same bytes. The disk gave one reader {read}/s and one writer {written}/s in the same run; *the disk's share* is how
much of the time the command's own traffic takes at these rates: 100 % would be as quick as the disk. *Ratio* is to the tree in memory.
"""

ON_A_GPU = """### A billion points on a GPU

{rows:,} points of `kith generate terrain_scan`, float32, on the disk of a machine of {cores} cores with one {gpu}: normals, k = {k}, in the order of
the input, float32, from the file to the file. The source was not in the page cache; what was written goes to the disk, and what is read again lies in
memory where the machine has it. The disk gave {read}/s to readers and {written}/s to writers of large blocks in the same run; *the disk's share* is how much of
the time the traffic takes at these rates. {compared:,} normals, of stretches from the beginning, the middle and the end, were compared with
those of a tree in the GPU's memory: all the same bytes.
"""


def about(result):
    """When and of what state, and what blurs it."""
    load = result["machine"]["load"]
    busy = f" The load before it was {load}, which blurs the figures." if load > 0.5 else ""
    note = f" {result['note']}" if result["note"] else ""
    return f"Kith {result['commit']}, {result['date']}: `{result['command']}`.{busy}{note}\n"


def times(value, base):
    return "" if base is value else f" ({figure(value / base)})"


def render_peers(result):
    entries = result["entries"]
    first = entries[0]
    rows = [["", "time (ratio)", "the work alone", "peak memory (ratio)", "wrong neighbours", "wrong normals"]]
    for entry in entries:
        ours = entry["name"].startswith("kith")
        name = f"**{entry['note']}**" if ours else f"{entry['name']} {entry['version']}: {entry['note']}"
        time = f"{duration(entry['median_seconds'])}{times(entry['median_seconds'], first['median_seconds'])}"
        memory = f"{mebibytes(entry['peak_bytes'])}{times(entry['peak_bytes'], first['peak_bytes'])}"
        work = duration(entry["work_seconds"]) if "work_seconds" in entry else ""
        rows.append([name, time, work, memory, f"{entry['wrong_neighbors']:,}", f"{entry['wrong_normals']:,}"])
    turns = f"Kith {len(first['seconds'])}, its peers {len(entries[-1]['seconds'])}"
    values = {**result, **result["machine"], "turns": turns}
    return f"{PEERS.format(**values)}\n{table(rows)}\n\n{about(result)}"


def disk_share(entry, rates):
    traffic = entry["read_bytes"] / rates["read"] + entry["written_bytes"] / rates["written"]
    return f"{100 * traffic / entry['median_seconds']:.0f} %"


def render_in_memory(result):
    rates = result["disk_bytes_a_second"]
    rows = [["", "time (ratio)", "processor time", "peak memory", "read", "written", "the disk's share"]]
    base = {}
    for entry in result["entries"]:
        memory = base.setdefault(entry["task"], entry)
        ways = {"memory": "in memory", "tiles": "**tiles**", "tiles, their order": "**tiles**, `--order tiles`"}
        rows.append([
            f"{entry['task']}: {ways[entry['way']]}",
            f"{duration(entry['median_seconds'])}{times(entry['median_seconds'], memory['median_seconds'])}",
            duration(entry["processor_seconds"]), mebibytes(entry["peak_bytes"]), mebibytes(entry["read_bytes"]),
            mebibytes(entry["written_bytes"]), disk_share(entry, rates),
        ])  # fmt: skip
    values = {**result, **result["machine"], "limit": mebibytes(result["limit"])}
    values |= {way: mebibytes(rate) for way, rate in rates.items()}
    return f"{IN_MEMORY.format(**values)}\n{table(rows)}\n\n{about(result)}"


def render_gpu(result):
    rates = result["disk_bytes_a_second"].values()
    best = {way: max(rate[way] for rate in rates) for way in ("read", "write")}
    share = {"read": best["read"], "written": best["write"]}
    rows = [["", "time", "processor time", "peak memory", "read", "written", "the disk's share"]]
    steps = [("build", "`kith build --index point_tiles`"), ("normals", "`kith normals --device cuda`")]
    if "cold" in result:
        steps.append(("cold", "`kith normals`, no tile in the page cache"))
    for step, words in steps:
        entry = result[step]
        rows.append([
            words, duration(entry["seconds"]), duration(entry["processor_seconds"]), mebibytes(entry["peak_bytes"]),
            mebibytes(entry["read_bytes"]), mebibytes(entry["written_bytes"]),
            disk_share(entry | {"median_seconds": entry["seconds"]}, share),
        ])  # fmt: skip
        if step == "normals":
            rows.append(["**both**", f"**{duration(result['seconds'])}**", "", "", "", "", ""])
    found, told = result["normals"], result["normals"]["statistics"]
    idle = 1 - told["device_seconds"] / told["seconds"]
    text = (
        f"The GPU had nothing to do in {100 * idle:.0f} % of the search and of the pass that brings normals into order: no call was under"
        f" way, copies included. Its driver called it busy in {100 * found['busy_share_by_driver']:.0f} % of the time; "
        f"{mebibytes(found['peak_device_bytes'])} of its memory were taken at most. Of the points"
        f" {100 * told['crossed'] / result['rows']:.2f} % needed another tile than their own, of {result['tile_points']:,} points; "
        f"{told['tiles_read_again']} tiles were read twice.\n"
    )
    values = {**result, **result["machine"], "compared": result["rows_compared"]}
    values |= {"read": mebibytes(best["read"]), "written": mebibytes(best["write"])}
    return f"{ON_A_GPU.format(**values)}\n{table(rows)}\n\n{text}\n{about(result)}"


MAKERS = {"tiles gpu": render_gpu, "tiles peers": render_peers, "tiles in memory": render_in_memory}


def render_tiles(results):
    """The section of the results that there are; empty without."""
    parts = [make(result) for kind, make in MAKERS.items() for result in results if result.get("kind") == kind]
    return "\n".join([INTRODUCTION, *parts, "Measured with:\n\n```sh\nmake bench-tiles\n```\n"]) if parts else ""
