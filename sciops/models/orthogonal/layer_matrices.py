"""What a spectral layer, or a convolution that wraps around, does to each frequency, as matrices that can be replaced.

Both act on frequency k by one matrix M_k, and the Fourier transform is unitary, so the operator has orthonormal rows
exactly where every M_k has. A real field ties frequencies together, M_{−k} = conj M_k.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from sciops.mixers import SpectralMixer

_CUT_BACK = 12  # rounds of projecting and cutting a kernel back to its support


@dataclass(frozen=True)
class Matrices:
    """read() → (count, rows, columns); write(new) puts as many back; rounds: how often in turn, until both hold."""

    read: Callable[[], Tensor]
    write: Callable[[Tensor], Any]
    rounds: int = 1


def spectral_matrices(mixer: SpectralMixer, shape: Sequence[int] | None, *, passes: bool = False) -> list[Matrices]:
    """The matrices of a mixer's modes, in- by out-channels; `passes`: other modes meet the identity, not zero.

    In column 0 of the half spectrum, and in the Nyquist column, the inverse transform keeps the part that a real field
    can have: R_k acts as ½(R_k + conj R_{−k}). That is what is read there, and written so that it is what acts; a row
    −k whose partner k is not kept meets zero, or the identity.
    """
    if mixer.weights != "dense" or mixer.basis not in ("fourier", "sine") or mixer.compat_shift:
        raise TypeError(
            f"SpectralMixer(basis={mixer.basis!r}, weights={mixer.weights!r}, compat_shift={mixer.compat_shift}): "
            "orthogonal modes need basis 'fourier' or 'sine' (cosines at nodes are not orthonormal), weights='dense', "
            "and no shift"
        )
    weight: Any = mixer.parts[0].weight
    if mixer.basis == "sine":
        size = weight.shape[-2:]
        return [Matrices(lambda: weight.reshape(-1, *size), lambda new: weight.copy_(new.view_as(weight)))]
    modes = mixer.modes
    sizes = tuple(shape) if shape is not None else tuple(4 * k + 1 for k in modes)
    if len(sizes) != len(modes) or any(n < 2 * k for n, k in zip(sizes[:-1], modes)) or sizes[-1] // 2 + 1 < modes[-1]:
        raise ValueError(f"modes={modes} do not fit a grid of {sizes} points: pass the grid that the layer acts on")
    tied = [0] + ([sizes[-1] // 2] if sizes[-1] % 2 == 0 and modes[-1] > sizes[-1] // 2 else [])
    partner, present = _partners(modes[:-1], sizes[:-1], weight.device)

    def read() -> Tensor:
        full = torch.complex(*weight.unbind(-2)).reshape(-1, modes[-1], *weight.shape[-3:-2], weight.shape[-1]).clone()
        fill = _fill(full, passes)
        for column in tied:
            own = full[:, column]
            mate = torch.where(present[:, None, None], own[partner].conj(), fill)
            full[:, column] = (own + mate) / 2
        return full.reshape(-1, *full.shape[-2:])

    def write(new: Tensor) -> None:
        full = new.reshape(-1, modes[-1], *new.shape[-2:]).clone()
        fill = _fill(full, passes)
        for column in tied:
            own = full[:, column]
            full[:, column] = torch.where(present[:, None, None], own, 2 * own - fill)
        full = full.reshape(*weight.shape[:-3], *full.shape[-2:])
        weight.copy_(torch.stack([full.real, full.imag], -2))

    return [Matrices(read, write)]


def convolution_matrices(layer: Any, shape: Sequence[int] | None) -> list[Matrices]:
    """M_k = Σ_t W_t exp(i k·(t − middle)) of a convolution that wraps around, out- by in-channels."""
    if shape is None:
        raise ValueError(f"{type(layer).__name__}: how a convolution acts depends on the grid; pass its shape")
    sizes, kernel, axes = tuple(shape), layer.kernel_size, tuple(range(-len(layer.kernel_size), 0))
    reason = not_circular(layer)
    if reason or len(sizes) != len(kernel) or any(k > n for k, n in zip(kernel, sizes)):
        raise ValueError(reason or f"a kernel of {kernel} points does not fit a grid of {sizes}: pass a smaller one")
    weight = layer.weight
    # tap t stands at offset t − (k − 1)//2; the sign of the frequency does not matter
    places = torch.meshgrid(
        *((torch.arange(k, device=weight.device) - (k - 1) // 2) % n for k, n in zip(kernel, sizes)), indexing="ij"
    )

    def read() -> Tensor:
        wide = weight.new_zeros(*weight.shape[:2], *sizes)
        wide[:, :, *places] = weight
        return torch.fft.rfftn(wide, dim=axes).flatten(2).permute(2, 0, 1)

    def write(new: Tensor) -> None:
        half = new.permute(1, 2, 0).reshape(*weight.shape[:2], *sizes[:-1], sizes[-1] // 2 + 1)
        weight.copy_(torch.fft.irfftn(half, s=sizes, dim=axes)[:, :, *places])

    return [Matrices(read, write, 1 if kernel == sizes or max(kernel) == 1 else _CUT_BACK)]


def not_circular(layer: Any) -> str | None:
    """Why this convolution is not a circular one that preserves its grid, or None."""
    same = layer.padding == "same" or all(2 * p + 1 == k for p, k in zip(layer.padding, layer.kernel_size))
    if max(layer.kernel_size) == 1 and max(layer.stride) == 1 and layer.groups == 1 and same:
        return None
    if layer.padding_mode == "circular" and same and {*layer.stride, *layer.dilation, layer.groups} == {1}:
        return None
    return (
        f"{layer}: projecting needs stride 1, no dilation or groups, padding='same' and padding_mode='circular'; "
        "or an orthogonal parametrisation of the layer's own"
    )


def _partners(modes: Sequence[int], sizes: Sequence[int], device: torch.device) -> tuple[Tensor, Tensor]:
    """For every kept row, in the order of the weights: the row of the opposite frequency, and whether it is kept."""
    index, kept = torch.zeros(1, dtype=torch.long), torch.ones(1, dtype=torch.bool)
    for k, n in zip(modes, sizes):
        rows = [f % n for f in (*range(k), *range(-1, -k - 1, -1))]
        place = {row: i for i, row in enumerate(rows)}
        opposite = [place.get(-row % n, -1) for row in rows]
        one = torch.tensor([max(i, 0) for i in opposite])
        index = (index[:, None] * 2 * k + one).flatten()
        kept = (kept[:, None] & torch.tensor([i >= 0 for i in opposite])).flatten()
    return index.to(device), kept.to(device)


def _fill(like: Tensor, passes: bool) -> Tensor:
    rows, columns = like.shape[-2:]
    return torch.eye(rows, columns, dtype=like.dtype, device=like.device) * float(passes)
