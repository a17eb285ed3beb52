"""Waves where the speed is a field: against constant speed, a matrix exponential, an exact pulse; energy, gradients."""

import numpy as np
import pytest
import torch
from scipy.linalg import expm

from sciops.grids import Grid, restrict
from sciops.pde import wave
from sciops.pde.elliptic.eigenbasis import boundaries_of, inside
from sciops.pde.evolution.chebyshev import chebyshev_coefficients, oscillation_terms, polynomial_sum

BOXES = [
    (Grid((14,), (-1, 2), "periodic"), None),
    (Grid((12, 9), ((0, 1), (0, 2)), "periodic"), None),
    (Grid((13, 10), ((0, 1), (0, 2)), "node"), "dirichlet"),
    (Grid((13, 10), ((0, 1), (0, 2)), "cell"), "dirichlet"),
    (Grid((13, 10), ((0, 1), (0, 2)), "node"), ("neumann", "dirichlet")),
    (Grid((5, 6, 7), ((0, 1), (0, 2), (0, 1)), "cell"), "neumann"),
]
boxes = pytest.mark.parametrize("box", BOXES, ids=lambda box: f"{box[0].centering}-{box[0].shape}-{box[1]}")


def _state(grid, boundary, samples=2, seed=0):
    held = np.zeros(grid.shape)
    held[inside(grid, boundaries_of(grid, boundary))] = 1
    return held * np.random.default_rng(seed).standard_normal((samples, 2, *grid.shape))


def _rough(grid, samples=2, seed=1):
    return np.exp(0.5 * np.random.default_rng(seed).standard_normal((samples, *grid.shape)))


@boxes
@pytest.mark.parametrize("damping", [0.0, 0.7, 40.0])
def test_a_constant_field_is_the_number(box, damping):
    grid, boundary = box
    state, times = _state(grid, boundary), [0.0, 0.3, 1.0, 20.0]
    options = {"times": times, "damping": damping, "boundary": boundary}
    want = wave.solve(state, grid, speed=0.6, **options)
    got = wave.solve(state, grid, speed=np.full(grid.shape, 0.6), **options)
    # v is as large as the stiffest mode makes it
    np.testing.assert_allclose(got.u, want.u, rtol=0, atol=3e-12 * np.abs(state).max() * 60)
    np.testing.assert_allclose(got.u[:, :, 0], want.u[:, :, 0], rtol=0, atol=1e-11)
    assert (got.dt, got.steps, got.error) == (0.0, 0, None)


@boxes
def test_energy_is_kept_in_any_medium_and_time_can_be_turned_back(box):
    grid, boundary = box
    state, c = _state(grid, boundary), _rough(grid)
    run = wave.solve(state, grid, times=[0.1, 1.0, 10.0], speed=c, boundary=boundary)
    before = wave.energy(state, grid, speed=c, boundary=boundary)
    after = wave.energy(run.u, grid, speed=c[:, None], boundary=boundary)
    np.testing.assert_allclose(after, before[:, None].repeat(3, 1), rtol=1e-11)
    mirror = np.array([1, -1]).reshape(2, *(1,) * grid.ndim)
    back = mirror * wave.solve(run.u[:, 1] * mirror, grid, times=[1.0], speed=c, boundary=boundary).u[:, 0]
    np.testing.assert_allclose(back, state, rtol=0, atol=1e-10)


@pytest.mark.parametrize("damping", [0.0, 0.3, 30.0])
def test_against_the_matrix_exponential(damping):
    grid = Grid((9,), (0, 1), "periodic")
    state, c, times = _state(grid, None), _rough(grid), [0.01, 0.4, 3.0]
    u = wave.solve(state, grid, times=times, speed=c, damping=damping).u
    phi = np.exp(2j * np.pi * np.outer(np.arange(9), np.arange(9)) / 9) / 3
    level = (2 * np.pi * np.fft.fftfreq(9, 1 / 9)) ** 2
    minus_laplacian = ((phi * level) @ phi.conj().T).real
    for i in range(2):
        rate = np.block(
            [[np.zeros((9, 9)), np.eye(9)], [-(c[i] ** 2)[:, None] * minus_laplacian, -damping * np.eye(9)]]
        )
        for j, t in enumerate(times):
            exact = (expm(rate * t) @ state[i].ravel()).reshape(2, 9)
            np.testing.assert_allclose(u[i, j], exact, rtol=0, atol=1e-11 * np.abs(exact).max() + 1e-11)


