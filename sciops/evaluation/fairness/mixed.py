"""Poisson regression with a random effect of each cluster: the spread between clusters, and few rows in each."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sciops.evaluation.fairness.observations import Observations
from sciops.evaluation.fairness.regression import poisson_regression

_NODES = 30
_NEWTON = 30


@dataclass(frozen=True)
class MixedRegression:
    """A fitted E_si ~ Poisson(N_si exp(x_si'β + u_s)), u_s ~ N(0, σ²).

    names, coefficients : per column; exp of a coefficient is the ratio of medians over clusters, which is also the
        ratio of means where σ is the same in all groups
    sigma : standard deviation of ln rate between clusters
    log_likelihood : at the estimate, with the constants of the counts left out
    spread_p : p value of σ = 0 by the likelihood ratio, whose law is ½χ²₀ + ½χ²₁
    effects : (clusters,) mode of u_s given the data, in the order of sorted labels
    """

    names: tuple[str, ...]
    coefficients: np.ndarray
    sigma: float
    log_likelihood: float
    spread_p: float
    effects: np.ndarray


def mixed_poisson(
    observations: Observations,
    factors: tuple[str, ...] = (),
    *,
    covariates: tuple[str, ...] = (),
    references: dict[str, str] | None = None,
) -> MixedRegression:
    """Poisson regression with a normal random intercept of each cluster, by its marginal likelihood.

    A cluster enters through E_s = Σ E_si and m_s = Σ N_si exp(x'β) alone::

        ln L_s = Σ_i E_si (ln N_si + x_si'β) + ln ∫ exp(E_s u − m_s e^u) φ(u; 0, σ²) du

    The integral is by Gauss–Hermite quadrature with 30 nodes about the mode of the integrand, scaled by its curvature;
    (β, ln σ) is found by L-BFGS.

    Parameters
    ----------
    observations, factors, covariates, references : as for `poisson_regression`, whose errors are raised too

    Returns
    -------
    MixedRegression
    """
    from scipy.optimize import minimize
    from scipy.stats import chi2

    start = poisson_regression(observations, factors, covariates=covariates, references=references)
    columns = start.design
    _, index = np.unique(observations.cluster, return_inverse=True)
    sums = np.bincount(index, weights=observations.errors)

    def negative(parameters: np.ndarray) -> tuple[float, np.ndarray]:
        beta, sigma = parameters[:-1], math.exp(parameters[-1])
        linear = columns.offset + columns.matrix @ beta
        mean = np.exp(linear)
        value, tilt, second = log_integral(sums, np.bincount(index, weights=mean), sigma)
        # ∂ ln L / ∂β = Σ_i x_i (E_i − μ_i E[e^u]),  ∂ ln L / ∂ ln σ = Σ_s (E[u²]/σ² − 1)
        slope = columns.matrix.T @ (observations.errors - mean * tilt[index])
        total = float(observations.errors @ linear) + float(value.sum())
        return -total, -np.append(slope, float((second / sigma**2 - 1.0).sum()))

    found = minimize(
        negative,
        np.append(
            start.coefficients, math.log(max(_moment_sigma(observations, start.coefficients, columns.matrix), 0.05))
        ),
        jac=True,
        method="L-BFGS-B",
        bounds=[(None, None)] * len(columns.names) + [(math.log(1e-4), math.log(20.0))],
        options={"maxiter": 500, "ftol": 1e-12, "gtol": 1e-8},
    )
    beta, sigma = found.x[:-1], math.exp(found.x[-1])
    without = float(observations.errors @ (columns.offset + columns.matrix @ start.coefficients)) - float(
        np.exp(columns.offset + columns.matrix @ start.coefficients).sum()
    )
    ratio = max(2 * (-float(found.fun) - without), 0.0)
    means = np.bincount(index, weights=np.exp(columns.offset + columns.matrix @ beta))
    return MixedRegression(
        names=columns.names,
        coefficients=beta,
        sigma=sigma,
        log_likelihood=-float(found.fun),
        spread_p=0.5 * float(chi2.sf(ratio, 1)) if ratio > 0 else 1.0,
        effects=_mode(sums, means, sigma),
    )


def log_integral(errors: np.ndarray, means: np.ndarray, sigma: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """ln ∫ exp(E u − m e^u) φ(u; 0, σ²) du of every cluster, with the means of e^u and u² under the integrand.

    Parameters
    ----------
    errors, means : (clusters,) E_s and m_s
    sigma : standard deviation of u

    Returns
    -------
    three arrays (clusters,)
    """
    mode = _mode(errors, means, sigma)
    width = 1.0 / np.sqrt(means * np.exp(mode) + 1.0 / sigma**2)
    nodes, weights = np.polynomial.hermite.hermgauss(_NODES)
    u = mode[:, None] + math.sqrt(2) * width[:, None] * nodes
    exponent = errors[:, None] * u - means[:, None] * np.exp(u) - u**2 / (2 * sigma**2)
    terms = exponent + nodes**2 + np.log(weights)
    largest = terms.max(axis=1, keepdims=True)
    shares = np.exp(terms - largest)
    total = shares.sum(axis=1)
    value = np.log(total) + largest[:, 0] + np.log(width / sigma) - 0.5 * math.log(math.pi)
    shares /= total[:, None]
    return value, (shares * np.exp(u)).sum(axis=1), (shares * u**2).sum(axis=1)


def _mode(errors: np.ndarray, means: np.ndarray, sigma: float) -> np.ndarray:
    """Where E u − m e^u − u²/2σ² is largest: Newton from a point above, where the function is concave throughout."""
    u = np.zeros_like(means)
    for _ in range(_NEWTON):
        slope = errors - means * np.exp(u) - u / sigma**2
        # a step is cut to 1: far above the mode e^u overshoots
        u = u + np.clip(slope / (means * np.exp(u) + 1.0 / sigma**2), -1.0, 1.0)
    return u


def _moment_sigma(observations: Observations, beta: np.ndarray, matrix: np.ndarray) -> float:
    """σ from Var(E_s) = μ_s + μ_s² (e^{σ²} − 1)."""
    _, index = np.unique(observations.cluster, return_inverse=True)
    means = np.bincount(index, weights=observations.exposure * np.exp(matrix @ beta))
    sums = np.bincount(index, weights=observations.errors)
    excess = float(((sums - means) ** 2 - means).sum()) / max(float((means**2).sum()), 1e-300)
    return math.sqrt(math.log1p(max(excess, 0.0)))
