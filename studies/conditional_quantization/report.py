"""Tables, claims and the answer of the study of conditional quantization, from its results alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sciops.evaluation import paired_verdict, spread
from studies.conditional_quantization.arms import OURS
from studies.kit.tables import grouped, print_table
from studies.kit.verdicts import shown

if TYPE_CHECKING:
    from studies.conditional_quantization import Config

PEERS = ("ensemble", "dropout", "quantiles", "flow")
ABLATIONS = ("one point", "not annealed", "relaxed")
CALIBRATED = 0.02  # largest mean difference of weights and frequencies
SCORES = {
    "energy": "energy score",
    "w2": "W2 to the true law",
    "nearest_relative": "nearest point, relative",
    "mean_error": "error of the mean",
    "std_error": "error of the std",
}


def summary(results: Mapping[str, Any], config: Config) -> dict[str, Any]:
    """{case: {"arms": rows, "variants": rows, "verdicts": rows, "weights": numbers}}."""
    found = {}
    for case in config.cases:
        runs = [record for record in results["runs"] if record["case"] == case]
        arms = {arm: sorted(own, key=lambda r: r["seed"]) for arm, own in grouped(runs, "arm").items()}
        variants = _variants(arms, results["ideal"][case])
        found[case] = {
            "arms": [_row(arm, own) for arm, own in arms.items()],
            "variants": [{"name": name, "scores": _scores(scores)} for name, scores in variants.items()],
            "verdicts": _verdicts(arms, variants),
            "weights": _weights(arms[OURS]),
            "levels": _levels(results["facts"][case], arms, results["ideal"][case]),
        }
    return found


def _row(arm: str, runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    first = runs[0]
    return {
        "name": arm,
        "points": first["points"],
        "parameters": first["parameters"],
        "steps": first["steps"],
        "rate": first["rate"],
        "seconds": spread(r["seconds"] for r in runs),
        "milliseconds_per_law": 1e3 * float(np.median([r["seconds_per_law"] for r in runs])),
        "scores": _scores([r["scores"] for r in runs]),
    }


def _scores(runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """{score: its spread over seeds}, of the means over the test samples."""
    return {name: spread(float(np.mean(r[name])) for r in runs) for name in SCORES if name in runs[0]}


def _variants(arms: Mapping[str, Sequence[Any]], ideal: Mapping[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """What is evaluated without a training of its own."""
    variants = {f"{OURS}, equal weights": [r["equal_weights"] for r in arms[OURS]]}
    if "flow" in arms:
        variants["flow, quantized afterwards"] = [r["quantized_afterwards"] for r in arms["flow"]]
    for number, scores in ideal.items():
        if scores:
            seeds = range(len(next(iter(scores.values()))))
            variants[f"{number} ideal samples"] = [{name: rows[s] for name, rows in scores.items()} for s in seeds]
    return variants


def _verdicts(arms: Mapping[str, Sequence[Any]], variants: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """Ours against each of the others, over seeds and test samples, by each score that has a true law or needs none."""
    others = {arm: [r["scores"] for r in runs] for arm, runs in arms.items() if arm != OURS} | dict(variants)
    ours = [r["scores"] for r in arms[OURS]]
    rows = []
    for name, theirs in others.items():
        for score in ("energy", "w2", "nearest"):
            if score in ours[0] and len(theirs) == len(ours):
                first, second = (np.array([r[score] for r in runs]) for runs in (ours, theirs))
                verdict = paired_verdict(first, second)
                rows.append({"against": name, "score": score, "verdict": shown(verdict), "winner": verdict.winner})
    return rows


def _weights(runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    own = [r["weights"] for r in runs]
    found: dict[str, Any] = {
        "calibration": spread(w["error"] for w in own),
        "log_loss": spread(w["log_loss"] for w in own),
        "pooled": _pooled(own),
    }
    if "distance" in own[0]:
        found["distance"] = spread(w["distance"] for w in own)
    return found


def _pooled(own: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The reliability of all seeds together: {"predicted", "observed", "count", "error"}, by bin."""
    bins: dict[int, list[float]] = {}
    for record in own:
        for p, share, count in zip(record["predicted"], record["observed"], record["count"]):
            total = bins.setdefault(min(int(10 * p), 9), [0.0, 0.0, 0])
            total[0] += p * count
            total[1] += share * count
            total[2] += count
    rows = np.array([bins[key] for key in sorted(bins)])
    predicted, observed = rows[:, 0] / rows[:, 2], rows[:, 1] / rows[:, 2]
    error = float(np.average(np.abs(predicted - observed), weights=rows[:, 2]))
    return {"predicted": predicted, "observed": observed, "count": rows[:, 2].astype(int), "error": error}


def _levels(facts: Mapping[str, Any], arms: Mapping[str, Sequence[Any]], ideal: Mapping[str, Any]) -> dict[str, Any]:
    """Mean squared distance to the nearest point over that of the two modes, beside what theory says of others."""
    if "apart" not in facts:
        return {}
    unit = facts["apart"]
    found = {
        arm: spread(float(np.mean(r["scores"]["nearest"])) / unit for r in runs)
        for arm, runs in arms.items()
        if arm in (OURS, *PEERS, "one point")
    }
    drawn = {
        f"{n} ideal samples": spread(float(np.mean(rows)) / unit for rows in scores["nearest"])
        for n, scores in ideal.items()
        if scores
    }
    theory = {"mean": facts["mean_level"] / unit} | {
        f"{n} ideal samples": value / unit for n, value in facts["ideal"].items()
    }
    return {"measured": found | drawn, "theory": theory}


