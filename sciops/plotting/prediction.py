"""What a model was given, the truth, what it predicted and its error, side by side."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sciops.plotting.drawing import draw_field
from sciops.plotting.style import PALETTE, new_figure, save_figure, styled

if TYPE_CHECKING:
    from sciops.plotting.picture import Picture


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
) -> Picture:
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
        Known to no window: a notebook shows it where it is named.

    Raises
    ------
    ValueError
        For a prediction of more than two axes, arrays whose shapes differ, and another number of labels than rows.

    Examples
    --------
    >>> plot_prediction(a[:2], u[:2], sciops.predict("runs/train", a[:2]), grid, path="u.png")    # doctest: +SKIP
    """
    grid = _grid_of_drawn(prediction, grid)
    guess = _samples_of(prediction, grid, names[2])
    given, true = (None if v is None else _samples_of(v, grid, name) for v, name in ((a, names[0]), (truth, names[1])))
    for name, values in ((names[0], given), (names[1], true)):
        if values is not None and values.shape != guess.shape:
            raise ValueError(f"{name} has {len(values)} samples and {names[2]} {len(guess)}: expected the same number")
    if labels and len(labels) != len(guess):
        raise ValueError(f"{len(labels)} labels for {len(guess)} rows: expected one for each sample")
    line = grid.ndim == 1
    columns = (given is not None) + (1 if line or true is None else 2) + (true is not None)
    width, height = (3.1, 2.3) if line else (2.9, 2.4)
    with styled():
        fig, panels = new_figure(len(guess), columns, width=width, height=height)
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
    if path is not None:
        save_figure(fig, path)
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
