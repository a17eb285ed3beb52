"""Certified radii: every interval over many kinds of class probabilities, every radius behind a Lipschitz network.

    python -m studies.randomized_smoothing
    python -m studies.randomized_smoothing --preset full --output runs/randomized_smoothing
    python -m studies.randomized_smoothing --parts levels

1. Counts are drawn from known probabilities with 2, 10, 100 and 1000 classes and heads and tails of many kinds. For
   every interval: how often its radius exceeds the true one, and its mean. The interval chosen on the selection sample
   is held against the best of Clopper–Pearson, Bonferroni and class partitioning.
2. Digits behind 1-Lipschitz networks trained with noise: certified accuracy of every interval and of Cohen's, the
   paper's and the exact radius, of the map that 50 other digits chose, and a PGD attack on the smoothed classifier as
   upper curve; beside them what the networks' margins certify without any noise.
3. "Is R ≥ r?" by confidence sequences that stop early: samples taken, and certificates lost against all samples.
4. Levels: every interval and every certificate in 20,000 or more trials with a known truth, so many that one which is
   wrong 1.3 times as often as it states would fail.

A certificate that breaks its level, a chosen interval more than a per cent behind, radii in the wrong order or a
certificate above the attack end the run with an error after the results are written. --parts runs some of "counts",
"digits" (2 and 3) and "levels"; digits need scikit-learn, extra [vision].
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tqdm.auto import tqdm

from studies.kit.choices import require_known
from studies.kit.study import finished, opened, picked
from studies.randomized_smoothing.cases import INTERVALS, faults, scenarios, survey
from studies.randomized_smoothing.classifiers import (
    attacked_accuracy,
    certify_every_way,
    digits,
    early_stopping,
    network_margin,
    train,
)
from studies.randomized_smoothing.gates import certificates, gate_faults, run_gates, show_gates
from studies.randomized_smoothing.report import answer, draw, show

PARTS = ("counts", "digits", "levels")


@dataclass(frozen=True)
class Config:
    parts: tuple[str, ...] = PARTS  # which parts to run
    certificates: tuple[str, ...] = ()  # certificates of part 4, by the names in its table; all where none is named
    classes: tuple[int, ...] = (2, 10, 100, 1000)  # numbers of classes of part 1
    drawn: tuple[int, ...] = (100, 1000)  # selection samples n₀ of part 1
    trials: int = 500  # repetitions of every scenario of part 1, for mean radii; levels are part 4's
    votes: int = 10_000  # estimation samples n of part 1
    samples: int = 10_000  # estimation samples n of part 2
    alpha: float = 0.001  # level of parts 2 and 3; part 1 has 0.001 and 0.05
    sigmas: tuple[float, ...] = (0.1, 0.25, 0.5)  # noise levels of part 2; pixels lie in [0, 1]
    scale: float = 5.0  # s of the softmax that the networks are trained with
    epochs: int = 30  # of the networks of part 2
    images: int = 100  # digits certified, at most 350
    attack_radii: int = 8  # radii of the PGD curve
    attack_steps: int = 30  # of PGD at each radius
    attack_noises: int = 32  # noises that PGD averages over; the judge has 32 times as many
    targets: tuple[float, ...] = (0.5, 1.0, 2.0)  # r/σ of the questions of part 3
    most_samples: int = 20_000  # of a sequence in part 3
    tolerance: float = 0.01  # by what share of its radius the chosen interval may lie behind
    seed: int = 0  # of counts, networks, noise and attacks
    output: Path = Path("runs/randomized_smoothing")  # folder for results.json and the figures


PRESETS = {
    "quick": Config(),
    "full": Config(trials=4000, images=350, samples=100_000, most_samples=100_000, epochs=60, attack_radii=16),
}


def run(config: Config) -> dict[str, Any]:
    """Measures, prints, writes results.json and figures/*.png, and returns the results.

    Raises RuntimeError, after writing, naming every claim that does not hold; ValueError for an unknown part.
    """
    require_known("--parts", config.parts, PARTS, some=True)
    require_known("--certificates", config.certificates, certificates())
    if not 1 <= config.images <= 350:
        raise ValueError(f"--images {config.images}: expected 1 to 350; 50 of the 400 held-out digits choose the map")
    folder = opened(config, seeds=[config.seed], methods=["randomized_smoothing"])
    rows, by_sigma, levels = [], {}, []
    if "levels" in config.parts:
        names = config.certificates or tuple(certificates())
        with tqdm(total=len(names), unit="certificate", desc="levels", disable=None) as bar:
            levels = run_gates(names, config.seed, bar)
        show_gates(levels)
    if "counts" in config.parts:
        settings = len(config.drawn) * sum(len(scenarios(k)) for k in config.classes)
        with tqdm(total=settings, unit="scenario", desc="counts", disable=None) as bar:
            rows = survey(config.classes, config.drawn, config.votes, config.trials, config.seed, bar)
    if "digits" in config.parts:
        by_sigma = {f"{sigma:g}": behind_network(sigma, config) for sigma in config.sigmas}
    results = {"counts": rows, "votes": config.votes, "trials": config.trials, "digits": by_sigma, "levels": levels}
    wrong = gate_faults(levels) + faults(rows, config.trials, config.tolerance) + digit_faults(by_sigma)
    results["faults"] = wrong
    return finished(folder, results, draw, show, answer=answer, wrong="; ".join(wrong))


def behind_network(sigma: float, config: Config) -> dict[str, Any]:
    """Parts 2 and 3 at one noise level."""
    x, y, held, labels, others = digits(config.images, config.seed)
    base = train(x, y, sigma=sigma, scale=config.scale, epochs=config.epochs, seed=config.seed)
    how = {"sigma": sigma, "seed": config.seed}
    sampling = {"samples": config.samples, "drawn": 1000, "alpha": config.alpha}
    radii, chosen = certify_every_way(base, held, labels, others, **sampling, **how)
    largest = max(1.5 * max(float(np.quantile(radius, 0.95)) for radius in radii.values()), sigma)
    at = tuple(float(r) for r in np.linspace(0, largest, config.attack_radii + 1)[1:])
    attacked = attacked_accuracy(base, held, labels, at, **picked(config, "noises steps", "attack_"), **how)
    sampling = {"samples": config.most_samples, "alpha": config.alpha}
    questions = [
        early_stopping(base, held, labels, target=ratio * sigma, **sampling, **how) for ratio in config.targets
    ]
    return {
        "lipschitz": base.lipschitz,
        "component": base.component_lipschitz,
        "accuracy": float((base.network(held).argmax(1) == labels).double().mean()),
        "network_margin": network_margin(base, held, labels).tolist(),
        "radii": {name: radius.tolist() for name, radius in radii.items()},
        "chosen_map": {"name": chosen.name, "scale": chosen.scale},
        "attack": {"radii": [0.0, *at], "accuracy": attacked},
        "questions": questions,
        "most_samples": config.most_samples,
    }


def certified(radii: Any, at: Any) -> np.ndarray:
    """Share of inputs with a certified radius of at least r > 0, and above 0 at r = 0."""
    radii, at = np.asarray(radii, dtype=float), np.asarray(at, dtype=float)
    return (radii[:, None] >= np.maximum(at, 1e-12)).mean(0)


def digit_faults(by_sigma: dict[str, dict]) -> list[str]:
    """Radii out of order, and certificates of the attacked (soft) classifier that an attack passes."""
    said = []
    for sigma, found in by_sigma.items():
        radii = {name: np.array(values) for name, values in found["radii"].items()}
        for interval in INTERVALS:
            cohen, paper, exact = (radii[f"soft, {interval}, {name}"] for name in ("cohen", "paper", "exact"))
            if (exact < paper - 1e-9).any() or (paper < 0).any() or (exact < cohen - 1e-9).any():
                said.append(f"σ = {sigma}, {interval}: the exact radius is not the largest")
            above = certified(exact, found["attack"]["radii"]) - np.array(found["attack"]["accuracy"])
            if (above > 1.5 / len(exact)).any():  # one input may owe to the level, or to the judge's sample
                said.append(f"σ = {sigma}, {interval}: certified accuracy lies above that under attack")
    return said
