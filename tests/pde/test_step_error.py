"""The estimated error of the time stepping lies above the true one, for smooth states and for others."""

import math

import numpy as np
import pytest
import torch

from sciops import Grid
from sciops.pde import burgers, fisher_kpp, gray_scott, kdv, kuramoto_sivashinsky, navier_stokes
from sciops.pde.evolution.step_error import doubling_error


def states(n):
    """(5, n): smooth, kink, jump, sawtooth, noise, between −1 and 1."""
    x = np.arange(n) / n
    noise = np.random.default_rng(0).uniform(-1, 1, n)
    smooth = 0.7 * np.sin(2 * np.pi * x) + 0.25 * np.cos(4 * np.pi * x + 1)
    return np.stack([smooth, 1 - 4 * abs(x - 0.5), np.where((x > 0.25) & (x < 0.6), 1.0, -0.5), 2 * x - 1, noise])


N = 48
LINE = Grid((N,), 2 * np.pi, "periodic")
LONG = Grid((N,), 32.0, "periodic")
PLANE = Grid((16, 16), 2 * np.pi, "periodic")
U = states(N)
FLAT = states(16)[:, :, None] * np.roll(states(16), 3, 1)[:, None]
SPECIES = np.stack([1 - 0.25 * (1 + FLAT), 0.25 * (1 + FLAT)], 1)
CASES = {
    "burgers": (burgers, U, LINE, 1.0, 16, {"viscosity": 0.1}),
    "burgers, steep": (burgers, U, LINE, 0.5, 16, {"viscosity": 0.01}),
    "kdv": (kdv, U, LINE, 0.5, 32, {"convection": 1.0, "dispersion": 0.05}),
    "kdv, oscillations not resolved": (kdv, U, LINE, 1.0, 64, {"convection": 1.0, "dispersion": 0.5}),
    "kuramoto_sivashinsky": (kuramoto_sivashinsky, 2 * U, LONG, 4.0, 64, {}),
    "fisher_kpp": (fisher_kpp, 0.5 + 0.4 * U, LINE, 2.0, 16, {"diffusivity": 0.1, "rate": 2.0}),
    "gray_scott": (gray_scott, SPECIES, PLANE, 16.0, 16, {"feed": 0.03, "kill": 0.062, "diffusivity": (2e-3, 1e-3)}),
    "navier_stokes": (navier_stokes, 3 * FLAT, PLANE, 1.0, 32, {"viscosity": 0.02}),
    "navier_stokes, carried": (navier_stokes, 3 * FLAT, PLANE, 1.0, 32, {"viscosity": 0.02, "mean_flow": (8.0, 0.0)}),
}


def norm(u):
    return np.linalg.norm(u.reshape(len(u), -1), axis=1)


@pytest.mark.parametrize("name", CASES)
def test_the_estimate_lies_above_the_error_whatever_the_state(name):
    module, u0, grid, end, steps, parameters = CASES[name]
    solve = lambda parts, **how: module.solve(u0, grid, times=[end], dt=end / parts, **parameters, **how)  # noqa: E731
    finest = solve(24 * steps, order=4).u[:, 0]
    for order in (1, 2, 3, 4):
        run = solve(steps, order=order, estimate=True)
        assert run.steps == steps
        true = norm(run.u[:, 0] - finest) / norm(finest)
        assert (run.error >= 0.7 * true).all(), (order, run.error / true)
        assert run.error[0] <= 30 * true[0], (order, run.error[0] / true[0])  # the smooth one


def test_a_sample_s_estimate_does_not_depend_on_the_others():
    options = {"times": [0.1, 0.5], "dt": 1 / 64, "convection": 1.0, "estimate": True, "order": 2}
    dispersion = np.array([0.5, 1e-5, 0.5, 0.05, 0.5])
    whole = kdv.solve(U, LINE, dispersion=dispersion, **options)
    for i, u in enumerate(U):
        alone = kdv.solve(u, LINE, dispersion=float(dispersion[i]), **options)
        assert alone.error == pytest.approx(whole.error[i], rel=1e-9), i
    assert whole.steps == 8 + 26  # an even number in every interval


