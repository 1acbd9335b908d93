"""Several results of kith ladder become one, or an error says why not."""

import copy
import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "ladder" / "merge.py"
spec = importlib.util.spec_from_file_location("ladder_merge", SCRIPT)
ladder_merge = importlib.util.module_from_spec(spec)
spec.loader.exec_module(ladder_merge)


def result(*cases, **changes):
    out = {
        "schema": "kith-ladder/1", "kith": "0.1.0", "commit": "abc", "date": "2026-01-02T00:00:00Z", "repeat": 5,
        "include_copies": True, "machine": {"cpu": "x", "load_before": len(cases), "gpu": None},
        "command": ["kith", "ladder", "--case", cases[0], "--repeat", "5", "-o", "x.json"],
        "cases": [{"name": name, "rungs": []} for name in cases],
    }  # fmt: skip
    return {**out, **changes}


def test_cases_are_joined():
    first, second = result("a"), result("b", "c", date="2026-01-01T00:00:00Z")
    before = copy.deepcopy([first, second])
    out = ladder_merge.merge([first, second])
    assert [case["name"] for case in out["cases"]] == ["a", "b", "c"]
    assert out["date"] == "2026-01-01T00:00:00Z" and out["commit"] == "abc"
    assert out["command"] == ["kith", "ladder", "--repeat", "5", "--case", "a", "--case", "b", "--case", "c"]
    assert [first, second] == before


@pytest.mark.parametrize(
    "other, message",
    [
        (result("b", commit="def"), "commit"),
        (result("b", repeat=7), "repeat"),
        (result("b", include_copies=False), "include_copies"),
        (result("b", machine={"cpu": "y", "gpu": None}), "different machines"),
        (result("a"), "case a is in two"),
    ],
)
def test_what_does_not_belong_together_is_refused(other, message):
    with pytest.raises(ValueError, match=message):
        ladder_merge.merge([result("a"), other])


def test_command(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).write_text(json.dumps(result(name)))

    def run(*arguments):
        return subprocess.run([sys.executable, SCRIPT, *arguments], cwd=tmp_path, capture_output=True, text=True)

    assert run("out.json", "a", "b").returncode == 0
    assert len(json.loads((tmp_path / "out.json").read_text())["cases"]) == 2
    assert "usage" in run("out.json").stderr
    bad = run("none.json", "a", "gone")
    assert bad.returncode == 1 and "gone" in bad.stderr and not (tmp_path / "none.json").exists()
