"""Grounding metrics on predictors whose answer is known: the truth, a constant, a multiple, a permutation."""

import numpy as np
import pytest
import torch

from sciops.evaluation import own_against_wrong, retrieval, sensitivity
from sciops.grids import Grid
from sciops.pde import darcy

GRID = Grid((9, 7))
RNG = np.random.default_rng(0)
U = RNG.standard_normal((6, 1, 9, 7))


def test_the_truth_is_found_first_and_a_blind_prediction_once_in_k():
    found = retrieval(U, U, GRID)
    assert found.accuracy == 1 and (found.rank == 1).all() and found.truths == 6
    blind = retrieval(np.broadcast_to(U.mean(0), U.shape), U)
    assert found.truths == 6 and blind.accuracy == pytest.approx(1 / 6, abs=1e-15)
    assert sorted(blind.rank) == [1, 2, 3, 4, 5, 6]  # whose mean is (K + 1)/2
    wrong = retrieval(np.roll(U, 1, 0), U)
    assert wrong.accuracy == 0 and (wrong.rank > 1).all()


def test_ranks_are_those_of_sorted_distances():
    p = U + 2 * RNG.standard_normal(U.shape)
    weights = GRID.weights()
    found = retrieval(torch.from_numpy(p), torch.from_numpy(U), GRID)
    for i in range(6):
        distances = [float((weights * (p[i] - u) ** 2).sum()) for u in U]
        assert found.rank[i] == 1 + sum(d < distances[i] for d in distances)


def test_truths_that_are_alike_share_their_rank():
    same = np.broadcast_to(U[:1], (4, *U.shape[1:]))
    found = retrieval(np.zeros_like(same), same)
    assert (found.rank == 2.5).all() and found.accuracy == 0.25
    far = 1e8 + U  # distances by differences keep their digits
    assert retrieval(far, far).accuracy == 1


def test_sensitivity_of_known_predictions():
    v = U + 0.1 * RNG.standard_normal(U.shape)
    for scale in (1.0, 0.0, 0.4, -2.0):
        found = sensitivity(scale * U + 3, scale * v + 3, U, v, GRID)
        np.testing.assert_allclose(found.ratio, abs(scale), atol=1e-12)
        np.testing.assert_allclose(found.slope, scale, atol=1e-12)
    du = v - U
    turned = RNG.standard_normal(U.shape)
    inner = lambda a, b: (GRID.weights() * a * b).sum((1, 2, 3), keepdims=True)  # noqa: E731
    turned -= inner(turned, du) / inner(du, du) * du
    turned *= np.sqrt(inner(du, du) / inner(turned, turned))
    found = sensitivity(U, U + turned, U, v, GRID)  # of the right size in a wrong direction
    np.testing.assert_allclose(found.ratio, 1, rtol=1e-12)
    np.testing.assert_allclose(found.slope, 0, atol=1e-12)
    assert np.isnan(sensitivity(U, v, U, U).ratio).all()


def test_a_solution_fits_its_own_coefficient_and_no_other():
    a = np.exp(0.5 * RNG.standard_normal((3, 9, 9)))
    u = darcy.solve(a, Grid((9, 9)), backend="direct").u
    residual = lambda u, a: darcy.residual(a, u, Grid((9, 9)))  # noqa: E731
    assert (own_against_wrong(residual, u, a, np.roll(a, 1, 0)) < 1e-8).all()
    swapped = own_against_wrong(residual, np.roll(u, 1, 0), a, np.roll(a, 1, 0))
    assert (swapped > 1e8).all()
    blind = np.broadcast_to(u.mean(0), u.shape)  # as bad for one as for another, on average
    ratios = own_against_wrong(residual, blind, a, np.roll(a, 1, 0))
    assert np.prod(ratios) == pytest.approx(1, rel=1e-12)


@pytest.mark.parametrize("kind", [np.asarray, torch.from_numpy])
def test_arrays_come_back_in_their_kind(kind):
    p = kind(U.astype(np.float32))
    found = sensitivity(p, 2 * p, p, 2 * p)
    assert type(found.ratio) is type(p) and found.ratio.dtype == p.dtype
    assert "Sensitivity" in repr(found) and "Retrieval" in repr(retrieval(p, p))


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: retrieval(U[:1], U[:1]), "a batch of 1: expected at least two"),
        (lambda: retrieval(U, U[:3]), "expected equal"),
        (lambda: retrieval(U, U * np.nan), "holds NaN"),
        (lambda: retrieval(U, U, Grid((7, 9))), "expected its last axes to be the grid"),
        (lambda: sensitivity(U, U, U[:3], U), "expected equal"),
        (lambda: sensitivity(U, U[:3], U, U[:3]), "6 samples and of 3 changed ones"),
        (lambda: own_against_wrong(lambda u, a: u.sum((1, 2, 3)), U, U, U), "the wrong input is its own"),
        (lambda: own_against_wrong(lambda u, a: u.sum(), U, U, U[::-1].copy()), "one a sample"),
        (lambda: own_against_wrong(lambda u, a: u, U, U, U[:2]), "expected one of each"),
    ],
)
def test_wrong_inputs_are_refused_in_one_line(call, said):
    with pytest.raises(ValueError, match=said) as error:
        call()
    assert "\n" not in str(error.value)
