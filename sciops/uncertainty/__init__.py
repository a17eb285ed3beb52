"""Distributions of fields: conditional quantization, ensembles, flows, and how good they are.

A model of a distribution is made by its name, ``sciops.build_model("quantized:fno", …)``, and trained by
`sciops.training.fit` like any other. `law_of` gives what it says of inputs as a `Law`: points with weights.
"""

from sciops.models.distributions import (
    DropoutModel,
    Ensemble,
    FlowModel,
    QuantileModel,
    Quantized,
    QuantizedOptions,
)
from sciops.uncertainty.calibration import WeightCalibration, weight_calibration
from sciops.uncertainty.distances import distortion, nearest, squared_distances
from sciops.uncertainty.law import Law, Mode, law_of
from sciops.uncertainty.quantization import (
    Schedule,
    expanded,
    keep_points_used,
    lloyd,
    quantization_losses,
    refit_weights,
    shares,
    split_unused,
)
from sciops.uncertainty.scores import crps, energy_score, moment_errors, nearest_error
from sciops.uncertainty.training import has_own_losses, training_losses, validation_errors
from sciops.uncertainty.transport import empirical, repeated, wasserstein2

__all__ = [
    "DropoutModel",
    "Ensemble",
    "FlowModel",
    "Law",
    "Mode",
    "QuantileModel",
    "Quantized",
    "QuantizedOptions",
    "Schedule",
    "WeightCalibration",
    "crps",
    "distortion",
    "empirical",
    "energy_score",
    "expanded",
    "has_own_losses",
    "keep_points_used",
    "law_of",
    "lloyd",
    "moment_errors",
    "nearest",
    "nearest_error",
    "quantization_losses",
    "refit_weights",
    "repeated",
    "shares",
    "split_unused",
    "squared_distances",
    "training_losses",
    "validation_errors",
    "wasserstein2",
    "weight_calibration",
]
