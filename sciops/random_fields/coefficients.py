"""Coefficients of an equation from Gaussian fields: two phases by the sign, and the exponential."""

from __future__ import annotations

from typing import Any

import torch

from sciops.arrays.kinds import as_tensor


def two_phase(field: Any, low: float = 3.0, high: float = 12.0) -> Any:
    """Two-valued field: `high` where field ≥ 0, `low` elsewhere; NaN remains NaN.

    Parameters
    ----------
    field
        Any shape, numpy or torch.

    Returns
    -------
    array
        Same kind, shape and dtype (float64 for integers).
    """
    g, restore = as_tensor(field, "field")
    phases = torch.where(g >= 0, g.new_tensor(high), g.new_tensor(low))
    # one pass that finds no NaN saves two
    return restore(torch.where(g.isnan(), g, phases) if torch.isnan(g.sum()) else phases)


def log_normal(field: Any, scale: float = 1.0) -> Any:
    """exp(field / scale): positive, with contrast that grows as scale shrinks. Any shape, same kind back.

    Raises ValueError for scale ≤ 0.
    """
    if not scale > 0:
        raise ValueError(f"scale={scale}: expected a positive number")
    g, restore = as_tensor(field, "field")
    return restore(torch.exp(g / scale))
