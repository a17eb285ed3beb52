"""Poisson regression of errors with exposure: rate ratios whose standard errors know that rows of a cluster depend."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from sciops.evaluation.fairness.observations import Observations

Covariance = Literal["cluster", "naive"]

FEW_CLUSTERS = 30
"""Fewer clusters than this: the sandwich is too small, and p values come from the score bootstrap."""


@dataclass(frozen=True)
class Design:
    """Columns of a regression.

    matrix : (rows, columns), the intercept first
    names : of the columns: "intercept", "factor[level]", covariates
    offset : (rows,) ln N
    """

    matrix: np.ndarray
    names: tuple[str, ...]
    offset: np.ndarray

    def columns_of(self, factor: str) -> list[int]:
        """Indices of the columns of a factor."""
        return [i for i, name in enumerate(self.names) if name.startswith(f"{factor}[")]


@dataclass(frozen=True)
class Regression:
    """A fitted Poisson regression E ~ Poisson(N exp(x'β)).

    names, coefficients, standard_errors : per column; exp of a coefficient is a rate ratio
    covariance : (columns, columns) of the coefficients
    clusters : their number
    design : what was fitted
    """

    names: tuple[str, ...]
    coefficients: np.ndarray
    standard_errors: np.ndarray
    covariance: np.ndarray
    clusters: int
    design: Design

    def contrast(self, weights: np.ndarray) -> tuple[float, float]:
        """(value, standard error) of Σ w_j β_j."""
        return float(weights @ self.coefficients), math.sqrt(max(float(weights @ self.covariance @ weights), 0.0))

    def omnibus(self, columns: list[int]) -> float:
        """p value of "all these coefficients are 0" by the Wald test; 1 where there are none."""
        from scipy.stats import f as f_law

        if not columns:
            return 1.0
        beta, part = self.coefficients[columns], self.covariance[np.ix_(columns, columns)]
        statistic = float(beta @ np.linalg.pinv(part) @ beta) / len(columns)
        return float(f_law.sf(statistic, len(columns), max(self.clusters - len(self.names), 1)))


def design(
    observations: Observations,
    factors: tuple[str, ...] = (),
    *,
    covariates: tuple[str, ...] = (),
    references: dict[str, str] | None = None,
) -> Design:
    """The columns of a regression: an intercept, an indicator of every level but the reference, the covariates.

    Raises ValueError for an unknown name, and where columns depend on each other (two factors that say the same).
    """
    columns, names = [np.ones(len(observations))], ["intercept"]
    for factor in factors:
        levels = observations.levels(factor)
        reference = (references or {}).get(factor, levels[0])
        if reference not in levels:
            raise ValueError(f"reference={reference!r}: {factor} has the levels {', '.join(levels)}")
        for level in levels:
            if level != reference:
                columns.append((observations.factor(factor) == level).astype(float))
                names.append(f"{factor}[{level}]")
    for name in covariates:
        if name not in observations.covariates:
            raise ValueError(f"covariate {name!r} is unknown: have {', '.join(observations.covariates) or 'none'}")
        columns.append(observations.covariates[name])
        names.append(name)
    matrix = np.stack(columns, axis=1)
    if np.linalg.matrix_rank(matrix / np.maximum(np.abs(matrix).max(axis=0), 1e-300)) < len(names):
        raise ValueError(f"the columns {', '.join(names)} depend on each other: leave one factor or covariate out")
    return Design(matrix, tuple(names), np.log(observations.exposure))


def poisson_regression(
    observations: Observations,
    factors: tuple[str, ...] = (),
    *,
    covariates: tuple[str, ...] = (),
    references: dict[str, str] | None = None,
    covariance: Covariance = "cluster",
    small_sample: bool = True,
) -> Regression:
    """Log-linear regression of error counts, with cluster-robust covariance.

    E_i ~ Poisson(N_i exp(β₀ + x_i'β)), fitted by maximum likelihood. The estimate of a rate ratio exp(β) stays
    consistent where clusters differ by a random factor that is independent of x; only the naive standard errors are
    then wrong, and the sandwich over clusters replaces them.

    Parameters
    ----------
    observations : Observations
    factors : names of the factors that enter
    covariates : names of the covariates that enter
    references : factor → reference level; by default the first in alphabetical order
    covariance : {"cluster", "naive"}
        "naive" takes rows for independent Poisson counts: for comparison.
    small_sample : bool
        Multiplies the sandwich by the usual factor for few clusters.

    Returns
    -------
    Regression

    Raises
    ------
    ValueError
        There are no errors at all, or none in one group (its rate ratio is 0: use a permutation test); columns depend
        on each other; fewer than two clusters.
    ImportError
        statsmodels is missing (extra ``sciops[audit]``).

    References
    ----------
    Liu, Veliche and Peng, Model-based approach for measuring the fairness in ASR, arXiv:2109.09061.
    """
    columns = design(observations, factors, covariates=covariates, references=references)
    clusters = len({*observations.cluster.tolist()})
    if clusters < 2:
        raise ValueError("the observations hold one cluster: expected at least two, better thirty")
    for factor in factors:
        for level in observations.levels(factor):
            if observations.errors[observations.factor(factor) == level].sum() == 0:
                raise ValueError(
                    f"{factor}[{level}] has no error at all: a regression has no finite rate ratio for it; use "
                    "permutation_test"
                )
    if observations.errors.sum() == 0:
        raise ValueError("there is no error in any row: nothing to compare")
    found = _fitted(columns, observations, covariance, small_sample)
    matrix = np.asarray(found.cov_params())
    return Regression(
        names=columns.names,
        coefficients=np.asarray(found.params),
        standard_errors=np.sqrt(np.clip(np.diag(matrix), 0.0, None)),
        covariance=matrix,
        clusters=clusters,
        design=columns,
    )


def score_bootstrap(
    observations: Observations, columns: Design, column: int, *, draws: int = 2000, seed: int = 0
) -> float:
    """p value of "this coefficient is 0" from the signs of the clusters' scores: for fewer than about 30 clusters.

    The regression without the column is fitted. Each cluster adds a part e_s = Σ_i x̃_i (E_i − μ_i) to the score of the
    column, x̃ the column less what the others explain of it. Where the coefficient is 0 the sum of the e_s with random
    signs has the law of the sum itself; the p value is the share of sign vectors whose |Σ ±e_s| is at least as large.
    All 2^S vectors are tried where S ≤ 12.

    Parameters
    ----------
    observations : Observations
    columns : Design
    column : index of the column that is tested
    draws, seed : number of random sign vectors, and their seed

    Returns
    -------
    float

    References
    ----------
    Kline and Santos, A score based approach to wild bootstrap inference (2012).
    """
    others = [i for i in range(len(columns.names)) if i != column]
    restricted = Design(columns.matrix[:, others], tuple(columns.names[i] for i in others), columns.offset)
    mean = np.asarray(_fitted(restricted, observations, "naive", False).fittedvalues)
    x, z = columns.matrix[:, column], restricted.matrix
    weighted = z * mean[:, None]
    residual = x - z @ np.linalg.solve(z.T @ weighted, weighted.T @ x)
    _, index = np.unique(observations.cluster, return_inverse=True)
    parts = np.bincount(index, weights=residual * (observations.errors - mean))
    count = len(parts)
    if count <= 12:
        signs = 1.0 - 2.0 * ((np.arange(2**count)[:, None] >> np.arange(count)) & 1)
        extreme = np.abs(signs @ parts) >= abs(parts.sum()) * (1 - 1e-12)
        return float(extreme.mean())
    signs = np.random.default_rng(seed).choice([-1.0, 1.0], size=(draws, count))
    extreme = np.abs(signs @ parts) >= abs(parts.sum()) * (1 - 1e-12)
    return (1 + int(extreme.sum())) / (draws + 1)


def _fitted(columns: Design, observations: Observations, covariance: Covariance, small_sample: bool) -> Any:
    try:
        import statsmodels.api as sm
    except ImportError:
        raise ImportError("regressions need statsmodels: pip install 'sciops[audit]'") from None
    model = sm.GLM(observations.errors, columns.matrix, family=sm.families.Poisson(), offset=columns.offset)
    if covariance == "naive":
        return model.fit(tol=1e-12, maxiter=200)
    _, groups = np.unique(observations.cluster, return_inverse=True)
    options = {"groups": groups, "use_correction": small_sample}
    return model.fit(tol=1e-12, maxiter=200, cov_type="cluster", cov_kwds=options)
