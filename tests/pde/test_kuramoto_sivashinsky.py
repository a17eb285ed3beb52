"""Kuramoto–Sivashinsky: linear growth rates, energy balance, mean, Galilei and mirror symmetry, the attractor."""

import numpy as np
import pytest
import torch

from sciops import Grid, restrict
from sciops.pde import kuramoto_sivashinsky as ks

GRID = Grid((128,), 32.0, "periodic")
X = GRID.coordinates()[0]
K = 2 * np.pi / 32


def field(x, length=32.0):
    k = 2 * np.pi / length
    return 0.5 * np.cos(k * x) + 0.4 * np.sin(2 * k * x + 1) + 0.1 * np.cos(3 * k * x + 2)


def test_small_waves_grow_at_the_linear_rate():
    for q in (1, 3, 5, 8, 20):
        k = q * K
        u = ks.solve(1e-9 * np.cos(k * X), GRID, times=[0.5], dt=0.5).u[0]
        np.testing.assert_allclose(u, 1e-9 * np.exp((k**2 - k**4) * 0.5) * np.cos(k * X), atol=1e-17)


def test_energy_balance():
    """½∫u² changes by ∫∫(u_x² − u_xx²), integrated by Simpson's rule over outputs."""
    times = np.linspace(0, 20, 1601)
    u = ks.solve(field(X), GRID, times=times, dt=0.0125).u
    v, k = np.fft.rfft(u), 2 * np.pi * np.fft.rfftfreq(128, 0.25)
    first, second = np.fft.irfft(1j * k * v, 128), np.fft.irfft(-(k**2) * v, 128)
    power = (first**2 - second**2).mean(1)
    simpson = (power[:-2:2] + 4 * power[1:-1:2] + power[2::2]) * (times[1] / 3)
    energy = (u**2).mean(1) / 2
    np.testing.assert_allclose(energy[2::2] - energy[0], np.cumsum(simpson), atol=2e-7)
    assert energy.max() > 3 * energy[0]


def test_mean_galilei_mirror():
    u = ks.solve(field(X), GRID, times=[4.0, 10.0], dt=0.02).u
    np.testing.assert_allclose(u.mean(1), field(X).mean(), atol=1e-14)
    moving = ks.solve(field(X) + 0.5, GRID, times=[4.0, 8.0], dt=0.02).u  # 0.5 · 4 = 8 spacings
    np.testing.assert_allclose(np.roll(moving[0], -8) - 0.5, u[0], atol=1e-7)
    mirrored = ks.solve(-np.roll(field(X)[::-1], 1), GRID, times=[4.0], dt=0.02).u
    np.testing.assert_allclose(-np.roll(mirrored[0, ::-1], 1), u[0], atol=1e-12)


def test_grids_agree_until_chaos_parts_them():
    fine = Grid((256,), 32.0, "periodic")
    u = ks.solve(field(fine.coordinates()[0]), fine, times=[10.0], dt=0.02).u
    np.testing.assert_allclose(restrict(u, fine, GRID), ks.solve(field(X), GRID, times=[10.0], dt=0.02).u, atol=1e-9)


def test_the_attractor_does_not_depend_on_the_length():
    """Mean square about 1.7 and |u| below 4 once grown, on short and long boxes (Wittenberg & Holmes 1999)."""
    spread = []
    for length, n in ((64.0, 128), (128.0, 256)):
        grid = Grid((n,), length, "periodic")
        x = grid.coordinates()[0]
        u0 = np.stack([field(x, length) + 0.1 * np.cos(12 * np.pi * x / length + s) for s in range(4)])
        u = ks.solve(u0, grid, times=np.linspace(80, 160, 81)).u
        assert np.abs(u).max() < 4.5
        spread.append((u**2).mean())
    assert spread[0] == pytest.approx(spread[1], rel=0.1) and spread[1] == pytest.approx(1.7, abs=0.2)


def test_kinds_and_refusals():
    want = ks.solve(field(X), GRID, times=[2.0], estimate=True)
    got = ks.solve(torch.from_numpy(np.stack([field(X), -field(X)])), GRID, times=[2.0], estimate=True)
    assert want.error < 1e-6 and got.error.shape == (2,)
    np.testing.assert_allclose(got.u[0], want.u, atol=1e-13)
    np.testing.assert_allclose(ks.solve(field(X).astype("f4"), GRID, times=[2.0]).u, want.u, atol=1e-4)
    with pytest.raises(ValueError, match="dt=-0.1: expected a positive number"):
        ks.solve(field(X), GRID, times=[1.0], dt=-0.1)
    with pytest.raises(RuntimeError, match="sample 1 is not finite at t="):
        ks.solve(np.stack([field(X), 1e3 * field(X)]), GRID, times=[10.0], dt=0.1)
