"""`plot_spectrum` and `plot_layer_spectra`: energy against wavenumber, of fields and of the layers of a model."""

from __future__ import annotations

import fnmatch
import math
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sciops.arrays.dimensions import by_name
from sciops.arrays.kinds import as_tensor
from sciops.grids import Grid
from sciops.plotting.drawing import draw_spectra
from sciops.plotting.fields import fields_by_name
from sciops.plotting.style import new_figure, save_figure, series, styled
from sciops.spectral import power_spectrum
from sciops.values import check_whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from sciops.spectral.modes import Extension, Taper

_DECADES = 12.0  # that are drawn below the largest energy
_APART = 0.052  # of the height of the axes, between two labels


def plot_spectrum(
    u: Any,
    grid: Grid | Mapping[str, Grid] | None = None,
    *,
    taper: Taper | None = None,
    extension: Extension | None = None,
    title: str = "",
    path: str | os.PathLike[str] | None = None,
) -> Figure:
    """Draws the power spectrum of fields against the wavenumber, with the Nyquist wavenumber of each grid marked.

    Parameters
    ----------
    u : array, or mapping of arrays
        (..., *grid), numpy, torch (any device, with or without gradients) or xarray; the spectrum is the mean over the
        leading axes. A mapping {"truth": u, "prediction": p} draws several, with a legend.
    grid : Grid, or mapping of Grid
        Of all fields, or of each one by its name. xarray whose coordinates say where the points lie goes without.
    taper, extension
        As in `sciops.spectral.power_spectrum`. Default by the grid: none where it is periodic; else the cosine modes
        (extension="even"), or taper="hann" where the grid stops short of a wall.
    title : str
        Of the figure.
    path : str or path-like, optional
        File to write, .png, .pdf or .svg.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    TypeError, ValueError
        For what is not an array of finite numbers, or does not fit its grid.

    Notes
    -----
    Wavenumbers count periods per longest side of the first grid, so that spectra from different grids share an axis.
    Energy beyond the Nyquist wavenumber is that of modes in the corners of the spectrum.

    Examples
    --------
    >>> grid = Grid(64, centering="periodic")
    >>> figure = plot_spectrum(np.sin(2 * np.pi * 3 * grid.coordinates()[0]), grid)
    """
    named = fields_by_name(u)
    grids = {name: _grid_for(name, one, grid) for name, one in named.items()}
    spectra, limits, kinds, unit = {}, {}, set(), 0.0
    for name, one in named.items():
        options = _options(grids[name], taper, extension)
        kinds.add("cosine modes" if options.get("extension") == "even" else "")
        field = as_tensor(by_name(one), str(name))[0].detach()
        if not bool(field.isfinite().all()):
            raise ValueError(f"{name} holds NaN or infinity: its spectrum is not defined")
        if not field.numel():
            raise ValueError(f"{name} has shape {tuple(field.shape)}: there is nothing to draw")
        found = power_spectrum(field, grids[name], **options).mean()
        unit = unit or found.fundamental
        spectra[str(name)] = (found.wavenumber.cpu().numpy() * found.fundamental / unit, found.energy.cpu().numpy())
        limits[grids[name].shape] = math.pi / max(grids[name].spacing) / unit
    if not any(_drawn(*one) for one in spectra.values()):
        raise ValueError("no finite energy at a wavenumber above zero: the fields are constant, or too large to square")
    with styled():
        fig, axes = new_figure(width=4.6, height=3.2)
        axis = axes[0, 0]
        draw_spectra(axis, spectra, floor=10.0**-_DECADES)
        for shape, nyquist in limits.items():
            axis.axvline(nyquist, color="0.35", linewidth=0.9, linestyle=(0, (1, 1.5)))
            told = "Nyquist" if len(limits) == 1 else f"Nyquist of {'×'.join(map(str, shape))}"
            place = {"xycoords": ("data", "axes fraction"), "xytext": (-2, 0), "textcoords": "offset points"}
            look = {"rotation": 90, "fontsize": 7.5, "ha": "right", "va": "top", "color": "0.35"}
            axis.annotate(told, (nyquist, 0.98), **place, **look)
        _number_wavenumbers(axis)
        if kinds != {""}:
            axis.set_xlabel(f"{axis.get_xlabel()}, cosine modes")
        if len(spectra) > 1:
            axis.legend(loc="lower left")
        axis.set_title(title)
    if path is not None:
        save_figure(fig, path)
    return fig


