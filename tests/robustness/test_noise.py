"""Noise has the law it states, is one function on all grids, and its norm is the Mahalanobis norm of that law."""

import numpy as np
import pytest
import torch

from sciops.grids import Grid, restrict
from sciops.random_fields import gaussian_random_field
from sciops.robustness import GaussianFieldNoise, WhiteNoise, field_norm

GRIDS = [
    (Grid((7, 6)), "neumann"),
    (Grid((7, 6)), "dirichlet"),
    (Grid((5, 6), centering="cell"), "neumann"),
    (Grid((5, 6), centering="cell"), "dirichlet"),
    (Grid((6, 7), ((0, 2), (-1, 1)), "periodic"), "periodic"),
    (Grid((9,), 2.0), "neumann"),
]


def dense_factor(noise, grid):
    """Columns C^{1/2} e_k, the noise made of one coefficient each."""
    modes = noise.coefficients(torch.zeros(grid.shape, dtype=torch.float64), grid).shape
    unit = torch.eye(int(np.prod(modes)), dtype=torch.float64).reshape(-1, *modes)
    return noise.field(unit, grid).flatten(1).T


@pytest.mark.parametrize("grid, boundary", GRIDS)
@pytest.mark.parametrize("modes", [None, 3])
def test_norm_is_the_mahalanobis_norm_of_the_covariance(grid, boundary, modes):
    noise = GaussianFieldNoise(0.7, tau=2.0, smoothness=1.5, modes=modes, boundary=boundary)
    factor = dense_factor(noise, grid)
    assert torch.linalg.matrix_rank(factor) == factor.shape[1]
    z = torch.randn(4, factor.shape[1], dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    delta = (z @ factor.T).reshape(4, *grid.shape)
    inverse = torch.linalg.pinv(factor @ factor.T, rtol=1e-12)
    expected = torch.einsum("bi,ij,bj->b", delta.flatten(1), inverse, delta.flatten(1)).sqrt()
    torch.testing.assert_close(noise.norm(delta, grid), expected, rtol=1e-9, atol=0)
    torch.testing.assert_close(noise.norm(delta, grid), z.norm(dim=1), rtol=1e-10, atol=0)
    as_numpy = noise.norm(delta.numpy(), grid)
    assert isinstance(as_numpy, np.ndarray) and np.allclose(as_numpy, expected)
    channels = noise.norm(delta.reshape(2, 2, *grid.shape), grid)
    torch.testing.assert_close(channels, expected.reshape(2, 2).norm(dim=1), rtol=1e-9, atol=0)
    # reach: the largest stretch from the noise's norm to the L² norm, by a dense SVD
    root = torch.as_tensor(grid.weights()).flatten().sqrt()[:, None]
    assert noise.reach(grid) == pytest.approx(float(torch.linalg.matrix_norm(root * factor, 2)), rel=1e-12)
    trace = float(((root * factor) ** 2).sum())
    assert noise.root_mean_square(grid) ** 2 * grid.weights().sum() == pytest.approx(trace, rel=1e-12)


def test_samples_follow_the_covariance():
    grid = Grid((5,))
    noise = GaussianFieldNoise(1.3, tau=1.0, smoothness=1.0)
    samples = noise.draw(grid, 20_000, seed=0)
    factor = dense_factor(noise, grid)
    covariance = samples.T @ samples / len(samples)
    assert (covariance - factor @ factor.T).abs().max() < 5 * float((factor @ factor.T).max()) / len(samples) ** 0.5
    assert samples.mean(0).abs().max() < 5 * float((factor @ factor.T).max()) ** 0.5 / len(samples) ** 0.5


@pytest.mark.parametrize("centering, boundary", [("node", "neumann"), ("node", "dirichlet"), ("periodic", "periodic")])
def test_one_function_on_all_grids(centering, boundary):
    coarse = Grid((17, 17) if centering == "node" else (16, 16), centering=centering)
    fine = Grid((33, 33) if centering == "node" else (32, 32), centering=centering)
    noise = GaussianFieldNoise(1.0, modes=9, boundary=boundary)
    on_fine, on_coarse = (noise.draw(g, 3, seed=4, first=2) for g in (fine, coarse))
    torch.testing.assert_close(restrict(on_fine, fine, coarse), on_coarse, rtol=0, atol=1e-13)
    torch.testing.assert_close(noise.norm(on_fine, fine), noise.norm(on_coarse, coarse), rtol=1e-9, atol=0)
    # all modes of each grid: the coarse coefficients are among the fine ones
    every = GaussianFieldNoise(1.0, smoothness=3.0, boundary=boundary)
    a, b = (every.coefficients(every.draw(g, 1, seed=4), g)[0] for g in (fine, coarse))
    torch.testing.assert_close(a[: b.shape[0], : b.shape[1]], b, rtol=1e-6, atol=1e-6)


def test_band_limited_shift_has_the_same_norm_on_every_grid_and_by_hand():
    noise = GaussianFieldNoise(0.5, tau=2.0, smoothness=1.5, boundary="neumann")
    # δ = 3 + cos πx·cos 2πy: coefficients 3 and ½ of the orthonormal 1 and 2 cos cos
    expected = np.sqrt(3**2 + (1 + 5 * np.pi**2 / 4) ** 1.5 * 0.5**2) / 0.5
    for grid in (Grid((9, 9)), Grid((33, 17)), Grid((12, 12), centering="cell")):
        x, y = grid.meshgrid()
        delta = (3 + np.cos(np.pi * x) * np.cos(2 * np.pi * y))[None]
        assert noise.cameron_martin_norm(delta, grid)[0] == pytest.approx(expected, rel=1e-11)
    # white noise on points counts points, white noise on fields does not
    sizes = {scale: [] for scale in ("point", "field")}
    for n in (17, 33, 65):
        grid = Grid((n, n))
        delta = np.cos(np.pi * grid.meshgrid()[0])[None]
        for scale in sizes:
            sizes[scale].append(WhiteNoise(0.5, scale).norm(delta, grid)[0])
    assert sizes["field"] == pytest.approx([np.sqrt(0.5) / 0.5] * 3, rel=1e-12)
    assert sizes["point"][2] / sizes["point"][1] == pytest.approx(2, rel=0.05)


def test_what_has_no_common_support_has_infinite_norm():
    grid = Grid((9, 9))
    x, y = grid.meshgrid()
    noise = GaussianFieldNoise(1.0, modes=3)
    assert np.isfinite(noise.norm(np.cos(2 * np.pi * x)[None], grid)[0])
    assert noise.norm(np.cos(3 * np.pi * x)[None], grid)[0] == np.inf
    walls = GaussianFieldNoise(1.0, boundary="dirichlet")
    assert walls.norm(np.ones((1, 9, 9)), grid)[0] == np.inf
    assert np.isfinite(walls.norm((np.sin(np.pi * x) * np.sin(3 * np.pi * y))[None], grid)[0])
    assert noise.norm(np.zeros((1, 9, 9)), grid)[0] == 0
    single = noise.norm(torch.cos(2 * torch.pi * torch.as_tensor(x, dtype=torch.float32))[None], grid)
    assert single.dtype == torch.float32 and single[0].isfinite()


def test_same_draws_as_the_random_fields():
    grid = Grid((17, 17))
    tau, alpha = 3.0, 2.0
    mine = GaussianFieldNoise(1.0, tau=tau, smoothness=alpha, modes=12).draw(grid, 2, seed=5)
    theirs = gaussian_random_field(grid, 2, tau=tau, alpha=alpha, seed=5, modes=12)
    constant = (mine.numpy() - theirs * tau).reshape(2, -1)  # τ^s against τ^{α − d/2}; they have no constant
    assert np.ptp(constant, axis=1).max() < 1e-12 and np.abs(constant).min() > 1e-3


def test_white_noise_is_the_limit_without_smoothness():
    grid = Grid((6, 5))
    flat, white = GaussianFieldNoise(0.3, smoothness=0.0, modes=4), WhiteNoise(0.3, "field")
    delta = flat.draw(grid, 3, seed=1)
    torch.testing.assert_close(flat.norm(delta, grid), white.norm(delta, grid), rtol=1e-12, atol=0)
    samples = WhiteNoise(0.3, "field").draw(grid, 4000, seed=0)
    scaled = samples * torch.as_tensor(grid.weights()).sqrt() / 0.3
    assert scaled.std() == pytest.approx(1, abs=0.01)
    for noise in (WhiteNoise(0.3, "field"), WhiteNoise(0.3)):
        spike = torch.zeros(1, 6, 5, dtype=torch.float64)
        spike[0, 2, 2] = 1  # the largest weight
        assert float(field_norm(spike, grid) / noise.norm(spike, grid)) == pytest.approx(noise.reach(grid), rel=1e-12)


def test_batches_do_not_change_the_draws():
    grid = Grid((8,), centering="periodic")
    for noise in (WhiteNoise(1.0), GaussianFieldNoise(1.0)):
        whole = noise.draw(grid, 5, seed=9)
        parts = torch.cat([noise.draw(grid, 2, seed=9), noise.draw(grid, 3, seed=9, first=2)])
        torch.testing.assert_close(whole, parts, rtol=0, atol=1e-14)


def test_refusals():
    for make, message in (
        (lambda: WhiteNoise(0.0), "sigma=0.0"),
        (lambda: WhiteNoise(1.0, "grid"), "scale='grid'"),
        (lambda: GaussianFieldNoise(1.0, tau=-1), "tau=-1"),
        (lambda: GaussianFieldNoise(1.0, smoothness=-1), "smoothness=-1"),
        (lambda: GaussianFieldNoise(1.0, modes=0), "modes=0"),
        (lambda: GaussianFieldNoise(1.0, boundary="robin"), "boundary='robin'"),
        (lambda: GaussianFieldNoise(1.0, modes=9).draw(Grid((8, 8)), 1, seed=0), "holds at most 8"),
        (lambda: GaussianFieldNoise(1.0).draw(Grid((8,), (0, 0.9), domain=(0, 1)), 1, seed=0), "up to the walls"),
        (lambda: WhiteNoise(1.0, "field").norm(np.ones((1, 3)), Grid((4,))), r"shape \(1, 3\)"),
    ):
        with pytest.raises(ValueError, match=message):
            make()


@pytest.mark.parametrize("centering", ["node", "cell", "periodic"])
@pytest.mark.parametrize("n", [4, 5, 8])
@pytest.mark.parametrize("boundary", ["neumann", "dirichlet", "periodic"])
def test_all_that_a_grid_tells_apart_is_a_basis(centering, n, boundary):
    """No function that vanishes at all points is counted: cells do not see the cosine of their Nyquist frequency."""
    grid = Grid((n,), centering=centering)
    noise = GaussianFieldNoise(1.0, boundary=boundary)
    draws = noise.draw(grid, 40, seed=0)
    rank = int(torch.linalg.matrix_rank(draws, atol=1e-9))
    z = torch.randn(3, rank, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    field = noise.field(z, grid)  # as many coefficients as the draws span
    torch.testing.assert_close(noise.coefficients(field, grid), z, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(noise.norm(field, grid), z.norm(dim=1), rtol=1e-9, atol=0)
