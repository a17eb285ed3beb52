"""Fisher–KPP and Gray–Scott: ordinary differential equations where fields are constant, fronts, lifted dimensions."""

import numpy as np
import pytest
import torch
from scipy.integrate import solve_ivp

from sciops import Grid
from sciops.pde import fisher_kpp, gray_scott

LINE = Grid((64,), 1.0, "periodic")
X = LINE.coordinates()[0]


def test_constant_fields_follow_the_logistic_curve():
    u0, rho, times = (
        np.array([0.0, 0.01, 0.4, 1.0, 1.7]),
        np.array([1.0, 6.0, 2.0, 5.0, 1.0]),
        np.array([0.0, 0.5, 3.0]),
    )
    grow = np.exp(np.outer(rho, times))
    want = u0[:, None] * grow / (1 + u0[:, None] * (grow - 1))
    for grid in (LINE, Grid((6, 5), 1.0, "periodic"), Grid((4, 4, 4), 1.0, "periodic")):
        field = np.ones((5, *grid.shape)) * u0.reshape(-1, *(1,) * grid.ndim)
        got = fisher_kpp.solve(field, grid, times=times, diffusivity=0.3, rate=rho, dt=2e-3).u
        wanted = np.broadcast_to(want.reshape(5, 3, *(1,) * grid.ndim), got.shape)
        np.testing.assert_allclose(got, wanted, atol=1e-10)
    assert np.array_equal(got[0], np.zeros_like(got[0])) and np.array_equal(got[3], np.ones_like(got[3]))


def test_the_exact_front():
    """Ablowitz & Zeppetella 1979: u = (1 + e^{z/√6})⁻² with z = x − 5t/√6 for ν = ρ = 1; two fronts that part."""
    grid = Grid((1024,), (-60, 60), "periodic")
    x = grid.coordinates()[0]
    front = lambda x, t: (1 + np.exp((x - 5 / np.sqrt(6) * t) / np.sqrt(6))) ** -2.0  # noqa: E731
    pulse = lambda t: front(np.abs(x) - 25, t)  # noqa: E731
    t = 3.0
    u = fisher_kpp.solve(pulse(0), grid, times=[t], diffusivity=1.0, rate=1.0).u[0]
    away = np.abs(np.abs(x) - 25 - 5 / np.sqrt(6) * t) < 8  # the kink in the middle and at the seam stays there
    assert np.abs(u - pulse(t))[away].max() < 2e-6


def test_diffusivity_and_rate_by_sample_and_zero():
    u0 = 0.5 + 0.4 * np.cos(2 * np.pi * X)
    nu, rho = np.array([0.1, 0.0, 0.02]), np.array([0.0, 2.0, 5.0])
    got = fisher_kpp.solve(np.stack([u0] * 3), LINE, times=[0.3], diffusivity=nu, rate=rho, dt=2e-3, estimate=True)
    np.testing.assert_allclose(
        got.u[0, 0], 0.5 + 0.4 * np.exp(-0.1 * 0.3 * 4 * np.pi**2) * np.cos(2 * np.pi * X), atol=1e-14
    )
    grow = np.exp(0.6)
    np.testing.assert_allclose(got.u[1, 0], u0 * grow / (1 + u0 * (grow - 1)), atol=1e-9)
    alone = fisher_kpp.solve(u0, LINE, times=[0.3], diffusivity=0.02, rate=5.0, dt=2e-3)
    np.testing.assert_allclose(got.u[2], alone.u, atol=1e-14)
    tensor = fisher_kpp.solve(torch.from_numpy(u0).float(), LINE, times=[0.3], diffusivity=0.02, rate=5.0, dt=2e-3)
    np.testing.assert_allclose(tensor.u, alone.u, atol=1e-5)


@pytest.mark.parametrize("shape", [(12,), (12, 9), (9, 8, 6)])
def test_a_saturated_state_stays_saturated_for_long(shape):
    """To ρt = 120: a part of the spectrum that no real field has, once in it by rounding, must not grow unseen."""
    grid = Grid(shape, 1.0, "periodic")
    u0 = 0.5 + 0.3 * np.random.default_rng(0).uniform(-1, 1, shape)
    u = fisher_kpp.solve(u0, grid, times=[12.0], diffusivity=0.01, rate=10.0, dt=0.02).u
    np.testing.assert_allclose(u, 1.0, atol=1e-6)


def test_fisher_refusals():
    with pytest.raises(ValueError, match="rate=-1.0: expected a finite number of at least 0"):
        fisher_kpp.solve(X, LINE, times=[1.0], diffusivity=0.1, rate=-1.0)
    with pytest.raises(RuntimeError, match="sample 0 is not finite"):
        fisher_kpp.solve(X - 3, LINE, times=[2.0], diffusivity=0.1, rate=3.0)


