"""The arms of the study, and one training of each: a warm-up by the likelihood that all share, then the arm's loss."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from sciops.models.apply import apply_model
from sciops.training.objectives.precision_recall import read_objective
from studies.diversity_losses.cases import Case, case_of
from studies.kit.cells import kept, kept_arrays
from studies.kit.stepping import shuffled, train_by_step

SHUFFLED = "power for recall, weights shuffled"
# name → (loss, the options to choose from); the likelihood chooses among learning rates instead
ARMS: dict[str, tuple[str, tuple[dict[str, Any], ...]]] = {
    "likelihood": ("nll", ({}, {})),
    "truncation": ("truncation", ({"drop": 0.1}, {"drop": 0.3})),
    "GOLD": ("gold", ({"least": 0.1}, {"least": 0.4})),
    "TaiLr": ("tailr", ({"gamma": 0.1, "least": 0.1}, {"gamma": 0.5, "least": 0.1})),
    "power for precision": ("power", ({"exponent": 0.3}, {"exponent": 0.7})),
    "truncation for recall": ("truncation_recall", ({"drop": 0.1}, {"drop": 0.3})),
    "TaiLr for recall": ("tailr_recall", ({"gamma": 0.3}, {"gamma": 0.05})),
    "power for recall": ("power", ({"exponent": -0.4}, {"exponent": -1.0})),
    "focal": ("focal", ({"exponent": 1.0}, {"exponent": 4.0})),
    "λ-PR": ("lambda_pr", ({"lam": 0.3}, {"lam": 0.8})),
    SHUFFLED: ("power", ({"exponent": -0.4}, {"exponent": -1.0})),
}
FOR_PRECISION = ("truncation", "GOLD", "TaiLr", "power for precision")
FOR_RECALL = ("truncation for recall", "TaiLr for recall", "power for recall", "focal", "λ-PR")
RATES = (1.0, 3.0)  # of the likelihood's learning rate, in the order of its options


@dataclass(frozen=True)
class Spec:
    """What decides one training; choice: number of the arm's options, −1 for the warm-up."""

    task: str
    arm: str
    choice: int
    seed: int
    warmup: int
    steps: int
    batch: int
    warmup_rate: float
    rate: float
    width: int
    depth: int
    words: int
    fields: int
    corpus: str
    temperatures: tuple[float, ...]
    lam: float


def train_once(spec: Spec, folder: Path) -> dict[str, Any]:
    """The record of one arm: what `Case.measure` says after the training, read back where it is there."""
    loss, choices = ARMS[spec.arm]

    def make() -> dict[str, Any]:
        case = _case(spec)
        model = case.model(spec.seed, spec.width, spec.depth)
        arrays = warm_up(spec, folder)
        model.load_state_dict({name: torch.from_numpy(value) for name, value in arrays.items()})
        rate = spec.rate * (RATES[spec.choice] if spec.arm == "likelihood" else 1.0)
        losses = losses_of(case, loss, choices[spec.choice], shuffled_by=spec.seed if spec.arm == SHUFFLED else None)
        seconds = _train(case, model, losses, spec, steps=spec.steps, rate=rate, stream=1)
        return {"measured": case.measure(model.eval(), spec.temperatures, spec.lam), "seconds": seconds}

    made_by = {**asdict(spec), "loss": loss, "options": choices[spec.choice]}
    return kept(folder, f"{spec.task}-{spec.arm}-{spec.choice}-seed{spec.seed}", made_by, make)


def losses_of(
    case: Case, loss: str, options: dict[str, Any], *, shuffled_by: int | None = None
) -> Callable[[nn.Module, Tensor, Tensor], Tensor]:
    """A function (model, x, y) → mean loss of a batch.

    shuffled_by : a seed, to give each target the weight of another one of the batch, the ablation of the weights
    """
    likelihood, weighting = read_objective(loss, {**case.likelihood, **options})
    generator = None if shuffled_by is None else torch.Generator().manual_seed(shuffled_by)

    def mean_loss(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        prediction = apply_model(model, x, case.grid)
        scores = likelihood.scores(prediction, y)
        if generator is None:
            return weighting.losses(scores).mean()
        weights = weighting.weights(replace(scores, log_q=scores.log_q.detach())).detach().clone()
        mine = weights[scores.asked]
        weights[scores.asked] = mine[torch.randperm(len(mine), generator=generator)]
        return scores.mean(-weights * scores.log_q).mean()

    return mean_loss


def warm_up(spec: Spec, folder: Path) -> dict[str, np.ndarray]:
    """The tensors of the model from which all arms of a task and seed start, trained by the likelihood and kept."""
    case = _case(spec)
    start = replace(spec, arm="likelihood", choice=-1, steps=0, rate=0.0, temperatures=(), lam=0.0)

    def make() -> dict[str, np.ndarray]:
        model = case.model(spec.seed, spec.width, spec.depth)
        _train(case, model, losses_of(case, "nll", {}), spec, steps=spec.warmup, rate=spec.warmup_rate, stream=0)
        return {name: value.numpy() for name, value in model.state_dict().items()}

    return kept_arrays(folder, f"{spec.task}-warm-seed{spec.seed}", asdict(start), make)


def _train(
    case: Case,
    model: nn.Module,
    mean_loss: Callable[[nn.Module, Tensor, Tensor], Tensor],
    spec: Spec,
    *,
    steps: int,
    rate: float,
    stream: int,
) -> float:
    """Trains by AdamW with a cosine decay on the same batches for every arm; returns the seconds."""
    rows = shuffled(len(case.x), spec.batch, np.random.default_rng([spec.seed, stream]).permutation)

    def draw(_: int) -> np.ndarray:
        return next(rows)

    def loss(net: nn.Module, chosen: np.ndarray) -> Tensor:
        return mean_loss(net, case.x[chosen], case.y[chosen])

    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, betas=(0.9, 0.98), weight_decay=0.01)
    return train_by_step(model, draw, loss, optimizer, steps=steps, schedule="cosine").seconds


def _case(spec: Spec) -> Case:
    return case_of(spec.task, words=spec.words, fields=spec.fields, corpus=spec.corpus)
