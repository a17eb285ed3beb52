"""Darcy fields on nested grids, and FNOs with finite Lipschitz bounds trained on the coarsest."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from sciops.datasets.fields.normalizers import Normalizer
from sciops.grids import Grid
from sciops.metrics import relative_l2
from sciops.models import apply_model, build_model
from sciops.models.wrappers.normalized import Normalized
from sciops.pde import darcy
from sciops.random_fields import gaussian_random_field
from studies.kit.stepping import shuffled, train_by_step
from studies.kit.study import picked

if TYPE_CHECKING:
    from studies.certified_operators import Config


@dataclass(frozen=True)
class Fields:
    """Coefficients and solutions of the same functions on one grid, (samples, 1, *grid) float64."""

    grid: Grid
    a: Tensor
    u: Tensor


def coefficients(config: Config, grid: Grid, count: int, first: int) -> np.ndarray:
    """a = floor + exp(scale·g), g a Gaussian field of unit variance: (count, *grid), one function on all grids."""
    g = gaussian_random_field(
        grid, count, tau=3.0, alpha=2.0, seed=config.seed, modes=config.field_modes, first=first, normalize=True
    )
    return config.floor + np.exp(config.scale * g)


def fields_on(config: Config, points: int, count: int, first: int = 0) -> Fields:
    """The samples first … first + count − 1 on points² nodes, with solutions of that grid."""
    grid = Grid((points, points))
    a = coefficients(config, grid, count, first)
    u = darcy.solve(a, grid, tol=1e-10).u
    return Fields(grid, torch.from_numpy(a)[:, None], torch.from_numpy(u)[:, None])


def operator_of(model: torch.nn.Module, grid: Grid):
    """x ↦ model(x) on that grid."""
    return lambda x: apply_model(model, x, grid)


def train(config: Config, data: Fields, penalty: float, progress: Any) -> Normalized:
    """A certified FNO: classic blocks without norms, trained in float32, returned in float64.

    loss = mean relative L² error + penalty · Σ log of the layers' bounds; the second term is evaluated every
    `penalty_every` steps, and multiplied by their number
    """
    from sciops.lipschitz import log_lipschitz_penalty

    torch.manual_seed(config.seed)
    size = picked(config, "width depth basis") | {"modes": (config.modes,) * 2}
    block = {"block": "classic", "coordinates": "none", "wall": "zero"}
    network = build_model("fno", in_channels=1, out_channels=1, grid=data.grid, **size, **block)
    normal = [Normalizer.fit(data.a), Normalizer.fit(data.u)]
    # scaled, not shifted: the output is zero on the walls as it is
    normal[1].mean.zero_()
    model = Normalized(network, *normal)
    a, u = data.a.float(), data.u.float()
    optimizer = torch.optim.Adam(model.parameters(), lr=config.learning_rate)
    steps = config.epochs * (-(-len(a) // config.batch))
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, config.learning_rate, total_steps=steps)
    generator = torch.Generator().manual_seed(config.seed)
    batches = enumerate(shuffled(len(a), config.batch, partial(torch.randperm, generator=generator), whole=True))

    def loss(model: Normalized, batch: tuple[int, np.ndarray]) -> Tensor:
        step, rows = batch
        loss = relative_l2(model(a[rows]), u[rows], data.grid).mean()
        if penalty > 0 and step % config.penalty_every == 0:
            loss = loss + penalty * config.penalty_every * log_lipschitz_penalty(model, data.grid)
        return loss

    def after(_: Any, record: dict[str, Any]) -> None:
        schedule.step()
        progress.update(record["step"] % (steps // config.epochs) == 0)

    # the rates are those of `schedule`
    options = {"schedule": "constant", "clip": None}
    train_by_step(model, lambda _: next(batches), loss, optimizer, steps=steps, after=after, **options)
    return model.double().eval().requires_grad_(False)


def error_on(model: Normalized, data: Fields) -> float:
    """Mean relative L² error."""
    with torch.no_grad():
        prediction = torch.cat([apply_model(model, a, data.grid) for a in data.a.split(16)])
    return float(relative_l2(prediction, data.u, data.grid).mean())
