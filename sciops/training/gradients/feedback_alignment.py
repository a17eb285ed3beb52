"""Learning with fixed random matrices in the backward pass: feedback alignment, layer by layer or direct."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable
from copy import deepcopy
from typing import Any, Literal

import torch
from torch import Tensor, nn

from sciops.models.apply import unwrapped
from sciops.models.orthogonal.matrices import polar
from sciops.models.orthogonal.projection import can_be_projected, orthogonalize_
from sciops.training.gradients.forward_only import LARGEST_RANDOM, accumulate, run_clean
from sciops.training.gradients.stacks.linear_stack import LinearStack, Pass, read_stack
from sciops.training.gradients.stacks.projecting import grid_of
from sciops.values import POSITIVE, one_of

__all__ = ["feedback_alignment"]

_CHECKS = {
    "method": one_of(("layerwise", "direct")),
    "law": one_of(("orthonormal", "gaussian")),
    "scale": POSITIVE,
}


def feedback_alignment(
    model: nn.Module,
    loss_fn: Callable[[Tensor, Any], Tensor],
    batch: Any,
    *,
    method: Literal["layerwise", "direct"] = "layerwise",
    law: Literal["orthonormal", "gaussian"] = "orthonormal",
    scale: float = 1.0,
    seed: int = 0,
) -> Tensor:
    """Adds to ``.grad`` what backpropagation through fixed random layers gives; returns the detached loss.

    With a_l the output of the linear layer l, h_l = φ(a_l), and e = ∂loss/∂y at the output of the stack:

        layerwise (FA)     δ_L = e,   δ_l = φ′(a_l) · B_{l+1}ᵀ δ_{l+1},   B_l of the shape of W_l
        direct (DFA)       δ_L = e,   δ_l = φ′(a_l) · B_l e,              B_l (numbers of h_l, numbers of y) of a sample
        both               ∂W_l = δ_lᵀ h_{l−1},   ∂b_l = Σ δ_l over the batch

    Backpropagation is B_l = W_l. FA: Lillicrap et al., arXiv:1411.0247; DFA: Nøkland, arXiv:1609.01596.

    Parameters
    ----------
    model : nn.Module
        As `forward_only` takes it: one `nn.Sequential` of linear layers, activations and rearrangements, of any widths.
    loss_fn, batch
        See `sciops.training.gradients`.
    method : str
        "layerwise" or "direct".
    law : str
        "orthonormal": columns or rows of B are orthonormal, mode by mode for spectral layers, so that the error keeps
        its length through any number of layers. "gaussian": independent numbers of variance 1/(columns of B);
        "layerwise" then takes `nn.Linear` alone.
    scale : float
        Factor of every B.
    seed : int
        Of the random layers, which are the same in every process and after a resumed run.

    Raises
    ------
    TypeError
        The model is not such a stack; a layer cannot be redrawn by this law.
    ValueError
        An option is out of range; a B of "direct" has more than 1e8 numbers.
    """
    for name, value in {"method": method, "law": law, "scale": scale}.items():
        _CHECKS[name](f"feedback_alignment: {name}", value)
    inner = unwrapped(model)
    stack = read_stack(inner)
    run, loss, g = run_clean(inner, stack, loss_fn, batch, 1.0, differentiable=True)
    random = _direct(stack, run, g, law, seed) if method == "direct" else _layerwise(stack, run, law, seed)
    gradients: dict[nn.Parameter, Tensor] = {}
    delta = g
    for place in reversed(range(len(stack.linear))):
        i = stack.linear[place]
        behind = stack.linear[place + 1] if place + 1 < len(stack.linear) else len(stack.steps)
        if behind < len(stack.steps):
            if method == "direct":
                delta = (g.flatten(1) @ random[i].mT).reshape(run.inputs[behind].shape)
            else:
                delta = _pulled(random[behind], run.inputs[behind], delta)
            delta = scale * delta
        for j in reversed(range(i + 1, behind)):
            kind, module = stack.steps[j]
            delta = delta * run.masks[j] if j in run.masks else _pulled(module, run.inputs[j], delta)
        own = [p for p in stack.steps[i][1].parameters() if p.requires_grad]
        for p, value in zip(own, run.weight_gradients(i, delta, own) if own else ()):
            if value is not None:
                gradients[p] = gradients[p] + value if p in gradients else value
    accumulate(gradients)
    return loss


def _pulled(module: nn.Module, x: Tensor, u: Tensor) -> Tensor:
    """(∂module(x)/∂x)ᵀ u."""
    if type(module) is nn.Linear:
        return u @ module.weight.detach()
    leaf = x.detach().requires_grad_()
    with torch.enable_grad():
        out = module(leaf.clone() if getattr(module, "inplace", False) else leaf)
    return torch.autograd.grad(out, leaf, u)[0]


_REDRAWN: weakref.WeakKeyDictionary[nn.Sequential, tuple[Any, dict[int, Any]]] = weakref.WeakKeyDictionary()


def _remembered(stack: LinearStack, key: Any, make: Callable[[], dict[int, Any]]) -> dict[int, Any]:
    """What `make` gives, once for each key of a stack; the last key alone is kept."""
    found = _REDRAWN.get(stack.sequential)
    if found is None or found[0] != key:
        found = _REDRAWN[stack.sequential] = (key, make())
    return found[1]


def _layerwise(stack: LinearStack, run: Pass, law: str, seed: int) -> dict[int, nn.Module]:
    """By linear step but the first: a copy with random weights and without a bias."""
    like = run.outputs[-1]
    shapes = [tuple(run.inputs[i].shape[1:]) for i in stack.linear[1:]]

    @torch.no_grad()
    def make() -> dict[int, nn.Module]:
        generator = torch.Generator().manual_seed(seed)
        copies = {i: deepcopy(stack.steps[i][1]) for i in stack.linear[1:]}
        for i, layer in copies.items():
            if not can_be_projected(layer) or (law == "gaussian" and type(layer) is not nn.Linear):
                raise TypeError(
                    f"feedback_alignment: step {i}, {type(layer).__name__}, cannot be redrawn with law={law!r}; "
                    "pass method='direct'"
                )
            for name, p in layer.named_parameters():
                values = torch.randn(p.shape, generator=generator, dtype=torch.float64)
                p.copy_(values.zero_() if name.endswith("bias") else values / math.sqrt(p.shape[-1]))
            layer.requires_grad_(False)
        if law == "orthonormal":
            grids = [grid_of(layer, run.inputs[i].shape) for i, layer in copies.items()]
            orthogonalize_(copies.values(), shapes=grids)
        return copies

    return _remembered(stack, ("layerwise", law, seed, shapes, like.dtype, like.device), make)


def _direct(stack: LinearStack, run: Pass, g: Tensor, law: str, seed: int) -> dict[int, Tensor]:
    """By linear step but the last: B_l (numbers at the input of the next one, numbers of y)."""
    outputs = g.shape[1:].numel()
    sizes = {i: run.inputs[behind].shape[1:].numel() for i, behind in zip(stack.linear, stack.linear[1:], strict=False)}
    if max(sizes.values()) * outputs > LARGEST_RANDOM:
        raise ValueError(
            f"feedback_alignment: a random matrix of {max(sizes.values())}×{outputs} numbers: expected at most "
            f"{LARGEST_RANDOM:.0e}; pass method='layerwise'"
        )

    def make() -> dict[int, Tensor]:
        generator = torch.Generator().manual_seed(seed)
        return {i: _matrix(size, outputs, law, generator).to(g) for i, size in sizes.items()}

    return _remembered(stack, ("direct", law, seed, tuple(sizes.items()), outputs, g.dtype, g.device), make)


def _matrix(rows: int, columns: int, law: str, generator: torch.Generator) -> Tensor:
    values = torch.randn(rows, columns, generator=generator, dtype=torch.float64)
    return polar(values) if law == "orthonormal" else values / math.sqrt(columns)
