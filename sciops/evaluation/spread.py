"""Mean and spread of a score over training seeds, and their common printed form."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from sciops.arrays.kinds import refuse_masked


@dataclass(frozen=True)
class Spread:
    """Mean of a score over seeds, with its standard deviation from seed to seed.

    mean : over the seeds
    deviation : sample standard deviation (divisor seeds − 1); None with one seed, which has no spread;
        infinite where a training diverged
    low, high : smallest and largest
    seeds : number of seeds

    ``f"{spread:.3f}"`` is "0.512 ± 0.004", and with one seed "0.512 (one seed)".
    """

    mean: float
    deviation: float | None
    low: float
    high: float
    seeds: int

    def __format__(self, spec: str) -> str:
        mean = format(self.mean, spec)
        return f"{mean} (one seed)" if self.deviation is None else f"{mean} ± {format(self.deviation, spec)}"

    def __str__(self) -> str:
        return format(self, ".3g")

    def times(self, factor: float) -> Spread:
        """The spread of factor·score, for another unit such as per cent; factor > 0."""
        deviation = None if self.deviation is None else factor * self.deviation
        return Spread(factor * self.mean, deviation, factor * self.low, factor * self.high, self.seeds)

    @classmethod
    def read(cls, row: Mapping[str, Any]) -> Spread:
        """The spread that ``dataclasses.asdict`` wrote into `row`, which may hold more."""
        return cls(**{field.name: row[field.name] for field in fields(cls)})

    @property
    def bar(self) -> float:
        """Length of an error bar: the deviation, or NaN, which matplotlib leaves out, with one seed."""
        return math.nan if self.deviation is None else self.deviation


def spread(values: Iterable[float]) -> Spread:
    """Mean, standard deviation, smallest and largest of one score, given once per seed.

    Parameters
    ----------
    values : iterable of float
        One score per training seed.

    Returns
    -------
    Spread

    Raises
    ------
    ValueError
        There is no value, the values are not one number per seed, or some of them are masked.

    Examples
    --------
    >>> print(f"{spread([0.50, 0.52, 0.54]):.2f}, {spread([0.5]):.2f}")
    0.52 ± 0.02, 0.50 (one seed)
    """
    refuse_masked(values, "scores")
    array = np.asarray(list(values), dtype=np.float64)
    if array.ndim != 1 or array.size == 0:
        raise ValueError(f"scores of shape {array.shape}: expected one number per seed, of at least one seed")
    low, high = float(array.min()), float(array.max())
    if not np.isfinite(array).all():
        return Spread(float(array.mean()), math.inf if array.size > 1 else None, low, high, array.size)
    # over a power of two, by which sums and squares of tiny or huge scores stay in the range of float64
    unit = math.ldexp(1.0, max(math.frexp(max(-low, high))[1] - 1, -1022))
    array = array / unit
    deviation = float(array.std(ddof=1)) * unit if array.size > 1 else None
    return Spread(float(array.mean()) * unit, deviation, low, high, array.size)
