"""The bound of a module of any kind: model, sequence, layer."""

from __future__ import annotations

from torch import nn

from sciops.lipschitz.bounds.lookup import look_up, looked_through, measure, unchanged
from sciops.lipschitz.bounds.parts import Part, Setting, UnboundedError, no_bound, one
from sciops.lipschitz.bounds.sequence import of_sequence
from sciops.lipschitz.norms.fourier import fourier_norm, is_neuralop_conv


def walk(model: nn.Module, setting: Setting) -> Part:
    """The bound of a model on the setting's grid, in the setting's norm."""
    name = type(model).__name__
    try:
        model = looked_through(model)
        if is_neuralop_conv(model):
            unchanged(model)
            bracket = fourier_norm(model, setting.grid, weighted=setting.weighted)
            return one(name, lambda: (bracket.upper, "mode by mode"))
        declared = look_up(model, setting.rules)
        if declared.role == "model":
            unchanged(model, inside=False)
            return declared.rule(model, setting)
    except UnboundedError as error:
        return no_bound(name, str(error))
    if declared.role == "layer":
        return of_sequence(nn.Sequential(model), setting)
    return one(name, lambda: measure(model, setting))
