"""Kernels of conjugate gradients in float64, and of the conductances and the finest stencil that they belong to.

mx, my : unknowns. along_y (mx, my + 1), along_x (mx + 1, my) : conductances of the faces. b, r, Ap : (mx, my).
u, p : with a halo of one, (mx + 2, my + 2). f, z : of the cycle, with its halo, (mx + 3, my + 3).
"""

from __future__ import annotations

import numpy as np

from sciops.pde.darcy.compiled.calls import at
from sciops.pde.darcy.compiled.levels import fast

_ZERO = np.float32(0.0)


def faces(a_x, a_y, factor, x_over, y_over, exchange, longest, along_y, along_x, mx, my):
    """Conductances of one padded coefficient times a factor; x_over, y_over (2, unknowns + 1) hold (dual, 1 / distance)
    of each axis, `exchange` (4, longest) what is added at the low and high end of x and of y; longest may be 0."""
    x_inverse, y_inverse = at(x_over, mx + 1), at(y_over, my + 1)
    for i in range(mx + 1):
        a0, a1 = at(a_x, i * (my + 2)), at(a_x, (i + 1) * (my + 2))
        out, inverse = at(along_x, i * my), factor * x_inverse[i]
        for j in range(my):
            p, q = a0[j + 1], a1[j + 1]
            out[j] = 2.0 * p * (q / (p + q)) * (y_over[j] * inverse)
        if i < mx:
            a1 = at(a_y, (i + 1) * (my + 2))
            out, width = at(along_y, i * (my + 1)), factor * x_over[i]
            for j in range(my + 1):
                p, q = a1[j], a1[j + 1]
                out[j] = 2.0 * p * (q / (p + q)) * (width * y_inverse[j])
    if longest > 0:
        for j in range(my):
            along_x[j] += factor * exchange[j]
            along_x[mx * my + j] += factor * exchange[longest + j]
        for i in range(mx):
            along_y[i * (my + 1)] += factor * exchange[2 * longest + i]
            along_y[i * (my + 1) + my] += factor * exchange[3 * longest + i]


def finest(d, e, s, along_y, along_x, mx, my):
    """The five-point stencil of the finest level."""
    for i in range(mx):
        row = (i + 1) * (my + 3)
        d_, e_, s_ = at(d, row), at(e, row), at(s, row)
        y_, x0, x1 = at(along_y, i * (my + 1)), at(along_x, i * my), at(along_x, (i + 1) * my)
        for j in range(my):
            d_[j + 1] = y_[j] + y_[j + 1] + x0[j] + x1[j]
            e_[j + 1] = y_[j + 1]
            s_[j + 1] = x1[j]
        e_[my] = _ZERO
    last = at(s, mx * (my + 3))
    for j in range(my + 3):
        last[j] = _ZERO


def clear(out, count):
    """Zero everywhere."""
    for k in range(count):
        out[k] = 0.0


def copy(b, r, mx, my):
    """r = b; ‖b‖²."""
    total = 0.0
    for i in range(mx):
        b_, r_ = at(b, i * my), at(r, i * my)
        for j in range(my):
            r_[j] = b_[j]
            total += b_[j] * b_[j]
    return total


@fast
def _square_sum(row, count):
    total = 0.0
    for j in range(count):
        total += row[j] * row[j]
    return total


def true_residual(along_y, along_x, b, u, r, mx, my):
    """r = b − A u by differences of fluxes, in the order written; ‖r‖². u has a halo of zeros."""
    total = 0.0
    for i in range(mx):
        un, uc, us = at(u, i * (my + 2)), at(u, (i + 1) * (my + 2)), at(u, (i + 2) * (my + 2))
        y_, xn, xs = at(along_y, i * (my + 1)), at(along_x, i * my), at(along_x, (i + 1) * my)
        b_, r_ = at(b, i * my), at(r, i * my)
        for j in range(my):
            c = uc[j + 1]
            flux_y = y_[j + 1] * (c - uc[j + 2]) + y_[j] * (c - uc[j])
            r_[j] = b_[j] - (flux_y + (xs[j] * (c - us[j + 1]) + xn[j] * (c - un[j + 1])))
        total += _square_sum(r_, my)
    return total