def test_accuracy_in_space_is_spectral_in_a_smooth_medium():
    """A smooth c, even about the walls: the error falls faster than every power of h, against a finer grid."""
    errors = []

    def run(n):
        grid = Grid((n, n))
        x, y = grid.meshgrid()
        u0 = np.sin(np.pi * x) * np.sin(2 * np.pi * y) * (1 + 0.5 * np.cos(np.pi * x))
        c = np.exp(0.4 * np.cos(np.pi * x) * np.cos(2 * np.pi * y))
        return wave.solve(np.stack([u0, 0 * u0]), grid, times=[0.7], speed=c).u[0, 0], grid

    fine_u, fine = run(97)
    for n in (13, 17, 25, 33):
        u, grid = run(n)
        errors.append(np.abs(u - restrict(fine_u, fine, grid)).max())
    slopes = np.diff(np.log(errors)) / np.diff(np.log([13, 17, 25, 33]))
    assert errors[-1] < 1e-6 and (np.diff(slopes) < 0).all() and slopes[-1] < -11, slopes


def test_a_pulse_slows_down_and_splits_at_an_interface():
    """c from 1 to ½: of the height 2c₂/(c₁ + c₂) = ⅔ go through and (c₂ − c₁)/(c₁ + c₂) = −⅓ come back."""
    grid = Grid((1024,), (0, 8), "periodic")
    x = grid.coordinates()[0]
    c = np.where((x > 3) & (x < 7), 0.5, 1.0)
    pulse = lambda s: np.exp(-40 * s**2)  # noqa: E731
    slope = -80 * (x - 2) * pulse(x - 2)
    u = wave.solve(np.stack([pulse(x - 2), -slope]), grid, times=[2.0], speed=c).u[0, 0]  # moves right at 1
    right, left = np.argmax(u), np.argmin(u)
    assert abs(x[right] - 3.5) < 0.03 and abs(x[left] - 2.0) < 0.03
    assert u[right] == pytest.approx(2 / 3, abs=0.01) and u[left] == pytest.approx(-1 / 3, abs=0.01)


def test_one_speed_a_sample_and_one_damping():
    grid = Grid((8, 9), centering="cell")
    state, c, gamma = _state(grid, None, 3), np.array([0.2, 1.0, 3.0]), np.array([0.0, 0.5, 20.0])
    together = wave.solve(state, grid, times=[0.4, 2.0], speed=c, damping=gamma)
    for i in range(3):
        alone = wave.solve(state[i], grid, times=[0.4, 2.0], speed=c[i], damping=gamma[i])
        np.testing.assert_allclose(alone.u, together.u[i], rtol=0, atol=1e-13 * np.abs(state).max() * 100)
    fields = np.broadcast_to(c[:, None, None], (3, *grid.shape))
    want = wave.solve(state, grid, times=[0.4], speed=c).u
    np.testing.assert_allclose(wave.solve(state, grid, times=[0.4], speed=fields).u, want, rtol=0, atol=1e-10)


def test_gradients_pass_to_the_state_and_to_the_speed():
    grid = Grid((7, 8), ((0, 1), (0, 1)), "node")
    state, c = torch.tensor(_state(grid, None, 1)[0]), torch.tensor(_rough(grid, 1)[0])
    options = {"times": [0.2, 0.3], "damping": 0.3}

    def last(state, c):
        return wave.solve(state, grid, speed=c, **options).u[-1]

    torch.autograd.gradcheck(last, (state.requires_grad_(), c.requires_grad_()), fast_mode=True)
    number = torch.tensor(0.7, dtype=torch.float64, requires_grad=True)
    torch.autograd.gradcheck(lambda c: last(state.detach(), c), (number,), fast_mode=True)
    single = wave.solve(state.detach().float(), grid, speed=c.detach().float(), **options).u
    assert single.dtype == torch.float32
    np.testing.assert_allclose(single, wave.solve(state.detach(), grid, speed=c.detach(), **options).u, atol=1e-3)


