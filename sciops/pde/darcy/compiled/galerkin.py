"""The Galerkin product A_c = PᵀAP of a stencil, compiled; the rule is in `galerkin.galerkin_products`.

d, e, s, se, sw : the fine stencil; P : the weights towards the fine points; D, E, S, SE, SW : the coarse stencil, which
is written; all with a halo of zeros (ones on a diagonal), so that no boundary needs a case.

Coarse point (i, j) has one line of an expression for each fine point near it:

    weight of the fine point × what A makes at that point of the interpolation from coarse point (i, j) + shift,

where the shift is that of the entry: (0, 0) for D, (0, 1) for E, (1, 0) for S, (1, 1) for SE, (1, −1) for SW. The line
without a weight is the fine point that coincides with (i, j). For example, in E the line

    no * (-e0c * nw_e - q0c * we_e)

is the fine point north of (i, j), which couples by e0c to the point east of it and by q0c to the one south-east of it;
these are interpolated from coarse point (i, j + 1) with the weights nw_e and we_e of that point. Couplings are
subtracted in A, which is why E, S, SE and SW change their sign.

In the names of fine rows, q and t stand for se and sw; the digit counts rows: 0 is 2i − 1, 1 is 2i, 2 is 2i + 1. The
weights of coarse row i are named by where the fine point lies: NW NO NE WE EA WS SO ES; those of row i + 1 end in 1.
Small letters are their values: in column 2j those of a fine row end in c, in the columns west and east of it in w and
e, two away in ww and ee; those of a weight have no ending at coarse column j, and end in _w and _e at j − 1 and j + 1.
Each is read once: every access that is written takes time to compile.

The sums are written out because loops over tables of offsets would not vectorise; those of five points leave out the
terms of se and sw, half of the work on the finest level, which costs as much as all others together. mx, my : coarse
points; width : of a fine row.
"""

from __future__ import annotations

import numpy as np

from sciops.pde.darcy.compiled.calls import at

TWO = np.float32(2.0)  # of a coupling that counts twice; exact in the precision of the arrays


