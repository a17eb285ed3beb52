"""The colour scale of a field, or of several that are compared: diverging about zero, or sequential."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

_LEAST = 0.05  # of the larger side: what is less is the undershoot of a positive field


@dataclass(frozen=True)
class Scale:
    """A colour scale from `low` to `high`.

    diverging : whether zero is white and both signs have colours of their own (blue below, red above)
    """

    low: float
    high: float
    diverging: bool = False

    def options(self) -> dict[str, Any]:
        """Keywords of matplotlib's image functions: cmap, vmin, vmax."""
        return {"cmap": "RdBu_r" if self.diverging else "cividis", "vmin": self.low, "vmax": self.high}


def scale_of(*fields: np.ndarray, signed: bool | None = None, limits: tuple[float, float] | None = None) -> Scale:
    """The one colour scale with which several fields can be compared.

    Parameters
    ----------
    *fields : array
        Real values of any shape; NaN and infinities do not count.
    signed : bool, optional
        Diverging colours, symmetric about zero. Default: where the fields have both signs, and the smaller side is at
        least a twentieth of the larger one.
    limits : (float, float), optional
        Ends of the scale, diverging where they are −b and b; default the smallest and largest value.

    Returns
    -------
    Scale

    Raises
    ------
    ValueError
        When no value is finite, the limits are not finite and increasing, or their difference overflows.
    """
    if limits is None:
        finite = [np.asarray(field, np.float64)[np.isfinite(field)] for field in fields]
        finite = [values for values in finite if values.size]
        if not finite:
            raise ValueError("the field holds no finite number: there is nothing to draw")
        low, high = min(float(v.min()) for v in finite), max(float(v.max()) for v in finite)
    else:
        low, high = (float(limit) for limit in limits)
        if not (np.isfinite([low, high]).all() and low < high):
            raise ValueError(f"limits={limits!r}: expected two finite numbers, the smaller one first")
    if signed is None:
        signed = low == -high if limits is not None else min(-low, high) > _LEAST * max(-low, high)
    if signed:
        high = max(abs(low), abs(high))
        low = -high
    if low == high:  # a constant still has a place in its scale
        low, high = low - (abs(low) or 1.0) / 2, high + (abs(high) or 1.0) / 2
    if not np.isfinite(high - low):
        raise ValueError(f"values from {low:g} to {high:g} cannot be drawn: divide the field by a unit first")
    return Scale(low, high, signed)
