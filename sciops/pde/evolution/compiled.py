"""Steps of fourth-order exponential Runge–Kutta compiled by numba, with the transforms of DUCC that rocket-fft brings.

A call takes many steps: no Python between them, and no array is allocated in them. Samples are taken in blocks that
stay in the cache, those of two axes one by one. Products need the modes |q| < K of the dealiasing mask alone, so that
the inverse transforms read only those columns of the last axis. All kernels lie in this file: numba's cache on disk
watches the file of a kernel.

Shapes: states (batch, *spectrum); tables e … last (1 or batch, modes); see `etdrk.coefficients`.
"""

from __future__ import annotations

import numba
import numpy as np
from rocket_fft import c2c, c2r, r2c

__all__ = ["convection", "vorticity"]

_njit = numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "nsz"})


@_njit
def _first_stage(w, n0, half_e, half_p1, s, a):
    """a = half_e·w + half_p1·n0, sample by sample; s: the sample of the batch that the block begins with."""
    for b in range(w.shape[0]):
        t = s + b if half_e.shape[0] > 1 else 0
        for k in range(w.shape[1]):
            a[b, k] = half_e[t, k] * w[b, k] + half_p1[t, k] * n0[b, k]


@_njit
def _third_stage(a, n0, na, nb, half_e, half_p1, s, c):
    """c = half_e·a + half_p1·(2 nb − n0); nb becomes na + nb."""
    for b in range(a.shape[0]):
        t = s + b if half_e.shape[0] > 1 else 0
        for k in range(a.shape[1]):
            c[b, k] = half_e[t, k] * a[b, k] + half_p1[t, k] * (2 * nb[b, k] - n0[b, k])
            nb[b, k] += na[b, k]


@_njit
def _last_stage(w, n0, sums, nc, e, first, middle, last, s):
    """w = e·w + first·n0 + middle·sums + last·nc."""
    for b in range(w.shape[0]):
        t = s + b if e.shape[0] > 1 else 0
        for k in range(w.shape[1]):
            w[b, k] = e[t, k] * w[b, k] + first[t, k] * n0[b, k] + middle[t, k] * sums[b, k] + last[t, k] * nc[b, k]


@_njit
def _convective(v, factor, s, kept, u, axes, scale, out):
    """out = factor·F[u²] with u of the modes q < kept; zero elsewhere."""
    block, points = u.shape
    c2r(v[:, :kept], u, axes, False, 1.0, 1)
    for b in range(block):
        for i in range(points):
            u[b, i] = u[b, i] * u[b, i]
    r2c(u, out, axes, True, scale, 1)
    for b in range(block):
        t = s + b if factor.shape[0] > 1 else 0
        for k in range(kept):
            out[b, k] = out[b, k] * factor[t, k]
        for k in range(kept, out.shape[1]):
            out[b, k] = 0.0


@_njit
def convection(v, count, e, half_e, half_p1, first, middle, last, factor, kept, points, block):
    """`count` steps of dv/dt = Lv + factor·F[u²], in place. v (batch, n//2 + 1); factor (1 or batch, n//2 + 1)."""
    axes, scale = np.array([1]), 1.0 / points
    for s in range(0, v.shape[0], block):
        w = v[s : s + block].copy()
        u = np.empty((w.shape[0], points), dtype=w.real.dtype)
        a, c, n0, na, nb = (np.empty_like(w), np.empty_like(w), np.empty_like(w), np.empty_like(w), np.empty_like(w))
        for _ in range(count):
            _convective(w, factor, s, kept, u, axes, scale, n0)
            _first_stage(w, n0, half_e, half_p1, s, a)
            _convective(a, factor, s, kept, u, axes, scale, na)
            _first_stage(w, na, half_e, half_p1, s, c)
            _convective(c, factor, s, kept, u, axes, scale, nb)
            _third_stage(a, n0, na, nb, half_e, half_p1, s, c)
            _convective(c, factor, s, kept, u, axes, scale, na)
            _last_stage(w, n0, nb, na, e, first, middle, last, s)
        v[s : s + block] = w


@_njit
def _transported(v, symbols, shear, strain, force, s, slow, u, whole, scale, out):
    """out = shear·F[u_x u_y] + strain·F[u_y² − u_x²] + force, the products of the velocities symbols·v.

    slow (block, 2, nx, kept), u (block, 2, nx, ny), whole (block, 2, nx, ny//2 + 1) : work space
    """
    rows, columns, kept = np.array([2]), np.array([3]), slow.shape[3]
    for b in range(v.shape[0]):
        for i in range(v.shape[1]):
            for k in range(kept):
                slow[b, 0, i, k] = symbols[0, i, k] * v[b, i, k]
                slow[b, 1, i, k] = symbols[1, i, k] * v[b, i, k]
    c2c(slow, slow, rows, False, 1.0, 1)
    c2r(slow, u, columns, False, 1.0, 1)
    for b in range(u.shape[0]):
        for i in range(u.shape[2]):
            for j in range(u.shape[3]):
                x, y = u[b, 0, i, j], u[b, 1, i, j]
                u[b, 0, i, j] = x * y
                u[b, 1, i, j] = (y - x) * (y + x)
    r2c(u, whole, columns, True, scale, 1)
    few = whole[:, :, :, :kept]
    c2c(few, few, rows, True, 1.0, 1)
    for b in range(v.shape[0]):
        t = s + b if force.shape[0] > 1 else 0
        for i in range(v.shape[1]):
            for k in range(kept):
                product = shear[i, k] * whole[b, 0, i, k] + strain[i, k] * whole[b, 1, i, k]
                out[b, i, k] = product + force[t, i, k]
            for k in range(kept, v.shape[2]):
                out[b, i, k] = force[t, i, k]


@_njit
def vorticity(v, count, e, half_e, half_p1, first, middle, last, symbols, shear, strain, force, kept, points):
    """`count` steps of dv/dt = Lv + N(v), in place; v (batch, nx, ny//2 + 1), tables (1 or batch, the product of both).

    symbols (2, …), shear, strain : real or complex spectra, zero beyond the mask; force (1 or batch, …)
    """
    nx, half = v.shape[1], v.shape[2]
    scale, m = 1.0 / (nx * points), nx * half
    for s in range(v.shape[0]):
        w, z = v[s : s + 1].copy(), 1
        slow = np.empty((z, 2, nx, kept), dtype=w.dtype)
        u = np.empty((z, 2, nx, points), dtype=w.real.dtype)
        whole = np.empty((z, 2, nx, half), dtype=w.dtype)
        a, c, n0, na, nb = (np.empty_like(w), np.empty_like(w), np.empty_like(w), np.empty_like(w), np.empty_like(w))
        wf, af, cf = w.reshape(z, m), a.reshape(z, m), c.reshape(z, m)
        n0f, naf, nbf = n0.reshape(z, m), na.reshape(z, m), nb.reshape(z, m)
        for _ in range(count):
            _transported(w, symbols, shear, strain, force, s, slow, u, whole, scale, n0)
            _first_stage(wf, n0f, half_e, half_p1, s, af)
            _transported(a, symbols, shear, strain, force, s, slow, u, whole, scale, na)
            _first_stage(wf, naf, half_e, half_p1, s, cf)
            _transported(c, symbols, shear, strain, force, s, slow, u, whole, scale, nb)
            _third_stage(af, n0f, naf, nbf, half_e, half_p1, s, cf)
            _transported(c, symbols, shear, strain, force, s, slow, u, whole, scale, na)
            _last_stage(wf, n0f, nbf, naf, e, first, middle, last, s)
        v[s : s + 1] = w
