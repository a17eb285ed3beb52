"""Parts of figures, drawn into axes that the caller has made: spectra, intervals, fields."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sciops.arrays.kinds import refuse_masked
from sciops.plotting.scales import Scale
from sciops.plotting.style import PALETTE, series

_SMALLEST_RATIO = 0.2  # of the sides of a field that is drawn with the same length unit along both axes


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

    Rows that reach more than four times as far from zero as the median row are shown as an arrow at the edge with their
    mean in figures, so that they do not squeeze the others.

    decided : rows with a verdict are coloured by their side of zero, the others are grey; by default those whose
        interval leaves zero out
    """
    reach = [max(abs(low), abs(high)) for _, _, low, high in rows]
    within = [r for r in reach if r <= 4 * float(np.median(reach))]
    edge = 1.15 * max(within) if within and len(within) < len(rows) else np.inf
    for i, (_, mean, low, high) in enumerate(rows):
        counts = decided[i] if decided is not None else not low <= 0 <= high
        color = "0.45" if not counts else PALETTE[0] if mean < 0 else PALETTE[1]
        if reach[i] > edge:
            side = 1.0 if mean > 0 else -1.0
            axis.plot([side * edge], [i], ">" if side > 0 else "<", color=color)
            alignment = {"ha": "right" if side > 0 else "left", "va": "center", "textcoords": "offset points"}
            axis.annotate(f"{mean:+.3g}", (side * edge, i), (-6 * side, 0), color=color, fontsize=7.5, **alignment)
            continue
        axis.plot([low, high], [i, i], color=color, linewidth=2.2, solid_capstyle="round")
        axis.plot([mean], [i], "o", color=color)
    axis.axvline(0.0, color="0.2", linewidth=0.8)
    axis.set_yticks(range(len(rows)), [label for label, *_ in rows])
    axis.set_ylim(len(rows) - 0.5, -0.5)
    axis.grid(axis="y", visible=False)
    if unit:
        axis.set_xlabel(unit)


def draw_field(
    fig: Any,
    axis: Any,
    values: np.ndarray,
    grid: Any,
    *,
    title: str,
    signed: bool = False,
    bar: bool = True,
    **options: Any,
):
    """A 2-D field as an image, axis 0 to the right and axis 1 up.

    signed : a scale about zero
    bar : with a colour bar of its own; leave it out where several panels share one
    options : of ``pcolormesh``, such as ``vmin`` and ``vmax``
    """
    refuse_masked(values, "values")
    if signed:
        largest = float(np.abs(values).max()) or 1.0
        options = Scale(-largest, largest, diverging=True).options() | options
    x, y = grid.coordinates()
    image = draw_image(axis, x, y, np.asarray(values), **options)
    axis.set_aspect("equal")
    axis.set_title(title)
    if bar:
        fig.colorbar(image, ax=axis, shrink=0.85)
    return image


def draw_image(axis: Any, x: np.ndarray, y: np.ndarray, values: np.ndarray, **options: Any) -> Any:
    """values[i, j] as a rectangle about (x[i], y[j]), axis 0 to the right; NaN and infinities in light grey.

    Both axes have one length unit unless one side is five times as long as the other.
    """
    finite = np.ma.masked_invalid(values.T)
    image = axis.pcolormesh(x, y, finite, shading="nearest", rasterized=True, **options)
    axis.set_facecolor("0.85")
    axis.grid(visible=False)
    sides = sorted(float(np.ptp(points)) for points in (x, y))
    if sides[0] > _SMALLEST_RATIO * sides[1]:
        axis.set_aspect("equal")
    return image
