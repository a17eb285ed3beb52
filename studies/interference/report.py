"""Tables of the study of interference."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from sciops.evaluation import Spread, Verdict
from studies.kit.tables import print_table
from studies.kit.verdicts import shown

if TYPE_CHECKING:
    from studies.interference import Config


def per_cent(values: Any, score: str) -> np.ndarray:
    """Scores in % of the loss alone; of logarithms of ratios, exp(score) − 1."""
    array = np.asarray(values, dtype=float)
    return 100 * (np.expm1(array) if score == "log_ratio" else array)


def print_report(results: dict[str, Any], config: Config) -> None:
    seeds = len(config.seeds)
    for name, source in results["sources"].items():
        print(f"{name}: {source}")
    for arm, found in results["arms"].items():
        if "waves" in found:
            _print_waves(arm, found["waves"])
            continue
        _print_matrix(arm, found, seeds)
        _print_tests(found)
        if "total" in found:
            _print_total(found)
        if "mixtures" in found:
            _print_mixtures(found)
        if "widths" in found:
            rows = {f"width {wide}": {"mean": _verdict(one, found["score"])} for wide, one in found["widths"].items()}
            print_table(rows, "=name; mean interference in %=mean", title=f"{arm}, by capacity")
        if "same language twice" in found:
            twice = Spread.read(found["same language twice"]).times(100)
            print(f"two texts of one language, interference in %: {twice:+.2f}")
        _print_groups(found["groups"])
    if "naming" in results:
        print(f"\nlog ratio, equations named − not named: {shown(Verdict(**results['naming']))}")
    print(f"\n{results['cpu seconds']:.0f} s of one core; parameters: {_listed(results['parameters'])}")
    print("Positive numbers are harm. Intervals and ± are over seeds, for these texts and fields.")


def _print_matrix(arm: str, found: Mapping[str, Any], seeds: int) -> None:
    tasks, values = found["tasks"], per_cent(found["values"], found["score"])
    rows = []
    for i, task in enumerate(tasks):
        cells = {other: None if i == j else f"{values[i, j]:+.1f}" for j, other in enumerate(tasks)}
        alone = Spread.read(found["alone"][task])
        rows.append({"victim": task, **cells, "alone": f"{alone:.3f}"})
    unit = "nats" if found["score"] == "relative" else "relative L2"
    columns = ("victim", *tasks, f"loss alone ({unit})=alone")
    print_table(
        rows, *columns, title=f"{arm}: loss in % of the loss alone, rows lose by columns, mean of {seeds} seeds"
    )
    print(
        f"mean {_verdict(found['mean'], found['score'])}; decided at 95 %: {found['decided']:.0%} of the entries, harm "
        f"{found['harmed']:.0%}"
    )


def _print_tests(found: Mapping[str, Any]) -> None:
    a, model = found["asymmetry"], found["additive"]
    print(
        f"antisymmetric share {a['share']:.2f}, without noise {a['corrected']:.2f} (noise alone: ½); p over seeds "
        f"{a['p_seeds']:.3g}, p of who loses by task {a['p_flow']:.2g}; correlation with its transpose "
        f"{a['correlation']:+.2f}"
    )
    print(
        f"row and column effects explain {model['explained']:.0%} (adjusted {model['adjusted']:.0%}); of the rest, "
        f"{model['noise']:.0%} is expected of noise"
    )
    effects = zip(found["tasks"], found["vulnerability"], found["aggressiveness"])
    rows = [
        {"task": task, "loses": per_cent(v, found["score"]), "costs the others": per_cent(w, found["score"])}
        for task, v, w in effects
    ]
    print_table(rows, "task; loses:+.1f; costs the others:+.1f", title="means of rows and columns, in %")
    rows = []
    for name, test in found["mantel"].items():
        joint = found["regression"]
        slopes = joint.get("slopes", {})
        seeds = found["over seeds"].get(name)
        rows.append(
            {
                "explained by": name,
                "rank correlation": test["correlation"],
                "Mantel p": test["p"],
                "slope": 100 * test["slope"],
                "others held": 100 * joint["slopes"][name] if name in slopes else None,
                "p": joint["p"][name] if name in slopes else None,
                "over seeds": _reversed(seeds) if seeds else None,
            }
        )
    if rows:
        columns = "explained by; rank correlation:+.2f; Mantel p:.3f; slope:+.2f; others held:+.2f; p:.3f; over seeds"
        print_table(rows, columns, title="explanations; slopes in points of % (of log ratios)")


def _print_total(found: Mapping[str, Any]) -> None:
    total, score = found["total"], found["score"]
    dilution = per_cent(np.mean(total["dilution"]), score)
    print(
        f"\nequal steps in total: {_verdict(total['mean'], score)}; half of the examples alone cost {dilution:+.1f} %, "
        f"net {_verdict(total['net'], score)}; correlation of net with the matrix above {total['correlation']:+.2f}"
    )


def _print_mixtures(found: Mapping[str, Any]) -> None:
    compared = found["mixtures"]["compared"]
    rows = {name: {"rank": one["rank"], "error": 100 * one["error"]} for name, one in compared.items()}
    columns = "predicted from=name; rank correlation=rank:+.2f; root mean square error in points=error:.2f"
    count = len({row["mixture"] for row in found["mixtures"]["rows"]})
    print_table(
        rows, columns, title=f"{count} mixtures of three and four tasks, {len(found['mixtures']['rows'])} losses"
    )


def _print_groups(groups: Mapping[str, Any]) -> None:
    merged = "; ".join(", ".join(group) for group in groups["groups"])
    print(f"groups by agglomeration: {merged} (predicted cost {groups['cost']:+.3f})")
    if "best groups" in groups:
        best = "; ".join(", ".join(group) for group in groups["best groups"])
        print(f"best groups of all: {best} ({groups['best cost']:+.3f})")


def _print_waves(arm: str, waves: Mapping[Any, Any]) -> None:
    rows = [
        {"k": int(k), "measured": f"{Spread.read(one['error']):.4f}", "|sin kT|": one["floor"]}
        for k, one in waves.items()
    ]
    print_table(rows, "k; measured; |sin kT|:.4f", title=f"{arm}: advection by +1 and −1 together, relative L2 error")


def _verdict(fields: Mapping[str, Any], score: str) -> str:
    """A verdict of two means as harm: mean [low, high] in %."""
    found = Verdict(**fields)
    mean, low, high = per_cent([found.difference, found.low, found.high], score)
    said = {"first": "gain", "second": "harm"}
    return f"{mean:+.2f} % [{low:+.2f}, {high:+.2f}] {said.get(found.winner, found.winner)}"


def _reversed(fields: Mapping[str, Any]) -> str:
    found = Verdict(**fields)
    said = {"first": "less harm", "second": "more harm"}
    values = (100 * value for value in (found.difference, found.low, found.high))
    return "{:+.2f} [{:+.2f}, {:+.2f}] {}".format(*values, said.get(found.winner, found.winner))


def _listed(numbers: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in numbers.items())
