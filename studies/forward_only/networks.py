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

    As `sciops.models.UnitarySpectral` on one axis. R : complex (layers, networks, modes, C, C), real for the mean m = 0
    """

    def __init__(self, weight: Tensor, points: int) -> None:
        layers, networks, self.modes, channels, _ = weight.shape
        if self.modes > (points + 1) // 2:
            raise ValueError(f"modes={self.modes} on {points} points: expected at most {(points + 1) // 2}")
        self.weight, self.points = weight, points
        self.bias = torch.view_as_real(weight).new_zeros(layers, networks, 1, channels)
        self.count, self.parameters = layers, [torch.view_as_real(self.weight), self.bias]

    @classmethod
    def drawn(
        cls, count: int, channels: int, modes: int, points: int, generators: Sequence[torch.Generator], kind: Tensor
    ) -> Spectral:
        shape = (count, modes, channels, channels, 2)
        drawn = torch.stack([torch.randn(shape, generator=g, dtype=torch.float64) for g in generators], 1)
        drawn[:, :, 0, ..., 1] = 0
        return cls(polar(torch.view_as_complex(drawn)).to(kind.device, kind.dtype.to_complex()), points)

    def apply(self, layer: int, z: Tensor) -> Tensor:
        return self._through(z, self.weight[layer].mT) + self.bias[layer]

    def transposed(self, layer: int, u: Tensor) -> Tensor:
        return self._through(u, self.weight[layer].conj())

    def _through(self, z: Tensor, right: Tensor) -> Tensor:
        spectrum = self._spectrum(z)
        low = spectrum[:, :, : self.modes].transpose(1, 2)
        spectrum[:, :, : self.modes] = (low @ right).transpose(1, 2)
        return torch.fft.irfft(spectrum, self.points, dim=2, norm="ortho").reshape(z.shape)

    def _spectrum(self, z: Tensor) -> Tensor:
        """(networks, samples, modes, channels)."""
        return torch.fft.rfft(z.reshape(len(z), -1, self.points, z.shape[-1]), dim=2, norm="ortho")

    def gradients(self, inputs: Tensor, cotangents: Tensor) -> list[Tensor]:
        found = []
        for z, c in zip(inputs, cotangents):
            low, high = (self._spectrum(v)[:, :, : self.modes].transpose(1, 2) for v in (z, c))
            g = high.mT @ low.conj()
            g[:, 1:] *= 2  # a mode and its conjugate
            found.append(torch.view_as_real(g))
        return [torch.stack(found), cotangents.sum(2, keepdim=True)]

    def project(self) -> None:
        flat = self.weight.flatten(0, 2)
        flat.copy_(bjorck(flat))


@dataclass
class Networks:
    """Stacks of tanh layers: y = W_L h_{L−1} + b_L, h_l = tanh(W_l h_{l−1} + b_l), from h_0 = x or W_0 x + b_0, a lift.

    groups : layers in order, of which the last is the head and, with `lift`, the first the lift
    """

    groups: list[Layers]
    lift: bool = False

    def __post_init__(self) -> None:
        self.order = [(group, i) for group in self.groups for i in range(group.count)]

    @classmethod
    def dense(cls, inputs: int, width: int, depth: int, outputs: int, seeds: Sequence[int], kind: Tensor) -> Networks:
        """As `OrthogonalNet` of kind "dense", one a seed."""
        generators = [torch.Generator().manual_seed(seed) for seed in seeds]
        shapes = [(1, width, inputs), (depth - 1, width, width), (1, outputs, width)]
        return cls([Dense.drawn(*shape, generators, kind) for shape in shapes if shape[0]])

    @classmethod
    def spectral(
        cls, fields: tuple[int, int], width: int, depth: int, grid: tuple[int, int], seeds: Sequence[int], kind: Tensor
    ) -> Networks:
        """As `OrthogonalNet` of kind "spectral" on one periodic axis; fields : in and out; grid : modes and points."""
        generators = [torch.Generator().manual_seed(seed) for seed in seeds]
        lift = Dense.drawn(1, width, fields[0], generators, kind)
        hidden = Spectral.drawn(depth, width, *grid, generators, kind)
        return cls([lift, hidden, Dense.drawn(1, fields[1], width, generators, kind)], True)

    def run(self, x: Tensor) -> tuple[list[Tensor], Tensor]:
        """(h_0, …, h_{L−1}) and y of x (networks, rows, in)."""
        group, i = self.order[0]
        return self.behind(group.apply(i, x) if self.lift else x)

    def behind(self, h: Tensor) -> tuple[list[Tensor], Tensor]:
        """The same from h_0 on."""
        states = [h]
        for group, i in self.order[self.lift : -1]:
            states.append(torch.tanh(group.apply(i, states[-1])))
        group, i = self.order[-1]
        return states, group.apply(i, states[-1])

    def project(self) -> None:
        """The hidden layers get orthonormal rows; the head and the lift are free."""
        for group in self.groups[self.lift : -1]:
            group.project()
