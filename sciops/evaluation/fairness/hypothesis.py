"""What is claimed about a gap between groups, written down before the results are seen."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, get_args

from sciops.evaluation.multiplicity import Correction

Aggregation = Literal["pooled", "macro"]
Estimand = Literal["rate ratio", "rate difference", "log-odds difference"]
Contrast = Literal["reference", "rest", "pairs"]
Direction = Literal["different", "higher", "lower"]

FLOOR = 5
"""Fewest clusters of a group for which anything is tested."""


@dataclass(frozen=True)
class Hypothesis:
    """A claim "the groups of this factor are served differently", with all choices that its test depends on.

    Parameters
    ----------
    metric : str
        Name of the errors, such as "word error rate"; for the report.
    factor : str
        The factor whose groups are compared.
    reference : str, optional
        Level that the others are compared with; by default the first in alphabetical order.
    contrast : {"reference", "rest", "pairs"}
        Each level against the reference, each against all others, or all pairs.
    aggregation : {"pooled", "macro"}
        Rates weighted by exposure (the question of a corpus), or one cluster one vote (how each is served).
    estimand : {"rate ratio", "rate difference", "log-odds difference"}
        Scale of the gap. A trend of gaps over several error levels depends on it.
    conditioning : tuple of str
        Factors and covariates that a fair predictor may depend on. With none the claim is about the outcome; with
        content and recording it is about the treatment; with other factors it is about which factor carries the gap.
    not_conditioned : tuple of str
        Factors through which the gap may arise and which are therefore not adjusted for; for the report.
    direction : {"different", "higher", "lower"}
        What is claimed of a group against its reference.
    margin : float, optional
        Smallest gap that matters: a ratio above 1, or a positive difference. Without it no claim is ever refuted.
    alpha : float
        Level of the tests; intervals cover 1 − alpha.
    correction : {"holm", "benjamini-hochberg", "none"}
        For the family of all contrasts of this hypothesis.
    fewest_clusters : int
        Groups with fewer clusters are marked; below 5 nothing is tested.
    exclusions : tuple of str
        What was left out and why; for the report.
    declared_before_results : bool
        Whether this was fixed before the errors were looked at; the report says so.
    draws : int
        Resamples of bootstraps and permutations.
    seed : int
        Of the resamples.

    Raises
    ------
    ValueError
        An option is not one of those named, or the margin does not fit the estimand.
    """

    metric: str
    factor: str
    reference: str | None = None
    contrast: Contrast = "reference"
    aggregation: Aggregation = "pooled"
    estimand: Estimand = "rate ratio"
    conditioning: tuple[str, ...] = ()
    not_conditioned: tuple[str, ...] = ()
    direction: Direction = "different"
    margin: float | None = None
    alpha: float = 0.05
    correction: Correction = "holm"
    fewest_clusters: int = 10
    exclusions: tuple[str, ...] = ()
    declared_before_results: bool = False
    draws: int = 2000
    seed: int = 0

    def __post_init__(self) -> None:
        allowed = {
            "contrast": Contrast,
            "aggregation": Aggregation,
            "estimand": Estimand,
            "direction": Direction,
            "correction": Correction,
        }
        for name, kind in allowed.items():
            if getattr(self, name) not in get_args(kind):
                raise ValueError(f"{name}={getattr(self, name)!r}: expected one of {', '.join(get_args(kind))}")
        if not 0 < self.alpha < 0.5:
            raise ValueError(f"alpha={self.alpha}: expected a level between 0 and 0.5, such as 0.05")
        if self.margin is not None and not self.margin > (1 if self.estimand == "rate ratio" else 0):
            wanted = "a ratio above 1, such as 1.1" if self.estimand == "rate ratio" else "a positive difference"
            raise ValueError(f"margin={self.margin}: expected {wanted}, for the estimand {self.estimand!r}")
        if self.factor in self.conditioning:
            raise ValueError(f"factor={self.factor!r} is in conditioning too: its own gap would be adjusted away")
        if self.fewest_clusters < FLOOR:
            raise ValueError(f"fewest_clusters={self.fewest_clusters}: expected at least {FLOOR}")
        if self.draws < 100:
            raise ValueError(f"draws={self.draws}: expected at least 100 resamples")
        if self.conditioning and (self.estimand != "rate ratio" or self.aggregation != "pooled"):
            raise ValueError(
                "conditioning is by Poisson regression: it needs estimand='rate ratio' and aggregation='pooled'"
            )
        for name in ("conditioning", "not_conditioned", "exclusions"):
            object.__setattr__(self, name, tuple(getattr(self, name)))

    def to_json(self) -> str:
        """As JSON text, to be kept beside the results."""
        return json.dumps(asdict(self), indent=2, ensure_ascii=False)

    def digest(self) -> str:
        """SHA-256, in hexadecimal digits, of all fields as canonical JSON; it changes with every choice.

        Published before the results are seen, it shows later that the hypothesis was not changed.
        """
        text = json.dumps(asdict(self), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        return hashlib.sha256(text.encode()).hexdigest()

    @classmethod
    def from_json(cls, text: str) -> Hypothesis:
        """The hypothesis of `to_json`. Raises ValueError for other text, naming the option that is unknown."""
        try:
            found: Any = json.loads(text)
        except json.JSONDecodeError as error:
            raise ValueError(f"hypothesis: this is not JSON ({error.msg} in line {error.lineno})") from None
        known = {one.name for one in fields(cls)}
        if not isinstance(found, dict) or not {"metric", "factor"} <= {*found}:
            raise ValueError("hypothesis: expected a JSON object with at least metric and factor")
        unknown = sorted({*found} - known)
        if unknown:
            raise ValueError(
                f"hypothesis: {unknown[0]!r} is not an option; expected some of {', '.join(sorted(known))}"
            )
        options: dict[str, Any] = {n: tuple(v) if isinstance(v, list) else v for n, v in found.items()}
        return cls(**options)
