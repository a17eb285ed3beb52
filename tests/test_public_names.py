"""Modules that load their names on first use list the same names for editors and type checkers."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import pytest


@pytest.mark.parametrize("module", ["sciops", "sciops.datasets"])
def test_editors_see_every_public_name(module):
    loaded = importlib.import_module(module)
    tree = ast.parse(Path(loaded.__file__).read_text())
    block = next(
        node for node in tree.body if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING"
    )
    seen = {}
    for line in block.body:
        assert isinstance(line, ast.ImportFrom)
        seen |= {alias.asname or alias.name: line.module for alias in line.names}
    assert set(seen) == set(loaded.__all__) - {"__version__"}
    for name, source in seen.items():
        if source != module:  # what is loaded is what is shown
            assert getattr(loaded, name) is getattr(importlib.import_module(source), name)
