"""Published bounds against dense matrices in float64, and their comparison with ours."""

import math

import pytest
import torch
from torch.nn import functional

from studies.spectral_norms import comparison, published
from studies.spectral_norms.kernels import kernel_of


def dense(weight, size, padding):
    """σ₁ of the layer, from its matrix."""
    channels, reach = weight.shape[1], weight.shape[2] // 2
    x = torch.eye(channels * size * size, dtype=torch.float64).reshape(-1, channels, size, size)
    x = functional.pad(x, [reach] * 4, mode="circular" if padding == "circular" else "constant")
    return float(torch.linalg.svdvals(functional.conv2d(x, weight).flatten(1))[0])


def random_kernel(out, channels, k, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(out, channels, k, k, dtype=torch.float64, generator=generator)


SHAPES = [(1, 1, 3, 5), (3, 2, 3, 6), (2, 4, 5, 7), (4, 4, 3, 4), (2, 2, 5, 5)]


@pytest.mark.parametrize("padding", comparison.PADDINGS)
@pytest.mark.parametrize("out, channels, k, n", SHAPES)
def test_bounds_lie_above_the_dense_norm_and_estimates_by_power_iteration_below(out, channels, k, n, padding):
    for seed in range(3):
        weight = random_kernel(out, channels, k, seed)
        exact = dense(weight, n, padding)
        assert comparison.truth(weight, n, padding) == pytest.approx(exact, rel=1e-12)
        for name, one in comparison.ESTIMATES.items():
            value = float(one.call(weight, n, padding))
            if padding in one.bounds:
                assert value >= exact * (1 - 1e-12), name
            elif name.startswith("Ryu"):
                assert value <= exact * (1 + 1e-12), name
        if k <= n:
            assert published.miyato(weight) <= exact * (1 + 1e-12)  # a part of the layer's matrix


def test_circular_symbols_are_exact():
    weight = random_kernel(3, 2, 3)
    assert published.sedghi(weight, 6) == pytest.approx(dense(weight, 6, "circular"), rel=1e-12)
    assert published.gram_of_symbols(weight, 6, 12) == pytest.approx(dense(weight, 6, "circular"), rel=1e-4)


def test_kernels_of_one_point_are_matrices():
    weight = random_kernel(4, 3, 1)
    exact = float(torch.linalg.svdvals(weight[:, :, 0, 0])[0])
    for value in (published.singla_feizi(weight), published.sedghi(weight, 4), published.miyato(weight, 500)):
        assert value == pytest.approx(exact, rel=1e-12)
    assert published.ryu(weight, 3, steps=500) == pytest.approx(exact, rel=1e-9)
    assert published.araujo(weight) == pytest.approx(float(weight.norm()))  # Frobenius: it separates the channels


def test_araujo_tends_to_the_supremum_of_one_channel():
    weight = random_kernel(1, 1, 5)
    highest = float(torch.fft.rfft2(weight, s=(2000, 2000)).abs().max())
    values = [published.araujo(weight, samples) for samples in (10, 50, 1000)]
    assert values == sorted(values, reverse=True) and values[-1] == pytest.approx(highest, rel=5e-3)
    assert published.araujo(weight, 5) > highest  # 2d + 1 samples are enough for a bound
    both = random_kernel(5, 2, 3)
    swapped = both.transpose(0, 1)
    assert published.araujo(both) == pytest.approx(published.araujo(swapped))  # the fewer channels are outside


def test_singla_and_feizi_reach_the_norm_of_a_separable_constant_kernel():
    weight = torch.ones(1, 1, 3, 3, dtype=torch.float64)  # rank 1: √(k·k)·‖W‖ = 9, the norm of the mean times 9
    assert published.singla_feizi(weight) == pytest.approx(9) and published.sedghi(weight, 6) == pytest.approx(9)
    weight = random_kernel(3, 2, 3)
    assert published.singla_feizi(weight, 500) == pytest.approx(published.singla_feizi(weight), rel=1e-9)
    shapes = [tuple(matrix.shape) for matrix in published.reshapings(random_kernel(4, 2, 3))]
    assert shapes == [(12, 6), (12, 6), (4, 18), (36, 2)]


def test_the_circular_norm_is_no_bound_with_zeros():
    ratios = [
        dense(w, 5, "zeros") / published.sedghi(w, 5) for w in (random_kernel(1, 1, 5, seed) for seed in range(60))
    ]
    assert max(ratios) > 1.01


def test_lanczos_agrees_with_the_dense_matrix(monkeypatch):
    weight = random_kernel(2, 2, 3)
    monkeypatch.setattr(comparison, "_DENSE", 10)
    assert comparison.truth(weight, 8, "zeros") == pytest.approx(dense(weight, 8, "zeros"), rel=1e-9)


def test_the_comparison_counts_and_judges():
    shapes = comparison.layers((1, 2), (3,), (6, 8), products=2 * 6 * 3 * 2 * 6 * 3)
    assert shapes == [(1, 3, 6), (1, 3, 8), (2, 3, 6)]
    rows = comparison.compare(shapes[-1:], ("Gaussian",), rounds=1, seed=0)
    table = {(row["padding"], row["method"]): row for row in comparison.summary(rows)}
    assert len(rows) == 2 and len(table) == 2 * len(comparison.ESTIMATES) and not comparison.broken(rows)
    assert table["circular", "spectral_norm"]["verdict"] == "reference"
    assert table["circular", "spectral_norm"]["median"] == pytest.approx(1, abs=1e-12)
    assert (
        table["zeros", "Sedghi 2019"]["verdict"] == table["zeros", "Ryu 2019, 10 power steps"]["verdict"] == "no bound"
    )
    assert table["zeros", "Ryu 2019, 10 power steps"]["below"] == 1
    assert table["circular", "Araujo 2021, 50 samples"]["verdict"].startswith("looser")
    rows[0]["values"]["Singla & Feizi 2021"] = 0.5 * rows[0]["truth"]
    assert comparison.broken(rows) == ["Singla & Feizi 2021 of 2 channels, 3×3, n = 6, circular"]


def test_kernels_are_reproducible_and_of_their_size():
    for kind in ("Gaussian", "trained"):
        first, again, other = (kernel_of(kind, 2, 3, seed, steps=2) for seed in (0, 0, 1))
        assert first.shape == (2, 2, 3, 3) and first.dtype == torch.float64
        assert torch.equal(first, again) and not torch.equal(first, other)
    many = kernel_of("Gaussian", 32, 3, 0)
    assert float(many.square().sum()) == pytest.approx(32, rel=0.05) and math.isfinite(float(many.sum()))


def test_refusals():
    with pytest.raises(ValueError, match="kind='smooth': expected one of Gaussian, trained"):
        kernel_of("smooth", 2, 3, 0)
    with pytest.raises(ValueError, match="samples=4: expected more than 4"):
        published.araujo(random_kernel(1, 1, 5), 4)
    with pytest.raises(ValueError, match="size=3: expected at least the 5 points"):
        published.sedghi(random_kernel(1, 1, 5), 3)
