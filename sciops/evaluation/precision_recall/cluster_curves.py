"""Precision-recall and divergence curves of two clouds, by histograms over clusters, beside their ceilings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from sciops.arrays.kinds import like
from sciops.evaluation.precision_recall.clusters import clustered
from sciops.evaluation.precision_recall.curves import DivergenceCurve, PRCurve, divergence_curve, pr_curve
from sciops.evaluation.precision_recall.preparation import clouds
from sciops.evaluation.precision_recall.reporting import (
    Scores,
    equal_sizes,
    sample_floor,
    split_half,
    standard_errors,
    warn_below,
)


@dataclass(frozen=True, kw_only=True, repr=False)
class ClusterCurves(Scores):
    """Curves of two clouds and their scores, each with its split-half ceiling.

    precision, recall : largest F_{1/8} and F_8 over the curve
    area : under the divergence curve, one number in (0, 1] as in MAUVE
    curve : `PRCurve`
    divergence : `DivergenceCurve`
    clusters : bins of the histograms
    """

    NAMES: ClassVar[tuple[str, ...]] = ("precision", "recall", "area")

    precision: float
    recall: float
    area: float
    curve: PRCurve
    divergence: DivergenceCurve
    clusters: int

    def about(self) -> str:
        """The line below the table: samples and clusters."""
        return f"{self.clusters} clusters; {super().about()}"


def cluster_curves(
    reference: Any,
    generated: Any,
    *,
    clusters: int | None = None,
    restarts: int = 5,
    angles: int = 1000,
    scale: float = 5.0,
    splits: int = 5,
    resolution: float = 0.05,
    seed: int = 0,
) -> ClusterCurves:
    """Precision-recall curve and divergence curve of two clouds, from histograms over clusters of their union.

    Parameters
    ----------
    reference, generated : array (samples, features)
        numpy or torch; see `prepared`. Of the larger cloud as many samples are drawn as the smaller one has.
    clusters : int, optional
        Default a tenth of the samples of one cloud, at least 2. The ceilings keep the number of samples a cluster, on
        which the bias of a histogram depends.
    restarts : int
        Of k-means.
    angles, scale
        As in `pr_curve` and `divergence_curve`.
    splits, resolution, seed
        As in `prdc`; the seed also sets the starts of k-means.

    Returns
    -------
    ClusterCurves
        Printed as a table, score beside ceiling.

    Raises
    ------
    ValueError
        The clouds do not fit each other, hold NaN or have fewer than 2 samples; an option is out of range.

    Warns
    -----
    RuntimeWarning
        There are fewer samples than the resolution needs.

    References
    ----------
    Sajjadi et al., arXiv:1806.00035; Pillutla et al., arXiv:2102.01454; Le Bronnec et al., arXiv:2402.10693.
    """
    floor = sample_floor(resolution)
    whole, y, _ = clouds(reference, generated)
    x, y = equal_sizes(whole, y, seed)
    if len(x) < 2:
        raise ValueError("one sample of a cloud has no histogram: pass at least 2 samples of each")
    warn_below(floor, len(x), resolution, "cluster_curves")

    def curves(a: Tensor, b: Tensor, bins: int | None) -> tuple[PRCurve, DivergenceCurve, int]:
        labels, bins = clustered(a, b, bins, restarts, 100, seed)
        p, q = (torch.bincount(part, minlength=bins).double() for part in labels.split([len(a), len(b)]))
        return pr_curve(p, q, angles=angles), divergence_curve(p, q, scale=scale), bins

    def of_halves(a: Tensor, b: Tensor) -> dict[str, float]:
        alike = None if clusters is None else max(2, round(clusters * len(a) / len(x)))
        return _scores(*curves(a, b, alike)[:2])

    curve, divergence, bins = curves(x, y, clusters)
    ceiling, half = split_half(whole, of_halves, most=len(x), least=2, splits=splits, seed=seed)
    deviation = standard_errors(x, y, of_halves, least=2, splits=splits, seed=seed)
    return ClusterCurves(
        **_scores(curve, divergence),
        deviation=deviation,
        curve=PRCurve(*(like(reference, v) for v in (curve.slope, curve.precision, curve.recall))),
        divergence=DivergenceCurve(
            like(reference, divergence.quality), like(reference, divergence.diversity), divergence.scale
        ),
        clusters=bins,
        samples=len(x),
        floor=floor,
        resolution=resolution,
        ceiling=ceiling,
        ceiling_samples=half,
    )


def _scores(curve: PRCurve, divergence: DivergenceCurve) -> dict[str, float]:
    return {"precision": curve.f_score(1 / 8), "recall": curve.f_score(8.0), "area": divergence.area}
