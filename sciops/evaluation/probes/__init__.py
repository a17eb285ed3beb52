"""What the layers of a model know of each group, and whether a gap between groups is bias or variance.

The same calls serve speakers and instances of an equation: a cluster is what was drawn independently, an identity-like
task asks which cluster or regime an input is from, a content-like task asks for what is in it.
"""

from sciops.evaluation.probes.association import RankCorrelation, neighbour_purity, rank_correlation, relative_scatter
from sciops.evaluation.probes.curves import SCALES, DepthCurves, depth_curves
from sciops.evaluation.probes.geometry import GroupShift, Scatter, group_shift, scatter, squared_shift
from sciops.evaluation.probes.linear import balanced_weights, probe_errors, shuffled
from sciops.evaluation.probes.taps import hidden_states, pooled, tap_names, tapped
from sciops.evaluation.probes.transfer import (
    GapSplit,
    TransferMatrix,
    common_classes,
    error_type,
    remedy,
    split_gap,
    transfer_matrix,
)
from sciops.evaluation.probes.upstream import upstream

__all__ = [
    "SCALES",
    "DepthCurves",
    "GapSplit",
    "GroupShift",
    "RankCorrelation",
    "Scatter",
    "TransferMatrix",
    "balanced_weights",
    "common_classes",
    "depth_curves",
    "error_type",
    "group_shift",
    "hidden_states",
    "neighbour_purity",
    "pooled",
    "probe_errors",
    "rank_correlation",
    "relative_scatter",
    "remedy",
    "scatter",
    "shuffled",
    "split_gap",
    "squared_shift",
    "tap_names",
    "tapped",
    "transfer_matrix",
    "upstream",
]
