"""GPU results: collected from the benchmark's files, and on the page."""

import json
import re
from pathlib import Path

import pytest

from benchmarks.brute_force import collect_gpu
from benchmarks.report import gpu, make_docs

SOURCES = Path(collect_gpu.__file__).parent


def case(**changes):
    """A case as gpu_search writes it: made-up figures."""
    return {
        "dim": 128, "queries": 10000, "rows": 1000000, "k": 10, "dtype": "f32", "median_ms": 4.0, "min_ms": 3.9,
        "max_ms": 4.4, "build_ms": 2.5, "filter": "int8", "candidates": 1230000, "fallbacks": 7, "wrong_cells": 0,
        "devices": "cuda:0", "from_host": False, "memory_limit_mib": 0, **changes,
    }  # fmt: skip


def low(**changes):
    return case(dim=3, queries=1024, rows=1048576, k=1, filter="fp32", **changes)


@pytest.fixture
def write(tmp_path):
    def write(name, *cases):
        path = tmp_path / f"{name}.json"
        path.write_text(json.dumps(cases))
        return str(path)

    return write


def collect(tmp_path, *options, machine="One NVIDIA H200"):
    """The results file that collect_gpu makes."""
    (tmp_path / "results").mkdir(exist_ok=True)
    out = tmp_path / "results/gpu.json"
    named = ["--machine", machine, "--commit", "abc123", "--date", "2026-01-02"]
    collect_gpu.main([str(out), *named, *options])
    return json.loads(out.read_text())


def cells(page, *start):
    """The cells of the row of a table that starts with these."""
    (line,) = [line for line in page.splitlines() if line.startswith("| " + " | ".join(start) + " |")]
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_every_option_shows_in_the_results(tmp_path, write):
    peer = {"dim": 128, "queries": 10000, "rows": 1000000, "k": 10, "median_ms": 176.0, "peer": "torch"}
    result = collect(
        tmp_path,
        "--resident", write("a", case(), low()),
        "--host", write("b", case(from_host=True, dtype="u8")),
        "--streamed", *[write(str(m), case(from_host=True, memory_limit_mib=m)) for m in (2000, 3500)],
        "--multi", write("e", case()), write("f", case(devices="cuda:0,1")),
        "--torch", write("g", peer),
        "--repeat", "resident=15", "multi=5",
    )  # fmt: skip
    assert (result["kind"], result["machine"], result["commit"]) == ("gpu", "One NVIDIA H200", "abc123")
    assert result["date"] == "2026-01-02" and result["peers"] == [peer]
    assert [s["mode"] for s in result["sections"]] == ["resident", "host", "streamed", "streamed", "multi", "multi"]
    assert result["sections"][0]["cases"] == [case(), low()]
    words = "128,10000,1000000,10"
    assert [s["command"] for s in result["sections"]] == [
        f"gpu_search --repeat 15 {words} 3,1024,1048576,1", f"gpu_search --host {words},u8",
        f"gpu_search --memory-limit 2000 {words}", f"gpu_search --memory-limit 3500 {words}",
        f"gpu_search --repeat 5 {words}", f"gpu_search --repeat 5 --devices cuda:0,1 {words}",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("option", "cases", "message"),
    [
        ("--resident", [case(from_host=True)], "--resident takes"),
        ("--host", [case()], "--host takes"),
        ("--host", [case(from_host=True, memory_limit_mib=1)], "--host takes"),
        ("--streamed", [case(from_host=True)], "--streamed takes"),
        ("--multi", [case(from_host=True)], "--multi takes"),
        ("--resident", [case(), case(wrong_cells=3)], "3 wrong cells"),
        ("--resident", [], "no cases"),
        ("--resident", [{"dim": 3}], "without build_ms"),
    ],
)
def test_files_of_another_kind_are_refused(tmp_path, write, option, cases, message):
    with pytest.raises(SystemExit, match=message):
        collect(tmp_path, option, write("a", *cases))
    assert not (tmp_path / "results/gpu.json").exists()


@pytest.mark.parametrize("word", ["7", "host=x", "nobody=7"])
def test_repeats_are_of_a_mode(tmp_path, write, word):
    with pytest.raises(SystemExit, match="--repeat"):
        collect(tmp_path, "--resident", write("a", case()), "--repeat", word)


