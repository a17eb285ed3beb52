"""What a table of errors says: paired comparisons with their uncertainty, and errors against time."""

from sciops.evaluation.paired import Verdict, paired_verdict
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

__all__ = [
    "RolloutErrors",
    "Verdict",
    "correlation",
    "correlation_time",
    "errors_against_time",
    "frame_errors",
    "paired_verdict",
    "persistence",
    "rollout",
    "rollout_errors",
    "window_errors",
]
