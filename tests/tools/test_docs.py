"""The pages: links lead somewhere, and quoted code is the code that the tests compile."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
QUOTE = re.compile(r"<!-- (examples/\S+) -->\n```cpp\n(.*?)```", re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files(page):
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    targets = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text)
    missing = [t for t in targets if "://" not in t and not (page.parent / t).exists()]
    assert not missing


def test_the_pages_are_found():
    assert {"README.md", "cpp.md", "exact-contract.md"} <= {page.name for page in PAGES}


def test_cpp_page_quotes_its_example():
    text = (ROOT / "docs" / "cpp.md").read_text()
    quotes = QUOTE.findall(text)
    assert len(quotes) == text.count("```cpp") >= 6
    for source, code in quotes:
        assert code in (ROOT / source).read_text(), f"{source} no longer has:\n{code}"
