"""Errors against time of the training study, its table and its figures."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from sciops.evaluation import frames_of

WINDOWS = ((6, 12), (13, 30))  # The Well's, arXiv:2412.00568
THRESHOLD = 0.8
_OF = "relative_l2 of "


def evolution(model: Any, task: str, test: Any) -> dict[str, Any]:
    """Errors against time on the test trajectories, of the model and of persistence, as results.json holds them."""
    from sciops.evaluation import correlation, errors_against_time, persistence, rollout_errors
    from sciops.metrics import relative_l2, vrmse

    predict, trajectories = frames_of(model, task, test)
    metrics = {"relative_l2": relative_l2, "vrmse": vrmse, "correlation": correlation}
    if trajectories.channels > 1:  # the largest variable hides the others
        metrics |= {_OF + name: _of_channel(i) for i, name in enumerate(trajectories.state)}
    still = persistence(channels=trajectories.channels, history=trajectories.history)
    found = {
        "model": errors_against_time(predict, trajectories, metrics),
        "persistence": rollout_errors(still, trajectories, metrics),
    }
    first = found["model"]
    return {
        "trajectories": trajectories.count,
        "start": first.start,
        "times": first.times,
        "time_units": first.time_units,
        **{name: _summary(errors) for name, errors in found.items()},
    }


def _of_channel(number: int) -> Callable[..., Any]:
    from sciops.metrics import relative_l2

    return lambda prediction, target, grid: relative_l2(prediction[:, number], target[:, number])


def _summary(errors: Any) -> dict[str, Any]:
    from sciops.evaluation import correlation_time, window_errors

    steps = len(errors.times)
    times = np.concatenate([[0.0], errors.times - errors.start])
    correlated = np.concatenate([np.ones((len(errors.whole), 1)), errors.errors["correlation"]], 1)
    reached = [window for window in WINDOWS if window[1] <= steps]
    windows = window_errors(errors.errors["vrmse"], reached)
    return {
        "whole": float(errors.whole.mean()),
        "whole_of_samples": errors.whole,
        "broke": int((errors.broke > 0).sum()),
        **{name: values.mean(0) for name, values in errors.errors.items()},
        "relative_l2_quartiles": _quartiles(errors.errors["relative_l2"]),
        "correlation_time": float(np.median(correlation_time(times, correlated, THRESHOLD))),
        "correlation_time_of_mean": float(correlation_time(times, np.nan_to_num(correlated).mean(0), THRESHOLD)),
        "vrmse_windows": {name: float(values.mean()) for name, values in windows.items()},
    }


def _quartiles(values: np.ndarray) -> np.ndarray:
    """(3, steps); infinite among infinite errors, those of frames that vanish in truth, and not their difference."""
    with np.errstate(invalid="ignore"):
        found = np.quantile(values, (0.25, 0.5, 0.75), axis=0)
    above = np.quantile(values, (0.25, 0.5, 0.75), axis=0, method="higher")
    return np.where(np.isnan(found), above, found)


def table(grid: str, found: dict[str, Any]) -> list[str]:
    """Lines for the terminal: the error at some of the times, over all of them, and the correlation time."""
    times, steps = np.asarray(found["times"]), len(found["times"])
    shown = sorted({round(k) for k in np.linspace(0, steps - 1, min(steps, 6))})
    unit = "" if found["time_units"] in ("1", "") else f" {found['time_units']}"
    head = "".join(f"{f't={times[k]:.4g}':>11}" for k in shown)
    lines = [f"{grid}, {found['trajectories']} test trajectories from t={found['start']:.4g}{unit}, relative L2"]
    lines.append(f"{'':>12}{head}{'all times':>11}{f'corr > {THRESHOLD}':>12}")
    for name in ("model", "persistence"):
        row = found[name]
        errors = "".join(f"{row['relative_l2'][k]:>11.4f}" for k in shown)
        until = row["correlation_time"]
        until = "throughout" if until == np.inf else f"{until:.4g}{unit}"
        line = f"{name:>12}{errors}{row['whole']:>11.4f}{until:>12}"
        line += "".join(f"  VRMSE {name} {value:.4f}" for name, value in row["vrmse_windows"].items())
        lines.append(line + (f"  {row['broke']} not finite" if row["broke"] else ""))
        for key in row:
            if key.startswith(_OF):
                lines.append(f"{key.removeprefix(_OF):>12}" + "".join(f"{row[key][k]:>11.4f}" for k in shown))
    return lines


_ERRORS = (
    "Relative L2 error against time on the test trajectories: median, with the quartiles as a band; persistence "
    "repeats the last frame that was given."
)
_FRAMES = "Test trajectories: truth, prediction and their difference."


def draw_errors(found: dict[str, Any], path: Path) -> None:
    """Median and quartiles of the relative L2 error against time."""
    from sciops.plotting import figure, series

    with figure(path, caption=_ERRORS) as (_, axes):
        axis, styles = axes[0, 0], series()
        for name in ("model", "persistence"):
            low, middle, high = np.asarray(found[name]["relative_l2_quartiles"])
            style = next(styles) | ({"marker": ""} if len(middle) > 30 else {})
            axis.semilogy(found["times"], middle, label=name, **style)
            axis.fill_between(found["times"], low, high, color=style["color"], alpha=0.2, linewidth=0)
        axis.set(xlabel=_time_label(found["time_units"]), ylabel="relative L2 error (median, quartiles)")
        axis.legend()


def draw_frames(model: Any, task: str, test: Any, whole: np.ndarray, path: Path) -> None:
    """Truth, prediction and error of test trajectories: over time and space in 1-D, at three times in 2-D.

    In 1-D the trajectories at the 10th, 50th and 90th percentile of the error, so that neither luck nor the worst case
    is all that is shown; in 2-D the one at the median. 3-D fields are not drawn.
    """
    predict, data = frames_of(model, task, test)
    if data.grid.ndim > 2:
        return
    ranked = np.argsort(whole)
    shares = (0.1, 0.5, 0.9) if data.grid.ndim == 1 else (0.5,)
    numbers = [int(ranked[round(share * (len(ranked) - 1))]) for share in shares]
    truth = data.trajectories(numbers)
    steps = len(data.times) - data.history
    prediction = predict(data.initial(numbers, steps), data.grid, steps)[:, :, 0].cpu().numpy()
    truth = truth[:, data.history :, 0].numpy()
    times = data.times[data.history :]
    if data.grid.ndim == 1:
        labels = [f"test trajectory {data.samples[n]}" for n in numbers]
        rows = list(zip(labels, truth, prediction, whole[numbers]))
        _draw_space_time(rows, data, times, path)
    else:
        _draw_snapshots(truth[0], prediction[0], data, times, f"test trajectory {data.samples[numbers[0]]}", path)


def _draw_space_time(rows: list[tuple], data: Any, times: np.ndarray, path: Path) -> None:
    from sciops.plotting import figure

    x, name = data.grid.coordinates()[0], data.state[0]
    with figure(path, len(rows), 3, width=2.9, height=2.2, caption=_FRAMES) as (fig, axes):
        for row, (label, true, predicted, error) in zip(axes, rows):
            largest, wrong = _largest(true), predicted - true
            panels = (
                (f"true {name}", true, largest),
                (f"predicted {name}", predicted, largest),
                ("error", wrong, _largest(wrong)),
            )
            for axis, (title, values, limit) in zip(row, panels):
                image = axis.pcolormesh(
                    x, times, values, shading="nearest", cmap="RdBu_r", vmin=-limit, vmax=limit, rasterized=True
                )
                axis.grid(visible=False)
                axis.set(title=title if title != "error" else f"predicted − true, relative L2 {error:.4f}", xlabel="x")
                fig.colorbar(image, ax=axis)
            row[0].set_ylabel(f"{label}\n{_time_label(data.time_units)}")
        fig.suptitle("the 10th, 50th and 90th percentile of the error")


def _draw_snapshots(
    true: np.ndarray, predicted: np.ndarray, data: Any, times: np.ndarray, label: str, path: Path
) -> None:
    from sciops.plotting import draw_field, figure

    shown = sorted({0, (len(times) - 1) // 2, len(times) - 1})
    with figure(path, len(shown), 3, width=2.7, height=2.4, caption=_FRAMES) as (fig, axes):
        for row, k in zip(axes, shown):
            largest, wrong = _largest(true[k]), predicted[k] - true[k]
            for axis, (title, values, limit) in zip(
                row,
                (
                    ("true", true[k], largest),
                    ("predicted", predicted[k], largest),
                    ("predicted − true", wrong, _largest(wrong)),
                ),
            ):
                title = f"{title} {data.state[0]}, t={times[k]:.4g}"
                limits = {"cmap": "RdBu_r", "vmin": -limit, "vmax": limit}
                draw_field(fig, axis, values, data.grid, title=title, **limits)
                axis.set(xlabel="x", ylabel="y")
        fig.suptitle(label)


def _largest(values: np.ndarray) -> float:
    """The largest finite magnitude, for a colour scale: 1 where there is none or it is 0."""
    return float(np.abs(values[np.isfinite(values)]).max(initial=0.0)) or 1.0


def _time_label(units: str) -> str:
    return {"1": "time", "": "time", "frames": "time (frames)"}.get(units, f"time ({units})")
