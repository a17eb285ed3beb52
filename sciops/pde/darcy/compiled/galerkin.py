"""The Galerkin product A_c = PᵀAP of a stencil, compiled; the rule is in `galerkin.galerkin_products`.

d, e, s, se, sw : the fine stencil; P : the weights towards the fine points; D, E, S, SE, SW : the coarse stencil, which
is written; all with a halo of zeros (ones on a diagonal), so that no boundary needs a case. mx, my : coarse points.

Coarse point (i, j) has one line of an expression for each fine point near it:

    weight of the fine point × what A makes at that point of the interpolation from coarse point (i, j) + shift,

where the shift is that of the entry: (0, 0) for D, (0, 1) for E, (1, 0) for S, (1, 1) for SE, (1, −1) for SW. The line
without a weight is the fine point that coincides with (i, j). For example, in E the line

    no * (-e0[k] * NW[j + 1] - q0[k] * WE[j + 1])

is the fine point north of (i, j), which couples by e0[k] to the point east of it and by q0[k] to the one south-east of
it; these are interpolated from coarse point (i, j + 1) with the weights NW and WE of that point. Couplings are
subtracted in A, which is why E, S, SE and SW change their sign.

In the names of fine rows, q and t stand for se and sw; the digit counts rows: 0 is 2i − 1, 1 is 2i, 2 is 2i + 1. The
weights of coarse row i are named by where the fine point lies: NW NO NE WE EA WS SO ES; those of row i + 1 end in 1.
Small letters are their values at coarse column j, read once: every `NW[j]` that is written takes time to compile.

The sums are written out because loops over tables of offsets would not vectorise; those of five points leave out the
terms of se and sw, half of the work on the finest level, which costs as much as all others together.
"""

from __future__ import annotations

import numpy as np

from sciops.pde.darcy.compiled.levels import fast

TWO = np.float32(2.0)  # of a coupling that counts twice; exact in the precision of the arrays


@fast
def both_from_five(d, e, s, se, sw, P, D, E, S, SE, SW, mx, my):
    """A five-point stencil, rows and columns halved."""
    for i in range(1, mx + 1):
        NW, NO, NE, WE, EA, WS, SO, ES = P[0, i], P[1, i], P[2, i], P[3, i], P[4, i], P[5, i], P[6, i], P[7, i]
        NW1, NO1, NE1, WE1, EA1 = P[0, i + 1], P[1, i + 1], P[2, i + 1], P[3, i + 1], P[4, i + 1]
        d0, d1, d2 = d[2 * i - 1], d[2 * i], d[2 * i + 1]
        e0, e1, e2 = e[2 * i - 1], e[2 * i], e[2 * i + 1]
        s0, s1, s2 = s[2 * i - 1], s[2 * i], s[2 * i + 1]
        for j in range(1, my + 1):
            k = 2 * j
            nw, no, ne, we, ea, ws, so, es = NW[j], NO[j], NE[j], WE[j], EA[j], WS[j], SO[j], ES[j]
            nw1, no1, ne1, we1, ea1 = NW1[j], NO1[j], NE1[j], WE1[j], EA1[j]
            D[i, j] = (
                nw * (d0[k - 1] * nw - TWO * e0[k - 1] * no - TWO * s0[k - 1] * we)
                + no * (d0[k] * no - TWO * e0[k] * ne - TWO * s0[k])
                + ne * (d0[k + 1] * ne - TWO * s0[k + 1] * ea)
                + we * (d1[k - 1] * we - TWO * e1[k - 1] - TWO * s1[k - 1] * ws)
                + (d1[k] - TWO * e1[k] * ea - TWO * s1[k] * so)
                + ea * (d1[k + 1] * ea - TWO * s1[k + 1] * es)
                + ws * (d2[k - 1] * ws - TWO * e2[k - 1] * so)
                + so * (d2[k] * so - TWO * e2[k] * es)
                + es * (d2[k + 1] * es)
            )
            E[i, j] = -(
                no * (-e0[k] * NW[j + 1])
                + ne * (d0[k + 1] * NW[j + 1] - e0[k + 1] * NO[j + 1] - s0[k + 1] * WE[j + 1])
                + (-e1[k] * WE[j + 1])
                + ea * (-s0[k + 1] * NW[j + 1] + d1[k + 1] * WE[j + 1] - e1[k + 1] - s1[k + 1] * WS[j + 1])
                + so * (-e2[k] * WS[j + 1])
                + es * (-s1[k + 1] * WE[j + 1] + d2[k + 1] * WS[j + 1] - e2[k + 1] * SO[j + 1])
            )
            S[i, j] = -(
                we * (-s1[k - 1] * nw1)
                + (-s1[k] * no1)
                + ea * (-s1[k + 1] * ne1)
                + ws * (d2[k - 1] * nw1 - e2[k - 1] * no1 - s2[k - 1] * we1)
                + so * (-e2[k - 1] * nw1 + d2[k] * no1 - e2[k] * ne1 - s2[k])
                + es * (-e2[k] * no1 + d2[k + 1] * ne1 - s2[k + 1] * ea1)
            )
            SE[i, j] = -(
                ea * (-s1[k + 1] * NW1[j + 1])
                + so * (-e2[k] * NW1[j + 1])
                + es * (d2[k + 1] * NW1[j + 1] - e2[k + 1] * NO1[j + 1] - s2[k + 1] * WE1[j + 1])
            )
            SW[i, j] = -(
                we * (-s1[k - 1] * NE1[j - 1])
                + ws * (-e2[k - 2] * NO1[j - 1] + d2[k - 1] * NE1[j - 1] - s2[k - 1] * EA1[j - 1])
                + so * (-e2[k - 1] * NE1[j - 1])
            )