def plot_layer_spectra(
    spectra: Any,
    *,
    layers: Sequence[str] | None = None,
    most: int = 8,
    title: str = "",
    path: str | os.PathLike[str] | None = None,
) -> Figure:
    """Draws the power spectrum of each layer of a model, every line with its own colour, marker, style and label.

    Parameters
    ----------
    spectra : xarray.DataArray
        (layer, wavenumber), from `sciops.spectral.layer_spectra`.
    layers : sequence of str, optional
        Layers to draw, with wildcards: ["input", "blocks.*.mixer", "output"]. Default: all, or, where there are more
        than `most`, that many of them evenly spaced from the first to the last.
    most : int
        Lines without `layers`; beyond eight, colours repeat with another line style.
    title : str
        Of the figure.
    path : str or path-like, optional
        File to write, .png, .pdf or .svg.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    TypeError, ValueError
        For what is not an array of layer spectra, and layers that it does not have.
    """
    if tuple(getattr(spectra, "dims", ())) != ("layer", "wavenumber"):
        raise TypeError("expected the (layer, wavenumber) array of sciops.spectral.layer_spectra(model, x, grid)")
    check_whole(most=most)
    known = [str(name) for name in spectra["layer"].values]
    if layers is None:
        chosen = [known[i] for i in dict.fromkeys(np.linspace(0, len(known) - 1, most).round().astype(int).tolist())]
    else:
        patterns = [layers] if isinstance(layers, str) else list(layers)
        chosen = [name for name in known if any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)]
        missing = [pattern for pattern in patterns if not fnmatch.filter(known, pattern)]
        if missing:
            raise ValueError(
                f"no layer {missing[0]!r}: the spectra hold {', '.join(known[:8])}{', …' * (len(known) > 8)}"
            )
    wavenumber = np.asarray(spectra["wavenumber"].values, np.float64)
    lines = {name: (wavenumber, np.asarray(spectra.sel(layer=name).values, np.float64)) for name in chosen}
    if not any(_drawn(*one) for one in lines.values()):
        raise ValueError("the layers carry no finite energy at a wavenumber above zero")
    with styled():
        fig, axes = new_figure(width=5.8, height=3.6)
        axis = axes[0, 0]
        styles = {name: style | _spaced(i) for i, (name, style) in enumerate(zip(lines, series()))}
        draw_spectra(axis, lines, styles=styles, floor=10.0**-_DECADES)
        _number_wavenumbers(axis)
        _label_ends(axis)
        if len(chosen) < len(known) and layers is None:
            title = f"{title} ({len(chosen)} of {len(known)} layers)".strip()
        axis.set_title(title)
    if path is not None:
        save_figure(fig, path)
    return fig


def _spaced(number: int) -> dict[str, Any]:
    """A marker at every few points, elsewhere on each line, so that markers of near lines do not hide each other."""
    return {"markevery": (number % 5 * 0.02, 0.1), "markersize": 4.0}


def _number_wavenumbers(axis: Any) -> None:
    """Ticks at 1, 2 and 5 times the powers of ten."""
    from matplotlib.ticker import LogLocator, NullFormatter

    axis.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.xaxis.set_major_formatter("{x:g}")
    axis.xaxis.set_minor_formatter(NullFormatter())


def _label_ends(axis: Any) -> None:
    """The name of each line in its colour beside its last point; names that would overlap move up and down."""
    low, high = (math.log10(limit) for limit in axis.get_ylim())
    drawn = [line for line in axis.get_lines() if len(line.get_xdata())]
    ends = {line: (math.log10(float(line.get_ydata()[-1])) - low) / (high - low) for line in drawn}
    order = sorted(drawn, key=ends.__getitem__)
    heights: list[float] = []
    for line in order:  # from below, each at least as far above the one before
        heights.append(max(ends[line], heights[-1] + _APART) if heights else ends[line])
    over = max(0.0, heights[-1] - 1.0)
    for i in reversed(range(len(heights))):  # what was pushed above the top moves down again
        heights[i] = min(heights[i], 1.0 - _APART * (len(heights) - 1 - i)) if over else heights[i]
    for line, height in zip(order, heights):
        axis.annotate(
            line.get_label(),
            (line.get_xdata()[-1], line.get_ydata()[-1]),
            xytext=(1.04, height),
            textcoords="axes fraction",
            color=line.get_color(),
            fontsize=7.5,
            va="center",
            annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": line.get_color(), "linewidth": 0.6, "shrinkA": 0, "shrinkB": 2},
        )


def _grid_for(name: Any, one: Any, grid: Grid | Mapping[str, Grid] | None) -> Grid:
    if isinstance(grid, Mapping):
        if name not in grid:
            raise ValueError(f"grid names {', '.join(map(str, grid))}, and no grid for {name!r}")
        return grid[name]
    if grid is not None:
        return grid
    if not (hasattr(one, "dims") and hasattr(one, "coords")):
        raise ValueError(f"a spectrum needs the grid of {name}: pass plot_spectrum(u, sciops.Grid(…))")
    from sciops.datasets.conventions import grid_of

    found = grid_of(one.to_dataset(name="u"), "u")
    for dim, points in zip(("x", "y", "z"), found.coordinates()):
        stored = np.asarray(one.coords[dim].values) if dim in one.coords else points
        if stored.shape != points.shape or not np.allclose(stored, points, rtol=0, atol=1e-3 * max(found.spacing)):
            raise ValueError(f"{name} is a part of its grid along {dim}: pass grid=, where its points lie")
    return found


def _options(grid: Grid, taper: Taper | None, extension: Extension | None) -> dict[str, Any]:
    if taper is not None or extension is not None or grid.centering == "periodic":
        return {"taper": taper, "extension": extension}
    return {"extension": "even"} if grid.reaches_walls else {"taper": "hann"}


def _drawn(wavenumber: np.ndarray, energy: np.ndarray) -> bool:
    return bool((np.isfinite(energy) & (energy > 0) & (wavenumber > 0)).any())
