"""Sines, cosines and Fourier modes of one axis: transforms, Parseval, eigenvalues, quadrature, in float64."""

import numpy as np
import pytest
import torch

from sciops import bases
from sciops.bases import Basis

LENGTH = 2.5
CASES = [
    Basis(kind, n, centering, LENGTH)
    for kind, centering, sizes in (
        ("sine", "node", (3, 4, 12, 17)),
        ("sine", "cell", (1, 2, 9, 16)),
        ("cosine", "node", (2, 3, 12, 17)),
        ("cosine", "cell", (1, 2, 9, 16)),
        ("fourier", "periodic", (1, 2, 9, 16)),
        ("fourier", "cell", (1, 2, 9, 16)),
    )
    for n in sizes
]
every_basis = pytest.mark.parametrize("basis", CASES, ids=lambda b: f"{b.kind}-{b.centering}-{b.n}")
ROUNDING = dict(rtol=1e-12, atol=1e-13)


def coefficients(basis, rows=3):
    rng = np.random.default_rng(basis.n)
    c = rng.standard_normal((rows, basis.numbers.size))
    if basis.kind != "fourier":
        return c
    return c + 1j * rng.standard_normal(c.shape) * (basis.multiplicity() == 2)


@every_basis
def test_synthesis_is_the_sum_of_the_modes_and_analysis_its_inverse(basis):
    c = coefficients(basis)
    u = basis.synthesis(c)
    np.testing.assert_allclose(u, ((c * basis.multiplicity()) @ basis.matrix().T).real, **ROUNDING)
    np.testing.assert_allclose(basis.analysis(u), c, **ROUNDING)


@every_basis
def test_analysis_is_the_quadrature_of_u_with_the_modes_and_parseval_holds(basis):
    u = basis.synthesis(coefficients(basis))
    w = bases.weights(basis.n, basis.centering, 0.0, LENGTH)
    c = basis.analysis(u)
    np.testing.assert_allclose(c, (u * w) @ basis.matrix().conj() / LENGTH, **ROUNDING)
    np.testing.assert_allclose((w * u**2).sum(-1), LENGTH * (basis.multiplicity() * abs(c) ** 2).sum(-1), rtol=1e-12)


@every_basis
def test_any_axis_numpy_and_torch_and_the_gradient_is_the_transpose(basis):
    u = np.random.default_rng(0).standard_normal((2, basis.n, 3))
    c = basis.analysis(u, 1)
    np.testing.assert_allclose(c, np.moveaxis(basis.analysis(np.moveaxis(u, 1, -1)), -1, 1), **ROUNDING)
    v = torch.from_numpy(u).requires_grad_()
    assert (basis.analysis(v, 1).detach().numpy() == c).all()
    back = basis.synthesis(c, -2)
    assert type(back) is np.ndarray and back.shape == u.shape
    assert torch.autograd.gradcheck(lambda v: basis.synthesis(basis.analysis(v, 1), 1), v)


@every_basis
def test_eigenvalues_belong_to_the_sampled_second_derivative_and_to_second_differences(basis):
    c, h = coefficients(basis), basis.spacing
    u = basis.synthesis(c)
    # the trigonometric interpolant of the reflection, differentiated twice with complex exponentials
    x = bases.points(basis.n, basis.centering, 0.0, LENGTH)
    period = basis.period * h
    offset = 0.0 if basis.kind != "fourier" else x[0]
    phase = 1j if basis.kind == "sine" else 1
    k = 2 * np.pi * basis.numbers / period
    waves = np.exp(1j * np.outer(x - offset, k)) * basis.multiplicity() / phase
    second = -((c * k**2) @ waves.T).real
    np.testing.assert_allclose(basis.synthesis(basis.eigenvalues() * c), -second, rtol=1e-11, atol=1e-11 * k.max() ** 2)
    # differences of the field continued past its ends
    sign = -1 if basis.kind == "sine" else 1
    if basis.kind == "fourier":
        before, after = u[:, -1:], u[:, :1]
    elif basis.centering == "cell":
        before, after = sign * u[:, :1], sign * u[:, -1:]
    else:
        before, after = sign * u[:, 1:2], sign * u[:, -2:-1]
    differences = -np.diff(np.concatenate([before, u, after], 1), n=2) / h**2
    found = basis.synthesis(basis.eigenvalues("finite-volume") * c)
    np.testing.assert_allclose(found, differences, rtol=1e-11, atol=1e-11 / h**2)


