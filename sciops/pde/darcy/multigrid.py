"""What both forms of the multigrid solver share: level sizes, smoother weights, stopping rules.

Conjugate gradients in float64, preconditioned by one float32 V(2, 2)-cycle of black-box multigrid. The cycle is not
exactly symmetric in float32, so the direction update is the flexible one, β = −⟨Ap, z⟩/⟨p, Ap⟩. The residual that CG
carries along drifts from the true one; each round ends by replacing it with b − Au, and only that one is reported.
The first guess is full multigrid's without its finest level: half a cycle's work that saves one or two iterations.
"""

from __future__ import annotations

import math
import sys
from typing import NamedTuple

# Chebyshev weights of two Jacobi steps on λ(D⁻¹A) ∈ [½, 2]; λ ≤ 2 holds for every M-matrix, and
# |(1 − ω₁λ)(1 − ω₂λ)| < 1 on (0, 2] keeps the cycle positive definite.
FIRST, SECOND = (1.0 / (1.25 + sign * 0.75 * math.cos(math.pi / 4)) for sign in (1, -1))

LITTLE = 0.1  # share of a diagonal that may leak through a wall and still be left out of the weights between lines
HALF_EPSILON = 0.5 * sys.float_info.epsilon
ROUNDS = 5  # residual replacements at most
SAFETY = 0.9  # share of the tolerance at which the carried residual ends a round
COARSE = 1000  # unknowns of a level on which full multigrid starts: further down a level costs more than it gives
STALLED = 0.5  # a round that leaves more than this share of the last true residual is the last


class Way(NamedTuple):
    """How a sample is coarsened and smoothed: whether the axes change places, how often the first is then halved alone,
    and whether whole lines are smoothed rather than points."""

    transposed: bool = False
    rows_alone: int = 0
    lines: bool = False


def level_shapes(
    mx: int, my: int, rows_alone: int = 0, wraps: tuple[bool, bool] = (False, False)
) -> list[tuple[int, int]]:
    """Unknowns per axis from fine to coarse, halved until an axis has one: 419 → 209 → 104 → … → 1.

    The first `rows_alone` coarsenings halve the first axis alone. An axis that wraps round is halved while it has an
    even number of at least four: a coarse point must stand between any two that are interpolated.
    """
    shapes = [(mx, my)]
    while all(m > 3 and m % 2 == 0 if round_ else m > 1 for m, round_ in zip(shapes[-1], wraps)):
        mx, my = shapes[-1]
        shapes.append((mx // 2, my // 2 if len(shapes) > rows_alone else my))
    return shapes


def nested_level(shapes) -> int:
    """The level on which full multigrid starts, of two at least: not the finest, and of `COARSE` unknowns at most."""
    level = 1
    while level < len(shapes) - 1 and shapes[level][0] * shapes[level][1] > COARSE:
        level += 1
    return level


def coarsening(octaves: float) -> tuple[bool, int]:
    """(whether the axes change places, how often the first is then halved alone), for log₂ of the ratio of the
    conductances along the first axis to those along the second.

    Point smoothing leaves errors that vary across the stronger couplings alone. Halving the stronger axis divides the
    ratio by four each time; between ½ and 2 both axes are halved.
    """
    strength = round(abs(octaves), 6)
    return (octaves < 0.0, math.ceil((strength - 1.0) / 2.0)) if strength > 1.0 else (False, 0)