@pytest.mark.parametrize("times", [[0.4], [0.39, 0.4], [0.01, 0.4], [0.1, 0.2, 0.3, 0.4], [0.004, 0.008, 0.39, 0.4]])
def test_the_estimate_is_sharp_for_smooth_states_however_the_output_times_lie(times):
    for order in (1, 2, 4):
        run = burgers.solve(U[:1], LINE, times=times, viscosity=0.1, dt=0.02, order=order, estimate=True)
        finest = burgers.solve(U[:1], LINE, times=times, viscosity=0.1, dt=5e-4)
        true = norm(run.u[:, -1] - finest.u[:, -1]) / norm(finest.u[:, -1])
        assert (true <= 1.02 * run.error).all() and (run.error <= 1.3 * true).all(), (order, run.error / true)
    few = burgers.solve(U[:1], LINE, times=[0.4], viscosity=0.1, dt=0.3, order=2, estimate=True)
    assert few.steps == 4
    at_zero = burgers.solve(U[:1], LINE, times=[0.0], viscosity=0.1, estimate=True)
    assert at_zero.error.tolist() == [0.0]
    none = kdv.solve(0 * U[:1], LINE, times=[0.5], estimate=True)
    assert none.error.tolist() == [0.0]


def test_waves_that_do_not_fit_their_period():
    """Solitons and a slope, which jumps at the seam, as public KdV files do: its stiff modes have no order yet."""
    grid = Grid((256,), 30.0, "periodic")
    x = grid.coordinates()[0]
    u0 = 0.5 / np.cosh(0.5 * (x - 9)) ** 2 + 1.0 / np.cosh((x - 20) / np.sqrt(2)) ** 2 + 1e-4 * x / 30
    dt = grid.spacing[0] / 120  # the default
    run, double, finest = (kdv.solve(u0, grid, times=[0.25], dt=h, estimate=h == dt) for h in (dt, 0.25 / 128, dt / 16))
    true, apart = (float(norm(run.u - other.u)[0] / norm(finest.u)[0]) for other in (finest, double))
    assert run.steps == 256 and true <= run.error <= 5 * true
    assert apart / 15 < 0.2 * true  # what the order of the method alone would say


def test_the_estimate_in_single_precision_is_not_that_of_its_rounding_times_the_steps():
    grid = Grid((64,), 20.0, "periodic")
    u0 = kdv.soliton(grid, 0.0, speed=1.5, centre=6.0)
    single, double = (kdv.solve(u0.astype(d), grid, times=[4.0], estimate=True) for d in (np.float32, np.float64))
    true = float(norm(single.u - double.u)[0] / norm(double.u)[0])
    assert true < 1e-4 and single.error < 1e-4 + 30 * true


def geometric(ratio, error=1e-3):
    """Fields whose distances shrink by a ratio: u_h, u_2h, u_4h with the given error of u_h."""
    u, away = torch.ones(1, 9, dtype=torch.float64), torch.ones(1, 9, dtype=torch.float64)
    return tuple(u + error * ratio**i * away for i in range(3))


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_the_formula_at_the_nominal_order_below_and_in_stiff_modes(order):
    none, every = torch.zeros_like, lambda u: u
    how = {"order": order, "expected": 2.0**order}
    error, stiff = doubling_error(*geometric(2.0**order), none, **how)
    assert float(error) == pytest.approx(1e-3 / 1.001, rel=1e-9) and not stiff.any()  # Richardson's
    for ratio in (1.3, 1.6, 3.0, 6.0, 40.0):  # below the order p, or above: never more than p is believed
        used = ratio / 2 if ratio < 2**order else 2**order
        first = (ratio - 1) * 1e-3 / 1.001
        assert float(doubling_error(*geometric(ratio), none, **how)[0]) == pytest.approx(
            first / max(used - 1, 0.5), rel=1e-9
        )
        error, stiff = doubling_error(*geometric(ratio), every, **how)
        assert float(error) == pytest.approx(first) and stiff.all()
    u = geometric(2.0**order)[0]
    nan = u * math.nan
    for fields, wanted in (((u, u, u), 0.0), ((0 * u, 0 * u, 0 * u), 0.0), ((u, u + 1e-3, nan), 2e-3)):
        assert float(doubling_error(*fields, none, **how)[0]) == pytest.approx(wanted, rel=2e-3)
    for fields in ((u, nan, nan), (nan, u, u)):
        assert float(doubling_error(*fields, none, **how)[0]) == math.inf
