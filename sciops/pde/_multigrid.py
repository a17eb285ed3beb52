"""What both forms of the multigrid solver share: level sizes, smoother weights, stopping rules.

Conjugate gradients in float64, preconditioned by one float32 V(2, 2)-cycle of black-box multigrid. The cycle is not
exactly symmetric in float32, so the direction update is the flexible one, β = −⟨Ap, z⟩/⟨p, Ap⟩. The residual that CG
carries along drifts from the true one; each round ends by replacing it with b − Au, and only that one is reported.
"""

from __future__ import annotations

import math
import sys

# Chebyshev weights of two Jacobi steps on λ(D⁻¹A) ∈ [½, 2]; λ ≤ 2 holds for every M-matrix, and
# |(1 − ω₁λ)(1 − ω₂λ)| < 1 on (0, 2] keeps the cycle positive definite.
FIRST, SECOND = (1.0 / (1.25 + sign * 0.75 * math.cos(math.pi / 4)) for sign in (1, -1))

HALF_EPSILON = 0.5 * sys.float_info.epsilon
ROUNDS = 5  # residual replacements at most
SAFETY = 0.9  # share of the tolerance at which the carried residual ends a round
STALLED = 0.5  # a round that leaves more than this share of the last true residual is the last


def level_shapes(mx: int, my: int) -> list[tuple[int, int]]:
    """Unknowns per axis from fine to coarse, halved until an axis has one: 419 → 209 → 104 → … → 1."""
    shapes = [(mx, my)]
    while min(shapes[-1]) > 1:
        shapes.append((shapes[-1][0] // 2, shapes[-1][1] // 2))
    return shapes
