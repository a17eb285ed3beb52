"""ℓ₂ radii of a Gaussian-smoothed classifier from class probabilities, and Lipschitz constants of smoothed functions.

p_c(x) = E f_c(x + ε), ε ~ N(0, σ²I), f_c ∈ [0, 1]. With nothing known of f, p_A after a shift by R is at least
Φ(Φ⁻¹(p_A) − R/σ) (arXiv:1902.02918). Where every f_c is L-Lipschitz, the worst f_c is the ramp that rises from 0
to 1 over a length 1/L, and Φ gives way to its mean over a window of width w = 1/(Lσ):

    P_w(r) = (1/w) ∫_{r−w/2}^{r+w/2} Φ(v) dv = [H(r + w/2) − H(r − w/2)]/w,   H(v) = vΦ(v) + φ(v)
    R_A = σ P_w⁻¹(p_A),   R_AB = (σ/2)(P_w⁻¹(p_A) − P_w⁻¹(p_B)),   P₀ = Φ

Nothing larger holds for every L-Lipschitz f. All functions take and return numpy float64 and broadcast; σ and L share
the unit of x, and so do the radii. Radii of probabilities that certify nothing are negative: the caller abstains.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np

from sciops.robustness.checks import check_positive

Radius = Literal["exact", "paper", "cohen"]

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)  # to round-off for windows up to 1
_STEPS = 100  # of Newton, which takes 5 to 15; up to 60 far out in the tail of a wide ramp


def cohen_radius(p_top: Any, p_other: Any = None, *, sigma: float) -> np.ndarray:
    """Radius of a smoothed classifier of which nothing is known: (σ/2)(Φ⁻¹(p_A) − Φ⁻¹(p_B)).

    Without p_B it is σΦ⁻¹(p_A), the same with p_B = 1 − p_A. Source: arXiv:1902.02918.
    """
    return lipschitz_radius(p_top, p_other, sigma=sigma, lipschitz=math.inf)


def lipschitz_radius(p_top: Any, p_other: Any = None, *, sigma: float, lipschitz: float) -> np.ndarray:
    """Radius of a smoothed classifier with L-Lipschitz components f_c ∈ [0, 1].

    (σ/2)(P_w⁻¹(p_A) − P_w⁻¹(p_B)) with w = 1/(Lσ). No larger radius holds for every such f.

    Without p_B it is σP_w⁻¹(p_A).

    Parameters
    ----------
    p_top, p_other : array
        Lower bounds on p_A, upper bounds on every other p_c.
    sigma : float
        σ.
    lipschitz : float
        L of each component f_c, ℓ₂, with respect to the noised input; inf gives Cohen's radius, and σ → 0 gives (p_A −
        ½)/L and (p_A − p_B)/(2L).

    Returns
    -------
    array
        By Newton's method to round-off.

    Raises
    ------
    ValueError
        For probabilities outside [0, 1] and for σ or L not above 0.
    """
    _check(sigma, lipschitz)
    top = sigma * window_quantile(p_top, 1 / (lipschitz * sigma))
    if p_other is None:
        return top
    return _half_gap(top, sigma * window_quantile(p_other, 1 / (lipschitz * sigma)))


def paper_radius(p_top: Any, p_other: Any = None, *, sigma: float, lipschitz: float) -> np.ndarray:
    """Radius of a smoothed L-Lipschitz classifier by slopes, as published: ½[Φ⁻¹(p_A)/ℓ(p_A) − Φ⁻¹(p_B)/ℓ(p_B)].

    ℓ(p) is the slope of Φ⁻¹∘p at level p. Without p_B it is Φ⁻¹(p_A)/ℓ(p_A). Arguments as for `lipschitz_radius`.

    Notes
    -----
    ℓ(p) = L[Φ(r + w/2) − Φ(r − w/2)]/φ(Φ⁻¹(p)), r = P_w⁻¹(p), is the largest slope that an L-Lipschitz f allows at that
    level, and never more than that of `lipschitz_radius`, which it meets where L → ∞. The slope is larger further out,
    so that the form is safe where p_A ≥ ½ ≥ p_B. Elsewhere it is not monotone in p and would certify p_A < p_B; there
    the exact radius is returned where it is smaller.

    References
    ----------
    arXiv:2504.02412 and its code, with the slope taken at the point itself.
    """

    from scipy import special

    _check(sigma, lipschitz)
    window = 1 / (lipschitz * sigma)

    def scaled(p: np.ndarray) -> np.ndarray:
        far = np.maximum(p, 1 - p)
        z = special.ndtri(far)
        slope = _window_mean(_density, window_quantile(far, window), window)
        with np.errstate(divide="ignore", invalid="ignore"):
            value = np.where(np.isinf(z), z, sigma * z * _density(z) / slope)
        return np.where(p < 0.5, -value, value)

    radius = scaled(_probability(p_top))
    if p_other is not None:
        radius = _half_gap(radius, scaled(_probability(p_other)))
    return np.minimum(radius, lipschitz_radius(p_top, p_other, sigma=sigma, lipschitz=lipschitz))


def margin_radius(p_top: Any, p_other: Any, *, sigma: float, lipschitz: float = math.inf) -> np.ndarray:
    """Radius from the margin and the Lipschitz constant of the smoothed map: (p_A − p_B)/(√2·Lip(p)).

    Lip(p) = L erf(1/(2Lσ)); the radius is σ√(π/2)(p_A − p_B) where L = ∞.

    lipschitz : L of the whole map x ↦ f(x) into the probability simplex, ℓ₂ to ℓ₂

    Source: arXiv:2309.16883.
    """
    gap = _probability(p_top) - _probability(p_other)
    return gap / (math.sqrt(2) * smoothed_lipschitz(lipschitz, sigma=sigma, span=math.sqrt(2)))


def smoothed_lipschitz(lipschitz: float, *, sigma: float, span: float = 1.0) -> float:
    """A Lipschitz constant of E f(x + ε) for every L-Lipschitz f with values in [0, b]: L erf(b/(2√2 Lσ)).

    span : b; √2, the diameter of the simplex, for a map into it from ℓ₂ to ℓ₂. A ramp attains it.

    σ → 0 gives L, L → ∞ gives b/(σ√(2π)).
    """
    _check(sigma, lipschitz)
    if math.isinf(lipschitz):
        return span / (sigma * math.sqrt(2 * math.pi))
    return lipschitz * math.erf(span / (2 * math.sqrt(2) * lipschitz * sigma))


def window_probability(radius: Any, window: float) -> np.ndarray:
    """P_w(r) = (1/w) ∫_{r−w/2}^{r+w/2} Φ(v) dv: a smoothed ramp of width wσ, at the distance rσ from its middle."""

    from scipy import special

    return _window_mean(special.ndtr, np.asarray(radius, dtype=np.float64), window)


def window_quantile(p: Any, window: float) -> np.ndarray:
    """The inverse P_w⁻¹(p); −∞ and ∞ at 0 and 1, Φ⁻¹ for w = 0."""

    from scipy import special

    p = _probability(p)
    centre = special.ndtri(p)
    if window == 0:
        return centre
    finite = np.isfinite(centre)
    # P_w is concave above 0, where its mean over a window lies below Φ, and odd about ½: from Φ⁻¹(p) Newton's steps go
    # outwards and never past the root
    r = np.where(finite, centre, 0.0)
    goal = np.where(finite, p, 0.5)
    moving = np.ones(np.shape(p), bool)  # each on its own, so that no neighbour changes a result
    for _ in range(_STEPS):
        step = (goal - window_probability(r, window)) / _window_mean(_density, r, window)
        step = np.where(goal >= 0.5, np.maximum(step, 0.0), np.minimum(step, 0.0))
        r = np.where(moving, r + step, r)
        moving &= np.abs(step) > 4e-16 * (np.abs(r) + window)
        if not moving.any():
            break
    return np.where(finite, r, centre)


def _window_mean(function: Any, r: np.ndarray, window: float) -> np.ndarray:
    """Mean over [r − w/2, r + w/2] of Φ or φ: by quadrature for narrow windows, where differences cancel."""

    from scipy import special

    if window <= 1:
        return function(r[..., None] + window / 2 * _NODES) @ _WEIGHTS / 2
    primitive = special.ndtr if function is _density else _primitive
    return (primitive(r + window / 2) - primitive(r - window / 2)) / window


def _primitive(v: np.ndarray) -> np.ndarray:
    """H(v) = vΦ(v) + φ(v) = ∫_{−∞}^v Φ."""

    from scipy import special

    return v * special.ndtr(v) + _density(v)


def _density(v: np.ndarray) -> np.ndarray:
    return np.exp(-v * v / 2) / math.sqrt(2 * math.pi)


def _half_gap(top: np.ndarray, other: np.ndarray) -> np.ndarray:
    with np.errstate(invalid="ignore"):
        gap = (top - other) / 2
    return np.where(np.isnan(gap), -np.inf, gap)  # p_A = p_B ∈ {0, 1}: nothing is known of the order


def _probability(p: Any) -> np.ndarray:
    p = np.asarray(p, dtype=np.float64)
    if not ((p >= 0) & (p <= 1)).all():
        raise ValueError(f"probabilities from {p.min():g} to {p.max():g}: expected values between 0 and 1")
    return p


def _check(sigma: float, lipschitz: float) -> None:
    check_positive(sigma=sigma)
    if not lipschitz > 0:
        raise ValueError(f"lipschitz={lipschitz}: expected a constant above 0, or inf where none is known")
