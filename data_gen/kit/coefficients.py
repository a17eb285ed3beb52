"""A constant of an equation that is one number for the whole file, or drawn for each sample."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

__all__ = ["Coefficient"]


@dataclass(frozen=True)
class Coefficient:
    """`value` for all samples; with an `interval` each sample's own, uniform in the logarithm between its ends.

    name : of the solver's argument and of the variable in the file; about : what it is, for the file

    Raises ValueError for an interval that is no pair of positive numbers, the smaller first.
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
        """What is the same for all samples."""
        return {self.name: self.value} if self.interval is None else {}

    @property
    def variables(self) -> Mapping[str, str]:
        """What differs by sample, name → what it is."""
        return {} if self.interval is None else {self.name: self.about}

    def values(self, seed: int, numbers: np.ndarray) -> np.ndarray | float:
        """(samples,) of the samples `numbers`, each by its number and the seed alone; the one value where there is no
        interval."""
        if self.interval is None:
            return self.value
        # the field draws from spawn_key (number,); its coefficient has a stream of its own
        draws = [
            np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(number, 1))).uniform()
            for number in numbers.tolist()
        ]
        low, high = np.log(self.interval)
        return np.exp(low + (high - low) * np.array(draws))

    def by_sample(self, seed: int, numbers: np.ndarray) -> dict[str, np.ndarray]:
        """What the file keeps of each sample, `variables` → (samples,)."""
        return {name: self.values(seed, numbers) for name in self.variables}
