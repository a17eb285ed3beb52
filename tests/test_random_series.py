"""Random waves: the sum they are, one function on every grid, independence of batch and options, the laws' moments."""

import numpy as np
import pytest

from sciops import Grid, restrict
from sciops.random_fields import random_waves

LINE = Grid((256,), 128.0, "periodic")
LPSDA = dict(terms=10, wavenumbers=(1, 2), amplitudes=(-0.5, 0.5), seed=3)
PDEBENCH = dict(terms=2, wavenumbers=(1, 4), amplitudes=(0, 1), absolute=0.1, window=0.1, either_sign=True, seed=3)


def test_equals_the_naive_sum():
    grid = Grid((37,), extent=(-2, 3), centering="periodic")
    got = random_waves(grid, 2, first=4, **LPSDA)
    for i, u in enumerate(got):
        draw = np.random.default_rng(np.random.SeedSequence(3, spawn_key=(4 + i,)))
        a, n, phase = draw.uniform(-0.5, 0.5, 10), draw.integers(1, 3, 10), draw.uniform(0, 2 * np.pi, 10)
        want = sum(a[j] * np.sin(2 * np.pi * n[j] * (grid.coordinates()[0] + 2) / 5 + phase[j]) for j in range(10))
        np.testing.assert_allclose(u, want, atol=1e-14)


def test_only_the_asked_wavenumbers_and_their_share():
    """Amplitudes are independent: a mode holds N/(its number of choices) · E[A²]/2 of the mean square on average."""
    fields = random_waves(LINE, 3000, **LPSDA)
    energy = 2 * (np.abs(np.fft.rfft(fields, norm="forward")) ** 2).mean(0)
    assert energy[0] < 1e-30 and energy[3:].max() < 1e-28
    # sums over 10 terms: relative deviation of a mode's energy is about 1.1, over 3000 samples 2 per cent
    np.testing.assert_allclose(energy[1:3], 10 / 2 * (1 / 12) / 2, rtol=0.1)
    unit = random_waves(LINE, 3000, terms=1, wavenumbers=(0, 7), amplitudes=(1, 1.0001), seed=0)
    peaks = np.bincount(np.abs(np.fft.rfft(unit)).argmax(1), minlength=8)
    assert (np.abs(peaks - 375) < 5 * np.sqrt(375)).all()  # every wavenumber as likely


def test_shares_of_folded_flipped_and_cut():
    plain = random_waves(LINE, 2000, **PDEBENCH | dict(absolute=0.0, window=0.0, either_sign=False))
    folded = random_waves(LINE, 2000, **PDEBENCH | dict(window=0.0, either_sign=False))
    changed = (folded != plain).any(1)
    assert abs(changed.sum() - 200) < 5 * np.sqrt(180) and np.array_equal(folded[changed], np.abs(plain[changed]))
    flipped = random_waves(LINE, 2000, **PDEBENCH | dict(window=0.0))
    signs = np.where((flipped == folded).all(1), 1, -1)
    assert abs(signs.sum()) < 5 * np.sqrt(2000) and np.array_equal(flipped, signs[:, None] * folded)
    cut = random_waves(LINE, 2000, **PDEBENCH)
    changed = (cut != flipped).any(1)
    assert abs(changed.sum() - 200) < 5 * np.sqrt(180)
    xi = LINE.coordinates()[0] / 128
    edge = (xi < 0.05) | (xi > 0.95)
    assert np.abs(cut[changed][:, edge]).max() < 1e-3
    middle = (xi > 0.48) & (xi < 0.52)
    np.testing.assert_allclose(cut[changed][:, middle], flipped[changed][:, middle], rtol=3e-3)


