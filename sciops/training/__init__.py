"""Training: `fit` and what it is made of.

`fit(model, data, TrainConfig(...))` trains; `evaluate` and `predict` use what was trained; `OBJECTIVES` and `GRADIENTS`
are the losses and the rules that a config names; `load_checkpoint` reads what a run left on disk.
"""

from __future__ import annotations

from sciops.training.checkpoints import load_checkpoint, load_model_tensors, save_checkpoint
from sciops.training.config import TrainConfig
from sciops.training.data import Batch
from sciops.training.evaluation import evaluate, predict
from sciops.training.gradients import GRADIENTS
from sciops.training.loop import fit
from sciops.training.objectives import OBJECTIVES, PRECISION_RECALL, with_reference
from sciops.training.schedule import rate_factor
from sciops.training.state import NonFiniteLoss, Run
from sciops.training.warm_start import WarmStart, warm_start

__all__ = [
    "GRADIENTS",
    "OBJECTIVES",
    "PRECISION_RECALL",
    "Batch",
    "NonFiniteLoss",
    "Run",
    "TrainConfig",
    "WarmStart",
    "evaluate",
    "fit",
    "load_checkpoint",
    "load_model_tensors",
    "predict",
    "rate_factor",
    "save_checkpoint",
    "warm_start",
    "with_reference",
]
