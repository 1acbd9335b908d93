"""kith.report: one page from results. The fixtures in tests/data/report say themselves that their figures are invented."""

from __future__ import annotations

import copy
import html
import html.parser
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

import pytest

pytest.importorskip("matplotlib")

import kith.report
from kith.report import InputError, UsageError, _draw, _text, make_report

PROJECT = pathlib.Path(__file__).parents[2]
DATA = PROJECT / "tests/data/report"
ALL = [DATA / name for name in ("ladder.json", "bench.json", "gpu-search.json", "vamana.json")]
VOID = {"meta", "link", "br", "img", "input", "hr"}


class Page(html.parser.HTMLParser):
    """The elements of a page, the text of its tables, and whether tags are closed in order."""

    def __init__(self, text):
        super().__init__()
        self.text, self.elements, self.tables, self.ids, self.open = text, [], {}, [], []
        self.row = self.cell = self.table = None
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.elements.append((tag, values))
        self.ids += [values["id"]] if "id" in values else []
        if tag not in VOID:
            self.open.append(tag)
        if tag == "tr":
            self.row = []
        if tag in ("td", "th", "caption"):
            self.cell = ""

    def handle_startendtag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        self.ids += [value for name, value in attributes if name == "id"]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag
        if tag == "caption":
            self.table = self.tables.setdefault(self.cell, [])
        if tag in ("td", "th"):
            self.row.append(self.cell)
        if tag == "tr":
            self.table.append(self.row)
        if tag in ("td", "th", "caption"):
            self.cell = None

    def handle_data(self, data):
        if self.cell is not None:
            self.cell += data

    def named(self, caption):
        """The rows of a table as dicts of its head."""
        head, *rows = self.tables[caption]
        return [dict(zip(head, row, strict=True)) for row in rows]

    @property
    def words(self):
        return html.unescape(re.sub(r"<[^>]+>", " ", re.sub(r"<style>.*?</style>", "", self.text, flags=re.S)))


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    made = make_report(ALL, folder / "report.html", images=folder / "images")
    return made, Page((folder / "report.html").read_text()), folder


def page_of(tmp_path, *inputs, **options):
    make_report(inputs, tmp_path / "page.html", **options)
    return Page((tmp_path / "page.html").read_text())


@pytest.fixture
def changed(tmp_path):
    """changed("ladder", lambda value: ...) writes the fixture with a change, and names the file."""

    def change(name, edit):
        value = copy.deepcopy(json.loads((DATA / f"{name}.json").read_text()))
        edit(value)
        path = tmp_path / f"{name}.json"
        path.write_text(json.dumps(value))
        return path

    return change


def test_every_chart_is_there(report):
    made, page, _ = report
    assert made.charts == (
        "ladder-16-1-16777216-1", "ladder-3-1024-65536-1", "ladder-128-512-8192-16", "speed-up-ladder-json",
        "roofline-ladder-json", "recall-invented-20000-k-10-threads-1", "recall-invented-20000-k-10-threads-2", "queries-per-second-cpu", "queries-per-second-gpu", "scaling-threads", "scaling-gpus", "surplus",
    )  # fmt: skip
    assert [part for part, _ in made.left_out] == ["Two layers", "Walks through a graph"]
    drawings = [values for tag, values in page.elements if tag == "svg"]
    assert len(drawings) == 2 * len(made.charts)
    titles = [values["aria-labelledby"].split() for values in drawings]
    assert all(values["role"] == "img" for values in drawings)
    for name in made.charts:
        for size in ("wide", "narrow"):
            assert [f"{name}-{size}-title", f"{name}-{size}-alt"] in titles
    assert {id_ for pair in titles for id_ in pair} <= set(page.ids)
    assert len(page.ids) == len(set(page.ids))
    headings = [tag for tag, _ in page.elements if re.fullmatch("h[1-6]", tag)]
    assert headings.count("h1") == 1 and set(headings) == {"h1", "h2", "h3"}


def test_nothing_is_loaded_and_nothing_runs(report):
    _, page, _ = report
    assert not {"script", "img", "iframe", "object", "embed", "image", "form"} & {tag for tag, _ in page.elements}
    for tag, values in page.elements:
        assert not [name for name in values if name.startswith("on") or name in ("src", "xlink:href")]
        if "href" in values:
            assert values["href"].startswith(("#", "data:,")), (tag, values)
            assert values["href"] == "data:," or values["href"][1:] in page.ids
    assert "http:" not in page.text and "https:" not in page.text and "@import" not in page.text
    assert not re.search(r"url\((?!#)", page.text)
    assert "default-src 'none'" in page.text


