"""State feedback for a field that a neural operator steps in time: Kuramoto–Sivashinsky, loss on every frame."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn

from sciops.bases import Basis
from sciops.grids import Grid
from sciops.metrics import relative_l2
from sciops.models import Stepper, build_model
from sciops.training import GRADIENTS
from sciops.training.gradients import compared
from studies.kit.stepping import train_by_step
from studies.state_feedback.tasks import LENGTH, POINTS, snapshots

GRID, EVERY = Grid((POINTS,), LENGTH, "periodic"), 0.5


def linear_symbol() -> Tensor:
    """e^{(k² − k⁴) dt}: one step of the linear part of the equation."""
    k = torch.from_numpy(Basis("fourier", POINTS, "periodic", LENGTH).wavenumbers())
    return torch.exp((k**2 - k**4) * EVERY).to(torch.complex64)


ARMS: dict[str, tuple[str, dict[str, Any]]] = {
    "BPTT": ("backprop", {}),
    "one step (Λ = 0)": ("state_feedback", {"feedback": "zero"}),
    "DSF identity": ("state_feedback", {"feedback": "identity"}),
    "DSF least squares": ("state_feedback", {"feedback": "least_squares"}),
    "DSF linear part": ("state_feedback", {"feedback": "symbol", "symbol": linear_symbol()}),
}


def rollouts(
    *, steps: int, frames: int, seeds: int, batch: int, width: int, sequences: int, rate: float
) -> Iterator[dict[str, Any]]:
    """One row an arm and seed: relative L2 error of the last of `frames` own steps, seconds, cosine and norm ratio."""
    u = torch.from_numpy(snapshots(sequences + sequences // 4, frames + 1, seed=7))[:, :, None]
    u = u / u[:sequences].std()
    train, test = u[:sequences], u[sequences:]
    for seed in range(seeds):
        for arm, (name, options) in ARMS.items():
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(seed)
                core = build_model("fno", width=width, depth=2, modes=(12,), grid=GRID)
            model = Stepper(core, channels=1, steps=frames)
            yield {"arm": arm, "seed": seed, **_trained(model, name, options, train, test, steps, batch, rate, seed)}


def _trained(
    model: nn.Module,
    name: str,
    options: dict[str, Any],
    train: Tensor,
    test: Tensor,
    steps: int,
    batch: int,
    rate: float,
    seed: int,
) -> dict[str, Any]:
    generator, optimizer = torch.Generator().manual_seed(seed), torch.optim.AdamW(model.parameters(), lr=rate)
    looks, close = {0, steps // 2, steps - 1}, []

    def ahead(number: int) -> SimpleNamespace:
        """The batch of a step, on which the gradients are compared before it, outside the clock."""
        rows = train[torch.randint(len(train), (batch,), generator=generator)]
        piece = SimpleNamespace(x=rows[:, 0], y=rows[:, 1:, 0], grid=GRID)
        if number in looks:
            truth, found = (_gradient(model, *rule, piece) for rule in (("backprop", {}), (name, options)))
            close.append({key: values["all"] for key, values in compared(found, truth, {}).items()})
        return piece

    waiting = ahead(0)

    def after(_: Any, record: dict[str, Any]) -> None:
        nonlocal waiting
        waiting = ahead(record["step"])

    fill = lambda model, batch: _fill(model, name, options, batch)  # noqa: E731
    run = train_by_step(model, lambda _: waiting, fill, optimizer, steps=steps, after=after, warmup=0.2)
    with torch.no_grad():
        error = relative_l2(model(test[:, 0], GRID)[:, -1], test[:, -1, 0]).mean().item()
    return {"test": error, "seconds": run.seconds, "closeness": close}


def _fill(model: nn.Module, name: str, options: dict[str, Any], batch: Any) -> Tensor:
    model.zero_grad(set_to_none=True)
    return GRADIENTS[name](model, lambda prediction, b: (prediction - b.y).square().mean(), batch, **options)


def _gradient(model: nn.Module, name: str, options: dict[str, Any], batch: Any) -> dict[str, Tensor]:
    _fill(model, name, options, batch)
    return {key: p.grad.clone() for key, p in model.named_parameters()}
