"""Helmholtz and its screened form against eigenfunctions, the whole-line Green's function, and their own resonances."""

import numpy as np
import pytest
import torch

from sciops.grids import Grid
from sciops.pde import helmholtz, poisson


@pytest.mark.parametrize("scheme", ["spectral", "finite-volume"])
@pytest.mark.parametrize(
    ("centering", "boundary"),
    [("node", "dirichlet"), ("cell", "dirichlet"), ("node", "neumann"), ("cell", ("neumann", "dirichlet"))],
)
def test_modes_are_divided_by_what_the_equation_says(centering, boundary, scheme):
    grid = Grid((24, 17), ((0, 1), (0, 2)), centering)
    words = (boundary,) * 2 if isinstance(boundary, str) else boundary
    x, y = grid.meshgrid()
    wave = {"dirichlet": np.sin, "neumann": np.cos}
    f = wave[words[0]](3 * np.pi * x) * wave[words[1]](np.pi * y)
    roots = np.array([3 * np.pi, np.pi])
    if scheme == "finite-volume":
        roots = 2 / np.array(grid.spacing) * np.sin(roots * grid.spacing / 2)
    level = (roots**2).sum()
    for k in (0.5, 8.0, 30.0):
        solution = helmholtz.solve(f, grid, wavenumber=k, boundary=boundary, scheme=scheme)
        np.testing.assert_allclose(solution.u, f / (level - k**2), rtol=0, atol=1e-12 / abs(level - k**2))
        assert solution.residual < 1e-11
        screened = helmholtz.solve(f, grid, screening=k, boundary=boundary, scheme=scheme)
        np.testing.assert_allclose(screened.u, f / (level + k**2), rtol=0, atol=1e-12 / (level + k**2))


def test_a_screened_point_source_falls_off_as_the_line_s_green_function():
    # on a long period, −u'' + κ²u = δ gives exp(−κ|x|)/2κ; a narrow Gaussian of width s multiplies it by exp(κ²s²/2)
    grid = Grid((2048,), (-8, 8), "periodic")
    x = grid.coordinates()[0]
    kappa, s = 4.0, 0.05
    f = np.exp(-0.5 * (x / s) ** 2) / (s * np.sqrt(2 * np.pi))
    u = helmholtz.solve(f, grid, screening=kappa).u
    far = (np.abs(x) > 0.5) & (np.abs(x) < 2)
    exact = np.exp(-kappa * np.abs(x) + (kappa * s) ** 2 / 2) / (2 * kappa)
    np.testing.assert_allclose(u[far], exact[far], rtol=1e-10)


def test_one_parameter_per_sample_and_the_same_alone():
    grid = Grid((20, 20), centering="cell")
    f = np.random.default_rng(0).standard_normal((3, 20, 20))
    k = np.array([1.0, 7.3, 20.1])
    together = helmholtz.solve(f, grid, wavenumber=k)
    for i in range(3):
        alone = helmholtz.solve(f[i], grid, wavenumber=k[i])
        np.testing.assert_allclose(together.u[i], alone.u, rtol=0, atol=1e-13 * np.abs(alone.u).max())
    tensor = helmholtz.solve(torch.tensor(f), grid, wavenumber=torch.tensor(k))
    np.testing.assert_array_equal(tensor.u.numpy(), together.u)
    assert (together.residual < 1e-12).all()


def test_without_a_wall_that_holds_it_the_mean_is_divided_by_minus_k_squared():
    grid = Grid((12, 9), centering="periodic")
    f = np.random.default_rng(1).standard_normal((12, 9))
    np.testing.assert_allclose(helmholtz.solve(f, grid, wavenumber=2.0).u.mean(), -f.mean() / 4, rtol=1e-12)
    np.testing.assert_allclose(helmholtz.solve(f, grid, screening=2.0).u.mean(), f.mean() / 4, rtol=1e-12)


def test_k_of_zero_between_walls_is_poisson():
    grid = Grid((14, 9))
    f = np.random.default_rng(2).standard_normal((14, 9))
    np.testing.assert_array_equal(helmholtz.solve(f, grid, wavenumber=0.0).u, poisson.solve(f, grid).u)


def test_resonance_is_refused_and_the_remedy_works():
    grid = Grid((17, 24), ((0, 1), (0, 2)))
    f = np.random.default_rng(3).standard_normal((2, 17, 24))
    k = np.pi * np.sqrt(4 + 9 / 4)
    with pytest.raises(ValueError, match=r"of mode \(2, 3\) of the box.*lies between eigenvalues") as error:
        helmholtz.solve(f, grid, wavenumber=[1.0, k])
    assert "of sample 1" in str(error.value)
    free = float(str(error.value).split("k = ")[1].split(" ")[0])
    assert (helmholtz.solve(f, grid, wavenumber=free).residual < 1e-11).all()
    # the eigenvalues of the differences lie elsewhere, and so do the resonances
    helmholtz.solve(f, grid, wavenumber=k, scheme="finite-volume")
    low = 2 * np.array([16, 23 / 2]) * np.sin(np.pi / 2 * np.array([2 / 16, 3 / 23]))
    with pytest.raises(ValueError, match="resonant"):
        helmholtz.solve(f, grid, wavenumber=np.hypot(*low), scheme="finite-volume")
    # near one the solution is large as 1/|λ − k²|
    for gap in (1e-2, 1e-4, 1e-6):
        mode = np.sin(2 * np.pi * grid.meshgrid()[0]) * np.sin(1.5 * np.pi * grid.meshgrid()[1])
        u = helmholtz.solve(mode, grid, wavenumber=np.sqrt(k**2 - gap)).u
        np.testing.assert_allclose(u, mode / gap, atol=1e-11 / gap**2 * k**2)


def test_refusals():
    torus = Grid((8, 8), centering="periodic")
    f = np.ones((2, 8, 8))
    with pytest.raises(ValueError, match="either wavenumber=k .* or screening"):
        helmholtz.solve(f, torus)
    with pytest.raises(ValueError, match="either wavenumber=k .* or screening"):
        helmholtz.solve(f, torus, wavenumber=1.0, screening=1.0)
    with pytest.raises(ValueError, match="sciops.pde.poisson"):
        helmholtz.solve(f, torus, wavenumber=0.0)
    with pytest.raises(ValueError, match="screening=0.0: expected a finite number above 0"):
        helmholtz.solve(f, torus, screening=0.0)
    with pytest.raises(ValueError, match="wavenumber=-1.0"):
        helmholtz.solve(f, torus, wavenumber=-1.0)
    with pytest.raises(ValueError, match="expected a number, or one for each of 2 samples"):
        helmholtz.solve(f, torus, wavenumber=[1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="resonant"):
        helmholtz.solve(f, torus, wavenumber=2 * np.pi)


@pytest.mark.gpu
def test_on_a_gpu_as_on_the_cpu():
    for centering in ("node", "cell", "periodic"):
        grid = Grid((20, 17), centering=centering)
        f = torch.tensor(np.random.default_rng(4).standard_normal((2, 20, 17)))
        for scheme in ("spectral", "finite-volume"):
            there = helmholtz.solve(f.cuda(), grid, wavenumber=[3.0, 5.0], scheme=scheme)
            assert there.u.is_cuda
            here = helmholtz.solve(f, grid, wavenumber=[3.0, 5.0], scheme=scheme)
            torch.testing.assert_close(there.u.cpu(), here.u, rtol=0, atol=1e-13)
