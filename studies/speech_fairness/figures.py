"""Figures of the study of fairness: claims in planted populations, and accents with and without their noise."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sciops.plotting import series
from studies.kit.figures import panels, ticks
from studies.speech_fairness.report import share

if TYPE_CHECKING:
    from studies.speech_fairness import Config

_PLANTED = (
    "Left: how often a factor that does nothing is claimed to matter; the line is the level of the tests. Right: how "
    "often a true effect is found. Bars are 95 % intervals over replications."
)
_ACCENTS = (
    "Word error rate of each accent against the mean of all: known from every speaker in both levels of noise, and as "
    "estimated where one accent is mostly recorded in noise. Bars are the deviation over draws."
)
_LINES = {
    "naive": "naive errors",
    "marginal": "ethnicity alone",
    "joint": "joint, Wald over speakers",
    "ethnicity: supported": "joint, the verdict",
}


def draw(results: Mapping[str, Any], config: Config, folder: Path) -> None:
    """planted.png and accents.png, of the parts that there are."""
    if results.get("planted"):
        with panels(folder / "planted.png", 2, 2, width=3.7, height=3.2, caption=_PLANTED) as axes:
            _planted(axes, results["planted"], config)
    if results.get("recogniser"):
        with panels(folder / "accents.png", 1, 1, width=5.2, height=3.4, caption=_ACCENTS) as axes:
            _accents(axes[0], results["recogniser"])


def _planted(axes: np.ndarray, rows: list[dict[str, Any]], config: Config) -> None:
    whole = [row for row in rows if row["effect"] == config.effects[-1]]
    for (name, label), style in zip(_LINES.items(), series()):
        _line(axes[0], whole, name, label, style)
    axes[0].axhline(config.alpha, color="0.3", linewidth=0.8)
    axes[0].set(title="false claims on ethnicity", ylabel="share of populations", ylim=(-0.03, 1.5))
    for effect, style in zip(config.effects, series()):
        mine = [row for row in rows if row["effect"] == effect]
        _line(axes[1], mine, "native: supported", f"rate ratio {math.exp(effect):.3g}", style)
    axes[1].set(title="non-native: effect found", ylabel="share of populations", ylim=(-0.03, 1.4))
    for axis in axes:
        axis.set(xlabel="speakers", xscale="log")
        ticks(axis.xaxis, sorted(config.speakers))
        ticks(axis.yaxis, [0.0, 0.25, 0.5, 0.75, 1.0])
        axis.legend(loc="upper left")


def _line(axis: Any, rows: list[dict[str, Any]], name: str, label: str, style: Mapping[str, Any]) -> None:
    found = [share(row["counts"][name], row["of"][name]) for row in rows]
    middle = np.array([one["share"] for one in found])
    bars = np.abs([[one["low"] for one in found] - middle, [one["high"] for one in found] - middle])
    axis.errorbar([row["speakers"] for row in rows], middle, yerr=bars, elinewidth=0.8, label=label, **style)


def _accents(axis: Any, found: Mapping[str, Any]) -> None:
    ratios = found["draws"]["ratios"]
    order = np.argsort(ratios["known"]["mean"])
    labels = {"known": "known, all in both levels", "alone": "accent alone", "given noise": "accent given noise"}
    for shift, ((name, label), style) in zip((-0.2, 0.0, 0.2), zip(labels.items(), series())):
        mean = np.array(ratios[name]["mean"])[order]
        spread = np.array(ratios[name]["deviation"])[order]
        bars = [mean - mean * np.exp(-spread), mean * np.exp(spread) - mean]
        place = np.arange(len(order)) + shift
        axis.errorbar(place, mean, yerr=bars, elinewidth=0.8, label=label, **(style | {"linestyle": ""}))
    axis.axhline(1.0, color="0.3", linewidth=0.8)
    names = [found["accents"][i] for i in order]
    named = [f"{name}\n(mostly in noise)" if name == found["exposed"] else name for name in names]
    axis.set_xticks(range(len(order)), named, rotation=35, ha="right", fontsize=8)
    axis.set(ylabel="word error rate ÷ geometric mean of accents")
    axis.set_ylim(top=axis.get_ylim()[1] * 1.25)  # room for the names
    axis.legend(loc="upper right")
