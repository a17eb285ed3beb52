"""Norms of spectral layers, mode by mode, between the quadrature norms of their grids."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from sciops.bases import waves
from sciops.grids import Grid
from sciops.lipschitz.as_written import changed_inside, exactly
from sciops.lipschitz.norms import fourier_map, wall_map
from sciops.lipschitz.norms.block_map import BlockMap
from sciops.lipschitz.norms.bracket import Bracket, largest_of
from sciops.mixers.spectral import FourierModes, SpectralMixer, WallModes

_CONVS = {
    ("neuralop.layers.spectral_convolution", "SpectralConv"),
    ("sciops.models.operators.neuralop_spectral", "MatchedSpectralConv"),
}


def fourier_norm(module: nn.Module, grid: Grid, out_grid: Grid | None = None, *, weighted: bool = True) -> Bracket:
    """The norm of a spectral layer between the quadrature norms of two grids, as a certified bracket.

    max ‖y‖_h / ‖x‖_h with ‖u‖_h² = Σ_j w_j |u_j|², w the grid's quadrature weights.

    Parameters
    ----------
    module : nn.Module
        `SpectralMixer` in any basis, or a neuraloperator `SpectralConv` (dense, factorized or separable weights).
    grid : Grid
        Of the input.
    out_grid : Grid or None
        Of the output; default `grid`. A `SpectralConv` is called with its shape as output_shape; a `SpectralMixer`
        evaluates the same modes there, without those that a coarser Fourier grid cannot hold.
    weighted : bool
        False gives every point the mean weight, a multiple of the Euclidean norm.

    Returns
    -------
    Bracket
        `upper` has the graph of the weights.

    Raises
    ------
    ValueError
        When the modes do not fit the grid, for complex data and for other modules.

    Notes
    -----
    Fourier: max_k ‖R_k‖₂, to round-off, where R is what real fields see of the weights: in column 0, and n/2 for even
    n, the Hermitian part (R(k₁) + conj R(−k₁))/2. On grids without end points it does not depend on the number of
    points. Node grids weigh their ends by ½, and modes are not orthogonal in that norm: the bracket then holds
    √(λ(F*WF)·λ(F*W⁻¹F)), least and largest, F the modes in use; both tend to 1 as the grid is refined.

    Sines and cosines on nodes that reach the walls are exact per mode with ``weighted=True``, since the trapezoid rule
    keeps their modes orthogonal; elsewhere the bracket holds the same two factors. The two norms differ by at most
    √(max w/min w), which is 2^(axes/2) on nodes and 1 elsewhere.
    """
    problem = changed_inside(module)
    if problem is not None:
        raise ValueError(f"fourier_norm of {type(module).__name__} with {problem}: remove it")
    out_grid = grid if out_grid is None else out_grid
    return spectral_map_norm(module, grid, out_grid, weighted=weighted)


def spectral_map_norm(
    module: nn.Module, grid: Grid, out_grid: Grid, *, weighted: bool, dtype: torch.dtype = torch.float64
) -> Bracket:
    """The bracket of `fourier_norm`, for a module that runs what its class says."""
    return largest_of(one.bracket() for one in _maps(module, grid, out_grid, weighted, dtype))


def spectral_map_norm_with_skip(
    module: nn.Module, skip: Tensor, grid: Grid, out_grid: Grid, *, weighted: bool, dtype: torch.dtype
) -> Bracket | None:
    """The bracket of x ↦ S x + layer(x) for a skip S (out, in); None where the two are only known apart."""
    maps = _maps(module, grid, out_grid, weighted, dtype)
    return maps[0].bracket_with(skip) if len(maps) == 1 else None


def _maps(
    module: Any, grid: Grid, out_grid: Grid, weighted: bool, dtype: torch.dtype
) -> Sequence[BlockMap | wall_map.WallMap]:
    """The layer as maps between independent sets of coefficients, one for each basis that it works in."""
    w, v = axis_weights(grid, weighted), axis_weights(out_grid, weighted)
    ours = exactly(module, SpectralMixer)
    if ours and not all(exactly(p, FourierModes if module.basis == "fourier" else WallModes) for p in module.parts):
        raise ValueError(f"{type(module).__name__} with parts that are not those of basis={module.basis!r}: no rule")
    if ours and module.basis != "fourier":
        return [wall_map.of_walls(p, p.modes_on(grid), grid, out_grid, w, v, dtype) for p in module.parts]
    if ours:
        part, sizes = module.parts[0], grid.shape
        layer = fourier_map.of_mixer(part, part.modes_on(sizes), sizes, out_grid.shape, dtype)
    elif is_neuralop_conv(module):
        layer = fourier_map.of_neuralop(module, grid.shape, out_grid.shape, dtype)
    else:
        raise ValueError(f"{type(module).__name__}: expected a SpectralMixer or a neuraloperator SpectralConv")
    low, high = _end_factors(layer.frequencies, w, v, grid.shape, out_grid.shape, layer.targets[layer.kept])
    return [replace(layer.map(grid.shape, out_grid.shape), low=low, high=high)]


def is_neuralop_conv(module: Any) -> bool:
    """Whether this runs neuraloperator's Fourier layer for real data, as it is or as `NeuralopModel` corrects it."""
    if not exactly(module, *(kind for kind in type(module).__mro__ if (kind.__module__, kind.__name__) in _CONVS)):
        return False
    if module.complex_data:
        raise ValueError("a SpectralConv for complex data: its norm is not computed here")
    return True


def axis_weights(grid: Grid, weighted: bool) -> list[np.ndarray]:
    """Quadrature weights per axis, or their mean on every point of it."""
    weights = [axis.weights() for axis in grid.axes]
    return weights if weighted else [np.full(w.size, w.mean()) for w in weights]


def _end_factors(
    f: np.ndarray, w, v, sizes: Sequence[int], out_sizes: Sequence[int], t: np.ndarray
) -> tuple[float, float]:
    """√(λ(F*VF)·λ(F*W⁻¹F)), least and largest, F the orthonormal modes; 1 on grids without ends but for the measure."""
    measure = math.prod(float(b.sum()) / float(a.sum()) for a, b in zip(w, v))
    low = high = measure
    for axis, (a, b) in enumerate(zip(w, v)):
        for weights, n, frequencies, inverse in ((a, sizes[axis], f, True), (b, out_sizes[axis], t, False)):
            if np.ptp(weights) == 0 or not len(frequencies):
                continue
            relative = weights / weights.mean()
            classes = np.unique(np.concatenate([frequencies[:, axis], -frequencies[:, axis]]) % n)
            cos, sin = waves(classes, n)
            modes = (cos + 1j * sin).T / math.sqrt(n)
            gram = modes.conj().T @ ((1 / relative if inverse else relative)[:, None] * modes)
            values = np.linalg.eigvalsh(gram)
            slack = 8 * n * np.finfo(float).eps
            low, high = low * max(values[0] - slack, 0.0), high * (values[-1] + slack)
    return math.sqrt(low), math.sqrt(high)
