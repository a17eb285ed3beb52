"""Norms of convolutions: exact on a torus, certified bounds for other padding, with or without a grid."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn import functional

from sciops.lipschitz.norms.bracket import Bracket, outward
from sciops.lipschitz.norms.gram import power_of_two, result_dtype
from sciops.lipschitz.norms.padding import MODES, Pads, pad_amounts, pad_map_norm, per_axis
from sciops.lipschitz.norms.power import power_iteration
from sciops.lipschitz.norms.symbols import dilated, polyphase, torus_norm

PaddingMode = Literal["zeros", "circular", "reflect", "replicate"]

_CONVOLUTIONS = {1: functional.conv1d, 2: functional.conv2d, 3: functional.conv3d}
_BRIDGE = 32  # samples per axis and degree of the symbol: the bridge then costs 0.5 % per axis


def convolution_norm(
    weight: Tensor,
    *,
    grid: Sequence[int] | None = None,
    padding: int | str | Sequence[int] = "same",
    padding_mode: PaddingMode = "zeros",
    stride: int | Sequence[int] = 1,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
    transposed: bool = False,
    output_padding: int | Sequence[int] = 0,
    lower_iterations: int = 30,
    **how: Any,
) -> Bracket:
    """The spectral norm of a convolution with its padding, as a certified bracket.

    σ₁ of x ↦ W ∗ pad(x), as torch's convolutions of 1 to 3 axes compute it.

    Parameters
    ----------
    weight : Tensor
        (out, in/groups, *kernel); for a transposed convolution (in, out/groups, *kernel).
    grid : sequence of int or None
        Points per axis of the input; None bounds the norms on all grids that torch pads.
    padding : str, int or sequence of int
        ``same``, ``valid`` or points per axis on either side.
    padding_mode : str
        As in torch.
    stride, dilation, groups, transposed, output_padding
        As in torch.
    lower_iterations : int
        Steps of power iteration for the lower end where it is not exact; 0 sets it to 0.
    **how
        `method`, `tolerance` and `precision` of `dense_norm`.

    Returns
    -------
    Bracket

    Raises
    ------
    ValueError
        For a shape that is not a kernel, options that do not fit it, or a grid smaller than the kernel needs.

    Notes
    -----
    With F(ω) the symbol (of the polyphase kernel when strided) and d = ⌊k/2⌋:

    * circular, padding in all dk − d, stride divides n: max over the torus n of ‖F‖₂, exact
    * circular, less padding: the same as an upper bound; more padding: times √(the most copies of an output)
    * circular, stride does not divide n, or no grid: bounded by the norm of stride 1
    * zeros, valid: max over the torus n + p or n + d·(k − 1), whichever is less (rounded up to the stride): the zeros
      fill the gap, so that nothing wraps around
    * reflect, replicate: norm of the pad map times that of ``valid`` on the padded grid
    * no grid: sup_ω ‖F‖₂ ≤ max over an N-point torus · Π cos(π d/N)^{-1}, per axis (Ehlich & Zeller 1964)
    * groups: the largest of the groups; transposed: that of the adjoint

    A bound on a torus lies below sup_ω ‖F‖₂, so that `kernel_gram_bound` never improves on it.
    """
    axes, dtype = weight.ndim - 2, result_dtype(weight)
    if not 1 <= axes <= 3 or 0 in weight.shape:
        raise ValueError(f"weight of shape {tuple(weight.shape)}: expected (out, in/groups, 1 to 3 kernel axes)")
    if padding_mode not in MODES:
        raise ValueError(f"padding_mode={padding_mode!r}: expected one of {', '.join(MODES)}")
    if weight.shape[0] % groups:
        raise ValueError(f"groups={groups} does not divide the {weight.shape[0]} leading channels of the weight")
    stride, dilation = per_axis(stride, axes, "stride", 1), per_axis(dilation, axes, "dilation", 1)
    kernel = tuple(weight.shape[2:])
    pads = pad_amounts(padding, kernel, dilation)
    if transposed and padding_mode != "zeros":
        raise ValueError(f"padding_mode={padding_mode!r} of a transposed convolution: expected 'zeros'")
    reach = [d * (k - 1) for k, d in zip(kernel, dilation)]
    if grid is not None:
        sizes = per_axis(grid, axes, "grid", 1)
        if transposed:
            extra = per_axis(output_padding, axes, "output_padding", 0)
            sizes = tuple((n - 1) * s - sum(p) + r + e + 1 for n, s, p, r, e in zip(sizes, stride, pads, reach, extra))
            if min(sizes) < 1:
                raise ValueError(f"padding={padding!r} leaves nothing of the output of a transposed convolution")
        if min(n + sum(p) - r for n, p, r in zip(sizes, pads, reach)) < 1:
            raise ValueError(f"a kernel of {kernel} with padding={padding!r} has no output on a grid of {sizes}")
        if transposed and any(e >= t for e, t in zip(extra, stride)):
            lower_iterations = 0  # the adjoint has outputs that the layer has no input for
    scale = power_of_two(weight.flatten(1))
    weight = weight.to(torch.complex128 if weight.is_complex() else torch.float64) / scale
    blocks = weight.unflatten(0, (groups, -1))
    if grid is None:
        bracket, exact = _everywhere(blocks, pads, padding_mode, reach, stride, dilation, how), True
    elif padding_mode == "circular":
        bracket, exact = _circular(blocks, sizes, pads, reach, stride, dilation, how)
    elif padding_mode == "zeros":
        bracket = _flat(blocks, sizes, pads, reach, stride, dilation, how)
        exact = math.prod(kernel) == 1 and (max(stride) == 1 or not any(map(sum, pads)))
    else:
        padded = tuple(n + sum(p) for n, p in zip(sizes, pads))
        bracket = _flat(blocks, padded, ((0, 0),) * axes, reach, stride, dilation, how)
        bracket = _times(bracket, pad_map_norm(sizes, pads, padding_mode))
        exact = math.prod(kernel) == 1 and not any(map(sum, pads))
    if not exact:
        lower = torch.zeros_like(bracket.lower)
        if lower_iterations and (padding_mode != "circular" or all(max(p) <= n for p, n in zip(pads, sizes))):
            lower = _from_below(weight, sizes, pads, padding_mode, stride, dilation, groups, lower_iterations)
        bracket = Bracket(lower, bracket.upper)
    return outward(bracket.lower * scale, bracket.upper * scale, dtype)


def kernel_gram_bound(weight: Tensor, *, steps: int = 3) -> Tensor:
    """An upper bound of a convolution's norm on every grid, with zero or circular padding, from the kernel alone.

    (max_i Σ_{j,x} |K⁽ᵗ⁾_{ij}(x)|)^{1/2^t} with K⁽ᵗ⁺¹⁾ = K⁽ᵗ⁾ ⋆ K⁽ᵗ⁾*.

    Parameters
    ----------
    weight : Tensor (out, in, *kernel)
        Real.
    steps : int
        t, from 1 to 3. The kernel of step t has 2^t (k − 1) + 1 points per axis.

    Returns
    -------
    Tensor
        A number, float64, rounding included.

    Raises
    ------
    ValueError
        For steps outside 1 … 3 or a complex weight.

    Notes
    -----
    It holds for any amount of zero padding, strides and dilations. Circular padding must leave at most as many outputs
    as the grid has points, 2p ≤ k − 1: wider padding repeats outputs, which multiplies the bound by √⌈outputs/points⌉
    per axis (`convolution_norm` includes this factor). It does not hold for reflect and replicate padding. It is an
    ∞-norm of the 2^t-th power in the space of kernels, and loose for random filters.

    References
    ----------
    Delattre et al. 2024 (arXiv:2402.00240).
    """
    if not 1 <= steps <= 3:
        raise ValueError(f"steps={steps}: expected 1 to 3, the kernel grows as 2^steps")
    if weight.is_complex() or not 3 <= weight.ndim <= 5:
        raise ValueError(f"weight of shape {tuple(weight.shape)}, {weight.dtype}: expected a real (out, in, *kernel)")
    kernel = weight.double()
    if kernel.shape[0] > kernel.shape[1]:
        kernel = kernel.transpose(0, 1).flip(tuple(range(2, kernel.ndim)))
    convolve = _CONVOLUTIONS[weight.ndim - 2]
    log = torch.zeros((), dtype=torch.float64, device=weight.device)
    lost = 0.0  # of the kernel, in the larger of its row and column sums
    for _ in range(steps):
        size = kernel.detach().abs().max()
        size = torch.where(size > 0, size, 1)
        kernel, lost = kernel / size, lost / float(size)
        log = 2 * (log + size.log())
        mass = kernel.detach().abs().flatten(2).sum(-1)
        most = float(torch.maximum(mass.sum(1).max(), mass.sum(0).max()))
        inner = kernel.shape[1] * kernel[0, 0].numel()
        lost = 2 * lost * most + lost**2 + (inner + 16) * 2.3e-16 * most**2
        kernel = convolve(kernel, kernel, padding=[k - 1 for k in kernel.shape[2:]])
    rows = kernel.abs().flatten(1).sum(-1).max()
    present = rows > 0
    return torch.where(present, (torch.where(present, rows + lost, 1).log() + log) / 2**steps, -torch.inf).exp() * (
        1 + 1e-13
    )


def _everywhere(blocks, pads: Pads, mode: str, reach, stride, dilation, how) -> Bracket:
    """The supremum over all grids: from below by functions that live far from the edges."""
    strided = max(stride) > 1
    inner = _bridge(polyphase(dilated(blocks, dilation), stride) if strided else blocks, how)
    if mode == "zeros":
        return inner
    if mode != "circular":
        return _times(inner, pad_map_norm(None, pads, mode))
    extra = [max(sum(p) - r, 0) for p, r in zip(pads, reach)]
    copies = math.prod(1 + math.ceil(e / max(*p, 1)) for e, p in zip(extra, pads))
    # a stride that does not divide the grid breaks the torus: only stride 1 bounds all of them
    upper = _bridge(blocks, how).upper if strided else inner.upper
    return _times(Bracket(inner.lower, upper), math.sqrt(copies))


def _circular(blocks, grid, pads: Pads, reach, stride, dilation, how) -> tuple[Bracket, bool]:
    """(bracket, whether its lower end holds)."""
    extra = [sum(p) - r for p, r in zip(pads, reach)]
    if not any(extra) and all(n % s == 0 for n, s in zip(grid, stride)):
        return _on_torus(blocks, tuple(n // s for n, s in zip(grid, stride)), stride, dilation, how), True
    copies = math.prod(-(-(n + max(e, 0)) // n) for n, e in zip(grid, extra))
    return _times(torus_norm(blocks, grid, dilation, **how), math.sqrt(copies)), False


def _flat(blocks, grid, pads: Pads, reach, stride, dilation, how) -> Bracket:
    """Zero padding: the better of two tori that are so large that nothing wraps around."""
    gap = [min(max(p), r) for p, r in zip(pads, reach)]
    tori = {tuple(-(-(n + g) // s) for n, g, s in zip(grid, room, stride)) for room in (gap, reach)}
    brackets = [_on_torus(blocks, torus, stride, dilation, how) for torus in sorted(tori)]
    return min(brackets, key=lambda bracket: float(bracket.upper.detach()))


def _on_torus(blocks, coarse, stride, dilation, how) -> Bracket:
    """From a torus of stride·coarse points to one of `coarse`."""
    if max(stride) == 1:
        return torus_norm(blocks, coarse, dilation, **how)
    return torus_norm(polyphase(dilated(blocks, dilation), stride), coarse, (1,) * len(coarse), **how)


def bridge_factor(kernel: Sequence[int], torus: Sequence[int]) -> float:
    """Π cos(π d/N)^{-1}, d = ⌊k/2⌋: by how much sup_ω ‖F‖₂ can exceed the largest sample.

    Raises ValueError unless N > 2d along every axis.
    """
    degrees = [k // 2 if k > 1 else 0 for k in kernel]
    if any(n <= 2 * d for n, d in zip(torus, degrees)):
        raise ValueError(f"torus={tuple(torus)}: a kernel of {tuple(kernel)} needs more than 2⌊k/2⌋ points per axis")
    return math.prod(1 / math.cos(math.pi * d / n) for n, d in zip(torus, degrees)) * (1 + 1e-15)


def _bridge(blocks: Tensor, how) -> Bracket:
    kernel = tuple(blocks.shape[3:])
    torus = tuple(1 if k == 1 else _BRIDGE * (k // 2) for k in kernel)
    bracket = torus_norm(blocks, torus, (1,) * len(torus), **how)
    return Bracket(bracket.lower, bracket.upper * bridge_factor(kernel, torus))


def _times(bracket: Bracket, factor: float) -> Bracket:
    return bracket if factor == 1 else Bracket(bracket.lower, bracket.upper * (factor * (1 + 1e-15)))


def _from_below(weight, grid, pads: Pads, mode: str, stride, dilation, groups, iterations: int) -> Tensor:
    kernel = weight.detach()
    convolve = _CONVOLUTIONS[len(grid)]
    amounts = [amount for pair in reversed(pads) for amount in pair]
    mode = "constant" if mode == "zeros" else mode

    def apply(x: Tensor) -> Tensor:
        return convolve(functional.pad(x, amounts, mode=mode), kernel, None, stride, 0, dilation, groups)

    return power_iteration(apply, (weight.shape[1] * groups, *grid), iterations=iterations, like=kernel)
