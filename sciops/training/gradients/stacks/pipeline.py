"""A residual stack whose layers lie on several processes: one after another forward, all at once backward."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from sciops.training.gradients.stacks.layers import Layer, layers_of
from sciops.training.gradients.stacks.layerwise import LayerByLayer


class PlacedStack:
    """A residual stack spread over processes: the first layers on process 0, the next on process 1, and so on.

    Forward, a state h_i = h_{i−1} + g_i(h_{i−1}) goes from process to process. Backward with Highway-BP every process
    takes the products with its own J_i at the same time, and a sweep exchanges one sum a process:

        (S v)_i = Σ_{j ≥ i} (1 − γ)^{j−i} v_j  =  what this process sums  +  (1 − γ)^{…} · Σ of the later processes.

    Exact backpropagation (`iterations` None) sends the gradient from process to process, each waiting for the next.

    layers : of this process, as in `highway_stack` (modules m for h + m(h), or `Layer`s without a join); at least one
    group : of `torch.distributed`; default all processes

    The gradients are those of `highway_stack` on all layers, to round-off. No micro-batches: one batch at a time.
    Raises ValueError for layers that join otherwise than by the sum, or where a process has none.
    """

    def __init__(self, layers: Sequence[Layer | nn.Module], *, group: Any = None) -> None:
        self.layers, self.group = layers_of(layers), group
        self.rank, self.count = dist.get_rank(group), dist.get_world_size(group)
        if not self.layers or any(layer.join is not None for layer in self.layers):
            raise ValueError("PlacedStack: expected at least one layer h + g(h) on every process, and no other kind")
        counts: list[Any] = [None] * self.count
        dist.all_gather_object(counts, len(self.layers), group=group)
        self.counts = counts
        self.engine: Any = None
        self.input: Any = None
        self.parameters = list(dict.fromkeys(p for layer in self.layers for p in layer.parameters()))

    @property
    def first(self) -> bool:
        return self.rank == 0

    @property
    def last(self) -> bool:
        return self.rank == self.count - 1

    def forward(self, x: Tensor, *, exact: bool = False) -> Tensor:
        """The state behind this process's layers, a leaf: on the last process h_L, whose ``.grad`` is to be filled.

        x : h_0 on process 0; elsewhere any tensor of its shape, dtype and device, whose values are not read
        exact : for `backward` with iterations=None, which needs one graph of all layers
        """
        self.x, h = x, x.detach()
        if not self.first:
            h = torch.empty_like(h)
            dist.recv(h, group=self.group, group_src=self.rank - 1)
        if exact:
            self.engine, self.input = None, h.requires_grad_()
            for layer in self.layers:
                h = layer(h)
            self.graph = h
        else:
            self.engine = LayerByLayer(self.layers)
            h = self.engine.forward(h, self.parameters)[-1]
        self.output = h.detach().requires_grad_()
        if not self.last:
            dist.send(self.output.detach(), group=self.group, group_dst=self.rank + 1)
        return self.output

    def backward(self, iterations: int | None, *, gamma: float = 0.0) -> None:
        """Adds the gradients of this process's parameters to ``.grad``; on process 0 also continues into x's graph.

        Called on every process, after ``.grad`` of the last process's output was filled.
        """
        if (iterations is None) != (self.engine is None):
            raise ValueError("backward(None), exact backpropagation, belongs to forward(x, exact=True)")
        to_x = self._one_by_one() if iterations is None else self._at_once(iterations, gamma)
        if self.first and self.x.requires_grad:
            self.x.backward(to_x)

    def _one_by_one(self) -> Any:
        gradient: Any = self.output.grad if self.last else torch.empty_like(self.output)
        if not self.last:
            dist.recv(gradient, group=self.group, group_src=self.rank + 1)
        self.graph.backward(gradient)
        if not self.first:
            dist.send(self.input.grad, group=self.group, group_dst=self.rank - 1)
        return self.input.grad

    def _at_once(self, iterations: int, gamma: float) -> Tensor:
        engine, keep = self.engine, 1 - gamma
        own, depth, before = len(self.layers), sum(self.counts), sum(self.counts[: self.rank])
        gradient: Any = self.output.grad if self.last else torch.empty_like(self.output)
        dist.broadcast(gradient, group=self.group, group_src=self.count - 1)
        gradient = gradient.to(engine.dtype)
        outside = keep ** sum(self.counts[self.rank + 1 :]) * gradient
        w = self._with_tail(None, outside, keep)
        products: list[Tensor] = []
        for k in range(min(iterations, depth)):
            # as in `sweeps`: what the last layers send down does not change any more
            layers = range(max(0, min(own, depth - k - before)))
            new = [p + gamma * w[n + 1] if gamma else p for n, p in enumerate(engine.products(layers, w))]
            products = [*new, *products[len(new) :]]
            sums: list[Tensor] = []
            for product in reversed(products):
                sums.append(product + keep * sums[-1] if sums else product)
            w = self._with_tail(sums[::-1], outside + self._behind(sums[-1], keep), keep)
        for p, g in zip(self.parameters, engine.to_parameters(w, self.parameters)):
            if g is not None:
                p.grad = g if p.grad is None else p.grad + g
        self.engine = None
        return w[0].to(self.x.dtype)

    def _with_tail(self, sums: Sequence[Tensor] | None, tail: Tensor, keep: float) -> list[Tensor]:
        """Of the states in front of and behind this process's layers: sums of its own, and what lies behind them."""
        own = len(self.layers)
        tails = [tail if keep == 1 else keep ** (own - n) * tail for n in range(own + 1)]
        return tails if sums is None else [*(s + t for s, t in zip(sums, tails)), tail]

    def _behind(self, total: Tensor, keep: float) -> Tensor:
        """S v at the state behind this process's layers, of the totals of the processes after it."""
        totals = [torch.empty_like(total) for _ in range(self.count)]
        dist.all_gather(totals, total.contiguous(), group=self.group)
        behind = torch.zeros_like(total)
        for rank in range(self.count - 1, self.rank, -1):
            behind = totals[rank] + keep ** self.counts[rank] * behind
        return behind
