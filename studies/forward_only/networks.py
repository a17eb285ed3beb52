"""Many networks of one shape side by side: layers whose weights have the networks as an axis, and their transposes.

A row is a sample, or a point of a field: activations have the shape (networks, rows, channels). What a network computes
depends on its own weights alone, so that one that diverges leaves the others as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from sciops.models.orthogonal.matrices import bjorck, polar


ACTIVATIONS = {
    "tanh": (torch.tanh, lambda h: 1 - h * h),
    "relu": (torch.relu, lambda h: (h > 0).to(h.dtype)),
    "leaky_relu": (lambda a: torch.nn.functional.leaky_relu(a, 0.5), lambda h: 0.5 + 0.5 * (h > 0).to(h.dtype)),
}

class Layers(Protocol):
    """`count` linear layers of one shape: layer l maps rows z to W_l z + b_l."""

    count: int
    parameters: list[Tensor]

    def apply(self, layer: int, z: Tensor) -> Tensor: ...

    def transposed(self, layer: int, u: Tensor) -> Tensor:
        """W_lᵀ u."""

    def gradients(self, inputs: Tensor, cotangents: Tensor) -> list[Tensor]:
        """Of Σ cotangent · output in the parameters; inputs, cotangents : (layers, networks, rows, channels)."""

    def project(self) -> None:
        """W_l ← the nearest matrix with orthonormal rows, by six steps of Björck."""


class Dense:
    """W (layers, networks, out, in), initially with orthonormal rows (columns where it widens), and b = 0."""

    def __init__(self, weight: Tensor) -> None:
        self.weight, self.bias = weight, weight.new_zeros(*weight.shape[:2], 1, weight.shape[2])
        self.count, self.parameters = len(weight), [self.weight, self.bias]

    @classmethod
    def drawn(cls, count: int, out: int, inputs: int, generators: Sequence[torch.Generator], kind: Tensor) -> Dense:
        """One network a generator; `kind` gives dtype and device."""
        drawn = [torch.randn(count, out, inputs, generator=g, dtype=torch.float64) for g in generators]
        return cls(polar(torch.stack(drawn, 1)).to(kind))

    def apply(self, layer: int, z: Tensor) -> Tensor:
        return torch.baddbmm(self.bias[layer], z, self.weight[layer].mT)

    def transposed(self, layer: int, u: Tensor) -> Tensor:
        return u @ self.weight[layer]

    def gradients(self, inputs: Tensor, cotangents: Tensor) -> list[Tensor]:
        return [cotangents.mT @ inputs, cotangents.sum(2, keepdim=True)]

    def project(self) -> None:
        flat = self.weight.flatten(0, 1)
        flat.copy_(bjorck(flat))


class Spectral:
    """A unitary C×C matrix R_m on each of the lowest modes of a periodic field, the identity on the others, and a bias.

    As `sciops.models.UnitarySpectral` on one axis. R : complex (layers, networks, modes, C, C), real for the mean, m = 0
    """

    def __init__(self, weight: Tensor, points: int) -> None:
        layers, networks, self.modes, channels, _ = weight.shape
        if self.modes > (points + 1) // 2:
            raise ValueError(f"modes={self.modes} on {points} points: expected at most {(points + 1) // 2}")
        self.weight, self.points = weight, points
        self.bias = weight.real.new_zeros(layers, networks, 1, channels)
        self.count, self.parameters = layers, [torch.view_as_real(self.weight), self.bias]

    @classmethod
    def drawn(
        cls, count: int, channels: int, modes: int, points: int, generators: Sequence[torch.Generator], kind: Tensor
    ) -> Spectral:
        shape = (count, modes, channels, channels, 2)
        drawn = torch.stack([torch.randn(shape, generator=g, dtype=torch.float64) for g in generators], 1)
        drawn[:, :, 0, ..., 1] = 0
        return cls(polar(torch.view_as_complex(drawn)).to(kind.dtype.to_complex()).to(kind.device), points)

    def apply(self, layer: int, z: Tensor) -> Tensor:
        return self._through(z, self.weight[layer].mT) + self.bias[layer]

    def transposed(self, layer: int, u: Tensor) -> Tensor:
        return self._through(u, self.weight[layer].conj())

    def _through(self, z: Tensor, right: Tensor) -> Tensor:
        spectrum = self._modes(z)
        low = spectrum[:, :, : self.modes].transpose(1, 2)
        spectrum[:, :, : self.modes] = (low @ right).transpose(1, 2)
        return torch.fft.irfft(spectrum, self.points, dim=2, norm="ortho").reshape(z.shape)

    def _modes(self, z: Tensor) -> Tensor:
        """(networks, samples, modes, channels)."""
        fields = z.reshape(len(z), -1, self.points, z.shape[-1])
        return torch.fft.rfft(fields, dim=2, norm="ortho")

    def gradients(self, inputs: Tensor, cotangents: Tensor) -> list[Tensor]:
        found = []
        for z, c in zip(inputs, cotangents):
            low, high = (self._modes(v)[:, :, : self.modes].transpose(1, 2) for v in (z, c))
            g = high.mT @ low.conj()
            g[:, 1:] *= 2  # a mode and its conjugate
            found.append(torch.view_as_real(g))
        return [torch.stack(found), cotangents.sum(2, keepdim=True)]

    def project(self) -> None:
        flat = self.weight.flatten(0, 2)
        flat.copy_(bjorck(flat))


@dataclass
class Networks:
    """Stacks of layers side by side: y = W_L h_{L−1} + b_L, h_l = φ(W_l h_{l−1} + b_l), h_0 = x or, with a lift, W_0 x + b_0.

    groups : layers in order, of which the last is the head and, with `lift`, the first the lift
    """

    groups: list[Layers]
    lift: bool
    activation: str = 'tanh'

    def __post_init__(self) -> None:
        self.order = [(group, i) for group in self.groups for i in range(group.count)]

    @classmethod
    def dense(cls, inputs: int, width: int, depth: int, outputs: int, seeds: Sequence[int], kind: Tensor, activation: str = "tanh") -> Networks:
        """As `OrthogonalNet` of kind "dense", drawn by seed."""
        generators = [torch.Generator().manual_seed(seed) for seed in seeds]
        shapes = [(1, width, inputs), (depth - 1, width, width), (1, outputs, width)]
        return cls([Dense.drawn(*shape, generators, kind) for shape in shapes if shape[0]], False, activation)

    @classmethod
    def spectral(
        cls, width: int, depth: int, modes: int, points: int, seeds: Sequence[int], kind: Tensor, fields: tuple[int, int], activation: str = 'tanh'
    ) -> Networks:
        """As `OrthogonalNet` of kind "spectral" on one periodic axis; fields : in and out."""
        generators = [torch.Generator().manual_seed(seed) for seed in seeds]
        lift = Dense.drawn(1, width, fields[0], generators, kind)
        hidden = Spectral.drawn(depth, width, modes, points, generators, kind)
        return cls([lift, hidden, Dense.drawn(1, fields[1], width, generators, kind)], True, activation)

    def run(self, x: Tensor, *, hidden: bool = True) -> tuple[list[Tensor], Tensor]:
        """(h_0, …, h_{L−1}), y of x (networks, rows, in); with a lift h_0 is the lifted field."""
        group, i = self.order[0]
        return self.behind(group.apply(i, x) if self.lift else x, hidden=hidden)

    def behind(self, h: Tensor, *, hidden: bool = True) -> tuple[list[Tensor], Tensor]:
        """The run from h_0 on; without `hidden` h_0 alone is kept."""
        states = [h]
        for group, i in self.order[self.lift : -1]:
            h = ACTIVATIONS[self.activation][0](group.apply(i, h))
            if hidden:
                states.append(h)
        group, i = self.order[-1]
        return states, group.apply(i, h)

    def project(self) -> None:
        """The hidden layers get orthonormal rows; the head and the lift are free."""
        for group in self.groups[self.lift : -1]:
            group.project()
