"""Forcings and times of a step as inputs: models whose step is exact stay exact, at any stride and uneven times."""

import numpy as np
import pytest
import torch
from torch import nn

from sciops import Grid, build_model, load_model, save_model
from sciops.datasets import SpaceTimeDataset, Splits, TrajectoryDataset, build_dataset, load_splits, write_native
from sciops.evaluation import persistence, rollout, rollout_errors
from sciops.lipschitz import lipschitz_bound
from sciops.models import Normalized, Stepper
from sciops.training import TrainConfig, fit

GRID = Grid((16,), ((0.0, 2 * np.pi),), "periodic")
NU = 0.3


def waves(amplitudes: np.ndarray) -> np.ndarray:
    """Σ_k a_k cos(kx + k), (…, modes) → (…, 16)."""
    k = np.arange(1, amplitudes.shape[-1] + 1)
    return amplitudes @ np.cos(k[:, None] * GRID.coordinates()[0] + k[:, None])


def forced(samples: int = 5, frames: int = 13, *, uneven: bool = True, own_times: bool = False, shared: bool = False):
    """u_t = ν u_xx + f with f linear between frames, the solution of each mode written down.

    Over a step a ↦ e^{−λτ} a + ∫_0^τ e^{−λ(τ−s)} (f_k + (f_{k+1} − f_k) s/τ) ds, λ = νk².
    """
    rng = np.random.default_rng(3)
    rows = samples if own_times else 1
    steps = rng.uniform(0.1, 0.4, (rows, frames - 1)) if uneven else np.full((rows, frames - 1), 0.2)
    times = np.concatenate([np.zeros((rows, 1)), np.cumsum(steps, 1)], 1)
    rate = NU * np.arange(1, 4) ** 2
    f = rng.standard_normal((1 if shared else samples, frames, 3))
    a = np.empty((samples, frames, 3))
    a[:, 0] = rng.standard_normal((samples, 3))
    for k in range(frames - 1):
        tau = steps[:, k, None]
        decay, slope = np.exp(-rate * tau), (f[:, k + 1] - f[:, k]) / tau
        whole = (1 - decay) / rate
        a[:, k + 1] = decay * a[:, k] + f[:, k] * whole + slope * (tau - whole) / rate
    u, force = waves(a), waves(f)
    fields = {
        "u": (("sample", "time", "x"), u, {}),
        "f": (("time", "x"), force[0], {}) if shared else (("sample", "time", "x"), force, {}),
        "c": (("sample", "x"), np.ones((samples, 16)), {}),
    }
    options = {} if own_times else {"times": times[0]}
    if own_times:
        fields["times"] = (("sample", "time"), times, {})
    return build_dataset(fields, GRID, layout="native", equation="forced heat", state=("u",), **options)


