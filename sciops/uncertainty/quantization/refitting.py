"""The weights of a trained `sciops.models.Quantized` fitted again, while its points stay as they are."""

from __future__ import annotations

from copy import deepcopy
from math import cos, pi

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sciops.grids import Grid
from sciops.models.apply import unwrapped
from sciops.models.distributions import Quantized
from sciops.models.distributions.base import applied
from sciops.models.wrappers import Normalized
from sciops.uncertainty.distances import squared_distances

_PART = 256  # fields of a forward pass


def refit_weights(
    model: nn.Module,
    train: tuple[Tensor, Tensor],
    validation: tuple[Tensor, Tensor],
    grid: Grid | None = None,
    *,
    generator: torch.Generator,
    steps: int = 400,
    batch_size: int = 128,
    learning_rate: float = 5e-3,
) -> tuple[float, float]:
    """Fits the weights p_i(x) to the points that a training ended with, by −ln p_{i*}(x), i* the nearest point.

    While points move, the probabilities of their cells move too, and the weights follow them with delay. Here the
    points, the spread and the features are frozen and evaluated once; the weights alone take `steps` steps of Adam with
    a cosine schedule. They are kept where they lower the mean of −ln p_{i*} on the validation fields, else the old ones
    stay.

    Parameters
    ----------
    model : nn.Module
        `Quantized`, also inside `Normalized`; changed in place.
    train, validation : tuple of Tensor
        Input and output fields, (count, in_channels, *grid) and (count, out_channels, *grid), in physical units. The
        features of all of them, (count, *grid, features + in_channels), are held at once.
    grid : Grid, optional
        Of the fields; default the model's own rule.
    generator : torch.Generator
        Of the order of the fields, on the CPU.
    steps, batch_size, learning_rate
        Number of steps, fields of a step, and first step size.

    Returns
    -------
    tuple of float
        The validation loss before and after, in nats.

    Raises
    ------
    TypeError
        For a model of another kind.
    ValueError
        For an empty set, and for numbers that are not positive.

    References
    ----------
    Delattre, Delattre, Vérine, Allauzen, arXiv:2502.07151: the weights as a classifier of the nearest point.
    """
    if steps < 1 or batch_size < 1 or learning_rate <= 0:
        raise ValueError(f"steps={steps}, batch_size={batch_size}, learning_rate={learning_rate}: expected more than 0")
    for name, fields in (("train", train), ("validation", validation)):
        if not len(fields[0]) or len(fields[0]) != len(fields[1]):
            raise ValueError(
                f"{name}: {len(fields[0])} inputs, {len(fields[1])} outputs: expected equal numbers, at least 1"
            )
    seen, winners = _features(model, *train, grid)
    held, expected = _features(model, *validation, grid)
    inner = _quantized(model)
    layers = nn.ModuleList([inner.weight_features, inner.weight_head])
    old = deepcopy(layers.state_dict())

    def loss(features: Tensor, winner: Tensor) -> Tensor:
        return F.cross_entropy(inner.logits_of(features), winner)

    def validated() -> float:
        with torch.no_grad():
            sums = [loss(f, w) * len(w) for f, w in zip(held.split(_PART), expected.split(_PART))]
        return float(torch.stack(sums).sum()) / len(held)

    before = validated()
    required = [p.requires_grad for p in layers.parameters()]
    layers.requires_grad_(True)
    optimizer = torch.optim.Adam(layers.parameters(), learning_rate)
    order = torch.randperm(len(seen), generator=generator)
    at = 0
    with torch.enable_grad():
        for step in range(steps):
            if at + batch_size > len(order):
                order, at = torch.randperm(len(seen), generator=generator), 0
            rows = order[at : at + batch_size].to(seen.device)
            at += batch_size
            optimizer.param_groups[0]["lr"] = learning_rate * 0.5 * (1 + cos(pi * step / steps))
            optimizer.zero_grad()
            loss(seen[rows], winners[rows]).backward()
            optimizer.step()
    optimizer.zero_grad()
    for parameter, needed in zip(layers.parameters(), required):
        parameter.requires_grad_(needed)
    after = validated()
    if not after < before:
        layers.load_state_dict(old)
        after = before
    return before, after


def _quantized(model: nn.Module) -> Quantized:
    inner = unwrapped(model)
    while isinstance(inner, Normalized):
        inner = unwrapped(inner.model)
    if not isinstance(inner, Quantized):
        raise TypeError(f"{type(inner).__name__} has no weights of points: expected a model 'quantized:…'")
    return inner


@torch.no_grad()
def _features(model: nn.Module, x: Tensor, y: Tensor, grid: Grid | None) -> tuple[Tensor, Tensor]:
    """What the weights are read from, (count, *grid, channels), and the number of the nearest point, (count,)."""
    inner = _quantized(model)
    training = model.training
    model.eval()
    try:
        place = next(inner.parameters())
        features, winners = [], []
        for a, b in zip(x.split(_PART), y.split(_PART)):
            a, b = _encoded(model, a.to(place), b.to(place))
            h = applied(inner.model, a, grid)
            points = inner.points_of(h, a, grid)
            features.append(inner.seen(h, a))
            winners.append(squared_distances(b, points, inner.grid_for(a, grid)).argmin(1))
    finally:
        model.train(training)
    return torch.cat(features), torch.cat(winners)


def _encoded(model: nn.Module, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    model = unwrapped(model)
    while isinstance(model, Normalized):
        x = x if model.input is None else model.input.encode(x)
        y = y if model.output is None else model.output.encode(y)
        model = unwrapped(model.model)
    return x, y
