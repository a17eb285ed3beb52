"""How each kind of model of a distribution is trained and validated; `sciops.training.fit` calls this."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from sciops.arrays.scale import widened
from sciops.grids import Grid
from sciops.metrics import relative_l2
from sciops.models.apply import apply_model, unwrapped
from sciops.models.distributions import (
    DistributionModel,
    DropoutModel,
    Ensemble,
    FlowModel,
    QuantileModel,
    Quantized,
    cells_of,
    distribution_inside,
)
from sciops.models.wrappers import Normalized
from sciops.uncertainty.distances import per_sample, squared_distances
from sciops.uncertainty.quantization.losses import quantization_losses

Losses = Callable[..., Tensor]


def has_own_losses(model: nn.Module) -> bool:
    """Whether `fit` trains the model by `training_losses`, and not by the objective of its config.

    Raises ValueError for a model of a distribution inside a wrapper that passes on its mean alone.
    """
    return distribution_inside(model) is not None


def training_losses(
    model: nn.Module, x: Tensor, target: Tensor, grid: Grid | None = None, *, done: float = 1.0
) -> Tensor:
    """The loss of each sample by which a model of a distribution is trained, in the units of its normalised output.

    ==============  ================================================================================================
    "quantized:…"   `quantization_losses`
    "quantiles:…"   mean over the levels τ of ∫ max(τ u, (τ − 1) u), u = y − q_τ
    "dropout:…"     ‖y − f(x)‖², channels being dropped
    "flow:…"        ‖v(z_t, x, t) − (y − z_0)‖² at z_t = (1 − t) z_0 + t y, t uniform and z_0 white noise
    "ensemble:…"    sum over the members of their own, ‖y − f_m(x)‖² of members that give one field
    ==============  ================================================================================================

    Parameters
    ----------
    model : nn.Module
        Such a model, also inside `Normalized`.
    x, target : Tensor
        Input and output fields (batch, channels, *grid), in physical units.
    grid : Grid, optional
        Of the fields; norms and integrals are those of the grid.
    done : float
        Share of the training that is over, on which schedules depend.

    Returns
    -------
    Tensor
        (batch,), in float32 at least.
    """
    model = unwrapped(model)
    if isinstance(model, Normalized):
        z = x if model.input is None else model.input.encode(x)
        y = target if model.output is None else model.output.encode(target)
        return training_losses(model.model, z, y, grid, done=done)
    if not isinstance(model, DistributionModel):
        return squared_error(model, x, target, grid, done=done)
    if type(model) not in LOSSES:
        raise TypeError(
            f"{type(model).__name__} has no entry in sciops.uncertainty.training.LOSSES, which says how it is trained; "
            f"expected one of {', '.join(kind.__name__ for kind in LOSSES)}"
        )
    return LOSSES[type(model)](model, x, target, grid, done=done)


def squared_error(model: nn.Module, x: Tensor, target: Tensor, grid: Grid | None, *, done: float) -> Tensor:
    """‖y − f(x)‖² of a model that gives one field."""
    y, f = as_targets(apply_model(model, x, grid), target)
    return per_sample((y - f).square(), grid)


def pinball(model: QuantileModel, x: Tensor, target: Tensor, grid: Grid | None, *, done: float) -> Tensor:
    """Mean over the levels of the quantile loss, integrated over the fields."""
    q = widened(model.fields(x, grid))
    _, target = as_targets(q[:, 0], target)
    tau = model.taus(q).view(1, -1, *(1,) * (q.ndim - 2))
    u = target[:, None] - q
    return per_sample(torch.maximum(tau * u, (tau - 1) * u), grid, start=2).mean(1)


def flow_matching(model: FlowModel, x: Tensor, target: Tensor, grid: Grid | None, *, done: float) -> Tensor:
    """‖v(z_t, x, t) − (y − z_0)‖²; outside training times and noise are always the same."""
    drawn = None if model.training else torch.Generator().manual_seed(0)
    noise = model.noise(x, drawn)
    as_targets(noise, target)
    if drawn is None:
        t = torch.rand(len(x), dtype=x.dtype, device=x.device)
    else:
        t = torch.rand(len(x), dtype=x.dtype, generator=drawn).to(x.device)
    along = t.view(-1, *(1,) * (x.ndim - 1))
    velocity = model.velocity((1 - along) * noise + along * target, x, t, grid)
    velocity, target = as_targets(velocity, target)
    return per_sample((velocity - (target - noise)).square(), grid)


def of_members(model: Ensemble, x: Tensor, target: Tensor, grid: Grid | None, *, done: float) -> Tensor:
    """Sum over the members of their own losses; none of them sees another."""
    return torch.stack([training_losses(one, x, target, grid, done=done) for one in model.models]).sum(0)


LOSSES: dict[type[nn.Module], Losses] = {
    Quantized: quantization_losses,
    QuantileModel: pinball,
    DropoutModel: squared_error,
    FlowModel: flow_matching,
    Ensemble: of_members,
}


def validation_errors(model: nn.Module, x: Tensor, target: Tensor, grid: Grid | None = None) -> Tensor:
    """What `fit` averages over validation samples to choose the best epoch of a model of a distribution.

    Of "quantized:…" the relative L2 error of the nearest point; of "quantiles:…" and "flow:…" their training loss, the
    flow's at times and noise that never change; of the others the relative L2 error of the mean.

    Parameters
    ----------
    model, x, target, grid
        As in `training_losses`; in evaluation mode.

    Returns
    -------
    Tensor
        (batch,).
    """
    inner = distribution_inside(model)
    if isinstance(inner, Quantized):
        points = cells_of(model, x, grid).points
        d = squared_distances(target, points, grid).min(1).values
        size = per_sample(widened(target).square(), grid)
        return (d / torch.where(size > 0, size, torch.finfo(size.dtype).tiny)).sqrt()
    if isinstance(inner, (QuantileModel, FlowModel)):
        return training_losses(model, x, target, grid)
    return relative_l2(apply_model(model, x, grid), target)


def as_targets(prediction: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """(prediction, target) in float32 at least; raises ValueError where their shapes differ."""
    if prediction.shape != target.shape:
        raise ValueError(
            f"the model returned {tuple(prediction.shape)} for targets of shape {tuple(target.shape)}: set "
            "out_channels to the number of target fields"
        )
    return widened(prediction), widened(target)
