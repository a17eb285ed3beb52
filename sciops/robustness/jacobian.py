"""The norm of an operator's Jacobian at a field: a lower estimate of its local Lipschitz constant."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from sciops.grids import Grid
from sciops.robustness.field_norm import field_norm, per_sample, unit, weights_like
from sciops.robustness.smoothing.noise import WhiteNoise
from sciops.values import check_whole

__all__ = ["dense_jacobian_norm", "jacobian_norm"]


def jacobian_norm(
    operator: Callable[[Tensor], Tensor],
    a: Tensor,
    grid: Grid,
    *,
    target: Grid | None = None,
    iterations: int = 50,
    seed: int,
) -> tuple[Tensor, Tensor]:
    """The norm of an operator's Jacobian at a field by power iteration, from below.

    max_v ‖Jv‖_h/‖v‖_h, J = DG(a), by iteration on W_in^{−1}Jᵀ W_out J. Jv is the derivative of u ↦ Jᵀu, so that only
    reverse derivatives are needed, of second order.

    Parameters
    ----------
    operator : callable
        (batch, channels, *grid) → (batch, channels, *target), each sample by itself.
    a : Tensor (batch, channels, *grid)
        Fields at which the Jacobian is taken.
    grid, target : Grid
        Of inputs and outputs; `target` is `grid` unless given.
    iterations : int
        Steps.
    seed : int
        Of the start.

    Returns
    -------
    tuple of Tensor
        (batch,) norms, and the directions v like a with ‖v‖_h = 1, good starts for `pgd`. The norms are lower estimates
        at one point: neither a certificate nor, where G curves, a bound on a ball.
    """
    check_whole(iterations=iterations)
    target = grid if target is None else target
    x = a.detach().clone().requires_grad_(True)
    with torch.enable_grad():
        y = operator(x)
        dual = torch.zeros_like(y, requires_grad=True)
        (transposed,) = torch.autograd.grad(y, x, dual, create_graph=True)
    inner, outer = weights_like(grid, a), weights_like(target, y)
    start = WhiteNoise(1.0).draw(grid, a.shape[0] * a.shape[1], seed=seed).to(a).reshape(a.shape)
    v, best, direction = unit(start, grid), a.new_zeros(len(a)), torch.zeros_like(a)
    for _ in range(iterations):
        (jv,) = torch.autograd.grad(transposed, dual, v, retain_graph=True)
        size = field_norm(jv, target)
        better = size > best
        best = torch.where(better, size, best)
        direction = torch.where(per_sample(better, a), v, direction)
        (back,) = torch.autograd.grad(y, x, outer * jv, retain_graph=True)
        v = unit(back / inner, grid)
    return best.detach(), direction.detach()


def dense_jacobian_norm(
    operator: Callable[[Tensor], Tensor], a: Tensor, grid: Grid, *, target: Grid | None = None, rows: int = 64
) -> Tensor:
    """The norm of an operator's Jacobian at each field by all its rows and a full SVD, for small grids.

    ‖W_out^{1/2} J W_in^{−1/2}‖₂.

    a : (batch, channels, *grid); needs outputs × inputs numbers per sample
    rows : rows of J that are computed at a time
    """
    check_whole(rows=rows)
    target = grid if target is None else target
    norms = []
    for sample in a.detach():
        x = sample.expand(rows, *sample.shape).clone().requires_grad_(True)
        with torch.enable_grad():
            y = operator(x)  # the same output in every row, each with a unit vector of its own
        outputs = y[0].numel()
        parts = []
        for start in range(0, outputs, rows):
            count = min(rows, outputs - start)
            unit = torch.zeros(rows, outputs, dtype=y.dtype, device=y.device)
            unit[torch.arange(count), start + torch.arange(count)] = 1
            (part,) = torch.autograd.grad(y, x, unit.reshape(y.shape), retain_graph=True)
            parts.append(part[:count].flatten(1))
        inner = weights_like(grid, a).expand(sample.shape).flatten()
        outer = weights_like(target, y).expand(y[0].shape).flatten()
        norms.append(torch.linalg.matrix_norm(torch.cat(parts) * outer.sqrt()[:, None] / inner.sqrt(), 2))
    return torch.stack(norms)
