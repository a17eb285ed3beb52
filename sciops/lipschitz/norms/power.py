"""Power iteration: σ₁ from below. It never certifies anything from above."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from sciops.models.apply import placed_for

_ROUNDING = 1e-11  # relative, of ‖Av‖/‖v‖ in float64; far above what a sum of 1e4 terms loses


def power_iteration(
    linear: Tensor | nn.Module | Callable[[Tensor], Tensor],
    shape: Sequence[int] | None = None,
    *,
    iterations: int = 50,
    generator: torch.Generator | None = None,
    like: Tensor | None = None,
) -> Tensor:
    """‖Av‖/‖v‖ ≤ σ₁ with v ← A*Av/‖A*Av‖: a lower bound at every step, and nothing else.

    linear : a matrix (m, n), or a map of (1, *shape) that is linear or affine; its adjoint comes from automatic
        differentiation. A module's own dtype is used; for a bound worth its digits hand over one in float64.
    shape : of one input, without the batch; not needed for a matrix
    generator : of the start; a fixed seed of its own when None
    like : dtype and device of the start; by default those of the matrix, or the real precision of the module. A module
        of complex vectors needs a complex one
    returns : a number without a graph, float64

    From a random start the error shrinks like (σ₂/σ₁)^{2k}; a start orthogonal to v₁ never finds it.

    Raises ValueError when a map comes without a shape.
    """
    if isinstance(linear, Tensor):
        matrix = linear.detach().to(torch.complex128 if linear.is_complex() else torch.float64)
        apply, shape, like = (lambda v: v @ matrix.mT), matrix.shape[-1:], matrix
        adjoint = lambda v, w: w @ matrix.conj()  # noqa: E731
    else:
        if shape is None:
            raise ValueError("power_iteration: a map needs the shape of one input, such as shape=(channels, 32, 32)")
        if like is None:
            like = torch.empty(0, dtype=torch.float64)
            like = placed_for(linear, like) if isinstance(linear, nn.Module) else like
        with torch.no_grad():
            offset = linear(torch.zeros((1, *shape), dtype=like.dtype, device=like.device))

        def apply(v: Tensor) -> Tensor:
            return linear(v) - offset

        def adjoint(v: Tensor, w: Tensor) -> Tensor:
            with torch.enable_grad():
                v = v.detach().requires_grad_()
                return torch.autograd.grad(apply(v), v, w)[0]

    if generator is None:
        generator = torch.Generator().manual_seed(0)
    v = torch.randn((1, *shape), dtype=like.dtype, generator=generator).to(like.device)
    best = torch.zeros((), dtype=torch.float64, device=like.device)
    for _ in range(iterations):
        length = torch.linalg.vector_norm(v)
        if not bool(length > 0):
            break
        v = v / length
        with torch.no_grad():
            w = apply(v)
        size = torch.linalg.vector_norm(w.to(torch.complex128 if w.is_complex() else torch.float64))
        length = torch.linalg.vector_norm(v.to(torch.complex128 if v.is_complex() else torch.float64))
        best = torch.maximum(best, size / length)
        v = adjoint(v, w / size.clamp_min(1e-300).to(w.real.dtype if w.is_complex() else w.dtype)).detach()
    loss = _ROUNDING + 64 * torch.finfo(like.dtype).eps
    return best * (1 - loss)
