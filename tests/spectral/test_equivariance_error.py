"""Equivariance between grids: zero where theory says zero, and caused by what theory says causes it."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from sciops.evaluation import rollout
from sciops.grids import Grid, restrict
from sciops.metrics import relative_l2
from sciops.models import Latent, build_model, check_operator
from sciops.models.apply import in_precision, placed_for
from sciops.resampling import resample
from sciops.spectral import equivariance_error, layer_aliasing, layer_spectra


class SmallFNO(nn.Module):
    """σ(Wv + Kv) layers with |k|∞ ≤ modes kept by K, all choices open. Channel-first."""

    def __init__(self, activation=None, modes=3, depth=2, width=3, norm=False, coordinates=False):
        super().__init__()
        generator = torch.Generator().manual_seed(0)

        def draw(*shape):
            return torch.randn(*shape, dtype=torch.complex128, generator=generator)

        self.activation, self.modes, self.coordinates = activation or (lambda z: z), modes, coordinates
        self.lift = draw(width, 3 if coordinates else 1).real
        self.skip = [draw(width, width).real / 3 for _ in range(depth)]
        self.kernel = [draw(width, width, 2 * modes + 1, modes + 1) / 3 for _ in range(depth)]
        for kernel in self.kernel:  # the column k = 0 of a real field is Hermitian
            kernel[..., 0] = (kernel[..., 0] + kernel[..., 0].flip(-1).conj()) / 2
        self.project = draw(1, width).real
        self.norm = nn.InstanceNorm2d(width) if norm else None

    def forward(self, x):
        if self.coordinates:
            axes = [torch.linspace(0, 1, n + 1, dtype=x.dtype)[:-1] for n in x.shape[-2:]]
            x = torch.cat([x, *(c.expand(len(x), 1, *x.shape[-2:]) for c in torch.meshgrid(*axes, indexing="ij"))], 1)
        v = torch.einsum("oc,bcxy->boxy", self.lift, x)
        for skip, kernel in zip(self.skip, self.kernel):
            c = torch.fft.rfft2(v, norm="forward")
            kept = torch.zeros_like(c)
            rows = torch.arange(-self.modes, self.modes + 1)
            kept[..., rows, : self.modes + 1] = torch.einsum("ockl,bckl->bokl", kernel, c[..., rows, : self.modes + 1])
            v = torch.einsum("oc,bcxy->boxy", skip, v) + torch.fft.irfft2(kept, s=v.shape[-2:], norm="forward")
            v = self.activation(v)
            if self.norm is not None:
                v = self.norm(v)
        return torch.einsum("oc,bcxy->boxy", self.project, v)


def periodic(*shape):
    return Grid(shape, centering="periodic")


def band_limited(grid, band, seed=0):
    rng = np.random.default_rng(seed)
    low = periodic(*(2 * band + 1 for _ in grid.shape))
    return torch.from_numpy(resample(rng.standard_normal((2, 1, *low.shape)), low, grid, method="fourier"))


@pytest.mark.parametrize("coarse, factor", [((12, 12), 2), ((9, 15), 3), ((16, 10), 4)])
@pytest.mark.parametrize("refine", ["true", "lossless"])
def test_a_linear_fno_is_one_operator_on_every_grid(coarse, factor, refine):
    coarse, fine = periodic(*coarse), periodic(*(factor * n for n in coarse))
    error = equivariance_error(SmallFNO(), band_limited(fine, 4), fine, coarse, refine=refine)
    assert error.shape == (2,) and error.max() < 1e-13


@pytest.mark.parametrize("n", [11, 12, 13, 14])
def test_a_quadratic_layer_is_exact_exactly_above_the_three_halves_rule(n):
    # band 4 in, square, |k| ≤ 4 kept by a spectral layer after it and nothing skipped: n > 2·4 + 4
    class Squared(SmallFNO):
        def forward(self, x):
            c = torch.fft.rfft2(x * x, norm="forward")
            rows = torch.arange(-4, 5)
            kept = torch.zeros_like(c)
            kept[..., rows, :5] = c[..., rows, :5]
            return torch.fft.irfft2(kept, s=x.shape[-2:], norm="forward")

    coarse, fine = periodic(n, n), periodic(4 * n, 4 * n)
    error = equivariance_error(Squared(), band_limited(fine, 4), fine, coarse)
    assert (error.max() < 1e-12) == (n > 12)
    assert n > 12 or error.min() > 1e-4


def test_what_breaks_consistency_and_by_how_much():
    """Random weights, sin(2πx)cos(4πy), 32 against 64 points: coordinates and normalisation, not the mixer."""
    coarse, fine = periodic(32, 32), periodic(64, 64)
    x, y = fine.meshgrid()
    a = torch.from_numpy(np.sin(2 * np.pi * x) * np.cos(4 * np.pi * y))[None, None]

    def error(activation=torch.nn.functional.gelu, **options):
        return float(equivariance_error(SmallFNO(activation, **options), a, fine, coarse))

    table = {
        "linear": error(None),
        "gelu": error(),
        "coordinates": error(coordinates=True),
        "instance norm after a wall-like jump": error(norm=True, coordinates=True),
    }
    assert table["linear"] < 1e-13
    assert table["gelu"] < 1e-3
    assert table["coordinates"] > 10 * table["gelu"], table
    assert table["instance norm after a wall-like jump"] > 10 * table["gelu"], table


def test_lossless_input_isolates_the_network():
    # truncation alone: what lies above the coarse grid aliases into a_s, which only the true fine input shows
    coarse, fine = periodic(12, 12), periodic(24, 24)
    rough = band_limited(fine, 11)
    model = SmallFNO()
    assert equivariance_error(model, rough, fine, coarse, refine="lossless").max() < 1e-13
    assert equivariance_error(model, rough, fine, coarse, refine="true").min() > 1e-2


def test_is_the_formula():
    fine, coarse = Grid((17, 13)), Grid((9, 7))
    model = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.GELU(), nn.Conv2d(4, 1, 3, padding=1)).double()
    a = torch.randn(3, 1, 17, 13, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    a_s = restrict(a, fine, coarse)
    with torch.no_grad():
        low = model(a_s)
        for refine, a_S in {"true": a, "lossless": resample(a_s, coarse, fine, method="cosine")}.items():
            expected = relative_l2(model(a_S)[..., ::2, ::2], low, coarse)
            error = equivariance_error(model, a, fine, coarse, refine=refine)
            torch.testing.assert_close(error, expected, rtol=1e-12, atol=0.0)
    numpy_error = equivariance_error(model, a.numpy(), fine, coarse)
    assert isinstance(numpy_error, np.ndarray)
    linear = equivariance_error(model, a, fine, coarse, refine="lossless", method="linear")
    with torch.no_grad():
        by_hand = relative_l2(model(resample(a_s, coarse, fine, method="linear"))[..., ::2, ::2], low, coarse)
    torch.testing.assert_close(linear, by_hand, rtol=1e-12, atol=0.0)


@pytest.mark.parametrize("centering", ["node", "cell", "periodic"])
@pytest.mark.parametrize("refine", ["true", "lossless"])
def test_equal_grids_give_zero_to_the_bit(centering, refine):
    grid = Grid((9, 8), centering=centering)
    model = nn.Conv2d(1, 1, 3, padding=1).double()
    a = torch.randn(2, 1, 9, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    assert torch.equal(equivariance_error(model, a, grid, grid, refine=refine), torch.zeros(2, dtype=torch.float64))


@pytest.mark.parametrize("centering", ["node", "cell", "periodic"])
def test_a_pointwise_map_is_one_operator_on_lossless_input(centering):
    fine = Grid((13, 13) if centering == "node" else (12, 12), centering=centering)
    coarse = fine.coarsen(2)
    a = torch.randn(2, 1, *fine.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    assert equivariance_error(nn.Conv2d(1, 2, 1).double(), a, fine, coarse, refine="lossless").max() < 1e-12


@pytest.mark.parametrize("centering", ["node", "cell", "periodic"])
@pytest.mark.parametrize("factor", [2, 3, 4])
@pytest.mark.parametrize("refine", ["true", "lossless"])
@pytest.mark.parametrize("shape", [(6,), (5, 4)])
def test_the_identity_has_no_error_on_white_noise(centering, factor, refine, shape):
    """What restricts the input restricts the output: also where it is a block mean, and P does not invert it."""
    walls = int(centering == "node")
    fine = Grid(tuple(factor * (n - walls) + walls for n in shape), (-1, 2), centering)
    coarse = fine.coarsen(factor)
    a = torch.randn(2, 1, *fine.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    methods = ["linear", "cubic", "nearest", "fourier" if centering == "periodic" else "cosine"]
    for method in methods:
        assert equivariance_error(nn.Identity(), a, fine, coarse, refine=refine, method=method).max() < 1e-14
    assert equivariance_error(nn.Identity(), a.numpy(), fine, coarse, refine=refine).max() < 1e-14


def test_the_restriction_of_cells_is_conservative():
    fine = Grid((12, 8), centering="cell")
    coarse = fine.coarsen(2)
    a = torch.randn(2, 1, 12, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0))

    class Square(nn.Module):
        def forward(self, x):
            return x.square()

    blocks = lambda u: u.unflatten(-1, (4, 2)).unflatten(-3, (6, 2)).mean((-1, -3))  # noqa: E731
    expected = relative_l2(blocks(a.square()), blocks(a).square(), coarse)
    torch.testing.assert_close(equivariance_error(Square(), a, fine, coarse), expected, rtol=1e-12, atol=0.0)


def test_periods_that_are_not_nested_meet_by_their_interpolant():
    fine, coarse = periodic(21), periodic(10)
    a = band_limited(fine, 4)
    for refine in ("true", "lossless"):
        assert equivariance_error(nn.Identity(), a, fine, coarse, refine=refine).max() < 1e-14
        assert equivariance_error(nn.Conv1d(1, 2, 1).double(), a, fine, coarse, refine=refine).max() < 1e-13


class FirstComplex(nn.Module):
    """A hand-written Fourier layer: its only real numbers come after the complex ones."""

    def __init__(self, codes: bool = False):
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        if codes:
            self.codes = nn.Parameter(torch.arange(4), requires_grad=False)
        self.kernel = nn.Parameter(torch.randn(4, dtype=torch.complex64, generator=generator))
        self.out = nn.Conv1d(1, 1, 1)

    def forward(self, x):
        c = torch.fft.rfft(x, norm="forward")
        c = torch.cat([c[..., :4] * self.kernel, torch.zeros_like(c[..., 4:])], -1)
        return self.out(torch.fft.irfft(c, n=x.shape[-1], norm="forward"))


@pytest.mark.parametrize("codes", [False, True])
@pytest.mark.parametrize("wide", [False, True])
def test_models_whose_first_parameters_are_complex_or_whole_numbers(codes, wide):
    model = FirstComplex(codes)
    if wide:
        in_precision(model, torch.float64)
    fine, coarse = periodic(32), periodic(16)
    a = band_limited(fine, 3)
    assert placed_for(model, a).dtype == (torch.float64 if wide else torch.float32)
    assert equivariance_error(model, a, fine, coarse).max() < (1e-13 if wide else 1e-5)
    spectra = layer_spectra(model, a, fine)
    np.testing.assert_allclose(
        spectra.sel(layer="out").values.sum(),
        model(placed_for(model, a)).square().mean().item(),
        rtol=1e-12 if wide else 1e-6,
    )
    assert layer_aliasing(nn.Sequential(model, nn.GELU()), a, fine, 4).size == 1
    prediction = rollout(model, a, fine, steps=2)
    assert prediction.dtype == placed_for(model, a).dtype and prediction.isfinite().all()
    table = check_operator(model, fine, in_channels=1)
    assert table["gradients in float64"].passed and table["odd sizes"].passed


def test_complex_fields_are_not_cast_to_their_real_part():
    field = torch.ones(1, 1, 8, dtype=torch.complex128)
    for model in (nn.Conv1d(1, 1, 1), FirstComplex()):
        assert placed_for(model, field).dtype == torch.complex64
    assert placed_for(nn.Identity(), field) is field


def test_grids_that_are_not_nested_take_the_coarse_input_from_a_finer_one():
    finest, fine, coarse = Grid((41, 41)), Grid((21, 21)), Grid((9, 9))
    x, y = finest.meshgrid()
    a = torch.from_numpy(np.cos(np.pi * x) * np.cos(2 * np.pi * y))[None, None]
    model = nn.Conv2d(1, 1, 1).double()
    with pytest.raises(ValueError, match="pass a_coarse="):
        equivariance_error(model, restrict(a, finest, fine), fine, coarse)
    error = equivariance_error(model, restrict(a, finest, fine), fine, coarse, a_coarse=restrict(a, finest, coarse))
    assert error.max() < 1e-12


def test_a_fixed_latent_grid_is_one_operator_for_band_limited_input():
    torch.manual_seed(0)
    latent = periodic(12, 12)
    core = build_model("fno", in_channels=1, out_channels=1, width=4, depth=2, modes=(4, 4), grid=latent)
    model = Latent(core, latent).double()
    fine, coarse = periodic(32, 32), periodic(16, 16)
    a = band_limited(fine, 5)
    for refine in ("true", "lossless"):
        error = equivariance_error(model, a, fine, coarse, refine=refine)
        assert error.max() < 1e-12
    assert equivariance_error(core.double(), a, fine, coarse).min() > 1e-8


def test_modules_keep_their_mode_and_casts_follow_the_model():
    model = nn.Sequential(nn.Conv2d(1, 1, 1), nn.Dropout(0.9)).train()
    fine, coarse = periodic(8, 8), periodic(4, 4)
    a = np.random.default_rng(0).standard_normal((2, 1, 8, 8))
    assert equivariance_error(model, a, fine, coarse).max() < 1e-6
    assert model.training and model[1].training
    with pytest.raises(ValueError, match="'true' or 'lossless'"):
        equivariance_error(model, a, fine, coarse, refine="both")
