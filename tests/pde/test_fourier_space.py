"""Half spectra: derivatives of trigonometric fields, Parseval of products, the dealiasing rule, refusals."""

import numpy as np
import pytest
import torch

from sciops import Grid
from sciops.pde.evolution.fourier import FourierSpace, check_periodic

GRIDS = [
    Grid((12,), extent=(-1, 2), centering="periodic"),
    Grid((9,), extent=2.0, centering="periodic"),
    Grid((8, 7), extent=((0, 1), (-3, 1)), centering="periodic"),
    Grid((7, 10), extent=((0, 5), (0, 2)), centering="periodic"),
    Grid((6, 5, 8), extent=((0, 1), (0, 2), (1, 4)), centering="periodic"),
]


def space_of(grid, dtype=torch.float64):
    return FourierSpace(grid, torch.zeros(grid.shape, dtype=dtype))


@pytest.mark.parametrize("grid", GRIDS, ids=lambda g: "x".join(map(str, g.shape)))
def test_round_trip_mean_and_derivatives(grid):
    space = space_of(grid)
    u = torch.randn(2, 3, *grid.shape, dtype=torch.float64)
    v = space.forward(u)
    torch.testing.assert_close(space.inverse(v), u, atol=1e-14, rtol=0)
    torch.testing.assert_close(v[(..., *(0,) * grid.ndim)].real, u.flatten(2).mean(-1), atol=1e-15, rtol=0)
    rng = np.random.default_rng(3)
    for _ in range(5):
        q = [int(rng.integers(-((n - 1) // 2), (n - 1) // 2 + 1)) for n in grid.shape]
        k = [2 * np.pi * m / (b - a) for m, (a, b) in zip(q, grid.extent)]
        phase = 0.4 + sum(c * x for c, x in zip(k, grid.meshgrid()))
        v = space.forward(torch.from_numpy(np.cos(phase)))
        for axis in range(grid.ndim):
            wants = (-k[axis] * np.sin(phase), -(k[axis] ** 2) * np.cos(phase), k[axis] ** 3 * np.sin(phase))
            for order, want in enumerate(wants, 1):
                got = space.inverse(space.derivative(axis, order) * v)
                np.testing.assert_allclose(got, want, atol=1e-12 * max(1, abs(k[axis]) ** order))
        got = space.inverse(space.laplacian * v)
        np.testing.assert_allclose(got, -sum(c * c for c in k) * np.cos(phase), atol=1e-10)


def test_the_nyquist_mode_has_no_odd_derivative():
    space = space_of(Grid((8,), 1.0, "periodic"))
    v = space.forward(torch.tensor([1.0, -1.0] * 4, dtype=torch.float64))
    assert not space.inverse(space.derivative() * v).any() and not space.inverse(space.derivative(order=3) * v).any()
    np.testing.assert_allclose(space.inverse(space.derivative(order=2) * v)[0], -((8 * np.pi) ** 2), rtol=1e-14)
    two = space_of(Grid((8, 6), 1.0, "periodic"))
    for axis, n in enumerate((8, 6)):
        assert not (two.derivative(axis) * two.nyquist(axis)).any() and two.nyquist(axis).sum() == 1, n


@pytest.mark.parametrize("degree", [2, 3])
@pytest.mark.parametrize("n", [12, 15, 16, 17, 18, 24])
def test_masked_products_do_not_alias(n, degree):
    """The kept modes of the product of masked factors are those on a grid fine enough for all of it."""
    grid, fine = (Grid((m, m + 1), 1.0, "periodic") for m in (n, 5 * n))
    space, dense = space_of(grid), space_of(fine)
    mask = space.mask(degree)
    u = space.inverse(mask * space.forward(torch.randn(grid.shape, dtype=torch.float64)))
    v = mask * space.forward(u**degree)
    rows, columns = (torch.nonzero(mask.amax(1 - axis)).flatten() for axis in (0, 1))
    there = (space.numbers[0].flatten()[rows].long() % (5 * n))[:, None], columns
    here = rows[:, None], columns
    padded = torch.zeros(5 * n, (5 * n + 1) // 2 + 1, dtype=torch.complex128)
    padded[there] = space.forward(u)[here]
    exact = dense.forward(dense.inverse(padded) ** degree)[there]
    torch.testing.assert_close(v[here], exact, atol=1e-13, rtol=0)
    # and it keeps as many modes as the rule allows: one more per axis would alias
    largest = int(columns.max())
    assert (degree + 1) * largest < n + 1 <= (degree + 1) * (largest + 1)


def test_symbols_stay_in_double_and_are_cast_to_the_state():
    space = space_of(Grid((8, 8), 1.0, "periodic"), torch.float32)
    assert space.laplacian.dtype == torch.float64 and space.derivative(1).dtype == torch.complex128
    assert space.cast(space.laplacian).dtype == torch.float32 and space.mask(2).dtype == torch.float32
    assert space.cast(space.derivative()).dtype == torch.complex64


def test_refusals():
    with pytest.raises(ValueError, match="grid of node points: expected .*centering='periodic'"):
        check_periodic(Grid((8,)))
    with pytest.raises(ValueError, match="expected one whole period"):
        check_periodic(Grid((8,), extent=(0, 0.5), centering="periodic", domain=(0, 1)))
    with pytest.raises(TypeError, match="expected a Grid"):
        check_periodic((8,))
