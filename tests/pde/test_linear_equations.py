"""Advection and heat: exact for every mode, any axes; rolls, semigroup, Gaussian kernel, refusals."""

import numpy as np
import pytest
import torch

from sciops import Grid
from sciops.pde import advection, heat

BOXES = [
    Grid((16,), extent=(-1, 2), centering="periodic"),
    Grid((15,), extent=2.0, centering="periodic"),
    Grid((8, 9), extent=((0, 1), (-3, 1)), centering="periodic"),
    Grid((6, 8, 5), extent=((0, 1), (0, 2), (1, 4)), centering="periodic"),
]


def waves(grid, seed=0):
    """Resolved wavenumbers with phases and amplitudes, as a function of positions and of what each mode is given."""
    rng = np.random.default_rng(seed)
    largest = [(n - 1) // 2 for n in grid.shape]
    q = np.stack([rng.integers(-m, m + 1, 12) for m in largest], 1)
    k = 2 * np.pi * q / [b - a for a, b in grid.extent]
    amplitude, phase = rng.standard_normal(12), rng.uniform(0, 7, 12)

    def field(shift=0.0, damping=0.0):
        points = [x - s for x, s in zip(grid.meshgrid(), np.broadcast_to(shift, grid.ndim))]
        return sum(
            a * np.exp(-damping * (w @ w)) * np.cos(sum(c * x for c, x in zip(w, points)) + p)
            for w, a, p in zip(k, amplitude, phase)
        )

    return field


@pytest.mark.parametrize("grid", BOXES, ids=lambda g: "x".join(map(str, g.shape)))
def test_every_resolved_wave_moves_and_decays_exactly(grid):
    field = waves(grid)
    beta = np.array([0.7, -1.3, 2.1])[: grid.ndim]
    times = [0.0, 0.3, 5.0, 1000.0]
    moved = advection.solve(field(), grid, times=times, velocity=beta)
    assert (moved.dt, moved.steps, moved.error) == (0.0, 0, None)
    for j, t in enumerate(times):
        np.testing.assert_allclose(moved.u[j], field(shift=beta * t), atol=1e-12 * max(1, t / 5))
    cooled = heat.solve(field(), grid, times=times, diffusivity=0.02)
    for j, t in enumerate(times):
        np.testing.assert_allclose(cooled.u[j], field(damping=0.02 * t), atol=1e-13)


@pytest.mark.parametrize("n", [8, 9])
def test_moves_by_whole_spacings_are_rolls_of_any_samples(n):
    grid = Grid((n, n + 1), 1.0, "periodic")
    u0 = np.random.default_rng(0).standard_normal((2, n, n + 1))
    for i, j in ((1, 0), (3, -2), (n, n + 1)):
        got = advection.solve(u0, grid, times=[2.0], velocity=[i / n / 2, j / (n + 1) / 2]).u[:, 0]
        np.testing.assert_allclose(got, np.roll(u0, (i, j), (1, 2)), atol=1e-13)


def test_two_short_times_are_one_long_time():
    grid = BOXES[2]
    rough = np.random.default_rng(1).standard_normal((3, *grid.shape))
    smooth = waves(grid)()  # the Nyquist mode has no phase to remember between two moves
    for solve, u0, options in (
        (heat.solve, rough, {"diffusivity": [0.01, 0.1, 0.0]}),
        (advection.solve, smooth, {"velocity": [1.0, 0.2]}),
    ):
        half = solve(u0, grid, times=[0.4], **options).u.squeeze(-grid.ndim - 1)
        twice, once = solve(half, grid, times=[0.3], **options).u, solve(u0, grid, times=[0.7], **options).u
        np.testing.assert_allclose(twice, once, atol=1e-13)


def test_a_narrow_gaussian_spreads_as_the_heat_kernel():
    grid = Grid((96, 96), (-1, 1), "periodic")
    x, y = grid.meshgrid()
    s, nu, t = 0.005, 0.01, 0.4
    kernel = lambda v: np.exp(-(x**2 + y**2) / (4 * v)) / (4 * np.pi * v)  # noqa: E731
    got = heat.solve(kernel(s), grid, times=[t], diffusivity=nu).u[0]
    images = sum(
        np.exp(-((x - 2 * i) ** 2 + (y - 2 * j) ** 2) / (4 * (s + nu * t))) for i in (-1, 0, 1) for j in (-1, 0, 1)
    ) / (4 * np.pi * (s + nu * t))
    np.testing.assert_allclose(got, images, atol=1e-10 * kernel(s).max())


def test_constants_by_sample_and_kinds():
    grid = BOXES[0]
    u0 = np.stack([waves(grid, s)() for s in range(3)])
    nu, beta = np.array([0.0, 0.1, 0.5]), np.array([0.3, -2.0, 0.0])
    cooled, moved = (
        heat.solve(u0, grid, times=[0.2], diffusivity=nu),
        advection.solve(u0, grid, times=[0.2], velocity=beta),
    )
    for i in range(3):
        alone = heat.solve(u0[i], grid, times=[0.2], diffusivity=nu[i]).u
        np.testing.assert_allclose(cooled.u[i], alone, atol=1e-15)
        np.testing.assert_allclose(
            moved.u[i], advection.solve(u0[i], grid, times=[0.2], velocity=beta[i]).u, atol=1e-15
        )
    tensor = heat.solve(torch.from_numpy(u0).float(), grid, times=[0.2], diffusivity=torch.from_numpy(nu))
    assert tensor.u.dtype == torch.float32
    np.testing.assert_allclose(tensor.u, cooled.u, atol=1e-5)
    late = advection.solve(u0.astype(np.float32), grid, times=[1e4], velocity=0.37).u
    np.testing.assert_allclose(late, advection.solve(u0, grid, times=[1e4], velocity=0.37).u, atol=1e-5)


def test_heat_obeys_mean_and_maximum():
    grid = Grid((32, 32), 1.0, "periodic")
    u0 = 1.0 + np.outer(np.arange(32) < 16, np.arange(32) % 8 < 4)
    u = heat.solve(u0, grid, times=np.linspace(0.01, 1, 20), diffusivity=0.1).u
    np.testing.assert_allclose(u.mean((1, 2)), u0.mean(), rtol=1e-14)
    assert (np.diff(u.max((1, 2))) <= 1e-14).all() and (np.diff(u.min((1, 2))) >= -1e-14).all()


@pytest.mark.parametrize(
    ("velocity", "message"),
    [
        ([1.0, 2.0, 3.0], r"velocity has shape \(3,\); expected \(2,\), or \(1, 2\)"),
        (1.0, r"velocity has shape \(\)"),
        ([1.0, np.nan], "expected finite numbers"),
    ],
)
def test_refusals_of_velocities(velocity, message):
    with pytest.raises(ValueError, match=message):
        advection.solve(np.zeros((8, 9)), BOXES[2], times=[1.0], velocity=velocity)


def test_refusals():
    with pytest.raises(ValueError, match="diffusivity=-1.0: expected a finite number of at least 0"):
        heat.solve(np.zeros(16), BOXES[0], times=[1.0], diffusivity=-1.0)
    for solve, options in ((heat.solve, {"diffusivity": 1.0}), (advection.solve, {"velocity": 1.0})):
        with pytest.raises(ValueError, match="grid of node points: expected .*periodic"):
            solve(np.zeros(16), Grid((16,)), times=[1.0], **options)
        with pytest.raises(ValueError, match="expected finite numbers"):
            solve(np.full(16, np.nan), BOXES[0], times=[1.0], **options)
        with pytest.raises(ValueError, match="increasing times"):
            solve(np.zeros(16), BOXES[0], times=[1.0, 1.0], **options)
