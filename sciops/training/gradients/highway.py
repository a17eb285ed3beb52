"""Highway-BP: the gradient through a residual stack in k sweeps over all layers at once (arXiv:2501.17086)."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.autograd.function import Function, once_differentiable

from sciops.arrays.compiling import refuse_functional
from sciops.models.sequences.recurrent import Recurrent
from sciops.models.sequences.through_time.sweeps import sweeps
from sciops.training.gradients.stacks.batched import BatchedLayers
from sciops.training.gradients.stacks.layers import Layer, layers_of, running_stacks
from sciops.training.gradients.stacks.layerwise import LayerByLayer
from sciops.values import COUNT, one_of

Engine = Literal["loop", "batched"]
ENGINES = {"loop": LayerByLayer, "batched": BatchedLayers}


def highway(
    model: nn.Module,
    loss_fn: Callable[[Tensor, Any], Tensor],
    batch: Any,
    *,
    iterations: int = 2,
    gamma: float | str = 0.0,
    engine: Engine = "loop",
) -> Tensor:
    """Adds the gradient of Highway-BP to ``.grad``: exact for what follows the stacks of the model, and within them the
    sum over paths that leave the residual stream at most `iterations` times.

    model : with `Operator`, `Classifier` or `Recurrent` models in it; between stacks, as between the stages of a
        classifier and the steps of a `Stepper`, gradients are exact. In a `Recurrent` the sweeps go over time, as in
        `highway_rnn`, and from layer to layer gradients are exact
    iterations, gamma, engine : as in `highway_stack`, whose layers are those of the model's stacks. A residual block of
        an `Operator` counts as two, its mixer and its pointwise network, so that a stack of `depth` blocks has
        L = 2·depth layers, and iterations = L (for the parameters alone L − 1) is backpropagation, not
        iterations = depth. Over time gamma is a number, and there are no engines
    returns : the detached loss

    Raises ValueError where the rule is not defined, saying why.
    """
    recurrent = [one for one in model.modules() if isinstance(one, Recurrent)]
    with contextlib.ExitStack() as contexts:
        if recurrent and (engine != "loop" or isinstance(gamma, str)):
            raise ValueError(
                f"engine={engine!r}, gamma={gamma!r}: over the steps of a Recurrent expected engine='loop' and a number"
            )
        for one in recurrent:
            contexts.enter_context(one.going_back("highway", iterations=iterations, gamma=gamma))
        if not recurrent or any(hasattr(one, "run_blocks") for one in model.modules()):
            run = partial(highway_stack, iterations=iterations, gamma=gamma, engine=engine)
            contexts.enter_context(running_stacks(model, run))
        loss = loss_fn(model(batch.x, batch.grid), batch)
    loss.backward()
    return loss.detach()


def highway_stack(
    layers: Sequence[Layer | nn.Module | tuple[nn.Module, Callable]],
    x: Tensor,
    *,
    iterations: int = 2,
    gamma: float | str = 0.0,
    engine: Engine = "loop",
    states: bool = False,
) -> Tensor | tuple[Tensor, ...]:
    """Runs a stack of residual layers whose backward pass is Highway-BP; returns its output h_L.

    The forward pass is h_0 = x, h_i = r_i(h_{i−1}, g_i(h_{i−1})), the backward pass

        w⁰ = S(∂ℓ),   wᵏ⁺¹ = w⁰ + S(Jᵀ wᵏ),   (S v)_i = v_i + K_{i+1}ᵀ (S v)_{i+1},

    J_i = ∂r/∂z ∂g_i/∂h the costly part of ∂h_i/∂h_{i−1}, K_i = ∂r/∂h the cheap one: the identity for h + g(h). All
    products with Jᵀ of a sweep are independent. w_i is exact for k ≥ L − i, so that parameters have their exact
    gradient from k = L − 1 on, and x from k = L on.

    layers : modules m for h ← h + m(h), pairs (g, r), or `Layer`s (`relu_after_sum`, `norm_after_sum`); all states
        have the shape of x. Forward hooks of the modules inside run; gradients reach x and the layers' parameters alone
    iterations : k
    gamma : share of K that is counted with J, of all layers; 1 is the fixed-point iteration. "hutchinson": for every
        layer and step the minimiser of ‖J + γK‖ in [0, 1], −⟨J, K⟩/⟨K, K⟩, estimated with one random vector of signs
        from torch's global generator
    engine : "loop", one graph a layer; "batched", for layers h + m(h) of equal modules: all in one call of
        `torch.func.vmap`, on the states that a forward pass without gradient leaves
    states : return (h_1, …, h_L), for losses on each

    Raises ValueError for bad options, and for layers whose gradients would be lost or that change the shape.
    """
    COUNT("iterations", iterations)
    one_of(ENGINES)("engine", engine)
    if gamma != "hutchinson" and not (isinstance(gamma, (int, float)) and 0 <= gamma <= 1):
        raise ValueError(f"gamma={gamma!r}: expected a share in [0, 1] or 'hutchinson'")
    layers = layers_of(layers)
    parameters = list(dict.fromkeys(p for layer in layers for p in layer.parameters()))
    if not torch.is_grad_enabled() or not layers or not (x.requires_grad or parameters):
        outputs = []
        for layer in layers:
            outputs.append(x := layer(x))
        return tuple(outputs) if states else x
    refuse_functional("highway_stack", 'use backward(), or gradients="backprop" under torch.func')
    outputs = _Stack.apply(ENGINES[engine](layers), int(iterations), gamma, x, *parameters)
    return outputs if states else outputs[-1]


class _Stack(Function):
    """(h_1, …, h_L) of h_0 and the parameters; the gradients are made by an engine's sweeps."""

    @staticmethod
    def forward(ctx: Any, engine: Any, iterations: int, gamma: float | str, x: Tensor, *parameters: Tensor) -> Any:
        ctx.engine, ctx.options, ctx.parameters = engine, (iterations, gamma), parameters
        ctx.set_materialize_grads(False)
        return tuple(engine.forward(x, parameters))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        if ctx.engine is None:
            raise RuntimeError("the graph of a stack is freed after one backward pass; run the forward pass again")
        engine, ctx.engine = ctx.engine, None
        to_x = ctx.needs_input_grad[3]
        w = sweeps(engine, gradients, *ctx.options, to_first=to_x)
        return None, None, None, w[0] if to_x else None, *engine.to_parameters(w, ctx.parameters)
