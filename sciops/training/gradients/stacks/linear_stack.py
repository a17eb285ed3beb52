"""A model as a stack of linear layers with activations between them: reading it, running it, its transpose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import torch
from torch import Tensor, nn

from sciops.models.orthogonal.projection import can_be_projected

_RECTIFIERS = (nn.ReLU, nn.LeakyReLU, nn.ELU, nn.CELU, nn.SELU, nn.GELU, nn.SiLU, nn.Mish, nn.Softplus)
_ELEMENTWISE = (*_RECTIFIERS, nn.Identity, nn.Tanh, nn.Sigmoid, nn.Softsign, nn.Hardtanh, nn.Dropout)
_REARRANGE = (nn.Flatten, nn.Unflatten, nn.PixelUnshuffle, nn.PixelShuffle)
_REASONS = (
    (("Norm",), "normalisation couples the numbers of a sample, and the two passes are normalised apart"),
    (("Attention", "Transformer"), "attention is not linear in its input"),
    (("Pool",), "pooling loses the part of the error that varies within a pool; nn.PixelUnshuffle keeps it"),
    (("Residual", "Block"), "a skip makes I + W of an orthogonal W, which is not orthogonal"),
    (("RNN", "GRU", "LSTM"), "a recurrent layer is not a stack of linear layers"),
)

Kind = Literal["linear", "elementwise", "rearrange"]


@dataclass(frozen=True)
class LinearStack:
    """A model taken apart into linear layers, activations and rearrangements.

    sequential : the model's `nn.Sequential`; steps : its modules in order, with their kinds; lift : whether its first
    linear layer widens by intent, so that the error is injected after it
    """

    sequential: nn.Sequential
    steps: tuple[tuple[Kind, nn.Module], ...]
    lift: bool

    @cached_property
    def linear(self) -> list[int]:
        """Indices of the linear layers among the steps."""
        return [i for i, (kind, _) in enumerate(self.steps) if kind == "linear"]

    @cached_property
    def hidden(self) -> list[int]:
        """Indices of the layers that must preserve lengths: all but the last and the lift."""
        return self.linear[1 if self.lift else 0 : -1]

    @cached_property
    def start(self) -> int:
        """The step whose input is perturbed: the first one, or the first behind the lift and its activation."""
        if not self.lift:
            return 0
        first = self.linear[0] + 1
        while first < len(self.steps) and self.steps[first][0] == "elementwise":
            first += 1
        return first


def read_stack(model: nn.Module, lift: bool | None = None) -> LinearStack:
    """The outermost `nn.Sequential` of `model` that holds all trained parameters, taken apart.

    lift : None asks the module whose ``stack`` it is for its ``lift``

    Raises TypeError with the reason for a model that is not such a stack.
    """
    trained = {id(p) for p in model.parameters() if p.requires_grad}
    owner = lift_of = None
    for module in model.modules():
        if isinstance(module, nn.Sequential) and trained <= {id(p) for p in module.parameters()}:
            owner = module
            break
        if isinstance(getattr(module, "stack", None), nn.Sequential):
            lift_of = module
    if owner is None:
        raise TypeError(f"forward_only trains one nn.Sequential of linear layers and activations; {_why_not(model)}")
    if lift is None:
        lift = bool(lift_of is not None and lift_of.stack is owner and getattr(lift_of, "lift", False))
    steps = tuple((_kind(module), module) for module in _flat(owner))
    stack = LinearStack(owner, steps, lift)
    if len(stack.linear) < 2:
        raise TypeError(f"forward_only: {len(stack.linear)} linear layer: expected at least two, the last one the head")
    if any(kind == "elementwise" for kind, _ in steps[stack.linear[-1] :]):
        raise TypeError(
            f"forward_only: {type(steps[-1][1]).__name__} behind the last linear layer: the error is that of a linear "
            "output; put the activation into the loss"
        )
    return stack


@dataclass
class Pass:
    """One run through the stack.

    steps, first : the stack's, and the one that it began with
    inputs, outputs : of every step; of linear steps and rearrangements, where the run was `differentiable`, each output
        depends on its own input alone in the graph; the derivatives of `nn.Linear` are computed directly
    hidden : by linear step, its output behind the activation
    masks : what dropout multiplied by, by step
    """

    steps: Sequence[tuple[Kind, nn.Module]]
    first: int
    inputs: list[Tensor] = field(default_factory=list)
    outputs: list[Tensor] = field(default_factory=list)
    hidden: dict[int, Tensor] = field(default_factory=dict)
    masks: dict[int, Tensor] = field(default_factory=dict)

    def transposed(self, u: Tensor, down_to: int | None = None) -> Tensor:
        """W_sᵀ … W_Lᵀ u, activations left out, for the linear steps L, …, s = `down_to` (its first one)."""
        down_to = self.first if down_to is None else down_to
        for step in reversed(range(down_to, self.first + len(self.inputs))):
            kind, module = self.steps[step]
            if type(module) is nn.Linear:
                u = u @ module.weight.detach()
            elif kind != "elementwise":
                leaf, out = self.inputs[step - self.first], self.outputs[step - self.first]
                (u,) = torch.autograd.grad(out, leaf, u, retain_graph=True)
        return u

    def weight_gradients(self, step: int, cotangent: Tensor, parameters: Sequence[nn.Parameter]) -> Sequence[Any]:
        """The derivative of Σ cotangent · (output of this one layer) in its own parameters."""
        module, leaf, out = self.steps[step][1], self.inputs[step - self.first], self.outputs[step - self.first]
        if type(module) is nn.Linear:
            flat = cotangent.flatten(0, -2)
            return [flat.mT @ leaf.flatten(0, -2) if p is module.weight else flat.sum(0) for p in parameters]
        return torch.autograd.grad(out, list(parameters), cotangent, allow_unused=True)


def run_stack(
    steps: Sequence[tuple[Kind, nn.Module]],
    z: Tensor,
    *,
    first: int = 0,
    differentiable: bool,
    masks: dict[int, Tensor] | None = None,
) -> Pass:
    """Runs ``steps[first:]`` on z, layer by layer; no derivative passes from one step to the next.

    masks : of dropout, from an earlier run; drawn where there are none
    """
    run = Pass(steps, first)
    last = None
    for i, (kind, module) in enumerate(steps[first:], start=first):
        if kind == "elementwise":
            leaf = z
            if isinstance(module, nn.Dropout) and module.training and module.p > 0:
                mask = (masks or {}).get(i)
                run.masks[i] = module(torch.ones_like(z)) if mask is None else mask
                out = z * run.masks[i]
            else:
                with torch.no_grad():
                    out = module(z.clone() if getattr(module, "inplace", False) else z)
            z = out
        else:
            recorded = differentiable and type(module) is not nn.Linear
            leaf = z.detach().requires_grad_(recorded)
            with torch.set_grad_enabled(recorded):
                out = module(leaf)
            z = out.detach()
            last = i if kind == "linear" else last
        run.inputs.append(leaf)
        run.outputs.append(out)
        if last is not None and kind != "rearrange":
            run.hidden[last] = z
    return run


def _flat(module: nn.Module) -> list[nn.Module]:
    if type(module) is nn.Sequential:
        return [part for child in module for part in _flat(child)]
    return [module]


def _kind(module: nn.Module) -> Kind:
    if can_be_projected(module) or _parametrized(module):
        return "linear"
    if isinstance(module, _ELEMENTWISE):
        return "elementwise"
    if isinstance(module, _REARRANGE):
        return "rearrange"
    raise TypeError(f"forward_only trains linear layers and elementwise activations; {_reason(module)}")


def _parametrized(module: nn.Module) -> bool:
    kinds = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)
    return isinstance(module, kinds) and nn.utils.parametrize.is_parametrized(module)


def _reason(module: nn.Module) -> str:
    name = type(module).__name__
    for words, reason in _REASONS:
        if any(word in name for word in words):
            return f"{name}: {reason}"
    return f"{name} is neither"


def _why_not(model: nn.Module) -> str:
    found = []
    for words, _ in _REASONS:
        found += [_reason(m) for m in model.modules() if any(word in type(m).__name__ for word in words)][:1]
    said = "; ".join(found[:2]) or f"{type(model).__name__} has trained parameters outside of any"
    return f"{said}. sciops.build_model('orthogonal', …) makes a model of this kind"
