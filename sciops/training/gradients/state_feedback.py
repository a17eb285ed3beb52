"""Gradients through time with a diagonal in place of the derivative of each step: diagonal state feedback (DSF).

Source: Caillon, Fagnou and Allauzen, arXiv:2503.23104. Modes that are not in the paper are named in `Feedback`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from torch import Tensor, nn

from sciops.models.apply import grid_for
from sciops.models.sequences.recurrent import Recurrent
from sciops.models.sequences.through_time.feedback import MODES, Feedback
from sciops.models.sequences.through_time.scan import Kernel
from sciops.models.sequences.through_time.state_feedback import (
    make_feedback,
    state_feedback_recurrence,
    state_feedback_rnn,
    with_feedback,
)
from sciops.models.wrappers.stepper import Stepper
from sciops.training.gradients.backprop import backprop
from sciops.training.gradients.fourier_feedback import FIELD_MODES, field_feedback


def state_feedback(
    model: nn.Module,
    loss_fn: Callable[[Tensor, Any], Tensor],
    batch: Any,
    *,
    feedback: str | None = None,
    level: float | None = None,
    through_output: bool | None = None,
    every: int | None = None,
    momentum: float | None = None,
    probes: int | None = None,
    bounds: tuple[float, float] | None = None,
    symbol: Any = None,
    velocity: float | Sequence[float] | None = None,
    diffusivity: float | None = None,
    dt: float | None = None,
    kernel: Kernel = "auto",
) -> Tensor:
    """Adds the gradients of diagonal state feedback to ``.grad``, and returns the detached loss.

        ĝ_t = ∂loss/∂s_t |_outside + Λ ĝ_{t+1},   dθ = Σ_t (∂s_t/∂θ)ᵀ ĝ_t

    The forward pass is that of the model. Only the derivative of a state with respect to the one before it is replaced,
    by Λ; the derivatives within a step, from layer to layer and from the states to the loss are exact.

    model : with `Recurrent` models in it, or one `Stepper`, whose steps then follow one another without gradient and
        meet in Λ; a step that sees several frames feeds back through the last of them
    feedback : for recurrent models a mode of `Feedback`, default "linspace", with level, through_output, every,
        momentum, probes and bounds as there; for a stepper one of `field_feedback`, default "identity", with level,
        symbol, velocity, diffusivity and dt
    kernel : of `reverse_scan`

    Raises ValueError for a model without steps in time, and for a Stepper whose loss sees its last frame alone.
    """
    recurrent = [m for m in model.modules() if isinstance(m, Recurrent)]
    steppers = [m for m in model.modules() if isinstance(m, Stepper)]
    if len(steppers) > 1 or bool(steppers) == bool(recurrent):
        found = f"{len(steppers)} Stepper and {len(recurrent)} Recurrent" if steppers or recurrent else "neither"
        raise ValueError(
            "gradients='state_feedback' replaces derivatives from one time to the next: expected one Stepper, or "
            f"Recurrent models, and found {found}; for blocks that differ with depth pass gradients='highway'"
        )
    named: dict[str, Any] = dict(
        level=level, through_output=through_output, every=every, momentum=momentum, probes=probes, bounds=bounds
    )
    named |= dict(symbol=symbol, velocity=velocity, diffusivity=diffusivity, dt=dt)
    options = {name: value for name, value in named.items() if value is not None}
    with ExitStack() as stack:
        if steppers:
            stack.enter_context(_stepping(steppers[0], "identity" if feedback is None else feedback, kernel, options))
        for name in ("symbol", "velocity", "diffusivity", "dt"):
            if recurrent and name in options:
                raise ValueError(f"{name} is of feedback for a Stepper; the states of a Recurrent model are not fields")
        for one in recurrent:
            how = one.going_back(
                "state_feedback", feedback="linspace" if feedback is None else feedback, kernel=kernel, **options
            )
            stack.enter_context(how)
        return backprop(model, loss_fn, batch)


@contextmanager
def _stepping(stepper: Stepper, mode: str, kernel: Kernel, options: dict[str, Any]) -> Iterator[None]:
    """The stepper's steps follow one another without gradient, and its frames are fed back."""
    if stepper.gradient in ("pushforward", "random"):
        raise ValueError("gradients='state_feedback' needs all frames of a Stepper: pass Stepper(gradient='full')")

    def fed_back(_: nn.Module, inputs: tuple[Any, ...], named: dict[str, Any], output: Tensor) -> Tensor:
        x = inputs[0] if inputs else named["x"]
        grid = inputs[1] if len(inputs) > 1 else named.get("grid")
        frames = output.unflatten(1, (stepper.steps, stepper.channels)).movedim(1, 0)
        first = x[:, (stepper.history - 1) * stepper.channels : stepper.history * stepper.channels]
        coefficient = field_feedback(mode, grid_for(stepper.model, x, grid), frames.detach(), first.detach(), **options)
        return with_feedback(frames, coefficient, kernel=kernel).movedim(0, 1).flatten(1, 2)

    before, handle = stepper.gradient, stepper.register_forward_hook(fed_back, with_kwargs=True)
    stepper.gradient = "detached"
    try:
        yield
    finally:
        stepper.gradient = before
        handle.remove()


__all__ = [
    "FIELD_MODES",
    "MODES",
    "Feedback",
    "field_feedback",
    "make_feedback",
    "state_feedback",
    "state_feedback_recurrence",
    "state_feedback_rnn",
    "with_feedback",
]
