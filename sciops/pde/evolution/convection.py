"""The convective term −c ∂_x(u²/2) of Burgers, Korteweg–de Vries and Kuramoto–Sivashinsky, in Fourier space."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from sciops.pde.evolution.fourier import FourierSpace

__all__ = ["convective_term"]


def convective_term(space: FourierSpace, coefficient: Tensor | float, *, dealias: bool) -> Callable[[Tensor], Tensor]:
    """v → the spectrum of −c ∂_x(u²/2), one axis; with dealiasing, of the two thirds of the modes whose product is
    exact, so that ∫u and, but for time stepping, ∫u² are kept.

    coefficient : c, float64, one number or one per sample, (batch, 1)
    """
    factor = space.cast(-0.5 * coefficient * space.derivative())
    if not dealias:
        return lambda v: factor * space.forward(space.inverse(v).square())
    mask = space.mask(2)
    factor = factor * mask
    return lambda v: factor * space.forward(space.inverse(mask * v).square())
