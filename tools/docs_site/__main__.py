"""Builds the site: python -m tools.docs_site OUT. Needs tools/requirements-docs.txt and doxygen; no network, no build of Kith.

Pages are laid out as in the repository, so that a link works on the forge and here. Any warning fails: a link to no page or
heading, a page in no table of contents, a docstring that does not parse.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import shutil
import subprocess
import sys

from .headers import read_headers
from .pages import write_pages


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.docs_site", description=__doc__)
    parser.add_argument("out", type=pathlib.Path, help="folder of the site; replaced")
    options = parser.parse_args()
    out = options.out.resolve()
    work = out.with_name(out.name + "-work")
    shutil.rmtree(work, ignore_errors=True)
    read_headers(work / "doxygen")
    write_pages(work / "pages")
    made = subprocess.run(
        [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-j", "auto", "-b", "html"]
        + ["-c", str(pathlib.Path(__file__).parent), "-d", str(work / "doctrees"), str(work / "pages"), str(work / "html")],
        env={**os.environ, "KITH_DOCS_XML": str(work / "doxygen/xml")},
    )  # fmt: skip
    if made.returncode:
        sys.exit("tools.docs_site: the site was not made, for what is said above")
    shutil.rmtree(out, ignore_errors=True)
    (work / "html").rename(out)
    print(f"{out / 'index.html'}: {len(list(out.rglob('*.html')))} pages")


if __name__ == "__main__":
    main()
