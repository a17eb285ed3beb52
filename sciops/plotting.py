"""Figures for papers: one style, colour-blind-safe colours, files that appear only when whole.

Colours are Okabe and Ito's eight (Color Universal Design, 2008), distinguishable with every common colour deficiency;
every series also has its own marker and line style.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np

from sciops.files.whole_files import replacing
from sciops.files.writable import writable_file

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8C6D31")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
LINES = ("-", "--", "-.", ":")

_STYLE: dict[Any, Any] = {
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
def figure(
    path: str | Path, rows: int = 1, columns: int = 1, *, width: float = 3.4, height: float = 2.7, **options: Any
):
    """A styled matplotlib figure that is written to `path` when the block ends without an error.

    rows, columns : panels; width, height : inches per panel; options : passed to ``plt.subplots``
    yields (figure, axes) with axes of shape (rows, columns)
    """
    import matplotlib

    if not os.environ.get("MPLBACKEND") and not os.environ.get("DISPLAY"):
        matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    path = writable_file(path)
    with plt.rc_context(_STYLE):
        size = (width * columns, height * rows)
        fig, axes = plt.subplots(rows, columns, figsize=size, squeeze=False, **options)
        try:
            yield fig, axes
            with replacing(path) as temporary:
                fig.savefig(temporary, format=path.suffix[1:])
        finally:
            plt.close(fig)


def series() -> Iterator[dict[str, Any]]:
    """Endless (colour, marker, line style) keyword sets for successive series; eight colours before a repeat."""
    return (
        {"color": color, "marker": marker, "linestyle": line}
        for color, marker, line in zip(cycle(PALETTE), cycle(MARKERS), cycle(LINES))
    )


def draw_spectra(
    axis: Any,
    spectra: Mapping[str, tuple[np.ndarray, np.ndarray]],
    *,
    styles: Mapping[str, Mapping[str, Any]] | None = None,
    floor: float = 1e-16,
) -> None:
    """Energy against wavenumber on log axes, one line a name; zero-wavenumber and empty bins are left out.

    spectra : name → (wavenumber, energy); styles : name → line options, default one of `series` each
    floor : bins below this share of the largest one are left out
    """
    from sciops.arrays.kinds import refuse_masked

    for (name, (wavenumber, energy)), style in zip(spectra.items(), series()):
        refuse_masked([wavenumber, energy], name)
        k, e = np.asarray(wavenumber), np.asarray(energy)
        keep = (k > 0) & (e > floor * max(float(e.max(initial=0.0)), 1e-300))
        axis.loglog(k[keep], e[keep], label=name, **((styles or {}).get(name) or style | {"marker": None}))
    axis.set_xlabel("wavenumber k (periods per domain)")
    axis.set_ylabel("energy E(k)")


def draw_intervals(
    axis: Any,
    rows: Sequence[tuple[str, float, float, float]],
    *,
    unit: str = "",
    decided: Sequence[bool] | None = None,
) -> None:
    """One horizontal interval a row (label, mean, low, high) about a line at zero, first row on top.

    decided : rows with a verdict are coloured by their side of zero, the others are grey; by default those whose
        interval leaves zero out
    """
    for i, (_, mean, low, high) in enumerate(rows):
        counts = decided[i] if decided is not None else not low <= 0 <= high
        color = "0.45" if not counts else PALETTE[0] if mean < 0 else PALETTE[1]
        axis.plot([low, high], [i, i], color=color, linewidth=2.2, solid_capstyle="round")
        axis.plot([mean], [i], "o", color=color)
    axis.axvline(0.0, color="0.2", linewidth=0.8)
    axis.set_yticks(range(len(rows)), [label for label, *_ in rows])
    axis.set_ylim(len(rows) - 0.5, -0.5)
    axis.grid(axis="y", visible=False)
    if unit:
        axis.set_xlabel(unit)


def draw_field(fig: Any, axis: Any, values: np.ndarray, grid: Any, *, title: str, signed: bool = False, **options: Any):
    """A 2-D field as an image, axis 0 to the right and axis 1 up, with its colour bar."""
    from sciops.arrays.kinds import refuse_masked

    refuse_masked(values, "values")
    x, y = grid.coordinates()
    if signed:
        largest = float(np.abs(values).max()) or 1.0
        options = {"cmap": "RdBu_r", "vmin": -largest, "vmax": largest} | options
    image = axis.pcolormesh(x, y, np.asarray(values).T, shading="nearest", rasterized=True, **options)
    axis.set_aspect("equal")
    axis.grid(visible=False)
    axis.set_title(title)
    fig.colorbar(image, ax=axis, shrink=0.85)
    return image


def plot_prediction(
    a: Any, truth: Any, prediction: Any, grid: Any = None, *, path: str | Path | None = None, labels: Sequence[str] = ()
) -> None:
    """Draws input, truth, prediction and error of one sample (1, channels, *grid), its first channel, into `path`."""
    fields = [np.asarray(values)[0, 0] for values in (a, truth, prediction)]
    names, panels = ("input", "truth", "prediction", "error"), [*fields, fields[2] - fields[1]]
    with figure(path or "prediction.png", 1, 4, width=2.9, height=2.4) as (fig, axes):
        for axis, name, values in zip(axes[0], names, panels):
            if grid.ndim == 1:
                axis.plot(*grid.coordinates(), values)
                axis.set_title(name)
                axis.set_xlabel("x")
                continue
            shared = {"vmin": fields[1].min(), "vmax": fields[1].max()} if name in ("truth", "prediction") else {}
            draw_field(fig, axis, values, grid, title=name, signed=name == "error", **shared)
            axis.set_xlabel("x")
        axes[0, 0].set_ylabel("\n".join(labels))
