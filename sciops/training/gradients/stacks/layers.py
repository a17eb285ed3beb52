"""The layers of a model's residual stack, and how a gradient rule replaces the way the stack is run."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from sciops.models.apply import unwrapped

Branch = Any  # a tensor, or several in a tuple


@dataclass(frozen=True)
class Layer:
    """A layer h ← r(h, g(h)) of a stack, with g expensive and r cheap to differentiate in h.

    module : what g is made of, and whose parameters it has
    call : g(h) = call(module, h); None: module(h). A tensor, or several in a tuple
    join : r(h, z), whose parameters, where it is a module, are the layer's too; None: h + z
    diagonal : d(h, z) where ∂r/∂h at fixed z is diag(d), as in ReLU(h + z); without it the derivative of a `join` is
        applied by differentiation, one layer after another
    """

    module: nn.Module
    call: Callable[[nn.Module, Tensor], Branch] | None = None
    join: Callable[[Tensor, Branch], Tensor] | None = None
    diagonal: Callable[[Tensor, Branch], Tensor] | None = None

    def branch(self, h: Tensor) -> Branch:
        return self.module(h) if self.call is None else self.call(self.module, h)

    def __call__(self, h: Tensor) -> Tensor:
        z = self.branch(h)
        return h + z if self.join is None else self.join(h, z)

    def parameters(self) -> list[nn.Parameter]:
        modules = [self.module, *([self.join] if isinstance(self.join, nn.Module) else [])]
        return [p for module in modules for p in module.parameters() if p.requires_grad]


def relu_after_sum(module: nn.Module) -> Layer:
    """The layer h ← ReLU(h + module(h)), a ResNet's block: ∂r/∂h = diag(1[h + z > 0])."""
    return Layer(module, join=lambda h, z: F.relu(h + z), diagonal=lambda h, z: (h + z > 0).to(h.dtype))


def norm_after_sum(module: nn.Module, norm: nn.LayerNorm) -> Layer:
    """The layer h ← norm(h + module(h)) of a post-norm transformer, as a·h + b with ∂r/∂h = diag(a).

    a = α/σ and b = (module(h) − μ)α/σ + β with μ, σ the moments of h + module(h), α and β the norm's parameters: both
    functions of h, so that what passes through the moments is a part of g (arXiv:2501.17086, appendix).
    """
    if not isinstance(norm, nn.LayerNorm) or len(norm.normalized_shape) != 1:
        raise ValueError(f"norm={norm!r}: expected an nn.LayerNorm over the last axis")

    def scale_and_shift(pair: Any, h: Tensor) -> tuple[Tensor, Tensor]:
        module, norm = pair
        z = module(h)
        total = h + z
        mean = total.mean(-1, keepdim=True)
        a = (total.var(-1, correction=0, keepdim=True) + norm.eps).rsqrt()
        a = a.expand_as(h) if norm.weight is None else a * norm.weight
        b = (z - mean) * a
        return a, b if norm.bias is None else b + norm.bias

    return Layer(nn.ModuleList([module, norm]), scale_and_shift, lambda h, z: z[0] * h + z[1], lambda h, z: z[0])


def layers_of(parts: Sequence[Any]) -> list[Layer]:
    """`Layer`s of modules m, for h ← h + m(h), of pairs (g, r) and of `Layer`s; raises ValueError for others."""
    layers = []
    for part in parts:
        if isinstance(part, nn.Module):
            part = Layer(part)
        elif isinstance(part, tuple) and len(part) == 2 and isinstance(part[0], nn.Module) and callable(part[1]):
            part = Layer(part[0], join=part[1])
        if not isinstance(part, Layer):
            raise ValueError(f"{type(part).__name__} is not a layer: expected a module, a pair (module, r) or a Layer")
        layers.append(part)
    return layers


def layers_of_block(block: Any, *setting: Any) -> list[Layer]:
    """The `Layer`s of one block that is called as block(h, *setting); raises ValueError where it does not show them."""
    if not hasattr(block, "layers"):
        raise ValueError(
            f"{type(block).__name__} does not say what it adds to what: give it layers(*setting) → [(g, r), …], "
            "as sciops.models.spine.blocks.ResidualBlock has it, or train with gradients='backprop'"
        )
    joins = [join for _, join in block.layers(*setting)]
    return [Layer(block, _BranchOfBlock(i, setting), join) for i, join in enumerate(joins)]


@dataclass(frozen=True)
class _BranchOfBlock:
    """g of layer `number` of any block; equal for equal settings, so that equal blocks are known as such."""

    number: int
    setting: tuple[Any, ...]

    def __call__(self, block: Any, h: Tensor) -> Tensor:
        return block.layers(*self.setting)[self.number][0](h)


@contextlib.contextmanager
def running_stacks(model: nn.Module, run: Callable[[list[Layer], Tensor], Any]) -> Iterator[None]:
    """Within it `run` runs every stack of `model`: ``run_blocks`` of `Operator`, `SequenceStack` and of each stage of
    `Classifier`.

    Raises ValueError for models without a stack, and for compiled and sharded ones, whose blocks cannot be taken apart.
    """
    stacks: list[Any] = [module for module in model.modules() if hasattr(module, "run_blocks")]
    if not stacks:
        names = " of ".join(type(m).__name__ for m in list(unwrapped(model).modules())[:3])
        raise ValueError(
            f"{names} shows no residual stack (run_blocks, as Operator, Classifier and SequenceStack of sciops.models "
            "have it): run its layers by highway_stack in its forward, or train with gradients='backprop'"
        )
    if any(module._compiled_call_impl is not None for module in model.modules()):
        raise ValueError("a compiled model cannot be taken apart into layers; pass compile=False")
    if any(hasattr(p, "full_tensor") for p in model.parameters()):
        raise ValueError("parameters are gathered block by block in FSDP, not layer by layer; pass strategy='ddp'")
    for stack in stacks:

        def run_blocks(h: Tensor, *setting: Any, stack: Any = stack) -> Tensor:
            return run([layer for block in stack.blocks for layer in layers_of_block(block, *setting)], h)

        stack.run_blocks = run_blocks
    try:
        yield
    finally:
        for stack in stacks:
            del stack.run_blocks
