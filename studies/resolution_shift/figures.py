"""Figures of the resolution-shift study: errors, verdicts, spectra, layers and one test field."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sciops.evaluation import Spread
from sciops.plotting import draw_field, draw_intervals, draw_spectra, figure, series
from studies.resolution_shift.arms import ARMS
from studies.resolution_shift.case import Case

if TYPE_CHECKING:
    from studies.resolution_shift import ResolutionShiftConfig

SHOWN = 8  # test fields of which the spectra are the mean; the first of them is drawn
AGAINST = ("low + sine", "low + cubic", "low + fourier naive")  # ways up that the verdicts show


@dataclass(frozen=True)
class Shown:
    """One trained model on the first test fields: evaluated on the fine grid, and on its own grid and upsampled."""

    model: Any
    direct: Any
    low: Any


def draw(config: ResolutionShiftConfig, case: Case, jobs: list[Any], results: dict[str, Any], folder: Path) -> None:
    """Errors by grid, verdicts, spectra of fields and errors, layer spectra, one test field."""
    from studies.resolution_shift.evaluation import load_trained, predict

    _draw_errors(config, results, folder / "errors.png")
    _draw_verdicts(results, folder / "verdicts.png")
    if results.get("predictions"):
        draw_predictions(results["predictions"], folder / "predictions.png")
    if results.get("layers"):
        draw_layers(results["layers"], folder / "layers.png")
    train, test = config.train_grids[0], max(config.test_grids)
    if test <= train:
        return
    models: dict[str, Shown] = {}
    arms = ARMS[config.recipe]
    for job in jobs:
        if job.points == train and job.seed == 0 and (arms[job.arm].latent or arms[job.arm].trained_as_is):
            model, _ = load_trained(config, case, job)
            low = case.upsample(predict(model, case, train, samples=SHOWN), train, test, "sine")
            models[job.arm] = Shown(model, predict(model, case, test, samples=SHOWN), low)
    _draw_spectra(case, models, train, test, folder / "spectra.png")
    own = {name: shown for name, shown in models.items() if not ARMS[config.recipe][name].latent}
    _draw_layers(case, own, train, test, folder / "layer_spectra.png")
    _draw_fields(case, models, train, test, folder / "fields.png")


def plain_arms(results: dict, train: int) -> list[str]:
    """The arms with errors on a training grid, without the symmetrised ones."""
    seen = [r["arm"] for r in results["errors"] if r["train"] == train and r["arm"] != "reference"]
    return [arm for arm in dict.fromkeys(seen) if not arm.endswith(" (sym)")]


def _draw_errors(config: ResolutionShiftConfig, results: dict, path: Path) -> None:
    lookup = {(r["arm"], r["train"], r["test"], r["way"]): r["relative_l2"] for r in results["errors"]}
    with figure(path, 1, len(config.train_grids), width=4.4, height=3.4, sharey=True) as (fig, axes):
        for axis, train in zip(axes[0], config.train_grids):
            tests = [n for n in config.test_grids if n >= train]

            def points(arm: str, way: str) -> list[tuple[int, Spread]]:
                found = [(n, lookup.get((arm, n if way == "native" else train, n, way))) for n in tests]  # noqa: B023
                return [(n, Spread.read(e).times(100)) for n, e in found if e]

            def line(found: list[tuple[int, Spread]], label: str | None, **style: Any) -> None:
                if found:
                    grids, means, spread = zip(*[(n, e.mean, e.bar) for n, e in found])
                    axis.errorbar(grids, means, yerr=spread, capsize=2, label=label, **style)  # noqa: B023

            for arm, style in zip(plain_arms(results, train), series()):
                line(points(arm, "direct"), arm, **(style | {"linestyle": "-"}))
                low = style | {"linestyle": ":", "markerfacecolor": "white"}
                line(points(arm, "low + sine"), None, **low)
            line(points("reference", "truth + sine"), "floor of low + sine", color="0.6", linestyle="-.", marker="_")
            means = [
                e["mean"] for (_, s, _, way), e in lookup.items() if s == train and way in ("direct", "truth + sine")
            ]
            bottom = 50 * min(means, default=0.0)
            native = points("reference", "native")
            above = [(n, e) for n, e in native if e.mean > bottom]
            line(above, "native solve on the test grid", color="0.3", linestyle="--", marker="x")
            axis.set(xscale="log", yscale="log")
            if bottom > 0:
                axis.set_ylim(bottom=bottom)
            for n in [n for n, e in native if e.mean <= bottom]:  # the labels are this solve: a log axis has no zero
                axis.plot([n], [0.02], "v", color="0.3", transform=axis.get_xaxis_transform(), clip_on=False)
                words = {"textcoords": "offset points", "ha": "right", "fontsize": 7, "color": "0.3"}
                axis.annotate(
                    "native solve: 0, it made the labels",
                    (n, 0.02),
                    (-6, 0),
                    xycoords=axis.get_xaxis_transform(),
                    **words,
                )
            axis.set_xticks(tests, [str(n) for n in tests])
            axis.xaxis.minorticks_off()
            axis.yaxis.set_major_formatter("{x:g}")
            axis.yaxis.set_minor_formatter(lambda x, _: f"{x:g}" if f"{x:e}"[0] in "235" else "")
            axis.tick_params(which="minor", labelsize=7)
            axis.set_xlabel("points per axis of the test grid")
            axis.set_title(f"trained on {train} points")
        axes[0][0].set_ylabel("relative L2 error (%)")
        handles, labels = axes[0][0].get_legend_handles_labels()
        ways = [axes[0][0].plot([], [], color="0.3", linestyle=line)[0] for line in ("-", ":")]
        names = [*labels, "direct", "low + sine"]
        fig.legend([*handles, *ways], names, loc="outside right center")


def _draw_verdicts(results: dict, path: Path) -> None:
    rows_of: dict[tuple[int, int], list[Any]] = defaultdict(list)
    arms = {v["arm"] for v in results["verdicts"]}
    shown = AGAINST if len(arms) < 6 else ("low + sine", "low + fourier naive")
    for v in results["verdicts"]:
        if v["against"] in shown and not v["arm"].endswith(" (sym)"):
            label = f"{v['arm']} vs {v['against']}"
            row = (label, *(100 * v[k] for k in ("difference", "low", "high")))
            rows_of[v["train"], v["test"]].append((row, v["winner"] in ("first", "second")))
    if not rows_of:
        return
    tallest = max(len(rows) for rows in rows_of.values())
    height = 1.1 + 0.2 * tallest
    with figure(path, 1, len(rows_of), width=3.9, height=height, sharey=True) as (fig, axes):
        for axis, (train, test) in zip(axes[0], sorted(rows_of)):
            rows, decided = zip(*rows_of[train, test])
            draw_intervals(axis, rows, decided=decided)
            axis.set_title(f"trained on {train}, wanted on {test} points")
        fig.supxlabel(
            "error direct − error low + upsampling, percentage points\n"
            "left of 0 direct is better, right of 0 upsampling; grey: no verdict",
            fontsize=9,
        )


def draw_predictions(rows: list[dict[str, Any]], path: Path) -> None:
    """One interval per task and arm, direct less low + sine; the label says what was expected."""
    shown = [
        (
            f"{row['task']}, {row['arm']} ({row['expected']})",
            *(100 * row["verdict"][key] for key in ("difference", "low", "high")),
        )
        for row in rows
    ]
    with figure(path, width=7.0, height=1.1 + 0.28 * len(rows)) as (fig, axes):
        draw_intervals(axes[0][0], shown, decided=[row["held"] is not None for row in rows])
        fig.supxlabel(
            "error direct − error low + sine on 43 points, percentage points\n"
            "left of 0 direct is better, right of 0 upsampling; grey: no verdict",
            fontsize=9,
        )


def draw_layers(layers: dict[str, Any], path: Path) -> None:
    """Shares of high wavenumbers by stage on both grids, and what a low-passed stage costs of the output's."""
    train, test = layers["grids"]
    stages = list(dict.fromkeys(row["stage"] for row in layers["shares"]))
    with figure(path, 1, 2, width=4.3, height=3.6) as (fig, axes):
        for axis, kind in zip(axes[0], ("shares", "lost")):
            for arm, style in zip(dict.fromkeys(row["arm"] for row in layers[kind]), series()):
                for grid, line in ((train, "-"), (test, ":")):
                    rows = {r["stage"]: r for r in layers[kind] if (r["arm"], r["grid"]) == (arm, grid)}
                    x = [i for i, stage in enumerate(stages) if stage in rows]
                    seeds = 100 * np.array([rows[stages[i]]["seeds"] for i in x])
                    means = [100 * rows[stages[i]]["mean"] for i in x]
                    label = arm if grid == train else None
                    axis.plot(x, means, label=label, **(style | {"linestyle": line}))
                    if grid == train:
                        axis.fill_between(x, seeds.min(1), seeds.max(1), color=style["color"], alpha=0.15, linewidth=0)
            axis.set_yscale("log")
            axis.set_xticks(range(len(stages)), [s.replace("block ", "") for s in stages], fontsize=8)
            axis.set_xlabel("stage: lift, blocks, output")
        axes[0][0].set_ylabel(f"energy with |k|∞ ≥ {layers['band']} (% of that about the mean)")
        axes[0][1].set_ylabel(f"output's energy with |k|∞ ≥ {layers['band']} lost (%)")
        axes[0][1].axhline(50, color="0.4", linewidth=0.9, linestyle="--")
        handles, labels = axes[0][0].get_legend_handles_labels()
        ways = [axes[0][0].plot([], [], color="0.3", linestyle=line)[0] for line in ("-", ":")]
        fig.legend([*handles, *ways], [*labels, f"on {train} points", f"on {test} points"], loc="outside right center")


