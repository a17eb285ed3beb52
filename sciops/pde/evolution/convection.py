"""The convective term −c ∂_x(u²/2) of Burgers, Korteweg–de Vries and Kuramoto–Sivashinsky, in Fourier space."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from torch import Tensor

from sciops.pde.evolution.fourier import FourierSpace

__all__ = ["ConvectiveTerm"]

_BLOCK = 16  # samples that are stepped together: their transforms share instructions, and they stay in the cache


class ConvectiveTerm:
    """v → the spectrum of −c ∂_x(u²/2), one axis; with dealiasing, of the two thirds of the modes whose product is
    exact, so that ∫u and, but for time stepping, ∫u² are kept.

    coefficient : c, float64, one number or one per sample, (batch, 1)
    """

    def __init__(self, space: FourierSpace, coefficient: Tensor | float, *, dealias: bool) -> None:
        self.space, self.mask = space, None
        self.factor = space.cast(-0.5 * coefficient * space.derivative())
        if dealias:
            self.mask = space.mask(2)
            self.factor = self.factor * self.mask

    def __call__(self, v: Tensor) -> Tensor:
        kept = v if self.mask is None else self.mask * v
        return self.factor * self.space.forward(self.space.inverse(kept).square())

    @property
    def tensors(self) -> Sequence[Tensor]:
        """What the term is made of."""
        return (self.factor,)

    def advance(self, v: np.ndarray, count: int, table: Sequence[np.ndarray]) -> None:
        """Takes `count` steps of order 4 in place, compiled; v (batch, n//2 + 1), table of `etdrk.coefficients`."""
        from sciops.pde.evolution.compiled import convection

        factor = np.ascontiguousarray(np.atleast_2d(self.factor.detach().numpy()))
        kept = v.shape[1] if self.mask is None else int(self.mask.count_nonzero())
        convection(v, count, *table, factor, kept, self.space.grid.shape[0], _BLOCK)