def kinetics(t, y, f, k):
    a, b = y
    return [-a * b * b + f * (1 - a), a * b * b - (f + k) * b]


@pytest.mark.parametrize("shape", [(8,), (5, 6), (4, 4, 4)])
def test_constant_species_follow_their_kinetics(shape):
    grid = Grid(shape, (-1, 1), "periodic")
    starts, constants = [(0.5, 0.25), (1.0, 0.0), (0.3, 0.6)], [(0.03, 0.062), (0.1, 0.05), (0.05, 0.02)]
    u0 = np.ones((3, 2, *shape)) * np.array(starts).reshape(3, 2, *(1,) * len(shape))
    feed, kill = np.array(constants).T
    got = gray_scott.solve(u0, grid, times=[50.0, 200.0], feed=feed, kill=kill, dt=0.25).u
    for i in range(3):
        exact = solve_ivp(kinetics, (0, 200), starts[i], "DOP853", [50, 200], args=constants[i], rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(got[i].reshape(2, 2, -1)[..., 0], exact.y.T, atol=1e-8)
        assert np.ptp(got[i].reshape(4, -1), axis=1).max() < 1e-13
    assert np.array_equal(got[1, :, 0], np.ones_like(got[1, :, 0])) and not got[1, :, 1].any()


def bumps(x):
    b = np.exp(-60 * x**2) + 0.5 * np.exp(-90 * (x - 0.4) ** 2)
    return np.stack([1 - 0.8 * b, 0.5 * b])


def test_more_axes_lift_fewer():
    line = Grid((64,), (-1, 1), "periodic")
    one = bumps(line.coordinates()[0])
    options = dict(times=[30.0, 100.0], feed=0.03, kill=0.062, diffusivity=(2e-4, 1e-4))
    u = gray_scott.solve(one, line, **options, estimate=True)
    for axis in (0, 1):
        square = Grid((64, 8) if axis == 0 else (8, 64), (-1, 1), "periodic")
        lifted = np.broadcast_to(one[:, :, None] if axis == 0 else one[:, None], (2, *square.shape))
        got = gray_scott.solve(lifted, square, **options).u
        wanted = u.u[..., None] if axis == 0 else u.u[..., None, :]
        np.testing.assert_allclose(got, np.broadcast_to(wanted, got.shape), atol=1e-12)
    assert u.error < 1e-5


def test_matter_balance():
    """A + B is fed by F(1 − A) and loses (F + k)B: its mean changes by their integral; without F and k it is kept."""
    line = Grid((64,), (-1, 1), "periodic")
    times = np.linspace(0, 40, 401)
    u = gray_scott.solve(bumps(line.coordinates()[0]), line, times=times, feed=0.03, kill=0.06, dt=0.1).u.mean(-1)
    rate = 0.03 * (1 - u[:, 0]) - 0.09 * u[:, 1]
    simpson = (rate[:-2:2] + 4 * rate[1:-1:2] + rate[2::2]) * (times[1] / 3)
    np.testing.assert_allclose(u[2::2].sum(1) - u[0].sum(), np.cumsum(simpson), atol=1e-9)
    kept = gray_scott.solve(bumps(line.coordinates()[0]), line, times=[0, 40], feed=0.0, kill=0.0).u
    np.testing.assert_allclose(kept[1].sum(0).mean(), kept[0].sum(0).mean(), rtol=1e-13)


def test_gray_scott_kinds_batch_and_refusals():
    line = Grid((64,), (-1, 1), "periodic")
    one = bumps(line.coordinates()[0])
    options = dict(times=[50.0], feed=0.03, kill=0.062, diffusivity=(2e-4, 1e-4))
    want = gray_scott.solve(one, line, **options).u
    batch = gray_scott.solve(torch.from_numpy(np.stack([one * 0.9, one])), line, **options).u
    np.testing.assert_allclose(batch[1], want, atol=1e-13)
    np.testing.assert_allclose(gray_scott.solve(one.astype("f4"), line, **options).u, want, atol=1e-4)
    assert len(gray_scott.PATTERNS) == 6
    with pytest.raises(ValueError, match=r"expected \(batch, 2, 64\) or \(2, 64\)"):
        gray_scott.solve(one[0], line, **options)
    for wrong in (1e-5, (1e-5, 1e-5, 1e-5)):
        with pytest.raises(ValueError, match=r"diffusivity=.*: expected a pair, \(δ_A, δ_B\)"):
            gray_scott.solve(one, line, **(options | {"diffusivity": wrong}))
    with pytest.raises(ValueError, match="feed=-0.1: expected a finite number of at least 0"):
        gray_scott.solve(one, line, **(options | {"feed": -0.1}))
    with pytest.raises(RuntimeError, match="sample 0 is not finite"):
        gray_scott.solve(30 * one, line, **options)