def _draw_spectra(case: Case, models: dict[str, Shown], train: int, test: int, path: Path) -> None:
    from sciops.spectral import power_spectrum

    grid, truth = case.grid(test), case.test(test)[1][:SHOWN]

    def spectrum(u: Any) -> tuple[np.ndarray, np.ndarray]:
        wavenumber, energy = power_spectrum(u, grid, taper="hann")
        return np.asarray(wavenumber), np.asarray(energy).reshape(-1, len(wavenumber)).mean(0)

    fields: dict[str, Any] = {"truth": spectrum(truth)}
    errors: dict[str, Any] = {"truth": fields["truth"]}
    styles: dict[str, dict] = {"truth": {"color": "black", "linestyle": "-", "linewidth": 2.0}}
    for (name, shown), style in zip(models.items(), series()):
        fields[f"{name}, direct"] = spectrum(shown.direct)
        errors[f"{name}, direct"] = spectrum(shown.direct - truth)
        errors[f"{name}, low + sine"] = spectrum(shown.low - truth)
        styles[f"{name}, direct"] = {"color": style["color"], "linestyle": "-"}
        styles[f"{name}, low + sine"] = {"color": style["color"], "linestyle": ":"}
    with figure(path, 1, 2, width=4.0, height=3.4, sharey=True) as (fig, axes):
        draw_spectra(axes[0][0], fields, styles=styles)
        axes[0][0].set_title(f"solutions on {test} points (Hann taper)")
        draw_spectra(axes[0][1], errors, styles=styles)
        axes[0][1].set(title="their errors", ylabel="")
        for axis in axes[0]:
            _mark(axis, train)
        fig.legend(*axes[0][1].get_legend_handles_labels(), loc="outside right center")


