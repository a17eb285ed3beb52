"""Functions of an operator A that is known by its action alone, by Chebyshev polynomials in A.

With the spectrum of A in [0, b] and s = 2z/b − 1, a smooth f is Σ_k c_k T_k(s) there: f(A)x = Σ_k (−1)^k c_k p_k with

    p_k = (−1)^k T_k(2A/b − 1)x,    p_{k+1} − p_k = (p_k − p_{k−1}) − (4/b) A p_k,    p_1 − p_0 = −(2/b) A p_0,

which are the states of the leapfrog scheme of x'' = −Ax at its largest stable step. As differences they lose no digits
where A is small against b, as it is on smooth fields; the coefficients of cos(t√z) and its kin vanish faster than any
power beyond k = t√b/2. Tal-Ezer, Kosloff & Koren 1987 (doi:10.1111/j.1365-2478.1987.tb00830.x).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from sciops.bases import Basis, points

__all__ = ["chebyshev_coefficients", "oscillation_terms", "polynomial_sum"]


def oscillation_terms(phase: float) -> int:
    """Terms that give cos(t√z), sin(t√z)/√z and their damped forms on [0, b] to round-off, for the phase t√b ≥ 0."""
    return math.ceil(phase / 2 + 6 * phase ** (1 / 3)) + 4


def chebyshev_coefficients(f: Callable[[np.ndarray], np.ndarray], upper: float, terms: int) -> np.ndarray:
    """(−1)^k c_k of f on [0, upper], (…, terms) float64.

    f : z (terms,) → (…, terms)
    """
    # a Chebyshev sum in s = cos θ is a cosine sum in θ; z = b cos² keeps its digits near 0, where b(1 + s)/2 would not
    basis = Basis("cosine", terms, "cell")
    z = upper * np.cos(np.pi / 2 * points(terms, "cell")) ** 2
    coefficients = basis.multiplicity() * basis.analysis(f(z))
    coefficients[..., 1::2] *= -1
    return coefficients


def polynomial_sum(
    operator: Callable[[Tensor], Tensor], x: Tensor, coefficients: np.ndarray, upper: float, axis: int
) -> Tensor:
    """y_i = Σ_j f_ij(A) x_j along `axis`, of x's shape and dtype; differentiable in x and in what `operator` holds.

    operator : x → Ax, of x's shape; its spectrum is real and in [0, upper]
    coefficients : (i, j, terms), `chebyshev_coefficients` of f
    """
    weights = torch.tensor(coefficients, dtype=x.dtype, device=x.device).unbind(-1)

    def mixed(weight: Tensor, p: Tensor) -> Tensor:
        return torch.tensordot(p, weight, dims=([axis], [1])).movedim(-1, axis)

    p, difference = x, None
    total = mixed(weights[0], p)
    for weight in weights[1:]:
        change = operator(p) * (-4 / upper)
        difference = change / 2 if difference is None else difference + change
        p = p + difference
        total = total + mixed(weight, p)
    return total
