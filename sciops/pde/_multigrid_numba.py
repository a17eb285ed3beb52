"""Multigrid-preconditioned conjugate gradients for one sample at a time, compiled; threads share out the samples.

Kernels are plain loops over rows whose inner loop runs over contiguous memory, so that they vectorise; passes that
follow each other row by row are fused, so that a row is still in cache when the next pass wants it. Kernels release
the interpreter's lock and are run by ordinary threads, each taking the next sample that is left, in its own
workspace: no threading layer to choose, safe after a fork, and one busy core does not hold up the others.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import numba
import numpy as np

from sciops.pde._galerkin import galerkin_source
from sciops.pde._multigrid import FIRST, ROUNDS, SAFETY, SECOND, STALLED, level_shapes

# reassociation and contraction let sums vectorise; infinities and NaN stay what they are
_FAST = {"reassoc", "contract", "arcp", "nsz"}
_W1, _W2 = np.float32(FIRST), np.float32(SECOND)
_ONE, _ZERO = np.float32(1.0), np.float32(0.0)

_fast = numba.njit(cache=True, nogil=True, fastmath=_FAST, error_model="numpy")
_exact = numba.njit(cache=True, nogil=True, error_model="numpy")


def _compiled(name, nine):
    """The generated Galerkin product, compiled under this file's name so that it is cached beside it."""
    scope = {"__name__": __name__}  # the cache finds the function's module by it
    exec(compile(galerkin_source(name, nine), __file__, "exec"), scope)
    return _fast(scope[name])


_galerkin_5, _galerkin_9 = _compiled("_galerkin_from_5", False), _compiled("_galerkin_from_9", True)


def layout(mx: int, my: int) -> tuple[np.ndarray, np.ndarray, int]:
    """(shapes (levels, 2), first element of each array (levels, 9), elements in all) of the float32 workspace.

    A level's arrays are d, e, s, se, sw, f, u, r with a halo, and the weights towards the next level.
    """
    shapes = np.array(level_shapes(mx, my), dtype=np.int64)
    start = np.zeros((len(shapes), 9), dtype=np.int64)
    size = 0
    for level, (rows, columns) in enumerate(shapes):
        for array in range(8):
            start[level, array] = size
            size += (rows + 3) * (columns + 3)
            size += -size % 16  # every array begins on a cache line of its own
        start[level, 8] = size
        if level + 1 < len(shapes):
            size += 8 * (shapes[level + 1, 0] + 2) * (shapes[level + 1, 1] + 2)
            size += -size % 16
    return shapes, start, size


@_fast
def _level(work, start, shapes, level):
    """d, e, s, se, sw, f, u, r of a level as views of the workspace."""
    rows, columns = shapes[level, 0] + 3, shapes[level, 1] + 3
    size, shape, at = rows * columns, (rows, columns), start[level]
    return (
        work[at[0] : at[0] + size].reshape(shape),
        work[at[1] : at[1] + size].reshape(shape),
        work[at[2] : at[2] + size].reshape(shape),
        work[at[3] : at[3] + size].reshape(shape),
        work[at[4] : at[4] + size].reshape(shape),
        work[at[5] : at[5] + size].reshape(shape),
        work[at[6] : at[6] + size].reshape(shape),
        work[at[7] : at[7] + size].reshape(shape),
    )


@_fast
def _weights(work, start, shapes, level):
    rows, columns = shapes[level + 1, 0] + 2, shapes[level + 1, 1] + 2
    first = start[level, 8]
    return work[first : first + 8 * rows * columns].reshape((8, rows, columns))


