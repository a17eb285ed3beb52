"""Multigrid-preconditioned conjugate gradients for a batch of samples at once, in torch, on any device."""

from __future__ import annotations

import itertools

import torch
from torch import Tensor

from sciops.pde.darcy.batched.hierarchy import Hierarchy, Level, build, strided
from sciops.pde.darcy.five_point import Wraps, apply
from sciops.pde.darcy.galerkin import COUPLING, Offset, interpolated
from sciops.pde.darcy.multigrid import FIRST, ROUNDS, SAFETY, SECOND, STALLED, nested_level


def _residual(level: Level, u: Tensor, f: Tensor) -> Tensor:
    """f − A u on the run of memory from the first unknown to the last."""
    level.wrap(u)
    width = level.shape[1] + 3
    low, high = width + 1, f.shape[1] - width - 1

    def run(array: Tensor, offset: Offset) -> Tensor:
        step = offset[0] * width + offset[1]
        return array[:, low + step : high + step]

    result = torch.addcmul(run(f, (0, 0)), run(level.stencil["d"], (0, 0)), run(u, (0, 0)), value=-1.0)
    for direction, (name, holder) in COUPLING.items():
        if name != "d" and name in level.stencil:
            result.addcmul_(run(level.stencil[name], holder), run(u, direction))
    return result


def _relax(level: Level, u: Tensor, f: Tensor, omega: float) -> None:
    low = level.shape[1] + 4
    run = slice(low, f.shape[1] - low)
    u[:, run].addcmul_(level.inverse[:, run], _residual(level, u, f), value=omega)


def _relax_lines(level: Level, u: Tensor, f: Tensor, back: bool = False) -> None:
    """Every second row solved at once, then the others, then columns likewise; in the reverse order on the way back."""
    inside, low = level.square(u)[:, 1:-2, 1:-2], level.shape[1] + 4
    r = torch.zeros_like(f)
    left = level.square(r)[:, 1:-2, 1:-2]
    steps = [(0, 0), (0, 1), (1, 0), (1, 1)]
    for along, parity in reversed(steps) if back else steps:
        r[:, low:-low] = _residual(level, u, f)
        level.lines[along].add(parity, *((left, inside) if along == 0 else (left.mT, inside.mT)))


def cycle(hierarchy: Hierarchy, f: Tensor, depth: int = 0, u: Tensor | None = None) -> Tensor:
    """One V(2, 2)-cycle on A u = f: from zero an approximation of A⁻¹f, symmetric and positive definite in f; or from a
    given u, which is overwritten (not on the coarsest level)."""
    level = hierarchy.levels[depth]
    if level.weights is None:
        u = torch.zeros_like(f)
        inner = level.square(f)[:, 1:-2, 1:-2]
        level.square(u)[:, 1:-2, 1:-2] = torch.einsum("bpq,bq->bp", hierarchy.bottom, inner.flatten(1)).view_as(inner)
        return u
    if level.lines is not None:
        u = torch.zeros_like(f) if u is None else u
        _relax_lines(level, u, f)
    else:
        if u is None:
            u = FIRST * level.inverse * f
        else:
            _relax(level, u, f, FIRST)
        _relax(level, u, f, SECOND)
    coarse = hierarchy.levels[depth + 1]
    low = level.shape[1] + 4
    r = torch.zeros_like(f)
    r[:, low:-low] = _residual(level, u, f)
    _add_finer(level, coarse, cycle(hierarchy, _coarser(level, coarse, r), depth + 1), u)
    if level.lines is not None:
        _relax_lines(level, u, f, back=True)
    else:
        _relax(level, u, f, SECOND)
        _relax(level, u, f, FIRST)
    return u


def nested_start(hierarchy: Hierarchy, f: Tensor) -> Tensor:
    """Full multigrid for f up to the level below the finest, one cycle a level, and its solution interpolated."""
    levels = hierarchy.levels
    first, rights = nested_level([level.shape for level in levels]), [f]
    for fine, coarse in zip(levels[:first], levels[1:]):
        rights.append(_coarser(fine, coarse, rights[-1]))
    u = cycle(hierarchy, rights[first], first)
    for depth in range(first - 1, -1, -1):
        below, u = u, torch.zeros_like(rights[depth])
        _add_finer(levels[depth], levels[depth + 1], below, u)
        u = cycle(hierarchy, rights[depth], depth, u) if depth else u
    return u


def _coarser(level: Level, coarse: Level, r: Tensor) -> Tensor:
    """Pᵀ r."""
    level.wrap(r)
    right = r.new_zeros(coarse.inverse.shape)
    weights, inside = level.weights[:, :, 1:-1, 1:-1], coarse.square(right)[:, 1:-2, 1:-2]
    inside.copy_(_points(level, r, (0, 0), coarse.shape))
    for k, delta in enumerate(interpolated(level.steps)):
        inside.addcmul_(weights[:, k], _points(level, r, delta, coarse.shape))
    return right


def _add_finer(level: Level, coarse: Level, correction: Tensor, u: Tensor) -> None:
    """u += P · correction."""
    weights, inside = level.weights[:, :, 1:-1, 1:-1], coarse.square(correction)[:, 1:-2, 1:-2]
    square = level.square(u)
    for turned in (square if level.wraps[0] else None, square.mT if level.wraps[1] else None):
        if turned is not None:
            turned[:, -2] = 0.0
    _points(level, u, (0, 0), coarse.shape).add_(inside)
    for k, delta in enumerate(interpolated(level.steps)):
        _points(level, u, delta, coarse.shape).addcmul_(weights[:, k], inside)
    # what went beyond the last unknown of an axis that wraps round belongs to its first
    for turned in (square if level.wraps[0] else None, square.mT if level.wraps[1] else None):
        if turned is not None:
            turned[:, 1] += turned[:, -2]


