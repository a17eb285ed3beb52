"""Projection of a layer's weights onto orthonormal rows, in place.

A linear layer W is orthogonal here where W Wᵀ = I on its outputs, so that it has no more outputs than inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from sciops.mixers import SpectralMixer
from sciops.models.orthogonal.layer_matrices import convolution_matrices, spectral_matrices
from sciops.models.orthogonal.layers import OrthogonalConvolution, UnitarySpectral
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
        `OrthogonalConvolution`; `nn.Conv1d` … `nn.Conv3d` with circular padding, frequency by frequency.
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
    alike: dict[tuple, list[_Job]] = {}
    for layer, shape in zip(layers, given):
        for job in _jobs(layer, shape):
            key = (*job.values.shape[1:], job.values.dtype, job.values.device, job.rounds)
            alike.setdefault(key, []).append(job)
    for jobs in alike.values():
        # layers of one shape go through the factorisation together
        for turn in range(jobs[0].rounds):
            stack = torch.cat([job.values if turn == 0 else job.again() for job in jobs])
            for job, piece in zip(jobs, factor(stack).split([len(job.values) for job in jobs])):
                job.write(piece)


@torch.no_grad()
def orthogonality_defect(layer: nn.Module, shape: Sequence[int] | None = None) -> float:
    """The largest ‖W Wᴴ − I‖₂ of the layer's matrices: the distance of squared singular values from 1.

    layer, shape : as for `orthogonalize_`
    """
    worst = 0.0
    for job in _jobs(layer, shape):
        w = job.values.mH if job.values.shape[-2] > job.values.shape[-1] else job.values
        eye = torch.eye(w.shape[-2], dtype=w.dtype, device=w.device)
        worst = max(worst, float(torch.linalg.matrix_norm(w @ w.mH - eye, 2).max()))
    return worst


def can_be_projected(layer: nn.Module) -> bool:
    """Whether `orthogonalize_` supports this layer; parametrised weights are not supported."""
    kinds = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d, SpectralMixer, UnitarySpectral, OrthogonalConvolution)
    return isinstance(layer, kinds) and not torch.nn.utils.parametrize.is_parametrized(layer)


@dataclass(frozen=True)
class _Job:
    """Matrices (count, rows, columns) of one parameter, how to read them again, and how to write them back."""

    values: Tensor
    write: Callable[[Tensor], Any]
    again: Callable[[], Tensor]
    rounds: int = 1


def _jobs(layer: nn.Module, shape: Sequence[int] | None) -> list[_Job]:
    if not can_be_projected(layer):
        raise TypeError(f"{type(layer).__name__} cannot be projected: expected nn.Linear, nn.Conv or a spectral layer")
    if isinstance(layer, OrthogonalConvolution):
        return [_dense(layer.mix[None]), *([_dense(layer.bases)] if len(layer.bases) else [])]
    if isinstance(layer, nn.Linear):
        return [_dense(layer.weight[None])]
    if isinstance(layer, UnitarySpectral):
        found = spectral_matrices(layer.mixer, shape, passes=layer.outside == "identity")
    elif isinstance(layer, SpectralMixer):
        found = spectral_matrices(layer, shape)
    else:
        found = convolution_matrices(layer, shape)
    return [_Job(part.read(), part.write, part.read, part.rounds) for part in found]


def _dense(weight: Tensor) -> _Job:
    return _Job(weight, lambda new: weight.copy_(new), lambda: weight)
