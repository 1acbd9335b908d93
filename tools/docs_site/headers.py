"""The comments of the public headers as XML, by Doxygen, as breathe takes it."""

from __future__ import annotations

import pathlib
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

from .pages import PROJECT


def read_headers(out: pathlib.Path) -> None:
    """Writes ``out``/xml."""
    program = shutil.which("doxygen")
    if program is None:
        sys.exit("tools.docs_site: there is no doxygen to read the C++ headers; run tools/setup.sh docs")
    settings = {
        "PROJECT_NAME": "Kith",
        "INPUT": f'"{PROJECT / "include/kith"}"',
        "STRIP_FROM_PATH": f'"{PROJECT / "include"}"',
        "OUTPUT_DIRECTORY": f'"{out}"',
        "GENERATE_HTML": "NO",
        "GENERATE_LATEX": "NO",
        "GENERATE_XML": "YES",
        "XML_PROGRAMLISTING": "NO",
        "EXTRACT_ALL": "YES",
        "QUIET": "YES",
        "WARN_IF_UNDOCUMENTED": "NO",
        "WARN_NO_PARAMDOC": "NO",
        "WARN_AS_ERROR": "FAIL_ON_WARNINGS",
        "WARN_IF_INCOMPLETE_DOC": "NO",
        "MACRO_EXPANSION": "YES",
        "ALIASES": r'"k=\@k"',  # recall@k is no command
    }
    out.mkdir(parents=True)
    text = "".join(f"{name} = {value}\n" for name, value in settings.items())
    subprocess.run([program, "-"], input=text, text=True, check=True)
    for path in (out / "xml").glob("*.xml"):
        _simplify(path)


def _simplify(path: pathlib.Path) -> None:
    """What breathe stumbles over: designated initializers, and ``@throws A, B``, of which it would keep A."""
    tree = ElementTree.parse(path)
    for parent in tree.iter("memberdef"):
        initializer = parent.find("initializer")
        if initializer is not None and re.match(r"=\s*\{\s*\.", "".join(initializer.itertext())):
            parent.remove(initializer)
    for names in tree.iterfind(".//parameterlist[@kind='exception']/parameteritem/parameternamelist"):
        first, *others = names.findall("parametername")
        first.text = ", ".join(["".join(name.itertext()).rstrip(";") for name in (first, *others)])
        for name in (*others, *first):
            (names if name in others else first).remove(name)
    tree.write(path, encoding="utf-8", xml_declaration=True)
