"""Networks of orthogonal layers, and the projection of weights onto orthogonal ones."""

from sciops.models.orthogonal.layers import OrthogonalConvolution, UnitarySpectral
from sciops.models.orthogonal.matrices import bjorck, polar
from sciops.models.orthogonal.net import OrthogonalNet, OrthogonalOptions
from sciops.models.orthogonal.projection import can_be_projected, orthogonality_defect, orthogonalize_
