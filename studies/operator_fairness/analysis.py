"""From errors, predictions and features to what the study says."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from sciops.evaluation import paired_verdict
from sciops.evaluation.fairness import Observations, SeedSplit, kitagawa, regime_errors, seed_split
from sciops.metrics import relative_l2
from studies.kit.answers import extent, sentence
from studies.operator_fairness.layers import layer_results
from studies.operator_fairness.problems import Problems, grids, labels
from studies.operator_fairness.runs import MORE, Found, factors_of

if TYPE_CHECKING:
    from studies.operator_fairness import Config

PEERS = ("FNO", "neuralop:FNO")
_DRAWS = 1000


def analysed(found: dict[str, Any], config: Config) -> dict[str, Any]:
    """results.json: one record for each arm, and the comparison of both FNOs."""
    test, validation = found["test"], found["validation"]
    largest = _largest(found["arms"], validation, config)
    arms = {arm: _arm(one, test, validation, largest, config) for arm, one in found["arms"].items()}
    results: dict[str, Any] = {"arms": arms, "factors": _levels(config)}
    if all(arm in arms for arm in PEERS):
        results["peers"] = _peers({arm: _errors(found["arms"][arm], "errors") for arm in PEERS}, test, config)
    return results


def answer(results: dict[str, Any]) -> str:
    """Which level is served badly by all models, whether ensembles or samples help, and whether both FNOs differ."""
    arms = [*results["arms"].values()]
    by_level: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for one in arms:
        for effect in one["effects"]:
            by_level.setdefault((effect["factor"], effect["level"], effect["reference"]), []).append(effect)
    bad = {
        key: [one["ratio"] for one in found]
        for key, found in by_level.items()
        if {one["verdict"] for one in found} == {"worse"}
    }
    if bad:
        (factor, level, reference), ratios = max(bad.items(), key=lambda item: float(np.mean(np.log(item[1]))))
        times = extent(ratios, ".2g")
        served = f"{factor} {level} is served worst by all models, with {times} times the error of {reference}"
    else:
        served = "no level is served worse by all models"
    share = extent([one["worst"]["split"]["variance share"] for one in arms], ".0%")
    checks = [one["checks"] for one in arms]

    def changes(what: str, where: str) -> str:
        found = [check[what][where] for check in checks]
        found = [one.get("before", one) for one in found]
        return extent([math.expm1(one["difference"]) for one in found], "+.0%")

    peers = ""
    if "peers" in results:
        found = results["peers"]["all"]
        words = {"first": "better", "second": "worse"}
        ends = (math.expm1(min(found[key], 50.0)) for key in ("difference", "low", "high"))
        said = "{:+.1%} [{:+.1%}, {:+.1%}]".format(*ends)
        peers = f"the FNO's error against neuraloperator's is {said}, {words.get(found['winner'], found['winner'])}"
    return sentence(
        served,
        f"in the worst regime {share} of the squared error is variance over seeds, an ensemble changes the error by "
        f"{changes('ensemble', 'worst')} and more samples of that regime by {changes('worst', 'worst')}, elsewhere by "
        f"{changes('worst', 'others')}",
        peers,
    )


def _errors(found: Found, name: str) -> np.ndarray:
    return np.stack([one[name] for one in found.models])


def _largest(arms: dict[str, Found], validation: Problems, config: Config) -> tuple[str, str, str]:
    """(factor, worse level, better level) of the largest effect on validation fields, over all models."""
    errors = np.concatenate([_errors(one, "errors of validation") for one in arms.values()])
    found = regime_errors(errors, factors_of(config, validation.regime), cluster=validation.field, fewest_clusters=2)
    effect = max(found.effects, key=lambda one: abs(math.log(one.ratio)))
    both = (effect.level, effect.reference)
    return (effect.factor, *(both if effect.ratio > 1 else both[::-1]))


def _levels(config: Config) -> dict[str, list[str]]:
    table = labels(config)
    return {name: list(dict.fromkeys(one[name] for one in table)) for name in table[0]}


def _arm(
    found: Found, test: Problems, validation: Problems, largest: tuple[str, str, str], config: Config
) -> dict[str, Any]:
    errors, fine = (_errors(found, name) for name in ("errors", "errors, fine"))
    factors = factors_of(config, test.regime)
    both = {name: np.tile(values, 2) for name, values in factors.items()}
    both["resolution"] = np.repeat(np.array(["trained grid", "finer grid"], dtype=object), len(test.regime))
    how = {"smallest": config.smallest}
    whole = regime_errors(np.concatenate([errors, fine], axis=1), both, cluster=np.tile(test.field, 2), **how)
    trained = regime_errors(errors, factors, cluster=test.field, **how)
    coarse, _ = grids(config)
    splits = {
        name: seed_split(_errors(found, key)[:, :, 0], problems.y[:, 0].numpy(), coarse)
        for name, key, problems in (
            ("test", "predictions", test),
            ("validation", "predictions of validation", validation),
        )
    }
    worst = labels(config)[found.worst]
    cell = trained.cell(*worst.values())
    own = test.regime == found.worst
    return {
        "rate": found.rate,
        "choice": found.choice,
        "parameters": found.parameters,
        "seconds": found.seconds,
        "error": float(errors.mean()),
        "error, fine": float(fine.mean()),
        "effects": [asdict(one) for one in whole.effects],
        "cells": [asdict(one) for one in trained.cells],
        "overall": trained.overall,
        "explained": trained.explained,
        "in use": in_use(errors, factors, test, config),
        "split": _split_by_level(splits["test"], factors, test),
        "worst": {
            "levels": list(worst.values()),
            **{key: getattr(cell, key) for key in ("error", "low", "high")},
            "split": _shares(splits["test"], own, test.field),
        },
        "checks": _checks(found, errors, splits, test, validation, config),
        "layers": layer_results(found, factors, test, validation, largest, config),
    }


def in_use(errors: np.ndarray, factors: dict[str, np.ndarray], test: Problems, config: Config) -> dict[str, Any]:
    """The same test rows thinned so that rough fields mostly have the highest contrast, as a record of use could."""
    rng = np.random.default_rng(0)
    levels = _levels(config)
    places = {name: np.array([levels[name].index(one) for one in factors[name]]) for name in levels}
    together = (places["contrast"] == len(levels["contrast"]) - 1) == (
        places["roughness"] == len(levels["roughness"]) - 1
    )
    keep = together | (rng.random(len(together)) < 0.1)
    part = {name: values[keep] for name, values in factors.items()}
    found = regime_errors(
        errors[:, keep],
        part,
        cluster=test.field[keep],
        references={n: v[0] for n, v in levels.items()},
        smallest=config.smallest,
    )
    last = levels["roughness"][-1]
    rows = np.arange(int(keep.sum()))
    two = {"roughness": np.where(part["roughness"] == last, last, "others"), "contrast": part["contrast"]}
    table = Observations(errors[:, keep].mean(axis=0), np.ones(len(rows)), rows, two)
    split = kitagawa(table, "roughness", "others", last, within=("contrast",))
    return {"rows": len(rows), "effects": [asdict(one) for one in found.effects], "kitagawa": asdict(split)}


def _shares(split: SeedSplit, chosen: np.ndarray, field: np.ndarray) -> dict[str, Any]:
    """Mean squared bias and variance of some rows, and the share of variance, with 95 % intervals over fields."""
    names, index = np.unique(field[chosen], return_inverse=True)
    parts = np.stack([np.bincount(index, weights=values[chosen]) for values in (split.bias, split.variance)])
    parts = parts / np.bincount(index)
    weights = np.random.default_rng(0).multinomial(len(names), np.full(len(names), 1 / len(names)), size=_DRAWS)
    drawn = parts @ weights.T / len(names)  # (2, draws)
    bias, variance = parts.mean(axis=1)
    low, high = np.quantile(np.vstack([drawn, drawn[1] / drawn.sum(axis=0)]), [0.025, 0.975], axis=1)
    return {
        "bias": float(bias),
        "variance": float(variance),
        "variance share": float(variance / (bias + variance)),
        "bias, interval": [float(low[0]), float(high[0])],
        "variance, interval": [float(low[1]), float(high[1])],
        "variance share, interval": [float(low[2]), float(high[2])],
    }


def _split_by_level(split: SeedSplit, factors: dict[str, np.ndarray], test: Problems) -> list[dict[str, Any]]:
    found = []
    for name, values in factors.items():
        for level in dict.fromkeys(values.tolist()):
            found.append({"factor": name, "level": level, **_shares(split, values == level, test.field)})
    return found


def _checks(
    found: Found,
    errors: np.ndarray,
    splits: dict[str, SeedSplit],
    test: Problems,
    validation: Problems,
    config: Config,
) -> dict[str, Any]:
    """What an ensemble and further training do on test fields, in the worst regime and in the others."""
    seeds = len(errors)
    coarse, _ = grids(config)
    mean = _errors(found, "predictions").mean(axis=0)
    ensemble = np.asarray(relative_l2(mean, test.y.numpy(), coarse), dtype=np.float64)
    own, held = test.regime == found.worst, validation.regime == found.worst
    parts = {"worst": own, "others": ~own}
    checks: dict[str, Any] = {"ensemble": {}}
    for where, rows in parts.items():
        repeated = np.broadcast_to(ensemble, errors.shape)
        # one ensemble of these trainings: the interval is over fields
        checks["ensemble"][where] = asdict(
            paired_verdict(_by_field(repeated, rows, test.field), _by_field(errors, rows, test.field), over="samples")
        )
    other = {"worst": (held, own), "others": (~held, ~own)}
    for where, both in other.items():
        for name, rows, split in zip(("promised", "measured"), both, (splits["validation"], splits["test"])):
            ratio = np.sqrt(split.ensemble(seeds)[rows].mean() / split.single()[rows].mean())
            checks["ensemble"][f"{name}, {where}"] = float(ratio - 1)
    for kind in MORE:
        checks[kind] = {
            where: {"before": _verdict(found.more[kind], errors, rows, test.field)} for where, rows in parts.items()
        }
        for where, rows in parts.items() if kind != "all" else ():
            checks[kind][where]["against all"] = _verdict(found.more[kind], found.more["all"], rows, test.field)
    return checks


def _by_field(errors: np.ndarray, rows: np.ndarray, field: np.ndarray) -> np.ndarray:
    """(seeds, fields) means of log errors over the rows of a field."""
    names, index = np.unique(field[rows], return_inverse=True)
    logs = np.log(errors[:, rows])
    return np.stack([np.bincount(index, weights=one) for one in logs]) / np.bincount(index)


def _verdict(first: np.ndarray, second: np.ndarray, rows: np.ndarray, field: np.ndarray, level: float = 0.95) -> Any:
    """The verdict of two errors (seeds, rows) in logarithms, fields as samples."""
    parts = (_by_field(one, rows, field) for one in (first, second))
    return asdict(paired_verdict(*parts, level=level))


def _peers(errors: dict[str, np.ndarray], test: Problems, config: Config) -> dict[str, Any]:
    """Our FNO against neuraloperator's: over all rows, and by level; the verdicts by level hold together at 95 %."""
    first, second = (errors[arm] for arm in PEERS)
    factors = factors_of(config, test.regime)
    levels = [(name, level) for name, values in factors.items() for level in dict.fromkeys(values.tolist())]
    everywhere = np.ones(len(test.regime), dtype=bool)
    return {
        "all": _verdict(first, second, everywhere, test.field),
        "by level": [
            {
                "factor": name,
                "level": level,
                "verdict": _verdict(first, second, factors[name] == level, test.field, 1 - 0.05 / len(levels)),
            }
            for name, level in levels
        ],
    }
