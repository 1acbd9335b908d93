"""Sphinx's settings; python -m tools.docs_site hands them the pages."""

import os
import pathlib
import re
import sys

_project = pathlib.Path(__file__).parents[2]
sys.path.insert(0, str(_project / "python"))

project = "Kith"
author = "the authors of Kith"
copyright = "the authors of Kith, Apache-2.0"
release = re.search(r'KITH_VERSION_STRING "([^"]+)"', (_project / "include/kith/version.hpp").read_text())[1]
root_doc = "index"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "breathe"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}

# As GitHub and GitLab make the names of headings.
myst_heading_anchors = 4
myst_links_external_new_tab = False

# Docstrings are read without the compiled module, and without what optional parts need.
autodoc_mock_imports = [
    "kith._kith",
    "kith._version",
    "faiss",
    "joblib",
    "langchain_core",
    "llama_index",
    "scipy",
    "sklearn",
]
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True, "show-inheritance": True}
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
python_maximum_signature_line_length = 80
napoleon_numpy_docstring = False
napoleon_use_ivar = True  # what a class lists as attributes are properties, too
napoleon_use_rtype = False

breathe_default_project = "kith"
breathe_projects = {"kith": os.environ["KITH_DOCS_XML"]}
breathe_default_members = ("members",)
breathe_show_include = False
suppress_warnings = ["duplicate_declaration.cpp"]  # namespace kith, once a header
cpp_maximum_signature_line_length = 80

html_theme = "furo"
html_title = "Kith"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_show_sphinx = False
html_copy_source = False
