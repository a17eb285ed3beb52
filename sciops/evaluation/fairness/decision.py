"""From observations and a hypothesis to a verdict for every contrast."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sciops.evaluation.fairness.hypothesis import FLOOR, Hypothesis
from sciops.evaluation.fairness.observations import GroupRate, Observations, group_rates
from sciops.evaluation.fairness.regression import FEW_CLUSTERS, Design, poisson_regression, score_bootstrap
from sciops.evaluation.fairness.resampling import PermutationTest, bootstrap_rates, gap, permutation_test
from sciops.evaluation.fairness.standardisation import Split, kitagawa
from sciops.evaluation.multiplicity import adjusted_p

REST = "all others"


@dataclass(frozen=True)
class Finding:
    """What the data say of one contrast.

    first, second : reference A and group B
    effect, low, high : B against A on the scale of the estimand (ratios as ratios) and its interval
    marginal : the same without conditioning
    p, adjusted_p : of "there is no gap", alone and in the family
    equivalence_p : of "the gap is at least the margin", in the family; 1 without a margin
    verdict : "supported" (a gap), "refuted" (smaller than the margin), "inconclusive", or "not testable" (too few
        clusters)
    clusters : the smaller number of the two groups
    test : which test gave p
    split : rate and composition effect over the conditioning factors, where there are any
    """

    first: str
    second: str
    effect: float
    low: float
    high: float
    marginal: float
    p: float
    adjusted_p: float
    equivalence_p: float
    verdict: str
    clusters: int
    test: str
    split: Split | None = None


@dataclass(frozen=True)
class Assessment:
    """A hypothesis with all that was found.

    rates : of every group
    omnibus_p : of "all groups are equal"
    range : gap max − min of the rates beside what equal groups would show
    findings : one a contrast
    notes : what a reader has to know, one sentence each
    """

    hypothesis: Hypothesis
    rates: tuple[GroupRate, ...]
    omnibus_p: float
    range: PermutationTest
    findings: tuple[Finding, ...]
    notes: tuple[str, ...]

    def __str__(self) -> str:
        lines = [
            f"{finding.second} against {finding.first}: {self.hypothesis.estimand} {finding.effect:.3g} "
            f"[{finding.low:.3g}, {finding.high:.3g}], {finding.verdict}"
            for finding in self.findings
        ]
        return "\n".join([f"{self.hypothesis.metric} by {self.hypothesis.factor}", *lines, *self.notes])


def assess(observations: Observations, hypothesis: Hypothesis) -> Assessment:
    """Tests a declared hypothesis about groups, and says for every contrast what follows.

    Pooled rate ratios come from Poisson regression with a bias-reduced covariance over clusters, joint with all that
    the hypothesis conditions on; for two groups of fewer than 30 clusters, without more columns, p is that of the score
    bootstrap. Other scales use a bootstrap over clusters for the interval and a permutation across clusters for p. The
    contrasts form one family behind one gate: with more than one, none is supported unless the omnibus test rejects. A
    gap is refuted by two one-sided tests against the margin, never by a large p; a gap that is there and smaller than
    the margin is refuted.

    Parameters
    ----------
    observations : Observations
    hypothesis : Hypothesis

    Returns
    -------
    Assessment

    Raises
    ------
    ValueError
        The factor, the reference or a name to condition on is unknown; the factor has one level.
    ImportError
        statsmodels is missing (extra ``sciops[audit]``).
    """
    levels = observations.levels(hypothesis.factor)
    if len(levels) < 2:
        raise ValueError(f"factor={hypothesis.factor!r} has one level, {levels[0]}: nothing to compare")
    reference = hypothesis.reference or levels[0]
    if reference not in levels:
        raise ValueError(f"reference={reference!r}: {hypothesis.factor} has the levels {', '.join(levels)}")
    unknown = [n for n in hypothesis.conditioning if n not in observations.factors and n not in observations.covariates]
    if unknown:
        known = ", ".join([*observations.factors, *observations.covariates])
        raise ValueError(f"conditioning on {unknown[0]!r}, which is unknown: the observations have {known}")
    rates = tuple(group_rates(observations, hypothesis.factor))
    tested = [rate.group for rate in rates if rate.clusters >= FLOOR]
    pairs = _contrasts(hypothesis, levels, reference)
    found = [_finding(observations, hypothesis, first, second) for first, second in pairs]
    omnibus = _omnibus(observations, hypothesis, tested)
    spread = permutation_test(
        observations,
        hypothesis.factor,
        aggregation=hypothesis.aggregation,
        within=_factors_of(observations, hypothesis),
        draws=hypothesis.draws,
        seed=hypothesis.seed,
    )
    findings = _in_family(found, hypothesis, omnibus)
    return Assessment(hypothesis, rates, omnibus, spread, findings, _notes(observations, hypothesis, rates, findings))


def equivalence_p(estimate: float, error: float, margin: float, *, freedom: float = math.inf) -> float:
    """p value of "|effect| ≥ margin" by two one-sided t tests; small where the effect is surely within ±margin."""
    from scipy.stats import norm, t

    law = norm if math.isinf(freedom) else t(freedom)
    if error <= 0:
        return 0.0 if abs(estimate) < margin else 1.0
    return float(max(law.sf((margin - estimate) / error), law.sf((margin + estimate) / error)))


def _contrasts(hypothesis: Hypothesis, levels: list[str], reference: str) -> list[tuple[str, str]]:
    if hypothesis.contrast == "pairs":
        return list(itertools.combinations(levels, 2))
    if hypothesis.contrast == "rest":
        return [(REST, level) for level in levels] if len(levels) > 2 else [(levels[0], levels[1])]
    return [(reference, level) for level in levels if level != reference]


def _compared(observations: Observations, factor: str, first: str, second: str) -> Observations:
    """The rows of two groups; against the rest all rows, with the factor reduced to two levels."""
    groups = observations.factor(factor)
    if first != REST:
        return observations.rows((groups == first) | (groups == second))
    two = np.where(groups == second, second, REST).astype(object)
    return replace(observations, factors={**observations.factors, factor: two})


def _factors_of(observations: Observations, hypothesis: Hypothesis) -> tuple[str, ...]:
    return tuple(name for name in hypothesis.conditioning if name in observations.factors)


def _finding(observations: Observations, hypothesis: Hypothesis, first: str, second: str) -> Finding:
    """The contrast by itself; `_in_family` corrects its p values and gives the verdict."""
    part = _compared(observations, hypothesis.factor, first, second)
    rates = group_rates(part, hypothesis.factor)
    clusters = min(rate.clusters for rate in rates)
    nan = math.nan
    empty = Finding(first, second, nan, nan, nan, nan, 1.0, 1.0, 1.0, "not testable", clusters, "none")
    if clusters < FLOOR:
        return empty
    by_regression = hypothesis.estimand == "rate ratio" and hypothesis.aggregation == "pooled"
    if by_regression and min(rate.pooled for rate in rates) > 0:
        # all groups stay in the regression: they tell of the effects of what is conditioned on
        whole = part if first == REST else observations
        found = _by_regression(whole, hypothesis, first, second, empty)
    else:
        found = _by_resampling(part, hypothesis, first, second, empty)
    within = _factors_of(observations, hypothesis)
    if within:
        try:
            return replace(found, split=kitagawa(part, hypothesis.factor, first, second, within=within))
        except ValueError:  # no cell in common
            return found
    return found


def _by_regression(
    observations: Observations, hypothesis: Hypothesis, first: str, second: str, empty: Finding
) -> Finding:
    from scipy.stats import t

    factor = hypothesis.factor
    factors = (factor, *_factors_of(observations, hypothesis))
    covariates = tuple(name for name in hypothesis.conditioning if name in observations.covariates)
    groups = observations.factor(factor)
    # a group without any error has no finite ratio, and tells nothing of the others
    silent = [level for level in observations.levels(factor) if observations.errors[groups == level].sum() == 0]
    if silent:
        observations = observations.rows(~np.isin(groups.astype(str), np.array(silent, dtype=str)))
    reference = {factor: first}
    joint = poisson_regression(
        observations, factors, covariates=covariates, references=reference, covariance="bias-reduced"
    )
    column = joint.names.index(f"{factor}[{second}]")
    estimate, error = float(joint.coefficients[column]), float(joint.standard_errors[column])
    freedom = joint.freedom(np.eye(len(joint.names))[column])
    half = float(t.isf(hypothesis.alpha / 2, freedom)) * error
    alone = poisson_regression(observations, (factor,), references=reference)
    marginal = float(alone.coefficients[alone.names.index(f"{factor}[{second}]")])
    if joint.clusters < FEW_CLUSTERS and len(joint.names) == 2:  # with more columns it rejects too often
        p, test = _scored(observations, joint.design, column, hypothesis), "score bootstrap"
    else:
        p, test = 2 * float(t.sf(abs(estimate) / error, freedom)) if error > 0 else 1.0, "Wald, over clusters"
    margin = math.log(hypothesis.margin) if hypothesis.margin else None
    return replace(
        empty,
        effect=math.exp(estimate),
        low=math.exp(estimate - half),
        high=math.exp(estimate + half),
        marginal=math.exp(marginal),
        p=_directed(p, estimate, hypothesis),
        equivalence_p=1.0 if margin is None else equivalence_p(estimate, error, margin, freedom=freedom),
        verdict="",
        test=test,
    )


def _scored(observations: Observations, columns: Design, column: int, hypothesis: Hypothesis) -> float:
    return score_bootstrap(observations, columns, column, draws=hypothesis.draws, seed=hypothesis.seed)


def _by_resampling(part: Observations, hypothesis: Hypothesis, first: str, second: str, empty: Finding) -> Finding:
    options: dict[str, Any] = {
        "aggregation": hypothesis.aggregation,
        "draws": hypothesis.draws,
        "seed": hypothesis.seed,
    }
    estimand = hypothesis.estimand
    rates: Mapping[str, GroupRate] = {rate.group: rate for rate in group_rates(part, hypothesis.factor)}
    of = {name: getattr(rate, hypothesis.aggregation) for name, rate in rates.items()}
    estimate = float(gap(np.array(of[first]), np.array(of[second]), estimand))
    if estimand == "log-odds difference" and max(of.values()) >= 1:
        raise ValueError(
            f"estimand='log-odds difference': a rate of {max(of.values()):.3g} is not a probability (insertions count "
            "too); use 'rate ratio'"
        )
    drawn = bootstrap_rates(part, hypothesis.factor, **options)
    draws = gap(drawn[first], drawn[second], estimand)
    draws = draws[np.isfinite(draws)]
    if len(draws) < hypothesis.draws / 2:
        low = high = math.nan
    else:
        low, high = np.quantile(draws, [hypothesis.alpha / 2, 1 - hypothesis.alpha / 2]).tolist()
    ratio = estimand == "rate ratio"
    # a group without errors has no log rate: its difference is tested
    scale = "rate difference" if not math.isfinite(estimate) else estimand
    test = permutation_test(
        part,
        hypothesis.factor,
        statistic="difference",
        pair=(first, second),
        estimand=scale,
        within=_factors_of(part, hypothesis),
        **options,
    )
    margin = None if hypothesis.margin is None else math.log(hypothesis.margin) if ratio else hypothesis.margin
    outside = 1.0
    if margin is not None and len(draws) >= hypothesis.draws / 2:
        outside = (1 + max(int((draws >= margin).sum()), int((draws <= -margin).sum()))) / (len(draws) + 1)
    back = np.exp if ratio else float
    return replace(
        empty,
        effect=float(back(estimate)),
        low=float(back(low)),
        high=float(back(high)),
        marginal=float(back(estimate)),
        p=_directed(test.p, estimate, hypothesis),
        equivalence_p=outside,
        verdict="",
        test="permutation across clusters",
    )


def _directed(p: float, estimate: float, hypothesis: Hypothesis) -> float:
    """The one-sided p value where a direction is claimed; all tests here are symmetric under the null."""
    if hypothesis.direction == "different":
        return p
    as_claimed = (estimate > 0) == (hypothesis.direction == "higher")
    return p / 2 if as_claimed else 1 - p / 2


def _omnibus(observations: Observations, hypothesis: Hypothesis, tested: list[str]) -> float:
    """p value of "all groups with enough clusters are equal"; 1 where fewer than two have."""
    if len(tested) < 2:
        return 1.0
    groups = observations.factor(hypothesis.factor)
    part = observations.rows(np.isin(groups.astype(str), np.array(tested, dtype=str)))
    silent = any(rate.pooled == 0 for rate in group_rates(part, hypothesis.factor))
    few = len({*part.cluster.tolist()}) < FEW_CLUSTERS
    if hypothesis.estimand != "rate ratio" or hypothesis.aggregation != "pooled" or silent or few:
        return permutation_test(
            part,
            hypothesis.factor,
            aggregation=hypothesis.aggregation,
            within=_factors_of(part, hypothesis),
            draws=hypothesis.draws,
            seed=hypothesis.seed,
        ).p
    covariates = tuple(name for name in hypothesis.conditioning if name in part.covariates)
    factors = (hypothesis.factor, *_factors_of(part, hypothesis))
    joint = poisson_regression(part, factors, covariates=covariates, covariance="bias-reduced")
    return joint.omnibus(joint.design.columns_of(hypothesis.factor))


def _in_family(found: list[Finding], hypothesis: Hypothesis, omnibus: float) -> tuple[Finding, ...]:
    tested = [finding for finding in found if finding.verdict != "not testable"]
    adjusted = iter(adjusted_p([finding.p for finding in tested], hypothesis.correction))
    # refutations are claims too
    equivalent = iter(adjusted_p([finding.equivalence_p for finding in tested], hypothesis.correction))
    done = []
    for finding in found:
        if finding.verdict == "not testable":
            done.append(finding)
            continue
        p, none = next(adjusted), next(equivalent)
        passes = len(tested) == 1 or omnibus < hypothesis.alpha
        verdict = (
            "refuted" if none < hypothesis.alpha else "supported" if p < hypothesis.alpha and passes else "inconclusive"
        )
        done.append(replace(finding, adjusted_p=p, equivalence_p=none, verdict=verdict))
    return tuple(done)


def _notes(
    observations: Observations, hypothesis: Hypothesis, rates: tuple[GroupRate, ...], findings: tuple[Finding, ...]
) -> tuple[str, ...]:
    notes = []
    if not hypothesis.declared_before_results:
        notes.append("The hypothesis was not declared before the results were seen: read it as exploration.")
    total = len({*observations.cluster.tolist()})
    if total < FEW_CLUSTERS:
        notes.append(
            f"{total} clusters in all: below {FEW_CLUSTERS} intervals of the bootstrap over clusters are too short and "
            "those of the regression wide; the p value of two groups is that of the score bootstrap."
        )
    small = [rate for rate in rates if rate.clusters < hypothesis.fewest_clusters]
    if small:
        named = ", ".join(f"{rate.group} ({rate.clusters})" for rate in small)
        notes.append(f"Groups with fewer than {hypothesis.fewest_clusters} clusters: {named}.")
    for finding in findings:
        if finding.split is not None and finding.split.misleading:
            notes.append(
                f"{finding.second} against {finding.first}: most of the gap in the rates is composition "
                f"({finding.split.composition_effect:+.3g} of {finding.split.gap:+.3g}), not service in equal cells."
            )
    if hypothesis.margin is None:
        notes.append("No margin was declared: the absence of a gap cannot be shown.")
    return tuple(notes)