def _draw_layers(case: Case, models: dict[str, Shown], train: int, test: int, path: Path) -> None:
    """Share of the energy at each wavenumber after every stage of the spine: one row of colours a stage."""
    from sciops.spectral import layer_spectra

    stages_of = {name: _stages(shown.model) for name, shown in models.items()}
    names = [name for name, stages in stages_of.items() if stages][:4]
    if not names:
        return
    height = 0.8 + 0.17 * max(len(stages_of[name]) for name in names)
    with figure(path, len(names), 2, width=4.2, height=height, sharex=True) as (fig, axes):
        for row, name in zip(axes, names):
            stages = stages_of[name]
            for axis, points in zip(row, (train, test)):
                a = case.test(points)[0][:SHOWN]
                spectra = layer_spectra(models[name].model, a, case.grid(points), layers=list(stages))
                k, energy = np.asarray(spectra["wavenumber"]), np.asarray(spectra.sel(layer=list(stages)))
                k, energy = k[k > 0], energy[:, k > 0]
                shares = np.log10(np.maximum(energy / np.maximum(energy.sum(1, keepdims=True), 1e-300), 1e-300))
                image = axis.pcolormesh(
                    k, range(len(stages)), shares, vmin=-6, vmax=0, shading="nearest", rasterized=True
                )
                axis.set(xscale="log", title=f"{name} on {points} points")
                axis.set_yticks(range(len(stages)), list(stages.values()) if points == train else [])
                axis.set_ylim(len(stages) - 0.5, -0.5)
                axis.tick_params(axis="y", labelsize=7)
                axis.grid(visible=False)
                axis.axvline(train / 2, color="white", linewidth=1.0, linestyle=":")
        for axis in axes[-1]:
            axis.set_xlabel("wavenumber k (periods per domain)")
        bar = fig.colorbar(image, ax=axes, shrink=0.8, extend="min")
        bar.set_label("share of the energy about the mean, log₁₀")


