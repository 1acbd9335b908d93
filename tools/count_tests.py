#!/usr/bin/env python3
"""Adds up JUnit files: one line 'N passed, N failed, N skipped', and why tests were skipped.

usage: count_tests.py FOLDER...

The conformance suite leaves <part>.counts.json files; their sums are printed too.
A GoogleTest program writes its own <name>.xml beside ctest.xml; its cases then count in place of the one
test that ctest sees. A program that died before it wrote the file counts as one failed test.
"""

import json
import sys
import xml.etree.ElementTree as ElementTree
from collections import Counter
from pathlib import Path


def outcome(case):
    """('passed' | 'failed' | 'skipped', reason) of one <testcase>."""
    if case.find("failure") is not None or case.find("error") is not None or case.get("status") == "fail":
        return "failed", ""
    skipped = case.find("skipped")
    if skipped is not None or case.get("status") in ("notrun", "disabled"):
        reason = skipped.get("message", "") if skipped is not None else ""
        return "skipped", " ".join(reason.split()) or "no reason given"
    return "passed", ""


def cases(path):
    return list(ElementTree.parse(path).getroot().iter("testcase"))


def count(folder):
    """Counter of outcomes, list of (test, reason) skipped, list of failed tests."""
    totals, skipped, failed = Counter(), [], []

    def add(label, result, reason):
        totals[result] += 1
        if result == "skipped":
            skipped.append((label, reason))
        elif result == "failed":
            failed.append(label)

    for path in sorted(folder.glob("*.xml")):
        if path.name == "ctest.xml":
            for case in cases(path):
                name = case.get("name", "?")
                result, reason = outcome(case)
                own = folder / f"{name}.xml"
                if not own.exists():
                    add(f"ctest {name}", result, reason)
                elif result == "failed" and all(outcome(c)[0] != "failed" for c in cases(own)):
                    add(f"ctest {name} (the program failed outside its cases)", "failed", "")
        else:
            for case in cases(path):
                label = f"{path.stem} {case.get('classname', '')}.{case.get('name', '')}"
                add(label, *outcome(case))
    return totals, skipped, failed


def print_conformance(folders):
    """How many searches the conformance suite compared, by instruction set, filter, metric and dtype."""
    searches, answers, wrong = {}, 0, 0
    for path in sorted(path for folder in folders for path in Path(folder).glob("*.counts.json")):
        counts = json.loads(path.read_text())
        answers += counts["answers"]
        wrong += counts["wrong"]
        for title, rows in counts["searches"].items():
            searches.setdefault(title, Counter()).update(rows)
    for title, rows in searches.items():
        print(f"conformance searches by {title}: " + ", ".join(f"{what} {n}" for what, n in rows.items()))
    if searches:
        print(f"conformance answers compared bit by bit: {answers}; wrong searches: {wrong}")


def main(folders):
    totals, skipped, failed = Counter(), [], []
    print_conformance(folders)
    for folder in map(Path, folders):
        part = count(folder)
        totals += part[0]
        skipped += part[1]
        failed += part[2]
    for label, reason in skipped:
        print(f"skipped: {label}: {reason}")
    for label in failed:
        print(f"FAILED: {label}")
    print(f"{totals['passed']} passed, {totals['failed']} failed, {totals['skipped']} skipped", flush=True)
    return 1 if totals["failed"] or not totals["passed"] else 0


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1:]))
