"""Figures of the study of precision and recall: the plane with ceilings, the curves, features, numbers of samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sciops.plotting import PALETTE, series
from studies.kit.figures import panels

if TYPE_CHECKING:
    from studies.precision_recall import Config

_CAPTIONS = {
    "plane": "Precision and recall of each arm; the star is what the true samples score against themselves.",
    "curves": "Precision-recall curves of the first seed.",
    "features": "The arms as each kind of features shows them: mean and spread over seeds; dotted lines are ceilings.",
    "samples": "The FNO's scores over the number of samples.",
}
_CEILING = {"marker": "*", "color": "black", "markersize": 9, "linestyle": "", "zorder": 5}


def draw(results: Mapping[str, Any], config: Config, folder: Path) -> None:
    """plane.png, curves.png, features.png and samples.png, of the parts that there are."""
    parts = [part for part in ("chain", "text", "fields") if results.get(part)]
    planes = {"chain": _plane_of_chain, "text": _plane_of_text, "fields": _plane_of_fields}
    with panels(folder / "plane.png", len(parts), 3, width=3.6, height=3.4, caption=_CAPTIONS["plane"]) as axes:
        for axis, part in zip(axes, parts):
            planes[part](axis, results[part], config)
            axis.set(xlabel="recall (share)", ylabel="precision (share)", xlim=(-0.03, 1.05), ylim=(-0.03, 1.05))
    curves = {"chain": _curves_of_chain, "text": _curves_of_text, "fields": _curves_of_fields}
    with panels(folder / "curves.png", len(parts), 3, width=3.6, height=3.2, caption=_CAPTIONS["curves"]) as axes:
        for axis, part in zip(axes, parts):
            curves[part](axis, results[part][0], config)
            axis.set(xlabel="recall β (share)", ylabel="precision α (share)", xlim=(0, 1.02), ylim=(0, 1.02))
            axis.legend(loc="best" if part != "fields" else (0.52, 0.02))
    if results.get("fields"):
        _draw_features(results["fields"], folder / "features.png")
        _draw_samples(results["fields"], config, folder / "samples.png")


def _path(axis: Any, points: np.ndarray, temperatures: Sequence[float], label: str, style: Mapping[str, Any]) -> None:
    """Mean (recall, precision) by temperature, with deviations over seeds; points : (temperatures, seeds, 2)."""
    mean, deviation = points.mean(1), points.std(1)
    axis.errorbar(*mean.T, xerr=deviation[:, 0], yerr=deviation[:, 1], elinewidth=0.7, label=label, **style)
    for value, place in zip(temperatures, mean):
        if value in (min(temperatures), 1.0, max(temperatures)):
            axis.annotate(f"T={value:g}", place, (5, -9), textcoords="offset points", fontsize=7, color=style["color"])


def _plane_of_chain(axis: Any, rows: Sequence[Mapping[str, Any]], config: Config) -> None:
    temperatures = sorted(config.temperatures)
    of = lambda r, t, key: r["temperatures"][str(t)][key] if key else r["temperatures"][str(t)]  # noqa: E731
    for key, label, style in zip(("", "sampled"), ("exact", f"{config.samples} samples"), series()):
        points = np.array([[_pair(of(r, t, key)) for r in rows] for t in temperatures])
        _path(axis, points, temperatures, label, style)
    _ceiling(axis, [r["ceiling"] for r in rows], "ceiling of the samples")
    axis.set_title("chain: F(8) and F(1/8) of the curves")
    axis.legend(loc="lower left")


def _plane_of_text(axis: Any, rows: Sequence[Mapping[str, Any]], config: Config) -> None:
    temperatures = sorted(config.temperatures)
    for features, style in zip(("last state", "mean state", "trigrams"), series()):
        points = np.array([[_pair(r["temperatures"][str(t)][features]) for r in rows] for t in temperatures])
        _path(axis, points, temperatures, features, style)
        first = rows[0]["temperatures"][str(temperatures[0])][features]
        _ceiling(axis, [first["ceiling"]], None, color=style["color"])
    axis.plot([], [], label="ceilings", **_CEILING)
    axis.set_title(f"text, k = {config.neighbours}")
    axis.legend(loc="lower left")


def _plane_of_fields(axis: Any, rows: Sequence[Mapping[str, Any]], config: Config) -> None:
    arms = [arm for arm in rows[0]["arms"] if arm != "exchanged"]  # the same outputs as the FNO's
    for arm, style in zip(arms, series()):
        points = np.array([_pair(r["arms"][arm]["fields"]) for r in rows])
        axis.errorbar(
            *points.mean(0)[:, None],
            xerr=points.std(0)[:1],
            yerr=points.std(0)[1:],
            elinewidth=0.7,
            label=arm,
            **(style | {"linestyle": ""}),
        )
    _ceiling(axis, [r["arms"]["FNO"]["fields"]["ceiling"] for r in rows], "ceiling")
    axis.set_title(f"Burgers fields, k = {config.neighbours}")
    axis.legend(loc="lower left", ncols=2)


def _pair(scores: Mapping[str, Any]) -> list[float]:
    return [scores["recall"], scores["precision"]]


def _ceiling(axis: Any, ceilings: Sequence[Mapping[str, Any]], label: str | None, **options: Any) -> None:
    place = [np.mean([one[score]["mean"] for one in ceilings]) for score in ("recall", "precision")]
    axis.plot(*place, label=label, **(_CEILING | options))


def _curves_of_chain(axis: Any, row: Mapping[str, Any], config: Config) -> None:
    axis.set_title("chain, exact")
    _curves(axis, {f"T = {t:g}": row["temperatures"][str(t)]["curve"] for t in _few(config)})


def _curves_of_text(axis: Any, row: Mapping[str, Any], config: Config) -> None:
    axis.set_title("text, clusters of last states")
    _curves(axis, {f"T = {t:g}": row["temperatures"][str(t)]["last state"]["curve"] for t in _few(config)})


def _curves_of_fields(axis: Any, row: Mapping[str, Any], config: Config) -> None:
    axis.set_title("Burgers fields, clusters")
    arms = [arm for arm in ("solver", "FNO", "two families", "noise", "repeats") if arm in row["arms"]]
    _curves(axis, {arm: row["arms"][arm]["fields"]["curve"] for arm in arms})


def _curves(axis: Any, curves: Mapping[str, Mapping[str, Sequence[float]]]) -> None:
    for (label, curve), style in zip(curves.items(), series()):
        axis.plot(curve["recall"], curve["precision"], label=label, **(style | {"marker": None}))


def _few(config: Config) -> list[float]:
    """Temperatures whose curves are drawn."""
    ordered = sorted(config.temperatures)
    near = (min(ordered, key=lambda t: abs(t - wanted)) for wanted in (0.7, 1.0))
    return list(dict.fromkeys([ordered[0], *near, ordered[-1]]))


def _draw_features(rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    arms = list(rows[0]["arms"])
    features = [name for name in rows[0]["arms"][arms[0]] if name not in ("error", "ablation")]
    with panels(path, len(features), 4, width=2.6, height=3.2, sharey=True, caption=_CAPTIONS["features"]) as axes:
        for axis, name in zip(axes, features):
            for score, style, shift in zip(("precision", "recall"), series(), (-0.15, 0.15)):
                values = np.array([[r["arms"][arm][name][score] for r in rows] for arm in arms])
                places = np.arange(len(arms)) + shift
                how = {"xerr": values.std(1), "elinewidth": 0.8, "label": score, **(style | {"linestyle": ""})}
                axis.errorbar(values.mean(1), places, **how)
                ceiling = np.mean([r["arms"]["FNO"][name]["ceiling"][score]["mean"] for r in rows])
                line = {"color": style["color"], "linestyle": ":", "linewidth": 1}
                axis.axvline(ceiling, label=f"{score}, ceiling", **line)
            axis.set(title=f"as {name}", xlabel="score (share)", xlim=(-0.03, 1.03))
            axis.set_yticks(range(len(arms)), arms)
            axis.set_ylim(len(arms) - 0.5, -0.5)
        handles, labels = axes[0].get_legend_handles_labels()
        axes[0].figure.legend(handles, labels, loc="outside lower center", ncols=4)


def _draw_samples(rows: Sequence[Mapping[str, Any]], config: Config, path: Path) -> None:
    sizes = [int(n) for n in rows[0]["arms"]["FNO"]["ablation"]["n"]]
    with panels(path, 2, 2, width=3.2, height=2.7, sharey=True, caption=_CAPTIONS["samples"]) as axes:
        for axis, score in zip(axes, ("precision", "recall")):
            cells = [
                [*(r["arms"]["FNO"]["ablation"]["n"][str(n)] for n in sizes), r["arms"]["FNO"]["fields"]] for r in rows
            ]
            for what, color, shift in (("score", PALETTE[0], 0.98), ("ceiling", PALETTE[1], 1.02)):
                get = lambda c, what=what: c[score] if what == "score" else c["ceiling"][score]["mean"]  # noqa: B023, E731
                values = np.array([[get(c) for c in row] for row in cells])
                x = shift * np.array([*sizes, config.samples])
                marker = "o" if what == "score" else "s"
                axis.errorbar(x, values.mean(0), yerr=values.std(0), color=color, marker=marker, label=f"FNO, {what}")
            axis.set(xlabel="samples of each cloud", ylabel="score (share)", title=score, xscale="log")
            axis.set_xticks([*sizes, config.samples], [str(n) for n in (*sizes, config.samples)])
            axis.set_xticks([], minor=True)
        axes[0].figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
