"""How often a paired verdict names a winner where there is none, and how large a difference it finds.

    python -m studies.verdict_calibration
    python -m studies.verdict_calibration --preset full --output runs/verdict_calibration

Differences of errors d[s, n] = μ + a_s + b_n + e_sn of seeds s on test samples n are drawn with μ = 0, and every rule
is asked for a winner: the verdict of `sciops.evaluation.paired_verdict` (before its refusal of few seeds), its three
parts by themselves, two standard errors over seeds, and a percentile bootstrap over seeds and samples. Then other laws
of the effects, other numbers of samples, effects that depend on each other; and with μ ≠ 0 the power.

No network is trained. The run ends with an error, after the results are written, where the verdict names more winners
than `--most` in a cell of the first table with as many seeds as a verdict needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sciops.evaluation import FEWEST
from sciops.plotting import figure, series
from studies.kit.study import finished, opened
from studies.verdict_calibration.laws import LAWS, differences, rules, winners


@dataclass(frozen=True)
class Config:
    trials: int = 2000  # null data sets per cell
    resamples: int = 300  # draws of the bootstrap
    seeds: tuple[int, ...] = (2, 3, 5, 10)  # numbers of training seeds
    samples: int = 50  # test samples
    sample_counts: tuple[int, ...] = (5, 20, 200)  # numbers of test samples of the table of other numbers
    effects: tuple[float, ...] = (0.0, 0.1, 0.3, 1.0)
    """deviations of the effects of seeds and of samples, in units of the residual's"""
    shifts: tuple[float, ...] = (0.25, 0.5, 1.0, 2.0, 4.0)
    """true differences of the table of power, in units of the deviation of a seed's mean difference"""
    most: float = 0.065  # share of false winners that is accepted, before three standard errors of its estimate
    seed: int = 0  # of the random numbers
    output: Path = Path("runs/verdict_calibration")  # folder for results.json and the figure


PRESETS = {"quick": Config(), "full": Config(trials=10_000, sample_counts=(5, 20, 200, 1000))}

_DRAWN = tuple(law for law in LAWS if law not in ("student, 1.5 degrees", "difference of log-normals"))
_CAPTION = (
    "False winners on data without a difference, for every rule and for the verdict by the law of the seeds' effects; "
    "on the right, how often a true difference is found."
)
STRUCTURES = ("product", "noisy seeds", "noisy samples", "neighbours")


def run(config: Config) -> dict[str, Any]:
    """Measures, prints, writes results.json and figures/verdict_calibration.png, and returns the results.

    Raises RuntimeError, after writing, where the verdict does not keep its level; ValueError for an option that does
    not serve.
    """
    if config.trials < 100 or min(config.seeds) < 2 or config.samples < 2 or min(config.sample_counts) < 2:
        raise ValueError(
            f"--trials {config.trials} --seeds {' '.join(map(str, config.seeds))} --samples {config.samples}: expected "
            "at least 100 trials, 2 seeds and 2 samples"
        )
    folder = opened(config, seeds=[config.seed])
    results = {
        "fewest": FEWEST,
        "rules": of_rules(config),
        "laws": of_laws(config),
        "structures": of_structures(config),
        "power": power(config),
    }
    margin = 3 * np.sqrt(config.most * (1 - config.most) / config.trials)
    off = [
        f"{row['false']:.1%} at {row['seeds']} seeds, effects {row['of_seeds']:g} and {row['of_samples']:g}"
        for row in results["rules"]
        if row["rule"] == "verdict" and row["seeds"] >= FEWEST and row["false"] > config.most + margin
    ]
    wrong = f"false winners above {config.most:.1%}: {'; '.join(off)}" if off else ""
    how = {"picture": "verdict_calibration.png", "wrong": wrong, "answer": answer}
    return finished(folder, results, _draw, _print, config, **how)


