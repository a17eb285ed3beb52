"""Precision and recall of generated samples against a reference: neighbours, curves of histograms, and features."""

from sciops.evaluation.precision_recall.cluster_curves import ClusterCurves, cluster_curves
from sciops.evaluation.precision_recall.clusters import histograms, k_means
from sciops.evaluation.precision_recall.curves import DivergenceCurve, PRCurve, divergence_curve, pr_curve
from sciops.evaluation.precision_recall.field_features import (
    activation_features,
    channel_units,
    field_features,
    joint_features,
    joint_weight,
    spectrum_features,
)
from sciops.evaluation.precision_recall.preparation import Prepared, prepared
from sciops.evaluation.precision_recall.reporting import sample_floor
from sciops.evaluation.precision_recall.support import PrecisionRecall, expected_coverage, in_support, prdc
from sciops.evaluation.precision_recall.text_features import text_features

__all__ = [
    "ClusterCurves",
    "DivergenceCurve",
    "PRCurve",
    "PrecisionRecall",
    "Prepared",
    "activation_features",
    "channel_units",
    "cluster_curves",
    "divergence_curve",
    "expected_coverage",
    "field_features",
    "histograms",
    "in_support",
    "joint_features",
    "joint_weight",
    "k_means",
    "pr_curve",
    "prdc",
    "prepared",
    "sample_floor",
    "spectrum_features",
    "text_features",
]