def test_the_numbers_are_the_results(report):
    _, page, _ = report
    ladder = json.loads((DATA / "ladder.json").read_text())
    for case, title in zip(ladder["cases"], list(page.tables)[1:], strict=False):
        rows = {row["rung"].split(".")[0]: row for row in page.named(title)}
        measured = [rung for rung in case["rungs"] if rung["ms"]]
        assert [rung["title"] + (" on the CPU" if rung["device"] == "cpu" else "") for rung in measured] == [
            row["rung"].split(". ", 1)[1] for row in rows.values()
        ]
        for rung in measured:
            row = rows[str(rung["number"])]
            assert row["time"] == _text.duration(rung["ms"] / 1e3)
            assert row["with copies"] == _text.duration(rung["ms_with_copies"] / 1e3)
            assert row["faster than rung 1"] == _text.times(measured[0]["ms"] / rung["ms"])
            if rung["device"] == "gpu":
                assert row["floor / time"] == _text.percent(case["floor_ms"] / rung["ms"])
            if rung["published_ms"]:
                low, high = (_text.duration(ms / 1e3) for ms in (rung["published_ms"][0], rung["published_ms"][-1]))
                assert row["published, V100"].startswith(low) and high in row["published, V100"]
    bench = json.loads((DATA / "bench.json").read_text())
    found = page.named("Queries a second on the CPU")
    assert [row["queries/s"] for row in found] == [_text.figure(run["queries_per_second"]) for run in bench["runs"]]
    assert [row["other 1.2"] for row in found][-3:] == [
        _text.figure(r["peers"][0]["queries_per_second"]) for r in bench["runs"][-3:]
    ]
    assert {row["Kith is"] for row in found[-3:]} == {"8.00 times faster"}
    threads = [
        row
        for row in page.named("Scaling over threads")
        if ", k 10" in row["search"] and ", k 100" not in row["search"]
    ]
    assert [(row["threads"], row["times faster"], row["of ideal"]) for row in threads] == [
        ("1", "1.00 ×", "100 %"), ("2", "1.90 ×", "95 %"), ("4", "3.50 ×", "88 %"),
    ]  # fmt: skip
    gpus = page.named("Scaling over GPUs")
    assert [(row["GPUs"], row["time"], row["times faster"]) for row in gpus] == [
        ("1", "4.00 ms", "1.00 ×"),
        ("2", "2.20 ms", "1.82 ×"),
    ]
    kept = page.named("What the certified filter keeps")
    assert [(row["k"], row["kept a query"], row["kept / k"]) for row in kept[:3]] == [
        ("1", "21.5", "21.5"),
        ("10", "61.2", "6.12"),
        ("100", "251", "2.51"),
    ]
    assert kept[3]["kept a query"] == "123" and kept[3]["of all rows"] == "0.00615 %"


def test_it_says_where_kith_is_not_the_fastest(report):
    _, page, _ = report
    glance = page.named("At a glance: Invented GPU")
    assert [row["Kith is"] for row in glance] == ["3.93 times faster", "2.10 times faster", "1.27 times slower"]
    assert glance[2]["fastest other rung"] == "12. Distances by tiles in shared memory"
    assert "Kith is not the fastest in 1 case: d 128, q 512, n 8,192, k 16." in re.sub(r"\s+", " ", page.words)


def test_a_wrong_rung_is_named_and_never_the_fastest(tmp_path, changed):
    def edit(value):
        for rung in value["cases"][0]["rungs"]:
            if rung["id"] == "engine":
                rung.update(wrong=7, checked=False)

    page = page_of(tmp_path, changed("ladder", edit))
    assert (
        "Wrong answers" in page.words
        and "rung 23 (Kith: brute force), 11 (One thread a query, insertion)" in page.words
    )
    assert page.named("At a glance: Invented GPU")[0]["Kith's fastest"] == "Kith: k-d tree"
    assert {row["rung"]: row["answer"] for row in page.named("1 query, 16,777,216 points, 16 dimensions, k = 1")}[
        "23. Kith: brute force"
    ] == "7 wrong"


