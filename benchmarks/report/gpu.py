"""The GPU section of docs/benchmarks.md, from results of benchmarks/brute_force/collect_gpu.py."""

from .text import duration, figure, mebibytes, table

# The ceilings of an NVIDIA H200, measured with library kernels: bytes/s of a read of device memory, int8
# multiply-adds of a large product (two operations each), float32 fused multiply-adds (two each), and bytes/s
# from page-locked host memory.
CHIP = "H200"
READ_BYTES = 4.49e12
INT8_OPERATIONS = 1484e12
FP32_OPERATIONS = 65.6e12
PINNED_BYTES = 55e9

# FAISS 1.x bfKnn, float32, data resident, ms; (dim, queries, rows, k).
FAISS_MS = {
    (128, 512, 8192, 16): 0.100, (3, 1024, 65536, 1): 0.333, (16, 1024, 65536, 1): 0.355,
    (3, 1024, 1048576, 1): 4.64, (16, 1024, 1048576, 1): 5.02, (3, 1, 16777216, 1): 27.7,
    (16, 1, 16777216, 1): 27.8, (128, 1, 1000000, 10): 3.70, (768, 1, 1000000, 10): 4.88,
    (768, 100, 1000000, 10): 8.24, (96, 10000, 1000000, 10): 86.7, (128, 10000, 1000000, 10): 102.8,
    (128, 10000, 1000000, 100): 105.0, (768, 10000, 1000000, 10): 350, (768, 10000, 1000000, 100): 361,
    (96, 10000, 10000000, 10): 867,
}  # fmt: skip
FAISS_SOURCE = "measured on the same kind of chip on 2026-11-20, not in the same run"

TORCH_BEFORE = (
    "another float32 search of torch's took 13.5 ms on that day for 3; 1,024; 1,048,576; 1, and 176 and 414 ms for "
    "128; 10,000; 1,000,000; 10 and 768; 10,000; 1,000,000; 100"
)

VALUE_BYTES = {"u8": 1, "i8": 1, "f16": 2, "bf16": 2, "f32": 4, "f64": 8}

INTRODUCTION = """Uniform random data, squared Euclidean distances; medians of whole calls (`gpu_search`), the first
calls not counted. The answers to the first 16 queries of every case are compared, bit for bit, with a search without a
filter: {differ} differ. How a search on a GPU runs, and what bounds it: [gpu.md](gpu.md).
"""

RESIDENT = """### Rows, queries and answers in GPU memory

*TFLOP/s* are effective: 2 x d operations a pair of query and row, whatever was computed, an int8 multiply-add
counted as two like any other."""

FLOOR = f"""*Of the floor* is what share of the time measured this chip needs at least, the larger of two: the values
that the filter looks at are read once (d bytes a row for int8, 4 d for fp32) at {READ_BYTES / 1e12:.2f} TB/s, and its
arithmetic is done once at the rate that library kernels reach: 2 d operations a pair at
{INT8_OPERATIONS / 1e12:.0f} TOP/s for int8, and for fp32, which sums squared differences, d subtractions, d multiply-adds
and a comparison, 2 d + 1 instructions a pair at {FP32_OPERATIONS / 2e12:.1f} T/s (half of {FP32_OPERATIONS / 1e12:.1f} TFLOP/s,
where a multiply-add counts as two)."""

HOST = """### From host memory, one shot

Rows and queries in ordinary (pageable) host memory; a call copies them, codes the rows and searches."""

STREAMED = """### Rows larger than the GPU memory allowed

Rows stay in host memory, the search keeps to the limit. *Rows/time* is the size of the rows by the time of a
search: while they stream through it cannot exceed the rate of copies from page-locked memory; where their codes
fit the limit only what the filter keeps is fetched."""

MULTI = """### Several GPUs

The rows are dealt out to the devices, the lists merged. *Speed-up* is against the fewest devices listed."""


def bytes_of(case):
    return case["rows"] * case["dim"] * VALUE_BYTES[case["dtype"]]


def shape(case):
    return (case["dim"], case["queries"], case["rows"], case["k"])


def shape_cells(case):
    return [str(case["dim"]), f"{case['queries']:,}", f"{case['rows']:,}", str(case["k"])]


SHAPE_HEAD = ["d", "queries", "rows", "k", "type", "filter"]


def seconds_of(case):
    return case["median_ms"] / 1e3


def device_count(case):
    """Of a list as --devices takes it: cuda:0,1,2."""
    return len(case["devices"].split(","))


def floor_seconds(case):
    """The least time of a search on one chip, see FLOOR."""
    pairs, dim = case["queries"] * case["rows"], case["dim"]
    if case["filter"] == "int8":
        return max(case["rows"] * dim / READ_BYTES, 2 * dim * pairs / INT8_OPERATIONS)
    if case["filter"] == "fp32":
        return max(4 * case["rows"] * dim / READ_BYTES, (2 * dim + 1) * pairs / (FP32_OPERATIONS / 2))
    return bytes_of(case) / READ_BYTES


def per_query(case):
    return figure(case["candidates"] / max(1, case["queries"]))


def of_chip(result):
    """Whether the constants above speak of this machine."""
    return CHIP in result["machine"]


