"""Every script of the gallery draws its figure, and the page shows every script."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest
from matplotlib.figure import Figure

GALLERY = Path(__file__).parents[1] / "docs" / "gallery"
SCRIPTS = sorted(GALLERY.glob("*.py"))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_draws_its_figure(script):
    figure = runpy.run_path(str(script))["figure"]
    assert isinstance(figure, Figure)
    figure.canvas.draw()
    drawn = [axis for axis in figure.axes if axis.lines or axis.collections]
    assert drawn and all(axis.get_xlabel() or axis.get_ylabel() or axis.get_title() for axis in drawn[:1])


def test_the_page_shows_every_script_with_its_picture():
    page = (GALLERY / "index.md").read_text()
    names = [path.name for path in SCRIPTS]
    assert sorted(re.findall(r'^draw\("(.*)"\)$', page, re.M)) == names
    assert sorted(re.findall(r"^```{literalinclude} (.*)$", page, re.M)) == names
