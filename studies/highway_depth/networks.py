"""Residual stacks of several trainings at once: convolutional networks and a transformer with an axis of members.

A member is one training: its parameters, its batches and its loss do not touch another's, so that the gradient of the
sum of the members' losses is each member's own gradient. Parameters carry the members on their first axis.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sciops.training.gradients import Layer, highway_stack, relu_after_sum

ESTIMATED = "estimated"
"""γ of every layer, member and step by one vector of random signs, as ``gamma="hutchinson"`` of `highway_stack`, which
takes one of all members together."""


class ResidualNet(nn.Module):
    """Stem, residual layers, head. members : trainings at once; each state of the stack has one shape."""

    members: int
    layers: list[Layer]

    def forward(self, x: Tensor, iterations: int | None = None, gamma: float | str = 0.0) -> Tensor:
        """iterations : sweeps of Highway-BP on the way back; None is backpropagation. gamma : as in `highway_stack`,
        or `ESTIMATED`."""
        h = self.stem(x)
        if iterations is None:
            for layer in self.layers:
                h = layer(h)
        elif gamma == ESTIMATED:
            h = highway_stack([split(layer, self) for layer in self.layers], h, iterations=iterations)
        else:
            h = highway_stack(self.layers, h, iterations=iterations, gamma=gamma)
        return self.head(h)

    def by_member(self, state: Tensor) -> Tensor:
        """A state as (members, numbers of a member)."""
        raise NotImplementedError

    def as_state(self, values: Tensor) -> Tensor:
        """(members,) values in a shape that multiplies a state."""
        raise NotImplementedError


def split(layer: Layer, net: ResidualNet) -> Layer:
    """The layer with J + γK in place of J and (1 − γ)K in place of K, γ estimated for every member.

    γ = −⟨Jᵀs, Kᵀs⟩ / ‖Kᵀs‖² in [0, 1] with random signs s. For h + g(h) and ReLU(h + g(h)).
    """

    def branch(module: nn.Module, h: Tensor) -> tuple[Tensor, Tensor]:
        z = layer.branch(h)
        signs = torch.randint(0, 2, h.shape, device=h.device).to(h.dtype) * 2 - 1
        if layer.diagonal is not None:
            signs = signs * layer.diagonal(h.detach(), z.detach())
        (product,) = torch.autograd.grad(z, h, signs, retain_graph=True)
        kept = net.by_member(signs)
        share = -(net.by_member(product) * kept).sum(1) / kept.square().sum(1).clamp_min(1e-30)
        gamma = net.as_state(share.clamp(0, 1))
        return z + gamma * h, gamma

    def join(h: Tensor, z: Any) -> Tensor:
        moved = (1 - z[1]) * h + z[0]
        return moved if layer.join is None else F.relu(moved)

    def diagonal(h: Tensor, z: Any) -> Tensor:
        kept = (1 - z[1]).expand_as(h)
        return kept if layer.join is None else kept * ((1 - z[1]) * h + z[0] > 0)

    return Layer(layer.module, branch, join, diagonal)


class ConvNet(ResidualNet):
    """Fields (batch, members, n, n) → the same shape: 3×3 convolutions, `depth` residual layers of `width` channels.

    form : "pre", h + conv(ReLU(norm h)), K = 1; or "post", ReLU(h + norm(conv h)), K = diag(1[h + z > 0]): the two
        residual layers of the paper's table, with one convolution each and the norm over all of a sample's numbers
    """

    def __init__(self, form: str, *, width: int, depth: int) -> None:
        super().__init__()
        self.members, self.width, self.form = 1, width, form
        self.stem = _Conv(1, width)
        self.blocks = nn.ModuleList(_ConvBlock(form, width) for _ in range(depth))
        self.head = nn.Sequential(_Norm(width), nn.ReLU(), _Conv(width, 1))
        self.layers = [Layer(block) if form == "pre" else relu_after_sum(block) for block in self.blocks]

    def by_member(self, state: Tensor) -> Tensor:
        return state.unflatten(1, (self.members, -1)).transpose(0, 1).flatten(1)

    def as_state(self, values: Tensor) -> Tensor:
        return values.repeat_interleave(self.width)[:, None, None]


class Transformer(ResidualNet):
    """Tokens (members, batch, length) → logits (members, batch, length, symbols); pre-norm, causal attention.

    depth : residual layers, attention and MLP by turns
    """

    def __init__(self, symbols: int, *, length: int, width: int, depth: int, heads: int = 2) -> None:
        super().__init__()
        self.members, self.width = 1, width
        self.stem = _Embedding(symbols, length, width)
        self.blocks = nn.ModuleList(_Attention(width, heads) if i % 2 == 0 else _Mlp(width) for i in range(depth))
        self.head = nn.Sequential(nn.LayerNorm(width, elementwise_affine=False), _Linear(width, symbols))
        self.layers = [Layer(block) for block in self.blocks]

    def by_member(self, state: Tensor) -> Tensor:
        return state.flatten(1)

    def as_state(self, values: Tensor) -> Tensor:
        return values[:, None, None, None]


class CausalConvNet(ResidualNet):
    """Tokens (members, batch, length) → logits (members, batch, length, symbols): h + conv(ReLU(norm h)), K = 1, the
    convolution over three places, none of them ahead; the pre-activation form of the paper, over a text.

    depth : residual layers; their last place sees 2·depth characters back
    """

    def __init__(self, symbols: int, *, width: int, depth: int) -> None:
        super().__init__()
        self.members, self.width = 1, width
        self.stem = _Embedding(symbols, 0, width)
        self.blocks = nn.ModuleList(_CausalBlock(width) for _ in range(depth))
        self.head = nn.Sequential(nn.LayerNorm(width, elementwise_affine=False), _Linear(width, symbols))
        self.layers = [Layer(block) for block in self.blocks]

    def by_member(self, state: Tensor) -> Tensor:
        return state.flatten(1)

    def as_state(self, values: Tensor) -> Tensor:
        return values[:, None, None, None]


def together(make: Callable[[], ResidualNet], seeds: Sequence[int]) -> ResidualNet:
    """One network of a member per seed, each initialised as make() does after ``torch.manual_seed(seed)``."""
    ones: dict[int, ResidualNet] = {}
    with torch.random.fork_rng(devices=[]):
        for seed in dict.fromkeys(seeds):
            torch.manual_seed(seed)
            ones[seed] = make()
        net = make()
    with torch.no_grad():
        for name, _ in list(net.named_parameters()):
            owner, _, last = name.rpartition(".")
            rows = torch.cat([ones[seed].get_parameter(name).detach() for seed in seeds])
            setattr(net.get_submodule(owner), last, nn.Parameter(rows))
    for module in net.modules():
        if hasattr(module, "members"):
            module.members = len(seeds)
    return net


class _Conv(nn.Module):
    def __init__(self, width_in: int, width_out: int) -> None:
        super().__init__()
        self.members = 1
        self.weight = nn.Parameter(torch.randn(width_out, width_in, 3, 3) * (2 / (9 * width_in)) ** 0.5)
        self.bias = nn.Parameter(torch.zeros(width_out))

    def forward(self, x: Tensor) -> Tensor:
        return F.conv2d(x, self.weight, self.bias, padding=1, groups=self.members)


class _Norm(nn.Module):
    """Over the channels and points of a member's sample, with a scale and a shift a channel."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.members = 1
        self.weight, self.bias = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))

    def forward(self, x: Tensor) -> Tensor:
        return F.group_norm(x, self.members, self.weight, self.bias)


