"""Highway-BP against backpropagation: error by number of sweeps k, cosines through training, time of both.

    python -m studies.highway_backprop
    python -m studies.highway_backprop --preset full --output runs/highway_backprop

Stacks of 2·blocks residual layers (FNO and MANO) learn small Darcy fields from the same start with the same batches by
backpropagation and by Highway-BP with k = 0 … (arXiv:2501.17086), and with the γ that is estimated. A GRU of T steps is
differentiated by torch's fused backward pass, by a loop over its cell, and by Highway-BP. `studies.highway_pipeline`
is the case of blocks on several processes.

The paper reports that small k reaches backpropagation's accuracy, that cosines fall through training at fixed k, and,
on GPUs, a training step of a GRU 3.2, 2.7 and 2.4 times (T = 256) and 3.5, 3.4 and 3.4 times (T = 1024) as fast for
k = 0, 1, 2 as backpropagation (its Table 6). A stack whose layers run one after another on one device gains nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sciops.evaluation import spread
from sciops.plotting import figure, series
from studies.highway_backprop import recurrent, stacks
from studies.kit.answers import listed, met, sentence
from studies.kit.choices import require_known
from studies.kit.figures import band, ticks
from studies.kit.study import finished, opened
from studies.kit.tables import grouped, print_table
from studies.kit.timing import print_targets, target


@dataclass(frozen=True)
class Config:
    models: tuple[str, ...] = ("fno", "mano")  # stacks, names in studies.highway_backprop.stacks.MODELS
    blocks: int = 4  # residual blocks, of two layers each
    iterations: tuple[int, ...] = (0, 1, 2, 3)  # k of the arms
    split_iterations: int | None = 1  # k of the arm whose γ is estimated; None leaves it out
    seeds: tuple[int, ...] = (0, 1, 2)  # of the initial parameters and the order of the fields
    points: int = 16  # nodes per axis of the fields
    train: int = 160  # training fields
    test: int = 100
    data_seed: int = 0
    epochs: int = 5
    batch_size: int = 8
    learning_rate: float = 4e-3
    looks: int = 8  # comparisons with the true gradient through a training
    depths: tuple[int, ...] = (2, 4, 8, 16)  # blocks of the FNOs whose cosines at the start are compared
    lengths: tuple[int, ...] = (64, 256, 1024)  # steps T of the GRU
    recurrent_iterations: tuple[int, ...] = (0, 1, 2)
    hidden: int = 64  # units of the GRU, and its inputs
    sequences: int = 16  # sequences in the GRU's batch
    rounds: int = 7  # times that each contestant is timed
    output: Path = Path("runs/highway_backprop")  # folder for results.json and the figures


PRESETS = {
    "quick": Config(),
    "full": Config(
        iterations=(0, 1, 2, 3, 5),
        blocks=6,
        seeds=(0, 1, 2, 3, 4),
        points=32,
        train=800,
        test=200,
        epochs=30,
        looks=16,
        depths=(2, 4, 8, 16, 32),
        lengths=(64, 256, 512, 1024, 2048),
        recurrent_iterations=(0, 1, 2, 5, 10),
        rounds=15,
    ),
}

PUBLISHED = {256: {0: 209 / 66, 1: 209 / 77, 2: 209 / 88}, 1024: {0: 715 / 205, 1: 715 / 210, 2: 715 / 210}}


def run(config: Config) -> dict[str, Any]:
    """Trains, times, prints, writes results.json and three figures, and returns the results.

    Raises ValueError for a model that is none of the study's, RuntimeError where gradients that must be equal are not.
    """
    require_known("--models", config.models, stacks.MODELS)
    folder = opened(config, seeds=config.seeds, methods=["highway", *config.models])
    difference = recurrent.check_equal(config.hidden)
    data = stacks.fields(config)
    records = stacks.trained(config, data)
    results = {
        "runs": records,
        "stacks": stacks.summary(records),
        "milliseconds": stacks.step_times(config, data),
        "depths": stacks.cosines_by_depth(config, data),
        "recurrent": recurrent.timed(config),
        "equal_to": difference,
    }
    results["targets"] = targets(results, config)
    return finished(folder, results, _draw, _print, config, answer=answer)


def answer(results: dict[str, Any]) -> str:
    """The test error of every number of sweeps over backpropagation's, by model."""
    said = []
    for model, rows in grouped(results["stacks"], "model").items():
        sweeps = [f"{row['relative']:.3f} ({row['arm']})" for row in rows if row["arm"].startswith("k =")]
        said.append(f"{model}: test error {listed(sweeps)} times that of backpropagation" if sweeps else "")
    return sentence(*said, met(results["targets"]))


