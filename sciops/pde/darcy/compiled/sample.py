"""The compiled solver: conjugate gradients in float64 around the cycle of `cycle`, one sample after another."""

from __future__ import annotations

import numpy as np

from sciops.pde.darcy.compiled.calls import at, calling
from sciops.pde.darcy.compiled.levels import arrays_of
from sciops.pde.darcy.multigrid import HALF_EPSILON, ROUNDS, SAFETY, STALLED

_clear, _copy, _scaled, _scaled_up = calling("clear"), calling("copy"), calling("scaled"), calling("scaled_up")
_products, _directions, _advance = calling("products"), calling("directions"), calling("advance")
_true_residual, _rounding = calling("true_residual"), calling("rounding")
_cycle, _nested_start = calling("cycle"), calling("nested_start")
_faces, _setup, _iterate, _put = calling("faces"), calling("setup"), calling("iterate"), calling("put")

_ZERO = np.float32(0.0)


def iterate(
    kernels, lines, b, singular, tol, limit, work, shapes, start, levels, along_y, along_x, numbers, p, Ap, r, u
):
    """One sample whose levels are filled into u (with halo); (true relative residual, its floor, iterations) into
    numbers."""
    mx, my = shapes[0], shapes[1]
    _clear(kernels, (u, (mx + 2) * (my + 2)))
    _clear(kernels, (p, (mx + 2) * (my + 2)))
    norm = np.sqrt(_copy(kernels, (b, r, mx, my)))
    iterations, rho, size = 0, 1.0, norm
    target = SAFETY * tol * norm
    if norm == 0.0:
        numbers[0] = 0.0
        numbers[1] = 0.0
        numbers[2] = 0.0
        return
    _, _, _, _, _, f, z, _ = arrays_of(work, start, 0)
    if levels > 1:
        _scaled(kernels, (r, 1.0 / norm, f, mx, my))
        _nested_start(kernels, (kernels, lines, work, shapes, start, levels, singular))
        _scaled_up(kernels, (z, norm, u, mx, my))
        size = np.sqrt(_true_residual(kernels, (along_y, along_x, b, u, r, mx, my)))
        if not np.isfinite(size):
            _clear(kernels, (u, (mx + 2) * (my + 2)))
            size = np.sqrt(_copy(kernels, (b, r, mx, my)))
    for _ in range(ROUNDS):
        curvature, before, rr = 0.0, rho, size * size
        _scaled(kernels, (r, 1.0 / size, f, mx, my))
        while np.sqrt(rr) > target and iterations < limit:
            _cycle(kernels, (kernels, lines, work, shapes, start, levels, singular, 0, 1))
            _products(kernels, (r, Ap, z, numbers, mx, my))
            descent, across = numbers[0], numbers[1]
            beta = -across / curvature if curvature > 0.0 else 0.0
            if not descent > 0.0:
                break
            curvature = _directions(kernels, (along_y, along_x, z, beta, p, Ap, mx, my))
            if not curvature > 0.0:
                break
            # float32 sees a residual of about norm one, by that of the step before: it underflows further down
            rr = _advance(kernels, (descent / curvature, 1.0 / np.sqrt(rr), p, Ap, u, r, f, mx, my))
            iterations += 1
        size = np.sqrt(_true_residual(kernels, (along_y, along_x, b, u, r, mx, my)))
        rho = size / norm
        if rho <= tol or not rho < STALLED * before or iterations >= limit:
            break
    numbers[0] = rho
    numbers[1] = HALF_EPSILON * np.sqrt(_rounding(kernels, (along_y, along_x, u, mx, my))) / norm
    numbers[2] = iterations


def samples(
    kernels,
    lines,
    count,
    a_x,
    a_y,
    a_step,
    factor,
    b,
    b_step,
    exchange,
    exchange_step,
    longest,
    out,
    out_step,
    out_row,
    out_column,
    found,
    singular,
    tol,
    limit,
    work,
    size,
    shapes,
    start,
    levels,
    x_over,
    y_over,
    along_y,
    along_x,
    numbers,
    p,
    Ap,
    r,
    u,
):
    """As many samples as `count`: what `iterate` leaves in numbers into found (count, 3), the solution without its halo
    into out. The steps lead from a sample to the next, a row to the next, and an unknown of a row to the next."""
    mx, my = shapes[0], shapes[1]
    for i in range(count):
        walls, place = at(exchange, i * exchange_step), i * a_step
        _faces(
            kernels,
            (at(a_x, place), at(a_y, place), factor[i], x_over, y_over, walls, longest, along_y, along_x, mx, my),
        )
        _setup(kernels, (kernels, lines, along_y, along_x, work, shapes, start, levels))
        right = at(b, i * b_step)
        _iterate(
            kernels,
            (kernels, lines, right, singular, tol, limit, work, shapes, start, levels)
            + (along_y, along_x, numbers, p, Ap, r, u),
        )
        for row in range(mx):
            solved, to = at(u, (row + 1) * (my + 2) + 1), at(out, i * out_step + row * out_row)
            if out_column == 1:
                for column in range(my):
                    to[column] = solved[column]
            else:
                for column in range(my):
                    to[column * out_column] = solved[column]
        for k in range(3):
            found[3 * i + k] = numbers[k]
        if not numbers[0] <= tol:  # a sample that overflowed leaves NaN in the halo, and with it its successors
            _put(kernels, (work, size, _ZERO))
