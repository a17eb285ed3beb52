"""Calling any model: on a field, whether it knows grids or not, and in evaluation mode for a while."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from sciops.grids import Grid


def apply_model(model: nn.Module, x: Tensor, grid: Grid | None = None) -> Tensor:
    """model(x, grid=grid) where the model's forward takes a grid, model(x) for any other torch model.

    x : (batch, channels, *grid). Models inside DistributedDataParallel or torch.compile are looked through.

    Raises TypeError for an x that is not a tensor.
    """
    check_tensor(x)
    if grid is not None and takes_grid(model):
        return model(x, grid=grid)
    return model(x)


def check_tensor(x: Any) -> None:
    """Raises TypeError for what is not a torch tensor, naming how to make one of an array."""
    if not isinstance(x, Tensor):
        remedy = "torch.from_numpy(x)" if type(x).__module__ == "numpy" else "torch.as_tensor(x)"
        raise TypeError(f"x is {type(x).__module__}.{type(x).__name__}; expected a torch tensor: pass {remedy}")


def of_no_samples(model: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """model(x) of a batch of 0 for parts of torch that refuse one: that of one zero sample, less the sample."""
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
    Whole-number parameters (codes, indices) say nothing about precision.
    """
    for parameter in model.parameters():
        if parameter.is_floating_point() or parameter.is_complex():
            return parameter.dtype.to_real()
    return None


def placed_for(model: nn.Module, x: Tensor) -> Tensor:
    """The field x on the device of the model's parameters and in their precision; as it is where there are none.

    A complex x stays complex, whatever the parameters are: dropping its imaginary part is never meant.
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
    """Evaluation mode within, and afterwards every part in the mode that it had."""
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes.items():
            module.training = mode
