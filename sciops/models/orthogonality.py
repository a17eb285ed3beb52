"""Orthonormal rows, in place, of the layers that can have them.

A linear layer W is orthogonal here where W Wᵀ = I on its outputs, so that it has no more outputs than inputs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from sciops.mixers.traits import Matrices
from sciops.models.orthogonal.layer_matrices import convolution_matrices
from sciops.models.orthogonal.matrices import bjorck, polar

Method = Literal["polar", "bjorck"]


@torch.no_grad()
def orthogonalize_(
    layers: Iterable[nn.Module],
    *,
    shapes: Iterable[Sequence[int] | None] | None = None,
    method: Method = "polar",
    iterations: int = 6,
) -> None:
    """Every layer's weights are replaced, in place, by their `polar` factor or by `bjorck`'s approximation of it.

    layers : `nn.Linear`; `SpectralMixer` with dense Fourier or sine weights, and `UnitarySpectral`, mode by mode;
        `OrthogonalConvolution`; `nn.Conv1d` … `nn.Conv3d` that wrap around, frequency by frequency; any layer with a
        method ``linear_matrices(shape)`` that returns a list of `sciops.mixers.Matrices`
    shapes : grid points per axis of each layer's input, which Fourier layers and convolutions act by; None, for a
        spectral layer, means a grid finer than its modes need
    method, iterations : "polar" by singular values, or "bjorck" with so many iterations

    The parameters stay the same objects, so that an optimiser keeps its state. A `nn.Conv` whose kernel is smaller than
    the grid is cut back to its kernel after the projection, twelve times in turn: there are few orthogonal convolutions
    of small support, and a residue of about 1e-2 is left (`orthogonality_defect` tells it), where a kernel as large as
    the grid, and the layers that are orthogonal by construction, leave none.

    Raises TypeError for other layers, ValueError for shapes that do not fit.
    """
    if method not in ("polar", "bjorck"):
        raise ValueError(f"method={method!r}: expected 'polar' or 'bjorck'")

    def factor(w: Tensor) -> Tensor:
        return polar(w) if method == "polar" else bjorck(w, iterations)

    layers = list(layers)
    given = list(shapes) if shapes is not None else [None] * len(layers)
    if len(given) != len(layers):
        raise ValueError(f"{len(given)} shapes for {len(layers)} layers: expected one each")
    alike: dict[tuple, list[Matrices]] = {}
    for layer, shape in zip(layers, given):
        for part in _matrices(layer, shape):
            w = part.read()
            alike.setdefault((*w.shape[1:], w.dtype, w.device, part.rounds), []).append(part)
    for parts in alike.values():
        # layers of one shape go through the factorisation together
        for _ in range(parts[0].rounds):
            stacks = [part.read() for part in parts]
            for part, piece in zip(parts, factor(torch.cat(stacks)).split([len(w) for w in stacks])):
                part.write(piece)


@torch.no_grad()
def orthogonality_defect(layer: nn.Module, shape: Sequence[int] | None = None) -> float:
    """max ‖W Wᴴ − I‖₂ over the layer's matrices: how far from 1 a squared singular value of the operator is.

    layer, shape : as for `orthogonalize_`
    """
    worst = 0.0
    for part in _matrices(layer, shape):
        w = part.read()
        w = w.mH if w.shape[-2] > w.shape[-1] else w
        eye = torch.eye(w.shape[-2], dtype=w.dtype, device=w.device)
        worst = max(worst, float(torch.linalg.matrix_norm(w @ w.mH - eye, 2).max()))
    return worst


def can_be_projected(layer: nn.Module) -> bool:
    """Whether `orthogonalize_` knows this kind of layer; weights behind a parametrisation are its own affair."""
    known = hasattr(layer, "linear_matrices") or isinstance(layer, (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d))
    return known and not torch.nn.utils.parametrize.is_parametrized(layer)


def _matrices(layer: nn.Module, shape: Sequence[int] | None) -> list[Matrices]:
    if not can_be_projected(layer):
        raise TypeError(f"{type(layer).__name__} cannot be projected: expected nn.Linear, nn.Conv or a spectral layer")
    if hasattr(layer, "linear_matrices"):
        return layer.linear_matrices(shape)
    if isinstance(layer, nn.Linear):
        return [Matrices(lambda: layer.weight[None], layer.weight[None].copy_)]
    return convolution_matrices(layer, shape)
