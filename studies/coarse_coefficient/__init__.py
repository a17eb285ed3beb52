"""What a coefficient on a coarse grid still says about the solution: the least error that any method can have from it.

    python -m studies.coarse_coefficient                    # 43 nodes, a minute or two
    python -m studies.coarse_coefficient --preset medium    # 43 and 85 nodes
    python -m studies.coarse_coefficient --preset full

Darcy flow of the li2020 law: a = 3 or 12 by the sign of a Gaussian field, f = 1, u = 0 on the walls. On a coarse grid
only the signs at its nodes are known; where an interface runs between two of them is not. Fields with these signs are
drawn exactly from the law and solved on the fine grid. Each of their solutions u_1, …, u_K could be the true one; the
mean of the others is then as good as the expectation E[u | signs] but for the factor √(1 + 1/(K − 1)), so that

    E ‖u − E[u | signs]‖ / ‖u‖  ≈  mean_k ‖u_k − ū_{−k}‖ / ‖u_k‖ / √(K/(K − 1))

is the error that is left to any method that is given the coarse coefficient, trained or not: in the mean square none
has less. The mean of all K is such a method itself: it knows the signs and the law, and is tested against the true
solution, beside the equation solved on the coarse coefficient.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from sciops.plotting import figure, series
from sciops.random_fields import normal_coefficients
from studies.coarse_coefficient.law import Law, solutions, solved_on
from studies.coarse_coefficient.sampler import trajectory
from studies.kit.answers import met, sentence
from studies.kit.cells import kept
from studies.kit.pool import run_all
from studies.kit.study import finished, opened, picked
from studies.kit.tables import print_table
from studies.kit.timing import print_targets, target

INFORMED = {85: 0.67}  # asked of a method that is given the equation, over the native solve: 0.0026 of 0.0039
METHODS = {1: "native solve", 2: "solve, 2× finer"}


@dataclass(frozen=True)
class Config:
    sizes: tuple[int, ...] = (43,)  # nodes per axis on which the coefficient is known; each divides the finest grid
    finest: int = 421  # nodes per axis on which fields are solved
    modes: int = 192  # cosine modes of the Gaussian field per axis
    fields: int = 10  # true fields
    first: int = 1100  # number of the first, that of the test fields of ``accuracy_for_time``
    settling: int = 8  # trajectories before the first that counts
    draws: int = 16  # K, fields drawn for each true one, a trajectory each
    workers: int = 2  # processes; at 85 nodes each holds 0.9 GB
    seed: int = 0  # of the true fields; draws have streams of their own
    output: Path = Path("runs/coarse_coefficient")  # folder for a record a field, results.json and the figure


PRESETS = {
    "quick": Config(),
    "medium": Config(sizes=(43, 85), fields=24, output=Path("runs/coarse_coefficient_medium")),
    "full": Config(sizes=(22, 43, 85), fields=100, draws=64, output=Path("runs/coarse_coefficient_full")),
}


def run(config: Config) -> dict[str, Any]:
    """Draws, solves, prints, and writes results.json and figures/coarse_coefficient.png; returns the results.

    Raises ValueError for sizes that do not nest in the finest grid, too few modes, and fewer than four draws.
    """
    for n in config.sizes:
        if n < 5 or (config.finest - 1) % (n - 1):
            raise ValueError(f"--sizes {n}: expected at least 5 nodes that nest in {config.finest}")
        if config.modes <= 2 * (n - 1):  # cosine 2(n − 1) is the first one that is constant on the nodes
            raise ValueError(
                f"--modes {config.modes}: expected more than {2 * (n - 1)}, so that {n}² nodes have any signs"
            )
    if config.draws < 4 or config.fields < 2 or config.settling < 1:
        raise ValueError(
            f"--draws {config.draws}, --fields {config.fields}, --settling {config.settling}: expected at least 4, 2 "
            "and 1"
        )
    folder = opened(config, seeds=[config.seed])
    rows, fields = [], {}
    for n in config.sizes:
        jobs = [(config, n, config.first + i) for i in range(config.fields)]
        fields[n] = run_all(_kept, jobs, workers=config.workers, unit="field", threads=1, desc=f"{n}²")
        rows.append(_row(n, fields[n], config))
    results = {"rows": rows, "fields": fields, "targets": _targets(rows)}
    return finished(folder, results, _draw, _print, config, answer=answer, picture="coarse_coefficient.png")


def answer(results: dict[str, Any]) -> str:
    """The least error on the finest grid, beside what is reached."""
    row = results["rows"][-1]
    return sentence(
        f"a coefficient on {row['nodes']}² nodes leaves {row['least']:.4f} relative L2 error to any method; the "
        f"mean of {row['draws']} solutions drawn given it has {row['mean of draws']['mean']:.4f}, the equation "
        f"solved on it {row['native solve']['mean']:.4f}",
        met(results["targets"]),
    )


def _kept(config: Config, nodes: int, number: int) -> dict[str, Any]:
    made_by = {"nodes": nodes, "number": number, **picked(config, "finest modes settling draws seed")}
    return kept(config.output / "records", f"{nodes}_{number}", made_by, lambda: one_field(config, nodes, number))


@cache
def _law(nodes: int, modes: int) -> Law:
    return Law(nodes, modes)


def one_field(config: Config, nodes: int, number: int) -> dict[str, Any]:
    """Relative L2 errors on the coarse nodes of what can be said from the coarse coefficient of one field.

    "spread": see the top of this study; "draws": of every u_k; "means": of the means of the first 1, 2, 4, …;
    "beside" and "apart": mean distance of draws that follow each other, and of those K/2 trajectories apart.
    """
    coarse, fine = _law(nodes, config.modes), _law(config.finest, config.modes)
    truth = normal_coefficients(config.modes, 2, seed=config.seed, number=number).ravel()
    u = solutions(fine.apply(truth)[None], config.finest, nodes)[0]
    signs = np.where(coarse.apply(truth) >= 0, 1.0, -1.0)  # all that is known from here on
    draw = np.random.default_rng(np.random.SeedSequence(config.seed, spawn_key=(number, nodes)))
    x, bounces, drawn = coarse.start(signs), [], []
    for k in range(config.settling + config.draws):
        v = draw.standard_normal(len(x))
        x, met_walls = trajectory(x, v, signs, coarse.apply, coarse.adjoint, coarse.gram)
        bounces.append(met_walls)
        if k >= config.settling:
            drawn.append(solutions(fine.apply(x)[None], config.finest, nodes)[0])
    them = np.array(drawn)
    size = np.linalg.norm(u)

    def error(v: np.ndarray) -> float:
        return float(np.linalg.norm(v - u) / size)

    def distance(lag: int) -> float:
        apart = [np.linalg.norm(a - b) for a, b in zip(them, them[lag:])]
        return float(np.mean(apart) / size)

    count = len(them)
    others = [np.linalg.norm(v - (them.sum(0) - v) / (count - 1)) / np.linalg.norm(v) for v in them]
    counts = [2**k for k in range(count.bit_length()) if 2**k <= count]
    return {
        "spread": float(np.mean(others) / np.sqrt(count / (count - 1))),
        "draws": [error(v) for v in them],
        "means": {str(k): error(them[:k].mean(0)) for k in counts},
        "mean": error(them.mean(0)),
        "beside": distance(1),
        "apart": distance(max(2, count // 2)),
        "bounces": float(np.mean(bounces)),
        "solved": {str(refine): error(solved_on(signs, nodes, refine)) for refine in METHODS},
    }


def _row(nodes: int, records: list[dict[str, Any]], config: Config) -> dict[str, Any]:
    """Means over the fields, with their standard errors."""
    spread = np.array([record["spread"] for record in records])
    found: dict[str, Any] = {
        "nodes": nodes,
        "fields": len(records),
        "draws": config.draws,
        "least": float(spread.mean()),
        "least, standard error": _standard_error(spread),
        "mean of draws": _mean([record["mean"] for record in records]),
        "one draw": _mean([np.mean(record["draws"]) for record in records]),
        "means": {k: float(np.mean([record["means"][k] for record in records])) for k in records[0]["means"]},
        "expected of the mean": float(spread.mean() * np.sqrt(1 + 1 / config.draws)),
        "expected of one": float(spread.mean() * np.sqrt(2)),
        "beside over apart": float(np.mean([record["beside"] / record["apart"] for record in records])),
        "bounces": float(np.mean([record["bounces"] for record in records])),
    }
    for refine, name in METHODS.items():
        found[name] = _mean([record["solved"][str(refine)] for record in records])
    native = np.array([record["solved"]["1"] for record in records])
    found["over native"] = {
        "least": _ratio(spread, native),
        "mean of draws": _ratio(np.array([record["mean"] for record in records]), native),
    }
    return found


def _ratio(errors: np.ndarray, native: np.ndarray) -> dict[str, float]:
    """Ratio of the means over the fields, and the ends of 95 % of 5000 draws of as many fields, with repetition."""
    drawn = np.random.default_rng(0).integers(0, len(errors), (5000, len(errors)))
    low, high = np.quantile(errors[drawn].mean(1) / native[drawn].mean(1), [0.025, 0.975])
    return {"value": float(errors.mean() / native.mean()), "low": float(low), "high": float(high)}


def _mean(values: Any) -> dict[str, float]:
    values = np.asarray(values, dtype=float)
    return {"mean": float(values.mean()), "standard error": _standard_error(values)}


def _standard_error(values: np.ndarray) -> float:
    return float(values.std(ddof=1) / np.sqrt(len(values)))


def _targets(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Over the native solve on the same fields: some are harder than others for every method."""
    found = []
    for row in rows:
        if most := INFORMED.get(row["nodes"]):
            native = row["native solve"]["mean"]
            what = f"{row['nodes']}²: mean of {row['draws']} solutions drawn over the native solve"
            value, limit = row["mean of draws"]["mean"] / native, row["least"] / native
            found.append(target(what, value, most=most, limit=limit, note="below what the coefficient determines"))
    return found


