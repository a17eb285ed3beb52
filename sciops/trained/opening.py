"""A trained model with what its run recorded: the task, the fields it takes, the data it was trained on."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn

from sciops.files.untrusted import in_one_line, read_json
from sciops.models import MODELS, Stepper
from sciops.models.apply import unwrapped
from sciops.models.distributions import distribution_inside
from sciops.runs import TRAINED_BY, load_model
from sciops.zoo import resolved

_POINTS, _BATCH = 2**18, 64  # of the grid in a batch, and samples, at most


@dataclass(frozen=True)
class Trained:
    """A model, and the record of its training where there is one.

    model : as `sciops.load_model` gives it, or the caller's own
    folder : of the run or the saved model; None for a model in memory
    config : the options of ``sciops train``; empty for any other model
    """

    model: nn.Module
    folder: Path | None = None
    config: Mapping[str, Any] = field(default_factory=dict)

    @property
    def task(self) -> str:
        """What the model was trained for: "steady", "step", "trajectory", "space-time" or "final"."""
        task = str(self.config.get("task", "auto"))
        return task if task != "auto" else "step" if isinstance(unwrapped(self.model), Stepper) else "steady"

    @property
    def options(self) -> Mapping[str, Any]:
        """Of the innermost model's description, such as in_channels; empty where the model has none."""
        return innermost(getattr(unwrapped(self.model), "config", None))[1]

    @property
    def name(self) -> str:
        """As in `sciops.models.MODELS`, such as "fno", with the kind of distribution before it, as "quantized:fno".

        The name of the class where there is no description.
        """
        name = name_in(getattr(unwrapped(self.model), "config", None)) or type(unwrapped(self.model)).__name__
        kind = self.distribution
        return name if kind is None or name == kind else f"{kind}:{name}"

    @property
    def distribution(self) -> str | None:
        """The kind of distribution that the model gives, such as "quantized"; None of one that gives one field."""
        try:
            inside = distribution_inside(self.model)
        except ValueError:  # inside a wrapper that passes on its mean
            return None
        return None if inside is None else inside.name

    @property
    def axes(self) -> int | None:
        """Number of grid axes of the fields that the model takes; None where its description does not say it."""
        options = self.options
        if options.get("ndim") is not None:
            return int(options["ndim"])
        for shape in ((options.get("grid") or {}).get("shape"), options.get("modes"), options.get("n_modes")):
            if isinstance(shape, (list, tuple)):
                return len(shape)
        return None

    def channels(self, side: str) -> int | None:
        """Number of channels that go "in" or come "out"; None where the description does not say it."""
        described = getattr(unwrapped(self.model), "config", None)
        while isinstance(described, Mapping) and isinstance(described.get("options"), Mapping):
            options = described["options"]  # a model of a distribution has other channels than the network inside
            if isinstance(options.get(f"{side}_channels"), int):
                return int(options[f"{side}_channels"])
            described = options.get("model")
        return None


def innermost(description: Any) -> tuple[str, Mapping[str, Any]]:
    """(name, options) of the model inside all wrappers of a description; ("", {}) for what is not a description."""
    name, options = "", {}
    while isinstance(description, Mapping) and isinstance(description.get("options"), Mapping):
        name, options = str(description.get("name", "")), dict(description["options"])
        description = _inside(options)
    return name, options


def name_in(description: Any) -> str:
    """The first name in a description that `sciops.build_model` knows, outside in; else that of the innermost model."""
    name = ""
    while isinstance(description, Mapping) and isinstance(description.get("options"), Mapping):
        name = str(description.get("name", ""))
        if name in MODELS:
            return name
        description = _inside(description["options"])
    return name


def _inside(options: Mapping[str, Any]) -> Any:
    several = options.get("models")  # members of an ensemble, which are alike
    return several[0] if isinstance(several, (list, tuple)) and several else options.get("model")


def open_trained(model: Any, *, device: torch.device | str | None = None) -> Trained:
    """The model that is given, or that of a run folder, a folder of `save_model` or a file in one of them.

    Raises TypeError for anything else, ValueError for a `device` with a model in memory, and what `sciops.load_model`
    raises.
    """
    if isinstance(model, Trained):
        return model
    if isinstance(model, nn.Module):
        if device is not None:
            raise ValueError(f"device={device!r}: a model in memory runs where it is; move it, model.to({device!r})")
        return Trained(model)
    if not isinstance(model, (str, os.PathLike)):
        raise TypeError(f"model is {type(model).__name__}: expected a torch module, or the folder or file of a model")
    path = resolved(model)
    if not path.exists():
        raise FileNotFoundError(f"{path}: no such folder or file; expected the folder of a run or of save_model")
    loaded = load_model(path, device="cpu" if device is None else device)
    folder = path.parent if path.is_file() else path
    run = folder.parent if folder.name == "model" and (folder.parent / "environment.json").is_file() else folder
    return Trained(loaded, run, read_record(run, "config.json") if is_training(run) else {})


def samples_at_once(points: int) -> int:
    """How many samples of a grid with this number of points go through a model in one batch."""
    return max(1, min(_BATCH, _POINTS // max(1, points)))


def is_training(folder: Path) -> bool:
    """Whether the folder is that of a `sciops train` run."""
    return str(read_record(folder, "environment.json").get("config_class", "")).startswith(TRAINED_BY)


def read_record(folder: Path, name: str) -> dict[str, Any]:
    """The JSON object in a file of a run's folder; empty where there is no such file.

    Raises ValueError, naming the file, where it holds anything else.
    """
    path = folder / name
    if not path.is_file():
        return {}
    with in_one_line(path):
        content = read_json(path)
    if not isinstance(content, dict):
        raise ValueError(f"{path} is damaged: expected a JSON object; run the training again")
    return content
