"""Projections end at orthonormal rows and nowhere else, the layers keep lengths, and kernels keep their support."""

import pytest
import torch
from torch import nn

import sciops
from sciops.lipschitz import RescaledSpectral
from sciops.mixers import Matrices, SpectralMixer
from sciops.models import (
    OrthogonalConvolution,
    OrthogonalNet,
    UnitarySpectral,
    bjorck,
    orthogonality_defect,
    orthogonalize_,
    polar,
)


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(0)


def random(*shape, dtype=torch.float64):
    return torch.randn(*shape, dtype=dtype)


def matrix_of(layer, *shape):
    """The dense matrix of an affine layer on samples of a shape."""
    n = torch.Size(shape).numel()
    with torch.no_grad():
        images = layer(torch.eye(n, dtype=torch.float64).reshape(n, *shape))
        return (images - layer(torch.zeros(1, *shape, dtype=torch.float64))).reshape(n, -1).T


def test_rescaled_modes_are_refused():
    """Their weights are computed: what is written to them would be lost without a sign."""
    layer = RescaledSpectral(4, (3, 3))
    for asked in (orthogonality_defect, lambda layer: orthogonalize_([layer])):
        with pytest.raises(TypeError, match="weights that are not parametrised"):
            asked(layer)


def test_a_layer_that_declares_its_matrices_is_projected():
    class Declared(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(random(3, 5))

        def linear_matrices(self, shape):
            return [Matrices(lambda: self.w[None], self.w[None].copy_)]

    layer = Declared()
    expected = polar(layer.w.detach())
    orthogonalize_([layer])
    torch.testing.assert_close(layer.w.detach(), expected, rtol=1e-12, atol=1e-12)
    assert orthogonality_defect(layer) < 1e-12


@pytest.mark.parametrize("shape", [(5, 5), (4, 7), (7, 4), (3, 6, 6)])
@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
def test_bjorck_goes_to_the_polar_factor(shape, dtype):
    w = random(*shape, dtype=dtype)
    nearest = polar(w)
    gram = nearest @ nearest.mH if shape[-2] <= shape[-1] else nearest.mH @ nearest
    eye = torch.eye(gram.shape[-1], dtype=dtype).expand_as(gram)
    assert torch.allclose(gram, eye, atol=1e-14)
    # W = P·(polar factor) with P Hermitian and positive
    positive = w @ nearest.mH if shape[-2] <= shape[-1] else nearest.mH @ w
    assert torch.allclose(positive, positive.mH, atol=1e-13)
    assert float(torch.linalg.eigvalsh(positive).min()) > -1e-13
    for size in (1.0, 1e-3, 1e3):
        assert torch.allclose(bjorck(size * w, 60), nearest, atol=1e-10)


def test_bjorck_is_quadratic_near_its_limit_and_exact_on_it():
    u = polar(random(16, 16))
    near = u + 0.01 * random(16, 16)
    defects = [float(torch.linalg.matrix_norm(b @ b.mT - torch.eye(16))) for b in (bjorck(near, n) for n in (1, 2, 3))]
    assert defects[1] < defects[0] ** 2 and defects[2] < max(defects[1] ** 2, 1e-13)
    assert float(torch.linalg.matrix_norm(bjorck(near) @ bjorck(near).mT - torch.eye(16))) < 1e-13
    assert torch.allclose(bjorck(u), u, atol=1e-14)
    huge = 1e8 * u.float()
    assert torch.allclose(bjorck(huge, 12), u.float(), atol=1e-5)


GRIDS = [
    ((9, 9), (3, 3)),
    ((8, 8), (4, 5)),
    ((6, 8), (3, 4)),
    ((12,), (4,)),
    ((12,), (7,)),
    ((4, 4, 6), (2, 1, 4)),
]


@pytest.mark.parametrize(("grid", "modes"), GRIDS)
@pytest.mark.parametrize("outside", ["identity", "zero"])
@pytest.mark.parametrize("method", ["polar", "bjorck"])
def test_unitary_modes_are_an_orthogonal_matrix_on_the_grid(grid, modes, outside, method):
    layer = UnitarySpectral(2, modes, outside=outside).double()
    with torch.no_grad():
        for p in layer.parameters():
            p.add_(0.1 * torch.randn_like(p))
    parameters = list(layer.parameters())
    orthogonalize_([layer], shapes=[grid], method=method, iterations=9)
    assert all(a is b for a, b in zip(parameters, layer.parameters()))
    w = matrix_of(layer, *grid, 2)
    gram = w @ w.T
    assert torch.allclose(gram @ gram, gram, atol=1e-13)
    band = gram.trace() / 2
    if outside == "identity":
        assert torch.allclose(gram, torch.eye(len(gram), dtype=gram.dtype), atol=1e-13)
    else:  # the projector onto the real fields of the kept modes
        kept = SpectralMixer(1, modes).double()
        with torch.no_grad():
            kept.parts[0].weight.copy_(torch.tensor([1.0, 0.0]).view(2, 1).expand_as(kept.parts[0].weight))
        assert float(band) == pytest.approx(float(torch.linalg.matrix_rank(matrix_of(kept, *grid, 1))), abs=1e-9)
    assert orthogonality_defect(layer, grid) < 1e-13
    before = [p.clone() for p in layer.parameters()]
    orthogonalize_([layer], shapes=[grid], method=method)
    assert all(torch.allclose(a, b, atol=1e-13) for a, b in zip(before, layer.parameters()))


def test_unitary_modes_start_unitary_and_the_projection_is_the_nearest():
    layer = UnitarySpectral(3, (2, 3)).double()
    orthogonalize_([layer])
    x = random(2, 11, 10, 3)
    assert torch.allclose(layer(x).norm(), x.norm(), rtol=1e-13)
    sine = UnitarySpectral(3, (4, 5), basis="sine").double()
    orthogonalize_([sine])
    w = matrix_of(sine, 9, 8, 3)
    assert torch.allclose(w @ w.T, torch.eye(len(w), dtype=w.dtype), atol=1e-12)


def test_convolutions_of_the_grids_size_are_orthogonal_and_smaller_ones_nearly():
    same = {"padding": "same", "padding_mode": "circular"}
    for layer, grid in (
        (nn.Conv2d(3, 3, (5, 4), **same), (5, 4)),
        (nn.Conv2d(4, 2, 5, **same), (5, 5)),
        (nn.Conv1d(3, 2, 1), (7,)),
        (nn.Conv3d(2, 2, (2, 3, 2), **same), (2, 3, 2)),
    ):
        orthogonalize_([layer.double()], shapes=[grid])
        w = matrix_of(layer, layer.in_channels, *grid)
        assert torch.allclose(w @ w.T, torch.eye(len(w), dtype=w.dtype), atol=1e-13)
    small = nn.Conv2d(6, 6, 3, padding=1, padding_mode="circular").double()
    with torch.no_grad():
        small.weight.zero_()[:, :, 1, 1] = polar(random(6, 6))
        small.weight.add_(0.02 * torch.randn_like(small.weight))
    before = orthogonality_defect(small, (7, 8))
    orthogonalize_([small], shapes=[(7, 8)])
    after = orthogonality_defect(small, (7, 8))
    w = matrix_of(small, 6, 7, 8)
    eye = torch.eye(len(w), dtype=w.dtype)
    assert after == pytest.approx(float(torch.linalg.matrix_norm(w @ w.T - eye, 2)), rel=1e-9)
    assert 1e-4 < after < 0.2 * before


@pytest.mark.parametrize(("out", "size", "axes", "grid"), [(6, 3, 2, (7, 6)), (4, 2, 2, (5, 5)), (3, 4, 1, (9,))])
def test_products_of_shifts_are_orthogonal_with_small_support(out, size, axes, grid):
    layer = OrthogonalConvolution(6, out, size=size, axes=axes).double()
    with torch.no_grad():
        for p in layer.parameters():
            p.add_(0.1 * torch.randn_like(p))
    orthogonalize_([layer])
    w = matrix_of(layer, 6, *grid)
    assert torch.allclose(w @ w.T, torch.eye(len(w), dtype=w.dtype), atol=1e-13)
    point = torch.zeros(6, 6, *grid, dtype=torch.float64)
    point[(range(6), range(6), *(0,) * axes)] = 1
    with torch.no_grad():
        reached = (layer(point) - layer(torch.zeros_like(point))).abs().amax((0, 1)) > 1e-14
    for axis in range(axes):
        rows = reached.movedim(axis, 0).reshape(grid[axis], -1).any(1)
        assert int(rows.sum()) == size
    assert orthogonality_defect(layer) < 1e-14


@pytest.mark.parametrize(
    "options",
    [
        {"in_channels": 2, "out_channels": 3, "shape": [4, 4], "width": 16, "depth": 3},
        {"out_channels": 5, "kind": "convolution", "shape": [8, 8], "patch": 4, "depth": 2, "activation": "relu"},
        {"kind": "spectral", "modes": [2, 3], "width": 4, "depth": 2, "outside": "zero", "dropout": 0.1},
    ],
)
def test_the_net_is_saved_and_loaded_and_keeps_lengths(options, tmp_path):
    net = sciops.build_model("orthogonal", **options).eval()
    x = torch.randn(3, options.get("in_channels", 1), *options.get("shape", (8, 8)))
    again = sciops.load_model(sciops.save_model(net, tmp_path))
    assert torch.equal(again(x), net(x))
    assert again.lift == (net.kind == "spectral")
    linear = sciops.build_model("orthogonal", **options | {"activation": "identity", "outside": "identity"}).eval()
    hidden = linear.stack[1 if linear.lift else 0 : -1]
    z = linear.stack[0](x.movedim(1, -1)) if linear.lift else x
    with torch.no_grad():
        lengths = float(hidden(z).norm()), float(z.norm())
    if options.get("kind", "dense") == "dense":  # from 32 numbers to 16
        assert 0.2 < lengths[0] / lengths[1] < 1
    else:
        assert lengths[0] == pytest.approx(lengths[1], rel=1e-5)


def test_refusals():
    for options, message in (
        ({"width": 20, "shape": (4, 4)}, "width=20 > 16 inputs"),
        ({"kind": "convolution", "shape": (9, 8)}, "two axes that patches divide"),
        ({"kind": "tensor"}, "kind='tensor'"),
        ({"activation": "sine"}, "activation='sine'"),
        ({"depth": 0}, "depth=0"),
    ):
        with pytest.raises(ValueError, match=message):
            OrthogonalNet(**options)
    with pytest.raises(ValueError, match="rows cannot be orthonormal"):
        OrthogonalConvolution(3, 4)
    with pytest.raises(ValueError, match="only orthogonal convolutions are shifts"):
        OrthogonalConvolution(1)
    with pytest.raises(ValueError, match="outside='one'"):
        UnitarySpectral(2, outside="one")
    with pytest.raises(ValueError, match="basis='cosine'"):
        UnitarySpectral(2, basis="cosine")
    with pytest.raises(TypeError, match="LayerNorm cannot be projected"):
        orthogonalize_([nn.LayerNorm(3)])
    with pytest.raises(TypeError, match="weights='diagonal'"):
        orthogonalize_([SpectralMixer(3, 2, weights="diagonal")])
    with pytest.raises(ValueError, match="do not fit a grid of"):
        orthogonalize_([SpectralMixer(3, (4, 4))], shapes=[(6, 6)])
    with pytest.raises(ValueError, match="depends on the grid"):
        orthogonalize_([nn.Conv2d(2, 2, 1)])
    with pytest.raises(ValueError, match="stride 1"):
        orthogonalize_([nn.Conv2d(2, 2, 3)], shapes=[(5, 5)])
    with pytest.raises(ValueError, match="does not fit a grid"):
        orthogonalize_([nn.Conv1d(2, 2, 7, padding=3, padding_mode="circular")], shapes=[(5,)])
    with pytest.raises(ValueError, match="method='qr'"):
        orthogonalize_([], method="qr")
    with pytest.raises(ValueError, match="1 shapes for 2 layers"):
        orthogonalize_([nn.Linear(2, 2)] * 2, shapes=[None])
