"""Spectra against Parseval, single waves, a dense reference, and the inputs on which other codes fail."""

from __future__ import annotations

import itertools
import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sciops.grids import Grid
from sciops.spectral import energy_above, power_spectrum

SHAPES = [(7,), (8,), (1,), (7, 8), (8, 7), (9, 9), (16, 16), (5, 6, 7), (6, 5, 4)]


def field(shape, seed=0, lead=(2, 3)):
    return np.random.default_rng(seed).standard_normal(lead + shape)


def dense_spectrum(u, extent):
    """By the definition: every mode from the whole complex FFT, one after the other."""
    c = np.fft.fftn(u, norm="forward")
    longest = max(extent)
    energy = {}
    for index in np.ndindex(*u.shape):
        k = [(i if i <= n // 2 else i - n) * longest / length for i, n, length in zip(index, u.shape, extent)]
        kappa = int(np.floor(np.sqrt(sum(q * q for q in k)) + 0.5 + 1e-9))  # ratios such as 0.3 / 0.2 are inexact
        energy[kappa] = energy.get(kappa, 0.0) + abs(c[index]) ** 2
    return np.array([energy.get(kappa, 0.0) for kappa in range(max(energy) + 1)])


@pytest.mark.parametrize("centering", ["node", "cell", "periodic"])
@pytest.mark.parametrize("shape", SHAPES)
def test_energies_sum_to_the_mean_square(shape, centering):
    if centering == "node" and min(shape) < 2:
        return
    u = field(shape)
    energy = power_spectrum(u, Grid(shape, centering=centering)).energy
    assert energy.shape[:2] == (2, 3)
    np.testing.assert_allclose(energy.sum(-1), np.square(u).mean(tuple(range(2, u.ndim))), rtol=1e-12)


@pytest.mark.parametrize("extension", ["odd", "even"])
@pytest.mark.parametrize("centering", ["node", "cell"])
@pytest.mark.parametrize("shape", [(7,), (8,), (7, 8), (5, 6, 7)])
def test_extended_energies_sum_to_the_quadrature_mean_square(shape, centering, extension):
    grid, u = Grid(shape, centering=centering), field(shape)
    if centering == "node" and extension == "odd":
        for axis in range(2, u.ndim):
            np.moveaxis(u, axis, 0)[[0, -1]] = 0.0
    w = grid.weights() / grid.weights().sum()
    energy = power_spectrum(u, grid, extension=extension).energy
    expected = (np.square(u) * w).sum(tuple(range(2, u.ndim)))
    np.testing.assert_allclose(energy.sum(-1), expected, rtol=1e-12)


@pytest.mark.parametrize("n", [8, 9])
@pytest.mark.parametrize("ndim", [1, 2, 3])
def test_every_mode_of_the_grid_fills_its_own_shell(n, ndim):
    grid = Grid((n,) * ndim, centering="periodic")
    x = grid.meshgrid()
    for k in itertools.islice(
        itertools.product(range(-(n // 2), n // 2 + 1), repeat=ndim), 0, None, 1 if ndim < 3 else 7
    ):
        u = np.cos(2 * np.pi * sum(q * axis for q, axis in zip(k, x)) + 0.3)
        energy = power_spectrum(u, grid).energy
        shell = int(np.floor(np.sqrt(sum(q * q for q in k)) + 0.5))
        np.testing.assert_allclose(energy[shell], np.square(u).mean(), rtol=1e-12, err_msg=str(k))
        assert np.delete(energy, shell).max(initial=0.0) < 1e-28, k


@pytest.mark.parametrize("shape, extent", [((9, 6), (1.0, 1.0)), ((8, 8), (1.0, 2.0)), ((7, 5, 4), (0.3, 0.1, 0.2))])
def test_agrees_with_the_definition_mode_by_mode(shape, extent):
    grid, u = Grid(shape, tuple((0, b) for b in extent), "periodic"), field(shape, lead=())
    wavenumber, energy = power_spectrum(u, grid)
    np.testing.assert_allclose(energy, dense_spectrum(u, extent), rtol=1e-11, atol=1e-16)
    np.testing.assert_array_equal(wavenumber, np.arange(len(energy)))


@pytest.mark.parametrize("shape", [(397, 400), (400, 397), (60, 50, 51)])
@pytest.mark.parametrize("dtype, tolerance", [(np.float64, 1e-12), (np.float32, 1e-5)])
def test_agrees_with_counted_bins_where_modes_are_summed_slab_by_slab(shape, dtype, tolerance):
    u = field(shape, lead=(3,)).astype(dtype)
    k = np.meshgrid(*(np.fft.fftfreq(n) * n for n in shape), indexing="ij")
    shell = np.floor(np.sqrt(sum(q * q for q in k)) + 0.5 + 1e-9).astype(int).ravel()
    axes = tuple(range(1, u.ndim))
    energies = np.square(np.abs(np.fft.fftn(u.astype(np.float64), axes=axes, norm="forward"))).reshape(3, -1)
    energy = power_spectrum(u, Grid(shape, centering="periodic")).energy
    expected = np.array([np.bincount(shell, weights=e) for e in energies])
    np.testing.assert_allclose(energy, expected, rtol=tolerance, atol=tolerance * expected.max() * 1e-3)


def test_wavenumbers_are_physical_on_boxes_that_are_not_cubes():
    grid = Grid((32, 32), ((0, 2), (0, 1)), "periodic")
    x, y = grid.meshgrid()
    spectrum = power_spectrum(np.sin(2 * np.pi * 3 * x), grid)
    # 3 waves per unit length are 6 per longest side, whichever axis they run along
    assert spectrum.energy.argmax() == 6 and power_spectrum(np.sin(2 * np.pi * 3 * y), grid).energy.argmax() == 6
    assert spectrum.fundamental == pytest.approx(np.pi)


def test_same_bins_for_all_orientations_where_a_peer_drops_them():
    # an isotropic spectrum that compares |k| == κ finds (3, 0) and (3, 4) but not (1, 1) or (2, −1)
    for n in (32, 33):
        grid = Grid((n, n), centering="periodic")
        x, y = grid.meshgrid()
        for kx, ky in [(3, 0), (0, 3), (3, 4), (1, 1), (2, -1), (3, -4), (5, 5), (-5, 5)]:
            energy = power_spectrum(np.cos(2 * np.pi * (kx * x + ky * y)), grid).energy
            assert energy.sum() == pytest.approx(0.5, rel=1e-12)
            assert energy[int(np.hypot(kx, ky) + 0.5)] == pytest.approx(0.5, rel=1e-12)
        constant = power_spectrum(np.full((n, n), 3.0), grid).energy
        assert constant[0] == pytest.approx(9.0) and constant[1:].max() < 1e-28
        noise = field((n, n), lead=())
        assert power_spectrum(noise, grid).energy.sum() == pytest.approx(np.square(noise).mean(), rel=1e-12)


@pytest.mark.parametrize("n", [16, 17])
def test_nyquist_is_counted_once(n):
    grid = Grid(n, centering="periodic")
    u = np.cos(np.pi * np.arange(n)) if n % 2 == 0 else np.cos(2 * np.pi * (n // 2) * np.arange(n) / n)
    energy = power_spectrum(u, grid).energy
    assert energy[n // 2] == pytest.approx(np.square(u).mean(), rel=1e-12)
    assert len(energy) == n // 2 + 1


def test_white_noise_follows_the_number_of_modes():
    grid = Grid((24, 25), centering="periodic")
    spectrum = power_spectrum(field((24, 25), lead=(400,)), grid).mean()
    assert spectrum.modes.sum() == grid.size
    ratio = spectrum.energy / (spectrum.modes / grid.size)
    # each shell averages 400·modes independent squares of variance 2
    assert (np.abs(ratio - 1) < 5 * np.sqrt(2 / (400 * spectrum.modes))).all()


@pytest.mark.parametrize("centering", ["node", "cell"])
def test_sine_and_cosine_modes_are_half_waves(centering):
    grid = Grid((13, 9), centering=centering)
    x, y = grid.meshgrid()
    for p, q in [(1, 1), (3, 2), (6, 7), (11, 1)]:
        shell = int(np.floor(np.hypot(p, q) / 2 + 0.5))
        for wave, extension in ((np.sin, "odd"), (np.cos, "even")):
            energy = power_spectrum(wave(np.pi * p * x) * wave(np.pi * q * y), grid, extension=extension).energy
            assert energy[shell] == pytest.approx(0.25, rel=1e-12)
            assert energy.sum() == pytest.approx(0.25, rel=1e-12)


def test_extension_and_taper_remove_the_tail_of_the_wrap():
    grid = Grid(257)
    x = grid.coordinates()[0]
    ramp = x - 0.5
    tail = {
        kind: power_spectrum(ramp, grid, **options).energy[60:120].sum()
        for kind, options in {"none": {}, "even": {"extension": "even"}, "hann": {"taper": "hann"}}.items()
    }
    assert tail["even"] < 1e-3 * tail["none"]
    assert tail["hann"] < 1e-6 * tail["none"]
    arch = x * (1 - x)
    sine = power_spectrum(arch, grid, extension="odd").energy
    # the odd extension of a function that vanishes at the walls is C¹: coefficients fall like p⁻³, energies like p⁻⁶
    decay = np.log(sine[30:40].sum() / sine[15:20].sum()) / np.log(2)
    assert -5.3 < decay < -4.7  # the second range is twice as wide: −6 + 1


@pytest.mark.parametrize("centering", ["node", "cell", "periodic"])
def test_hann_keeps_the_energy_of_noise_and_the_weighted_mean_square(centering):
    grid, u = Grid((31, 20), centering=centering), field((31, 20), lead=(300,))
    energy = power_spectrum(u, grid, taper="hann").energy.sum(-1)
    shift, last = {"node": (0, 1), "cell": (0.5, 0), "periodic": (0, 0)}[centering]
    w = [np.sin(np.pi * (np.arange(n - last) + shift) / (n - last)) ** 4 for n in grid.shape]
    w = np.multiply.outer(*w)
    inner = u[:, : w.shape[0], : w.shape[1]]
    np.testing.assert_allclose(energy, (w * inner**2).sum((1, 2)) / w.sum(), rtol=1e-12)
    assert energy.mean() == pytest.approx(1.0, abs=0.02)


def test_complex_fields_and_torch_and_leading_axes():
    grid = Grid((9, 8), centering="periodic")
    u = field((9, 8)) + 1j * field((9, 8), seed=1)
    energy = power_spectrum(u, grid).energy
    np.testing.assert_allclose(energy.sum(-1), np.square(np.abs(u)).mean((2, 3)), rtol=1e-12)
    full = np.square(np.abs(np.fft.fftn(u, axes=(2, 3), norm="forward")))
    radius = np.hypot(*np.meshgrid(np.fft.fftfreq(9) * 9, np.fft.fftfreq(8) * 8, indexing="ij"))
    shell = np.floor(radius + 0.5).astype(int)
    for kappa in range(shell.max() + 1):
        np.testing.assert_allclose(energy[..., kappa], full[..., shell == kappa].sum(-1), rtol=1e-11)
    torch_spectrum = power_spectrum(torch.from_numpy(u.real).float(), grid)
    assert isinstance(torch_spectrum.energy, torch.Tensor) and torch_spectrum.energy.dtype == torch.float64
    np.testing.assert_allclose(torch_spectrum.energy, power_spectrum(u.real, grid).energy, rtol=2e-4, atol=1e-9)
    one = power_spectrum(u.real[1, 2], grid).energy
    np.testing.assert_allclose(power_spectrum(u.real, grid).energy[1, 2], one, rtol=1e-12)


def test_gradients_are_those_of_the_mean_square():
    grid = Grid((5, 6))
    u = torch.from_numpy(field((5, 6), lead=(2,))).requires_grad_()
    power_spectrum(u, grid).energy.sum().backward()
    torch.testing.assert_close(u.grad, 2 * u.detach() / 30, rtol=1e-12, atol=1e-14)
    assert torch.autograd.gradcheck(lambda v: power_spectrum(v, grid, extension="even").energy, (u,))


@pytest.mark.gpu
@pytest.mark.parametrize("options", [{}, {"taper": "hann"}, {"extension": "even"}])
def test_the_same_numbers_on_a_gpu(options):
    grid = Grid((33, 40))
    u = torch.from_numpy(field((33, 40)))
    here, there = power_spectrum(u, grid, **options), power_spectrum(u.cuda(), grid, **options)
    assert there.energy.is_cuda
    torch.testing.assert_close(there.energy.cpu(), here.energy, rtol=1e-11, atol=1e-18)


def test_labels_kept_from_inference_mode_serve_a_later_gradient():
    grid = Grid((11, 7), centering="periodic")
    u = torch.from_numpy(field((11, 7), lead=()))
    with torch.inference_mode():
        power_spectrum(u, grid)
    power_spectrum(u.requires_grad_(), grid).energy.sum().backward()
    torch.testing.assert_close(u.grad, 2 * u.detach() / grid.size)


@settings(max_examples=40, deadline=None)
@given(
    shape=st.lists(st.integers(2, 9), min_size=1, max_size=3),
    extent=st.lists(st.floats(0.1, 10), min_size=3, max_size=3),
    centering=st.sampled_from(["node", "cell", "periodic"]),
    norm=st.sampled_from(["isotropic", "max"]),
    seed=st.integers(0, 99),
)
def test_parseval_on_any_box(shape, extent, centering, norm, seed):
    grid = Grid(tuple(shape), tuple((0, b) for b in extent[: len(shape)]), centering)
    u = field(tuple(shape), seed, lead=())
    spectrum = power_spectrum(u, grid, norm=norm)
    assert spectrum.energy.sum() == pytest.approx(np.square(u).mean(), rel=1e-12)
    assert spectrum.modes.sum() == grid.size
    assert np.isclose(spectrum.energy[0], u.mean() ** 2, rtol=1e-9, atol=1e-18)


def test_energy_above_counts_what_a_truncation_drops():
    grid = Grid((16, 15), centering="periodic")
    u = field((16, 15))
    c = np.fft.fft2(u, norm="forward")
    kx, ky = np.meshgrid(np.abs(np.fft.fftfreq(16) * 16), np.abs(np.fft.fftfreq(15) * 15), indexing="ij")
    energy = np.square(np.abs(c))
    energy[..., 0, 0] = 0
    for modes in (1, 4, 7, (3, 5), 20):
        a, b = (modes, modes) if isinstance(modes, int) else modes
        above = energy[..., (kx >= a) | (ky >= b)].sum(-1) / energy.sum((-1, -2))
        np.testing.assert_allclose(energy_above(u, grid, modes), above, rtol=1e-11, atol=1e-15)
    square = Grid((16, 16), centering="periodic")
    v = field((16, 16))
    np.testing.assert_allclose(
        energy_above(power_spectrum(v, square, norm="max"), None, 5), energy_above(v, square, 5), rtol=1e-11
    )
    np.testing.assert_array_equal(energy_above(np.ones((2, 16, 16)), square, 3), 0.0)
    x = Grid(9).coordinates()[0]
    assert energy_above(np.sin(6 * np.pi * x), Grid(9), 3, extension="odd") == pytest.approx(1.0)
    assert energy_above(np.sin(5 * np.pi * x), Grid(9), 3, extension="odd") == pytest.approx(0.0, abs=1e-25)


def test_memory_stays_near_the_input_in_three_dimensions():
    # a one-hot matrix of modes times bins would take 200 times the input here
    code = """
import resource, torch
from sciops.grids import Grid
from sciops.spectral import power_spectrum
torch.set_num_threads(1)
power_spectrum(torch.zeros(1, 8, 8, 8, dtype=torch.float64), Grid((8, 8, 8), centering="periodic"))
u = torch.zeros(2, 96, 96, 96, dtype=torch.float64)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
power_spectrum(u.normal_(), Grid((96, 96, 96), centering="periodic"))
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print((after - before) * 1024 / u.nbytes)
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    # `normal_` touches the input after `before` was read: the count includes the input itself
    assert float(result.stdout) < 3.0


@pytest.mark.parametrize(
    "grid, options, message",
    [
        (Grid((8, 8), centering="periodic"), {"extension": "odd"}, "needs walls"),
        (Grid((8, 8), 0.9, "node", (0, 1)), {"extension": "even"}, "up to the walls"),
        (Grid((8, 2)), {"extension": "odd"}, "interior node"),
        (Grid((8, 8)), {"extension": "odd", "taper": "hann"}, "pass one"),
        (Grid((8, 8)), {"extension": "sine"}, "expected None, 'odd'"),
        (Grid((8, 8)), {"taper": "hamming"}, "expected None or 'hann'"),
        (Grid((8, 2)), {"taper": "hann"}, "at least two points"),
        (Grid((8, 8)), {"norm": "l1"}, "expected 'isotropic'"),
        (Grid((9, 8)), {}, "expected its last axes to be the grid"),
    ],
)
def test_refusals_say_what_fits(grid, options, message):
    shape = grid.shape if "last axes" not in message else (8, 8)
    with pytest.raises(ValueError, match=message):
        power_spectrum(np.zeros(shape), grid, **options)


def test_modes_that_are_no_number_are_refused():
    with pytest.raises(ValueError, match="for each of the 2 axes"):
        energy_above(np.zeros((8, 8)), Grid((8, 8)), (1, 2, 3))
    with pytest.raises(ValueError, match="needs its grid"):
        energy_above(np.zeros((8, 8)), None, 3)
