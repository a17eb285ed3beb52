"""The Galerkin product A_c = PᵀAP of a stencil, compiled; the rule is in `galerkin.galerkin_products`.

d, e, s, se, sw : the fine stencil; P : the weights towards the fine points; D, E, S, SE, SW : the coarse stencil, which
is written; all with a halo of zeros (ones on a diagonal), so that no boundary needs a case. mx, my : coarse points.

Coarse point (i, j) has one line of an expression for each fine point near it:

    weight of the fine point × what A makes at that point of the interpolation from coarse point (i, j) + shift,

where the shift is that of the entry: (0, 0) for D, (0, 1) for E, (1, 0) for S, (1, 1) for SE, (1, −1) for SW. The line
without a weight is the fine point that coincides with (i, j). For example, in E the line

    no[j] * (-e0[k] * nw[j + 1] - q0[k] * we[j + 1])

is the fine point north of (i, j), which couples by e0[k] to the point east of it and by q0[k] to the one south-east of
it; these are interpolated from coarse point (i, j + 1) with the weights nw and we of that point. Couplings are
subtracted in A, which is why E, S, SE and SW change their sign.

In the names of fine rows, q and t stand for se and sw; the digit counts rows: 0 is 2i − 1, 1 is 2i, 2 is 2i + 1. The
weights of coarse row i are named by where the fine point lies: nw no ne we ea ws so es; those of row i + 1 end in 1.

The sums are written out because loops over tables of offsets would not vectorise; those of five points leave out the
terms of se and sw, half of the work on the finest level, which costs as much as all others together.

A coupling that counts twice is added to itself, which stays in the precision of the arrays.
"""

from __future__ import annotations

from sciops.pde.darcy.compiled.levels import fast


@fast
def both_from_five(d, e, s, se, sw, P, D, E, S, SE, SW, mx, my):
    """A five-point stencil, rows and columns halved."""
    for i in range(1, mx + 1):
        nw, no, ne, we, ea, ws, so, es = P[0, i], P[1, i], P[2, i], P[3, i], P[4, i], P[5, i], P[6, i], P[7, i]
        nw1, no1, ne1, we1, ea1 = P[0, i + 1], P[1, i + 1], P[2, i + 1], P[3, i + 1], P[4, i + 1]
        d0, d1, d2 = d[2 * i - 1], d[2 * i], d[2 * i + 1]
        e0, e1, e2 = e[2 * i - 1], e[2 * i], e[2 * i + 1]
        s0, s1, s2 = s[2 * i - 1], s[2 * i], s[2 * i + 1]
        for j in range(1, my + 1):
            k = 2 * j
            D[i, j] = (
                nw[j]
                * (
                    d0[k - 1] * nw[j]
                    - (e0[k - 1] * no[j] + e0[k - 1] * no[j])
                    - (s0[k - 1] * we[j] + s0[k - 1] * we[j])
                )
                + no[j] * (d0[k] * no[j] - (e0[k] * ne[j] + e0[k] * ne[j]) - (s0[k] + s0[k]))
                + ne[j] * (d0[k + 1] * ne[j] - (s0[k + 1] * ea[j] + s0[k + 1] * ea[j]))
                + we[j] * (d1[k - 1] * we[j] - (e1[k - 1] + e1[k - 1]) - (s1[k - 1] * ws[j] + s1[k - 1] * ws[j]))
                + (d1[k] - (e1[k] * ea[j] + e1[k] * ea[j]) - (s1[k] * so[j] + s1[k] * so[j]))
                + ea[j] * (d1[k + 1] * ea[j] - (s1[k + 1] * es[j] + s1[k + 1] * es[j]))
                + ws[j] * (d2[k - 1] * ws[j] - (e2[k - 1] * so[j] + e2[k - 1] * so[j]))
                + so[j] * (d2[k] * so[j] - (e2[k] * es[j] + e2[k] * es[j]))
                + es[j] * (d2[k + 1] * es[j])
            )
            E[i, j] = -(
                no[j] * (-e0[k] * nw[j + 1])
                + ne[j] * (d0[k + 1] * nw[j + 1] - e0[k + 1] * no[j + 1] - s0[k + 1] * we[j + 1])
                + (-e1[k] * we[j + 1])
                + ea[j] * (-s0[k + 1] * nw[j + 1] + d1[k + 1] * we[j + 1] - e1[k + 1] - s1[k + 1] * ws[j + 1])
                + so[j] * (-e2[k] * ws[j + 1])
                + es[j] * (-s1[k + 1] * we[j + 1] + d2[k + 1] * ws[j + 1] - e2[k + 1] * so[j + 1])
            )
            S[i, j] = -(
                we[j] * (-s1[k - 1] * nw1[j])
                + (-s1[k] * no1[j])
                + ea[j] * (-s1[k + 1] * ne1[j])
                + ws[j] * (d2[k - 1] * nw1[j] - e2[k - 1] * no1[j] - s2[k - 1] * we1[j])
                + so[j] * (-e2[k - 1] * nw1[j] + d2[k] * no1[j] - e2[k] * ne1[j] - s2[k])
                + es[j] * (-e2[k] * no1[j] + d2[k + 1] * ne1[j] - s2[k + 1] * ea1[j])
            )
            SE[i, j] = -(
                ea[j] * (-s1[k + 1] * nw1[j + 1])
                + so[j] * (-e2[k] * nw1[j + 1])
                + es[j] * (d2[k + 1] * nw1[j + 1] - e2[k + 1] * no1[j + 1] - s2[k + 1] * we1[j + 1])
            )
            SW[i, j] = -(
                we[j] * (-s1[k - 1] * ne1[j - 1])
                + ws[j] * (-e2[k - 2] * no1[j - 1] + d2[k - 1] * ne1[j - 1] - s2[k - 1] * ea1[j - 1])
                + so[j] * (-e2[k - 1] * ne1[j - 1])
            )


