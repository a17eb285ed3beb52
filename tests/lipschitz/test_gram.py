"""Gram iteration: Schatten norms from above, a lower end that holds, rounding included, and the gradient."""

import math

import pytest
import torch

from sciops.lipschitz import Bracket, gram_bracket, largest_of
from sciops.lipschitz.norms.gram import product_loss


def gaussian(*shape, dtype=torch.float64, seed=0):
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def largest_singular(matrix):
    return torch.linalg.svdvals(matrix.to(torch.complex128))[..., 0]


def orthogonal(n):
    return torch.linalg.qr(gaussian(n, n))[0]


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
@pytest.mark.parametrize("shape", [(7, 5), (5, 7), (3, 6, 4)])
def test_the_upper_end_is_the_schatten_norm_and_decreases(dtype, shape):
    matrix = gaussian(*shape, dtype=dtype)
    values = torch.linalg.svdvals(matrix)
    before = torch.linalg.matrix_norm(matrix)
    for t in range(1, 9):
        p = 2.0 ** (t + 1)
        bracket = gram_bracket(matrix, tolerance=None, iterations=t)
        schatten = values[..., 0] * ((values / values[..., :1]) ** p).sum(-1) ** (1 / p)
        assert torch.allclose(bracket.upper, schatten, rtol=1e-12)
        assert (bracket.upper <= before).all() and (bracket.upper >= values[..., 0]).all()
        assert (bracket.upper <= min(shape[-2:]) ** (1 / p) * values[..., 0] * (1 + 1e-12)).all()
        # (S_2p / S_p)^{1/p} of the step before: the least that the lower end may be
        half = p / 2
        share = values / values[..., :1]
        mean = (share**p).sum(-1) / (share**half).sum(-1)
        assert (bracket.lower >= values[..., 0] * mean ** (1 / half) * (1 - 1e-12)).all()
        assert (bracket.lower <= values[..., 0]).all()
        before = bracket.upper * (1 + 1e-12)


def test_orthogonal_matrices_converge_slowly_from_above_and_are_exact_from_below():
    for t in (1, 4, 12):
        bracket = gram_bracket(orthogonal(32), tolerance=None, iterations=t)
        assert float(bracket.upper) == pytest.approx(32 ** (0.5 ** (t + 1)), rel=1e-11)
        assert float(bracket.lower) == pytest.approx(1.0, abs=1e-11)


def test_rank_one_needs_one_step():
    matrix = gaussian(9, 1) @ gaussian(1, 6, seed=1)
    bracket = gram_bracket(matrix, tolerance=1e-9)
    assert float(bracket.gap) < 1e-11
    assert bracket.contains(float(torch.linalg.svdvals(matrix)[0]))


def test_scaling_transposes_and_rotations():
    matrix = gaussian(6, 4, dtype=torch.complex128)
    value = gram_bracket(matrix, tolerance=None, iterations=4).upper
    for other, factor in ((matrix.mH, 1.0), (matrix * (3 - 4j), 5.0), (orthogonal(6).to(matrix.dtype) @ matrix, 1.0)):
        same = gram_bracket(other, tolerance=None, iterations=4).upper
        assert float(same) == pytest.approx(factor * float(value), rel=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex64, torch.complex128])
@pytest.mark.parametrize("precision", ["double", "input"])
@pytest.mark.parametrize("scale", [1.0, 1e-30, 1e30])
def test_the_bracket_holds_in_every_precision_and_scale(dtype, precision, scale):
    cases = [gaussian(150, 16, 16), gaussian(150, 1, 1), gaussian(80, 9, 3), gaussian(80, 3, 9, dtype=torch.complex128)]
    cases += [gaussian(80, 6, 1) * gaussian(80, 1, 6, seed=1), orthogonal(12)[None], torch.eye(5)[None]]
    for case in cases:
        matrix = (case if dtype.is_complex or not case.is_complex() else case.real).to(dtype) * scale
        bracket = gram_bracket(matrix, precision=precision)
        assert bracket.contains(largest_singular(matrix)).all()
        assert (bracket.gap < 1.5e-3).all()
        assert bracket.upper.dtype == (torch.float64 if dtype in (torch.float64, torch.complex128) else torch.float32)


def test_float32_itself_falls_below_where_the_bracket_does_not():
    """What the inflation is for: the plain recursion in float32 under-estimates in a good share of cases."""
    matrix = gaussian(500, 16, 16, dtype=torch.float32)
    gram, log = matrix, torch.zeros(500)
    for _ in range(10):
        norm = torch.linalg.matrix_norm(gram)
        gram, log = gram / norm[:, None, None], 2 * (log + norm.log())
        gram = gram.mH @ gram
    plain = torch.exp((torch.linalg.matrix_norm(gram).log() + log) / 2**10)
    truth = largest_singular(matrix)
    assert (plain.double() < truth).sum() > 50
    bracket = gram_bracket(matrix, tolerance=None, iterations=10, precision="input")
    assert bracket.contains(truth).all()


