"""Figures of the study of conditional quantization: modes with weights, scores, calibration of the weights."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sciops.grids import Grid
from sciops.plotting import PALETTE, draw_field, figure, series
from studies.conditional_quantization.arms import OURS
from studies.conditional_quantization.cases import case_of, data_of
from studies.kit.figures import panels

if TYPE_CHECKING:
    from studies.conditional_quantization import Config

_PANELS = 5  # fields in a row
_CAPTIONS = {
    "scores.png": "Energy score of each model: mean over seeds and test fields, with the least and the greatest seed.",
    "calibration.png": "How often a point is the nearest to the truth, against its weight; all seeds together.",
    "modes.png": "The points of a law with their weights, for one test input, beside a field that was true for it.",
}
_SHORT = ("quantized", "one point", "ensemble", "quantiles", "flow")


def draw(results: Mapping[str, Any], config: Config, folder: Path) -> None:
    """scores.png, calibration.png, and modes_CASE.png of each case."""
    _draw_scores(results, folder / "scores.png")
    _draw_calibration(results, folder / "calibration.png")
    for case in config.cases:
        _draw_modes(results, config, case, folder / f"modes_{case}.png")


def _draw_scores(results: Mapping[str, Any], path: Path) -> None:
    cases = results["summary"]
    longest = max(len(own["arms"]) + len(own["variants"]) for own in cases.values())
    size = {"width": 3.6, "height": 0.8 + 0.24 * longest}
    with panels(path, len(cases), 3, caption=_CAPTIONS["scores.png"], **size) as axes:
        for axis, (case, own) in zip(axes, cases.items()):
            rows = [*own["arms"], *own["variants"]]
            for i, row in enumerate(rows):
                found = row["scores"]["energy"]
                color = PALETTE[0] if row["name"].startswith(OURS) else "0.35"
                axis.plot([found.low, found.high], [i, i], color=color, linewidth=2.0)
                axis.plot([found.mean], [i], "o", color=color)
            axis.set_yticks(range(len(rows)), [row["name"] for row in rows])
            axis.set_ylim(len(rows) - 0.5, -0.5)
            axis.set(title=case, xlabel="energy score ($L^2$ norm of the field)")
            axis.set_xlim(left=0)


def _draw_calibration(results: Mapping[str, Any], path: Path) -> None:
    with figure(path, caption=_CAPTIONS["calibration.png"]) as (_, axes):
        axis = axes[0, 0]
        axis.plot([0, 1], [0, 1], color="0.5", linewidth=0.8)
        for (case, own), style in zip(results["summary"].items(), series()):
            pooled = own["weights"]["pooled"]
            axis.plot(pooled["predicted"], pooled["observed"], label=case, **style)
        axis.set(xlabel="weight of a point", ylabel="frequency of being the nearest", xlim=(0, 1), ylim=(0, 1))
        axis.set_aspect("equal")
        axis.legend()


def _draw_modes(results: Mapping[str, Any], config: Config, case: str, path: Path) -> None:
    found = {r["arm"]: r["shown"][0] for r in results["runs"] if r["case"] == case and r["shown"]}
    arms = [arm for arm in _SHORT if arm in found]
    truth, grid = _truth(config, case)
    if grid.ndim == 1:
        _draw_curves({arm: found[arm] for arm in arms}, truth, grid, path)
        return
    arms = [arm for arm in arms if arm != "quantiles"]
    fields = [truth, *(np.asarray(p) for arm in arms for p in found[arm]["points"][: _PANELS - 1])]
    limits = {"vmin": float(np.min(fields)), "vmax": float(np.max(fields))}
    with figure(path, len(arms), _PANELS, width=1.75, height=1.85, caption=_CAPTIONS["modes.png"]) as (fig, axes):
        image = None
        for row, arm in zip(axes, arms):
            image = draw_field(fig, row[0], truth, grid, title="true", bar=False, **limits)
            row[0].set_ylabel(arm)
            shown = list(zip(found[arm]["points"], found[arm]["weights"]))[: _PANELS - 1]
            for axis, (points, weight) in zip(row[1:], shown):
                draw_field(fig, axis, np.asarray(points), grid, title=f"weight {weight:.2f}", bar=False, **limits)
            for axis in row[1 + len(shown) :]:
                axis.set_visible(False)
            for axis in row:
                axis.set_xticks([])
                axis.set_yticks([])
        fig.colorbar(image, ax=axes.ravel().tolist(), shrink=0.6, label=_UNITS[case])


_UNITS = {
    "mirror": "coefficient k",
    "sensors": "logarithm of the coefficient",
    "digits": "brightness",
    "vorticity": "vorticity, in standard deviations",
}


def _draw_curves(found: Mapping[str, Any], truth: np.ndarray, grid: Grid, path: Path) -> None:
    (x,) = grid.coordinates()
    with panels(path, len(found), 5, width=2.5, height=2.8, sharey=True, caption=_CAPTIONS["modes.png"]) as axes:
        for axis, (arm, own) in zip(axes, found.items()):
            axis.plot(x, truth, color="0.6", linewidth=3.5, label="true")
            axis.plot(x, truth[::-1], color="0.6", linewidth=3.5, linestyle=":", label="its mirror image")
            for points, weight, style in zip(own["points"], own["weights"], series()):
                style = style | {"marker": None, "linestyle": "-", "linewidth": 1.2}
                axis.plot(x, points, label=f"{weight:.2f}" if len(own["points"]) < 5 else None, **style)
            axis.set(title=arm, xlabel="x")
            axis.legend(fontsize=6, loc="upper center", bbox_to_anchor=(0.5, -0.22), ncols=2)
        axes[0].set_ylabel("coefficient k")


def _truth(config: Config, case: str) -> tuple[np.ndarray, Grid]:
    """The first test field."""
    one = case_of(*data_of(case, config))
    return one.splits.test.y[0, 0].numpy(), one.grid