def answer(results: dict[str, Any]) -> str:
    """The share of false winners of the verdict where there are seeds enough."""
    fewest = results["fewest"]
    shares = [row["false"] for row in results["rules"] if row["rule"] == "verdict" and row["seeds"] >= fewest]
    if not shares:
        return ""
    return (
        f"Without a difference, the verdict over {fewest} or more seeds names a winner in at most {max(shares):.1%} of "
        "cases, for Gaussian effects; 5 % is what it states."
    )


def of_rules(config: Config) -> list[dict[str, Any]]:
    """Share of false winners by rule, number of seeds and size of both effects; Gaussian."""
    rows = []
    for name, rule in rules(config.resamples).items():
        for seeds in config.seeds:
            for of_seeds in config.effects:
                for of_samples in config.effects:
                    cell = {"of_seeds": of_seeds, "of_samples": of_samples}
                    drawn = differences(config.trials, seeds, config.samples, seed=config.seed, **cell)
                    rows.append({"rule": name, "seeds": seeds, **cell, "false": sum(winners(drawn, rule))})
    return rows


def of_laws(config: Config) -> list[dict[str, Any]]:
    """Share of false winners of the verdict by law of the effect of seeds, and by law of that of samples."""
    rule = rules(0)["verdict"]
    rows = []
    for law in LAWS:
        for seeds in config.seeds:
            for samples in (config.samples, *config.sample_counts):
                for kind, effects, laws in (
                    ("seeds", (1.0, 0.0), (law, "gaussian", "gaussian")),
                    ("samples", (0.1, 1.0), ("gaussian", law, "gaussian")),
                    ("residuals", (0.1, 0.1), ("gaussian", "gaussian", law)),
                ):
                    shares = []
                    for residual in (1.0,) if kind == "residuals" else (1.0, 0.1):
                        how = dict(zip(("of_seeds", "of_samples"), effects), residual=residual, laws=laws)
                        drawn = differences(_trials(config, samples), seeds, samples, seed=config.seed, **how)
                        shares.append(sum(winners(drawn, rule)))
                    rows.append({"law": law, "of": kind, "seeds": seeds, "samples": samples, "false": max(shares)})
    return rows


def of_structures(config: Config) -> list[dict[str, Any]]:
    """Share of false winners of the verdict where residuals and samples are not alike or not independent."""
    rule = rules(0)["verdict"]
    return [
        {
            "structure": structure,
            "seeds": seeds,
            "false": max(
                sum(winners(differences(config.trials, seeds, config.samples, structure=structure, **effects), rule))
                for effects in ({"of_seeds": 0.1, "of_samples": 1.0}, {"of_seeds": 1.0, "of_samples": 0.3})
            ),
        }
        for structure in STRUCTURES
        for seeds in config.seeds
    ]


def power(config: Config) -> list[dict[str, Any]]:
    """Share of right and of wrong winners by true difference; effects of seeds 1, of samples 1, residual 1."""
    rule = rules(0)["verdict"]
    rows = []
    for seeds in config.seeds:
        for shift in config.shifts:
            unit = np.sqrt(1 + 1 / config.samples)
            drawn = differences(
                config.trials, seeds, config.samples, of_seeds=1.0, of_samples=1.0, mean=-shift * unit, seed=config.seed
            )
            right, wrong = winners(drawn, rule)
            rows.append({"seeds": seeds, "shift": shift, "right": right, "wrong": wrong})
    return rows