def rounding(along_y, along_x, u, mx, my):
    """‖|A||u|‖²."""
    total = 0.0
    for i in range(mx):
        un, uc, us = at(u, i * (my + 2)), at(u, (i + 1) * (my + 2)), at(u, (i + 2) * (my + 2))
        y_, xn, xs = at(along_y, i * (my + 1)), at(along_x, i * my), at(along_x, (i + 1) * my)
        for j in range(my):
            c = abs(uc[j + 1])
            flux_y = y_[j + 1] * (c + abs(uc[j + 2])) + y_[j] * (c + abs(uc[j]))
            flux = flux_y + xs[j] * (c + abs(us[j + 1])) + xn[j] * (c + abs(un[j + 1]))
            total += flux * flux
    return total


@fast
def _direction_row(p, z, beta, m):
    for j in range(m):
        p[j + 1] = z[j + 1] + beta * p[j + 1]


def directions(along_y, along_x, z, beta, p, Ap, mx, my):
    """p = z + β p, then A p; ⟨p, A p⟩. p has a halo of zeros."""
    total = 0.0
    _direction_row(at(p, my + 2), at(z, my + 3), beta, my)
    for i in range(mx):
        pn, pc, ps = at(p, i * (my + 2)), at(p, (i + 1) * (my + 2)), at(p, (i + 2) * (my + 2))
        if i + 1 < mx:
            _direction_row(ps, at(z, (i + 2) * (my + 3)), beta, my)
        y_, xn, xs = at(along_y, i * (my + 1)), at(along_x, i * my), at(along_x, (i + 1) * my)
        out = at(Ap, i * my)
        for j in range(my):
            c = pc[j + 1]
            value = (
                y_[j + 1] * (c - pc[j + 2]) + y_[j] * (c - pc[j]) + xs[j] * (c - ps[j + 1]) + xn[j] * (c - pn[j + 1])
            )
            out[j] = value
            total += c * value
    return total


def advance(alpha, scale, p, Ap, u, r, f, mx, my):
    """u += α p, r −= α A p, f = scale·r for the next cycle; ⟨r, r⟩."""
    total = 0.0
    for i in range(mx):
        u_, p_, f_ = at(u, (i + 1) * (my + 2)), at(p, (i + 1) * (my + 2)), at(f, (i + 1) * (my + 3))
        q_, r_ = at(Ap, i * my), at(r, i * my)
        for j in range(my):
            u_[j + 1] += alpha * p_[j + 1]
            value = r_[j] - alpha * q_[j]
            r_[j] = value
            f_[j + 1] = scale * value
            total += value * value
    return total


def scaled(r, scale, f, mx, my):
    """f = scale·r."""
    for i in range(mx):
        r_, f_ = at(r, i * my), at(f, (i + 1) * (my + 3))
        for j in range(my):
            f_[j + 1] = scale * r_[j]


def scaled_up(z, scale, u, mx, my):
    """u = scale·z."""
    for i in range(1, mx + 1):
        z_, u_ = at(z, i * (my + 3)), at(u, i * (my + 2))
        for j in range(1, my + 1):
            u_[j] = scale * z_[j]


def products(r, Ap, z, sums, mx, my):
    """⟨r, z⟩ and ⟨A p, z⟩, into sums."""
    first, second = 0.0, 0.0
    for i in range(mx):
        r_, q_, z_ = at(r, i * my), at(Ap, i * my), at(z, (i + 1) * (my + 3))
        for j in range(my):
            value = np.float64(z_[j + 1])
            first += r_[j] * value
            second += q_[j] * value
    sums[0] = first
    sums[1] = second
