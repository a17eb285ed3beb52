"""A solver with a learned coefficient: the network corrects the coefficient of a coarse grid."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from sciops.datasets.fields.normalizers import Normalizer
from sciops.grids import Grid
from sciops.models.apply import apply_model, config_of, grid_for
from sciops.models.solvers.corrector import between_nodes, checked_coefficient, finer_grid, normalized_in
from sciops.models.spine import description
from sciops.models.summary import model_text
from sciops.models.wrappers import Normalized
from sciops.options import Count, names_of, read_options
from sciops.pde.darcy import adjoint

_RANGE = 0.3  # typical change of log a, the scale of the network's output


@dataclass(frozen=True, kw_only=True)
class EffectiveCoefficientOptions:
    """Options of `EffectiveCoefficient`.

    Parameters
    ----------
    forcing : float
        The right-hand side f, one number.
    refine : int
        Intervals of the solve's grid for each of the grid's; log a is interpolated linearly between the nodes.
    tol : float
        Relative residual of the solve and of its adjoint.
    """

    forcing: float = 1.0
    refine: Count = 1
    tol: float = 1e-6


class EffectiveCoefficient(nn.Module):
    """A solver with a learned coefficient: −∇·(ã∇u) = f, u = 0 on the wall, log ã = I log a + N(log a).

    On a coarse grid the values of a at the nodes do not determine the coefficient between them. N learns the
    conductance that gives the best solution, numerical upscaling learned from solutions; I interpolates to the solve's
    grid, and gradients pass through the solve by its adjoint (`sciops.pde.darcy.adjoint`). The result always solves an
    elliptic problem: it is zero on the wall, and positive where f is. This hybrid is given the equation: compare it
    with the solve alone, which `correct = False` returns.

    ``forward(x, grid=None)`` maps the coefficient (batch, 1, nx, ny) to (batch, 1, nx, ny), at nodes with walls at both
    ends. N counts in points: on another grid it applies what it learned on its own.

    Parameters
    ----------
    model : nn.Module
        N, from (batch, 1, nx, ny) to (batch, refine², nx, ny): the values at the refine × refine nodes of the solve's
        grid from each node on; usually with `Normalized` around it.
    **options
        The fields of `EffectiveCoefficientOptions`.

    Raises
    ------
    ValueError
        For a model with another number of channels, and a coefficient that is not positive and finite, naming the
        sample.
    """

    wall = "zero"

    __repr__ = model_text

    def __init__(self, model: nn.Module, **options: Any) -> None:
        super().__init__()
        self.options = o = read_options(EffectiveCoefficientOptions, "effective_coefficient", options)
        self.model, self.forcing, self.refine, self.tol = model, o.forcing, o.refine, o.tol
        self.correct = True

    @property
    def config(self) -> dict[str, Any]:
        return description("effective_coefficient", {"model": config_of(self.model), **vars(self.options)})

    def grid_for(self, x: Tensor, grid: Grid | None = None) -> Grid:
        return grid_for(self.model, x, grid)

    def forward(self, x: Tensor, grid: Grid | None = None) -> Tensor:
        if x.ndim != 4 or x.shape[1] != 1:
            raise ValueError(f"x has shape {tuple(x.shape)}; expected (batch, 1, nx, ny), the coefficient")
        grid = self.grid_for(x, grid)
        z = checked_coefficient(x, grid).log()
        fine = finer_grid(grid, self.refine)
        log_a = between_nodes(z, self.refine)[:, 0]
        if self.correct:
            change = apply_model(self.model, z.to(x.dtype), grid)
            if change.shape[1] != self.refine**2:
                raise ValueError(
                    f"the model returns {change.shape[1]} channels; refine={self.refine} needs {self.refine**2}"
                )
            change = F.pixel_shuffle(change, self.refine)[:, 0, : fine.shape[0], : fine.shape[1]]
            log_a = log_a + change.double()
        u = adjoint.solve(log_a.exp(), fine, forcing=self.forcing, tol=self.tol)
        return u[:, None, :: self.refine, :: self.refine].to(x.dtype)

    def fit_normalizers(self, *datasets: Any) -> EffectiveCoefficient:
        """Statistics of log a into the model's `Normalized`; returns self.

        `sciops.training.fit` does it where they are not fitted yet.

        datasets : the training split, or several on different grids
        Raises ValueError where the model has no `Normalized`.
        """
        normalized_in(self).input = Normalizer.fit(
            dataset.batch(range(i, min(i + 64, len(dataset))))["x"].log()
            for dataset in datasets
            for i in range(0, len(dataset), 64)
        )
        return self

    @property
    def normalizers_fitted(self) -> bool:
        """Whether the statistics of log a are others than a mean of 0 and a deviation of 1."""
        fitted = self.model.input if isinstance(self.model, Normalized) else None
        return fitted is None or not fitted.is_identity


def effective_coefficient(
    build: Callable[..., nn.Module], in_channels: int, out_channels: int, *, trunk: str = "operator", **options: Any
) -> EffectiveCoefficient:
    """An `EffectiveCoefficient` around a model by name, which starts as the solve alone.

    Parameters
    ----------
    build : callable
        `sciops.build_model`.
    in_channels, out_channels : int
        1 and 1.
    trunk : str
        Name of the network for `build`; by default the spine with a 3×3 convolution in every block, since the
        coefficient between nodes depends on the neighbouring nodes.
    **options
        The fields of `EffectiveCoefficientOptions`, and the options of the network.
    """
    if (in_channels, out_channels) != (1, 1):
        raise ValueError(
            f"effective_coefficient: in_channels={in_channels}, out_channels={out_channels}: expected 1 and 1"
        )
    own = {name: options.pop(name) for name in options.keys() & names_of(EffectiveCoefficientOptions)}
    if trunk == "operator":
        options = {"mixer": "convolution", "width": 24, "depth": 3, "coordinates": "none"} | options
    channels = int(own.get("refine", 1)) ** 2
    network = build(trunk, in_channels=1, out_channels=channels, **options)
    last: Any = [module for module in network.modules() if isinstance(module, (nn.Linear, nn.Conv2d))][-1]
    nn.init.zeros_(last.weight)
    nn.init.zeros_(last.bias)
    output = Normalizer(channels)
    output.std.fill_(_RANGE)
    return EffectiveCoefficient(Normalized(network, Normalizer(1), output), **own)
