"""python -m benchmarks.report: writes docs/benchmarks.md, the ladder's page and pictures; with --check only says whether they are
up to date."""

import argparse
import sys

from . import graphs, ladder, walks
from .make_docs import DOCUMENT, render

parser = argparse.ArgumentParser(prog="python -m benchmarks.report", description=__doc__)
parser.add_argument("--check", action="store_true", help="write nothing; exit 1 where a page is not up to date")
if parser.parse_args().check:
    stale = [] if DOCUMENT.is_file() and DOCUMENT.read_text() == render() else [DOCUMENT]
    if stale := stale + ladder.stale() + walks.stale() + graphs.stale():
        names = ", ".join(str(path.relative_to(ladder.ROOT)) for path in stale)
        sys.exit(f"not what benchmarks/results say: {names}; run: python -m benchmarks.report")
else:
    DOCUMENT.parent.mkdir(exist_ok=True)
    DOCUMENT.write_text(render())
    print(DOCUMENT)
    if (page := ladder.render()) is not None:
        ladder.PAGE.write_text(page)
        print(ladder.PAGE, *ladder.draw(), sep="\n")
    walks.PAGE.write_text(walks.render())
    print(walks.PAGE, *walks.draw(), sep="\n")
    print(*graphs.draw(), sep="\n")
