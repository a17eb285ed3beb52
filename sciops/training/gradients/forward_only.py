"""Learning by two forward passes, without a backward pass through the activations: FOTON and PEPITA."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from functools import reduce
from typing import Any, Literal

import torch
import torch.distributed as dist
from torch import Tensor, nn

from sciops.arrays.compiling import kept
from sciops.models.apply import apply_model, unwrapped
from sciops.training.gradients.stacks.linear_stack import LinearStack, Pass, read_stack, run_stack
from sciops.training.gradients.stacks.projecting import grid_of, keep_orthogonal, keeper_of, project_
from sciops.values import POSITIVE, WHOLE, one_of

__all__ = ["feedback_matrix", "forward_only", "keep_orthogonal", "project_"]

LARGEST_RANDOM = 10**8  # numbers of a random projection
_CHECKS = {
    "method": one_of(("foton", "pepita")),
    "feedback": one_of(("exact", "random")),
    "projection": one_of(("bjorck", "polar", "none")),
    **dict.fromkeys(("amplitude", "temperature"), POSITIVE),
    **dict.fromkeys(("feedback_every", "project_every", "iterations"), WHOLE),
}
FAR = 0.05  # relative defect from which a parametrised layer is not taken for orthogonal


def forward_only(
    model: nn.Module,
    loss_fn: Callable[[Tensor, Any], Tensor],
    batch: Any,
    *,
    method: Literal["foton", "pepita"] = "foton",
    amplitude: float = 1.0,
    temperature: float = 1.0,
    feedback: Literal["exact", "random"] = "exact",
    feedback_every: int = 1,
    projection: Literal["bjorck", "polar", "none"] = "bjorck",
    iterations: int = 6,
    project_every: int = 1,
    allow_widening: bool = False,
    lift: bool | None = None,
    scale: float = 0.05,
    seed: int = 0,
) -> Tensor:
    """Adds gradients from two forward passes to ``.grad``, without a backward pass; returns the detached loss.

    h is the pass on the input x, h′ the one on x − ε F e:

        FOTON     F e = W_1ᵀ … W_Lᵀ e,   ∂W_l = (h_l − h′_l)ᵀ h_{l−1} / ε,   ∂W_L = eᵀ h_{L−1},   W_l W_lᵀ = I for l < L
        PEPITA    F random and fixed,     ∂W_l = (h_l − h′_l)ᵀ h′_{l−1} / ε,  ∂W_L = eᵀ h′_{L−1}

    with e = ∂loss/∂y at the output y of the stack, per sample; biases get Σ (h_l − h′_l)/ε over the batch. FOTON
    (arXiv:2512.20668) is backpropagation, exactly, where activations are linear: W_l … W_1 W_1ᵀ … W_lᵀ = I leaves
    W_{l+1}ᵀ … W_Lᵀ e. With activations φ it weighs the error by φ′ of the layers before l, backpropagation by those
    behind. PEPITA: arXiv:2201.11665.

    model : any whose trained parameters lie in one `nn.Sequential` of linear layers (`nn.Linear`, circular or
        parametrised `nn.Conv`, `OrthogonalConvolution`, `SpectralMixer`, `UnitarySpectral`), elementwise activations,
        dropout (one mask for both passes) and rearrangements; what lies around it, normalisers for instance, may be
        anything without parameters
    amplitude : ε. 1 is the paper's; as ε → 0 differences become derivatives
    temperature : T, the loss is that of T·(prediction), and its error is not multiplied by T
    feedback : "random" takes PEPITA's F for FOTON
    feedback_every : number of calls for which F is kept
    projection : how hidden layers are made orthogonal in place after each optimiser step; the first call does so by
        itself, with singular values, where they are not yet. "none" leaves the weights to the caller
    iterations : of Björck's
    project_every : steps between two projections, counted from the first call of the process
    allow_widening : take hidden layers with more outputs than inputs (columns are made orthonormal then): the error
        outside of what the inputs reach is lost. PEPITA takes them anyway
    lift : the first linear layer widens by intent: FOTON injects the error behind it and trains it by the injected
        error itself. None asks the model (`OrthogonalNet` says so for kind="spectral")
    scale, seed : F of PEPITA is Gaussian with this standard deviation

    Each layer's weights are differentiated alone. F e is computed from layer to layer, transposed, or, where all are
    `nn.Linear`, as a matrix. Hidden layers are projected after an optimiser step where `keep_orthogonal` knows the
    optimiser, as in `fit`, and else at the next call; steps with the gradient of another rule are not followed by one.

    Raises TypeError, with the reason, for models that are not such a stack; ValueError for widening layers, for a
    parametrised layer whose rows are not orthonormal, and for half precision.
    """
    given = dict(method=method, feedback=feedback, projection=projection, amplitude=amplitude, temperature=temperature)
    given |= dict(feedback_every=feedback_every, project_every=project_every, iterations=iterations)
    for name, value in given.items():
        _CHECKS[name](f"forward_only: {name}", value)
    inner = unwrapped(model)
    stack = read_stack(inner, lift)
    _check_precision(stack)
    foton = method == "foton"
    keeper = keeper_of(stack)
    keeper.catch_up()

    def clean() -> tuple[Pass, Tensor, Tensor]:
        return run_clean(inner, stack, loss_fn, batch, temperature, differentiable=foton)

    run, loss, g = clean()
    if foton:
        _check_widths(stack, run, allow_widening)
        keeper.watch(stack, [grid_of(stack.steps[i][1], run.inputs[i].shape) for i in stack.hidden])
        if not keeper.ready and projection != "none":
            _check_parametrized(stack, run)
            if not keeper.is_close():
                keeper.project()
                run, loss, g = clean()
            keeper.ready = True
        keeper.wait(projection, iterations, project_every)
    weight = getattr(batch, "weight", 1 / len(g))
    # a process without a sample of its own in a step stands in with weight 0, and so with error 0
    e = g / weight if weight else torch.zeros_like(g)
    start = stack.start if foton else 0
    z = run.inputs[start].detach()
    with torch.no_grad():
        if foton and feedback == "exact":
            u = _feedback(stack, run, e, start, keeper, feedback_every)
        else:
            shape = z.shape[1:].numel(), e.shape[1:].numel()
            u = (e.flatten(1) @ random_feedback(*shape, scale, seed, e.dtype, e.device).mT).reshape(z.shape)
        keeper.calls += 1
    again = run_stack(stack.steps, z - amplitude * u, first=start, differentiable=not foton, masks=run.masks)
    source = run if foton else again
    gradients: dict[nn.Parameter, Tensor] = {}
    for i in stack.linear:
        if i == stack.linear[-1]:
            cotangent = source.transposed(g, i + 1)
        elif i < start:  # the lift, behind whose activation the error enters
            cotangent = u * weight
        else:
            cotangent = (run.hidden[i] - again.hidden[i]) * (weight / amplitude)
        own = [p for p in stack.steps[i][1].parameters() if p.requires_grad]
        for p, value in zip(own, source.weight_gradients(i, cotangent, own) if own else ()):
            if value is not None:
                gradients[p] = gradients[p] + value if p in gradients else value
    accumulate(gradients)
    return loss


def feedback_matrix(model: nn.Module, *, lift: bool | None = None) -> Tensor:
    """F = W_1ᵀ … W_Lᵀ : (inputs, outputs) of a stack of `nn.Linear`, multiplied out, without a lift.

    Raises TypeError for stacks with other layers.
    """
    stack = read_stack(model, lift)
    if not _dense(stack):
        raise TypeError("feedback_matrix: expected nn.Linear layers on vectors alone; others act without their matrix")
    return _matrix(stack)


@kept(8)
def random_feedback(
    inputs: int, outputs: int, scale: float, seed: int, dtype: torch.dtype, device: torch.device
) -> Tensor:
    """PEPITA's F: Gaussian (inputs, outputs) of standard deviation `scale`, the same for the same seed."""
    if inputs * outputs > LARGEST_RANDOM:
        raise ValueError(f"a random projection of {inputs}×{outputs} numbers: expected at most {LARGEST_RANDOM:.0e}")
    values = torch.randn(inputs, outputs, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return (scale * values).to(dtype=dtype, device=device)


def run_clean(
    model: nn.Module, stack: LinearStack, loss_fn: Any, batch: Any, temperature: float, *, differentiable: bool
) -> tuple[Pass, Tensor, Tensor]:
    """The stack's clean run, the loss, and ∂loss/∂(its output), without the temperature."""
    runs: list[tuple[Pass, Tensor]] = []

    def forward(z: Tensor) -> Tensor:
        run = run_stack(stack.steps, z.detach(), differentiable=differentiable)
        runs.append((run, run.outputs[-1].detach().requires_grad_()))
        return runs[-1][1]

    with _replaced(stack.sequential, forward), torch.enable_grad():
        prediction = apply_model(model, batch.x, batch.grid)
        loss = loss_fn(prediction * temperature if temperature != 1 else prediction, batch)
        if len(runs) != 1:
            raise TypeError(f"forward_only: the model runs its stack {len(runs)} times: expected once")
        (g,) = torch.autograd.grad(loss, runs[0][1])
    return runs[0][0], loss.detach(), g / temperature


@contextmanager
def _replaced(module: nn.Module, forward: Callable[[Tensor], Tensor]) -> Iterator[None]:
    module.forward = forward
    try:
        with torch.compiler.set_stance("force_eager"):  # what was compiled has the old forward in it
            yield
    finally:
        del module.forward


def _feedback(stack: LinearStack, run: Pass, e: Tensor, start: int, keeper: Any, every: int) -> Tensor:
    """F e with F of this call, or of the last one that is a multiple of `every`."""
    fresh = every == 1 or keeper.feedback is None or keeper.calls % every == 0
    if _dense(stack):
        if fresh:
            keeper.feedback = _matrix(stack)
        return (e @ keeper.feedback.mT).reshape(run.inputs[start].shape)
    if every == 1:
        return run.transposed(e, start)
    if fresh:
        keeper.feedback = deepcopy(stack.steps)
    kept = run_stack(keeper.feedback, run.inputs[start].detach(), first=start, differentiable=True, masks=run.masks)
    return kept.transposed(e, start)


def _dense(stack: LinearStack) -> bool:
    """nn.Linear layers on vectors, so that F is one matrix."""
    kinds = [type(module) for kind, module in stack.steps if kind != "elementwise"]
    flat = not stack.lift and kinds[0] is nn.Flatten
    return all(kind is nn.Linear for kind in kinds[flat:])


@torch.no_grad()
def _matrix(stack: LinearStack) -> Tensor:
    weights: list[Any] = [stack.steps[i][1].weight for i in reversed(stack.linear[stack.lift :])]
    return reduce(torch.matmul, weights).mT


def accumulate(gradients: dict[nn.Parameter, Tensor]) -> None:
    """Adds to ``.grad``, the mean over the processes where there are several."""
    values = list(gradients.values())
    if dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1:
        flat = torch.cat([value.flatten() for value in values])
        dist.all_reduce(flat)
        pieces = (flat / dist.get_world_size()).split([value.numel() for value in values])
        values = [piece.view_as(value) for piece, value in zip(pieces, values)]
    for p, value in zip(gradients, values):
        p.grad = value if p.grad is None else p.grad + value


def _check_precision(stack: LinearStack) -> None:
    parameters = list(stack.sequential.parameters())
    if any(torch.is_autocast_enabled(p.device.type) for p in parameters[:1]) or any(
        p.dtype in (torch.float16, torch.bfloat16) for p in parameters
    ):
        raise ValueError(
            "forward_only takes differences of two passes, which half precision rounds away; pass precision='float32'"
        )
    if any(type(p) is not nn.Parameter or hasattr(p, "full_tensor") for p in parameters):
        raise ValueError("forward_only projects whole matrices, which strategy='fsdp' spreads; pass strategy='ddp'")


def _check_widths(stack: LinearStack, run: Pass, allowed: bool) -> None:
    for i in stack.hidden:
        inputs, outputs = run.inputs[i].shape[1:].numel(), run.outputs[i].shape[1:].numel()
        if outputs > inputs and not allowed:
            first = "; the first may be declared a lift, lift=True" if i == stack.linear[0] else ""
            raise ValueError(
                f"forward_only: step {i}, {type(stack.steps[i][1]).__name__}, widens {inputs} numbers to {outputs}: "
                "the error outside of what its input reaches would be lost; pass allow_widening=True to take it, or "
                f"narrower layers{first}"
            )


def _check_parametrized(stack: LinearStack, run: Pass) -> None:
    """Measures W Wᵀ v = v for hidden layers that keep themselves orthogonal."""
    for i in stack.hidden:
        layer, leaf, out = stack.steps[i][1], run.inputs[i], run.outputs[i]
        if not nn.utils.parametrize.is_parametrized(layer):
            continue
        v = torch.randn(out.shape, generator=torch.Generator().manual_seed(0)).to(out)
        (back,) = torch.autograd.grad(out, leaf, v, retain_graph=True)
        with torch.no_grad():
            defect = float((layer(back) - layer(torch.zeros_like(back)) - v).norm() / v.norm())
        if defect > FAR:
            raise ValueError(
                f"forward_only: the parametrisation of step {i}, {type(layer).__name__}, leaves ‖W Wᵀ v − v‖ = "
                f"{defect:.2g} ‖v‖ for random v; expected an orthogonal one, or a layer without, which is projected"
            )
