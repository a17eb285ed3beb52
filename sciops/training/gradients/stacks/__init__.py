"""Backward passes of stacks of layers: layer by layer, batched, pipelined over processes, forward only."""

from sciops.training.gradients.stacks.layers import Layer, layers_of, layers_of_block
from sciops.training.gradients.stacks.layerwise import LayerByLayer
from sciops.training.gradients.stacks.pipeline import PlacedStack

__all__ = ["Layer", "LayerByLayer", "PlacedStack", "layers_of", "layers_of_block"]
