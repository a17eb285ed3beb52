"""`plot_field`: curves of one axis, images of two, slices of three."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from sciops.grids import Grid
from sciops.plotting.drawing import draw_image
from sciops.plotting.sampled import Axis, Sampled, sampled, with_unit
from sciops.plotting.scales import Scale, scale_of
from sciops.plotting.style import PALETTE, new_figure, save_figure, series, styled
from sciops.values import check_whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_COLUMNS = 4
_NARROWEST, _TALLEST = 0.35, 1.6  # height of a panel over its width


def plot_field(
    u: Any,
    grid: Grid | None = None,
    *,
    title: str = "",
    label: str = "",
    units: str = "",
    signed: bool | None = None,
    limits: tuple[float, float] | None = None,
    scale: Literal["shared", "each"] = "shared",
    at: Mapping[str, float] | None = None,
    most: int = 6,
    path: str | os.PathLike[str] | None = None,
) -> Figure:
    """Draws a field: a curve on one axis, an image with a colour bar on two, slices on three.

    Parameters
    ----------
    u : array, or mapping of arrays
        (..., *grid), numpy, torch (any device, with or without gradients) or xarray. Every entry of the leading axes is
        a panel (on one axis: a curve). A mapping {"input": a, "solution": u} names its fields. xarray brings its
        positions, units and names; a trajectory of one axis is drawn over x and time.
    grid : Grid, optional
        Where the points lie; needed for an array of three axes or more, unless it is of xarray.
    title, label, units : str
        Of the figure, and of the values.
    signed : bool, optional
        Diverging colours, symmetric about zero; default by the values (`scale_of`): diverging for both signs, else
        sequential.
    limits : (float, float), optional
        Ends of the colour scale; on one axis of the vertical axis.
    scale : {"shared", "each"}
        One colour scale for all panels, which makes them comparable, or one each, for different quantities.
    at : mapping, optional
        Where three axes are cut: {"z": 0.5}, the nearest plane; default the middle plane of each axis.
    most : int
        Entries that are drawn; the title says where there are more.
    path : str or path-like, optional
        File to write, .png, .pdf or .svg.

    Returns
    -------
    matplotlib.figure.Figure
        Its panels are ``figure.axes``; a notebook shows it.

    Raises
    ------
    TypeError, ValueError
        For what is not an array of real numbers, does not fit the grid, or has nothing finite to draw.

    Examples
    --------
    >>> grid = Grid((85, 85))
    >>> x, y = grid.meshgrid()
    >>> figure = plot_field(np.sin(6 * x) * y, grid, label="u")
    """
    if scale not in ("shared", "each"):
        raise ValueError(f"scale={scale!r}: expected 'shared' or 'each'")
    check_whole(most=most)
    named = {str(name): sampled(one, grid, most=most, name=str(name)) for name, one in fields_by_name(u).items()}
    first = next(iter(named.values()))
    if len({len(one.axes) for one in named.values()}) > 1:
        raise ValueError("fields of one and of several axes cannot share a figure: draw them apart")
    told = with_unit(label, units) if label or units else first.label if len(named) == 1 else ""
    left = [f"{len(one.values)} of {one.total}" for one in named.values() if one.total > len(one.values)]
    with styled():
        if len(first.axes) == 1:
            fig = _curves(named, told, limits)
        else:
            panels = [panel for name, one in named.items() for panel in panels_of(one, name, at)]
            values = [one.values for one in named.values()]
            shared = scale_of(*values, signed=signed, limits=limits) if scale == "shared" else None
            scales = [shared or scale_of(panel.values, signed=signed, limits=limits) for panel in panels]
            fig = _images(panels, scales, told, shared is not None)
        words = [word for word in (title, f"first {left[0]}" if left else "") if word]
        if words:
            fig.suptitle(", ".join(words), fontsize=10)
    if path is not None:
        save_figure(fig, path)
    return fig


def fields_by_name(u: Any) -> dict[Any, Any]:
    """A mapping of fields as it is, one field under the name "u"."""
    if isinstance(u, Mapping) and not hasattr(u, "data_vars"):
        if not u:
            raise ValueError("there is no field in the mapping: expected such as {'input': a, 'solution': u}")
        return dict(u)
    return {"u": u}


class Panel:
    """One image: values over two axes, and what it is called."""

    def __init__(self, values: np.ndarray, x: Axis, y: Axis, title: str) -> None:
        self.values, self.x, self.y, self.title = values, x, y, title


def panels_of(one: Sampled, name: str, at: Mapping[str, float] | None = None) -> list[Panel]:
    """The images of a field on two axes, or the slices of one on three, entry by entry."""
    name = "" if name == "u" else name
    panels = []
    for values, entry in zip(one.values, one.entries):
        told = ", ".join(word for word in (name, entry) if word)
        if len(one.axes) == 2:
            panels.append(Panel(values, *one.axes, told))
        elif len(one.axes) == 3:
            panels += _slices(values, one.axes, told, at)
        else:
            raise ValueError(f"a field of {len(one.axes)} axes cannot be drawn: pass a slice of it")
    return panels


def _slices(values: np.ndarray, axes: tuple[Axis, ...], told: str, at: Mapping[str, float] | None) -> list[Panel]:
    names = [axis.name for axis in axes]
    cuts = {name: None for name in reversed(names)} if at is None else dict(at)
    unknown = [name for name in cuts if name not in names]
    if unknown:
        raise ValueError(f"at names {unknown[0]!r}: expected some of {', '.join(names)}")
    panels = []
    for name, position in cuts.items():
        number = names.index(name)
        points = axes[number].points
        index = len(points) // 2 if position is None else int(np.abs(points - position).argmin())
        where = f"{name} = {points[index]:.4g} {axes[number].unit}".strip()
        x, y = (axis for axis in axes if axis.name != name)
        panels.append(Panel(values.take(index, number), x, y, f"{told}, {where}" if told else where))
    return panels


def _curves(named: Mapping[str, Sampled], label: str, limits: tuple[float, float] | None) -> Any:
    fig, axes = new_figure(width=4.6, height=3.0)
    axis, styles = axes[0, 0], series()
    count = 0
    for name, one in named.items():
        for values, entry in zip(one.values, one.entries):
            count += 1
            style = next(styles) | {"marker": None}
            told = ", ".join(word for word in ("" if name == "u" else name, entry) if word)
            axis.plot(one.axes[0].points, np.where(np.isfinite(values), values, np.nan), label=told, **style)
            if not np.isfinite(values).any():
                raise ValueError(f"{name} holds no finite number: there is nothing to draw")
    axis.set_xlabel(next(iter(named.values())).axes[0].label)
    axis.set_ylabel(label or "u")
    if limits is not None:
        axis.set_ylim(*limits)
    if count > 1:
        axis.legend()
    else:
        axis.lines[0].set_color(PALETTE[0])
    return fig


def _images(panels: list[Panel], scales: list[Scale], label: str, shared: bool) -> Any:
    fig, axes, images = image_panels(panels, scales)
    if shared:
        fig.colorbar(images[0], ax=list(axes), shrink=0.9, label=label, pad=0.02)
    else:
        for axis, image in zip(axes, images):
            fig.colorbar(image, ax=axis, shrink=0.85, label=label)
    return fig


def image_panels(panels: list[Panel], scales: list[Scale], *, width: float = 2.7) -> tuple[Any, list[Any], list[Any]]:
    """(figure, axes, images) of panels in rows of four, without colour bars."""
    columns = min(len(panels), _COLUMNS) if len(panels) % 3 or len(panels) <= _COLUMNS else 3
    first = panels[0]
    sides = [float(np.ptp(axis.points)) or 1.0 for axis in (first.x, first.y)]
    height = min(max(sides[1] / sides[0], _NARROWEST), _TALLEST) * width * 0.8 + 0.55
    fig, grid = new_figure(-(-len(panels) // columns), columns, width=width + 0.3, height=height)
    axes = list(grid.ravel())
    for axis in axes[len(panels) :]:
        axis.remove()
    axes = axes[: len(panels)]
    images = []
    for i, (axis, panel, scale) in enumerate(zip(axes, panels, scales)):
        images.append(draw_image(axis, panel.x.points, panel.y.points, panel.values, **scale.options()))
        axis.set_title(panel.title)
        same = all((p.x.label, p.y.label) == (first.x.label, first.y.label) for p in panels)
        if not same or i + columns >= len(panels):
            axis.set_xlabel(panel.x.label)
        if not same or i % columns == 0:
            axis.set_ylabel(panel.y.label)
    return fig, axes, images