def test_the_roof_is_the_floor_of_every_case():
    from kith.report._inputs import read_results

    (ladder,) = read_results([DATA / "ladder.json"]).ladders
    for case in ladder.cases:
        roof = min(ladder.instructions, ladder.bandwidth * case.operations / case.bytes)
        assert case.operations / roof == pytest.approx(case.floor, rel=1e-3)


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        (
            "bench",
            [
                "The ladder",
                "What each rung is worth",
                "The roofline",
                "Two layers",
                "Walks through a graph",
                "Recall against queries a second",
            ],
        ),
        (
            "vamana",
            [
                "The ladder",
                "What each rung is worth",
                "The roofline",
                "Two layers",
                "Walks through a graph",
                "Queries a second",
                "Scaling",
                "What the certified filter keeps",
            ],
        ),
        (
            "ladder",
            [
                "Two layers",
                "Walks through a graph",
                "Recall against queries a second",
                "Queries a second",
                "Scaling",
                "What the certified filter keeps",
            ],
        ),
    ],
)
def test_what_the_inputs_lack_is_left_out_and_said(tmp_path, name, parts):
    made = make_report([DATA / f"{name}.json"], tmp_path / "page.html")
    assert [part for part, _ in made.left_out] == parts
    page = Page((tmp_path / "page.html").read_text())
    headings = re.findall(r"<h2 [^>]*>([^<]+)</h2>", page.text)
    assert "Not in this report" in headings and not set(parts) & set(headings)
    for part in parts:
        assert re.search(rf"<li>{part}: no input is a result of kith", page.text)


def test_walks_through_a_graph(tmp_path, changed):
    """Bars for every rung that ran, and the same numbers in the table; a rung that fails says so."""
    value = json.loads((DATA / "ladder-graph.json").read_text())
    (case,) = value["cases"]
    made = make_report([DATA / "ladder-graph.json"], tmp_path / "page.html")
    assert "Walks through a graph" not in [part for part, _ in made.left_out]
    page = Page((tmp_path / "page.html").read_text())
    assert "At a glance" not in page.text
    table = next(table for title, table in page.tables.items() if title.startswith("Queries a second: "))
    ran = [rung for rung in case["rungs"] if rung["ms"] is not None]
    assert len(ran) > 12
    text = json.dumps(table, ensure_ascii=False)
    for rung in ran:
        assert f"{rung['recall']:.4f}" in text and f"{rung['number']}. {rung['title']}" in text
    by_id = {rung["id"]: rung for rung in ran}
    ratio = by_id["bang-in-memory"]["ms"] / by_id["bang-no-bloom"]["ms"]
    assert f"{ratio:.2f}" in text and "of rung 43" in text
    assert "(fails)" not in page.text

    def fail(value):
        rung = next(rung for rung in value["cases"][0]["rungs"] if rung["id"] == "bang-exact")
        rung.update(recall=0.3, checked=False)

    page = page_of(tmp_path, changed("ladder-graph", fail))
    assert "(fails)" in page.text


def test_two_layers(tmp_path, changed):
    """A line an inside over the size of the leaves, and the same numbers in the table; a wrong rung says so."""
    value = json.loads((DATA / "ladder-tiles.json").read_text())
    made = make_report([DATA / "ladder-tiles.json"], tmp_path / "page.html", images=tmp_path / "images")
    assert "Two layers" not in [part for part, _ in made.left_out]
    page = Page((tmp_path / "page.html").read_text())
    for case in value["cases"]:
        rungs = {rung["id"]: rung for rung in case["rungs"] if rung["ms"] is not None}
        rows = page.named(next(t for t in page.tables if t.startswith("Two layers") and f"{case['points']:,}" in t))
        for inside, words in [("brute", "brute force in the leaves"), ("tree", "a k-d tree in the leaves")]:
            for size in ["4k", "64k", "1M"]:
                (row,) = [row for row in rows if row["search"] == words and row["points in a leaf"] == size]
                rung = rungs[f"leaf-{inside}-{size.lower()}"]
                assert row["time"] == _text.duration(rung["ms"] / 1000)
                assert row["building"] == _text.duration(rung["build_ms"] / 1000)
        (row,) = [row for row in rows if row["search"] == "Kith: point tiles on disk"]
        assert row["time"] == _text.duration(rungs["engine-tiles"]["ms"] / 1000)
    assert list((tmp_path / "images").glob("leaves-*.svg"))

    def fail(value):
        rung = next(rung for rung in value["cases"][0]["rungs"] if rung["id"] == "leaf-tree-64k")
        rung.update(checked=False, wrong=3)

    assert "(fails)" in page_of(tmp_path, changed("ladder-tiles", fail)).text

    def one_size(value):
        for case in value["cases"]:
            case["rungs"] = [
                rung for rung in case["rungs"] if not re.fullmatch(r"leaf-.*-(4k|16k|256k|1m|4m)", rung["id"])
            ]

    left = make_report([changed("ladder-tiles", one_size)], tmp_path / "page.html").left_out
    assert "Two layers" in [part for part, _ in left]


def test_without_a_gpu(tmp_path, changed):
    def edit(value):
        value["machine"]["gpu"] = None
        for case in value["cases"]:
            case["floor_ms"] = case["floor_by"] = None
            for rung in case["rungs"]:
                if rung["device"] != "cpu":
                    rung.update(ms=None, ms_with_copies=None, build_ms=None, checked=None, skipped="no GPU here")

    path = changed("ladder", edit)
    page = page_of(tmp_path, path)
    assert "without a GPU" in page.words and "no GPU here" in page.words
    assert "TEST DATA: all figures invented" in page.words
    assert not re.search("floor:", page.words)


