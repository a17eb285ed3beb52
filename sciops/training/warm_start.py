"""Training that begins with the weights of another run: what is taken from it, and what does not fit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from sciops.files.budget import Budget, opening_within
from sciops.files.digest import digest_of
from sciops.files.untrusted import in_one_line
from sciops.models.apply import unwrapped
from sciops.models.persistence import CHECKPOINTS, WEIGHTS, saved_tensors, weights_file
from sciops.models.wrappers import Latent, Normalized, Stepper, SymmetryAveraged
from sciops.training.checkpoints import load_checkpoint
from sciops.zoo import resolved

Statistics = Literal["source", "data"]

_LEAST = 0.5  # share of the model's numbers that has to fit
_WRAPPERS = {"latent": Latent, "normalized": Normalized, "stepper": Stepper, "symmetry_averaged": SymmetryAveraged}


@dataclass(frozen=True)
class WarmStart:
    """What a training began with.

    source : the run, folder or file that was named
    digest : SHA-256 of its weights (names, dtypes, shapes, bytes)
    taken : number of tensors of the model that are those of the source, its statistics not counted
    left : the tensors that do not fit, each with the two shapes; those of the model stay at their initial values
    statistics : "source" or "data", whose means and deviations the normalisers hold; None where there are none
    """

    source: str
    digest: str
    taken: int
    left: tuple[str, ...]
    statistics: Statistics | None

    def __str__(self) -> str:
        whose = {"source": f", statistics of {self.source}", "data": ", statistics of the new data", None: ""}
        text = f"{self.taken} tensors of {self.source} (sha256 {self.digest[:12]}){whose[self.statistics]}"
        shown = "; ".join(self.left[:4]) + (f"; {len(self.left) - 4} more" if len(self.left) > 4 else "")
        return text + (f"; {len(self.left)} do not fit and start anew: {shown}" if self.left else "")


def warm_start(
    model: nn.Module, source: str | Path, *, statistics: Statistics = "source", budget: Budget | None = None
) -> WarmStart:
    """Gives a model the weights of another one, as far as they fit.

    Tensors are matched by name and shape inside the wrappers `Normalized`, `Stepper`, `Latent` and `SymmetryAveraged`,
    so that a model can be fine-tuned on another grid, or, with new first and last layers, on another equation.

    Parameters
    ----------
    model : torch.nn.Module
        Changed in place.
    source : str or Path
        The folder of a run, of the command or of `fit` (its best model), that of `save_model`, or one of their files
        ``best.safetensors``, ``last.safetensors``, ``model.safetensors``.
    statistics : "source" or "data"
        Whose normalisers the model keeps: with those of the source it starts as the function that was trained, which
        suits the same equation; with its own, those of the new data, its inputs and outputs have the size that
        training is made for, which suits fields of another size. Those of the source are left out where the wrappers
        differ or have another number of channels.
    budget : Budget, optional
        As in `sciops.load_model`.

    Returns
    -------
    WarmStart
        The digest of the weights, and what did not fit.

    Raises
    ------
    FileNotFoundError
        For a source that is not there.
    ValueError
        For a source that is damaged or not a model, or that fits less than half of the model's numbers.
    """
    if statistics not in ("source", "data"):
        raise ValueError(f"statistics={statistics!r}: expected 'source' or 'data'")
    tensors, described = source_of(source, budget=budget)
    core, own = _split(tensors, _chain_of(described)), _split(_state(model), _chain_of(model))
    fits = [name for name, value in own.core.items() if name in core.core and core.core[name].shape == value.shape]
    share = sum(own.core[name].numel() for name in fits) / max(1, sum(value.numel() for value in own.core.values()))
    if share < _LEAST:
        wrong = next(name for name in [*own.core, *core.core] if name not in fits)
        raise ValueError(
            f"{source} is of another architecture: {share:.0%} of the model fit it, at first not "
            f"{_difference(wrong, core.core, own.core)}; build the model with the options of the other"
        )
    left = tuple(_difference(name, core.core, own.core) for name in [*own.core, *core.core] if name not in fits)
    with torch.no_grad():
        for name in fits:
            own.core[name].copy_(core.core[name])
        whose: Statistics | None = "data" if own.statistics else None
        if statistics == "source" and own.statistics and _same(core, own):
            whose = "source"
            for name, value in own.statistics.items():
                value.copy_(core.statistics[name])
    return WarmStart(str(source), digest_of(tensors), len(fits), tuple(dict.fromkeys(left)), whose)


def source_of(source: str | Path, *, budget: Budget | None = None) -> tuple[dict[str, Tensor], Any]:
    """(tensors by their names in the model, its description or None) of what `warm_start` takes; raises as it does."""
    path = resolved(source)
    with opening_within(budget):
        if not path.exists():
            raise FileNotFoundError(f"{path}: no run, model or checkpoint here")
        file = weights_file(path)
        if file is None:
            raise ValueError(f"{path} holds no model: expected {', '.join((WEIGHTS, *CHECKPOINTS))} in it")
        if file.name == WEIGHTS:
            return saved_tensors(file.parent)
        with in_one_line(file):
            tensors, state = load_checkpoint(file)
        own = {name.removeprefix("model/"): one for name, one in tensors.items() if name.startswith("model/")}
        return own, state.get("model") if isinstance(state, Mapping) else None


@dataclass(frozen=True)
class _Parts:
    """The tensors of a wrapped model: those of the model inside, and the statistics around it."""

    chain: tuple[str, ...]
    core: dict[str, Tensor]
    statistics: dict[str, Tensor]


def _split(tensors: Mapping[str, Tensor], chain: tuple[str, ...] | None) -> _Parts:
    if chain is None:  # a model without a description, in the wrapper that fit puts around it, or in none
        chain = ("normalized",) if {"input.mean", "output.mean"} & tensors.keys() else ()
    prefix = "model." * len(chain)
    core = {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}
    return _Parts(chain, core, {name: value for name, value in tensors.items() if not name.startswith(prefix)})


def _chain_of(model: Any) -> tuple[str, ...] | None:
    """The wrappers of a model or of its description, outermost first; None where nothing describes them."""
    chain = []
    if isinstance(model, nn.Module):
        model = unwrapped(model)
        while name := next((name for name, kind in _WRAPPERS.items() if isinstance(model, kind)), None):
            chain.append(name + ("/increments" if getattr(model, "residual", False) else ""))
            model = unwrapped(model.model)
        return tuple(chain)
    if not isinstance(model, Mapping):
        return None
    while isinstance(model, Mapping) and model.get("name") in _WRAPPERS:
        options = model.get("options", {})
        chain.append(model["name"] + ("/increments" if options.get("residual", model["name"] == "stepper") else ""))
        model = options.get("model")
    return tuple(chain)


def core_of(described: Any) -> Any:
    """The description of the model inside the wrappers of one."""
    while isinstance(described, Mapping) and described.get("name") in _WRAPPERS:
        described = described.get("options", {}).get("model")
    return described


def _state(model: nn.Module) -> dict[str, Tensor]:
    state = unwrapped(model).state_dict()
    # torch.compile adds a level to the names
    return {name.replace("_orig_mod.", ""): value for name, value in state.items() if isinstance(value, Tensor)}


def _same(one: _Parts, other: _Parts) -> bool:
    """Whether the statistics are of the same quantities, in the same number of channels."""
    shapes = ({name: tuple(value.shape) for name, value in parts.statistics.items()} for parts in (one, other))
    return one.chain == other.chain and next(shapes) == next(shapes)


def _difference(name: str, source: Mapping[str, Tensor], own: Mapping[str, Tensor]) -> str:
    shapes = [str(tuple(tensors[name].shape)) if name in tensors else "missing" for tensors in (source, own)]
    return f"{name} {shapes[0]} there, {shapes[1]} here"
