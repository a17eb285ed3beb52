"""What a convolution that wraps around does to each frequency, as matrices that can be replaced.

It acts on frequency k by one matrix M_k, and the Fourier transform is unitary, so the operator has orthonormal rows
exactly where every M_k has.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from sciops.mixers.traits import Matrices

_CUT_BACK = 12  # rounds of projecting and cutting a kernel back to its support


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
