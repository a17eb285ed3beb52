"""k-nearest-neighbour precision, recall, density and coverage."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import torch
from torch import Tensor

from sciops.arrays.kinds import like
from sciops.evaluation.precision_recall.preparation import clouds
from sciops.evaluation.precision_recall.reporting import (
    Scores,
    equal_sizes,
    sample_floor,
    split_half,
    standard_errors,
    warn_below,
)
from sciops.values import check_whole

Ball = Literal["closed", "open"]

_PAIRS = 2**22  # distances held at a time
_ROUND_OFF = 32  # times ε and a vector's length: the error of a feature that a sum over a thousand numbers makes


@dataclass(frozen=True, kw_only=True, repr=False)
class PrecisionRecall(Scores):
    """Precision, recall, density and coverage of generated samples, each with its split-half ceiling.

    precision : share of the generated samples in the support of the reference (quality)
    recall : share of the reference samples in the support of the generated ones (diversity)
    density : mean number of reference balls that hold a generated sample, over its expectation under equal laws; may
        exceed 1
    coverage : share of the reference balls that hold a generated sample
    k : neighbours that set the radius of a ball
    ball : whether a ball holds its rim
    expected : {"density", "coverage"} under equal continuous laws, exactly, at this number of samples
    twins : share of the samples that equal another one of their cloud, of the reference and of the generated ones
    """

    NAMES: ClassVar[tuple[str, ...]] = ("precision", "recall", "density", "coverage")

    precision: float
    recall: float
    density: float
    coverage: float
    k: int
    ball: str
    expected: dict[str, float]
    twins: tuple[float, float]

    def about(self) -> str:
        """The line below the table: samples, k, and how many samples have a twin."""
        text = f"k = {self.k}; {super().about()}"
        twins = ", ".join(f"{share:.1%} of the {name}" for share, name in zip(self.twins, _NAMES) if share)
        return f"{text}; equal to another sample: {twins}" if twins else text


_NAMES = ("reference", "generated samples")


class _Balls(NamedTuple):
    """radius : (n,) distance to the k-th neighbour. members : (n,) others within it, k unless distances are equal.
    twin : (n,) whether another sample is at distance 0."""

    radius: Tensor
    members: Tensor
    twin: Tensor


def prdc(
    reference: Any,
    generated: Any,
    *,
    k: int = 4,
    ball: Ball = "closed",
    splits: int = 10,
    resolution: float = 0.05,
    seed: int = 0,
    chunk: int | None = None,
) -> PrecisionRecall:
    """Precision, recall, density and coverage of generated samples, from balls that reach the k-th neighbour.

    With x the n reference samples, y the n generated ones, B(x_i) the ball about x_i that reaches its k-th neighbour
    among the other x, and likewise B(y_j)::

        precision = (1/n) Σ_j [y_j in some B(x_i)]        density  = (1/n) Σ_j Σ_i [y_j in B(x_i)] / k_i
        recall    = (1/n) Σ_i [x_i in some B(y_j)]        coverage = (1/n) Σ_i [some y_j in B(x_i)]

    k_i is the number of other x in B(x_i): k, unless distances are equal.

    Parameters
    ----------
    reference, generated : array (samples, features)
        numpy or torch, in comparable units: see `prepared`, `field_features`, `text_features`. Of the larger cloud as
        many samples are drawn as the smaller one has: unequal sizes bias recall and coverage.
    k : int
        Neighbours; scores of different k cannot be compared.
    ball : {"closed", "open"}
        Whether a ball holds its rim. It matters for equal samples only: k + 1 copies of one sample have balls of radius
        0, which are empty if open. Two equal clouds of one repeated sample have precision, recall and coverage 1 and
        density n/(n − 1) with closed balls, and 0 for all four with open ones, as in the package prdc and
        arXiv:2002.09797. A model that repeats one reference sample has precision 1 with both, and recall 1/n with
        closed balls, 0 with open ones. Distances that differ by round-off, 32 ε times the lengths of both vectors,
        count as equal in closed balls: features of equal texts or fields differ by it.
    splits : int
        Random halves for the ceilings and the standard errors, at least 2; 0 for neither. A half of the reference has
        as many samples as the comparison where the reference has twice as many.
    resolution : float
        Half-width to which shares are to be known; a warning says how many samples that needs (`sample_floor`).
    seed : int
        Of the samples that are drawn and of the halves.
    chunk : int, optional
        Samples of a block of distances; default as many as 2²² distances. Memory grows with it, results do not change.

    Returns
    -------
    PrecisionRecall
        Printed as a table, score beside ceiling.

    Raises
    ------
    ValueError
        The clouds do not fit each other, hold NaN or have at most k samples; an option is out of range.

    Warns
    -----
    RuntimeWarning
        There are fewer samples than the resolution needs.

    Notes
    -----
    Equal laws do not give precision 1: with k = 4 they give about 0.99 in 2 dimensions, 0.83 in 16 and 0.70 in 64, for
    any number of samples. Read a score beside its ceiling, not beside 1. Distances are sums of squared differences, not
    products of matrices, so that equal samples are at distance 0 exactly.

    References
    ----------
    Kynkäänniemi et al., arXiv:1904.06991; Naeem et al., arXiv:2002.09797; Le Bronnec et al., arXiv:2402.10693.

    Examples
    --------
    >>> import numpy as np
    >>> x, y = np.random.default_rng(0).standard_normal((2, 1000, 2))
    >>> narrow = prdc(x, 0.5 * y)
    >>> narrow.precision > 0.99, narrow.recall < 0.8, narrow.ceiling["recall"].mean > 0.97
    (True, True, True)
    """
    floor = sample_floor(resolution)
    whole, y, _ = clouds(reference, generated)
    x, y = equal_sizes(whole, y, seed)
    _check(x, k, ball, chunk)
    warn_below(floor, len(x), resolution, "prdc")
    scores, twins = _scores(x, y, k, ball, chunk)

    def measure(a: Tensor, b: Tensor) -> dict[str, float]:
        return _scores(a, b, k, ball, chunk)[0]

    ceiling, half = split_half(whole, measure, most=len(x), least=k + 1, splits=splits, seed=seed)
    deviation = standard_errors(x, y, measure, least=k + 1, splits=splits, seed=seed)
    return PrecisionRecall(
        **scores,
        deviation=deviation,
        k=k,
        ball=ball,
        expected={"density": 1.0, "coverage": expected_coverage(len(x), len(x), k)},
        twins=twins,
        samples=len(x),
        floor=floor,
        resolution=resolution,
        ceiling=ceiling,
        ceiling_samples=half,
    )


def in_support(reference: Any, samples: Any, *, k: int = 4, ball: Ball = "closed", chunk: int | None = None) -> Any:
    """Whether each sample lies in the support of the reference, the union of its balls: (samples,) bool.

    The mean over generated samples is their precision; with the clouds exchanged, their recall. Samples outside are the
    fields to look at first. Parameters and errors as in `prdc`; the clouds may differ in size.
    """
    x, y, _ = clouds(reference, samples)
    _check(x, k, ball, chunk)
    a, b = _centred(x, y)
    radius = _balls(a, k, chunk).radius
    parts = [_within(d, radius[:, None], ball).any(0) for _, d in _blocks(a, b, ball, chunk)]
    return like(reference, torch.cat(parts))


def expected_coverage(reference: int, generated: int, k: int) -> float:
    """Coverage that is expected when both clouds have one continuous law, of any dimension.

        1 − Π_{j=1}^{k} (N − j)/(N + M − j)

    reference, generated : N and M, numbers of samples; k : neighbours, below N

    A ball is empty when the k nearest of the N − 1 + M other samples are all of the reference. Tends to 1 − 2^{−k} for
    N = M.
    """
    if not 1 <= k < reference or generated < 1:
        raise ValueError(
            f"reference={reference}, generated={generated}, k={k}: expected 1 ≤ k < reference and generated ≥ 1"
        )
    empty = 1.0
    for j in range(1, k + 1):
        empty *= (reference - j) / (reference + generated - j)
    return 1.0 - empty


def _scores(x: Tensor, y: Tensor, k: int, ball: str, chunk: int | None) -> tuple[dict[str, float], tuple[float, float]]:
    a, b = _centred(x, y)
    of_x, of_y = _balls(a, k, chunk), _balls(b, k, chunk)
    share = 1.0 / (of_x.members if ball == "closed" else torch.full_like(of_x.members, k)).double()
    precise = density = 0.0
    recalled, covered = (torch.zeros(len(x), dtype=torch.bool, device=x.device) for _ in range(2))
    for rows, d in _blocks(a, b, ball, chunk):
        held = _within(d, of_x.radius[:, None], ball)
        precise += float(held.any(0).sum())
        density += float((share @ held.double()).sum())
        covered |= held.any(1)
        recalled |= _within(d, of_y.radius[rows], ball).any(1)
    scores = {
        "precision": precise / len(y),
        "recall": float(recalled.double().mean()),
        "density": density / len(y),
        "coverage": float(covered.double().mean()),
    }
    return scores, (float(of_x.twin.double().mean()), float(of_y.twin.double().mean()))


class _Cloud(NamedTuple):
    """points : (n, features). slack : (n,) what round-off may add to a distance from each."""

    points: Tensor
    slack: Tensor


def _centred(x: Tensor, y: Tensor) -> tuple[_Cloud, _Cloud]:
    """Both about the mean of their means, the same when they are exchanged."""
    centre = 0.5 * (x.mean(0) + y.mean(0))
    unit = _ROUND_OFF * torch.finfo(x.dtype).eps
    a, b = (_Cloud(v - centre, unit * torch.linalg.vector_norm(v - centre, dim=1)) for v in (x, y))
    return a, b


def _balls(x: _Cloud, k: int, chunk: int | None) -> _Balls:
    parts = []
    for rows, d in _blocks(x, x, "open", chunk):
        at = torch.arange(rows.start, rows.stop, device=x.points.device)
        d = d.T  # (rows, others): the smallest of a row are found much faster than those of a column
        d[at - rows.start, at] = torch.inf
        radius = d.topk(k, dim=1, largest=False).values[:, -1]
        d = _loosened(d, x.slack[rows], x.slack)
        parts.append((radius, (d <= radius[:, None]).sum(1), (d <= 0).any(1)))
    return _Balls(*(torch.cat(part) for part in zip(*parts)))


def _blocks(x: _Cloud, y: _Cloud, ball: str, chunk: int | None) -> Iterator[tuple[slice, Tensor]]:
    """(rows of y, distances (x, rows of y)), block by block; for closed balls less what round-off may have added."""
    n = len(y.points)
    size = chunk or max(1, _PAIRS // len(x.points))
    for start in range(0, n, size):
        rows = slice(start, min(start + size, n))
        d = torch.cdist(y.points[rows], x.points, compute_mode="donot_use_mm_for_euclid_dist").T
        yield rows, _loosened(d, x.slack, y.slack[rows]) if ball == "closed" else d


def _loosened(d: Tensor, first: Tensor, second: Tensor) -> Tensor:
    return d.sub_(first[:, None]).sub_(second)


def _within(d: Tensor, radius: Tensor, ball: str) -> Tensor:
    return d <= radius if ball == "closed" else d < radius


def _check(x: Tensor, k: int, ball: str, chunk: int | None) -> None:
    if ball not in ("closed", "open"):
        raise ValueError(f"ball={ball!r}: expected 'closed' or 'open'")
    check_whole(k=k)
    if len(x) <= k:
        raise ValueError(f"{len(x)} samples have no neighbour number {k}: pass more than k={k} samples of each cloud")
    if chunk is not None and chunk < 1:
        raise ValueError(f"chunk={chunk!r}: expected at least 1 sample, or None")
