"""Trainings side by side on one network of several members: the tasks, the arms, the optimiser, the cosines."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sciops.grids import Grid
from sciops.pde import darcy
from sciops.random_fields import gaussian_random_field, two_phase
from studies.highway_depth.networks import CausalConvNet, ConvNet, ResidualNet, Transformer, together
from studies.kit.stepping import shuffled
from studies.kit.text_training import text_data

if TYPE_CHECKING:
    from studies.highway_depth import Config

NETWORKS = ("resnet, pre", "resnet, post", "transformer", "resnet, text", "gru")
TEXT = ("transformer", "resnet, text")


@dataclass(frozen=True)
class Arm:
    """iterations : sweeps k of Highway-BP, None for backpropagation. gamma : share of K counted with J."""

    iterations: int | None
    gamma: float | str = 0.0

    @property
    def name(self) -> str:
        if self.iterations is None:
            return "backprop"
        if self.gamma == 1:
            return f"fixed point, k = {self.iterations}"
        if isinstance(self.gamma, str):
            return f"k = {self.iterations}, γ*"
        return f"k = {self.iterations}" + (f", γ = {self.gamma:g}" if self.gamma else "")


@dataclass(frozen=True)
class Task:
    """make(depth) : a network of one member. drawn(seed) : a function of no arguments that gives batch after batch,
    (inputs, targets) of one member. stacked : such batches of the members in one. losses(net, batch, **how) :
    (members,). errors(net, part) : (members,) on "validation" or "test"."""

    make: Callable[[int], ResidualNet]
    drawn: Callable[[int], Callable[[], tuple[Tensor, Tensor]]]
    stacked: Callable[[Sequence[tuple[Tensor, Tensor]]], tuple[Tensor, Tensor]]
    losses: Callable[..., Tensor]
    errors: Callable[[ResidualNet, str], Tensor]
    unit: str


def task_of(network: str, config: Config) -> Task:
    if network in TEXT:
        return _text(network, config.corpus, config.length, config.text_width, config.text_batch, config.scored)
    sizes = (config.train, config.validation, config.test)
    return _fields(network.split(", ")[1], config.points, sizes, config.width, config.batch)


@lru_cache(maxsize=4)
def _darcy(points: int, sizes: tuple[int, int, int]) -> dict[str, tuple[Tensor, Tensor]]:
    """Coefficients and pressures of two-phase Darcy flow, u = 0 on the walls, in units of the training fields'."""
    grid = Grid((points, points))
    a = two_phase(gaussian_random_field(grid, sum(sizes), tau=3.0, alpha=2.0, seed=0))
    u = darcy.solve(a, grid).u
    a, u = (torch.from_numpy(np.ascontiguousarray(values)).float() for values in (a, u))
    a, u = (a - a[: sizes[0]].mean()) / a[: sizes[0]].std(), u / u[: sizes[0]].std()
    ends = np.cumsum((0, *sizes))
    return {name: (a[i:j], u[i:j]) for name, i, j in zip(("train", "validation", "test"), ends, ends[1:])}


def _fields(form: str, points: int, sizes: tuple[int, int, int], width: int, batch: int) -> Task:
    data = _darcy(points, sizes)
    x, y = data["train"]

    def drawn(seed: int) -> Callable[[], tuple[Tensor, Tensor]]:
        rows = shuffled(len(x), batch, np.random.default_rng(seed).permutation)

        def draw() -> tuple[Tensor, Tensor]:
            chosen = next(rows)
            return x[chosen], y[chosen]

        return draw

    def losses(net: ResidualNet, given: tuple[Tensor, Tensor], **how: Any) -> Tensor:
        return (net(given[0], **how) - given[1]).square().mean((0, 2, 3))

    @torch.no_grad()
    def errors(net: ResidualNet, part: str) -> Tensor:
        inputs, truth = data[part]
        said = net(inputs[:, None].expand(-1, net.members, -1, -1)).transpose(0, 1)
        return ((said - truth).flatten(2).norm(dim=2) / truth.flatten(1).norm(dim=1)).mean(1)

    stacked = lambda batches: tuple(torch.stack(parts, 1) for parts in zip(*batches))  # noqa: E731
    make = lambda depth: ConvNet(form, width=width, depth=depth)  # noqa: E731
    return Task(make, drawn, stacked, losses, errors, "relative L2 error")