@pytest.mark.parametrize(
    "options", [LPSDA, PDEBENCH, PDEBENCH | {"normalize": True}], ids=["lpsda", "pdebench", "unit"]
)
def test_one_function_on_every_grid_and_in_every_batch(options):
    fields = random_waves(LINE, 60, **options)
    coarse = LINE.coarsen(8)
    np.testing.assert_allclose(restrict(fields, LINE, coarse), random_waves(coarse, 60, **options), atol=1e-13)
    node = random_waves(Grid((257,), 128.0), 60, **options)
    np.testing.assert_allclose(node[:, :-1], fields, atol=1e-13)
    assert np.array_equal(fields[7:9], random_waves(LINE, 2, first=7, **options))
    assert random_waves(LINE, 0, **options).shape == (0, 256)


def test_normalized_fields_reach_from_nought_to_one():
    fields = random_waves(Grid((4096,), 3.0, "periodic"), 50, normalize=True, **PDEBENCH)
    assert np.array_equal(fields.min(1), np.zeros(50)) and np.array_equal(fields.max(1), np.ones(50))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (dict(terms=0), "terms=0: expected a whole number of at least 1"),
        (dict(wavenumbers=(3, 1)), r"wavenumbers=\(3, 1\): expected the smallest and the largest"),
        (dict(wavenumbers=(-1, 1)), "wavenumbers=-1"),
        (dict(amplitudes=(1, 0)), r"amplitudes=\(1, 0\): expected the least"),
        (dict(absolute=1.5), "absolute=1.5: expected a probability"),
        (dict(window=-0.1), "window=-0.1"),
        (dict(seed=-1), "seed=-1"),
        (dict(first=0.5), "first=0.5"),
        (dict(grid=Grid((4, 4))), "grid of 2 axes: waves are drawn on one"),
    ],
)
def test_refusals(change, message):
    options = dict(grid=LINE, samples=2) | LPSDA | change
    with pytest.raises(ValueError, match=message):
        random_waves(options.pop("grid"), options.pop("samples"), **options)
    with pytest.raises(TypeError, match="expected a Grid, such as"):
        random_waves(256, 1, **LPSDA)


@pytest.mark.parametrize("terms", [1, 2])
def test_a_constant_draw_is_normalised_to_zero(terms):
    """With wavenumber 0 among the choices all terms can be constants: (u − min u)/(max u − min u) is 0/0 there."""
    options = dict(terms=terms, wavenumbers=(0, 4), amplitudes=(0.0, 1.0), seed=0)
    plain, unit = random_waves(LINE, 200, **options), random_waves(LINE, 200, normalize=True, **options)
    constant = np.ptp(plain, axis=1) == 0
    assert 0 < constant.sum() < 100 and np.isfinite(unit).all()
    assert (unit[constant] == 0).all()
    np.testing.assert_allclose(unit[~constant].min(1), 0, atol=2e-3)
    np.testing.assert_allclose(unit[~constant].max(1), 1, atol=2e-3)


@pytest.mark.parametrize("wavenumber", [2048, 4096, 5000])
def test_short_waves_reach_from_zero_to_one(wavenumber):
    """On 4096 points these waves lie on their zeros, or alternate between two values."""
    grid = Grid((20011,), centering="periodic")
    waves = dict(terms=1, wavenumbers=(wavenumber, wavenumber), amplitudes=(0.5, 1.0), seed=0)
    unit = random_waves(grid, 3, normalize=True, **waves)
    np.testing.assert_allclose(unit.min(1), 0, atol=0.05)
    np.testing.assert_allclose(unit.max(1), 1, atol=0.05)


@pytest.mark.parametrize("n", [1, 2, 3, 8])
def test_tiny_grids_and_the_nyquist_wave_are_samples_of_the_function(n):
    fine, waves = Grid((8 * n,), centering="periodic"), dict(terms=3, wavenumbers=(0, n), amplitudes=(-1, 1), seed=1)
    for normalize in (False, True):
        u, v = (random_waves(g, 20, normalize=normalize, **waves) for g in (fine, fine.coarsen(8)))
        assert np.isfinite(u).all()
        np.testing.assert_allclose(restrict(u, fine, fine.coarsen(8)), v, atol=1e-14)
