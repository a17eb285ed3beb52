"""Korteweg–de Vries: solitons, their phase shift when they pass, conserved integrals, scaling symmetry."""

import numpy as np
import pytest
import torch

from sciops import Grid
from sciops.pde import kdv

GRID = Grid((256,), (-20, 20), "periodic")
X = GRID.coordinates()[0]


def soliton(x, speed, at=0.0):
    return speed / 2 / np.cosh(np.sqrt(speed) / 2 * (x - at)) ** 2


def two_solitons(x, t, a, b):
    """Hirota's solution 2 ∂_x² ln(1 + e^α + e^β + c e^{α+β}) of u_t + 6uu_x + u_xxx = 0, speeds a² and b²."""
    alpha, beta = a * x - a**3 * t, b * x - b**3 * t
    c = ((a - b) / (a + b)) ** 2
    terms = [(1.0, 0.0, np.zeros_like(x)), (1.0, a, alpha), (1.0, b, beta), (c, a + b, alpha + beta)]
    largest = np.max([e for _, _, e in terms], axis=0)
    f, f1, f2 = (sum(w * k**p * np.exp(e - largest) for w, k, e in terms) for p in (0, 1, 2))
    return 2 * (f2 / f - (f1 / f) ** 2)


def test_a_soliton_travels_unchanged():
    """A box of 40 widths: a soliton of speed 4 and its images do not feel each other."""
    grid = Grid((512,), (-20, 20), "periodic")
    at = lambda t: kdv.soliton(grid, t, speed=4.0, centre=-5.0)  # noqa: E731
    np.testing.assert_allclose(at(0.0), soliton(grid.coordinates()[0], 4.0, -5.0), atol=1e-12)
    got = kdv.solve(at(0.0), grid, times=[0.5, 3.0], dt=5e-4, estimate=True)
    for j, t in enumerate((0.5, 3.0)):
        assert np.abs(got.u[j] - at(t)).max() < 1e-8
    assert 0.2 < np.linalg.norm(got.u[1] - at(3.0)) / np.linalg.norm(at(3.0)) / got.error < 5
    slow = kdv.soliton(grid, 0.0, speed=1.0, convection=1.5, dispersion=0.5)
    end = kdv.solve(slow, grid, times=[50.0], convection=1.5, dispersion=0.5, dt=0.02).u[0]  # more than a lap
    np.testing.assert_allclose(end, kdv.soliton(grid, 50.0, speed=1.0, convection=1.5, dispersion=0.5), atol=5e-5)


def test_two_solitons_pass_and_are_shifted():
    """Hirota's solution holds before, during and after; the fast wave ends 2/a ln((a + b)/(a − b)) ahead."""
    a, b = 2.0, 1.2
    grid = Grid((512,), (-30, 30), "periodic")
    x = grid.coordinates()[0]
    start, end = -3.0, 3.0
    got = kdv.solve(two_solitons(x, start, a, b), grid, times=[end - start], dt=1e-3).u[0]
    assert np.abs(got - two_solitons(x, end, a, b)).max() < 1e-7
    ahead = x[np.argmax(got)] - x[np.argmax(two_solitons(x, start, a, b))] - a**2 * (end - start)
    assert ahead == pytest.approx(2 / a * np.log((a + b) / (a - b)), abs=2 * grid.spacing[0])


def test_conserved_integrals():
    grid = Grid((128,), 2 * np.pi * 4, "periodic")
    x = grid.coordinates()[0]
    u0 = np.cos(x / 2) + 0.3 * np.sin(x) + 0.2
    c, d = 1.5, 0.8
    u = kdv.solve(u0, grid, times=np.linspace(0, 5, 6), convection=c, dispersion=d, dt=2e-3).u
    slope = np.fft.irfft(1j * np.fft.rfftfreq(128, grid.spacing[0]) * 2 * np.pi * np.fft.rfft(u), 128)
    np.testing.assert_allclose(u.mean(1), 0.2, rtol=1e-12)
    np.testing.assert_allclose((u**2).mean(1), (u0**2).mean(), rtol=1e-9)
    energy = (d * slope**2 - c * u**3 / 3).mean(1)
    np.testing.assert_allclose(energy, energy[0], atol=1e-8)


def test_scaling_and_coefficients():
    """u(x, t) solves c = 6, d = 1 ⇒ v = 6/c' · u(x, d't)·d' solves (c', d')."""
    u0 = soliton(X, 1.0) + soliton(X, 0.5, 8.0)
    u = kdv.solve(u0, GRID, times=[1.0], dt=0.01).u
    v = kdv.solve(u0 * 6 / 2.5 * 0.4, GRID, times=[2.5], convection=2.5, dispersion=0.4, dt=0.025).u
    np.testing.assert_allclose(v / (6 / 2.5 * 0.4), u, atol=1e-12)
    both = kdv.solve(np.stack([u0, u0 * 6]), GRID, times=[1.0], convection=[6.0, 1.0], dt=0.01).u
    np.testing.assert_allclose(both[0], u, atol=1e-13)
    np.testing.assert_allclose(both[1] / 6, u, atol=1e-12)


def test_without_convection_the_dispersion_is_exact():
    k = 2 * np.pi / 40 * 7
    u = kdv.solve(np.cos(k * X), GRID, times=[50.0], convection=0.0, dispersion=2.0, dt=50.0).u
    np.testing.assert_allclose(u[0], np.cos(k * X + 2 * k**3 * 50), atol=1e-12)


def test_gradients_to_the_constants_with_the_default_step():
    c = torch.tensor(1.5, dtype=torch.float64, requires_grad=True)
    u0 = torch.from_numpy(soliton(X, 1.0))
    (slope,) = torch.autograd.grad(kdv.solve(u0, GRID, times=[0.05], convection=c).u[0, 100], c)
    ends = [kdv.solve(u0, GRID, times=[0.05], convection=1.5 + s, dt=0.005).u[0, 100] for s in (1e-4, -1e-4)]
    assert float(slope) == pytest.approx(float(ends[0] - ends[1]) / 2e-4, rel=1e-5)


def test_solitons_that_cannot_be():
    with pytest.raises(ValueError, match="speed=-1.0, dispersion=1.0.* expected a speed of the sign of the dispersion"):
        kdv.soliton(GRID, 0.0, speed=-1.0)
    with pytest.raises(ValueError, match="a soliton lives on 1"):
        kdv.soliton(Grid((8, 8), 1.0, "periodic"), 0.0, speed=1.0)


def test_kinds():
    u0 = soliton(X, 2.0)
    want = kdv.solve(u0, GRID, times=[1.0])
    got = kdv.solve(torch.from_numpy(u0), GRID, times=[1.0])
    assert isinstance(got.u, torch.Tensor)
    np.testing.assert_allclose(got.u, want.u, atol=1e-12)
    np.testing.assert_allclose(kdv.solve(u0.astype(np.float32), GRID, times=[1.0]).u, want.u, atol=1e-4)
    with pytest.raises(ValueError, match="2 axes: this equation is solved on 1"):
        kdv.solve(np.zeros((8, 8)), Grid((8, 8), 1.0, "periodic"), times=[1.0])
    with pytest.raises(ValueError, match="dispersion=nan: expected a finite number"):
        kdv.solve(u0, GRID, times=[1.0], dispersion=np.nan)
    with pytest.raises(RuntimeError, match="sample 0 is not finite"):
        kdv.solve(50 * u0, GRID, times=[50.0], dt=0.1)
