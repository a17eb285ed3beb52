"""Input checks of the equations: fields on a grid, output times, and constants that may differ by sample."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sciops.arrays.kinds import as_tensor, refuse_masked
from sciops.grids import Grid, check_on_grid

__all__ = ["Start", "constant", "initial", "output_times"]


@dataclass(frozen=True)
class Start:
    """A checked field with a batch axis, and how results go back to the caller.

    Parameters
    ----------
    field
        (batch, [fields,] *grid).
    restore
        Tensor → the caller's kind of array.
    single
        Whether the field came without a batch axis.
    """

    field: Tensor
    restore: Callable[[Tensor], Any]
    single: bool


def initial(
    u0: Any, grid: Grid, *, fields: int | None = None, axes: Sequence[int] = (1, 2, 3), name: str = "u0"
) -> Start:
    """Checks an initial field or a source and gives it a batch axis.

    Parameters
    ----------
    u0
        (batch, *grid) or (*grid); with `fields`, (batch, fields, *grid) or (fields, *grid).
    axes
        Numbers of axes that the equation may have.
    name
        Of the field in messages.

    Raises
    ------
    TypeError
        Complex numbers or half precision.
    ValueError
        A grid or shape that does not fit; NaN or infinity, with their index.
    """
    tensor, restore = as_tensor(u0, name)
    if tensor.dtype not in (torch.float32, torch.float64):
        raise TypeError(f"{name} has dtype {tensor.dtype}; expected float32 or float64")
    check_on_grid(tensor, grid, name)
    if grid.ndim not in axes:
        raise ValueError(f"grid of {grid.ndim} axes: this equation is solved on {' or '.join(map(str, axes))}")
    inner = grid.shape if fields is None else (fields, *grid.shape)
    if tensor.shape[-len(inner) :] != inner or tensor.ndim > len(inner) + 1:
        wanted = ", ".join(map(str, inner))
        raise ValueError(f"{name} has shape {tuple(tensor.shape)}; expected (batch, {wanted}) or ({wanted})")
    if not tensor.numel():
        raise ValueError(f"{name} has shape {tuple(tensor.shape)}: expected at least one sample")
    if not torch.isfinite(tensor).all():
        index = torch.nonzero(~torch.isfinite(tensor))[0].tolist()
        raise ValueError(f"{name}{index} = {tensor[tuple(index)].item()}: expected finite numbers")
    return Start(tensor.reshape(-1, *inner), restore, tensor.ndim == len(inner))


def output_times(times: Any) -> np.ndarray:
    """The times in float64. Raises ValueError unless they are finite, at least 0 and strictly increasing."""
    refuse_masked(times, "times")
    try:
        given = np.atleast_1d(
            np.asarray(times.detach().cpu() if isinstance(times, Tensor) else times, dtype=np.float64)
        )
    except (TypeError, ValueError):
        given = np.empty(0)
    if given.ndim != 1 or not given.size or not np.isfinite(given).all():
        raise ValueError(f"times={_short(times)}: expected finite numbers, such as times=[0.0, 0.5, 1.0]")
    if given[0] < 0 or (np.diff(given) <= 0).any():
        raise ValueError(f"times={_short(times)}: expected increasing times from 0 on; u0 is the field at time 0")
    return given


def constant(
    value: Any,
    name: str,
    start: Start,
    *,
    least: float = -math.inf,
    above: float = -math.inf,
    trailing: int | None = None,
) -> Tensor:
    """A parameter of the equation as a float64 CPU tensor that broadcasts over the batch: one number or one per sample.

    Parameters
    ----------
    least, above
        value ≥ least, value > above.
    trailing
        Axes after the batch; default those of the field.

    Raises
    ------
    ValueError
        Another shape, or a value that is not finite or out of range.
    """
    tensor, _ = as_tensor(value, name)
    tensor = tensor.to("cpu", torch.float64)
    batch = len(start.field)
    if tensor.is_complex() or tensor.shape not in ((), (1,), (batch,)):
        raise ValueError(
            f"{name} has shape {tuple(tensor.shape)}; expected a number, or one for each of {batch} samples"
        )
    if not (torch.isfinite(tensor) & (tensor >= least) & (tensor > above)).all():
        wanted = "a finite number" + (f" of at least {least:g}" if least > -math.inf else "")
        wanted += f" above {above:g}" if above > -math.inf else ""
        raise ValueError(f"{name}={_short(value)}: expected {wanted}")
    return tensor.reshape(-1, *(1,) * (start.field.ndim - 1 if trailing is None else trailing))


def _short(value: Any) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else text[:57] + "…"
