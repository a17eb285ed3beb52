"""Calling any torch model on a field, with or without a grid, and running it in evaluation mode."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from sciops.grids import Grid


def apply_model(model: nn.Module, x: Tensor, grid: Grid | None = None) -> Tensor:
    """A model's output: model(x, grid=grid) if its forward takes a grid, otherwise model(x).

    Parameters
    ----------
    model : nn.Module
        Any torch model; one wrapped in DistributedDataParallel or torch.compile is unwrapped to see what it takes.
    x : Tensor
        Field (batch, channels, *grid).
    grid : Grid, optional
        The grid of x.

    Raises
    ------
    TypeError
        For an x that is not a tensor.
    """
    check_tensor(x)
    if grid is not None and takes_grid(model):
        return model(x, grid=grid)
    return model(x)


def check_tensor(x: Any) -> None:
    """Raises TypeError, saying how to convert it, for an x that is not a torch tensor."""
    if not isinstance(x, Tensor):
        remedy = "torch.from_numpy(x)" if type(x).__module__ == "numpy" else "torch.as_tensor(x)"
        raise TypeError(f"x is {type(x).__module__}.{type(x).__name__}; expected a torch tensor: pass {remedy}")


def of_no_samples(model: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """model(x) of an empty batch, for parts of torch that refuse one: runs one zero sample and drops it."""
    return model(torch.cat([x, x.new_zeros(1, *x.shape[1:])]))[:0]


def takes_grid(model: nn.Module) -> bool:
    """Whether the model's forward has a parameter called grid."""
    return "grid" in inspect.signature(unwrapped(model).forward).parameters


def unwrapped(model: nn.Module) -> nn.Module:
    """The model inside DistributedDataParallel and torch.compile, or the model itself."""
    while True:
        inner = getattr(model, "_orig_mod", None)
        if inner is None and isinstance(model, (nn.DataParallel, nn.parallel.DistributedDataParallel)):
            inner = model.module
        if inner is None:
            return model
        model = inner


def grid_for(model: nn.Module, x: Tensor, grid: Grid | None = None) -> Grid:
    """The grid that x lies on: the given one, else by the model's own rule, else nodes of the unit box."""
    own = getattr(unwrapped(model), "grid_for", None)
    if own is not None:
        return own(x, grid)
    return grid if grid is not None else Grid(tuple(x.shape[2:]))


def wall_of(model: nn.Module) -> str:
    """ "zero" for a model whose output vanishes on the domain's wall by construction, "none" otherwise."""
    return getattr(unwrapped(model), "wall", "none")


def config_of(model: nn.Module) -> dict[str, Any]:
    """The model's `.config`, from which `load_model` builds it again; raises TypeError for models without one."""
    config = getattr(unwrapped(model), "config", None)
    if not (isinstance(config, dict) and set(config) >= {"name", "options"}):
        raise TypeError(
            f"{type(model).__name__} has no .config of the form {{'name', 'options'}}: only models of "
            "sciops.build_model and their wrappers can be saved"
        )
    return config


def real_dtype_of(model: nn.Module) -> torch.dtype | None:
    """The precision of the model's real fields: that of its first parameter of real or complex numbers, or None.

    complex64 counts as float32 and complex128 as float64: weights of Fourier modes multiply the spectra of real fields.
    Integer parameters (codes, indices) do not count.
    """
    for parameter in model.parameters():
        if parameter.is_floating_point() or parameter.is_complex():
            return parameter.dtype.to_real()
    return None


def placed_for(model: nn.Module, x: Tensor) -> Tensor:
    """The field x on the device and in the precision of the model's parameters; unchanged if there are none.

    A complex x stays complex, whatever the parameters are.
    """
    first, dtype = next(model.parameters(), None), real_dtype_of(model)
    if dtype is not None and x.is_complex():
        dtype = dtype.to_complex()
    return x if first is None else x.to(first.device, x.dtype if dtype is None else dtype)


def in_precision(model: nn.Module, dtype: torch.dtype) -> nn.Module:
    """The model itself, cast to float32 or float64, complex numbers to the complex type of that precision."""
    model = model.double() if dtype == torch.float64 else model.float()
    # both leave complex numbers as they are, and model.to(dtype) drops their imaginary parts
    for tensor in [*model.parameters(), *model.buffers()]:
        if tensor.is_complex():
            tensor.data = tensor.data.to(dtype.to_complex())
    return model


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Context manager: evaluation mode inside, and afterwards the mode that every module had."""
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes.items():
            module.training = mode
