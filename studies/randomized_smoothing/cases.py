"""Class probabilities with heads and tails of many kinds, and what every interval makes of counts drawn from them."""

from __future__ import annotations

from typing import Any, get_args

import numpy as np
from scipy import stats

from sciops.robustness.smoothing.certificate import Interval
from sciops.robustness.smoothing.counts import bounds_from_counts
from sciops.robustness.smoothing.radii import cohen_radius

INTERVALS: tuple[Interval, ...] = get_args(Interval)
BASELINES = ("clopper_pearson", "bonferroni", "cpm")
ALPHAS = (0.001, 0.05)


def scenarios(classes: int) -> dict[str, np.ndarray]:
    """Probabilities by name, the first class the largest, for a number of classes."""
    if classes == 2:
        return {f"{p:g} / {1 - p:g}": np.array([p, 1 - p]) for p in (0.9, 0.6, 0.52)}

    def with_tail(head: list[float], tail: np.ndarray) -> np.ndarray:
        return np.concatenate([head, tail / tail.sum() * (1 - sum(head))])

    def flat(head: list[float]) -> np.ndarray:
        return with_tail(head, np.ones(classes - len(head)))

    return {
        "0.4, 0.1, flat": flat([0.4, 0.1]),
        "0.9, flat": flat([0.9]),
        "0.5, 0.3, flat": flat([0.5, 0.3]),
        "0.6, 0.3, flat": flat([0.6, 0.3]),
        "0.45, Zipf": with_tail([0.45], 1 / np.arange(1.0, classes) ** 2),
        "0.35, 0.3, geometric": with_tail([0.35, 0.3], 0.5 ** np.arange(classes - 2.0)),
    }


def measure(
    p: np.ndarray, drawn: int, samples: int, trials: int, rng: np.random.Generator
) -> dict[float, dict[str, dict[str, float]]]:
    """Mean radius (σ = 1), its standard error and the number of violations, by α and interval, on the same counts.

    A violation is a radius above the true one, or a positive one for a wrong class; abstentions and wrong classes
    have radius 0 in the mean.
    """
    selection, counts = rng.multinomial(drawn, p, trials), rng.multinomial(samples, p, trials)
    true = np.array([cohen_radius(p[c], np.delete(p, c).max(), sigma=1.0) for c in range(len(p))])
    found: dict[float, dict[str, dict[str, float]]] = {}
    for alpha in ALPHAS:
        radii = {}
        found[alpha] = {}
        for interval in INTERVALS:
            first, lower, upper = bounds_from_counts(selection, counts, alpha=alpha, interval=interval, rng=rng)
            radius = np.maximum(cohen_radius(lower, upper, sigma=1.0), 0.0)
            radii[interval] = radius * (first == 0)
            found[alpha][interval] = {
                "radius": float(radii[interval].mean()),
                "violations": int(((radius > 0) & (radius > true[first] + 1e-12)).sum()),
            }
        best = max(BASELINES, key=lambda name: found[alpha][name]["radius"])
        gain = radii["auto"] - radii[best]
        found[alpha]["auto"] |= {
            "best": best,
            "gain": float(gain.mean()),
            "gain_error": float(gain.std() / trials**0.5),
        }
    return found


def survey(classes: tuple[int, ...], drawn: tuple[int, ...], samples: int, trials: int, seed: int, bar: Any) -> list:
    """One row a scenario and selection size; `bar` is updated after each."""
    rows = []
    for k in classes:
        for name, p in scenarios(k).items():
            for n0 in drawn:
                rng = np.random.default_rng([seed, len(rows)])
                by_alpha = measure(p, n0, samples, trials, rng)
                true = float(cohen_radius(p[0], p[1:].max(), sigma=1.0))
                for alpha, by_interval in by_alpha.items():
                    rows.append(
                        {
                            "classes": k,
                            "scenario": name,
                            "drawn": n0,
                            "alpha": alpha,
                            "true": true,
                            "found": by_interval,
                        }
                    )
                bar.update()
    return rows


def faults(rows: list, trials: int, tolerance: float) -> list[str]:
    """What breaks a claim: too many violations for the level, or a chosen interval behind the best of the others."""
    said = []
    tests = sum(len(row["found"]) for row in rows)
    for row in rows:
        where = f"{row['classes']} classes, {row['scenario']}, n₀ = {row['drawn']}, α = {row['alpha']:g}"
        most = stats.binom.ppf(1 - 0.001 / tests, trials, row["alpha"])
        for name, values in row["found"].items():
            if values["violations"] > most:
                said.append(f"{where}: {name} violated {values['violations']} of {trials} times")
        if behind(row, tolerance):
            said.append(f"{where}: the chosen interval lies {-100 * relative_gain(row):.1f} % behind")
    return said


def relative_gain(row: dict) -> float:
    """(auto − best baseline)/best baseline of the mean radii; 0 where no baseline certifies."""
    best = row["found"][row["found"]["auto"]["best"]]["radius"]
    return row["found"]["auto"]["gain"] / best if best > 0 else 0.0


def behind(row: dict, tolerance: float) -> bool:
    """Whether the chosen interval loses more than the tolerance, by three standard errors of the paired mean."""
    auto = row["found"]["auto"]
    return auto["gain"] + 3 * auto["gain_error"] < -tolerance * row["found"][auto["best"]]["radius"]
