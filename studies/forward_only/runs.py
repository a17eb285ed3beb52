"""One training of the study of forward-only learning: the tasks, the arms, and the angle to the true gradient."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sciops.datasets.images import load_images
from sciops.grids import Grid
from sciops.models import OrthogonalNet
from sciops.pde import darcy
from sciops.random_fields import gaussian_random_field, log_normal
from sciops.training.gradients import backprop, compared, forward_only, keep_orthogonal, project_
from studies.kit.stepping import train_by_step

ARMS = ("foton", "backprop, orthogonal", "backprop, free", "pepita", "head alone")
ABLATIONS = ("no projection", "random F", "stale F")
RANDOM = ("pepita", "random F")  # arms with the scale of a random matrix to choose
STALE = 20  # steps that a stale F is kept


@dataclass(frozen=True)
class Spec:
    """What decides one training."""

    task: str
    arm: str
    depth: int
    rate: float
    seed: int
    steps: int
    batch: int
    width: int
    activation: str
    optimizer: str
    samples: tuple[int, int, int]
    scale: float = 0.0  # deviation of a random matrix
    hidden: float = 1.0  # rate of hidden layers, times the last one's
    angles: int = 0  # how often the gradient is compared with the true one


@dataclass(frozen=True)
class Batch:
    x: Tensor
    y: Tensor
    grid: Any = None


@dataclass(frozen=True)
class Task:
    """(x, y) of training, validation and test; the loss; errors by sample (batch,); how a network is made."""

    parts: tuple[tuple[Tensor, Tensor], ...]
    loss: Callable[[Tensor, Any], Tensor]
    errors: Callable[[Tensor, Tensor], Tensor]
    net: Callable[..., nn.Module]
    reference: dict[str, float]


def half_squares(prediction: Tensor, batch: Any) -> Tensor:
    """½ Σ (p − y)² over the numbers of a sample, mean over samples."""
    return ((prediction - batch.y) ** 2).sum() / (2 * len(prediction))


def cross_entropy(prediction: Tensor, batch: Any) -> Tensor:
    return F.cross_entropy(prediction, batch.y)


def wrong(prediction: Tensor, target: Tensor) -> Tensor:
    return (prediction.argmax(1) != target).float()


@lru_cache(maxsize=4)
def task_of(name: str, samples: tuple[int, int, int]) -> Task:
    """The task of a name: "darcy", or the images "dense:…" and "convolution:…" of `load_images`.

    darcy: log-normal coefficients on 20×20 nodes ↦ 16 coefficients of the pressure in the principal components of the
    training pressures, in units of their overall deviation; the error is that of the pressure, relative, in L².
    """
    if name == "darcy":
        return _darcy(samples)
    kind, data = name.split(":")
    train, validation, test = samples
    splits = load_images(data, train=train, validation=validation, test=test)
    parts = []
    for part in (splits.train, splits.validation, splits.test):
        whole = part.batch(np.arange(len(part)))
        parts.append((whole["x"].float(), whole["y"].argmax(1)))
    shape, classes = tuple(parts[0][0].shape[1:]), int(parts[0][1].max()) + 1
    net = partial(OrthogonalNet, shape[0], classes, kind=kind, shape=shape[1:])
    if kind == "convolution":
        net = partial(net, patch=2 if shape[1] <= 16 else 4)
    return Task(tuple(parts), cross_entropy, wrong, net, {"guessing": 1 - 1 / classes})


def _darcy(samples: tuple[int, int, int], points: int = 20, components: int = 16) -> Task:
    grid = Grid((points, points))
    fields = gaussian_random_field(grid, sum(samples), tau=3.0, alpha=2.0, seed=0)
    logs = fields / fields.std()
    u = torch.from_numpy(np.asarray(darcy.solve(log_normal(logs), grid).u)).flatten(1)
    x = torch.from_numpy(logs).float()[:, None]
    train = u[: samples[0]]
    mean = train.mean(0)
    basis = torch.linalg.svd(train - mean, full_matrices=False)[2][:components]
    coefficients = (u - mean) @ basis.T
    unit = coefficients[: samples[0]].std()

    def errors(prediction: Tensor, target: Tensor) -> Tensor:
        # the target carries its pressure behind the coefficients
        decoded = mean + unit * prediction.double() @ basis
        truth = target[:, components:]
        return ((decoded - truth).norm(dim=1) / truth.norm(dim=1)).float()

    y = torch.cat([coefficients / unit, u], 1)
    ends = np.cumsum(samples)
    parts = tuple((x[a:b], y[a:b]) for a, b in zip((0, *ends[:-1]), ends))
    test = parts[2][1]
    reference = {
        "mean of training": float(errors(torch.zeros(len(test), components), test).mean()),
        "principal components": float(errors(test[:, :components], test).mean()),
    }

    def loss(prediction: Tensor, batch: Any) -> Tensor:
        return half_squares(prediction, Batch(batch.x, batch.y[:, :components].to(prediction.dtype)))

    net = partial(OrthogonalNet, 1, components, shape=(points, points))
    return Task(parts, loss, errors, net, reference)


def rule_of(spec: Spec) -> tuple[Callable[..., Tensor], Callable[[nn.Module], None]]:
    """(what fills the gradient, what is done after a step)."""
    nothing = lambda model: None  # noqa: E731
    if spec.arm in ("backprop, free", "head alone"):
        return backprop, nothing
    if spec.arm == "backprop, orthogonal":
        return backprop, partial(project_, method="bjorck")
    options = {
        "foton": {},
        "pepita": {"method": "pepita", "scale": spec.scale, "seed": spec.seed},
        "no projection": {"projection": "none"},
        "random F": {"feedback": "random", "scale": spec.scale, "seed": spec.seed},
        "stale F": {"feedback_every": STALE},
    }
    return partial(forward_only, **options[spec.arm]), nothing


def train_once(spec: Spec) -> dict[str, Any]:
    """Training with a cosine decay of the rate; the record of the run, its errors infinite where it diverged."""
    torch.set_num_threads(1)
    task = task_of(spec.task, spec.samples)
    torch.manual_seed(spec.seed)
    model = task.net(width=spec.width, depth=spec.depth, activation=spec.activation)
    if spec.arm == "head alone":
        for layer in model.stack[:-1]:
            layer.requires_grad_(False)
    rule, after = rule_of(spec)
    make = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}[spec.optimizer]
    groups = [{"params": [*model.stack[-1].parameters()]}]
    if spec.arm != "head alone":
        groups.append({"params": [*model.stack[:-1].parameters()], "lr": spec.hidden * spec.rate})
    optimizer = make(groups, lr=spec.rate)
    if rule is not backprop:
        keep_orthogonal(model, optimizer)
    random = np.random.default_rng(spec.seed)
    x, y = task.parts[0]
    looks = {round(t) for t in np.linspace(0, spec.steps - 1, spec.angles)} if spec.angles else set()
    angles: list[dict[str, float]] = []
    order: list[int] = []

    def draw(step: int) -> tuple[int, Batch]:
        nonlocal order
        if len(order) < spec.batch:
            order = [*random.permutation(len(x))]
        chosen, order = order[: spec.batch], order[spec.batch :]
        return step, Batch(x[chosen], y[chosen])

    def filled(model: nn.Module, given: tuple[int, Batch]) -> Tensor:
        step, batch = given
        loss = rule(model, task.loss, batch)
        if step in looks:
            angles.append({"step": step, **angle(model, task, batch)})
        return loss

    options = {"schedule": "cosine", "clip": None, "on_nonfinite": "stop"}
    run = train_by_step(model, draw, filled, optimizer, steps=spec.steps, after=lambda *_: after(model), **options)
    if not run.complete:
        return {"angles": angles, **dict.fromkeys(("train", "validation", "test", "loss"), math.inf)}
    record: dict[str, Any] = {"angles": angles}
    with torch.no_grad():
        for part, (inputs, targets) in zip(("train", "validation", "test"), task.parts):
            error = float(task.errors(model(inputs), targets).mean())
            record[part] = error if math.isfinite(error) else math.inf
        record["loss"] = float(task.loss(model(task.parts[1][0]), Batch(*task.parts[1])))
    return record


def linear_difference(kind: str, depth: int) -> float:
    """Largest relative difference between FOTON's and the true gradient without activations, in float64."""
    torch.manual_seed(0)
    net = OrthogonalNet(
        4, 5, kind=kind, shape=(8, 8), width=32, depth=depth, activation="identity", modes=(3, 3)
    ).double()
    x = torch.randn(6, 4, 8, 8, dtype=torch.float64)
    y = torch.randn(net(x).shape, dtype=torch.float64)
    forward_only(net, half_squares, Batch(x, y))
    true = torch.autograd.grad(half_squares(net(x), Batch(x, y)), list(net.parameters()))
    return max(float((p.grad - g).abs().max() / g.abs().max()) for p, g in zip(net.parameters(), true))


def angle(model: nn.Module, task: Task, batch: Batch) -> dict[str, float]:
    """Cosine between ``.grad`` and the true gradient, of the weights of the first, middle and last hidden layer and of
    all together; and all their ratio of norms."""
    layers = [m for m in model.stack if any(True for _ in m.parameters())][:-1]
    weights = {f"{i}.{j}": p for i, layer in enumerate(layers) for j, p in enumerate(layer.parameters()) if p.ndim > 1}
    true = torch.autograd.grad(task.loss(model(batch.x), batch), list(weights.values()))
    places = {"first": 0, "middle": len(layers) // 2, "last": len(layers) - 1}
    groups = {place: [name for name in weights if name.startswith(f"{i}.")] for place, i in places.items()}
    found = compared({name: p.grad for name, p in weights.items()}, dict(zip(weights, true)), groups)
    cosines = {"hidden" if name == "all" else name: value for name, value in found["cosine"].items()}
    return cosines | {"ratio": found["norm_ratio"]["all"]}
