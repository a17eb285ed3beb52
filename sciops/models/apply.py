"""Calling any model: on a field, whether it knows grids or not, and in evaluation mode for a while."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn

from sciops.grids import Grid


def apply_model(model: nn.Module, x: Tensor, grid: Grid | None = None) -> Tensor:
    """model(x, grid=grid) where the model's forward takes a grid, model(x) for any other torch model.

    x : (batch, channels, *grid). Models inside DistributedDataParallel or torch.compile are looked through.
    """
    if grid is not None and takes_grid(model):
        return model(x, grid=grid)
    return model(x)


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


def placed_for(model: nn.Module, x: Tensor) -> Tensor:
    """The field x on the device of the model's parameters, and real in their precision; as it is where it has none."""
    first = next(model.parameters(), None)
    if first is None:
        return x
    dtype = first.dtype.to_real() if first.is_floating_point() or first.is_complex() else x.dtype
    return x.to(first.device, dtype)


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
