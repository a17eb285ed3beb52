"""Ways to apply a trained network on a finer grid with the same weights, one suspected cause of the loss removed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from sciops.grids import Grid
from sciops.mixers import SpectralMixer
from sciops.models.apply import apply_model
from sciops.models.spine.features import wall_mask


class SamePeriod(nn.Module):
    """The network with Fourier modes of the period that they had on its training grid, whatever grid it runs on.

    A Fourier layer takes n points for one period. On nodes that include both walls that is n·h, 22/21 of the domain on
    22 nodes and 43/42 on 43: mode k is another function on every grid. On a grid r times as fine, r − 1 points per axis
    continue the fields, on the line from the last value to the first, which gives r·n points with the period of the n
    that the network was trained on; the points are left out again behind.

    The fields continued are those in front of each Fourier layer, so that the jump from one end of the period to the
    other is as wide as it was. A model of neuraloperator, which counts its positions in points, gets those of the r·n.

    model : the trained network; coarse : its training grid
    """

    def __init__(self, model: nn.Module, coarse: Grid) -> None:
        super().__init__()
        self.model, self.coarse = model, coarse

    def forward(self, x: Tensor, grid: Grid) -> Tensor:
        further = further_points(self.coarse, grid)
        with _continued(self.model, further):
            return apply_model(self.model, x, grid)


def further_points(coarse: Grid, fine: Grid) -> tuple[int, ...]:
    """r − 1 per axis, with r the ratio of the spacings.

    Raises ValueError where the coarse nodes are not among the fine ones.
    """
    strides = coarse.strides_in(fine)
    if strides is None:
        raise ValueError(f"grid {coarse.shape} is not nested in {fine.shape}: no whole number of points ends a period")
    return tuple(r - 1 for r in strides)


def continued(x: Tensor, further: Sequence[int], *, first_axis: int) -> Tensor:
    """x with points added at the end of each axis, on the line from its last value to its first."""
    for axis, count in enumerate(further, start=first_axis):
        if count:
            last, first = x.narrow(axis, x.shape[axis] - 1, 1), x.narrow(axis, 0, 1)
            steps = torch.arange(1, count + 1, dtype=x.dtype, device=x.device) / (count + 1)
            shape = [1] * x.ndim
            shape[axis] = count
            x = torch.cat([x, last + steps.reshape(shape) * (first - last)], axis)
    return x


@contextmanager
def _continued(model: nn.Module, further: Sequence[int]) -> Iterator[None]:
    """The Fourier layers of a model on continued fields, and the positions of neuraloperator's embedding on theirs."""
    ours = [m for m in model.modules() if isinstance(m, SpectralMixer)]
    theirs = [m for m in model.modules() if any("SpectralConv" in c.__name__ for c in type(m).__mro__)]
    positions = [m for m in model.modules() if type(m).__name__.startswith("GridEmbedding")]
    for module in (*ours, *theirs, *positions):
        module.forward = _longer(module, further, 1 if module in ours else 2)  # type: ignore[method-assign]
    try:
        yield
    finally:
        for module in (*ours, *theirs, *positions):
            del module.forward


def _longer(module: nn.Module, further: Sequence[int], first_axis: int) -> Any:
    """The module's forward on a field with points added at the ends of its axes, which are left out of the result."""
    plain = type(module).forward

    def forward(x: Tensor, grid: Grid | None = None, **options: Any) -> Tensor:
        y = plain(module, continued(x, further, first_axis=first_axis), **options)
        sizes = x.shape[first_axis : first_axis + len(further)]
        return y[(slice(None),) * first_axis + tuple(slice(n) for n in sizes)]

    return forward


class ZeroWall(nn.Module):
    """The network with its output set to exactly 0 at the nodes on the walls, which u = 0 there asks of every model."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor, grid: Grid) -> Tensor:
        y = apply_model(self.model, x, grid)
        return y * wall_mask(grid, y.dtype, y.device)


class Dealiased(nn.Module):
    """The network with the nonlinearities of its blocks evaluated on `factor` times the points, on every grid.

    The weights are those trained without; see `sciops.models.spine.dealiasing.on_finer_grid`. Raises ValueError for a
    model that is not built on the spine.
    """

    def __init__(self, model: nn.Module, factor: int) -> None:
        super().__init__()
        self.model = model
        blocks = [m for m in model.modules() if hasattr(m, "dealias")]
        if not blocks:
            raise ValueError(f"{type(model).__name__} has no blocks of the spine to dealias")
        for block in blocks:
            block.dealias = factor  # type: ignore[assignment]

    def forward(self, x: Tensor, grid: Grid) -> Tensor:
        return apply_model(self.model, x, grid)
