"""What the trainings of the state-feedback study say: means, spreads, paired differences, error at equal time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sciops.evaluation import Verdict, spread
from studies.kit.tables import grouped
from studies.kit.verdicts import seed_verdict

EQUAL_TIME = "BPTT, equal time"


def summary(tasks: Sequence[Mapping[str, Any]], runs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """One row a task and arm, at the rate with the least mean validation error.

    test, spread : mean and standard deviation over the seeds, None with one
    closed : share of the gap between FT-BPTT and BPTT that the arm closes, of the means; nan where BPTT is not shown to
        be better
    against_truncation, against_equal_time : `seed_verdict` of the arm (first) and FT-BPTT, or BPTT in the same time
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
                    "against_equal_time": seed_verdict(_tests(of_arm), _tests(chosen[EQUAL_TIME])),
                    "seconds": _mean(of_arm, "seconds"),
                    "speed": _mean(chosen["BPTT"], "seconds") / _mean(of_arm, "seconds"),
                    "cosine": _looks(of_arm, "cosine"),
                    "norm_ratio": _looks(of_arm, "norm_ratio"),
                }
            )
    return rows


def verdicts(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """One line a task: which modes beat full truncation, how near they come to BPTT, and whether they beat BPTT in the
    same time; or that there are too few seeds to say so."""
    lines = []
    for task in dict.fromkeys(row["task"] for row in rows):
        here = {row["arm"]: row for row in rows if row["task"] == task}
        fed = [row for arm, row in here.items() if arm.startswith("DSF")]
        parts = []
        for other, key in (("FT-BPTT", "against_truncation"), ("BPTT in equal time", "against_equal_time")):
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
            parts.append(f"the best mode, {best['arm']}, closes {best['closed']:.0%} of the gap to BPTT")
        elif fed:
            parts.append("BPTT is not shown to be better than FT-BPTT: no gap to close")
        lines.append(f"{task}: " + "; ".join(parts))
    return lines


def clear_sign(verdict: Verdict | None) -> int:
    """−1 where the first is shown to have the smaller error, 1 where the second, 0 where nothing is shown."""
    return {"first": -1, "second": 1}.get(verdict.winner, 0) if verdict else 0


def _at_best_rate(runs: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    best = min(grouped(runs, "rate").values(), key=lambda own: np.mean([r["validation"] for r in own]))
    return sorted(best, key=lambda r: r["seed"])


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
