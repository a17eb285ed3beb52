"""The spine: its grids, its coordinates, its walls, and equality between resolutions where mathematics gives it."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from sciops import Grid, build_model, check_operator
from sciops.models.spine.features import coordinate_channels, wall_mask

DARCY16 = Grid((16, 16), ((0, 390 / 420),) * 2, domain=((0, 1),) * 2)
DARCY32 = Grid((32, 32), ((0, 403 / 420),) * 2, domain=((0, 1),) * 2)


def small(name: str = "fno", **options) -> nn.Module:
    torch.manual_seed(1)
    return build_model(name, **{"width": 6, "depth": 2, "modes": (3, 3), **options}).double()


def randn(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("shape", [(10, 11), (11, 10)])
def test_the_classic_fno_layer_is_wv_plus_the_truncated_fourier_multiplier_plus_b(shape):
    model = small(block="classic", depth=1, coordinates="none")
    block, v = model.blocks[0], randn(2, *shape, 6)
    got = block(v, Grid(shape, centering="periodic"), (1, 1))
    pair = block.mixer.parts[0].weight  # (rows 0 1 2 −3 −2 −1 in the order 0 … k−1, −1 … −k; columns; in; re/im; out)
    weight = torch.complex(pair[..., 0, :], pair[..., 1, :])
    spectrum = torch.fft.rfft2(v, dim=(1, 2))
    kept = torch.zeros_like(spectrum)
    for i, k in enumerate([0, 1, 2, -1, -2, -3]):
        kept[:, k, :3] = torch.einsum("bli,lio->blo", spectrum[:, k, :3], weight[i])
    expected = torch.fft.irfft2(kept, s=shape, dim=(1, 2)) + v @ block.skip.weight.T + block.skip.bias
    torch.testing.assert_close(got, expected, rtol=1e-12, atol=1e-12)


def linear_model(**options) -> nn.Module:
    """A spine without its nonlinearities: what is left must commute with refinement."""
    model = small(basis="sine", norm="none", mixer_activation=False, coordinates="none", **options)
    model.lift[1], model.project[1] = nn.Identity(), nn.Identity()
    for module in (model.lift[0], model.lift[2]):
        nn.init.zeros_(module.bias)  # a constant is not a sum of sines
    for block in model.blocks:
        nn.init.zeros_(block.mlp_out.weight)
        nn.init.zeros_(block.mlp_out.bias)
    return model


def sines(grid: Grid) -> torch.Tensor:
    x, y = grid.meshgrid()
    u = np.sin(math.pi * x) * np.sin(3 * math.pi * y) - 0.5 * np.sin(2 * math.pi * x) * np.sin(math.pi * y)
    return torch.from_numpy(u)[None, None]


@pytest.mark.parametrize("fine, coarse", [(Grid((33, 25)), Grid((17, 13))), (DARCY32, DARCY16)])
@pytest.mark.parametrize("local, depth", [(False, 3), (True, 1)])
def test_a_sine_spine_with_dilation_gives_the_same_values_on_nested_grids(fine, coarse, local, depth):
    model = linear_model(local=local, depth=depth, grid=coarse)
    a, b = model(sines(fine), fine)[..., ::2, ::2], model(sines(coarse), coarse)
    if local and not fine.reaches_walls:
        # beyond the last point of each grid the kernel sees zeros, and the finer grid ends half a step later
        a, b = a[..., :-1, :-1], b[..., :-1, :-1]
    torch.testing.assert_close(a, b, rtol=1e-11, atol=1e-12)
    if local:
        undilated = linear_model(local=True, depth=depth, grid=coarse, dilate=False)
        gap = (undilated(sines(fine), fine)[..., ::2, ::2] - undilated(sines(coarse), coarse)).abs().max()
        assert gap > 1e-3


def test_without_a_grid_the_reference_is_used_and_its_extent_for_other_shapes():
    model = small(grid=DARCY16, local=True)
    x, fine = randn(2, 1, 16, 16), randn(2, 1, 31, 31)
    assert torch.equal(model(x), model(x, DARCY16))
    same_extent = Grid((31, 31), DARCY16.extent, domain=DARCY16.domain)
    assert torch.equal(model(fine), model(fine, same_extent))
    assert model.dilation(DARCY32) == (2, 2) and model.dilation(DARCY16) == (1, 1)
    assert model.dilation(Grid((8, 64))) == (1, 4)


def test_another_domain_is_refused_because_a_crop_is_not_a_refinement():
    model = small(grid=Grid((16, 16)))
    with pytest.raises(ValueError, match=r"domain is \(\(0.4, 0.6\).*made for \(\(0.0, 1.0\)"):
        model(randn(1, 1, 16, 16), Grid((16, 16), (0.4, 0.6)))


def test_coordinates_and_walls_agree_at_the_points_two_grids_share():
    for kind, count in (("linear", 2), ("periodic", 4), ("wall", 3)):
        a, b = (coordinate_channels(g, kind, torch.float64, "cpu") for g in (DARCY32, DARCY16))
        assert a.shape[-1] == count
        torch.testing.assert_close(a[::2, ::2], b, rtol=1e-13, atol=1e-13)
    wall = coordinate_channels(Grid((9, 9)), "wall", torch.float64, "cpu")
    assert wall[0, :, 2].abs().max() == 0 and wall[4, 4, 2] == 1 and wall[4, 4, 0] == 1 and wall[0, 4, 0] == 0
    periodic = Grid((12, 12), centering="periodic")
    assert bool(wall_mask(periodic, torch.float64, "cpu").all())


def test_a_zero_wall_is_exactly_zero_where_the_grid_has_wall_nodes_and_nowhere_else():
    for grid, rows in ((Grid((9, 8)), [0, -1]), (DARCY16, [0])):
        u = small(wall="zero", grid=grid)(randn(2, 1, *grid.shape))
        zero = torch.zeros(grid.shape, dtype=torch.bool)
        for i in rows:
            zero[i], zero[:, i] = True, True
        assert bool((u[..., zero] == 0).all()) and bool((u[..., ~zero] != 0).all())


def test_automatic_coordinates_follow_the_mixer_and_are_kept_in_the_config():
    cases = [
        (dict(), "linear"),
        (dict(grid=Grid((16, 16), centering="periodic")), "none"),
        (dict(basis="sine"), "none"),
        (dict(basis="sine-cosine"), "wall"),
        (dict(basis="sine", coordinates="periodic"), "periodic"),
    ]
    for options, expected in cases:
        model = small(**options)
        assert model.coordinates == expected == model.config["options"]["coordinates"]


@pytest.mark.parametrize("shape, modes", [((12,), (3,)), ((6, 7, 5), (2, 2, 2))])
@pytest.mark.parametrize("block", ["residual", "classic"])
def test_one_and_three_axes_have_a_gradient_in_every_parameter(shape, modes, block):
    model = small(modes=modes, local=True, block=block, dealias=2)
    model(randn(2, 1, *shape)).square().sum().backward()
    dead = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.any()]
    assert model.ndim == len(shape) and not dead


def test_a_periodic_spine_without_coordinates_commutes_with_shifts():
    grid = Grid((12, 10), centering="periodic")
    model, x = small(grid=grid, local=True, dealias=2), randn(2, 1, 12, 10)
    a, b = model(x.roll((5, 3), (2, 3))), model(x).roll((5, 3), (2, 3))
    torch.testing.assert_close(a, b, rtol=1e-11, atol=1e-11)


def test_depth_zero_is_the_pointwise_map():
    model, x = small(depth=0, coordinates="none"), randn(2, 1, 5, 4)
    points = x.movedim(1, -1).reshape(-1, 1)
    expected = model.project(model.norm(model.lift(points))).reshape(2, 5, 4, 1).movedim(-1, 1)
    torch.testing.assert_close(model(x), expected, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("name, options", [("fno", {"modes": (4, 4)}), ("mano", {}), ("hybrid", {"modes": (4, 4)})])
def test_no_samples_have_no_predictions(name, options):
    grid = Grid((16, 17))
    model = build_model(name, in_channels=2, out_channels=3, width=8, depth=2, grid=grid, **options)
    x = torch.zeros(0, 2, 16, 17, requires_grad=True)
    y = model(x)
    assert y.shape == (0, 3, 16, 17)
    y.sum().backward()
    assert x.grad.shape == x.shape


def test_what_is_wrong_is_said_in_one_line():
    cases = [
        (dict(norm="batch"), ValueError, "norm='batch'.*rms"),
        (dict(block="dense"), ValueError, "block='dense'.*residual"),
        (dict(coordinates="polar"), ValueError, "coordinates='polar'.*linear"),
        (dict(wall="one"), ValueError, "wall='one'.*zero"),
        (dict(mlp="deep"), ValueError, "mlp='deep'.*gated"),
        (dict(mode=(3, 3)), TypeError, "unknown option 'mode'.*modes"),
        (dict(dealias=0), ValueError, "dealias=0"),
        (dict(ndim=3, grid=Grid((8, 8))), ValueError, "ndim=3"),
    ]
    for options, kind, message in cases:
        with pytest.raises(kind, match=message) as caught:
            small(**options)
        assert "\n" not in str(caught.value)
    with pytest.raises(ValueError, match="model 'fnoo'.*fno"):
        build_model("fnoo")
    with pytest.raises(ValueError, match=r"expected \(batch, 1, \*grid\)"):
        small()(randn(2, 3, 8, 8))
    with pytest.raises(TypeError, match="pass x.float"):
        small()(torch.ones(2, 1, 8, 8, dtype=torch.bool))
    with pytest.raises(ValueError, match="pass the grid x was sampled on"):
        small()(randn(2, 1, 8, 8), Grid((9, 9)))


@pytest.mark.parametrize("name", ["mano", "hybrid"])
def test_attention_models_use_every_parameter_and_come_back_from_their_description(name):
    torch.manual_seed(0)
    modes = {"modes": (3, 3)} if name == "hybrid" else {}
    model, x = build_model(name, width=8, depth=3, window=2, grid=DARCY16, **modes).double(), randn(2, 1, 9, 11)
    model(x).square().sum().backward()
    assert not [n for n, p in model.named_parameters() if p.grad is None or not p.grad.any()]
    mixers = [type(b.mixer).__name__ for b in model.blocks]
    other = {"mano": "MultipoleAttention", "hybrid": "SpectralMixer"}[name]
    assert mixers == [other, "MultipoleAttention", other]
    again = build_model(name, **model.config["options"]).double()
    again.load_state_dict(model.state_dict())
    assert torch.equal(again(x), model(x)) and again.config == model.config
    assert model.config["options"]["aggregate"] == "sum"  # defaults are written out


def test_mixer_options_by_name_reach_their_mixer():
    options = {"spectral": dict(modes=(3, 3), basis="cosine"), "attention": dict(heads=2)}
    model = build_model("operator", width=8, depth=2, mixer=("spectral", "attention"), mixer_options=options)
    assert model.blocks[0].mixer.basis == "cosine" and model.blocks[1].mixer.heads == 2
    with pytest.raises(ValueError, match="one dict per mixer"):
        build_model("operator", mixer=("spectral", "attention"), mixer_options=dict(heads=2))
    with pytest.raises(TypeError, match="mixer 'spectral': unknown option 'heads'.*modes"):
        build_model("operator", mixer="spectral", mixer_options=dict(heads=2))


@pytest.mark.gpu
@pytest.mark.parametrize(
    "name, options",
    [
        ("fno", dict(local=True, wall="zero", grid=DARCY16)),
        ("fno", dict(basis="sine-cosine", block="classic", dealias=2, norm="instance")),
        ("neuralop:FNO", {}),
    ],
)
def test_a_gpu_gives_what_the_cpu_gives(name, options):
    torch.manual_seed(0)
    model = build_model(name, width=8, depth=2, modes=(4, 4), **options)
    x = torch.randn(2, 1, 17, 16)
    expected = model(x)
    torch.testing.assert_close(model.cuda()(x.cuda()).cpu(), expected, rtol=1e-3, atol=1e-4)
    table = check_operator(model, Grid((16, 16)))
    assert table.passed, str(table)
