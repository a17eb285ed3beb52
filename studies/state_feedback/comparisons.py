"""What the trainings of the state-feedback study say: means, spreads, paired differences, error at equal time."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sciops.evaluation import Verdict, half_widths, spread
from studies.kit.tables import grouped
from studies.kit.verdicts import seed_verdict

EQUAL_TIME = "BPTT, equal time"
SHARED = (("DSF gate", "DSF linspace"), ("Highway k = 1", "DSF gate"), ("DSF gate", "TBPTT"), ("DSF linspace", "TBPTT"))
"""Pairs of arms whose shares of the gap are compared."""
NEAR = 0.1
"""Smallest effect of interest beside BPTT, of the mean gap between it and FT-BPTT: "as good" is to within this."""


def summary(tasks: Sequence[Mapping[str, Any]], runs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """One row a task and arm, at the rate with the least mean validation error.

    test, spread : mean and standard deviation over the seeds, None with one
    closed : share of the gap between FT-BPTT and BPTT that the arm closes, of the means; nan where BPTT is not shown to
        be better
    shares : the same share for every seed, with its mean and interval over seeds; None where there is no gap to close
    against_truncation, against_exact, against_equal_time : `seed_verdict` of the arm (first) and FT-BPTT, BPTT, or BPTT
        in the same time, None where it was left out
    near : that of the arm and BPTT with `NEAR` of the mean gap as the smallest effect; None without a gap
    learnt : median over the seeds of the first look at which the validation error is below a tenth of that without
        memory, in optimiser steps; nan where half of the trainings or more never get there
    seconds : mean training time;  speed : BPTT's over it
    cosine, norm_ratio : means at the first, the middle and the last look
    """
    rows = []
    for task in tasks:
        here = grouped((r for r in runs if r["task"] == task["name"]), "arm")
        chosen = {arm: _at_best_rate(own) for arm, own in here.items()}
        exact, cut = (_mean(chosen[arm], "test") for arm in ("BPTT", "FT-BPTT"))
        gap = clear_sign(seed_verdict(_tests(chosen["BPTT"]), _tests(chosen["FT-BPTT"]))) < 0
        for arm, of_arm in chosen.items():
            timed = seed_verdict(_tests(of_arm), _tests(chosen[EQUAL_TIME])) if EQUAL_TIME in chosen else None
            shares = closed_shares(*(_tests(chosen[name]) for name in (arm, "BPTT", "FT-BPTT"))) if gap else None
            rows.append(
                {
                    "task": task["name"],
                    "arm": arm,
                    "rate": of_arm[0]["rate"],
                    "seeds": len(of_arm),
                    "diverged": sum(r["diverged"] for r in of_arm),
                    "test": _mean(of_arm, "test"),
                    "spread": spread(r["test"] for r in of_arm).deviation,
                    "closed": (cut - _mean(of_arm, "test")) / (cut - exact) if gap else float("nan"),
                    "against_truncation": seed_verdict(_tests(of_arm), _tests(chosen["FT-BPTT"])),
                    "shares": shares,
                    "against_exact": seed_verdict(_tests(of_arm), _tests(chosen["BPTT"])),
                    "near": seed_verdict(_tests(of_arm), _tests(chosen["BPTT"]), smallest=NEAR * (cut - exact))
                    if gap
                    else None,
                    "learnt": _learnt(of_arm, task.get("trivial", math.nan)),
                    "against_equal_time": timed,
                    "seconds": _mean(of_arm, "seconds"),
                    "speed": _mean(chosen["BPTT"], "seconds") / _mean(of_arm, "seconds"),
                    "cosine": _looks(of_arm, "cosine"),
                    "norm_ratio": _looks(of_arm, "norm_ratio"),
                }
            )
    return rows


def claims(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """What is said of every mode of state feedback on every task: {"task", "arm", "claim", "verdict", "says"}.

    says : "yes", "no", "undecided" or "too few seeds". As good as BPTT: yes where the interval of the difference lies
        within `NEAR` of the gap, or where the mode is better by more than that; no where it is worse by more.
    """
    found = []
    for row in rows:
        if not row["arm"].startswith("DSF"):
            continue
        asked = {
            "better than FT-BPTT": (row["against_truncation"], {"first": "yes", "second": "no", "equivalent": "no"}),
            f"as good as BPTT, to within {NEAR:.0%} of the gap": (
                row["near"],
                {"equivalent": "yes", "first": "yes", "second": "no"},
            ),
            "better than BPTT in the same time": (
                row["against_equal_time"],
                {"first": "yes", "second": "no", "equivalent": "no"},
            ),
        }
        for claim, (verdict, words) in asked.items():
            if verdict is not None:
                says = words.get(verdict.winner, verdict.winner)
                found.append({"task": row["task"], "arm": row["arm"], "claim": claim, "verdict": verdict, "says": says})
    return found


def tuned_rates(task: str, trials: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """One row an arm: {"task", "arm", "rate" (with the least validation error), "edge" (whether it is the least or the
    greatest of the grid), "validation" (by rate)}."""
    rows = []
    for arm, own in grouped(trials, "arm").items():
        by_rate = {rate: _mean(same, "validation") for rate, same in grouped(own, "rate").items()}
        best = best_rate(own)
        edge = best in (min(by_rate), max(by_rate))
        validation = {f"{rate:g}": value for rate, value in sorted(by_rate.items())}
        rows.append({"task": task, "arm": arm, "rate": best, "edge": edge, "validation": validation})
    return rows


def closed_shares(arm: Sequence[float], exact: Sequence[float], cut: Sequence[float]) -> dict[str, Any] | None:
    """{"by seed", "mean", "low", "high"}: (cut − arm)/(cut − exact), seed by seed, and the interval of its mean.

    None where a training diverged, or where full truncation is not worse than BPTT for every seed.
    """
    a, e, c = (np.asarray(values, dtype=float) for values in (arm, exact, cut))
    if not np.isfinite([a, e, c]).all() or not (c > e).all():
        return None
    by_seed = (c - a) / (c - e)
    half = float(half_widths(by_seed[:, None], level=0.95).seeds) if len(by_seed) > 1 else math.inf
    mean = float(by_seed.mean())
    return {"by seed": by_seed.tolist(), "mean": mean, "low": mean - half, "high": mean + half}


def share_verdicts(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Pairs of arms whose shares of the gap are told apart or not, task by task: {"task", "first", "second", "gap",
    "low", "high" (shares), "says" ("more", "less", "undecided", "too few seeds")}, by the verdict over seeds."""
    found = []
    for task, here in grouped(rows, "task").items():
        shares = {row["arm"]: row["shares"]["by seed"] for row in here if row.get("shares")}
        for first, second in SHARED:
            if first in shares and second in shares:
                v = seed_verdict([-s for s in shares[first]], [-s for s in shares[second]])
                says = {"first": "more", "second": "less"}.get(v.winner, v.winner)
                gap = {"gap": -v.difference, "low": -v.high, "high": -v.low}
                found.append({"task": task, "first": first, "second": second, **gap, "says": says})
    return found


