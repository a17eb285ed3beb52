import math

import numpy as np
import pytest
import torch

from sciops.grids import Grid
from sciops.mixers import MIXERS, GradientProducts, SpectralMixer


def made(**options):
    torch.manual_seed(0)
    return GradientProducts(4, (3, 3), **{"bank_modes": 6, "bank_channels": 5, "products": 3} | options).double()


def naive(mixer, x):
    """Point by point in loops and dense sums, on nodes of the unit square."""
    weight = {name: p.detach().numpy() for name, p in mixer.named_parameters()}
    x = x.numpy()
    n = x.shape[0]
    s = np.arange(n) / (n - 1)
    trapezoid = np.full(n, 1 / (n - 1))
    trapezoid[[0, -1]] /= 2
    pq = x @ weight["pairs.weight"].T
    half = pq.shape[-1] // 2
    scale = 2 * (n - 1) / 84  # as the card has it
    g = np.zeros((n, n, half))
    for i in range(n):
        for j in range(n):
            for move in ((1, 0), (0, 1)):
                place, end = (i, j)[move[1]], n - 1
                if place == 0:
                    d = 2 * (pq[i + move[0], j + move[1]] - pq[i, j]) * scale
                elif place == end:
                    d = 2 * (pq[i, j] - pq[i - move[0], j - move[1]]) * scale
                else:
                    d = (pq[i + move[0], j + move[1]] - pq[i - move[0], j - move[1]]) * scale
                g[i, j] += d[:half] * d[half:]
    v = x @ weight["linear.weight"].T + g @ weight["joined.weight"].T
    bank = np.zeros_like(v)
    for c in range(v.shape[-1]):
        sine = c < (v.shape[-1] + 1) // 2
        for k in range(sine, mixer.bank_modes + sine):
            for m in range(sine, mixer.bank_modes + sine):
                f = (np.sin if sine else np.cos)(math.pi * k * s), (np.sin if sine else np.cos)(math.pi * m * s)
                phi = np.outer(*f)
                size = np.prod([1 if number == 0 else 0.5 for number in (k, m)])
                inner = (np.outer(trapezoid, trapezoid) * phi * v[..., c]).sum() / size
                w = sum(a / (1 + (k**2 + m**2) / 4**j) for j, a in enumerate(weight["alpha"][c]))
                bank[..., c] += w * inner * phi
    return bank @ weight["out.weight"].T


def test_equals_the_loops():
    mixer = made()
    x = torch.randn(1, 12, 12, 4, dtype=torch.float64)
    found = mixer(x) - mixer.dense(x, Grid((12, 12)))
    assert np.abs(found[0].detach().numpy() - naive(mixer, x[0])).max() < 1e-13


@pytest.mark.parametrize("grid", [Grid((12, 12)), Grid((9, 14), centering="cell")])
@pytest.mark.parametrize("axis", [1, 2])
def test_commutes_with_mirror_images(grid, axis):
    mixer = made(gate=True)
    x = torch.randn(2, *grid.shape, 4, dtype=torch.float64)
    assert (mixer(x.flip(axis), grid) - mixer(x, grid).flip(axis)).abs().max() < 1e-13


def test_commutes_with_the_exchange_of_axes_where_it_is_symmetric():
    x = torch.randn(2, 12, 12, 4, dtype=torch.float64)
    difference = {}
    for symmetric in (True, False):
        mixer = made(symmetric=symmetric, gate=True)
        difference[symmetric] = (mixer(x.transpose(1, 2)) - mixer(x).transpose(1, 2)).abs().max()
    assert difference[True] < 1e-13 < 1e-4 < difference[False]


