"""Rules for wrappers of models, and for models with solvers inside."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from sciops.datasets.fields.normalizers import Normalizer
from sciops.grids import Grid
from sciops.lipschitz.as_written import changed, exactly
from sciops.lipschitz.bounds.classifier import of_classifier
from sciops.lipschitz.bounds.neuralop import of_neuralop
from sciops.lipschitz.bounds.parts import (
    Part,
    Row,
    Setting,
    chain,
    inside,
    matrix_norm,
    no_bound,
    one,
    shown,
    with_ends,
)
from sciops.lipschitz.bounds.sequence import of_sequence
from sciops.lipschitz.bounds.spine import of_operator
from sciops.lipschitz.bounds.torch_layers import channels_of
from sciops.lipschitz.norms.fourier import axis_weights
from sciops.models.images.classifier import Classifier
from sciops.models.operators.neuralop import NeuralopModel
from sciops.models.solvers.corrector import Corrector
from sciops.models.solvers.effective_coefficient import EffectiveCoefficient
from sciops.models.spine.operator import Operator
from sciops.models.wrappers.latent import Latent
from sciops.models.wrappers.normalized import Normalized
from sciops.models.wrappers.stepper import Stepper
from sciops.models.wrappers.symmetry import SymmetryAveraged
from sciops.resampling import resample

_SOLVER = (
    "a solver inside: its solution is not Lipschitz in the coefficient from L² to L², and varies without limit "
    "where the coefficient nears zero"
)


def _of_wrapped_neuralop(model: NeuralopModel, setting: Setting) -> Part:
    """neuraloperator gives every point the same weight: the change to the quadrature norm is a factor at the ends."""
    return with_ends(of_neuralop(model.model, setting), setting)


def _of_normalized(model: Normalized, setting: Setting) -> Part:
    parts = []
    inner, outer = model.input, model.output
    for side in (inner, outer):
        if side is not None and (not exactly(side, Normalizer) or changed(side)):
            return no_bound(
                "scale", f"no rule with {type(side).__name__} as a normaliser that is not as its class says"
            )
    if inner is not None:
        parts.append(one("input scale", lambda: ((1 / inner.std).abs().max() * (1 + 1e-15), "largest 1/std")))
    parts.append(setting.walk(model.model))
    if outer is not None:
        parts.append(one("output scale", lambda: (outer.std.abs().max(), "largest std")))
    return chain(parts)


def _of_symmetry_averaged(model: SymmetryAveraged, setting: Setting) -> Part:
    model.elements(setting.grid)  # raises where the problem does not have them
    mean = one("mean", lambda: (1.0, "moves of the grid change no norm, and the mean is no larger than its parts"))
    return chain([replace(setting, reused=True).walk(model.model), mean])


def _of_latent(model: Latent, setting: Setting) -> Part:
    outer, latent = setting.grid, model.grid
    if outer == latent:
        return setting.walk(model.model)
    walls = model.wall == "zero" and "periodic" not in (latent.centering, outer.centering)
    known = walls and model.output_method in ("sine", "cubic", "linear")
    there = one("to latent", partial(_resampling, model.input_method, outer, latent, False, setting))
    back = one("from latent", partial(_resampling, model.output_method, latent, outer, known, setting))
    return chain([there, setting.on(latent).walk(model.model), back])


def _resampling(method: Any, source: Grid, target: Grid, wall: bool, setting: Setting) -> tuple[float, str]:
    """‖V^½ P W^−½‖, axis by axis, with the weights of the two grids."""
    factor = 1.0
    axes = zip(source.axes, target.axes, axis_weights(source, setting.weighted), axis_weights(target, setting.weighted))
    for a, b, w, v in axes:
        options: dict[str, Any] = {}
        if method == "sine" or wall:
            options["wall"] = "zero"
        if method == "fourier" and a.centering == "node":
            options["aligned"] = False
        matrix = resample(np.eye(a.size), a, b, method, **options).T
        factor *= matrix_norm(np.sqrt(v)[:, None] * matrix / np.sqrt(w))
    return factor, method


def _of_stepper(model: Stepper, setting: Setting) -> Part:
    """The bound of a rollout from that of a step, ‖f_{k+1}‖ ≤ ℓ‖x_k‖ with f_{k+1} = last + S(x_k).

    Windows x_k have at most the norm √(1 + Σ f²), where 1 is for channels that stay constant and for the first frames.
    """
    inner = replace(setting, reused=True).walk(model.model)
    rows = inside("step", inner)
    if inner.value is None:
        return Part(None, rows)
    if model.training and model.noise:
        return Part(None, [*rows, Row("steps", None, "noise in training: call model.eval()")])
    if model.time_step and model.residual:
        return Part(None, [*rows, Row("steps", None, "the time of a step, an input, times what the model gives")])
    step = 1 + inner.value if model.residual else inner.value
    constants = _constants(model)
    frames: list[Tensor] = []
    steps = model.drawn if model.training and model.gradient == "random" else model.steps
    for k in range(steps):
        stays = k < model.history or constants
        seen = [f.square() for f in frames[max(0, k - model.history) :]]
        frames.append(step * (sum(seen) + (1.0 if stays else 0.0)) ** 0.5 if seen else step * torch.ones_like(step))
    value = frames[-1] if model.frames == 1 else sum(f.square() for f in frames) ** 0.5
    plus = "1 + " if model.residual else ""
    reason = f"{steps} steps of at most {plus}{shown(inner.value)}, {model.frames} frames returned"
    return Part(value, [*rows, Row("steps", value, reason)])


def _constants(model: Stepper) -> bool:
    """Whether the input may have channels besides the frames, as far as the layers that read them say."""
    inner: Any = model.model
    while isinstance(inner, (Normalized, Latent, SymmetryAveraged, Stepper)):
        inner = inner.model
    if isinstance(inner, nn.Sequential):
        inner = next((layer for layer in inner.modules() if channels_of(layer) is not None), inner)
    channels = channels_of(getattr(inner, "model", inner))
    return channels is None or channels > model.history * model.channels


def _of_corrector(model: Corrector, setting: Setting) -> Part:
    rows = inside("network", setting.walk(model.model))
    return Part(None, [Row("solve", None, _SOLVER), *rows])


RULES: dict[type[nn.Module], Callable[[Any, Setting], Part]] = {
    Operator: of_operator,
    Classifier: of_classifier,
    NeuralopModel: _of_wrapped_neuralop,
    Normalized: _of_normalized,
    SymmetryAveraged: _of_symmetry_averaged,
    Latent: _of_latent,
    Stepper: _of_stepper,
    Corrector: _of_corrector,
    EffectiveCoefficient: _of_corrector,
    nn.Sequential: of_sequence,
}
"""The rules of models, which are called with a grid, and of sequences, by class."""
