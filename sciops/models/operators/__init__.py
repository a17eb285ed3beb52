"""Neural operators by name: FNO, MANO and hybrid on the spine, and those of neuraloperator."""

from sciops.models.operators.compose import compose
from sciops.models.operators.fno import FNOOptions, fno
from sciops.models.operators.hybrid import HybridOptions, hybrid
from sciops.models.operators.mano import (
    LinearPyramidOptions,
    MANOOptions,
    SmoothMANOOptions,
    linear_pyramid,
    mano,
    smooth_mano,
)
from sciops.models.operators.neuralop import NeuralopModel
from sciops.models.operators.neuralop_spectral import computes
