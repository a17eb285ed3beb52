"""Tables of the study of operators by regime."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from sciops.evaluation import Verdict
from studies.kit.tables import print_table

if TYPE_CHECKING:
    from studies.operator_fairness import Config


def print_report(results: dict[str, Any], config: Config) -> None:
    arms = results["arms"]
    print(
        f"{config.test} test fields, each solved in {len(next(iter(arms.values()))['cells'])} regimes; {config.train} "
        f"training samples, {len(config.seeds)} seeds. Errors are relative L2; ratios and means are geometric."
    )
    rows = [
        {
            "model": arm,
            "parameters": one["parameters"],
            "rate": one["rate"],
            "error": one["error"],
            "finer grid": one["error, fine"],
            "seconds": one["seconds"],
            "one by one": f"{one['explained']:.0%}",
        }
        for arm, one in arms.items()
    ]
    print_table(
        rows,
        "model; parameters; rate:g; error:.4f; finer grid:.4f; seconds:.1f; explained by factors one by one=one by one",
        title="models",
    )
    rates = next(iter(arms.values()))["choice"]
    print_table(
        [{"rate": rate, **{_name(arm): one["choice"][rate] for arm, one in arms.items()}} for rate in rates],
        "rate",
        *(f"{_name(arm)}:.4f" for arm in arms),
        title="mean error on validation fields by peak rate, one training each",
    )
    print_table(
        [
            {"effect": key, **{_name(arm): _effect(one) for arm, one in found.items()}}
            for key, found in _by_effect(arms)
        ],
        "effect",
        *map(_name, arms),
        title="errors of a level over those of its reference, the others held; intervals hold together at 95 %",
    )
    for arm, one in arms.items():
        _print_in_use(arm, one["in use"])
    print_table(
        [_worst(arm, one) for arm, one in arms.items()], *_WORST, title="worst regime, chosen on validation fields"
    )
    for arm, one in arms.items():
        title = f"{arm}: root mean square error of one training, bias and variance over seeds (± over fields, 95 %)"
        print_table([_split(row) for row in one["split"]], *_SPLIT, title=title)
    checks = [row for arm, one in arms.items() for row in _checks(arm, one["checks"])]
    print_table(checks, "model; what; worst regime; other regimes", title="what the advice does, on test fields")
    for arm, one in arms.items():
        _print_layers(arm, one["layers"])
    if "peers" in results:
        _print_peers(results["peers"])


def change(verdict: Mapping[str, Any], *, larger: bool = False) -> str:
    """A verdict of logarithms as a change in %: "−12 % [−15, −9] better"; with `larger` "smaller" or "larger"."""
    found = Verdict(**verdict)
    mean, low, high = (100 * math.expm1(min(value, 50.0)) for value in (found.difference, found.low, found.high))
    words = ("smaller", "larger") if larger else ("better", "worse")
    said = dict(zip(("first", "second"), words)).get(found.winner, found.winner)
    return f"{mean:+.1f} % [{low:+.1f}, {high:+.1f}] {said}"


def _name(arm: str) -> str:
    """An arm as the heading of a column, in which a colon stands before a format."""
    return arm.replace(":", " ")


def _by_effect(arms: Mapping[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    found: dict[str, dict[str, Any]] = {}
    for arm, one in arms.items():
        for effect in one["effects"]:
            name = f"{effect['factor']}: {effect['level']} / {effect['reference']}"
            found.setdefault(name, {})[arm] = effect
    return list(found.items())


def _effect(one: Mapping[str, Any]) -> str:
    return f"{one['ratio']:.2f} [{one['low']:.2f}, {one['high']:.2f}] {one['verdict']}"


def _print_in_use(arm: str, found: Mapping[str, Any]) -> None:
    rows = [
        {
            "effect": f"{one['factor']}: {one['level']} / {one['reference']}",
            "not adjusted": f"{one['marginal']:.2f} [{one['marginal_low']:.2f}, {one['marginal_high']:.2f}]",
            "adjusted": _effect(one),
        }
        for one in found["effects"]
        if one["factor"] != "boundary"
    ]
    title = f"{arm}: {found['rows']} rows of a record in which rough fields mostly have the highest contrast"
    print_table(rows, "effect; not adjusted; adjusted", title=title)
    split = found["kitagawa"]
    print(
        f"gap of {split['second']} to the others {split['gap']:+.3f} = {split['rate_effect']:+.3f} in equal contrasts "
        f"{split['composition_effect']:+.3f} by their mix"
    )


_WORST = ("model", "regime", "error", "share of variance")


def _worst(arm: str, one: Mapping[str, Any]) -> dict[str, Any]:
    worst = one["worst"]
    low, high = worst["split"]["variance share, interval"]
    return {
        "model": arm,
        "regime": " × ".join(worst["levels"]),
        "error": f"{worst['error']:.3f} [{worst['low']:.3f}, {worst['high']:.3f}]",
        "share of variance": f"{worst['split']['variance share']:.0%} [{low:.0%}, {high:.0%}]",
    }


_SPLIT = ("level", "one training", "bias", "deviation over seeds", "share of variance")


def _split(row: Mapping[str, Any]) -> dict[str, Any]:
    low, high = row["variance share, interval"]
    bias, variance = max(row["bias"], 0.0), row["variance"]
    return {
        "level": f"{row['factor']}: {row['level']}",
        "one training": f"{math.sqrt(bias + variance):.3f}",
        "bias": f"{math.sqrt(bias):.3f}",
        "deviation over seeds": f"{math.sqrt(variance):.3f}",
        "share of variance": f"{row['variance share']:.0%} [{low:.0%}, {high:.0%}]",
    }


def _checks(arm: str, checks: Mapping[str, Any]) -> list[dict[str, Any]]:
    ensemble = checks["ensemble"]
    rows = [("ensemble of the seeds", ensemble["worst"], ensemble["others"])]
    said = {
        "worst": "worst regime added, as many others",
        "some worst": "worst regime added to all samples",
        "all": "all regimes added, as many others",
    }
    rows += [(what, *(checks[kind][w]["before"] for w in ("worst", "others"))) for kind, what in said.items()]
    rows += [
        (f"{said[kind]}: against all regimes", *(checks[kind][w]["against all"] for w in ("worst", "others")))
        for kind in ("worst", "some worst")
    ]
    found = [
        {"model": arm, "what": what, "worst regime": change(worst), "other regimes": change(others)}
        for what, worst, others in rows
    ]
    promised = {
        f"{where} regime{'s' * (where == 'others')}".replace("others", "other"): (
            f"{ensemble[f'promised, {where}']:+.1%} by the split, on validation fields; measured "
            f"{ensemble[f'measured, {where}']:+.1%}"
        )
        for where in ("worst", "others")
    }
    return [*found, {"model": arm, "what": "ensemble, root mean square", **promised}]


def _print_layers(arm: str, found: Mapping[str, Any]) -> None:
    layers, rows = found["layers"], []
    for name, read in found["read"].items():
        for kind in ("trained", "untrained", "shuffled"):
            values = np.mean(read[kind], axis=0)
            own = layers[len(layers) - len(values) :]
            row: dict[str, Any] = {"probe": f"{name}, {kind}"}
            rows.append(row | {layer: f"{value:.2f}" for layer, value in zip(own, values)})
    flag = np.mean(found["flag"], axis=0)
    rows.append({"probe": "own log error: share explained", **{a: f"{b:.2f}" for a, b in zip(layers, flag)}})
    gap = found["gap"]
    for place, level in enumerate(gap["levels"]):
        values = {one["layer"]: f"{one['errors'][place]:.2f}" for one in gap["by layer"]}
        rows.append({"probe": f"coarse solution, {level}", **values})
    print_table(rows, "probe", *layers, title=f"{arm}: what a linear probe of each layer gets wrong")
    for key, says in (
        ("read from", "more than shuffled labels do"),
        ("learned from", "more than untrained weights do"),
    ):
        said = [f"{name}: {read[key] or 'no layer'}" for name, read in found["read"].items()]
        print(f"first layer that says {says}: {'; '.join(said)}")
    first = gap["onset"] or "no layer"
    print(f"first layer with a larger error of the coarse solution at {gap['levels'][0]}: {first}")
    print(f"its ratio to {gap['levels'][1]}, last layer against input: {change(gap['growth'], larger=True)}")


def _print_peers(peers: Mapping[str, Any]) -> None:
    print(f"\nFNO against neuralop:FNO, all regimes: {change(peers['all'])}")
    rows = [
        {"level": f"{one['factor']}: {one['level']}", "change": change(one["verdict"])} for one in peers["by level"]
    ]
    print_table(rows, "level; FNO against neuraloperator's=change", title="by level; intervals hold together at 95 %")
