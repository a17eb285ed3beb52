"""Kernels on runs of one level's memory: Jacobi steps, residuals, filling. The halo inside a run stays zero, since no
coupling reaches it.

Plain loops over contiguous memory, so that they vectorise.
"""

from __future__ import annotations

import numpy as np

from sciops.pde.darcy.compiled.calls import at

_ONE = np.float32(1.0)


def relax(nine, low, high, width, omega, out, f, d, e, s, se, sw, u):
    """out = u + ω (f − A u)/d."""
    up, down = low - width, low + width
    size, rest = high - low, _ONE - omega
    o, f_, d_, uc, uw, ue = at(out, low), at(f, low), at(d, low), at(u, low), at(u, low - 1), at(u, low + 1)
    un, us, ec, ew, sc, sn = at(u, up), at(u, down), at(e, low), at(e, low - 1), at(s, low), at(s, up)
    if nine:
        ac, an, bc, bn = at(se, low), at(se, up - 1), at(sw, low), at(sw, up + 1)
        unw, une, usw, use = at(u, up - 1), at(u, up + 1), at(u, down - 1), at(u, down + 1)
        for k in range(size):
            near = f_[k] + ec[k] * ue[k] + ew[k] * uw[k] + sc[k] * us[k] + sn[k] * un[k]
            flux = near + ac[k] * use[k] + an[k] * unw[k] + bc[k] * usw[k] + bn[k] * une[k]
            o[k] = rest * uc[k] + omega * flux / d_[k]
    else:
        for k in range(size):
            flux = f_[k] + ec[k] * ue[k] + ew[k] * uw[k] + sc[k] * us[k] + sn[k] * un[k]
            o[k] = rest * uc[k] + omega * flux / d_[k]


def residual(nine, low, high, width, out, f, d, e, s, se, sw, u):
    """out = f − A u."""
    up, down = low - width, low + width
    size = high - low
    o, f_, d_, uc, uw, ue = at(out, low), at(f, low), at(d, low), at(u, low), at(u, low - 1), at(u, low + 1)
    un, us, ec, ew, sc, sn = at(u, up), at(u, down), at(e, low), at(e, low - 1), at(s, low), at(s, up)
    if nine:
        ac, an, bc, bn = at(se, low), at(se, up - 1), at(sw, low), at(sw, up + 1)
        unw, une, usw, use = at(u, up - 1), at(u, up + 1), at(u, down - 1), at(u, down + 1)
        for k in range(size):
            near = f_[k] - d_[k] * uc[k] + ec[k] * ue[k] + ew[k] * uw[k] + sc[k] * us[k] + sn[k] * un[k]
            o[k] = near + ac[k] * use[k] + an[k] * unw[k] + bc[k] * usw[k] + bn[k] * une[k]
    else:
        for k in range(size):
            o[k] = f_[k] - d_[k] * uc[k] + ec[k] * ue[k] + ew[k] * uw[k] + sc[k] * us[k] + sn[k] * un[k]


def first_step(low, high, omega, out, f, d):
    """out = ω f/d, the first step from zero."""
    o, f_, d_ = at(out, low), at(f, low), at(d, low)
    for k in range(high - low):
        o[k] = omega * f_[k] / d_[k]


def put(out, count, value):
    """A number everywhere."""
    for k in range(count):
        out[k] = value
