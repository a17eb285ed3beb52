"""Errors split by wavenumber: bands whose squared errors add up to the whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from sciops.arrays.kinds import as_tensor
from sciops.arrays.scale import widened
from sciops.arrays.short import fields_text
from sciops.grids import Grid, check_on_grid
from sciops.spectral.modes import Extension, Taper, bands, energy_by_label, labelled, modes_of
from sciops.spectral.power import Norm, check_norm


@dataclass(frozen=True)
class BandErrors:
    """What `band_errors` found, per sample and band; arrays are of the kind of the prediction, float64.

    lower, upper : (bands,)              a band holds lower ≤ |k| < upper, in units of `fundamental`
    squared_error : (batch, bands)       Σ_{k∈b} |p̂ − û|²; its sum over the bands is the mean of (p − u)²
    relative_error : (batch, bands)      e_b = ‖p − u‖_b / ‖u‖_b; inf where only u's band is empty, 0 where both are
    target_energy, prediction_energy : (batch, bands)    ‖u‖_b² and ‖p‖_b²
    fundamental : float                  2π over the longest period, radians per unit length
    norm : str                           "isotropic", |k|₂, or "max", |k|∞
    """

    lower: Any
    upper: Any
    squared_error: Any
    relative_error: Any
    target_energy: Any
    prediction_energy: Any
    fundamental: float
    norm: Norm

    __repr__ = fields_text

    def to_xarray(self) -> Any:
        """The same numbers as an xarray.Dataset over (sample, band) with the bands' edges as coordinates."""
        import xarray

        values = {
            name: np.atleast_2d(_numpy(getattr(self, name)))
            for name in ("squared_error", "relative_error", "target_energy", "prediction_energy")
        }
        lower, upper = _numpy(self.lower), _numpy(self.upper)
        return xarray.Dataset(
            {name: (("sample", "band"), value) for name, value in values.items()},
            coords={
                "band": [f"[{a:g}, {b:g})" for a, b in zip(lower, upper)],
                "lower": ("band", lower),
                "upper": ("band", upper),
            },
            attrs={"norm": self.norm, "fundamental": self.fundamental},
        )


def band_errors(
    prediction: Any,
    target: Any,
    grid: Grid,
    edges: Sequence[float] | None = None,
    *,
    norm: Norm = "isotropic",
    taper: Taper | None = None,
    extension: Extension | None = None,
) -> BandErrors:
    """Relative and absolute errors by band of wavenumbers, per sample.

        e_b = (Σ_{k∈b} |p̂ − û|² / Σ_{k∈b} |û|²)^{½}    and    Σ_{k∈b} |p̂ − û|²

    Parameters
    ----------
    prediction, target
        (batch, ..., *grid), numpy or torch, one shape; axes between batch and grid (channels) are averaged. A field
        without leading axes is one sample and loses the batch axis in the result.
    edges
        Increasing wavenumbers that separate the bands, as |k| in units of 2π over the longest period: `band_edges`
        gives those of a resolution study. The bands always hold every mode: a lowest band down to 0 and a highest up
        to ∞ are added. Default: octaves 1, 2, 4, … (the lowest band is then the mean alone).
    norm, taper, extension
        See `power_spectrum`. Fields that do not vanish at the walls and are not periodic need a taper or an extension;
        without one, the jump of p − u counts as error at high wavenumbers.

    Raises
    ------
    ValueError
        The shapes differ, the edges do not increase, or taper or extension do not fit the grid.
    """
    p, restore = as_tensor(prediction, "prediction")
    u, _ = as_tensor(target, "target")
    if p.shape != u.shape:
        raise ValueError(f"prediction has shape {tuple(p.shape)} and target {tuple(u.shape)}; expected equal shapes")
    check_on_grid(p, grid, "prediction")
    check_norm(norm)
    modes = modes_of(grid, taper, extension)
    cuts = _cuts(edges, float(modes.magnitude(norm).max()))
    labels, count, _ = labelled(modes, bands, norm, cuts)

    def per_sample(v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Energies and their unit, means over the channels of a sample."""
        energy, unit = energy_by_label(v, modes, labels, count)
        energy = torch.nn.functional.pad(energy, (0, len(cuts) + 1 - count))
        if energy.ndim < 3:
            return energy, unit
        energy, unit = energy.flatten(1, -2), unit.flatten(1, -2)
        largest = unit.amax(1, keepdim=True)
        return (energy * (unit / largest).square()).mean(1), largest[:, 0]

    (error, e), (energy, s), (answer, r) = (per_sample(v) for v in (widened(p) - widened(u), u, p))
    return BandErrors(
        lower=restore(torch.tensor([0.0, *cuts], dtype=torch.float64, device=p.device)),
        upper=restore(torch.tensor([*cuts, float("inf")], dtype=torch.float64, device=p.device)),
        squared_error=restore(error * e * e),
        relative_error=restore(torch.where(error == 0, 0.0, error / energy).sqrt() * (e / s)),
        target_energy=restore(energy * s * s),
        prediction_energy=restore(answer * r * r),
        fundamental=modes.fundamental,
        norm=norm,
    )


def band_edges(
    fine: Grid, modes: int, coarse: Grid, *, taper: Taper | None = None, extension: Extension | None = None
) -> tuple[float, ...]:
    """(K, s/2, S/2): what the model's modes K, the training grid s and the test grid S can hold, on `fine`'s scale.

    The Nyquist wavenumber of a grid is π/h along its coarsest axis, which is n/2 in units of 2π/(n·h). Edges that do
    not increase (K beyond a Nyquist wavenumber, or s = S) are left out. Pass `taper` and `extension` as to
    `band_errors`, since the unit of the wavenumber depends on them.
    """
    unit = modes_of(fine, taper, extension).fundamental
    edges: list[float] = []
    for edge in (float(modes), *(np.pi / max(g.spacing) / unit for g in (coarse, fine))):
        if not edges or edge > edges[-1] + 1e-9:
            edges.append(round(edge, 9))
    return tuple(edges)


def _cuts(edges: Sequence[float] | None, highest: float) -> tuple[float, ...]:
    if edges is None:
        return tuple(float(1 << i) for i in range(max(1, int(np.log2(max(highest, 1.0))) + 1)))
    cuts = tuple(float(edge) for edge in edges)
    cuts = cuts[1:] if cuts[:1] == (0.0,) else cuts
    cuts = cuts[:-1] if cuts[-1:] == (float("inf"),) else cuts
    if not cuts or not all(0 <= a < b < float("inf") for a, b in zip((0.0, *cuts), cuts)):
        raise ValueError(f"edges={tuple(edges)}: expected positive, finite, increasing wavenumbers, such as (12, 42)")
    return cuts


def _numpy(x: Any) -> np.ndarray:
    return x.detach().cpu().numpy() if isinstance(x, torch.Tensor) else np.asarray(x)
