"""The sections of docs/benchmarks.md on the trees, from results of benchmarks/trees/run.py."""

from benchmarks.trees.cases import TREE_CASES

from .text import duration, figure, table

INTRODUCTION = """Kith's `KdTree` and `Octree` beside other trees on the same float32 points (the peers of Python on their float64
copies where that is what they take), with the same number of threads. nanoflann and Kith run in one process and take
turns (`tree_bench`): one round is not timed (unless one alone takes long), then the median of the rounds counts, memory
for the answer included. Before each turn as much memory is touched and given back: where a virtual machine's host has
taken it away, whoever came first would wait for it, and alone.
nanoflann has no batch search, so its queries are dealt out to threads, in the order given; it is compiled for this very
processor (`-O3 -march=native`) and measured with leaves of 10 points, its default, 16 and 32, of which the table shows
the default and the quickest. SciPy's `cKDTree` (`workers`) and pykdtree (OpenMP) follow in processes of their own.

*all-kNN*: the k nearest rows of every row, itself included on all sides. *search*: k = 1 for other points. The ratio is
how many times longer a peer took than Kith's k-d tree. Distances are compared: Kith's two trees to the bit, indices too;
the peers' within the rounding of float32. *Above the limit*: given up after that time.
"""

HELD = """The same, Kith held to {set} (`KITH_INSTRUCTION_SET`). nanoflann is compiled for this very processor and
may use what Kith may not.
"""

SWEEP = """### Leaf size

The uniform case with {sizes} points a leaf.{blurred}

![Time by leaf size](images/leaf-size.svg)
"""

CROSSOVER = """### Where a tree begins to pay

`tree_crossover`: one `knn` by brute force beside building a k-d tree and searching it, on uniform points; the figures
behind `--index auto` are charted in [which-index.md](which-index.md#brute-force-or-a-tree).{blurred}
"""

LIBRARIES = {"kd_tree": "**KdTree**", "octree": "**Octree**"}


def task_name(run):
    return {"build": "build", "all_knn": f"all-kNN, k = {run.get('k')}", "search": "search, k = 1"}[run["task"]]


def same_task(run, other):
    return run["task"] == other["task"] and run.get("k") == other.get("k")


def quickest(entries):
    """The entry with the least time; one without a time only where none has."""
    return min(entries, key=lambda e: (e["median_seconds"] is None, e["median_seconds"] or 0))


def columns(case):
    """[(heading, run -> entry or None)] of a case: Kith's trees, then nanoflann's default and best leaf size, peers."""

    def of(name, leaf_size=None):
        def pick(run):
            own = [e for e in run["entries"] if e["name"] == name and leaf_size in (None, e["leaf_size"])]
            return quickest(own) if own else None

        return pick

    names = {e["name"] for run in case["runs"] for e in run["entries"]}
    found = [(LIBRARIES[name], of(name)) for name in LIBRARIES if name in names]
    if "nanoflann" in names:
        version = case["nanoflann"]["version"]
        found += [(f"nanoflann {version}", of("nanoflann", 10)), ("its best leaf", of("nanoflann"))]
    for peer in case["peers"]:

        def pick(run, peer=peer):
            own = [r for r in peer["runs"] if same_task(r, run)]
            if own:
                return own[0]
            return {"median_seconds": None} if "gave_up" in peer else None

        found.append((f"{peer['name']} {peer['version']}", pick))
    return found


def cell(entry, first):
    """Time, and the ratio to Kith's."""
    if entry is None:
        return ""
    if entry["median_seconds"] is None:
        return "above the limit"
    if first is None or first is entry or first["median_seconds"] is None:
        return duration(entry["median_seconds"])
    ratio = figure(entry["median_seconds"] / first["median_seconds"])
    leaf = f", leaf {entry['leaf_size']}" if entry.get("name") == "nanoflann" else ""
    return f"{duration(entry['median_seconds'])} ({ratio}{leaf})"


def differing(case):
    """In words: for how many queries the answers differ."""
    entries = [e for run in case["runs"] for e in run["entries"]] + [r for p in case["peers"] for r in p["runs"]]
    count = sum(e.get("differing") or 0 for e in entries)
    return "All answers agree." if count == 0 else f"{count:,} answers differ."


def blurred(result):
    """Says so when other work ran beside the measurement."""
    load = result.get("load", 0)
    return f" Other work ran beside it (load {load}), which blurs the figures." if load > 0.5 else ""


def render_case(name, case):
    what = TREE_CASES[name]
    heads = columns(case)
    rows = [[f"{case['rows']:,} x {case['dim']}", *(head for head, _ in heads)]]
    for run in case["runs"]:
        first = heads[0][1](run)
        rows.append([task_name(run), *(cell(pick(run), first) for _, pick in heads)])
    memory = [
        f"{e['name']} {figure(e['memory_bytes'] / case['rows'])}"
        for e in case["runs"][0]["entries"]
        if "memory_bytes" in e
    ]
    text = (
        f"{what.text} {differing(case)} Bytes a point, its own {4 * case['dim']} included: {', '.join(memory)}. "
        f"Kith {case['commit']}, {case['date'][:10]}.{blurred(case)}{case.get('note', '')}"
    )
    return f"### {what.title}\n\n{text}\n\n{table(rows)}\n"


def render_trees(result):
    """The section of one results file."""
    cases = [(name, result["cases"][name]) for name in TREE_CASES if name in result["cases"]]
    held = result.get("set")
    parts = [f"## Trees on {held}\n", HELD.format(set=held)] if held else ["## Trees\n", INTRODUCTION]
    if cases:
        one = cases[0][1]
        machine, peer = one["machine"], one["nanoflann"]
        parts.append(
            f"{machine['cpu']}, {machine['cores']} cores ({machine['instruction_sets'].split()[0]}), {one['threads']} "
            f"threads; nanoflann {peer['version']}, built by {'all threads' if peer['threaded_build'] else 'one thread'}.\n"
        )
    parts += [render_case(name, case) for name, case in cases]
    if "leaf_sizes" in result:
        parts.append(
            SWEEP.format(
                sizes=", ".join(map(str, leaf_sizes(result["leaf_sizes"]))), blurred=blurred(result["leaf_sizes"])
            )
        )
    if "crossover" in result:
        parts.append(CROSSOVER.format(blurred=blurred(result["crossover"])))
    command = f"python -m benchmarks.trees.run --set {held} {' '.join(result['cases'])}" if held else "make bench-trees"
    parts.append(f"Measured with:\n\n```sh\n{command}\n```\n")
    return "\n".join(parts)


def leaf_sizes(sweep):
    return sorted({e["leaf_size"] for run in sweep["runs"] for e in run["entries"]})
