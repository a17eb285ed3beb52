"""`predict`: what a trained model says of fields, in the kind in which they were given."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from sciops.arrays.dimensions import LEADING, SPACE, by_name
from sciops.arrays.kinds import as_tensor, refuse_complex
from sciops.evaluation import rollout
from sciops.grids import Grid
from sciops.models.apply import apply_model, evaluating, grid_for, of_no_samples, placed_for
from sciops.trained.opening import Trained, open_trained, samples_at_once
from sciops.values import check_whole

if TYPE_CHECKING:
    import xarray as xr


def predict(
    model: nn.Module | str | os.PathLike,
    a: Any,
    grid: Grid | None = None,
    *,
    steps: int | None = None,
    batch_size: int | None = None,
    device: torch.device | str | None = None,
) -> Any:
    """Predicts fields with a trained model: numpy, torch or xarray in, the same kind out.

    The model runs batch by batch in evaluation mode, without a graph, in its own precision and on its own device; the
    normalisation of its training is part of it. Afterwards every module is in the mode in which it was.

    Parameters
    ----------
    model : torch.nn.Module, str or path-like
        A model; the folder of a ``sciops train`` run (its best model), of `fit` or of `save_model`; or a file in one of
        them, such as ``runs/train/last.safetensors``.
    a : array of numpy or torch, xarray.DataArray or xarray.Dataset
        Fields (batch, channels, *grid) in physical units. For a model of one input channel also (batch, *grid) and
        (*grid). The dimensions of a labelled array are named x, y, z, ``sample`` and any others, which are channels. Of
        a data set, such as `sciops.open_dataset` gives, the variables that the training took go in.
    grid : Grid, optional
        Where the fields lie. Default: what a labelled array states, else the model's own rule: the grid of its
        training, with another number of points where the fields have one.
    steps : int, optional
        For a model of one step of time (`sciops.models.Stepper`): number of steps that it runs on its own predictions.
        Of a data set default as many as it holds after the frames given.
    batch_size : int, optional
        Samples of a forward pass; default as many as hold 2¹⁸ points, at most 64.
    device : optional
        Where a model that is read from a folder runs; default the CPU.

    Returns
    -------
    array of the same kind, on the same device, in the same floating type
        (batch, channels, *grid), with `steps` (batch, steps, channels, *grid). Where `a` had no axis of channels and
        one channel comes out, the result has none either. A labelled array keeps its coordinates; a data set holds the
        predicted variables under the names of the training's targets.

    Raises
    ------
    ValueError
        For fields that fit neither model nor grid, complex or masked ones, `steps` for a model that does not step, and
        a folder without a model.
    TypeError
        For what is no model or no array.

    Examples
    --------
    >>> u = sciops.predict("runs/train", a)                                                  # doctest: +SKIP
    >>> forecast = sciops.predict("runs/train_ns", sciops.open_dataset("ns.h5"), steps=20)   # doctest: +SKIP
    """
    if batch_size is not None:
        check_whole(batch_size=batch_size)
    trained = open_trained(model, device=device)
    kind = type(a).__name__ if type(a).__module__.startswith("xarray") else ""
    if kind == "Dataset":
        return _of_dataset(trained, a, grid, steps, batch_size)
    if kind == "DataArray":
        return _of_labelled(trained, a, grid, steps, batch_size)
    refuse_complex(a, "a")
    x, restore = as_tensor(a, "a")
    return restore(_predicted(trained, x, grid, steps, batch_size))


def _predicted(trained: Trained, x: Tensor, grid: Grid | None, steps: int | None, batch_size: int | None) -> Tensor:
    """Of fields with or without axes of samples and channels."""
    missing = _missing_axes(trained, x, grid)
    for axis in range(missing):
        x = x.unsqueeze(1 if axis == 0 and missing == 1 else 0)
    size = batch_size or samples_at_once(x.shape[2:].numel())
    parts = [part.to(x.device, x.dtype) for part in _batches(trained.model, x, grid, steps, size)]
    y = torch.cat(parts)
    channel = 1 if steps is None else 2
    if missing and y.ndim > channel and y.shape[channel] == 1:
        y = y.squeeze(channel)
    return y.squeeze(0) if missing == 2 else y


def _batches(model: nn.Module, x: Tensor, grid: Grid | None, steps: int | None, size: int) -> Iterator[Tensor]:
    def run(part: Tensor) -> Tensor:
        if steps is None:
            return apply_model(model, placed_for(model, part), grid)
        return rollout(model, part, grid, steps=steps)

    with torch.no_grad(), evaluating(model):
        if not len(x):
            yield of_no_samples(run, x)
        for start in range(0, len(x), size):
            yield run(x[start : start + size])


def _missing_axes(trained: Trained, x: Tensor, grid: Grid | None) -> int:
    """Number of axes before the grid, samples and channels, that x lacks: 0, 1 (channels) or 2 (both)."""
    axes = grid.ndim if grid is not None else trained.axes
    if axes is None:
        return 0
    missing, channels = axes + 2 - x.ndim, trained.channels("in")
    if missing == 0 or (missing in (1, 2) and channels in (None, 1)):
        return missing
    expected = f"(batch, {'channels' if channels is None else channels}, *grid) with {axes} grid axes"
    raise ValueError(f"a has shape {tuple(x.shape)}; expected {expected}")


def _of_labelled(
    trained: Trained, a: xr.DataArray, grid: Grid | None, steps: int | None, batch_size: int | None
) -> xr.DataArray:
    import xarray as xr

    refuse_complex(a, "a")
    a = by_name(a)
    space = [dim for dim in SPACE if dim in a.dims]
    if not space:
        raise ValueError(
            f"a has the dimensions {', '.join(map(str, a.dims))}: expected x, y, z for space; name them so, "
            "a.rename({'lon': 'x', …})"
        )
    x, _ = as_tensor(a.values, "a")
    others = [dim for dim in a.dims if dim not in (*space, "sample")]
    lead = len(x) if "sample" in a.dims else 1
    x = x.reshape(lead, -1 if x.numel() else 1, *x.shape[x.ndim - len(space) :])
    grid = grid if grid is not None else _stated_grid(trained, a, x, space)
    y = _predicted(trained, x, grid, steps, batch_size)
    dims: list[str] = ["sample"] + ["step"] * (steps is not None) + ["channel"] + space[: y.ndim - 2]
    if y.ndim != len(dims):
        raise ValueError(f"the model gives {tuple(y.shape)}, which is not a field on the grid of a; pass an array")
    out = xr.DataArray(y.numpy(), dims=dims, name=_name(trained, y.shape[dims.index("channel")]))
    if y.shape[dims.index("channel")] == 1 and not (set(others) - set(LEADING)):
        out = out.squeeze("channel")
    if "sample" not in a.dims:
        out = out.squeeze("sample")
    kept = {name: one for name, one in a.coords.items() if set(one.dims) <= set(out.dims) - {"channel", "step"}}
    out = out.assign_coords(kept | ({"step": np.arange(1, steps + 1)} if steps is not None else {}))
    return out.assign_attrs({"grid": a.attrs["grid"]} if "grid" in a.attrs else {})


def _name(trained: Trained, channels: int) -> str:
    state = list(trained.config.get("state") or ())
    return str(state[0]) if len(state) == 1 and channels == 1 else "u"


def _stated_grid(trained: Trained, a: xr.DataArray, x: Tensor, space: list[str]) -> Grid | None:
    """The grid that the array states; else None, where its positions are those of the model's own rule."""
    from sciops.datasets.conventions import grid_of

    if "grid" in a.attrs or all("centering" in a[dim].attrs for dim in space if dim in a.coords):
        if "grid" in a.attrs or all(dim in a.coords for dim in space):
            return grid_of(a.to_dataset(name="a"), "a")
    own = grid_for(trained.model, placed_for(trained.model, x), None)
    for dim, points, spacing in zip(space, own.coordinates(), own.spacing):
        if dim in a.coords and not np.allclose(a[dim].values, points, rtol=0, atol=1e-3 * spacing):
            low, high = float(a[dim].values[0]), float(a[dim].values[-1])
            raise ValueError(
                f"{dim} of a lies at {low:g} … {high:g}, the model takes {points[0]:g} … {points[-1]:g} for this "
                "number of points: pass grid=sciops.Grid(...), which says where the points and the walls are"
            )
    return None


def _of_dataset(
    trained: Trained, a: xr.Dataset, grid: Grid | None, steps: int | None, batch_size: int | None
) -> xr.Dataset:
    from sciops.datasets.conventions import with_grid
    from sciops.trained.labelled import dataset_of, fields_of
    from sciops.trained.problem import open_problem

    problem = open_problem(trained, a if grid is None else with_grid(a, grid), steps=steps)
    values = torch.cat([problem.predict(numbers) for numbers in problem.batches(batch_size)])
    result = dataset_of(problem, fields_of(problem, {"": values.numpy()}), a).drop_vars("sample")
    return result.assign_coords({name: one for name, one in a.coords.items() if one.dims == ("sample",)})
