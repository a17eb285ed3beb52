"""Black-box interpolation weights (Dendy, J. Comput. Phys. 48, 1982) from a level's stencil, compiled.

The order of P is that of `galerkin.interpolated`: NW N NE W E SW S SE, or N S where rows alone are halved. In the names
of rows, q and t stand for se and sw; the digit counts fine rows: 0 is 2i − 1, 1 is 2i, 2 is 2i + 1.
"""

from __future__ import annotations

from sciops.pde.darcy.compiled.levels import fast


@fast
def interpolate_both(d, e, s, se, sw, P, mx, my):
    """The weights where rows and columns are halved."""
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


@fast
def interpolate_rows(d, e, s, se, sw, P, mx, my):
    """The weights where rows alone are halved."""
    for i in range(1, mx + 1):
        n, s_ = P[0, i], P[1, i]
        r0, r1, r2 = 2 * i - 1, 2 * i, 2 * i + 1
        d0, d2, e0, e2, s0, s1 = d[r0], d[r2], e[r0], e[r2], s[r0], s[r1]
        q0, q1, t0, t1 = se[r0], se[r1], sw[r0], sw[r1]
        for k in range(1, my + 1):
            n[k] = (s0[k] + q0[k] + t0[k]) / (d0[k] - e0[k] - e0[k - 1])
            s_[k] = (s1[k] + q1[k - 1] + t1[k + 1]) / (d2[k] - e2[k] - e2[k - 1])
