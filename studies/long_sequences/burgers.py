"""Burgers learnt on 256 points and asked for on finer grids: state spaces that know the spacing, and an FNO."""

from __future__ import annotations

from bisect import bisect_left
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from sciops.grids import Grid, restrict
from sciops.metrics import relative_l2
from sciops.mixers import StateSpaceMixer
from sciops.mixers.sequence.state_space import state_space_groups
from sciops.models import Operator
from sciops.models.operators.fno import fno
from sciops.pde import burgers
from sciops.random_fields import gaussian_random_field
from studies.kit.cells import kept, kept_arrays
from studies.kit.mixers.fields import train_steps
from studies.kit.study import picked
from studies.kit.timing import threads

if TYPE_CHECKING:
    from studies.long_sequences import Config

POINTS, VISCOSITY, TIME = 256, 0.01, 1.0
ARMS: dict[str, dict[str, Any]] = {
    "state space": {"hold": "zero", "periodic": "auto"},
    "state space, linear hold": {"hold": "first", "periodic": "auto"},
    "state space, open ends": {"hold": "zero", "periodic": False},
    "FNO": {},
}
BLIND = ", spacing not told"
Pairs = tuple[Tensor, Tensor]


def ring(points: int) -> Grid:
    return Grid((points,), 1.0, "periodic")


def fields(train: int, test: int, refinements: tuple[int, ...], folder: Path) -> tuple[Pairs, dict[int, Pairs]]:
    """(x, y) on 256 points for training, and of other fields by number of points for tests, (samples, 1, points).

    u(·, 0) ~ N(0, 625(−Δ + 25)^{−2}) ↦ u(·, 1) at ν = 0.01 on the unit circle. Test fields are solved once, on the
    finest grid, and restricted to the others.
    """
    finest = POINTS * max(2, *refinements)

    def make() -> dict[str, np.ndarray]:
        arrays = {}
        for name, count, points, seed in (("train", train, 2 * POINTS, 0), ("test", test, finest, 1)):
            grid = ring(points)
            x = 5**0.5 * gaussian_random_field(grid, count, tau=5.0, alpha=2.0, seed=seed, modes=64)
            y = [
                burgers.solve(x[i : i + 32], grid, times=[TIME], viscosity=VISCOSITY, dt=1 / 512).u[:, 0]
                for i in range(0, count, 32)
            ]
            arrays |= {f"{name}_x": x, f"{name}_y": np.concatenate(y)}
        return arrays

    law = {"train": train, "test": test, "points": POINTS, "finest": finest, "time": TIME, "viscosity": VISCOSITY}
    arrays = kept_arrays(folder, "burgers", law | {"tau": 5.0, "alpha": 2.0, "modes": 64}, make)

    def pair(name: str, fine: int, points: int) -> Pairs:
        on = (restrict(arrays[f"{name}_{part}"], ring(fine), ring(points)) for part in "xy")
        return tuple(torch.from_numpy(np.ascontiguousarray(u)).float().unsqueeze(1) for u in on)

    return pair("train", 2 * POINTS, POINTS), {POINTS * r: pair("test", finest, POINTS * r) for r in refinements}


def model(arm: str, config: Config, seed: int) -> nn.Module:
    """Operators of four blocks on the circle; the FNO in the width that comes nearest in parameters."""
    torch.manual_seed(seed)
    grid = ring(POINTS)
    options = dict(state=config.state, dt_max=config.burgers_dt_max, reference_spacing=1 / POINTS) | ARMS[arm]
    if arm != "FNO":
        return Operator(
            1, 1, width=config.burgers_width, depth=4, mixer="state_space", mixer_options=options, grid=grid
        )
    aim = parameters(model("state space", config, seed))

    def candidate(width: int) -> nn.Module:
        return fno(1, 1, modes=(config.burgers_modes,), width=width, depth=4, block="classic", grid=grid)

    above = bisect_left(range(1, 512), aim, key=lambda w: parameters(candidate(w))) + 1
    width = min((max(1, above - 1), above), key=lambda w: abs(parameters(candidate(w)) - aim))
    torch.manual_seed(seed)
    return candidate(width)


def parameters(net: nn.Module) -> int:
    """Real numbers that are trained."""
    return sum(p.numel() * (2 if p.is_complex() else 1) for p in net.parameters())


def trainings(config: Config, folder: Path) -> list[dict[str, Any]]:
    """One record an arm and seed: {"arm", "seed", "errors": {points: relative L²}, "blind": the same where Δ stays what
    it was in training, …}."""
    rows = []
    with threads(1):
        for seed in range(config.seeds):
            for arm in config.burgers_arms:
                spec = {"arm": arm, "seed": seed, "options": ARMS[arm], "state": config.state}
                spec |= {"points": POINTS, "time": TIME, "viscosity": VISCOSITY}
                spec |= picked(config, "steps batch rate train test refinements width modes dt_max", "burgers_")
                rows.append(kept(folder, f"burgers-{arm}-{seed}", spec, lambda: _trained(config, arm, seed, folder)))  # noqa: B023
    return rows


def _trained(config: Config, arm: str, seed: int, folder: Path) -> dict[str, Any]:
    (x, y), tests = fields(config.burgers_train, config.burgers_test, config.burgers_refinements, folder)
    net, scale, grid = model(arm, config, seed), float(x.std()), ring(POINTS)
    optimizer = torch.optim.AdamW(state_space_groups(net, weight_decay=1e-4), lr=config.burgers_rate)
    steps = config.burgers_steps
    how = {"steps": steps, "batch": min(config.burgers_batch, len(x)), "progress": f"Burgers, {arm}, seed {seed}"}
    losses, seconds = train_steps(net, optimizer, x / scale, y / scale, grid, seed=seed, **how)
    found = {"errors": errors(net, tests, scale)}
    if arm != "FNO":
        for module in net.modules():
            if isinstance(module, StateSpaceMixer):
                module.reference_spacing = None
        found["blind"] = errors(net, tests, scale)
    input_error = {str(n): float(relative_l2(a, b, ring(n)).mean()) for n, (a, b) in tests.items()}
    return {
        "arm": arm,
        "seed": seed,
        **found,
        "input_error": input_error,
        "loss": float(np.mean(losses[-max(1, steps // 20) :])),
        "parameters": parameters(net),
        "seconds": seconds,
        "steps": steps,
    }


@torch.no_grad()
def errors(net: nn.Module, tests: dict[int, Pairs], scale: float) -> dict[str, float]:
    """Mean relative L² by number of points."""
    return {
        str(n): float(
            torch.cat(
                [relative_l2(scale * net(a / scale, ring(n)), b, ring(n)) for a, b in zip(x.split(16), y.split(16))]
            ).mean()
        )
        for n, (x, y) in tests.items()
    }
