"""docs/hand-over.md is run section by section, each where its package is installed."""

from __future__ import annotations

import doctest
import importlib
import pathlib
import re
import warnings

import pytest

from .test_docs import run

PAGE = (pathlib.Path(__file__).parents[2] / "docs/hand-over.md").read_text()
TITLE, *SECTIONS = re.split(r"^## ", PAGE, flags=re.M)
# What a section hands over to; scikit-learn's own are there wherever the page can run at all.
PACKAGES = {
    "UMAP": ["umap"],
    "t-SNE: openTSNE": ["openTSNE"],
    "HDBSCAN": ["hdbscan"],
    "scanpy": ["anndata", "scanpy"],
}
HEADINGS = {text.split("\n", 1)[0]: text for text in SECTIONS}


def test_every_package_has_its_section():
    assert set(PACKAGES) <= set(HEADINGS)
    for heading, packages in PACKAGES.items():
        for package in packages:
            assert re.search(rf"^>>> (import|from) .*\b{package}\b", HEADINGS[heading], flags=re.M), heading
    for anchor in re.findall(r"\]\(#([a-z0-9-]+)\)", TITLE):
        assert anchor in [re.sub(r"[^a-z0-9 -]", "", heading.lower()).replace(" ", "-") for heading in HEADINGS]


@pytest.mark.parametrize("heading", HEADINGS)
def test_the_section_runs(heading):
    pytest.importorskip("sklearn", reason="the page's rows come from scikit-learn: pip install scikit-learn")
    for package in PACKAGES.get(heading, []):
        try:
            importlib.import_module(package)
        except ImportError as error:
            pytest.skip(f"{package} is not installed ({error})")
    text = re.sub(r"^```.*$", "", TITLE + HEADINGS[heading], flags=re.M)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what the packages say of their own dependencies
        result = run(doctest.DocTestParser().get_doctest(text, {}, heading, "docs/hand-over.md", 0))
    assert result.failed == 0
    assert result.attempted > 9
