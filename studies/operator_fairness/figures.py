"""Figures of the study: errors by regime, layers, and bias against variance."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sciops.plotting import PALETTE, figure

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
            axis.set(title=f"{arm}: relative L2 error", ylabel="boundary")
            for k, contrast in enumerate(contrasts):
                middle = (k + 0.5) * len(roughness) - 0.5
                axis.text(middle, -0.62, f"contrast {contrast}", ha="center", va="bottom", fontsize=7.5)
                if k:
                    axis.axvline(k * len(roughness) - 0.5, color="white", linewidth=2)
            axis.title.set_position((0.5, 1.0))
            axis.set_title(axis.get_title(), pad=14)
            axis.grid(False)
        axes[-1, 0].set_xlabel("roughness τ (1 / correlation length)")
        fig.colorbar(image, ax=axes[:, 0].tolist(), label="relative L2 error (geometric mean)", shrink=0.6)


def _effects(arms: Mapping[str, Any], path: Path) -> None:
    from studies.kit.figures import round_ticks

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
    read = next(iter(arms.values()))["layers"]["read"]
    names = [name for name in read if name != "boundary"] or list(read)
    titles = [*names, "coarse solution"]
    styles = {"trained": "-", "untrained": "--", "shuffled": ":"}
    with figure(path, 1, len(titles), width=3.3, height=2.9, caption=_CAPTIONS["layers.png"]) as (_, axes):
        for (arm, one), colour, marker in zip(arms.items(), PALETTE, "os^"):
            found = one["layers"]
            layers = found["layers"]
            for axis, name in zip(axes[0], names):
                for kind, line in styles.items():
                    values = np.array(found["read"][name][kind])
                    x = np.arange(len(layers) - values.shape[1], len(layers))
                    mean, spread = values.mean(0), values.std(0, ddof=1)
                    label = f"{arm}, {kind}" if axis is axes[0, 0] else None
                    axis.errorbar(
                        x, mean, spread, color=colour, linestyle=line, marker=marker, label=label, capsize=1.5
                    )
            gap = found["gap"]
            for place, line in ((0, "-"), (1, "--")):
                y = [row["errors"][place] for row in gap["by layer"]]
                label = f"{arm}, {gap['levels'][place]}"
                axes[0, -1].plot(range(len(layers)), y, color=colour, linestyle=line, marker=marker, label=label)
        for axis, title in zip(axes[0], titles):
            axis.set_xticks(range(len(layers)), layers, rotation=30)
            axis.set(title=f"{title} read from a layer", ylim=(0, None))
        for axis in axes[0, :-1]:
            axis.set_ylabel("share of wrong guesses (± deviation over seeds)")
        axes[0, -1].set_ylabel("squared error / variance of the targets")
        axes[0, -1].legend(fontsize=6)
        axes[0, 0].legend(fontsize=6)


def _bias_variance(arms: Mapping[str, Any], path: Path) -> None:
    with figure(path, 1, len(arms), width=3.4, height=3.6, caption=_CAPTIONS["bias_variance.png"], sharey=True) as (
        _,
        axes,
    ):
        for axis, (arm, one) in zip(axes[0], arms.items()):
            rows = [*one["split"], {"factor": "worst", "level": "regime", **one["worst"]["split"]}]
            y = np.arange(len(rows))
            bias, variance = (np.array([row[key] for row in rows]) for key in ("bias", "variance"))
            axis.barh(y, bias, color=PALETTE[0], label="bias² (no ensemble removes it)")
            axis.barh(y, variance, left=bias, color=PALETTE[4], hatch="//", label="variance over seeds")
            for key, start, colour in (("bias, interval", 0 * bias, "black"), ("variance, interval", bias, "0.35")):
                ends = np.array([row[key] for row in rows])
                values = ends.mean(axis=1)
                at = start + values
                axis.errorbar(at, y, xerr=np.abs(ends[:, 1] - values), fmt="none", ecolor=colour, capsize=2)
            axis.set_yticks(y, [f"{row['factor']}: {row['level']}" for row in rows])
            axis.set(title=arm, xlabel="mean squared relative error")
        axes[0, 0].invert_yaxis()
        axes[0, -1].legend(fontsize=6.5, loc="upper right")
