"""Sphinx configuration: MyST text, pages with code cells executed at every build, docstrings typeset and linked."""

import collections
import os
import re
import shutil
import sys
from pathlib import Path

from docutils import nodes
from sphinx import addnodes
from sphinx.util.nodes import make_refnode

import sciops

sys.path.insert(0, str(Path(__file__).parent))
from docstrings import typeset

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
autodoc_inherit_docstrings = False  # a method without a text of its own is not shown with that of torch's
python_maximum_signature_line_length = 88
smartquotes = False  # "sine" in a text is typed as it stands

html_theme = "furo"
html_title = "sciops"
html_static_path = ["_static"]
html_css_files = ["style.css"]

_INTERNAL = {"lipschitz_rule", "lipschitz_rule_with_skip", "linear_matrices", "traits", "extra_repr"}
_CHECKED = re.compile(r"Annotated\[([^,\[\]]+), Within\([^()]*\)\]")
_NAME = re.compile(r"([A-Za-z_][\w.]*)(\(.*\))?")


def _typeset(app, what, name, obj, options, lines):
    lines[:] = typeset(lines)


def _without_checks(app, what, name, obj, options, signature, returns):
    """int for Annotated[int, Within(…)]: the range of an option stands in its text and in its refusal."""
    return signature and _CHECKED.sub(r"\1", signature), returns


def _skip_internal(app, what, name, obj, skip, options):
    """Leaves out what classes declare for the rest of the package."""
    return True if name in _INTERNAL else None


def _link_names(app, doctree, page):
    """Makes a `name` in a docstring a link to its documentation, where exactly one documented object has that name."""
    objects = app.env.get_domain("py").objects
    ends = collections.defaultdict(set)
    for full, entry in objects.items():
        parts = full.split(".")
        member = entry.objtype in ("attribute", "method", "property")  # `modes` alone is an argument, not Model.modes
        for i in range(len(parts) - member):
            if not entry.aliased:
                ends[".".join(parts[i:])].add(full)
    for content in doctree.findall(addnodes.desc_content):
        for literal in list(content.findall(nodes.literal)):
            match = _NAME.fullmatch(literal.astext())
            if match is None or isinstance(literal.parent, nodes.reference):
                continue
            found = {match[1]} if match[1] in objects else ends.get(match[1], set())
            if len(found) == 1:
                entry = objects[target := next(iter(found))]
                link = make_refnode(app.builder, page, entry.docname, entry.node_id, literal.deepcopy(), target)
                literal.replace_self(link)


def _offer_notebook(app, page, template, context, doctree):
    """Copies the executed notebook of a page with code cells to the site, and links it below the title."""
    notebook = Path(app.outdir).parent / "jupyter_execute" / f"{page}.ipynb"
    if notebook.exists() and "</h1>" in context.get("body", ""):
        name = f"_downloads/notebooks/{page}.ipynb"
        copy = Path(app.outdir) / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(notebook, copy)
        link = f'<p class="notebook"><a href="{context["pathto"](name, 1)}" download>Download as a notebook</a></p>'
        context["body"] = context["body"].replace("</h1>", "</h1>" + link, 1)


def setup(app):
    app.connect("autodoc-process-docstring", _typeset)
    app.connect("autodoc-process-signature", _without_checks)
    app.connect("autodoc-skip-member", _skip_internal)
    app.connect("doctree-resolved", _link_names)
    app.connect("html-page-context", _offer_notebook)
