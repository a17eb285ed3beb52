"""The spectral norm of a layer or a weight, by the method for its kind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from sciops.arrays.kinds import as_tensor
from sciops.grids import Grid
from sciops.lipschitz.as_written import changed_inside, exactly
from sciops.lipschitz.norms import fourier, fourier_map
from sciops.lipschitz.norms.bracket import Bracket
from sciops.lipschitz.norms.convolution import convolution_norm
from sciops.lipschitz.norms.dense import Method, dense_norm
from sciops.lipschitz.norms.gram import Precision
from sciops.lipschitz.norms.padding import pad_amounts, per_axis
from sciops.mixers import SpectralMixer

_TRANSPOSED = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d, *_TRANSPOSED)


def spectral_norm(
    module_or_weight: Any,
    *,
    grid: Grid | int | Sequence[int] | None = None,
    method: Method = "auto",
    tolerance: float = 1e-3,
    precision: Precision = "double",
    lower_iterations: int = 30,
    **convolution: Any,
) -> Bracket:
    """The spectral norm of a linear layer or of a weight, as a certified bracket.

    lower ≤ σ₁ = max ‖Wx‖/‖x‖ ≤ upper, rounding included.

    Parameters
    ----------
    module_or_weight : nn.Module or array
        nn.Linear, nn.Conv1d … 3d, nn.ConvTranspose1d … 3d, SpectralMixer, a neuraloperator SpectralConv; or a weight,
        numpy or torch: (out, in) of a dense map, (out, in/groups, *kernel) of a convolution.
    grid : Grid, int or sequence of int, optional
        Points of the layer's input; None bounds all grids at once (dense layers need none). A spectral layer is
        measured in the quadrature norm of the grid; numbers of points stand for a periodic one.
    method, tolerance, precision
        As in `dense_norm`.
    lower_iterations : int
        As in `convolution_norm`.
    **convolution
        For the weight of a convolution: padding, padding_mode, stride, dilation, groups, transposed, output_padding, as
        in torch; the default is zero padding that keeps the size.

    Returns
    -------
    Bracket
        Two numbers, tensors or (for numpy) numpy scalars; `upper` can be differentiated with respect to the weight.

    Raises
    ------
    TypeError
        For a module of another kind.
    ValueError
        For weights that are not finite or do not fit.
    """
    how: dict[str, Any] = {"method": method, "tolerance": tolerance, "precision": precision}
    shape: Any = grid.shape if isinstance(grid, Grid) else grid
    if isinstance(module_or_weight, nn.Module):
        module: Any = module_or_weight
        if convolution:
            raise TypeError(f"{', '.join(convolution)}: a module brings these along; pass them with a weight only")
        problem = changed_inside(module)
        if problem is not None:
            raise TypeError(f"spectral_norm of {type(module).__name__} with {problem}: remove it, or pass the weight")
        if exactly(module, nn.Linear):
            return dense_norm(module.weight, **how)
        if exactly(module, *_CONVOLUTIONS):
            options = convolution_options(module)
            return convolution_norm(module.weight, grid=shape, lower_iterations=lower_iterations, **options, **how)
        if exactly(module, nn.Identity):
            return Bracket(torch.tensor(1.0), torch.tensor(1.0))
        if exactly(module, SpectralMixer) or fourier.is_neuralop_conv(module):
            return _spectral(module, grid)
        raise TypeError(
            f"spectral_norm of {type(module).__name__}: expected a linear, convolution or spectral layer, or a weight; "
            "lipschitz_bound takes whole models"
        )
    weight, hand_back = as_tensor(module_or_weight, "weight")
    if weight.ndim == 2:
        if convolution:
            raise TypeError(f"{', '.join(convolution)}: the weight {tuple(weight.shape)} is a matrix, no kernel")
        bracket = dense_norm(weight, **how)
    elif 3 <= weight.ndim <= 5:
        bracket = convolution_norm(weight, grid=shape, lower_iterations=lower_iterations, **convolution, **how)
    else:
        raise ValueError(
            f"weight of shape {tuple(weight.shape)}: expected (out, in) or (out, in/groups, 1 to 3 kernel axes); "
            "dense_norm takes batches of matrices"
        )
    return Bracket(hand_back(bracket.lower), hand_back(bracket.upper))


def convolution_options(module: Any) -> dict[str, Any]:
    """The options of `convolution_norm` that describe one of torch's convolutions as it is run.

    Raises ValueError for a module whose padding was set after it was built, since torch keeps a second copy, or is not
    one number per axis where the mode is not zeros: torch then pads the last axis alone.
    """
    transposed = exactly(module, *_TRANSPOSED)
    names = ("padding", "padding_mode", "stride", "dilation", "groups", *(("output_padding",) if transposed else ()))
    options = {name: _for_all(getattr(module, name)) for name in names}
    if module.padding_mode != "zeros":
        kernel = tuple(module.weight.shape[2:])
        pads = pad_amounts(options["padding"], kernel, per_axis(options["dilation"], len(kernel), "dilation", 1))
        meant, used = [p for pair in reversed(pads) for p in pair], list(module._reversed_padding_repeated_twice)
        if meant != used and any(meant + used):
            raise ValueError(
                f"{type(module).__name__}: padding={module.padding!r} is not how it pads, by {used} from the last axis "
                "on, as was fixed when it was built"
            )
    return options | {"transposed": transposed}


def _for_all(value: Any) -> Any:
    """torch takes a tuple of one number for all axes."""
    return value[0] if isinstance(value, (tuple, list)) and len(value) == 1 else value


def _spectral(module: Any, grid: Any) -> Bracket:
    if grid is not None:
        return fourier.fourier_norm(module, grid if isinstance(grid, Grid) else Grid(grid, centering="periodic"))
    if exactly(module, SpectralMixer):
        if module.basis != "fourier":
            raise ValueError(f"basis={module.basis!r}: the norm depends on where the points lie; pass grid=Grid(...)")
        kept = module.modes
        sizes = tuple(2 * k + 2 for k in kept)
        layer = fourier_map.of_mixer(module.parts[0], kept, sizes, sizes, torch.float64)
    else:
        sizes = tuple(2 * n + 2 for n in module.n_modes)
        layer = fourier_map.of_neuralop(module, sizes, sizes, torch.float64)
    # real fields see the mean of R_k and a conjugate, or R_k itself: never more than the largest of the matrices
    lower = fourier.fourier_norm(module, Grid(sizes, centering="periodic")).lower
    return Bracket(lower, dense_norm(layer.blocks).largest().upper)
