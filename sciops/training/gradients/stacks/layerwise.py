"""The engine of Highway-BP that keeps one graph a layer; any layers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce

import torch
from torch import Tensor

from sciops.training.gradients.stacks.layers import Layer


class LayerByLayer:
    """Runs every layer on a detached input and keeps its graph, so that products with J can be taken at any time.

    shape, dtype, device : of the states as they are summed, float32 at least
    diagonals : the K_i, (L + 1, *state) with an unused first; 1 where all are the identity; None where one is neither
    """

    def __init__(self, layers: Sequence[Layer]) -> None:
        self.layers = layers
        self.inputs: list[Tensor] = []
        self.branches: list[tuple[Tensor, ...]] = []
        self.joins: list[tuple[Tensor, Tensor, tuple[Tensor, ...]] | None] = []
        self.kept: list[Tensor | None] = []

    def forward(self, x: Tensor, parameters: Sequence[Tensor]) -> list[Tensor]:
        states, h = [], x.detach()
        with torch.enable_grad():
            for layer in self.layers:
                h = self._run(layer, h)
                check_shape(h, x)
                states.append(h)
        self.shape, self.device, self.dtype = x.shape, x.device, summed_in(x, states[-1])
        own = [t for _, t, cut in filter(None, self.joins) for t in (t, *cut)]
        ends = [z for parts in self.branches for z in parts] + [out for out, *_ in filter(None, self.joins)]
        _check_leaves(ends, [*self.inputs, *own, *parameters])
        self.diagonals = self._diagonals()
        return states

    def _run(self, layer: Layer, h: Tensor) -> Tensor:
        x = h.detach().requires_grad_()
        z = layer.branch(x)
        parts = z if isinstance(z, tuple) else (z,)
        self.inputs.append(x)
        self.branches.append(parts)
        if layer.join is None:
            self.joins.append(None)
            self.kept.append(None)
            return h + parts[0].detach()
        # r has a graph of its own, cut off from that of g
        own, cut = h.detach().requires_grad_(), tuple(part.detach().requires_grad_() for part in parts)
        z = cut if isinstance(z, tuple) else cut[0]
        out = layer.join(own, z)
        self.joins.append((out, own, cut))
        with torch.no_grad():
            self.kept.append(None if layer.diagonal is None else layer.diagonal(own, z).detach())
        return out.detach()

    def _diagonals(self) -> Tensor | int | None:
        if all(join is None for join in self.joins):
            return 1
        if any(join is not None and kept is None for join, kept in zip(self.joins, self.kept)):
            return None
        ones = torch.ones(self.shape, dtype=self.dtype, device=self.device)
        kept = [ones if d is None else d.to(self.dtype).expand(self.shape) for d in self.kept]
        return torch.stack([ones, *kept])

    def _through_join(self, i: int, u: Tensor) -> tuple[Tensor, ...]:
        """u times ∂r/∂z of layer i, for each part of z."""
        join = self.joins[i]
        if join is None:
            return (u.to(self.branches[i][0].dtype),)
        out, _, cut = join
        return tuple(filled(gradients([(out, u.to(out.dtype))], cut, retain=True), cut))

    def products(self, layers: range, w: Tensor) -> Iterator[Tensor]:
        """J_iᵀ w_i for the layers i = n + 1, n of `layers`: from state i to state i − 1."""
        pairs = [pair for n in layers for pair in zip(self.branches[n], self._through_join(n, w[n + 1]))]
        inputs = [self.inputs[n] for n in layers]
        return iter(filled(gradients(pairs, inputs, retain=True), inputs))

    def carry(self, n: int, u: Tensor) -> Tensor:
        """K_iᵀ u for i = n + 1."""
        join, kept = self.joins[n], self.kept[n]
        if join is None:
            return u
        if kept is not None:
            return kept * u
        out, own, _ = join
        return filled(gradients([(out, u.to(out.dtype))], [own], retain=True), [own])[0].to(u.dtype)

    def to_parameters(self, w: Tensor, parameters: Sequence[Tensor]) -> Sequence[Tensor | None]:
        """Σ_i (∂h_i/∂θ)ᵀ w_i; frees the graphs."""
        pairs: list[tuple[Tensor, Tensor]] = []
        for n, join in enumerate(self.joins):
            pairs += zip(self.branches[n], self._through_join(n, w[n + 1]))
            if join is not None:
                pairs.append((join[0], w[n + 1].to(join[0].dtype)))
        return gradients(pairs, parameters, retain=False)


def gradients(
    pairs: Sequence[tuple[Tensor, Tensor]], inputs: Sequence[Tensor], *, retain: bool
) -> Sequence[Tensor | None]:
    """Σ (∂output/∂input)ᵀ g over the pairs (output, g), for each input; None where nothing depends on it."""
    pairs = [(output, g) for output, g in pairs if output.requires_grad]
    if not pairs or not inputs:
        return [None] * len(inputs)
    outputs, weights = zip(*pairs)
    return torch.autograd.grad(outputs, inputs, weights, retain_graph=retain, allow_unused=True)


def filled(found: Sequence[Tensor | None], like: Sequence[Tensor]) -> list[Tensor]:
    """Gradients with zeros, in the shapes of `like`, where there is none."""
    return [torch.zeros_like(t) if g is None else g for g, t in zip(found, like)]


def check_shape(h: Tensor, x: Tensor) -> None:
    """Raises ValueError where a layer changes the shape of its state: h is its output for the input x."""
    if h.shape != x.shape:
        raise ValueError(
            f"a layer made {tuple(h.shape)} of {tuple(x.shape)}: the states of a stack have one shape; make one stack "
            "for each"
        )


def summed_in(*tensors: Tensor) -> torch.dtype:
    """The precision in which products of the tensors are summed: their common one, float32 at least."""
    return reduce(torch.promote_types, [t.dtype for t in tensors], torch.float32)


def _check_leaves(outputs: Sequence[Tensor], known: Sequence[Tensor]) -> None:
    """Raises ValueError where the outputs depend on a leaf besides the known ones: its gradient would be lost."""
    allowed = {id(t) for t in known}
    seen, waiting = set(), [z.grad_fn for z in outputs if z.grad_fn is not None]
    while waiting:
        node = waiting.pop()
        if node in seen:
            continue
        seen.add(node)
        leaf = getattr(node, "variable", None)
        if leaf is not None and id(leaf) not in allowed:
            raise ValueError(
                f"a layer depends on a tensor of shape {tuple(leaf.shape)} that requires a gradient and is neither its "
                "input nor one of its parameters: its gradient would be lost; register it in the layer's module"
            )
        waiting += [parent for parent, _ in node.next_functions if parent is not None]
