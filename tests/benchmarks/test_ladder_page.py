"""The page on the ladder: what it says is what the results say. The fixture's figures are invented."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.report import ladder, story

ROOT = Path(__file__).resolve().parents[2]
FIXTURE = ROOT / "tests/data/report/ladder.json"


@pytest.fixture
def results(tmp_path):
    """results(edit) is a folder with the fixture, changed, as the ladder of one GPU."""

    def make(edit=lambda value: None, name=ladder.MAIN):
        value = json.loads(FIXTURE.read_text())
        edit(value)
        (tmp_path / name).write_text(json.dumps(value))
        return tmp_path

    return make


def section(page, title):
    return re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", page, re.M | re.S)[1]


def rungs(value, case):
    return {rung["id"]: rung for rung in value["cases"][case]["rungs"]}


def test_every_rung_is_told():
    told = {part[0] for _, parts in story.CHAPTERS for part in parts} - {""}
    known = {rung["id"] for rung in json.loads(FIXTURE.read_text())["cases"][0]["rungs"]}
    assert told | {"engine-several-gpus"} == known
    assert {before for _, parts in story.CHAPTERS for part in parts for before in part[2]} <= known


def test_the_words_hold_no_measured_figure():
    text = story.HEAD + story.SPEED_UP + story.FLOOR + "".join(part[1] for _, parts in story.CHAPTERS for part in parts)
    assert not re.search(r"\d (ms|s|µs|times|%|×)|[Mm]easured:", text)


def test_figures_and_comparisons(results):
    value = json.loads(FIXTURE.read_text())
    page = ladder.render(results())
    text = re.sub(r"\s+", " ", page)
    assert "Invented GPU" in page and "```sh kith ladder --include-copies --json ```" in text and "None" not in page
    one, many = rungs(value, 0), rungs(value, 1)
    low, high = sorted(c["matrix-thrust"]["ms"] / c["matrix-reduction"]["ms"] for c in (one, many))
    assert (
        f"rung 3, beside rung 2, is from {low:.2f} times faster (16; 1; 16.7M; 1) to {high:.2f} times faster (3; 1,024; 65,536; 1)."
        in text
    )
    # Slower is called slower.
    assert many["unrolled"]["ms"] > many["occupancy"]["ms"]
    worse = many["unrolled"]["ms"] / many["occupancy"]["ms"]
    assert f"rung 10, beside rung 8, is from {worse:.2f} times slower (3; 1,024; 65,536; 1) to" in text
    assert "| 4 Distance and reduction fused | 3.82 ms | 202 µs |" in page
    assert re.search(r"\n\| 11 One thread a query, insertion \|[ |]* 174 µs \(wrong\) \|\n", page)
    assert "**1 of them differ.**" in text
    assert "wider than a texture of 65,536" in text


def test_it_says_where_kith_is_not_the_fastest_and_what_was_not_reached(results):
    who = re.sub(r"\s+", " ", section(ladder.render(results()), "Who is fastest"))
    assert "**Kith is not the fastest at 128; 512; 8,192; 16 (1.27 times slower than rung 12).**" in who
    assert "Reached: nowhere." in who
    assert "**Not reached: 3; 1,024; 65,536; 1 (2.10 of 3), 128; 512; 8,192; 16 (0.787 of 3).**" in who

    def fast(value):
        for case in value["cases"]:
            for rung in case["rungs"]:
                if rung["engine"] and rung["ms"]:
                    rung["ms"] /= 10

    who = re.sub(r"\s+", " ", section(ladder.render(results(fast)), "Who is fastest"))
    assert (
        "fastest rung is one of Kith's" in who
        and "The aim is met in all of them." in who
        and "not the fastest" not in who
    )


def test_a_tree_without_a_peer_is_said(results):
    def lone(value):
        for id_, rung in rungs(value, 2).items():
            if rung["engine"] and "tree" in id_:
                rung.update(ms=None, build_ms=None, skipped="nobody asked")
            if id_ == "kd-tree":
                rung["ms"] = 0.001

    who = re.sub(r"\s+", " ", section(ladder.render(results(lone)), "Who is fastest"))
    assert "Kith's trees did not run, at 128; 512; 8,192; 16: nobody asked." in who
    assert "did not run" not in section(ladder.render(results()), "Who is fastest")

    def ours(value):
        for id_, rung in rungs(value, 1).items():
            if not rung["engine"] and "tree" in id_:
                rung.update(ms=None, build_ms=None, skipped="too long")
        rungs(value, 1)["engine-octree"]["ms"] = 0.001

    who = re.sub(r"\s+", " ", section(ladder.render(results(ours)), "Who is fastest"))
    assert "A tree is the fastest, and the ladder's trees did not run, at 3; 1,024; 65,536; 1: too long." in who


def test_then_and_now(results):
    then = section(ladder.render(results()), "Then and now")
    assert re.search(r"\| 16; 1; 16.7M; 1 \| [^|]*serial[^|]* \| 202 ms to 992 ms \| 1.43 s \|", then)
    assert re.search(r"\| 128; 512; 8,192; 16 \| 1 GPU \| 8.90 ms \|  \|  \|", then)


def test_several_gpus_come_from_another_file(results):
    assert "## Several GPUs" not in ladder.render(results())

    def four(value):
        value["machine"]["gpu"]["count"] = 4
        rungs(value, 0)["several-gpus"].update(ms=0.5, fallback=None, devices=4)
        rungs(value, 0)["engine-several-gpus"].update(ms=0.07, skipped=None, checked=True, runs=7)
        for case in (1, 2):
            rungs(value, case)["several-gpus"].update(ms=None, skipped="not here", published_ms=None)

    page = ladder.render(results(four, "ladder-h200-x4.json"))
    rows = [line for line in section(page, "Several GPUs").splitlines() if line.startswith("| 16; 1;")]
    assert [row.split(" | ")[1] for row in rows] == ["4", "4"]
    assert "500 µs | 3.89 times faster |" in rows[0] and "70.0 µs | 2.50 times faster |" in rows[1]


def test_pictures_of_the_page(results, tmp_path):
    pytest.importorskip("matplotlib")
    folder = results()
    images, page = tmp_path / "images", tmp_path / "page.md"
    images.mkdir()
    page.write_text(ladder.render(folder))
    assert len(ladder.stale(folder, page, images)) == 5  # no picture yet
    written = ladder.draw(folder, images)
    named = re.findall(r"\]\(images/([\w.-]+)\)", page.read_text())
    assert sorted(path.name for path in written) == sorted(named)
    assert ladder.stale(folder, page, images) == []
    results(lambda value: rungs(value, 0)["engine"].update(ms=0.1))
    assert {path.name for path in ladder.stale(folder, page, images)} >= {"page.md", "ladder-16-1-16777216-1.svg"}


def test_no_results_no_page(tmp_path):
    assert ladder.render(tmp_path) is None
    assert ladder.stale(tmp_path, tmp_path / "page.md", tmp_path) == []
    (tmp_path / "page.md").write_text("left over")
    assert ladder.stale(tmp_path, tmp_path / "page.md", tmp_path) == [tmp_path / "page.md"]


def test_the_page_in_docs_is_current():
    assert ladder.stale() == [], "run: python -m benchmarks.report"
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.report", "--check"], cwd=ROOT, capture_output=True, text=True
    )
    assert "roofline" not in done.stderr and "ladder" not in done.stderr, done.stderr


def test_the_texts_are_lines_of_the_docs(results):
    page = ladder.render(results())
    assert not [line for line in page.splitlines() if len(line) > 120 and not line.startswith(("|", "!"))]
    assert "\n\n\n" not in page and "{" not in re.sub(r"```.*?```", "", page, flags=re.S)


def test_it_needs_no_compiled_module(results, tmp_path):
    """As the benchmarks' own environment has it: this source tree, and neither kith nor matplotlib."""
    folder = results()
    code = (
        "import sys; sys.modules['kith'] = sys.modules['matplotlib'] = None; from pathlib import Path; "
        f"from benchmarks.report import ladder; print(len(ladder.render(Path({str(folder)!r}))))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0 and int(done.stdout) > 5000, done.stderr
