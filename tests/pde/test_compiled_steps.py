"""Compiled time steps: those of torch to rounding, for any batch, type, grid and constants, and a reason where not."""

from __future__ import annotations

import importlib

import numpy as np
import pytest
import torch

from sciops.grids import Grid
from sciops.pde.evolution import backends, burgers, kdv, navier_stokes
from sciops.pde.evolution import kuramoto_sivashinsky as ks

pytest.importorskip("numba")
pytest.importorskip("rocket_fft")

ROUNDING = {"float64": 1e-13, "float32": 2e-5}


def line(n: int, batch: int, dtype: str) -> tuple[Grid, np.ndarray]:
    grid = Grid((n,), extent=(0.0, 2.0), centering="periodic")
    x = grid.coordinates()[0]
    return grid, np.stack([np.sin(np.pi * x * (1 + i % 3) + i) for i in range(batch)]).astype(dtype)


def difference(solve, u0, grid, **options) -> float:
    one, other = (solve(u0, grid, backend=backend, **options) for backend in ("torch", "numba"))
    assert other.u.dtype == u0.dtype and other.steps == one.steps and other.dt == one.dt
    return float(np.abs(one.u - other.u).max() / np.abs(one.u).max())


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("n, batch", [(32, 1), (33, 18)])
def test_on_a_line(n, batch, dtype):
    grid, u = line(n, batch, dtype)
    each = np.linspace(0.02, 0.1, batch)
    for options in ({"viscosity": 0.05}, {"viscosity": each}, {"viscosity": 0.05, "dealias": False}):
        assert difference(burgers.solve, u, grid, times=[0.0, 0.05, 0.2], **options) < ROUNDING[dtype]
    for options in ({"convection": 1.0}, {"convection": each, "dispersion": each}):
        options = {"dispersion": 1e-3, **options}
        assert difference(kdv.solve, u, grid, times=[0.02], dt=1e-3, **options) < ROUNDING[dtype]
    wide = Grid((n,), extent=(0.0, 22.0), centering="periodic")
    assert difference(ks.solve, u, wide, times=[1.0]) < ROUNDING[dtype]


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("shape", [(16, 16), (12, 17), (17, 10)])
def test_on_a_torus(shape, dtype):
    grid = Grid(shape, extent=((0, 1), (0, 2)), centering="periodic")
    random = np.random.default_rng(0)
    w, f = random.standard_normal((3, *shape)).astype(dtype), random.standard_normal((3, *shape))
    for options in (
        {"viscosity": 1e-2},
        {"viscosity": [1e-3, 1e-2, 1e-1], "drag": 0.1, "forcing": navier_stokes.li2020_forcing},
        {"viscosity": 1e-2, "forcing": f, "mean_flow": (1.0, -0.5)},
        {"viscosity": 1e-2, "forcing": f[0], "dealias": False},
    ):
        found = difference(navier_stokes.solve, w, grid, times=[0.02, 0.05], dt=5e-3, **options)
        assert found < ROUNDING[dtype]


def test_against_products_written_out():
    """One step in float64 with dense transforms and φ functions from matrices of the symbol."""
    n, h, nu = 9, 0.01, 0.03
    grid, u = line(n, 1, "float64")
    q = np.fft.fftfreq(n, 1 / n)
    F = np.exp(-2j * np.pi * np.outer(q, np.arange(n)) / n) / n
    k = 2 * np.pi * q / 2.0
    keep = np.abs(q) * 3 < n

    def rate(v):
        field = np.linalg.inv(F) @ (keep * v)
        return -0.5j * k * keep * (F @ field.real**2)

    L = -nu * k**2
    z = np.where(L == 0, 1.0, L * h)
    p1 = np.where(L == 0, 1.0, np.expm1(z) / z)
    p2 = np.where(L == 0, 0.5, (p1 - 1) / z)
    p3 = np.where(L == 0, 1 / 6, (p2 - 0.5) / z)
    e, half = np.exp(L * h), np.exp(L * h / 2)
    zh = np.where(L == 0, 1.0, L * h / 2)
    p1_half = np.where(L == 0, 1.0, np.expm1(zh) / zh)
    v = F @ u[0]
    n0 = rate(v)
    a = half * v + h / 2 * p1_half * n0
    na = rate(a)
    nb = rate(half * v + h / 2 * p1_half * na)
    nc = rate(half * a + h / 2 * p1_half * (2 * nb - n0))
    v = e * v + h * ((p1 - 3 * p2 + 4 * p3) * n0 + (2 * p2 - 4 * p3) * (na + nb) + (4 * p3 - p2) * nc)
    expected = (np.linalg.inv(F) @ v).real
    found = burgers.solve(u[0], grid, times=[h], viscosity=nu, dt=h, backend="numba").u[0]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-11)


