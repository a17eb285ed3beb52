"""A population in which one factor doubles the error rate and another, which goes along with it, does nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sciops.evaluation.fairness import Hypothesis, Observations, assess, poisson_regression
from studies.kit.cells import kept

RATE, SIGMA, ROWS, WORDS = 0.10, 0.5, 10, 10  # base rate, deviation of ln rate between speakers, utterances, words
NATIVE, ETHNICITY = 0.6, (0.15, 0.75)  # share of natives; of group 1 among natives and among non-natives
DRAWS = 200  # of the score bootstrap and of permutations
VERDICTS = ("supported", "refuted", "inconclusive", "not testable")


def population(rng: np.random.Generator, speakers: int, effect: float) -> Observations:
    """Utterances of speakers with E ~ Poisson(N r_s), ln r_s = ln 0.1 + effect·[non-native] + 0.5 z_s, z_s ~ N(0, 1).

    Ethnicity 1 has 15 % of the natives and 75 % of the non-natives, and no part in the rate.
    """
    native = rng.random(speakers) < NATIVE
    ethnicity = (rng.random(speakers) < np.where(native, *ETHNICITY)).astype(int)
    rates = RATE * np.exp(np.where(native, 0.0, effect) + SIGMA * rng.standard_normal(speakers))
    row = np.arange(speakers).repeat(ROWS)
    factors = {"ethnicity": ethnicity[row], "native": np.where(native, "a native", "non-native")[row]}
    return Observations(rng.poisson(WORDS * rates[row]), np.full(len(row), WORDS), row, factors)


def planted_cell(
    folder: Path, speakers: int, effect: float, first: int, last: int, options: Mapping[str, Any]
) -> dict[str, Any]:
    """Counts of claims over the replications first … last − 1 of one size and effect."""
    made_by = dict(options, speakers=speakers, effect=effect, first=first, last=last)
    name = f"planted-{speakers}-{effect}-{first}"
    record = kept(folder, name, made_by, lambda: _counted(speakers, effect, range(first, last), options))
    return {key: value for key, value in record.items() if key not in ("name", "spec")}


def summed(cells: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The counts of the blocks of each size and effect together."""
    found: dict[tuple[int, float], dict[str, Any]] = {}
    for cell in cells:
        key = (cell["speakers"], cell["effect"])
        into = found.setdefault(key, {"speakers": key[0], "effect": key[1], "counts": {}, "of": {}})
        for name, value in cell["counts"].items():
            into["counts"][name] = into["counts"].get(name, 0) + value
            into["of"][name] = into["of"].get(name, 0) + cell["replications"]
    return list(found.values())


def _counted(speakers: int, effect: float, replications: range, options: Mapping[str, Any]) -> dict[str, Any]:
    alpha = options["alpha"]
    counts: dict[str, int] = {}

    def add(name: str, happened: bool = True) -> None:
        counts[name] = counts.get(name, 0) + bool(happened)

    done = 0
    for replication in replications:
        table = population(np.random.default_rng([options["seed"], speakers, replication]), speakers, effect)
        if (
            min(len({*table.cluster[table.factors[f] == level]}) for f in table.factors for level in table.levels(f))
            < 5
        ):
            continue  # too few of a group in small populations
        done += 1
        asked = Hypothesis(
            "word error rate",
            "native",
            conditioning=("ethnicity",),
            margin=options["margin"],
            alpha=alpha,
            draws=DRAWS,
            seed=replication,
            declared_before_results=True,
        )
        verdict = assess(table, asked).findings[0].verdict
        for name in VERDICTS:
            add(f"native: {name}", verdict == name)
        if not options["whole"]:
            continue
        other = Hypothesis(**{**_fields(asked), "factor": "ethnicity", "conditioning": ("native",)})
        verdict = assess(table, other).findings[0].verdict
        for name in VERDICTS:
            add(f"ethnicity: {name}", verdict == name)
        joint = ("ethnicity", "native")
        for name, factors, covariance in (
            ("naive", joint, "naive"),
            ("joint", joint, "cluster"),
            ("marginal", ("ethnicity",), "cluster"),
        ):
            add(name, _rejects(table, factors, covariance, alpha))
    return {"speakers": speakers, "effect": effect, "replications": done, "counts": counts}


def _fields(asked: Hypothesis) -> dict[str, Any]:
    from dataclasses import asdict

    return asdict(asked)


def _rejects(table: Observations, factors: tuple[str, ...], covariance: Any, alpha: float) -> bool:
    """Whether a Wald test of level `alpha` rejects "ethnicity has no effect"."""
    from scipy.stats import norm

    found = poisson_regression(table, factors, covariance=covariance)
    return bool(abs(found.coefficients[1]) > norm.isf(alpha / 2) * found.standard_errors[1])
