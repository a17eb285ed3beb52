"""The automatic choice: the rule, that it returns what the chosen method returns, and that its short cut is sound."""

import pytest
import torch

from sciops.lipschitz import dense_norm
from sciops.lipschitz.norms.dense import chosen_method


def gaussian(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def test_the_rule_by_size_count_and_device():
    assert chosen_method(torch.empty(512, 512)) == "eigvalsh"
    assert chosen_method(torch.empty(300, 16, 16)) == "eigvalsh"
    assert (
        chosen_method(torch.empty(16, 16))
        == chosen_method(torch.empty(1, 400, 5))
        == chosen_method(torch.empty(300, 4, 9))
        == "svdvals"
    )
    assert chosen_method(torch.empty(512, 512, device="meta")) == "gram"  # stands for any device but the CPU


def test_auto_returns_what_was_chosen():
    small, batch = gaussian(6, 4), gaussian(5, 40, 40)
    for matrix in (small, batch):
        chosen = dense_norm(matrix, method=chosen_method(matrix))
        auto = dense_norm(matrix)
        assert torch.equal(auto.upper, chosen.upper) and torch.equal(auto.lower, chosen.lower)


def test_one_gram_matrix_serves_where_one_singular_value_stands_out(monkeypatch):
    def never(*_):
        raise AssertionError("eigenvalues were computed")

    hard = gaussian(210, 210)
    easy = hard + 1000 * gaussian(210, 1) @ gaussian(1, 210, seed=1)
    truth = torch.linalg.svdvals(easy)[0]
    exact = dense_norm(easy, tolerance=0.0)
    monkeypatch.setattr(torch.linalg, "eigvalsh", never)
    bracket = dense_norm(easy, tolerance=1e-3)
    assert bracket.contains(truth) and float(bracket.gap) <= 1e-3
    fourth = (torch.linalg.svdvals(easy) ** 4).sum() ** 0.25
    assert torch.allclose(bracket.upper, fourth, rtol=1e-10)
    assert float(exact.gap) < 1e-11  # nothing short of round-off passes a tolerance of 0
    with pytest.raises(AssertionError, match="eigenvalues were computed"):  # one easy matrix of two is not enough
        dense_norm(torch.stack([easy, hard]))


def test_the_short_cut_has_the_gradient_of_the_schatten_norm():
    matrix = (gaussian(2, 210, 210) + 1000 * gaussian(2, 210, 1) @ gaussian(2, 1, 210, seed=1)).requires_grad_()
    ours = torch.autograd.grad(dense_norm(matrix).upper.sum(), matrix)[0]
    schatten = torch.linalg.matrix_norm(matrix.mH @ matrix) ** 0.5
    theirs = torch.autograd.grad(schatten.sum(), matrix)[0]
    assert torch.allclose(ours, theirs, rtol=1e-9, atol=1e-12)
