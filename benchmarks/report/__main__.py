"""python -m benchmarks.report: writes docs/benchmarks.md; with --check only says whether it is up to date."""

import argparse
import sys

from .make_docs import DOCUMENT, render

parser = argparse.ArgumentParser(prog="python -m benchmarks.report", description=__doc__)
parser.add_argument("--check", action="store_true", help="write nothing; exit 1 where the page is not up to date")
if parser.parse_args().check:
    if not DOCUMENT.is_file() or DOCUMENT.read_text() != render():
        sys.exit("docs/benchmarks.md is not what benchmarks/results say; run: python -m benchmarks.report")
else:
    DOCUMENT.parent.mkdir(exist_ok=True)
    DOCUMENT.write_text(render())
    print(DOCUMENT)
