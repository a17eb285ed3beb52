"""Fields as feature vectors: the fields themselves, their spectra, activations of an operator, input with output."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from sciops.arrays.kinds import as_tensor, like, refuse_complex
from sciops.arrays.scale import widened
from sciops.grids import Grid, check_on_grid
from sciops.spectral import power_spectrum
from sciops.spectral.recording import watch

_LEAST = 1e-300  # below every energy of float64 that is not 0


def field_features(u: Any, grid: Grid, *, units: Any = None) -> Any:
    """The fields themselves, so that the distance of two feature vectors is the L² distance of the fields.

        f_i = √w_i u(x_i) / unit,    ‖f − g‖² = ⟨(u − v)²⟩

    Parameters
    ----------
    u : array (samples, *grid) or (samples, channels, *grid)
        numpy or torch, real.
    grid : Grid
        Its quadrature weights w, divided by their sum, make fields of any number of points comparable.
    units : array (channels,), optional
        Divides every channel, see `channel_units`; the channels of the reference and of the generated fields need the
        same ones. Default 1.

    Returns
    -------
    array (samples, channels · points)
        In the kind, device and precision of u, half precision in float32.

    Raises
    ------
    ValueError
        u is not a set of real fields on the grid, or the units do not fit its channels.
    """
    fields = _fields(u, grid)
    if units is not None:
        scale = as_tensor(units, "units")[0].to(fields).reshape(-1)
        if len(scale) != fields.shape[1] or not bool(((scale > 0) & torch.isfinite(scale)).all()):
            raise ValueError(
                f"units has {len(scale)} entries: expected {fields.shape[1]} numbers above 0, one a channel"
            )
        fields = fields / scale[:, None]
    return like(u, (fields * _weights(grid, fields).sqrt()).flatten(1))


def channel_units(u: Any, grid: Grid) -> Any:
    """Root mean square fluctuation of every channel about its mean field, (channels,); 1 where a channel is constant.

    Of the reference fields, they are the `units` in which channels of different physical units are comparable.
    Parameters and errors as `field_features`.
    """
    fields = _fields(u, grid)
    moved = fields - fields.mean(0)
    size = ((moved.square() * _weights(grid, fields)).sum(-1).mean(0)).sqrt()
    return like(u, torch.where(size > 0, size, 1.0))


def spectrum_features(u: Any, grid: Grid, *, floor: float = 1e-12, **options: Any) -> Any:
    """Logarithms of the energy by shell of the wavenumber, and the moments of the values, channel by channel.

        log10 max(E(κ), floor·ΣE) for all κ;  mean, standard deviation, skewness and excess kurtosis over space

    They do not change when a periodic field is shifted. Units differ between the entries: pass ``normalize="zscore"``
    to `prepared`.

    Parameters
    ----------
    u, grid
        As in `field_features`.
    floor : float
        Least share of the energy of a field that is told apart, above its round-off.
    **options
        Of `sciops.spectral.power_spectrum`, such as ``extension="even"`` for fields between walls.

    Returns
    -------
    array (samples, channels · (shells + 4))
        In the kind and device of u; a constant field has skewness and kurtosis 0, the energy of a field of zeros is
        counted as 1e-300.

    Raises
    ------
    ValueError
        As `field_features`, for a floor outside 0 < floor < 1, and as `power_spectrum`.
    """
    if not 0 < floor < 1:
        raise ValueError(f"floor={floor!r}: expected a share between 0 and 1, such as 1e-12")
    fields = _fields(u, grid)
    energy = power_spectrum(fields.unflatten(-1, grid.shape), grid, **options).energy
    least = (floor * energy.sum(-1, keepdim=True)).clamp_min(_LEAST)
    logarithms = torch.log10(torch.maximum(energy, least))
    w = _weights(grid, fields).double()
    wide = fields.double()
    mean = (wide * w).sum(-1, keepdim=True)
    moved = wide - mean
    deviation = (moved.square() * w).sum(-1, keepdim=True).sqrt()
    still = deviation <= 8 * torch.finfo(fields.dtype).eps * wide.abs().amax(-1, keepdim=True)
    unit = moved / torch.where(still, torch.inf, deviation)
    third, fourth = ((unit**power * w).sum(-1, keepdim=True) for power in (3, 4))
    moments = [mean, deviation, third, torch.where(still, 0.0, fourth - 3)]
    return like(u, torch.cat([logarithms, *moments], -1).flatten(1).to(fields.dtype))


def activation_features(
    model: nn.Module, x: Any, grid: Grid, *, layer: str | None = None, pool: bool = True, batch_size: int = 64
) -> Any:
    """Activations of a frozen operator at fields that it takes: what one of its layers says of them.

    Never take the model that is judged: its own features flatter its own samples.

    Parameters
    ----------
    model : nn.Module
        Any operator on (batch, channels, *grid); run in evaluation mode, without a graph, its state restored.
    x : array (samples, channels, *grid)
        numpy or torch; cast to the device and precision of the model.
    grid : Grid
        Of the fields.
    layer : str, optional
        Label as `sciops.spectral.layer_spectra` shows it, "blocks.2.mixer". Default the last one with more
        channels than the output.
    pool : bool
        Mean and standard deviation of every channel over space; False keeps all points, weighted as in
        `field_features`.
    batch_size : int
        Samples of a forward pass.

    Returns
    -------
    array (samples, features)
        In the kind and device of x, and the precision of the model.

    Raises
    ------
    ValueError
        x is not a set of fields on the grid, or the model has no such layer, or several of that label.
    """
    refuse_complex(x, "x")
    tensor = as_tensor(x, "x")[0]
    check_on_grid(tensor, grid, "x")
    if tensor.ndim != grid.ndim + 2 or not len(tensor):
        raise ValueError(f"x has shape {tuple(tensor.shape)}: expected (samples, channels, *{grid.shape})")
    if batch_size < 1:
        raise ValueError(f"batch_size={batch_size!r}: expected at least 1")

    def keep(field: Tensor) -> tuple[int, Tensor]:
        flat = widened(field.detach().flatten(2))
        w = _weights(grid, flat)
        channels = flat.shape[1]
        if not pool:
            return channels, (flat * w.sqrt()).flatten(1)
        mean = (flat * w).sum(-1)
        deviation = ((flat - mean[..., None]).square() * w).sum(-1).sqrt()
        return channels, torch.cat([mean, deviation], 1)

    parts = []
    for part in tensor.split(batch_size):
        records = watch(model, part, grid, on_output=keep, layers=None if layer is None else [layer])
        if layer is None and records.values:
            least = records.values[-1][0]
            wide = [features for channels, features in records.values[1:-1] if channels > least]
            found = wide[-1:] or [features for _, features in records.values[1:-1]][-1:]
        else:
            found = [features for _, features in records.values]
        if len(found) != 1:
            there = ", ".join(records.labels) or "; ".join(records.skipped)
            raise ValueError(f"layer={layer!r}: expected one layer on the grid {grid.shape}, got {there or 'none'}")
        parts.append(found[0])
    return like(x, torch.cat(parts).to(tensor.device))


def joint_features(inputs: Any, outputs: Any, *, weight: float = 1.0) -> Any:
    """Features of input and output in one vector, [φ(a), weight·φ(u)], for models of u given a.

    Outputs alone cannot tell a model that gives the right fields for the wrong inputs.

    Parameters
    ----------
    inputs, outputs : array (samples, features)
        Features of both, such as those of `field_features`, row by row of one pair.
    weight : float
        Of the outputs; `joint_weight` balances both.

    Returns
    -------
    array (samples, features of both)
        In the kind of the inputs.

    Raises
    ------
    ValueError
        The numbers of samples differ, or the weight is not a finite number above 0.
    """
    if not 0 < weight < math.inf:
        raise ValueError(f"weight={weight!r}: expected a finite number above 0")
    a, u = (_matrix(value, name) for name, value in (("inputs", inputs), ("outputs", outputs)))
    if len(a) != len(u):
        raise ValueError(f"inputs has {len(a)} samples, outputs {len(u)}: expected pairs")
    return like(inputs, torch.cat([a, weight * u.to(a)], 1))


def joint_weight(inputs: Any, outputs: Any) -> float:
    """Weight at which inputs and outputs of the reference vary alike, √(Σ var φ(a) / Σ var φ(u)).

    Of the reference pairs, for `joint_features` of both clouds. Raises ValueError where one of both is constant.
    """
    sizes = [
        float(_matrix(v, name).var(0, correction=0).sum()) for name, v in (("inputs", inputs), ("outputs", outputs))
    ]
    if not min(sizes) > 0:
        raise ValueError(f"variances {sizes[0]:g} of the inputs and {sizes[1]:g} of the outputs: expected both above 0")
    return math.sqrt(sizes[0] / sizes[1])


def _matrix(value: Any, name: str) -> Tensor:
    refuse_complex(value, name)
    tensor = widened(as_tensor(value, name)[0].detach())
    if tensor.ndim != 2:
        raise ValueError(f"{name} has shape {tuple(tensor.shape)}: expected features (samples, features)")
    return tensor


def _fields(u: Any, grid: Grid) -> Tensor:
    """(samples, channels, points), half precision in float32."""
    refuse_complex(u, "u")
    tensor = widened(as_tensor(u, "u")[0].detach())
    check_on_grid(tensor, grid, "u")
    if tensor.ndim not in (grid.ndim + 1, grid.ndim + 2) or not tensor.numel():
        raise ValueError(
            f"u has shape {tuple(tensor.shape)}: expected (samples, *{grid.shape}), or with channels after the samples"
        )
    return tensor.reshape(len(tensor), -1, grid.size)


def _weights(grid: Grid, fields: Tensor) -> Tensor:
    """(points,) quadrature weights of sum 1."""
    w = torch.as_tensor(grid.weights().ravel(), dtype=torch.float64)
    return (w / w.sum()).to(fields.device, fields.dtype)
