"""The compiled multigrid cycle of one sample: V(2, 2) with a given smoother, and the first guess of full multigrid."""

from __future__ import annotations

import numpy as np

from sciops.pde.darcy.compiled.levels import NO, YES, arrays_of, as_matrix, fast, inlined, rows_alone, weights_of
from sciops.pde.darcy.compiled.smoothing import smooth_after, smooth_before
from sciops.pde.darcy.multigrid import nested_level

_ZERO = np.float32(0.0)

_nested_level = fast(nested_level)


@fast
def _restrict(r, P, F, mx, my):
    """F = Pᵀ r."""
    for i in range(1, mx + 1):
        ra, rb, rc, out = r[2 * i - 1], r[2 * i], r[2 * i + 1], F[i]
        nw, n, ne, w = P[0, i], P[1, i], P[2, i], P[3, i]
        ea, so, s_, se_ = P[4, i], P[5, i], P[6, i], P[7, i]
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


@fast
def _prolong(u, P, U, mx, my):
    """u += P U; each fine row gathers from the coarse rows it lies between."""
    for i in range(0, mx + 1):
        # fine row 2i: coincident and east-west points of coarse row i
        if i > 0:
            fine, U_, w, ea = u[2 * i], U[i], P[3, i], P[4, i]
            for j in range(my + 1):
                fine[2 * j] += U_[j]
                fine[2 * j + 1] += ea[j] * U_[j] + w[j + 1] * U_[j + 1]
        # fine row 2i + 1: south of coarse row i and north of coarse row i + 1
        fine, U0, U1 = u[2 * i + 1], U[i], U[i + 1]
        so, s_, se_, nw, n, ne = P[5, i], P[6, i], P[7, i], P[0, i + 1], P[1, i + 1], P[2, i + 1]
        for j in range(my + 1):
            fine[2 * j] += s_[j] * U0[j] + n[j] * U1[j]
            fine[2 * j + 1] += se_[j] * U0[j] + so[j + 1] * U0[j + 1] + ne[j] * U1[j] + nw[j + 1] * U1[j + 1]


@fast
def _restrict_rows(r, P, F, mx, my):
    """F = Pᵀ r where rows alone are halved."""
    for i in range(1, mx + 1):
        ra, rb, rc, out, n, s_ = r[2 * i - 1], r[2 * i], r[2 * i + 1], F[i], P[0, i], P[1, i]
        for j in range(1, my + 1):
            out[j] = rb[j] + n[j] * ra[j] + s_[j] * rc[j]


@fast
def _prolong_rows(u, P, U, mx, my):
    """u += P U where rows alone are halved."""
    for i in range(0, mx + 1):
        even, odd, U0, U1, s_, n = u[2 * i], u[2 * i + 1], U[i], U[i + 1], P[1, i], P[0, i + 1]
        for j in range(1, my + 1):
            even[j] += U0[j]
            odd[j] += s_[j] * U0[j] + n[j] * U1[j]


@fast
def _bottom(singular, d, e, s, f, u, c, mx, my):
    """Exact solve of the coarsest level, one unknown wide: tridiagonal elimination along the other axis.

    Where constants are in the kernel the last unknown is set to zero: the last pivot is nothing but rounding.
    """
    last = max(mx, my)
    before, value = _ZERO, _ZERO
    for t in range(1, last + 1):
        i, j = (t, 1) if my == 1 else (1, t)
        pivot = d[i, j] - before * (c[i - 1, 1] if my == 1 else c[1, j - 1])
        value = _ZERO if singular and t == last else (f[i, j] + before * value) / pivot
        u[i, j] = value
        before = s[i, j] if my == 1 else e[i, j]
        c[i, j] = before / pivot
    for t in range(last - 1, 0, -1):
        i, j = (t, 1) if my == 1 else (1, t)
        value = u[i, j] + c[i, j] * value
        u[i, j] = value


@fast
def cycle(rows, lines, work, shapes, start, singular, first, from_zero):
    """One V(2, 2)-cycle on the right side stored at level `first`, from zero or from that level's u, into it;
    `singular` says that no wall holds a value, so that u is determined up to a constant."""
    levels = len(shapes)
    for step in range(2 * (levels - first) - 1):
        down = step < levels - first
        level = first + step if down else 2 * levels - 2 - first - step
        mx, my = shapes[level]
        d, e, s, se, sw, f, u, r = arrays_of(work, start, shapes, level)
        n = shapes[level]
        if level == levels - 1:
            _bottom(
                singular,
                as_matrix(d, n),
                as_matrix(e, n),
                as_matrix(s, n),
                as_matrix(f, n),
                as_matrix(u, n),
                as_matrix(r, n),
                mx,
                my,
            )
            continue
        if down:
            smooth_before(lines, work, start, shapes, level, from_zero or level > first)
            _coarser(rows, work, shapes, start, level, r)
        else:
            _finer(rows, work, shapes, start, level, u)
            smooth_after(lines, work, start, shapes, level)


@inlined
def nested_start(rows, lines, work, shapes, start, singular):
    """Full multigrid for the right side at the finest level, up to the level below it: its solution there, by one cycle
    a level from a coarse one on, interpolated into the finest u. There are two levels at least."""
    first = _nested_level(shapes)
    for level in range(first):
        _, _, _, _, _, f, _, _ = arrays_of(work, start, shapes, level)
        _coarser(rows, work, shapes, start, level, f)
    cycle(rows, lines, work, shapes, start, singular, first, YES)
    for level in range(first - 1, -1, -1):
        _, _, _, _, _, _, u, _ = arrays_of(work, start, shapes, level)
        u[:] = _ZERO
        _finer(rows, work, shapes, start, level, u)
        if level > 0:
            cycle(rows, lines, work, shapes, start, singular, level, NO)


@fast
def _coarser(rows, work, shapes, start, level, r):
    """The right side of the next level from r on this one."""
    P, c = weights_of(work, start, shapes, level), shapes[level + 1]
    _, _, _, _, _, right, _, _ = arrays_of(work, start, shapes, level + 1)
    fine, coarse = as_matrix(r, shapes[level]), as_matrix(right, c)
    both = True if rows is None else not rows_alone(shapes, level)
    if both:
        _restrict(fine, P, coarse, c[0], c[1])
    elif rows is not None:
        _restrict_rows(fine, P, coarse, c[0], c[1])


@fast
def _finer(rows, work, shapes, start, level, u):
    """Adds the next level's u, interpolated, to the u of this one."""
    P, c = weights_of(work, start, shapes, level), shapes[level + 1]
    _, _, _, _, _, _, correction, _ = arrays_of(work, start, shapes, level + 1)
    fine, coarse = as_matrix(u, shapes[level]), as_matrix(correction, c)
    both = True if rows is None else not rows_alone(shapes, level)
    if both:
        _prolong(fine, P, coarse, c[0], c[1])
    elif rows is not None:
        _prolong_rows(fine, P, coarse, c[0], c[1])
