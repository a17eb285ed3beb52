"""Navier–Stokes: exact decays, budgets of the semi-discrete equation, symmetries, orders, and a naive reference."""

import numpy as np
import pytest
import torch

from sciops.grids import Grid, restrict
from sciops.pde import navier_stokes as ns
from sciops.random_fields import gaussian_random_field

SHAPES = [((16, 16), ((0, 1), (0, 1))), ((15, 21), ((0, 2), (-1, 2))), ((18, 13), ((0, 6.2), (1, 2)))]
shapes = pytest.mark.parametrize("grid", [Grid(s, e, "periodic") for s, e in SHAPES], ids=lambda g: str(g.shape))


def _mean(a, b):
    return (a * b).mean((-2, -1))


def _random(grid, seed=0, samples=2, modes=None):
    """Fields of the grid's modes |q| ≤ modes (default: all below n/3), of mean 0 and unit size."""
    rng = np.random.default_rng(seed)
    w = np.zeros((samples, *grid.shape))
    (a, b), (c, d) = grid.extent
    x, y = (grid.meshgrid()[0] - a) / (b - a), (grid.meshgrid()[1] - c) / (d - c)
    most = [(n - 1) // 3 if modes is None else modes for n in grid.shape]
    for p in range(-most[0], most[0] + 1):
        for q in range(most[1] + 1):
            if (p, q) != (0, 0):
                size, phase = rng.standard_normal(samples) / (p * p + q * q), rng.uniform(0, 7, samples)
                w += size[:, None, None] * np.cos(2 * np.pi * (p * x + q * y) + phase[:, None, None])
    return w / w.std((1, 2), keepdims=True)


@shapes
def test_a_single_wave_decays_and_does_nothing_else(grid):
    """u·∇w = 0 for one eigenvalue of the Laplacian: Taylor and Green's exact solution, on any box."""
    (a, b), (c, d) = grid.extent
    x, y = grid.meshgrid()
    p, q = 2 * np.pi * 2 / (b - a), 2 * np.pi * 1 / (d - c)
    nu, alpha, times = 0.01, 0.2, np.array([0.5, 3.0])
    decay = np.exp(-(nu * (p**2 + q**2) + alpha) * times)[:, None, None]
    for w0 in (np.cos(p * (x - a) + q * (y - c)), np.sin(p * (x - a)) * np.cos(q * (y - c))):
        for order in (1, 4):
            run = ns.solve(w0, grid, times=times, viscosity=nu, drag=alpha, dt=0.25, order=order)
            np.testing.assert_allclose(run.u, decay * w0, rtol=0, atol=1e-13)


def test_laminar_kolmogorov_flow_grows_to_its_steady_state():
    grid = Grid((12, 30), 2 * np.pi, "periodic")
    f = ns.kolmogorov_forcing(grid, 4)
    np.testing.assert_allclose(f, -4 * np.cos(4 * grid.meshgrid()[1]), atol=1e-13)
    rate = 0.05 * 16 + 0.1
    times = np.array([0.3, 2.0, 60.0])
    for forcing in (f, lambda g: ns.kolmogorov_forcing(g, 4), np.stack([f, f]), torch.tensor(f)):
        run = ns.solve(np.zeros((2, 12, 30)), grid, times=times, viscosity=0.05, drag=0.1, forcing=forcing)
        exact = f * ((1 - np.exp(-rate * times)) / rate)[:, None, None]
        np.testing.assert_allclose(run.u, np.stack([exact, exact]), rtol=0, atol=1e-12)


@shapes
def test_velocity_has_this_curl_no_divergence_and_this_stream_function(grid):
    w = _random(grid)
    uv, psi = ns.velocity(w, grid), ns.stream_function(w, grid)
    lengths = [b - a for a, b in grid.extent]
    kx, ky = (2 * np.pi / length * np.fft.fftfreq(n, 1 / n) for n, length in zip(grid.shape, lengths))

    def derivative(v, axis):
        return np.fft.ifft2(1j * (kx[:, None], ky)[axis] * np.fft.fft2(v)).real

    u, v = uv[:, 0], uv[:, 1]
    np.testing.assert_allclose(derivative(v, 0) - derivative(u, 1), w, atol=1e-12)
    np.testing.assert_allclose(derivative(u, 0) + derivative(v, 1), 0, atol=1e-12)
    np.testing.assert_allclose(derivative(psi, 1), u, atol=1e-12)
    np.testing.assert_allclose(ns.energy(w, grid), _mean(psi, w) / 2, rtol=1e-12)
    np.testing.assert_allclose(ns.enstrophy(w, grid), _mean(w, w) / 2, rtol=1e-12)
    curvature = derivative(derivative(w, 0), 0) + derivative(derivative(w, 1), 1)
    np.testing.assert_allclose(ns.palinstrophy(w, grid), -_mean(w, curvature) / 2, rtol=1e-12)


@shapes
def test_the_truncated_equation_keeps_energy_and_enstrophy(grid):
    """⟨ψ, u·∇w⟩ = ⟨w, u·∇w⟩ = 0 to round-off for every field of the kept modes; aliasing breaks it."""
    w = _random(grid)
    rate = ns.tendency(w, grid, viscosity=0.0)
    size = np.sqrt(_mean(rate, rate))
    for test in (w, ns.stream_function(w, grid)):
        assert (np.abs(_mean(test, rate)) < 1e-13 * size * np.sqrt(_mean(test, test))).all()
    rough = _random(grid, modes=(min(grid.shape) - 1) // 2)
    aliased = ns.tendency(rough, grid, viscosity=0.0, dealias=False)
    assert (np.abs(_mean(rough, aliased)) > 1e-6 * np.sqrt(_mean(aliased, aliased))).any()


@shapes
def test_budgets_of_the_semi_discrete_equation_close(grid):
    w, f, nu, alpha = _random(grid), _random(grid, 1, samples=1)[0], 0.03, 0.4
    psi = ns.stream_function(w, grid)
    rate = ns.tendency(w, grid, viscosity=nu, drag=alpha, forcing=f)
    e, z, p = ns.energy(w, grid), ns.enstrophy(w, grid), ns.palinstrophy(w, grid)
    np.testing.assert_allclose(_mean(psi, rate), -2 * nu * z - 2 * alpha * e + _mean(psi, f), rtol=0, atol=1e-13)
    np.testing.assert_allclose(_mean(w, rate), -2 * nu * p - 2 * alpha * z + _mean(w, f), rtol=0, atol=1e-11)


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_budgets_close_in_time_to_the_order_of_the_integrator(order):
    """E(1) − E(0) = ∫(−2νZ + ⟨ψf⟩)dt and the same of Z: the integral by Simpson on a dense run, what is left ~ dt^p."""
    grid = Grid((24, 24), centering="periodic")
    w0, f, nu = _random(grid, modes=5, samples=1)[0], ns.li2020_forcing(grid), 1e-3
    times = np.linspace(0, 1, 129)
    simpson = np.tile([2.0, 4.0], 64) / 384
    simpson = np.append(simpson, 1 / 384)
    simpson[0] = 1 / 384
    left = []
    for dt in (1 / 128, 1 / 256):
        w = ns.solve(w0, grid, times=times, viscosity=nu, forcing=f, dt=dt, order=order).u
        e, z, p = ns.energy(w, grid), ns.enstrophy(w, grid), ns.palinstrophy(w, grid)
        for value, rate in ((e, _mean(ns.stream_function(w, grid), f) - 2 * nu * z), (z, _mean(w, f) - 2 * nu * p)):
            left.append(abs(value[-1] - value[0] - simpson @ rate) / value[0])
    bounds = {1: 0.05, 2: 1e-3, 3: 1e-5, 4: 3e-7}
    assert max(left) < bounds[order], left
    if order < 4:  # at order 4 Simpson's own error is as large
        assert (np.log2(np.divide(left[:2], left[2:])) > order - 0.3).all(), left


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_order_in_time_and_the_estimate_of_the_error(order):
    grid = Grid((24, 20), ((0, 1), (0, 2)), "periodic")
    w0, options = _random(grid, modes=4), {"viscosity": 2e-3, "forcing": ns.kolmogorov_forcing(grid, 2)}
    reference = ns.solve(w0, grid, times=[0.5], dt=1 / 1024, **options).u[:, 0]
    errors, estimates = [], []
    for dt in np.array([1, 1 / 2, 1 / 4]) * (1 / 32 if order > 1 else 1 / 256):
        run = ns.solve(w0, grid, times=[0.5], dt=dt, order=order, estimate=True, **options)
        size = np.linalg.norm(reference, axis=(1, 2))
        errors.append(np.linalg.norm(run.u[:, 0] - reference, axis=(1, 2)) / size)
        estimates.append(run.error)
    np.testing.assert_allclose(np.log2(errors[1] / errors[2]), order, atol=0.1)
    np.testing.assert_allclose(estimates[2], errors[2], rtol=0.2)


def test_accuracy_in_space_is_spectral():
    """A smooth flow on n = 24, 36, 48, 64 points against 96: the error falls faster than every power of n."""
    sizes, fine = (24, 36, 48, 64), Grid((96, 96), centering="periodic")

    def w0(grid):
        x, y = (2 * np.pi * v for v in grid.meshgrid())
        return np.exp(np.sin(x) * np.cos(y)) - np.exp(np.cos(x + y)) * 0.5 + np.sin(2 * x - y)

    def run(grid):
        return ns.solve(w0(grid), grid, times=[0.5], viscosity=0.01, dt=1 / 64).u[0]

    reference, errors = run(fine), []
    for n in sizes:
        grid = Grid((n, n), centering="periodic")
        common = Grid((np.gcd(n, 96),) * 2, centering="periodic")
        errors.append(np.abs(restrict(run(grid), grid, common) - restrict(reference, fine, common)).max())
    slopes = np.diff(np.log(errors)) / np.diff(np.log(sizes))
    assert errors[0] > 1e-6 and errors[-1] < 1e-10
    assert slopes[0] < -5 and slopes.min() < -15


def test_against_a_naive_solver_in_full_complex_transforms():
    """Runge–Kutta 4 in tiny steps of u·∇w, advected point by point, cut to |q| < n/3, and nothing shared."""
    grid = Grid((20, 15), ((0, 1), (0, 1.5)), "periodic")
    w0, f, nu, alpha = _random(grid)[0], _random(grid, 5, samples=1)[0], 0.004, 0.1
    q = [np.fft.fftfreq(n, 1 / n) for n in grid.shape]
    kx, ky = 2 * np.pi * q[0][:, None], 2 * np.pi / 1.5 * q[1][None]
    keep = (3 * abs(q[0][:, None]) < 20) & (3 * abs(q[1][None]) < 15)
    square = kx**2 + ky**2
    square[0, 0] = 1.0

    def rate(w):
        s = np.fft.fft2(w) * keep
        u, v, wx, wy = (np.fft.ifft2(m * s).real for m in (1j * ky / square, -1j * kx / square, 1j * kx, 1j * ky))
        rhs = -np.fft.fft2(u * wx + v * wy) * keep
        rhs += np.fft.fft2(f) - (nu * (kx**2 + ky**2) + alpha) * np.fft.fft2(w)
        return np.fft.ifft2(rhs).real

    np.testing.assert_allclose(ns.tendency(w0, grid, viscosity=nu, drag=alpha, forcing=f), rate(w0), atol=1e-12)
    w, h = w0, 1 / 400
    for _ in range(400):
        a = rate(w)
        b = rate(w + h / 2 * a)
        c = rate(w + h / 2 * b)
        w = w + h / 6 * (a + 2 * b + 2 * c + rate(w + h * c))
    mine = ns.solve(w0, grid, times=[1.0], viscosity=nu, drag=alpha, forcing=f, dt=1 / 200).u[0]
    np.testing.assert_allclose(mine, w, rtol=0, atol=1e-8)


def test_translations_reflections_and_rotations_of_the_flow():
    grid = Grid((21, 21), centering="periodic")
    w0, f = _random(grid)[0], _random(grid, 3)[0]

    def run(w, f):
        return ns.solve(w, grid, times=[0.7], viscosity=1e-3, forcing=f, dt=0.02).u[0]

    moved = run(w0, f)
    for turn in (
        lambda w: np.roll(w, (3, -5), (0, 1)),
        lambda w: np.rot90(w),
        lambda w: -w[::-1],  # a mirror turns every vortex the other way
        lambda w: -w.T,
    ):
        np.testing.assert_allclose(run(turn(w0), turn(f)), turn(moved), rtol=0, atol=1e-11)


def test_galileo_a_uniform_stream_carries_the_same_flow_along():
    grid = Grid((16, 21), ((0, 2), (0, 3)), "periodic")
    w0 = _random(grid)
    # three cells along x and two against y in one unit of time; the stepping errors of the two differ
    flow, errors = (3 * grid.spacing[0], -2 * grid.spacing[1]), []
    for dt in (0.02, 0.01):
        still, moving = (
            ns.solve(w0, grid, times=[1.0], viscosity=1e-3, dt=dt, mean_flow=u).u[:, 0] for u in ((0, 0), flow)
        )
        errors.append(np.abs(moving - np.roll(still, (3, -2), (1, 2))).max())
    assert errors[1] < 1e-6 and np.log2(errors[0] / errors[1]) > 3.7


def test_inertia_alone_keeps_energy_and_enstrophy_over_time():
    grid = Grid((32, 32), centering="periodic")
    w0 = _random(grid, modes=6)
    run = ns.solve(w0, grid, times=[0.0, 1.0], viscosity=0.0, dt=1 / 128)
    for invariant in (ns.energy, ns.enstrophy):
        values = invariant(run.u, grid)
        np.testing.assert_allclose(values[:, 1], values[:, 0], rtol=1e-8)
    assert np.abs(run.u[:, 1] - w0).max() > 0.5


def test_batches_kinds_and_a_parameter_for_each_sample():
    grid = Grid((16, 15), centering="periodic")
    w0 = _random(grid, samples=3)
    nu, alpha = np.array([1e-3, 1e-2, 0.0]), np.array([0.0, 0.1, 1.0])
    together = ns.solve(w0, grid, times=[0.0, 0.3], viscosity=nu, drag=alpha)
    np.testing.assert_array_equal(together.u[:, 0], w0)
    for i in range(3):
        alone = ns.solve(w0[i], grid, times=[0.3], viscosity=nu[i], drag=alpha[i])
        np.testing.assert_allclose(alone.u[0], together.u[i, 1], rtol=0, atol=1e-13)
    tensor = torch.tensor(w0, dtype=torch.float32)
    single = ns.solve(tensor, grid, times=[0.3], viscosity=nu, drag=alpha)
    assert isinstance(single.u, torch.Tensor) and single.u.dtype == torch.float32
    np.testing.assert_allclose(single.u[:, 0].numpy(), together.u[:, 1], rtol=0, atol=1e-5)
    assert ns.velocity(tensor, grid).dtype == torch.float32 and ns.energy(tensor, grid).shape == (3,)
    assert min(grid.spacing) / 4 < together.dt <= min(grid.spacing) / 2


def test_the_gradient_of_a_run_is_its_derivative():
    grid = Grid((9, 8), centering="periodic")
    w0 = torch.tensor(_random(grid, samples=1)[0], requires_grad=True)
    direction = torch.tensor(_random(grid, 7, samples=1)[0])

    def final(w):
        return ns.enstrophy(ns.solve(w, grid, times=[0.2], viscosity=1e-3).u[0], grid)

    (gradient,) = torch.autograd.grad(final(w0), w0)
    with torch.no_grad():
        difference = (final(w0 + 1e-5 * direction) - final(w0 - 1e-5 * direction)) / 2e-5
    torch.testing.assert_close((gradient * direction).sum(), difference, rtol=1e-8, atol=0)


def test_the_law_of_li_et_al_and_its_forcing():
    """N(0, 7³ (−Δ + 49)^−2.5) on the torus: the variance of a point is Σ_{k ≠ 0} 7³ (4π²|k|² + 49)^−2.5."""
    grid = Grid((24, 24), centering="periodic")
    w = gaussian_random_field(grid, 400, tau=7.0, alpha=2.5, seed=3, modes=24)
    q = np.arange(-11, 12)
    square = 4 * np.pi**2 * (q[:, None] ** 2 + q**2)
    level = 7.0**3 * (square + 49.0) ** -2.5
    level[11, 11] = 0.0
    np.testing.assert_allclose((w**2).mean(), level.sum(), rtol=0.05)
    x, y = grid.meshgrid()
    np.testing.assert_allclose(
        ns.li2020_forcing(grid), 0.1 * np.sqrt(2) * np.sin(2 * np.pi * (x + y) + np.pi / 4), atol=1e-15
    )


def test_refusals_say_what_to_do():
    grid = Grid((8, 8), centering="periodic")
    w = np.ones((2, 8, 8))
    for options, words in (
        ({"viscosity": -1.0}, "viscosity=-1.0: expected a finite number of at least 0"),
        ({"viscosity": [1.0, 2.0, 3.0]}, "one for each of 2 samples"),
        ({"viscosity": 0.1, "drag": -1.0}, "drag=-1.0"),
        ({"viscosity": 0.1, "forcing": np.ones((3, 8, 8))}, r"forcing has shape \(3, 8, 8\)"),
        ({"viscosity": 0.1, "forcing": np.full((8, 8), np.nan)}, "forcing is not finite"),
        ({"viscosity": 0.1, "mean_flow": 1.0}, "expected two finite speeds"),
        ({"viscosity": 0.1, "mean_flow": "east"}, "mean_flow='east': expected two finite speeds"),
        ({"viscosity": 0.1, "dt": 0.0}, "dt=0.0"),
        ({"viscosity": 0.1, "order": 5}, "order=5"),
        ({"viscosity": 0.1, "times": [1.0, 0.5]}, "increasing times"),
    ):
        with pytest.raises(ValueError, match=words):
            ns.solve(w, grid, **{"times": [0.1], **options})
    with pytest.raises(ValueError, match="2"):
        ns.solve(np.ones(8), Grid((8,), centering="periodic"), times=[0.1], viscosity=0.1)
    with pytest.raises(ValueError, match="centering='periodic'"):
        ns.velocity(w, Grid((8, 8)))
    with pytest.raises(ValueError, match="whole number of waves"):
        ns.kolmogorov_forcing(grid, 0.5)
    with pytest.raises(ValueError, match="k='two': expected a whole number of waves"):
        ns.kolmogorov_forcing(grid, "two")
    with pytest.raises(ValueError, match="2, such as"):
        ns.li2020_forcing(Grid((8,), centering="periodic"))


def test_the_forcing_of_li_et_al_has_the_period_one():
    for sides in (2.0, 1.0, ((0, 3), (-1, 0))):
        ns.li2020_forcing(Grid((8, 8), sides, "periodic"))
    with pytest.raises(ValueError, match="sides of 1 and 1.5: this forcing has the period 1.*kolmogorov_forcing"):
        ns.li2020_forcing(Grid((8, 8), ((0, 1), (0, 1.5)), "periodic"))


@pytest.mark.filterwarnings("ignore:overflow")
def test_a_step_that_is_too_long_is_told_by_sample_and_time():
    grid = Grid((16, 16), centering="periodic")
    w = _random(grid) * np.array([1e-3, 500.0])[:, None, None]
    with pytest.raises(RuntimeError, match="sample 1 is not finite .* smaller dt"):
        ns.solve(w, grid, times=[30.0], viscosity=0.0, dt=0.1)
    kept = ns.solve(w, grid, times=[0.0, 10.0, 30.0], viscosity=0.0, dt=0.1, on_failure="flag", estimate=True)
    assert np.isnan(kept.u[1]).all() and np.isnan(kept.failed_at[0]) and kept.failed_at[1] == 10.0
    assert np.isfinite(kept.u[0]).all() and np.isposinf(kept.error[1]) and kept.error[0] < 1e-6


@pytest.mark.gpu
def test_on_a_gpu_as_on_the_cpu():
    grid = Grid((32, 24), centering="periodic")
    w0 = torch.tensor(_random(grid))
    options = {"times": [0.5], "viscosity": 1e-3, "forcing": ns.li2020_forcing}
    there = ns.solve(w0.cuda(), grid, **options).u
    assert there.is_cuda
    torch.testing.assert_close(there.cpu(), ns.solve(w0, grid, **options).u, rtol=0, atol=1e-12)
