"""Numerical solvers with a learned part: a correction of the solution, or of the coefficient."""

from sciops.models.solvers.corrector import Corrector, corrector
from sciops.models.solvers.effective_coefficient import EffectiveCoefficient, effective_coefficient

__all__ = [
    "Corrector",
    "EffectiveCoefficient",
    "corrector",
    "effective_coefficient",
]
