"""The fields that the resolution-shift study runs on: every grid of one dataset, its references, the ways up."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sciops.datasets import Splits
from sciops.grids import Grid

if TYPE_CHECKING:
    from studies.resolution_shift import ResolutionShiftConfig

UPSAMPLINGS: dict[str, dict[str, Any]] = {
    "sine": {"method": "sine", "wall": "zero"},  # network output is nearly, not exactly, 0 there
    "cubic": {"method": "cubic", "wall": "zero"},
    "linear": {"method": "linear", "wall": "zero"},
    "nearest": {"method": "nearest"},
    "fourier aligned": {"method": "fourier", "aligned": True},
    "fourier naive": {"method": "fourier", "aligned": False},
}


@dataclass(frozen=True)
class Case:
    """One dataset on all the grids of a study.

    splits : points per axis → its training, validation and test fields; a grid may hold test fields alone
    native : points per axis → (test samples, *grid), the equation solved on the coefficient of that grid, no network;
        empty where the coefficient's values are unknown and cannot be fitted
    coefficient : how the coefficient's values are known, for the report
    """

    splits: dict[int, Splits]
    native: dict[int, np.ndarray]
    coefficient: str
    _read: dict[int, tuple[Any, Any]] = field(default_factory=dict, init=False, repr=False, compare=False)

    def grid(self, points: int) -> Grid:
        """The grid with that many points per axis."""
        return self.splits[points].test.grid

    def test(self, points: int) -> tuple[Any, Any]:
        """(coefficient, solution) of the test fields, (samples, 1, *grid), float64 tensors, read once."""
        import torch

        if points not in self._read:
            data = self.splits[points].test
            batch = data.batch(torch.arange(len(data)))
            self._read[points] = batch["x"].double(), batch["y"].double()
        return self._read[points]

    def upsample(self, u: Any, source: int, target: int, way: str) -> Any:
        """u on the grid with `source` points per axis, carried to `target` points; the same array when equal."""
        from sciops.resampling import resample

        return u if source == target else resample(u, self.grid(source), self.grid(target), **UPSAMPLINGS[way])

    def upsamplings(self, source: int) -> tuple[str, ...]:
        """Ways up that are defined from that grid: the aligned Fourier way needs both walls on the grid."""
        return tuple(w for w in UPSAMPLINGS if w != "fourier aligned" or self.grid(source).reaches_walls)


def load_grid(config: ResolutionShiftConfig, points: int) -> Splits:
    """Training, validation and test fields of a study's dataset on the grid with that many points per axis."""
    from sciops.datasets import load_splits

    options = {} if config.hold_out is None else {"validation": config.hold_out}
    splits = load_splits(config.data, resolution=points, **options)
    if splits.test is None:
        raise ValueError(f"{config.data}: no test fields at {points} points per axis; generate with a test split")
    limits = {"train": config.train_samples, "test": config.test_samples}
    parts = {part: (getattr(splits, part), limit) for part, limit in limits.items() if limit is not None}
    return replace(
        splits, **{part: data and data.subset(range(min(limit, len(data)))) for part, (data, limit) in parts.items()}
    )


def load_case(config: ResolutionShiftConfig, *, native: bool = True) -> Case:
    """The dataset of a study's config on every grid it names; checks that all grids hold the same test fields.

    native : False leaves the solves of the coarse coefficients out
    """
    splits = {n: load_grid(config, n) for n in sorted({*config.train_grids, *config.test_grids})}
    counts = {n: len(s.test) for n, s in splits.items()}
    if len(set(counts.values())) != 1:
        raise ValueError(
            f"{config.data}: the grids hold different numbers of test fields, {counts}; they must be paired"
        )
    for n in config.train_grids:
        if splits[n].train is None:
            raise ValueError(f"{config.data}: no training fields at {n} points per axis; choose other --train-grids")
    return Case(splits, *(_native_solutions(splits, config.train_grids[0]) if native else ({}, "not looked at")))


def _native_solutions(splits: dict[int, Splits], points: int) -> tuple[dict[int, np.ndarray], str]:
    from sciops.datasets import fit_two_phase
    from sciops.pde import darcy

    tests = {n: s.test for n, s in splits.items()}
    if str(tests[points].attrs.get("equation", "darcy")) not in ("darcy", "unknown"):
        return {}, "none"
    if tests[points].attrs.get("coefficient") == "indicator":
        fit = fit_two_phase(splits[points].train)
        text = f"two unknown values; contrast {fit.contrast:.3g} and one scale fitted on the training fields"
        return {n: fit.solve(test) for n, test in tests.items()}, text
    solved = {
        n: darcy.solve(_numpy(test, "x")[:, 0], test.grid, forcing=float(test.attrs.get("forcing", 1.0))).u
        for n, test in tests.items()
    }
    return solved, "values stored with the data"


def _numpy(dataset: Any, key: str) -> np.ndarray:
    import torch

    return dataset.batch(torch.arange(len(dataset)))[key].double().numpy()