@_fast
def _interpolate_rows(d, e, s, se, sw, P, mx, my):
    """Black-box weights; the order of P is that of `NEIGHBOURS`: NW N NE W E SW S SE."""
    for i in range(1, mx + 1):
        nw, n, ne, w = P[0, i], P[1, i], P[2, i], P[3, i]
        ea, so, s_, se_ = P[4, i], P[5, i], P[6, i], P[7, i]
        r0, r1, r2 = 2 * i - 1, 2 * i, 2 * i + 1
        d0, d1, d2, e0, e1, e2 = d[r0], d[r1], d[r2], e[r0], e[r1], e[r2]
        s0, s1, q0, q1, t0, t1 = s[r0], s[r1], se[r0], se[r1], sw[r0], sw[r1]
        for j in range(my):
            k = 2 * j + 2
            # weights on the four edges: the couplings of three neighbours over the collapsed diagonal
            up = (s0[k] + q0[k] + t0[k]) / (d0[k] - e0[k] - e0[k - 1])
            down = (s1[k] + q1[k - 1] + t1[k + 1]) / (d2[k] - e2[k] - e2[k - 1])
            left = (e1[k - 1] + t0[k] + q1[k - 1]) / (d1[k - 1] - s1[k - 1] - s0[k - 1])
            right = (e1[k] + q0[k] + t1[k + 1]) / (d1[k + 1] - s1[k + 1] - s0[k + 1])
            n[j + 1], s_[j + 1], w[j + 1], ea[j + 1] = up, down, left, right
            nw[j + 1] = (q0[k - 1] + e0[k - 1] * up + s0[k - 1] * left) / d0[k - 1]
            ne[j + 1] = (t0[k + 1] + e0[k] * up + s0[k + 1] * right) / d0[k + 1]
            so[j + 1] = (t1[k] + e2[k - 1] * down + s1[k - 1] * left) / d2[k - 1]
            se_[j + 1] = (q1[k] + e2[k] * down + s1[k + 1] * right) / d2[k + 1]


@_fast
def _setup(along_y, along_x, work, shapes, start):
    """Every level from the finest conductances; halos of the workspace are zero already, diagonals get ones."""
    levels = len(shapes)
    mx, my = shapes[0]
    d, e, s, _, _, _, _, _ = _level(work, start, shapes, 0)
    d[:] = _ONE
    for i in range(mx):
        d_, e_, s_ = d[i + 1], e[i + 1], s[i + 1]
        y_, x0, x1 = along_y[i], along_x[i], along_x[i + 1]
        for j in range(my):
            d_[j + 1] = y_[j] + y_[j + 1] + x0[j] + x1[j]
            e_[j + 1] = y_[j + 1]
            s_[j + 1] = x1[j]
        e_[my] = _ZERO
        if i == mx - 1:
            s_[:] = _ZERO
    for level in range(levels - 1):
        d, e, s, se, sw, _, _, _ = _level(work, start, shapes, level)
        D, E, S, SE, SW, _, _, _ = _level(work, start, shapes, level + 1)
        P = _weights(work, start, shapes, level)
        cx, cy = shapes[level + 1]
        _interpolate_rows(d, e, s, se, sw, P, cx, cy)
        D[:] = _ONE
        if level == 0:
            _galerkin_5(d, e, s, se, sw, P, D, E, S, SE, SW, cx, cy)
        else:
            _galerkin_9(d, e, s, se, sw, P, D, E, S, SE, SW, cx, cy)


@_fast
def _residual_row(nine, i, out, f, d, e, s, se, sw, u, m):
    """out[i] = (f − A u)[i]."""
    o, f_, d_, e_, sc, sn = out[i], f[i], d[i], e[i], s[i], s[i - 1]
    un, uc, us = u[i - 1], u[i], u[i + 1]
    if nine:
        ac, an, bc, bn = se[i], se[i - 1], sw[i], sw[i - 1]
        for j in range(m):
            o[j + 1] = (
                f_[j + 1]
                - d_[j + 1] * uc[j + 1]
                + e_[j + 1] * uc[j + 2]
                + e_[j] * uc[j]
                + sc[j + 1] * us[j + 1]
                + sn[j + 1] * un[j + 1]
                + ac[j + 1] * us[j + 2]
                + an[j] * un[j]
                + bc[j + 1] * us[j]
                + bn[j + 2] * un[j + 2]
            )
    else:
        for j in range(m):
            o[j + 1] = (
                f_[j + 1]
                - d_[j + 1] * uc[j + 1]
                + e_[j + 1] * uc[j + 2]
                + e_[j] * uc[j]
                + sc[j + 1] * us[j + 1]
                + sn[j + 1] * un[j + 1]
            )


