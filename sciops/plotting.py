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
    path: str | Path,
    rows: int = 1,
    columns: int = 1,
    *,
    width: float = 3.4,
    height: float = 2.7,
    caption: str = "",
    **options: Any,
):
    """A styled matplotlib figure that is written to `path` when the block ends without an error.

    rows, columns : panels; width, height : inches per panel; options : passed to ``plt.subplots``
    caption : what it shows, written into a PNG as its description, which pages of `sciops.reports` put below it
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
                about = {"metadata": {"Description": caption}} if caption and path.suffix == ".png" else {}
                fig.savefig(temporary, format=path.suffix[1:], **about)
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
    a: Any,
    truth: Any,
    prediction: Any,
    grid: Any = None,
    *,
    path: str | os.PathLike | None = None,
    labels: Sequence[str] = (),
    names: tuple[str, str, str] = ("input", "truth", "prediction"),
    axes: Sequence[str] = ("x", "y"),
) -> Any:
    """Draws input, truth, prediction and error of one sample or several, a row each.

    Truth and prediction share the colours of the truth's range, in which what lies beyond it has the colour of the end;
    the error, prediction − truth, has its own colours about zero. On a line, truth and prediction are two curves in one
    panel.

    Parameters
    ----------
    a, truth, prediction : array of numpy, torch or xarray
        Fields (*grid), (samples, *grid) or (samples, channels, *grid), of which the first channel is drawn, on a grid
        of one or two axes. `a` None leaves the input out, `truth` None truth and error.
    grid : Grid, optional
        Where the points are; by default that of a labelled array, else the unit box, with arrays (*grid) alone.
    path : str or Path, optional
        The picture to write, in the format of its ending; it appears only when whole.
    labels : sequence of str
        One for each row, such as "sample 3, relative L2 0.02".
    names : (str, str, str)
        Titles of input, truth and prediction.
    axes : sequence of str
        Labels of the axes of the grid.

    Returns
    -------
    matplotlib.figure.Figure
        Closed for pyplot: show it in a notebook by naming it, or save it.

    Raises
    ------
    ValueError
        For a prediction of more than two axes, arrays whose shapes differ, and another number of labels than rows.

    Examples
    --------
    >>> plot_prediction(a[:2], u[:2], sciops.predict("runs/train", a[:2]), grid, path="u.png")    # doctest: +SKIP
    """
    import matplotlib

    if not os.environ.get("MPLBACKEND") and not os.environ.get("DISPLAY"):
        matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    grid = _grid_of_drawn(prediction, grid)
    guess = _samples_of(prediction, grid, names[2])
    given, true = (None if v is None else _samples_of(v, grid, name) for v, name in ((a, names[0]), (truth, names[1])))
    for name, values in ((names[0], given), (names[1], true)):
        if values is not None and values.shape != guess.shape:
            raise ValueError(f"{name} has {len(values)} samples and {names[2]} {len(guess)}: expected the same number")
    if labels and len(labels) != len(guess):
        raise ValueError(f"{len(labels)} labels for {len(guess)} rows: expected one for each sample")
    place = None if path is None else writable_file(path)
    line = grid.ndim == 1
    columns = (given is not None) + (1 if line or true is None else 2) + (true is not None)
    with plt.rc_context(_STYLE):
        width, height = (3.1, 2.3) if line else (2.9, 2.4)
        size = (width * columns, height * len(guess))
        fig, panels = plt.subplots(len(guess), columns, figsize=size, squeeze=False)
        try:
            for i, row in enumerate(panels):
                own = (None if given is None else given[i], None if true is None else true[i], guess[i])
                (_draw_line if line else _draw_plane)(fig, row, own, grid, names)
                for panel in row:
                    panel.set_xlabel(axes[0])
                    if not line and not 1 / 3 <= _proportion(grid) <= 3:
                        panel.set_aspect("auto")
                if not line:
                    row[0].set_ylabel(axes[1])
                if labels:
                    row[0].set_ylabel("\n".join((labels[i], *(() if line else (axes[1],)))))
            if place is not None:
                with replacing(place) as temporary:
                    fig.savefig(temporary, format=place.suffix[1:])
        finally:
            plt.close(fig)
    return fig


def _grid_of_drawn(values: Any, grid: Any) -> Any:
    """The grid of what is drawn: the given one, that of a labelled array, or nodes of the unit box."""
    from sciops.grids import Grid

    if grid is None and hasattr(values, "dims") and hasattr(values, "to_dataset"):
        from sciops.datasets.conventions import grid_of

        grid = grid_of(values.to_dataset(name="field"), "field")
    shape = tuple(np.shape(values)) if grid is None else grid.shape
    if len(shape) not in (1, 2):
        what = "pass grid=, which says what of it is space" if grid is None else "draw a plane of it"
        raise ValueError(f"the prediction has {len(shape)} axes, expected one or two: {what}")
    return Grid(shape) if grid is None else grid


def _samples_of(values: Any, grid: Any, name: str) -> np.ndarray:
    """(samples, *grid) of fields with or without axes of samples and channels."""
    from sciops.arrays.kinds import as_tensor

    tensor, _ = as_tensor(values, name)
    array = tensor.detach().cpu().numpy()
    lead = array.ndim - grid.ndim
    if not 0 <= lead <= 2 or array.shape[lead:] != grid.shape:
        raise ValueError(f"{name} has shape {array.shape}: expected (samples, *{grid.shape}), or one field")
    return array[None] if lead == 0 else array if lead == 1 else array[:, 0]


def _proportion(grid: Any) -> float:
    (left, right), (low, high) = grid.extent
    return (high - low) / (right - left)


def _draw_plane(fig: Any, row: Any, fields: tuple, grid: Any, names: tuple[str, str, str]) -> None:
    given, true, guess = fields
    row = iter(row)
    if given is not None:
        draw_field(fig, next(row), given, grid, title=names[0])
    low, high = _range(guess if true is None else true)
    options: dict[str, Any] = {"vmin": low, "vmax": high}
    if low < 0 < high and min(-low, high) > 0.1 * max(-low, high):
        largest = max(-low, high)
        options = {"vmin": -largest, "vmax": largest, "cmap": "RdBu_r"}
    for title, values in ((names[1], true), (names[2], guess)):
        if values is not None:
            draw_field(fig, next(row), values, grid, title=title, **options)
    if true is not None:
        wrong = guess - true
        largest = max(map(abs, _range(wrong, floor=0.0))) or 1.0
        limits: dict[str, Any] = {"vmin": -largest, "vmax": largest, "cmap": "PuOr_r"}
        draw_field(fig, next(row), wrong, grid, title=f"error: {names[2]} − {names[1]}", **limits)


def _draw_line(fig: Any, row: Any, fields: tuple, grid: Any, names: tuple[str, str, str]) -> None:
    given, true, guess = fields
    (x,), panels = grid.coordinates(), iter(row)
    if given is not None:
        panel = next(panels)
        panel.plot(x, given, color=PALETTE[6])
        panel.set_title(names[0])
    panel = next(panels)
    if true is not None:
        panel.plot(x, true, color=PALETTE[0], label=names[1])
    panel.plot(x, guess, color=PALETTE[1], linestyle="--", label=names[2])
    panel.set_title(names[2] if true is None else f"{names[1]} and {names[2]}")
    if true is not None:
        low, high = _range(true)
        panel.set_ylim(low - 0.25 * (high - low), high + 0.25 * (high - low))
        panel.legend()
        panel = next(panels)
        panel.plot(x, guess - true, color=PALETTE[3])
        panel.axhline(0.0, color="0.2", linewidth=0.8)
        panel.set_title(f"error: {names[2]} − {names[1]}")


def _range(values: np.ndarray, *, floor: float = 1e-12) -> tuple[float, float]:
    """Smallest and largest finite value, apart by more than `floor` of their size."""
    finite = values[np.isfinite(values)]
    if not finite.size:
        return 0.0, 1.0
    low, high = float(finite.min()), float(finite.max())
    return (low, high) if high - low > floor * max(abs(low), abs(high)) else (low - 0.5, high + 0.5)
