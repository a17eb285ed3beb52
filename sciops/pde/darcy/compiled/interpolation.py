"""Black-box interpolation weights (Dendy, J. Comput. Phys. 48, 1982) from a level's stencil: kernels.

The order of P is that of `galerkin.interpolated`: NW N NE W E SW S SE, or N S where rows alone are halved; mx, my are
those of the coarser level, width that of a row of the finer. In the names of rows, q and t stand for se and sw; the
digit counts fine rows: 0 is 2i − 1, 1 is 2i, 2 is 2i + 1.
"""

from __future__ import annotations

from sciops.pde.darcy.compiled.calls import at


def interpolate_both(d, e, s, se, sw, P, mx, my, width):
    """The weights where rows and columns are halved."""
    plane = (mx + 2) * (my + 2)
    for i in range(1, mx + 1):
        nw = at(P, i * (my + 2))
        n, ne, w, ea = at(nw, plane), at(nw, 2 * plane), at(nw, 3 * plane), at(nw, 4 * plane)
        so, s_, se_ = at(nw, 5 * plane), at(nw, 6 * plane), at(nw, 7 * plane)
        r0, r1, r2 = (2 * i - 1) * width, 2 * i * width, (2 * i + 1) * width
        d0, d1, d2, e0, e1, e2 = at(d, r0), at(d, r1), at(d, r2), at(e, r0), at(e, r1), at(e, r2)
        s0, s1, q0, q1, t0, t1 = at(s, r0), at(s, r1), at(se, r0), at(se, r1), at(sw, r0), at(sw, r1)
        for j in range(my):
            k = 2 * j + 2
            # weights on the four edges: the couplings of three neighbours over the collapsed diagonal
            up = (s0[k] + q0[k] + t0[k]) / (d0[k] - e0[k] - e0[k - 1])
            down = (s1[k] + q1[k - 1] + t1[k + 1]) / (d2[k] - e2[k] - e2[k - 1])
            left = (e1[k - 1] + t0[k] + q1[k - 1]) / (d1[k - 1] - s1[k - 1] - s0[k - 1])
            right = (e1[k] + q0[k] + t1[k + 1]) / (d1[k + 1] - s1[k + 1] - s0[k + 1])
            n[j + 1] = up
            s_[j + 1] = down
            w[j + 1] = left
            ea[j + 1] = right
            nw[j + 1] = (q0[k - 1] + e0[k - 1] * up + s0[k - 1] * left) / d0[k - 1]
            ne[j + 1] = (t0[k + 1] + e0[k] * up + s0[k + 1] * right) / d0[k + 1]
            so[j + 1] = (t1[k] + e2[k - 1] * down + s1[k - 1] * left) / d2[k - 1]
            se_[j + 1] = (q1[k] + e2[k] * down + s1[k + 1] * right) / d2[k + 1]


def interpolate_rows(d, e, s, se, sw, P, mx, my, width):
    """The weights where rows alone are halved."""
    for i in range(1, mx + 1):
        n = at(P, i * (my + 2))
        s_ = at(n, (mx + 2) * (my + 2))
        r0, r1, r2 = (2 * i - 1) * width, 2 * i * width, (2 * i + 1) * width
        d0, d2, e0, e2, s0, s1 = at(d, r0), at(d, r2), at(e, r0), at(e, r2), at(s, r0), at(s, r1)
        q0, q1, t0, t1 = at(se, r0), at(se, r1), at(sw, r0), at(sw, r1)
        for k in range(1, my + 1):
            n[k] = (s0[k] + q0[k] + t0[k]) / (d0[k] - e0[k] - e0[k - 1])
            s_[k] = (s1[k] + q1[k - 1] + t1[k + 1]) / (d2[k] - e2[k] - e2[k - 1])