def print_report(results: Mapping[str, Any], config: Config) -> None:
    for case, found in results["summary"].items():
        columns = [
            (heading, lambda row, key=key: f"{row['scores'][key]:.4f}" if key in row["scores"] else "–")
            for key, heading in SCORES.items()
        ]
        costs = "points; parameters; steps; rate:g; seconds:.1f; ms a law=milliseconds_per_law:.2f"
        print_table(found["arms"], "model=name", *columns, costs, title=f"{case}: mean over test fields, ± over seeds")
        print_table(found["variants"], "without a training of its own=name", *columns, title="")
        if found["levels"]:
            _print_levels(found["levels"])
        _print_weights(found["weights"], case)
        rows = [row for row in found["verdicts"] if row["score"] != "nearest" or case == "mirror"]
        print_table(rows, "quantized against=against; by=score; difference and verdict=verdict", title="")
        facts = {key: value for key, value in results["facts"][case].items() if isinstance(value, float)}
        if facts:
            print("\n" + ", ".join(f"{key.replace('_', ' ')} {value:.4g}" for key, value in facts.items()))
    print()
    for claim in claims(results):
        print(claim)


def _print_levels(levels: Mapping[str, Any]) -> None:
    rows = [
        {"name": name, "measured": levels["measured"].get(name), "theory": levels["theory"].get(name)}
        for name in dict.fromkeys((*levels["measured"], *levels["theory"]))
    ]
    print_table(
        rows,
        "distance² to the nearest point, over that of the modes=name",
        ("measured", lambda row: f"{row['measured']:.4f}" if row["measured"] is not None else "–"),
        ("theory", lambda row: f"{row['theory']:.4f}" if row["theory"] is not None else "–"),
        title="",
    )


def _print_weights(found: Mapping[str, Any], case: str) -> None:
    pooled = found["pooled"]
    text = f"weights of {OURS}: off by {found['calibration']:.4f} a seed, {pooled['error']:.4f} over all seeds"
    if "distance" in found:
        text += f"; from the true weights of the modes {found['distance']:.4f}"
    print(f"\n{text}; log-loss {found['log_loss']:.3f}")
    rows = [
        dict(zip(("predicted", "observed", "count"), row)) for row in zip(*(pooled[k] for k in pooled if k != "error"))
    ]
    print_table(rows, "stated weight=predicted:.3f; frequency=observed:.3f; pairs=count", title="")


def claims(results: Mapping[str, Any]) -> list[str]:
    """What was to be shown, and whether these trainings show it."""
    found = []
    for case, own in results["summary"].items():
        winners = {(row["against"], row["score"]): row["winner"] for row in own["verdicts"]}
        for score in ("energy", "w2"):
            told = [f"{against}: {_said(winners[against, score])}" for against in PEERS if (against, score) in winners]
            if told:
                found.append(
                    f"{case}, {SCORES[score]}, against the peers at equal parameters and time. {'; '.join(told)}"
                )
        told = [
            f"{against}: {_said(winners[against, 'energy'])}" for against in ABLATIONS if (against, "energy") in winners
        ]
        told += [
            f"{against}: {_said(winners[against, 'energy'])}"
            for against in (f"{OURS}, equal weights", "flow, quantized afterwards")
            if (against, "energy") in winners
        ]
        if told:
            found.append(f"{case}, energy score, against what is taken from it. {'; '.join(told)}")
        ideal = [key for key in winners if "ideal" in key[0] and key[1] == "nearest"]
        if own["levels"] and ideal:
            told = [f"{against}: {_said(winners[against, score])}" for against, score in ideal]
            found.append(f"{case}, distance to the nearest point. {'; '.join(told)}")
        error = own["weights"]["pooled"]["error"]
        met = "yes" if error <= CALIBRATED else "no"
        found.append(f"{case}, weights within {CALIBRATED:.0%} of the frequencies: {met} ({error:.2%})")
    return found


def _said(winner: str) -> str:
    return {"first": "quantized is better", "second": "quantized is worse"}.get(winner, winner)


def answer(results: Mapping[str, Any]) -> str:
    """The first sentence of the page."""
    parts = []
    for case, own in results["summary"].items():
        winners = {row["against"]: row["winner"] for row in own["verdicts"] if row["score"] == "energy"}
        peers = [arm for arm in PEERS if arm in winners]
        better = [arm for arm in peers if winners[arm] == "first"]
        worse = [arm for arm in peers if winners[arm] == "second"]
        if peers:
            text = f"{case}: better than {', '.join(better) or 'none of ' + ', '.join(peers)}"
            parts.append(text + (f", worse than {', '.join(worse)}" if worse else ""))
    if parts:
        return (
            f"By the energy score, at equal parameters and time, conditional quantization is, on {'; on '.join(parts)}."
        )
    errors = [f"{own['weights']['pooled']['error']:.1%} on {case}" for case, own in results["summary"].items()]
    return (
        f"Weights of conditional quantization are off from the frequencies by {', '.join(errors)}; no other model ran."
    )