def test_the_page_shows_the_figures(tmp_path, write):
    peer = {"dim": 128, "queries": 10000, "rows": 1000000, "k": 10, "median_ms": 176.0, "peer": "torch"}
    limited = {m: case(from_host=True, memory_limit_mib=m, median_ms=t) for m, t in ((2000, 20.0), (3500, 5.0))}
    limits = [write(str(m), c) for m, c in limited.items()]
    multi = [write(d, case(devices=d, median_ms=t)) for d, t in (("cuda:0", 8.0), ("cuda:0,1", 4.1))]
    collect(
        tmp_path, "--resident", write("a", case(), low()), "--host", write("b", case(from_host=True, median_ms=60.0)),
        "--streamed", *limits, "--multi", *multi, "--torch", write("g", peer),
    )  # fmt: skip
    page = make_docs.render(tmp_path / "results")
    assert "## GPU" in page and "One NVIDIA H200; Kith abc123, 2026-01-02." in page and "none differ" in page
    parts = dict(zip(("resident", "host", "streamed", "multi"), page.split("\n### ")[1:], strict=True))
    shape = ("128", "10,000", "1,000,000", "10")
    # 2.56e12 operations in 4 ms; the floor is 2.56e12 / 1484e12 s = 1.725 ms.
    row = [*shape, "f32", "int8", "**4.00 ms**", "2,500,000", "640", "43 %", "123", "7", "2.50 ms"]
    beside = [*shape, "4.00 ms", "176 ms", "**44.0**", "103 ms", "**25.7**"]
    assert cells(parts["resident"], *shape, "f32") == row
    assert cells(parts["resident"], *shape, "4.00 ms") == beside
    # 7 instructions a pair at 32.8e12 a second: 0.229 ms of 4.
    assert cells(parts["resident"], "3", "1,024", "1,048,576", "1", "f32")[9] == "6 %"
    assert cells(parts["resident"], "3", "1,024", "1,048,576", "1", "4.00 ms")[5:] == ["", "", "4.64 ms", "**1.16**"]
    assert "**60.0 ms**" in cells(parts["host"], *shape)
    # 512 MB in 20 ms, and four times that.
    streamed = (parts["streamed"], *shape, "f32", "int8", "488 MiB")
    assert cells(*streamed, "2,000 MiB")[9:12] == ["25.6 GB/s", "47 %", "1.00"]
    assert cells(*streamed, "3,500 MiB")[9:12] == ["102 GB/s", "", "4.00"]
    assert cells(parts["multi"], *shape, "f32", "int8", "2")[7:10] == ["**4.10 ms**", "2,439,024", "1.95"]


def test_another_chip_is_not_held_to_these_constants(tmp_path, write):
    collect(tmp_path, "--resident", write("a", case()), machine="One other GPU")
    page = make_docs.render(tmp_path / "results")
    assert "640" in page and "floor" not in page and "FAISS" not in page


def test_a_read_of_the_rows_is_a_floor_too():
    one = case(queries=1, rows=4490000, dim=100)
    assert gpu.floor_seconds(one) == pytest.approx(1e-4)
    assert gpu.floor_seconds({**one, "filter": "fp32"}) == pytest.approx(4e-4)
    assert gpu.floor_seconds({**one, "filter": "none", "dtype": "f64"}) == pytest.approx(8e-4)


def test_everybody_measures_the_same_cases():
    def listed(name, begin, end):
        text = (SOURCES / name).read_text()
        text = text[text.index(begin) :]
        found = re.findall(r"[{(](\d+), (\d+), (\d+), (\d+)[})]", text[: text.index(end)])
        return [tuple(map(int, numbers)) for numbers in found]

    cases = listed("gpu.cu", "cases = {{", "};")
    assert len(cases) == 16 and listed("gpu_torch.py", "CASES = (", "\n)") == cases
    assert set(gpu.FAISS_MS) == set(cases)


def test_the_peer_merges_its_tiles(monkeypatch):
    torch = pytest.importorskip("torch")
    from benchmarks.brute_force import gpu_torch

    generator = torch.Generator().manual_seed(3)
    rows, queries = torch.rand(100, 5, generator=generator), torch.rand(7, 5, generator=generator)
    monkeypatch.setattr(gpu_torch, "MATRIX_BYTES", 4 * 7 * 33)  # tiles of 33 rows
    distances, indices = gpu_torch.torch_peer(queries, rows, 4)()
    expected = torch.topk(torch.cdist(queries, rows).square(), 4, largest=False)
    assert torch.equal(indices, expected.indices) and torch.allclose(distances, expected.values, atol=1e-5)
