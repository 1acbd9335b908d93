"""The closing line counts what ran, also when a program died."""

import json
import subprocess
import sys
from pathlib import Path

COUNTER = Path(__file__).resolve().parents[2] / "tools" / "count_tests.py"

CTEST = """<testsuite>
<testcase name="unit_a" status="run"/>
<testcase name="unit_b" status="fail"><failure/></testcase>
<testcase name="crashed" status="fail"><failure/></testcase>
<testcase name="header" status="run"/>
<testcase name="absent" status="notrun"><skipped message="no compiler"/></testcase>
</testsuite>"""
UNIT_A = """<testsuites><testsuite>
<testcase classname="A" name="one" status="run" result="completed"/>
<testcase classname="A" name="two" status="run" result="skipped"><skipped message="no GPU"/></testcase>
</testsuite></testsuites>"""
UNIT_B = """<testsuites><testsuite>
<testcase classname="B" name="one" status="run"><failure message="x"/></testcase>
<testcase classname="B" name="two" status="run"/>
</testsuite></testsuites>"""
PYTEST = """<testsuites><testsuite>
<testcase classname="p" name="one"/>
<testcase classname="p" name="two"><error/></testcase>
<testcase classname="p" name="three"><skipped message="why not"/></testcase>
</testsuite></testsuites>"""


def run(folder):
    result = subprocess.run([sys.executable, COUNTER, folder], capture_output=True, text=True)
    return result.returncode, result.stdout.splitlines()


def test_sums_and_reasons(tmp_path):
    for name, text in [("ctest", CTEST), ("unit_a", UNIT_A), ("unit_b", UNIT_B), ("pytest", PYTEST)]:
        (tmp_path / f"{name}.xml").write_text(text)
    code, lines = run(tmp_path)
    assert code == 1
    assert lines[-1] == "4 passed, 3 failed, 3 skipped"
    assert "FAILED: ctest crashed" in lines
    assert any("no GPU" in line for line in lines)
    assert any("no compiler" in line for line in lines)


def test_a_program_that_failed_after_its_cases_counts(tmp_path):
    (tmp_path / "ctest.xml").write_text(
        '<testsuite><testcase name="unit_a" status="fail"><failure/></testcase></testsuite>'
    )
    (tmp_path / "unit_a.xml").write_text(UNIT_A)
    code, lines = run(tmp_path)
    assert code == 1
    assert lines[-1] == "1 passed, 1 failed, 1 skipped"


def test_all_passed(tmp_path):
    (tmp_path / "unit_a.xml").write_text(UNIT_A)
    assert run(tmp_path) == (
        0,
        ["skipped: unit_a A.two: no GPU", "1 passed, 0 failed, 1 skipped"],
    )


def test_no_test_at_all_is_a_failure(tmp_path):
    code, lines = run(tmp_path)
    assert code == 1
    assert lines == ["0 passed, 0 failed, 0 skipped"]


def test_counts_of_the_conformance_parts_add_up(tmp_path):
    (tmp_path / "unit_a.xml").write_text(UNIT_A)
    for part in ("f32", "u8"):
        (tmp_path / f"{part}.counts.json").write_text(
            json.dumps({"searches": {"dtype": {part: 3}, "filter": {"int8": 2}}, "answers": 5, "wrong": 0})
        )
    _, lines = run(tmp_path)
    assert "conformance searches by dtype: f32 3, u8 3" in lines
    assert "conformance searches by filter: int8 4" in lines
    assert "conformance answers compared bit by bit: 10; wrong searches: 0" in lines
