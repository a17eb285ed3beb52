"""Which frequencies each layer of a model carries."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from torch import Tensor, nn

from sciops.arrays.kinds import as_tensor
from sciops.grids import Grid, check_on_grid
from sciops.spectral.modes import Extension, Taper
from sciops.spectral.power import Norm, Spectrum, power_spectrum, split_energy
from sciops.spectral.recording import Channels, watch


def layer_spectra(
    model: nn.Module,
    x: Any,
    grid: Grid,
    *,
    layers: Sequence[str] | None = None,
    modes: int | Sequence[int] | None = None,
    taper: Taper | None = None,
    extension: Extension | None = None,
    norm: Norm = "isotropic",
    channels: Channels = "auto",
) -> Any:
    """Power spectrum E_l(κ) of each layer's output, averaged over batch and channels.

    Parameters
    ----------
    model
        Any torch module from fields to fields; it is run once on x, in evaluation mode, and its state restored.
    x
        (batch, channel, *grid), numpy or torch; cast to the device and precision of the model's parameters.
    layers
        Labels to keep, with wildcards: ["lift", "blocks.*.mixer", "blocks.*.gelu"]. Labels are module paths; an
        activation called as a plain function is "path.gelu", the second one of a module "path.gelu#2". "input" is x,
        "output" what the model returns.
    modes
        K; adds the coordinate `energy_above`, the share of the energy about the mean with |k|∞ ≥ K.
    taper, extension, norm
        See `power_spectrum`. Hidden channels neither vanish at walls nor are periodic.
    channels
        Where a layer's channels are. "auto" finds the grid in the output's shape; where there are as many channels as
        points, the kind of module decides (Conv*: first; Linear, sciops mixers: last), else the layer before. "first"
        and "last" decide for every such case.

    Returns
    -------
    xarray.DataArray
        (layer, wavenumber) in the order of the computation, with coordinate `kind` (the class of the module or name of
        the function) and attributes `skipped` (one line for each layer whose output is not a field on the grid: padded,
        pooled, complex, …), `grid`, `norm`, `taper`, `extension`, `fundamental`.

    Raises
    ------
    ValueError
        x is not a field on the grid, or `layers` names a layer that the model does not have.
    """
    import xarray

    tensor, _ = as_tensor(x, "x")
    check_on_grid(tensor, grid, "x")

    def reduce(field: Tensor) -> tuple[Spectrum, float]:
        spectrum = power_spectrum(field, grid, taper=taper, extension=extension, norm=norm).mean()
        if modes is None:
            return spectrum, 0.0
        energy, unit = split_energy(field, grid, modes, taper, extension)
        energy = energy * (unit / unit.max()).square()
        _, below, above = energy.flatten(0, -2).mean(0).tolist()
        return spectrum, above / (below + above) if below + above else 0.0

    records = watch(model, tensor, grid, on_output=reduce, layers=layers, channels=channels)
    if not records.values:
        raise ValueError(f"no layer lives on the grid {grid.shape}: {'; '.join(records.skipped)}")
    spectra = [spectrum for spectrum, _ in records.values]
    coords = {
        "layer": records.labels,
        "wavenumber": spectra[0].wavenumber.cpu().numpy(),
        "kind": ("layer", records.kinds),
    }
    if modes is not None:
        coords["energy_above"] = ("layer", [above for _, above in records.values])
    return xarray.DataArray(
        np.stack([spectrum.energy.cpu().numpy() for spectrum in spectra]),
        dims=("layer", "wavenumber"),
        coords=coords,
        name="energy",
        attrs={
            "skipped": "\n".join(records.skipped),
            "grid": json.dumps(grid.to_dict()),
            "norm": norm,
            "taper": taper or "none",
            "extension": extension or "none",
            "fundamental": spectra[0].fundamental,
        },
    )
