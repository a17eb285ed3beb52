"""What a score of two clouds is reported with: its split-half ceiling, and the number of samples that it needs."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from sciops.arrays.short import html_table
from sciops.evaluation.spread import Spread, spread

_QUANTILE = NormalDist().inv_cdf(0.975)


@dataclass(frozen=True, kw_only=True)
class Scores:
    """Scores of generated samples against a reference, each with its ceiling; base of the results of this folder.

    samples : samples of each cloud that were compared
    resolution : half-width to which a score is to be known
    floor : samples of each cloud that it needs at least, whatever the clouds, see `sample_floor`
    ceiling : score → its `Spread` over random halves of the reference, one half against the other; empty where none
        was asked for
    ceiling_samples : samples of each half
    deviation : score → its standard error, from halves of both clouds (`standard_errors`)
    """

    NAMES: ClassVar[tuple[str, ...]] = ()

    samples: int
    resolution: float
    floor: int
    ceiling: dict[str, Spread]
    ceiling_samples: int
    deviation: dict[str, float]

    @property
    def needed(self) -> dict[str, int]:
        """Score → samples of each cloud that give it to ±`resolution`: n (1.96 · deviation/resolution)², or `floor`."""
        found = {}
        for name in self.NAMES:
            ratio = _QUANTILE * self.deviation.get(name, 0.0) / self.resolution
            found[name] = max(self.floor, math.ceil(self.samples * ratio**2))
        return found

    def rows(self) -> list[dict[str, Any]]:
        """One row a score, for a table.

        {"score", "value", "deviation" (or None), "ceiling" (a `Spread` or None), "samples", "needed"}
        """
        needed = self.needed
        return [
            {
                "score": name,
                "value": getattr(self, name),
                "deviation": self.deviation.get(name),
                "ceiling": self.ceiling.get(name),
                "samples": self.samples,
                "needed": needed[name],
            }
            for name in self.NAMES
        ]

    def about(self) -> str:
        """The line below the table: how many samples there are, and what the last column is."""
        halves = f", ceilings of {self.ceiling_samples}" if self.ceiling else ""
        return f"{self.samples} samples of each cloud{halves}; needed: samples for ±{self.resolution:g}"

    def __str__(self) -> str:
        lines = self._cells()
        widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
        table = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in lines]
        return "\n".join([*table, self.about()])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return html_table(type(self).__name__, [*self._cells(), (self.about(),)])

    def _cells(self) -> list[tuple[str, ...]]:
        cells: list[tuple[str, ...]] = [("score", "value", "ceiling", "needed")]
        for row in self.rows():
            value = f"{row['value']:.3f}" + ("" if row["deviation"] is None else f" ± {row['deviation']:.3f}")
            ceiling = "–" if row["ceiling"] is None else f"{row['ceiling']:.3f}"
            cells.append((row["score"], value, ceiling, str(row["needed"])))
        return cells


def sample_floor(resolution: float = 0.05, *, level: float = 0.95) -> int:
    """Samples of each cloud from which a share is known to ±`resolution`.

        n = ⌈(z / (2·resolution))²⌉,    z the normal quantile of (1 + level)/2

    The binomial bound at a share of ½: as many as are needed at least to tell shares apart. Scores of neighbours can
    vary more, since all samples share the balls of the reference; see `Scores.needed`, which is measured.

    Parameters
    ----------
    resolution : float
        Half-width of the interval, above 0 and below ½.
    level : float
        Its coverage.

    Raises
    ------
    ValueError
        A number is out of range.

    Examples
    --------
    >>> sample_floor(), sample_floor(0.02)
    (385, 2401)
    """
    if not 0 < resolution < 0.5:
        raise ValueError(f"resolution={resolution!r}: expected a half-width between 0 and 0.5, such as 0.05")
    if not 0 < level < 1:
        raise ValueError(f"level={level!r}: expected a share between 0 and 1, such as 0.95")
    return math.ceil((NormalDist().inv_cdf((1 + level) / 2) / (2 * resolution)) ** 2)


def standard_errors(
    reference: Tensor,
    generated: Tensor,
    measure: Callable[[Tensor, Tensor], Mapping[str, float]],
    *,
    least: int,
    splits: int,
    seed: int,
) -> dict[str, float]:
    """Standard error of every score from random halves of both clouds.

    Two pairs of halves without a common sample give two scores s₁, s₂ at n/2 samples. (s₁ − s₂)²/2 estimates the
    variance there, and half of it that at n; the mean over the splits is taken. It is empty for splits = 0 and where
    half of a cloud has fewer than `least` samples.
    """
    half = min(len(reference), len(generated)) // 2
    if splits == 0 or half < least:
        return {}
    random = np.random.default_rng([seed, 2])
    squares: dict[str, list[float]] = {}
    for _ in range(splits):
        rows = [random.permutation(len(cloud))[: 2 * half].reshape(2, half) for cloud in (reference, generated)]
        first, second = (measure(reference[_rows(a, reference)], generated[_rows(b, generated)]) for a, b in zip(*rows))
        for name in first:
            squares.setdefault(name, []).append((first[name] - second[name]) ** 2)
    return {name: math.sqrt(sum(values) / (4 * len(values))) for name, values in squares.items()}


def warn_below(floor: int, samples: int, resolution: float, name: str) -> None:
    """A RuntimeWarning where there are fewer samples than the resolution needs."""
    if samples < floor:
        known = _QUANTILE / (2 * math.sqrt(samples))
        warnings.warn(
            f"{name}: {samples} samples of each cloud give a share to ±{known:.2f} at best; ±{resolution:g} needs "
            f"{floor}: pass more samples or a larger resolution",
            RuntimeWarning,
            stacklevel=3,
        )


def equal_sizes(reference: Tensor, generated: Tensor, seed: int) -> tuple[Tensor, Tensor]:
    """Both clouds with as many samples as the smaller one has; the larger is drawn from without replacement."""
    n = min(len(reference), len(generated))
    random = np.random.default_rng([seed, 0])
    clouds = []
    for cloud in (reference, generated):
        rows = np.sort(random.permutation(len(cloud))[:n])
        clouds.append(cloud if len(cloud) == n else cloud[_rows(rows, cloud)])
    return clouds[0], clouds[1]


def split_half(
    reference: Tensor,
    measure: Callable[[Tensor, Tensor], Mapping[str, float]],
    *,
    most: int,
    least: int,
    splits: int,
    seed: int,
) -> tuple[dict[str, Spread], int]:
    """(score → spread over random halves of the reference, samples of a half).

    measure : (one half, the other) → scores; most, least : samples of a half

    Raises ValueError for one split, which has no spread, and for a reference too small to be halved.
    """
    if splits == 0:
        return {}, 0
    if splits < 2:
        raise ValueError(f"splits={splits!r}: expected at least 2 random halves of the reference, or 0 for no ceiling")
    half = min(most, len(reference) // 2)
    if half < least:
        raise ValueError(f"reference has {len(reference)} samples: two halves need {2 * least}; pass more, or splits=0")
    random = np.random.default_rng([seed, 1])
    found: list[Mapping[str, float]] = []
    for _ in range(splits):
        rows = random.permutation(len(reference))
        first, second = (reference[_rows(part, reference)] for part in (rows[:half], rows[half : 2 * half]))
        found.append(measure(first, second))
    return {name: spread(one[name] for one in found) for name in found[0]}, half


def _rows(rows: np.ndarray, cloud: Tensor) -> Tensor:
    return torch.from_numpy(rows).to(cloud.device)
