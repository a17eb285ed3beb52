"""Poisson regression of errors with exposure: rate ratios whose standard errors know that rows of a cluster depend."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from sciops.evaluation.fairness.observations import Observations

Covariance = Literal["bias-reduced", "cluster", "naive"]

FEW_CLUSTERS = 30
"""Fewer clusters than this: the p value of two groups, without further columns, comes from the score bootstrap."""


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
class BiasReduction:
    """The bias-reduced sandwich of a Poisson regression, and the degrees of freedom of what is tested with it.

    With Y_s the rows of cluster s of W^{1/2} X B^{1/2}, B = (X'WX)^{-1}, W the fitted means, the leverage H_ss is
    Y_s Y_s' and (I − Y_s Y_s')^{-1/2} Y_s = Y_s (I − M_s)^{-1/2} with M_s = Y_s'Y_s: all that is needed has the size of
    the columns.

    root : (columns, columns) B^{1/2}, symmetric
    leverage : (clusters, columns, columns) M_s; they sum to the identity
    inverse : (clusters, columns, columns) (I − M_s)^{-1/2}, 0 in directions that a cluster alone determines
    covariance : (columns, columns) of the coefficients
    """

    root: np.ndarray
    leverage: np.ndarray
    inverse: np.ndarray
    covariance: np.ndarray

    @classmethod
    def of(cls, matrix: np.ndarray, mean: np.ndarray, observations: Observations) -> BiasReduction:
        values, vectors = np.linalg.eigh(matrix.T @ (matrix * mean[:, None]))
        root = (vectors / np.sqrt(values)) @ vectors.T
        _, cluster = np.unique(observations.cluster, return_inverse=True)
        count, columns = int(cluster.max()) + 1, matrix.shape[1]
        rows = matrix @ root
        leverage, scores = np.zeros((count, columns, columns)), np.zeros((count, columns))
        order = np.argsort(cluster, kind="stable")
        for s, part in enumerate(np.split(order, np.searchsorted(cluster[order], np.arange(1, count)))):
            leverage[s] = rows[part].T @ (rows[part] * mean[part, None])
            scores[s] = rows[part].T @ (observations.errors - mean)[part]
        taken, axes = np.linalg.eigh(leverage)
        left = np.where(taken < 1 - 1e-9, 1 - taken, np.inf)
        inverse = (axes / np.sqrt(left)[:, None]) @ axes.swapaxes(1, 2)
        scores = (inverse @ scores[..., None])[..., 0]
        return cls(root, leverage, inverse, root @ (scores.T @ scores) @ root)

    def freedom(self, contrasts: np.ndarray) -> float:
        """Degrees of freedom of the covariance of contrasts, (number q, columns), where rows are Poisson counts.

        One contrast: Satterthwaite's (Σ λ)² / Σ λ², λ the eigenvalues of the form that estimates its variance.
        Several: q (q + 1) / Σ_{st} Var d_st for the estimate d of their covariance, scaled to mean I.
        """
        within = np.linalg.cholesky(contrasts @ self.root @ self.root @ contrasts.T)
        b = self.root @ np.linalg.solve(within, contrasts).T  # (columns, q), orthonormal
        moved = self.inverse @ b  # (clusters, columns, q)
        seen = self.leverage @ moved
        # P[i, j, s, t] = δ_st a[i, j, s] − u_si · u_tj is the form of the estimate; sums need no (clusters)² numbers
        a = np.einsum("sci,scj->ijs", moved, seen)
        u = np.einsum("sci,scj->ijs", seen, seen)
        between = np.einsum("sci,sdj->ijcd", seen, seen)
        q = len(contrasts)
        mean = np.einsum("iis->", a - u)
        alone, own = np.einsum("iis->s", a), np.einsum("iis->s", u)
        spread = float((alone**2 - 2 * alone * own).sum() + (a**2 - 2 * a * u).sum())
        spread += float((between**2).sum() + (between * between.swapaxes(0, 1)).sum())
        return float(q * (q + 1) * (mean / q) ** 2 / max(spread, 1e-300))


@dataclass(frozen=True)
class Regression:
    """A fitted Poisson regression E ~ Poisson(N exp(x'β)).

    names, coefficients, standard_errors : per column; exp of a coefficient is a rate ratio
    covariance : (columns, columns) of the coefficients
    clusters : their number
    design : what was fitted
    reduction : what the degrees of freedom are computed from; None unless the covariance is "bias-reduced"
    """

    names: tuple[str, ...]
    coefficients: np.ndarray
    standard_errors: np.ndarray
    covariance: np.ndarray
    clusters: int
    design: Design
    reduction: BiasReduction | None = None

    def contrast(self, weights: np.ndarray) -> tuple[float, float]:
        """(value, standard error) of Σ w_j β_j."""
        return float(weights @ self.coefficients), math.sqrt(max(float(weights @ self.covariance @ weights), 0.0))

    def freedom(self, weights: np.ndarray) -> float:
        """Degrees of freedom of the t law of Σ w_j β_j over its standard error.

        Satterthwaite's for a "bias-reduced" covariance, else clusters − columns.
        """
        if self.reduction is None:
            return float(max(self.clusters - len(self.names), 1))
        return self.reduction.freedom(np.asarray(weights, dtype=float)[None])

    def omnibus(self, columns: list[int]) -> float:
        """p value of "all these coefficients are 0" by the Wald test; 1 where there are none.

        With a "bias-reduced" covariance Q = β'V⁻¹β is taken for Hotelling's T² with η degrees of freedom, those of the
        Wishart law whose spread is that of the covariance: (η − q + 1) Q / (η q) ~ F(q, η − q + 1) (Tipton and
        Pustejovsky 2015).
        """
        from scipy.stats import f as f_law

        q = len(columns)
        if not q:
            return 1.0
        beta, part = self.coefficients[columns], self.covariance[np.ix_(columns, columns)]
        statistic = float(beta @ np.linalg.pinv(part) @ beta) / q
        if self.reduction is None:
            return float(f_law.sf(statistic, q, max(self.clusters - len(self.names), 1)))
        freedom = self.reduction.freedom(np.eye(len(self.names))[columns])
        if freedom <= q - 1:  # fewer clusters tell of the columns than there are columns
            return 1.0
        return float(f_law.sf(statistic * (freedom - q + 1) / freedom, q, freedom - q + 1))


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

    The plain sandwich is too small where columns are many for the clusters: residuals of a cluster that the fit leans
    on are too small. The bias-reduced one (CR2 of Bell and McCaffrey) divides them by what the fit took:
    V = B Σ_s X_s'A_s r_s r_s'A_s X_s B with A_s = (I − H_ss)^{-1/2}, in the weighted least squares of the last step of
    the fit; if the counts are independent Poisson counts it has no bias. Its t laws have Satterthwaite's degrees of
    freedom.

    Parameters
    ----------
    observations : Observations
    factors : names of the factors that enter
    covariates : names of the covariates that enter
    references : factor → reference level; by default the first in alphabetical order
    covariance : {"cluster", "bias-reduced", "naive"}
        "cluster" is the plain sandwich, "bias-reduced" the one to test with, "naive" takes rows for independent Poisson
        counts: for comparison.
    small_sample : bool
        Multiplies the plain sandwich by the usual factor for few clusters.

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
    Liu, Veliche and Peng, Model-based approach for measuring the fairness in ASR, arXiv:2109.09061. Bell and McCaffrey,
    Bias reduction in standard errors for linear regression with multi-stage samples (2002). Pustejovsky and Tipton,
    Small-sample methods for cluster-robust variance estimation, arXiv:1601.01981.
    """
    if covariance not in get_args(Covariance):
        raise ValueError(f"covariance={covariance!r}: expected one of {', '.join(get_args(Covariance))}")
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
    reduction = None
    if covariance == "bias-reduced":
        reduction = BiasReduction.of(columns.matrix, np.asarray(found.fittedvalues), observations)
    matrix = np.asarray(found.cov_params()) if reduction is None else reduction.covariance
    return Regression(
        names=columns.names,
        coefficients=np.asarray(found.params),
        standard_errors=np.sqrt(np.clip(np.diag(matrix), 0.0, None)),
        covariance=matrix,
        clusters=clusters,
        design=columns,
        reduction=reduction,
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
    if covariance != "cluster":
        return model.fit(tol=1e-12, maxiter=200)
    _, groups = np.unique(observations.cluster, return_inverse=True)
    options = {"groups": groups, "use_correction": small_sample}
    return model.fit(tol=1e-12, maxiter=200, cov_type="cluster", cov_kwds=options)
