"""What sampling does to a nonlinearity: the energy it folds back into the modes a layer keeps."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from sciops.arrays.kinds import as_tensor
from sciops.arrays.scale import power_of_two, widened
from sciops.grids import Grid, check_on_grid
from sciops.resampling import resample
from sciops.spectral.modes import Extension, coefficients, modes_of
from sciops.spectral.recording import Channels, Operation, watch
from sciops.values import check_whole

Basis = Literal["fourier", "sine", "cosine"]

_EXTENSIONS: dict[Basis, Extension | None] = {"fourier": None, "sine": "odd", "cosine": "even"}


def aliasing_error(
    activation: Callable[[Any], Any],
    v: Any,
    grid: Grid,
    modes: int | Sequence[int],
    *,
    factor: int = 4,
    basis: Basis = "fourier",
) -> Any:
    """A = ‖Π_K(σ(v)|_n) − Π_K(σ(P v)|_{qn})‖ / ‖Π_K(σ(P v)|_{qn})‖ per sample.

    P interpolates v from n to q·n points in the basis, Π_K keeps the coefficients with |k|∞ ≤ K. The second term is
    what a grid fine enough to hold most of σ(P v) gives; the difference is what folds back from above n/2.

    activation : any pointwise function of fields (batch, ..., *grid), torch or numpy as v is
    v : (batch, ..., *grid)    numpy or torch; norms run over everything but the batch
    modes : K, or one per axis, below half the points (a quadratic σ of a field of band B is alias-free exactly when
        n > 2B + K; degree p: n > pB + K)
    factor : q; the reference itself aliases, from above q·n/2
    basis : "fourier" takes the points for one period n·h, as a Fourier mixer does whatever the centering; "sine" and
        "cosine" are those of node or cell grids with walls, K in waves per extent
    returns : (batch,)   inf where only the reference vanishes, 0 where both terms do

    Raises ValueError when K does not fit the grid or v does not live on it. Source: arXiv:2305.19913 for the error as
    a failure of representation equivalence.
    """
    tensor, restore = as_tensor(v, "v")
    check_on_grid(tensor, grid, "v")
    numpy_in = not isinstance(v, Tensor)

    def function(t: Tensor) -> Tensor:
        return as_tensor(activation(restore(t)))[0] if numpy_in else activation(t)

    lead = tensor.shape[: tensor.ndim - grid.ndim]
    batched = widened(tensor if lead else tensor.unsqueeze(0))
    error = _aliasing(function, (batched,), grid, _limits(modes, grid), factor, basis)
    return restore(error if lead else error.squeeze(0))


def layer_aliasing(
    model: nn.Module,
    x: Any,
    grid: Grid,
    modes: int | Sequence[int],
    *,
    factor: int = 4,
    basis: Basis = "fourier",
    layers: Sequence[str] | None = None,
    channels: Channels = "auto",
) -> Any:
    """A_l of `aliasing_error` for every nonlinearity of a model: root mean square over the batch, by layer.

    The nonlinearities are the activations, modules or plain functions, and the products of two hidden fields (gates).
    Each is evaluated again on its own inputs, interpolated to `factor` times the points.

    returns : xarray.DataArray (layer,) in the order of the computation, with coordinate `kind` ("gelu", "mul", …) and
        attributes `skipped`, `factor`, `basis`; labels as in `layer_spectra`

    A layer that already computes on a finer grid (``dealias=2``) is listed in `skipped`. Raises ValueError when
    K does not fit the grid, or `layers` names something the model has not.
    """
    import xarray

    tensor, _ = as_tensor(x, "x")
    check_on_grid(tensor, grid, "x")
    limits = _limits(modes, grid)

    def measure(operation: Operation) -> float:
        error = _aliasing(operation.function, operation.fields, grid, limits, factor, basis)
        return float(error.square().mean().sqrt())

    records = watch(model, tensor, grid, on_operation=measure, layers=layers, channels=channels)
    return xarray.DataArray(
        np.array(records.values, dtype=np.float64),
        dims=("layer",),
        coords={
            "layer": np.array(records.labels, dtype=object),
            "kind": ("layer", np.array(records.kinds, dtype=object)),
        },
        name="aliasing_error",
        attrs={"skipped": "\n".join(records.skipped), "factor": factor, "basis": basis},
    )


def _aliasing(
    function: Callable[..., Tensor],
    fields: Sequence[Tensor],
    grid: Grid,
    limits: Sequence[float],
    factor: int,
    basis: Basis,
) -> Tensor:
    """(batch,) relative error of ``function(*fields)`` in the kept modes; fields (batch, ..., *grid)."""
    if basis not in _EXTENSIONS:
        raise ValueError(f"basis={basis!r}: expected one of {tuple(_EXTENSIONS)}")
    check_whole(2, factor=factor)
    coarse = Grid(grid.shape, centering="periodic") if basis == "fourier" else grid
    if coarse.centering == "node":
        fine = Grid(tuple(factor * (n - 1) + 1 for n in grid.shape), grid.extent, "node", grid.domain)
    else:
        fine = Grid(tuple(factor * n for n in grid.shape), coarse.extent, coarse.centering, coarse.domain)
    # a sine mixer does not see what hidden channels do on the walls
    wall: Literal["zero"] | None = "zero" if basis == "sine" else None
    refined = [resample(widened(v), coarse, fine, method=basis, wall=wall).to(v.dtype) for v in fields]
    answers = [widened(function(*inputs)) for inputs in (fields, refined)]
    unit = torch.maximum(*(power_of_two(answer, tuple(range(1, answer.ndim))) for answer in answers))
    on_grid, reference = (_kept(v / unit, g, limits, basis) for v, g in zip(answers, (coarse, fine)))
    (error, e), (size, s) = (_norm(c) for c in (on_grid - reference, reference))
    return torch.where(error == 0, 0.0, error / size * (e / s))


def _kept(u: Tensor, grid: Grid, limits: Sequence[float], basis: Basis) -> Tensor:
    """Coefficients of u with |k_i| ≤ K_i, scaled so that their squares sum to the energy of those modes."""
    kinds = modes_of(grid, None, _EXTENSIONS[basis])
    c = coefficients(u, kinds)
    for axis, (k, limit) in enumerate(zip(kinds.wavenumbers(), limits), start=c.ndim - grid.ndim):
        index = torch.from_numpy(np.flatnonzero(np.abs(k) <= limit)).to(c.device)
        c = c.index_select(axis, index)
    weights = kinds.multiplicity()[: c.shape[-1]]
    return c * torch.from_numpy(weights).to(c.device).to(u.dtype).sqrt()


def _norm(c: Tensor) -> tuple[Tensor, Tensor]:
    """(‖c / s‖, s) per sample, with s a power of two near its largest coefficient."""
    scale = power_of_two(c, tuple(range(1, c.ndim)))
    return (c / scale).flatten(1).abs().square().sum(1).sqrt(), scale.flatten()


def _limits(modes: int | Sequence[int], grid: Grid) -> tuple[float, ...]:
    limits = (modes,) * grid.ndim if isinstance(modes, (int, float, np.integer)) else tuple(modes)
    half = tuple(n / 2 if grid.centering != "node" else (n - 1) / 2 for n in grid.shape)
    if len(limits) != grid.ndim or any(not 0 <= m < h for m, h in zip(limits, half)):
        most = tuple(math.ceil(h) - 1 for h in half)
        raise ValueError(f"modes={modes!r} do not fit a grid of {grid.shape} points: at most {most}, below n/2")
    return tuple(float(m) for m in limits)
