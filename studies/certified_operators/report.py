"""The tables and figures of the study of certified operators."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sciops.plotting import PALETTE, figure, series

if TYPE_CHECKING:
    from studies.certified_operators import Config


def show(results: dict[str, Any], config: Config) -> None:
    """Prints the tables."""
    print("\nlinear operators, ‖·‖_h to ‖·‖_h: what perturbations of size 1 reach")
    print(f"{'operator':<24}{'nodes':>6}{'random':>12}{'attack':>12}{'true':>12}{'certificate':>14}")
    for row in results["linear"]:
        cells = "".join(f"{row[key]:>12.6f}" for key in ("random", "attack", "true"))
        print(f"{row['operator']:<24}{row['points']:>6}{cells}{row['certificate']:>14.9f}")

    print("\nrelative L² error; certificate L from ‖·‖_h to ‖·‖_h; largest Jacobian norm at the same fields")
    heads = "".join(f"{f'error {n}²':>12}" for n in config.grids) + "".join(f"{f'L {n}²':>12}" for n in config.grids)
    print(f"{'model':<16}{heads}{'power it.':>12}{'whole J':>12}")
    for row in results["models"]:
        errors = "".join(f"{100 * row['errors'][str(n)]:>10.2f} %" for n in config.grids)
        bounds = "".join(f"{row['bounds'][str(n)]:>12.5g}" for n in config.grids)
        slope = row["slopes"][0]
        power = slope["power"][: len(slope["dense"])]
        print(f"{_name(row)}{errors}{bounds}{max(power):>12.4g}{max(slope['dense']):>12.4g}")

    print("\nsandwich: change of the output over ‖G(a)‖_h in %, mean over attacked fields; ratio = certificate/attack")
    print(f"{'model':<16}{'nodes':>6}{'ε':>7}{'random':>10}{'attack':>10}{'certificate':>14}{'ratio':>9}")
    for model in results["models"]:
        for row in model["sandwich"]:
            low, middle, high = (100 * np.mean(row[key]) for key in ("random", "attack", "certificate"))
            start = f"{_name(model)}{row['points']:>6}{_percent(row['share']):>7}"
            print(f"{start}{low:>10.3g}{middle:>10.3g}{high:>14.3g}{row['tightness']:>9.3g}")

    print("\ntrue relative error ‖G − S‖/‖S‖ at the attacked input in %, by what the attack maximised")
    print(f"{'model':<16}{'ε':>7}{'clean':>9}{'difference':>12}{'fixed truth':>13}{'solver inside':>15}{'S moves':>10}")
    for model in _complete(results):
        for row in model["solver"]:
            one, two, three = (100 * row["errors"][key] for key in ("difference", "fixed truth", "solver inside"))
            start = f"{_name(model)}{_percent(row['share']):>7}{100 * row['clean']:>9.3g}"
            print(f"{start}{one:>12.3g}{two:>13.3g}{three:>15.3g}{100 * row['solution_moves']:>10.3g}")
    _show_coverage(results, config)
    _show_smoothing(results)


def _show_coverage(results: dict[str, Any], config: Config) -> None:
    wanted = f"{100 * (1 - config.alpha):g} %"
    print(f"\nconformal balls, {config.splits} splits, wanted {wanted}: mean coverage (least, most) in %")
    print(
        f"{'model':<16}{'expected':>9}{'clean':>17}{'attacked':>17}{'inflated':>17}{'radius/‖u‖':>12}{'inflated':>10}"
    )
    for model in _complete(results):
        study, cells = model["conformal"], ""
        for key in ("clean", "attacked", "inflated"):
            values = _shares(study, key)
            cells += f"{f'{values.mean():.1f} ({values.min():.0f}, {values.max():.0f})':>17}"
        radius, inflated = (
            100 * np.mean([split[key] for split in study["splits"]]) / study["typical_solution"]
            for key in ("threshold", "inflated_threshold")
        )
        print(f"{_name(model)}{100 * study['expected']:>9.1f}{cells}{radius:>10.2f} %{inflated:>8.1f} %")
        constants = f"L_G {study['lipschitz_model']:.3g}, L_S {study['lipschitz_truth']:.3g}"
        print(
            f"    ε_∞ {study['epsilon']:.3g}, {constants}; attacked errors grew by at most {study['movement']:.3g}·ε_∞"
        )


def _show_smoothing(results: dict[str, Any]) -> None:
    rows = [(model, row) for model in _complete(results) for row in model["smoothing"]]
    if not rows:
        return
    print("\ncenter smoothing with Gaussian-field noise: one δ on several grids; changes over ‖G(a)‖_h in %")
    heads = f"{'white norm':>12}{'‖δ‖/‖a‖':>10}{'moved':>9}{'certified':>11}{'L on the ball':>15}"
    print(f"{'model':<16}{'nodes':>6}{'CM norm':>11}{heads}")
    for model, row in rows:
        norms = f"{row['cameron_martin']:>11.8f}{row['white_points']:>12.3f}{100 * row['delta']:>8.2f} %"
        moved = f"{100 * row['moved']:>9.3g}{100 * row['smoothed']:>11.3g}{100 * row['lipschitz_ball']:>15.3g}"
        print(f"{_name(model)}{row['points']:>6}{norms}{moved}")


def draw(results: dict[str, Any], config: Config, folder: Path) -> None:
    """sandwich.png: the sandwich by grid; certificates.png: accuracy against certificate, and coverage."""
    models = _complete(results)
    size = dict(width=2.8, height=2.5, sharey=True)
    with figure(folder / "sandwich.png", len(models), len(config.grids), **size) as (_, axes):
        for line, model in zip(axes, models):
            for axis, points in zip(line, config.grids):
                _draw_sandwich(axis, model, points)
            line[0].set_ylabel("change of output (% of ‖G(a)‖)")
        for axis in axes[-1]:
            axis.set_xlabel("ε (% of ‖a‖)")
        axes[-1, 0].legend(loc="upper left")
    with figure(folder / "certificates.png", 1, 1 + len(models), width=3.2, height=2.7) as (_, axes):
        _draw_accuracy(axes[0, 0], results, config)
        for axis, model in zip(axes[0, 1:], models):
            _draw_coverage(axis, model)


def _draw_sandwich(axis: Any, model: dict[str, Any], points: int) -> None:
    rows = [row for row in model["sandwich"] if row["points"] == points]
    slope = next(slope for slope in model["slopes"] if slope["points"] == points)
    x = [100 * row["share"] for row in rows]
    names = {"certificate": "certificate L·ε", "attack": "PGD", "random": "best random"}
    for (key, label), style in zip(names.items(), series()):
        values = 100 * np.array([row[key] for row in rows])
        axis.loglog(x, values.mean(1), label=label, **style)
        axis.fill_between(x, values.min(1), values.max(1), color=style["color"], alpha=0.2, linewidth=0)
    count = len(slope["dense"] or slope["power"])
    kind, norms = ("whole", slope["dense"]) if slope["dense"] else ("power iteration", slope["power"])
    shares = np.array([row["certificate"][:count] for row in rows]) / slope["bound"]  # ε over ‖G(a)‖
    axis.loglog(x, 100 * (shares * np.array(norms)).mean(1), color="0.2", linestyle=":", label="slope ‖J(a)‖·ε")
    axis.set_title(f"{_name(model).strip()}, {points}² ({kind} J)")
    axis.set_xticks(x, [f"{value:g}" for value in x])
    axis.set_xticks([], minor=True)


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
    axis.set(xlabel="covered test fields (%)", ylabel="splits", title=_name(model).strip())
    axis.legend(loc="upper left")


def _complete(results: dict[str, Any]) -> list[dict[str, Any]]:
    """The models that all parts were measured for."""
    return [row for row in results["models"] if row["conformal"]]


def _name(model: dict[str, Any]) -> str:
    name = "plain" if model["penalty"] == 0 else f"penalty {model['penalty']:g}"
    return f"{name:<16}"


def _percent(share: float) -> str:
    return f"{100 * share:g} %"


def _shares(study: dict[str, Any], key: str) -> np.ndarray:
    return 100 * np.array([split[key] for split in study["splits"]])
