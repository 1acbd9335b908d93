"""The page on BANG: what it says is what the results say, and nothing where there are none. The fixture is invented."""

import json
import re
import shutil
from pathlib import Path

import pytest

from benchmarks.report import walk_story, walks

ROOT = Path(__file__).resolve().parents[2]
FIXTURE = ROOT / "tests/data/report/ladder-graph.json"


@pytest.fixture
def results(tmp_path):
    shutil.copy(FIXTURE, tmp_path / "ladder-graph-invented.json")
    return tmp_path


def test_every_rung_of_graphs_is_told():
    told = {part[0] for _, parts in walk_story.CHAPTERS for part in parts} - {""}
    (case,) = json.loads(FIXTURE.read_text())["cases"]
    assert told == {rung["id"] for rung in case["rungs"] if rung["number"] > 40}
    assert {before for _, parts in walk_story.CHAPTERS for part in parts for before in part[2]} <= told


def test_the_words_hold_no_measured_figure():
    text = "".join(part[1] for _, parts in walk_story.CHAPTERS for part in parts) + walk_story.HEAD
    assert not re.search(r"\d (ms|s|µs|times|%|×|queries)|[Mm]easured:", text)


def test_figures_and_comparisons(results):
    page = walks.render(results)
    text = re.sub(r"\s+", " ", page)
    (case,) = json.loads(FIXTURE.read_text())["cases"]
    by_id = {rung["id"]: rung for rung in case["rungs"]}
    ratio = by_id["bang-no-prefetch"]["ms"] / by_id["bang-base"]["ms"]
    assert f"rung 45, beside rung 42, is {ratio:.2f} times slower at the same recall of 0.970" in text
    assert "at a recall of 0.120 beside 0.970" in text
    assert "Invented GPU" in text and "No result of a GPU" not in text and "None" not in text
    for name in re.findall(r"images/([\w-]+)\.svg", page):
        assert name in walks.all_charts(results)
    assert "| BANG Base | one A100, graph and vectors in host memory | 190,000 | 0.90 |" in page


def test_without_results_it_says_so(tmp_path):
    page = walks.render(tmp_path)
    assert "No result of a GPU is in benchmarks/results yet" in page and "**Measured:**" not in page


def test_results_of_a_cpu_are_no_figures_of_a_gpu(tmp_path):
    value = json.loads(FIXTURE.read_text())
    value["machine"]["gpu"] = None
    for rung in value["cases"][0]["rungs"]:
        if rung["device"] != "cpu":
            rung.update(ms=None, recall=None, checked=None, skipped="no GPU here")
    (tmp_path / "ladder-graph-cpu.json").write_text(json.dumps(value))
    page = walks.render(tmp_path)
    assert "No result of a GPU is in benchmarks/results yet" in page
    assert "rung 54, beside rung 41" in page and "rung 55, beside" not in page


def test_pictures_tell_when_they_are_stale(results, tmp_path):
    pytest.importorskip("matplotlib")
    images = tmp_path / "images"
    images.mkdir()
    page = tmp_path / "page.md"
    page.write_text(walks.render(results))
    assert len(walks.stale(results, page, images)) == 2
    assert len(walks.draw(results, images)) == 2 and walks.stale(results, page, images) == []
    page.write_text("x")
    assert walks.stale(results, page, images) == [page]


def test_the_page_of_the_repository_is_up_to_date():
    assert walks.stale() == [], "run: python -m benchmarks.report"
