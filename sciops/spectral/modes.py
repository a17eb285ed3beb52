"""Modes of a field on a grid: the transforms behind every spectrum, and sums of |coefficient|² over labelled modes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from sciops import bases
from sciops.arrays.compiling import kept
from sciops.arrays.scale import power_of_two, widened
from sciops.bases import Basis
from sciops.grids import Grid

Taper = Literal["hann"]
Extension = Literal["odd", "even"]

_TIE = 1e-9  # wavenumbers closer than this to a shell's or band's edge lie on it
_CHUNK = 1 << 19  # points transformed at once: enough to hide the call, few enough to keep the peak near the input
_SLAB = 1 << 16  # modes squared and summed at once, which stay in the cache: of 256³ modes in 0.6 of the time


@dataclass(frozen=True)
class Modes:
    """The modes of a real field: Fourier (half spectrum), or sine/cosine on the extension past the walls.

    axes : the modes along each axis, over the points that enter the transform
    ratios : longest period over this axis's period; |k| in units of `fundamental` is ‖(ratio_i k_i)_i‖
    fundamental : 2π over the longest period, radians per unit length
    """

    axes: tuple[Basis, ...]
    taper: Taper | None
    ratios: tuple[float, ...]
    fundamental: float

    @property
    def ndim(self) -> int:
        return len(self.axes)

    def wavenumbers(self) -> tuple[np.ndarray, ...]:
        """Signed waves per period along each axis, in the order of `coefficients`; halves occur with an extension."""
        *rows, last = self.axes
        if last.kind != "fourier":
            return tuple(axis.numbers / 2 for axis in self.axes)
        return *(bases.fourier_numbers(axis.n, half=False) for axis in rows), last.numbers

    def multiplicity(self) -> np.ndarray:
        """Number of modes of the full spectrum that a column of the last axis represents.

        Two (k and −k), except the column k = 0 and, for even n, the Nyquist column k = n/2, which hold both of their
        own; one throughout with an extension, whose coefficients are real.
        """
        last = self.axes[-1].multiplicity()
        return last if self.axes[-1].kind == "fourier" else np.ones_like(last)

    def magnitude(self, norm: str) -> np.ndarray:
        """|k| (``isotropic``) or max_i |k_i| (``max``) of every mode, in units of `fundamental`."""
        total = np.zeros((1,) * self.ndim)
        for axis, (k, ratio) in enumerate(zip(self.wavenumbers(), self.ratios)):
            k = np.abs(k * ratio).reshape([-1 if i == axis else 1 for i in range(self.ndim)])
            total = np.maximum(total, k) if norm == "max" else total + k * k
        return total if norm == "max" else np.sqrt(total)


def modes_of(grid: Grid, taper: Taper | None = None, extension: Extension | None = None) -> Modes:
    """The modes that `taper` and `extension` give on `grid`. Raises ValueError when they do not fit it."""
    if taper not in (None, "hann"):
        raise ValueError(f"taper={taper!r}: expected None or 'hann'")
    if extension not in (None, "odd", "even"):
        raise ValueError(f"extension={extension!r}: expected None, 'odd' (sine) or 'even' (cosine)")
    if taper and extension:
        raise ValueError("taper and extension both given; an extension leaves no jump for a taper to hide: pass one")
    if extension:
        if grid.centering == "periodic":
            raise ValueError(f"extension={extension!r} needs walls, and the grid is periodic; pass extension=None")
        if not grid.reaches_walls:
            raise ValueError(
                f"extension={extension!r} needs points up to the walls, and the grid ends at {grid.extent} inside "
                f"{grid.domain}; resample to a grid that reaches them first"
            )
        if extension == "odd" and grid.centering == "node" and min(grid.shape) < 3:
            raise ValueError(f"extension='odd' needs an interior node per axis, and the grid has {grid.shape}")
        kind: bases.Kind = "sine" if extension == "odd" else "cosine"
        axes = [Basis(kind, n, grid.centering, b - a) for n, (a, b) in zip(grid.shape, grid.extent)]
    else:
        # a taper vanishes at both ends, so that the last node repeats the first one
        repeated = 1 if taper and grid.centering == "node" else 0
        if taper and min(grid.shape) - repeated < 2:
            raise ValueError(f"taper='hann' needs at least two points per axis, and the grid has {grid.shape}")
        centering: bases.Centering = "cell" if grid.centering == "cell" else "periodic"
        axes = [Basis("fourier", n - repeated, centering, (n - repeated) * h) for n, h in zip(grid.shape, grid.spacing)]
    longest = max(axis.length for axis in axes)
    ratios = tuple(round(longest / axis.length, 9) for axis in axes)
    return Modes(tuple(axes), taper, ratios, 2 * math.pi / longest)


def coefficients(u: Tensor, modes: Modes) -> Tensor:
    """Coefficients of a real u (..., *grid): complex half spectrum in the forward norm, or real sine/cosine ones.

    Orthonormal in the mean square: Σ multiplicity·|c|² is the mean of u² over the points — with an extension on nodes
    its trapezoid mean, with a taper w the mean of (wu)² over that of w².
    """
    u = widened(u)
    first = u.ndim - modes.ndim
    for axis, basis in enumerate(modes.axes, start=first):
        along = [-1 if i == axis else 1 for i in range(u.ndim)]
        if basis.kind != "fourier":
            u = basis.analysis(u, axis) * torch.from_numpy(np.sqrt(basis.multiplicity())).to(u).reshape(along)
        elif modes.taper is not None:
            hann = np.sin(np.pi * bases.points(basis.n, basis.centering)) ** 2
            w = torch.from_numpy(hann / np.sqrt(np.mean(hann**2))).to(u)
            u = u.narrow(axis, 0, basis.n) * w.reshape(along)
    if modes.axes[0].kind != "fourier":
        return u
    return torch.fft.rfftn(u, dim=tuple(range(first, u.ndim)), norm="forward")


def energy_by_label(u: Tensor, modes: Modes, labels: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Σ |coefficient of u / unit|² over the modes of each label, and the unit, a power of two for each field.

    u : (..., *grid)    real or complex
    labels : from `labelled`
    returns : energies (..., count) and units (..., 1), float64: the energies of u are energies · unit²

    Coefficients of u / unit are at most 1 where those of u would leave the range of its squares; one whose square
    still underflows lies far below the rounding errors of the transform. Leading entries are transformed a few at a
    time, so that the peak of memory stays near the size of u.
    """
    lead = u.shape[: u.ndim - modes.ndim]
    unit = power_of_two(u, tuple(range(len(lead), u.ndim)))
    # label sets are symmetric under k → −k, where the cross terms of the two parts of a complex field cancel
    parts = (u.real, u.imag) if u.is_complex() else (u,)
    energies = [_energies(part, unit, modes, labels, count) for part in parts]
    energy = energies[0] if len(parts) == 1 else energies[0] + energies[1]
    return energy.reshape(*lead, count), unit.double().reshape(*lead, 1)


