"""The section of docs/benchmarks.md on trees built and searched on a GPU, from the JSON of gpu_trees."""

from .text import duration, figure, table

# cudaKDTree, the best of its three traversals, uniform float32 points of 3 dimensions, data resident, ms: the build
# (k None), all neighbours in Morton order, and the same queries shuffled; (rows, k).
CUDA_KD_TREE_MS = {
    "build": {(65536, None): 2.6, (1000000, None): 9.7, (10000000, None): 66.7},
    "all neighbours": {
        (65536, 8): 0.10, (65536, 20): 0.23, (65536, 32): 0.43, (1000000, 1): 0.11, (1000000, 8): 1.50,
        (1000000, 20): 2.52, (1000000, 32): 6.81, (10000000, 1): 1.18, (10000000, 8): 18.1, (10000000, 20): 26.0,
        (10000000, 32): 65.6,
    },
    "shuffled": {
        (1000000, 1): 0.16, (1000000, 8): 1.94, (1000000, 20): 3.15, (1000000, 32): 11.5, (10000000, 1): 2.48,
        (10000000, 8): 21.4, (10000000, 20): 61.1, (10000000, 32): 229,
    },
}  # fmt: skip

INTRODUCTION = """### Trees on a GPU

`KdTree` and `Octree` of float32 points of 3 dimensions, rows, queries and answers (8-byte indices and distances) in
GPU memory unless it says otherwise; medians of whole calls (`gpu_trees`), the first calls not counted. Samples of the
answers are compared with brute force, normals of up to a million points with the CPU's, all bits: {wrong} differ. *cudaKDTree*: the best of its three traversals, measured on the same
kind of chip on 2026-11-20, not in the same run.
How they work: [gpu.md](gpu.md#trees).
"""

NAMES = {"kd_tree": "k-d tree", "octree": "octree"}


def milliseconds(case):
    return f"{figure(case['ms'])} ms"


def find(cases, **wanted):
    return next((c for c in cases if all(c.get(name) == value for name, value in wanted.items())), None)


def peer(what, points, rows, k):
    value = CUDA_KD_TREE_MS.get(what, {}).get((rows, k)) if points == "uniform" else None
    return "" if value is None else f"{figure(value)} ms"


def one_table(cases, what, head):
    """A row for each number of points, kind and k; a column a tree."""
    rows = [[head, *NAMES.values(), "cudaKDTree"]]
    for points, count, k in dict.fromkeys((c["points"], c["rows"], c.get("k")) for c in cases if c["what"] == what):
        found = [find(cases, what=what, points=points, rows=count, k=k, index=index) for index in NAMES]
        name = f"{points}, {count:,}" + ("" if k is None else f", k = {k}")
        rows.append([name, *("" if c is None else milliseconds(c) for c in found), peer(what, points, count, k)])
    return table(rows)


def render_trees_gpu(result):
    cases = result["cases"]
    wrong = sum(max(0, c.get("wrong", 0)) for c in cases)  # -1: not compared
    parts = [
        INTRODUCTION.format(wrong="none" if wrong == 0 else wrong),
        f"{result['machine']}; Kith {result['commit']}, {result['date']}.\n",
        one_table(cases, "build", "build"),
        "\nAt the peak a build takes "
        f"{max(c['peak_bytes_a_point'] for c in cases if c['what'] == 'build'):.0f} bytes a point and less beside the rows; "
        f"the trees keep {max(c['tree_bytes_a_point'] for c in cases if c['what'] == 'build'):.0f} and less.\n",
        one_table(cases, "all neighbours", "all neighbours"),
        "",
        *((one_table(cases, "normals", "normals and curvature"), "") if find(cases, what="normals") else ()),
        one_table(cases, "shuffled", "the rows as shuffled queries"),
        "",
        one_table(cases, "1024 queries", "1,024 queries"),
        "",
    ]
    ends = [c for c in cases if c["what"] == "end to end" and c["index"] == "kd_tree"]
    if ends:
        rows = [["from page-locked memory and back, k = 8", "build and search", "the copies alone"]]
        for c in ends:
            rows.append([f"{c['rows']:,}", duration(c["ms"] / 1000), duration(c["copies_ms"] / 1000)])
        parts += [table(rows), ""]
    parts.append(f"Measured with:\n\n```sh\n{result['command']}\n```\n")
    return "\n".join(parts)
