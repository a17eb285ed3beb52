"""Weights from neuraloperator, and the shift that the layer of some versions makes at odd sizes."""

from __future__ import annotations

import warnings

import pytest
import torch

from sciops.mixers import SpectralMixer
from sciops.models.operators.neuralop_spectral import computes


@pytest.fixture(scope="module")
def SpectralConv():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from neuralop.layers.spectral_convolution import SpectralConv
    return SpectralConv


def difference(conv, size, **options) -> float:
    torch.manual_seed(1)
    mixer = SpectralMixer.from_neuralop(conv, **options)
    x = torch.randn(2, conv.in_channels, *size)
    theirs = conv(x)
    ours = mixer(x.movedim(1, -1)).movedim(-1, 1)
    return ((ours - theirs).norm() / theirs.norm()).item()


@pytest.mark.parametrize("size", [(8, 8), (16, 16), (20, 17), (16, 17)])
def test_equal_at_even_leading_sizes(SpectralConv, size):
    torch.manual_seed(0)
    conv = SpectralConv(3, 5, (8, 8))
    assert difference(conv, size) < 1e-6
    assert difference(conv, size, compat_shift=True) < 1e-6


@pytest.mark.parametrize("size", [(17, 17), (85, 85), (17, 20), (9, 8)])
def test_equal_at_odd_leading_sizes_with_the_shift_of_the_installed_version(SpectralConv, size):
    torch.manual_seed(0)
    conv = SpectralConv(3, 5, (8, 8), bias=False)
    rolled = computes(conv, size, size) == "rolled"
    assert difference(conv, size, compat_shift=rolled) < 1e-6
    assert difference(conv, size, compat_shift=not rolled) > 0.3


def test_ours_commutes_with_translations_at_odd_sizes_and_theirs_only_without_the_shift(SpectralConv):
    torch.manual_seed(0)
    conv = SpectralConv(3, 3, (8, 8))
    mixer = SpectralMixer.from_neuralop(conv)

    def defect(layer, n, axis):
        x = torch.randn(1, 3, n, n)
        y = layer(x)
        return ((layer(x.roll(2, axis)) - y.roll(2, axis)).norm() / y.norm()).item()

    def ours(x):
        return mixer(x.movedim(1, -1)).movedim(-1, 1)

    assert defect(conv, 16, 2) < 1e-6 and defect(ours, 16, 2) < 1e-6
    assert defect(ours, 17, 2) < 1e-6
    assert (defect(conv, 17, 2) > 0.1) == (computes(conv, (17, 17), (17, 17)) == "rolled")


@pytest.mark.parametrize(
    "n_modes, size, options",
    [
        ((6,), (16,), {}),
        ((6,), (17,), {}),
        ((7, 5), (16, 16), {}),
        ((7, 5), (17, 16), {}),
        ((4, 6, 4), (8, 7, 9), {}),
        ((4, 6, 4), (9, 8, 8), {}),
        ((8, 8), (16, 16), {"max_n_modes": (12, 7)}),
        ((4, 8), (16, 16), {"max_n_modes": (7, 7)}),
        ((8, 8), (16, 16), {"factorization": "tucker", "rank": 0.5}),
        ((8, 8), (16, 16), {"separable": True}),
    ],
)
def test_reads_every_kind_of_weight(SpectralConv, n_modes, size, options):
    torch.manual_seed(0)
    conv = SpectralConv(3, 3, n_modes, **options)
    assert difference(conv, size, compat_shift=computes(conv, size, size) == "rolled") < 1e-6


@pytest.mark.parametrize("size", [(16, 16), (8, 8), (8, 40), (24, 7)])
def test_clipped_modes_are_theirs_on_grids_too_small_for_all(SpectralConv, size):
    torch.manual_seed(0)
    conv = SpectralConv(3, 3, (24, 24), bias=False)
    assert difference(conv, size, clip_modes=True) < 1e-6
    with pytest.raises(ValueError, match=r"do not fit .* clip_modes=True or a grid of at least 24×24 points"):
        difference(conv, size)


def test_refuses_what_it_cannot_represent(SpectralConv):
    with pytest.raises(ValueError, match="real data"):
        SpectralMixer.from_neuralop(SpectralConv(2, 2, (4, 4), complex_data=True))
    with pytest.raises(ValueError, match="resolution_scaling_factor"):
        SpectralMixer.from_neuralop(SpectralConv(2, 2, (4, 4), resolution_scaling_factor=2))
