"""Paired comparisons, errors against time, grounding in the input, perplexity and ROUGE of texts."""

from sciops.evaluation.frames import frames_of
from sciops.evaluation.grounding import Retrieval, Sensitivity, own_against_wrong, retrieval, sensitivity
from sciops.evaluation.paired import FEWEST, HalfWidths, Verdict, half_widths, paired_verdict
from sciops.evaluation.perplexity import TextScores, score_text
from sciops.evaluation.rollout import (
    RolloutErrors,
    correlation,
    correlation_time,
    errors_against_time,
    frame_errors,
    persistence,
    rollout,
    rollout_errors,
    window_errors,
)
from sciops.evaluation.rouge import Rouge, mean_rouge, rouge
from sciops.evaluation.spread import Spread, spread

__all__ = [
    "FEWEST",
    "HalfWidths",
    "Retrieval",
    "RolloutErrors",
    "Rouge",
    "Sensitivity",
    "Spread",
    "TextScores",
    "Verdict",
    "correlation",
    "correlation_time",
    "errors_against_time",
    "frame_errors",
    "frames_of",
    "half_widths",
    "mean_rouge",
    "own_against_wrong",
    "paired_verdict",
    "persistence",
    "retrieval",
    "rollout",
    "rollout_errors",
    "rouge",
    "score_text",
    "sensitivity",
    "spread",
    "window_errors",
]
