"""Figures of the study: parts of planted gaps, transfer matrices, layers, and scatter against error."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sciops.plotting import PALETTE
from studies.embedding_errors.cells import GROUP, WHOLE
from studies.embedding_errors.report import last_of
from studies.kit.accents import ACCENTS, REFERENCE
from studies.kit.fields.rough import NETWORKS
from studies.kit.figures import band, panels

if TYPE_CHECKING:
    from studies.embedding_errors import Config

_CAPTIONS = {
    "plants.png": "Parts of planted gaps: theory (bars) and what was measured (points, one for each seed).",
    "transfer.png": "Errors of probes trained on the accent of a row and tested on the accent of a column, last layer, "
    "mean over seeds; what a probe of its own gains an accent over one of all accents.",
    "layers.png": "Parts of the gap by layer, against a probe of the reference group: what a probe of the group's own "
    "leaves (irreducible) and what it removes (systematic). Bands: least to greatest over seeds.",
    "scatter.png": "Scatter of a speaker's phonemes about their means, over that of all speakers, against the error of "
    "a probe of all accents on that speaker; means over seeds.",
}
_MARKERS = "os^D"


def draw(results: Mapping[str, Any], config: Config, folder: Path) -> None:
    """plants.png, transfer.png, layers.png and scatter.png, each where its part was run."""
    if results.get("plants"):
        _draw_plants(results["plants"], folder / "plants.png")
    if results.get("speech"):
        _draw_transfer(results["speech"], folder / "transfer.png")
        _draw_scatter(results["speech"], folder / "scatter.png")
    if results.get("speech") or results.get("fields"):
        _draw_layers(results, folder / "layers.png")


def _draw_plants(own: Any, path: Path) -> None:
    names = [*own[0]["plants"]]
    places = np.arange(len(names))
    with panels(path, 2, 2, width=4.3, height=3.0, caption=_CAPTIONS["plants.png"]) as axes:
        for axis, part, colour in zip(axes, ("irreducible", "systematic"), PALETTE):
            theory = []
            for name in names:
                t = own[0]["plants"][name]["theory"]
                irreducible = t["B → B"] - t["A → A"]
                theory.append(irreducible if part == "irreducible" else t["A → B"] - t["A → A"] - irreducible)
            axis.barh(places, theory, height=0.6, color=colour, alpha=0.35, label="theory")
            for i, one in enumerate(own):
                values = [one["plants"][name][part] for name in names]
                axis.plot(values, places, "o", color=colour, markersize=3, label="" if i else "measured")
            axis.axvline(0.0, color="0.5", linewidth=0.8)
            axis.set_yticks(places, names if part == "irreducible" else [""] * len(names))
            axis.invert_yaxis()
            axis.set(xlabel=f"{part} part (difference of errors)", title=part)
            axis.legend(loc="lower right")


def _draw_transfer(own: Any, path: Path) -> None:
    arms = ("log-mel", "pre-trained", "fine-tuned")
    with panels(path, len(arms) + 1, 4, width=3.1, height=3.2, caption=_CAPTIONS["transfer.png"]) as axes:
        mean = {arm: np.mean([last_of(r["arms"][arm])["errors"] for r in own], axis=0) for arm in arms}
        top = max(values.max() for values in mean.values())
        for axis, arm in zip(axes, arms):
            one = last_of(own[0]["arms"][arm])
            axis.imshow(mean[arm], cmap="Blues", vmin=0.0, vmax=top, aspect="auto")
            for (i, j), value in np.ndenumerate(mean[arm]):
                axis.text(j, i, f"{value:.2f}", ha="center", va="center", color="w" if value > 0.6 * top else "0.1")
            rows = ["all" if name == "balanced" else name for name in one["trained"]]
            axis.set_yticks(range(len(rows)), rows if arm == arms[0] else [""] * len(rows))
            axis.set_xticks(range(len(one["groups"])), one["groups"], rotation=30, ha="right")
            axis.set(title=arm, xlabel="tested on", ylabel="trained on" if arm == arms[0] else "")
            axis.grid(False)
        axis = axes[-1]
        shown = [arm for arm in own[0]["arms"]]
        for k, (group, marker) in enumerate(zip(ACCENTS, _MARKERS)):
            for i, arm in enumerate(shown):
                values = [last_of(r["arms"][arm])["gains"][group] for r in own]
                at = i + 0.22 * (k - 1)
                axis.plot([at, at], [min(values), max(values)], color=PALETTE[k], linewidth=1)
                axis.plot(at, np.mean(values), marker, color=PALETTE[k], label="" if i else group, markersize=4)
        axis.axhline(0.0, color="0.5", linewidth=0.8, linestyle=":")
        axis.set_xticks(range(len(shown)), shown, rotation=30, ha="right")
        low, high = axis.get_ylim()
        axis.set_ylim(low, high + 0.35 * (high - low))
        axis.set(ylabel="gain (difference of errors)", title="gain of a probe of its own")
        axis.legend(ncols=2, loc="upper center")


def _draw_layers(results: Mapping[str, Any], path: Path) -> None:
    curves: list[tuple[str, list[str], dict[str, np.ndarray]]] = []
    parts = ("irreducible", "systematic")
    for arm in WHOLE if results.get("speech") else ():
        layers = [*results["speech"][0]["arms"][arm]]
        of = {
            part: np.array(
                [
                    [r["arms"][arm][layer]["splits"][GROUP]["reference"][part] for layer in layers]
                    for r in results["speech"]
                ]
            )
            for part in parts
        }
        curves.append((f"{arm} encoder: {GROUP} − {REFERENCE}", layers, of))
    for network in NETWORKS if results.get("fields") else ():
        layers = [*results["fields"][0][network]["arms"]["trained"]]
        of = {}
        for part in parts:
            rows = []
            for r in results["fields"]:
                arms = r[network]["arms"]
                cells = [arms["input"]["input"], *(arms["trained"][layer] for layer in layers)]
                rows.append([cell["content"]["splits"]["rough"]["reference"][part] for cell in cells])
            of[part] = np.array(rows)
        curves.append((f"{network}: rough − smooth", ["input", *layers], of))
    with panels(path, len(curves), 2, width=3.9, height=2.8, caption=_CAPTIONS["layers.png"]) as axes:
        for axis, (title, layers, of) in zip(axes, curves):
            places = np.arange(len(layers))
            for part, colour, marker in zip(parts, PALETTE, _MARKERS):
                band(axis, places, of[part], label=part, style={"color": colour, "marker": marker})
            axis.axhline(0.0, color="0.5", linewidth=0.8, linestyle=":")
            axis.set_xticks(places, [name.replace("block ", "") for name in layers])
            low, high = axis.get_ylim()
            axis.set_ylim(low, high + 0.25 * (high - low))
            axis.set(xlabel="block", ylabel="part of the gap in errors", title=title)
            axis.legend(ncols=2, loc="upper center")


def _draw_scatter(own: Any, path: Path) -> None:
    arms = ("log-mel", "random", "pre-trained")
    with panels(path, len(arms), 3, width=3.5, height=3.0, caption=_CAPTIONS["scatter.png"]) as axes:
        for axis, arm in zip(axes, arms):
            each = [r["links"][arm]["speakers"] for r in own]
            x, y = (np.mean([one[key] for one in each], axis=0) for key in ("scatter", "error"))
            accent = np.array(each[0]["accent"])
            for group, colour, marker in zip(ACCENTS, PALETTE, _MARKERS):
                rows = accent == group
                axis.plot(x[rows], y[rows], marker, color=colour, label=group, markersize=4)
            rho = np.mean([r["links"][arm]["correlations"]["given accent and number"][0] for r in own])
            low, high = axis.get_ylim()
            axis.set_ylim(low, high + 0.3 * (high - low))
            axis.set(xlabel="scatter of the speaker (1: average)", ylabel="error of the pooled probe")
            axis.set_title(f"{arm}: ρ = {rho:+.2f} within accents")
            axis.legend(ncols=3, loc="upper center", handletextpad=0.2, columnspacing=0.8)
