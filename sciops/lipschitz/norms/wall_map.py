"""Sine and cosine layers between weighted grids: S R A with the tables of one axis each.

With weights w on the input's points and v on the output's, the norm of S R A is that of (V^½ S) R (A W^−½). Its left
factor has the Gram matrix G = Sᵀ V S, its right factor H = A W⁻¹ Aᵀ, both products over the axes, so that it is the
norm of G^½ R H^½. Where the modes are orthogonal in the quadrature of the points, G and H are diagonal and the norm is
exact per mode; elsewhere the unit-diagonal parts Ĝ and Ĥ are off by the factors √(λ(Ĝ)·λ(Ĥ)), least and largest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
import torch
from torch import Tensor

from sciops.bases import functions
from sciops.grids import Grid
from sciops.lipschitz.norms.block_map import largest
from sciops.lipschitz.norms.bracket import Bracket
from sciops.mixers.spectral import walls


@dataclass(frozen=True)
class WallMap:
    """A sine or cosine layer, y = S R A x per mode.

    gains : (modes,) √(G_mm H_mm), the factor of the two tables for mode m
    blocks : (modes, out, in) R_m
    low, high : the factors between the largest gain·‖R_m‖ and the norm
    projects : A S = 1, so that in orthonormal modes S R A is R itself
    complete : the modes span the grid
    """

    gains: Tensor
    blocks: Tensor
    low: float
    high: float
    projects: bool
    complete: bool

    def bracket(self) -> Bracket:
        one = largest(self.blocks * self.gains[:, None, None])
        return Bracket(one.lower * self.low, one.upper * self.high)

    def bracket_with(self, skip: Tensor) -> Bracket | None:
        """σ₁ of x ↦ S x + this with one S (out, in) at every point; None where the modes are not orthogonal."""
        if not self.projects or self.high > 1 + 1e-9:
            return None
        skip = skip.to(self.blocks)
        blocks = self.blocks + skip
        if not self.complete:
            blocks = torch.cat([blocks, skip[None]])
        one, alone = largest(blocks), self.bracket()
        # what the modes lack in orthogonality is round-off, and enters with the layer's own size
        slack = 2 * (self.high - self.low) + 1e-14
        return Bracket((one.lower - alone.upper.detach() * slack).clamp_min(0), one.upper + alone.upper * slack)


def of_walls(
    part, modes: Sequence[int], grid: Grid, out_grid: Grid, weights: Sequence[np.ndarray], out_weights, dtype
) -> WallMap:
    """The map of a sine or cosine part of a `SpectralMixer`.

    weights, out_weights : quadrature weights per axis, of input and output
    """
    cut = tuple(slice(k) for k in modes)
    weight = part.weight.to(dtype)[cut]
    if part.shared is None:
        blocks = weight.reshape(-1, *weight.shape[-2:]).transpose(1, 2)
    else:
        blocks = weight.reshape(-1, weight.shape[-1])[:, :, None] * part.shared.to(dtype).t()
    tables = walls.wall_tables(grid, part.kind, tuple(modes), torch.float64, torch.device("cpu"))
    analysis = [table.numpy() for table, _ in tables]
    here, synthesis = ([functions(part.kind, s, k) for s, k in zip(g.fractions(), modes)] for g in (grid, out_grid))
    left = [s.T @ (v[:, None] * s) for s, v in zip(synthesis, out_weights)]
    right = [(a / w) @ a.T for a, w in zip(analysis, weights)]
    (d, low_left, high_left), (e, low_right, high_right) = _split(left), _split(right)
    one = grid == out_grid and all(np.allclose(a @ s, np.eye(len(a)), atol=1e-12) for a, s in zip(analysis, here))
    gains = torch.from_numpy(np.sqrt(d * e)).to(blocks.device, blocks.dtype)
    return WallMap(
        gains,
        blocks,
        low=float(np.sqrt(low_left * low_right)) * (1 - 1e-14),
        high=float(np.sqrt(high_left * high_right)) * (1 + 1e-14),
        projects=one,
        complete=all(k == n for k, n in zip(modes, grid.shape)),
    )


def _split(grams: Sequence[np.ndarray]) -> tuple[np.ndarray, float, float]:
    """The diagonal over all modes, and the least and largest eigenvalue of the unit-diagonal rest."""
    low = high = 1.0
    diagonals = []
    for gram in grams:
        diagonal = np.diag(gram).copy()
        scale = np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
        unit = gram / np.outer(scale, scale)
        values = np.linalg.eigvalsh(unit)
        slack = 8 * len(gram) * np.finfo(float).eps
        low, high = low * max(values[0] - slack, 0.0), high * (values[-1] + slack)
        diagonals.append(diagonal)
    return reduce(np.multiply.outer, diagonals).ravel(), low, high
