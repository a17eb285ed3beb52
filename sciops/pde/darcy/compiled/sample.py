"""The compiled solver of one sample: conjugate gradients in float64 around the cycle of `cycle`.

numba's cache on disk watches only the file of the function that is cached. What is compiled into the solvers lies in
several files: they alone are cached, under a key that holds a checksum of all of them. A solver is two functions, the
levels and the iterations, since numba takes more than twice as long for one that is twice as large.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from pathlib import Path

import numba
import numpy as np

from sciops.pde.darcy.compiled.cycle import cycle, nested_start
from sciops.pde.darcy.compiled.levels import FAST, FINEST, INNER, YES, arrays_of, as_matrix, fast
from sciops.pde.darcy.compiled.setup import setup
from sciops.pde.darcy.compiled.smoothing import LINES, POINTS, ROWS
from sciops.pde.darcy.multigrid import HALF_EPSILON, ROUNDS, SAFETY, STALLED, Way

_exact = numba.njit(**INNER)


@_exact
def _faces(a_x, a_y, factor, x_over, y_over, exchange, along_y, along_x):
    """Conductances of one padded coefficient times a factor; x_over, y_over hold (dual, 1 / distance) of each axis,
    `exchange` (4, longest side) what is added at the low and high end of x and of y, or (4, 0)."""
    mx, my = along_y.shape[0], along_x.shape[1]
    for i in range(mx + 1):
        a0, a1 = a_x[i], a_x[i + 1]
        out, inverse, dual = along_x[i], factor * x_over[1, i], y_over[0]
        for j in range(my):
            p, q = a0[j + 1], a1[j + 1]
            out[j] = 2.0 * p * (q / (p + q)) * (dual[j] * inverse)
        if i < mx:
            a1 = a_y[i + 1]
            out, width, over = along_y[i], factor * x_over[0, i], y_over[1]
            for j in range(my + 1):
                p, q = a1[j], a1[j + 1]
                out[j] = 2.0 * p * (q / (p + q)) * (width * over[j])
    if exchange.shape[1] > 0:
        for j in range(my):
            along_x[0, j] += factor * exchange[0, j]
            along_x[mx, j] += factor * exchange[1, j]
        for i in range(mx):
            along_y[i, 0] += factor * exchange[2, i]
            along_y[i, my] += factor * exchange[3, i]


@_exact
def _true_residual(along_y, along_x, b, u, r):
    """r = b − A u by differences of fluxes, in the order written; ‖r‖². u has a halo of zeros."""
    mx, my = b.shape
    total = 0.0
    for i in range(mx):
        un, uc, us = u[i], u[i + 1], u[i + 2]
        y_, xn, xs, b_, r_ = along_y[i], along_x[i], along_x[i + 1], b[i], r[i]
        for j in range(my):
            c = uc[j + 1]
            flux_y = y_[j + 1] * (c - uc[j + 2]) + y_[j] * (c - uc[j])
            r_[j] = b_[j] - (flux_y + (xs[j] * (c - us[j + 1]) + xn[j] * (c - un[j + 1])))
        total += _square_sum(r_)
    return total


@fast
def _copy(b, r):
    """r = b; ‖b‖²."""
    total = 0.0
    for i in range(len(b)):
        b_, r_ = b[i], r[i]
        for j in range(len(b_)):
            r_[j] = b_[j]
            total += b_[j] * b_[j]
    return total


@fast
def _square_sum(row):
    total = 0.0
    for j in range(len(row)):
        total += row[j] * row[j]
    return total


@fast
def _rounding(along_y, along_x, u):
    """‖|A||u|‖²."""
    mx, my = along_y.shape[0], along_x.shape[1]
    total = 0.0
    for i in range(mx):
        un, uc, us = u[i], u[i + 1], u[i + 2]
        y_, xn, xs = along_y[i], along_x[i], along_x[i + 1]
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


@fast
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


@fast
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


@fast
def _scaled(r, scale, f):
    """f = scale·r; f has a halo."""
    mx, my = r.shape
    for i in range(mx):
        r_, f_ = r[i], f[i + 1]
        for j in range(my):
            f_[j + 1] = scale * r_[j]


@fast
def _scaled_up(z, scale, u):
    """u = scale·z; u has a halo of one, z that of the cycle."""
    mx, my = u.shape[0] - 2, u.shape[1] - 2
    for i in range(1, mx + 1):
        z_, u_ = z[i], u[i]
        for j in range(1, my + 1):
            u_[j] = scale * z_[j]


@fast
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


def compiled(checksum: int, rows: bool | None, lines: bool | None) -> tuple[Callable, Callable]:
    """(what fills the levels, what iterates) of one of the forms of `smoothing`.

    Their keys in the cache on disk hold the checksum and the form because these are constants of the closures.
    """

    kept = numba.njit(cache=True, nogil=True, error_model="numpy", fastmath=FAST, no_cfunc_wrapper=True)

    @kept
    def fill(a_x, a_y, factor, x_over, y_over, exchange, along_y, along_x, work, shapes, start):
        """The conductances of a sample, and every level from them."""
        _ = checksum
        _faces(a_x, a_y, factor, x_over, y_over, exchange, along_y, along_x)
        setup(rows, lines, along_y, along_x, work, shapes, start)

    @kept
    def iterate(b, singular, tol, limit, shapes, start, work, along_y, along_x, p, Ap, r, u):
        """One sample whose levels are filled into u (with halo); (true relative residual, its floor, iterations)."""
        _ = checksum
        u[:] = 0.0
        p[:] = 0.0
        norm = np.sqrt(_copy(b, r))
        iterations, rho, size = 0, 1.0, norm
        target = SAFETY * tol * norm
        if norm == 0.0:
            return 0.0, 0.0, 0
        _, _, _, _, _, f, z, _ = arrays_of(work, start, shapes, FINEST)
        f, z = as_matrix(f, shapes[0]), as_matrix(z, shapes[0])
        if len(shapes) > 1:
            _scaled(r, 1.0 / norm, f)
            nested_start(rows, lines, work, shapes, start, singular)
            _scaled_up(z, norm, u)
            size = np.sqrt(_true_residual(along_y, along_x, b, u, r))
            if not np.isfinite(size):
                u[:] = 0.0
                size = np.sqrt(_copy(b, r))
        for _ in range(ROUNDS):
            curvature, before, rr = 0.0, rho, size * size
            _scaled(r, 1.0 / size, f)
            while np.sqrt(rr) > target and iterations < limit:
                cycle(rows, lines, work, shapes, start, singular, FINEST, YES)
                descent, across = _products(r, Ap, z)
                beta = -across / curvature if curvature > 0.0 else 0.0
                if not descent > 0.0:
                    break
                curvature = _directions(along_y, along_x, z, beta, p, Ap)
                if not curvature > 0.0:
                    break
                # float32 sees a residual of about norm one, by that of the step before: it underflows further down
                rr = _advance(descent / curvature, 1.0 / np.sqrt(rr), p, Ap, u, r, f)
                iterations += 1
            size = np.sqrt(_true_residual(along_y, along_x, b, u, r))
            rho = size / norm
            if rho <= tol or not rho < STALLED * before or iterations >= limit:
                break
        return rho, HALF_EPSILON * np.sqrt(_rounding(along_y, along_x, u)) / norm, iterations

    return fill, iterate


def sources() -> list[Path]:
    """The files whose code or numbers the solvers are compiled from."""
    here = Path(__file__).parent
    return [*sorted(here.glob("*.py")), here.parent / "multigrid.py"]


def sources_checksum() -> int:
    """CRC-32 of `sources`."""
    checksum = 0
    for file in sources():
        checksum = zlib.crc32(file.read_bytes(), checksum)
    return checksum


_FORMS = {form: compiled(sources_checksum(), *form) for form in (POINTS, ROWS, LINES)}


def solver_of(way: Way) -> tuple[Callable, Callable]:
    """(what fills the levels, what iterates) for samples that are coarsened and smoothed in this way."""
    return _FORMS[LINES if way.lines else ROWS if way.rows_alone else POINTS]


def kept_on_disk() -> bool:
    """Whether numba has compiled a solver from the present sources before, and kept it for other processes."""
    newest = max(file.stat().st_mtime for file in sources())
    fill, _ = _FORMS[POINTS]
    folder = Path(fill.stats.cache_path or "")
    found = folder.glob(f"sample.{fill.py_func.__qualname__}-*.nbi".replace("<", "*").replace(">", "*"))
    return any(index.stat().st_mtime >= newest for index in found)
