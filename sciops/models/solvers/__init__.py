"""Numerical solvers with a learned part: a correction of the solution, or of the coefficient."""

from sciops.models.solvers.corrector import Corrector, CorrectorOptions, corrector
from sciops.models.solvers.effective_coefficient import (
    EffectiveCoefficient,
    EffectiveCoefficientOptions,
    effective_coefficient,
)
