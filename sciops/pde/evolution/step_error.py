"""Error estimates of time stepping, from runs with longer steps and, for unresolved oscillations, with shorter ones."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from sciops.arrays.scale import norm_of

__all__ = ["doubling_error", "expected_ratio", "unresolved_error"]

_NEAR = 0.25  # by how much the observed order may differ from that of the method
_WEIGHT = 0.01  # of the norm: stiff modes of less cannot change the rest by much
_WINDOW = 8  # steps that are taken again in parts
_PARTS = 16
_ROUNDINGS = 64  # by which two computations of the same field differ


def doubling_error(
    fine: Tensor,
    double: Tensor,
    longest: Tensor,
    stiff_part: Callable[[Tensor], Tensor],
    order: int,
    *,
    expected: float,
) -> tuple[Tensor, Tensor]:
    """(error of `fine` relative to its norm, whether stiff modes carry weight in it), (batch,) both.

    In modes with h|λ| ≤ 1, d₁ = ‖u_h − u_2h‖ and d₂ = ‖u_2h − u_4h‖ show the order q = log₂(d₂/d₁), and

        error = d₁/(2^{min(q, p)} − 1)

    where it is not below the order p of the method by more than a quarter, else d₁/(2^{q − 1} − 1), at most 2 d₁.
    Stiffer modes have no order yet: their error is taken as d₁, undivided.

    fine, double, longest : (batch, ...) at one time, of steps h, 2h and about 4h
    stiff_part : field → its part in modes with h|λ| > 1
    expected : d₂/d₁ at the order p, 2^p for steps of 4h; inf where the longest steps carry no information
    """
    size = norm_of(fine.flatten(1), 1)
    nearer, further = fine - double, double - longest
    stiff = stiff_part(nearer)
    first, unordered = (norm_of(part.flatten(1), 1) for part in (nearer - stiff, stiff))
    second = norm_of((further - stiff_part(further)).flatten(1), 1)
    ratio = torch.where(first > 0, 2.0**order / expected * second / torch.where(first > 0, first, 1.0), 2.0**order)
    # unstable longest steps carry no information: no order is observed
    ratio = torch.where(second.isfinite(), ratio, 1.0)
    ratio = torch.where(ratio.log2() >= order - _NEAR, ratio.clamp(max=2.0**order), ratio / 2)
    ordered = first / (ratio.clamp_min(1.5) - 1)
    error = torch.hypot(ordered, unordered) / torch.where(size > 0, size, 1.0)
    weighty = norm_of(stiff_part(fine).flatten(1), 1) > _WEIGHT * size
    return torch.nan_to_num(error, nan=math.inf, posinf=math.inf), weighty


def expected_ratio(steps: list[tuple[float, int]], end: float, few: int, order: int) -> float:
    """d₂/d₁ at the order p, errors being in proportion to Σ h^{p + 1}; inf where the longest steps are too short.

    steps : (length, number) of the steps of every interval; few : number of the longest steps, all alike
    """
    if not steps:
        return 2.0**order
    local = sum(n * h ** (order + 1) for h, n in steps)
    ratio = (end * (end / few) ** order / local - 2**order) / (2**order - 1)
    return ratio if ratio > 2 ** (order - 1) else math.inf


def unresolved_error(
    integrate: Callable[[list[float], list[int], int], Tensor], linear: Tensor, h: float, steps: int, order: int
) -> Tensor:
    """‖error‖ (batch,) of fast oscillations that a step does not resolve; 0 for samples whose |Im λ| h ≤ 1.

    Where h|Im λ| > 1, the products of modes turn several times in a step. Runs with h, 2h and 4h all take nearly
    nothing for them, agree with each other, and are all wrong. So the first steps are taken again in sixteenths, of
    order 4, and the largest difference beyond rounding is taken to grow in proportion to the number of steps.

    integrate : (lengths, counts, order) → (batch, times, ...), from the initial field
    linear : λ, (1 or batch, ...)
    """
    window = _WINDOW if steps >= _WINDOW else 4
    counts = [window // 4, window // 4, window // 2]
    lengths = [h * count for count in counts]
    with torch.no_grad():
        finest = integrate(lengths, [_PARTS * count for count in counts], 4)
        away = norm_of((integrate(lengths, counts, order) - finest).flatten(2), 2)
        rounding = _ROUNDINGS * torch.finfo(finest.dtype).eps * norm_of(finest.flatten(2), 2)
        largest = torch.nan_to_num(away - rounding, nan=math.inf, posinf=math.inf).amax(1).clamp_min(0)
    turns = h * linear.imag.abs().flatten(1).amax(1).to(largest.device)
    return torch.where(turns > 1, largest * (steps / window), 0.0)