def both_from_five(d, e, s, se, sw, P, D, E, S, SE, SW, mx, my, width):
    """A five-point stencil, rows and columns halved."""
    plane = (mx + 2) * (my + 2)
    for i in range(1, mx + 1):
        NW, NW1 = at(P, i * (my + 2)), at(P, (i + 1) * (my + 2))
        NO, NE, WE, EA = at(NW, plane), at(NW, 2 * plane), at(NW, 3 * plane), at(NW, 4 * plane)
        WS, SO, ES = at(NW, 5 * plane), at(NW, 6 * plane), at(NW, 7 * plane)
        NO1, NE1, WE1, EA1 = at(NW1, plane), at(NW1, 2 * plane), at(NW1, 3 * plane), at(NW1, 4 * plane)
        r0, r1, r2, row = (2 * i - 1) * width, 2 * i * width, (2 * i + 1) * width, i * (my + 3)
        D_, E_, S_, SE_, SW_ = at(D, row), at(E, row), at(S, row), at(SE, row), at(SW, row)
        d0, d1, d2 = at(d, r0), at(d, r1), at(d, r2)
        e0, e1, e2 = at(e, r0), at(e, r1), at(e, r2)
        s0, s1, s2 = at(s, r0), at(s, r1), at(s, r2)
        for j in range(1, my + 1):
            k = 2 * j
            nw, no, ne, we, ea, ws, so, es = NW[j], NO[j], NE[j], WE[j], EA[j], WS[j], SO[j], ES[j]
            nw1, no1, ne1, we1, ea1 = NW1[j], NO1[j], NE1[j], WE1[j], EA1[j]
            nw_e, no_e, we_e, ws_e, so_e = NW[j + 1], NO[j + 1], WE[j + 1], WS[j + 1], SO[j + 1]
            nw1_e, no1_e, we1_e = NW1[j + 1], NO1[j + 1], WE1[j + 1]
            no1_w, ne1_w, ea1_w = NO1[j - 1], NE1[j - 1], EA1[j - 1]
            d0w, d0c, d0e = d0[k - 1], d0[k], d0[k + 1]
            d1w, d1c, d1e = d1[k - 1], d1[k], d1[k + 1]
            d2w, d2c, d2e = d2[k - 1], d2[k], d2[k + 1]
            e0w, e0c, e0e = e0[k - 1], e0[k], e0[k + 1]
            e1w, e1c, e1e = e1[k - 1], e1[k], e1[k + 1]
            e2ww, e2w, e2c, e2e = e2[k - 2], e2[k - 1], e2[k], e2[k + 1]
            s0w, s0c, s0e = s0[k - 1], s0[k], s0[k + 1]
            s1w, s1c, s1e = s1[k - 1], s1[k], s1[k + 1]
            s2w, s2c, s2e = s2[k - 1], s2[k], s2[k + 1]
            D_[j] = (
                nw * (d0w * nw - TWO * e0w * no - TWO * s0w * we)
                + no * (d0c * no - TWO * e0c * ne - TWO * s0c)
                + ne * (d0e * ne - TWO * s0e * ea)
                + we * (d1w * we - TWO * e1w - TWO * s1w * ws)
                + (d1c - TWO * e1c * ea - TWO * s1c * so)
                + ea * (d1e * ea - TWO * s1e * es)
                + ws * (d2w * ws - TWO * e2w * so)
                + so * (d2c * so - TWO * e2c * es)
                + es * (d2e * es)
            )
            E_[j] = -(
                no * (-e0c * nw_e)
                + ne * (d0e * nw_e - e0e * no_e - s0e * we_e)
                + (-e1c * we_e)
                + ea * (-s0e * nw_e + d1e * we_e - e1e - s1e * ws_e)
                + so * (-e2c * ws_e)
                + es * (-s1e * we_e + d2e * ws_e - e2e * so_e)
            )
            S_[j] = -(
                we * (-s1w * nw1)
                + (-s1c * no1)
                + ea * (-s1e * ne1)
                + ws * (d2w * nw1 - e2w * no1 - s2w * we1)
                + so * (-e2w * nw1 + d2c * no1 - e2c * ne1 - s2c)
                + es * (-e2c * no1 + d2e * ne1 - s2e * ea1)
            )
            SE_[j] = -(ea * (-s1e * nw1_e) + so * (-e2c * nw1_e) + es * (d2e * nw1_e - e2e * no1_e - s2e * we1_e))
            SW_[j] = -(we * (-s1w * ne1_w) + ws * (-e2ww * no1_w + d2w * ne1_w - s2w * ea1_w) + so * (-e2w * ne1_w))


