"""Tables and figures of the smoothing study."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from sciops.plotting import figure, series
from studies.kit.answers import extent, sentence
from studies.kit.tables import print_table
from studies.randomized_smoothing.cases import INTERVALS, relative_gain

# Mean radii at n = 10,000, α = 0.001, n₀ = 100 and 1000 classes that earlier measurements (200 repetitions) gave:
# Clopper–Pearson, CPM, Bonferroni
EARLIER = {
    "0.4, 0.1, flat": (0.0, 0.0, 0.444),
    "0.9, flat": (1.23, 1.22, 1.99),
    "0.45, Zipf": (0.0, 0.103, 0.087),
    "0.5, 0.3, flat": (0.0, 0.214, 0.198),
    "0.35, 0.3, geometric": (0.0, 0.014, 0.006),
}
_SHORT = {
    "clopper_pearson": "Clopper–Pearson",
    "randomized": "randomised",
    "bonferroni": "Bonferroni",
    "cpm": "CPM",
    "empirical_bernstein": "emp. Bernstein",
    "sequence": "sequence",
    "auto": "chosen",
}


def answer(results: dict[str, Any]) -> str:
    """Whether every certificate kept its level, the gain of the chosen interval, and radii behind networks."""
    faults = results["faults"]
    said = [
        f"{len(faults)} claims do not hold" if faults else "every interval keeps its level and every certificate holds"
    ]
    rows = [row for row in results["counts"] if row["alpha"] == 0.001]
    if rows:
        gains = extent((100 * relative_gain(row) for row in rows), "+.1f")
        said.append(
            f"the chosen interval gains {gains} % of radius over the best of Clopper–Pearson, Bonferroni and CPM"
        )
    for sigma, found in results["digits"].items():
        votes, chosen = (np.mean(found["radii"][name]) for name in ("votes, auto", "chosen map"))
        said.append(f"mean radius of digits at σ = {sigma}: {votes:.3f} by votes, {chosen:.3f} by the chosen map")
    return sentence(*said)


def show(results: dict[str, Any]) -> None:
    """The tables: intervals by scenario, radii behind networks, early stopping."""
    if results["counts"]:
        _show_counts(results)
    for sigma, found in results["digits"].items():
        _show_digits(sigma, found)


def _show_counts(results: dict[str, Any]) -> None:
    rows, trials = results["counts"], results["trials"]
    print_table(
        [row for row in rows if row["alpha"] == 0.001],
        "classes; scenario; n₀=drawn; true:.3f",
        *(f"{_SHORT[i]}=found.{i}.radius:.4f" for i in INTERVALS),
        ("gain, %", lambda row: f"{100 * relative_gain(row):+.2f}"),
        title=f"mean certified radius in units of σ, n = {results['votes']:,}, α = 0.001, {trials} repetitions",
    )
    print("gain: the chosen interval over the best of Clopper–Pearson, Bonferroni and CPM; the target is −1 % or more")
    for alpha in sorted({row["alpha"] for row in rows}):
        shares = {
            i: max(row["found"][i]["violations"] for row in rows if row["alpha"] == alpha) / trials for i in INTERVALS
        }
        print(
            f"largest share of violations, α = {alpha:g}: "
            + ", ".join(f"{_SHORT[i]} {v:.4f}" for i, v in shares.items())
        )
    print("\nagainst earlier measurements, 1000 classes, n₀ = 100: Clopper–Pearson, CPM, Bonferroni (earlier)")
    for row in rows:
        if (row["classes"], row["drawn"], row["alpha"]) == (1000, 100, 0.001) and row["scenario"] in EARLIER:
            here = (row["found"][i]["radius"] for i in ("clopper_pearson", "cpm", "bonferroni"))
            cells = (f"{a:.3f} ({b:g})" for a, b in zip(here, EARLIER[row["scenario"]]))
            print(f"  {row['scenario']:<22}" + "".join(f"{cell:>18}" for cell in cells))


def _show_digits(sigma: str, found: dict[str, Any]) -> None:
    print(
        f"\ndigits, σ = {sigma}: L = {found['lipschitz']:.4f}, of each class's softmax {found['component']:.3f} "
        f"(Lσ = {found['component'] * float(sigma):.2f}), clean accuracy {found['accuracy']:.3f}"
    )
    mean = {name: float(np.mean(values)) for name, values in found["radii"].items()}
    radius = lambda kind: lambda interval: f"{mean[kind.format(interval)]:.4f}"  # noqa: E731
    columns = [(f"soft, {rule}", radius(f"soft, {{}}, {rule}")) for rule in ("cohen", "paper", "exact")]
    print_table(INTERVALS, ("mean radius", _SHORT.get), ("votes, cohen", radius("votes, {}")), *columns)
    alone = float(np.mean(found["network_margin"]))
    name, scale = found["chosen_map"]["name"], found["chosen_map"]["scale"]
    chosen = "votes" if name == "argmax" else f"{name} of scale {scale:g}"
    print(
        f"map chosen on other digits, {chosen}: {mean['chosen map']:.4f}; the network's own margin, without noise: "
        f"{alone:.4f}"
    )
    attack = zip(found["attack"]["radii"], found["attack"]["accuracy"])
    print("under PGD: " + ", ".join(f"{accuracy:.2f} at {radius:.2f}" for radius, accuracy in attack))
    for question in found["questions"]:
        print(
            f"is R ≥ {question['target']:g}? mean {question['mean_samples']:.0f}, median "
            f"{question['median_samples']:.0f} of {found['most_samples']} samples; yes {question['certified']:.3f} "
            f"(all samples: {question['certified_by_fixed']:.3f}, lost {question['lost']})"
        )


def draw(results: dict[str, Any], folder: Path) -> None:
    """mean_radii.png, intervals.png, radii.png and early_stopping.png, of the parts that ran."""
    if results["counts"]:
        _draw_scenarios(results["counts"], folder / "mean_radii.png")
    if results["digits"]:
        by_interval = lambda found: [(_SHORT[name], found["radii"][f"votes, {name}"]) for name in INTERVALS]  # noqa: E731
        _draw_curves(results["digits"], folder / "intervals.png", by_interval)
        _draw_curves(results["digits"], folder / "radii.png", _radius_curves)
        _draw_stopping(results["digits"], folder / "early_stopping.png")


def _draw_scenarios(rows: list, path: Path) -> None:
    classes = sorted({row["classes"] for row in rows})
    caption = "Mean certified radius over the true one, by scenario and interval, α = 0.001."
    with figure(path, 1, len(classes), width=3.2, height=3.6, sharey=True, caption=caption) as (_, axes):
        for axis, k in zip(axes.flat, classes):
            here = [row for row in rows if row["classes"] == k and row["alpha"] == 0.001]
            names = [f"{row['scenario']}, n₀={row['drawn']}" for row in here]
            for (i, interval), style in zip(enumerate(INTERVALS), series()):
                share = [row["found"][interval]["radius"] / row["true"] for row in here]
                place = np.arange(len(here)) + 0.09 * (i - 3)
                axis.plot(place, share, label=_SHORT[interval], **style | {"linestyle": "none", "markersize": 3.5})
            axis.set_xticks(range(len(here)), names, rotation=90, fontsize=6.5)
            axis.set(title=f"{k} classes", ylim=(-0.03, 1.03))
        axes[0, 0].set_ylabel("mean certified radius / true radius")
        axes[0, 0].legend(loc="lower left")


def _draw_curves(by_sigma: dict, path: Path, curves: Any) -> None:
    what = "map and rule of the radius" if curves is _radius_curves else "interval"
    caption = f"Share of digits that are certified at a radius, by {what}, for every size σ of the noise."
    with figure(path, 1, len(by_sigma), width=3.4, height=3.2, sharey=True, caption=caption) as (fig, axes):
        for axis, (sigma, found) in zip(axes.flat, by_sigma.items()):
            largest = 1.05 * max(max(values) for values in found["radii"].values())
            at = np.linspace(0, largest, 200)
            for (label, radii), style in zip(curves(found), series()):
                share = (np.array(radii)[:, None] >= np.maximum(at, 1e-12)).mean(0)
                axis.plot(at, share, label=label, **style | {"marker": None})
            if curves is _radius_curves:
                attack = found["attack"]
                axis.plot(attack["radii"], attack["accuracy"], "k.-", linewidth=0.8, label="soft, under PGD")
            axis.set(title=f"σ = {sigma}", xlabel="ℓ₂ radius (pixels in [0, 1])", xlim=(0, largest), ylim=(0, 1.02))
        axes[0, 0].set_ylabel("certified accuracy")
        fig.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=7)


def _radius_curves(found: dict) -> list[tuple[str, list]]:
    radii = found["radii"]
    named = [
        ("votes, Cohen", "votes, auto"),
        ("soft, Cohen", "soft, auto, cohen"),
        ("soft, paper", "soft, auto, paper"),
        ("soft, exact", "soft, auto, exact"),
        ("chosen map, exact", "chosen map"),
    ]
    return [(label, radii[name]) for label, name in named] + [("network's margin, no noise", found["network_margin"])]


def _draw_stopping(by_sigma: dict, path: Path) -> None:
    caption = (
        "Samples that a sequential test takes on average, over those planned, against the radius that is asked for."
    )
    with figure(path, caption=caption) as (fig, axes):
        axis = axes[0, 0]
        for (sigma, found), style in zip(by_sigma.items(), series()):
            ratio = [question["target"] / float(sigma) for question in found["questions"]]
            share = [question["mean_samples"] / found["most_samples"] for question in found["questions"]]
            axis.semilogy(ratio, share, label=f"σ = {sigma}", **style)
        axis.axhline(1.0, color="0.4", linewidth=0.8, label="no stopping")
        axis.set(xlabel="r/σ of the question “is R ≥ r?”", ylabel="mean samples / planned samples")
        fig.legend(loc="outside lower center", ncols=4)