@_fast
def _relax_row(nine, i, omega, out, f, d, e, s, se, sw, u, m):
    """out[i] = u[i] + ω (f − A u)[i] / d[i]."""
    o, f_, d_, e_, sc, sn = out[i], f[i], d[i], e[i], s[i], s[i - 1]
    un, uc, us = u[i - 1], u[i], u[i + 1]
    rest = _ONE - omega
    if nine:
        ac, an, bc, bn = se[i], se[i - 1], sw[i], sw[i - 1]
        for j in range(m):
            flux = (
                f_[j + 1]
                + e_[j + 1] * uc[j + 2]
                + e_[j] * uc[j]
                + sc[j + 1] * us[j + 1]
                + sn[j + 1] * un[j + 1]
                + ac[j + 1] * us[j + 2]
                + an[j] * un[j]
                + bc[j + 1] * us[j]
                + bn[j + 2] * un[j + 2]
            )
            o[j + 1] = rest * uc[j + 1] + omega * flux / d_[j + 1]
    else:
        for j in range(m):
            flux = f_[j + 1] + e_[j + 1] * uc[j + 2] + e_[j] * uc[j] + sc[j + 1] * us[j + 1] + sn[j + 1] * un[j + 1]
            o[j + 1] = rest * uc[j + 1] + omega * flux / d_[j + 1]


@_fast
def _down(nine, d, e, s, se, sw, f, u, r, mx, my):
    """Two smoothing steps from zero into u, and what they leave into r, row by row in one pass."""
    for i in range(1, mx + 3):
        if i <= mx:
            r_, f_, d_ = r[i], f[i], d[i]
            for j in range(my):
                r_[j + 1] = _W1 * f_[j + 1] / d_[j + 1]
        elif i == mx + 1:
            r[i, :] = _ZERO
        if 2 <= i <= mx + 1:
            _relax_row(nine, i - 1, _W2, u, f, d, e, s, se, sw, r, my)
        if i >= 3:
            _residual_row(nine, i - 2, r, f, d, e, s, se, sw, u, my)


@_fast
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


@_fast
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


@_fast
def _up(nine, d, e, s, se, sw, f, u, r, mx, my):
    """Two smoothing steps on u in the reverse order, row by row in one pass; r holds the first."""
    for i in range(1, mx + 2):
        if i <= mx:
            _relax_row(nine, i, _W2, r, f, d, e, s, se, sw, u, my)
        else:
            r[i, :] = _ZERO
        if i >= 2:
            _relax_row(nine, i - 1, _W1, u, f, d, e, s, se, sw, r, my)


@_fast
def _bottom(d, e, s, f, u, c, mx, my):
    """Exact solve of the coarsest level, one unknown wide: tridiagonal elimination along the other axis."""
    last = max(mx, my)
    before, value = _ZERO, _ZERO
    for t in range(1, last + 1):
        i, j = (t, 1) if my == 1 else (1, t)
        pivot = d[i, j] - before * (c[i - 1, 1] if my == 1 else c[1, j - 1])
        value = (f[i, j] + before * value) / pivot
        u[i, j] = value
        before = s[i, j] if my == 1 else e[i, j]
        c[i, j] = before / pivot
    for t in range(last - 1, 0, -1):
        i, j = (t, 1) if my == 1 else (1, t)
        value = u[i, j] + c[i, j] * value
        u[i, j] = value