def _print(results: dict[str, Any], config: Config) -> None:
    print(
        f"{config.fields} fields, {config.draws} draws each, solved on {config.finest}²; mean relative L2 error on the "
        "coarse nodes ± standard error over the fields"
    )
    for row in results["rows"]:
        lines = {"least, from the spread": {"mean": row["least"], "standard error": row["least, standard error"]}}
        lines |= {f"mean of {row['draws']} draws": row["mean of draws"], "one draw": row["one draw"]}
        lines |= {name: row[name] for name in METHODS.values()}
        title = f"{row['nodes']}² nodes"
        print_table(lines, "=name; error=mean:.5f; ±=standard error:.5f", title=title)
        print(
            f"expected from the spread: {row['expected of the mean']:.5f} for the mean, {row['expected of one']:.5f} "
            f"for one; draws beside each other {row['beside over apart']:.2f} times as far apart as others; "
            f"{row['bounces']:.0f} bounces a draw"
        )
        for name, over in row["over native"].items():
            print(f"{name} over native solve: {over['value']:.2f} [{over['low']:.2f}, {over['high']:.2f}]")
    if results["targets"]:
        print_targets(results["targets"])


def _draw(results: dict[str, Any], config: Config, path: Path) -> None:
    caption = (
        "Relative L2 error of the mean of K solutions drawn given the coefficient on the coarse nodes, the law "
        "spread·√(1 + 1/K) that exact draws follow, the spread itself, and the equation solved on that coefficient."
    )
    rows = results["rows"]
    with figure(path, 1, len(rows), width=3.6, height=3.0, caption=caption) as (_, axes):
        for axis, row in zip(axes[0], rows):
            styles = series()
            counts = [int(k) for k in row["means"]]
            axis.plot(counts, list(row["means"].values()), label="mean of K draws", **next(styles))
            expected = [row["least"] * np.sqrt(1 + 1 / k) for k in counts]
            axis.plot(counts, expected, label="expected", **{**next(styles), "marker": ""})
            axis.axhline(row["least"], color="black", linewidth=0.8, label="least possible")
            for name in METHODS.values():
                style = next(styles)
                axis.axhline(row[name]["mean"], color=style["color"], linestyle=":", label=name)
            axis.set_xscale("log", base=2)
            axis.set(xlabel="draws K", ylabel="relative $L^2$ error", title=f"{row['nodes']}² nodes")
            axis.set_ylim(bottom=0)
            axis.legend(fontsize="x-small")
