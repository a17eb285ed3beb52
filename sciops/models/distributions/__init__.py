"""Models whose output is a distribution of fields: points with weights, quantiles, samples, and ensembles of models."""

from sciops.models.distributions.base import Cells, DistributionModel
from sciops.models.distributions.dropout import DropoutModel, DropoutOptions, dropout
from sciops.models.distributions.ensemble import Ensemble, EnsembleOptions, ensemble
from sciops.models.distributions.flow import FlowModel, FlowOptions, flow
from sciops.models.distributions.quantiles import QuantileModel, QuantileOptions, quantiles
from sciops.models.distributions.quantized import Heads, Quantized, QuantizedOptions, quantized
from sciops.models.distributions.wrapped import cells_of, distribution_inside

DISTRIBUTIONS = {
    "quantized": quantized,
    "quantiles": quantiles,
    "dropout": dropout,
    "flow": flow,
    "ensemble": ensemble,
}
"""Kinds by the word before the colon of a model's name, as in "quantized:fno"."""