@fast
def both_from_nine(d, e, s, se, sw, P, D, E, S, SE, SW, mx, my):
    """A nine-point stencil, rows and columns halved."""
    for i in range(1, mx + 1):
        NW, NO, NE, WE, EA, WS, SO, ES = P[0, i], P[1, i], P[2, i], P[3, i], P[4, i], P[5, i], P[6, i], P[7, i]
        NW1, NO1, NE1, WE1, EA1 = P[0, i + 1], P[1, i + 1], P[2, i + 1], P[3, i + 1], P[4, i + 1]
        d0, d1, d2 = d[2 * i - 1], d[2 * i], d[2 * i + 1]
        e0, e1, e2 = e[2 * i - 1], e[2 * i], e[2 * i + 1]
        s0, s1, s2 = s[2 * i - 1], s[2 * i], s[2 * i + 1]
        q0, q1, q2 = se[2 * i - 1], se[2 * i], se[2 * i + 1]
        t0, t1, t2 = sw[2 * i - 1], sw[2 * i], sw[2 * i + 1]
        for j in range(1, my + 1):
            k = 2 * j
            nw, no, ne, we, ea, ws, so, es = NW[j], NO[j], NE[j], WE[j], EA[j], WS[j], SO[j], ES[j]
            nw1, no1, ne1, we1, ea1 = NW1[j], NO1[j], NE1[j], WE1[j], EA1[j]
            D[i, j] = (
                nw * (d0[k - 1] * nw - TWO * e0[k - 1] * no - TWO * s0[k - 1] * we - TWO * q0[k - 1])
                + no * (d0[k] * no - TWO * e0[k] * ne - TWO * t0[k] * we - TWO * s0[k] - TWO * q0[k] * ea)
                + ne * (d0[k + 1] * ne - TWO * t0[k + 1] - TWO * s0[k + 1] * ea)
                + we * (d1[k - 1] * we - TWO * e1[k - 1] - TWO * s1[k - 1] * ws - TWO * q1[k - 1] * so)
                + (d1[k] - TWO * e1[k] * ea - TWO * t1[k] * ws - TWO * s1[k] * so - TWO * q1[k] * es)
                + ea * (d1[k + 1] * ea - TWO * t1[k + 1] * so - TWO * s1[k + 1] * es)
                + ws * (d2[k - 1] * ws - TWO * e2[k - 1] * so)
                + so * (d2[k] * so - TWO * e2[k] * es)
                + es * (d2[k + 1] * es)
            )
            E[i, j] = -(
                no * (-e0[k] * NW[j + 1] - q0[k] * WE[j + 1])
                + ne * (d0[k + 1] * NW[j + 1] - e0[k + 1] * NO[j + 1] - s0[k + 1] * WE[j + 1] - q0[k + 1])
                + (-t0[k + 1] * NW[j + 1] - e1[k] * WE[j + 1] - q1[k] * WS[j + 1])
                + ea
                * (
                    -s0[k + 1] * NW[j + 1]
                    - t0[k + 2] * NO[j + 1]
                    + d1[k + 1] * WE[j + 1]
                    - e1[k + 1]
                    - s1[k + 1] * WS[j + 1]
                    - q1[k + 1] * SO[j + 1]
                )
                + so * (-t1[k + 1] * WE[j + 1] - e2[k] * WS[j + 1])
                + es * (-s1[k + 1] * WE[j + 1] - t1[k + 2] + d2[k + 1] * WS[j + 1] - e2[k + 1] * SO[j + 1])
            )
            S[i, j] = -(
                we * (-s1[k - 1] * nw1 - q1[k - 1] * no1)
                + (-t1[k] * nw1 - s1[k] * no1 - q1[k] * ne1)
                + ea * (-t1[k + 1] * no1 - s1[k + 1] * ne1)
                + ws * (d2[k - 1] * nw1 - e2[k - 1] * no1 - s2[k - 1] * we1 - q2[k - 1])
                + so * (-e2[k - 1] * nw1 + d2[k] * no1 - e2[k] * ne1 - t2[k] * we1 - s2[k] - q2[k] * ea1)
                + es * (-e2[k] * no1 + d2[k + 1] * ne1 - t2[k + 1] - s2[k + 1] * ea1)
            )
            SE[i, j] = -(
                (-q1[k] * NW1[j + 1])
                + ea * (-s1[k + 1] * NW1[j + 1] - q1[k + 1] * NO1[j + 1])
                + so * (-e2[k] * NW1[j + 1] - q2[k] * WE1[j + 1])
                + es * (d2[k + 1] * NW1[j + 1] - e2[k + 1] * NO1[j + 1] - s2[k + 1] * WE1[j + 1] - q2[k + 1])
            )
            SW[i, j] = -(
                we * (-t1[k - 1] * NO1[j - 1] - s1[k - 1] * NE1[j - 1])
                + (-t1[k] * NE1[j - 1])
                + ws * (-e2[k - 2] * NO1[j - 1] + d2[k - 1] * NE1[j - 1] - t2[k - 1] - s2[k - 1] * EA1[j - 1])
                + so * (-e2[k - 1] * NE1[j - 1] - t2[k] * EA1[j - 1])
            )


