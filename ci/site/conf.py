"""Sphinx's settings of the site; `python -m ci.site` writes its sources and calls Sphinx."""

import functools
from typing import Any

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.domains.python import PythonDomain

import autograd_gpu

project = "autograd_gpu"
author = copyright = "The autograd_gpu authors"
release = version = autograd_gpu.__version__
html_title = f"autograd_gpu {version}"
extensions = ["myst_parser"]
myst_heading_anchors = 4  # GitHub's anchors
smartquotes = False  # quotes are code, too
highlight_language = "none"  # indented blocks are commands and tables
html_theme = "furo"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = html_show_sourcelink = False
html_show_sphinx = False
python_maximum_signature_line_length = 100
python_use_unqualified_type_names = True
toc_object_entries = False  # a page lists its names itself; every sidebar would have to hold them all


def leave_builtins(app: Sphinx, tree: nodes.document) -> None:
    """Annotations say bool and mean Python's, not `ag.bool`, to which Sphinx would link them."""
    for link in list(tree.findall(pending_xref)):
        if link["refdomain"] == "py" and link["reftype"] == "class" and link["reftarget"] == "bool":
            link.replace_self(nodes.Text("bool"))


class Domain(PythonDomain):
    """Looks up each name of an annotation once: Sphinx compares it with every name of the site."""

    @functools.cache  # noqa: B019  there is one, which lives as long as the process
    def find_obj(self, *question: Any) -> list[Any]:
        return super().find_obj(*question)


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_domain(Domain, override=True)
    app.connect("doctree-read", leave_builtins)
    return {"parallel_read_safe": True}
