"""The tables and figures of the study of certified operators."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sciops.plotting import PALETTE, figure, series
from studies.kit.answers import extent, sentence
from studies.kit.figures import band, ticks
from studies.kit.tables import print_table

if TYPE_CHECKING:
    from studies.certified_operators import Config


def show(results: dict[str, Any], config: Config) -> None:
    """Prints the tables."""
    models = [{"model": _name(model), **model} for model in results["models"]]
    complete = _complete({"models": models})
    columns = "operator; nodes=points; random:.6f; attack:.6f; true:.6f; certificate:.9f"
    title = "linear operators, ‖·‖_h to ‖·‖_h: what perturbations of size 1 reach"
    print_table(results["linear"], columns, title=title)
    print_table(
        models,
        "model",
        *(f"error {n}², %=100*errors.{n}:.2f" for n in config.grids),
        *(f"L {n}²=bounds.{n}:.5g" for n in config.grids),
        ("power it.", lambda row: f"{max(row['slopes'][0]['power'][: len(row['slopes'][0]['dense'])]):.4g}"),
        ("whole J", lambda row: f"{max(row['slopes'][0]['dense']):.4g}"),
        title="relative L² error; certificate L from ‖·‖_h to ‖·‖_h; largest Jacobian norm at the same fields",
    )
    print_table(
        [{"model": model["model"], **row} for model in models for row in model["sandwich"]],
        "model; nodes=points; ε, %=100*share:g",
        *((key, lambda row, key=key: f"{100 * np.mean(row[key]):.3g}") for key in ("random", "attack", "certificate")),
        "ratio=tightness:.3g",
        title="change of the output over ‖G(a)‖_h in %, mean over attacked fields; ratio = certificate/attack",
    )
    errors = "; ".join(f"{key}=100*errors.{key}:.3g" for key in ("difference", "fixed truth", "solver inside"))
    print_table(
        [{"model": model["model"], **row} for model in complete for row in model["solver"]],
        f"model; ε, %=100*share:g; clean=100*clean:.3g; {errors}; S moves=100*solution_moves:.3g",
        title="true relative error ‖G − S‖/‖S‖ at the attacked input in %, by what the attack maximised",
    )
    _show_coverage(complete, config)
    columns = "model; nodes=points; CM norm=cameron_martin:.8f; white norm=white_points:.3f; ‖δ‖/‖a‖, %=100*delta:.2f"
    changes = "moved=100*moved:.3g; certified=100*smoothed:.3g; L on the ball=100*lipschitz_ball:.3g"
    rows = [{"model": model["model"], **row} for model in complete for row in model["smoothing"]]
    if rows:
        title = "center smoothing with Gaussian-field noise: one δ on several grids; changes over ‖G(a)‖_h in %"
        print_table(rows, columns, changes, title=title)


def answer(results: dict[str, Any]) -> str:
    """Whether a bound was broken, and how far the certificates lie above the strongest attack."""
    faults = results["faults"]
    said = [f"{len(faults)} bounds do not hold" if faults else "no attack found breaks a certificate"]
    for model in _complete(results):
        ratios = extent(row["tightness"] for row in model["sandwich"])
        said.append(f"{_name(model)}: certificates are {ratios} times what the strongest attack reached")
    return sentence(*said)


def _show_coverage(models: list[dict[str, Any]], config: Config) -> None:
    def coverage(key: str) -> Callable[[dict[str, Any]], str]:
        return lambda row: "{:.1f} ({:.0f}, {:.0f})".format(
            *(f(_shares(row["conformal"], key)) for f in (np.mean, min, max))
        )

    def radius(key: str) -> Callable[[dict[str, Any]], str]:
        mean = lambda study: 100 * np.mean([split[key] for split in study["splits"]])  # noqa: E731
        return lambda row: f"{mean(row['conformal']) / row['conformal']['typical_solution']:.2f}"

    wanted = f"{100 * (1 - config.alpha):g} %"
    print_table(
        models,
        "model; expected=100*conformal.expected:.1f",
        *((key, coverage(key)) for key in ("clean", "attacked", "inflated")),
        ("radius/‖u‖, %", radius("threshold")),
        ("inflated", radius("inflated_threshold")),
        "ε_∞=conformal.epsilon:.3g; L_G=conformal.lipschitz_model:.3g; L_S=conformal.lipschitz_truth:.3g",
        "growth/ε_∞=conformal.movement:.3g",
        title=f"conformal balls, {config.splits} splits, wanted {wanted}: mean coverage (least, most) in %; growth: "
        "the most that attacked errors grew by",
    )


def draw(results: dict[str, Any], config: Config, folder: Path) -> None:
    """sandwich.png: the sandwich by grid; certificates.png: accuracy against certificate, and coverage."""
    models = _complete(results)
    size = dict(width=2.8, height=2.5, sharey=True)
    size["caption"] = (
        "Change of the output against the size of the perturbation: certificates above, the strongest attack and the "
        "best random perturbation below; bands from the least to the largest field."
    )
    caption = (
        "Left: error against certificate and slope by penalty. Others: share of covered test fields over random "
        "splits, clean, attacked, and attacked with the inflated set."
    )
    with figure(folder / "sandwich.png", len(models), len(config.grids), **size) as (_, axes):
        for line, model in zip(axes, models):
            for axis, points in zip(line, config.grids):
                _draw_sandwich(axis, model, points)
            line[0].set_ylabel("change of output (% of ‖G(a)‖)")
        for axis in axes[-1]:
            axis.set_xlabel("ε (% of ‖a‖)")
        axes[-1, 0].legend(loc="upper left")
    with figure(folder / "certificates.png", 1, 1 + len(models), width=3.2, height=2.7, caption=caption) as (_, axes):
        _draw_accuracy(axes[0, 0], results, config)
        for axis, model in zip(axes[0, 1:], models):
            _draw_coverage(axis, model)


def _draw_sandwich(axis: Any, model: dict[str, Any], points: int) -> None:
    rows = [row for row in model["sandwich"] if row["points"] == points]
    slope = next(slope for slope in model["slopes"] if slope["points"] == points)
    x = [100 * row["share"] for row in rows]
    names = {"certificate": "certificate L·ε", "attack": "PGD", "random": "best random"}
    for (key, label), style in zip(names.items(), series()):
        band(axis, x, 100 * np.array([row[key] for row in rows]).T, label=label, style=style, alpha=0.2)
    count = len(slope["dense"] or slope["power"])
    kind, norms = ("whole", slope["dense"]) if slope["dense"] else ("power iteration", slope["power"])
    shares = np.array([row["certificate"][:count] for row in rows]) / slope["bound"]  # ε over ‖G(a)‖
    axis.loglog(x, 100 * (shares * np.array(norms)).mean(1), color="0.2", linestyle=":", label="slope ‖J(a)‖·ε")
    axis.set_title(f"{_name(model)}, {points}² ({kind} J)")
    ticks(axis.xaxis, x)


def _draw_accuracy(axis: Any, results: dict[str, Any], config: Config) -> None:
    first = str(config.grids[0])
    errors = [100 * row["errors"][first] for row in results["models"]]
    bounds = [row["bounds"][first] for row in results["models"]]
    slopes = [max(row["slopes"][0]["dense"]) for row in results["models"]]
    axis.plot(bounds, errors, "o-", color=PALETTE[0], label="certificate L")
    axis.plot(slopes, errors, "s--", color=PALETTE[1], label="slope ‖J(a)‖")
    for model, x, y in zip(results["models"], bounds, errors):
        axis.annotate(f"{model['penalty']:g}", (x, y), textcoords="offset points", xytext=(4, 4), fontsize=7)
    axis.set(xscale="log", xlabel="Lipschitz constant (u per a, in L²)", ylabel="relative L² error (%)")
    axis.set_xlim(0.6 * min(slopes), 2 * max(bounds))
    axis.set_ylim(0, 1.15 * max(errors))
    axis.set_title("penalties beside the points")
    axis.legend()


def _draw_coverage(axis: Any, model: dict[str, Any]) -> None:
    study = model["conformal"]
    tests, splits = study["tests"], len(study["splits"])
    step = max(1, tests // 50)
    edges = 100 * np.arange(-0.5, tests + step, step) / tests
    kinds = (("clean", "clean", PALETTE[0]), ("attacked", "attacked", PALETTE[1]))
    for key, label, color in (*kinds, ("inflated", "attacked, inflated set", PALETTE[2])):
        axis.hist(_shares(study, key), bins=edges, color=color, alpha=0.6, label=label)
    expected = splits * step * np.array(study["law"])
    axis.plot(100 * np.arange(tests + 1) / tests, expected, color="0.2", label="law of clean")
    axis.axvline(100 * (1 - study["alpha"]), color="0.4", linewidth=0.8, linestyle=":")
    least = min(_shares(study, key).min() for key in ("clean", "attacked"))
    axis.set_xlim(max(-1.0, min(least, 75.0) - 5), 102)
    axis.set(xlabel="covered test fields (%)", ylabel="splits", title=_name(model))
    axis.legend(loc="upper left")


def _complete(results: dict[str, Any]) -> list[dict[str, Any]]:
    """The models that all parts were measured for."""
    return [row for row in results["models"] if row["conformal"]]


def _name(model: dict[str, Any]) -> str:
    return "plain" if model["penalty"] == 0 else f"penalty {model['penalty']:g}"


def _shares(study: dict[str, Any], key: str) -> np.ndarray:
    return 100 * np.array([split[key] for split in study["splits"]])
