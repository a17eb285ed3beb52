"""Conditional quantization: how the points of `sciops.models.Quantized` are trained, and kept in use."""

from sciops.uncertainty.quantization.lloyd import lloyd
from sciops.uncertainty.quantization.losses import quantization_losses
from sciops.uncertainty.quantization.refitting import refit_weights
from sciops.uncertainty.quantization.schedule import Schedule, shares
from sciops.uncertainty.quantization.splitting import expanded, keep_points_used, split_unused

__all__ = [
    "Schedule",
    "expanded",
    "keep_points_used",
    "lloyd",
    "quantization_losses",
    "refit_weights",
    "shares",
    "split_unused",
]
