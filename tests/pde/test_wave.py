"""The wave equation: d'Alembert, standing waves, energy, time reversal, damping against a matrix exponential."""

import numpy as np
import pytest
import torch
from scipy.linalg import expm

from sciops.grids import Grid
from sciops.pde import wave
from sciops.pde.elliptic.eigenbasis import boundaries_of, eigenvalues

BOXES = [
    (Grid((15,), (-1, 2), "periodic"), None),
    (Grid((12, 9), ((0, 1), (0, 2)), "periodic"), None),
    (Grid((13, 10), ((0, 1), (0, 2)), "node"), "dirichlet"),
    (Grid((13, 10), ((0, 1), (0, 2)), "cell"), "dirichlet"),
    (Grid((13, 10), ((0, 1), (0, 2)), "node"), ("neumann", "dirichlet")),
    (Grid((5, 6, 7), ((0, 1), (0, 2), (0, 1)), "cell"), "neumann"),
    (Grid((13, 10), ((0, 1), (0, 2)), "cell"), ("periodic", "dirichlet")),
]
boxes = pytest.mark.parametrize("box", BOXES, ids=lambda box: f"{box[0].centering}-{box[0].shape}-{box[1]}")


def _state(grid, boundary, samples=3, seed=0):
    """Random u and v, 0 on the wall nodes that dirichlet fixes."""
    state = np.random.default_rng(seed).standard_normal((samples, 2, *grid.shape))
    for axis, kind in enumerate(boundaries_of(grid, boundary)):
        if kind == "dirichlet" and grid.centering == "node":
            np.moveaxis(state, axis + 2, -1)[..., [0, -1]] = 0
    return state


def test_d_alembert_two_halves_travel_apart():
    grid = Grid((64,), (0, 3), "periodic")
    x, c = grid.coordinates()[0], 0.7

    def shape(y):
        return np.exp(np.sin(2 * np.pi * y / 3))

    times = np.array([0.0, 0.31, 2.0, 47.3])
    u = wave.solve(np.stack([shape(x), 0 * x]), grid, times=times, speed=c).u
    exact = [(shape(x - c * t) + shape(x + c * t)) / 2 for t in times]
    np.testing.assert_allclose(u[:, 0], exact, rtol=0, atol=1e-12)
    # one that moves to the right alone: v = −c u_x
    slope = 2 * np.pi / 3 * np.cos(2 * np.pi * x / 3) * shape(x)
    u = wave.solve(np.stack([shape(x), -c * slope]), grid, times=times, speed=c).u
    np.testing.assert_allclose(u[:, 0], [shape(x - c * t) for t in times], rtol=0, atol=1e-12)


@pytest.mark.parametrize(("boundary", "f"), [("dirichlet", np.sin), ("neumann", np.cos)])
@pytest.mark.parametrize("centering", ["node", "cell"])
def test_standing_waves_between_walls(centering, boundary, f):
    grid = Grid((17, 12), ((0, 1), (1, 3)), centering)
    x, y = grid.meshgrid()
    mode = f(2 * np.pi * x) * f(np.pi * 3 * (y - 1) / 2)
    omega = 0.4 * np.pi * np.sqrt(4 + 9 / 4)
    times = np.linspace(0, 20, 7)
    u = wave.solve(np.stack([2 * mode, 3 * mode]), grid, times=times, speed=0.4, boundary=boundary).u
    a = 2 * np.cos(omega * times) + 3 / omega * np.sin(omega * times)
    b = 3 * np.cos(omega * times) - 2 * omega * np.sin(omega * times)
    np.testing.assert_allclose(u, np.stack([a, b], 1)[..., None, None] * mode, rtol=0, atol=1e-11)


@boxes
def test_energy_is_kept_to_round_off_and_time_can_be_turned_back(box):
    grid, boundary = box
    state = _state(grid, boundary)
    options = {"speed": 1.7, "boundary": boundary}
    run = wave.solve(state, grid, times=[0.1, 1.0, 100.0], **options)
    before = wave.energy(state, grid, **options)
    np.testing.assert_allclose(wave.energy(run.u, grid, **options), before[:, None].repeat(3, 1), rtol=1e-12)
    turned = run.u[:, 1] * np.array([1, -1]).reshape(2, *(1,) * grid.ndim)
    back = wave.solve(turned, grid, times=[1.0], **options).u[:, 0]
    back *= np.array([1, -1]).reshape(2, *(1,) * grid.ndim)
    np.testing.assert_allclose(back, state, rtol=0, atol=1e-11 * np.abs(state).max() * 10)
    assert (run.dt, run.steps, run.error) == (0.0, 0, None)


