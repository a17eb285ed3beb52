"""Attacks in the coefficients of a random field: smooth perturbations that mean the same on every grid."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from sciops.grids import Grid, check_on_grid
from sciops.robustness.attacks.fields import Attack, pgd
from sciops.robustness.attacks.objectives import Objective
from sciops.robustness.field_norm import per_sample
from sciops.robustness.smoothing.noise import GaussianFieldNoise

__all__ = ["coefficient_attack"]


def coefficient_attack(
    objective: Objective,
    latent: Tensor,
    grid: Grid,
    *,
    law: GaussianFieldNoise,
    radius: float | Tensor,
    transform: Callable[[Tensor], Tensor] | None = None,
    lower: float | None = None,
    steps: int = 50,
    restarts: int = 3,
    step: float | None = None,
    seed: int,
) -> Attack:
    """Projected gradient ascent in the Karhunen–Loève coefficients of a smooth perturbation.

    max J(T(g + δ)) over δ = C^{1/2}z, ‖z‖₂ ≤ R. The ball is that of the Cameron–Martin norm of the law N(0, C): with
    smoothness 0, that of ‖·‖_h among fields of law.modes modes per axis. Both are the same set of functions on every
    grid.

    Parameters
    ----------
    objective : callable
        J: (batch, channels, *grid) → (batch,).
    latent : Tensor (batch, channels, *grid)
        g, the field itself, or what T makes it of: T = exp for log-normal fields.
    grid : Grid
        Of the fields.
    law : GaussianFieldNoise
        With modes given, so that all grids share them.
    radius : float or Tensor (batch,)
        R.
    transform : callable, optional
        T; default the identity.
    lower : float, optional
        With T the identity, keeps g + δ ≥ lower: δ is shortened where it would not be, which stays in the ball.
    steps, restarts, step, seed
        As for `pgd`.

    Returns
    -------
    Attack
        delta and size (its Cameron–Martin norm) of g, value of J.

    Raises
    ------
    ValueError
        For a law without modes, and a latent field below `lower`.
    """
    check_on_grid(latent, grid, "latent")
    if law.modes is None:
        raise ValueError("law.modes=None: expected a number of modes per axis, such as modes=8, that all grids share")
    if not bool((torch.as_tensor(radius) >= 0).all()):
        raise ValueError(f"radius={radius}: expected sizes of at least 0, in the law's Cameron–Martin norm")
    if lower is not None and not bool((latent >= lower).all()):
        raise ValueError(f"latent has values below lower={lower:g}: the unperturbed input must be feasible")
    wide = latent.detach().double()

    def field(z: Tensor) -> Tensor:
        delta = law.field(z, grid)
        if lower is None:
            return delta
        room = (wide - lower) / (-delta).clamp_min(torch.finfo(torch.float64).tiny)
        share = torch.where(delta < 0, room, torch.inf).flatten(1).amin(1).clamp(max=1.0)
        return delta * per_sample(share, delta)

    def shifted(z: Tensor) -> Tensor:
        x = (wide + field(z)).to(latent.dtype)
        x = x if lower is None else x.clamp_min(lower)  # rounding may not cross the bound
        return x if transform is None else transform(x)

    centre = wide.new_zeros(*latent.shape[: -grid.ndim], *(law.modes,) * grid.ndim)
    how: dict[str, Any] = dict(steps=steps, restarts=restarts, step=step, seed=seed)
    found = pgd(lambda z: objective(shifted(z)), centre, None, epsilon=radius, **how)
    delta = field(found.delta).detach()
    return Attack(delta, found.value, law.norm(delta, grid), found.history)
