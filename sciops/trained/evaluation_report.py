"""What `sciops evaluate` leaves behind: results.json, the table, the picture of two samples, the figure of errors."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sciops.runs import RunFolder, is_run
from sciops.trained.distribution_report import distribution_lines, distribution_results
from sciops.trained.evaluation import WORST, Evaluation, summary
from sciops.trained.native_solve import NativeSolve
from sciops.trained.opening import read_record

_STEPS = 6  # of a rollout that the table shows
_EMPTY = 1e-12  # share of the energy below which a band of the truth is round-off


@dataclass(frozen=True)
class EvaluationConfig:
    """What an evaluation was asked for; the fields are the options of `evaluate_on`."""

    run: Path
    data: Path
    output: Path | None = None
    samples: tuple[int, ...] | None = None
    split: str | None = None
    resolution: int | tuple[int, ...] | None = None
    steps: int | None = None
    solutions: int = 16
    phases: tuple[float, float] | None = None
    batch_size: int | None = None
    device: str | None = None


def output_of(config: EvaluationConfig) -> Path:
    """The folder that the results go to; by default inside the run's, named for the data.

    Raises ValueError for the folder of another run.
    """
    folder = config.run if config.run.is_dir() else config.run.parent
    output = config.output or folder / "evaluation" / config.data.stem
    written_by = str(read_record(output, "environment.json").get("config_class", ""))
    if is_run(output) and not written_by.endswith(f".{EvaluationConfig.__name__}"):
        raise ValueError(f"{output} holds a run of another kind: name another --output")
    return output


def results_of(found: Evaluation) -> dict[str, Any]:
    """The numbers, as results.json holds them."""
    problem = found.problem
    results: dict[str, Any] = {
        "model": problem.trained.name,
        "parameters": sum(p.numel() for p in problem.trained.model.parameters()),
        "task": problem.task,
        "part": problem.part,
        "samples": problem.count,
        "grid": problem.grid.to_dict(),
        "variables": problem.names,
        "relative_l2": summary(found.relative_l2),
    }
    if found.h1 is not None:
        results["h1"] = summary(found.h1)
    if found.bands is not None:
        results["bands"] = vars(found.bands)
    if found.by_step is not None and found.persistence is not None:
        results["by_step"] = {
            "times": problem.times,
            "mean": _mean(found.by_step),
            "median": _quantile(found.by_step, 0.5),
            "quantile_0.25": _quantile(found.by_step, 0.25),
            "quantile_0.75": _quantile(found.by_step, 0.75),
            "persistence": _mean(found.persistence),
        }
    results["seconds_per_sample"] = found.seconds
    if isinstance(found.native, NativeSolve):
        same = found.relative_l2[found.native.numbers]
        results["native_solve"] = {
            "samples": problem.samples[found.native.numbers],
            "relative_l2": summary(found.native.relative_l2),
            "model_on_the_same": summary(same),
            "seconds_per_sample": found.native.seconds,
        }
    elif found.native is not None:
        results["native_solve"] = {"none": found.native}
    if found.distribution is not None:
        results["distribution"] = distribution_results(found.distribution)
    worst = found.order[:WORST]
    results["worst"] = [{"sample": int(problem.samples[n]), "relative_l2": found.relative_l2[n]} for n in worst]
    results["sample_numbers"], results["relative_l2_of_samples"] = problem.samples, found.relative_l2
    return results


def table_of(found: Evaluation, config: EvaluationConfig) -> str:
    """The numbers for the terminal and table.txt."""
    problem, results = found.problem, results_of(found)
    shape = "×".join(map(str, problem.grid.shape))
    part = f"{problem.part} part, " if problem.part else ""
    lines = [
        f"{results['model']} of {config.run}: {results['parameters']:,} parameters, task {problem.task}",
        f"{config.data}: {part}{problem.count} samples, {shape} {problem.grid.centering} points",
        "",
        f"{'error':<14}{'mean':>18}{'median':>10}{'5 %':>10}{'25 %':>10}{'75 %':>10}{'95 %':>10}{'worst':>10}",
        _row("relative L2", results["relative_l2"]),
    ]
    lines += [_row("H1", results["h1"])] if "h1" in results else []
    native = results.get("native_solve", {})
    if isinstance(found.native, NativeSolve):
        lines += [
            "",
            f"native solve of {len(found.native.numbers)} samples on this grid, against the file's solution",
            f"{'':<14}{'mean':>18}{'worst':>10}{'seconds a sample':>18}",
            _solver("model", native["model_on_the_same"], found.seconds),
            _solver("solver", native["relative_l2"], found.native.seconds),
        ]
    if "by_step" in results:
        lines += ["", *_steps(results["by_step"])]
    if found.distribution is not None:
        lines += ["", *distribution_lines(found.distribution, results["distribution"])]
    if found.bands is not None:
        lines += ["", *_bands(found)]
    worst = ", ".join(f"{one['sample']} ({one['relative_l2']:.4g})" for one in results["worst"])
    lines += ["", f"worst samples  {worst}"]
    if not isinstance(found.native, NativeSolve):
        lines.append(f"seconds        {found.seconds:.2g} a sample")
        lines += [f"native solve   {found.native}"] if found.native is not None else []
    return "\n".join(lines)


def write_evaluation(found: Evaluation, config: EvaluationConfig, output: Path) -> str:
    """Writes the folder of an evaluation; returns the table."""
    folder, table = RunFolder(output), table_of(found, config)
    folder.describe(config, data=config.data)
    folder.write_results(results_of(found))
    from sciops.files.json_files import write_atomically

    write_atomically(folder.path / "table.txt", (table + "\n").encode())
    draw_errors(found, folder.figures / "errors.png")
    draw_samples(found, folder.figures / "samples.png")
    return table


def draw_samples(found: Evaluation, path: str | os.PathLike) -> None:
    """Input, truth, prediction and error of the worst and of the median sample.

    Of frames the last one; on a line all of them, over space and time. Of fields in space the middle plane.
    """
    from sciops.grids import Grid
    from sciops.plotting import plot_prediction

    problem = found.problem
    numbers = list(dict.fromkeys((int(found.order[0]), found.median)))
    kinds = ("worst", "median")[: len(numbers)]
    labels = [
        f"{kind}: sample {problem.samples[n]}\nrelative L2 {found.relative_l2[n]:.3g}"
        for kind, n in zip(kinds, numbers)
    ]
    a, truth, guess = problem.inputs(numbers), problem.truth(numbers), problem.predict(numbers)
    grid, name = problem.grid, problem.names[0]
    names = (
        "last frame given" if problem.by_frames or problem.task == "final" else "input",
        f"true {name}",
        "prediction",
    )
    axes = ("x", "y")
    if problem.by_frames and grid.ndim == 1 and problem.frames > 1 and problem.times is not None:
        between = Grid((*grid.shape, problem.frames), (*grid.extent, (problem.times[0], problem.times[-1])), "node")
        true, predicted = (one[:, :, 0].transpose(1, 2) for one in (truth, guess))
        plot_prediction(None, true, predicted, between, path=path, labels=labels, names=names, axes=("x", "time"))
        return
    a, truth, guess = a[:, 0], truth[:, -1, 0], guess[:, -1, 0]
    if grid.ndim == 3:
        a, truth, guess = (one[..., grid.shape[2] // 2] for one in (a, truth, guess))
        grid = Grid(grid.shape[:2], grid.extent[:2], grid.centering, grid.domain[:2])
    if problem.by_frames and problem.times is not None:
        labels = [f"{label}, t = {problem.times[-1]:.4g}" for label in labels]
    plot_prediction(a, truth, guess, grid, path=path, labels=labels, names=names, axes=axes)


def draw_errors(found: Evaluation, path: str | os.PathLike) -> None:
    """The error of every sample, in order, or by step; and by wavenumber beside the energy of the truth."""
    from sciops.plotting import PALETTE, figure

    with figure(Path(path), 1, 1 + (found.bands is not None)) as (_, axes):
        axis = axes[0, 0]
        if found.by_step is not None and found.persistence is not None:
            times = found.problem.times
            axis.semilogy(times, _quantile(found.by_step, 0.5), color=PALETTE[0], label="model, median and quartiles")
            low, high = (_quantile(found.by_step, q) for q in (0.25, 0.75))
            axis.fill_between(times, low, high, color=PALETTE[0], alpha=0.2, linewidth=0)
            still = _quantile(found.persistence, 0.5)
            axis.semilogy(times, still, color=PALETTE[1], linestyle="--", label="last frame given, median")
            axis.set(xlabel="time", ylabel="relative L2 error")
            axis.legend()
        else:
            errors = np.sort(found.relative_l2[np.isfinite(found.relative_l2)])
            share = (np.arange(len(errors)) + 1) / max(1, len(errors))
            axis.step(errors, share, where="post", color=PALETTE[0])
            axis.set(xlabel="relative L2 error", ylabel="share of samples with at most this error", ylim=(0, 1.02))
        if found.bands is not None:
            axis, bands = axes[0, 1], found.bands
            place = np.arange(len(bands.lower))
            axis.bar(place - 0.2, bands.error_share, 0.4, color=PALETTE[1], label="squared error")
            axis.bar(place + 0.2, bands.energy_share, 0.4, color=PALETTE[5], label="energy of the truth")
            axis.set_yscale("log")
            axis.set_ylim(1e-8, 2)
            labels = [_band(a, b) for a, b in zip(bands.lower, bands.upper)]
            axis.set_xticks(place, labels, rotation=0 if len(labels) < 6 else 45, fontsize=7.5)
            axis.set(xlabel="wavenumber |k| (periods per domain)", ylabel="share of the whole")
            axis.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)


def _row(name: str, own: Mapping[str, Any]) -> str:
    if not own["samples"]:
        return f"{name:<14}{'not finite':>18}"
    mean = f"{own['mean']:.4g}" + ("" if own["standard_error"] is None else f" ± {own['standard_error']:.1g}")
    row = f"{name:<14}{mean:>18}"
    names = ("median", "quantile_0.05", "quantile_0.25", "quantile_0.75", "quantile_0.95", "largest")
    row += "".join(f"{own[key]:>10.4g}" for key in names)
    return row + (f"   {own['not_finite']} not finite" if own["not_finite"] else "")


def _solver(name: str, own: Mapping[str, Any], seconds: float) -> str:
    mean, largest = (f"{own[key]:.4g}" if key in own else "not finite" for key in ("mean", "largest"))
    return f"{name:<14}{mean:>18}{largest:>10}{seconds:>18.2g}"


def _steps(own: Mapping[str, Any]) -> list[str]:
    times = own["times"]
    shown = sorted({round(k) for k in np.linspace(0, len(times) - 1, min(len(times), _STEPS))})
    lines = [f"{'step':<14}" + "".join(f"{k + 1:>10}" for k in shown)]
    lines.append(f"{'time':<14}" + "".join(f"{times[k]:>10.4g}" for k in shown))
    for label, key in (("relative L2", "mean"), ("persistence", "persistence")):
        lines.append(f"{label:<14}" + "".join(f"{own[key][k]:>10.4g}" for k in shown))
    return lines


def _bands(found: Evaluation) -> list[str]:
    bands = found.bands
    assert bands is not None
    beyond = {"periodic": "periodic", "odd": "odd beyond the walls", "even": "even beyond the walls"}
    lines = [f"by wavenumber |k| in periods per domain, {beyond.get(bands.transform, 'tapered by a Hann window')}"]
    lines.append(f"{'|k|':<14}{'relative error':>18}{'of the error':>14}{'of the energy':>15}")
    for low, high, error, share, energy in zip(
        bands.lower, bands.upper, bands.error, bands.error_share, bands.energy_share
    ):
        said = f"{error:.4g}" if energy > _EMPTY else "no energy"
        lines.append(f"{_band(low, high):<14}{said:>18}{share:>13.2%} {energy:>14.2%}")
    return lines


def _band(low: float, high: float) -> str:
    return f"{low:g}–{high:g}" if np.isfinite(high) else f"≥ {low:g}"


def _mean(values: np.ndarray) -> np.ndarray:
    """Over the samples, NaN at steps where one is not finite."""
    return np.asarray(values.mean(0))


def _quantile(values: np.ndarray, share: float) -> np.ndarray:
    """Over the samples, with those that are not finite as the largest."""
    return np.asarray(np.quantile(np.nan_to_num(values, nan=np.inf), share, axis=0, method="higher"))
