"""Figures of the study: errors by regime, layers, and bias against variance."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sciops.plotting import PALETTE, figure
from studies.kit.figures import round_ticks

if TYPE_CHECKING:
    from studies.operator_fairness import Config

_CAPTIONS = {
    "regimes.png": "Geometric mean relative L2 error of each regime, with its 95 % interval over seeds and fields.",
    "effects.png": "Errors of a level over those of its reference, with the other factors held.",
    "layers.png": "What linear probes of each layer get wrong: trained, untrained and with shuffled labels.",
    "bias_variance.png": "Mean squared relative error of one training as bias and variance over seeds.",
}


def draw(results: dict[str, Any], config: Config, folder: Path) -> None:
    """regimes.png, effects.png, layers.png and bias_variance.png."""
    arms = results["arms"]
    _regimes(arms, results["factors"], folder / "regimes.png")
    _effects(arms, folder / "effects.png")
    _layers(arms, folder / "layers.png")
    _bias_variance(arms, folder / "bias_variance.png")


def _regimes(arms: Mapping[str, Any], factors: Mapping[str, list[str]], path: Path) -> None:
    (_, rows), (_, contrasts), (_, roughness) = factors.items()
    columns = [(c, r) for c in contrasts for r in roughness]
    values = {arm: np.full((len(rows), len(columns), 3), np.nan) for arm in arms}
    for arm, one in arms.items():
        for cell in one["cells"]:
            boundary, *rest = cell["levels"]
            place = rows.index(boundary), columns.index(tuple(rest))
            values[arm][place] = [cell["error"], cell["low"], cell["high"]]
    everything = np.stack([*values.values()])[..., 0]
    low, high = np.nanmin(everything), np.nanmax(everything)
    from matplotlib.colors import LogNorm

    size = {"width": 0.72 * len(columns) + 1.6, "height": 0.5 * len(rows) + 0.9}
    with figure(path, len(arms), 1, caption=_CAPTIONS["regimes.png"], **size) as (fig, axes):
        for axis, (arm, table) in zip(axes[:, 0], values.items()):
            image = axis.imshow(table[..., 0], norm=LogNorm(low, high), cmap="cividis", aspect="auto")
            for i, j in np.ndindex(*table.shape[:2]):
                error, a, b = table[i, j]
                dark = np.log(error / low) < 0.55 * np.log(high / low)
                text = f"{error:.2f}\n{a:.2f}–{b:.2f}"
                axis.text(j, i, text, ha="center", va="center", fontsize=6.5, color="white" if dark else "black")
            axis.set_yticks(range(len(rows)), rows)
            axis.set_xticks(range(len(columns)), [r.replace(" ", "") for _, r in columns], fontsize=7)
            axis.set_ylabel("boundary")
            for k, contrast in enumerate(contrasts):
                middle = (k + 0.5) * len(roughness) - 0.5
                axis.text(middle, -0.58, f"contrast {contrast}", ha="center", va="bottom", fontsize=7.5)
                if k:
                    axis.axvline(k * len(roughness) - 0.5, color="white", linewidth=2)
            axis.set_title(f"{arm}: relative L2 error, 95 % interval", pad=18)
            axis.grid(False)
        axes[-1, 0].set_xlabel("roughness τ (1 / correlation length)")
        bar = fig.colorbar(image, ax=axes[:, 0].tolist(), label="relative L2 error (geometric mean)", shrink=0.6)
        round_ticks(bar.ax.yaxis, low, high)


def _effects(arms: Mapping[str, Any], path: Path) -> None:
    names = [f"{e['factor']}: {e['level']} / {e['reference']}" for e in next(iter(arms.values()))["effects"]]
    with figure(path, 1, 1, width=5.6, height=0.42 * len(names) + 1.0, caption=_CAPTIONS["effects.png"]) as (_, axes):
        axis = axes[0, 0]
        ends = [1.0]
        for place, ((arm, one), colour, marker) in enumerate(zip(arms.items(), PALETTE, "os^")):
            y = np.arange(len(names)) + 0.22 * (place - (len(arms) - 1) / 2)
            ratio, low, high = (np.array([e[key] for e in one["effects"]]) for key in ("ratio", "low", "high"))
            finite = np.clip([ratio - low, high - ratio], 0, 50 * ratio)
            axis.errorbar(ratio, y, xerr=finite, fmt=marker, color=colour, linewidth=1.0, capsize=2, label=arm)
            ends += [*low, *np.minimum(high, 50 * ratio)]
        axis.axvline(1.0, color="0.5", linewidth=0.8)
        axis.set_xscale("log")
        round_ticks(axis.xaxis, min(ends), max(ends), (1, 1.5, 2, 3, 5, 7))
        axis.set_yticks(range(len(names)), names)
        axis.invert_yaxis()
        axis.set(xlabel="ratio of errors, the other factors held")
        axis.legend()


def _layers(arms: Mapping[str, Any], path: Path) -> None:
    from matplotlib.lines import Line2D

    first = next(iter(arms.values()))["layers"]
    layers, gap = first["layers"], first["gap"]
    names = [name for name in first["read"] if name != "boundary"] or list(first["read"])
    styles = {"trained": "-", "untrained": "--", "shuffled": ":"}
    with figure(path, 1, len(names) + 1, width=3.3, height=3.1, caption=_CAPTIONS["layers.png"]) as (_, axes):
        for (_, one), colour, marker in zip(arms.items(), PALETTE, "os^"):
            read = one["layers"]["read"]
            style = {"color": colour, "marker": marker}
            for axis, name in zip(axes[0], names):
                for kind, line in styles.items():
                    values = np.array(read[name][kind])
                    x = np.arange(len(layers) - values.shape[1], len(layers))
                    axis.errorbar(x, values.mean(0), values.std(0, ddof=1), linestyle=line, capsize=1.5, **style)
            for place, line in ((0, "-"), (1, "--")):
                y = [row["errors"][place] for row in one["layers"]["gap"]["by layer"]]
                axes[0, -1].plot(range(len(layers)), y, linestyle=line, **style)
        for axis, name in zip(axes[0], names):
            axis.axhline(first["read"][name]["guessing"], color="0.6", linewidth=0.8)
            axis.set(title=f"{name} read from a layer", ylabel="share of wrong guesses", ylim=(0, 0.85))
        axes[0, -1].set(title="coarse solution read from a layer", ylabel="squared error / variance", yscale="log")
        round_ticks(axes[0, -1].yaxis, *axes[0, -1].get_ylim())
        for axis in axes[0]:
            axis.set_xticks(range(len(layers)), layers)
        models = [Line2D([], [], color=c, marker=m, label=arm) for arm, c, m in zip(arms, PALETTE, "os^")]
        kinds = [Line2D([], [], color="black", linestyle=line, label=kind) for kind, line in styles.items()]
        guess = Line2D([], [], color="0.6", linewidth=0.8, label="the most frequent level")
        lines = [
            Line2D([], [], color="black", linestyle=s, label=f"{gap['factor']} {l}")
            for s, l in zip(("-", "--"), gap["levels"])
        ]
        axes[0, 0].legend(handles=models, loc="center right")
        axes[0, min(1, len(names) - 1)].legend(handles=[*kinds, guess], loc="lower right")
        axes[0, -1].legend(handles=lines, loc="best")


def _bias_variance(arms: Mapping[str, Any], path: Path) -> None:
    with figure(
        path, 1, len(arms), width=3.4, height=3.6, caption=_CAPTIONS["bias_variance.png"], sharey=True, sharex=True
    ) as (
        _,
        axes,
    ):
        for axis, (arm, one) in zip(axes[0], arms.items()):
            rows = [*one["split"], {"factor": "worst regime", "level": "", **one["worst"]["split"]}]
            y = np.arange(len(rows))
            bias, variance = (np.array([row[key] for row in rows]) for key in ("bias", "variance"))
            axis.barh(y, bias, color=PALETTE[0], label="bias² (no ensemble removes it)")
            axis.barh(y, variance, left=bias, color=PALETTE[4], hatch="//", label="variance over seeds")
            for key, start, shift, colour in (
                ("bias, interval", 0 * bias, -0.17, "black"),
                ("variance, interval", bias, 0.17, "0.35"),
            ):
                low, high = start + np.array([row[key] for row in rows]).T
                axis.hlines(y + shift, low, high, color=colour, linewidth=1.2)
            axis.set_yticks(y, [f"{row['factor']} {row['level']}" for row in rows])
            axis.set(title=arm, xlabel="mean squared relative error")
        axes[0, 0].invert_yaxis()
        axes[0, -1].legend(fontsize=6.5, loc="upper right")
