"""Multigrid-preconditioned conjugate gradients for a batch of samples at once, in torch, on any device.

A level's arrays are stored flat, (batch, H·W) with H = mx + 3 and W = my + 3: the unknowns, a halo of one, and one
more row and column that the coarsening of even sizes looks at. Couplings into the halo are zero and its diagonal is
one, so that a stencil is nine products of contiguous runs and the halo stays zero by itself.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import torch
from torch import Tensor

from sciops.pde._five_point import apply
from sciops.pde._galerkin import BOTH, COUPLING, ROWS, STORED, Offset, galerkin_products, interpolated
from sciops.pde._multigrid import FIRST, ROUNDS, SAFETY, SECOND, STALLED, level_shapes, nested_level


@dataclass
class Level:
    """One level of every sample: stencil, inverse diagonal, and the weights towards the next coarser level."""

    shape: tuple[int, int]
    stencil: dict[str, Tensor]
    inverse: Tensor
    weights: Tensor | None = None  # (batch, 8 or 2, mcx + 2, mcy + 2)
    steps: Offset = BOTH  # towards the next coarser level

    def square(self, flat: Tensor) -> Tensor:
        return flat.view(flat.shape[0], self.shape[0] + 3, self.shape[1] + 3)


@dataclass
class Hierarchy:
    levels: list[Level]
    bottom: Tensor  # dense inverse of the coarsest operator

    def select(self, keep: Tensor) -> Hierarchy:
        levels = [
            Level(
                level.shape,
                {name: array[keep] for name, array in level.stencil.items()},
                level.inverse[keep],
                None if level.weights is None else level.weights[keep],
                level.steps,
            )
            for level in self.levels
        ]
        return Hierarchy(levels, self.bottom[keep])


def build(
    along_y: Tensor,
    along_x: Tensor,
    dtype: torch.dtype = torch.float32,
    rows_alone: int = 0,
    singular: bool = False,
) -> Hierarchy:
    """Every level from the finest conductances, by Galerkin products; the first `rows_alone` halve the rows alone."""
    batch, mx, my = along_y.shape[0], along_y.shape[1], along_x.shape[2]
    shapes = level_shapes(mx, my, rows_alone)
    d, e, s = (along_y.new_zeros(batch, mx + 3, my + 3, dtype=dtype) for _ in range(3))
    d.fill_(1.0)
    d[:, 1:-2, 1:-2] = along_y[..., 1:] + along_y[..., :-1] + along_x[:, 1:] + along_x[:, :-1]
    e[:, 1:-2, 1:-3] = along_y[..., 1:-1]
    s[:, 1:-3, 1:-2] = along_x[:, 1:-1]
    levels = [_level(shapes[0], {"d": d, "e": e, "s": s})]
    for shape in shapes[1:]:
        fine = levels[-1]
        fine.steps = ROWS if shape[1] == fine.shape[1] else BOTH
        fine.weights = _interpolation(fine, shape)
        levels.append(_level(shape, _galerkin(fine, shape)))
    bottom = dense(levels[-1]).double()
    if singular:  # constants are in the kernel: the last unknown of the coarsest level is set to zero
        inverse = torch.zeros_like(bottom)
        inverse[:, :-1, :-1] = torch.linalg.inv(bottom[:, :-1, :-1])
    else:
        inverse = torch.linalg.inv(bottom)
    return Hierarchy(levels, inverse.to(dtype))


def _level(shape: tuple[int, int], stencil: dict[str, Tensor]) -> Level:
    stencil = {name: array.flatten(1) for name, array in stencil.items()}
    return Level(shape, stencil, 1.0 / stencil["d"])


def _interpolation(fine: Level, coarse: tuple[int, int]) -> Tensor:
    arrays = {name: fine.square(flat) for name, flat in fine.stencil.items()}
    nine = "se" in arrays

    def at(delta: Offset, direction: Offset) -> Tensor | float:
        """The coupling in a direction of every fine point 2I + δ."""
        name, shift = COUPLING[direction]
        if name not in arrays:
            return 0.0
        return arrays[name][(slice(None), *_strided(fine, delta, shift, coarse))]

    d, order = arrays["d"], interpolated(fine.steps)
    weights = d.new_zeros(d.shape[0], len(order), coarse[0] + 2, coarse[1] + 2)
    edge: dict[Offset, Tensor] = {}
    for dx, dy in (delta for delta in order if 0 in delta):
        delta, across = (dx, dy), (dy, dx)
        towards = at(delta, (-dx, -dy))
        if nine:
            towards = (
                towards + at(delta, (across[0] - dx, across[1] - dy)) + at(delta, (-across[0] - dx, -across[1] - dy))
            )
        opposite = at(delta, across) + at(delta, (-across[0], -across[1]))
        edge[delta] = towards / (at(delta, (0, 0)) - opposite)
    for k, (dx, dy) in enumerate(order):
        if (dx, dy) in edge:
            value = edge[dx, dy]
        else:
            value = at((dx, dy), (0, -dy)) * edge[dx, 0] + at((dx, dy), (-dx, 0)) * edge[0, dy]
            value = (value + at((dx, dy), (-dx, -dy))) / at((dx, dy), (0, 0))
        weights[:, k, 1:-1, 1:-1] = value
    return weights


def _galerkin(fine: Level, coarse: tuple[int, int]) -> dict[str, Tensor]:
    arrays = {name: fine.square(flat) for name, flat in fine.stencil.items()}
    weights, order = fine.weights, interpolated(fine.steps)
    batch = weights.shape[0]

    def weight(delta: Offset, shift: Offset) -> Tensor:
        rows, columns = (slice(1 + shift[k], 1 + shift[k] + coarse[k]) for k in (0, 1))
        return weights[:, order.index(delta), rows, columns]

    result = {}
    for target, by_delta in galerkin_products("se" in arrays, fine.steps).items():
        total = weights.new_zeros(batch, *coarse)
        for delta, pairs in by_delta.items():
            inner = weights.new_zeros(batch, *coarse)
            for o, other, factor in pairs:
                name, shift = COUPLING[o]
                entry = arrays[name][(slice(None), *_strided(fine, delta, shift, coarse))]
                sign = factor if o == (0, 0) else -factor
                if other == (0, 0):
                    inner.add_(entry, alpha=sign)
                else:
                    inner.addcmul_(entry, weight(other, STORED[target]), value=sign)
            total = total + inner if delta == (0, 0) else total.addcmul(weight(delta, (0, 0)), inner)
        full = weights.new_full((batch, coarse[0] + 3, coarse[1] + 3), 1.0 if target == "d" else 0.0)
        full[:, 1:-2, 1:-2] = total if target == "d" else -total
        result[target] = full
    return result


def _strided(fine: Level, delta: Offset, shift: Offset, coarse: tuple[int, int]) -> tuple[slice, slice]:
    """The points 2I + δ + shift, I = 1 … mc, of a fine array; I + δ + shift on an axis that is not halved."""
    first = tuple(step + d + s for step, d, s in zip(fine.steps, delta, shift))
    return tuple(slice(f, f + step * (m - 1) + 1, step) for f, step, m in zip(first, fine.steps, coarse))


def dense(level: Level) -> Tensor:
    """The level's operator as (batch, m, m) matrices, unknowns in row-major order."""
    mx, my = level.shape
    index = torch.arange(mx * my, device=level.inverse.device).view(mx, my)
    matrix = level.inverse.new_zeros(level.inverse.shape[0], mx * my, mx * my)
    for name, flat in level.stencil.items():
        array = level.square(flat)[:, 1:-2, 1:-2]
        dx, dy = STORED[name]
        here = (slice(0, mx - dx), slice(max(0, -dy), my - max(0, dy)))
        there = (slice(dx, mx), slice(max(0, dy), my - max(0, -dy)))
        p, q, value = index[here].flatten(), index[there].flatten(), array[:, here[0], here[1]].flatten(1)
        if name == "d":
            matrix[:, p, p] = value
        else:
            matrix[:, p, q] = -value
            matrix[:, q, p] = -value
    return matrix


