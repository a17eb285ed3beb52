"""The Gaussian field of the li2020 law by its cosine modes, on any grid, and the Darcy flow of its signs."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import torch
from scipy.linalg import cho_factor, cho_solve
from torch import nn

from sciops import bases
from sciops.grids import Grid
from sciops.models import Corrector
from sciops.pde import darcy
from sciops.random_fields import two_phase

TAU, ALPHA = 3.0, 2.0


class Law:
    """g = Σ_k (λ_k + τ²)^(−α/2) x_k φ_k with x_k ~ N(0, 1), modes² of them, on n² nodes: g = Φx, (n²,)."""

    def __init__(self, nodes: int, modes: int) -> None:
        self.nodes, self.modes = nodes, modes
        frequency = bases.frequencies("cosine", modes)
        weight = np.sqrt(np.where(np.arange(modes), 2.0, 1.0))
        eigenvalue = frequency[:, None] ** 2 + frequency**2
        self.scale = (eigenvalue + TAU**2) ** (-ALPHA / 2) * weight[:, None] * weight
        self.scale[0, 0] = 0.0  # no constant
        self.values = bases.functions("cosine", np.linspace(0, 1, nodes), modes)

    def apply(self, x: np.ndarray) -> np.ndarray:
        return (self.values @ (self.scale * x.reshape(self.modes, -1)) @ self.values.T).ravel()

    def adjoint(self, g: np.ndarray) -> np.ndarray:
        return (self.scale * (self.values.T @ g.reshape(self.nodes, -1) @ self.values)).ravel()

    @cached_property
    def gram(self) -> np.ndarray:
        """ΦΦᵀ, (n², n²): Σ_k scale_k² φ_k(x) φ_k(x′)."""
        pairs = np.einsum("ik,jk->ijk", self.values, self.values).reshape(-1, self.modes)
        blocks = (pairs @ self.scale**2 @ pairs.T).reshape((self.nodes,) * 4)  # (x, x′, y, y′)
        return np.ascontiguousarray(blocks.transpose(0, 2, 1, 3)).reshape(self.nodes**2, -1)

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
