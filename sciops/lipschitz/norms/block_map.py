"""Maps between the coefficients of two orthonormal systems that are nearly diagonal, as sparse blocks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from sciops.lipschitz.norms.bracket import Bracket, largest_of
from sciops.lipschitz.norms.dense import dense_norm

_DIRECT = 12  # sizes up to which singular values are as fast as eigenvalues of the Gram matrix


@dataclass(frozen=True)
class BlockMap:
    """A map y_i = Σ_j B_ij x_j with given blocks for some pairs (i, j), every pair once; all other blocks are zero.

    rows, columns : (pairs,) labels of the coefficients i and j
    blocks : (pairs, out, in), real or complex
    complete : every coefficient of the input is a j, and i = j throughout
    low, high : factors between the norm of the blocks and that of the map, 1 in orthonormal systems
    """

    rows: np.ndarray
    columns: np.ndarray
    blocks: Tensor
    complete: bool = False
    low: float = 1.0
    high: float = 1.0

    @property
    def diagonal(self) -> bool:
        return bool((self.rows == self.columns).all())

    def bracket(self) -> Bracket:
        """σ₁ = the largest over the connected parts, each a small dense matrix."""
        one = largest(self.blocks) if self.diagonal else _by_parts(self)
        return Bracket(one.lower * self.low, one.upper * self.high)

    def bracket_with(self, skip: Tensor) -> Bracket | None:
        """σ₁ of x ↦ S x + B x with the same S (out, in) in every coefficient, those that B leaves out included.

        None for a map that is not diagonal in orthonormal systems.
        """
        if not self.diagonal or self.high > 1:
            return None
        skip = skip.to(self.blocks)
        blocks = self.blocks + skip
        if not self.complete:
            blocks = torch.cat([blocks, skip[None]])
        return largest(blocks)


def accumulate(rows: np.ndarray, columns: np.ndarray, blocks: Tensor, complete: bool = False) -> BlockMap:
    """The map with the sum of the blocks at equal (row, column)."""
    pairs, inverse = np.unique(np.stack([rows, columns]), axis=1, return_inverse=True)
    index = torch.from_numpy(inverse.reshape(-1)).to(blocks.device)
    total = blocks.new_zeros(pairs.shape[1], *blocks.shape[1:]).index_add(0, index, blocks)
    return BlockMap(pairs[0], pairs[1], total, complete)


def largest(blocks: Tensor) -> Bracket:
    """The bracket of the largest σ₁ of a batch of matrices (batch, out, in), in float64."""
    wide = blocks.to(torch.complex128 if blocks.is_complex() else torch.float64)
    return dense_norm(wide, method="svdvals" if min(wide.shape[-2:]) <= _DIRECT else "eigvalsh").largest()


def _by_parts(one: BlockMap) -> Bracket:
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    rows, i = np.unique(one.rows, return_inverse=True)
    columns, j = np.unique(one.columns, return_inverse=True)
    graph = coo_array((np.ones(len(i)), (i, j + len(rows))), shape=(len(rows) + len(columns),) * 2)
    _, part = connected_components(graph, directed=False)
    part = part[i]
    sizes = np.bincount(part)
    alone = sizes[part] == 1
    brackets = [largest(one.blocks[torch.from_numpy(np.flatnonzero(alone))])] if alone.any() else []
    out, into = one.blocks.shape[1:]
    for number in np.flatnonzero(sizes > 1):
        members = np.flatnonzero(part == number)
        (r, a), (c, b) = (np.unique(ids[members], return_inverse=True) for ids in (i, j))
        index = torch.from_numpy(a * len(c) + b).to(one.blocks.device)
        dense = one.blocks.new_zeros(len(r) * len(c), out, into)
        dense = dense.index_add(0, index, one.blocks[torch.from_numpy(members)])
        brackets.append(largest(dense.view(len(r), len(c), out, into).transpose(1, 2).reshape(1, len(r) * out, -1)))
    return largest_of(brackets)
