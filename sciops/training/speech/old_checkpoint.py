"""Checkpoints of speech trainings from before they were runs of `sciops.training.fit`: one file, read once."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from sciops.files.json_files import plain
from sciops.files.untrusted import in_one_line
from sciops.training.checkpoints import load_checkpoint, load_model_tensors, load_optimizer_tensors, save_checkpoint
from sciops.training.config import TrainConfig


def convert_old_checkpoint(
    path: Path,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    config: TrainConfig,
    about: Mapping[str, Any],
) -> None:
    """Replaces a file `path` by the folder of a run in the state that the file holds; does nothing where there is none.

    The file keeps tensors ``model.NAME`` and ``optimizer.I.QUANTITY`` of parameter number I of the optimiser, and a row
    of numbers for every step. It stays beside the folder, as ``NAME.old``, until the folder is complete.

    Raises ValueError for a file of another training, naming what differs.
    """
    last, old = path / "last.safetensors", path.with_name(path.name + ".old")
    if path.is_file():
        tensors, state = _read(path, model, optimizer, config, about)
        path.replace(old)
    elif old.is_file() and not last.exists():  # the process was killed while it converted
        tensors, state = _read(old, model, optimizer, config, about)
    else:
        return
    path.mkdir(exist_ok=True)
    save_checkpoint(last, tensors, state)
    old.unlink()


def _read(
    path: Path, model: nn.Module, optimizer: torch.optim.Optimizer, config: TrainConfig, about: Mapping[str, Any]
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """(tensors, state) as a run of `fit` writes them."""
    stored, state = load_checkpoint(path)
    with in_one_line(path):
        # one that was written before more was kept is compared by what it has
        other = [name for name, value in state["config"].items() if about.get(name) != value]
        if other:
            raise ValueError(f"{path} is of a training with another configuration ({', '.join(other)})")
        names = {parameter: name for name, parameter in model.named_parameters()}
        trained = [names[p] for group in optimizer.param_groups for p in group["params"]]
        tensors = {}
        for name, value in stored.items():
            kind, rest = name.split(".", 1)
            if kind == "optimizer":
                number, quantity = rest.split(".", 1)
                rest = f"{trained[int(number)]}//{quantity}"
            tensors[f"{kind}/{rest}"] = value
        load_model_tensors(model, tensors, path)  # raise where they are of another model
        load_optimizer_tensors(optimizer, names, tensors)
        steps, rows, seconds = state["step"], list(state["history"]), float(state.get("seconds", 0.0))
        if steps != len(rows) or steps > config.steps:
            raise ValueError(f"{path} is damaged: {steps} steps with a history of {len(rows)}")
        whole = [config.steps * (epoch + 1) // config.epochs for epoch in range(config.epochs)]
        ends = [end for end in whole[1:] if end <= steps]  # of the epochs behind it, the last of which ends where it is
        ends = [*whole[: len(ends)], steps] if steps else []
        history = [
            {"epoch": epoch, "step": end, "seconds": seconds * end / steps, "steps": rows[start:end]}
            for epoch, (start, end) in enumerate(zip([0, *ends], ends), 1)
        ]
        return tensors, {
            "config": plain({**config.identity(), **about}),
            "data": "",
            "model": None,
            "epochs": len(ends),
            "steps": steps,
            "seconds": seconds,
            "history": history,
            "best": None,
            "best_epoch": len(ends),
            "scaler": {},
        }
