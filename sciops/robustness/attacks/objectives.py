"""Objectives of attacks on operators: one number per sample, differentiable in the perturbed input."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from sciops.arrays.scale import widened
from sciops.grids import Grid
from sciops.pde.darcy import adjoint
from sciops.robustness.field_norm import field_norm

__all__ = ["Objective", "distance_to", "distance_to_solver", "self_difference"]

Objective = Callable[[Tensor], Tensor]


def value_and_gradient(objective: Objective, x: Tensor) -> tuple[Tensor, Tensor]:
    """The objective in float64, (batch,), and its gradient, like x.

    Raises ValueError as `check_values` does.
    """
    x = x.detach().requires_grad_(True)
    with torch.enable_grad():
        value = objective(x)
        check_values(value)
        (gradient,) = torch.autograd.grad(value.sum(), x)
    return value.detach().double(), gradient


def check_values(value: Tensor) -> None:
    """Raises ValueError unless an objective returned one finite number a sample."""
    if value.ndim != 1:
        raise ValueError(f"the objective returned shape {tuple(value.shape)}; expected one number a sample, (batch,)")
    if not bool(value.isfinite().all()):
        raise ValueError("the objective is not finite: check the operator on this input")


def self_difference(operator: Callable[[Tensor], Tensor], a: Tensor, target: Grid | None) -> Objective:
    """The distance of the output from the unperturbed one: x ↦ ‖G(x) − G(a)‖_h. Its gradient at x = a is 0.

    It is the quantity that a Lipschitz certificate bounds.

    operator : (batch, channels, *grid) → (batch, channels, *target)
    target : grid of the outputs, None for Euclidean
    """
    with torch.no_grad():
        reference = operator(a)
    return distance_to(operator, reference, target)


def distance_to(operator: Callable[[Tensor], Tensor], truth: Tensor, target: Grid | None) -> Objective:
    """The distance of the output from a fixed u, such as the true solution of the unperturbed input: x ↦ ‖G(x) − u‖_h.

    The true solution moves with the input as well: a large value need not be an error of G at x.
    """

    def objective(x: Tensor) -> Tensor:
        return field_norm(widened(operator(x)) - truth, target)

    return objective


def distance_to_solver(
    operator: Callable[[Tensor], Tensor], grid: Grid, *, forcing: Any = 1.0, tol: float = 1e-10
) -> Objective:
    """The error of an operator at the perturbed input itself: x ↦ ‖G(x) − S(x)‖_h, S the Darcy solver.

    Parameters
    ----------
    operator : callable
        (batch, 1, nx, ny) → the same on the same grid, in physical units.
    grid : Grid
        Nodes that reach the walls.
    forcing, tol
        Of the solver.

    Notes
    -----
    With K(a)u = b the discrete problem, J = ‖G − u‖_h² and Kλ = 2w(u − G):  ∂J/∂a through S is −λᵀ(∂K/∂a)u, one more
    solve with the same matrix (`sciops.pde.darcy.adjoint`).

    References
    ----------
    arXiv:2510.18989.
    """

    def objective(x: Tensor) -> Tensor:
        u = adjoint.solve(x[:, 0], grid, forcing=forcing, tol=tol)
        return field_norm(widened(operator(x)) - u[:, None], grid)

    return objective