class _ConvBlock(nn.Module):
    def __init__(self, form: str, width: int) -> None:
        super().__init__()
        self.form, self.norm, self.conv = form, _Norm(width), _Conv(width, width)

    def forward(self, h: Tensor) -> Tensor:
        return self.conv(F.relu(self.norm(h))) if self.form == "pre" else self.norm(self.conv(h))


class _Linear(nn.Module):
    def __init__(self, width_in: int, width_out: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(1, width_in, width_out) * width_in**-0.5)
        self.bias = nn.Parameter(torch.zeros(1, 1, width_out))

    def forward(self, x: Tensor) -> Tensor:
        return torch.baddbmm(self.bias, x.flatten(1, -2), self.weight).unflatten(1, x.shape[1:-1])


class _Embedding(nn.Module):
    """length : places with a vector each; 0 for none"""

    def __init__(self, symbols: int, length: int, width: int) -> None:
        super().__init__()
        self.tokens = nn.Parameter(torch.randn(1, symbols, width))
        self.places = nn.Parameter(0.3 * torch.randn(1, length, width)) if length else None

    def forward(self, tokens: Tensor) -> Tensor:
        member = torch.arange(len(tokens), device=tokens.device)[:, None, None]
        found = self.tokens[member, tokens]
        return found if self.places is None else found + self.places[:, None, : tokens.shape[-1]]


class _CausalBlock(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.conv = nn.LayerNorm(width, elementwise_affine=False), _Linear(3 * width, width)
        with torch.no_grad():
            self.conv.weight.mul_(2**0.5)  # half of what the ReLU is given is lost

    def forward(self, h: Tensor) -> Tensor:
        seen = F.pad(F.relu(self.norm(h)), (0, 0, 2, 0))
        places = h.shape[-2]
        return self.conv(torch.cat([seen[..., i : i + places, :] for i in range(3)], -1))


class _Attention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.norm = heads, nn.LayerNorm(width, elementwise_affine=False)
        self.inner, self.outer = _Linear(width, 3 * width), _Linear(width, width)

    def forward(self, h: Tensor) -> Tensor:
        parts = self.inner(self.norm(h)).unflatten(-1, (3, self.heads, -1)).flatten(0, 1)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        found = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.outer(found.transpose(1, 2).reshape(h.shape))


class _Mlp(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width, elementwise_affine=False)
        self.inner, self.outer = _Linear(width, 2 * width), _Linear(2 * width, width)

    def forward(self, h: Tensor) -> Tensor:
        return self.outer(F.gelu(self.inner(self.norm(h))))
