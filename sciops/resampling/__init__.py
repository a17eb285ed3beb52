"""Resampling of a field from one grid to another, exact where that is possible.

=========  ==================================================  ==========================================  ============
method     interpolant, axis by axis                           exact for                                   to coarser
=========  ==================================================  ==========================================  ============
sine       Σ b_p sin(pπs), odd extension across the walls      u = 0 on the walls, p ≤ interior nodes      drops modes
cosine     Σ b_p cos(pπs), even extension                      zero normal derivative, p < n               drops modes
fourier    trigonometric, minimal oscillation                  periodic u, wavenumbers below n/2           drops modes
linear     straight lines between neighbours                   polynomials of degree 1                     samples
cubic      C² spline, not-a-knot ends (periodic: periodic)     polynomials of degree 3                     samples
nearest    the nearest sample                                  two-valued fields keep their values         samples
=========  ==================================================  ==========================================  ============

s in [0, 1] is the position between the *walls of the domain*, so that a grid which stops short of a wall is treated at
its true positions. "Drops modes": on a coarser grid only as many functions are kept as that grid can tell apart, a
low-pass; "samples": the interpolant is evaluated, so that content above the coarse grid aliases, and on nested node
grids the result is the strided field itself (as `sciops.restrict`). For two-valued coefficients take `nearest`: the
other methods oscillate or blur at the jump. Axes that are the same on both grids are left alone.

A periodic grid may begin anywhere: between two of them, or one and a walled grid, only the lengths of the domains have
to agree, and values are taken at the true positions, up to whole periods.

Gaps. A sample that is not finite stays where it is: "nearest" copies it to the points nearest to it, "linear" to those
between it and its neighbours, "cubic" gives NaN at the points whose value depends on it by more than round-off (about
28 spacings on either side in float64, 12 in float32). The other methods are global: one NaN makes the whole field NaN.
"""

from __future__ import annotations

import math
import warnings
from functools import lru_cache
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from sciops.arrays.compiling import kept
from sciops.arrays.kinds import as_tensor
from sciops.grids import Grid, check_on_grid, same_intervals
from sciops.resampling.axis_matrices import axis_matrix, neighbours
from sciops.resampling.trigonometric import trigonometric

__all__ = ["resample"]

Method = Literal["sine", "cosine", "fourier", "linear", "cubic", "nearest"]
_METHODS = ("sine", "cosine", "fourier", "linear", "cubic", "nearest")
_LARGEST_FOURIER_MATRIX = 2**22  # entries; below, a matrix product beats two transforms (4× at 85 → 170 points)
_WALL_TOLERANCE = 1e-6  # of max |u|: above float32 round-off, below any error worth reporting


