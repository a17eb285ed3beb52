"""The scores of a distribution as `sciops evaluate` prints and keeps them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sciops.trained.distribution_scores import DistributionScores

_NAMES = {
    "energy_score": "energy score",
    "crps": "CRPS",
    "nearest": "nearest point, relative",
    "wasserstein": "W2 to repeated samples",
}


def distribution_results(found: DistributionScores) -> dict[str, Any]:
    """The scores as results.json holds them: means with their standard errors, and the calibration of the weights."""
    results: dict[str, Any] = {"kind": found.kind, "points": found.points}
    for name in _NAMES:
        values = getattr(found, name)
        if values is not None:
            results[name] = _mean(values)
    results["spread_ratio"] = found.spread_ratio
    if found.quantization is not None:
        results["quantization"] = found.quantization
    if found.repeats is not None:
        results["samples_of_an_input"] = found.repeats
    if found.calibration is not None:
        results["weights"] = vars(found.calibration)
    if found.missing:
        results["missing"] = found.missing
    return results


def distribution_lines(found: DistributionScores, results: Mapping[str, Any]) -> list[str]:
    """Lines of the table."""
    lines = [f"distribution: {found.kind}, {found.points} points; the errors above are those of its mean"]
    for key, name in _NAMES.items():
        if key in results:
            own = results[key]
            error = "" if own["standard_error"] is None else f" ± {own['standard_error']:.1g}"
            lines.append(f"{name:<26}{own['mean']:.4g}{error}")
    if found.quantization is not None:
        lines.append(f"{'W2 by the nearest point':<26}{found.quantization:.4g}   with the weights of the cells")
    lines.append(f"{'spread over error':<26}{found.spread_ratio:.3g}   1: the stated standard deviation is right")
    if found.calibration is not None:
        own = found.calibration
        lines.append(f"{'weights':<26}off by {own.error:.2%} on average, log-loss {own.log_loss:.3f} nats")
        lines.append(f"{'stated weight':<18}{'frequency':>12}{'pairs':>10}")
        for p, share, count in zip(own.predicted, own.observed, own.count):
            lines.append(f"{p:<18.3f}{share:>12.3f}{count:>10}")
    return [*lines, *(f"not computed: {text}" for text in found.missing)]


def _mean(values: np.ndarray) -> dict[str, Any]:
    finite = values[np.isfinite(values)]
    error = float(finite.std(ddof=1) / len(finite) ** 0.5) if len(finite) > 1 else None
    return {
        "mean": float(finite.mean()) if len(finite) else float("nan"),
        "standard_error": error,
        "samples": len(finite),
    }
