"""Null data sets of the calibration study, and the rules that are asked for a winner."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from sciops.evaluation import half_widths

_LARGEST = 2_000_000  # numbers at a time: memory stays below 200 MB


def _log_normal(width: float) -> Callable[..., np.ndarray]:
    mean, deviation = np.exp(width**2 / 2), np.sqrt(np.expm1(width**2) * np.exp(width**2))
    return lambda rng, shape: (rng.lognormal(0.0, width, shape) - mean) / deviation


LAWS: dict[str, Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]] = {
    "gaussian": lambda rng, shape: rng.standard_normal(shape),
    "uniform": lambda rng, shape: rng.uniform(-np.sqrt(3), np.sqrt(3), shape),
    "two values": lambda rng, shape: rng.choice([-1.0, 1.0], shape),
    "difference of two values": lambda rng, shape: np.sqrt(2) * (rng.integers(0, 2, shape) - rng.integers(0, 2, shape)),
    "laplace": lambda rng, shape: rng.laplace(0.0, np.sqrt(0.5), shape),
    "student, 3 degrees": lambda rng, shape: rng.standard_t(3, shape) / np.sqrt(3),
    "student, 1.5 degrees": lambda rng, shape: rng.standard_t(1.5, shape),
    "difference of log-normals": lambda rng, shape: (rng.lognormal(size=shape) - rng.lognormal(size=shape)) / 3.06,
    "log-normal 0.5": _log_normal(0.5),
    "log-normal 1": _log_normal(1.0),
}
"""Laws of mean zero, and of variance one where it is finite; all but the last two are symmetric."""


def differences(
    trials: int,
    seeds: int,
    samples: int,
    *,
    of_seeds: float,
    of_samples: float,
    residual: float = 1.0,
    laws: tuple[str, str, str] = ("gaussian", "gaussian", "gaussian"),
    mean: float = 0.0,
    structure: str = "",
    seed: int = 0,
) -> Iterator[np.ndarray]:
    """Batches of d[trial, s, n] = μ + a_s + b_n + e_sn.

    of_seeds, of_samples, residual : deviations of a, b and e; `laws` : of a, b and e
    structure : "" as above; "product": e is multiplied by a_s b_n, an interaction; "noisy seeds": half of the seeds,
        and
        "noisy samples": half of the samples, have residuals three times as large; "neighbours": b is a stationary chain
        with correlation 0.9 from sample to sample
    """
    rng = np.random.default_rng([seed, seeds, samples])
    step = max(1, _LARGEST // (seeds * samples))
    for start in range(0, trials, step):
        count = min(step, trials - start)
        a = LAWS[laws[0]](rng, (count, seeds, 1))
        b = LAWS[laws[1]](rng, (count, 1, samples))
        e = LAWS[laws[2]](rng, (count, seeds, samples))
        if structure == "product":
            e = e * a * b
        elif structure == "noisy seeds":
            e[:, ::2] *= 3
        elif structure == "noisy samples":
            e[..., ::2] *= 3
        elif structure == "neighbours":
            for n in range(1, samples):
                b[..., n] = 0.9 * b[..., n - 1] + np.sqrt(1 - 0.81) * b[..., n]
        elif structure:
            raise ValueError(f"structure={structure!r}: expected product, noisy seeds, noisy samples or neighbours")
        yield mean + of_seeds * a + of_samples * b + residual * e


def winners(batches: Iterator[np.ndarray], rule: Callable[[np.ndarray], tuple[Any, Any]]) -> tuple[float, float]:
    """Shares of trials in which `rule` names the first, and the second."""
    first = second = trials = 0
    for d in batches:
        low, high = rule(d)
        first, second, trials = first + int((high < 0).sum()), second + int((low > 0).sum()), trials + len(d)
    return first / trials, second / trials


def rules(resamples: int, level: float = 0.95) -> dict[str, Callable[[np.ndarray], tuple[Any, Any]]]:
    """Intervals by the name of the rule; "verdict" is that of `paired_verdict` but for the fewest seeds it asks for."""

    def around(d: np.ndarray, half: Any) -> tuple[Any, Any]:
        mean = d.mean((-2, -1))
        return mean - half, mean + half

    def bootstrap(d: np.ndarray) -> tuple[Any, Any]:
        rng = np.random.default_rng(0)
        rows, columns = (rng.multinomial(n, np.full(n, 1 / n), resamples) / n for n in d.shape[-2:])
        means = [np.einsum("rs,tsn,rn->tr", rows, part, columns, optimize=True) for part in np.array_split(d, 8)]
        return tuple(np.quantile(np.concatenate(means), [(1 - level) / 2, (1 + level) / 2], axis=1))

    def two_errors(d: np.ndarray) -> tuple[Any, Any]:
        return around(d, 2 * d.mean(-1).std(-1, ddof=1) / np.sqrt(d.shape[-2]))

    return {
        "verdict": lambda d: around(d, np.max(half_widths(d, level=level), axis=0)),
        "seeds alone": lambda d: around(d, half_widths(d, level=level).seeds),
        "samples alone": lambda d: around(d, half_widths(d, level=level).samples),
        "two-way alone": lambda d: around(d, half_widths(d, level=level).both),
        "two standard errors": two_errors,
        "bootstrap": bootstrap,
    }
