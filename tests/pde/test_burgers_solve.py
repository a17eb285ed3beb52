"""Burgers against the Cole–Hopf integral and against itself under its symmetries."""

import numpy as np
import pytest
import torch

from sciops import Grid, resample, restrict
from sciops.pde import burgers

GRID = Grid((128,), 1.0, "periodic")
X = GRID.coordinates()[0]


@pytest.mark.parametrize(("nu", "n", "t"), [(0.1, 64, 1.0), (0.02, 256, 0.4), (0.01, 512, 0.5)])
def test_cole_hopf(nu, n, t):
    grid = Grid((n,), 1.0, "periodic")
    x = grid.coordinates()[0]
    two = 2 * np.pi
    primitives = [
        lambda y: -np.cos(two * y) / two,
        lambda y: 0.5 * np.sin(two * y + 1) / two - 0.3 * np.cos(2 * two * y) / (2 * two),
    ]
    means = [0.0, 0.7]
    u0 = np.stack(
        [np.sin(two * x), 0.7 + 0.5 * np.cos(two * x + 1) + 0.3 * np.sin(2 * two * x)],
    )
    got = burgers.solve(u0, grid, times=[t / 2, t], viscosity=nu, dt=0.1 / n, estimate=True)
    for i, (primitive, mean) in enumerate(zip(primitives, means)):
        for j, time in enumerate((t / 2, t)):
            want = burgers.cole_hopf(primitive, x, time, viscosity=nu, mean=mean)
            assert np.abs(got.u[i, j] - want).max() < 1e-10
        assert np.linalg.norm(got.u[i, 1] - want) / np.linalg.norm(want) < max(4 * got.error[i], 1e-12)


def test_the_cole_hopf_integral_itself():
    """−2ν φ_x/φ for φ = 1 + a e^{−k²νt} cos kx, whose logarithm is the primitive: closed form."""
    nu, a, k, t = 0.05, 0.6, 2 * np.pi, 0.3
    decay = a * np.exp(-(k**2) * nu * t)
    want = 2 * nu * k * decay * np.sin(k * X) / (1 + decay * np.cos(k * X))
    got = burgers.cole_hopf(lambda y: -2 * nu * np.log(1 + a * np.cos(k * y)), X, t, viscosity=nu)
    np.testing.assert_allclose(got, want, atol=1e-13)


def test_mean_is_kept_and_energy_falls_by_the_dissipation():
    u0 = np.sin(2 * np.pi * X) + 0.4 * np.cos(6 * np.pi * X) + 0.25
    times = np.linspace(0, 0.5, 401)
    nu = 0.03
    u = burgers.solve(u0, GRID, times=times, viscosity=nu, dt=5e-4).u
    np.testing.assert_allclose(u.mean(1), 0.25, rtol=1e-13)
    slope = np.fft.irfft(2j * np.pi * np.arange(65) * np.fft.rfft(u), 128)
    energy, dissipation = (u**2).mean(1) / 2, nu * (slope**2).mean(1)
    simpson = (dissipation[:-2:2] + 4 * dissipation[1:-1:2] + dissipation[2::2]) * (times[1] / 3)
    np.testing.assert_allclose(energy[0] - energy[2::2], np.cumsum(simpson), rtol=1e-7)


def test_symmetries():
    """Mirror (x, u) → (−x, −u); shift; a longer box with the field and ν scaled."""
    u0 = np.sin(2 * np.pi * X) + 0.4 * np.cos(4 * np.pi * X)
    u = burgers.solve(u0, GRID, times=[0.3], viscosity=0.02).u
    mirrored = burgers.solve(-np.roll(u0[::-1], 1), GRID, times=[0.3], viscosity=0.02).u
    np.testing.assert_allclose(-np.roll(mirrored[:, ::-1], 1, 1), u, atol=1e-13)
    shifted = burgers.solve(np.roll(u0, 37), GRID, times=[0.3], viscosity=0.02).u
    np.testing.assert_allclose(np.roll(shifted, -37, 1), u, atol=1e-13)
    long = burgers.solve(u0, Grid((128,), (2, 7), "periodic"), times=[1.5], viscosity=0.1).u
    np.testing.assert_allclose(long, u, atol=1e-13)  # lengths and times times 5, ν too: speeds stay


def test_grids_that_resolve_the_field_agree():
    fine = Grid((256,), 1.0, "periodic")
    f = lambda x: np.sin(2 * np.pi * x) + 0.3 * np.cos(4 * np.pi * x + 1)  # noqa: E731
    u = burgers.solve(f(fine.coordinates()[0]), fine, times=[0.2, 1.0], viscosity=0.05, dt=1e-3).u
    coarse = burgers.solve(f(X), GRID, times=[0.2, 1.0], viscosity=0.05, dt=1e-3).u
    np.testing.assert_allclose(restrict(u, fine, GRID), coarse, atol=1e-11)


def test_dealiasing_keeps_the_energy_of_inviscid_flow():
    """∫u² of the truncated equation is constant without viscosity, past the shock; with aliases it blows up."""
    u0 = np.sin(2 * np.pi * X) + 0.2
    options = dict(times=[0.1, 0.2, 0.6], viscosity=0.0, dt=2e-4)
    u = burgers.solve(u0, GRID, **options).u
    np.testing.assert_allclose((u**2).mean(1), (u0**2).mean(), rtol=1e-7)
    with pytest.raises(RuntimeError, match="not finite"):
        burgers.solve(u0, GRID, dealias=False, **options)