def _residual(level: Level, u: Tensor, f: Tensor) -> Tensor:
    """f − A u on the run of memory from the first unknown to the last."""
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


def cycle(hierarchy: Hierarchy, f: Tensor, depth: int = 0, u: Tensor | None = None) -> Tensor:
    """One V(2, 2)-cycle on A u = f: from zero an approximation of A⁻¹f, symmetric and positive definite in f; or from a
    given u, which is overwritten (not on the coarsest level)."""
    level = hierarchy.levels[depth]
    if level.weights is None:
        u = torch.zeros_like(f)
        inner = level.square(f)[:, 1:-2, 1:-2]
        level.square(u)[:, 1:-2, 1:-2] = torch.einsum("bpq,bq->bp", hierarchy.bottom, inner.flatten(1)).view_as(inner)
        return u
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
    right = r.new_zeros(coarse.inverse.shape)
    weights, inside = level.weights[:, :, 1:-1, 1:-1], coarse.square(right)[:, 1:-2, 1:-2]
    inside.copy_(_points(level, r, (0, 0), coarse.shape))
    for k, delta in enumerate(interpolated(level.steps)):
        inside.addcmul_(weights[:, k], _points(level, r, delta, coarse.shape))
    return right


def _add_finer(level: Level, coarse: Level, correction: Tensor, u: Tensor) -> None:
    """u += P · correction."""
    weights, inside = level.weights[:, :, 1:-1, 1:-1], coarse.square(correction)[:, 1:-2, 1:-2]
    _points(level, u, (0, 0), coarse.shape).add_(inside)
    for k, delta in enumerate(interpolated(level.steps)):
        _points(level, u, delta, coarse.shape).addcmul_(weights[:, k], inside)


