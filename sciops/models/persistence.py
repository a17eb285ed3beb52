"""Saved models: config.json and model.safetensors, which run no code when they are read."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from sciops.files.budget import Budget, OverBudget, opening_within
from sciops.files.digest import canonical, first_difference, is_sealed, is_whole, sealed
from sciops.files.json_files import plain, write_atomically, write_json
from sciops.files.tensor_files import DamagedTensors, opened_tensors
from sciops.files.untrusted import check_regular, in_one_line, parse_json, read_json
from sciops.files.writable import writable_folder
from sciops.models.apply import config_of, unwrapped
from sciops.models.building import Misfit, Stored, build_to_fit
from sciops.models.registry import model_from_config

CONFIG, WEIGHTS = "config.json", "model.safetensors"
CHECKPOINTS = ("best.safetensors", "last.safetensors")  # of `fit`, in the order in which a run's model is looked for
_FORMAT = "2"


def save_model(model: nn.Module, folder: str | Path, extra: Mapping[str, Any] | None = None) -> Path:
    """Saves a model with its wrappers and normalisers to a folder.

    ``config.json`` holds the description and `extra`; ``model.safetensors`` holds the tensors with their dtypes, and in
    its header the description and `extra` again and a digest of everything (SHA-256). Each file is written atomically,
    so that an existing model stays loadable until the new one is complete. The weights are written first; `load_model`
    reports an interruption between the two files.

    Parameters
    ----------
    model : nn.Module
        One of `build_model`, or `Normalized`, `Latent`, `SymmetryAveraged`, `Stepper` around one.
    folder : str or Path
        Created if it does not exist.
    extra : mapping, optional
        Anything JSON can hold; `read_config(folder)["extra"]` returns it.

    Returns
    -------
    Path
        The folder.

    Raises
    ------
    TypeError
        For a model without a description.
    OSError
        For a folder that cannot be written.
    """
    from safetensors.torch import save

    folder, described = writable_folder(folder), plain(config_of(model))
    # torch.compile adds a level to the names of the model inside a wrapper
    state = {name.replace("_orig_mod.", ""): value for name, value in unwrapped(model).state_dict().items()}
    tensors, complex_names = {}, []
    for name, tensor in state.items():
        tensor = tensor.detach().cpu()
        if tensor.is_complex():
            tensor = torch.view_as_real(tensor.resolve_conj())
            complex_names.append(name)
        # a copy of its own for each name: safetensors refuses views of one storage
        tensors[name] = tensor.contiguous().clone()
    config = {"sciops": _FORMAT, "model": described, "extra": plain(dict(extra or {}))}
    header = {"sciops": _FORMAT, "config": canonical(config), "complex": json.dumps(complex_names)}
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / WEIGHTS, _in_order(save(tensors, sealed(header, tensors))))
    write_json(folder / CONFIG, config)
    return folder


def load_model(
    folder: str | Path,
    *,
    device: torch.device | str = "cpu",
    accept_edits: bool = False,
    budget: Budget | None = None,
) -> nn.Module:
    """The model that `save_model` wrote, in evaluation mode and in the dtypes it was saved in.

    Files of models from before there was a digest are compared by their description alone.

    Parameters
    ----------
    folder : str or Path
        The folder of `save_model`, or that of a run of the command, which holds it as ``model``. `sciops.load_model`
        also takes a run of `fit`.
    device : torch.device or str
        Where the model is put.
    accept_edits : bool
        Builds what config.json says even if it is not what was saved; `save_model` then makes the two files agree
        again. The weights must be those that were saved nevertheless.
    budget : Budget, optional
        Limit of what reading the files and building the model may take besides the weights' own size; by default
        `sciops.Budget()`.

    Raises
    ------
    FileNotFoundError
        For a missing file.
    ValueError
        For a file that is damaged or was edited, a description this version does not know, and weights that do not fit
        it.
    """
    with opening_within(budget):
        folder = model_folder(folder)
        config = _read_json(folder)
        tensors, header = _read_weights(folder / WEIGHTS)
        if not accept_edits:
            _check_edits(folder, config, header)
        model = described_model(config["model"], tensors, folder / CONFIG, folder / WEIGHTS)
        model.load_state_dict(tensors, assign=True)
        return model.to(device).eval()


def saved_tensors(folder: str | Path) -> tuple[dict[str, Tensor], Any]:
    """(tensors, description) of a saved model, checked as `load_model` does, without building it."""
    folder = model_folder(folder)
    config = _read_json(folder)
    tensors, header = _read_weights(folder / WEIGHTS)
    _check_edits(folder, config, header)
    return tensors, config["model"]


def described_model(described: Any, tensors: Mapping[str, Tensor], config: Path, weights: Path) -> nn.Module:
    """The model of a description, with fresh weights, if the tensors of a file fit it.

    Raises ValueError, naming `config` or `weights`, for a description that cannot be built or tensors of another
    model.
    """

    def build() -> nn.Module:
        with in_one_line(config, Misfit):
            return model_from_config(described)

    stored = {name: Stored(tuple(tensor.shape), tensor.dtype) for name, tensor in tensors.items()}
    return build_to_fit(build, stored, weights)


def model_folder(folder: str | Path) -> Path:
    """The folder, or the ``model`` inside the folder of a command's run; raises ValueError for a file."""
    folder = Path(folder)
    if folder.is_file():
        inside = folder.name in (CONFIG, WEIGHTS, CHECKPOINTS[0])
        advice = f"pass its folder, load_model({str(folder.parent)!r})" if inside else "it holds no model of sciops"
        raise ValueError(f"{folder} is a file, expected the folder that save_model wrote: {advice}")
    return folder / "model" if (folder / "model" / WEIGHTS).is_file() else folder


