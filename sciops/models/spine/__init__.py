"""The spine of every model: lift, blocks of mixing and pointwise layers, projection, and what these are made of."""

from sciops.models.spine.blocks import ClassicBlock, LocalKernel, ResidualBlock, hidden_width, pointwise
from sciops.models.spine.dealiasing import finer_grid_tables, on_finer_grid
from sciops.models.spine.features import COORDINATES, coordinate_channels, coordinate_count, wall_mask
from sciops.models.spine.inputs import check_input
from sciops.models.spine.norms import NORMS, InstanceNorm, RMSNorm, make_norm
from sciops.models.spine.operator import Operator, OperatorOptions, SpineOptions, description
