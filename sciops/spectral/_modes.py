"""Modes of a field on a grid: the transforms behind every spectrum, and sums of |coefficient|² over labelled modes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from sciops._compiling import kept
from sciops._scale import power_of_two, widened
from sciops.grids import Grid

Taper = Literal["hann"]
Extension = Literal["odd", "even"]

_TIE = 1e-9  # wavenumbers closer than this to a shell's or band's edge lie on it
_CHUNK = 1 << 19  # points transformed at once: enough to hide the call, few enough to keep the peak near the input
_SLAB = 1 << 16  # modes squared and summed at once, which stay in the cache: of 256³ modes in 0.6 of the time


@dataclass(frozen=True)
class Modes:
    """The modes of a real field: Fourier (half spectrum), or sine/cosine on the extension past the walls.

    points : points per axis that enter the transform
    ratios : longest period over this axis's period; |k| in units of `fundamental` is ‖(ratio_i k_i)_i‖
    fundamental : 2π over the longest period, radians per unit length
    """

    points: tuple[int, ...]
    centering: str
    taper: Taper | None
    extension: Extension | None
    ratios: tuple[float, ...]
    fundamental: float

    @property
    def ndim(self) -> int:
        return len(self.points)

    def wavenumbers(self) -> tuple[np.ndarray, ...]:
        """Signed waves per period along each axis, in the order of `coefficients`; halves occur with an extension."""
        return tuple(self._axis(n, half=axis == self.ndim - 1) for axis, n in enumerate(self.points))

    def _axis(self, n: int, half: bool) -> np.ndarray:
        if self.extension is None:
            return np.arange(n // 2 + 1.0) if half else np.rint(np.fft.fftfreq(n) * n)
        if self.extension == "even":
            return np.arange(n) / 2
        return np.arange(1, n - 1 if self.centering == "node" else n + 1) / 2

    def multiplicity(self) -> np.ndarray:
        """How many modes of the full spectrum a column of the last axis stands for.

        Two (k and −k), except the column k = 0 and, for even n, the Nyquist column k = n/2, which hold both of their
        own; one throughout with an extension, whose coefficients are real.
        """
        last = self.wavenumbers()[-1]
        if self.extension is not None:
            return np.ones(len(last), dtype=np.int64)
        n = self.points[-1]
        return np.where((last == 0) | (2 * last == n), 1, 2)

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
    points, periods = grid.shape, [n * h for n, h in zip(grid.shape, grid.spacing)]
    if extension:
        if grid.centering == "periodic":
            raise ValueError(f"extension={extension!r} needs walls, and the grid is periodic; pass extension=None")
        if not grid.reaches_walls:
            raise ValueError(
                f"extension={extension!r} needs points up to the walls, and the grid ends at {grid.extent} inside "
                f"{grid.domain}; resample to a grid that reaches them first"
            )
        if extension == "odd" and grid.centering == "node" and min(points) < 3:
            raise ValueError(f"extension='odd' needs an interior node per axis, and the grid has {points}")
        periods = [b - a for a, b in grid.extent]
    elif taper:
        if grid.centering == "node":  # the taper vanishes at both ends, so the last node repeats the first
            points, periods = tuple(n - 1 for n in points), [b - a for a, b in grid.extent]
        if min(points) < 2:
            raise ValueError(f"taper='hann' needs at least two points per axis, and the grid has {grid.shape}")
    longest = max(periods)
    ratios = tuple(round(longest / period, 9) for period in periods)
    return Modes(points, grid.centering, taper, extension, ratios, 2 * math.pi / longest)


def coefficients(u: Tensor, modes: Modes) -> Tensor:
    """Coefficients of a real u (..., *grid): complex half spectrum in the forward norm, or real sine/cosine ones.

    Orthonormal in the mean square: Σ multiplicity·|c|² is the mean of u² over the points — with an extension on nodes
    its trapezoid mean, with a taper w the mean of (wu)² over that of w².
    """
    u = widened(u)
    first = u.ndim - modes.ndim
    if modes.extension is not None:
        for axis in range(first, u.ndim):
            u = _reflected_transform(u, axis, modes)
        return u
    if modes.taper is not None:
        for axis, n in enumerate(modes.points, start=first):
            x = torch.arange(n, device=u.device, dtype=torch.float64) + (0.5 if modes.centering == "cell" else 0.0)
            w = torch.sin(torch.pi * x / n).square()
            w = (w / w.square().mean().sqrt()).to(u.dtype)
            u = u.narrow(axis, 0, n) * w.reshape([-1 if i == axis else 1 for i in range(u.ndim)])
    return torch.fft.rfftn(u, dim=tuple(range(first, u.ndim)), norm="forward")


def _reflected_transform(u: Tensor, axis: int, modes: Modes) -> Tensor:
    """Sine or cosine coefficients along one axis, from the FFT of the odd or even reflection at both walls."""
    n = u.shape[axis]
    odd, nodes = modes.extension == "odd", modes.centering == "node"
    if nodes:
        inside = u.narrow(axis, 1, n - 2)
        if odd:
            wall = torch.zeros_like(u.narrow(axis, 0, 1))
            reflected = torch.cat([wall, inside, wall, -inside.flip(axis)], axis)
        else:
            reflected = torch.cat([u, inside.flip(axis)], axis)
        period, lowest, highest = 2 * (n - 1), (1 if odd else 0), (n - 2 if odd else n - 1)
    else:
        reflected = torch.cat([u, -u.flip(axis) if odd else u.flip(axis)], axis)
        period, lowest, highest = 2 * n, (1 if odd else 0), (n if odd else n - 1)
    c = torch.fft.rfft(reflected, dim=axis, norm="forward").narrow(axis, lowest, highest - lowest + 1)
    along = [-1 if i == axis else 1 for i in range(u.ndim)]
    p = torch.arange(lowest, highest + 1, device=u.device, dtype=torch.float64)
    if not nodes:  # the reflection is symmetric about −½, half a cell before the first centre
        c = c * torch.polar(torch.ones_like(p), -torch.pi * p / period).to(c.dtype).reshape(along)
    # ±p share a coefficient, except the mean and the mode that alternates from point to point
    weight = torch.where((p == 0) | (2 * p == period), 1.0, torch.full_like(p, 2).sqrt()).to(u.dtype).reshape(along)
    return weight * (-c.imag if odd else c.real)


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
    step = max(1, _CHUNK // math.prod(modes.points))
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
