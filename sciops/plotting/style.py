"""One style for all figures: colour-blind-safe colours, no pyplot, files that appear only when whole.

Colours are Okabe and Ito's eight (Color Universal Design, 2008), distinguishable with every common colour deficiency;
every series also has its own marker and line style.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sciops.files.whole_files import replacing
from sciops.files.writable import writable_file

if TYPE_CHECKING:
    from sciops.plotting.picture import Picture

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8C6D31")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
LINES = ("-", "--", "-.", ":")

STYLE: dict[Any, Any] = {
    "figure.constrained_layout.use": True,
    "figure.dpi": 100,
    "savefig.dpi": 160,
    "savefig.bbox": "tight",
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.labelsize": 9,
    "legend.fontsize": 7.5,
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "grid.linewidth": 0.5,
    "lines.linewidth": 1.4,
    "lines.markersize": 4.5,
    "image.cmap": "cividis",
    "axes.formatter.useoffset": False,
}


@contextmanager
def styled() -> Iterator[None]:
    """What is drawn in this block has the style of this module; afterwards matplotlib's settings are as before."""
    import matplotlib

    with matplotlib.rc_context(STYLE):
        yield


def new_figure(
    rows: int = 1, columns: int = 1, *, width: float = 3.4, height: float = 2.7, **options: Any
) -> tuple[Picture, Any]:
    """(figure, axes of shape (rows, columns)), known to no window and to no pyplot; call it in a block of `styled`.

    width, height : inches per panel; options : passed to ``Figure.subplots``
    """
    from sciops.plotting.picture import Picture

    fig = Picture(figsize=(width * columns, height * rows))
    return fig, fig.subplots(rows, columns, squeeze=False, **options)


def save_figure(fig: Any, path: str | os.PathLike[str], *, caption: str = "") -> Path:
    """Writes a figure in the format that the ending of `path` names; the file appears only when it is whole.

    caption : what it shows, written into a PNG as its description

    Raises ValueError for an ending that is no format of figures, OSError where no file can be written.
    """
    path = writable_file(path)
    known = fig.canvas.get_supported_filetypes()
    if path.suffix[1:].lower() not in known:
        raise ValueError(
            f"{path}: {path.suffix or 'no ending'} is not a format of figures; expected .png, .pdf or .svg"
        )
    about = {"metadata": {"Description": caption}} if caption and path.suffix.lower() == ".png" else {}
    with styled(), replacing(path) as temporary:
        fig.savefig(temporary, format=path.suffix[1:].lower(), **about)
    return path


@contextmanager
def figure(
    path: str | os.PathLike[str],
    rows: int = 1,
    columns: int = 1,
    *,
    width: float = 3.4,
    height: float = 2.7,
    caption: str = "",
    **options: Any,
) -> Iterator[tuple[Any, Any]]:
    """A styled matplotlib figure that is written to `path` when the block ends without an error.

    rows, columns : panels; width, height : inches per panel; options : passed to ``Figure.subplots``
    caption : what it shows, written into a PNG as its description
    yields (figure, axes) with axes of shape (rows, columns)
    """
    path = writable_file(path)
    with styled():
        fig, axes = new_figure(rows, columns, width=width, height=height, **options)
        yield fig, axes
        save_figure(fig, path, caption=caption)


def series() -> Iterator[dict[str, Any]]:
    """Endless (colour, marker, line style) keyword sets for successive series; eight colours before a repeat."""
    return (
        {"color": color, "marker": marker, "linestyle": line}
        for color, marker, line in zip(cycle(PALETTE), cycle(MARKERS), cycle(LINES))
    )
