"""Generators of small fields and images: diffusion and adversarial networks, several of equal shape at once."""

from sciops.models.generative.adversarial import AdversarialNetworks
from sciops.models.generative.dense import DenseNetworks, Tap
from sciops.models.generative.diffusion import DiffusionNetworks

__all__ = ["AdversarialNetworks", "DenseNetworks", "DiffusionNetworks", "Tap"]