def test_two_results_of_one_name(tmp_path):
    """Of two machines, say: every chart has a name of its own, and says which file it is of."""
    (tmp_path / "there").mkdir()
    shutil.copy(DATA / "ladder.json", tmp_path / "there/ladder.json")
    made = make_report([DATA / "ladder.json", tmp_path / "there/ladder.json"], tmp_path / "page.html")
    assert len(set(made.charts)) == len(made.charts) == 10
    page = Page((tmp_path / "page.html").read_text())
    assert len(page.ids) == len(set(page.ids))
    assert len(re.findall(r"<h3>ladder.json: Invented GPU</h3>", page.text)) == 4  # at a glance, and over the ladders


def test_one_thread_count_does_not_scale(tmp_path, changed):
    path = changed("bench", lambda value: value.update(runs=value["runs"][:1]))
    made = make_report([path], tmp_path / "page.html")
    assert [name for name, _ in made.left_out][-1] == "Scaling" and "--threads 1,2,4" in made.left_out[-1][1]


NAN = float("nan")
BAD = [
    ("vamana", lambda v: v.update(libraries=[]), r"vamana.json': libraries is empty: nothing was measured"),
    (
        "vamana",
        lambda v: v["libraries"][0]["runs"][0]["points"][1].update(recall=1.5),
        r"libraries\[0\].runs\[0\].points\[1\].recall is 1.5; a recall lies between 0 and 1",
    ),
    (
        "vamana",
        lambda v: v["libraries"][1]["runs"][0]["queries_per_second_at"].update({"0.90": 0}),
        r"libraries\[1\].runs\[0\].queries_per_second_at.0.90 is 0; it must be above 0",
    ),
    ("vamana", lambda v: v.update(format_version=2), r"format_version is 2; this report reads version 1"),
    ("vamana", lambda v: v.pop("failed"), r"has no field 'failed'"),
    ("ladder", lambda v: v.update(cases=[]), r"ladder.json': cases is empty: nothing was measured"),
    ("ladder", lambda v: v.pop("cases"), r"ladder.json' has no field 'cases'"),
    ("ladder", lambda v: v["cases"][1].update(rungs=[]), r"cases\[1\].rungs is empty"),
    (
        "ladder",
        lambda v: v["cases"][0]["rungs"][1].update(ms=NAN),
        r"cases\[0\].rungs\[1\].ms is nan, not a finite number",
    ),
    (
        "ladder",
        lambda v: v["cases"][0]["rungs"][1].update(ms=-1),
        r"cases\[0\].rungs\[1\].ms is -1; it must be above 0",
    ),
    ("ladder", lambda v: v["cases"][0]["rungs"][1].update(ms="fast"), r'rungs\[1\].ms is "fast", not a number'),
    ("ladder", lambda v: v["cases"][0]["rungs"][1].update(ms=True), r"rungs\[1\].ms is true, not a number"),
    (
        "ladder",
        lambda v: v["cases"][0]["rungs"][1].update(ms=None),
        r"rungs\[1\] has neither a time in 'ms' nor a reason",
    ),
    ("ladder-graph", lambda v: v["cases"][0]["rungs"][40].update(recall=1.5), r"rungs\[40\].recall is not a share"),
    ("ladder-graph", lambda v: v["cases"][0]["rungs"][40].pop("recall"), r"rungs\[40\] has a time and no 'recall'"),
    ("ladder", lambda v: v["cases"][0]["rungs"][1].pop("ms"), r"rungs\[1\] has no field 'ms'"),
    ("ladder", lambda v: v["cases"][0]["rungs"][1].update(number=1), r"rungs\[1\].number is 1, which an earlier rung"),
    ("ladder", lambda v: v["cases"][0]["rungs"][1].update(device="tpu"), r"device is 'tpu', not one of cpu, gpu, gpus"),
    (
        "ladder",
        lambda v: v["cases"][0]["rungs"][0].update(published_ms=[3, 2]),
        r"published_ms must be one time, or the least",
    ),
    ("ladder", lambda v: v["cases"][0]["rungs"][0].update(id="other"), r"call rung 1 both 'other' and 'serial'"),
    ("ladder", lambda v: v["cases"][0].update(queries=0), r"cases\[0\].queries is 0; it must be 1 or more"),
    ("ladder", lambda v: v["cases"][0].update(k=1.5), r"cases\[0\].k is 1.5, not a whole number"),
    ("ladder", lambda v: v["machine"].update(gpu=[1]), r"machine.gpu is a list, not an object"),
    ("ladder", lambda v: v["machine"]["gpu"].update(bandwidth_gbs=1e400), r"bandwidth_gbs is inf, not a finite number"),
    (
        "ladder",
        lambda v: v.update(schema="kith-ladder/2"),
        r"schema is 'kith-ladder/2'; this report reads kith-ladder/1",
    ),
    ("ladder", lambda v: v.update(schema="other/1"), r"schema is 'other', not one of kith-ladder"),
    ("ladder", lambda v: v.update(schema=7), r"schema is 7, not a text"),
    ("ladder", lambda v: v.pop("schema"), r"has no field 'format' or 'schema'"),
    ("bench", lambda v: v.update(format_version=2), r"bench.json': format_version is 2; this report reads version 1"),
    ("bench", lambda v: v.pop("format_version"), r"has no field 'format_version'"),
    ("bench", lambda v: v.update(runs=[]), r"runs is empty"),
    ("bench", lambda v: v.update(runs={}), r"runs is an object, not a list"),
    ("bench", lambda v: v["runs"][2].pop("statistics"), r"runs\[2\] has no field 'statistics'"),
    ("bench", lambda v: v["runs"][2].update(queries_per_second=NAN), r"runs\[2\].queries_per_second is nan"),
    (
        "bench",
        lambda v: v["runs"][8]["peers"][0].update(ratio=0),
        r"runs\[8\].peers\[0\].ratio is 0; it must be above 0",
    ),
    ("bench", lambda v: v.update(data=None), r"data is null, not an object"),
    ("gpu-search", lambda v: v.update(sections=[]), r"sections is empty"),
    ("gpu-search", lambda v: v["sections"][1].update(mode="odd"), r"sections\[1\].mode is 'odd', not one of resident"),
    (
        "gpu-search",
        lambda v: v["sections"][0]["cases"][1].update(median_ms=0),
        r"sections\[0\].cases\[1\].median_ms is 0",
    ),
]


