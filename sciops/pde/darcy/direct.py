"""Sparse LU with one step of iterative refinement: what serves when multigrid does not converge."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from sciops.pde.darcy.five_point import Wraps, apply


def solve_directly(
    along_y: Tensor, along_x: Tensor, b: Tensor, singular: bool = False, wraps: Wraps = (False, False)
) -> Tensor:
    """u with A u = b, sample by sample on the CPU; (batch, mx, my) like b, on its device.

    The refinement takes the residual in flux form, whose rounding is smaller than the assembled matrix's. Where
    constants are in the kernel of A (`singular`), the unknown with the largest diagonal is tied to zero: it draws no
    flux when Σb = 0, so that u solves A u = b itself. NaN where A has no factors, as with conductances that underflow.
    """
    from scipy.sparse.linalg import splu

    u = torch.empty_like(b)
    for i in range(len(b)):
        one = slice(i, i + 1)
        matrix = assemble(along_y[i].cpu().numpy(), along_x[i].cpu().numpy(), wraps)
        if singular:
            diagonal = matrix.diagonal()
            diagonal[diagonal.argmax()] *= 2.0
            matrix.setdiag(diagonal)
        # symmetric positive definite: the diagonal is always a good pivot, so the ordering may be symmetric too
        try:
            factors = splu(matrix, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True})
        except RuntimeError:  # singular in double precision: the residual of NaN tells the caller
            u[one] = torch.nan
            continue

        def inverse(right: Tensor, factors=factors) -> Tensor:
            return torch.from_numpy(factors.solve(right.cpu().numpy().ravel())).view_as(right).to(right.device)

        u[one] = inverse(b[one])
        u[one] += inverse(b[one] - apply(along_y[one], along_x[one], u[one], wraps))
    return u


def assemble(along_y: np.ndarray, along_x: np.ndarray, wraps: Wraps = (False, False)):
    """The scipy CSC matrix of one sample's conductances, unknowns in row-major order."""
    from scipy.sparse import coo_array, diags_array

    mx, my = along_y.shape[0], along_x.shape[1]
    diagonal = along_y[:, 1:] + along_y[:, :-1] + along_x[1:] + along_x[:-1]
    right = along_y[:, 1:].copy()
    right[:, -1] = 0.0
    down = along_x[1:-1].ravel()
    if my == 1:  # the neighbour in memory is then the one along x
        matrix = diags_array([diagonal.ravel(), -down, -down], offsets=[0, 1, -1], format="csc")
    else:
        side = right.ravel()[: mx * my - 1]
        bands = [diagonal.ravel(), -side, -side, -down, -down]
        matrix = diags_array(bands, offsets=[0, 1, -1, my, -my], format="csc")
    index = np.arange(mx * my).reshape(mx, my)
    ends = ((index[0], index[-1], along_x[0]), (index[:, 0], index[:, -1], along_y[:, 0]))
    for p, q, face in (end for end, round_ in zip(ends, wraps) if round_):
        at = np.concatenate([p, q]), np.concatenate([q, p])
        matrix = matrix - coo_array((np.tile(face, 2), at), shape=matrix.shape).tocsc()
    return matrix