class ExactStep(nn.Module):
    """The exact increment of the forced heat equation per unit of time, from (u, c, f_k, f_{k+1}, Δt); `rate` is ν."""

    def __init__(self, rate: float = NU, constants: int = 1, forced: bool = True) -> None:
        super().__init__()
        self.rate, self.constants, self.forced = (
            nn.Parameter(torch.tensor(rate, dtype=torch.float64)),
            constants,
            forced,
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        u, tau = torch.fft.rfft(x[:, :1]), x[:, -1:, :1]
        k = torch.arange(u.shape[-1], device=x.device, dtype=x.dtype)
        z = self.rate * k**2 * tau
        safe = torch.where(z == 0, torch.ones_like(z), z)
        first = torch.where(z == 0, torch.ones_like(z), -torch.expm1(-safe) / safe)  # φ_1(−z)
        second = torch.where(z == 0, torch.full_like(z, 0.5), (1 - first) / safe)  # φ_2(−z)
        after = torch.exp(-z) * u
        if self.forced:
            known = x[:, 1 + self.constants :]
            before, later = (torch.fft.rfft(known[:, i : i + 1]) for i in (0, 1))
            after = after + tau * (first * before + second * (later - before))
        return (torch.fft.irfft(after, x.shape[-1]) - x[:, :1]) / x[:, -1:]


@pytest.mark.parametrize("how", [{}, {"own_times": True}, {"shared": True}, {"uneven": False}])
def test_the_exact_step_of_a_forced_equation_reproduces_its_solution(how, tmp_path):
    dataset = forced(**how)
    stepper = Stepper(ExactStep(), channels=1, forcings=1, time_step=True)
    path = write_native(tmp_path / "forced.h5", dataset)
    for source, limit in ((dataset, 10**9), (path, 10**9), (path, 0)):
        options = dict(inputs="c", forcings="f", time_step=True, dtype=torch.float64, memory_limit=limit)
        data = TrajectoryDataset(source, horizon=3, **options)
        u = torch.from_numpy(dataset["u"].values)
        frames = rollout(stepper, data.initial(slice(None), 12), GRID, steps=12)
        torch.testing.assert_close(frames[:, :, 0], u[:, 1:], rtol=0, atol=1e-13)
        errors = rollout_errors(stepper, data, ["relative_l2"])
        assert errors.errors["relative_l2"].max() < 1e-12
        unrolled = Stepper(stepper.model, channels=1, steps=3, forcings=1, time_step=True)
        windows = data.batch(slice(None))
        torch.testing.assert_close(unrolled(windows["x"], GRID), windows["y"], rtol=0, atol=1e-13)
        # persistence takes what it does not know for constants
        still = rollout_errors(persistence(), data, ["relative_l2"], steps=4).errors["relative_l2"]
        assert still.shape == (5, 4) and (still > 1e-2).all()
        data.close()


def test_samples_that_break_leave_what_the_others_know_in_its_place():
    data = TrajectoryDataset(forced(own_times=True), inputs="c", forcings="f", time_step=True, dtype=torch.float64)
    stepper, x0 = Stepper(ExactStep(), channels=1, forcings=1, time_step=True), data.initial(slice(None), 12)
    x0[1, 3] = torch.nan  # its second forcing
    with pytest.warns(RuntimeWarning, match="1 of 5 samples stopped being finite, the first is sample 1 at step 1"):
        frames = rollout(stepper, x0, GRID, steps=12)
    assert frames[1].isnan().all()
    torch.testing.assert_close(frames[[0, 2, 3, 4]], data.trajectories([0, 2, 3, 4])[:, 1:], rtol=0, atol=1e-13)


def test_windows_hold_the_forcings_and_the_times_of_their_steps():
    dataset = forced(own_times=True)
    options = dict(inputs="c", forcings="f", time_step=True, dtype=torch.float64)
    data = TrajectoryDataset(dataset, lead=2, horizon=2, stride=2, start=1, **options)
    u, f, t = (dataset[name].values[:, 1::2] for name in ("u", "f", "times"))
    everything = data.batch(slice(None))
    assert data.windows == 2 and data.step_channels == 1 + 1 + 2 + 1
    for i in range(5):
        for w in range(2):
            x, y = (everything[side][2 * i + w].numpy() for side in "xy")
            np.testing.assert_array_equal(x[:2], [u[i, w], np.ones(16)])
            np.testing.assert_array_equal(x[2:7], f[i, w : w + 5])
            np.testing.assert_array_equal(x[7:], np.repeat(np.diff(t[i, w : w + 5])[:, None], 16, 1))
            np.testing.assert_array_equal(y, u[i, w + 3 : w + 5])
    part = data.subset([3, 1])
    assert torch.equal(part.batch([2])["x"], everything["x"][2:3]) and torch.equal(part.known([0]), data.known([3]))
    np.testing.assert_array_equal(data.known().numpy()[:, :, 0], f)
    np.testing.assert_array_equal(data.trajectories().numpy()[:, :, 0], u)


def test_the_statistics_of_a_step_know_forcings_and_times():
    data = TrajectoryDataset(forced(), inputs="c", forcings="f", time_step=True, dtype=torch.float64)
    torch.manual_seed(0)
    model = build_model("fno", in_channels=5, out_channels=1, width=4, depth=1, modes=(4,), grid=GRID).double()
    stepper = Stepper.normalized(model, data)
    seen, f, took = stepper.model.input, data.known(), torch.from_numpy(np.diff(data.clocks, axis=1))
    for of, values in (("mean", lambda v: v.mean()), ("std", lambda v: v.std(correction=0))):
        expected = torch.stack([values(f), values(f), values(took)])
        torch.testing.assert_close(getattr(seen, of)[2:], expected, rtol=1e-12, atol=1e-12)
    rates = data.trajectories().diff(dim=1) / took[:, :, None, None]
    torch.testing.assert_close(stepper.model.output.std[0], rates.std(correction=0), rtol=1e-12, atol=0)
    x = data.batch([4])["x"]
    change = stepper(x, GRID) - x[:, :1]
    torch.testing.assert_close(change, took[0, 4] * stepper.model(x, grid=GRID), rtol=1e-12, atol=1e-12)
    even = Stepper.normalized(model, TrajectoryDataset(forced(uneven=False), inputs="c", forcings="f", time_step=True))
    # equal but for the rounding of the times: what is left must not be blown up to unit size
    torch.testing.assert_close(even.model.input.std[4], torch.tensor(0.2, dtype=torch.float64), rtol=1e-9, atol=0)


def test_a_stepper_with_known_inputs_is_saved_with_them_and_old_descriptions_stay(tmp_path):
    torch.manual_seed(0)
    model = build_model("fno", in_channels=5, out_channels=1, width=4, depth=1, modes=(4,), grid=GRID)
    data = TrajectoryDataset(forced(), inputs="c", forcings="f", time_step=True, horizon=2)
    stepper = Stepper.normalized(model, data, steps=2).eval()
    save_model(stepper, tmp_path)
    loaded, x = load_model(tmp_path), data.batch([0, 5])["x"]
    assert torch.equal(loaded(x, GRID), stepper(x, GRID))
    assert set(Stepper(model, channels=1).config["options"]) == {
        *("model", "channels", "history", "steps", "residual", "gradient", "noise")
    }


def test_one_model_told_the_time_of_its_steps_learns_several_strides():
    """The one unknown of the exact step is found from strides 1, 2 and 4 together, and then holds at stride 3."""
    dataset = forced(samples=12, frames=13, uneven=False).drop_vars(["f"])
    a = np.random.default_rng(0).standard_normal((12, 1, 3)) * np.exp(
        -NU * np.arange(1, 4) ** 2 * dataset["time"].values[:, None]
    )
    dataset["u"] = (dataset["u"].dims, waves(a))
    options = dict(inputs="c", time_step=True, dtype=torch.float64)
    train = [TrajectoryDataset(dataset, stride=s, **options) for s in (1, 2, 4)]
    model = Stepper(ExactStep(1.0, forced=False), channels=1, time_step=True)
    config = TrainConfig(
        epochs=25, batch_size=16, learning_rate=0.1, weight_decay=0.0, precision="float64", normalize=False,
        progress=False,
    )  # fmt: skip
    run = fit(model, Splits(train), config)
    assert run.model.model.rate.item() == pytest.approx(NU, abs=2e-3)
    errors = rollout_errors(run.model, TrajectoryDataset(dataset, stride=3, **options), ["relative_l2"])
    assert errors.errors["relative_l2"].max() < 5e-3
    untold = rollout_errors(persistence(), TrajectoryDataset(dataset, stride=3, **options), ["relative_l2"])
    assert untold.errors["relative_l2"].min() > 0.05


def test_a_grid_of_time_and_space_has_each_forcing_at_its_own_time():
    dataset = forced(uneven=False)
    data = SpaceTimeDataset(
        TrajectoryDataset(dataset, history=2, horizon=None, inputs="c", forcings="f", dtype=torch.float64)
    )
    x = data.batch([3])["x"][0].numpy()
    assert x.shape == (2 + 1 + 1 + 1, 11, 16)
    np.testing.assert_array_equal(x[3], dataset["f"].values[3, 2:])
    np.testing.assert_array_equal(x[0], np.repeat(dataset["u"].values[3, :1], 11, 0))
    with pytest.raises(ValueError, match="time_step=True: a grid of time and space says when"):
        SpaceTimeDataset(TrajectoryDataset(dataset, horizon=None, time_step=True))


def test_files_of_other_times_are_joined_with_their_own(tmp_path):
    (tmp_path / "train").mkdir()
    for name, factor in (("a", 1.0), ("b", 2.0)):
        one = forced(uneven=False)
        write_native(tmp_path / "train" / f"{name}.h5", one.assign_coords(time=factor * one["time"].values))
    windows = {"forcings": ("f",), "time_step": True, "inputs": ("c",)}
    joined = load_splits(tmp_path, windows=windows, validation=0, test=0).train
    assert joined.time_units == "frames" and list(joined.times) == list(range(13))
    np.testing.assert_allclose(np.diff(joined.clocks, axis=1)[[0, 9]], [[0.2] * 12, [0.4] * 12])
    assert torch.equal(joined.initial([7, 0], 2)[:, -2:, 0], torch.tensor([[0.4, 0.4], [0.2, 0.2]]))
    assert Stepper.normalized(nn.Identity(), joined).model.input.mean[-1] == pytest.approx(0.3)


def test_numbers_that_change_in_time_are_forcings_too(tmp_path):
    """u′ = cos(t)·g with g a number of each sample and time: the trapezoid rule of what is told, exactly."""
    t = np.linspace(0, 3, 9) ** 1.5
    g = np.random.default_rng(0).uniform(1, 2, (4, 9))
    rate = g * np.cos(t)
    u = np.concatenate([np.zeros((4, 1)), np.cumsum(np.diff(t) * (rate[:, 1:] + rate[:, :-1]) / 2, 1)], 1)
    fields = {"u": (("sample", "time", "x"), np.repeat(u[..., None], 16, 2), {}), "g": (("sample", "time"), g, {})}
    dataset = build_dataset(fields, GRID, layout="native", equation="test", state=("u",), times=t)

    class Trapezoid(nn.Module):
        def forward(self, x):
            g, t, g_next, t_next, _ = x[:, 1:].split(1, 1)
            return (g * torch.cos(t) + g_next * torch.cos(t_next)) / 2

    stepper = Stepper(Trapezoid(), channels=1, forcings=2, time_step=True)
    path = write_native(tmp_path / "data.h5", dataset)
    for source, limit in ((dataset, 10**9), (path, 10**9), (path, 0)):
        data = TrajectoryDataset(
            source, forcings=("g", "time"), time_step=True, dtype=torch.float64, memory_limit=limit
        )
        frames = rollout(stepper, data.initial([3, 0], 8), GRID, steps=8)
        np.testing.assert_allclose(frames[:, :, 0, 5].numpy(), u[[3, 0], 1:], rtol=0, atol=1e-14)
        data.close()


def test_bad_known_inputs_are_one_line():
    dataset = forced()
    for options, message in (
        (
            {"forcings": "u"},
            r"forcings has 'u': expected fields over time and x, or .* not of the state \(u\), here f",
        ),
        ({"forcings": "c"}, "forcings has 'c'"),
        ({"inputs": "f"}, "inputs has 'f': .* here c; one that does is among forcings"),
        ({"time_step": True, "history": 2}, "the times of sample 0 are not evenly spaced"),
    ):
        with pytest.raises(ValueError, match=message):
            TrajectoryDataset(dataset, **options)
    data = TrajectoryDataset(dataset, forcings="f", time_step=True)
    with pytest.raises(ValueError, match="steps=13: the trajectories have 12 frames after the first 1"):
        data.initial([0], 13)
    stepper = Stepper(ExactStep(constants=0), channels=1, forcings=1, time_step=True)
    with pytest.raises(ValueError, match=r"1 frames × 1 channels, the constants, 4 × 1 forcings and 3 times of a step"):
        rollout(stepper, data.initial([0], 1), GRID, steps=3)


@pytest.mark.parametrize("residual", [True, False])
def test_bounds_count_forcings_and_have_none_for_a_product_with_time(residual):
    torch.manual_seed(0)
    grid, how = (
        Grid((6,), centering="periodic"),
        dict(width=3, depth=1, modes=(3,), norm="none", mlp="plain", coordinates="none"),
    )
    core = build_model("fno", in_channels=3, out_channels=1, grid=grid, **how)
    stepper = Stepper(core, channels=1, steps=3, forcings=1, residual=residual).double().eval()
    jacobian = torch.autograd.functional.jacobian(lambda x: stepper(x, grid), torch.randn(1, 5, 6).double())
    true = torch.linalg.matrix_norm(jacobian.reshape(18, 30), 2).item()
    assert true <= lipschitz_bound(stepper, grid).value < 1e3 * true
    told = build_model("fno", in_channels=2, out_channels=1, grid=grid, **how)
    bound = lipschitz_bound(Stepper(told, channels=1, time_step=True, residual=residual).eval(), grid)
    assert (bound.value is None) == residual


def test_fit_refuses_a_stepper_without_statistics_unless_told_so():
    data = TrajectoryDataset(forced().drop_vars("f"), inputs="c", time_step=True, dtype=torch.float64)
    stepper = Stepper(ExactStep(forced=False), channels=1, time_step=True)
    with pytest.raises(ValueError, match=r"Stepper\.normalized\(model, data\.train\)"):
        fit(stepper, Splits(data), TrainConfig(epochs=1, progress=False))
    assert not isinstance(fit(stepper, Splits(data), _once(normalize=False)).model, Normalized)


def _once(**changes) -> TrainConfig:
    return TrainConfig(epochs=1, batch_size=16, precision="float64", progress=False, **changes)


@pytest.mark.gpu
def test_what_is_known_goes_to_the_device_of_the_model():
    data = TrajectoryDataset(forced(), inputs="c", forcings="f", time_step=True, dtype=torch.float64)
    stepper = Stepper(ExactStep(), channels=1, forcings=1, time_step=True).cuda()
    assert rollout_errors(stepper, data, ["relative_l2"]).errors["relative_l2"].max() < 1e-12
