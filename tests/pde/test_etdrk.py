"""ETDRK: φ functions against 50 digits, coefficients, measured orders on a stiff problem, exactness without N."""

import functools
import math

import numpy as np
import pytest
import torch

from sciops import Grid
from sciops.pde.evolution.etdrk import ORDERS, coefficients, phi, step
from sciops.pde.evolution.fourier import FourierSpace
from sciops.pde.evolution.trajectory import evolve
from sciops.pde.inputs import initial

mpmath = pytest.importorskip("mpmath")

POINTS = [0.0, 1e-300, 1e-12, -1e-8, 1e-3, -0.3, 1.0, -1.0, 2.4999, -2.4999, 2.5001, -2.5001, 5.0, -7.3, -40.0, -750.0]
POINTS += [-1e6, -1e16, 1e-9j, 0.5j, 2.49j, -2.51j, 3.14159j, 30j, -1e3j, 1e5j, -3 + 4j, -1.5 - 1.9j, -100 + 300j]


def exact(z: complex, j: int) -> complex:
    with mpmath.workdps(50):
        z = mpmath.mpmathify(z)
        if abs(z) < 0.5:
            return complex(mpmath.nsum(lambda m: z**m / mpmath.factorial(m + j), [0, 60]))
        value = mpmath.exp(z)
        for i in range(j):
            value = (value - 1 / mpmath.factorial(i)) / z
        return complex(value)


@pytest.mark.parametrize("z", POINTS)
def test_phi_to_fourteen_digits(z):
    dtype = torch.complex128 if isinstance(z, complex) else torch.float64
    for j, got in enumerate(phi(torch.tensor([z], dtype=dtype))):
        want = exact(z, j)
        assert abs(complex(got[0]) - want) <= 1e-14 * abs(want) if j else abs(complex(got[0]) - want) <= 1e-14
        assert np.isfinite(complex(got[0]))


@pytest.mark.parametrize("h", [1e-3, 0.7])
def test_coefficients_of_order_four_are_cox_and_matthews(h):
    """Their α, β, γ in 120 digits: right to rounding of the largest, h."""
    with mpmath.workdps(120):
        for z in POINTS:
            dtype = torch.complex128 if isinstance(z, complex) else torch.float64
            table = [complex(c[0]) for c in coefficients(torch.tensor([z / h], dtype=dtype), h, 4)]
            z = mpmath.mpmathify(z / h) * mpmath.mpf(h)
            if abs(z) > 1e-20:
                e, cube = mpmath.exp(z), z**3
                want = [
                    (-4 - z + e * (4 - 3 * z + z * z)) / cube,
                    2 * (2 + z + e * (z - 2)) / cube,
                    (-4 - 3 * z - z * z + e * (4 - z)) / cube,
                ]
            else:
                want = [1 / 6, 1 / 3, 1 / 6]
            for got, exact_value in zip(table[3:], want):
                assert abs(got / h - complex(exact_value)) < 2e-15 * max(1.0, float(abs(exact_value)))


@functools.cache
def stiff(order, steps):
    """v' = λv + v² − v³ with λ from −1 to −60 and an imaginary one, to t = 1."""
    linear = torch.tensor([-1.0, -10.0, -60.0, 20j], dtype=torch.complex128)
    v = torch.tensor([1.2, 1.0, 0.8, 0.7], dtype=torch.complex128)
    forcing = torch.tensor([0.5, 8.0, 50.0, 1.0], dtype=torch.complex128)
    table = coefficients(linear, 1 / steps, order)
    for _ in range(steps):
        v = step(v, lambda v: torch.roll(v, 1) ** 2 - v**3 + forcing, table, order)
    return v


@pytest.mark.parametrize("order", ORDERS)
def test_order_on_a_stiff_system(order):
    reference = stiff(4, 4096)
    steps = [128, 256, 512, 1024] if order > 1 else [512, 1024, 2048, 4096]
    errors = [float((stiff(order, n) - reference).abs().max()) for n in steps]
    slopes = np.log2(np.divide(errors[:-1], errors[1:]))
    assert abs(slopes[-1] - order) < 0.1, (errors, slopes)


@functools.cache
def stiff_equation(dt, order):
    """u_t = 0.05 u_xx − 0.2 u_xxx − u u_x from sin x, at t = 1."""
    grid = Grid((64,), 2 * np.pi, "periodic")
    start = initial(np.sin(grid.coordinates()[0]) + 0.3, grid)
    space = FourierSpace(grid, start.field)
    d, mask = space.cast(space.derivative()), space.mask(2)
    linear = 0.05 * space.laplacian - 0.2 * space.derivative(order=3)

    def advection(v):
        return -0.5 * mask * d * space.forward(space.inverse(mask * v) ** 2)

    return evolve(start, space, times=[1.0], linear=linear, nonlinear=advection, dt=dt, order=order).u


@pytest.mark.parametrize("order", ORDERS)
def test_order_on_a_stiff_equation(order):
    """The largest |hL| is 6 at the coarsest step."""
    reference = stiff_equation(1 / 2048, 4)
    steps = [64, 128, 256] if order > 1 else [512, 1024, 2048]
    errors = [np.linalg.norm(stiff_equation(1 / n, order) - reference) for n in steps]
    slopes = np.log2(np.divide(errors[:-1], errors[1:]))
    assert abs(slopes[-1] - order) < 0.1, (errors, slopes)


@pytest.mark.parametrize("order", ORDERS)
def test_any_step_is_exact_without_a_nonlinear_part(order):
    linear = torch.complex(-torch.rand(40, dtype=torch.float64) * 30, torch.randn(40, dtype=torch.float64) * 50)
    v = torch.randn(3, 40, dtype=torch.complex128)
    want = v * torch.exp(linear * 2.0)
    for steps in (1, 7):
        table, got = coefficients(linear, 2.0 / steps, order), v
        for _ in range(steps):
            got = step(got, torch.zeros_like, table, order)
        assert (got - want).abs().max() < 1e-13


@pytest.mark.parametrize("order", ORDERS)
def test_a_constant_forcing_is_exact_too(order):
    """v' = λv + c has the solution e^{λt}v + tφ_1(λt)c, which every order must reproduce."""
    linear = torch.tensor([-1e4, -3.0, -1e-9, 0.0, 2.0], dtype=torch.float64)
    v, c = torch.ones(5, dtype=torch.float64), torch.tensor([1e4, 2.0, 1.0, 1.0, -1.0], dtype=torch.float64)
    got = v
    table = coefficients(linear, 0.25, order)
    for _ in range(4):
        got = step(got, lambda v: c, table, order)
    want = [math.exp(l) + float(k) * (math.expm1(l) / l if l else 1) for l, k in zip(linear.tolist(), c)]
    np.testing.assert_allclose(got, want, rtol=1e-13)
