"""Every script of the gallery draws its figure, and the page shows every script."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest
from matplotlib.figure import Figure

DOCS = Path(__file__).parents[1] / "docs"
GALLERY = DOCS / "gallery"
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


def test_pictures_on_the_pages_of_studies_are_small_and_say_which_command_made_them():
    """`docs/figures/small.py` makes them of the figures of a study."""
    shown = []
    for page in sorted((DOCS / "studies").glob("*.md")):
        for path, caption in re.findall(r"^```{figure} (\S+)\n(.+?)^```$", page.read_text(), re.M | re.S):
            shown.append((page.parent / path).resolve())
            assert 0 < shown[-1].stat().st_size <= 60_000, f"{page.name}: {path}"
            assert re.search(r"`sciops\s+study\s+\w+", caption), f"{page.name}: {path}"
    assert sorted(shown) == sorted((DOCS / "figures" / "studies").glob("*.png")) and len(shown) >= 5
