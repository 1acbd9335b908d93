#!/usr/bin/env python3
"""Checks that includes go down only: core < io, cuda < distance, select_k, codes, k_means, point_tree < exact algorithms <
recall < approximate algorithms < graph_files < any_index, knn < cli, python. Never up, never sideways between algorithms, nor between
io and cuda. A public header counts as the room it is named after.

usage: check_tiers.py [ROOT]
"""

import re
import sys
from pathlib import Path

# Rooms of src/ by tier, lowest first. Those of one tier may include each other, but for SEPARATE.
TIERS = [
    {"core"},
    {"io", "cuda"},
    {"distance", "select_k", "codes", "k_means", "point_tree", "evaluate", "generate"},
    {"brute_force", "kd_tree", "octree"},
    {"recall"},
    {"vamana"},
    {"graph_files"},
    {"any_index"},
    {"knn", "sharded", "point_tiles"},
]
TIER = {room: level for level, rooms in enumerate(TIERS) for room in rooms}
SEPARATE = {"io", "cuda", "brute_force", "kd_tree", "octree", "vamana"}
SHELLS = len(TIERS)  # cli, python, benchmarks, examples, tests
# Public headers that no room is named after stand above everything they gather; the rest belong to the lowest.
GATHERING = {"kith": "sharded", "support": "any_index"}
# Inside an algorithm one file names both backends; nothing else does.
BACKENDS = {"cpu", "cuda"}
SUFFIXES = {".cpp", ".hpp", ".inc", ".cu", ".cuh"}
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"')


def check_file(path, src):
    """Yields what is wrong with one file of src/."""
    room, *below = path.relative_to(src).parts
    if room not in TIER:
        yield f"{path}: room '{room}' has no tier; add it to tools/check_tiers.py"
        return
    backend = below[0] if len(below) > 1 and below[0] in BACKENDS else None
    for number, line in enumerate(path.read_text().splitlines(), 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        target = match.group(1)
        other, *rest = target.split("/")
        where = f'{path}:{number}: includes "{target}"'
        if not rest:
            continue  # a file beside this one
        if other == "kith":  # a public header
            name = Path(target).stem
            other, rest = GATHERING.get(name, name), [""]
        if other in ("cli", "python", "tests", "benchmarks"):
            yield f"{where}: the library must not know its shells"
        elif other not in TIER:
            continue  # a third-party header
        elif TIER[other] > TIER[room]:
            yield f"{where}: '{other}' is above '{room}'"
        elif other != room and TIER[other] == TIER[room] and room in SEPARATE:
            yield f"{where}: sideways: '{other}' stands beside '{room}'"
        elif backend and rest[0] in BACKENDS and rest[0] != backend:
            yield f"{where}: the {backend} backend must not know the {rest[0]} backend"
    if path.name.startswith("test_"):
        yield f"{path}: tests belong in tests/"


def check_public_header(path):
    """Public headers are plain C++: they include each other and the standard library only."""
    for number, line in enumerate(path.read_text().splitlines(), 1):
        match = INCLUDE.match(line)
        if match and not match.group(1).startswith("kith/"):
            yield f'{path}:{number}: includes "{match.group(1)}": a public header may include public headers only'
        if re.match(r"^\s*#\s*include\s*<(cuda|tbb|oneapi|fmt|nlohmann|hdf5|xxhash)", line):
            yield f"{path}:{number}: {line.strip()}: a dependency must not show in a public header"


def check(root):
    root = Path(root)
    src, public = root / "src", root / "include" / "kith"
    problems = []
    for path in sorted(p for p in src.rglob("*") if p.suffix in SUFFIXES):
        problems += check_file(path, src)
    for path in sorted(public.glob("*.hpp")):
        problems += check_public_header(path)
    # Programs and bindings use the public interface; what they share with the library is internal to it.
    return problems


def main(arguments):
    root = arguments[0] if arguments else Path(__file__).resolve().parent.parent
    problems = check(root)
    for problem in problems:
        print(problem, file=sys.stderr)
    print("includes go down only" if not problems else f"{len(problems)} includes break the tiers")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
