"""Populations whose errors are known in closed form: does the typing of errors find what was planted?"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from scipy.special import ndtr
from torch import nn

from sciops.evaluation.probes import group_shift, probe_errors, scatter, split_gap, squared_shift
from sciops.training.objectives.adversarial import DomainHead, reversal_strength

FEATURES = 16
CLUSTERS = 40  # of each population, half of them in each group
SHARE = 0.2  # of the group among the samples


@dataclass(frozen=True)
class Plant:
    """Classes of group A at `centers` on the first axis with unit noise, and what is different of group B.

    shift : (along the first axis, along the second); spread : deviation of the noise; angle : by which the first two
    axes are turned; stretch : factor of the first axis, noise and all
    verdict : that is required of `split_gap`
    """

    verdict: str
    centers: tuple[float, ...] = (-1.0, 1.0)
    shift: tuple[float, float] = (0.0, 0.0)
    spread: float = 1.0
    angle: float = 0.0
    stretch: float = 1.0

    def group(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """Means (classes, 2) and deviations of the noise (2,) on the first two axes of a group, A or B."""
        means = np.stack([np.asarray(self.centers), np.zeros(len(self.centers))], axis=1)
        if name == "A":
            return means, np.ones(2)
        means[:, 0] *= self.stretch
        turn = np.array([[math.cos(self.angle), math.sin(self.angle)], [-math.sin(self.angle), math.cos(self.angle)]])
        return means @ turn + self.shift, self.spread * np.array([self.stretch, 1.0])

    def draw(self, samples: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """(embeddings, classes, groups, clusters), with the `SHARE` of B among all samples."""
        cluster = rng.integers(0, CLUSTERS, samples)
        b = cluster < CLUSTERS * SHARE
        y = rng.integers(0, len(self.centers), samples)
        h = rng.standard_normal((samples, FEATURES))
        for name, rows in (("A", ~b), ("B", b)):
            means, noise = self.group(name)
            h[rows, :2] = means[y[rows]] + noise * h[rows, :2]
            h[rows, 2:] *= self.spread if name == "B" else 1.0
        return h, y, np.where(b, "B", "A"), cluster

    def error(self, parts: Mapping[str, float], test: str) -> float:
        """Error on a group of the linear discriminant of a population with these parts of A and B.

        The classes lie on a line along w = Σ⁻¹ (m_last − m_first); thresholds are midway between neighbours, for the
        classes are equally frequent.
        """
        weight = {name: part / sum(parts.values()) for name, part in parts.items()}
        of = {name: self.group(name) for name in weight}
        centers = sum(weight[name] * means for name, (means, _) in of.items())
        covariance = np.zeros((2, 2))
        for name, (means, noise) in of.items():
            gaps = means - centers
            covariance += weight[name] * (gaps.T @ gaps / len(gaps) + np.diag(noise**2))
        w = np.linalg.solve(covariance, centers[-1] - centers[0])
        along = centers @ w
        ends = np.concatenate([[-np.inf], (along[1:] + along[:-1]) / 2, [np.inf]])
        means, noise = self.group(test)
        size = math.sqrt(((w * noise) ** 2).sum())
        right = ndtr((ends[1:] - means @ w) / size) - ndtr((ends[:-1] - means @ w) / size)
        return float(1 - right.mean())


PLANTS = {
    "none": Plant("none"),
    "shift 1": Plant("systematic, removed by centring", shift=(1.0, 0.0)),
    "noise × 2": Plant("random", spread=2.0),
    "shift 1, noise × 2": Plant("both", shift=(1.0, 0.0), spread=2.0),
    "turned by 1 rad": Plant("systematic, structural", angle=1.0),
    "stretched × 3, three classes": Plant("systematic, removed by whitening", centers=(-2.0, 0.0, 2.0), stretch=3.0),
}
ADVERSARIAL = {
    "shift (1, 0): along the classes alone": Plant("", shift=(1.0, 0.0)),
    "shift (1, 3): beside them too": Plant("", shift=(1.0, 3.0)),
    "noise × 2": Plant("", spread=2.0),
}


def planted(name: str, samples: int, seed: int) -> dict[str, Any]:
    """Errors of probes beside theory, the parts of the gap, b² and τ of one plant."""
    plant = PLANTS[name]
    h, y, g, s = plant.draw(samples, np.random.default_rng([seed, [*PLANTS].index(name)]))
    options: dict[str, Any] = {"reference": "A", "group": "B", "probe": "discriminant", "strength": 1.0, "seed": seed}
    natural, alone = (split_gap(h, y, g, s, rule=rule, repeats=2, **options) for rule in ("natural", "reference"))
    theory = {
        "pooled → A": plant.error({"A": 1 - SHARE, "B": SHARE}, "A"),
        "pooled → B": plant.error({"A": 1 - SHARE, "B": SHARE}, "B"),
        "A → B": plant.error({"A": 1.0}, "B"),
        "B → B": plant.error({"B": 1.0}, "B"),
        "A → A": plant.error({"A": 1.0}, "A"),
    }
    measured = {
        "pooled → A": natural.errors["rule", "A"],
        "pooled → B": natural.errors["rule", "B"],
        "A → B": alone.errors["rule", "B"],
        "B → B": alone.errors["B", "B"],
        "A → A": alone.errors["A", "A"],
    }
    first, last = (y == 0), (y == len(plant.centers) - 1)
    b2 = [squared_shift(h[(g == "A") & of], h[(g == "B") & of]) for of in (first, last)]
    means = {group: plant.group(group)[0] for group in "AB"}
    ends = means["B"] - means["A"]
    tau = group_shift(h, y, g, reference="A", group="B").toward[0, -1]
    axis = means["A"][-1] - means["A"][0]
    return {
        "required": plant.verdict,
        "verdict": alone.verdict,
        "verdict of the pooled rule": natural.verdict,
        "theory": theory,
        "measured": measured,
        "irreducible": alone.irreducible,
        "systematic": alone.systematic,
        "centred": alone.centred,
        "whitened": alone.whitened,
        "identity": abs(alone.gap - alone.irreducible - alone.systematic),
        "b2": float(np.mean(b2)),
        "b2 in theory": float(((ends[[0, -1]]) ** 2).sum(axis=1).mean()),
        "tau": float(tau),
        "tau in theory": float(ends[0] @ axis / (axis @ axis)),
    }


def unbiased(draws: int, seed: int) -> dict[str, dict[str, float]]:
    """Estimates whose truth is known, {name: {"mean", "truth", "z"}}: squared shifts and variance components."""
    rng = np.random.default_rng([seed, 100])
    found: dict[str, list[float]] = {name: [] for name in ("raw", "corrected", "between", "within")}
    for _ in range(draws):
        first, second = rng.standard_normal((30, 64)), 1.5 * rng.standard_normal((20, 64))
        second[:, 0] += 1
        found["raw"].append(float(((first.mean(0) - second.mean(0)) ** 2).sum()))
        found["corrected"].append(squared_shift(first, second))
        label = np.repeat(np.arange(8), rng.integers(2, 9, 8))
        h = 0.7 * rng.standard_normal((8, 5))[label] + 1.3 * rng.standard_normal((len(label), 5))
        part = scatter(h, label)
        found["between"].append(part.between)
        found["within"].append(part.within)
    truth = {
        "raw": ("‖m̂₂ − m̂₁‖², not corrected", 1 + 64 / 30 + 2.25 * 64 / 20),
        "corrected": ("b², corrected", 1.0),
        "between": ("variance between clusters", 5 * 0.49),
        "within": ("variance within clusters", 5 * 1.69),
    }
    rows = {}
    for key, (name, value) in truth.items():
        values = np.array(found[key])
        z = (values.mean() - value) / (values.std(ddof=1) / math.sqrt(draws))
        rows[name] = {"mean": float(values.mean()), "truth": value, "z": float(z)}
    return rows


def random_groups(draws: int, clusters: int, seed: int) -> dict[str, Any]:
    """How often `split_gap` finds a part where the groups are random: clusters with means of their own, all alike."""
    rng = np.random.default_rng([seed, 200, clusters])
    count = {"random": 0, "systematic": 0}
    for draw in range(draws):
        s = np.repeat(np.arange(2 * clusters), 60)
        y = rng.integers(0, 2, len(s))
        h = rng.standard_normal((len(s), 4)) + 0.5 * rng.standard_normal((2 * clusters, 4))[s]
        h[:, 0] += 2 * y - 1
        found = split_gap(
            h,
            y,
            np.where(s < clusters, "A", "B"),
            s,
            reference="A",
            group="B",
            rule="reference",
            probe="discriminant",
            draws=400,
            seed=draw,
        )
        count["random"] += found.irreducible_interval[0] > 0
        count["systematic"] += found.systematic_interval[0] > 0
    return {name: value / draws for name, value in count.items()}


def adversarial(name: str, strength: float, samples: int, steps: int, seed: int) -> dict[str, float]:
    """Errors of fresh probes of features that a linear encoder learned, with a reversed gradient of this strength.

    The encoder and its task head see the classes of A, the domain head (one hidden layer) both groups.
    """
    plant = ADVERSARIAL[name]
    rng = np.random.default_rng([seed, 300, [*ADVERSARIAL].index(name)])
    h, y, g, s = plant.draw(samples, rng)
    a = np.flatnonzero(g == "A")
    parts = [rng.permutation(rows)[: samples // 6] for rows in (a, np.flatnonzero(g == "B"))]  # equally many of both
    torch.manual_seed(seed)
    encoder, task = nn.Linear(FEATURES, 4), nn.Linear(4, len(plant.centers))
    domain = DomainHead(4, 2, width=32)
    modules = nn.ModuleList([encoder, task, domain])
    optimizer = torch.optim.Adam(modules.parameters(), lr=1e-2)
    x, label = torch.from_numpy(h).float(), torch.from_numpy(y)
    for step in range(steps):
        rows = [torch.from_numpy(rng.choice(part, 256)) for part in parts]
        z = [encoder(x[of]) for of in rows]
        guess = domain(torch.cat(z), reversal_strength(step / steps, largest=strength) if strength else 0.0)
        loss = F.cross_entropy(task(z[0]), label[rows[0]])
        loss = loss + F.cross_entropy(guess, torch.tensor([0, 1]).repeat_interleave(256))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        z_all = encoder(x).double().numpy()
    half = s % 2 == 0
    options: dict[str, Any] = {"probe": "discriminant", "strength": 1e-6}

    def error(train: np.ndarray, test: np.ndarray, labels: np.ndarray) -> float:
        return float(
            probe_errors({"": z_all[train]}, labels[train], {"": z_all[test]}, labels[test], **options)[""].mean()
        )

    b = g == "B"
    balanced = np.isin(np.arange(len(s)), np.concatenate(parts))
    return {
        "A → A": error(half & ~b, ~half & ~b, y),
        "A → B": error(half & ~b, ~half & b, y),
        "B → B": error(half & b, ~half & b, y),
        "group": error(half & balanced, ~half & balanced, b.astype(int)),
    }
