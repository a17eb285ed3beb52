"""The loss of `sciops.models.Quantized`: points by their shares, weights by the nearest point, spread around it."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from sciops.arrays.scale import widened
from sciops.grids import Grid
from sciops.models.distributions import Quantized
from sciops.uncertainty.distances import squared_distances
from sciops.uncertainty.quantization.schedule import Schedule

_MEMORY = 0.99  # of the moving averages, a step


def schedule_of(model: Quantized) -> Schedule:
    """The schedule that the options of the model name."""
    return Schedule(model.options["schedule"], model.options["hard_share"], model.options["relaxation"])


def quantization_losses(
    model: Quantized, x: Tensor, target: Tensor, grid: Grid | None = None, *, done: float = 1.0
) -> Tensor:
    """Loss of each sample, Σ_i q_i ‖y − f_i(x)‖² − ln p_{i*}(x) + spread, with i* the nearest point.

    The first term moves the points; its gradient is 0 for a point without a share. The second is the cross-entropy of
    the weights with the number of the nearest point, whose minimum are the probabilities of the cells. The third, the
    mean over the numbers of ½(ln s² + r²/s²) with r = y − f_{i*}, has its minimum where s² is the mean of r² in the
    cell. Gradients of the last two reach the heads of weights and spread alone.

    Parameters
    ----------
    model : Quantized
        In training mode its statistics are updated: `usage`, `distortion`, `start`, over all processes.
    x, target : Tensor
        (batch, in_channels, *grid) and (batch, out_channels, *grid).
    grid : Grid, optional
        Default the model's own rule.
    done : float
        Share of the training that is over.

    Returns
    -------
    Tensor
        (batch,), of half precision in float32.
    """
    heads = model.heads(x, grid)
    d = squared_distances(target, heads.points, model.grid_for(x, grid))
    winner = d.detach().argmin(1)
    if model.training:
        _observe(model, d.detach(), winner, done)
    # outside training T₀ is that of these samples, where none was taken
    start = torch.where(model.start > 0, model.start, d.detach().max() if len(d) else model.start).to(d)
    q = schedule_of(model).shares(d, done, start, model.distortion.to(d))
    rows = torch.arange(len(winner), device=winner.device)
    residual = (widened(target) - widened(heads.points.detach()[rows, winner])).square()
    log_spread = widened(heads.log_spread[rows, winner])
    spread = 0.5 * (log_spread + residual * torch.exp(-log_spread)).flatten(1).mean(1)
    weights = F.cross_entropy(widened(heads.logits), winner, reduction="none")
    return (q * d).sum(1) + weights + spread


@torch.no_grad()
def _observe(model: Quantized, d: Tensor, winner: Tensor, done: float) -> None:
    if not len(d):
        return
    won = F.one_hot(winner, model.points).to(d.dtype).sum(0)
    seen = torch.cat([won, d.min(1).values.sum()[None], d.new_tensor([float(len(d))])])
    farthest = d.max()
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        torch.distributed.all_reduce(seen)
        torch.distributed.all_reduce(farthest, torch.distributed.ReduceOp.MAX)
    frequency, least = (seen[:-2] / seen[-1]).to(model.usage), (seen[-2] / seen[-1]).to(model.distortion)
    first = model.updates == 0
    model.start.copy_(torch.where(first, farthest.to(model.start), model.start))
    model.usage.lerp_(frequency, 1 - _MEMORY)
    model.distortion.copy_(torch.where(first, least, torch.lerp(model.distortion, least, 1 - _MEMORY)))
    model.updates.add_(1)
    model.progress = done
