"""Merges what gpu_search and gpu_torch.py wrote into one results file, from which the page is made.

    python benchmarks/brute_force/collect_gpu.py benchmarks/results/gpu-brute-force.json \\
        --machine TEXT --commit SHA --date DATE [--resident FILE] [--host FILE] [--streamed FILE ...]
        [--multi FILE ...] [--torch FILE] [--repeat MODE=N ...]

Files that hold another kind of run than their option says, or answers that are wrong, are refused.
"""

import argparse
import json
import sys
from pathlib import Path

CASE_FIELDS = {"dim", "queries", "rows", "k", "dtype", "median_ms", "min_ms", "max_ms", "build_ms", "filter",
               "candidates", "fallbacks", "wrong_cells", "devices"}  # fmt: skip
PEER_FIELDS = {"dim", "queries", "rows", "k", "median_ms", "peer"}

# What each kind of run must look like: a test of one case, and its words.
MODES = {
    "resident": (lambda c: not c["from_host"], "rows in GPU memory (no --host, no --memory-limit)"),
    "host": (lambda c: c["from_host"] and not c["memory_limit_mib"], "gpu_search --host without a limit"),
    "streamed": (lambda c: c["memory_limit_mib"] > 0, "gpu_search --memory-limit N"),
    "multi": (lambda c: not c["from_host"], "rows in GPU memory (no --host, no --memory-limit)"),
}


class BadResults(Exception):
    """What is wrong with an input file, and what it should be."""


def read_cases(path, fields):
    try:
        cases = json.loads(Path(path).read_text())
    except (OSError, ValueError) as error:
        raise BadResults(f"{path}: {error}") from None
    if not isinstance(cases, list) or not cases:
        raise BadResults(f"{path}: no cases; it should be the JSON list that gpu_search or gpu_torch.py wrote")
    for case in cases:
        missing = sorted(fields - set(case))
        if missing:
            raise BadResults(f"{path}: a case without {', '.join(missing)}")
    return cases


def command_line(cases, repeat):
    """The gpu_search line that makes these cases."""
    first = cases[0]
    line = ["gpu_search", "--repeat", str(repeat)] if repeat else ["gpu_search"]
    if first["devices"] != "cuda:0":
        line += ["--devices", first["devices"]]
    if first["from_host"] and not first["memory_limit_mib"]:
        line.append("--host")
    if first["memory_limit_mib"]:
        line += ["--memory-limit", str(first["memory_limit_mib"])]
    for c in cases:
        dtype = [] if c["dtype"] == "f32" else [c["dtype"]]
        line.append(",".join(map(str, [c["dim"], c["queries"], c["rows"], c["k"], *dtype])))
    return " ".join(line)


def section(mode, path, repeat):
    cases = [{"from_host": False, "memory_limit_mib": 0, **case} for case in read_cases(path, CASE_FIELDS)]
    fits, words = MODES[mode]
    for case in cases:
        name = f"{path}: case {case['dim']},{case['queries']},{case['rows']},{case['k']}"
        if not fits(case):
            raise BadResults(f"{name} is not what --{mode} takes: {words}")
        if case["wrong_cells"]:
            raise BadResults(f"{name} has {case['wrong_cells']} wrong cells; a wrong answer is a fault, not a result")
    return {"mode": mode, "command": command_line(cases, repeat), "cases": cases}


def repeats(words):
    """{mode: number} of MODE=N words."""
    out = {}
    for word in words:
        mode, _, number = word.partition("=")
        if mode not in MODES or not number.isdigit():
            raise BadResults(f"--repeat {word}: write MODE=N with a mode of {', '.join(MODES)}")
        out[mode] = int(number)
    return out


def collect(arguments):
    sections = []
    repeat = repeats(arguments.repeat)
    for mode in MODES:
        paths = getattr(arguments, mode) or []
        for path in [paths] if isinstance(paths, str) else paths:
            sections.append(section(mode, path, repeat.get(mode)))
    return {
        "format": "kith-gpu-search",
        "format_version": 1,
        "kind": "gpu",
        "machine": arguments.machine,
        "commit": arguments.commit,
        "date": arguments.date,
        "sections": sections,
        "peers": read_cases(arguments.torch, PEER_FIELDS) if arguments.torch else [],
    }


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", help="results file to write")
    parser.add_argument("--machine", required=True, help="GPU and host, as the page names them")
    parser.add_argument("--commit", required=True)
    parser.add_argument("--date", required=True)
    parser.add_argument("--resident", help="rows in GPU memory")
    parser.add_argument("--host", help="one-shot searches from host memory (--host)")
    parser.add_argument("--streamed", nargs="+", help="with --memory-limit")
    parser.add_argument("--multi", nargs="+", help="the same cases on 1, 2, ... devices")
    parser.add_argument("--torch", help="what gpu_torch.py wrote")
    parser.add_argument(
        "--repeat", nargs="+", default=[], metavar="MODE=N", help="the runs' --repeat, for the command lines: host=7"
    )
    arguments = parser.parse_args(argv)
    if not any(getattr(arguments, mode) for mode in MODES):
        parser.error("name at least one file of gpu_search: --resident, --host, --streamed or --multi")
    try:
        result = collect(arguments)
    except BadResults as error:
        sys.exit(str(error))
    Path(arguments.out).write_text(json.dumps(result, indent=1, sort_keys=True) + "\n")
    print(arguments.out)


if __name__ == "__main__":
    main()