@pytest.mark.parametrize("n", [1, 2, 7, 8])
def test_the_full_order_of_fourier_modes_is_that_of_fft(n):
    np.testing.assert_array_equal(bases.fourier_numbers(n, half=False), np.rint(np.fft.fftfreq(n) * n))
    np.testing.assert_array_equal(bases.fourier_numbers(n, half=True), np.rint(abs(np.fft.rfftfreq(n) * n)))
    basis = Basis("fourier", n, "periodic", LENGTH)
    wave = np.exp(2j * np.pi * np.random.default_rng(n).random(n))
    for k, line in zip(bases.fourier_numbers(n, half=False), np.eye(n)):
        cos, sin = bases.waves(np.array([k]), n)
        np.testing.assert_allclose(np.fft.ifft(line, norm="forward"), (cos + 1j * sin)[0], atol=1e-14)
    np.testing.assert_allclose(basis.wavenumbers(half=False), 2 * np.pi * np.fft.fftfreq(n, LENGTH / n), rtol=1e-14)
    second = np.fft.ifft(basis.eigenvalues("finite-volume", half=False) * np.fft.fft(wave))
    differences = -(np.roll(wave, 1) - 2 * wave + np.roll(wave, -1)) * (n / LENGTH) ** 2
    np.testing.assert_allclose(second, differences, atol=1e-13 * n**2)


@pytest.mark.parametrize("kind", ["sine", "cosine", "fourier"])
def test_functions_are_orthogonal_eigenfunctions_on_the_axis(kind):
    """By a quadrature that is exact for products of the functions, and by their derivatives."""
    count, n = 9, 64
    s = bases.points(n, "cell")
    values, squares = bases.functions(kind, s, count), bases.mean_squares(kind, count)
    np.testing.assert_allclose(values.T @ values / n, np.diag(squares), atol=1e-14)
    step = 1e-3
    left, right = (bases.functions(kind, s + move, count) for move in (-step, step))
    kappa = bases.frequencies(kind, count)
    inside = slice(1, -1)
    np.testing.assert_allclose((left + right)[inside], (2 * np.cos(kappa * step) * values)[inside], atol=1e-13)


def test_high_functions_keep_their_digits_and_sines_vanish_on_the_walls():
    k = 2**16 + 1
    s = np.array([0.0, 0.25, 0.5, 0.75, 1.0])
    np.testing.assert_array_equal(bases.functions("sine", s, k)[[0, -1]], 0.0)
    root = np.sqrt(0.5)
    np.testing.assert_allclose(bases.functions("sine", s, k)[:, -1], [0, root, 1, root, 0], atol=1e-15)
    np.testing.assert_allclose(bases.functions("cosine", s, k)[:, -1], np.ones(5), atol=1e-15)
    cos, sin = bases.waves(np.array([10**12 + 1]), 8)
    np.testing.assert_allclose(cos + 1j * sin, np.exp(2j * np.pi * np.arange(8) / 8)[None], atol=1e-15)


@pytest.mark.parametrize("n", [3, 4, 8, 9])
@pytest.mark.parametrize(
    "kind, centering, shift",
    [
        *(
            (kind, centering, 0.0)
            for kind in ("sine", "cosine", "fourier")
            for centering in ("node", "cell", "periodic")
        ),
        ("fourier", "periodic", 0.5),
        ("fourier", "periodic", 0.25),
    ],
)
def test_distinct_is_the_rank_of_the_functions_on_the_points(n, kind, centering, shift):
    s = bases.points(n, centering) + shift / n
    most = bases.distinct(kind, s)
    assert np.linalg.matrix_rank(bases.functions(kind, s, most)) == most
    assert np.linalg.matrix_rank(bases.functions(kind, s, most + 1)) == most


@pytest.mark.parametrize("centering", ["node", "cell", "periodic"])
def test_points_and_weights_measure_the_extent(centering):
    x, w = bases.points(9, centering, -1.0, 2.5), bases.weights(9, centering, -1.0, 2.5)
    assert w.sum() == pytest.approx(3.5, rel=1e-14)
    np.testing.assert_allclose(np.diff(x), 3.5 / bases.intervals(9, centering), rtol=1e-13)
    if centering == "periodic":
        np.testing.assert_allclose(w @ np.exp(2j * np.pi * 4 * x / 3.5), 0, atol=1e-14)
    else:
        assert w @ x == pytest.approx((2.5**2 - 1) / 2, rel=1e-14)


@pytest.mark.parametrize(
    "arguments, message",
    [
        (("sine", 8, "periodic"), "kind='sine' with centering='periodic'"),
        (("fourier", 8, "node"), "'fourier' with 'periodic' or 'cell'"),
        (("legendre", 8, "node"), "kind='legendre'"),
        (("sine", 2, "node"), "at least 3 node points"),
        (("cosine", 0, "cell"), "at least 1 cell points"),
    ],
)
def test_what_does_not_fit_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        Basis(*arguments)