@fast
def both_from_nine(d, e, s, se, sw, P, D, E, S, SE, SW, mx, my):
    """A nine-point stencil, rows and columns halved."""
    for i in range(1, mx + 1):
        nw, no, ne, we, ea, ws, so, es = P[0, i], P[1, i], P[2, i], P[3, i], P[4, i], P[5, i], P[6, i], P[7, i]
        nw1, no1, ne1, we1, ea1 = P[0, i + 1], P[1, i + 1], P[2, i + 1], P[3, i + 1], P[4, i + 1]
        d0, d1, d2 = d[2 * i - 1], d[2 * i], d[2 * i + 1]
        e0, e1, e2 = e[2 * i - 1], e[2 * i], e[2 * i + 1]
        s0, s1, s2 = s[2 * i - 1], s[2 * i], s[2 * i + 1]
        q0, q1, q2 = se[2 * i - 1], se[2 * i], se[2 * i + 1]
        t0, t1, t2 = sw[2 * i - 1], sw[2 * i], sw[2 * i + 1]
        for j in range(1, my + 1):
            k = 2 * j
            D[i, j] = (
                nw[j]
                * (
                    d0[k - 1] * nw[j]
                    - (e0[k - 1] * no[j] + e0[k - 1] * no[j])
                    - (s0[k - 1] * we[j] + s0[k - 1] * we[j])
                    - (q0[k - 1] + q0[k - 1])
                )
                + no[j]
                * (
                    d0[k] * no[j]
                    - (e0[k] * ne[j] + e0[k] * ne[j])
                    - (t0[k] * we[j] + t0[k] * we[j])
                    - (s0[k] + s0[k])
                    - (q0[k] * ea[j] + q0[k] * ea[j])
                )
                + ne[j] * (d0[k + 1] * ne[j] - (t0[k + 1] + t0[k + 1]) - (s0[k + 1] * ea[j] + s0[k + 1] * ea[j]))
                + we[j]
                * (
                    d1[k - 1] * we[j]
                    - (e1[k - 1] + e1[k - 1])
                    - (s1[k - 1] * ws[j] + s1[k - 1] * ws[j])
                    - (q1[k - 1] * so[j] + q1[k - 1] * so[j])
                )
                + (
                    d1[k]
                    - (e1[k] * ea[j] + e1[k] * ea[j])
                    - (t1[k] * ws[j] + t1[k] * ws[j])
                    - (s1[k] * so[j] + s1[k] * so[j])
                    - (q1[k] * es[j] + q1[k] * es[j])
                )
                + ea[j]
                * (
                    d1[k + 1] * ea[j]
                    - (t1[k + 1] * so[j] + t1[k + 1] * so[j])
                    - (s1[k + 1] * es[j] + s1[k + 1] * es[j])
                )
                + ws[j] * (d2[k - 1] * ws[j] - (e2[k - 1] * so[j] + e2[k - 1] * so[j]))
                + so[j] * (d2[k] * so[j] - (e2[k] * es[j] + e2[k] * es[j]))
                + es[j] * (d2[k + 1] * es[j])
            )
            E[i, j] = -(
                no[j] * (-e0[k] * nw[j + 1] - q0[k] * we[j + 1])
                + ne[j] * (d0[k + 1] * nw[j + 1] - e0[k + 1] * no[j + 1] - s0[k + 1] * we[j + 1] - q0[k + 1])
                + (-t0[k + 1] * nw[j + 1] - e1[k] * we[j + 1] - q1[k] * ws[j + 1])
                + ea[j]
                * (
                    -s0[k + 1] * nw[j + 1]
                    - t0[k + 2] * no[j + 1]
                    + d1[k + 1] * we[j + 1]
                    - e1[k + 1]
                    - s1[k + 1] * ws[j + 1]
                    - q1[k + 1] * so[j + 1]
                )
                + so[j] * (-t1[k + 1] * we[j + 1] - e2[k] * ws[j + 1])
                + es[j] * (-s1[k + 1] * we[j + 1] - t1[k + 2] + d2[k + 1] * ws[j + 1] - e2[k + 1] * so[j + 1])
            )
            S[i, j] = -(
                we[j] * (-s1[k - 1] * nw1[j] - q1[k - 1] * no1[j])
                + (-t1[k] * nw1[j] - s1[k] * no1[j] - q1[k] * ne1[j])
                + ea[j] * (-t1[k + 1] * no1[j] - s1[k + 1] * ne1[j])
                + ws[j] * (d2[k - 1] * nw1[j] - e2[k - 1] * no1[j] - s2[k - 1] * we1[j] - q2[k - 1])
                + so[j]
                * (-e2[k - 1] * nw1[j] + d2[k] * no1[j] - e2[k] * ne1[j] - t2[k] * we1[j] - s2[k] - q2[k] * ea1[j])
                + es[j] * (-e2[k] * no1[j] + d2[k + 1] * ne1[j] - t2[k + 1] - s2[k + 1] * ea1[j])
            )
            SE[i, j] = -(
                (-q1[k] * nw1[j + 1])
                + ea[j] * (-s1[k + 1] * nw1[j + 1] - q1[k + 1] * no1[j + 1])
                + so[j] * (-e2[k] * nw1[j + 1] - q2[k] * we1[j + 1])
                + es[j] * (d2[k + 1] * nw1[j + 1] - e2[k + 1] * no1[j + 1] - s2[k + 1] * we1[j + 1] - q2[k + 1])
            )
            SW[i, j] = -(
                we[j] * (-t1[k - 1] * no1[j - 1] - s1[k - 1] * ne1[j - 1])
                + (-t1[k] * ne1[j - 1])
                + ws[j] * (-e2[k - 2] * no1[j - 1] + d2[k - 1] * ne1[j - 1] - t2[k - 1] - s2[k - 1] * ea1[j - 1])
                + so[j] * (-e2[k - 1] * ne1[j - 1] - t2[k] * ea1[j - 1])
            )


