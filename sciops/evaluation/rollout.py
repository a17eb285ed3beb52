"""Rollouts: a model run on its own predictions, errors against time, and the time until correlation is lost."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from sciops.arrays.kinds import as_tensor, refuse_masked
from sciops.arrays.scale import power_of_two, widened
from sciops.arrays.short import fields_text
from sciops.grids import Grid, check_on_grid
from sciops.metrics import EVERY_POINT_ALIKE, METRICS, relative_l2
from sciops.models import Stepper
from sciops.models.apply import evaluating, placed_for, unwrapped
from sciops.values import check_whole

_NUMBERS = 2**26  # in the trajectories that are run at a time


@dataclass(frozen=True)
class RolloutErrors:
    """Errors of every trajectory at every predicted time.

    times : (steps,) of the predicted frames, in `time_units`; the last frame given was at `start`
    errors : metric → (trajectories, steps) float64; NaN from where a prediction was no longer finite
    whole : (trajectories,) relative L2 error of all predicted frames together, √(Σ‖p − u‖² / Σ‖u‖²); NaN where broken
    broke : (trajectories,) first step whose frame is not finite, counted from 1; 0 where all are finite
    """

    times: np.ndarray
    start: float
    errors: dict[str, np.ndarray]
    whole: np.ndarray
    broke: np.ndarray
    time_units: str = "1"

    __repr__ = fields_text


def rollout(model: nn.Module, x0: Any, grid: Grid | None = None, *, steps: int) -> Any:
    """Runs a model on its own predictions: u_1, …, u_steps, where u_{k+1} is the model's output at u_k.

    model : a `Stepper` (its `steps`, `gradient` and `noise` are of training alone), or any model of one step without
        history, (batch, channels, *grid) → the same
    x0 : (batch, channels, *grid), the window and constants that the model takes, and, for a stepper that takes
        them, the forcings and lengths of all the steps: ``TrajectoryDataset.initial(numbers, steps)``; numpy or torch,
        on any grid
    returns : (batch, steps, channels, *grid), same kind, on the model's device

    All steps are taken. A sample whose frame is not finite is left out from then on, its frames from there are NaN, and
    a RuntimeWarning says which step it was. The model is in evaluation mode for the time of the call, without a graph.

    Raises ValueError for steps below 1 and for a model that does not return what it takes.
    """
    check_whole(steps=steps)
    x, restore = as_tensor(x0, "x0")
    one = unwrapped(model)
    stepper = one if isinstance(one, Stepper) else Stepper(model, channels=x.shape[1], residual=False)
    x, known = stepper.split(placed_for(model, x), steps)
    frames = x.new_full((len(x), steps, stepper.channels, *x.shape[2:]), float("nan"))
    alive = torch.arange(len(x), device=x.device)
    broke: dict[int, int] = {}
    with torch.no_grad(), evaluating(model):
        for k in range(steps):
            frame = stepper.step(stepper.told(x, known, k), grid)
            finite = torch.isfinite(frame).flatten(1).all(1)
            if not finite.all():
                broke |= {int(sample): k + 1 for sample in alive[~finite]}
                alive, x, known, frame = alive[finite], x[finite], known[finite], frame[finite]
            if not len(alive):
                break
            frames[alive, k] = frame
            x = stepper.advance(x, frame)
    if broke:
        sample, step = min(broke.items(), key=lambda item: item[1])
        warnings.warn(
            f"rollout: {len(broke)} of {len(frames)} samples stopped being finite, the first is sample {sample} at "
            f"step {step} of {steps}; their frames from there on are NaN",
            RuntimeWarning,
            stacklevel=2,
        )
    return restore(frames)


def rollout_errors(
    model: nn.Module,
    dataset: Any,
    metrics: Sequence[str] | Mapping[str, Callable[..., Any]] = ("relative_l2", "correlation"),
    *,
    steps: int | None = None,
    batch_size: int = 32,
) -> RolloutErrors:
    """Errors against time of the model run from the first window of every trajectory.

    model : as in `rollout`; it sees the first ``dataset.history`` frames and nothing of the truth after them
    dataset : `TrajectoryDataset`
    metrics : names in `sciops.metrics.METRICS`, "correlation", or a dict of functions (prediction, target, grid) →
        (batch,); each frame is measured by itself. Of the package's own metrics those that do not need the grid weigh
        every point alike; any other function gets the grid
    steps : default all that the trajectories have
    batch_size : trajectories run at a time, at most: fewer where they are large

    Raises ValueError for unknown metrics and more steps than there are true frames.
    """
    return errors_against_time(
        lambda x0, grid, steps: rollout(model, x0, grid, steps=steps),
        dataset,
        metrics,
        steps=steps,
        batch_size=batch_size,
    )


def errors_against_time(
    predict: Callable[[Tensor, Grid, int], Tensor],
    dataset: Any,
    metrics: Sequence[str] | Mapping[str, Callable[..., Any]] = ("relative_l2", "correlation"),
    *,
    steps: int | None = None,
    batch_size: int = 32,
) -> RolloutErrors:
    """As `rollout_errors`, for any function that returns frames, such as a model that predicts all of them at once.

    predict : (x0, grid, steps) → (batch, steps, channels, *grid) from the first windows, constants and what else is
        known, x0 = ``dataset.initial(numbers, steps)``
    """
    most = len(dataset.times) - dataset.history
    steps = most if steps is None else steps
    if not 1 <= steps <= most:
        raise ValueError(f"steps={steps}: the trajectories have {most} frames after the first {dataset.history}")
    parts: list[dict[str, np.ndarray]] = []
    wholes: list[Tensor] = []
    broke: list[Tensor] = []
    size = dataset.grid.size * len(dataset.times) * dataset.channels
    batch_size = max(1, min(batch_size, _NUMBERS // size))
    for start in range(0, dataset.count, batch_size):
        numbers = np.arange(start, min(start + batch_size, dataset.count))
        truth, x0 = dataset.trajectories(numbers), dataset.initial(numbers, steps)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # `broke` tells
            prediction = predict(x0, dataset.grid, steps)
        lost = ~torch.isfinite(prediction).flatten(2).all(2)
        broke.append(torch.where(lost.any(1), lost.int().argmax(1) + 1, 0).cpu())
        target = truth[:, dataset.history : dataset.history + steps].to(prediction)
        parts.append(frame_errors(prediction, target, metrics, grid=dataset.grid))
        whole = relative_l2(prediction, target).cpu().double()
        wholes.append(torch.where(lost.any(1).cpu(), torch.nan, whole))
    return RolloutErrors(
        dataset.times[dataset.history : dataset.history + steps],
        float(dataset.times[dataset.history - 1]),
        {name: np.concatenate([part[name] for part in parts]) for name in parts[0]},
        torch.cat(wholes).numpy(),
        torch.cat(broke).numpy(),
        dataset.time_units,
    )


def frame_errors(
    prediction: Any,
    target: Any,
    metrics: Sequence[str] | Mapping[str, Callable[..., Any]] = ("relative_l2",),
    *,
    grid: Grid,
) -> dict[str, np.ndarray]:
    """Each metric of each frame by itself: name → (batch, frames) float64.

    prediction, target : (batch, frames, channels, *grid)
    metrics : as in `rollout_errors`

    A frame that is not finite has NaN errors. Raises ValueError for shapes that differ and unknown metrics.
    """
    p, _ = as_tensor(prediction, "prediction")
    u, _ = as_tensor(target, "target")
    if p.shape != u.shape or p.ndim != grid.ndim + 3:
        raise ValueError(
            f"prediction has shape {tuple(p.shape)}, target {tuple(u.shape)}: expected (batch, frames, channels, "
            f"*{grid.shape}) for both"
        )
    known = {**METRICS, "correlation": correlation}
    if not isinstance(metrics, Mapping):
        for name in metrics:
            if name not in known:
                raise ValueError(f"metrics has {name!r}: expected some of {', '.join(known)}")
        metrics = {name: known[name] for name in metrics}
    lost = ~torch.isfinite(p).flatten(2).all(2).cpu().numpy()
    errors = {}
    for name, metric in metrics.items():
        values = metric(p.flatten(0, 1), u.flatten(0, 1), None if metric in EVERY_POINT_ALIKE else grid)
        values = np.asarray(torch.as_tensor(values).cpu(), np.float64).reshape(p.shape[:2])
        errors[name] = np.where(lost, np.nan, values)
    return errors


def correlation(prediction: Any, target: Any, grid: Grid | None = None) -> Any:
    """Pearson correlation of two fields over space, per sample, averaged over channels.

    ⟨(p − ⟨p⟩)(u − ⟨u⟩)⟩ / (σ_p σ_u)

    prediction, target : (batch, ..., *grid)   numpy or torch, same units
    grid : Grid | None     quadrature weights, and which axes are space; None takes all axes but the first as points
    returns : (batch,)     same kind as the input, half precision in float32; NaN where values are not finite

    A constant prediction has correlation 0. Of a channel whose target is constant it is not defined: it is left out of
    the mean, which is 0 where all targets are constant.

    Raises ValueError when the shapes differ, naming both.
    """
    p, restore = as_tensor(prediction, "prediction")
    u, _ = as_tensor(target, "target")
    if p.shape != u.shape:
        raise ValueError(
            f"prediction has shape {tuple(p.shape)}, target {tuple(u.shape)}: expected the same shape for both"
        )
    p, u = widened(p), widened(u)
    if grid is None:
        p, u, w = p.flatten(1)[:, None], u.flatten(1)[:, None], None
    else:
        check_on_grid(p, grid, "prediction")
        p, u = (v.reshape(len(v), -1, grid.size) for v in (p, u))
        w = torch.as_tensor(grid.weights() / grid.weights().mean(), dtype=p.dtype, device=p.device).flatten()
    (p, p_size), (u, u_size) = _fluctuation(p, w), _fluctuation(u, w)
    value = _mean(p * u, w) / (p_size * u_size)
    value = torch.where((p_size == 0) | (u_size == 0), 0.0, value)
    return restore(value.sum(-1) / (u_size != 0).sum(-1).clamp_min(1))


def correlation_time(times: Any, correlation: Any, threshold: float = 0.8) -> np.ndarray:
    """The first time at which the correlation is below `threshold`, linear between two times; inf where it never is.

    times : (steps,)
    correlation : (..., steps), such as ``rollout_errors(…).errors["correlation"]``
    returns : (...) float64

    Of the mean correlation of the samples, ``correlation.mean(0)``, it is what Lippe et al. (arXiv:2308.05732) report
    with 0.8 and 0.9, and Kochkov et al. (doi:10.1073/pnas.2101784118) with 0.95, there as the first stored time below.
    Where the first value is below already, the first time; where a value is NaN, the last time before it (or the first
    time).
    """
    for name, values in (("times", times), ("correlation", correlation)):
        refuse_masked(values, name)
    t, c = np.asarray(times, np.float64), np.asarray(correlation, np.float64)
    if t.ndim != 1 or c.shape[-1:] != t.shape or not len(t):
        raise ValueError(f"times has shape {t.shape}, correlation {c.shape}: expected (steps,) and (..., steps)")
    below = ~(c >= threshold)
    first = below.argmax(-1)
    before = np.maximum(first - 1, 0)
    high, low = (np.take_along_axis(c, k[..., None], -1)[..., 0] for k in (before, first))
    crosses = np.isfinite(low) & (first > 0)
    share = np.where(crosses, (high - threshold) / np.where(crosses, high - low, 1.0), 0.0)
    return np.where(below.any(-1), t[before] + share * (t[first] - t[before]), np.inf)


def window_errors(errors: Any, windows: Sequence[tuple[int, int]] = ((6, 12), (13, 30))) -> dict[str, np.ndarray]:
    """Mean error over the steps first … last of each window: "first–last" → (...).

    errors : (..., steps)
    windows : (first, last) steps, counted from 1, both ends included; the defaults are The Well's (arXiv:2412.00568)

    Raises ValueError for a window that the errors do not reach: a shorter mean would be another number.
    """
    refuse_masked(errors, "errors")
    errors = np.asarray(errors, np.float64)
    means = {}
    for first, last in windows:
        if not 1 <= first <= last <= errors.shape[-1]:
            raise ValueError(f"windows has ({first}, {last}): expected steps within 1 … {errors.shape[-1]}")
        means[f"{first}–{last}"] = errors[..., first - 1 : last].mean(-1)
    return means


def persistence(*, channels: int = 1, history: int = 1, steps: int = 1) -> Stepper:
    """The stepper u_{k+1} = u_k, a baseline for any other. channels, history, steps : as in `Stepper`."""
    return Stepper(_NoIncrement(channels), channels=channels, history=history, steps=steps)


class _NoIncrement(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.channels = channels

    def forward(self, x: Tensor) -> Tensor:
        return torch.zeros_like(x[:, : self.channels])


def _fluctuation(v: Tensor, weights: Tensor | None) -> tuple[Tensor, Tensor]:
    """(v minus its mean, over a power of two near the largest value; its root mean square), exactly 0 for constants."""
    v = v - v[..., :1]
    v = v / power_of_two(v, -1)
    v = v - _mean(v, weights)[..., None]
    return v, _mean(v * v, weights).sqrt()


def _mean(v: Tensor, weights: Tensor | None) -> Tensor:
    return (v if weights is None else v * weights).mean(-1)
