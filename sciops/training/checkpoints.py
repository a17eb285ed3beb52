"""The state of a training run in one file: tensors in safetensors, the rest as JSON in its header, never a pickle."""

from __future__ import annotations

import json
import os
import stat
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from sciops._untrusted import parse_json
from sciops._writable import writable_file
from sciops.training._sharding import like

_FORMAT = "sciops.checkpoint.1"


def save_checkpoint(path: str | Path, tensors: Mapping[str, Tensor], state: Mapping[str, Any]) -> Path:
    """Writes tensors and a JSON-able state; the file appears under its name only when it is whole and on disk.

    A process killed at any moment leaves the old file or the new one, besides a hidden file ending in ``.partial``
    that the next write of the same name removes. A checksum of the tensors goes into the header. Complex tensors are
    stored as real ones with a last axis (real part, imaginary part), since safetensors has no complex128; the header
    names them.

    Raises OSError, naming the file, where it cannot be written, such as on a full disk.
    """
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    path = writable_file(path, probe=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    for left_over in path.parent.glob(f".{path.name}.*.partial"):
        left_over.unlink(missing_ok=True)
    # copies: safetensors refuses views and tensors that share memory (tied weights)
    copies = {name: _real(t.detach().to("cpu", copy=True)).contiguous() for name, t in tensors.items()}
    header = {
        "format": _FORMAT,
        "checksum": str(_checksum(copies)),
        "complex": json.dumps([name for name, t in tensors.items() if t.is_complex()]),
        "state": json.dumps(state, allow_nan=False),
    }
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with open(partial, "wb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
        save_file(copies, partial, metadata=header)
        os.chmod(partial, mode)  # as any other file: safetensors lets its owner alone read it
        with open(partial, "rb+") as file:
            os.fsync(file.fileno())
        os.replace(partial, path)
    except (SafetensorError, OSError) as error:
        partial.unlink(missing_ok=True)  # half a file must not keep a full disk full
        why = error.strerror if isinstance(error, OSError) else error  # without the hidden name
        raise OSError(f"{path} could not be written ({why}); what was there before is still there") from None
    _sync_folder(path.parent)
    return path


def load_checkpoint(path: str | Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """(tensors on the CPU, state) of `save_checkpoint`.

    Raises FileNotFoundError when there is no such file, and ValueError in one line when it is not a checkpoint, is cut
    short, or its tensors do not have the checksum they were written with.
    """
    from safetensors import SafetensorError, safe_open

    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no checkpoint here")
    try:
        with safe_open(str(path), framework="pt") as file:
            header = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}
    except (SafetensorError, OSError, ValueError) as error:
        raise ValueError(f"{path} is damaged or no checkpoint ({error}); delete it to start anew") from None
    if header.get("format") != _FORMAT:
        raise ValueError(f"{path}: a safetensors file, but no checkpoint of sciops.training; load it with load_model")
    if header["checksum"] != str(_checksum(tensors)):
        raise ValueError(f"{path} is damaged: its tensors changed since they were written; delete it to start anew")
    for name in parse_json(header.get("complex", "[]")):  # absent in files from before, which hold them as they are
        # in memory of its own: a tensor lies at any multiple of 8 bytes of the file, complex128 is read at those of 16
        tensors[name] = torch.view_as_complex(tensors[name].clone())
    return tensors, parse_json(header["state"])


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
    """Puts back what `optimizer_tensors` gave, for the same parameters."""
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    number = {names[p]: i for i, p in enumerate(parameters)}
    state: dict[int, dict[str, Tensor]] = {}
    for name, value in tensors.items():
        if name.startswith("optimizer/"):
            parameter, key = name.removeprefix("optimizer/").rsplit("//", 1)
            i = number[parameter]
            means = value.shape == parameters[i].shape and key != "step"
            state.setdefault(i, {})[key] = like(value, parameters[i]) if means else value
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


def _sync_folder(folder: Path) -> None:
    """Makes the rename durable; not every platform lets a folder be opened."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
