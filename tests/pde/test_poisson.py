"""Poisson: eigenfunctions, exact solutions, a dense matrix, the Darcy solver, and the adjoint of the solve."""

import itertools

import numpy as np
import pytest
import torch

from sciops.grids import Grid
from sciops.pde import darcy, poisson
from sciops.pde.elliptic.eigenbasis import analyse, boundaries_of, differences, eigenvalues, inside, synthesise

BOXES = [
    (Grid((17,), (-1, 2.5), "node"), "dirichlet"),
    (Grid((16,), (-1, 2.5), "cell"), "dirichlet"),
    (Grid((17,), (-1, 2.5), "node"), "neumann"),
    (Grid((16,), (-1, 2.5), "cell"), "neumann"),
    (Grid((15,), (-1, 2.5), "periodic"), "periodic"),
    (Grid((9, 12), ((0, 1), (1, 4)), "node"), "dirichlet"),
    (Grid((9, 12), ((0, 1), (1, 4)), "cell"), "neumann"),
    (Grid((9, 12), ((0, 1), (1, 4)), "node"), ("neumann", "dirichlet")),
    (Grid((8, 11), ((0, 1), (1, 4)), "periodic"), None),
    (Grid((5, 6, 7), ((0, 1), (0, 2), (0, 3)), "node"), ("dirichlet", "neumann", "dirichlet")),
    (Grid((5, 6, 7), ((0, 1), (0, 2), (0, 3)), "cell"), "dirichlet"),
    (Grid((4, 5, 6), ((0, 1), (0, 2), (0, 3)), "periodic"), None),
    (Grid((9, 12), ((0, 1), (1, 4)), "cell"), ("periodic", "dirichlet")),
    (Grid((8, 11), ((0, 1), (1, 4)), "cell"), ("neumann", "periodic")),
    (Grid((7, 6), ((0, 1), (1, 4)), "cell"), "periodic"),
    (Grid((5, 6, 8), ((0, 1), (0, 2), (0, 3)), "cell"), ("periodic", "neumann", "periodic")),
    (Grid((6, 5, 4), ((0, 1), (0, 2), (0, 3)), "cell"), ("periodic", "periodic", "dirichlet")),
]


def _named(case):
    grid, boundary = case
    return f"{grid.centering}-{grid.shape}-{boundary}"


def _eigenfunction(grid, kinds, k):
    """(φ, λ) written out at the points: sines, cosines, and a plane wave's real part along the periods."""
    field, value, phase = 1.0, 0.0, 0.0
    for m, kind, x, (a, b) in zip(k, kinds, grid.meshgrid(), grid.extent):
        if kind == "periodic":
            phase = phase + 2 * np.pi * m * (x - a) / (b - a)
            value += (2 * np.pi * m / (b - a)) ** 2
            continue
        angle = np.pi * m * (x - a) / (b - a)
        field = field * (np.sin(angle) if kind == "dirichlet" else np.cos(angle))
        value += (np.pi * m / (b - a)) ** 2
    return field * np.cos(phase - 0.3) if "periodic" in kinds else field, value


@pytest.mark.parametrize("case", BOXES, ids=_named)
def test_every_eigenfunction_is_solved_exactly(case):
    grid, boundary = case
    kinds = boundaries_of(grid, boundary)
    for k in itertools.product(*(range(int(kind == "dirichlet"), 3) for kind in kinds)):
        if not any(k):
            continue
        f, value = _eigenfunction(grid, kinds, k)
        solution = poisson.solve(f, grid, boundary=boundary)
        np.testing.assert_allclose(solution.u, f / value, rtol=0, atol=1e-12 / value)
        assert solution.residual < 1e-12


@pytest.mark.parametrize("case", BOXES, ids=_named)
def test_transforms_are_inverse_to_each_other_and_hold_every_point(case):
    grid, boundary = case
    kinds = boundaries_of(grid, boundary)
    u = torch.zeros((3, *grid.shape), dtype=torch.float64)
    inner = (..., *inside(grid, kinds))
    u[inner] = torch.tensor(np.random.default_rng(0).standard_normal(u[inner].shape))
    coefficients = analyse(u, grid, kinds)
    assert coefficients.shape[1:] == eigenvalues(grid, kinds).shape
    torch.testing.assert_close(synthesise(coefficients, grid, kinds), u, rtol=0, atol=2e-14)


