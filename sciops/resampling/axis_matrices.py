"""One axis of a resampling as a float64 matrix: the value of an interpolant of n samples at m target positions.

Axes are 1-D grids. Every matrix is built once (see `axis_matrix`) and reproduces the samples themselves, to the bit,
at target points that coincide with source points, unless the passage is a low-pass.
"""

from __future__ import annotations

from functools import lru_cache
from typing import cast

import numpy as np
import torch

from sciops.arrays.compiling import kept
from sciops.bases import Kind, distinct, functions, off_walls
from sciops.grids import Grid
from sciops.resampling.trigonometric import trigonometric

_ALIGNED = 1e-9  # positions closer than this share of a spacing are one point
_WORST_CONDITION = 1e6  # a collocation that loses more digits than this is refused


@kept(32)
def axis_matrix(method: str, source: Grid, target: Grid, wall: bool, extrapolate: bool) -> np.ndarray:
    """(m, n) for sine, cosine, fourier, "naive fourier" or cubic."""
    if method in ("sine", "cosine"):
        matrix = _collocation(cast(Kind, method), source, target)
    elif method in ("fourier", "naive fourier"):
        matrix = _periodic(source, target, method == "naive fourier")
    else:
        matrix = _piecewise(method, source, target, wall, extrapolate)
    matrix.setflags(write=False)
    return matrix


@lru_cache(maxsize=128)
def neighbours(
    method: str, source: Grid, target: Grid, wall: bool, extrapolate: bool
) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
    """(index, weight), both (m,), of the one or two source points that each target point takes its value from.

    nearest : one point; half way between two, that at the smaller coordinate
    linear : the two points around it, or a point and a wall with u = 0, of weight 0
    """
    if method == "nearest":
        index = _nearest_index(source, target, extrapolate)
        return ((index, np.ones(index.size)),)
    matrix = _piecewise("linear", source, target, wall, extrapolate)
    pair = np.sort(np.argsort(-np.abs(matrix), axis=1, kind="stable")[:, :2], axis=1)
    return tuple((index, np.take_along_axis(matrix, index[:, None], 1)[:, 0]) for index in pair.T)


def _nearest_index(source: Grid, target: Grid, extrapolate: bool) -> np.ndarray:
    (x,), (t,), (h,), (n,) = source.coordinates(), target.coordinates(), source.spacing, source.shape
    _check_reach(x, t, source, extrapolate)
    index = np.ceil((t - x[0]) / h - 0.5 - _ALIGNED).astype(np.int64)
    return index % n if source.centering == "periodic" else index.clip(0, n - 1)


def _collocation(method: Kind, source: Grid, target: Grid) -> np.ndarray:
    """T A⁻¹: A holds the basis at the source points, T the first min(n, m) functions at the target points."""
    (s,), (t,) = source.fractions(), target.fractions()
    inside = off_walls(s) if method == "sine" else np.ones(s.size, bool)
    count, kept = int(inside.sum()), min(distinct(method, s), distinct(method, t))
    at_source, at_target = functions(method, s, count)[inside], functions(method, t, kept)
    matrix = np.zeros((t.size, s.size))
    if count:
        inverse = np.linalg.inv(at_source)
        condition = np.abs(inverse).sum(0).max() * np.abs(at_source).sum(0).max()
        if not condition < _WORST_CONDITION:
            raise ValueError(
                f"{method} functions of the domain {source.domain[0]} cannot be told apart on points that cover "
                f"{source.extent[0]}; pass method='cubic' or 'linear', or a grid that reaches nearer to its walls"
            )
        matrix[:, inside] = at_target @ inverse[:kept]
    if kept == count:
        ((left, right),), (h,) = source.domain, source.spacing
        _copy_coincident(matrix, s, t, inside, h / (right - left))
    return matrix


def _periodic(source: Grid, target: Grid, naive: bool) -> np.ndarray:
    """What the trigonometric interpolant makes of the unit vectors."""
    (n,), (m,) = source.shape, target.shape
    matrix = trigonometric(torch.eye(n, dtype=torch.float64), 0, source, target, naive).numpy().copy()
    if not naive and m - (target.centering == "node") >= n - (source.centering == "node"):
        ((a, b),) = source.extent
        s, t = ((axis.coordinates()[0] - a) / (b - a) for axis in (source, target))
        t = t - np.floor(t + _ALIGNED / n)
        _copy_coincident(matrix, s, t, s < 1 - _ALIGNED / n, 1 / n)
    return matrix


def _piecewise(method: str, source: Grid, target: Grid, wall: bool, extrapolate: bool) -> np.ndarray:
    """Linear or cubic-spline interpolation through the source points, and through zeros on the walls if `wall`."""
    (x,), (t,), (h,), (n,) = source.coordinates(), target.coordinates(), source.spacing, source.shape
    values = np.eye(n)
    if source.centering == "periodic":
        t = x[0] + np.mod(t - x[0], n * h)
        x, values = np.append(x, x[0] + n * h), np.vstack([values, values[:1]])
    elif wall:
        (left, right), zero = source.domain[0], np.zeros((1, n))
        if x[0] - left > _ALIGNED * h:
            x, values = np.insert(x, 0, left), np.vstack([zero, values])
        if right - x[-1] > _ALIGNED * h:
            x, values = np.append(x, right), np.vstack([values, zero])
    _check_reach(x, t, source, extrapolate)
    if x.size == 1:
        return np.ones((t.size, 1))
    if method == "linear":
        i = np.searchsorted(x, t, side="right").clip(1, x.size - 1) - 1
        w = ((t - x[i]) / (x[i + 1] - x[i]))[:, None]
        matrix = (1 - w) * values[i] + w * values[i + 1]
    else:
        from scipy.interpolate import CubicSpline

        ends = "periodic" if source.centering == "periodic" else "not-a-knot"
        matrix = CubicSpline(x, values, bc_type=ends)(t)
    knot = _nearest(x, t)
    at_knot = np.abs(t - x[knot]) <= _ALIGNED * h
    matrix[at_knot] = values[knot[at_knot]]
    return matrix


def _nearest(x: np.ndarray, t: np.ndarray) -> np.ndarray:
    i = np.searchsorted(x, t).clip(1, x.size - 1)
    return np.where(t - x[i - 1] <= x[i] - t, i - 1, i)


def _copy_coincident(matrix: np.ndarray, s: np.ndarray, t: np.ndarray, inside: np.ndarray, spacing: float) -> None:
    if s.size < 2:
        return
    j = _nearest(s, t)
    same = (np.abs(t - s[j]) <= _ALIGNED * spacing) & inside[j]
    matrix[same] = np.eye(s.size)[j[same]]


def _check_reach(x: np.ndarray, t: np.ndarray, source: Grid, extrapolate: bool) -> None:
    (h,) = source.spacing
    beyond = max(x[0] - t.min(), t.max() - x[-1]) / h
    if source.centering != "periodic" and not extrapolate and beyond > 1 + _ALIGNED:
        raise ValueError(
            f"target points lie {beyond:.3g} spacings beyond the source, which ends at {x[0]:.6g} and {x[-1]:.6g}; at "
            "most one is extrapolated: pass wall='zero' where u = 0 on the walls, or extrapolate=True"
        )
