"""Rules that fill ``.grad``: each a function ``rule(model, loss_fn, batch, *, …) -> loss``.

model : called as ``model(x, grid)``; what `fit` passes averages gradients over the processes during ``backward``
loss_fn : ``loss_fn(prediction, batch)`` → the scalar to be differentiated
batch : `sciops.training.Batch`, with ``.x``, ``.y`` (batch, channel, *grid) and ``.grid``
… : the rule's options, keywords all; `fit` takes them from ``TrainConfig.gradient_options``
returns : that scalar; on return every trained parameter's gradient has been added to its ``.grad``

`fit` picks the rule by ``TrainConfig.gradients``, and calls it once for every micro-batch of a step (``accumulate``). A
rule that fills ``.grad`` without ``loss.backward()`` has to average over the processes itself.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from sciops.models.sequences.through_time.highway_rnn import highway_rnn
from sciops.training.gradients.backprop import backprop
from sciops.training.gradients.diagnosis import compared, groups_of
from sciops.training.gradients.feedback_alignment import feedback_alignment
from sciops.training.gradients.forward_only import feedback_matrix, forward_only, keep_orthogonal, project_
from sciops.training.gradients.highway import highway, highway_stack
from sciops.training.gradients.options import check_options, options_at
from sciops.training.gradients.stacks.layers import Layer, norm_after_sum, relu_after_sum
from sciops.training.gradients.stacks.pipeline import PlacedStack
from sciops.training.gradients.state_feedback import state_feedback

GRADIENTS: dict[str, Callable[..., Tensor]] = {
    "backprop": backprop,
    "highway": highway,
    "forward_only": forward_only,
    "feedback_alignment": feedback_alignment,
    "state_feedback": state_feedback,
}
AFTER_STEP = {"forward_only": keep_orthogonal}
"""Rules that act on the parameters after every step: name → function of model and optimizer that registers this."""

__all__ = [
    "AFTER_STEP",
    "GRADIENTS",
    "Layer",
    "PlacedStack",
    "backprop",
    "check_options",
    "compared",
    "feedback_alignment",
    "feedback_matrix",
    "forward_only",
    "groups_of",
    "highway",
    "highway_rnn",
    "highway_stack",
    "keep_orthogonal",
    "norm_after_sum",
    "options_at",
    "project_",
    "relu_after_sum",
    "state_feedback",
]
