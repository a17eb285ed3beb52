"""What the training study found: results.json, the table on the terminal, the figures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from studies.train.evolution import draw_errors, draw_frames, evolution
from studies.train.evolution import table as evolution_table

if TYPE_CHECKING:
    from studies.train import TrainStudyConfig

EVOLVING = ("step", "trajectory", "space-time")  # tasks that give frames against time


def results_of(config: TrainStudyConfig, task: str, trained: Any, tests: list[Any]) -> dict[str, Any]:
    """Errors per test grid; means over samples, with the samples' own beside them for paired comparisons."""
    from sciops.metrics import metric_of
    from sciops.models import SymmetryAveraged
    from sciops.training import evaluate

    metrics = {name: metric_of(name) for name in ("relative_l2", "relative_mse", *config.metrics)}

    results: dict[str, Any] = {
        "model": config.model,
        "parameters": trained.parameters,
        "epochs": trained.epochs,
        "complete": trained.complete,
        "stopped": trained.stopped,
        "best_epoch": trained.best_epoch,
        "validation": trained.best,
        "seconds": trained.seconds,
        "test": {},
    }
    names = _names(tests)
    for name, dataset in zip(names, tests):
        models = {"model": trained.model}
        if config.symmetrize:
            models["symmetrized"] = SymmetryAveraged(trained.model, "transpose", symmetry=dataset.symmetry)
        for kind, model in models.items():
            errors = evaluate(model, dataset, metrics)
            row = {"samples": len(dataset), **{metric: float(values.mean()) for metric, values in errors.items()}}
            row["standard_error"] = None
            if getattr(dataset, "windows", 1) == 1:  # windows of one trajectory are no independent samples
                own = row["relative_l2_of_samples"] = errors["relative_l2"]
                row["standard_error"] = float(own.std(ddof=1) / len(own) ** 0.5) if len(own) > 1 else None
            results["test"].setdefault(name, {})[kind] = row
    if task in EVOLVING:
        results["evolution"] = {name: evolution(trained.model, task, dataset) for name, dataset in zip(names, tests)}
    return results


def draw_all(
    task: str, trained: Any, tests: list[Any], results: dict[str, Any], figures: Path, shown: tuple[str, Any]
) -> None:
    """The learning curve, one sample with its prediction, and for trajectories errors against time and frames, a file a
    test grid.

    shown : (what its samples are called, the data set), whose first sample is drawn
    """
    _draw(trained.history, figures / "learning_curve.png")
    draw_prediction(trained.model, *shown, figures / "prediction.png")
    for name, dataset in zip(_names(tests), tests) if task in EVOLVING else ():
        found = results["evolution"][name]
        suffix = "" if len(tests) == 1 else "_" + name.replace("×", "x").replace(" ", "_")
        draw_errors(found, figures / f"error_against_time{suffix}.png")
        whole = np.nan_to_num(np.asarray(found["model"]["whole_of_samples"]), nan=np.inf)
        draw_frames(trained.model, task, dataset, whole, figures / f"frames{suffix}.png")


def draw_prediction(model: Any, name: str, dataset: Any, path: Path) -> None:
    """Input, truth, prediction and error of the first sample of a data set, of their first channels; 3-D fields are not
    drawn."""
    import torch

    from sciops.metrics import relative_l2
    from sciops.models.apply import apply_model, placed_for
    from sciops.plotting import plot_prediction

    if dataset.grid.ndim > 2:
        return
    sample = dataset.batch([0])
    with torch.no_grad():
        prediction = apply_model(model, placed_for(model, sample["x"]), dataset.grid).cpu()
    error = float(relative_l2(prediction, sample["y"])[0])
    label = f"{name} sample 0, relative L2 {error:.3g}"
    plot_prediction(sample["x"], sample["y"], prediction, dataset.grid, path=path, labels=[label])


def _names(tests: list[Any]) -> list[str]:
    """The grid of each, of space alone; where there are several strides with the stride."""
    sources = [getattr(dataset, "source", dataset) for dataset in tests]
    strides = [getattr(source, "stride", 1) for source in sources]
    grids = ["×".join(map(str, source.grid.shape)) for source in sources]
    return grids if len(set(strides)) < 2 else [f"{grid} stride {stride}" for grid, stride in zip(grids, strides)]


def table(config: TrainStudyConfig, results: dict[str, Any]) -> str:
    head = f"{config.model}: {results['parameters']:,} parameters, "
    head += f"{results['epochs']} epochs in {results['seconds']:.1f} s"
    if results["validation"] is not None:
        head += f", best epoch {results['best_epoch']} with validation {results['validation']:.4f}"
    wide = max(10, *map(len, results["test"]), 0)
    lines = [head, f"{'test grid':>{wide}} {'':>12} {'fields':>7} {'relative L2':>18} {'relative MSE':>13}"]
    for grid, kinds in results["test"].items():
        for kind, row in kinds.items():
            error = f"{row['relative_l2']:.4f}"
            if row["standard_error"] is not None:
                error += f" ± {row['standard_error']:.4f}"
            lines.append(f"{grid:>{wide}} {kind:>12} {row['samples']:>7} {error:>18} {row['relative_mse']:>13.5f}")
    for grid, found in results.get("evolution", {}).items():
        lines += evolution_table(grid, found)
    if not results["test"]:
        lines.append("no test fields: pass --test-samples to hold some out")
    if results["stopped"]:
        lines.append(f"stopped early: {results['stopped']}")
    return "\n".join([*lines, f"everything lies in {config.folder}"])


def _draw(history: list[dict[str, Any]], path: Path) -> None:
    from sciops.plotting import figure, series

    with figure(path, caption="Training loss and validation error against the epoch.") as (_, axes):
        axis, styles = axes[0, 0], series()
        for key, label in (("loss", "training loss"), ("validation", "validation, relative L2")):
            points = [(record["epoch"], record[key]) for record in history if key in record]
            if points:
                axis.semilogy(
                    *zip(*points), label=label, **(next(styles) | {"marker": "." if len(points) < 40 else ""})
                )
        axis.xaxis.get_major_locator().set_params(integer=True)  # there are no fractions of an epoch in the history
        axis.set(xlabel="epoch", ylabel="error")
        axis.legend()