def _energies(u: Tensor, unit: Tensor, modes: Modes, labels: Tensor, count: int) -> Tensor:
    rows, units = (v.reshape(-1, *v.shape[v.ndim - modes.ndim :]) for v in (u, unit))
    labels = labels.to(u.device)
    step = max(1, _CHUNK // math.prod(axis.n for axis in modes.axes))
    # elsewhere a call costs more than a cache saves
    width = max(1, _SLAB // min(step, max(1, len(rows)))) if u.device.type == "cpu" else len(labels)
    sums = [u.new_zeros(0, count, dtype=torch.float64)]
    for start in range(0, len(rows), step):
        c = coefficients(rows[start : start + step] / units[start : start + step], modes).flatten(1)
        total = torch.zeros(len(c), 2 * count, dtype=torch.float64, device=u.device)
        for slab, label in zip(c.split(width, 1), labels.split(width)):
            energy = torch.addcmul(slab.real.square(), slab.imag, slab.imag) if c.is_complex() else slab.square()
            total.index_add_(1, label, energy.to(torch.float64))
        sums.append(total[:, :count] + 2 * total[:, count:])
    return torch.cat(sums)


@kept(16)
def labelled(modes: Modes, rule: Callable[..., np.ndarray], *arguments) -> tuple[Tensor, int, np.ndarray]:
    """(labels for `energy_by_label`, their number, how many modes each has) for ``rule(modes, *arguments)``.

    Modes that count twice carry label + number, so that no pass over the energies is spent on weights.
    """
    label = rule(modes, *arguments)
    count = int(label.max()) + 1
    multiplicity = np.broadcast_to(modes.multiplicity(), label.shape)
    members = np.bincount(label.ravel(), weights=multiplicity.ravel(), minlength=count).astype(np.int64)
    label = label + count * (multiplicity == 2)
    return torch.from_numpy(label.ravel()), count, members


def shells(modes: Modes, norm: str) -> np.ndarray:
    """Label κ of the shell [κ − ½, κ + ½) that holds each mode's wavenumber."""
    return np.floor(modes.magnitude(norm) + (0.5 + _TIE)).astype(np.int64)


def bands(modes: Modes, norm: str, edges: tuple[float, ...]) -> np.ndarray:
    """Label b of the band [edge_{b−1}, edge_b) that holds each mode; the first is open below, the last above."""
    return np.searchsorted(np.asarray(edges), modes.magnitude(norm) + _TIE, side="right")


def above(modes: Modes, limits: tuple[float, ...]) -> np.ndarray:
    """Label 0 for the mean, 1 for modes below the limits on every axis, 2 for the others."""
    beyond, zero = np.zeros((1,) * modes.ndim, dtype=bool), np.ones((1,) * modes.ndim, dtype=bool)
    for axis, (k, limit) in enumerate(zip(modes.wavenumbers(), limits)):
        k = np.abs(k).reshape([-1 if i == axis else 1 for i in range(modes.ndim)])
        beyond, zero = beyond | (k + _TIE >= limit), zero & (k == 0)
    return np.where(zero, 0, np.where(beyond, 2, 1))