def test_viscosity_by_sample_in_any_kind():
    u0 = np.stack([np.sin(2 * np.pi * X), np.cos(2 * np.pi * X) * 0.5])
    nu = np.array([0.1, 0.02])
    got = burgers.solve(u0, GRID, times=[0.2], viscosity=nu, estimate=True)
    for i in range(2):
        alone = burgers.solve(u0[i], GRID, times=[0.2], viscosity=nu[i], estimate=True)
        np.testing.assert_allclose(got.u[i], alone.u, atol=1e-14)
    tensor = burgers.solve(torch.from_numpy(u0), GRID, times=[0.2], viscosity=torch.from_numpy(nu))
    np.testing.assert_allclose(tensor.u, got.u, atol=1e-11)
    single = burgers.solve(u0.astype(np.float32), GRID, times=[0.2], viscosity=nu)
    assert single.u.dtype == np.float32
    np.testing.assert_allclose(single.u, got.u, atol=2e-5)


def test_the_public_file(real_data):
    """burgers_train_16.pt is this equation with ν = 0.01 on (0, 1), every 0.06: the states follow from u0 alone, as far
    as 16 points tell u0."""
    file = torch.load(real_data / "burgers_train_16.pt", weights_only=True)
    grid, fine = Grid((16,), 1.0, "periodic"), Grid((64,), 1.0, "periodic")
    smooth = file["y"].diff(dim=2).abs().amax((1, 2)).argsort()[:40]
    u0, want = resample(file["y"][smooth, 0], grid, fine, "fourier"), file["y"][smooth]

    def median_error(viscosity, interval):
        u = burgers.solve(u0, fine, times=interval * np.arange(17), viscosity=viscosity, dt=0.01).u
        return float(((restrict(u, fine, grid) - want).norm(dim=-1) / want.norm(dim=-1)).median())

    assert median_error(0.01, 0.06) < 1e-3
    assert min(median_error(*wrong) for wrong in ((0.011, 0.06), (0.009, 0.06), (0.01, 0.0625))) > 1e-2


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (dict(viscosity=-0.1), ValueError, "viscosity=-0.1: expected a finite number of at least 0"),
        (dict(viscosity=[0.1, 0.2, 0.3]), ValueError, r"viscosity has shape \(3,\)"),
        (dict(dt=0), ValueError, "dt=0: expected a positive number"),
        (dict(order=0), ValueError, "order=0: expected 1, 2, 3 or 4"),
        (dict(times=[0.2, 0.1]), ValueError, "increasing times"),
        (dict(grid=Grid((128,))), ValueError, "grid of node points"),
        (dict(u0=np.full(128, np.inf)), ValueError, r"u0\[0\] = inf"),
        (dict(on_failure="skip"), ValueError, "on_failure='skip': expected 'raise' or 'flag'"),
        (
            dict(u0=300 * np.sin(2 * np.pi * X), viscosity=0.0, times=[1.0]),
            RuntimeError,
            "sample 0 is not finite at t=",
        ),
    ],
)
def test_refusals(change, error, message):
    arguments = dict(u0=np.sin(2 * np.pi * X), grid=GRID, times=[0.1], viscosity=0.1) | change
    with pytest.raises(error, match=message):
        burgers.solve(arguments.pop("u0"), arguments.pop("grid"), **arguments)


def test_a_flagged_failure_leaves_the_others_alone():
    u0 = np.stack([np.sin(2 * np.pi * X), 300 * np.sin(2 * np.pi * X)])
    got = burgers.solve(u0, GRID, times=[0.5, 1.0], viscosity=[0.05, 0.0], estimate=True, on_failure="flag")
    alone = burgers.solve(u0[:1], GRID, times=[0.5, 1.0], viscosity=0.05, estimate=True)
    assert np.isnan(got.u[1]).all() and got.error[1] == np.inf
    np.testing.assert_allclose(got.u[:1], alone.u, atol=1e-14)
    assert got.error[0] == pytest.approx(alone.error[0], rel=0.1)


@pytest.mark.parametrize(("t", "viscosity"), [(0.0, 0.1), (1.0, 0.0), (-1.0, 0.1)])
def test_cole_and_hopf_need_time_and_viscosity(t, viscosity):
    with pytest.raises(ValueError, match="expected both above 0"):
        burgers.cole_hopf(np.cos, X, t, viscosity=viscosity)


@pytest.mark.gpu
def test_on_a_gpu():
    u0 = torch.from_numpy(np.stack([np.sin(2 * np.pi * X), np.cos(2 * np.pi * X)]))
    options = dict(times=[0.1, 0.4], viscosity=torch.tensor([0.1, 0.02]), estimate=True)
    got, want = burgers.solve(u0.cuda(), GRID, **options), burgers.solve(u0, GRID, **options)
    assert got.u.is_cuda and got.error.is_cuda
    torch.testing.assert_close(got.u.cpu(), want.u, atol=1e-12, rtol=0)
