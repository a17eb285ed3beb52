"""Fourier layers as block maps between the Fourier coefficients of real fields.

A layer takes X(k) = mean of x·exp(−ik·s) for the kept k and gives y = Σ_k c_k (R_k X(k) exp(ik·s) + its conjugate),
with c_k = ½ in the columns that the half spectrum holds once (0, and n/2 for even n) and 1 elsewhere. X(−k) is the
conjugate of X(k), so this is the map with c_k R_k from class k to class k and c_k conj(R_k) from class −k to class −k:
on a grid of n points classes are frequencies modulo n. Where two of them meet, the blocks add up, which is all there is
to say about Hermitian columns, Nyquist columns, rows without a partner, and grids of different sizes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sciops.bases import multiplicity
from sciops.lipschitz.norms.block_map import BlockMap, accumulate
from sciops.models.operators.neuralop_spectral import computes


@dataclass(frozen=True)
class FourierLayer:
    """A Fourier layer as a map between coefficients.

    frequencies : (modes, axes) whole numbers, the last axis ≥ 0
    targets : (modes, axes) frequencies at which the result of each mode appears, the same for a correct layer
    kept : (modes,) whether that frequency exists on the output's grid
    blocks : (modes, out, in) complex R_k
    """

    frequencies: np.ndarray
    targets: np.ndarray
    kept: np.ndarray
    blocks: Tensor

    def map(self, sizes: Sequence[int], out_sizes: Sequence[int]) -> BlockMap:
        """The map between the coefficients on the two grids, in their mean-square norms."""
        f, t, blocks = self.frequencies, self.targets, self.blocks
        if not self.kept.all():
            keep = np.flatnonzero(self.kept)
            f, t, blocks = f[keep], t[keep], blocks[torch.from_numpy(keep).to(blocks.device)]
        once = multiplicity(t[:, -1], out_sizes[-1]) == 1
        share = torch.from_numpy(np.where(once, 0.5, 1.0)).to(blocks.device, blocks.real.dtype)
        blocks = blocks * share[:, None, None]
        column, row = _class(f, sizes), _class(t, out_sizes)
        mirrored_column, mirrored_row = _class(-f, sizes), _class(-t, out_sizes)
        same = tuple(sizes) == tuple(out_sizes) and (f == t).all()
        if same:
            # class −k holds the conjugate of what class k holds: columns inside need one half only
            inside = torch.from_numpy(np.flatnonzero(~once)).to(blocks.device)
            edge = torch.from_numpy(np.flatnonzero(once)).to(blocks.device)
            mirror = blocks[edge].conj().resolve_conj()
            rows = np.concatenate([row[~once], row[once], mirrored_row[once]])
            blocks = torch.cat([blocks[inside], blocks[edge], mirror])
            classes = len(np.unique(np.concatenate([row, mirrored_row])))
            return accumulate(rows, rows, blocks, complete=classes == math.prod(sizes))
        rows, columns = np.concatenate([row, mirrored_row]), np.concatenate([column, mirrored_column])
        return accumulate(rows, columns, torch.cat([blocks, blocks.conj().resolve_conj()]))


def of_mixer(part: Any, modes: Sequence[int], sizes: Sequence[int], out_sizes: Sequence[int], dtype) -> FourierLayer:
    """The Fourier part of a `SpectralMixer`, whose `modes` are those in use on this grid."""
    weight = part.weight.to(dtype)
    for axis, (k, full) in enumerate(zip(modes[:-1], part.modes[:-1])):
        weight = torch.cat([weight.narrow(axis, 0, k), weight.narrow(axis, full, k)], axis)
    weight = weight.narrow(len(modes) - 1, 0, modes[-1])
    rows = [np.concatenate([np.arange(k), -np.arange(1, k + 1)]) for k in modes[:-1]]
    f = _product([*rows, np.arange(modes[-1])])
    if part.shared is None:
        pair = weight.reshape(len(f), weight.shape[-3], 2, -1)
        blocks = torch.complex(pair[:, :, 0], pair[:, :, 1]).transpose(1, 2)
    else:
        pair = weight.reshape(len(f), 2, -1)
        blocks = torch.complex(pair[:, 0], pair[:, 1])[:, :, None] * part.shared.to(dtype).t()
    targets = f.copy()
    if part.compat_shift:
        for axis, n in enumerate(sizes[:-1]):
            targets[:, axis] = (f[:, axis] - n % 2 + n // 2) % n - n // 2
    return FourierLayer(f, targets, _on_grid(targets, out_sizes), blocks)


def of_neuralop(conv: Any, sizes: Sequence[int], out_sizes: Sequence[int], dtype) -> FourierLayer:
    """A neuraloperator `SpectralConv` for real data, as installed or as `NeuralopModel` corrects it.

    Raises ValueError between sizes where the installed version computes something unknown.
    """
    weight = conv.weight if torch.is_tensor(conv.weight) else conv.weight.to_tensor()
    first = 1 if conv.separable else 2
    sizes, out_sizes = list(sizes), list(out_sizes)
    spectrum = [*sizes[:-1], sizes[-1] // 2 + 1]
    computed = computes(conv, sizes, out_sizes)
    if computed is None:
        raise ValueError(
            f"the installed neuraloperator's layer from {sizes} to {out_sizes} points is not a known map: no rule; "
            "sciops.build_model('neuralop:…') corrects it"
        )
    cut: list[slice] = [slice(None)] * first
    for axis, (n, kept, most) in enumerate(zip(spectrum, conv.n_modes, conv.max_n_modes)):
        k = min(n, kept, most)
        centred = (most - k) // 2 if computed == "rolled" else most // 2 - k // 2
        start = centred if axis < len(spectrum) - 1 else 0
        cut.append(slice(start, start + k))
    weight = weight[tuple(cut)]
    kept = weight.shape[first:]
    positions = [np.arange(n)[n // 2 - k // 2 : n // 2 + k // 2 + k % 2] for n, k in zip(spectrum[:-1], kept[:-1])]
    positions.append(np.arange(kept[-1]))
    f = [p - n // 2 for p, n in zip(positions[:-1], sizes)] + [positions[-1]]
    t = f if computed == "sum" else [*map(_unmatched, positions[:-1], sizes, out_sizes), f[-1]]
    frequencies, targets = _product(f), _product(t)
    wide = torch.complex128 if dtype == torch.float64 else torch.complex64
    flat = (
        weight.to(wide)
        .movedim(tuple(range(first)), tuple(range(-first, 0)))
        .reshape(len(frequencies), *weight.shape[:first])
    )
    blocks = torch.diag_embed(flat) if conv.separable else flat.transpose(1, 2)
    points_in, points_out = math.prod(sizes), math.prod(out_sizes)
    power = {"forward": 0.0, "ortho": 0.5, "backward": 1.0}[conv.fft_norm]
    return FourierLayer(frequencies, targets, _on_grid(targets, out_sizes), blocks * (points_in / points_out) ** power)


_GONE = np.iinfo(np.int64).max // 4


def _unmatched(positions: np.ndarray, n: int, m: int) -> np.ndarray:
    """Frequencies after fftshift as its own inverse and an inverse transform of m points; `_GONE` where cut off."""
    index = (positions + n // 2) % n
    return np.where(index < m, np.where(index < m - m // 2, index, index - m), _GONE)


def _on_grid(targets: np.ndarray, sizes: Sequence[int]) -> np.ndarray:
    kept = 2 * targets[:, -1] <= sizes[-1]
    for axis, m in enumerate(sizes[:-1]):
        kept &= (targets[:, axis] >= -(m // 2)) & (targets[:, axis] < m - m // 2)
    return kept


def _product(axes: Sequence[np.ndarray]) -> np.ndarray:
    return np.stack([a.ravel() for a in np.meshgrid(*axes, indexing="ij")], axis=1)


def _class(frequencies: np.ndarray, sizes: Sequence[int]) -> np.ndarray:
    return np.ravel_multi_index(tuple((frequencies % np.array(sizes)).T), tuple(sizes))
