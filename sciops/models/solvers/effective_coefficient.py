"""A solver inside a network: the network says which coefficient a coarse grid should have been given."""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from sciops.datasets.fields.normalizers import Normalizer
from sciops.grids import Grid
from sciops.models.apply import apply_model, config_of, grid_for
from sciops.models.solvers.corrector import between_nodes, checked_coefficient, finer_grid
from sciops.models.wrappers.normalized import Normalized
from sciops.pde import adjoint

_RANGE = 0.3  # typical size of a change of log a, what one unit of the network's output stands for


class EffectiveCoefficient(nn.Module):
    """u solves −∇·(ã∇u) = f, u = 0 on the wall, with log ã = I log a + N(log a) on the solve's grid.

    On a coarse grid the values of a at the nodes do not say what lies between them. N learns the conductance that
    serves best in its place, numerical upscaling learned from solutions; gradients pass through the solve by its
    adjoint (`sciops.pde.adjoint`). The result is the solution of an elliptic problem whatever N says: zero on the wall,
    and positive where f is. This is a hybrid that is given the equation: compare it with the solve alone, which
    `correct = False` returns.

    model : N, from (batch, 1, nx, ny) to (batch, refine², nx, ny): the values at the refine × refine nodes of the
        solve's grid from each node on; usually with `Normalized` around it
    forcing : f, a number
    refine : intervals of the solve's grid for each of the grid's; I interpolates linearly between the nodes
    tol : relative residual of the solve and of its adjoint

    forward(x, grid=None) : (batch, 1, nx, ny), the coefficient, → (batch, 1, nx, ny). Nodes with walls at both ends.

    N counts in points: on another grid it says what it learned on its own.

    Raises ValueError for a refine below 1, a model with other channels, and a coefficient that is not positive and
    finite, naming the sample.
    """

    wall = "zero"

    def __init__(self, model: nn.Module, *, forcing: float = 1.0, refine: int = 1, tol: float = 1e-6) -> None:
        super().__init__()
        if int(refine) != refine or refine < 1:
            raise ValueError(f"refine={refine!r}: expected a whole number of at least 1")
        self.model, self.forcing, self.refine, self.tol = model, float(forcing), refine, tol
        self.correct = True

    @property
    def config(self) -> dict[str, Any]:
        options = dict(forcing=self.forcing, refine=self.refine, tol=self.tol)
        return {"name": "effective_coefficient", "options": {"model": config_of(self.model), **options}}

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

    def fit_normalizers(self, dataset: Any) -> EffectiveCoefficient:
        """Statistics of log a into the model's `Normalized`; returns self.

        dataset : the training split. Raises ValueError where the model has no `Normalized`.
        """
        if not isinstance(self.model, Normalized):
            raise ValueError(f"the model is {type(self.model).__name__}; expected Normalized(model) around it")
        self.model.input = Normalizer.fit(
            dataset.batch(range(i, min(i + 64, len(dataset))))["x"].log() for i in range(0, len(dataset), 64)
        )
        return self


def effective_coefficient(
    in_channels: int, out_channels: int, *, trunk: str = "operator", **options: Any
) -> EffectiveCoefficient:
    """An `EffectiveCoefficient` around the model called `trunk`, which starts as the solve alone.

    trunk : name for `sciops.build_model`; by default the spine with a 3×3 convolution in every block, since what lies
        between nodes is said by their neighbours
    forcing, refine, tol : of `EffectiveCoefficient`; other options : the trunk's
    """
    from sciops.models.registry import build_model

    if (in_channels, out_channels) != (1, 1):
        raise ValueError(
            f"effective_coefficient: in_channels={in_channels}, out_channels={out_channels}: expected 1 and 1"
        )
    own = {name: options.pop(name) for name in ("forcing", "refine", "tol") if name in options}
    if trunk == "operator":
        options = {"mixer": "convolution", "width": 24, "depth": 3, "coordinates": "none"} | options
    channels = int(own.get("refine", 1)) ** 2
    network = build_model(trunk, in_channels=1, out_channels=channels, **options)
    last = [module for module in network.modules() if isinstance(module, (nn.Linear, nn.Conv2d))][-1]
    nn.init.zeros_(last.weight)
    nn.init.zeros_(last.bias)
    output = Normalizer(channels)
    output.std.fill_(_RANGE)
    return EffectiveCoefficient(Normalized(network, Normalizer(1), output), **own)
