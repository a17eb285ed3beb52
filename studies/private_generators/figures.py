"""Figures of the study: ROC curves, leakage against utility, leakage against ε."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sciops.evaluation.privacy import gaussian_roc
from sciops.plotting import PALETTE, figure
from studies.kit.figures import panels, round_ticks, ticks
from studies.private_generators.analysis import RATES, gaussian_mu
from studies.private_generators.report import SAYS, data_of, shown

if TYPE_CHECKING:
    from studies.private_generators import Config

_COLOURS = {"diffusion": PALETTE[1], "GAN": PALETTE[0]}
_MARKERS = {"diffusion": "s", "GAN": "o"}
_CAPTIONS = {
    "roc.png": (
        "Rates of the strongest attack, with all that was trained (solid) and with samples alone (dashed), mean over "
        "pools; what no attack on the Gaussian mechanism of the same ε exceeds (dash-dotted); guessing (dotted)."
    ),
    "leakage_utility.png": (
        "AUC of the strongest attack on the released network against the error of the samples' two-point function, "
        "along the training, mean over pools; the end is the larger mark. Dotted: the error of the n records, and that "
        "of white noise."
    ),
    "leakage_epsilon.png": (
        "AUC of the strongest attack at the end of training, by access, over ε; points are pools, lines their means."
    ),
}


def draw(results: Mapping[str, Any], config: Config, folder: Path) -> None:
    """roc.png, leakage_utility.png and leakage_epsilon.png."""
    _roc(results, config, folder / "roc.png")
    _paths(results, config, folder / "leakage_utility.png")
    _over_epsilon(results, config, folder / "leakage_epsilon.png")


def _key(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return row["setting"], row["data"], row["noise"]


def _roc(results: Mapping[str, Any], config: Config, path: Path) -> None:
    from matplotlib.lines import Line2D

    settings = {_key(one): one for one in results["settings"]}
    first = [key for key in settings if key[:2] == ("sweep", config.data[0])]
    shown_keys = [*first[: 3 if len(first) > 3 else None], *(key for key in settings if key[0] != "sweep")]
    rest = [key for key in settings if key[0] == "sweep" and key[1] != config.data[0]]
    shown_keys += rest[: 6 - len(shown_keys)]
    with panels(path, len(shown_keys), 3, width=3.1, height=2.9, caption=_CAPTIONS["roc.png"]) as axes:
        for axis, key in zip(axes, shown_keys):
            one = settings[key]
            for row in results["curves"]:
                if _key(row) != key:
                    continue
                for access, line in (("all", "-"), ("samples", "--")):
                    values = np.maximum(row["curves"][access], 1e-4)
                    axis.plot(RATES, values, color=_COLOURS[row["family"]], linestyle=line)
            axis.plot(RATES, RATES, color="0.5", linestyle=":")
            if np.isfinite(float(one["epsilon"])):
                limit = gaussian_roc(RATES, gaussian_mu(float(one["epsilon"]), config.delta))
                axis.plot(RATES, limit, color="black", linestyle="-.", linewidth=1.0)
            axis.set(xscale="log", yscale="log", xlim=(1e-3, 1), ylim=(1e-3, 1.3))
            axis.set(xlabel="false positive rate", ylabel="true positive rate")
            axis.set_title(f"{data_of(one)}, ε = {shown(one['epsilon'])}")
        handles = [
            *(Line2D([], [], color=colour, label=f"{family}, all networks") for family, colour in _COLOURS.items()),
            *(
                Line2D([], [], color=colour, linestyle="--", label=f"{family}, samples")
                for family, colour in _COLOURS.items()
            ),
            Line2D([], [], color="black", linestyle="-.", linewidth=1.0, label="Gaussian mechanism of this ε"),
            Line2D([], [], color="0.5", linestyle=":", label="guessing"),
        ]
        axes[0].figure.legend(handles=handles, loc="outside lower center", ncols=3)


def _paths(results: Mapping[str, Any], config: Config, path: Path) -> None:
    from matplotlib.lines import Line2D

    epsilons = {_key(one): shown(one["epsilon"]) for one in results["settings"]}
    groups = [
        [row for row in results["utility"] if row["setting"] == "sweep" and row["data"] == d] for d in config.data
    ]
    groups += [many] if (many := [row for row in results["utility"] if row["setting"] != "sweep"]) else []
    lines = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)))
    with panels(path, len(groups), 3, width=3.3, height=3.4, caption=_CAPTIONS["leakage_utility.png"]) as axes:
        for axis, rows in zip(axes, groups):
            noises = list(dict.fromkeys(row["noise"] for row in rows))
            handles = []
            for row in rows:
                line = lines[noises.index(row["noise"]) % len(lines)]
                x, y = (np.mean(row["path"][name], axis=0) for name in ("moments", "network"))
                style = {"color": _COLOURS[row["family"]], "marker": _MARKERS[row["family"]]}
                axis.plot(x, y, linestyle=line, markersize=3, linewidth=1.1, **style)
                axis.plot(x[-1:], y[-1:], linestyle="", markersize=7, **style)
                if row["family"] == "GAN":
                    handles.append(Line2D([], [], color="0.3", linestyle=line, label=f"ε = {epsilons[_key(row)]}"))
            reference = results["references"][rows[0]["data"]]
            names = ("white",) if rows[0]["setting"] != "sweep" else ("own", "white")
            for name in names:
                axis.axvline(reference[name], color="0.5", linestyle=":", linewidth=1.0)
            axis.set(xscale="log", xlabel="relative error of the two-point function", ylabel="AUC, released network")
            axis.set_title(data_of(rows[0]))
            round_ticks(axis.xaxis, *axis.get_xlim(), (1, 2, 3, 5, 7))
            axis.legend(handles=handles, loc="upper right", frameon=True, framealpha=1.0, edgecolor="none")
        kinds = [
            Line2D([], [], color=colour, marker=_MARKERS[family], label=family) for family, colour in _COLOURS.items()
        ]
        axes[0].figure.legend(handles=kinds, loc="outside lower center", ncols=2)


def _over_epsilon(results: Mapping[str, Any], config: Config, path: Path) -> None:
    settings = {_key(one): float(one["epsilon"]) for one in results["settings"]}
    rows = [row for row in results["utility"] if row["setting"] == "sweep"]
    size = {"width": 3.1, "height": 2.8, "sharey": True, "caption": _CAPTIONS["leakage_epsilon.png"]}
    with figure(path, len(config.data), len(SAYS), **size) as (fig, axes):
        for line, data in zip(axes, config.data):
            own = [row for row in rows if row["data"] == data]
            finite = sorted(settings[_key(row)] for row in own if np.isfinite(settings[_key(row)])) or [1.0]
            end = 5 * finite[-1]
            for axis, access in zip(line, SAYS):
                for family, colour in _COLOURS.items():
                    points = _leaks([row for row in own if row["family"] == family], settings, access, end)
                    shift = 1.06 if family == "GAN" else 1 / 1.06
                    style = {"color": colour, "marker": _MARKERS[family]}
                    for x, values in points:
                        axis.plot([x * shift] * len(values), values, linestyle="", markersize=3, alpha=0.5, **style)
                    x, mean = np.array([(x * shift, np.mean(values)) for x, values in points]).T
                    axis.plot(x, mean, color=colour, linestyle="-" if family == "GAN" else "--", label=family)
                axis.axhline(0.5, color="0.5", linestyle=":", linewidth=1.0)
                axis.set(xscale="log", xlabel=f"ε at δ = {config.delta:g}", title=f"{data}: {SAYS[access]}")
                ticks(axis.xaxis, [*finite, end], lambda x, end=end: "∞" if x == end else shown(x))
            line[0].set_ylabel("AUC")
        axes[0, 0].legend(loc="upper left")


def _leaks(
    rows: Sequence[Mapping[str, Any]], settings: Mapping[tuple[Any, ...], float], access: str, end: float
) -> list[tuple[float, list[float]]]:
    """(ε, AUC of every pool) with growing ε; ∞ at `end`."""
    found = [(min(settings[_key(row)], end), [one[-1] for one in row["path"][access]]) for row in rows]
    return sorted(found)