@fast
def rows_from_five(d, e, s, se, sw, P, D, E, S, SE, SW, mx, my):
    """A five-point stencil, rows alone halved."""
    for i in range(1, mx + 1):
        NO, SO = P[0, i], P[1, i]
        NO1 = P[0, i + 1]
        d0, d1, d2 = d[2 * i - 1], d[2 * i], d[2 * i + 1]
        e0, e1, e2 = e[2 * i - 1], e[2 * i], e[2 * i + 1]
        s0, s1, s2 = s[2 * i - 1], s[2 * i], s[2 * i + 1]
        for j in range(1, my + 1):
            no, so = NO[j], SO[j]
            no1 = NO1[j]
            D[i, j] = no * (d0[j] * no - TWO * s0[j]) + (d1[j] - TWO * s1[j] * so) + so * (d2[j] * so)
            E[i, j] = -(no * (-e0[j] * NO[j + 1]) + (-e1[j]) + so * (-e2[j] * SO[j + 1]))
            S[i, j] = -((-s1[j] * no1) + so * (d2[j] * no1 - s2[j]))
            SE[i, j] = -(so * (-e2[j] * NO1[j + 1]))
            SW[i, j] = -(so * (-e2[j - 1] * NO1[j - 1]))


@fast
def rows_from_nine(d, e, s, se, sw, P, D, E, S, SE, SW, mx, my):
    """A nine-point stencil, rows alone halved."""
    for i in range(1, mx + 1):
        NO, SO = P[0, i], P[1, i]
        NO1 = P[0, i + 1]
        d0, d1, d2 = d[2 * i - 1], d[2 * i], d[2 * i + 1]
        e0, e1, e2 = e[2 * i - 1], e[2 * i], e[2 * i + 1]
        s0, s1, s2 = s[2 * i - 1], s[2 * i], s[2 * i + 1]
        q0, q1, q2 = se[2 * i - 1], se[2 * i], se[2 * i + 1]
        t0, t1, t2 = sw[2 * i - 1], sw[2 * i], sw[2 * i + 1]
        for j in range(1, my + 1):
            no, so = NO[j], SO[j]
            no1 = NO1[j]
            D[i, j] = no * (d0[j] * no - TWO * s0[j]) + (d1[j] - TWO * s1[j] * so) + so * (d2[j] * so)
            E[i, j] = -(
                no * (-e0[j] * NO[j + 1] - q0[j])
                + (-t0[j + 1] * NO[j + 1] - e1[j] - q1[j] * SO[j + 1])
                + so * (-t1[j + 1] - e2[j] * SO[j + 1])
            )
            S[i, j] = -((-s1[j] * no1) + so * (d2[j] * no1 - s2[j]))
            SE[i, j] = -((-q1[j] * NO1[j + 1]) + so * (-e2[j] * NO1[j + 1] - q2[j]))
            SW[i, j] = -((-t1[j] * NO1[j - 1]) + so * (-e2[j - 1] * NO1[j - 1] - t2[j]))