def _stages(model: Any) -> dict[str, str]:
    """Label of `layer_spectra` → name of the stages of the spine: lift, each block's mixer and end, output."""
    found = {}
    for label, _ in model.named_modules():
        parts = label.split(".")
        while parts[0] == "model":
            parts = parts[1:] or [""]
        if parts == ["lift"]:
            found[label] = "lift"
        elif parts[0] == "blocks" and len(parts) == 2:
            found[f"{label}.mixer"] = f"mixer {parts[1]}"
            found[label] = f"block {parts[1]}"
    return found | {"output": "output"} if found else {}


def _draw_fields(case: Case, models: dict[str, Shown], train: int, test: int, path: Path) -> None:
    """The first test field, and the error of every model in both ways on one scale."""
    from sciops.metrics import relative_l2

    a, truth = (t[:1] for t in case.test(test))
    grid = case.grid(test)
    errors = {name: (shown.direct[:1] - truth, shown.low[:1] - truth) for name, shown in models.items()}
    # one scale for all: the median of the largest errors, so that one bad model does not blank the others
    largest = float(np.median([max(float(e.abs().max()) for e in pair) for pair in errors.values()]))
    columns = 1 + len(models)
    with figure(path, 2, columns, width=1.75, height=1.95) as (fig, axes):
        draw_field(fig, axes[0][0], a[0, 0].numpy(), grid, title="coefficient a")
        draw_field(fig, axes[1][0], truth[0, 0].numpy(), grid, title="solution u")
        for column, (name, pair) in enumerate(errors.items(), start=1):
            for axis, way, error in zip(axes[:, column], ("direct", f"{train} + sine"), pair):
                percent = 100 * float(relative_l2(error + truth, truth)[0])
                image = draw_field(
                    fig,
                    axis,
                    error[0, 0].numpy(),
                    grid,
                    title=f"{name}\n{way}: {percent:.1f} %",
                    signed=True,
                    vmin=-largest,
                    vmax=largest,
                    bar=False,
                )
                axis.set(xticks=[], yticks=[])
        bar = fig.colorbar(image, ax=axes[:, 1:], shrink=0.8, extend="both")
        bar.set_label("error, one scale for all")
        fig.suptitle(f"First test field on {test} points, models of seed 0: errors, and relative L2", fontsize=9)


def _mark(axis: Any, train: int) -> None:
    """A line at the wavenumber that the training grid just resolves."""
    axis.axvline(train / 2, color="0.5", linewidth=0.8, linestyle=":")
    words = {"transform": axis.get_xaxis_transform(), "fontsize": 7, "color": "0.4"}
    axis.text(train / 2, 0.02, f" half of {train}", **words)
