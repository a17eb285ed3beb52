"""How well a trained model does on a file: errors with their spread, by wavenumber, by step, beside the solver."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from tqdm.auto import tqdm

from sciops.evaluation import frame_errors
from sciops.grids import Grid
from sciops.metrics import h1, relative_l2
from sciops.spectral import band_errors
from sciops.trained.distribution_scores import DistributionScores, scored
from sciops.trained.native_solve import NativeSolve, native_solve
from sciops.trained.opening import open_trained
from sciops.trained.problem import Problem, open_problem

QUANTILES = (0.05, 0.25, 0.75, 0.95)
WORST = 5  # samples that are named
_ZERO = 1e-6  # of the largest value: what a field on the wall may have and count as vanishing there


@dataclass(frozen=True)
class Bands:
    """Errors by band of wavenumbers, over all samples and frames together.

    lower, upper : (bands,) of |k|, in periods per domain
    error : (bands,) √(Σ‖p − u‖_b² / Σ‖u‖_b²)
    error_share, energy_share : (bands,) shares of the squared error and of the truth's energy
    transform : what was assumed beyond the walls: "periodic", "odd", "even" or "hann"
    """

    lower: np.ndarray
    upper: np.ndarray
    error: np.ndarray
    error_share: np.ndarray
    energy_share: np.ndarray
    transform: str


@dataclass(frozen=True)
class Evaluation:
    """Errors of a trained model on the samples of a file.

    problem : the samples and the model
    relative_l2 : (samples,) of all frames and variables together, every point alike; NaN where not finite
    h1 : (samples,) of a steady problem, with the grid's weights; None otherwise
    by_step : (samples, frames) relative L2 of each frame; None where nothing evolves
    persistence : (samples, frames) of the last frame given, kept for ever; None where nothing evolves
    bands : None on grids of fewer than four points on an axis
    seconds : of a sample in the model, reading included
    native : the solver on the same samples, or a text that says why there is none; None for what evolves, and where it
        was not asked for
    distribution : scores of a model of a distribution, whose errors above are those of its mean; None of other models
    """

    problem: Problem
    relative_l2: np.ndarray
    h1: np.ndarray | None
    by_step: np.ndarray | None
    persistence: np.ndarray | None
    bands: Bands | None
    seconds: float
    native: NativeSolve | str | None
    distribution: DistributionScores | None = None

    @property
    def order(self) -> np.ndarray:
        """Numbers of the samples, the worst first; those that are not finite lead."""
        return np.argsort(-np.nan_to_num(self.relative_l2, nan=np.inf), kind="stable")

    @property
    def median(self) -> int:
        """Number of the sample at the median of the error."""
        return int(self.order[len(self.order) // 2])


def evaluate_on(
    model: Any,
    data: str | os.PathLike,
    *,
    samples: Sequence[int] | None = None,
    split: str | None = None,
    resolution: int | tuple[int, ...] | None = None,
    steps: int | None = None,
    solutions: int = 16,
    phases: tuple[float, float] | None = None,
    batch_size: int | None = None,
    device: torch.device | str | None = None,
    progress: bool = True,
) -> Evaluation:
    """Errors of a trained model on a file.

    Parameters
    ----------
    model : torch.nn.Module, str or path-like
        As in `sciops.predict`.
    data : str or path-like
        A file of any known layout that holds the truth, or the folder of files that the model was trained on.
    samples, split, resolution, steps
        As in `sciops.trained.problem.open_problem`; default the test part of the training's own data, all samples of
        any other file.
    solutions : int
        Samples that the native solver solves too, where the equation is known; 0 for none.
    phases : (float, float), optional
        Values of a coefficient of which the file marks two phases only, for the solver.
    batch_size, device
        As in `sciops.predict`.
    progress : bool
        A bar on stderr, where that is a terminal.

    Returns
    -------
    Evaluation

    Raises
    ------
    ValueError
        For data without the truth, or that the model does not fit, and what `open_problem` raises.
    """
    if solutions < 0:
        raise ValueError(f"solutions={solutions}: expected 0 or more")
    data = Path(data)
    if not data.exists():
        raise FileNotFoundError(f"{data}: no such file or folder")
    problem = open_problem(
        open_trained(model, device=device),
        data,
        samples=samples,
        split=split,
        resolution=resolution,
        steps=steps,
        held_out=True,
    )
    if problem.known < problem.frames:
        raise ValueError(
            f"{data} holds {f'no {problem.names[0]}' if not problem.known else f'{problem.known} frames'} to compare "
            f"with{f' for steps={steps}' if problem.known else ''}; sciops predict writes what the model says of it"
        )
    found = _Found(problem)
    with closing(problem.fields):
        for numbers in tqdm(problem.batches(batch_size), unit="batch", disable=None if progress else True):
            found.add(numbers)
        native = native_solve(problem, solutions, phases) if solutions and problem.task == "steady" else None
        distribution = scored(problem, batch_size)
    return replace(found.evaluation(native), distribution=distribution)


class _Found:
    """What is added up over the batches."""

    def __init__(self, problem: Problem) -> None:
        self.problem, self.seconds = problem, 0.0
        self.transform = ""
        self.values: dict[str, list[np.ndarray]] = {"whole": [], "h1": [], "by_step": [], "persistence": []}
        self.squared: list[np.ndarray] = []  # (2, bands) of error and truth
        self.edges: tuple[np.ndarray, np.ndarray] | None = None

    def add(self, numbers: np.ndarray) -> None:
        problem, grid = self.problem, self.problem.grid
        began = time.perf_counter()
        prediction = problem.predict(numbers)
        self.seconds += time.perf_counter() - began
        truth = problem.truth(numbers).to(prediction)
        finite = torch.isfinite(prediction).flatten(1).all(1)
        whole = np.asarray(relative_l2(prediction, truth), np.float64)
        self.values["whole"].append(np.where(finite, whole, np.nan))
        if problem.by_frames:
            self.values["by_step"].append(_of_frames(prediction, truth, grid))
            still = problem.inputs(numbers).to(truth)[:, None].expand_as(truth)
            self.values["persistence"].append(_of_frames(still, truth, grid))
        elif min(grid.shape) >= 3:
            own = np.asarray(h1(prediction[:, 0], truth[:, 0], grid), np.float64)
            self.values["h1"].append(np.where(finite, own, np.nan))
        if min(grid.shape) >= 4 and finite.any():
            self._add_bands(prediction[finite].flatten(0, 1), truth[finite].flatten(0, 1), grid)

    def _add_bands(self, prediction: Tensor, truth: Tensor, grid: Grid) -> None:
        self.transform = self.transform or transform_of(grid, torch.cat([truth, prediction]))
        options: dict[str, Any] = {}
        if self.transform == "hann":
            options = {"taper": "hann"}
        elif self.transform != "periodic":
            options = {"extension": self.transform}
        bands = band_errors(prediction, truth, grid, **options)
        self.edges = np.asarray(bands.lower), np.asarray(bands.upper)
        self.squared.append(np.stack([np.asarray(v).sum(0) for v in (bands.squared_error, bands.target_energy)]))

    def evaluation(self, native: NativeSolve | str | None) -> Evaluation:
        joined = {name: np.concatenate(parts) if parts else None for name, parts in self.values.items()}
        whole = joined["whole"]
        assert whole is not None
        return Evaluation(
            self.problem,
            whole,
            joined["h1"],
            joined["by_step"],
            joined["persistence"],
            self._bands(),
            self.seconds / max(1, self.problem.count),
            native,
        )

    def _bands(self) -> Bands | None:
        if self.edges is None:
            return None
        wrong, energy = np.sum(self.squared, 0)
        with np.errstate(divide="ignore", invalid="ignore"):
            error = np.nan_to_num(np.sqrt(wrong / energy), posinf=np.inf)
            error_share, energy_share = (np.nan_to_num(part / part.sum()) for part in (wrong, energy))
        return Bands(*self.edges, error, error_share, energy_share, self.transform)


def transform_of(grid: Grid, fields: Tensor) -> str:
    """What spectra of fields (batch, channels, *grid) assume beyond the grid, so that they hold the whole error.

    "periodic" on a period; between walls "odd" where all fields, truth and prediction, vanish on the nodes of the
    walls, else "even"; "hann", a taper, on a grid that stops short of its walls.
    """
    if grid.centering == "periodic":
        return "periodic"
    if not grid.reaches_walls:
        return "hann"
    if grid.centering == "node":
        space = range(fields.ndim - grid.ndim, fields.ndim)
        edge = max(float(fields.select(axis, end).abs().max()) for axis in space for end in (0, -1))
        if edge <= _ZERO * float(fields.abs().max()):
            return "odd"
    return "even"


def _of_frames(prediction: Tensor, truth: Tensor, grid: Grid) -> np.ndarray:
    return frame_errors(prediction, truth, ("relative_l2",), grid=grid)["relative_l2"]


def summary(values: np.ndarray) -> dict[str, Any]:
    """Mean with its standard error, median, quantiles and largest of the finite values, and how many are not finite."""
    finite = values[np.isfinite(values)]
    broken = int(values.size - finite.size)
    if not finite.size:
        return {"samples": 0, "not_finite": broken}
    deviation = float(finite.std(ddof=1)) if finite.size > 1 else None
    return {
        "samples": int(finite.size),
        "not_finite": broken,
        "mean": float(finite.mean()),
        "standard_deviation": deviation,
        "standard_error": None if deviation is None else deviation / finite.size**0.5,
        "median": float(np.median(finite)),
        **{f"quantile_{q:.2f}": float(np.quantile(finite, q)) for q in QUANTILES},
        "largest": float(finite.max()),
    }