def targets(results: dict[str, Any], config: Config) -> list[dict[str, Any]]:
    """k = 2 within 5 % of backpropagation's error; the loop's backward time over Highway-BP's."""
    rows = [
        target(f"{row['model']}: test error at k = 2 / backprop's", row["relative"], most=1.05)
        for row in results["stacks"]
        if row["arm"] == "k = 2"
    ]
    times = {(row["steps"], row["how"]): row["backward"] for row in results["recurrent"]}
    for steps in (t for t in (256, 1024) if t in config.lengths):
        for k in config.recurrent_iterations[:3]:
            speed = times[steps, recurrent.LOOP] / times[steps, f"k = {k}"]
            rows.append(target(f"GRU, T = {steps}: backward of the loop / of k = {k}", speed, least=1.0))
    return rows


def _print(results: dict[str, Any], config: Config) -> None:
    layers = 2 * config.blocks
    print(f"test error of {layers} layers on Darcy {config.points}², mean ± spread of {len(config.seeds)} seeds")
    runs = grouped(results["runs"], "model", "arm")
    errors = {case: spread(run["error"] for run in own) for case, own in runs.items()}
    print_table(
        results["stacks"],
        "=model; =arm",
        ("relative L2", lambda row: f"{errors[row['model'], row['arm']]:.4f}"),
        "/ backprop=relative:.3f",
        ("cosine start, middle, end", lambda row: " ".join(f"{c:.3f}" for c in row.get("cosine", []))),
        ("norm ratio", lambda row: " ".join(f"{c:.2f}" for c in row.get("norm_ratio", []))),
        ("ms/step", lambda row: f"{results['milliseconds'][row['model']][row['arm']]:.1f}"),
        "ln(error / backprop's) [95 % over seeds]=verdict",
    )
    found = {(row["layers"], row["scaled"], row["k"]): row["cosine"] for row in results["depths"]}
    both = lambda n, k: f"{found[n, False, k]:.4f} ({found[n, True, k]:.4f})"  # noqa: E731
    print_table(
        [2 * blocks for blocks in config.depths],
        ("layers", lambda n: n),
        *((f"k = {k}", lambda n, k=k: both(n, k)) for k in config.iterations),
        title="cosine of the blocks' gradient at the start, FNO; in brackets with branches scaled by 1/√layers",
    )
    print(f"\nGRU, {config.hidden} units, {config.sequences} sequences: milliseconds, and the fused step over each;")
    print("published: backpropagation's step over Highway-BP's, on GPUs")
    fused = {row["steps"]: row["total"] for row in results["recurrent"] if row["how"] == recurrent.FUSED}

    def published(row: dict[str, Any]) -> float | None:
        return PUBLISHED.get(row["steps"], {}).get(
            int(row["how"].split()[-1]) if row["how"].startswith("k =") else None
        )

    print_table(
        results["recurrent"],
        "T=steps; =how; forward:.1f; backward:.1f; both=total:.1f",
        ("fused/both", lambda row: f"{fused[row['steps']] / row['total']:.2f}"),
        ("published", published),
        "cosine:.4f",
    )
    print_targets(results["targets"])


def _draw(results: dict[str, Any], config: Config, folder: Path) -> None:
    _draw_errors(results, folder / "highway_error.png")
    _draw_cosines(results, config, folder / "highway_cosine.png")
    _draw_times(results, folder / "highway_time.png")


