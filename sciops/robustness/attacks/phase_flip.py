"""An attack on two-phase coefficients that flips the phase at some points, so that the field stays two-valued."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from sciops.grids import Grid, check_on_grid
from sciops.robustness.attacks.fields import Attack
from sciops.robustness.attacks.objectives import Objective, value_and_gradient
from sciops.robustness.field_norm import field_norm, weights_like
from sciops.values import check_whole

__all__ = ["phase_flip_attack"]


def phase_flip_attack(
    objective: Objective,
    a: Tensor,
    grid: Grid,
    *,
    budget: float,
    steps: int = 10,
    swaps: int = 10,
    interface_only: bool = False,
) -> Attack:
    """The largest objective over fields that differ from a by phase flips on at most a given share of the domain.

    A flip at j promises g_j(b_j − a_j), b the other phase and g = ∂J/∂a. The set grows in `steps` parts by the largest
    promises, with new gradients each time; then the worst members are exchanged for the best outsiders, in blocks that
    halve whenever a sample does not improve.

    Parameters
    ----------
    objective : callable
        (batch, 1, *grid) → (batch,).
    a : Tensor (batch, 1, *grid)
        Of two values, the same for the batch.
    grid : Grid
        Of a.
    budget : float
        Share of the domain's measure, between 0 and 1; ‖δ‖_h = |high − low|√measure.
    steps, swaps : int
        Parts in which the set grows; exchanges after that.
    interface_only : bool
        Flip only points with a neighbour of the other phase in a, a move of the interface by one point.

    Returns
    -------
    Attack
        delta, value, size ‖δ‖_h; history (steps + swaps + 1, batch).

    Raises
    ------
    ValueError
        For fields that do not have exactly two values.
    """
    check_on_grid(a, grid, "a")
    phases = a.unique()
    if len(phases) != 2 or a.ndim != grid.ndim + 2 or a.shape[1] != 1:
        raise ValueError(
            f"a has shape {tuple(a.shape)} and {len(phases)} values; expected (batch, 1, *grid) of two values"
        )
    if not 0 <= budget <= 1:
        raise ValueError(f"budget={budget}: expected a share of the domain, between 0 and 1")
    check_whole(steps=steps)
    check_whole(0, swaps=swaps)
    a = a.detach()
    other = torch.where(a == phases[0], phases[1], phases[0])
    weights = weights_like(grid, a).double().flatten()
    limit = budget * float(weights.sum()) * (1 + 1e-12)
    allowed = (_at_interface(a, grid) if interface_only else torch.ones_like(a, dtype=torch.bool)).flatten(1)

    def evaluate(flipped: Tensor) -> tuple[Tensor, Tensor]:
        value, gradient = value_and_gradient(objective, torch.where(flipped.reshape(a.shape), other, a))
        return value, ((other - a) * gradient).flatten(1).double()

    current = torch.zeros_like(allowed)
    value, promise = evaluate(current)
    best, best_value, history = current, value, [value]
    if not bool((promise != 0).any()):
        # the difference to G(a) has no gradient at a: begin with the points that weigh most in the output's response
        promise = _first_promise(objective, a, other, grid)
    for i in range(1, steps + 1):
        current = _grown(current, promise, allowed, weights, limit * i / steps)
        value, promise = evaluate(current)
        history.append(value)
        wins = value > best_value
        best, best_value = torch.where(wins[:, None], current, best), torch.where(wins, value, best_value)
    block = torch.full((len(a),), 0.25, dtype=torch.float64, device=a.device)
    current, value = best, best_value
    _, promise = evaluate(current)
    for _ in range(swaps):
        trial = _exchanged(current, promise, allowed, weights, limit, block)
        trial_value, trial_promise = evaluate(trial)
        wins = trial_value > value
        current = torch.where(wins[:, None], trial, current)
        promise = torch.where(wins[:, None], trial_promise, promise)
        value = torch.where(wins, trial_value, value)
        block = torch.where(wins, block, block / 2)
        history.append(value)
    delta = torch.where(current.reshape(a.shape), other, a).double() - a.double()
    return Attack(delta, value, field_norm(delta, grid), torch.stack(history))


def _grown(current: Tensor, promise: Tensor, allowed: Tensor, weights: Tensor, limit: float) -> Tensor:
    """The set with outsiders added by falling promise while the measure stays within the limit."""
    rank = torch.where(current, torch.inf, torch.where(allowed & (promise > 0), promise, -torch.inf))
    order = rank.argsort(dim=1, descending=True)
    fits = (weights[order].cumsum(1) <= limit) & (rank.gather(1, order) > -torch.inf)
    return torch.zeros_like(current).scatter(1, order, fits)


def _exchanged(
    current: Tensor, promise: Tensor, allowed: Tensor, weights: Tensor, limit: float, block: Tensor
) -> Tensor:
    """The set without the share `block` of its members that promise least, grown again by the best outsiders."""
    rank = torch.where(current, promise, torch.inf)
    order = rank.argsort(dim=1)
    leaving = torch.arange(current.shape[1], device=current.device) < (block * current.sum(1)).ceil()[:, None]
    kept = current & ~torch.zeros_like(current).scatter(1, order, leaving)
    return _grown(kept, promise, allowed, weights, limit)


def _first_promise(objective: Objective, a: Tensor, other: Tensor, grid: Grid) -> Tensor:
    """Gradient a little way from a, along the flip of every second point."""
    pattern = torch.as_tensor(sum(torch.meshgrid(*map(torch.arange, grid.shape), indexing="ij")) % 2, device=a.device)
    _, gradient = value_and_gradient(objective, a + 1e-3 * pattern.to(a) * (other - a))
    return ((other - a) * gradient).flatten(1).double()


def _at_interface(a: Tensor, grid: Grid) -> Tensor:
    """Whether a point has a neighbour of the other phase along an axis."""
    touches = torch.zeros_like(a, dtype=torch.bool)
    for axis in range(2, a.ndim):
        if grid.centering == "periodic":
            touches |= (a.roll(1, axis) != a) | (a.roll(-1, axis) != a)
            continue
        jump = a.diff(dim=axis) != 0
        before, after = [0, 0] * (a.ndim - axis - 1) + [1, 0], [0, 0] * (a.ndim - axis - 1) + [0, 1]
        touches |= F.pad(jump, before) | F.pad(jump, after)
    return touches
