"""What the site is made of: the repository's pages, sources that they link to, and the references' pages."""

from __future__ import annotations

import os
import pathlib
import re
import shutil

PROJECT = pathlib.Path(__file__).parents[2]
TOP = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md")
LANGUAGES = {".py": "python", ".json": "json", ".sh": "bash", ".md": "text", "": "text"}  # C++ otherwise

_FENCE = re.compile(r"^(```|~~~).*?^\1\s*$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)\s#]+)(#[^)\s]*)?\)")


def write_pages(out: pathlib.Path) -> None:
    """Everything Sphinx reads, into a new folder laid out as the repository is."""
    pages = [PROJECT / name for name in TOP] + sorted((PROJECT / "docs").glob("*.md"))
    sources: set[pathlib.Path] = set()
    for page in pages:
        text = _relink(page, page.read_text(), set(pages), sources)
        if page == PROJECT / "README.md":
            text += _contents()
        target = out / page.relative_to(PROJECT)
        if page.name == "README.md":  # what servers and forges show for a folder
            target = target.with_name("index.md")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    shutil.copytree(PROJECT / "docs/images", out / "docs/images")
    for source in sources:
        _write_source(source, out)
    for page in sorted((pathlib.Path(__file__).parent / "pages").glob("*.rst")):
        (out / "docs" / page.name).write_text(page.read_text())
    _write_headers(out / "docs" / "cpp-api")


def _relink(page: pathlib.Path, text: str, pages: set[pathlib.Path], sources: set[pathlib.Path]) -> str:
    """Links to a README name index.md, those to a source the page that shows it. Code is left alone."""

    def other(match: re.Match[str]) -> str:
        link, heading = match[1], match[2] or ""
        target = (page.parent / link).resolve()
        if ":" in link or not target.exists() or "docs/images" in target.as_posix():
            return match[0]
        if target not in pages:
            sources.add(target)
            return f"]({link}.md)"
        return f"]({link.replace('README.md', 'index.md')}{heading})"

    parts, at = [], 0
    for fence in _FENCE.finditer(text):
        parts += [_LINK.sub(other, text[at : fence.start()]), fence[0]]
        at = fence.end()
    return "".join([*parts, _LINK.sub(other, text[at:])])


def _contents() -> str:
    """The tables of contents, in the order of the table in docs/README.md; of any page that is missing there Sphinx complains."""
    named = re.findall(r"^\| \[([\w-]+)\.md\]", (PROJECT / "docs/README.md").read_text(), re.MULTILINE)
    parts = {
        "Documentation": ["docs/index", *(f"docs/{name}" for name in named)],
        "Reference": ["docs/python-api", "docs/cpp-api/index"],
        "Project": [name.removesuffix(".md") for name in TOP[1:]],
    }
    return "".join(
        f"\n```{{toctree}}\n:hidden:\n:caption: {caption}\n:titlesonly:\n\n" + "\n".join(names) + "\n```\n"
        for caption, names in parts.items()
    )


def _write_source(source: pathlib.Path, out: pathlib.Path) -> None:
    """A page that shows a file, or names what a folder has; the search leaves it out."""
    name = source.relative_to(PROJECT)
    target = out / f"{name}.md"
    target.parent.mkdir(parents=True, exist_ok=True)
    text = f"---\norphan: true\nnosearch: true\n---\n\n# {name}\n\n"
    if source.is_dir():
        text += "".join(
            f"- `{each.name}`\n" for each in sorted(source.iterdir()) if not each.name.startswith(("__", "."))
        )
    else:
        language = LANGUAGES.get(source.suffix, "cpp")
        text += f"```{{literalinclude}} {os.path.relpath(source, target.parent)}\n:language: {language}\n```\n"
    target.write_text(text)


def _write_headers(out: pathlib.Path) -> None:
    """A page for each public header, and their list."""
    out.mkdir()
    headers = sorted((PROJECT / "include/kith").glob("*.hpp"))
    # Headers whose declarations are all in those that they include.
    headers = [header for header in headers if "namespace kith" in header.read_text()]
    for header in headers:
        title = f"kith/{header.name}"
        (out / f"{header.stem}.rst").write_text(f"{title}\n{'=' * len(title)}\n\n.. doxygenfile:: {header.name}\n")
    (out / "index.rst").write_text(
        "C++ reference\n=============\n\n"
        "The public headers, as their comments document them; :doc:`../cpp` shows how they are used. Each compiles alone, and\n"
        "``<kith/kith.hpp>`` includes all.\n\n.. toctree::\n   :maxdepth: 1\n\n"
        + "".join(f"   {header.stem}\n" for header in headers)
    )
