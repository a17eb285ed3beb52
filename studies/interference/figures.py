"""Figures of the study of interference: matrices, trees of groups, and predictions of mixtures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sciops.plotting import PALETTE, figure
from studies.interference.report import per_cent
from studies.kit.figures import panels

if TYPE_CHECKING:
    from studies.interference import Config

_CAPTIONS = {
    "matrices.png": "What the task of a row loses (positive) or gains by training together with the task of a column.",
    "groups.png": "Tasks grouped by mutual interference: those that join low harm each other least.",
    "mixtures.png": "Losses of larger mixtures, measured and predicted from pairs.",
}
_MAP = "PuOr_r"  # orange harm, violet gain: told apart with every colour deficiency


def draw(results: dict[str, Any], config: Config, folder: Path) -> None:
    """matrices.png, groups.png and mixtures.png, each where the arms have what it shows."""
    arms = {arm: found for arm, found in results["arms"].items() if "values" in found}
    if arms:
        with panels(
            folder / "matrices.png", len(arms), 2, width=4.6, height=4.1, caption=_CAPTIONS["matrices.png"]
        ) as axes:
            for axis, (arm, found) in zip(axes, arms.items()):
                _draw_matrix(axis, arm, found)
        with panels(
            folder / "groups.png", len(arms), 2, width=3.6, height=2.6, caption=_CAPTIONS["groups.png"]
        ) as axes:
            for axis, (arm, found) in zip(axes, arms.items()):
                _draw_tree(axis, arm, found)
    mixed = {arm: found for arm, found in arms.items() if "mixtures" in found}
    if mixed:
        caption = _CAPTIONS["mixtures.png"]
        with figure(folder / "mixtures.png", 1, len(mixed), width=3.4, height=3.2, caption=caption) as (_, axes):
            for axis, (arm, found) in zip(axes[0], mixed.items()):
                _draw_mixtures(axis, arm, found)


def _draw_matrix(axis: Any, arm: str, found: dict[str, Any]) -> None:
    values, errors = (np.array(found[key]) for key in ("values", "errors"))
    shown = per_cent(values, found["score"])
    np.fill_diagonal(shown, np.nan)
    largest = float(np.nanquantile(np.abs(shown), 0.97)) or 1.0
    axis.set_facecolor("0.85")  # the diagonal
    image = axis.imshow(shown, cmap=_MAP, vmin=-largest, vmax=largest)
    count = len(shown)
    for i in range(count):
        for j in range(count):
            if i != j:
                sure = abs(values[i, j]) > 2 * errors[i, j]
                dark = abs(shown[i, j]) > 0.7 * largest
                axis.text(
                    j,
                    i,
                    f"{shown[i, j]:+.1f}" if largest < 50 else f"{shown[i, j]:+.0f}",
                    ha="center",
                    va="center",
                    fontsize=6.5,
                    color="white" if dark else "black" if sure else "0.5",
                )
    axis.set_xticks(range(count), found["tasks"], rotation=45, ha="right")
    axis.set_yticks(range(count), found["tasks"])
    axis.set(xlabel="trained together with", ylabel="victim", title=f"{arm}: change of the loss (%)")
    axis.grid(False)
    axis.figure.colorbar(image, ax=axis, shrink=0.75, extend="both", label="harm > 0 (%)")


def _draw_tree(axis: Any, arm: str, found: dict[str, Any]) -> None:
    from scipy.cluster.hierarchy import dendrogram

    tree = np.array(found["groups"]["tree"])
    drawn = dendrogram(tree, no_plot=True)
    base = found["groups"]["base"]
    low = base - 0.15 * tree[-1, 2]  # a leaf; the closest two tasks are joined at the base itself
    for at, heights in zip(drawn["icoord"], drawn["dcoord"]):
        leaves = [i in (0, 3) and heights[i] == 0 and at[i] % 10 == 5 for i in range(4)]
        joined = [low if leaf else base + height for leaf, height in zip(leaves, heights)]
        axis.plot(at, per_cent(joined, found["score"]), color=PALETTE[0])
    places = 10 * np.arange(len(found["tasks"])) + 5
    axis.set_xticks(places, [found["tasks"][i] for i in drawn["leaves"]], rotation=45, ha="right")
    axis.set(ylabel="mean of both losses (%)", title=f"{arm}: who to train together")
    axis.grid(axis="x", visible=False)


def _draw_mixtures(axis: Any, arm: str, found: dict[str, Any]) -> None:
    rows = found["mixtures"]["rows"]
    predicted, measured = (per_cent([row[key] for row in rows], found["score"]) for key in ("predicted", "measured"))
    sizes = np.array([row["mixture"].count(" + ") + 1 for row in rows])
    ends = [min(predicted.min(), measured.min()), max(predicted.max(), measured.max())]
    axis.plot(ends, ends, color="0.5", linewidth=0.8, linestyle=":", label="equal")
    for size, colour, marker in zip((3, 4), PALETTE, "os"):
        own = sizes == size
        if own.any():
            bars = 100 * np.array([row["error"] for row in rows])[own]
            axis.errorbar(
                predicted[own], measured[own], bars, fmt=marker, color=colour, linewidth=0.8, label=f"{size} tasks"
            )
    rank = found["mixtures"]["compared"]["sum of pairs"]["rank"]
    axis.set(xlabel="sum of what pairs lose (%)", ylabel="measured (%)", title=f"{arm}: rank correlation {rank:.2f}")
    axis.legend()