@pytest.mark.parametrize("case", BOXES, ids=_named)
def test_finite_volumes_equal_a_dense_matrix_of_the_scheme(case):
    grid, boundary = case
    kinds = boundaries_of(grid, boundary)
    inner = inside(grid, kinds)
    f = np.random.default_rng(1).standard_normal(grid.shape)
    solution = poisson.solve(f, grid, boundary=boundary, scheme="finite-volume", mean="project")
    matrix, shape = np.zeros((1, 1)), ()
    for n, h, kind in zip(grid.shape, grid.spacing, kinds):
        m = n - 2 if kind == "dirichlet" and grid.centering == "node" else n
        one = (2 * np.eye(m) - np.eye(m, k=1) - np.eye(m, k=-1)) / h**2
        if kind == "periodic":
            one[0, -1] = one[-1, 0] = -1 / h**2
        elif grid.centering == "cell":
            one[0, 0] = one[-1, -1] = (3 if kind == "dirichlet" else 1) / h**2
        elif kind == "neumann":  # half a cell at the wall: its flux over half its width
            one[0, 1] = one[-1, -2] = -2 / h**2
        matrix = np.kron(matrix, np.eye(m)) + np.kron(np.eye(len(matrix)), one)
        shape += (m,)
    weights = grid.weights()
    if "dirichlet" not in kinds:
        f = f - (weights * f).sum() / weights.sum()
    reference = np.linalg.lstsq(matrix, f[inner].ravel(), rcond=1e-12)[0].reshape(shape)
    if "dirichlet" not in kinds:
        reference -= (weights * reference).sum() / weights.sum()
    np.testing.assert_allclose(solution.u[inner], reference, rtol=0, atol=1e-12 * np.abs(reference).max())
    assert solution.residual < 1e-12


@pytest.mark.parametrize("centering", ["node", "cell"])
def test_finite_volumes_are_the_darcy_scheme_with_a_equal_to_one(centering):
    grid = Grid((33, 46), ((0, 1), (-1, 1)), centering)
    f = np.random.default_rng(2).standard_normal((3, *grid.shape))
    mine = poisson.solve(f, grid, scheme="finite-volume")
    theirs = darcy.solve(np.ones_like(f), grid, forcing=f, tol=1e-12)
    np.testing.assert_allclose(mine.u, theirs.u, rtol=0, atol=1e-10 * np.abs(theirs.u).max())
    assert (mine.residual < 1e-12).all()
    np.testing.assert_allclose(
        poisson.residual(f, theirs.u, grid, scheme="finite-volume"), theirs.residual, rtol=0.2, atol=1e-13
    )


@pytest.mark.parametrize(("centering", "boundary"), [("node", "dirichlet"), ("cell", "neumann"), ("periodic", None)])
def test_orders_second_for_finite_volumes_and_every_order_for_spectral(centering, boundary):
    errors = {"finite-volume": [], "spectral": []}
    for n in (16, 32, 64):
        grid = Grid((n + (centering == "node"),) * 2, ((0, 1), (0, 2)), centering)
        x, y = grid.meshgrid()
        p, q = (2 * np.pi * x, np.pi * y) if boundary is None else (np.pi * x, np.pi * y / 2)
        wave = np.sin if boundary == "dirichlet" else np.cos
        cx, cy = (p / x.clip(1e-9)).max(), (q / y.clip(1e-9)).max()
        # g(s) = exp(cos s) − I₀ has every harmonic; odd for the sine walls by one factor
        u = wave(p) * np.exp(np.cos(q)) * (np.sin(q) if boundary == "dirichlet" else 1)

        def second(s):
            c, sn, e = np.cos(s), np.sin(s), np.exp(np.cos(s))
            return e * (sn**2 - c) if boundary != "dirichlet" else e * (sn**3 - 3 * sn * c - sn)

        f = cx**2 * u - wave(p) * cy**2 * second(q)
        for scheme, kept in errors.items():
            kept.append(np.abs(poisson.solve(f, grid, boundary=boundary, scheme=scheme).u - u).max())
    fv = np.array(errors["finite-volume"])
    np.testing.assert_allclose(np.log2(fv[:-1] / fv[1:]), 2, atol=0.1)
    assert max(errors["spectral"][1:]) < 1e-11


def test_a_forcing_that_does_not_vanish_on_the_wall_costs_spectral_its_order_as_the_docstring_says():
    errors = []
    for n in (17, 33, 65, 129):
        x = Grid((n,)).coordinates()[0]
        errors.append(np.abs(poisson.solve(np.ones(n), Grid((n,))).u - x * (1 - x) / 2).max())
    np.testing.assert_allclose(np.log2(np.divide(errors[:-1], errors[1:])), 2, atol=0.1)


@pytest.mark.parametrize("scheme", ["spectral", "finite-volume"])
def test_the_solve_is_self_adjoint_and_its_gradient_is_itself(scheme):
    grid = Grid((7, 9), ((0, 1), (0, 2)), "cell")
    f, g = torch.tensor(np.random.default_rng(3).standard_normal((2, 7, 9)))
    f.requires_grad_(True)
    u = poisson.solve(f, grid, scheme=scheme).u
    (u * g).sum().backward()
    torch.testing.assert_close(f.grad, poisson.solve(g, grid, scheme=scheme).u, rtol=0, atol=1e-14)