def _text(network: str, corpus: str, length: int, width: int, batch: int, scored: int) -> Task:
    data = text_data(corpus, kind="characters", size=256)
    train = torch.from_numpy(np.asarray(data.train, dtype=np.int64))

    def window(tokens: Any, starts: np.ndarray) -> Tensor:
        return torch.stack([torch.as_tensor(tokens[s : s + length + 1]) for s in starts]).long()

    def drawn(seed: int) -> Callable[[], tuple[Tensor, Tensor]]:
        random = np.random.default_rng(seed)

        def draw() -> tuple[Tensor, Tensor]:
            found = window(train, random.integers(0, len(train) - length - 1, batch))
            return found[:, :-1], found[:, 1:]

        return draw

    def losses(net: ResidualNet, given: tuple[Tensor, Tensor], **how: Any) -> Tensor:
        logits = net(given[0], **how)
        found = F.cross_entropy(logits.flatten(0, -2), given[1].flatten(), reduction="none")
        return found.view(net.members, -1).mean(1)

    @torch.no_grad()
    def errors(net: ResidualNet, part: str) -> Tensor:
        tokens = getattr(data, part)
        starts = np.linspace(0, len(tokens) - length - 1, scored // length).astype(int)
        total = []
        for some in np.array_split(starts, max(1, len(starts) // 16)):
            found = window(tokens, some)[None].expand(net.members, -1, -1)
            total.append(losses(net, (found[..., :-1], found[..., 1:].contiguous())) * len(some))
        return (torch.stack(total).sum(0) / len(starts)).exp()

    stacked = lambda batches: tuple(torch.stack(parts) for parts in zip(*batches))  # noqa: E731
    symbols = len(data.tokenizer)

    def make(depth: int) -> ResidualNet:
        if network == "transformer":
            return Transformer(symbols, length=length, width=width, depth=depth)
        return CausalConvNet(symbols, width=width, depth=depth)

    return Task(make, drawn, stacked, losses, errors, "perplexity of a character")


class MemberAdam:
    """Adam with a learning rate and a clipped gradient norm for every member (members on the parameters' first axis).

    m ← β₁m + (1 − β₁)g, v ← β₂v + (1 − β₂)g², θ ← θ − η_member m̂/(√v̂ + ε), after g was scaled to norm `clip` at most.
    """

    def __init__(
        self, net: ResidualNet, rates: Tensor, *, betas: tuple[float, float] = (0.9, 0.99), clip: float = 1.0
    ) -> None:
        self.parameters, self.members, self.rates = list(net.parameters()), net.members, rates[:, None]
        self.betas, self.clip, self.steps = betas, clip, 0
        self.moments = [(torch.zeros_like(p), torch.zeros_like(p)) for p in self.parameters]

    def rows(self, tensor: Tensor) -> Tensor:
        return tensor.view(self.members, -1)

    @torch.no_grad()
    def step(self, factor: float) -> None:
        """One step with `factor` times the rates; the gradients are freed."""
        self.steps += 1
        one, two = self.betas
        norms = sum(self.rows(p.grad).square().sum(1) for p in self.parameters if p.grad is not None).sqrt()
        scale = (self.clip / norms.clamp_min(self.clip))[:, None]
        for p, (m, v) in zip(self.parameters, self.moments):
            g = torch.zeros_like(self.rows(p)) if p.grad is None else self.rows(p.grad) * scale
            m, v = self.rows(m), self.rows(v)
            m.lerp_(g, 1 - one)
            v.mul_(two).addcmul_(g, g, value=1 - two)
            root = (v / (1 - two**self.steps)).sqrt_().add_(1e-8)
            self.rows(p).sub_(factor * self.rates / (1 - one**self.steps) * m / root)
            p.grad = None


def schedule(step: int, steps: int) -> float:
    """Linear warm-up over a tenth of the steps, then half a cosine to zero."""
    warm = max(1, steps // 10)
    return (step + 1) / warm if step < warm else 0.5 + 0.5 * math.cos(math.pi * (step - warm) / (steps - warm))


def gradients(
    net: ResidualNet, task: Task, batch: tuple[Tensor, Tensor], arm: Arm, generator: int | None = None
) -> list[Tensor]:
    """Gradients of all parameters by the arm's rule; those that the rule leaves out are zero."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0 if generator is None else generator)
        total = task.losses(net, batch, iterations=arm.iterations, gamma=arm.gamma).sum()
        found = torch.autograd.grad(total, list(net.parameters()), allow_unused=True)
    return [torch.zeros_like(p) if g is None else g for g, p in zip(found, net.parameters())]


def compared(found: Sequence[Tensor], truth: Sequence[Tensor], members: int) -> tuple[list[float], list[float]]:
    """(cosine, norm ratio) to the true gradient for every member, in float64."""
    rows = [[t.double().view(members, -1) for t in tensors] for tensors in (found, truth)]
    inner, own, true = (sum((a * b).sum(1) for a, b in zip(rows[i], rows[j])) for i, j in ((0, 1), (0, 0), (1, 1)))
    return (inner / (own * true).sqrt()).tolist(), (own / true).sqrt().tolist()


def trained(network: str, depth: int, arm: Arm, config: Config) -> dict[str, Any]:
    """The record of one arm: its rate is the one of the grid with the least mean validation error over the seeds of
    the choice, then it is trained from the seeds of the verdict with that rate.

    choice : one row a (seed, rate); members : one row a seed; validation and test errors, infinite where the training
    diverged; looks, probes, parameters : see `_together`, of the second trainings
    """
    torch.set_num_threads(1)
    rates = {"transformer": config.text_rates, "resnet, text": config.conv_rates}.get(network, config.rates)
    many = network in config.networks and network != "transformer" and depth == config.depth
    choosing, seeds = (config.choosing, config.seeds) if many else (config.few_choosing, config.few_seeds)
    plan = [(seed, rate) for seed in choosing for rate in rates]
    choice = _together(network, depth, arm, plan, config, looks=0)["members"]
    scores = {rate: float(np.mean([r["validation"] for r in choice if r["rate"] == rate])) for rate in rates}
    rate = min(rates, key=lambda rate: scores[rate])
    found = _together(network, depth, arm, [(seed, rate) for seed in seeds], config, looks=config.looks)
    return {"rate": rate, "choice": choice, **found}


def _together(
    network: str, depth: int, arm: Arm, plan: Sequence[tuple[int, float]], config: Config, *, looks: int
) -> dict[str, Any]:
    """Trainings of (seed, rate) side by side; every arm has the same starts and batches for a seed.

    looks : [{"share", "cosine", "norm_ratio"}] to the true gradient through training, a number a member
    probes : for backpropagation, the same for other numbers of sweeps, at the start and at the end
    """
    task = task_of(network, config)
    steps = config.text_steps if network in TEXT else config.steps
    net = together(partial(task.make, depth), [seed for seed, _ in plan])
    optimizer = MemberAdam(net, torch.tensor([rate for _, rate in plan]))
    streams = {seed: task.drawn(seed) for seed, _ in plan}
    due = {round(t) for t in np.linspace(0, steps - 1, looks)} if looks else set()
    seen: list[dict[str, Any]] = []
    probes: list[dict[str, Any]] = []
    for step in range(steps):
        one = {seed: draw() for seed, draw in streams.items()}
        batch = task.stacked([one[seed] for seed, _ in plan])
        found = gradients(net, task, batch, arm, step)
        if step in due:
            share = step / max(1, steps - 1)
            if arm.iterations is not None:
                cosine, ratio = compared(found, gradients(net, task, batch, Arm(None)), net.members)
                seen.append({"share": share, "cosine": cosine, "norm_ratio": ratio})
            elif step in (0, steps - 1):
                probes += _probed(net, task, batch, found, share, config)
        for p, g in zip(net.parameters(), found):
            p.grad = g
        optimizer.step(schedule(step, steps))
    errors = {part: task.errors(net, part).tolist() for part in ("validation", "test")}
    finite = lambda value: value if math.isfinite(value) else math.inf  # noqa: E731
    rows = [
        {"seed": seed, "rate": rate, **{part: finite(errors[part][i]) for part in errors}}
        for i, (seed, rate) in enumerate(plan)
    ]
    return {"members": rows, "looks": seen, "probes": probes, "parameters": _count(net)}


def _probed(
    net: ResidualNet, task: Task, batch: Any, truth: list[Tensor], share: float, config: Config
) -> list[dict[str, Any]]:
    rows = []
    for k in config.probed:
        cosine, ratio = compared(gradients(net, task, batch, Arm(k)), truth, net.members)
        rows.append({"share": share, "k": k, "cosine": cosine, "norm_ratio": ratio})
    return rows


def _count(net: nn.Module) -> int:
    return sum(p.numel() for p in net.parameters()) // getattr(net, "members", 1)
