"""The spectral layer of any neuraloperator by its behaviour: stand-ins with and without the faults of releases."""

import itertools
import math

import pytest
import torch
from torch import nn

from sciops.models.operators.neuralop_spectral import Situation, behaviour, computes, correct, corrected, spectral_sum


class Faulty(nn.Module):
    """Attributes and conventions of neuraloperator's SpectralConv, with `fftshift` taken for its own inverse."""

    def unshift(self, spectrum, axes):
        return torch.fft.fftshift(spectrum, dim=axes) if axes else spectrum

    def __init__(self, in_channels, out_channels, n_modes, complex_data=False, max_n_modes=None, bias=True):
        super().__init__()
        self.order, self.complex_data, self.fft_norm = len(n_modes), complex_data, "forward"
        self.separable, self.resolution_scaling_factor, self.fno_block_precision = False, None, "full"
        self.n_modes = list(n_modes) if complex_data else [*n_modes[:-1], n_modes[-1] // 2 + 1]
        self.max_n_modes = self.n_modes if max_n_modes is None else list(max_n_modes)
        shape = (in_channels, out_channels, *self.max_n_modes)
        self.weight = nn.Parameter(torch.randn(shape, dtype=torch.complex64))
        self.bias = nn.Parameter(torch.randn(out_channels, *[1] * self.order)) if bias else None
        self.calls = 0

    def _contract(self, x, weight, separable):
        return torch.einsum("bi...,io...->bo...", x, weight)

    def first_row(self, stored, used):
        return (stored - used) // 2

    def forward(self, x, output_shape=None):
        self.calls += 1
        axes = list(range(-self.order, 0))
        spectrum = torch.fft.rfftn(x, dim=axes, norm="forward")
        rows = axes[:-1]
        spectrum = torch.fft.fftshift(spectrum, dim=rows) if rows else spectrum
        out = torch.zeros(x.shape[0], self.weight.shape[1], *spectrum.shape[2:], dtype=spectrum.dtype)
        at, cut = [slice(None)] * 2, [slice(None)] * 2
        for axis, used, stored in zip(axes, self.n_modes, self.max_n_modes):
            n = spectrum.shape[axis]
            k = min(n, used, stored)
            start, first = (n // 2 - k // 2, self.first_row(stored, k)) if axis != -1 else (0, 0)
            at.append(slice(start, start + k))
            cut.append(slice(first, first + k))
        out[tuple(at)] = self._contract(spectrum[tuple(at)], self.weight[tuple(cut)], separable=False)
        y = torch.fft.irfftn(self.unshift(out, rows), s=output_shape or x.shape[2:], dim=axes, norm="forward")
        return y if self.bias is None else y + self.bias


class Mended(Faulty):
    """The roll is mended, other faults are left."""

    def unshift(self, spectrum, axes):
        return torch.fft.ifftshift(spectrum, dim=axes) if axes else spectrum


class Sound(Mended):
    """Right at every size."""

    def forward(self, x, output_shape=None):
        self.calls += 1
        return spectral_sum(self, x, output_shape)


class Foreign(Mended):
    """Weights that mean something else: nothing can be corrected that is not understood."""

    def forward(self, x, output_shape=None):
        return 2 * super().forward(x, output_shape)


def by_frequencies(conv, x, sizes):
    """Re Σ_k c_k R_k X(k) exp(ik·s), one frequency after the other in complex128, X(k) the mean of x·exp(−ik·s)."""
    given, leading = x.shape[2:], conv.order - (not conv.complex_data)
    x, out = x.to(torch.complex128), torch.zeros(x.shape[0], conv.weight.shape[1], *sizes, dtype=torch.complex128)
    rows = []
    for axis, (n, used, stored) in enumerate(zip(given, conv.n_modes, conv.max_n_modes)):
        if axis < leading:
            k = min(n, used, stored)
            rows.append([(f, f + stored // 2) for f in range(-(k // 2), k - k // 2)])
        else:
            rows.append([(f, f) for f in range(min(n // 2 + 1, used, stored))])
    for pairs in itertools.product(*rows):
        k = [f for f, _ in pairs]
        if any(not -(m // 2) <= f < m - m // 2 for f, m in zip(k[:leading], sizes)):
            continue
        if leading < conv.order and 2 * k[-1] > sizes[-1]:
            continue
        share = 1 if conv.complex_data or k[-1] == 0 or 2 * k[-1] == sizes[-1] else 2
        wave, coefficient = wave_of(k, sizes), (x * wave_of(k, given).conj()).flatten(2).mean(-1)
        matrix = conv.weight[(slice(None), slice(None), *[i for _, i in pairs])].to(torch.complex128)
        out += share * (coefficient @ matrix)[(..., *[None] * conv.order)] * wave
    out = out if conv.complex_data else out.real
    return out if conv.bias is None else out + conv.bias


def wave_of(k, sizes):
    phase = torch.zeros((), dtype=torch.float64)
    for f, n in zip(k, sizes):
        phase = phase[..., None] + 2 * math.pi * f * torch.arange(n, dtype=torch.float64) / n
    return torch.polar(torch.ones_like(phase), phase)


CASES = [
    ((9,), (9,), (6,), None),
    ((8,), (13,), (14,), None),
    ((8, 8), (8, 8), (4, 4), None),
    ((9, 8), (9, 8), (4, 4), None),
    ((17, 17), (17, 17), (6, 6), None),
    ((8, 9), (12, 12), (4, 9), None),
    ((8, 8), (5, 6), (6, 8), None),
    ((8, 8), (8, 8), (5, 4), (6, 3)),
    ((5, 6), (5, 6), (8, 8), None),
    ((5, 7, 4), (5, 7, 4), (4, 4, 4), None),
    ((5, 4, 5), (8, 3, 6), (3, 4, 4), None),
]


def built(kind, modes, most, **options):
    torch.manual_seed(0)
    return kind(2, 3, modes, max_n_modes=most, **options)


@pytest.mark.parametrize("kind", [Faulty, Mended, Sound])
@pytest.mark.parametrize("sizes, out_sizes, modes, most", CASES)
def test_the_corrected_layer_is_the_sum_over_frequencies_whatever_the_version_gets_wrong(
    kind, sizes, out_sizes, modes, most
):
    conv = built(kind, modes, most)
    x = torch.randn(2, 2, *sizes)
    correct(conv, rolled=False)
    with torch.no_grad():
        y = conv(x, output_shape=None if sizes == out_sizes else out_sizes)
        torch.testing.assert_close(y, by_frequencies(conv, x, out_sizes).float(), rtol=1e-4, atol=1e-5)
    assert computes(conv, sizes, out_sizes) == "sum"
    assert conv.calls == 1 or kind is not Sound  # the installed code is used where it is right


@pytest.mark.parametrize("kind", [Faulty, Mended, Sound])
@pytest.mark.parametrize("sizes, out_sizes, modes, most", CASES)
def test_the_old_shift_is_the_same_whatever_the_version(kind, sizes, out_sizes, modes, most):
    old, conv = built(Faulty, modes, most), built(kind, modes, most)
    x = torch.randn(2, 2, *sizes)
    output_shape = None if sizes == out_sizes else out_sizes
    correct(conv, rolled=True)
    with torch.no_grad():
        torch.testing.assert_close(conv(x, output_shape), old(x, output_shape), rtol=1e-4, atol=1e-5)
    assert computes(conv, sizes, out_sizes) == "rolled"


def test_each_version_is_known_by_what_it_computes():
    even, odd, resized, uneven = (Situation(*flags) for flags in ((0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)))
    for order in (2, 3):
        faulty, mended, sound = (behaviour(kind, order, False) for kind in (Faulty, Mended, Sound))
        assert faulty[even] == mended[even] == sound[even] == {"sum", "rolled"}
        assert faulty[odd] == {"rolled"} and mended[odd] == sound[odd] == {"sum"}
        assert faulty[resized] == {"rolled"} and sound[resized] == {"sum"} and "sum" not in mended[resized]
        assert faulty[uneven] == mended[uneven] == {"rolled"} and sound[uneven] == {"sum"}
    assert computes(built(Mended, (4, 4), None), (9, 9), (9, 9)) == "sum"
    assert computes(built(Faulty, (4, 4), None), (9, 9), (9, 9)) == "rolled"
    assert computes(built(Mended, (4, 4), None), (9, 9), (18, 18)) is None


def test_even_sizes_run_the_installed_code_and_odd_ones_only_where_it_is_right():
    for kind, calls in ((Faulty, 1), (Mended, 2)):
        conv = built(kind, (4, 4), None)
        before, x = conv(torch.ones(1, 2, 8, 9)), torch.ones(1, 2, 9, 8)
        conv.calls = 0
        correct(conv, rolled=False)
        assert torch.equal(conv(torch.ones(1, 2, 8, 9)), before)
        conv(x)
        assert conv.calls == calls


def test_complex_data_keep_frequencies_around_zero_on_every_axis():
    conv = built(Faulty, (4, 5), None, complex_data=True)
    correct(conv, rolled=False)
    x = torch.randn(2, 2, 7, 8, dtype=torch.complex64)
    with torch.no_grad():
        for sizes in ((7, 8), (9, 6)):
            expected = by_frequencies(conv, x, sizes).to(x.dtype)
            torch.testing.assert_close(conv(x, output_shape=sizes), expected, rtol=1e-4, atol=1e-5)


def test_an_unknown_layer_is_refused_in_one_line():
    with pytest.raises(ValueError, match="Foreign is not a known Fourier layer on even grids of 2 axes") as error:
        correct(built(Foreign, (4, 4), None), rolled=False)
    assert "\n" not in str(error.value)


def test_measuring_leaves_the_random_numbers_alone():
    torch.manual_seed(3)
    expected = torch.randn(2)
    behaviour.cache_clear()
    corrected.cache_clear()
    torch.manual_seed(3)
    behaviour(Faulty, 2, False)
    assert torch.equal(torch.randn(2), expected)


def test_gradients_are_those_of_the_sum():
    conv = built(Faulty, (3, 4), None).requires_grad_()
    correct(conv, rolled=False)
    x = torch.randn(1, 2, 5, 6, requires_grad=True)
    cotangent = torch.randn(1, 3, 5, 6)
    inputs = [x, conv.weight, conv.bias]
    ours = torch.autograd.grad((conv(x) * cotangent).sum(), inputs)
    naive = torch.autograd.grad((by_frequencies(conv, x, (5, 6)) * cotangent).sum(), inputs)
    for a, b in zip(ours, naive):
        torch.testing.assert_close(a, b.to(a.dtype), rtol=1e-4, atol=1e-5)