def both_from_nine(d, e, s, se, sw, P, D, E, S, SE, SW, mx, my, width):
    """A nine-point stencil, rows and columns halved."""
    plane = (mx + 2) * (my + 2)
    for i in range(1, mx + 1):
        NW, NW1 = at(P, i * (my + 2)), at(P, (i + 1) * (my + 2))
        NO, NE, WE, EA = at(NW, plane), at(NW, 2 * plane), at(NW, 3 * plane), at(NW, 4 * plane)
        WS, SO, ES = at(NW, 5 * plane), at(NW, 6 * plane), at(NW, 7 * plane)
        NO1, NE1, WE1, EA1 = at(NW1, plane), at(NW1, 2 * plane), at(NW1, 3 * plane), at(NW1, 4 * plane)
        r0, r1, r2, row = (2 * i - 1) * width, 2 * i * width, (2 * i + 1) * width, i * (my + 3)
        D_, E_, S_, SE_, SW_ = at(D, row), at(E, row), at(S, row), at(SE, row), at(SW, row)
        d0, d1, d2 = at(d, r0), at(d, r1), at(d, r2)
        e0, e1, e2 = at(e, r0), at(e, r1), at(e, r2)
        s0, s1, s2 = at(s, r0), at(s, r1), at(s, r2)
        q0, q1, q2 = at(se, r0), at(se, r1), at(se, r2)
        t0, t1, t2 = at(sw, r0), at(sw, r1), at(sw, r2)
        for j in range(1, my + 1):
            k = 2 * j
            nw, no, ne, we, ea, ws, so, es = NW[j], NO[j], NE[j], WE[j], EA[j], WS[j], SO[j], ES[j]
            nw1, no1, ne1, we1, ea1 = NW1[j], NO1[j], NE1[j], WE1[j], EA1[j]
            nw_e, no_e, we_e, ws_e, so_e = NW[j + 1], NO[j + 1], WE[j + 1], WS[j + 1], SO[j + 1]
            nw1_e, no1_e, we1_e = NW1[j + 1], NO1[j + 1], WE1[j + 1]
            no1_w, ne1_w, ea1_w = NO1[j - 1], NE1[j - 1], EA1[j - 1]
            d0w, d0c, d0e = d0[k - 1], d0[k], d0[k + 1]
            d1w, d1c, d1e = d1[k - 1], d1[k], d1[k + 1]
            d2w, d2c, d2e = d2[k - 1], d2[k], d2[k + 1]
            e0w, e0c, e0e = e0[k - 1], e0[k], e0[k + 1]
            e1w, e1c, e1e = e1[k - 1], e1[k], e1[k + 1]
            e2ww, e2w, e2c, e2e = e2[k - 2], e2[k - 1], e2[k], e2[k + 1]
            s0w, s0c, s0e = s0[k - 1], s0[k], s0[k + 1]
            s1w, s1c, s1e = s1[k - 1], s1[k], s1[k + 1]
            s2w, s2c, s2e = s2[k - 1], s2[k], s2[k + 1]
            q0w, q0c, q0e = q0[k - 1], q0[k], q0[k + 1]
            q1w, q1c, q1e = q1[k - 1], q1[k], q1[k + 1]
            q2w, q2c, q2e = q2[k - 1], q2[k], q2[k + 1]
            t0c, t0e, t0ee = t0[k], t0[k + 1], t0[k + 2]
            t1w, t1c, t1e, t1ee = t1[k - 1], t1[k], t1[k + 1], t1[k + 2]
            t2w, t2c, t2e = t2[k - 1], t2[k], t2[k + 1]
            D_[j] = (
                nw * (d0w * nw - TWO * e0w * no - TWO * s0w * we - TWO * q0w)
                + no * (d0c * no - TWO * e0c * ne - TWO * t0c * we - TWO * s0c - TWO * q0c * ea)
                + ne * (d0e * ne - TWO * t0e - TWO * s0e * ea)
                + we * (d1w * we - TWO * e1w - TWO * s1w * ws - TWO * q1w * so)
                + (d1c - TWO * e1c * ea - TWO * t1c * ws - TWO * s1c * so - TWO * q1c * es)
                + ea * (d1e * ea - TWO * t1e * so - TWO * s1e * es)
                + ws * (d2w * ws - TWO * e2w * so)
                + so * (d2c * so - TWO * e2c * es)
                + es * (d2e * es)
            )
            E_[j] = -(
                no * (-e0c * nw_e - q0c * we_e)
                + ne * (d0e * nw_e - e0e * no_e - s0e * we_e - q0e)
                + (-t0e * nw_e - e1c * we_e - q1c * ws_e)
                + ea * (-s0e * nw_e - t0ee * no_e + d1e * we_e - e1e - s1e * ws_e - q1e * so_e)
                + so * (-t1e * we_e - e2c * ws_e)
                + es * (-s1e * we_e - t1ee + d2e * ws_e - e2e * so_e)
            )
            S_[j] = -(
                we * (-s1w * nw1 - q1w * no1)
                + (-t1c * nw1 - s1c * no1 - q1c * ne1)
                + ea * (-t1e * no1 - s1e * ne1)
                + ws * (d2w * nw1 - e2w * no1 - s2w * we1 - q2w)
                + so * (-e2w * nw1 + d2c * no1 - e2c * ne1 - t2c * we1 - s2c - q2c * ea1)
                + es * (-e2c * no1 + d2e * ne1 - t2e - s2e * ea1)
            )
            SE_[j] = -(
                (-q1c * nw1_e)
                + ea * (-s1e * nw1_e - q1e * no1_e)
                + so * (-e2c * nw1_e - q2c * we1_e)
                + es * (d2e * nw1_e - e2e * no1_e - s2e * we1_e - q2e)
            )
            SW_[j] = -(
                we * (-t1w * no1_w - s1w * ne1_w)
                + (-t1c * ne1_w)
                + ws * (-e2ww * no1_w + d2w * ne1_w - t2w - s2w * ea1_w)
                + so * (-e2w * ne1_w - t2c * ea1_w)
            )


