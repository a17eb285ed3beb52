"""A constant of an equation that is one number for the whole file, or drawn for each sample."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["Coefficient"]


@dataclass(frozen=True)
class Coefficient:
    """One value for all samples, or one per sample: uniform in the logarithm over an interval.

    Parameters
    ----------
    name
        Of the solver's argument and of the variable in the file.
    about
        What it is, for the file.
    value
        For all samples, where there is no interval.
    interval
        The smaller end first.

    Raises
    ------
    ValueError
        The interval is not a pair of positive numbers in increasing order.
    """

    name: str
    about: str
    value: float
    interval: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        if self.interval is not None:
            low, high = self.interval
            if not 0 < low < high < math.inf:
                raise ValueError(f"{self.name} between {low:g} and {high:g}: expected two positive numbers, low first")

    @property
    def parameters(self) -> Mapping[str, float]:
        """Name → value, where it is the same for all samples."""
        return {self.name: self.value} if self.interval is None else {}

    @property
    def variables(self) -> Mapping[str, str]:
        """Name → what it is, where it differs by sample."""
        return {} if self.interval is None else {self.name: self.about}

    def values(self, seed: int, numbers: np.ndarray) -> np.ndarray | float:
        """(samples,) of the samples `numbers`, each from its number and the seed alone; a single value without an
        interval."""
        if self.interval is None:
            return self.value
        # the field draws from spawn_key (number,); its coefficient has a stream of its own
        streams = [np.random.SeedSequence(seed, spawn_key=(number, 1)) for number in numbers.tolist()]
        draws = np.array([np.random.default_rng(stream).uniform() for stream in streams])
        low, high = np.log(self.interval)
        return np.exp(low + (high - low) * draws)

    def by_sample(self, seed: int, numbers: np.ndarray) -> dict[str, Any]:
        """What the file stores for each sample, name → (samples,)."""
        return {name: self.values(seed, numbers) for name in self.variables}
