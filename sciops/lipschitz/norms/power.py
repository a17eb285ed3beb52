"""Power iteration: lower bounds of the largest singular value. It certifies nothing from above."""

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
    """A lower bound of the largest singular value of a linear map, by power iteration.

    ‖Av‖/‖v‖ ≤ σ₁ with v ← A*Av/‖A*Av‖.

    Parameters
    ----------
    linear : Tensor (m, n), module or function
        A matrix, or a linear or affine map of (1, *shape), whose adjoint comes from automatic differentiation. A module
        is evaluated in its own dtype: use float64 for an accurate bound.
    shape : sequence of int
        Shape of one input, without the batch; not needed for a matrix.
    iterations : int
        Number of steps.
    generator : torch.Generator or None
        Of the random start; None uses a fixed seed.
    like : Tensor or None
        Gives the dtype and device of the start. Default: those of the matrix or of the module's parameters. A module of
        complex vectors needs a complex one.

    Returns
    -------
    Tensor
        A number without a graph, float64.

    Raises
    ------
    ValueError
        For a map without a shape.

    Notes
    -----
    From a random start the error decreases like (σ₂/σ₁)^{2k}; a start orthogonal to v₁ never finds σ₁.
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
        v = adjoint(v, w / size.clamp_min(1e-300).to(w.real.dtype)).detach()
    loss = _ROUNDING + 64 * torch.finfo(like.dtype).eps
    return best * (1 - loss)
