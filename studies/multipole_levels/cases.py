"""The tasks of the study of levels: fields and images, the network around the mixer, and how it is trained."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from sciops.datasets import Splits, TensorFields, load_splits
from sciops.datasets.images import load_images
from sciops.grids import Grid, restrict
from sciops.models import build_model
from sciops.pde import navier_stokes
from sciops.random_fields import gaussian_random_field
from studies.kit.cells import kept_arrays
from studies.kit.fields.darcy import darcy_splits
from studies.multipole_levels.arms import Arm

CASES = ("darcy", "files", "digits", "flow")
WAYS: dict[str, dict[str, dict[str, Any]]] = {
    "darcy": {"low + sine": {"method": "sine", "wall": "zero"}, "low + spline": {"method": "cubic", "wall": "zero"}},
    "files": {"low + sine": {"method": "sine", "wall": "zero"}, "low + spline": {"method": "cubic", "wall": "zero"}},
    "flow": {"low + Fourier": {"method": "fourier"}},
}
TITLES = {
    "darcy": "Darcy flow, li2020 law",
    "files": "neuraloperator's 16-node Darcy files",
    "digits": "digits, 8×8 pixels",
    "flow": "Navier–Stokes, one time step",
}
UNITS = {
    "darcy": "relative L² error",
    "files": "relative L² error",
    "digits": "share of digits wrong",
    "flow": "relative L² error of the increment",
}

_SPINE: dict[str, Any] = {"width": 32, "depth": 4, "mlp": "gated", "mlp_ratio": 1.5, "norm": "rms"}
_PYRAMID = {"window": 4, "heads": 4}
_NETWORKS: dict[str, dict[str, Any]] = {
    "darcy": _SPINE | {"coordinates": "wall"},
    "files": _SPINE | {"coordinates": "linear"},
    "flow": _SPINE,
}
_SPECTRAL: dict[str, dict[str, Any]] = {
    "darcy": {"modes": 16, "basis": "sine-cosine", "weights": "dense"},
    "files": {"modes": 8, "basis": "fourier", "weights": "diagonal"},
    "flow": {"modes": 12, "basis": "fourier", "weights": "dense"},
    "digits": {"modes": 4},
}
_TRAINING: dict[str, dict[str, Any]] = {
    "darcy": {"learning_rate": 8e-3, "batch_size": 8, "augment": "square", "gradient_weight": 0.3},
    "files": {"learning_rate": 7e-3, "batch_size": 16, "augment": "transpose"},
    "flow": {"learning_rate": 4e-3, "batch_size": 8},
    "digits": {"learning_rate": 5e-3, "batch_size": 32, "weight_decay": 0.05, "objective": "cross_entropy"},
}
_FLOW = {"viscosity": 1e-4, "times": (1.0, 2.0, 3.0, 4.0, 5.0), "dt": 1 / 64, "seed": 0, "modes": 24}


@dataclass(frozen=True)
class Case:
    """A task.

    splits : training, validation and test data on the grid of training
    finer : points per axis → the same test functions on a finer grid
    group : number of consecutive test samples that depend on each other, whose errors are averaged
    wall : of the network, see `SpineOptions`
    """

    name: str
    splits: Splits
    finer: Mapping[int, TensorFields]
    group: int = 1
    wall: str = "none"

    @property
    def points(self) -> int:
        return self.splits.train.grid.shape[0]


@lru_cache(maxsize=4)
def load_case(
    name: str, folder: Path, data: Path | None, samples: tuple[int, int, int], sizes: tuple[int, ...], wall: str
) -> Case:
    """The data of a case.

    data : folder with neuraloperator's darcy_train_16.pt, darcy_test_16.pt and darcy_test_32.pt, for "files"
    samples, sizes : of "darcy": training, validation and test fields; nodes per axis, the first for training. "flow"
        has an eighth as many trajectories
    """
    if name == "darcy":
        fields, _ = darcy_splits(folder, sizes, samples)
        return Case(name, fields[sizes[0]], {n: fields[n].test for n in sizes[1:]}, wall=wall)
    if name == "files":
        splits = load_splits(data, resolution=16, validation=50)
        return Case(name, splits, {32: load_splits(data, resolution=32, validation=0).test})
    if name == "digits":
        return Case(name, load_images("digits", validation=180, test=360), {})
    counts = tuple(max(2, n // 8) for n in samples)
    arrays = kept_arrays(folder, "flow", _FLOW | {"counts": counts}, lambda: _flow(sum(counts)))
    ends, steps = np.cumsum([0, *counts]), len(_FLOW["times"]) - 1
    parts: dict[int, list[TensorFields]] = {}
    for n in (32, 64):
        w = arrays[f"w{n}"]
        grid = Grid((n, n), centering="periodic")
        for i, j in zip(ends[:-1], ends[1:]):
            now, increment = w[i:j, :-1], np.diff(w[i:j], axis=1)
            pairs = [np.ascontiguousarray(a.reshape(-1, 1, n, n), np.float32) for a in (now, increment)]
            parts.setdefault(n, []).append(TensorFields(*pairs, grid))
    return Case(name, Splits(*parts[32]), {64: parts[64][2]}, group=steps)


def _flow(count: int) -> dict[str, np.ndarray]:
    """Vorticity on the torus, (trajectories, times, n, n), solved on 64² points."""
    fine, coarse = (Grid((n, n), centering="periodic") for n in (64, 32))
    law = {"tau": 7.0, "alpha": 2.5, "seed": _FLOW["seed"], "modes": _FLOW["modes"]}
    w0 = gaussian_random_field(fine, count, **law)
    asked = {"times": np.array(_FLOW["times"]), "viscosity": _FLOW["viscosity"], "dt": _FLOW["dt"]}
    parts = [
        navier_stokes.solve(w0[i : i + 16], fine, forcing=navier_stokes.li2020_forcing, **asked).u
        for i in range(0, count, 16)
    ]
    w = np.concatenate(parts)
    w = w[:, :, 0] if w.ndim == 5 else w
    return {"w64": w.astype(np.float32), "w32": restrict(w, fine, coarse).astype(np.float32)}


def known(case: str, arm: Arm) -> bool:
    """Whether a case has this arm: a classifier has no hybrid and no local kernel."""
    return case != "digits" or (arm.mixer != "both" and not arm.local)


def described(case: str, arm: Arm, grid: Grid, wall: str = "none") -> tuple[str, dict[str, Any]]:
    """(name, options) of the network of an arm, for `build_model`."""
    if case == "digits":
        options: dict[str, Any] = {"patch": 1, "widths": (20, 40), "depths": (2, 2), "heads": 4, "window": 2}
        options |= {"mixer": arm.mixer, "mixer_options": _SPECTRAL[case] if arm.mixer == "spectral" else arm.options}
        return "classifier", options | {"in_channels": 1, "out_channels": 10}
    options = _NETWORKS[case] | {"grid": grid, "wall": wall}
    if arm.mixer != "multipole":
        options |= _SPECTRAL[case]
        options["modes"] = tuple(min(options["modes"], n // 2 if case != "darcy" else n - 2) for n in grid.shape)
    if arm.mixer != "spectral":
        options |= _PYRAMID | arm.options
    # on the files the spectral mixers of few modes have the kernel beside them, as in the study of these files
    local = arm.local or (case == "files" and arm.mixer == "spectral")
    local |= case == "files" and arm.mixer == "both" and arm.options["pyramid"] == "paper"
    name = {"multipole": "mano", "spectral": "fno", "both": "hybrid"}[arm.mixer]
    return name, options | {"local": local}


def built(case: str, arm: Arm, grid: Grid, wall: str = "none") -> nn.Module:
    """The network of an arm, with weights drawn from torch's global generator."""
    name, options = described(case, arm, grid, wall)
    return build_model(name, **options)


def training(case: str, arm: Arm, train: int, steps: int, seed: int, factor: float = 1.0) -> dict[str, Any]:
    """Options of `TrainConfig` for `steps` steps; about eight validations, of which the best epoch is kept.

    factor : of the case's learning rate
    """
    found = {"betas": (0.9, 0.98), "warmup": 0.15, **_TRAINING[case]}
    found["learning_rate"] *= factor
    if case == "files" and arm.mixer != "multipole":
        found["weight_decay"] = 0.1  # chosen for the modes in the study of these files
    epochs = math.ceil(steps / max(1, math.ceil(train / found["batch_size"])))
    return found | {"epochs": epochs, "steps": steps, "validate_every": max(1, epochs // 8), "seed": seed}


def tested_on(case: Case, points: int) -> TensorFields:
    """The test data on a grid."""
    return case.splits.test if points == case.points else case.finer[points]
