"""What a notebook prints of our objects: a few lines of shapes, and nothing is read or computed for it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from sciops.datasets import (
    FieldDataset,
    ImageDataset,
    Splits,
    TensorFields,
    TokenWindows,
    TrajectoryDataset,
    build_dataset,
    load_splits,
    write_native,
)
from sciops.evaluation.rollout import RolloutErrors
from sciops.grids import Grid
from sciops.models import build_model
from sciops.models.wrappers import Latent, Normalized, Stepper
from sciops.pde import burgers, darcy
from sciops.runs import RunFolder
from sciops.spectral import band_errors, power_spectrum
from sciops.training.state.run import Run

GRID = Grid((12, 12))
LINE = Grid(16, centering="periodic")
WAVE = np.sin(2 * np.pi * LINE.coordinates()[0])


def fields(count=40):
    return np.random.default_rng(0).uniform(1, 2, (count, 12, 12))


def native(folder: Path) -> Path:
    data = {name: (("sample", "x", "y"), fields()) for name in ("a", "u")}
    return write_native(folder / "darcy.h5", [build_dataset(data, GRID, layout="native", equation="darcy")]) or (
        folder / "darcy.h5"
    )


def trajectories():
    u = (("sample", "time", "x"), np.tile(WAVE, (5, 4, 1)))
    return build_dataset({"u": u}, LINE, layout="native", equation="burgers", times=np.arange(4.0), state=("u",))


def fno():
    return build_model("fno", in_channels=1, out_channels=1, width=8, depth=30, modes=(4, 4))


OBJECTS = {
    "Grid": lambda folder: Grid((16, 16, 16), ((0, 0.937), (0, 2), (-1, 1)), domain=((0, 1), (0, 2), (-1, 1))),
    "Splits": lambda folder: load_splits(native(folder)),
    "FieldDataset": lambda folder: FieldDataset(native(folder), memory_limit=0),
    "TensorFields": lambda folder: TensorFields(fields()[:, None], fields()[:, None], GRID),
    "TrajectoryDataset": lambda folder: TrajectoryDataset(trajectories(), history=2),
    "ImageDataset": lambda folder: ImageDataset(np.zeros((50, 1, 8, 8), np.uint8), np.zeros(50, int), classes="ab"),
    "TokenWindows": lambda folder: TokenWindows(np.arange(1000), 16),
    "RunFolder": lambda folder: RunFolder(folder),
    "Run": lambda folder: Run(fno(), folder, history=[{"loss": 0.1}] * 500, best=0.1, epochs=500, complete=True),
    "Solution": lambda folder: darcy.solve(fields(), GRID, backend="direct"),
    "Trajectory": lambda folder: burgers.solve(WAVE, LINE, times=(0, 0.1), viscosity=0.1),
    "Spectrum": lambda folder: power_spectrum(fields(), GRID, extension="even"),
    "BandErrors": lambda folder: band_errors(fields(), fields() + 1, GRID, [0, 2, 4], taper="hann"),
    "RolloutErrors": lambda folder: RolloutErrors(np.arange(99.0), 0.0, {"l2": fields()}, fields()[0], fields()[0]),
    "Operator": lambda folder: fno(),
    "Normalized": lambda folder: Normalized(fno()),
    "Latent": lambda folder: Latent(fno(), GRID),
    "Stepper": lambda folder: Stepper(fno(), channels=1),
    "Classifier": lambda folder: build_model("classifier", out_channels=10),
    "LanguageModel": lambda folder: build_model("language", symbols=11, width=8, depth=2),
}


@pytest.mark.parametrize("kind", OBJECTS)
def test_an_object_is_shown_in_at_most_eight_lines_without_reading_it(kind, tmp_path, monkeypatch):
    shown = OBJECTS[kind](tmp_path)

    def refuse(*args, **options):
        raise AssertionError("repr reads or computes")

    with monkeypatch.context() as patch:
        patch.setattr("builtins.open", refuse)
        for module in (FieldDataset, TrajectoryDataset, ImageDataset):
            patch.setattr(module, "batch", refuse)
        patch.setattr(torch.nn.Module, "__call__", refuse)
        text = repr(shown)
        html = shown._repr_html_() if hasattr(shown, "_repr_html_") else ""
    assert kind in text.splitlines()[0] and len(text) < 1000 and len(text.splitlines()) <= 8
    assert len(html) < 3000 and "array(" not in text + html and "tensor(" not in text + html


@pytest.mark.parametrize(
    "grid",
    [
        GRID,
        LINE,
        Grid((3, 4), ((0, 1), (0, 2)), "cell"),
        Grid((3, 4), 2.0, "periodic"),
        Grid((3, 3), (0, 0.9), domain=(0, 1)),
        Grid(3, (0, 0.9), domain=(0, 1)),
    ],
)
def test_a_grid_can_be_typed_as_it_is_shown(grid):
    assert eval(repr(grid), {"Grid": Grid}) == grid


def test_what_is_shown_is_what_a_reader_asks_for(tmp_path):
    splits = repr(load_splits(native(tmp_path)))
    assert "32 samples, x = a → y = u, float32 in memory, Grid((12, 12)), darcy.h5" in splits
    assert repr(Splits()).splitlines()[3] == "  test        —"
    model = repr(fno()).splitlines()
    count = sum(parameter.numel() for parameter in fno().parameters())
    assert model[0] == f"Operator 'fno', 1 → 1 channels, {count:,} parameters, float32"
    assert "width 8, depth 30" in model[1] and any("30 × ResidualBlock" in line for line in model)
    assert "'direct'" in repr(darcy.solve(fields(), GRID, backend="direct"))