def test_the_symmetric_spectral_layer_keeps_its_symmetry_and_its_gain():
    torch.manual_seed(0)
    mixer = SpectralMixer(6, (5, 5, 5), basis="sine-cosine", symmetric=True).double()
    free = SpectralMixer(6, (5, 5, 5), basis="sine-cosine")
    assert 0.85 < (mixer.parts[0].weight.std() / free.parts[0].weight.std()).item() < 1.15
    with pytest.raises(TypeError, match="symmetric=False"):
        SpectralMixer(2, (3, 3), basis="sine", symmetric=True).linear_matrices(None)
    optimizer = torch.optim.AdamW(mixer.parameters(), lr=0.1)
    x = torch.randn(1, 8, 8, 8, 6, dtype=torch.float64)
    for _ in range(2):
        optimizer.zero_grad()
        mixer(x).square().sum().backward()
        optimizer.step()
    for axes in ((1, 2), (1, 3), (2, 3)):
        assert (mixer(x.transpose(*axes)) - mixer(x).transpose(*axes)).abs().max() < 1e-12


def test_the_function_does_not_depend_on_the_grid():
    """Smooth fields: the differences are of second order, at the walls of first order, where cosines have no slope."""
    mixer = made()

    def on(n):
        s = torch.linspace(0, 1, n, dtype=torch.float64)
        waves = [
            (torch.cos(math.pi * k * s)[:, None] * torch.cos(math.pi * m * s))
            for k, m in ((1, 0), (0, 2), (1, 1), (2, 1))
        ]
        return mixer(torch.stack(waves, -1)[None], Grid((n, n)))[:, :: (n - 1) // 16, :: (n - 1) // 16]

    fine = on(257)
    errors = [(on(n) - fine).abs().max().item() for n in (33, 65)]
    assert errors[0] / errors[1] > 3.5 and errors[1] < 2e-3 * fine.abs().max()


def test_lengths_are_those_of_the_domain():
    """The same field on a domain ten times as long: the same result."""
    mixer = made()
    x = torch.randn(1, 12, 9, 4, dtype=torch.float64)
    long = Grid((12, 9), extent=((0.0, 10.0), (0.0, 10.0)))
    assert (mixer(x, long) - mixer(x, Grid((12, 9)))).abs().max() < 1e-13


@pytest.mark.parametrize("axes", [1, 3])
def test_other_numbers_of_axes_have_first_and_second_derivatives(axes):
    torch.manual_seed(0)
    mixer = GradientProducts(2, (2,) * axes, bank_modes=3, bank_channels=2, products=1, poles=2).double()
    x = torch.randn(1, *(4,) * axes, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(mixer, (x,), fast_mode=True)
    assert torch.autograd.gradgradcheck(mixer, (x,), fast_mode=True)


def test_half_precision_computes_in_float32():
    mixer = made().float()
    x = torch.randn(1, 12, 12, 4)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(mixer(x), mixer.float()(x))
    assert torch.equal(mixer(x.bfloat16()), mixer(x.bfloat16().float()).bfloat16())


def test_refusals():
    x = torch.randn(1, 12, 12, 4, dtype=torch.float64)
    with pytest.raises(ValueError, match="periodic grid"):
        made()(x, Grid((12, 12), centering="periodic"))
    with pytest.raises(ValueError, match="pass the grid of x"):
        made()(x, Grid((9, 9)))
    with pytest.raises(ValueError, match="at least 3"):
        made()(x[:, :2])
    with pytest.raises(ValueError, match="products=-1"):
        made(products=-1)
    with pytest.raises(ValueError, match="symmetric=True with basis='fourier'"):
        SpectralMixer(2, (3, 3), symmetric=True)
    with pytest.raises(ValueError, match=r"modes=\(3, 4\)"):
        SpectralMixer(2, (3, 4), basis="sine", symmetric=True)
    assert MIXERS["gradient_products"] is GradientProducts


def test_a_spine_with_symmetric_features_commutes_with_the_exchange_of_axes():
    from sciops import build_model

    x = torch.randn(2, 1, 12, 12, dtype=torch.float64)
    options = dict(in_channels=1, out_channels=1, width=4, depth=2, mixer="gradient_products", wall="zero")
    small = {"modes": 3, "bank_modes": 5, "bank_channels": 4, "products": 2, "symmetric": True}
    found = {}
    for coordinates in ("symmetric-wall", "wall"):
        torch.manual_seed(0)
        model = build_model("operator", **options, coordinates=coordinates, mixer_options=small).double()
        found[coordinates] = (model(x.mT) - model(x).mT).abs().max()
    assert found["symmetric-wall"] < 1e-13 < 1e-6 < found["wall"]