@_fast
def _cycle(work, shapes, start):
    """One V(2, 2)-cycle on the right side stored at the finest level, from zero, into that level's u."""
    levels = len(shapes)
    for step in range(2 * levels - 1):
        down = step < levels
        level = step if down else 2 * levels - 2 - step
        mx, my = shapes[level]
        d, e, s, se, sw, f, u, r = _level(work, start, shapes, level)
        if level == levels - 1:
            _bottom(d, e, s, f, u, r, mx, my)
            continue
        P = _weights(work, start, shapes, level)
        cx, cy = shapes[level + 1]
        coarse = _level(work, start, shapes, level + 1)
        if down:
            _down(level > 0, d, e, s, se, sw, f, u, r, mx, my)
            _restrict(r, P, coarse[5], cx, cy)
        else:
            _prolong(u, P, coarse[6], cx, cy)
            _up(level > 0, d, e, s, se, sw, f, u, r, mx, my)


@_exact
def _faces(a, x_over, y_over, along_y, along_x):
    """Conductances of one padded coefficient; x_over and y_over hold (dual, 1 / distance) of each axis."""
    mx, my = along_y.shape[0], along_x.shape[1]
    for i in range(mx + 1):
        a0, a1 = a[i], a[i + 1]
        out, inverse, dual = along_x[i], x_over[1, i], y_over[0]
        for j in range(my):
            p, q = a0[j + 1], a1[j + 1]
            out[j] = 2.0 * p * (q / (p + q)) * (dual[j] * inverse)
        if i < mx:
            out, width, over = along_y[i], x_over[0, i], y_over[1]
            for j in range(my + 1):
                p, q = a1[j], a1[j + 1]
                out[j] = 2.0 * p * (q / (p + q)) * (width * over[j])


@_exact
def _true_residual(along_y, along_x, b, u, r):
    """r = b − A u by differences of fluxes, without reordering; (‖r‖², ‖|A||u|‖²). u has a halo of zeros."""
    mx, my = b.shape
    total, size = 0.0, 0.0
    for i in range(mx):
        un, uc, us = u[i], u[i + 1], u[i + 2]
        y_, xn, xs, b_, r_ = along_y[i], along_x[i], along_x[i + 1], b[i], r[i]
        for j in range(my):
            c = uc[j + 1]
            r_[j] = b_[j] - (
                (y_[j + 1] * (c - uc[j + 2]) + y_[j] * (c - uc[j]))
                + (xs[j] * (c - us[j + 1]) + xn[j] * (c - un[j + 1]))
            )
        row, row_size = 0.0, 0.0
        for j in range(my):
            row += r_[j] * r_[j]
            c = abs(uc[j + 1])
            around = (
                y_[j + 1] * (c + abs(uc[j + 2]))
                + y_[j] * (c + abs(uc[j]))
                + xs[j] * (c + abs(us[j + 1]))
                + xn[j] * (c + abs(un[j + 1]))
            )
            row_size += around * around
        total += row
        size += row_size
    return total, size


@_fast
def _direction_row(p, z, beta, m):
    for j in range(m):
        p[j + 1] = z[j + 1] + beta * p[j + 1]


@_fast
def _directions(along_y, along_x, z, beta, p, Ap):
    """p = z + β p, then A p; ⟨p, A p⟩. p has a halo of zeros, z is the float32 cycle's with its own halo."""
    mx, my = Ap.shape
    total = 0.0
    _direction_row(p[1], z[1], beta, my)
    for i in range(mx):
        if i + 1 < mx:
            _direction_row(p[i + 2], z[i + 2], beta, my)
        pn, pc, ps = p[i], p[i + 1], p[i + 2]
        y_, xn, xs, out = along_y[i], along_x[i], along_x[i + 1], Ap[i]
        for j in range(my):
            c = pc[j + 1]
            value = (
                y_[j + 1] * (c - pc[j + 2]) + y_[j] * (c - pc[j]) + xs[j] * (c - ps[j + 1]) + xn[j] * (c - pn[j + 1])
            )
            out[j] = value
            total += c * value
    return total


@_fast
def _advance(alpha, scale, p, Ap, u, r, f):
    """u += α p, r −= α A p, f = scale·r for the next cycle; ⟨r, r⟩."""
    mx, my = r.shape
    total = 0.0
    for i in range(mx):
        u_, p_, q_, r_, f_ = u[i + 1], p[i + 1], Ap[i], r[i], f[i + 1]
        for j in range(my):
            u_[j + 1] += alpha * p_[j + 1]
            value = r_[j] - alpha * q_[j]
            r_[j] = value
            f_[j + 1] = scale * value
            total += value * value
    return total


