"""One comparison of two clouds as plain numbers: neighbours, curves, and the ablations."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from sciops.evaluation import cluster_curves, prdc, prepared
from sciops.evaluation.precision_recall.reporting import Scores

ANGLES = 60  # of the stored curves
CURVE_SPLITS = 3  # random halves for the ceilings of the curves, whose clusters take longer than neighbours


def compared(reference: Any, generated: Any, options: Mapping[str, Any], *, seed: int, **preparing: Any) -> dict:
    """Scores of generated samples and of their ceiling, {"precision": …, "ceiling": {"precision": Spread as dict}, …}.

    The sizes of the clouds are given by the study, so that the warning of a coarse resolution would repeat itself for
    every cell; the tables print the floor.
    """
    x, y, kept = prepared(reference, generated, **preparing)
    how = {"splits": options["splits"], "seed": seed, "resolution": options["smallest"]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        near = prdc(x, y, k=options["neighbours"], **how)
        bins = cluster_curves(
            x, y, restarts=2, angles=ANGLES, **(how | {"splits": min(CURVE_SPLITS, options["splits"])})
        )
    record = numbers(near) | {"kept": list(kept), "twins": near.twins[1], "components": int(x.shape[1])}
    curve = {"precision": np.asarray(bins.curve.precision), "recall": np.asarray(bins.curve.recall)}
    return record | {"curves": numbers(bins), "curve": {name: v.tolist() for name, v in curve.items()}}


def ablated(reference: Any, generated: Any, options: Mapping[str, Any], **preparing: Any) -> dict[str, Any]:
    """{"k": {k: scores}, "n": {n: scores}, "open": scores}: other neighbours, fewer samples, open balls."""
    x, y, _ = prepared(reference, generated, **preparing)
    n = options["samples"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        of_k = {
            str(k): numbers(prdc(x, y, k=k, splits=options["splits"]))
            for k in options["other_neighbours"]
            if k < len(y) // 2
        }
        of_n = {
            str(size): numbers(prdc(x[: 2 * size], y[:size], k=options["neighbours"], splits=options["splits"]))
            for size in (n // 8, n // 4, n // 2)
            if size > options["neighbours"]
        }
        without = numbers(prdc(x, y, k=options["neighbours"], ball="open", splits=0))
    return {"k": of_k, "n": of_n, "open": without}


def numbers(found: Scores) -> dict[str, Any]:
    """Scores, ceilings and sizes in JSON's kinds."""
    scores = {name: float(getattr(found, name)) for name in found.NAMES}
    ceiling = {name: asdict(one) for name, one in found.ceiling.items()}
    return scores | {"ceiling": ceiling, "samples": found.samples, "deviation": found.deviation, "needed": found.needed}