def resample(
    u: Any,
    source: Grid,
    target: Grid,
    method: Method = "sine",
    *,
    wall: Literal["zero"] | None = None,
    aligned: bool | None = None,
    extrapolate: bool = False,
) -> Any:
    """Resamples u from the points of `source` to those of `target`; linear in u and differentiable.

    Parameters
    ----------
    u
        (..., *source.shape), numpy or torch, real or complex; half precision is computed in float32.
    source, target
        Same number of axes, same domain (periodic: same length).
    method
        See the module's table.
    wall
        "zero": u = 0 on the walls of the domain. linear, cubic: the walls become known points where the grid stops
        short of them, as cell grids always do. sine: assumed without a check of the field (which on a GPU would wait
        for it).
    aligned
        Fourier on node grids, where the first and last nodes are one point of the period. True: drop the last,
        resample, repeat the first. False: naive zero-padding, the baseline that most codes use; it takes the n nodes
        for the points of a period, so that the result holds the values at j·n/(m(n−1)) of the extent instead of
        j/(m−1). None: naive, with a warning.
    extrapolate
        linear, cubic, nearest: allow target points more than one spacing beyond the source's outermost points. Up to
        one spacing the outermost piece is always extended.

    Returns
    -------
    array
        (..., *target.shape), same kind, dtype and device; `u` itself when both grids hold the same points.

    Raises
    ------
    ValueError
        Other shapes, domains or extents than these, sine and cosine on periodic grids, options that do not belong to
        the method, target points too far from the source, and grids that cover too little of their domain to
        distinguish sine or cosine functions.

    Warns
    -----
    UserWarning
        Naive Fourier on nodes; sine for a field whose wall values, which it does not read, exceed 1e-6 of max |u|
        (unless wall="zero").

    Notes
    -----
    Fourier: an even n holds one Nyquist coefficient for ±n/2, which is halved on the way up; on the way down to an
    even m the ±m/2 coefficients are added. Where the grids' first points differ (cells lie half a cell in, staggered
    components begin half a spacing later), the phase of that shift is applied, so that cell and periodic grids convert
    into each other. On a source that stops short of a wall, sine and cosine coefficients solve the collocation
    equations on its points.
    """
    tensor, restore = as_tensor(u, "u")
    check_on_grid(tensor, source, "u")
    steps = _steps(source, target, method, wall, aligned)
    if not steps:
        return u if isinstance(u, Tensor) else restore(tensor)
    if method == "sine" and wall is None:
        _warn_of_wall_values(tensor, source)
    if method == "fourier" and source.centering == "node" and aligned is None:
        _warn_of_misalignment(source, target)
    rule = "naive fourier" if method == "fourier" and source.centering == "node" and not aligned else method
    exact = tensor.to(torch.promote_types(tensor.dtype, torch.float32))
    with torch.autocast(tensor.device.type, enabled=False):
        for axis, a, b in steps:
            exact = _one_axis(exact, axis, a, b, rule, wall == "zero", extrapolate)
    for axis, _, b in steps if rule == "fourier" else ():
        if b.centering == "node":
            # the last node is the first one, a period later: two places of a product may be rounded differently
            exact = torch.cat([exact.narrow(axis, 0, b.size - 1), exact.narrow(axis, 0, 1)], axis)
    return restore(exact.to(tensor.dtype))


@lru_cache(maxsize=256)
def _steps(
    source: Grid, target: Grid, method: str, wall: str | None, aligned: bool | None
) -> tuple[tuple[int, Grid, Grid], ...]:
    """(axis counted from the end, its points, its new points) of the axes that change; those that shrink come first."""
    _check(source, target, method, wall, aligned)
    pairs = [(i - source.ndim, *axes) for i, axes in enumerate(zip(source.axes, target.axes))]
    return tuple(sorted((p for p in pairs if not p[1].same_points(p[2])), key=lambda p: p[2].size / p[1].size))


def _one_axis(u: Tensor, axis: int, a: Grid, b: Grid, rule: str, wall: bool, extrapolate: bool) -> Tensor:
    axis += u.ndim
    if rule in ("nearest", "linear"):
        return _from_neighbours(u, axis, neighbours(rule, a, b, wall, extrapolate))
    if rule.endswith("fourier") and a.size * b.size > _LARGEST_FOURIER_MATRIX:
        return trigonometric(u, axis, a, b, naive=rule == "naive fourier")
    matrix = _matrix(rule, a, b, wall, extrapolate, u.dtype, u.device)
    return _around_gaps(matrix, u, axis) if rule == "cubic" else _product(matrix, u, axis)


def _from_neighbours(u: Tensor, axis: int, points: tuple[tuple[np.ndarray, np.ndarray], ...]) -> Tensor:
    """Σ weight · u[index] along one axis; a weight of zero leaves out what it weighs, NaN included."""
    real = u.real.dtype if u.is_complex() else u.dtype
    terms = []
    for index, weight in points:
        term = u.index_select(axis, torch.tensor(index, device=u.device))
        if (weight != 1).any():
            weights = torch.tensor(weight, dtype=real, device=u.device).view(-1, *(1,) * (u.ndim - 1 - axis))
            term = torch.where(weights == 0, 0, term * weights)
        terms.append(term)
    return terms[0] if len(terms) == 1 else terms[0] + terms[1]


def _around_gaps(matrix: Tensor, u: Tensor, axis: int) -> Tensor:
    """The product with the samples that are finite; NaN where one that is not weighs more than round-off."""
    gaps = ~u.isfinite()
    weight = matrix.abs()
    reach = weight > torch.finfo(weight.dtype).eps * weight.amax(-1, keepdim=True)
    touched = _product(reach.to(weight.dtype), gaps.to(weight.dtype), axis) > 0.5
    return _product(matrix, torch.where(gaps, 0, u), axis).masked_fill(touched, torch.nan)


