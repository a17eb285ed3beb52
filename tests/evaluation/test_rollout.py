"""A model on its own predictions: exact solutions stay exact, errors are naive ones, what is lost is said to be."""

import importlib

import numpy as np
import pytest
import torch
from torch import nn

from sciops import Grid, build_model
from sciops.datasets import Splits, TrajectoryDataset, build_dataset
from sciops.evaluation import (
    correlation,
    correlation_time,
    frame_errors,
    persistence,
    rollout,
    rollout_errors,
    window_errors,
)
from sciops.metrics import relative_l2, vrmse
from sciops.models import Stepper
from sciops.training import TrainConfig, evaluate, fit

GRID = Grid((32,), ((0.0, 2 * np.pi),), "periodic")
NU, DT = 0.1, 0.05


class HeatStep(nn.Module):
    """û_k ↦ e^{−νk²Δt} û_k, the exact step of u_t = ν u_xx on a period of 2π."""

    def __init__(self, increment: bool = False) -> None:
        super().__init__()
        self.increment = increment

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        u = x[:, -1:]
        k = torch.arange(u.shape[-1] // 2 + 1, dtype=u.dtype, device=u.device)
        after = torch.fft.irfft(torch.fft.rfft(u) * torch.exp(-NU * DT * k**2), u.shape[-1])
        return after - u if self.increment else after


def heat(samples: int, times: np.ndarray, seed: int = 0, modes: int = 6) -> np.ndarray:
    """Sums of decaying waves, evaluated mode by mode: (samples, times, 32)."""
    rng = np.random.default_rng(seed)
    x, u = GRID.coordinates()[0], np.zeros((samples, len(times), 32))
    for k in range(modes):
        amplitude, phase = rng.standard_normal((samples, 1, 1)), rng.uniform(0, 2 * np.pi, (samples, 1, 1))
        u += amplitude * np.exp(-NU * k**2 * times)[None, :, None] * np.cos(k * x + phase)
    return u


def windows(samples: int, frames: int, *, seed: int = 0, **options) -> TrajectoryDataset:
    times = DT * np.arange(frames)
    fields = {"u": (("sample", "time", "x"), heat(samples, times, seed), {})}
    dataset = build_dataset(fields, GRID, layout="native", equation="heat", times=times, state=("u",))
    return TrajectoryDataset(dataset, **{"dtype": torch.float64, **options})


@pytest.mark.parametrize("residual", [False, True])
def test_the_exact_step_reproduces_the_heat_solution_over_a_hundred_steps(residual):
    u = heat(3, DT * np.arange(101))
    model = Stepper(HeatStep(residual), channels=1, residual=residual)
    frames = rollout(model, u[:, :1], GRID, steps=100)
    assert isinstance(frames, np.ndarray)
    np.testing.assert_allclose(frames[:, :, 0], u[:, 1:], rtol=0, atol=2e-14)
    np.testing.assert_array_equal(frames, rollout(model, torch.from_numpy(u[:, :1]), GRID, steps=100).numpy())
    if not residual:  # any model of a step will do
        np.testing.assert_array_equal(rollout(HeatStep(), u[:, :1], GRID, steps=100), frames)
    errors = rollout_errors(model, windows(3, 101))
    assert errors.errors["relative_l2"].shape == (3, 100) and errors.errors["relative_l2"].max() < 1e-13
    np.testing.assert_allclose(errors.errors["correlation"], 1.0, rtol=1e-13)
    np.testing.assert_allclose(errors.times, DT * np.arange(1, 101))
    assert errors.start == 0.0 and not errors.broke.any()


def test_history_and_constants_are_carried_along():
    class Leapfrog(nn.Module):
        def forward(self, x):
            return 2 * x[:, 1:2] - x[:, :1] + x[:, 2:]  # u″ = c, exactly

    n = np.arange(8.0)
    c = np.array([2.0, -1.0])
    u = np.broadcast_to((0.5 * c[:, None] * n * (n - 1) + 3 * n)[..., None], (2, 8, 32))
    x0 = np.concatenate([u[:, :2], np.broadcast_to(c[:, None, None], (2, 1, 32))], 1)
    frames = rollout(Stepper(Leapfrog(), channels=1, history=2, residual=False), x0, GRID, steps=6)
    np.testing.assert_allclose(frames[:, :, 0], u[:, 2:], rtol=1e-13)


class Doubling(nn.Module):
    """Doubles positive fields, squares the others' magnitude away: some samples overflow, others do not."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.where(x > 0, x * 1e200, x)


def test_samples_that_stop_being_finite_are_left_out_and_said_to_be():
    x0 = np.stack([np.full((1, 32), 1.0), np.full((1, 32), -1.0), np.full((1, 32), 1e100)])
    with pytest.warns(RuntimeWarning, match="2 of 3 samples stopped being finite, the first is sample"):
        frames = rollout(Doubling(), x0, GRID, steps=5)
    assert np.isfinite(frames[0, :1]).all() and np.isnan(frames[0, 1:]).all()
    np.testing.assert_array_equal(frames[1], -np.ones((5, 1, 32)))
    assert np.isfinite(frames[2, :1]).all() and np.isnan(frames[2, 1:]).all()
    data = windows(4, 6)
    blow_up = Stepper(nn.Sequential(Doubling(), Doubling()), channels=1, residual=False)
    errors = rollout_errors(blow_up, data, ["relative_l2", "vrmse", "correlation"])
    assert (errors.broke == 1).all() and all(np.isnan(values).all() for values in errors.errors.values())


def test_errors_against_time_are_those_of_each_frame_by_itself():
    rng = np.random.default_rng(0)
    p, u = rng.standard_normal((2, 4, 5, 2, 32))
    got = frame_errors(p, u, ["relative_l2", "vrmse", "correlation"], grid=GRID)
    for i in range(4):
        for t in range(5):
            assert got["relative_l2"][i, t] == pytest.approx(
                np.linalg.norm(p[i, t] - u[i, t]) / np.linalg.norm(u[i, t]), rel=1e-13
            )
            assert got["vrmse"][i, t] == pytest.approx(vrmse(p[i, t][None], u[i, t][None], GRID)[0], rel=1e-13)
            pearson = np.mean([np.corrcoef(p[i, t, c], u[i, t, c])[0, 1] for c in range(2)])
            assert got["correlation"][i, t] == pytest.approx(pearson, rel=1e-12)
    named = frame_errors(p, u, {"own": lambda a, b, grid: relative_l2(a, b)}, grid=GRID)
    np.testing.assert_array_equal(named["own"], got["relative_l2"])


def test_a_model_whose_first_parameter_is_complex_gets_its_own_precision():
    class Symbol(nn.Module):
        def __init__(self):
            super().__init__()
            self.symbol = nn.Parameter(torch.ones(17, dtype=torch.complex64))

        def forward(self, x):
            assert x.dtype == torch.float32
            return torch.fft.irfft(self.symbol * torch.fft.rfft(x), x.shape[-1])

    u = heat(2, DT * np.arange(2))  # float64
    np.testing.assert_allclose(rollout(Symbol(), u[:, :1], GRID, steps=2)[:, 1, 0], u[:, 0], atol=1e-6)
    assert evaluate(Symbol(), windows(2, 3))["relative_l2"].shape == (4,)


def test_functions_of_ones_own_get_the_grid():
    node = Grid((9,))
    rng = np.random.default_rng(0)
    p, u = rng.standard_normal((2, 2, 3, 1, 9))
    own = {"weighted": lambda a, b, grid: relative_l2(a, b, grid), "plain": relative_l2}
    got = frame_errors(p, u, own, grid=node)
    for name, grid in (("weighted", node), ("plain", None)):
        expected = relative_l2(p.reshape(6, 1, 9), u.reshape(6, 1, 9), grid).reshape(2, 3)
        np.testing.assert_allclose(got[name], expected, rtol=1e-13)
    assert np.abs(got["weighted"] - got["plain"]).max() > 1e-3


def test_large_trajectories_are_run_a_few_at_a_time(monkeypatch):
    data, model = windows(7, 9), Stepper(HeatStep(), channels=1, residual=True)  # not the equation: real errors
    whole, sizes = rollout_errors(model, data), []
    model.model.register_forward_pre_hook(lambda _, args: sizes.append(len(args[0])))
    monkeypatch.setattr(importlib.import_module("sciops.evaluation.rollout"), "_NUMBERS", 3 * 9 * 32 + 5)
    few = rollout_errors(model, data)
    assert set(sizes) == {3, 1}
    np.testing.assert_allclose(few.errors["relative_l2"], whole.errors["relative_l2"], rtol=1e-12)


def test_persistence_is_the_last_frame_seen():
    data = windows(3, 9, history=3, dtype=torch.float64)
    errors = rollout_errors(persistence(history=3), data, ["relative_l2"], batch_size=2)
    u = data.trajectories().numpy()
    for t in range(6):
        np.testing.assert_allclose(errors.errors["relative_l2"][:, t], relative_l2(u[:, 2], u[:, 3 + t]), rtol=1e-13)
    np.testing.assert_allclose(errors.times, data.times[3:])
    still = np.broadcast_to(u[:, 2:3], u[:, 3:].shape)
    np.testing.assert_allclose(errors.whole, relative_l2(still, u[:, 3:]), rtol=1e-13)
    few = rollout_errors(persistence(history=3), data, ["relative_l2"], steps=2)
    np.testing.assert_array_equal(few.errors["relative_l2"], errors.errors["relative_l2"][:, :2])


def test_correlation_does_not_see_scale_and_shift_and_is_zero_for_constants():
    rng = np.random.default_rng(0)
    u = rng.standard_normal((3, 1, 32))
    np.testing.assert_allclose(correlation(1e-170 * u + 0, 5 * u - 2), 1.0, rtol=1e-13)
    np.testing.assert_allclose(correlation(-u, u, GRID), -1.0, rtol=1e-13)
    assert (correlation(np.full_like(u, 0.1), u) == 0).all()
    still = np.concatenate([u, np.full_like(u, 3.0)], 1)  # a channel that is constant in truth says nothing
    np.testing.assert_allclose(correlation(2 * still + 1, still, GRID), 1.0, rtol=1e-13)
    assert (correlation(u, np.full_like(u, 3.0), GRID) == 0).all()
    node = Grid((33,))
    x = node.coordinates()[0]
    odd, even = np.cos(np.pi * x)[None], np.cos(2 * np.pi * x)[None]
    assert abs(correlation(odd, even, node)[0]) < 1e-14  # orthogonal by the trapezoid rule
    with pytest.raises(ValueError, match=r"\(3, 1, 32\), target \(3, 1, 31\)"):
        correlation(u, u[..., 1:])


def test_correlation_time_of_known_decays():
    t = np.linspace(0.0, 4.0, 401)
    linear = 1 - 0.1 * t
    assert correlation_time(t, linear, 0.8) == pytest.approx(2.0, abs=1e-12)
    assert correlation_time(t, linear, 0.805) == pytest.approx(1.95, abs=1e-12)  # between two times
    rates = np.array([0.5, 1.0, 0.01])
    found = correlation_time(t, np.exp(-rates[:, None] * t))
    np.testing.assert_allclose(found[:2], -np.log(0.8) / rates[:2], rtol=1e-4)
    assert found[2] == np.inf
    dip = np.where((t > 1) & (t < 1.5), 0.0, 1.0)
    assert 1.0 < correlation_time(t, dip, 0.8) <= 1.01  # the first time counts, whatever comes after
    lost = np.where(t > 2.995, np.nan, 1.0)
    assert correlation_time(t, lost) == pytest.approx(2.99)
    assert correlation_time(t, np.zeros_like(t)) == 0.0
    with pytest.raises(ValueError, match="expected"):
        correlation_time(t, linear[1:])


def test_windows_of_errors_count_steps_from_one():
    errors = np.arange(1, 31, dtype=float)[None] * np.array([[1.0], [2.0]])
    means = window_errors(errors)
    np.testing.assert_allclose(means["6–12"], [9, 18])
    np.testing.assert_allclose(means["13–30"], [21.5, 43])
    with pytest.raises(ValueError, match=r"\(13, 30\): expected steps within 1 … 20"):
        window_errors(errors[:, :20])


def test_a_trained_stepper_beats_persistence_and_unrolled_training_runs_through_fit():
    train, test = (windows(*size, seed=seed, dtype=torch.float32) for size, seed in (((24, 21), 1), ((8, 21), 2)))
    config = TrainConfig(epochs=3, batch_size=16, learning_rate=1e-2, progress=False)
    torch.manual_seed(0)
    model = build_model("fno", in_channels=1, out_channels=1, width=8, depth=1, modes=(6,), grid=GRID)
    run = fit(Stepper.normalized(model, train), Splits(train), config)
    assert isinstance(run.model, Stepper)  # its own statistics are left alone
    learned = rollout_errors(run.model, test).errors
    still = rollout_errors(persistence(), test).errors
    assert (learned["relative_l2"].mean(0) < 0.3 * still["relative_l2"].mean(0)).all()
    assert (learned["relative_l2"][:, -1] < still["relative_l2"][:, -1]).all()
    for gradient, lead, horizon in (("pushforward", 2, 1), ("detached", 0, 3)):
        sets = windows(8, 8, seed=1, dtype=torch.float32, lead=lead, horizon=horizon)
        stepper = Stepper.normalized(model, sets, steps=3, gradient=gradient)
        more = fit(stepper, Splits(sets), TrainConfig(epochs=1, batch_size=16, learning_rate=1e-4, progress=False))
        assert np.isfinite(more.history[0]["loss"])


def test_bad_requests_are_one_line():
    data = windows(2, 5)
    with pytest.raises(ValueError, match="steps=9: the trajectories have 4 frames after the first 1"):
        rollout_errors(persistence(), data, steps=9)
    with pytest.raises(ValueError, match="metrics has 'mse': expected some of"):
        rollout_errors(persistence(), data, ["mse"])
    with pytest.raises(ValueError, match="steps=0"):
        rollout(persistence(), torch.zeros(1, 1, 32), GRID, steps=0)


@pytest.mark.gpu
def test_a_rollout_on_a_gpu_is_that_of_the_cpu():
    model = Stepper(HeatStep(), channels=1, residual=False)
    model.register_parameter("unused", nn.Parameter(torch.zeros(1, dtype=torch.float64)))
    data = windows(3, 21)
    here, there = (rollout_errors(model.to(device), data).errors["relative_l2"] for device in ("cpu", "cuda"))
    np.testing.assert_allclose(there, here, rtol=0, atol=1e-13)
