"""Sphinx configuration: text in MyST, pages with code cells executed at every build, docstrings shown as written."""

import os

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

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True

html_theme = "furo"
html_title = "sciops"
html_static_path = ["_static"]
html_css_files = ["style.css"]


def _as_written(app, what, name, obj, options, lines):
    """Docstrings here are laid out for a monospaced reader, with |k|, *grid and tables of their own: no markup."""
    if any(line.strip() for line in lines):
        while not lines[-1].strip():
            lines.pop()
        lines[:] = [".. code-block:: none", "   :class: docstring", "", *("   " + line for line in lines), ""]


def setup(app):
    app.connect("autodoc-process-docstring", _as_written)
