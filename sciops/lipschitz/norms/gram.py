"""Gram iteration: σ₁ from above by the Schatten norms of repeated Gram matrices, with a certificate and a gradient."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from sciops.arrays.compiling import refuse_functional
from sciops.lipschitz.norms.bracket import Bracket, outward

Precision = Literal["double", "input"]

LIMIT = 24  # steps: by then ln(multiplicity)/2²⁵ of σ₁ is left


def gram_bracket(
    matrix: Tensor,
    *,
    tolerance: float | None = 1e-3,
    iterations: int = LIMIT,
    precision: Precision = "double",
) -> Bracket:
    """The largest singular value by Gram iteration: an upper bound that converges to it, with a certified lower end.

    σ₁ ≤ μ_t = ‖G_t‖_F^{1/2^t} with G₀ = A, G_{t+1} = G_t* G_t. This is the Schatten norm (Σ σᵢ^p)^{1/p} with p =
    2^{t+1}.

    Parameters
    ----------
    matrix : Tensor (..., m, n)
        Real or complex; each matrix of the batch is scaled on its own.
    tolerance : float or None
        Iteration stops when upper/lower − 1 is at most this for every matrix; None takes all `iterations`.
    iterations : int
        The largest number of steps.
    precision : str
        ``double`` computes in float64 whatever the dtype; ``input`` computes in that of the matrix and widens the
        bracket by what its products may have lost, which is valid but much wider in float32.

    Returns
    -------
    Bracket
        Tensors (...), float64 for double input and float32 otherwise. `upper` has the exact gradient of μ_t,
        A (A*A)^{p/2−1} / μ_t^{p−1}, which tends to u₁v₁*; it can be differentiated twice.

    Raises
    ------
    ValueError
        For fewer than two axes, an empty matrix, or entries that are not finite.

    Notes
    -----
    The lower end is the larger of (S_2p/S_p)^{1/p}, S_p = Σ σᵢ^p, which is exact for orthogonal matrices, and ‖Av‖/‖v‖
    with v the largest column of G_t. μ_t converges quadratically when σ₂ < σ₁; where σ₁ has multiplicity r the error
    ln(r)/p halves per step. Zero matrices give (0, 0); entries from 1e-300 to 1e300 are supported.

    References
    ----------
    Delattre et al. 2023 (arXiv:2305.16173).
    """
    refuse_functional("gram_bracket", "differentiate it with backward() or torch.autograd.grad")
    check_matrix(matrix)
    if iterations < 1:
        raise ValueError(f"iterations={iterations}: expected at least 1")
    if precision not in ("double", "input"):
        raise ValueError(f"precision={precision!r}: expected 'double' or 'input'")
    tall = matrix if matrix.shape[-2] >= matrix.shape[-1] else matrix.mH
    dtype = tall.dtype if precision == "input" and tall.dtype.itemsize >= 4 else torch.float64
    work = tall.to(torch.promote_types(dtype, torch.complex32) if tall.is_complex() else dtype)
    upper, lower = _Schatten.apply(work, tolerance, iterations)
    return outward(lower, upper, result_dtype(matrix))


def check_matrix(matrix: Tensor) -> Tensor:
    """The largest entry of each matrix; ValueError in one line for what has no spectral norm."""
    if matrix.ndim < 2 or 0 in matrix.shape:
        raise ValueError(f"matrix of shape {tuple(matrix.shape)}: expected (..., rows, columns), none of them 0")
    largest = largest_entry(matrix)
    if not bool(torch.isfinite(largest).all()):
        raise ValueError("the weight holds NaN or infinite entries: it has no spectral norm")
    return largest


def result_dtype(matrix: Tensor) -> torch.dtype:
    """float64 for matrices of double precision, float32 for all others."""
    return torch.float64 if matrix.dtype in (torch.float64, torch.complex128) else torch.float32


def product_loss(inner: int, matrix: Tensor) -> float:
    """γ with ‖fl(XY) − XY‖_F ≤ γ ‖X‖_F ‖Y‖_F for an inner dimension, one division per factor included.

    Higham 2002, (3.13), with twice the unit round-off; complex products take 2γ; tensor cores round their inputs.
    """
    real = matrix.real.dtype
    loss = (inner + 8) * torch.finfo(real).eps * (2 if matrix.is_complex() else 1)
    if real is torch.float32 and matrix.is_cuda and torch.get_float32_matmul_precision() != "highest":
        loss += 2.0**-9 if torch.get_float32_matmul_precision() == "high" else 2.0**-6
    return loss


def sum_loss(matrix: Tensor) -> float:
    """Relative loss of a sum over all entries in float64, in whatever order."""
    return matrix.shape[-2] * matrix.shape[-1] * 2.3e-16


def squares(matrix: Tensor) -> Tensor:
    """‖·‖_F² over the last two axes, added up in float64, (...)."""
    flat = (torch.view_as_real(matrix) if matrix.is_complex() else matrix).double()
    return flat.square().sum(tuple(range(matrix.ndim - 2, flat.ndim)))


def frobenius(matrix: Tensor) -> Tensor:
    """‖·‖_F over the last two axes, (...)."""
    return squares(matrix).sqrt()


def largest_entry(matrix: Tensor) -> Tensor:
    """max|a_ij|, of real and imaginary parts where there are two, (...); NaN where there is one."""
    flat = torch.view_as_real(matrix.detach().resolve_conj()) if matrix.is_complex() else matrix.detach()
    return flat.abs().amax(tuple(range(matrix.ndim - 2, flat.ndim)))


def power_of_two(matrix: Tensor) -> Tensor:
    """2^e per matrix with max|a_ij| in [½, 1)·2^e, at most 2^±1000, in float64: a scale that rounds nothing."""
    exponent = torch.frexp(largest_entry(matrix).double()).exponent
    return torch.exp2(exponent.clamp(-1000, 1000).double())


def _unit(matrix: Tensor, norm: Tensor) -> Tensor:
    safe = torch.where(norm > 0, norm, torch.ones_like(norm))
    return matrix / safe.to(matrix.real.dtype)[..., None, None]


def _chain(matrix: Tensor, steps: int) -> tuple[list[Tensor], list[Tensor]]:
    """[Ĝ₀ … Ĝ_t] of Frobenius norm 1 and the norms that were divided out, detached: μ_t is homogeneous."""
    norms = [frobenius(matrix.detach())]
    chain = [_unit(matrix, norms[0])]
    for _ in range(steps):
        gram = chain[-1].mH @ chain[-1]
        norms.append(frobenius(gram.detach()))
        chain.append(_unit(gram, norms[-1]))
    return chain, norms


def _root(norms: list[Tensor]) -> Tensor:
    """√(c₁ √(c₂ … √c_t)): μ_t of Ĝ₀ from the norms that were divided out."""
    result = torch.ones_like(norms[0])
    for norm in reversed(norms):
        result = (norm * result).sqrt()
    return result


def _enclose(norms: list[Tensor], losses: list[float], slack: float) -> tuple[Tensor, Tensor]:
    """(lower, upper) of σ₁(Ĝ₀), going back through σ₁(Ĝ_s)² = c_{s+1} σ₁(Ĝ_{s+1}) ± loss."""
    upper = torch.full_like(norms[-1], 1 + slack)
    lower = (norms[-1] * (1 - 2 * slack) - losses[-1]).clamp_min(0)  # ‖Ĝ*Ĝ‖_F / ‖Ĝ‖_F ≤ σ₁(Ĝ)
    for step, (norm, loss) in enumerate(zip(reversed(norms), reversed(losses))):
        upper = (norm * upper * (1 + slack) + loss).sqrt() * (1 + slack)
        if step:
            lower = (norm * lower * (1 - slack) - loss).clamp_min(0).sqrt() * (1 - slack)
    return lower, upper


def rayleigh(matrix: Tensor, gram: Tensor) -> Tensor:
    """‖Av‖/‖v‖ less its rounding, v the largest column of a Gram matrix of A; detached, float64."""
    wide = torch.complex128 if matrix.is_complex() else torch.float64
    matrix, gram = matrix.detach().to(wide), gram.detach()
    column = gram.abs().square().sum(-2).argmax(-1)
    index = column[..., None, None].expand(*column.shape, gram.shape[-2], 1)
    v = gram.gather(-1, index).to(wide)
    v = _unit(v, frobenius(v))
    slack = product_loss(matrix.shape[-1], v) + sum_loss(matrix)
    return (frobenius(matrix @ v) - slack * frobenius(matrix)).clamp_min(0)


class _Schatten(torch.autograd.Function):
    """(upper, lower) of tall matrices, float64; the gradient of the upper end in closed form."""

    @staticmethod
    def forward(ctx, matrix: Tensor, tolerance: float | None, iterations: int):
        scale = power_of_two(matrix)
        scaled = _unit(matrix, scale)
        first_norm = frobenius(scaled)
        present = first_norm > 0
        first = gram = _unit(scaled, first_norm)
        chain, norms, losses = [first], [first_norm], []
        slack = sum_loss(matrix)
        for _ in range(iterations):
            losses.append(product_loss(gram.shape[-2], gram))
            gram = gram.mH @ gram
            norms.append(frobenius(gram))
            gram = _unit(gram, norms[-1])
            if ctx.needs_input_grad[0]:
                chain.append(gram)
            lower, upper = _enclose(norms[1:], losses, slack)
            lower = torch.where(present, torch.maximum(lower, rayleigh(first, gram)), 0)
            upper = torch.where(present, upper, 0)
            if tolerance is not None and bool((upper <= (1 + tolerance) * lower).all()):
                break
        ctx.steps = len(losses)
        # the division by the first norm rounds once more per entry
        size = first_norm * scale
        edge = 4 * torch.finfo(first.real.dtype).eps + 2 * slack
        lower, upper = lower * size * (1 - edge), upper * size * (1 + edge)
        if ctx.needs_input_grad[0]:
            ctx.save_for_backward(matrix, torch.where(present, _root(norms[1:]), 0), *chain)
        ctx.mark_non_differentiable(lower)
        return upper, lower

    @staticmethod
    def backward(ctx, grad: Tensor, _):
        matrix, mean, *chain = ctx.saved_tensors
        if torch.is_grad_enabled():  # differentiated again: the same formula from the matrix itself
            chain, norms = _chain(_unit(matrix, power_of_two(matrix)), ctx.steps)
            last = torch.where(norms[0] > 0, frobenius(chain[-1]), 1).pow(0.5**ctx.steps)
            mean = torch.where(norms[0] > 0, _root(norms[1:]) * last, 0)
        product = chain[0]
        for gram in chain[1:]:
            product = product @ gram
            product = _unit(product, frobenius(product.detach()))
        inner = (product.conj() * chain[0]).real.sum((-2, -1), dtype=torch.float64)
        factor = grad * mean / torch.where(inner > 0, inner, torch.ones_like(inner))
        return factor.to(inner.dtype)[..., None, None].to(product.dtype) * product, None, None
