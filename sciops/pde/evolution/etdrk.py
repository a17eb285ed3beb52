"""Exponential time differencing Runge–Kutta of orders 1 to 4 for dv/dt = Lv + N(v) with diagonal L.

Cox & Matthews 2002 (doi:10.1006/jcph.2002.6995); φ functions as in Hochbruck & Ostermann 2010
(doi:10.1017/S0962492910000048). The linear part is exact at any step.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

__all__ = ["ORDERS", "coefficients", "phi", "step"]

ORDERS = (1, 2, 3, 4)
Nonlinear = Callable[[Tensor], Tensor]

_SERIES_WITHIN = 2.5  # |z| below which the series is summed; above, the closed form loses less than two bits to it
_TERMS = 32  # 2.5^32/34! < 1e-25


def phi(z: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """φ_0 … φ_3 of z (any shape, float64 or complex128), each right to a few ulp of its size, to z = 0 and −∞:

        φ_0 = e^z,  φ_j(z) = Σ_m z^m/(m + j)! = (φ_{j−1}(z) − 1/(j − 1)!)/z

    The series where |z| < 2.5, where the recursion would cancel; the recursion elsewhere.
    """
    near = z.abs() < _SERIES_WITHIN
    small, large = torch.where(near, z, 0.0), torch.where(near, 1.0, z)
    exponential = torch.exp(z)
    values, far = [exponential], torch.exp(large)
    for j in (1, 2, 3):
        far = (far - 1 / math.factorial(j - 1)) / large
        series = torch.zeros_like(z)
        for m in reversed(range(_TERMS)):
            series = series * small + 1 / math.factorial(m + j)
        values.append(torch.where(near, series, far))
    return tuple(values)


def coefficients(linear: Tensor, h: float, order: int) -> tuple[Tensor, ...]:
    """What `step` multiplies by, for the step h: float64 or complex128 like `linear`, and of its shape."""
    e, p1, p2, p3 = phi(linear * h)
    if order == 1:
        return e, h * p1
    if order == 2:
        return e, h * p1, h * p2
    half_e, half_p1, _, _ = phi(linear * (h / 2))
    first, last = h * (p1 - 3 * p2 + 4 * p3), h * (4 * p3 - p2)
    if order == 3:
        return e, half_e, h / 2 * half_p1, h * p1, first, h * (4 * p2 - 8 * p3), last
    return e, half_e, h / 2 * half_p1, first, h * (2 * p2 - 4 * p3), last


def step(v: Tensor, nonlinear: Nonlinear, table: tuple[Tensor, ...], order: int) -> Tensor:
    """v one step later. nonlinear : v → N(v), of v's shape; table : `coefficients`, in v's precision."""
    return _STEPS[order](v, nonlinear, *table)


def _first(v, nonlinear, e, p1):
    return e * v + p1 * nonlinear(v)


def _second(v, nonlinear, e, p1, p2):
    n = nonlinear(v)
    a = e * v + p1 * n
    return a + p2 * (nonlinear(a) - n)


def _third(v, nonlinear, e, half_e, half_p1, p1, first, middle, last):
    n = nonlinear(v)
    na = nonlinear(half_e * v + half_p1 * n)
    ev = e * v
    nb = nonlinear(ev + p1 * (2 * na - n))
    return ev + first * n + middle * na + last * nb


def _fourth(v, nonlinear, e, half_e, half_p1, first, middle, last):
    n = nonlinear(v)
    half = half_e * v
    a = half + half_p1 * n
    na = nonlinear(a)
    nb = nonlinear(half + half_p1 * na)
    nc = nonlinear(half_e * a + half_p1 * (2 * nb - n))
    return e * v + first * n + middle * (na + nb) + last * nc


_STEPS = {1: _first, 2: _second, 3: _third, 4: _fourth}
