"""Sphinx configuration: MyST text, pages with code cells executed at every build, docstrings as written with links."""

import collections
import os
import re

from docutils import nodes
from sphinx.util.nodes import make_refnode

import sciops

project = "sciops"
author = "The sciops developers"
copyright = author
release = version = sciops.__version__

extensions = ["myst_nb", "sphinx.ext.autodoc"]
exclude_patterns = ["_build", "jupyter_execute"]

myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
myst_heading_anchors = 3

# Every number in the text is printed by the cell beside it, so a cell that fails must fail the build.
nb_execution_mode = "force"
nb_execution_timeout = 180
nb_execution_in_temp = True
nb_execution_raise_on_error = True
nb_merge_streams = True
os.environ.setdefault("TQDM_DISABLE", "1")
os.environ.setdefault("PYTHONWARNINGS", "ignore:IProgress not found")  # tqdm, without notebook widgets
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ["SCIOPS_GALLERY"] = os.path.join(os.path.dirname(os.path.abspath(__file__)), "gallery")  # for its page

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True

html_theme = "furo"
html_title = "sciops"
html_static_path = ["_static"]
html_css_files = ["style.css"]


_NAME = re.compile(r"`([A-Za-z_][\w.]*)(\([^`]*\))?`")
_SPECIAL = re.compile(r"([\\*|_<>])")


def _as_written(app, what, name, obj, options, lines):
    """Sets the first line of a docstring as text and the rest as written: |k|, *grid and tables are not markup here."""
    while lines and not lines[-1].strip():
        lines.pop()
    if not lines:
        return
    first, rest = lines[0], lines[1:]
    if not first.endswith(".") or first.replace("``", "`").count("`") % 2 or (rest and rest[0].strip()):
        first, rest = "", lines
    while rest and not rest[0].strip():
        rest = rest[1:]
    pieces = first.replace("``", "`").split("`")  # outside and inside of backticks in turn
    escaped = [f"\\ ``{piece}``\\ " if i % 2 else _SPECIAL.sub(r"\\\1", piece) for i, piece in enumerate(pieces)]
    text = ["".join(escaped), ""] if first else []
    block = [".. code-block:: none", "   :class: docstring", "", *("   " + line for line in rest), ""] if rest else []
    lines[:] = text + block


def _link_names(app, doctree, page):
    """Makes a `name` in a docstring a link to its documentation, where exactly one documented object has that name."""
    objects = app.env.get_domain("py").objects
    ends = collections.defaultdict(set)
    for full, entry in objects.items():
        if not entry.aliased:
            parts = full.split(".")
            for i in range(len(parts)):
                ends[".".join(parts[i:])].add(full)
    for block in list(doctree.findall(nodes.literal_block)):
        if "docstring" not in block["classes"]:
            continue
        pieces, at = [], 0
        for match in _NAME.finditer(text := block.astext()):
            found = {match[1]} if match[1] in objects else ends.get(match[1], set())
            if len(found) == 1:
                entry = objects[target := next(iter(found))]
                name = nodes.Text(match[0].strip("`"))
                pieces += [nodes.Text(text[at : match.start()])]
                pieces += [make_refnode(app.builder, page, entry.docname, entry.node_id, name, target)]
                at = match.end()
        if pieces:
            block.clear()
            block.extend([*pieces, nodes.Text(text[at:])])
            block.rawsource = ""  # so that the writer shows the links instead of highlighting the source


def setup(app):
    app.connect("autodoc-process-docstring", _as_written)
    app.connect("doctree-resolved", _link_names)
