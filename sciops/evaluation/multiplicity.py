"""p values of several tests, corrected for their number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np

Correction = Literal["holm", "benjamini-hochberg", "none"]

_METHODS = {"holm": "holm", "benjamini-hochberg": "fdr_bh"}  # names of statsmodels


def adjusted_p(p: Sequence[float], correction: Correction = "holm") -> list[float]:
    """Adjusts the p values of a family of tests, by `statsmodels.stats.multitest.multipletests`.

    Holm: p̃_(k) = max_{j ≤ k} min(1, (m − j + 1) p_(j)), which bounds the probability of any false rejection.
    Benjamini–Hochberg: p̃_(k) = min_{j ≥ k} min(1, m p_(j) / j), which bounds the expected share of false rejections.

    Parameters
    ----------
    p : sequence of float, of length m
        Between 0 and 1; may be empty.
    correction : {"holm", "benjamini-hochberg", "none"}
        "holm" for claims, "benjamini-hochberg" for screening.

    Returns
    -------
    list of float
        In the order given.

    Raises
    ------
    ValueError
        A number is not between 0 and 1; an unknown correction.
    ImportError
        statsmodels is missing (extra ``sciops[audit]``).

    References
    ----------
    Holm, A simple sequentially rejective multiple test procedure (1979); Benjamini and Hochberg, Controlling the false
    discovery rate (1995).
    """
    if correction not in get_args(Correction):
        raise ValueError(f"correction={correction!r}: expected one of {', '.join(get_args(Correction))}")
    values = np.asarray(list(p), dtype=np.float64)
    outside = values[~((values >= 0) & (values <= 1))]  # NaN too
    if len(outside):
        raise ValueError(f"p={outside[0]:g}: expected p values between 0 and 1")
    if correction == "none" or len(values) < 2:  # one test by itself is not corrected
        return values.tolist()
    try:
        from statsmodels.stats.multitest import multipletests
    except ImportError:
        raise ImportError("corrections of p values need statsmodels: pip install 'sciops[audit]'") from None
    return np.minimum(multipletests(values, method=_METHODS[correction])[1], 1.0).tolist()
