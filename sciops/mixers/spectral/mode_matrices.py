"""The matrices by which a spectral layer acts on its modes, read and written so that they are what acts on real fields.

The transforms are unitary, so the operator has orthonormal rows exactly where every matrix M_k has. A real field ties
frequencies together, M_{−k} = conj M_k.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from sciops.mixers.traits import Matrices


def mode_matrices(mixer: Any, shape: Sequence[int] | None, passes: bool) -> list[Matrices]:
    """The matrices of a `SpectralMixer`'s modes, in- by out-channels; `passes`: other modes meet 1, not 0.

    In column 0 of the half spectrum, and in the Nyquist column, the inverse transform keeps the part that a real field
    can have: R_k acts as ½(R_k + conj R_{−k}). That is what is read there, and written so that it is what acts; a row
    −k whose partner k is not kept meets zero, or the identity.
    """
    if mixer.symmetric:
        raise TypeError("SpectralMixer(symmetric=True): its matrices are tied in pairs; pass symmetric=False")
    if mixer.weights != "dense" or mixer.basis not in ("fourier", "sine") or mixer.compat_shift:
        raise TypeError(
            f"SpectralMixer(basis={mixer.basis!r}, weights={mixer.weights!r}, compat_shift={mixer.compat_shift}): "
            "orthogonal modes need basis 'fourier' or 'sine' (cosines at nodes are not orthonormal), weights='dense', "
            "and no shift"
        )
    weight = mixer.parts[0].weight
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
