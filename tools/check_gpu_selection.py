#!/usr/bin/env python3
"""Checks that tools/gpu_bundle_tests.sh runs every test that was skipped here for want of a GPU.

usage: check_gpu_selection.py RESULTS      RESULTS: the folder of JUnit files that the test programs left

A test that its default filters do not select, or whose file tools/gpu_bundle.sh does not take along, would run nowhere.
"""

import fnmatch
import re
import sys
from pathlib import Path
from xml.etree import ElementTree

SCRIPT = Path(__file__).resolve().parent / "gpu_bundle_tests.sh"
BUNDLE = SCRIPT.with_name("gpu_bundle.sh")
REASONS = ("no usable CUDA device", "needs a GPU")


def selected(name, pattern):
    """Whether gtest's filter takes a test: patterns with * and ?, by colons; those to leave out after a '-'."""
    wanted, _, unwanted = pattern.partition("-")
    takes = [part for part in wanted.split(":") if part] or ["*"]
    leaves = [part for part in unwanted.split(":") if part]
    literal = {"[": "[[]"}
    match = lambda part: fnmatch.fnmatchcase(name, part.translate(str.maketrans(literal)))  # noqa: E731
    return any(map(match, takes)) and not any(map(match, leaves))


def filters(script):
    """The programs that a script runs, and their default filters."""
    found = re.findall(r'bin/(\w+) .*--gtest_filter="\$\{\w+:-([^}]*)\}"', script)
    return dict(found)


def skipped_for_want_of_a_gpu(file):
    for case in ElementTree.parse(file).iter("testcase"):
        reason = case.find("skipped")
        text = "" if reason is None else (reason.get("message") or "") + (reason.text or "")
        if any(known in text for known in REASONS):
            yield f"{case.get('classname')}.{case.get('name')}"


def python_test_files(bundle):
    """The modules of the Python tests that go along."""
    return [
        file.replace("/", ".") for file in re.findall(r"[\w/]+(?=\.py)", re.search(r"gpu_tests=\((.*?)\)", bundle)[1])
    ]


def check(results, script, bundle):
    """Yields tests that nothing would run."""
    modules = python_test_files(bundle)
    patterns = filters(script)
    for file in sorted(Path(results).glob("*.xml")):
        if file.stem == "ctest":
            continue
        if file.stem == "pytest":
            for name in skipped_for_want_of_a_gpu(file):
                # The script runs what has "gpu" in its name or its file's.
                if not any(name.startswith(m + ".") for m in modules) or "gpu" not in name.lower():
                    yield f"pytest {name}"
            continue
        # Of a program that is run once for each element type, the results have the type in their name.
        program = next((p for p in patterns if file.stem == p or file.stem.startswith(p + "_")), None)
        for name in skipped_for_want_of_a_gpu(file):
            if program is None or not selected(name, patterns[program]):
                yield f"{file.stem} {name}"


def main(arguments):
    lost = list(check(arguments[0], SCRIPT.read_text(), BUNDLE.read_text()))
    for name in lost:
        print(f"needs a GPU, and {SCRIPT.name} does not select it: {name}", file=sys.stderr)
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
