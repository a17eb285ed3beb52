"""Projection of a layer's weights onto orthonormal rows, in place.

A linear layer W is orthogonal here where W Wᵀ = I on its outputs, so that it has no more outputs than inputs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal

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
    """Replaces the weights of layers, in place, by their `polar` factor or by `bjorck`'s approximation of it.

    The parameters remain the same objects, so that an optimiser keeps its state. The kernel of a `nn.Conv` that is
    smaller than the grid is projected and truncated to its support twelve times in turn: there are few orthogonal
    convolutions of small support, and a defect of about 1e-2 remains (`orthogonality_defect` measures it). A kernel as
    large as the grid, and layers that are orthogonal by construction, have no such defect.

    Parameters
    ----------
    layers : iterable of nn.Module
        `nn.Linear`; `SpectralMixer` with dense Fourier or sine weights, and `UnitarySpectral`, mode by mode;
        `OrthogonalConvolution`; `nn.Conv1d` … `nn.Conv3d` with circular padding, frequency by frequency; and
        any layer with a method ``linear_matrices(shape)`` that returns a list of `sciops.mixers.Matrices`.
    shapes : iterable of sequences, optional
        Grid points per axis of each layer's input, which Fourier layers and convolutions need; for a spectral layer
        None means a grid finer than its modes need.
    method, iterations : str, int
        "polar" by singular values, or "bjorck" with this number of iterations.

    Raises
    ------
    TypeError
        For other layers.
    ValueError
        For shapes that do not fit.
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
    """The largest ‖W Wᴴ − I‖₂ of the layer's matrices: the distance of squared singular values from 1.

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
    """Whether `orthogonalize_` supports this layer; parametrised weights are not supported."""
    known = hasattr(layer, "linear_matrices") or isinstance(layer, (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d))
    return known and not any(torch.nn.utils.parametrize.is_parametrized(part) for part in layer.modules())


def _matrices(layer: Any, shape: Sequence[int] | None) -> list[Matrices]:
    if not can_be_projected(layer):
        raise TypeError(
            f"{type(layer).__name__} cannot be projected: expected nn.Linear, nn.Conv or a spectral layer, "
            "with weights that are not parametrised"
        )
    if hasattr(layer, "linear_matrices"):
        return layer.linear_matrices(shape)
    if isinstance(layer, nn.Linear):
        return [Matrices(lambda: layer.weight[None], layer.weight[None].copy_)]
    return convolution_matrices(layer, shape)