def _draw_errors(results: dict[str, Any], path: Path) -> None:
    models = grouped(results["stacks"], "model")
    caption = (
        "Test error by number of sweeps k, mean and standard deviation over seeds; dashed: backpropagation with its "
        "standard deviation."
    )
    with figure(path, 1, len(models), caption=caption) as (_, axes):
        for axis, (name, own) in zip(axes[0], models.items()):
            rows = {row["arm"]: row for row in own}
            base, sweeps = rows["backprop"], [arm for arm in rows if arm.startswith("k =") and "γ" not in arm]
            styles = series()

            def points(x: list[float], arms: list[str], label: str, axis: Any = axis, rows: Any = rows) -> None:
                bars = [rows[a]["spread"] or 0.0 for a in arms]
                style = next(styles)  # noqa: B023
                axis.errorbar(x, [rows[a]["error"] for a in arms], bars, label=label, capsize=3, **style)

            k = [int(arm.split()[-1]) for arm in sweeps]
            points(k, sweeps, "Highway-BP")
            style = next(styles)
            low, high = base["error"] - (base["spread"] or 0.0), base["error"] + (base["spread"] or 0.0)
            axis.axhline(base["error"], color=style["color"], linestyle="--", label="backpropagation ± spread")
            axis.axhspan(low, high, color=style["color"], alpha=0.15, linewidth=0)
            for arm in (arm for arm in rows if "γ" in arm):
                points([int(arm.split(",")[0].split()[-1]) + 0.12], [arm], "with γ estimated")
            axis.set(title=name.upper(), xlabel="sweeps k", ylabel="relative L2 error, test fields")
            axis.set_xticks(k)
            axis.legend()


def _draw_cosines(results: dict[str, Any], config: Config, path: Path) -> None:
    models = grouped((r for r in results["runs"] if r["looks"]), "model")
    caption = (
        "Cosine between the gradient after k sweeps and the true one: over the training, mean and range of the seeds, "
        "and at the start by number of layers."
    )
    with figure(path, 1, len(models) + 1, caption=caption) as (_, axes):
        for axis, (name, runs) in zip(axes[0], models.items()):
            for (arm, own), style in zip(grouped(runs, "arm").items(), series()):
                cosine = np.array([[look["cosine"] for look in r["looks"]] for r in own])
                band(axis, [look["share"] for look in own[0]["looks"]], cosine, label=arm, style=style)
            axis.set(title=f"{name.upper()}, {2 * config.blocks} layers", xlabel="share of the training")
            axis.set_ylabel("cosine with the true gradient")
            axis.legend()
        axis, styles = axes[0, -1], series()
        for k in config.iterations:
            style = next(styles)
            for scaled in (False, True):
                rows = [r for r in results["depths"] if r["k"] == k and r["scaled"] == scaled]
                label = f"k = {k}" if not scaled else None
                dashes = {"linestyle": "--" if scaled else "-", "markerfacecolor": "none" if scaled else style["color"]}
                axis.plot([r["layers"] for r in rows], [r["cosine"] for r in rows], label=label, **style | dashes)
        axis.set_xscale("log", base=2)
        layers = [2 * blocks for blocks in config.depths]
        axis.set_xticks(layers, [str(n) for n in layers])
        axis.set(title="FNO at the start (dashed: branches / √layers)", xlabel="layers", ylabel="cosine, blocks")
        axis.legend()


def _draw_times(results: dict[str, Any], path: Path) -> None:
    rows = results["recurrent"]
    caption = "Time of the backward pass, and of both passes, of a GRU against its number of steps."
    with figure(path, 1, 2, caption=caption) as (_, axes):
        for axis, key, title in zip(axes[0], ("backward", "total"), ("backward pass", "forward and backward pass")):
            for (how, own), style in zip(grouped(rows, "how").items(), series()):
                axis.loglog([row["steps"] for row in own], [row[key] for row in own], label=how, **style)
            ticks(axis.xaxis, list(grouped(rows, "steps")))
            axis.yaxis.set_minor_formatter("")
            axis.set(title=title, xlabel="steps T of the GRU", ylabel="milliseconds")
        axes[0, 0].legend()
