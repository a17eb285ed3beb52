"""The state of a training run in one file: tensors in safetensors, the rest as JSON in its header, never a pickle."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from sciops.files.budget import Budget, OverBudget, opening_within
from sciops.files.digest import is_sealed, is_whole, sealed
from sciops.files.tensor_files import DamagedTensors, opened_tensors
from sciops.files.untrusted import parse_json
from sciops.files.whole_files import replacing
from sciops.training.parallel import like

_FORMAT, _BEFORE = "sciops.checkpoint.2", "sciops.checkpoint.1"


def save_checkpoint(path: str | Path, tensors: Mapping[str, Tensor], state: Mapping[str, Any]) -> Path:
    """Writes tensors and a JSON-able state; the file appears under its name only when it is whole and on disk.

    The write is atomic: a killed process leaves the old file or the new one, and possibly a hidden file ending in
    ``.tmp``, which the next write of the same name removes. The header holds a digest of tensors and state (SHA-256).
    Complex tensors are stored as real ones with a last axis (real part, imaginary part), since safetensors has no
    complex128; the header names them.

    Raises OSError, naming the file, where it cannot be written, such as on a full disk.
    """
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    # copies: safetensors refuses views and tensors that share memory (tied weights)
    copies = {name: _real(t.detach().to("cpu", copy=True)).contiguous() for name, t in tensors.items()}
    header = {
        "format": _FORMAT,
        "complex": json.dumps([name for name, t in tensors.items() if t.is_complex()]),
        "state": json.dumps(state, allow_nan=False),
    }
    with replacing(path) as temporary:
        try:
            save_file(copies, temporary, metadata=sealed(header, copies))
        except SafetensorError as error:
            raise OSError(f"{path} could not be written ({error}); what was there before is still there") from None
    return Path(path)


def load_checkpoint(path: str | Path, *, budget: Budget | None = None) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """(tensors on the CPU, state) of `save_checkpoint`; `budget` as in `sciops.load_model`.

    Raises FileNotFoundError when there is no such file, and ValueError in one line when it is not a checkpoint, is cut
    short, or its tensors or its state are not those that were written. Files of format 1, from before there was a
    digest, hold a checksum of the tensors alone.
    """
    path = Path(path)
    with opening_within(budget):
        try:
            with opened_tensors(path) as file:
                header = file.metadata() or {}
                tensors = {name: file.get_tensor(name) for name in file.keys()}
        except FileNotFoundError:
            raise FileNotFoundError(f"{path}: no checkpoint here") from None
        except DamagedTensors as error:
            raise ValueError(f"{path} is damaged or no checkpoint ({error}); delete it to start anew") from None
        if header.get("format") not in (_FORMAT, _BEFORE):
            raise ValueError(f"{path}: {_what_else(header)}")
        if is_sealed(header) or header["format"] == _FORMAT:
            whole = is_whole(header, tensors)
        else:  # format 1 has a checksum of its tensors
            whole = header.get("checksum") == str(_checksum(tensors)) and "state" in header
        if not whole:
            raise ValueError(f"{path} is damaged: it changed since it was written; delete it to start anew")
        try:
            # absent in files from before, which hold complex tensors as they are
            for name in parse_json(header.get("complex", "[]"), source=path):
                # in memory of its own: a tensor lies at any multiple of 8 bytes of the file, complex128 is read at 16
                tensors[name] = torch.view_as_complex(tensors[name].clone())
            return tensors, parse_json(header["state"], source=path)
        except OverBudget:
            raise
        except (ValueError, KeyError, TypeError, RuntimeError) as error:
            raise ValueError(f"{path} is no checkpoint that was saved ({' '.join(str(error).split())[:200]})") from None


def _what_else(header: Mapping[str, str]) -> str:
    """Describes a safetensors file that is not a checkpoint of a known format."""
    stated = header.get("format", "")
    if stated.startswith("sciops.checkpoint."):
        return (
            f"its format is {stated}, expected {_FORMAT}: it is of a later sciops, or damaged; delete it to start anew"
        )
    if is_sealed(header) and "state" in header:
        return "the name of its format is damaged; delete it to start anew"
    return "a safetensors file, but no checkpoint of sciops.training; load it with load_model"


def model_tensors(model: nn.Module) -> dict[str, Tensor]:
    """The tensors of ``state_dict()`` (some models put other things there as well), prefixed ``model/``."""
    return {f"model/{name}": value for name, value in model.state_dict().items() if isinstance(value, Tensor)}


def load_model_tensors(model: nn.Module, tensors: Mapping[str, Tensor], source: str | Path) -> None:
    """Puts the ``model/`` tensors back; raises ValueError, naming the first that differs, unless all fit."""
    own = {name.removeprefix("model/"): value for name, value in model_tensors(model).items()}
    stored = {name.removeprefix("model/"): value for name, value in tensors.items() if name.startswith("model/")}
    for name in [*own, *stored]:
        if name not in stored or name not in own:
            where = "the model has no" if name in stored else f"{source} has no"
            raise ValueError(f"{source} belongs to another model: {where} {name!r}; build the model it was made from")
        if own[name].shape != stored[name].shape:
            raise ValueError(
                f"{source} belongs to another model: {name!r} is {tuple(stored[name].shape)} there and "
                f"{tuple(own[name].shape)} here; build the model it was made from"
            )
    with torch.no_grad():
        for name, value in own.items():
            value.copy_(like(stored[name], value))


def optimizer_tensors(optimizer: torch.optim.Optimizer, names: Mapping[nn.Parameter, str]) -> dict[str, Tensor]:
    """The optimiser's tensors (running means, step counts), as ``optimizer/<parameter>//<quantity>``; sharded ones as
    they are."""
    return {
        f"optimizer/{names[parameter]}//{key}": value
        for parameter, quantities in optimizer.state.items()
        for key, value in quantities.items()
    }


def load_optimizer_tensors(
    optimizer: torch.optim.Optimizer, names: Mapping[nn.Parameter, str], tensors: Mapping[str, Tensor]
) -> None:
    """Puts back what `optimizer_tensors` gave, for the same parameters; raises ValueError for tensors that are not
    theirs: every quantity is a number, or of the parameter's shape, and all parameters have the same ones."""
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    number = {names[p]: i for i, p in enumerate(parameters)}
    state: dict[int, dict[str, Tensor]] = {}
    for name, value in tensors.items():
        if name.startswith("optimizer/"):
            parameter, _, key = name.removeprefix("optimizer/").rpartition("//")
            i = number.get(parameter)
            if i is None or (value.numel() != 1 and value.shape != parameters[i].shape):
                raise ValueError(f"{name!r} of shape {tuple(value.shape)} belongs to no parameter of this model")
            means = value.shape == parameters[i].shape and key != "step"
            state.setdefault(i, {})[key] = like(value, parameters[i]) if means else value
    # Muon's groups are those with Newton–Schulz steps; AdamW's have other quantities
    muon = [("ns_steps" in group) for group in optimizer.param_groups for _ in group["params"]]
    if len({(muon[i], frozenset(quantities)) for i, quantities in state.items()}) > len({muon[i] for i in state}):
        raise ValueError("the optimiser's tensors are not the same of every parameter")
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})


def _real(tensor: Tensor) -> Tensor:
    return torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor


def _checksum(tensors: Mapping[str, Tensor]) -> int:
    value = 0
    for name in sorted(tensors):
        value = zlib.crc32(name.encode(), value)
        flat = tensors[name].contiguous().reshape(-1)
        if flat.numel():
            value = zlib.crc32(memoryview(flat.view(torch.uint8).numpy()), value)
    return value
