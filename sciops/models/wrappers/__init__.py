"""Models around a model: normalised units, training on one grid, symmetries, time steps."""

from sciops.models.wrappers.latent import Latent
from sciops.models.wrappers.normalized import Normalized
from sciops.models.wrappers.stepper import Stepper, StepperOptions
from sciops.models.wrappers.symmetry import SymmetryAveraged
