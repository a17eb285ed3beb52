"""Solves to a tolerance under torch.func: the derivatives of backward, entry by entry, or a refusal."""

import pytest
import torch
from torch.func import grad, jvp, vmap

import sciops
from sciops.lipschitz import gram_bracket
from sciops.pde import adjoint
from sciops.pde.elliptic.minres import solve_differentiably
from sciops.training.gradients.highway import highway_stack
from sciops.training.gradients.state_feedback import with_feedback

# torch.func.jvp scripts its rules at its first call
pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.script.*:DeprecationWarning")

GRID = sciops.Grid((7, 6))


def _random(*shape, seed=0):
    return torch.rand(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def _by_backward(f, *inputs):
    inputs = [x.clone().requires_grad_() for x in inputs]
    return torch.autograd.grad(f(*inputs), inputs)


def _close(found, expected, rtol=1e-12):
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=rtol, atol=0)


def test_darcy_by_vmap_of_grad_of_coefficient_and_forcing():
    def energy(a, forcing):
        return adjoint.solve(a, GRID, forcing=forcing).square().sum()

    a, forcing = 1 + _random(3, *GRID.shape), _random(3, *GRID.shape, seed=1)
    expected = _by_backward(energy, a, forcing)
    _close(grad(energy, (0, 1))(a, forcing), expected)
    _close(vmap(grad(lambda a, f: energy(a[None], f[None]), (0, 1)))(a, forcing), expected)
    shared = _by_backward(energy, a, forcing[0])
    _close(vmap(grad(lambda a: energy(a[None], forcing[0])))(a)[None], shared[:1])


def test_darcy_keeps_the_dtype_and_one_order_of_derivatives():
    a = (1 + _random(2, *GRID.shape)).float()
    assert grad(lambda a: adjoint.solve(a, GRID).sum())(a).dtype == torch.float32
    with pytest.raises(NotImplementedError, match="first order only"):
        grad(lambda a: grad(lambda b: adjoint.solve(b, GRID).square().sum())(a).sum())(a)
    with pytest.raises(NotImplementedError, match="forward-mode.*use torch.func.vjp"):
        jvp(lambda a: adjoint.solve(a, GRID), (a,), (a,))


def _indefinite(f, shift):
    diagonal = torch.linspace(-3, 5, 9, dtype=torch.float64)
    weights = torch.linspace(1, 2, 9, dtype=torch.float64)
    return solve_differentiably(lambda s, x: (diagonal + s) * x, lambda x: x, f, shift, weights, 1e-13, 200)[0]


def test_indefinite_solves_against_the_quotient_they_are():
    # the matrix is diagonal: u = f / (d + s)
    f, shift, df, ds = (_random(2, 9, seed=seed) for seed in range(4))
    whole = torch.linspace(-3, 5, 9, dtype=torch.float64) + shift
    exact = f / whole
    _close([_indefinite(f, shift)], [exact], 1e-10)
    _close(jvp(_indefinite, (f, shift), (df, ds))[1][None], [df / whole - ds * exact / whole], 1e-9)
    energy = vmap(grad(lambda f, s: _indefinite(f[None], s[None]).square().sum(), (0, 1)))(f, shift)
    _close(energy, [2 * exact / whole, -2 * exact.square() / whole], 1e-9)
    f.requires_grad_()
    shift.requires_grad_()
    assert torch.autograd.gradgradcheck(_indefinite, (f[:1], shift[:1]))


@pytest.mark.parametrize(
    "f",
    [
        lambda x: gram_bracket(x).upper,
        lambda x: with_feedback(x[:, None], torch.eye(4)).sum(),
        lambda x: highway_stack([torch.nn.Linear(4, 4)], x).sum(),
    ],
)
def test_gradient_rules_and_norms_refuse_torch_func_in_one_line(f):
    with pytest.raises(NotImplementedError, match="does not work inside of torch.func") as caught:
        grad(f)(torch.randn(4, 4))
    assert "\n" not in str(caught.value)
