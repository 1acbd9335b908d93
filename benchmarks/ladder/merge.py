#!/usr/bin/env python3
"""One result of `kith ladder` from several: the same machine and commit, other cases. Where a machine is lent by the
minute, a long run is several short ones.

usage: merge.py OUT RESULT...
"""

import json
import sys
from pathlib import Path

SAME = ("schema", "kith", "commit", "repeat", "include_copies")


def machine_of(result):
    """What must not differ; the load before a run may."""
    return {key: value for key, value in result["machine"].items() if key != "load_before"}


def merge(results):
    """The first result with the cases of all, in the order given. @raises ValueError"""
    out = dict(results[0])
    out["cases"] = []
    for result in results:
        for key in SAME:
            if result[key] != out[key]:
                raise ValueError(f"{key} is {out[key]!r} in one result and {result[key]!r} in another")
        if machine_of(result) != machine_of(out):
            raise ValueError("the results are of different machines")
        for case in result["cases"]:
            if any(case["name"] == other["name"] for other in out["cases"]):
                raise ValueError(f"case {case['name']} is in two results")
            out["cases"].append(case)
    # One command that would have measured it: the first one's, with the cases of all. The date is the first run's.
    command, words = [], iter(results[0]["command"])
    for word in words:
        if word in ("--case", "-o", "--output"):
            next(words)
        else:
            command.append(word)
    for case in out["cases"]:
        command += ["--case", case["name"]]
    out["command"] = command
    out["date"] = min(result["date"] for result in results)
    return out


def main(arguments):
    if len(arguments) < 2:
        print(__doc__.strip().splitlines()[-1], file=sys.stderr)
        return 1
    try:
        merged = merge([json.loads(Path(path).read_text()) for path in arguments[1:]])
    except (OSError, ValueError, KeyError) as error:
        print(f"merge.py: {error}", file=sys.stderr)
        return 1
    Path(arguments[0]).write_text(json.dumps(merged, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