@pytest.mark.parametrize(("name", "edit", "message"), BAD, ids=[message[:60] for _, _, message in BAD])
def test_bad_fields_are_named(tmp_path, changed, name, edit, message):
    path, out = changed(name, edit), tmp_path / "page.html"
    out.write_text("the page before")
    before = sorted(os.listdir(tmp_path))
    with pytest.raises(InputError, match=message) as caught:
        make_report(
            [DATA / "bench.json" if name != "bench" else DATA / "ladder.json", path], out, images=tmp_path / "images"
        )
    assert f"{path}" in str(caught.value)
    assert out.read_text() == "the page before" and sorted(os.listdir(tmp_path)) == before


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b" \n", "is empty"),
        (b"{", "is not JSON: line 1, column 2"),
        (b"GIF89a\xff\xfe", "is not JSON: byte 6 is not UTF-8"),
        (b"[]", "holds list, not an object"),
        (b"7", "holds int, not an object"),
        (b"{}", "has no field 'format' or 'schema'"),
        (b'{"format": "kith-index"}', "format is 'kith-index', not one of"),
        (b"[" * 200000, "not a result of kith|is not JSON"),
        (b'{"format": ' + b"9" * 5000 + b"}", "is not a result of kith|not a text"),
        (None, "cannot read '.*x.json': No such file"),
        ("folder", "is a folder"),
    ],
)
def test_bad_files_are_named(tmp_path, content, message):
    path = tmp_path / "x.json"
    if content == "folder":
        path.mkdir()
    elif content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError, match=message) as caught:
        make_report([path], tmp_path / "page.html")
    assert "x.json" in str(caught.value) and not (tmp_path / "page.html").exists()


def test_bad_calls(tmp_path):
    out = tmp_path / "page.html"
    with pytest.raises(UsageError, match="at least one"):
        make_report([], out)
    with pytest.raises(UsageError, match="is named twice"):
        make_report([ALL[0], ALL[0]], out)
    with pytest.raises(UsageError, match="are one file"):
        make_report([ALL[0], DATA / ".." / "report" / "ladder.json"], out)
    copied = tmp_path / "ladder.json"
    shutil.copy(ALL[0], copied)
    with pytest.raises(UsageError, match="is an input and the output"):
        make_report([copied], copied)
    with pytest.raises(InputError, match="it is a folder"):
        make_report(ALL, tmp_path)
    with pytest.raises(InputError, match="there is no folder"):
        make_report(ALL, tmp_path / "gone" / "page.html")
    with pytest.raises(InputError, match="it is a file, not a folder"):
        make_report(ALL, out, images=copied)
    assert os.listdir(tmp_path) == ["ladder.json"]