def test_the_loss_of_a_product_bounds_what_float32_loses():
    for inner in (3, 40, 400):
        a, b = gaussian(20, inner, dtype=torch.float32).abs(), gaussian(inner, 20, dtype=torch.float32, seed=1).abs()
        lost = torch.linalg.matrix_norm((a @ b).double() - a.double() @ b.double())
        assert lost <= product_loss(inner, a) * torch.linalg.matrix_norm(a) * torch.linalg.matrix_norm(b)


def test_extreme_entries_and_zeros():
    for scale in (1e300, 1e-300, 5e-324):
        matrix = torch.tensor([[1.0, 1.0], [0.0, 1.0]], dtype=torch.float64) * scale
        bracket = gram_bracket(matrix)
        assert bracket.contains((1 + math.sqrt(5)) / 2 * scale) or scale == 5e-324
        assert 0 < float(bracket.upper) < math.inf
    zero = torch.zeros(2, 3, 4, requires_grad=True)
    bracket = gram_bracket(zero)
    assert (bracket.lower == 0).all() and (bracket.upper == 0).all() and (bracket.gap == 0).all()
    bracket.upper.sum().backward()
    assert (zero.grad == 0).all()
    mixed = torch.stack([torch.zeros(4, 4), torch.eye(4)])
    assert gram_bracket(mixed).contains(torch.tensor([0.0, 1.0])).all()


def plain(matrix, steps):
    gram = matrix
    for _ in range(steps):
        gram = gram.mH @ gram
    return torch.linalg.matrix_norm(gram) ** (0.5**steps)


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (2, 3, 3)])
def test_the_gradient_is_that_of_the_formula_twice(dtype, shape):
    matrix = gaussian(*shape, dtype=dtype).requires_grad_()

    def upper(a):
        return gram_bracket(a, tolerance=None, iterations=3).upper

    assert torch.allclose(upper(matrix), plain(matrix, 3), rtol=1e-12)
    ours = torch.autograd.grad(upper(matrix).sum(), matrix)[0]
    theirs = torch.autograd.grad(plain(matrix, 3).sum(), matrix)[0]
    assert torch.allclose(ours, theirs, rtol=1e-11, atol=1e-13)
    assert torch.autograd.gradcheck(upper, matrix)
    assert torch.autograd.gradgradcheck(upper, matrix, fast_mode=True)


def test_the_gradient_tends_to_the_outer_product_of_singular_vectors():
    matrix = gaussian(12, 9).requires_grad_()
    bracket = gram_bracket(matrix, tolerance=None, iterations=8)
    bracket.upper.backward()
    u, _, v = torch.linalg.svd(matrix.detach())
    assert torch.allclose(matrix.grad, torch.outer(u[:, 0], v[0]), atol=1e-9)
    assert not bracket.lower.requires_grad


def test_a_penalty_on_the_upper_end_brings_the_norm_down():
    weight = gaussian(8, 8).requires_grad_()
    optimizer = torch.optim.SGD([weight], lr=0.5)
    for _ in range(30):
        optimizer.zero_grad()
        torch.relu(gram_bracket(weight).upper - 1).square().backward()
        optimizer.step()
    assert float(torch.linalg.svdvals(weight.detach())[0]) < 1.05


def test_steps_end_at_the_tolerance():
    matrix = gaussian(40, 40)
    gaps = [float(gram_bracket(matrix, tolerance=tolerance).gap) for tolerance in (0.3, 1e-2, 1e-6)]
    assert gaps[0] <= 0.3 and gaps[1] <= 1e-2 and gaps[2] <= 1e-6
    assert gaps[0] > 1e-2 > gaps[2]  # no more steps than asked for


def test_refusals():
    with pytest.raises(ValueError, match=r"matrix of shape \(3,\): expected \(..., rows, columns\)"):
        gram_bracket(torch.ones(3))
    with pytest.raises(ValueError, match="NaN or infinite"):
        gram_bracket(torch.full((2, 2), torch.nan))
    with pytest.raises(ValueError, match="iterations=0"):
        gram_bracket(torch.ones(2, 2), iterations=0)
    with pytest.raises(ValueError, match="precision='half'"):
        gram_bracket(torch.ones(2, 2), precision="half")


def test_brackets_gather():
    bracket = Bracket(torch.tensor([0.9, 2.0]), torch.tensor([1.1, 2.5]))
    assert bracket.largest().floats() == Bracket(2.0, 2.5)
    both = largest_of([Bracket(torch.tensor(1.0), torch.tensor(3.0)), Bracket(torch.tensor(2.0), torch.tensor(2.5))])
    assert both.floats() == Bracket(2.0, 3.0)
    assert largest_of([Bracket(1.0, 3.0), Bracket(2.0, 2.5)]) == Bracket(2.0, 3.0)
    assert Bracket(2.0, 3.0).gap == 0.5 and Bracket(0.0, 1.0).gap == math.inf and Bracket(0.0, 0.0).gap == 0
    # a float32 bracket is compared with float64 numbers as they are
    assert not Bracket(torch.tensor(0.5), torch.tensor(1.0)).contains(1 + 1e-9)
    with pytest.raises(ValueError, match="got no bracket"):
        largest_of([])
