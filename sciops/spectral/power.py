"""Power spectra by shells of the wavenumber that sum to the mean square."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch

from sciops.arrays.kinds import as_tensor
from sciops.arrays.short import fields_text
from sciops.grids import Grid, check_on_grid
from sciops.spectral.modes import Extension, Taper, above, energy_by_label, labelled, modes_of, shells

Norm = Literal["isotropic", "max"]


@dataclass(frozen=True)
class Spectrum:
    """Energy by shell of the wavenumber; unpacks as ``wavenumber, energy = spectrum``.

    wavenumber : (bins,)        κ = 0, 1, 2, … in units of `fundamental`; shell κ holds κ − ½ ≤ |k| < κ + ½
    energy : (..., bins)        float64, units of u²; the leading axes of the field
    modes : (bins,)             how many modes a shell holds: white noise has energy proportional to it
    fundamental : float         2π over the longest period, radians per unit length
    norm : str                  "isotropic", |k|₂, or "max", |k|∞
    """

    wavenumber: Any
    energy: Any
    modes: Any
    fundamental: float
    norm: Norm = "isotropic"

    __repr__ = fields_text

    def __iter__(self) -> Iterator[Any]:
        return iter((self.wavenumber, self.energy))

    def mean(self) -> Spectrum:
        """The spectrum averaged over every leading axis."""
        return replace(self, energy=self.energy.reshape(-1, self.energy.shape[-1]).mean(0))


def power_spectrum(
    u: Any, grid: Grid, *, taper: Taper | None = None, extension: Extension | None = None, norm: Norm = "isotropic"
) -> Spectrum:
    """Power spectrum of a field by shells of the wavenumber; its sum is the mean of u².

        E(κ) = Σ_{κ−½ ≤ |k| < κ+½} |û_k|²,    û = (1/N) Σ_x u(x) e^{−ik·x}

    Parameters
    ----------
    u
        (..., *grid), numpy or torch, real or complex; leading axes are kept, and ``.mean()`` of the result averages
        them. The FFT runs in u's precision, at least float32, on u over a power of two near its largest value; energies
        beyond the range of float64 (u of 1e-170 or 1e160) are 0 or inf.
    taper
        Treatment of the jump between opposite ends of a field that is not periodic (a jump produces a k⁻² tail).

        * None: the FFT of the n points, whose period is n·h. On a node grid that is n/(n − 1) times its extent, so that
          equal mode numbers on two node grids are different wavenumbers.
        * "hann": u times sin² windows of mean square one; ΣE is then the mean of u² weighted by the squared window. The
          period is the extent. The mean leaks into κ = 1 and 2: subtract it first if it is large.
    extension
        Continuation of the field past its walls, in place of a taper (node and cell grids that reach them).

        * "odd": sine modes, for fields that vanish there. Values on wall nodes are taken to be zero.
        * "even": cosine modes, for any field.

        Modes are half-waves: multiples of ½ in units of 2π/L, with L the extent. ΣE is the mean of u² (nodes: its
        trapezoid mean).
    norm
        "isotropic", |k|₂, or "max", |k|∞.

    Returns
    -------
    Spectrum
        Wavenumbers and energies, in the kind of u.

    Raises
    ------
    ValueError
        u is not a field on the grid, or taper or extension do not fit it.

    Notes
    -----
    The wavenumber is |k| in units of 2π over the longest period of the box (of a cube: integer index wavenumbers);
    along shorter axes modes are further apart. The modes in the corners, |k|₂ > n/2, have shells of their own at the
    end. Of the half spectrum along the last axis the columns k = 0 and, for even n, k = n/2 count once and all others
    twice.

    Examples
    --------
    >>> u = np.cos(2 * np.pi * 3 * Grid(16, centering="periodic").coordinates()[0])
    >>> wavenumber, energy = power_spectrum(u, Grid(16, centering="periodic"))
    >>> int(wavenumber[energy.argmax()]), round(float(energy.sum()), 12)
    (3, 0.5)
    """
    tensor, restore = as_tensor(u, "u")
    check_on_grid(tensor, grid, "u")
    check_norm(norm)
    modes = modes_of(grid, taper, extension)
    labels, count, members = labelled(modes, shells, norm)
    energy, unit = energy_by_label(tensor, modes, labels, count)
    wavenumber = torch.arange(count, dtype=torch.float64, device=tensor.device)
    counted = torch.from_numpy(members).to(tensor.device)
    return Spectrum(restore(wavenumber), restore(energy * unit * unit), restore(counted), modes.fundamental, norm)


def energy_above(
    u: Any,
    grid: Grid | None,
    modes: int | Sequence[int],
    *,
    taper: Taper | None = None,
    extension: Extension | None = None,
) -> Any:
    """Share of the energy about the mean that a truncation to fewer than K modes drops.

        h = Σ_{|k|∞ ≥ K} |û_k|² / Σ_{k ≠ 0} |û_k|²

    Parameters
    ----------
    u
        (..., *grid) field, or a `Spectrum`, whose own norm then decides what lies above (``norm="max"`` on a square
        grid without extension gives the same numbers as the field; `grid` may be None).
    modes
        K, or one per axis, in waves per period of that axis.
    taper, extension
        See `power_spectrum`.

    Returns
    -------
    array
        (...) in [0, 1]; 0 where u is constant.

    References
    ----------
    arXiv:2606.00677 studies these shares by layer; see `layer_spectra`.
    """
    if isinstance(u, Spectrum):
        if not isinstance(modes, (int, float, np.integer)):
            raise ValueError(f"modes={modes!r}: a spectrum has one wavenumber; pass one number, or the field itself")
        energy, restore = as_tensor(u.energy, "energy")
        wavenumber = as_tensor(u.wavenumber, "wavenumber")[0]
        return restore(_share(energy[..., wavenumber >= modes].sum(-1), energy[..., wavenumber > 0].sum(-1)))
    if grid is None:
        raise ValueError("grid=None: a field needs its grid; pass energy_above(u, grid, modes)")
    tensor, restore = as_tensor(u, "u")
    check_on_grid(tensor, grid, "u")
    _, below, beyond = split_energy(tensor, grid, modes, taper, extension)[0].unbind(-1)
    return restore(_share(beyond, below + beyond))


def split_energy(
    u: torch.Tensor, grid: Grid, modes: int | Sequence[int], taper: Taper | None, extension: Extension | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """(..., 3) energies: of the mean, of the modes below K on every axis, of the others; units as `energy_by_label`."""
    limits = (modes,) * grid.ndim if isinstance(modes, (int, float, np.integer)) else tuple(modes)
    if len(limits) != grid.ndim or min(limits) <= 0:
        raise ValueError(f"modes={modes!r}: expected a positive number, or one for each of the {grid.ndim} axes")
    kinds = modes_of(grid, taper, extension)
    labels, count, _ = labelled(kinds, above, tuple(float(m) for m in limits))
    energy, unit = energy_by_label(u, kinds, labels, count)
    return torch.nn.functional.pad(energy, (0, 3 - count)), unit


def _share(part: torch.Tensor, whole: torch.Tensor) -> torch.Tensor:
    return torch.where(whole > 0, part / whole.where(whole > 0, 1.0), 0.0)


def check_norm(norm: str) -> None:
    """Raises ValueError unless `norm` names a norm of the wavenumber."""
    if norm not in ("isotropic", "max"):
        raise ValueError(f"norm={norm!r}: expected 'isotropic', |k|₂, or 'max', |k|∞")