def resident(result, cases):
    known = of_chip(result)
    head = [*SHAPE_HEAD, "median", "queries/s", "TFLOP/s", *(["of the floor"] if known else []),
            "candidates/query", "fallbacks", "building"]  # fmt: skip
    rows = [head]
    for c in cases:
        seconds = seconds_of(c)
        operations = 2 * c["dim"] * c["queries"] * c["rows"]
        share = [f"{100 * floor_seconds(c) / seconds:.0f} %"] if known else []
        rows.append([
            *shape_cells(c), c["dtype"], c["filter"], f"**{duration(seconds)}**", figure(c["queries"] / seconds),
            figure(operations / seconds / 1e12), *share, per_query(c), f"{c['fallbacks']:,}",
            duration(c["build_ms"] / 1e3),
        ])  # fmt: skip
    introduction = RESIDENT + ("\n" + FLOOR if known else "")
    return f"{introduction}\n\n{table(rows)}\n"


def beside_others(result, cases):
    """The same cases beside the peers of the same run and FAISS's marks; nothing where there are none."""
    names = list(dict.fromkeys(p["peer"] for p in result["peers"]))
    medians = {(p["peer"], *shape(p)): p["median_ms"] for p in result["peers"]}
    marks = FAISS_MS if of_chip(result) else {}
    head = ["d", "queries", "rows", "k", "Kith"]
    for name in names:
        head += [name, "ratio"]
    if marks:
        head += ["FAISS bfKnn, before", "ratio"]
    rows = [head]
    for c in cases:
        if c["dtype"] != "f32":
            continue
        found = [medians.get((name, *shape(c))) for name in names] + ([marks.get(shape(c))] if marks else [])
        if all(ms is None for ms in found):
            continue
        row = [*shape_cells(c), duration(seconds_of(c))]
        for ms in found:
            row += ["", ""] if ms is None else [duration(ms / 1e3), f"**{figure(ms / c['median_ms'])}**"]
        rows.append(row)
    if len(rows) == 1:
        return ""
    text = "The same cases beside float32 searches by others; *ratio* is how many times longer they took than Kith."
    if names:
        text += f" In the same run, rows in tiles, the norms added by the product: {', '.join(names)}."
    if marks:
        text += f" FAISS bfKnn's figures are constants of this page, {FAISS_SOURCE}; {TORCH_BEFORE}."
    return f"{text}\n\n{table(rows)}\n"


def host(result, cases):
    del result
    rows = [[*SHAPE_HEAD, "rows", "median", "queries/s", "candidates/query", "fallbacks"]]
    for c in cases:
        rows.append([
            *shape_cells(c), c["dtype"], c["filter"], mebibytes(bytes_of(c)), f"**{duration(seconds_of(c))}**",
            figure(c["queries"] / seconds_of(c)), per_query(c), f"{c['fallbacks']:,}",
        ])  # fmt: skip
    return f"{HOST}\n\n{table(rows)}\n"


def against_first(cases, order):
    """For each case how many times faster it is than the same shape at the least `order`; and that order."""
    base = {}
    for c in sorted(cases, key=order):
        base.setdefault((shape(c), c["dtype"]), c)
    return [(c, base[shape(c), c["dtype"]]) for c in sorted(cases, key=lambda c: (*shape(c), c["dtype"], order(c)))]


def streamed(result, cases):
    known = of_chip(result)
    head = [*SHAPE_HEAD, "rows", "limit", "median", "rows/time", *(["of page-locked copies"] if known else []),
            "speed-up", "candidates/query"]  # fmt: skip
    rows = [head]
    for c, first in against_first(cases, lambda c: c["memory_limit_mib"]):
        rate = bytes_of(c) / seconds_of(c)
        share = f"{100 * rate / PINNED_BYTES:.0f} %" if rate <= PINNED_BYTES else ""  # above it: not streamed
        rows.append([
            *shape_cells(c), c["dtype"], c["filter"], mebibytes(bytes_of(c)), f"{c['memory_limit_mib']:,} MiB",
            f"**{duration(seconds_of(c))}**", f"{figure(rate / 1e9)} GB/s",
            *([share] if known else []),
            figure(first["median_ms"] / c["median_ms"]), per_query(c),
        ])  # fmt: skip
    text = STREAMED + (f" A GPU of this kind takes {PINNED_BYTES / 1e9:.0f} GB/s of them." if known else "")
    return f"{text}\n\n{table(rows)}\n"


def multi(result, cases):
    del result
    rows = [[*SHAPE_HEAD, "devices", "median", "queries/s", "speed-up", "TFLOP/s"]]
    for c, first in against_first(cases, device_count):
        operations = 2 * c["dim"] * c["queries"] * c["rows"]
        rows.append([
            *shape_cells(c), c["dtype"], c["filter"], str(device_count(c)), f"**{duration(seconds_of(c))}**",
            figure(c["queries"] / seconds_of(c)), figure(first["median_ms"] / c["median_ms"]),
            figure(operations / seconds_of(c) / 1e12),
        ])  # fmt: skip
    return f"{MULTI}\n\n{table(rows)}\n"


PARTS = {"resident": (resident, beside_others), "host": (host,), "streamed": (streamed,), "multi": (multi,)}


def render_gpu(result):
    """The section of one results file."""
    setting = f"{result['machine']}; Kith {result['commit']}, {result['date'][:10]}."
    wrong = sum(c["wrong_cells"] for section in result["sections"] for c in section["cases"])
    parts = ["## GPU\n", INTRODUCTION.format(differ=f"{wrong:,}" if wrong else "none"), f"{setting}\n"]
    for mode, make in PARTS.items():
        cases = [c for section in result["sections"] if section["mode"] == mode for c in section["cases"]]
        if cases:
            parts += [text for part in make if (text := part(result, cases))]
    commands = "\n".join(section["command"] for section in result["sections"])
    parts.append(f"Measured with:\n\n```sh\n{commands}\n```\n")
    return "\n".join(parts)
