"""The nearest matrix with orthonormal rows, and Björck's iteration towards it."""

from __future__ import annotations

import torch
from torch import Tensor


def polar(matrices: Tensor) -> Tensor:
    """U Vᴴ where W = U Σ Vᴴ: of all matrices with orthonormal rows (columns, where W is tall) the nearest to W.

    matrices : (..., rows, columns), real or complex → same
    """
    u, _, vh = torch.linalg.svd(matrices, full_matrices=False)
    return u @ vh


def bjorck(matrices: Tensor, iterations: int = 6) -> Tensor:
    """W ← 3/2 W − 1/2 W Wᴴ W, which tends to `polar(W)` where ‖W‖₂ < √3, quadratically once WWᴴ is near I.

    matrices : (..., rows, columns), real or complex, of full rank → same

    Matrices that may be larger are divided first by the bound ‖(WWᴴ)⁴‖_F^⅛ ≥ ‖W‖₂. Six iterations bring what one small
    optimiser step moved back to round-off; from afar a singular value σ < 1 grows by at most 3/2 an iteration.
    Björck & Bowie, SIAM J. Numer. Anal. 8 (1971).
    """
    w = matrices.mH if matrices.shape[-2] > matrices.shape[-1] else matrices
    gram = w @ w.mH
    eye = torch.eye(gram.shape[-1], dtype=gram.dtype, device=gram.device)
    far = torch.linalg.matrix_norm(gram - eye, keepdim=True) >= 1.9  # below 2 no σ² exceeds 3
    size = torch.linalg.matrix_norm(gram, keepdim=True).clamp_min(torch.finfo(gram.dtype).tiny)
    fourth = torch.linalg.matrix_power(gram / size, 4)  # of norm 1, so that no entry overflows
    bound = (size * torch.linalg.matrix_norm(fourth, keepdim=True) ** 0.25).sqrt()
    scale = torch.where(far, bound, torch.ones_like(bound))
    w, gram = w / scale, gram / scale**2
    for i in range(iterations):
        gram = w @ w.mH if i else gram
        w = torch.baddbmm(w, gram, w, beta=1.5, alpha=-0.5) if w.ndim == 3 else 1.5 * w - 0.5 * (gram @ w)
    return w.mH if matrices.shape[-2] > matrices.shape[-1] else w