def test_a_full_disk_leaves_nothing(tmp_path, monkeypatch):
    out = tmp_path / "page.html"
    out.write_text("the page before")

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InputError, match="cannot write '.*': No space left on device"):
        make_report([DATA / "bench.json"], out)
    assert out.read_text() == "the page before" and os.listdir(tmp_path) == ["page.html"]


EVIL = '</style></svg><script>alert("1")</script><img src=x onerror=alert(2)> $\\alpha$ & \x00\x1b\u202e \ud800'


def test_strings_stay_strings(tmp_path, changed):
    def ladder(value):
        value["machine"]["cpu"] = value["machine"]["gpu"]["name"] = value["kith"] = value["date"] = EVIL
        value["command"] = ["kith", EVIL]
        value["machine"][EVIL] = EVIL
        case = value["cases"][0]
        case["name"] = case["data"] = case["floor_by"] = EVIL
        case["published"][0]["what"] = case["published"][0]["source"] = EVIL
        for each in value["cases"]:
            for rung in each["rungs"]:
                rung["title"] = f"{rung['number']}{EVIL}"
                for name in ("skipped", "fallback", "published_what"):
                    rung[name] = EVIL if rung[name] else rung[name]

    def bench(value):
        value["data"]["base"] = EVIL
        for run in value["runs"]:
            run["metric"] = EVIL
            for peer in run["peers"]:
                peer["name"] = EVIL

    inputs = [changed("ladder", ladder), changed("bench", bench)]
    page = page_of(tmp_path, *inputs, images=tmp_path / "images", title=EVIL)
    test_nothing_is_loaded_and_nothing_runs((None, page, None))
    assert "<script" not in page.text and "onerror=alert(2)&gt;" in page.text
    assert "\\alpha" in page.text  # no formula was made of it
    assert not re.search("[\x00-\x08\x0b-\x1f\u202e]", page.text)
    for path in (tmp_path / "images").glob("*.svg"):
        ElementTree.parse(path)
        assert "<script" not in path.read_text()


def run(arguments, **options):
    return subprocess.run([sys.executable, *map(str, arguments)], capture_output=True, text=True, **options)


def test_the_same_inputs_make_the_same_bytes(tmp_path):
    """In processes with other hash seeds, by the package and by its folder alone."""
    package = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    lone = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    for seed, program, environment in (
        ("1", ["-m", "kith.report"], package),
        ("2", [PROJECT / "python/kith/report"], lone),
    ):
        out = tmp_path / seed
        out.mkdir()
        done = run(
            ["-B", *program, *ALL[:2], "-o", out / "page.html", "--images", out / "images"], cwd=tmp_path,
            env={**environment, "PYTHONHASHSEED": seed},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines()[0] == f"wrote {out / 'page.html'} and 16 pictures"
    for first in sorted((tmp_path / "1").rglob("*.*")):
        assert first.read_bytes() == (tmp_path / "2" / first.relative_to(tmp_path / "1")).read_bytes(), first.name


def test_pictures_stand_alone(report):
    made, _, folder = report
    files = sorted(path.name for path in (folder / "images").iterdir())
    assert files == sorted(f"{name}.{kind}" for name in made.charts for kind in ("svg", "png"))
    assert sorted(made.images) == sorted(str(folder / "images" / name) for name in files)
    for name in made.charts:
        text = (folder / "images" / f"{name}.svg").read_text()
        root = ElementTree.fromstring(text)
        assert (
            root.find("{http://www.w3.org/2000/svg}title").text and root.find("{http://www.w3.org/2000/svg}desc").text
        )
        assert "prefers-color-scheme: dark" in text and "font-family: system-ui" in text
        assert not set(re.findall(r"#fe[0-9a-f]{2}d7", text)), "a stand-in colour was left"
        assert set(re.findall(r"var\(--kith-(\w+)\)", text)) <= set(_draw.COLOURS)
        assert (folder / "images" / f"{name}.png").read_bytes().startswith(b"\x89PNG")


def test_fonts_of_older_drawings_keep_their_size():
    """matplotlib before 3.8 writes the whole font at once, and its family is not the page's."""
    for old, new in (
        ("font: 11.5px 'DejaVu Sans', sans-serif; text-anchor: middle", "font-size: 11.5px; text-anchor: middle"),
        ("font: bold 12px 'DejaVu Sans'", "font-size: 12px; font-weight: bold"),
        (
            "font-size: 12px; font-family: 'DejaVu Sans', sans-serif; text-anchor: end",
            "font-size: 12px; text-anchor: end",
        ),
    ):
        assert _draw._plain_fonts(old) == new


def luminance(colour):
    values = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in values]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_colours_can_be_read(scheme):
    """WCAG 2: text 4.5:1, marks 3:1."""
    surface = luminance(_draw.COLOURS["surface"][scheme])
    for role, pair in _draw.COLOURS.items():
        if role in ("surface", "grid"):
            continue
        light, dark = sorted((surface, luminance(pair[scheme])), reverse=True)
        assert (light + 0.05) / (dark + 0.05) >= (4.5 if role in ("ink", "muted", "engine", "floor") else 3), role


