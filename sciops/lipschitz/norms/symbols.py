"""The symbol of a convolution, F(ω) = Σ_q W_q e^{i ω·q}, and the largest of its spectral norms over a torus."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from sciops.lipschitz.norms.bracket import Bracket
from sciops.lipschitz.norms.dense import dense_norm
from sciops.lipschitz.norms.gram import frobenius

_ENTRIES = 2**23  # complex numbers held at a time


def polyphase(weight: Tensor, stride: Sequence[int]) -> Tensor:
    """The polyphase kernel of a strided convolution: y_t = Σ_a Σ_b W_{sa+b} x_{s(t+a)+b}.

    (g, o, c, *k) with a stride → (g, o, c·Πs, *⌈k/s⌉) without
    """
    for axis, s in enumerate(stride):
        if s == 1:
            continue
        place = 3 + axis
        k = weight.shape[place]
        short = -k % s
        if short:
            shape = list(weight.shape)
            shape[place] = short
            weight = torch.cat([weight, weight.new_zeros(shape)], place)
        weight = weight.unflatten(place, (-1, s)).movedim(place + 1, 3).flatten(2, 3)
    return weight


def dilated(weight: Tensor, dilation: Sequence[int]) -> Tensor:
    """The kernel of a dilated convolution, zeros included."""
    for axis, d in enumerate(dilation):
        if d == 1:
            continue
        place = 3 + axis
        holes = weight.new_zeros((*weight.shape[: place + 1], d - 1, *weight.shape[place + 1 :]))
        spread = torch.cat([weight.unsqueeze(place + 1), holes], place + 1).flatten(place, place + 1)
        weight = spread.narrow(place, 0, spread.shape[place] - (d - 1))
    return weight


def torus_norm(weight: Tensor, torus: Sequence[int], dilation: Sequence[int], **how) -> Bracket:
    """The norm of a convolution on a torus, for any kernel size: max_ω ‖F(ω)‖₂ over the frequencies of the torus.

    weight : (groups, out, in, *kernel); the largest norm of the groups' blocks is returned
    how : method, tolerance and precision of `dense_norm`

    The gradient is that of the largest matrix alone, which is computed once more for it.
    """
    kernel = weight.shape[3:]
    double = weight.to(torch.complex128 if weight.is_complex() else torch.float64)
    rows = double.flatten(3).permute(3, 0, 1, 2)
    half = not weight.is_complex()
    sizes = [n // 2 + 1 if half and axis == len(torus) - 1 else n for axis, n in enumerate(torus)]
    count = math.prod(sizes)
    at_once = max(1, _ENTRIES // max(1, math.prod(rows.shape[1:])))
    lower = upper = double.new_full((), -1.0, dtype=torch.float64)
    where = 0
    with torch.no_grad():
        for start in range(0, count, at_once):
            chunk = torch.arange(start, min(start + at_once, count), device=weight.device)
            bracket = dense_norm(symbol(rows, chunk, sizes, torus, kernel, dilation), **how)
            if bool(bracket.upper.max() > upper):
                upper = bracket.upper.max()
                where = start + int(bracket.upper.amax(-1).argmax())
            lower = torch.maximum(lower, bracket.lower.max())
    # what the sums of the symbol lost, entry by entry
    loss = (len(rows) + 40) * 2.3e-16 * frobenius(double.detach().abs().flatten(3).sum(-1)).max()
    lower, upper = (lower - loss).clamp_min(0), upper + loss
    if weight.requires_grad and torch.is_grad_enabled():
        chunk = torch.tensor([where], device=weight.device)
        largest = dense_norm(symbol(rows, chunk, sizes, torus, kernel, dilation), **how).upper.max()
        upper = upper + (largest - largest.detach())
    return Bracket(lower, upper)


def symbol(rows: Tensor, chunk: Tensor, sizes, torus, kernel, dilation) -> Tensor:
    """The symbol (frequencies, groups, out, in), complex128; whole turns are removed from the angles as integers."""
    frequency: list[Tensor] = []
    for n in reversed(sizes):
        frequency.insert(0, chunk % n)
        chunk = chunk // n
    turns = torch.zeros((len(chunk), *kernel), dtype=torch.float64, device=rows.device)
    for axis, (k, n, d) in enumerate(zip(kernel, torus, dilation)):
        tap = (torch.arange(k, device=rows.device) * d) % n
        part = ((frequency[axis][:, None] * tap) % n).double() / n
        turns = turns + part.reshape(len(chunk), *[k if a == axis else 1 for a in range(len(kernel))])
    angle = 2 * math.pi * turns.flatten(1)
    if rows.is_complex():
        return torch.tensordot(torch.polar(torch.ones_like(angle), angle), rows, 1)
    return torch.complex(torch.tensordot(angle.cos(), rows, 1), torch.tensordot(angle.sin(), rows, 1))
