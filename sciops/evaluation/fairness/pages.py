"""The report of a fairness analysis: one self-contained HTML page with the verdict in its first sentence."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sciops.evaluation.fairness.cells import CellTable, intersectional_cells
from sciops.evaluation.fairness.decision import REST, Assessment, Finding
from sciops.evaluation.fairness.hypothesis import Hypothesis
from sciops.evaluation.fairness.observations import Observations, group_rates

if TYPE_CHECKING:
    from sciops.reports import Section, Table

_SUPPRESSED = "suppressed"


def report(
    observations: Observations,
    assessments: Assessment | Sequence[Assessment],
    path: str | os.PathLike[str],
    *,
    cells: tuple[str, ...] | None = None,
    title: str = "",
) -> Path:
    """Writes a fairness analysis as one HTML page that needs no other file and no network.

    The verdict is the first sentence. Then, for each hypothesis: every contrast with its interval, p values and test;
    the rates of the groups, pooled, by cluster and by row; the range of the rates beside what equal groups would show;
    rate and composition effect; the limits; the frozen hypothesis with its SHA-256. At the end the intersectional
    cells: of a cell with fewer clusters than the hypothesis asks for, the number of clusters and the shrunken estimate
    are shown, and its own rate and interval are suppressed.

    Parameters
    ----------
    observations : Observations
        The ones that were assessed.
    assessments : Assessment or sequence of Assessment
        What `assess` returned for one or several hypotheses. The first opens the page.
    path : path
        The file to write.
    cells : tuple of str, optional
        Factors of the intersectional cells; by default all factors. An empty tuple leaves the cells out.
    title : str, optional
        By default the metric and the factor of the first hypothesis.

    Returns
    -------
    pathlib.Path
        The file.

    Raises
    ------
    ValueError
        No assessment is given; one is of other observations; a factor of the cells is unknown.
    """
    from sciops.reports import Facts, Section, write

    given = [assessments] if isinstance(assessments, Assessment) else list(assessments)
    if not given:
        raise ValueError("assessments: none given; pass what assess returned, one or several")
    for one in given:
        if one.hypothesis.factor not in observations.factors or one.rates != tuple(
            group_rates(observations, one.hypothesis.factor)
        ):
            raise ValueError(
                f"the assessment of {one.hypothesis.factor!r} has other group rates than these observations: pass the "
                "observations that were assessed"
            )
    chosen = tuple(observations.factors) if cells is None else tuple(cells)
    sections: list[Section] = []
    for number, one in enumerate(given, 1):
        sections += _of_hypothesis(observations, one, f" (hypothesis {number})" if len(given) > 1 else "")
    if chosen:
        fewest = max(one.hypothesis.fewest_clusters for one in given)
        sections.append(_cells(observations, chosen, fewest))
    data = {
        "rows": f"{len(observations):,}",
        "clusters": f"{len({*observations.cluster.tolist()}):,}",
        "errors": f"{observations.errors.sum():,.6g}",
        "exposure": f"{observations.exposure.sum():,.6g}",
        "factors": {name: observations.levels(name) for name in observations.factors},
        "covariates": list(observations.covariates),
        "SHA-256": observations_digest(observations),
    }
    sections.append(Section("Data", [Facts(data)]))
    first = given[0].hypothesis
    return write(
        path,
        title or f"{first.metric} by {first.factor}",
        " ".join(map(verdict_sentence, given)),
        sections,
        subtitle="Fairness analysis",
    )


def verdict_sentence(assessment: Assessment) -> str:
    """The verdicts of all contrasts of one hypothesis, as one sentence.

    >>> from sciops.evaluation.fairness import Hypothesis, Observations, assess
    >>> few = Observations([1, 2], [9, 9], ["s", "t"], {"accent": ["A", "B"]})
    >>> verdict_sentence(assess(few, Hypothesis("word error rate", "accent", declared_before_results=True)))
    'Word error rate by accent: not testable, with fewer than 5 clusters, for B against A.'
    """
    hypothesis, parts = assessment.hypothesis, []
    by = {
        verdict: [finding for finding in assessment.findings if finding.verdict == verdict]
        for verdict in ("supported", "refuted", "inconclusive", "not testable")
    }
    if by["supported"]:
        parts.append("a gap is supported for " + _listed(_with_effect(f, hypothesis) for f in by["supported"]))
    if by["refuted"]:
        margin = f"the declared margin of {hypothesis.margin:g}"
        parts.append(f"a gap beyond {margin} is refuted for " + _listed(map(_pair, by["refuted"])))
    if by["inconclusive"]:
        parts.append("inconclusive for " + _listed(map(_pair, by["inconclusive"])))
    if by["not testable"]:
        parts.append("not testable, with fewer than 5 clusters, for " + _listed(map(_pair, by["not testable"])))
    name = f"{hypothesis.metric[:1].upper()}{hypothesis.metric[1:]} by {hypothesis.factor}"
    given = f", given {_listed(hypothesis.conditioning)}" if hypothesis.conditioning else ""
    if not hypothesis.declared_before_results:
        parts.append("the hypothesis was not declared before the results, so this is exploration")
    return f"{name}{given}: {'; '.join(parts)}."


def observations_digest(observations: Observations) -> str:
    """SHA-256 of errors, exposure, clusters, factors, covariates and parts, in hexadecimal digits."""
    from sciops.files.digest import digest_of

    numbers = {"errors": observations.errors, "exposure": observations.exposure}
    for kind, named in (("covariate", observations.covariates), ("part", observations.parts)):
        numbers |= {f"{kind} {name}": values for name, values in named.items()}
    labels = {"cluster": observations.cluster.tolist()}
    labels |= {f"factor {name}": values.tolist() for name, values in observations.factors.items()}
    return digest_of(numbers, labels)


def _of_hypothesis(observations: Observations, assessment: Assessment, number: str) -> list[Section]:
    from sciops.reports import Code, Facts, Section

    hypothesis = assessment.hypothesis
    extremes = assessment.range
    spread = {
        "omnibus p, all groups equal": f"{assessment.omnibus_p:.3g}",
        "range of the rates, max − min": f"{extremes.statistic:.4g}",
        "mean range of equal groups": f"{extremes.null_mean:.4g}",
        "95 % of equal groups are below": f"{extremes.null_high:.4g}",
        "p of the range": f"{extremes.p:.3g}",
    }
    splits = _splits(assessment)
    frozen = {
        "SHA-256": hypothesis.digest(),
        "declared before the results": hypothesis.declared_before_results,
        "question": _question(hypothesis),
    }
    return [
        Section(f"Verdicts{number}", [_verdicts(assessment)]),
        Section(f"Rates of {hypothesis.factor}{number}", [_rates(assessment), Facts(spread, "Range")]),
        *([Section(f"Rate and composition{number}", [splits])] if splits.rows else []),
        Section(f"Limits{number}", _limits(observations, assessment)),
        Section(f"Hypothesis{number}", [Facts(frozen), Code(hypothesis.to_json())]),
    ]


def _verdicts(assessment: Assessment) -> Table:
    from sciops.reports import table_of

    hypothesis = assessment.hypothesis
    covered = f"{1 - hypothesis.alpha:.3g}"
    return table_of(
        assessment.findings,
        ("group", lambda f: f.second),
        ("against", lambda f: f.first),
        (hypothesis.estimand, lambda f: _number(f.effect)),
        ("low", lambda f: _number(f.low)),
        ("high", lambda f: _number(f.high)),
        ("not conditioned", lambda f: _number(f.marginal)),
        ("p", lambda f: _p(f, f.p)),
        ("corrected p", lambda f: _p(f, f.adjusted_p)),
        ("p of a gap ≥ margin", lambda f: None if hypothesis.margin is None else _p(f, f.equivalence_p)),
        ("verdict", lambda f: f.verdict),
        ("clusters", lambda f: str(f.clusters)),
        ("test", lambda f: f.test),
        note=f"Intervals over clusters of level {covered}, not corrected for the number of contrasts; p values "
        f"corrected by {hypothesis.correction}. Clusters: the smaller number of the two groups.",
    )


def _rates(assessment: Assessment) -> Table:
    from sciops.reports import table_of

    fewest = assessment.hypothesis.fewest_clusters
    kinds = list(assessment.rates[0].parts)
    return table_of(
        assessment.rates,
        ("group", lambda r: r.group),
        ("clusters", lambda r: str(r.clusters)),
        ("rows", lambda r: str(r.rows)),
        ("exposure", lambda r: f"{r.exposure:.6g}"),
        ("pooled", lambda r: f"{r.pooled:.4g}"),
        ("mean of clusters", lambda r: f"{r.macro:.4g}"),
        ("mean of rows", lambda r: f"{r.row_mean:.4g}"),
        *((kind, lambda r, kind=kind: f"{r.parts[kind]:.4g}") for kind in kinds),
        ("remark", lambda r: f"fewer than {fewest} clusters" if r.clusters < fewest else ""),
        note="Pooled: errors ÷ exposure of the whole group. Mean of clusters: each cluster counts alike. Mean of rows: "
        "each row counts alike.",
    )


def _splits(assessment: Assessment) -> Table:
    from sciops.reports import table_of

    return table_of(
        [finding.split for finding in assessment.findings if finding.split is not None],
        ("group", lambda s: s.second),
        ("against", lambda s: s.first),
        ("gap", lambda s: f"{s.gap:+.4g}"),
        ("rate effect", lambda s: f"{s.rate_effect:+.4g}"),
        ("composition effect", lambda s: f"{s.composition_effect:+.4g}"),
        ("exposure left out", lambda s: f"{s.left_out:.1%}"),
        ("the gap alone misleads", lambda s: "yes" if s.misleading else "no"),
        note=f"Kitagawa's split over the cells of {_listed(assessment.hypothesis.conditioning)}: gap = rate effect "
        "(served differently in the same cells) + composition effect (other shares of the cells).",
    )


def _cells(observations: Observations, factors: tuple[str, ...], fewest: int) -> Section:
    from sciops.reports import Facts, Section, table_of

    name = f"Cells of {' × '.join(factors)}"
    try:
        found = intersectional_cells(observations, factors, fewest_clusters=fewest)
    except ValueError as error:
        for factor in factors:
            observations.factor(factor)  # an unknown name is the caller's error
        return Section(name, [f"Not estimated: {error}."])
    possible = math.prod(len(observations.levels(factor)) for factor in factors)
    hidden = sum(cell.suppressed for cell in found.cells)

    def own(cell, value: float) -> str:
        return _SUPPRESSED if cell.suppressed else f"{value:.4g}"

    table = table_of(
        found.cells,
        *((factor, lambda c, i=i: c.levels[i]) for i, factor in enumerate(factors)),
        ("clusters", lambda c: str(c.clusters)),
        ("exposure", lambda c: f"{c.exposure:.6g}"),
        ("pooled", lambda c: own(c, c.pooled)),
        ("low", lambda c: own(c, c.low)),
        ("high", lambda c: own(c, c.high)),
        ("mean of clusters", lambda c: own(c, c.macro)),
        ("ratio to all", lambda c: own(c, c.ratio)),
        ("shrunken", lambda c: f"{c.shrunken:.4g}"),
        note="95 % intervals over clusters. Shrunken: drawn towards what the factors alone predict, the more the "
        "less is known of the cell.",
    )
    said = (
        f"{hidden} of {len(found.cells)} cells have fewer than {fewest} clusters: their own rates are suppressed. "
        f"{possible - len(found.cells)} of {possible} combinations of levels do not occur."
    )
    return Section(name, [said, table, Facts(_interaction(found), "Interaction")])


def _interaction(found: CellTable) -> dict[str, str]:
    return {
        "deviation of the log rates of the cells": f"{found.spread:.3g}",
        "deviation beyond the factors one by one": f"{found.spread_beyond:.3g}",
        "share that the factors explain one by one": "–" if math.isnan(found.explained) else f"{found.explained:.1%}",
    }


def _limits(observations: Observations, assessment: Assessment) -> list[str]:
    hypothesis, limits = assessment.hypothesis, list(assessment.notes)
    verdicts = {finding.verdict for finding in assessment.findings}
    if "inconclusive" in verdicts:
        limits.append("An inconclusive contrast does not show that there is no gap: only a refuted one does.")
    if hypothesis.not_conditioned:
        limits.append(
            f"Not adjusted for {_listed(hypothesis.not_conditioned)}: the gap may arise through it and "
            "is counted in full."
        )
    if hypothesis.conditioning:
        limits.append(
            f"Adjusted for {_listed(hypothesis.conditioning)}: a gap that arises through it is not counted. Other "
            "causes that were not recorded may still confound the groups."
        )
    else:
        limits.append("Not conditioned on anything: a gap may come from other factors that the groups differ in.")
    if hypothesis.exclusions:
        limits.append(f"Left out: {_listed(hypothesis.exclusions)}.")
    sizes = np.array([rate.clusters for rate in assessment.rates])
    if sizes.max() >= 10 * sizes.min():
        limits.append(f"The groups are very unequal: {sizes.min()} to {sizes.max()} clusters.")
    silent = [rate.group for rate in assessment.rates if rate.pooled == 0]
    if silent:
        limits.append(
            f"No error at all in {_listed(silent)}: no finite rate ratio; its contrasts are tested by permutation."
        )
    return limits


def _question(hypothesis: Hypothesis) -> str:
    against = "all others" if hypothesis.contrast == "rest" else hypothesis.reference or "the first level"
    compared = "every pair of levels" if hypothesis.contrast == "pairs" else f"each level against {against}"
    given = f"given {_listed(hypothesis.conditioning)}" if hypothesis.conditioning else "conditioned on nothing"
    scale = f"{hypothesis.aggregation} {hypothesis.estimand}"
    return f"{hypothesis.metric} by {hypothesis.factor}, {compared}, {given}; {scale}"


def _with_effect(finding: Finding, hypothesis: Hypothesis) -> str:
    ends = "" if math.isnan(finding.low) else f" [{_number(finding.low)}, {_number(finding.high)}]"
    return f"{_pair(finding)} ({hypothesis.estimand} {_number(finding.effect)}{ends})"


def _pair(finding: Finding) -> str:
    return f"{finding.second} against {'all others' if finding.first == REST else finding.first}"


def _p(finding: Finding, value: float) -> str | None:
    return None if finding.verdict == "not testable" else f"{value:.3g}"


def _number(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.3g}"


def _listed(names) -> str:
    names = list(names)
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))
