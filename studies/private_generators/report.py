"""Tables of the study of private generators."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from studies.kit.tables import print_table

if TYPE_CHECKING:
    from studies.private_generators import Config

Row = Mapping[str, Any]
SAYS = {"samples": "samples", "network": "released network", "all": "all networks"}


def print_report(results: Row, config: Config) -> None:
    _print_mechanisms(results["mechanisms"])
    _print_sweep(results, config)
    _print_gaps(results["gaps"], results["settings"], config)
    _print_checks(results, config)


def shown(epsilon: float | str) -> str:
    """ε with three digits, "∞" where it is infinite."""
    value = float(epsilon)
    return f"{value:.3g}" if math.isfinite(value) else "∞"


def epsilon_of(row: Row, settings: Sequence[Row]) -> str:
    """The ε of a row's setting."""
    same = ("setting", "data", "noise")
    return next(shown(one["epsilon"]) for one in settings if all(one[key] == row[key] for key in same))


def data_of(row: Row) -> str:
    """ "fields", "digits", or "fields, n = 1024"."""
    return row["data"] if row["setting"] == "sweep" else f"{row['data']}, n = {row['records']}"


def _print_mechanisms(found: Row) -> None:
    print_table(
        found["mean release"],
        "n; d; s=noise:g; models",
        "AUC, theory=theory.area:.3f; LiRA=online.area:.3f; difference=relative_online.area:.3f",
        "TPR at 1 %, theory=theory.rate:.3f; LiRA=online.rate:.3f; difference=relative_online.rate:.3f",
        title="the mean of n records in d dimensions is released with noise s: attacks beside the closed form",
    )
    print_table(
        found["one step"],
        "σ=noise:g; runs; canaries; AUC, theory=theory:.3f; measured=area:.3f; ε=epsilon:.2f",
        "bound of independent records, median=independent.median:.2f; largest=independent.largest:.2f",
        "above ε=independent.above:.0%; bound of one training, median=one training.median:.2f",
        "largest=one training.largest:.2f; above ε=one training.above:.0%",
        title="one step of DP-SGD on all records, canaries orthogonal: bounds of 95 % on ε from each run",
    )


def _print_sweep(results: Row, config: Config) -> None:
    settings = results["settings"]
    print_table(
        settings,
        ("data", data_of),
        ("σ", lambda row: f"{row['noise']:g}"),
        "n=records; q=rate:g; T=steps",
        (f"ε at δ = {config.delta:g}", lambda row: shown(row["epsilon"])),
        title="what both families spend",
    )
    print_table(
        results["rows"],
        ("data", data_of),
        ("σ", lambda row: f"{row['noise']:g}"),
        ("ε", lambda row: epsilon_of(row, settings)),
        "family",
        ("access", lambda row: SAYS[row["access"]]),
        "attack",
        ("AUC", lambda row: f"{row['area']:.3f} [{row['low']:.3f}, {row['high']:.3f}]"),
        "TPR at 1 %=rate:.3f; ε ≥, pooled=pooled epsilon:.2f; ε ≥, one training=one training.median:.2f",
        title="attacks at the end of training: intervals of 95 % over models and records, bounds of 95 %",
    )
    above, trainings = (sum(row[key] for row in results["rows"] if row["noise"]) for key in ("above", "trainings"))
    print(f"bounds of one training above the ε that was spent: {above} of {trainings}")
    print_table(
        [*_references(results["references"]), *results["utility"]],
        ("data", lambda row: row.get("who") or data_of(row)),
        ("σ", lambda row: f"{row['noise']:g}" if "noise" in row else None),
        ("ε", lambda row: epsilon_of(row, settings) if "noise" in row else None),
        ("family", lambda row: row.get("family")),
        ("two-point error", lambda row: _spread(row["moments"])),
        ("other measure", lambda row: _spread(row["second"])),
        ("deviation, law 1", lambda row: f"{row['deviation']:.2f}" if "deviation" in row else None),
        title="utility at the end of training, mean and deviation over pools; fields: "
        "Wasserstein distance of log k; digits: errors of a classifier that learns from samples",
    )


def _references(found: Row) -> list[dict[str, Any]]:
    rows = []
    for data, one in found.items():
        rows.append({"who": f"{data}: n records", "moments": [one["own"]], "second": [one["own second"]]})
        rows.append({"who": f"{data}: white noise", "moments": [one["white"]], "second": [one["white second"]]})
    return rows


def _spread(values: Sequence[float]) -> str:
    return f"{np.mean(values):.3f}" + (f" ± {np.std(values, ddof=1):.3f}" if len(values) > 1 else "")


def _print_gaps(gaps: Sequence[Row], settings: Sequence[Row], config: Config) -> None:
    print_table(
        gaps,
        ("data", data_of),
        ("σ", lambda row: f"{row['noise']:g}"),
        ("ε", lambda row: epsilon_of(row, settings)),
        ("access", lambda row: SAYS[row["access"]]),
        ("GAN", lambda row: f"{row['end']['GAN']:.3f}"),
        ("diffusion", lambda row: f"{row['end']['diffusion']:.3f}"),
        ("difference", lambda row: verdict(row["end"])),
        ("at two-point error", lambda row: f"{np.mean(row['utility']):.2f}"),
        ("difference there", lambda row: verdict(row["matched"])),
        title=f"AUC by the strongest attack of each access, GAN less diffusion: {config.level:.0%} over "
        f"{len(config.pools)} pools; at the end of training, and where both paths first reach the same error",
    )


def verdict(found: Row | None) -> str:
    """A difference of AUC with its interval and what it says."""
    if found is None:
        return "no common utility"
    return f"{found['difference']:+.3f} [{found['low']:+.3f}, {found['high']:+.3f}] {found['says']}"


def _print_checks(results: Row, config: Config) -> None:
    settings = results["settings"]
    print_table(
        results["calibrations"],
        ("data", data_of),
        ("ε", lambda row: epsilon_of(row, settings)),
        "family; attack",
        "LiRA, AUC=area.online:.3f; TPR at 1 %=rate.online:.3f; offline, AUC=area.offline:.3f",
        "TPR at 1 %=rate.offline:.3f; difference, AUC=area.relative_online:.3f; TPR at 1 %=rate.relative_online:.3f",
        "one threshold, AUC=area.global:.3f; TPR at 1 %=rate.global:.3f",
        title=f"the same scores calibrated in four ways, with {config.models - 2} shadow models",
    )
    print_table(
        results["null"],
        "data; family; attack",
        ("AUC", lambda row: f"{row['area']:.3f} [{row['low']:.3f}, {row['high']:.3f}]"),
        "ε ≥, pooled=epsilon:.2f",
        title="no noise, with halves that no model was trained on: chance",
    )
    if results["ablation"]:
        print_table(
            results["ablation"],
            "setting; family; σ=noise:g; AUC, samples=samples:.3f; AUC, released network=network:.3f",
            "two-point error=moments:.3f; log k=second:.3f",
            title="fields, one option changed at a time",
        )
