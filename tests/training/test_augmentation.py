"""The symmetries of the square act as a group, move points of the grid onto each other, and are refused elsewhere."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from sciops.grids import Grid
from sciops.training.symmetry import apply_symmetry, check_symmetric

SQUARES = [Grid((6, 6)), Grid((5, 5), centering="cell"), Grid((6, 6), centering="periodic")]


def moved(u: torch.Tensor, code: int, grid: Grid, augment: str = "square") -> torch.Tensor:
    return apply_symmetry(u, np.full(len(u), code), grid, augment)


def as_bytes(u: torch.Tensor) -> bytes:
    return u.numpy().tobytes()


@pytest.mark.parametrize("grid", SQUARES, ids=lambda g: g.centering)
def test_the_eight_codes_are_the_dihedral_group(grid):
    u = torch.arange(grid.size, dtype=torch.float64).view(1, 1, *grid.shape)
    images = {as_bytes(moved(u, code, grid)) for code in range(8)}
    assert len(images) == 8
    products = {as_bytes(moved(moved(u, a, grid), b, grid)) for a, b in itertools.product(range(8), repeat=2)}
    assert products == images


@pytest.mark.parametrize("grid", SQUARES, ids=lambda g: g.centering)
@pytest.mark.parametrize("code", range(8))
def test_a_sampled_function_is_moved_to_the_samples_of_the_moved_function(grid, code):
    def f(x, y):
        return np.sin(2 * np.pi * x) + np.cos(2 * np.pi * (x + 2 * y)) + 0.3 * np.sin(4 * np.pi * y)

    x, y = grid.meshgrid()
    u = torch.from_numpy(f(x, y))[None, None]
    s, t = (y, x) if code & 1 else (x, y)
    s, t = (1 - s if code & 2 else s), (1 - t if code & 4 else t)
    np.testing.assert_allclose(moved(u, code, grid)[0, 0].numpy(), f(s, t), atol=1e-12)


def test_each_sample_gets_its_own_code_and_channels_move_together():
    grid = Grid((4, 4))
    u = torch.randn(8, 3, 4, 4, generator=torch.Generator().manual_seed(0))
    together = apply_symmetry(u, np.arange(8), grid, "square")
    for code in range(8):
        assert torch.equal(together[code : code + 1], moved(u[code : code + 1], code, grid))
    transposed = apply_symmetry(u, np.arange(8), grid, "transpose")
    assert torch.equal(transposed[0::2], u[0::2]) and torch.equal(transposed[1::2], u[1::2].transpose(-1, -2))
    assert apply_symmetry(u, np.arange(8), grid, "none") is u


def test_a_local_equivariant_map_commutes_with_the_augmentation():
    grid = Grid((7, 7))
    u = torch.randn(8, 1, 7, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    kernel = torch.tensor([[1.0, 2, 1], [2, -5, 2], [1, 2, 1]], dtype=torch.float64)[None, None]

    def laplacian(v):
        return torch.nn.functional.conv2d(v, kernel, padding=1)

    codes = np.arange(8)
    both = laplacian(apply_symmetry(u, codes, grid, "square")), apply_symmetry(laplacian(u), codes, grid, "square")
    torch.testing.assert_close(*both, rtol=0, atol=1e-13)


def test_grids_without_the_symmetry_are_refused():
    short = Grid((16, 16), extent=(0, 390 / 420), domain=(0, 1))
    check_symmetric(short, "transpose")
    with pytest.raises(ValueError, match="lie unevenly between the walls.*augment='transpose'"):
        check_symmetric(short, "square")
    centred = Grid((16, 16), extent=(0.1, 0.9), domain=(0, 1))
    check_symmetric(centred, "square")
    for grid in (Grid((4, 5)), Grid((4, 4), extent=((0, 1), (0, 2))), Grid((9,)), Grid((4, 4, 4))):
        check_symmetric(grid, "none")
        with pytest.raises(ValueError, match="not the same on both"):
            check_symmetric(grid, "transpose")
