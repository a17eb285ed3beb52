"""A distribution of fields as points with weights: mean, variance, samples, modes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from sciops.arrays.kinds import as_tensor, refuse_complex
from sciops.arrays.scale import widened
from sciops.arrays.short import fields_text
from sciops.grids import Grid
from sciops.models.apply import evaluating, grid_for, placed_for
from sciops.models.distributions import Cells, cells_of
from sciops.models.distributions.base import mean_of
from sciops.uncertainty.distances import between, per_sample


@dataclass(frozen=True)
class Mode:
    """One mode of a law: the points that lie within each other's spread, together.

    weight : sum of their weights
    field : (channels, *grid) their weighted mean
    spread : (channels, *grid) variance about it, None where the law has none
    points : numbers of the points, the heaviest first
    """

    weight: float
    field: Tensor
    spread: Tensor | None
    points: tuple[int, ...]


@dataclass(frozen=True)
class Law:
    """A distribution of fields for each sample of a batch, Σ_i p_i δ_{f_i}, with the spread about each point.

    points : (batch, n, channels, *grid)   f_i
    weights : (batch, n)   p_i, their sum is 1
    spread : (batch, n, channels, *grid)   variance within the cell of each point, in every number; None: not known
    grid : of the fields; distances are in its L² norm, ‖u‖² = Σ_c ∫ u_c², without one Euclidean

    Raises ValueError for shapes that do not fit, and for weights that are negative or do not sum to 1.
    """

    points: Tensor
    weights: Tensor
    spread: Tensor | None = None
    grid: Grid | None = None

    __repr__ = fields_text

    def __post_init__(self) -> None:
        points, weights = self.points, self.weights
        if points.ndim < 3 or weights.shape != points.shape[:2] or not points.shape[1]:
            raise ValueError(
                f"points of shape {tuple(points.shape)} with weights {tuple(weights.shape)}: expected "
                "(batch, n, channels, *grid) and (batch, n), n ≥ 1"
            )
        if self.spread is not None and self.spread.shape != points.shape:
            raise ValueError(
                f"spread has shape {tuple(self.spread.shape)}; expected that of points, {tuple(points.shape)}"
            )
        known = widened(weights[torch.isfinite(weights).all(1)])  # of a model that broke they are NaN
        if (known < 0).any() or ((known.sum(1) - 1).abs() > 1e-3).any():
            raise ValueError("weights: expected numbers of at least 0 with sum 1 for every sample")

    @property
    def mean(self) -> Tensor:
        """Σ_i p_i f_i, (batch, channels, *grid)."""
        return mean_of(Cells(self.points, self.weights))

    @property
    def variance(self) -> Tensor:
        """Variance of every number, (batch, channels, *grid): that of the points, and within their cells.

        Σ_i p_i (f_i − m)² + Σ_i p_i s_i², the law of total variance, which holds exactly where each point is the mean
        of its cell. The first sum alone reports too little, by the distortion. Without `spread` it is the first sum.
        """
        within = 0.0 if self.spread is None else mean_of(Cells(self.spread, self.weights))
        return mean_of(Cells((self.points - self.mean[:, None]).square(), self.weights)) + within

    @property
    def std(self) -> Tensor:
        """√variance, (batch, channels, *grid)."""
        return self.variance.sqrt()

    @property
    def distortion(self) -> Tensor:
        """Σ_i p_i ∫ s_i², (batch,): the expected squared distance to the nearest point, as the spread states it.

        For weights that are those of the cells it is W₂² between the law and its points. Raises ValueError without
        spread.
        """
        if self.spread is None:
            raise ValueError("this law has no spread about its points: that of a model 'quantized:…' has one")
        return (self.weights * per_sample(self.spread, self.grid, start=2)).sum(1)

    def sorted(self) -> Law:
        """The same law with its points in the order of their weights, the heaviest first."""
        order = self.weights.argsort(dim=1, descending=True, stable=True)
        return self._map(lambda v: torch.stack([one[at] for one, at in zip(v, order)]) if len(v) else v)

    def heaviest(self, count: int) -> Law:
        """The `count` heaviest points alone, their weights divided by their sum."""
        if count < 1:
            raise ValueError(f"count={count}: expected at least 1")
        law = self.sorted()
        weights = law.weights[:, :count]
        spread = None if law.spread is None else law.spread[:, :count]
        return Law(law.points[:, :count], weights / weights.sum(1, keepdim=True), spread, law.grid)

    def sample(self, count: int, generator: torch.Generator, *, noise: bool | None = None) -> Tensor:
        """Draws fields, (batch, count, channels, *grid): a point by its weight, and Gaussian noise of its spread.

        Parameters
        ----------
        count : int
            Number of fields for each sample of the batch.
        generator : torch.Generator
            On the CPU.
        noise : bool, optional
            Whether to add the noise, which is independent from number to number; by default where there is a spread.
        """
        noise = self.spread is not None if noise is None else noise
        if noise and self.spread is None:
            raise ValueError("noise=True: this law has no spread about its points; pass noise=False")
        if not len(self.weights):
            return self.points.new_zeros(0, count, *self.points.shape[2:])
        drawn = torch.multinomial(self.weights.double().cpu(), count, replacement=True, generator=generator)
        rows, drawn = torch.arange(len(drawn))[:, None], drawn.to(self.points.device)
        fields = self.points[rows, drawn]
        if noise and self.spread is not None:
            normal = torch.randn(fields.shape, dtype=torch.float64, generator=generator).to(fields)
            fields = fields + self.spread[rows, drawn].sqrt() * normal
        return fields

    def log_density(self, y: Tensor) -> Tensor:
        """ln Σ_i p_i N(y; f_i, s_i²), (batch,), of fields y (batch, channels, *grid): a mixture of Gaussians.

        All numbers of a field count as independent within a cell. Raises ValueError without spread.
        """
        if self.spread is None:
            raise ValueError("this law has no spread about its points, and so no density")
        tiny = torch.finfo(self.spread.dtype).tiny
        spread = self.spread.clamp(min=tiny)
        terms = (y[:, None] - self.points).square() / spread + spread.log() + math.log(2 * math.pi)
        return torch.logsumexp(self.weights.clamp(min=tiny).log() - 0.5 * terms.flatten(2).sum(2), 1)

    def modes(self, sample: int = 0, *, merge: float = 1.0, least: float = 0.0) -> list[Mode]:
        """The modes of one sample of the batch, the heaviest first.

        Points whose squared distance is at most `merge` times the sum of the spreads of both, ∫ s_i² + ∫ s_j², belong
        to one mode, and so do points that a chain of such pairs connects.

        Parameters
        ----------
        sample : int
            Number of the sample in the batch.
        merge : float
            See above; 0 keeps every point as a mode. Without spread only points that are equal are merged.
        least : float
            Modes of a smaller weight are left out.
        """
        points, weights = self.points[sample], self.weights[sample]
        apart = between(points, points, self.grid)
        reach = torch.zeros_like(weights) if self.spread is None else per_sample(self.spread[sample], self.grid)
        group = list(range(len(points)))
        for i, j in (apart <= merge * (reach[:, None] + reach)).nonzero().tolist():
            if group[i] != group[j]:
                old, new = max(group[i], group[j]), min(group[i], group[j])
                group = [new if one == old else one for one in group]
        found = []
        for name in dict.fromkeys(group):
            numbers = [i for i, one in enumerate(group) if one == name]
            own = weights[numbers]
            total = float(own.sum())
            share = own / total if total > 0 else torch.full_like(own, 1 / len(own))
            spread = None if self.spread is None else self.spread[sample, numbers][None]
            law = Law(points[numbers][None], share[None], spread, self.grid)
            order = [numbers[k] for k in own.argsort(dim=0, descending=True, stable=True).tolist()]
            found.append(Mode(total, law.mean[0], None if spread is None else law.variance[0], tuple(order)))
        return sorted((mode for mode in found if mode.weight >= least), key=lambda mode: -mode.weight)

    def _map(self, change: Callable[[Tensor], Tensor]) -> Law:
        spread = None if self.spread is None else change(self.spread)
        return Law(change(self.points), change(self.weights), spread, self.grid)


def law_of(
    model: nn.Module,
    x: Any,
    grid: Grid | None = None,
    *,
    samples: int = 32,
    generator: torch.Generator | None = None,
    batch_size: int = 64,
) -> Law:
    """The distribution that a model gives for each input field, in the units of the output fields.

    The model runs batch by batch in evaluation mode, without a graph, in its own precision. A model that gives one
    field is a law of one point.

    Parameters
    ----------
    model : nn.Module
        Of `sciops.build_model`, such as "quantized:fno", "ensemble:fno" or any other, also inside `Normalized`.
    x : array of numpy or torch
        Input fields (batch, channels, *grid).
    grid : Grid, optional
        Their grid; default the model's own rule.
    samples : int
        Points of models that draw them: "dropout:…" and "flow:…".
    generator : torch.Generator, optional
        Of those draws, on the CPU; by default a new one with seed 0.
    batch_size : int
        Fields of a forward pass.

    Returns
    -------
    Law
        On the CPU.

    Raises
    ------
    ValueError
        For a model of a distribution inside a wrapper that passes on its mean alone, and for an x without axes.
    """
    if samples < 1 or batch_size < 1:
        raise ValueError(f"samples={samples}, batch_size={batch_size}: expected at least 1 of each")
    refuse_complex(x, "x")
    fields, _ = as_tensor(x, "x")
    if fields.ndim < 3:
        raise ValueError(f"x has shape {tuple(fields.shape)}; expected (batch, channels, *grid)")
    drawn = torch.Generator().manual_seed(0) if generator is None else generator
    parts = []
    with torch.no_grad(), evaluating(model):
        for start in range(0, max(1, len(fields)), batch_size):
            part = placed_for(model, fields[start : start + batch_size])
            parts.append(cells_of(model, part, grid, samples=samples, generator=drawn))
        on = grid if grid is not None else grid_for(model, placed_for(model, fields[:1]))
    joined = [None if part[0] is None else torch.cat(part).cpu() for part in zip(*parts)]
    points, weights, spread = joined
    assert points is not None and weights is not None
    return Law(points, weights, spread, on)
