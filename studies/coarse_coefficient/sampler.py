"""Gaussian fields with given signs at given points, drawn exactly: Hamiltonian Monte Carlo that bounces off the signs.

For x ~ N(0, I) subject to s_j (Φx)_j > 0, a point moves on the circle x cos t + v sin t with v ~ N(0, I) and is
reflected at every plane (Φx)_j = 0 that it meets. The moves are exact: nothing is rejected and no step is chosen. All
moves of one trajectory are combinations of x, v and rows of Φ, so that a bounce works on the constraints alone.

Source: A. Pakman and L. Paninski, Exact Hamiltonian Monte Carlo for truncated multivariate Gaussians,
arXiv:1208.4118.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np


def trajectory(
    x: np.ndarray,
    v: np.ndarray,
    signs: np.ndarray,
    apply: Callable[[np.ndarray], np.ndarray],
    adjoint: Callable[[np.ndarray], np.ndarray],
    gram: np.ndarray,
    duration: float = np.pi / 2,
) -> tuple[np.ndarray, int]:
    """(the point after `duration`, bounces on the way).

    Parameters
    ----------
    x, v : (m,)
        Point, which has the signs, and velocity.
    signs : (n,) of ±1
    apply, adjoint : callables
        Φ, (m,) → (n,), and its transpose.
    gram : (n, n)
        ΦΦᵀ.

    Raises
    ------
    ValueError
        For a point that has not the signs.
    """
    place, speed = signs * apply(x), signs * apply(v)
    if not (place > 0).all():
        raise ValueError(f"{int((place <= 0).sum())} of {len(signs)} signs are not those of the point")
    # x(t) and v(t) as (x, v, rows): coefficients of x and v, and weights of the rows s_j Φ_j
    at, going = np.array([1.0, 0.0]), np.array([0.0, 1.0])
    at_rows, going_rows = np.zeros(len(signs)), np.zeros(len(signs))
    left, bounces = duration, 0
    while True:
        times = np.arctan2(
            place, -speed
        )  # of place·cos t + speed·sin t = 0; π for the plane just left, whose place is 0
        j = int(np.argmin(times))
        t = min(max(float(times[j]), 0.0), left)
        cos, sin = np.cos(t), np.sin(t)
        place, speed = cos * place + sin * speed, cos * speed - sin * place
        at, going = cos * at + sin * going, cos * going - sin * at
        at_rows, going_rows = cos * at_rows + sin * going_rows, cos * going_rows - sin * at_rows
        left -= t
        if left <= 0:
            break
        kick = -2 * speed[j] / gram[j, j]
        going_rows[j] += kick
        speed = speed + kick * signs[j] * signs * gram[:, j]
        place[j], speed[j] = 0.0, abs(speed[j])
        bounces += 1
    return at[0] * x + at[1] * v + adjoint(signs * at_rows), bounces
