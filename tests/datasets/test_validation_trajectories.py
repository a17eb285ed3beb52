"""What `validate` says of fields that evolve."""

from __future__ import annotations

import numpy as np
import pytest

from sciops.datasets import build_dataset, validate
from sciops.grids import Grid


def trajectories(u: np.ndarray, times=None, diffusivity: float | None = None):
    grid = Grid(u.shape[2:], centering="periodic")
    times = np.arange(u.shape[1]) * 0.1 if times is None else times
    return build_dataset(
        {"u": (("sample", "time", "x"), u, {"units": "1"})},
        grid,
        layout="native",
        equation="heat",
        times=times,
        state=("u",),
        parameters=None if diffusivity is None else {"diffusivity": diffusivity},
    )


@pytest.fixture
def u():
    x, t = np.arange(16) / 16, np.arange(5) * 0.1
    amplitude = np.random.default_rng(0).normal(size=(4, 1, 1))
    return amplitude * np.exp(-t)[:, None] * np.sin(2 * np.pi * x)


def test_a_sound_set_has_only_the_note_on_splits(u):
    assert [f.severity for f in validate(trajectories(u))] == ["note"]


@pytest.mark.parametrize("times", [[0, 0.1, 0.1, 0.2, 0.3], [0, 0.2, 0.1, 0.3, 0.4], [0, 0.1, np.nan, 0.3, 0.4]])
def test_times_that_do_not_increase_are_an_error(u, times):
    (error,) = [f for f in validate(trajectories(u, times)) if f.severity == "error"]
    assert error.field == "time" and "at step 2" in error.message


def test_frozen_and_growing_samples_are_named(u):
    u[1] = u[1, :1]
    u[3] *= 1e6 ** np.arange(5)[:, None]
    said = {f.message.split(":")[0].split(" more")[0]: f.sample for f in validate(trajectories(u)) if f.field == "u"}
    assert said == {"never changes": 1, "grows": 3}


def test_nan_at_one_time_is_an_error(u):
    u[2, 3, 4] = np.nan
    (error,) = [f for f in validate(trajectories(u)) if f.severity == "error"]
    assert (error.field, error.sample) == ("u", 2)


def test_samples_are_solved_again_where_the_file_says_all_that_is_needed(u):
    true = 1 / (2 * np.pi) ** 2  # the fields fade like exp(−t)
    assert [f.severity for f in validate(trajectories(u, diffusivity=true))] == ["note"]
    (warning,) = [f for f in validate(trajectories(u, diffusivity=3 * true)) if f.severity == "warning"]
    assert "differs from the solution of its equation" in warning.message
    (late,) = [f for f in validate(trajectories(u, np.arange(5) * 0.3, diffusivity=true)) if f.severity == "warning"]
    assert "times" in late.remedy


def test_constants_that_differ_by_sample_are_taken_sample_by_sample():
    x, t = np.arange(16) / 16, np.arange(4) * 0.1
    nu = np.array([1.0, 2.0, 3.0]) / (2 * np.pi) ** 2
    u = np.exp(-np.array([1.0, 2.0, 3.0])[:, None, None] * t[:, None]) * np.sin(2 * np.pi * x)
    dataset = trajectories(u, t).assign(diffusivity=("sample", nu))
    assert [f.severity for f in validate(dataset)] == ["note"]
    (warning,) = [f for f in validate(dataset.assign(diffusivity=("sample", nu[::-1] * 4))) if f.severity == "warning"]
    assert warning.field == "u"