def weights_file(path: str | Path) -> Path | None:
    """The file that holds the weights of a model: the file itself, or that of a folder.

    In a folder it is that of `save_model`, also where it lies in the ``model`` of a command's run, else the best
    checkpoint of `fit`, else its last one; None where none of them is there. The config.json of a saved model stands
    for the weights beside it.
    """
    path = Path(path)
    if path.is_file():
        return path.with_name(WEIGHTS) if path.name == CONFIG else path
    found = (model_folder(path) / WEIGHTS, *(path / name for name in CHECKPOINTS))
    return next((one for one in found if one.is_file()), None)


def read_config(folder: str | Path, *, accept_edits: bool = False, budget: Budget | None = None) -> dict[str, Any]:
    """The config.json of a saved model: {"model": description, "extra": what was given to `save_model`}.

    Raises ValueError where it is not what was saved, unless `accept_edits`; see `load_model`.
    """
    folder = Path(folder)
    with opening_within(budget):
        config = _read_json(folder)
        if not accept_edits and (folder / WEIGHTS).exists():
            with _opened(folder / WEIGHTS) as file:
                header = file.metadata() or {}
            _check_edits(folder, config, header)
    return config


def _read_json(folder: Path) -> dict[str, Any]:
    path = folder / CONFIG
    try:
        check_regular(path)
    except FileNotFoundError:
        raise FileNotFoundError(
            f"{path} does not exist: expected a folder written by save_model; sciops.load_model also takes a run of fit"
        ) from None
    try:
        config = read_json(path)
    except OverBudget:
        raise
    except ValueError as error:
        raise ValueError(f"{path} is not JSON ({error}): the file is damaged; save the model again") from None
    if not isinstance(config, dict) or "model" not in config:
        raise ValueError(f"{path} has no entry 'model': expected a file written by save_model")
    return config


def _check_edits(folder: Path, config: Mapping[str, Any], header: Mapping[str, str]) -> None:
    """Raises ValueError, naming the first difference, unless config.json is what the header says was saved."""
    if "config" in header:
        saved = _parsed(folder / WEIGHTS, header["config"])
    elif "model" in header:  # of format 1, whose header has the description alone
        saved = {**config, "model": _parsed(folder / WEIGHTS, header["model"])}
    else:
        return
    with in_one_line(folder / CONFIG):
        difference = first_difference(config, saved)
    if difference:
        raise ValueError(
            f"{folder}: {CONFIG} and {WEIGHTS} differ: {difference} (a save was cut off between them, or one was "
            f"edited); put it back, save the model again, or pass accept_edits=True to take {CONFIG} as it is"
        )


def _parsed(path: Path, text: str) -> Any:
    try:
        return parse_json(text, source=path)
    except OverBudget:
        raise
    except ValueError as error:
        raise ValueError(f"{path} is damaged (its header is not JSON, {error}); save the model again") from None


def _in_order(file: bytes) -> bytes:
    """The safetensors file with its metadata sorted, so that equal models are equal files; its writer shuffles them."""
    size = int.from_bytes(file[:8], "little")
    entries = parse_json(file[8 : 8 + size])
    metadata = {"__metadata__": dict(sorted(entries.pop("__metadata__").items()))}
    text = json.dumps(metadata | entries, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)  # the tensors stay aligned
    return len(text).to_bytes(8, "little") + text + file[8 + size :]


def _read_weights(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    with _opened(path) as file:
        # a copy, so that the tensors outlive the file and can be written to
        tensors = {name: file.get_tensor(name).clone() for name in file.keys()}
        header = file.metadata() or {}
    number = header.get("sciops", "1")  # absent in files of others
    if number not in ("1", _FORMAT):
        raise ValueError(f"{path} has format {number}, expected {_FORMAT}: it is of a later sciops, or damaged")
    if (is_sealed(header) or number == _FORMAT) and not is_whole(header, tensors):
        raise ValueError(f"{path} is damaged: it changed since it was written; save the model again")
    with in_one_line(path):
        for name in parse_json(header.get("complex", "[]"), source=path):
            tensors[name] = torch.view_as_complex(tensors[name])
    return tensors, header


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    try:
        with opened_tensors(path) as file:
            yield file
    except FileNotFoundError:
        raise FileNotFoundError(f"{path} does not exist: expected a folder written by save_model") from None
    except DamagedTensors as error:
        raise ValueError(f"{path} cannot be read ({error}): the file is damaged; save the model again") from None