def test_a_mean_is_refused_or_projected_and_u_has_none():
    for grid, boundary in ((Grid((16, 16), centering="periodic"), None), (Grid((17, 12)), "neumann")):
        f = np.random.default_rng(4).standard_normal((2, *grid.shape))
        with pytest.raises(ValueError, match=r"f\[0\] has the mean .* mean='project'"):
            poisson.solve(f, grid, boundary=boundary)
        weights = grid.weights() / grid.weights().sum()
        centred = f - (weights * f).sum((1, 2), keepdims=True)
        projected = poisson.solve(f, grid, boundary=boundary, mean="project")
        np.testing.assert_allclose(projected.u, poisson.solve(centred, grid, boundary=boundary).u, atol=1e-15)
        np.testing.assert_allclose((weights * projected.u).sum((1, 2)), 0, atol=1e-16)
        # what projection leaves of f is its mean
        left = poisson.residual(f, projected.u, grid, boundary=boundary)
        size = np.sqrt((f**2).sum((1, 2)))
        means = np.abs((weights * f).sum((1, 2))) * np.sqrt(grid.size) / size
        np.testing.assert_allclose(left, means, rtol=1e-10)


def test_kind_dtype_and_batch():
    grid = Grid((12, 10), centering="periodic")
    f = np.random.default_rng(5).standard_normal((4, 12, 10))
    f -= f.mean((1, 2), keepdims=True)
    together = poisson.solve(f, grid)
    alone = poisson.solve(f[2], grid)
    assert alone.u.shape == (12, 10) and np.ndim(alone.residual) == 0
    np.testing.assert_allclose(together.u[2], alone.u, rtol=0, atol=1e-15 * np.abs(alone.u).max())
    tensor = poisson.solve(torch.tensor(f), grid)
    assert isinstance(tensor.u, torch.Tensor)
    np.testing.assert_array_equal(tensor.u.numpy(), together.u)
    single = poisson.solve(f.astype(np.float32) - f.astype(np.float32).mean((1, 2), keepdims=True), grid)
    assert single.u.dtype == np.float32
    np.testing.assert_allclose(single.u, together.u, atol=1e-6 * np.abs(together.u).max())
    assert poisson.solve(np.zeros((12, 10)), grid).residual == 0


def test_refusals_say_what_to_do():
    nodes, cells, torus = Grid((8, 8)), Grid((8, 8), centering="cell"), Grid((8, 8), centering="periodic")
    f = np.zeros((8, 8))
    for grid, options, words in (
        (torus, {"boundary": "dirichlet"}, "does not fit a periodic grid: expected 'periodic'"),
        (nodes, {"boundary": "periodic"}, "does not fit a node grid"),
        (nodes, {"boundary": ("dirichlet",)}, "one of them for each of the 2 axes"),
        (cells, {"scheme": "spline"}, "expected 'spectral' or 'finite-volume'"),
        (torus, {"mean": "drop"}, "expected 'refuse' or 'project'"),
        (Grid((8, 8), (0, 0.9), domain=(0, 1)), {}, "points up to the walls"),
    ):
        with pytest.raises(ValueError, match=words):
            poisson.solve(f, grid, **options)
    with pytest.raises(ValueError, match=r"f\[0?,? ?1, 2\] = nan: expected finite"):
        poisson.solve(np.where(np.arange(64).reshape(8, 8) == 10, np.nan, 0.0), nodes)
    with pytest.raises(ValueError, match="f has shape"):
        poisson.solve(np.zeros((8, 9)), nodes)
    with pytest.raises(ValueError, match=r"expected \(batch, 8, 8\) or \(8, 8\)"):
        poisson.solve(np.zeros((2, 1, 8, 8)), nodes)
    with pytest.raises(TypeError, match="expected float32 or float64"):
        poisson.solve(np.zeros((8, 8), complex), nodes)
    with pytest.raises(TypeError, match="expected a Grid"):
        poisson.solve(f, (8, 8))
    with pytest.raises(ValueError, match="4 axes: this equation is solved on 1 or 2 or 3"):
        poisson.solve(np.zeros((3,) * 4), Grid((3,) * 4))
    with pytest.raises(ValueError, match="at least 3 nodes"):
        poisson.solve(np.zeros(2), Grid((2,)))


def test_differences_of_a_quadratic_are_its_curvature():
    grid = Grid((9, 8), ((0, 2), (0, 3)))
    x, y = grid.meshgrid()
    u = torch.tensor(x * (2 - x) + 3 * y * (3 - y))
    inner = differences(u, grid, ("dirichlet", "dirichlet"))
    # walls count as zero, so only points with no neighbour on a wall see the quadratic itself
    torch.testing.assert_close(inner[1:-1, 1:-1], torch.full((5, 4), 8.0, dtype=torch.float64), rtol=0, atol=1e-12)
