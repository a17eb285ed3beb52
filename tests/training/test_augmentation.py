"""Augmentation moves samples by the symmetries of the problem, and is refused where the problem lacks them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from sciops.datasets import TensorFields
from sciops.grids import Grid
from sciops.symmetry import Symmetry
from sciops.training.tasks.symmetry import moves_of

SQUARES = [Grid((6, 6)), Grid((5, 5), centering="cell"), Grid((6, 6), centering="periodic")]


def moves(grid: Grid, augment: str = "square", channels: int = 1, symmetry: Symmetry | None = None):
    fields = torch.zeros(1, channels, *grid.shape)
    symmetry = symmetry or Symmetry.of_scalars(channels, channels)
    return moves_of(TensorFields(fields, fields, grid, symmetry=symmetry), augment)


def moved(u: torch.Tensor, code: int, grid: Grid, augment: str = "square") -> torch.Tensor:
    return moves(grid, augment, u.shape[1]).apply(u, u, np.full(len(u), code))[0]


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
    together, targets = moves(grid, "square", 3).apply(u, 2 * u, np.arange(8))
    assert torch.equal(targets, 2 * together)
    for code in range(8):
        assert torch.equal(together[code : code + 1], moved(u[code : code + 1], code, grid))
    transposed, _ = moves(grid, "transpose", 3).apply(u, u, np.arange(8))
    assert torch.equal(transposed[0::2], u[0::2]) and torch.equal(transposed[1::2], u[1::2].transpose(-1, -2))
    assert moves(grid, "none") is None


def test_a_local_equivariant_map_commutes_with_the_augmentation():
    grid = Grid((7, 7))
    u = torch.randn(8, 1, 7, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    kernel = torch.tensor([[1.0, 2, 1], [2, -5, 2], [1, 2, 1]], dtype=torch.float64)[None, None]

    def laplacian(v):
        return torch.nn.functional.conv2d(v, kernel, padding=1)

    x, y = moves(grid).apply(u, laplacian(u), np.arange(8))
    torch.testing.assert_close(laplacian(x), y, rtol=0, atol=1e-13)


def test_components_of_tensors_change_places():
    grid, u = Grid((3, 3)), torch.arange(18.0).view(1, 2, 3, 3)
    diagonal = Symmetry(("a:xx", "a:yy"), ("scalar", "pseudoscalar"))
    x, y = moves(grid, "transpose", 2, diagonal).apply(u, u, np.array([1]))
    assert torch.equal(x, u.mT[:, [1, 0]]) and torch.equal(y, u.mT * torch.tensor([1.0, -1.0]).view(2, 1, 1))


def test_grids_without_the_symmetry_are_refused():
    short = Grid((16, 16), extent=(0, 390 / 420), domain=(0, 1))
    moves(short, "transpose")
    with pytest.raises(ValueError, match="lie unevenly between the walls.*augment='transpose'"):
        moves(short, "square")
    moves(Grid((16, 16), extent=(0.1, 0.9), domain=(0, 1)), "square")
    for grid in (Grid((4, 5)), Grid((4, 4), extent=((0, 1), (0, 2))), Grid((9,)), Grid((4, 4, 4))):
        assert moves(grid, "none") is None
        with pytest.raises(ValueError, match="not the same on both"):
            moves(grid, "transpose")
    for grid, count in ((Grid((4, 5)), 4), (Grid((9,)), 2), (Grid((4, 4, 4)), 48)):
        assert len(moves(grid, "allowed").elements) == count


def test_what_is_not_known_is_refused():
    grid, u = Grid((4, 4)), torch.zeros(1, 2, 4, 4)
    with pytest.raises(ValueError, match="the data set does not say what its channels are; state it, TensorFields"):
        moves_of(TensorFields(u, u, grid), "square")
    with pytest.raises(ValueError, match="2 channels of inputs, and its symmetry states 1"):
        moves_of(TensorFields(u, u, grid, symmetry=Symmetry.of_scalars(1, 2)), "square")