@fast
def rows_from_five(d, e, s, se, sw, P, D, E, S, SE, SW, mx, my):
    """A five-point stencil, rows alone halved."""
    for i in range(1, mx + 1):
        no, so = P[0, i], P[1, i]
        no1 = P[0, i + 1]
        d0, d1, d2 = d[2 * i - 1], d[2 * i], d[2 * i + 1]
        e0, e1, e2 = e[2 * i - 1], e[2 * i], e[2 * i + 1]
        s0, s1, s2 = s[2 * i - 1], s[2 * i], s[2 * i + 1]
        for j in range(1, my + 1):
            D[i, j] = (
                no[j] * (d0[j] * no[j] - (s0[j] + s0[j]))
                + (d1[j] - (s1[j] * so[j] + s1[j] * so[j]))
                + so[j] * (d2[j] * so[j])
            )
            E[i, j] = -(no[j] * (-e0[j] * no[j + 1]) + (-e1[j]) + so[j] * (-e2[j] * so[j + 1]))
            S[i, j] = -((-s1[j] * no1[j]) + so[j] * (d2[j] * no1[j] - s2[j]))
            SE[i, j] = -(so[j] * (-e2[j] * no1[j + 1]))
            SW[i, j] = -(so[j] * (-e2[j - 1] * no1[j - 1]))


@fast
def rows_from_nine(d, e, s, se, sw, P, D, E, S, SE, SW, mx, my):
    """A nine-point stencil, rows alone halved."""
    for i in range(1, mx + 1):
        no, so = P[0, i], P[1, i]
        no1 = P[0, i + 1]
        d0, d1, d2 = d[2 * i - 1], d[2 * i], d[2 * i + 1]
        e0, e1, e2 = e[2 * i - 1], e[2 * i], e[2 * i + 1]
        s0, s1, s2 = s[2 * i - 1], s[2 * i], s[2 * i + 1]
        q0, q1, q2 = se[2 * i - 1], se[2 * i], se[2 * i + 1]
        t0, t1, t2 = sw[2 * i - 1], sw[2 * i], sw[2 * i + 1]
        for j in range(1, my + 1):
            D[i, j] = (
                no[j] * (d0[j] * no[j] - (s0[j] + s0[j]))
                + (d1[j] - (s1[j] * so[j] + s1[j] * so[j]))
                + so[j] * (d2[j] * so[j])
            )
            E[i, j] = -(
                no[j] * (-e0[j] * no[j + 1] - q0[j])
                + (-t0[j + 1] * no[j + 1] - e1[j] - q1[j] * so[j + 1])
                + so[j] * (-t1[j + 1] - e2[j] * so[j + 1])
            )
            S[i, j] = -((-s1[j] * no1[j]) + so[j] * (d2[j] * no1[j] - s2[j]))
            SE[i, j] = -((-q1[j] * no1[j + 1]) + so[j] * (-e2[j] * no1[j + 1] - q2[j]))
            SW[i, j] = -((-t1[j] * no1[j - 1]) + so[j] * (-e2[j - 1] * no1[j - 1] - t2[j]))