def verdicts(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """One line a task: which modes beat full truncation, how near they come to BPTT, and whether they beat BPTT in the
    same time; or that there are too few seeds to say so."""
    lines = []
    for task in dict.fromkeys(row["task"] for row in rows):
        here = {row["arm"]: row for row in rows if row["task"] == task}
        fed = [row for arm, row in here.items() if arm.startswith("DSF")]
        parts = []
        for other, key in (("FT-BPTT", "against_truncation"), ("BPTT in equal time", "against_equal_time")):
            if key == "against_equal_time" and EQUAL_TIME not in here and fed and not fed[0][key]:
                continue
            signs = {row["arm"]: clear_sign(row[key]) for row in fed}
            for word, sign in (("better", -1), ("worse", 1)):
                names = [arm.removeprefix("DSF ") for arm, s in signs.items() if s == sign]
                if names or word == "better":
                    parts.append(f"DSF {word} than {other}: {', '.join(names) or 'none'}")
            few = [row["arm"].removeprefix("DSF ") for row in fed if row[key] and row[key].winner == "too few seeds"]
            if few:
                parts.append(f"too few seeds for a verdict: {', '.join(few)}")
        if fed and clear_sign(here["BPTT"]["against_truncation"]) < 0:
            best = min(fed, key=lambda row: row["test"])
            shares = best.get("shares")
            within = f" [{shares['low']:.0%}, {shares['high']:.0%}]" if shares else ""
            parts.append(f"the best mode, {best['arm']}, closes {best['closed']:.0%}{within} of the gap to BPTT")
            for words, winners in (("as good as", ("equivalent", "first")), ("not as good as", ("second",))):
                names = [row["arm"].removeprefix("DSF ") for row in fed if _winner(row.get("near")) in winners]
                if names:
                    parts.append(f"DSF {words} BPTT, to within {NEAR:.0%} of the gap: {', '.join(names)}")
        elif fed:
            parts.append("BPTT is not shown to be better than FT-BPTT: no gap to close")
        lines.append(f"{task}: " + "; ".join(parts))
    return lines


def _winner(verdict: Verdict | None) -> str:
    return verdict.winner if verdict else ""


def clear_sign(verdict: Verdict | None) -> int:
    """−1 where the first is shown to have the smaller error, 1 where the second, 0 where nothing is shown."""
    return {"first": -1, "second": 1}.get(verdict.winner, 0) if verdict else 0


def best_rate(runs: Sequence[Mapping[str, Any]]) -> float:
    """The rate with the least mean validation error over its seeds."""
    by_rate = grouped(runs, "rate")
    return min(by_rate, key=lambda rate: np.mean([r["validation"] for r in by_rate[rate]]))


def _at_best_rate(runs: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    best = grouped(runs, "rate")[best_rate(runs)]
    return sorted(best, key=lambda r: r["seed"])


def _learnt(runs: Sequence[Mapping[str, Any]], trivial: float) -> float:
    """Median of the first step at which the validation error is below a tenth of the trivial one; nan for never."""
    first = [
        min((look["step"] for look in r.get("history", ()) if look["validation"] < 0.1 * trivial), default=math.inf)
        for r in runs
    ]
    middle = float(np.median(first))
    return middle if math.isfinite(middle) else math.nan


def _tests(runs: Sequence[Mapping[str, Any]]) -> list[float]:
    return [r["test"] for r in runs]


def _mean(runs: Sequence[Mapping[str, Any]], key: str) -> float:
    return float(np.mean([r[key] for r in runs]))


def _looks(runs: Sequence[Mapping[str, Any]], key: str) -> list[float]:
    table = np.array([[c[key] for c in r["closeness"]] for r in runs if not r["diverged"]])
    if not len(table):
        return [float("nan")] * 3
    mean = table.mean(0)
    return [float(mean[i]) for i in (0, len(mean) // 2, -1)]