def test_figures_and_durations():
    assert [_text.figure(v) for v in (0, 0.000123, 0.0123, 0.9996, 1, 12.34, 99.96, 123.4, 999.6, 1234.5)] == [
        "0", "0.000123", "0.0123", "1.00", "1.00", "12.3", "100", "123", "1,000", "1,234",
    ]  # fmt: skip
    assert [_text.duration(v) for v in (2e-9, 0.9996e-6, 1.5e-6, 0.02, 0.99951, 61)] == [
        "2.00 ns",
        "1.00 µs",
        "1.50 µs",
        "20.0 ms",
        "1.00 s",
        "61.0 s",
    ]
    assert [_text.short(v) for v in (1, 999.9, 16777216, 4.917e12)] == ["1.00", "1.00k", "16.8M", "4.92T"]
    assert _text.percent(0.004) == "0.4 %" and _text.percent(1.25) == "125 %"


def test_without_matplotlib():
    code = (
        "import sys; sys.modules['matplotlib'] = None; from kith.report._command import main; "
        f"sys.exit(main([{str(ALL[0])!r}, '-o', 'x.html']))"
    )
    done = run(["-c", code], env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    assert (
        done.returncode == 2 and "no matplotlib" in done.stderr and "pip install" in done.stderr and done.stdout == ""
    )


def test_the_module_is_a_command(tmp_path):
    call = ["-m", "kith.report"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = run([*call, "--help"], env=environment)
    assert done.returncode == 0 and all(word in done.stdout for word in ("--output", "--images", "--title", "--json"))
    for arguments, code, words in (
        ([], 1, "RESULT"), (["x.json"], 1, "--output"), (["x.json", "-o", "y.html", "--odd"], 1, "--odd"),
        (["x.json", "-o", "y.html"], 2, "cannot read 'x.json'"),
    ):  # fmt: skip
        done = run([*call, *arguments], env=environment, cwd=tmp_path)
        assert done.returncode == code and words in done.stderr and done.stdout == "", arguments
        assert len(done.stderr.splitlines()) == 1
    done = run([*call, "x.json", "-o", "y.html", "--json"], env=environment, cwd=tmp_path)
    assert done.returncode == 2
    assert json.loads(done.stdout)["error"] == {
        "kind": "io",
        "message": "cannot read 'x.json': No such file or directory",
        "exit_code": 2,
    }
    done = run([*call, DATA / "bench.json", "-o", "y.html", "--json", "--title", "Mine"], env=environment, cwd=tmp_path)
    answer = json.loads(done.stdout)
    assert answer["output"] == "y.html" and "surplus" in answer["charts"] and answer["images"] == []
    assert [part["section"] for part in answer["left_out"]] == [
        "The ladder", "What each rung is worth", "The roofline", "Two layers", "Walks through a graph", "Recall against queries a second",
    ]  # fmt: skip
    assert "<h1>Mine</h1>" in (tmp_path / "y.html").read_text()


def test_graphs_beside_others(report, tmp_path):
    _, page, _ = report
    (one, other, third) = page.named("invented, k 10, 1 thread")
    assert one["library"] == "Kith 0.1.0" and one["queries/s at 0.95"] == "17,500" and one["Kith is at 0.95"] == ""
    assert (one["build"], one["memory"]) == ("12.5 s", "20.0 MB")
    assert other["library"] == "Other & <Graph> 9.9" and other["Kith is at 0.99"] == "2.00 times faster"
    assert third["queries/s at 0.99"] == "-" and third["Kith is at 0.99"] == ""
    assert third["Kith is at 0.90"] == "2.00 times slower"
    (two, *_) = page.named("invented, k 10, 2 threads")
    assert two["queries/s at 0.95"] == "35,000"
    words = re.sub(r"\s+", " ", page.words)
    assert "Not measured: Absent: SIGILL: no word." in words
    assert "Asked for a recall of 0.95, Kith takes a list of 32, states at least 0.953" in words
    assert "finds 0.9601 at 16,000 queries a second" in words and "max degree 32, build list size 128" in words
    assert ["graph hash", "00000000invented"] in page.tables["Machine of vamana.json"]
    assert "exactly, or most of them by a graph." in words
    assert "by a graph" not in page_of(tmp_path, DATA / "bench.json").words


def test_a_tree_without_a_peer_is_said(tmp_path, changed):
    def lone(value):
        for rung in value["cases"][2]["rungs"]:
            if rung["engine"] and "tree" in rung["id"]:
                rung.update(ms=None, ms_with_copies=None, build_ms=None, skipped="nobody asked")
            if rung["id"] == "kd-tree":
                rung["ms"] = 0.001

    words = re.sub(r"\s+", " ", page_of(tmp_path, changed("ladder", lone)).words)
    assert "A tree is the fastest, and Kith's trees did not run, at d 128, q 512, n 8,192, k 16: nobody asked." in words


def test_what_it_makes_is_documented():
    for name in kith.report.__all__:
        assert getattr(kith.report, name).__doc__, name


BROWSER = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None
)

# Frames as wide as windows: a browser without a screen has a least width of its own.
LOOK = """
const inside = (a, b) => a.left >= b.left - 1 && a.right <= b.right + 1 && a.top >= b.top - 1 && a.bottom <= b.bottom + 1;
const meet = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 2 && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 4;
onload = () => {
  const found = [...document.querySelectorAll('iframe')].map(frame => {
    const page = frame.contentDocument, root = page.documentElement;
    const shown = [...page.querySelectorAll('figure svg')].filter(svg => svg.getBoundingClientRect().width > 0);
    const outside = [], overlapping = [];
    for (const svg of shown) {
      const box = svg.getBoundingClientRect();
      const texts = [...svg.querySelectorAll('text')].map(t => [t.textContent, t.getBoundingClientRect()]);
      for (const [text, own] of texts) if (!inside(own, box)) outside.push(text);
      texts.forEach(([text, own], i) => texts.slice(i + 1).forEach(([other, its]) => { if (meet(own, its)) overlapping.push([text, other]); }));
    }
    const sizes = shown.flatMap(svg => [...svg.querySelectorAll('text')].map(t => parseFloat(getComputedStyle(t).fontSize) * svg.getBoundingClientRect().width / svg.viewBox.baseVal.width));
    const wide = [...page.querySelectorAll('body *')].filter(e => !e.closest('.scroll') && !e.closest('svg') && e.getBoundingClientRect().right > frame.clientWidth + 1).map(e => e.outerHTML.slice(0, 80));
    const cut = [...page.querySelectorAll('section[aria-labelledby="at-a-glance"] .scroll')].filter(e => e.scrollWidth > e.clientWidth).map(e => [e.scrollWidth, e.clientWidth]);
    return {cut, window: frame.clientWidth, page: root.scrollWidth, charts: shown.length, outside, overlapping, smallest: Math.min(...sizes), wide,
            boxes: [...page.querySelectorAll('.scroll')].every(e => e.tabIndex === 0 && e.getAttribute('aria-label'))};
  });
  document.body.innerHTML = ''; document.body.textContent = 'LOOKED' + JSON.stringify(found) + 'LOOKED';
};
"""


@pytest.mark.skipif(BROWSER is None, reason="no Chromium here to look at the layout (Debian: apt-get install chromium)")
def test_nothing_overflows_in_a_browser(report, tmp_path):
    made, page, _ = report
    source = html.escape(page.text, quote=True)
    frames = "".join(
        f'<iframe style="width:{w}px;height:900px;border:0" srcdoc="{source}"></iframe>' for w in (1280, 400, 320)
    )
    wrapper = tmp_path / "look.html"
    wrapper.write_text(f"<!doctype html><meta charset=utf-8><body>{frames}<script>{LOOK}</script>")
    done = subprocess.run(
        [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", f"--user-data-dir={tmp_path / 'profile'}",
         "--window-size=1400,1000", "--virtual-time-budget=20000", "--dump-dom", wrapper.as_uri()],
        capture_output=True, text=True, timeout=180,
    )  # fmt: skip
    assert "LOOKED" in done.stdout, done.stderr[-2000:]
    seen = json.loads(html.unescape(done.stdout.split("LOOKED")[1]))
    assert [(each["window"], each["charts"]) for each in seen] == [(w, len(made.charts)) for w in (1280, 400, 320)]
    for each in seen:
        assert each["page"] <= each["window"], each["wide"]
        assert each["wide"] == [] and each["outside"] == [] and each["overlapping"] == []
        assert each["cut"] == [], "the table at a glance is cut"
        assert each["smallest"] >= (11 if each["window"] > 320 else 8.5) and each["boxes"]


def test_the_table_at_a_glance_names_every_figure(report):
    """Where the page is narrow, a cell has its column's name beside it, not above."""
    _, page, _ = report
    (caption,) = [name for name in page.tables if name.startswith("At a glance")]
    head, *rows = page.tables[caption]
    named = [values["data-name"] for tag, values in page.elements if tag == "td" and "data-name" in values]
    assert named == head[1:] * len(rows)
