"""Normalised, latent and symmetry-averaged models: exact identities."""

import pytest
import torch
from torch import nn

from sciops import Grid, build_model, resample
from sciops.datasets.fields.normalizers import Normalizer
from sciops.models import Latent, Normalized, SymmetryAveraged, apply_model
from sciops.symmetry import Symmetry

SCALAR = Symmetry.of_scalars()
DARCY16 = Grid((16, 16), ((0, 390 / 420),) * 2, domain=((0, 1),) * 2)


def small(**options) -> nn.Module:
    torch.manual_seed(2)
    return build_model("fno", **{"width": 6, "depth": 2, "modes": (3, 3), **options}).double()


def randn(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def test_normalized_is_decode_model_encode_and_keeps_the_dtype_of_its_input():
    model = small()
    a, u = randn(5, 1, 8, 8) * 3 + 7, randn(5, 1, 8, 8) * 0.01 - 4
    wrapped = Normalized(model, Normalizer.fit(a), Normalizer.fit(u))
    z = (a - a.mean()) / a.std(correction=0)
    torch.testing.assert_close(wrapped(a), model(z) * u.std(correction=0) + u.mean(), rtol=1e-12, atol=1e-12)
    with torch.autocast("cpu", torch.bfloat16):
        assert wrapped.float()(a.float()).dtype == torch.float32
    assert wrapped.input.mean.dtype == torch.float64


def test_a_zero_wall_is_zero_in_physical_units_too():
    grid = Grid((9, 9))
    model = Normalized(small(wall="zero", grid=grid), None, Normalizer.fit(randn(5, 1, 9, 9) + 3))
    for wrapped in (model, SymmetryAveraged(model, "square", symmetry=SCALAR)):
        u = wrapped(randn(2, 1, 9, 9))
        assert bool((u[..., 0, :] == 0).all()) and bool((u[..., -1] == 0).all())
        assert bool((u[..., 1:-1, 1:-1] != 0).all())


@pytest.mark.parametrize(
    "group, grid",
    [
        ("transpose", DARCY16),
        ("square", Grid((9, 9))),
        ("square", Grid((8, 8), centering="cell")),
        ("square", Grid((8, 8), centering="periodic")),
    ],
)
def test_a_symmetry_average_commutes_with_its_group_and_leaves_symmetric_models_alone(group, grid):
    model = SymmetryAveraged(small(grid=grid, coordinates="linear"), group, symmetry=SCALAR)
    x = randn(2, 1, *grid.shape)
    y = model(x)
    moves = [lambda u: u.mT]
    if group == "square":
        shift = 1 if grid.centering == "periodic" else 0
        moves += [lambda u: u.flip(-1).roll(shift, -1), lambda u: u.mT.flip(-2).roll(shift, -2)]
    for move in moves:
        torch.testing.assert_close(model(move(x)), move(y), rtol=1e-12, atol=1e-12)
        assert (model.model(move(x)) - move(model.model(x))).abs().max() > 1e-3
    pointwise = nn.Conv2d(1, 1, 1).double()
    torch.testing.assert_close(
        SymmetryAveraged(pointwise, group, symmetry=SCALAR)(x, grid), pointwise(x), rtol=1e-13, atol=1e-13
    )


def test_grids_without_the_symmetry_are_refused():
    with pytest.raises(ValueError, match="the grid .* is not the same on both axes"):
        SymmetryAveraged(small(), symmetry=SCALAR)(randn(1, 1, 8, 9))
    with pytest.raises(ValueError, match="pass group='transpose'"):
        SymmetryAveraged(small(grid=DARCY16), "square", symmetry=SCALAR)(randn(1, 1, 16, 16))
    with pytest.raises(ValueError, match="group='cube'"):
        SymmetryAveraged(small(), "cube", symmetry=SCALAR)
    with pytest.raises(ValueError, match="the symmetries of the problem are not known; pass symmetry="):
        SymmetryAveraged(small(), "square")


@pytest.mark.parametrize("n, m", [(16, 24), (16, 31), (15, 20)])
def test_a_latent_model_gives_one_function_whatever_grid_its_input_is_sampled_on(n, m):
    inner, fine = Grid((n, n), centering="periodic"), Grid((m, m), centering="periodic")
    model = Latent(small(grid=inner, coordinates="linear"), inner)
    band = resample(randn(2, 1, 7, 7), Grid((7, 7), centering="periodic"), inner, "fourier")
    on_fine = resample(band, inner, fine, "fourier")
    u = model(band, inner)
    # the output may hold the inner grid's Nyquist mode, so both are compared on the finer grid
    torch.testing.assert_close(model(on_fine, fine), resample(u, inner, fine, "fourier"), rtol=1e-10, atol=1e-11)
    assert torch.equal(u, model.model(band, inner))


def test_a_latent_model_on_nested_nodes_is_run_coarse_then_interpolate():
    coarse, fine = Grid((9, 9)), Grid((33, 33))
    model = Latent(small(grid=coarse, wall="zero"), coarse)
    a = randn(2, 1, 33, 33)
    expected = resample(model.model(a[..., ::4, ::4].contiguous()), coarse, fine, "cubic")
    u = model(a)
    torch.testing.assert_close(u[..., 1:-1, 1:-1], expected[..., 1:-1, 1:-1], rtol=1e-11, atol=1e-12)
    assert bool((u[..., 0, :] == 0).all())


@pytest.mark.parametrize("method", ["sine", "cubic"])
def test_a_latent_model_with_zero_walls_keeps_them_at_the_true_wall_of_a_grid_that_stops_short(method):
    fine = Grid((43, 43))
    model = Latent(small(grid=DARCY16, wall="zero"), DARCY16, output_method=method)
    a = torch.zeros(1, 1, 43, 43, dtype=torch.float64)
    u = model(a, fine)
    ring = torch.ones(43, 43, dtype=torch.bool)
    ring[1:-1, 1:-1] = False
    assert bool((u[..., ring] == 0).all()) and bool((u[..., ~ring] != 0).all())


def test_apply_model_passes_the_grid_where_it_is_taken():
    grid, x = Grid((16, 16), (0, 2.0)), randn(2, 1, 16, 16)
    ours, plain = small(coordinates="linear", local=True, reference_spacing=2 / 5), nn.Conv2d(1, 1, 3).double()
    assert torch.equal(apply_model(ours, x, grid), ours(x, grid)) and not torch.equal(ours(x, grid), ours(x))
    assert torch.equal(apply_model(plain, x, grid), plain(x))