@pytest.mark.parametrize("phase", [0.0, 0.01, 0.3, 5.0, 60.0, 3000.0])
def test_the_terms_reach_round_off(phase):
    """Coefficients of cos(t√z) are (−1)^k 2J_2k(t√b) up to sign, and those left out are below round-off."""
    scipy_special = pytest.importorskip("scipy.special")
    terms = oscillation_terms(phase)
    got = chebyshev_coefficients(lambda z: np.cos(phase * np.sqrt(z)), 1.0, terms)
    want = 2 * scipy_special.jv(2 * np.arange(terms), phase)
    want[0] /= 2
    np.testing.assert_allclose(got, want, rtol=0, atol=2e-15 * max(1, phase**0.5))
    assert abs(scipy_special.jv(2 * terms, phase)) < 1e-16


def test_polynomials_of_a_matrix_keep_small_eigenvalues():
    """p(A) of a diagonal A with eigenvalues from 1e-12 to 1 of the upper bound, against the functions themselves."""
    z = np.concatenate([[0.0], np.geomspace(1e-12, 1, 40)]) * 1e6
    t = 0.5
    table = chebyshev_coefficients(lambda z: np.cos(t * np.sqrt(z))[None, None], 1e6, oscillation_terms(t * 1e3))
    x = torch.ones(1, 1, len(z), dtype=torch.float64)
    got = polynomial_sum(lambda v: v * torch.tensor(z), x, table, 1e6, axis=1)
    np.testing.assert_allclose(got[0, 0], np.cos(t * np.sqrt(z)), rtol=0, atol=2e-13)


def test_refusals():
    grid, line = Grid((8, 6), centering="periodic"), Grid((8,), centering="periodic")
    state = np.zeros((3, 2, 8, 6))
    for options, words in (
        (
            {"speed": np.ones((6, 8))},
            r"speed has shape \(6, 8\); expected a number, one for each of 3 samples, a field",
        ),
        ({"speed": np.full((8, 6), 1j)}, "speed has shape"),
        ({"speed": np.where(np.eye(8, 6) > 0, 0.0, 1.0)}, "expected finite numbers above 0"),
        ({"speed": [1.0, np.nan, 1.0]}, "expected finite numbers above 0"),
        ({"speed": np.ones((8, 6)), "damping": [0.0, 0.1, 0.2]}, r"damping has shape \(3,\): expected one number"),
        ({"speed": np.ones((8, 6)), "times": [1e9]}, "products with −c²Δ on this grid"),
    ):
        with pytest.raises(ValueError, match=words):
            wave.solve(state, grid, **{"times": [1.0], **options})
    with pytest.raises(ValueError, match=r"a field on 8 points, or one number for each of 8 samples\?"):
        wave.solve(np.zeros((8, 2, 8)), line, times=[1.0], speed=np.ones(8))
    assert wave.solve(np.zeros((8, 2, 8)), line, times=[1.0], speed=np.ones((1, 8))).u.shape == (8, 1, 2, 8)
    with pytest.raises(ValueError, match="speed has shape"):
        wave.energy(state, grid, speed=np.ones((6, 8)))


@pytest.mark.gpu
def test_on_a_gpu_as_on_the_cpu():
    grid = Grid((20, 17), centering="cell")
    state, c = torch.tensor(_state(grid, "neumann")), torch.tensor(_rough(grid))
    options = {"times": [0.0, 2.0], "damping": 0.1, "boundary": "neumann"}
    there = wave.solve(state.cuda(), grid, speed=c.cuda(), **options).u
    assert there.is_cuda
    here = wave.solve(state, grid, speed=c, **options).u
    torch.testing.assert_close(there.cpu(), here, rtol=0, atol=1e-9)
