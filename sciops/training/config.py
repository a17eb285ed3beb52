"""How a model is trained, as data: `TrainConfig`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

Precision = Literal["float32", "float64", "bf16", "fp16"]
Augmentation = Literal["none", "transpose", "square", "allowed", "crop", "flip", "crop_flip"]


@dataclass(frozen=True)
class TrainConfig:
    """Everything `fit` needs besides the model and the data; the values are checked when the object is made.

    Raises ValueError naming the field, its value and what was expected.
    """

    epochs: int = 50  # passes over the training fields; with a loss of your own the parts that `steps` are divided in
    steps: int | None = None  # end after so many, within the last epoch; a loss of your own needs it
    batch_size: int = 16  # fields per step, over all processes and micro-batches together
    accumulate: int = 1  # micro-batches per step and process, for batches that do not fit: the same step, less memory
    learning_rate: float = 5e-3  # peak rate
    weight_decay: float = 1e-3  # of parameters with two or more axes; vectors (biases, norms) are not decayed
    betas: tuple[float, float] = (0.9, 0.999)  # AdamW's averaging of the gradient and of its square
    schedule: Literal["onecycle", "cosine", "constant"] = "onecycle"  # of the rate, by step
    warmup: float = 0.3  # share of the training in which the rate rises ("onecycle" only)
    cycle_beta1: bool = False  # beta1 falls from 0.95 to 0.85 as the rate rises, and back ("onecycle" only)
    clip: float | None = 1.0  # largest norm of the gradient; None leaves it
    ema: float | None = None  # per-step decay of averaged parameters, kept in place of the raw ones; see `fit`
    objective: str = "relative_l2"  # name in sciops.training.OBJECTIVES
    gradient_weight: float = 0.0  # times the relative L2 error of the field's gradient, added to the objective
    gradients: str = "backprop"  # name in sciops.training.GRADIENTS
    gradient_options: Mapping[str, Any] = field(default_factory=dict)  # keyword options of that rule; a value
    # {share: value} changes through the training: {0: 1, 0.5: 2} is 1 in its first half and 2 in its second
    diagnose_every: int | None = None  # steps between two comparisons of the rule's gradient with backpropagation's
    precision: Precision = "float32"  # bf16 and fp16 autocast the model; parameters and losses stay float32
    augment: Augmentation = "none"  # fields: random symmetries of the problem: axes exchanged, all eight of the square,
    # or those that the problem has; others are refused (`sciops.symmetry`). Images with labels: random crops of the
    # padded image, mirror images left to right, or both
    crop_padding: int | None = None  # pixels that a crop may go beyond the image; None: an eighth of its side
    mixup: float = 0.0  # α of λ ~ Beta(α, α): images and labels are mixed in pairs ("cross_entropy" only)
    label_smoothing: float = 0.0  # share of a label that is spread evenly over the classes or symbols (not of fields)
    normalize: bool = True  # fit normalisers on the training fields and wrap the model in Normalized
    grid_order: Literal["mixed", "sequential"] = "mixed"  # several training grids: in every epoch, or one after another
    grid_shares: tuple[float, ...] | None = None  # share of the batches (mixed) or epochs (sequential) per grid
    seconds: float | None = None  # schedule by training time and stop after so much (or `epochs`); not bit-exact
    validate_every: int = 1  # epochs between two validations; the last epoch is always validated
    keep: Literal["best", "last"] = "best"  # which parameters the returned model has
    seed: int = 0  # of the order of the fields, of augmentation and dropout; not of the model's initial parameters
    device: str = "auto"  # "auto": a CUDA device where there is one; or "cpu", "cuda:1", "mps"
    strategy: Literal["ddp", "fsdp"] = "ddp"  # several processes: a whole model each, or a shard of it (FSDP)
    compile: bool | str = False  # torch.compile; a string names a mode (reduce-overhead) or a backend (aot_eager)
    loader_workers: int = 0  # processes that read fields kept on disk; 0: a thread reads ahead
    start_method: Literal["spawn", "fork", "forkserver"] = "spawn"  # how those processes begin
    folder: Path | None = None  # of log.jsonl, last.safetensors and best.safetensors; None keeps all in memory
    resume: bool = False  # go on from last.safetensors where there is one; with a constant rate also to more epochs
    stop_after: int | None = None  # end this call after so many epochs, to be resumed
    checkpoint_every: int = 1  # epochs between two writes of last.safetensors
    on_nonfinite: Literal["raise", "stop"] = "raise"  # a loss that is not finite: raise, or return the last good state
    track: tuple[str, ...] = ()  # besides log.jsonl: "tensorboard" (in the folder), "trackio"; the extra [track]
    progress: bool = True  # bar on the terminal

    def __post_init__(self) -> None:
        from sciops.training.gradients import GRADIENTS, check_options
        from sciops.training.objectives import OBJECTIVES
        from sciops.training.tasks.tasks import task_of

        for name in (
            "epochs",
            "steps",
            "batch_size",
            "accumulate",
            "validate_every",
            "checkpoint_every",
            "stop_after",
            "crop_padding",
            "diagnose_every",
        ):
            value = getattr(self, name)
            if value is not None and (int(value) != value or value < 1):
                raise ValueError(f"{name}={value!r}: expected a whole number of at least 1")
        for name in ("learning_rate", "clip", "seconds"):
            value = getattr(self, name)
            if value is not None and not (value > 0 and math.isfinite(value)):
                raise ValueError(f"{name}={value!r}: expected a positive number")
        if self.steps is not None and self.seconds is not None:
            raise ValueError(f"steps={self.steps!r}, seconds={self.seconds!r}: set one of them")
        for name in ("weight_decay", "gradient_weight", "mixup"):
            if not (getattr(self, name) >= 0 and math.isfinite(getattr(self, name))):
                raise ValueError(f"{name}={getattr(self, name)!r}: expected a number of at least 0")
        if not all(0 <= beta < 1 for beta in self.betas) or len(self.betas) != 2:
            raise ValueError(f"betas={self.betas!r}: expected two numbers in [0, 1)")
        if self.ema is not None and not 0 < self.ema < 1:
            raise ValueError(f"ema={self.ema!r}: expected a decay per step in (0, 1), such as 0.999, or None")
        if not 0 <= self.label_smoothing < 1:
            raise ValueError(f"label_smoothing={self.label_smoothing!r}: expected a share in [0, 1)")
        if not 0 <= self.warmup < 1:
            raise ValueError(f"warmup={self.warmup!r}: expected a share of the training in [0, 1)")
        for name in ("seed", "loader_workers"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name}={getattr(self, name)!r}: expected a whole number of at least 0")
        if self.strategy == "fsdp" and self.precision == "fp16":
            raise ValueError("precision='fp16' scales by what one process sees of the model; with fsdp pass 'bf16'")
        if self.grid_shares is not None and (min(self.grid_shares, default=0) < 0 or not sum(self.grid_shares) > 0):
            raise ValueError(f"grid_shares={self.grid_shares!r}: expected numbers of at least 0, not all 0")
        choices = {
            "schedule": ("onecycle", "cosine", "constant"),
            "precision": ("float32", "float64", "bf16", "fp16"),
            "augment": ("none", "transpose", "square", "allowed", "crop", "flip", "crop_flip"),
            "grid_order": ("mixed", "sequential"),
            "keep": ("best", "last"),
            "on_nonfinite": ("raise", "stop"),
            "strategy": ("ddp", "fsdp"),
            "start_method": ("spawn", "fork", "forkserver"),
            "objective": tuple(OBJECTIVES),
            "gradients": tuple(GRADIENTS),
        }
        for name, allowed in choices.items():
            if getattr(self, name) not in allowed:
                raise ValueError(f"{name}={getattr(self, name)!r}: expected one of {', '.join(allowed)}")
        unknown = [name for name in self.track if name not in ("tensorboard", "trackio")]
        if unknown:
            raise ValueError(f"track has {unknown[0]!r}: expected some of tensorboard, trackio")
        if "tensorboard" in self.track and self.folder is None:
            raise ValueError("track='tensorboard' writes into the folder of the run: set folder")
        check_options(self.gradients, self.gradient_options)
        task_of(self).check_config()

    def identity(self) -> dict[str, Any]:
        """The fields that decide the outcome: two runs that share them (and data, model, machine) end alike, bit-equal
        where they also share the number of processes, `accumulate`, `compile` and `strategy`. Options that came later
        (`_LATER`) are left out where they are not used, as in run folders from before there were."""
        values = {f.name: getattr(self, f.name) for f in fields(TrainConfig) if f.name not in _INCIDENTAL}
        return {name: value for name, value in values.items() if name not in _LATER or value != _LATER[name]}


# Options that came later, with the value that changes nothing.
_LATER = {
    "steps": None,
    "ema": None,
    "crop_padding": None,
    "mixup": 0.0,
    "label_smoothing": 0.0,
    "gradient_options": {},
    "diagnose_every": None,
}

# Where and how long a call runs, in which pieces, and what it shows; a resumed run may change these.
_INCIDENTAL = {
    "keep",
    "device",
    "strategy",
    "accumulate",
    "compile",
    "loader_workers",
    "start_method",
    "folder",
    "resume",
    "stop_after",
    "checkpoint_every",
    "on_nonfinite",
    "track",
    "progress",
}