def rows_from_five(d, e, s, se, sw, P, D, E, S, SE, SW, mx, my, width):
    """A five-point stencil, rows alone halved."""
    plane = (mx + 2) * (my + 2)
    for i in range(1, mx + 1):
        NO, NO1 = at(P, i * (my + 2)), at(P, (i + 1) * (my + 2))
        SO = at(NO, plane)
        r0, r1, r2, row = (2 * i - 1) * width, 2 * i * width, (2 * i + 1) * width, i * (my + 3)
        D_, E_, S_, SE_, SW_ = at(D, row), at(E, row), at(S, row), at(SE, row), at(SW, row)
        d0, d1, d2 = at(d, r0), at(d, r1), at(d, r2)
        e0, e1, e2 = at(e, r0), at(e, r1), at(e, r2)
        s0, s1, s2 = at(s, r0), at(s, r1), at(s, r2)
        for j in range(1, my + 1):
            no, so, no1 = NO[j], SO[j], NO1[j]
            no_e, so_e, no1_e = NO[j + 1], SO[j + 1], NO1[j + 1]
            no1_w = NO1[j - 1]
            d0c = d0[j]
            d1c = d1[j]
            d2c = d2[j]
            e0c = e0[j]
            e1c = e1[j]
            e2w, e2c = e2[j - 1], e2[j]
            s0c = s0[j]
            s1c = s1[j]
            s2c = s2[j]
            D_[j] = no * (d0c * no - TWO * s0c) + (d1c - TWO * s1c * so) + so * (d2c * so)
            E_[j] = -(no * (-e0c * no_e) + (-e1c) + so * (-e2c * so_e))
            S_[j] = -((-s1c * no1) + so * (d2c * no1 - s2c))
            SE_[j] = -(so * (-e2c * no1_e))
            SW_[j] = -(so * (-e2w * no1_w))


def rows_from_nine(d, e, s, se, sw, P, D, E, S, SE, SW, mx, my, width):
    """A nine-point stencil, rows alone halved."""
    plane = (mx + 2) * (my + 2)
    for i in range(1, mx + 1):
        NO, NO1 = at(P, i * (my + 2)), at(P, (i + 1) * (my + 2))
        SO = at(NO, plane)
        r0, r1, r2, row = (2 * i - 1) * width, 2 * i * width, (2 * i + 1) * width, i * (my + 3)
        D_, E_, S_, SE_, SW_ = at(D, row), at(E, row), at(S, row), at(SE, row), at(SW, row)
        d0, d1, d2 = at(d, r0), at(d, r1), at(d, r2)
        e0, e1, e2 = at(e, r0), at(e, r1), at(e, r2)
        s0, s1, s2 = at(s, r0), at(s, r1), at(s, r2)
        q0, q1, q2 = at(se, r0), at(se, r1), at(se, r2)
        t0, t1, t2 = at(sw, r0), at(sw, r1), at(sw, r2)
        for j in range(1, my + 1):
            no, so, no1 = NO[j], SO[j], NO1[j]
            no_e, so_e, no1_e = NO[j + 1], SO[j + 1], NO1[j + 1]
            no1_w = NO1[j - 1]
            d0c = d0[j]
            d1c = d1[j]
            d2c = d2[j]
            e0c = e0[j]
            e1c = e1[j]
            e2w, e2c = e2[j - 1], e2[j]
            s0c = s0[j]
            s1c = s1[j]
            s2c = s2[j]
            q0c = q0[j]
            q1c = q1[j]
            q2c = q2[j]
            t0e = t0[j + 1]
            t1c, t1e = t1[j], t1[j + 1]
            t2c = t2[j]
            D_[j] = no * (d0c * no - TWO * s0c) + (d1c - TWO * s1c * so) + so * (d2c * so)
            E_[j] = -(no * (-e0c * no_e - q0c) + (-t0e * no_e - e1c - q1c * so_e) + so * (-t1e - e2c * so_e))
            S_[j] = -((-s1c * no1) + so * (d2c * no1 - s2c))
            SE_[j] = -((-q1c * no1_e) + so * (-e2c * no1_e - q2c))
            SW_[j] = -((-t1c * no1_w) + so * (-e2w * no1_w - t2c))
