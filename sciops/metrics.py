"""Errors of a prediction, one number a sample; averaging over the batch is the caller's.

Throughout, e = p − u, the sum Σ runs over the points of the grid and ⟨v⟩ = Σ w v / Σ w, with w the quadrature weights
of the grid (trapezoid on nodes, so that numbers from different grids can be compared) or 1 where no grid is given.

==============  =====================================  ===========================================================
metric          formula                                who reports it
==============  =====================================  ===========================================================
relative_l2     √(⟨e²⟩ / ⟨u²⟩)                         Li et al. (arXiv:2010.08895), neuraloperator, most tables
relative_l1     ⟨|e|⟩ / ⟨|u|⟩                          CNO (arXiv:2302.01178), as median over samples
relative_mse    ⟨e²⟩ / ⟨u²⟩                            MANO (arXiv:2507.02748): relative_l2 squared, before any mean
h1              √(⟨e² + |∇e|²⟩ / ⟨u² + |∇u|²⟩)         neuraloperator's H1 loss
nrmse           channel mean of √(⟨e²⟩ / ⟨u²⟩)         PDEBench (arXiv:2210.07182)
vrmse           channel mean of √(⟨e²⟩ / ⟨(u − ⟨u⟩)²⟩) The Well (arXiv:2412.00568), there with 1e-7 added below
max_error       max |e|, in the units of u             PDEBench
==============  =====================================  ===========================================================

The mean of squared ratios is not the square of the mean ratio: `relative_mse` and `relative_l2` tables do not convert
into each other. Most codes weigh every point alike; on a node grid that counts the wall twice as much as the trapezoid
rule.

Axes. Inputs are (batch, ..., *grid). Axes between batch and grid (channels, times) are summed with the points, except
in `nrmse` and `vrmse`, which normalise each of them by itself and average, as the benchmarks that define them do. With
``grid=None`` all axes but the first are points.

Precision. Error and target of a sample (in `nrmse` and `vrmse` of a channel) are each divided by a power of two near
their largest value before they are squared, so that any unit, and an error far from the size of its target, gives the
same digits; a ratio beyond the range of its dtype is inf. Half precision is computed and returned in float32. A NaN
anywhere in a sample gives NaN for it, an infinity inf or NaN; other samples do not see it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any, NamedTuple

import torch
from torch import Tensor

from sciops.arrays.kinds import as_tensor
from sciops.arrays.scale import power_of_two
from sciops.grids import Grid, check_on_grid

__all__ = [
    "METRICS",
    "h1",
    "imported",
    "max_error",
    "metric_of",
    "nrmse",
    "relative_l1",
    "relative_l2",
    "relative_mse",
    "vrmse",
]


def relative_l2(prediction: Any, target: Any, grid: Grid | None = None) -> Any:
    """‖p − u‖ / ‖u‖ per sample, in the L² norm of the grid.

    prediction, target : (batch, ..., *grid)   numpy or torch, same units
    grid : Grid | None     quadrature weights; None weighs every point alike
    returns : (batch,)     same kind as the input; inf where u = 0 and p ≠ 0, 0 where both vanish

    Raises ValueError when the shapes differ, naming both.
    """
    pair = _pair(prediction, target, grid)
    return pair.restore(_ratio(pair.norm(pair.error), pair.norm(pair.target)))


def relative_l1(prediction: Any, target: Any, grid: Grid | None = None) -> Any:
    """∫|p − u| / ∫|u| per sample. Shapes, edges and errors as `relative_l2`."""
    pair = _pair(prediction, target, grid)
    error, size = (pair.norm(v, _l1) for v in (pair.error, pair.target))
    return pair.restore(_ratio(error, size))


def relative_mse(prediction: Any, target: Any, grid: Grid | None = None) -> Any:
    """‖p − u‖² / ‖u‖² per sample: the square of `relative_l2`. Shapes, edges and errors as there."""
    pair = _pair(prediction, target, grid)
    return pair.restore(_ratio(pair.norm(pair.error), pair.norm(pair.target)).square())


def h1(prediction: Any, target: Any, grid: Grid | None = None) -> Any:
    """‖p − u‖_H¹ / ‖u‖_H¹ per sample, with the full norm ‖v‖²_H¹ = ∫ v² + Σ_i (∂v/∂x_i)².

    Derivatives are second-order differences with the spacing of the grid: central inside, one-sided with three points
    at the ends of node and cell grids, wrapped on periodic ones. The two terms of the norm carry different units; with
    x in units of the domain's width this is neuraloperator's convention.

    prediction, target : (batch, ..., *grid)
    grid : Grid            needed: it says which axes are space, and how long they are
    returns : (batch,)     inf where u = 0 and p ≠ 0, 0 where both vanish

    Raises ValueError without a grid, for fewer than 3 points on an axis, and when the shapes differ.
    """
    if grid is None:
        raise ValueError("h1 differentiates along the grid: got grid=None; pass grid=Grid(shape)")
    if min(grid.shape) < 3:
        raise ValueError(f"h1 needs at least 3 points per axis for its differences; got a grid of shape {grid.shape}")
    pair = _pair(prediction, target, grid)
    error, size = (pair.norm(v, partial(_h1, grid=grid)) for v in (pair.error, pair.target))
    return pair.restore(_ratio(error, size))


def nrmse(prediction: Any, target: Any, grid: Grid | None = None) -> Any:
    """RMSE / RMS of the target, per sample: each channel by itself, then the mean over channels (arXiv:2210.07182).

    Equal to `relative_l2` for one channel. Without a grid no axis is known to be a channel and all axes but the first
    are taken together. Shapes, edges and errors as `relative_l2`; one vanishing channel makes the mean infinite.
    """
    pair = _pair(prediction, target, grid, each_channel=True)
    return pair.restore(_ratio(pair.norm(pair.error), pair.norm(pair.target)))


def vrmse(prediction: Any, target: Any, grid: Grid | None = None) -> Any:
    """RMSE / standard deviation of the target over space, per sample: channel by channel, then their mean.

    1 is what predicting the target's own mean would score (arXiv:2412.00568, there with the unbiased variance and 1e-7
    added to it). Axes as in `nrmse`. inf where u is constant and p ≠ u, 0 where p = u.
    """
    pair = _pair(prediction, target, grid, each_channel=True)
    # relative to one value the spread of a constant field is exactly zero, and nearly constant ones lose no digits
    spread = pair.target - pair.target[..., :1]
    return pair.restore(_ratio(pair.norm(pair.error), pair.norm(spread, _deviation)))


def max_error(prediction: Any, target: Any, grid: Grid | None = None) -> Any:
    """max |p − u| per sample over all points and channels, in the units of u (`grid` only checks the shape)."""
    pair = _pair(prediction, target, grid)
    return pair.restore(pair.error.abs().flatten(1).amax(1))


METRICS: dict[str, Callable[..., Any]] = {
    "relative_l2": relative_l2,
    "relative_l1": relative_l1,
    "relative_mse": relative_mse,
    "h1": h1,
    "nrmse": nrmse,
    "vrmse": vrmse,
    "max_error": max_error,
}


# Those that need no grid; without one they weigh every point alike, as published tables do.
EVERY_POINT_ALIKE = (relative_l2, relative_l1, relative_mse, max_error)


def metric_of(name: str) -> Callable[..., Any]:
    """The metric of a name in `METRICS`, or a function of your own by ``module:function``.

    The function is called as ``function(prediction, target, grid)`` with tensors (batch, channel, *grid), and returns
    one number a sample. For command lines: it runs the module's code, so never pass a name that was read from a file.

    Raises
    ------
    ValueError
        The name is unknown, its module cannot be imported or has no such function; when it is called, that it does not
        return one number a sample.
    """
    if name in METRICS:
        return METRICS[name]
    function = imported(name, "metric", f"one of {', '.join(METRICS)}, or module:function")

    def checked(prediction: Any, target: Any, grid: Grid | None = None) -> Tensor:
        values = torch.as_tensor(function(prediction, target, grid))
        if values.shape != (len(prediction),):
            got = tuple(values.shape)
            raise ValueError(
                f"metric {name!r} returned shape {got}: expected one number a sample, ({len(prediction)},)"
            )
        return values

    return checked


def imported(name: str, what: str, expected: str = "module:function") -> Callable[..., Any]:
    """The function that a command line names as ``module:function``; it runs the module's code.

    what, expected : for the message of ValueError, where there is no such function
    """
    module, colon, function = name.partition(":")
    if not (module and colon and function):
        raise ValueError(f"{what} {name!r}: expected {expected}")
    try:
        found = getattr(import_module(module), function, None)
    except ImportError as error:
        hint = f"; is the folder of {module}.py on PYTHONPATH?" if "No module named" in str(error) else ""
        raise ValueError(f"{what} {name!r}: {error}{hint}") from None
    if not callable(found):
        raise ValueError(f"{what} {name!r}: {module} has no function {function!r}")
    return found


class _Pair(NamedTuple):
    error: Tensor  # (batch, channels, points)
    target: Tensor  # (batch, channels, points)
    weights: Tensor | None  # (points,), mean 1
    dims: tuple[int, ...]  # that a norm runs over: channels and points, or the points of each channel
    restore: Callable[[Tensor], Any]

    def norm(self, v: Tensor, law: Callable[..., Tensor] | None = None) -> tuple[Tensor, Tensor]:
        """(norm of v / unit by `law`, default `_l2`; unit), both (batch, 1 or channels, 1)."""
        unit = power_of_two(v, self.dims)
        return (law or _l2)(v / unit, self.weights, self.dims), unit


def _pair(prediction: Any, target: Any, grid: Grid | None, *, each_channel: bool = False) -> _Pair:
    p, restore = as_tensor(prediction, "prediction")
    u, _ = as_tensor(target, "target")
    if p.shape != u.shape:
        raise ValueError(
            f"prediction has shape {tuple(p.shape)}, target {tuple(u.shape)}: expected the same shape for both"
        )
    if grid is not None:
        check_on_grid(p, grid, "prediction")
    if p.ndim < 1 + (grid.ndim if grid is not None else 0):
        raise ValueError(
            f"prediction has shape {tuple(p.shape)}: expected (batch, ..., *grid); pass x[None] for one field"
        )
    if p.numel() == 0 and p.shape[0]:
        raise ValueError(f"prediction has shape {tuple(p.shape)}: there is no point to compare")
    dtype = torch.promote_types(torch.promote_types(p.dtype, u.dtype), torch.float32)
    p, u = p.to(dtype), u.to(dtype)
    points = grid.size if grid is not None else (p[0].numel() if p.shape[0] else 1)
    channels = p[0].numel() // points if p.shape[0] else 1
    p, u = (v.reshape(v.shape[0], channels, points) for v in (p, u))
    weights = None
    if grid is not None:
        w = torch.as_tensor(grid.weights().ravel(), dtype=p.abs().dtype, device=p.device)
        weights = w / w.mean()
    return _Pair(p - u, u, weights, (2,) if each_channel else (1, 2), restore)


def _ratio(error: tuple[Tensor, Tensor], size: tuple[Tensor, Tensor]) -> Tensor:
    """(batch,) ‖e‖ / ‖u‖ of norms with their units, mean over channels with norms of their own."""
    (e, above), (u, below) = error, size
    ratio = e / torch.where((e == 0) & (u == 0), torch.ones_like(u), u)
    return (ratio * (above / below)).flatten(1).mean(1)


def _l2(v: Tensor, weights: Tensor | None, dims: tuple[int, ...]) -> Tensor:
    # vector_norm, unlike sqrt of a sum, has a gradient (zero) at v = 0
    return torch.linalg.vector_norm(v if weights is None else v * weights.sqrt(), dim=dims, keepdim=True)


def _l1(v: Tensor, weights: Tensor | None, dims: tuple[int, ...]) -> Tensor:
    return _mean(v.abs(), weights).sum(dims, keepdim=True)


def _deviation(v: Tensor, weights: Tensor | None, dims: tuple[int, ...]) -> Tensor:
    return _l2(v - _mean(v, weights), weights, dims)


def _h1(v: Tensor, weights: Tensor | None, dims: tuple[int, ...], *, grid: Grid) -> Tensor:
    return _l2(_with_gradient(v, grid), weights, dims)


def _mean(v: Tensor, weights: Tensor | None) -> Tensor:
    return (v if weights is None else v * weights).mean(2, keepdim=True)


def _with_gradient(v: Tensor, grid: Grid) -> Tensor:
    """(batch, channels · (1 + ndim), points): v and its derivatives, stacked as channels."""
    field = v.unflatten(2, grid.shape)
    parts = [field]
    for axis, h in enumerate(grid.spacing, start=2):
        if grid.centering == "periodic":
            parts.append((field.roll(-1, axis) - field.roll(1, axis)) / (2 * h))
        else:
            parts.append(torch.gradient(field, spacing=h, dim=axis, edge_order=2)[0])
    return torch.cat(parts, dim=1).flatten(2)
