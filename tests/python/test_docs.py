"""The examples of docs/python.md and of the docstrings."""

from __future__ import annotations

import doctest
import importlib
import pathlib
import re

import pytest

DOCS = pathlib.Path(__file__).parents[2] / "docs"


def run(test):
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    return runner.run(test)


def test_the_page_about_python(tmp_path, monkeypatch):
    pytest.importorskip("sklearn")
    pytest.importorskip("pyarrow")
    monkeypatch.chdir(tmp_path)  # examples write files
    text = (DOCS / "python.md").read_text()
    # A blank line ends what an example prints: the fences do not.
    text = re.sub(r"^```.*$", "", text, flags=re.M)
    result = run(doctest.DocTestParser().get_doctest(text, {}, "python.md", "docs/python.md", 0))
    assert result.failed == 0
    assert result.attempted > 40


@pytest.mark.parametrize(
    "name", ["kith", "kith.sklearn", "kith.compat.faiss", "kith.compat.langchain", "kith.compat.llama_index"]
)
def test_docstrings(name):
    if name == "kith.sklearn":
        pytest.importorskip("sklearn")
    if name == "kith.compat.langchain":
        pytest.importorskip("langchain_core")
    if name == "kith.compat.llama_index":
        pytest.importorskip("llama_index.core")
    module = importlib.import_module(name)
    tests = [test for test in doctest.DocTestFinder().find(module) if test.examples]
    assert tests
    for test in tests:
        assert run(test).failed == 0
