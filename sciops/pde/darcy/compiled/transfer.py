"""Kernels between a level and the next, whose solutions and residuals they carry, and the exact solve of the last.

r, u, width : of the finer level; P : weights; F, U, mx, my : of the coarser level
"""

from __future__ import annotations

import numpy as np

from sciops.pde.darcy.compiled.calls import at

_ZERO = np.float32(0.0)


def restrict_both(r, P, F, mx, my, width):
    """F = Pᵀ r."""
    plane = (mx + 2) * (my + 2)
    for i in range(1, mx + 1):
        rb, out, nw = at(r, 2 * i * width), at(F, i * (my + 3)), at(P, i * (my + 2))
        ra, rc = at(rb, -width), at(rb, width)
        n, ne, w, ea = at(nw, plane), at(nw, 2 * plane), at(nw, 3 * plane), at(nw, 4 * plane)
        so, s_, se_ = at(nw, 5 * plane), at(nw, 6 * plane), at(nw, 7 * plane)
        for j in range(my):
            k = 2 * j + 2
            out[j + 1] = (
                rb[k]
                + nw[j + 1] * ra[k - 1]
                + n[j + 1] * ra[k]
                + ne[j + 1] * ra[k + 1]
                + w[j + 1] * rb[k - 1]
                + ea[j + 1] * rb[k + 1]
                + so[j + 1] * rc[k - 1]
                + s_[j + 1] * rc[k]
                + se_[j + 1] * rc[k + 1]
            )


def prolong_both(u, P, U, mx, my, width):
    """u += P U; each fine row gathers from the coarse rows it lies between."""
    plane = (mx + 2) * (my + 2)
    for i in range(0, mx + 1):
        # fine row 2i: coincident and east-west points of coarse row i
        fine, U0, row = at(u, 2 * i * width), at(U, i * (my + 3)), at(P, i * (my + 2))
        if i > 0:
            w, ea = at(row, 3 * plane), at(row, 4 * plane)
            for j in range(my + 1):
                fine[2 * j] += U0[j]
                fine[2 * j + 1] += ea[j] * U0[j] + w[j + 1] * U0[j + 1]
        # fine row 2i + 1: south of coarse row i and north of coarse row i + 1
        odd, U1, nw = at(fine, width), at(U0, my + 3), at(row, my + 2)
        so, s_, se_, n, ne = (
            at(row, 5 * plane),
            at(row, 6 * plane),
            at(row, 7 * plane),
            at(nw, plane),
            at(nw, 2 * plane),
        )
        for j in range(my + 1):
            odd[2 * j] += s_[j] * U0[j] + n[j] * U1[j]
            odd[2 * j + 1] += se_[j] * U0[j] + so[j + 1] * U0[j + 1] + ne[j] * U1[j] + nw[j + 1] * U1[j + 1]


def restrict_rows(r, P, F, mx, my, width):
    """F = Pᵀ r where rows alone are halved."""
    for i in range(1, mx + 1):
        rb, out, n = at(r, 2 * i * width), at(F, i * (my + 3)), at(P, i * (my + 2))
        ra, rc, s_ = at(rb, -width), at(rb, width), at(n, (mx + 2) * (my + 2))
        for j in range(1, my + 1):
            out[j] = rb[j] + n[j] * ra[j] + s_[j] * rc[j]


def prolong_rows(u, P, U, mx, my, width):
    """u += P U where rows alone are halved."""
    for i in range(0, mx + 1):
        even, U0, row = at(u, 2 * i * width), at(U, i * (my + 3)), at(P, i * (my + 2))
        odd, U1, s_, n = at(even, width), at(U0, my + 3), at(row, (mx + 2) * (my + 2)), at(row, my + 2)
        for j in range(1, my + 1):
            even[j] += U0[j]
            odd[j] += s_[j] * U0[j] + n[j] * U1[j]


def bottom(singular, d, e, s, f, u, c, mx, my):
    """Exact solve of the coarsest level, one unknown wide: tridiagonal elimination along the other axis.

    Where constants are in the kernel the last unknown is set to zero: the last pivot is nothing but rounding.
    """
    last, width = max(mx, my), my + 3
    step = width if my == 1 else 1
    before, value = _ZERO, _ZERO
    k = width + 1
    for t in range(1, last + 1):
        pivot = d[k] - before * c[k - step]
        value = _ZERO if singular and t == last else (f[k] + before * value) / pivot
        u[k] = value
        before = s[k] if my == 1 else e[k]
        c[k] = before / pivot
        k += step
    k -= step
    for _ in range(last - 1):
        k -= step
        value = u[k] + c[k] * value
        u[k] = value