def _trials(config: Config, samples: int) -> int:
    """Fewer where there are many samples, so that the time stays the same; never fewer than a tenth."""
    return max(config.trials // 10, min(config.trials, config.trials * config.samples // samples))


def worst(rows: Sequence[dict[str, Any]], **of: Any) -> float:
    """Largest share of false winners of the rows that have the values of `of`; NaN where there is no such row."""
    return max((r["false"] for r in rows if all(r[k] == v for k, v in of.items())), default=float("nan"))


def _print(results: dict[str, Any], config: Config) -> None:
    effects = ", ".join(f"{e:g}" for e in config.effects)
    print(f"false winners in per cent, nominal 5; {config.trials} data sets per cell without a difference")
    print(f"{config.samples} samples; largest over effects of seeds of {effects}, in units of the residual")
    print(f"below {FEWEST} seeds `paired_verdict` answers 'too few seeds' instead")
    _heading("effect of samples", config.effects, config)
    for rule in dict.fromkeys(row["rule"] for row in results["rules"]):
        _line(
            rule, [worst(results["rules"], rule=rule, of_samples=b, seeds=s) for b, s in _pairs(config.effects, config)]
        )
    counts = tuple(dict.fromkeys((config.samples, *config.sample_counts)))
    for kind in ("seeds", "samples", "residuals"):
        print(f"\nthe verdict where the {kind} follow another law")
        _heading("samples", counts, config)
        for law in LAWS:
            found = [worst(results["laws"], law=law, of=kind, samples=n, seeds=s) for n, s in _pairs(counts, config)]
            _line(law, found)
    print()
    _heading("the verdict where there are", (), config)
    for name in STRUCTURES:
        _line(name, [worst(results["structures"], structure=name, seeds=s) for s in config.seeds])
    print("\npower: right winners in per cent by true difference / deviation of a seed's mean difference")
    print(f"{'seeds':<28}" + "".join(f"{shift:>6g}" for shift in config.shifts))
    for seeds in config.seeds:
        _line(f"{seeds}", [row["right"] for row in results["power"] if row["seeds"] == seeds])


def _pairs(groups: Sequence[float], config: Config) -> list[tuple[float, int]]:
    return [(group, seeds) for group in groups for seeds in config.seeds]


def _heading(name: str, groups: Sequence[float], config: Config) -> None:
    if groups:
        print(f"\n{name:<28}" + "".join(f"{group:>{6 * len(config.seeds)}g}" for group in groups))
    print(f"{'seeds' if groups else name:<28}" + "".join(f"{s:>6}" for s in config.seeds) * max(1, len(groups)))


def _line(name: str, shares: Sequence[float]) -> None:
    print(f"{name:<28}" + "".join(f"{100 * share:>6.1f}" for share in shares))


def _draw(results: dict[str, Any], config: Config, path: Path) -> None:
    with figure(path, 1, 3, width=3.5, height=3.2, caption=_CAPTION) as (_, axes):
        level, laws, right = axes[0]
        for rule, style in zip(dict.fromkeys(row["rule"] for row in results["rules"]), series()):
            shares = [100 * worst(results["rules"], rule=rule, seeds=s) for s in config.seeds]
            level.plot(config.seeds, shares, label=rule, **style)
        level.set(title="Gaussian effects, worst cell", yscale="log")
        for law, style in zip(_DRAWN, series()):
            shares = [100 * worst(results["laws"], law=law, of="seeds", seeds=s) for s in config.seeds]
            laws.plot(config.seeds, shares, label=law, **style)
        laws.set(title="the verdict, by law of the seeds", yscale="log")
        for axis in (level, laws):
            axis.axhline(100 * config.most, color="0.3", linewidth=0.8)
            axis.axvspan(min(config.seeds) - 0.5, FEWEST - 0.5, color="0.9")
            axis.set(xlabel="training seeds (grey: too few for a verdict)", ylabel="false winners (%)")
            axis.set_ylim(1, 3000)  # room for the names
            axis.set_yticks([1, 2, 5, 10, 20, 50, 100], ["1", "2", "5", "10", "20", "50", "100"])
            axis.yaxis.minorticks_off()
            axis.legend(loc="upper right")
        for seeds, style in zip(config.seeds, series()):
            rows = [row for row in results["power"] if row["seeds"] == seeds]
            label = f"{seeds} seeds" + (" (refused)" if seeds < FEWEST else "")
            right.plot([r["shift"] for r in rows], [100 * r["right"] for r in rows], label=label, **style)
        right.set(
            title=f"power, {config.samples} samples",
            xlabel="true difference / deviation from seed to seed",
            ylabel="right winners (%)",
        )
        right.legend(loc="lower right")