@_fast
def _products(r, Ap, z):
    """⟨r, z⟩ and ⟨A p, z⟩."""
    mx, my = r.shape
    first, second = 0.0, 0.0
    for i in range(mx):
        r_, q_, z_ = r[i], Ap[i], z[i + 1]
        for j in range(my):
            value = np.float64(z_[j + 1])
            first += r_[j] * value
            second += q_[j] * value
    return first, second


@_exact
def _solve_one(a, b, x_over, y_over, tol, limit, shapes, start, work, along_y, along_x, p, Ap, r, u):
    """One sample into u (with halo); (true relative residual, its float64 floor, iterations)."""
    u[:] = 0.0
    p[:] = 0.0
    _faces(a, x_over, y_over, along_y, along_x)
    rr, _ = _true_residual(along_y, along_x, b, u, r)
    norm = np.sqrt(rr)
    if norm == 0.0:
        return 0.0, 0.0, 0
    _setup(along_y, along_x, work, shapes, start)
    _, _, _, _, _, f, z, _ = _level(work, start, shapes, 0)
    iterations, rho, floor = 0, 1.0, 0.0
    target = SAFETY * tol * norm
    for _ in range(ROUNDS):
        if rho <= tol:
            break
        curvature, before = 0.0, rho
        rr = _advance(0.0, 1.0 / np.sqrt(rr), p, Ap, u, r, f)
        while np.sqrt(rr) > target and iterations < limit:
            _cycle(work, shapes, start)
            descent, across = _products(r, Ap, z)
            beta = -across / curvature if curvature > 0.0 else 0.0
            if not descent > 0.0:
                break
            curvature = _directions(along_y, along_x, z, beta, p, Ap)
            if not curvature > 0.0:
                break
            # float32 sees a residual of norm one at the last step: it underflows further down
            rr = _advance(descent / curvature, 1.0 / np.sqrt(rr), p, Ap, u, r, f)
            iterations += 1
        rr, size = _true_residual(along_y, along_x, b, u, r)
        rho, floor = np.sqrt(rr) / norm, 0.5 * 2.220446049250313e-16 * np.sqrt(size) / norm
        if not rho < STALLED * before or iterations >= limit:
            break
    return rho, floor, iterations


def solve_samples(a, b, axes, tol, limit, threads):
    """(u (batch, mx, my), residual, floor, iterations) of a padded coefficient (batch, mx + 2, my + 2).

    b : (1 or batch, mx, my)
    """
    mx, my = (axis.size for axis in axes)
    shapes, start, size = layout(mx, my)
    over = [np.zeros((2, axis.size + 1)) for axis in axes]
    for table, axis in zip(over, axes):
        table[0, :-1], table[1] = axis.dual, 1.0 / axis.distance
    batch = len(a)
    out = np.empty((batch, mx, my))
    rho, floor, iterations = np.empty(batch), np.empty(batch), np.empty(batch, dtype=np.int64)
    todo, lock = iter(range(batch)), threading.Lock()

    def work_through() -> None:
        work = np.zeros(size, dtype=np.float32)
        inner, halo = (mx, my), (mx + 2, my + 2)
        fields = [np.zeros(shape) for shape in ((mx, my + 1), (mx + 1, my), halo, inner, inner, halo)]
        while True:
            with lock:
                i = next(todo, None)
            if i is None:
                return
            rho[i], floor[i], iterations[i] = _solve_one(
                a[i], b[i if len(b) > 1 else 0], *over, tol, limit, shapes, start, work, *fields
            )
            out[i] = fields[-1][1:-1, 1:-1]

    workers = min(threads, batch)
    if workers <= 1:
        work_through()
    else:
        with ThreadPoolExecutor(workers) as pool:
            for future in [pool.submit(work_through) for _ in range(workers)]:
                future.result()
    return out, rho, floor, iterations