def _points(level: Level, flat: Tensor, delta: Offset, coarse: tuple[int, int]) -> Tensor:
    return level.square(flat)[(slice(None), *strided(level, delta, (0, 0), coarse))]


def solve_batch(
    along_y: Tensor,
    along_x: Tensor,
    b: Tensor,
    tol: float,
    limit: int,
    rows_alone: int = 0,
    singular: bool = False,
    wraps: Wraps = (False, False),
    lines: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    """(u, true relative residual, iterations) per sample; samples that do not converge are returned as they are.

    b : (batch, mx, my); a sample with b = 0 gets u = 0, residual 0, 0 iterations.
    rows_alone, singular, wraps, lines : as in `build`; lines are smoothed in float64
    """
    batch = b.shape[0]
    u = torch.zeros_like(b)
    norm = _norm(b)
    true = (norm > 0).to(b.dtype)
    iterations = torch.zeros(batch, dtype=torch.int64, device=b.device)
    live = torch.nonzero(true > tol).flatten()
    hierarchy, dtype = None, torch.float64 if lines else torch.float32
    if len(live):
        hierarchy = build(along_y, along_x, dtype, rows_alone, singular, wraps, lines)
    if 0 < len(live) < batch:
        hierarchy = hierarchy.select(live)
    if hierarchy is not None and len(hierarchy.levels) > 1:
        u[live] = _first_guess(hierarchy, b[live], norm[live])
    for _ in range(ROUNDS):
        if not len(live):
            break
        before = true[live]
        A = (along_y[live], along_x[live])
        r = b[live] - apply(*A, u[live], wraps)
        correction, count = _conjugate_gradients(hierarchy, A, r, SAFETY * tol * norm[live], limit - iterations[live])
        iterations[live] += count
        u[live] += correction
        after = _norm(b[live] - apply(*A, u[live], wraps)) / norm[live]
        true[live] = after
        goes_on = (after > tol) & (after < STALLED * before) & (iterations[live] < limit)
        if not goes_on.all():
            hierarchy, live = hierarchy.select(goes_on), live[goes_on]
    return u, true, iterations


def _first_guess(hierarchy: Hierarchy, b: Tensor, norm: Tensor) -> Tensor:
    """u of `nested_start`, zero in samples where that is not finite."""
    level = hierarchy.levels[0]
    f = torch.zeros_like(level.inverse)
    level.square(f)[:, 1:-2, 1:-2] = b / norm[:, None, None]
    u = level.square(nested_start(hierarchy, f))[:, 1:-2, 1:-2].to(b.dtype) * norm[:, None, None]
    return torch.where(torch.isfinite(_norm(u))[:, None, None], u, 0.0)


def _conjugate_gradients(
    hierarchy: Hierarchy, A: tuple[Tensor, Tensor], r: Tensor, target: Tensor, limit: Tensor
) -> tuple[Tensor, Tensor]:
    """The correction to u and the iterations of each sample; finished samples stand still and are dropped by halves."""
    result, count = torch.zeros_like(r), torch.zeros_like(limit)
    place = torch.arange(len(r), device=r.device)
    u, p, Ap, curvature = torch.zeros_like(r), torch.zeros_like(r), None, None
    step, wraps = torch.zeros_like(limit), hierarchy.levels[0].wraps
    active = _norm(r) > target
    for number in itertools.count():
        # a device is waited for only here: what is finished stands still meanwhile
        left = int(active.sum()) if number % _unseen(r.device) == 0 else len(active)
        if 2 * left <= len(active):
            result[place], count[place] = u, step
            if not left:
                return result, count
            hierarchy, A = hierarchy.select(active), (A[0][active], A[1][active])
            u, r, p, place, step, target, limit = (x[active] for x in (u, r, p, place, step, target, limit))
            Ap, curvature = (None, None) if Ap is None else (Ap[active], curvature[active])
            active = active[active]
        level = hierarchy.levels[0]
        f = torch.zeros_like(level.inverse)
        # a residual of norm one: float32 would underflow further down
        level.square(f)[:, 1:-2, 1:-2] = r / _norm(r).clamp_min(torch.finfo(r.dtype).tiny)[:, None, None]
        z = level.square(cycle(hierarchy, f))[:, 1:-2, 1:-2].to(r.dtype)
        if Ap is None:
            p = z
        else:
            p = torch.addcmul(z, p, (-_dot(Ap, z) / curvature)[:, None, None])
        Ap = apply(*A, p, wraps)
        curvature, descent = _dot(p, Ap), _dot(r, z)
        # round-off has taken over (or the cycle failed) where these are not positive: stand still
        active &= (curvature > 0) & (descent > 0)
        curvature = torch.where(curvature > 0, curvature, 1.0)
        alpha = torch.where(active, descent / curvature, 0.0)[:, None, None]
        u, r = torch.addcmul(u, alpha, p), torch.addcmul(r, -alpha, Ap)
        step = step + active
        active &= (_norm(r) > target) & (step < limit)


def _unseen(device: torch.device) -> int:
    """Iterations until a batch is looked at again: a device that is asked must first finish what it was given."""
    return 1 if device.type == "cpu" else 3


def _dot(p: Tensor, q: Tensor) -> Tensor:
    return (p * q).flatten(1).sum(1)


def _norm(r: Tensor) -> Tensor:
    return r.flatten(1).norm(dim=1)
