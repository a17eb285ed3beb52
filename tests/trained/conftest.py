"""Runs of `sciops train` that take a second: Darcy fields on 17 nodes, and a wave that moves on a period."""

from __future__ import annotations

import numpy as np
import pytest

from sciops.datasets import write_native
from sciops.datasets.conventions import build_dataset
from sciops.grids import Grid
from sciops.pde import darcy
from studies import train
from studies.train import TrainStudyConfig

COUNT = 20


def trained(**options):
    """A run whose figures nobody looks at: to draw them takes as long as all the rest."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(train, "draw_all", lambda *_: None)
        small = {"epochs": 2, "learning_rate": 5e-3, "width": 8, "depth": 1, "modes": 4, "progress": False}
        train.run(TrainStudyConfig(**small, **options))
    return options["folder"]


@pytest.fixture(scope="session")
def darcy_file(tmp_path_factory):
    """Twenty samples, of which the last four are the test part; solved on their own grid."""
    grid = Grid((17, 17))
    x, y = grid.meshgrid()
    random = np.random.default_rng(0)
    k = random.integers(1, 4, (COUNT, 2, 1, 1))
    a = np.exp(np.sin(np.pi * k[:, 0] * x) * np.cos(np.pi * k[:, 1] * y) + 0.3 * random.standard_normal((COUNT, 1, 1)))
    u = darcy.solve(a, grid, tol=1e-10, backend="direct").u
    split = np.repeat(np.array([0, 1, 2], np.int8), (12, 4, 4))
    fields = {"a": (("sample", "x", "y"), a), "u": (("sample", "x", "y"), u), "split": (("sample",), split)}
    about = {"layout": "native", "equation": "darcy", "coefficient": "values", "forcing": 1.0, "labels": "solved"}
    return write_native(tmp_path_factory.mktemp("data") / "darcy.h5", build_dataset(fields, grid, **about))


@pytest.fixture(scope="session")
def wave_file(tmp_path_factory):
    """u(x, t) = Σ_k c_k cos(2πk(x − t)/1 + φ_k) on a period, nine frames."""
    return write_native(tmp_path_factory.mktemp("data") / "waves.h5", wave_data())


def wave_data(points: int = 32):
    grid = Grid((points,), centering="periodic")
    times, random = 0.02 * np.arange(9), np.random.default_rng(1)
    phase, size = (random.uniform(0, 1, (COUNT, 3, 1, 1)) for _ in range(2))
    k = np.arange(1, 4).reshape(3, 1, 1)
    (x,) = grid.coordinates()
    u = (size * np.cos(2 * np.pi * (k * (x - times[:, None]) + phase))).sum(1)
    fields = {"u": (("sample", "time", "x"), u)}
    return build_dataset(fields, grid, layout="native", equation="advection", state=("u",), times=times)


@pytest.fixture
def train_small():
    """trained(data=…, folder=…, …) → the folder, for runs that one test alone needs."""
    return trained


@pytest.fixture(scope="session")
def darcy_run(darcy_file, tmp_path_factory):
    return trained(data=darcy_file, folder=tmp_path_factory.mktemp("runs") / "darcy", batch_size=4)


@pytest.fixture(scope="session")
def wave_run(wave_file, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "waves"
    return trained(data=wave_file, folder=folder, task="step", batch_size=16, history=2)