@pytest.mark.parametrize("damping", [0.0, 0.3, 4 * np.pi * 0.4, 30.0, 3000.0])
def test_damped_modes_against_the_matrix_exponential(damping):
    """Under-, critically and overdamped modes in one run: 4πc is critical for the first one."""
    grid = Grid((9,), (0, 1), "periodic")
    state = _state(grid, None)
    times = [0.01, 0.4, 3.0]
    u = wave.solve(state, grid, times=times, speed=0.4, damping=damping).u
    phi = np.exp(2j * np.pi * np.outer(np.arange(9), np.arange(9)) / 9) / 3
    level = (2 * np.pi * np.fft.fftfreq(9, 1 / 9)) ** 2
    stiffness = (phi * (0.16 * level)) @ phi.conj().T
    rate = np.block([[np.zeros((9, 9)), np.eye(9)], [-stiffness.real, -damping * np.eye(9)]])
    for j, t in enumerate(times):
        exact = np.einsum("ij,bj->bi", expm(rate * t), state.reshape(3, 18)).reshape(3, 2, 9)
        np.testing.assert_allclose(u[:, j], exact, rtol=0, atol=1e-10 * np.abs(state).max())


def test_the_energy_of_a_damped_wave_falls_as_its_equation_says():
    grid = Grid((12, 9), ((0, 1), (0, 2)), "cell")
    state = _state(grid, None)
    t, h, gamma = 0.37, 1e-4, 0.8
    run = wave.solve(state, grid, times=[t - h, t, t + h], speed=0.6, damping=gamma)
    e = wave.energy(run.u, grid, speed=0.6)
    weights = grid.weights() / grid.weights().sum()
    loss = -gamma * (weights * run.u[:, 1, 1] ** 2).sum((1, 2))
    np.testing.assert_allclose((e[:, 2] - e[:, 0]) / (2 * h), loss, rtol=1e-5)


def test_without_a_wall_that_holds_it_the_mean_moves_uniformly():
    grid = Grid((8, 9), centering="periodic")
    state = _state(grid, None)
    u = wave.solve(state, grid, times=[5.0], speed=2.0).u[:, 0]
    means = state.mean((2, 3))
    np.testing.assert_allclose(u.mean((2, 3)), np.stack([means[:, 0] + 5 * means[:, 1], means[:, 1]], 1), atol=1e-13)
    # −Δ of what is left has no constant: the largest ω times the time is the size of the phase that is kept
    assert eigenvalues(grid, ("periodic",) * 2)[0, 0] == 0


def test_two_short_times_are_one_long_one_and_kinds_return():
    grid = Grid((10, 12), ((0, 1), (0, 1)), "node")
    state = _state(grid, None)
    once = wave.solve(state, grid, times=[0.0, 0.4, 1.1], damping=0.2)
    np.testing.assert_array_equal(once.u[:, 0], state)
    twice = wave.solve(once.u[:, 1], grid, times=[0.7], damping=0.2)
    np.testing.assert_allclose(twice.u[:, 0], once.u[:, 2], rtol=0, atol=1e-12)
    tensor = torch.tensor(state[0], requires_grad=True)
    run = wave.solve(tensor, grid, times=[0.4], damping=0.2)
    assert run.u.shape == (1, 2, 10, 12)
    np.testing.assert_allclose(run.u.detach().numpy(), once.u[0, 1:2], rtol=0, atol=1e-13)
    energy = wave.energy(run.u, grid)
    (gradient,) = torch.autograd.grad(energy.sum(), tensor)
    direction = torch.tensor(_state(grid, None, 1, 9)[0])
    step = 1e-6

    def along(s):
        moved = (tensor + s * direction).detach()
        return wave.energy(wave.solve(moved, grid, times=[0.4], damping=0.2).u, grid).sum()

    torch.testing.assert_close(
        (gradient * direction).sum(), (along(step) - along(-step)) / (2 * step), rtol=1e-7, atol=0
    )


def test_refusals():
    grid = Grid((8, 8), centering="periodic")
    state = np.zeros((2, 8, 8))
    for options, words in (
        ({"times": [0.1], "speed": 0.0}, "speed=0.0: expected finite numbers above 0"),
        ({"times": [0.1], "damping": -1.0}, "damping=-1.0: expected a finite number of at least 0"),
        ({"times": [0.2, 0.1]}, "increasing"),
        ({"times": [0.2], "boundary": "neumann"}, "does not fit a periodic grid"),
    ):
        with pytest.raises(ValueError, match=words):
            wave.solve(state, grid, **options)
    with pytest.raises(ValueError, match="damping requires a gradient, which does not pass"):
        wave.solve(state, grid, times=[0.1], damping=torch.tensor(0.1, requires_grad=True))
    with pytest.raises(TypeError, match="state has dtype torch.float16"):
        wave.energy(torch.zeros(2, 8, 8, dtype=torch.float16), grid)
    with pytest.raises(ValueError, match="u0 has shape"):
        wave.solve(np.zeros((3, 8, 8)), grid, times=[1.0])
    with pytest.raises(ValueError, match=r"expected \(…, 2, \*grid\)"):
        wave.energy(np.zeros((8, 8)), grid)


@pytest.mark.gpu
def test_on_a_gpu_as_on_the_cpu():
    grid = Grid((20, 17), centering="cell")
    state = torch.tensor(_state(grid, "neumann"))
    there = wave.solve(state.cuda(), grid, times=[0.0, 2.0], damping=0.1, boundary="neumann").u
    assert there.is_cuda
    here = wave.solve(state, grid, times=[0.0, 2.0], damping=0.1, boundary="neumann").u
    torch.testing.assert_close(there.cpu(), here, rtol=0, atol=1e-12)
