"""The engine of Highway-BP for equal layers: all of them in one call of `torch.func.vmap`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from sciops.training.gradients.stacks.layers import Layer
from sciops.training.gradients.stacks.layerwise import check_shape, filled, gradients, summed_in


class BatchedLayers:
    """Layers h + g(h) on stacked inputs and parameters, after a forward pass without graphs; see `LayerByLayer`.

    Layers are batched where their modules have the same classes, shapes and settings, the attention and the MLP of
    transformer blocks apart. Raises ValueError, with torch's reason, for modules that vmap cannot run: custom backward
    passes without a rule for it (the spectral and multipole mixers), dropout that draws.
    """

    diagonals = 1

    def __init__(self, layers: Sequence[Layer]) -> None:
        for layer in layers:
            if layer.join is not None:
                raise ValueError("engine='batched' is for layers h + g(h); these join otherwise: pass engine='loop'")
        self.layers = layers
        self.groups = _alike_groups(layers)

    def forward(self, x: Tensor, parameters: Sequence[Tensor]) -> list[Tensor]:
        states, h = [], x.detach()
        for layer in self.layers:
            h = layer(h)
            check_shape(h, x)
            states.append(h)
        self.shape, self.device, self.dtype = x.shape, x.device, summed_in(x, states[-1])
        self.batches = [_Batch(self.layers, group, [x.detach(), *states]) for group in self.groups]
        return states

    def products(self, layers: range, w: Tensor) -> Iterator[Tensor]:
        found: dict[int, Tensor] = {}
        for batch in self.batches:
            if any(n in layers for n in batch.numbers):
                rows = filled(gradients([(batch.branches, batch.rows(w))], [batch.inputs], retain=True), [batch.inputs])
                found.update(zip(batch.numbers, rows[0]))
        return (found[n] for n in layers)

    def carry(self, n: int, u: Tensor) -> Tensor:
        return u

    def to_parameters(self, w: Tensor, parameters: Sequence[Tensor]) -> list[Tensor | None]:
        total: dict[int, Tensor] = {}
        for batch in self.batches:
            stacked = list(batch.parameters.values())
            found = gradients([(batch.branches, batch.rows(w))], stacked, retain=False)
            for name, g in zip(batch.parameters, found):
                for p, row in zip(batch.originals[name], () if g is None else g):
                    total[id(p)] = total[id(p)] + row if id(p) in total else row
        return [total.get(id(p)) for p in parameters]


class _Batch:
    """Equal layers evaluated at once. numbers : of the layers; inputs, branches : (layers, *state)."""

    def __init__(self, layers: Sequence[Layer], numbers: Sequence[int], states: Sequence[Tensor]) -> None:
        self.numbers = numbers
        modules = [layers[n].module for n in numbers]
        self.originals = {name: [m.get_parameter(name) for m in modules] for name, _ in modules[0].named_parameters()}
        self.parameters = {
            name: torch.stack([p.detach() for p in group]).requires_grad_(any(p.requires_grad for p in group))
            for name, group in self.originals.items()
        }
        buffers = {name: torch.stack([m.get_buffer(name) for m in modules]) for name, _ in modules[0].named_buffers()}
        called = _Called(layers[numbers[0]])

        def branch(parameters: dict[str, Tensor], buffers: dict[str, Tensor], h: Tensor) -> Tensor:
            tensors = {f"module.{name}": t for name, t in (parameters | buffers).items()}
            return functional_call(called, tensors, (h,))

        self.inputs = torch.stack([states[n] for n in numbers]).requires_grad_()
        try:
            with torch.enable_grad():
                self.branches = vmap(branch)(self.parameters, buffers, self.inputs)
        except RuntimeError as error:
            name, reason = type(modules[0]).__name__, str(error).strip().splitlines()[0][:200]
            raise ValueError(
                f"engine='batched': torch.func.vmap cannot run {name}, pass engine='loop': {reason}"
            ) from error
        self.parameters = {name: p for name, p in self.parameters.items() if p.requires_grad}

    def rows(self, w: Tensor) -> Tensor:
        return w[[n + 1 for n in self.numbers]].to(self.branches.dtype)


class _Called(nn.Module):
    def __init__(self, layer: Layer) -> None:
        super().__init__()
        self.module, self.call = layer.module, layer.call
        self.train(layer.module.training)

    def forward(self, h: Tensor) -> Any:
        return self.module(h) if self.call is None else self.call(self.module, h)


def _alike_groups(layers: Sequence[Layer]) -> list[list[int]]:
    groups: list[list[int]] = []
    for n, layer in enumerate(layers):
        for group in groups:
            first = layers[group[0]]
            if first.call == layer.call and _alike(first.module, layer.module):
                group.append(n)
                break
        else:
            groups.append([n])
    return groups


def _alike(a: nn.Module, b: nn.Module) -> bool:
    """Whether two modules differ in nothing but the values of their parameters and buffers."""
    if a is b:
        return True
    (names, ones), (others, twos) = (zip(*m.named_modules()) for m in (a, b))
    return names == others and all(_settings(one) == _settings(two) for one, two in zip(ones, twos))


def _settings(module: nn.Module) -> list[Any]:
    tensors = [(n, t.shape, t.dtype, t.requires_grad) for n, t in module.named_parameters(recurse=False)]
    buffers = [(n, t.shape, t.dtype) for n, t in module.named_buffers(recurse=False)]
    own = {n: v for n, v in vars(module).items() if not (n.startswith("_") and n.strip("_") in _INNER)}
    return [type(module), tensors, buffers, own]


# what nn.Module itself keeps: parts, which are compared one by one, and hooks
_INNER = {name.strip("_") for name in vars(nn.Module())}
