"""The best model of a run of `fit`, built from its checkpoint."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn

from sciops.files.budget import Budget, opening_within
from sciops.files.untrusted import in_one_line
from sciops.models.persistence import described_model
from sciops.training.checkpoints import load_checkpoint, load_model_tensors


def load_best_model(path: str | Path, *, budget: Budget | None = None) -> nn.Module:
    """The model in the checkpoint of the best epoch, in the dtypes it was trained in; `budget` as in `load_model`.

    Raises ValueError for a checkpoint without a description of its model, or that does not fit it.
    """
    path = Path(path)
    with opening_within(budget):
        with in_one_line(path):
            tensors, state = load_checkpoint(path)
        if not isinstance(state, dict) or state.get("model") is None:
            raise ValueError(
                f"{path} does not say how its model is built: build it, then sciops.training.load_model_tensors(model, "
                "*load_checkpoint(path)[:1], path)"
            )
        own = {name.removeprefix("model/"): one for name, one in tensors.items() if name.startswith("model/")}
        model = described_model(state["model"], own, path, path)
        with torch.no_grad():
            for name, tensor in model.state_dict(keep_vars=True).items():
                if name in own and isinstance(tensor, Tensor):
                    tensor.data = tensor.data.to(own[name].dtype)
        load_model_tensors(model, tensors, path)
    return model
