"""Points that are never the nearest: found by their usage, and put to use beside the busiest one."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from sciops.models.distributions import Quantized
from sciops.uncertainty.quantization.losses import schedule_of

_LAST = 0.9  # of the training, after which no point is moved any more
_NOISE = 0.01  # of a copied point, over the size of its weights


@torch.no_grad()
def split_unused(
    model: Quantized,
    generator: torch.Generator,
    *,
    optimizer: Optimizer | None = None,
    least: float | None = None,
    noise: float = _NOISE,
) -> list[tuple[int, int]]:
    """Replaces each point whose usage is below least/n by a copy of the busiest one, and halves that one's weight.

    The last layers of the heads have one row for every number of a point: the rows of the busiest are copied to the
    unused one, with noise in those of the point itself, so that the two differ, and half of the weight each.

    Parameters
    ----------
    model : Quantized
        Changed in place.
    generator : torch.Generator
        Of the noise, on the CPU.
    optimizer : torch.optim.Optimizer, optional
        Its averages for the rows that are replaced are set to zero.
    least : float, optional
        Usage over 1/n below which a point counts as unused; by default the option `least_usage` of the model.
    noise : float
        Size of the noise over the root mean square of the rows.

    Returns
    -------
    list of (int, int)
        (replaced, copied) points, in order.
    """
    least = model.options["least_usage"] if least is None else least
    done: list[tuple[int, int]] = []
    for unused in (model.usage < least / model.points).nonzero().flatten().tolist():
        busiest = int(model.usage.argmax())
        if busiest == unused:
            continue
        points, _, weights = model.last_layers()
        for layer in model.last_layers():
            for parameter in (layer.weight, layer.bias):
                rows = parameter.view(model.points, -1, *parameter.shape[1:])
                rows[unused] = rows[busiest]
                if layer is points:
                    drawn = torch.randn(rows[unused].shape, generator=generator, dtype=torch.float64).to(rows)
                    rows[unused] += noise * layer.weight.square().mean().sqrt() * drawn
                _forget(parameter, unused, model.points, optimizer)
        weights.bias[[unused, busiest]] -= torch.log(torch.tensor(2.0)).item()
        model.usage[[unused, busiest]] = model.usage[busiest] / 2
        done.append((unused, busiest))
    return done


def _forget(parameter: Tensor, point: int, points: int, optimizer: Optimizer | None) -> None:
    """Sets what the optimiser averaged for the rows of a point to zero."""
    state: Mapping[str, Any] = {} if optimizer is None else optimizer.state.get(parameter, {})
    for value in state.values():
        if isinstance(value, Tensor) and value.shape == parameter.shape:
            value.view(points, -1, *value.shape[1:])[point] = 0


class Watching:
    """What `keep_points_used` returns; ``remove()`` ends it."""

    def __init__(self, handle: Any = None) -> None:
        self.handle = handle

    def remove(self) -> None:
        if self.handle is not None:
            self.handle.remove()


def keep_points_used(model: nn.Module, optimizer: Optimizer, *, every: int = 100) -> Watching:
    """Calls `split_unused` after every `every` steps of the optimiser, for each `Quantized` in the model.

    It acts where the nearest point alone is moved, until nine tenths of the training are over: while points are
    annealed they lie together, and which of them is the nearest means nothing. The noise depends on the number of the
    step alone, so that all processes, and a resumed run, do the same.

    Parameters
    ----------
    model : nn.Module
        Any model; one without points is left alone.
    optimizer : torch.optim.Optimizer
        The one that trains it.
    every : int
        Number of steps between two looks at the usage.

    Returns
    -------
    Watching
        ``remove()`` ends it.
    """
    if every < 1:
        raise ValueError(f"every={every}: expected at least 1")
    watched = [m for m in model.modules() if isinstance(m, Quantized) and m.points > 1 and m.options["least_usage"]]
    if not watched:
        return Watching()

    def after(*_: Any) -> None:
        for number, one in enumerate(watched):
            if one.progress >= _LAST or not schedule_of(one).is_hard(one.progress):
                continue
            updates = int(one.updates)
            if updates and updates % every == 0:
                split_unused(one, torch.Generator().manual_seed(updates * 1009 + number), optimizer=optimizer)

    return Watching(optimizer.register_step_post_hook(after))


@torch.no_grad()
def expanded(model: Quantized, points: int, generator: torch.Generator, *, noise: float = _NOISE) -> Quantized:
    """A model with more points: those of `model`, repeated in turn, with noise; its weight is shared by the copies.

    A model of one point that was trained, which is the mean, is a good start for several: all of them begin near the
    data.

    Parameters
    ----------
    model : Quantized
        Left as it is; inside `Normalized` pass ``normalized.model``.
    points : int
        Number of points, at least that of `model`.
    generator : torch.Generator
        Of the noise, on the CPU.
    noise : float
        As in `split_unused`; without noise copies stay equal, and the first of them gets all gradients.
    """
    if points < model.points:
        raise ValueError(f"points={points}: the model has {model.points}; expected at least as many")
    options = {**model.options, "points": points}
    wider = Quantized(deepcopy(model.model), model.in_channels, model.out_channels, **options)
    wider.to(next(model.parameters()))
    source = torch.arange(points) % model.points
    copies = torch.bincount(source, minlength=model.points)[source]
    last = wider.last_layers()
    heads = {f"{name}." for name in ("point_head", "spread_head", "weight_features", "weight_head")}
    own = dict(wider.named_parameters())
    for name, value in model.named_parameters():
        if own[name].shape == value.shape and any(name.startswith(head) for head in heads):
            own[name].copy_(value)
    for layer, old in zip(last, model.last_layers()):
        for new, kept in ((layer.weight, old.weight), (layer.bias, old.bias)):
            rows = new.view(points, -1, *new.shape[1:])
            rows.copy_(kept.view(model.points, -1, *kept.shape[1:])[source.to(kept.device)])
            if layer is last[0]:
                drawn = torch.randn(rows.shape, generator=generator, dtype=torch.float64).to(rows)
                rows += noise * old.weight.square().mean().sqrt() * drawn
    last[2].bias.sub_(copies.log().to(last[2].bias))
    wider.usage.copy_((model.usage[source.to(model.usage.device)]) / copies.to(model.usage))
    return wider