def _points(level: Level, flat: Tensor, delta: Offset, coarse: tuple[int, int]) -> Tensor:
    return level.square(flat)[(slice(None), *_strided(level, delta, (0, 0), coarse))]


def solve_batch(
    along_y: Tensor,
    along_x: Tensor,
    b: Tensor,
    tol: float,
    limit: int,
    rows_alone: int = 0,
    singular: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    """(u, true relative residual, iterations) per sample; samples that do not converge are returned as they are.

    b : (batch, mx, my); a sample with b = 0 gets u = 0, residual 0, 0 iterations.
    rows_alone, singular : as in `build`
    """
    batch = b.shape[0]
    u = torch.zeros_like(b)
    norm = _norm(b)
    true = (norm > 0).to(b.dtype)
    iterations = torch.zeros(batch, dtype=torch.int64, device=b.device)
    live = torch.nonzero(true > tol).flatten()
    hierarchy = build(along_y, along_x, rows_alone=rows_alone, singular=singular) if len(live) else None
    if 0 < len(live) < batch:
        hierarchy = hierarchy.select(live)
    if hierarchy is not None and len(hierarchy.levels) > 1:
        u[live] = _first_guess(hierarchy, b[live], norm[live])
    for _ in range(ROUNDS):
        if not len(live):
            break
        before = true[live]
        A = (along_y[live], along_x[live])
        r = b[live] - apply(*A, u[live])
        correction, count = _conjugate_gradients(hierarchy, A, r, SAFETY * tol * norm[live], limit - iterations[live])
        iterations[live] += count
        u[live] += correction
        after = _norm(b[live] - apply(*A, u[live])) / norm[live]
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
    step = torch.zeros_like(limit)
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
        Ap = apply(*A, p)
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
