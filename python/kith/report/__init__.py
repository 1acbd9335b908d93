"""Makes one self-contained HTML page, and pictures for documents, from what `kith ladder` and `kith bench` measured.

    kith report ladder.json bench.json -o report.html
    python -m kith.report ladder.json bench.json -o report.html

It needs matplotlib (`pip install matplotlib`) and nothing else of Kith: `kith report` runs this folder with any
Python that has it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ._errors import InputError, ReportError, UsageError

__all__ = ["InputError", "Report", "ReportError", "UsageError", "make_report"]

_Path = str | os.PathLike[str]


@dataclass(frozen=True)
class Report:
    """What was made, and what the inputs had nothing for."""

    output: str
    charts: tuple[str, ...]
    images: tuple[str, ...]
    left_out: tuple[tuple[str, str], ...]


def make_report(
    inputs: Sequence[_Path], output: _Path, *, images: _Path | None = None, title: str | None = None
) -> Report:
    """Writes `output`, and with `images` every chart as SVG and PNG into that folder; all of it or nothing.

    Raises InputError for a file that cannot be read or written, UsageError for anything else that is asked wrongly.
    """
    from ._inputs import read_results
    from ._page import left_out, render, sections
    from ._write import check_writable, write_whole

    _require_matplotlib()
    target = Path(output)
    check_writable(target)
    if any(_same_file(Path(path), target) for path in inputs):
        raise UsageError(f"'{target}' is an input and the output; name another file to write")
    folder = None if images is None else Path(images)
    if folder is not None and folder.exists() and not folder.is_dir():
        raise InputError(f"cannot write pictures into '{folder}': it is a file, not a folder")
    results = read_results([Path(path) for path in inputs])
    page, charts = render(results, title or _title(len(results.ladders) > 0))
    files = {target: page.encode()}
    if folder is not None:
        from ._draw import png_file, svg_file

        for chart in charts:
            files[folder / f"{chart.name}.svg"] = svg_file(chart.draw, chart.name, chart.title, chart.alt)
            files[folder / f"{chart.name}.png"] = png_file(chart.draw, chart.name)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"cannot make the folder '{folder}': {error.strerror or error}") from None
    write_whole(files)
    written = tuple(str(path) for path in files if path != target)
    return Report(str(target), tuple(chart.name for chart in charts), written, tuple(left_out(sections(results))))


def _same_file(one: Path, other: Path) -> bool:
    """Under whatever names, links too; a pipe or a device is no file that could be replaced."""
    try:
        return other.is_file() and one.samefile(other)
    except OSError:
        return False


def _title(ladder: bool) -> str:
    return "Nearest neighbours: from a loop to the roofline" if ladder else "Nearest neighbours, measured"


def _require_matplotlib() -> None:
    try:
        import matplotlib
    except ImportError as error:
        raise InputError(
            f"this Python has no matplotlib ({error}); install it: python3 -m pip install 'matplotlib>=3.6' "
            "(on Debian: apt-get install python3-matplotlib)"
        ) from None
    version = tuple(int(part) for part in matplotlib.__version__.split(".")[:2] if part.isdigit())
    if version < (3, 6):
        raise InputError(f"matplotlib {matplotlib.__version__} is too old; install 3.6 or newer")
