"""Verdicts of studies that keep one score per training, on test data that all trainings share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from sciops.evaluation import Verdict, paired_verdict


def seed_verdict(first: Sequence[float], second: Sequence[float], **options: Any) -> Verdict | None:
    """`paired_verdict` over seeds alone, of one error per seed; None where a training diverged, with an infinite error.

    first, second : errors, paired by seed; smaller is better
    options : of `paired_verdict`
    """
    if not all(map(math.isfinite, (*first, *second))):
        return None
    a, b = (np.asarray(values, dtype=np.float64)[:, None] for values in (first, second))
    return paired_verdict(a, b, over="seeds", **options)


def shown(verdict: Verdict | None, digits: str = "+.2g") -> str:
    """The verdict in a table whose heading says that it is about these test data."""
    if verdict is None:
        return "a training diverged"
    return format(verdict, digits).removesuffix(", on these samples")