def _product(matrix: Tensor, u: Tensor, axis: int) -> Tensor:
    if axis == u.ndim - 1:
        return u @ matrix.mT
    before, after = u.shape[:axis], u.shape[axis + 1 :]
    lines = u.reshape(math.prod(before), u.shape[axis], math.prod(after))
    return torch.bmm(matrix.expand(lines.shape[0], -1, -1), lines).reshape(*before, len(matrix), *after)


@kept(32)
def _matrix(
    rule: str, a: Grid, b: Grid, wall: bool, extrapolate: bool, dtype: torch.dtype, device: torch.device
) -> Tensor:
    return torch.tensor(axis_matrix(rule, a, b, wall, extrapolate), dtype=dtype, device=device)


def _check(source: Grid, target: Grid, method: str, wall: str | None, aligned: bool | None) -> None:
    if source.ndim != target.ndim:
        raise ValueError(f"source grid {source.shape} and target grid {target.shape} differ in their number of axes")
    if method not in _METHODS:
        raise ValueError(f"method={method!r}: expected one of {', '.join(_METHODS)}")
    centerings = (source.centering, target.centering)
    anywhere = "periodic" in centerings
    if not same_intervals(source.domain, target.domain, anywhere=anywhere):
        remedy = "periods of one length" if anywhere else "the same domain="
        raise ValueError(
            f"source domain {source.domain} and target domain {target.domain} differ: a field cannot be moved between "
            f"two domains; give both grids {remedy}"
        )
    if method in ("sine", "cosine") and "periodic" in centerings:
        raise ValueError(f"method={method!r} needs walls and a periodic grid has none: pass method='fourier'")
    if wall not in (None, "zero") or (wall and (method not in ("sine", "linear", "cubic") or "periodic" in centerings)):
        raise ValueError(
            f"wall={wall!r} with method={method!r}: expected None, or 'zero' with sine, linear, cubic and walls"
        )
    if method != "fourier" and aligned is not None:
        raise ValueError(f"aligned={aligned} belongs to method='fourier'; got method={method!r}")
    naive = "node" in centerings and not aligned
    if method == "fourier" and naive and centerings != ("node", "node"):
        raise ValueError(
            f"Fourier between {source.centering} and {target.centering} points has no naive form: pass aligned=True"
        )
    if method == "fourier" and not naive and not same_intervals(source.extent, target.extent, anywhere=anywhere):
        raise ValueError(
            f"Fourier needs one period: source extent {source.extent}, target extent {target.extent}; "
            "pass method='sine' or 'cubic', which use true positions"
        )


def _warn_of_misalignment(source: Grid, target: Grid) -> None:
    off = max(abs(m - n) / (m * (n - 1)) for n, m in zip(source.shape, target.shape))
    _warn(
        f"Fourier takes nodes for the points of a period: from {source.shape} to {target.shape} nodes, values move by "
        f"up to {off:.2%} of the extent. Pass aligned=True (periodic u), method='sine' (u = 0 on the walls) or "
        "'cosine'; aligned=False keeps this without a warning",
    )


def _warn_of_wall_values(u: Tensor, source: Grid) -> None:
    if u.numel() == 0:
        return
    u, largest = u.detach(), 0.0
    for axis, a in enumerate(source.axes, start=u.ndim - source.ndim):
        for end in _ends_on_walls(a):
            largest = max(largest, u.select(axis, end).abs().max().item())
    size = u.abs().max().item()
    if largest > _WALL_TOLERANCE * size:
        _warn(
            # one digit, so that Python's filters know the warning again in a loop over different fields
            f"sine takes u = 0 on the walls, but |u| reaches {largest / size:.1g} of its maximum there, which is lost. "
            "Pass method='cosine' or 'cubic', or wall='zero' to say that it should be 0"
        )


def _warn(message: str) -> None:
    warnings.warn(message, UserWarning, stacklevel=4)  # points at the caller of `resample`


def _ends_on_walls(axis: Grid) -> list[int]:
    ((a, b),), ((left, right),), (h,) = axis.extent, axis.domain, axis.spacing
    if axis.centering != "node":
        return []
    return [end for end, gap in ((0, a - left), (-1, right - b)) if gap <= 1e-9 * h]
