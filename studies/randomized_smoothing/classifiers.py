"""Digits behind 1-Lipschitz networks: trained with noise, certified in every way, attacked."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sciops.datasets.images.digits import LEVELS, read_digits
from sciops.lipschitz import RescaledLinear, spectral_norm
from sciops.robustness.attacks.fields import pgd
from sciops.robustness.smoothing.certificate import Certificate
from sciops.robustness.smoothing.classifier import certify
from sciops.robustness.smoothing.counts import bounds_from_counts
from sciops.robustness.smoothing.radii import cohen_radius, lipschitz_radius, paper_radius
from sciops.robustness.smoothing.simplex_maps import SimplexMap
from studies.kit.stepping import shuffled, train_by_step
from studies.randomized_smoothing.cases import INTERVALS

RADII = {"cohen": cohen_radius, "paper": paper_radius, "exact": lipschitz_radius}


class MaxMin(nn.Module):
    """Pairs (a, b) ↦ (max, min): 1-Lipschitz, and it keeps norms of gradients."""

    def forward(self, x: Tensor) -> Tensor:
        a, b = x.unflatten(-1, (-1, 2)).unbind(-1)
        return torch.cat([torch.maximum(a, b), torch.minimum(a, b)], -1)


@dataclass(frozen=True)
class Base:
    """A network x ↦ z with a certified L, and the scale s of the softmax that it was trained with."""

    network: nn.Module
    lipschitz: float
    scale: float

    @property
    def soft(self) -> SimplexMap:
        return SimplexMap("softmax", self.scale)

    @property
    def component_lipschitz(self) -> float:
        return self.lipschitz * self.soft.component_lipschitz(10)


def digits(test: int, seed: int) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """(x, y) to train on, (x, y) to certify and 50 more x to choose a map on, pixels in [0, 1], 64 of them a row.

    test : digits to certify, at most 350
    """
    images, labels = read_digits()
    x = torch.from_numpy(images.reshape(len(images), -1).astype(np.float32) / LEVELS)
    y = torch.from_numpy(labels)
    order = torch.from_numpy(np.random.default_rng(seed).permutation(len(x)))
    kept, held = order[: len(x) - 400], order[len(x) - 400 :]
    return x[kept], y[kept], x[held[:test]], y[held[:test]], x[held[350:]]


def train(x: Tensor, y: Tensor, *, sigma: float, scale: float, epochs: int, seed: int) -> Base:
    """Cross-entropy of softmax(s·z(x + ε)), ε ~ N(0, σ²I), by Adam with a linear decay; weights fixed afterwards."""
    torch.manual_seed(seed)
    rescaled = [RescaledLinear(a, b) for a, b in ((64, 128), (128, 128), (128, 10))]
    network = nn.Sequential(rescaled[0], MaxMin(), rescaled[1], MaxMin(), rescaled[2])
    optimizer = torch.optim.Adam(network.parameters(), lr=5e-3)
    generator = torch.Generator().manual_seed(seed)
    steps = epochs * -(-len(x) // 128)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.02, steps)
    batches = shuffled(len(x), 128, partial(torch.randperm, generator=generator), whole=True)

    def draw(_: int) -> tuple[Tensor, Tensor]:
        rows = next(batches)
        return x[rows] + sigma * torch.randn(len(rows), 64, generator=generator), y[rows]

    loss = lambda network, batch: F.cross_entropy(scale * network(batch[0]), batch[1])  # noqa: E731
    options = {"schedule": "constant", "clip": None}  # the rates are those of `schedule`
    train_by_step(network, draw, loss, optimizer, steps=steps, after=lambda *_: schedule.step(), **options)
    plain, lipschitz = [], 1.0
    for layer in rescaled:
        linear = nn.Linear(layer.weight.shape[1], layer.weight.shape[0])
        with torch.no_grad():
            linear.weight.copy_(layer.weight)
            linear.bias.copy_(layer.bias)
        lipschitz *= float(spectral_norm(linear.weight.detach().double()).upper)
        plain.append(linear.requires_grad_(False))
    return Base(nn.Sequential(plain[0], MaxMin(), plain[1], MaxMin(), plain[2]).eval(), lipschitz, scale)


def certify_every_way(
    base: Base, x: Tensor, y: Tensor, others: Tensor, *, sigma: float, samples: int, drawn: int, alpha: float, seed: int
) -> tuple[dict[str, np.ndarray], SimplexMap]:
    """Radii that count, 0 where the label is wrong or withheld, (inputs,) by name; and the map that was chosen.

    "votes, INTERVAL" : argmax, Cohen's radius
    "soft, INTERVAL, RADIUS" : softmax, by each of the three radii from the same bounds
    "chosen map" : softmax, sparsemax or votes, one for all inputs, chosen on the inputs `others`
    All with the same noise; intervals of counts are applied to the votes of one run.
    """
    found: dict[str, np.ndarray] = {}

    def keep(name: str, first: np.ndarray, radius: np.ndarray) -> None:
        found[name] = np.where(first == y.numpy(), np.maximum(radius, 0.0), 0.0)

    def run(simplex: SimplexMap | str, interval: str, lipschitz: float) -> Certificate:
        how = {"simplex": simplex, "interval": interval, "lipschitz": lipschitz, "progress": True}
        how |= {"sigma": sigma, "samples": samples, "alpha": alpha, "selection_samples": drawn}
        generator, held_out = torch.Generator().manual_seed(seed), others if simplex == "choose" else None
        return certify(base.network, x, held_out=held_out, generator=generator, **how)

    votes, soft = run("argmax", "auto", math.inf), run(base.soft, "auto", base.lipschitz)
    bernstein = run(base.soft, "empirical_bernstein", base.lipschitz)
    for interval in INTERVALS:
        rng = np.random.default_rng(seed)
        logged = {"alpha": alpha, "interval": interval, "rng": rng}
        first, lower, upper = bounds_from_counts(votes.selection.numpy(), votes.counts.numpy(), **logged)
        keep(f"votes, {interval}", first, cohen_radius(lower, upper, sigma=sigma))
        by_outputs = {"auto": soft, "empirical_bernstein": bernstein}.get(interval)
        if by_outputs is None:
            first, lower, upper = bounds_from_counts(soft.selection.numpy(), soft.counts.numpy(), **logged)
        else:
            first, lower, upper = (getattr(by_outputs, name).numpy() for name in ("candidate", "lower", "upper"))
        for name, radius in RADII.items():
            constant = {} if name == "cohen" else {"lipschitz": base.component_lipschitz}
            keep(f"soft, {interval}, {name}", first, radius(lower, upper, sigma=sigma, **constant))
    chosen = run("choose", "auto", base.lipschitz)
    keep("chosen map", chosen.candidate.numpy(), chosen.radius.numpy())
    return found, chosen.simplex


def network_margin(base: Base, x: Tensor, y: Tensor) -> np.ndarray:
    """(z_y − max_{c≠y} z_c)/(√2 L) where positive: what the network certifies of itself, without noise."""
    z = base.network(x).double()
    right = z.gather(1, y[:, None])[:, 0]
    other = z.scatter(1, y[:, None], -math.inf).amax(1)
    return ((right - other) / (math.sqrt(2) * base.lipschitz)).clamp_min(0).numpy()


def early_stopping(
    base: Base, x: Tensor, y: Tensor, *, sigma: float, target: float, samples: int, alpha: float, seed: int
) -> dict[str, float]:
    """ "Is R ≥ target?" by a sequence that stops, against Clopper–Pearson with all samples on the same noise."""
    common = {"sigma": sigma, "samples": samples, "alpha": alpha, "selection_samples": 100}
    streams = lambda: torch.Generator().manual_seed(seed)  # noqa: E731
    stopped = certify(base.network, x, **common, interval="sequence", target=target, generator=streams(), progress=True)
    fixed = certify(base.network, x, **common, interval="clopper_pearson", generator=streams(), progress=True)
    yes, would = stopped.radius >= target, fixed.radius >= target
    return {
        "target": target,
        "mean_samples": float(stopped.samples.double().mean()),
        "median_samples": float(stopped.samples.double().median()),
        "ran_to_the_end": float((stopped.samples == samples).double().mean()),
        "certified": float(yes.double().mean()),
        "certified_by_fixed": float(would.double().mean()),
        "lost": int((would & ~yes).sum()),
    }


def attacked_accuracy(
    base: Base, x: Tensor, y: Tensor, radii: tuple[float, ...], *, sigma: float, noises: int, steps: int, seed: int
) -> list[float]:
    """Share of inputs whose smoothed soft class stays right under PGD in the ℓ₂ ball of each radius: an upper curve.

    The attack climbs the margin of the mean over one set of noises and is judged on another, 32 times as large; an
    attack at a smaller radius counts at every larger one.
    """
    generator = torch.Generator().manual_seed(seed)
    climbing = sigma * torch.randn(noises, 1, x.shape[1], generator=generator)
    judging = sigma * torch.randn(32 * noises, 1, x.shape[1], generator=generator)

    def margin(points: Tensor, noise: Tensor) -> Tensor:
        p = (base.scale * base.network(points + noise)).softmax(-1).mean(0)
        right = p.gather(1, y[:, None])[:, 0]
        return p.scatter(1, y[:, None], -1.0).amax(1) - right

    fooled = margin(x, judging) > 0
    accuracy = [1 - float(fooled.double().mean())]
    for radius in radii:
        attack = pgd(lambda at: margin(at, climbing), x, None, epsilon=radius, steps=steps, restarts=1, seed=seed)
        fooled = fooled | (margin(x + attack.delta.to(x.dtype), judging) > 0)
        accuracy.append(1 - float(fooled.double().mean()))
    return accuracy