def test_the_estimate_and_blow_ups_are_those_of_torch():
    grid, u = line(32, 3, "float64")
    options = {"times": [0.1, 0.2], "viscosity": 0.05, "estimate": True, "dt": 0.01}
    one, other = (burgers.solve(u, grid, backend=backend, **options) for backend in ("torch", "numba"))
    np.testing.assert_allclose(other.error, one.error, rtol=1e-3)
    u[1] *= 1e4
    with pytest.raises(RuntimeError, match="sample 1 is not finite at t="):
        burgers.solve(u, grid, times=[5.0], viscosity=0.0, dt=0.01, backend="numba")
    kept = burgers.solve(u, grid, times=[0.0, 5.0], viscosity=0.01, dt=0.01, on_failure="flag", backend="numba")
    assert np.isnan(kept.u[1]).all() and kept.failed_at[1] == 5.0 and np.isfinite(kept.u[[0, 2]]).all()


def test_the_callers_field_is_left_alone_and_tensors_come_back():
    grid, u = line(16, 2, "float64")
    given = torch.from_numpy(u.copy())
    found = burgers.solve(given, grid, times=[0.1], viscosity=0.1, backend="numba").u
    assert torch.equal(given, torch.from_numpy(u)) and isinstance(found, torch.Tensor)
    turned = torch.from_numpy(np.ascontiguousarray(u.T)).T  # not contiguous
    assert torch.equal(burgers.solve(turned, grid, times=[0.1], viscosity=0.1, backend="numba").u, found)


def test_many_calls_are_one(monkeypatch):
    grid, u = line(16, 3, "float64")
    whole = burgers.solve(u, grid, times=[0.2], viscosity=0.1, backend="numba").u
    monkeypatch.setattr(backends, "_CALL", 100)
    assert np.array_equal(burgers.solve(u, grid, times=[0.2], viscosity=0.1, backend="numba").u, whole)


@pytest.mark.parametrize(
    "options, words",
    [({"order": 3}, "steps with order 4, not 3"), ({"backend": "jax"}, "expected 'auto', 'numba', 'torch'")],
)
def test_what_cannot_be_compiled_is_said(options, words):
    grid, u = line(16, 1, "float64")
    with pytest.raises(ValueError, match=words):
        burgers.solve(u, grid, times=[0.1], viscosity=0.1, **{"backend": "numba", **options})


@pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")
def test_gradients_take_torch_and_say_so():
    grid, u = line(16, 1, "float64")
    u = torch.from_numpy(u).requires_grad_()
    with pytest.raises(ValueError, match="backend='numba' has no derivatives; pass backend='torch'"):
        burgers.solve(u, grid, times=[0.1], viscosity=0.1, backend="numba")
    burgers.solve(u, grid, times=[0.1], viscosity=0.1).u.sum().backward()
    assert u.grad is not None
    viscosity = torch.tensor(0.1, dtype=torch.float64, requires_grad=True)
    assert burgers.solve(u.detach(), grid, times=[0.1], viscosity=viscosity).u.requires_grad
    f = torch.zeros(8, 8, dtype=torch.float64, requires_grad=True)
    torus = Grid((8, 8), centering="periodic")
    w = torch.ones(8, 8, dtype=torch.float64)
    assert navier_stokes.solve(w, torus, times=[0.1], viscosity=0.1, forcing=f).u.requires_grad
    once = torch.func.jvp(
        lambda x: burgers.solve(x, grid, times=[0.1], viscosity=0.1).u, (u.detach(),), (torch.ones_like(u),)
    )
    assert torch.isfinite(once[1]).all()


def test_without_the_packages_auto_takes_torch(monkeypatch):
    grid, u = line(16, 1, "float64")
    backends._installed.cache_clear()
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    try:
        expected = burgers.solve(u, grid, times=[0.1], viscosity=0.1, backend="torch").u
        assert np.array_equal(burgers.solve(u, grid, times=[0.1], viscosity=0.1).u, expected)
        with pytest.raises(ImportError, match=r"rocket-fft: pip install 'sciops\[fast\]'"):
            burgers.solve(u, grid, times=[0.1], viscosity=0.1, backend="numba")
    finally:
        backends._installed.cache_clear()


def test_equations_without_a_compiled_form_take_torch():
    one = torch.ones(1, 3, dtype=torch.float64)
    assert not backends.compiled_steps("auto", torch.sin, one, one, 4)
    with pytest.raises(ValueError, match="has no compiled form of this equation"):
        backends.compiled_steps("numba", torch.sin, one, one, 4)
