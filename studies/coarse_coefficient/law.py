"""The Gaussian field of the li2020 law by its cosine modes, on any grid, and the Darcy flow of its signs."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import torch
from scipy.linalg import cho_factor, cho_solve
from torch import nn

from sciops.grids import Grid
from sciops.models import Corrector
from sciops.pde import darcy
from sciops.random_fields import KarhunenLoeve, two_phase


class Law:
    """The field of the li2020 law and the coefficients of its modes² cosines as vectors: g = Φx on n² nodes, (n²,)."""

    def __init__(self, nodes: int, modes: int) -> None:
        self._sum = KarhunenLoeve(Grid((nodes, nodes)), tau=3.0, alpha=2.0, modes=modes)

    def apply(self, x: np.ndarray) -> np.ndarray:
        return self._sum.field(x.reshape(self._sum.shape)).ravel()

    def adjoint(self, g: np.ndarray) -> np.ndarray:
        return self._sum.transpose(g.reshape(self._sum.grid.shape)).ravel()

    @cached_property
    def gram(self) -> np.ndarray:
        """ΦΦᵀ, (n², n²)."""
        return self._sum.covariance().reshape(self._sum.grid.size, -1)

    @cached_property
    def _factor(self) -> tuple[np.ndarray, bool]:
        return cho_factor(self.gram)

    def start(self, signs: np.ndarray) -> np.ndarray:
        """The shortest x with (Φx)_j = s_j·√(2/π) times the deviation of (Φx)_j: a point with these signs, (modes²,).

        It says nothing but the signs and is far from typical: trajectories have to follow before a draw counts.
        """
        return self.adjoint(cho_solve(self._factor, signs * np.sqrt(np.diag(self.gram) * 2 / np.pi)))


LOW, HIGH = 3.0, 12.0


def solved_on(signs: np.ndarray, nodes: int, refine: int) -> np.ndarray:
    """u of the coefficient with these signs on nodes² points, solved with `refine` intervals for each of the grid's."""
    solver = Corrector(nn.Identity(), refine=refine, tol=1e-8)
    solver.correct = False
    a = torch.from_numpy(two_phase(signs.reshape(1, 1, nodes, nodes), LOW, HIGH))
    return solver(a, Grid((nodes, nodes)))[0, 0].numpy()


def solutions(fields: np.ndarray, finest: int, nodes: int, tol: float = 1e-8) -> np.ndarray:
    """u of a = 12 where g ≥ 0 and 3 elsewhere, f = 1, u = 0 on the walls, solved on finest² nodes and taken at nodes²
    of them; fields (samples, finest²)."""
    a = two_phase(fields.reshape(-1, finest, finest), LOW, HIGH)
    step = (finest - 1) // (nodes - 1)
    return darcy.solve(a, Grid((finest,) * 2), tol=tol).u[:, ::step, ::step]
