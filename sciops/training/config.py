"""How a model is trained, as data: `TrainConfig`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import torch

from sciops.training.gradients import GRADIENTS, check_options
from sciops.training.muon import check_muon
from sciops.training.objectives import OBJECTIVES, PRECISION_RECALL
from sciops.training.tasks import task_of
from sciops.values import COUNT, NONNEGATIVE, POSITIVE, SHARE, WHOLE, Check, one_of

DATA = ("fields", "labels", "tokens")  # what data sets hold; a loss of your own is of none of these

_BETAS = Check("two numbers in [0, 1)", lambda value: len(value) == 2 and all(0 <= beta < 1 for beta in value))
_DECAY = Check("a decay per step in (0, 1), such as 0.999, or None", lambda value: 0 < value < 1)
_SHARES = Check("numbers of at least 0, not all 0", lambda value: min(value, default=0) >= 0 and sum(value) > 0)
_TRACKERS = Check(
    "some of tensorboard, trackio, wandb", lambda value: {"tensorboard", "trackio", "wandb"}.issuperset(value)
)


def _option(
    default: Any, check: Check | None = None, *, of: tuple[str, ...] = (), free: bool = False, later: bool = False
) -> Any:
    """An option of `TrainConfig`.

    check : what its value has to be; None is not checked
    of : the kinds of data (`DATA`) that it does something to; () for every kind and for a loss of your own
    free : it does not decide the outcome but where, in which pieces and how long a call runs, and what it shows; a
        resumed run may change it
    later : run folders from before there was the option leave it out, and so do those that do not use it
    """
    how = {"default_factory": default} if callable(default) else {"default": default}
    return field(**how, metadata={"check": check, "of": of, "free": free, "later": later})


@dataclass(frozen=True)
class TrainConfig:
    """Everything `fit` needs besides the model and the data; the values are checked when the object is made.

    Raises ValueError naming the field, its value and what was expected.
    """

    epochs: int = _option(50, WHOLE)  # passes over the training fields; with your own loss, equal parts of `steps`
    steps: int | None = _option(None, WHOLE, later=True)  # end after this number; your own loss needs it
    batch_size: int = _option(16, WHOLE)  # fields per step, over all processes and micro-batches together
    accumulate: int = _option(1, WHOLE, of=DATA, free=True)  # micro-batches per step and process: less memory
    # adamw; muon: `torch.optim.Muon` for matrices and AdamW for all other parameters (torch 2.9 or later);
    # stacked-muon: Muon for the weights of dense spectral layers too, a matrix for each mode
    optimizer: Literal["adamw", "muon", "stacked-muon"] = _option("adamw", later=True)
    learning_rate: float = _option(5e-3, POSITIVE)  # peak rate
    weight_decay: float = _option(1e-3, NONNEGATIVE)  # of parameters with two or more axes, not of biases and norms
    betas: tuple[float, float] = _option((0.9, 0.999), _BETAS)  # AdamW's averaging of the gradient and of its square
    schedule: Literal["onecycle", "cosine", "constant"] = _option("onecycle")  # of the rate, by step
    warmup: float = _option(0.3, SHARE)  # share of the training in which the rate rises ("onecycle" only)
    cycle_beta1: bool = _option(False)  # beta1 falls from 0.95 to 0.85 as the rate rises, and back ("onecycle" only)
    clip: float | None = _option(1.0, POSITIVE)  # largest norm of the gradient; None leaves it
    ema: float | None = _option(None, _DECAY, later=True)  # decay of averaged parameters, kept in place of the raw ones
    objective: str = _option("relative_l2", one_of(OBJECTIVES), of=DATA)  # name in sciops.training.OBJECTIVES
    # keyword options of the losses in sciops.training.PRECISION_RECALL: {"gamma": 0.1, "likelihood": "gaussian"}
    objective_options: Mapping[str, Any] = _option(dict, of=DATA, later=True)
    # times the relative L2 error of the field's gradient, added to the objective
    gradient_weight: float = _option(0.0, NONNEGATIVE, of=("fields",))
    gradients: str = _option("backprop", one_of(GRADIENTS), of=DATA)  # name in sciops.training.GRADIENTS
    # keyword options of that rule; {share: value} changes through the training: {0: 1, 0.5: 2} is 2 in its second half
    gradient_options: Mapping[str, Any] = _option(dict, of=DATA, later=True)
    diagnose_every: int | None = _option(None, WHOLE, of=DATA, later=True)  # steps between comparisons with backprop
    # bf16 and fp16 autocast the model; parameters and losses stay float32
    precision: Literal["float32", "float64", "bf16", "fp16"] = _option("float32")
    # fields: random symmetries of the problem (`sciops.symmetry`): axes exchanged, all eight of the square, or those
    # that the problem has. Images with labels: random crops of the padded image, mirror images left to right, or both
    augment: Literal["none", "transpose", "square", "allowed", "crop", "flip", "crop_flip"] = _option(
        "none", of=("fields", "labels")
    )
    # pixels that a crop may go beyond the image; None: an eighth of its side
    crop_padding: int | None = _option(None, WHOLE, of=("labels",), later=True)
    mixup: float = _option(0.0, NONNEGATIVE, of=("labels",), later=True)  # α of λ ~ Beta(α, α), mixing pairs of images
    # share of a label that is spread evenly over the classes or symbols
    label_smoothing: float = _option(0.0, SHARE, of=("labels", "tokens"), later=True)
    normalize: bool = _option(True)  # fit normalisers on the training fields and wrap the model in Normalized
    # several training grids: in every epoch, or one after another
    grid_order: Literal["mixed", "sequential"] = _option("mixed", of=DATA)
    # share of the batches (mixed) or epochs (sequential) per grid
    grid_shares: tuple[float, ...] | None = _option(None, _SHARES, of=DATA)
    seconds: float | None = _option(None, POSITIVE)  # schedule by time and stop after it (or `epochs`); not bit-exact
    validate_every: int = _option(1, WHOLE)  # epochs between two validations; the last epoch is always validated
    keep: Literal["best", "last"] = _option("best", free=True)  # which parameters the returned model has
    seed: int = _option(0, COUNT)  # of order, augmentation and dropout; not of the model's initial parameters
    device: str = _option("auto", free=True)  # "auto": a CUDA device where there is one; or "cpu", "cuda:1", "mps"
    strategy: Literal["ddp", "fsdp"] = _option("ddp", free=True)  # several processes: a whole model each, or a shard
    # begin with the weights of another run, the folder of a model, or a checkpoint (`warm_start`)
    start_from: Path | None = _option(None, later=True)
    # means and deviations: those of `start_from`, or those of the new data
    start_statistics: Literal["source", "data"] = _option("source", later=True)
    # torch.compile; a string names a mode (reduce-overhead) or a backend (aot_eager)
    compile: bool | str = _option(False, of=DATA, free=True)
    loader_workers: int = _option(0, COUNT, free=True)  # processes that read fields kept on disk; 0: one thread reads
    start_method: Literal["spawn", "fork", "forkserver"] = _option("spawn", free=True)  # of those processes
    folder: Path | None = _option(None, free=True)  # of the log and the checkpoints; None keeps all in memory
    resume: bool = _option(False, free=True)  # from last.safetensors, if any; with a constant rate also to more epochs
    stop_after: int | None = _option(None, WHOLE, free=True)  # epochs after which this call ends, to be resumed
    checkpoint_every: int = _option(1, WHOLE, free=True)  # epochs between two writes of last.safetensors
    # a loss that is not finite: raise, or return the last good state
    on_nonfinite: Literal["raise", "stop"] = _option("raise", free=True)
    # besides log.jsonl: "tensorboard" (in the folder), "trackio", "wandb"; the extras [track] and [wandb]
    track: tuple[str, ...] = _option((), _TRACKERS, free=True)
    progress: bool = _option(True, free=True)  # bar on a terminal, lines in a log file

    def __post_init__(self) -> None:
        for name, check in _checks().items():
            if check and getattr(self, name) is not None:
                check(name, getattr(self, name))
        if self.steps is not None and self.seconds is not None:
            raise ValueError(f"steps={self.steps!r}, seconds={self.seconds!r}: set one of them")
        if self.strategy == "fsdp" and self.precision == "fp16":
            raise ValueError("precision='fp16' scales by what one process sees of the model; with fsdp pass 'bf16'")
        if "tensorboard" in self.track and self.folder is None:
            raise ValueError("track='tensorboard' writes into the folder of the run: set folder")
        if self.optimizer != "adamw":
            check_muon(self.optimizer, self.strategy)
        if self.start_statistics == "data" and self.start_from is None:
            raise ValueError("start_statistics='data' is for a training that begins with other weights: set start_from")
        check_options(self.gradients, self.gradient_options)
        if not isinstance(self.objective_options, Mapping):
            raise ValueError(f"objective_options={self.objective_options!r}: expected a dict of options by name")
        if self.objective_options and self.objective not in PRECISION_RECALL:
            takes = ", ".join(PRECISION_RECALL)
            raise ValueError(f"objective_options: objective={self.objective!r} takes none; those of {takes} do")
        task_of(self).check_config()

    @property
    def dtype(self) -> torch.dtype:
        """Of parameters and losses."""
        return torch.float64 if self.precision == "float64" else torch.float32

    def check_used(self, kind: str, what: str) -> None:
        """Raises ValueError for an option that does nothing to data of that kind, which the message calls `what`."""
        for option in self._set():
            of = option.metadata["of"]
            if of and kind not in of:
                raise ValueError(
                    f"{option.name}={getattr(self, option.name)!r} does nothing to {what}: it is for "
                    f"{' and '.join(of)}; leave it out"
                )

    def identity(self) -> dict[str, Any]:
        """The options that decide the outcome: two runs that share them (and data, model, machine) end alike, bit-equal
        where they also share the number of processes, `accumulate`, `compile` and `strategy`."""
        used = {option.name for option in self._set()}
        return {
            f.name: getattr(self, f.name)
            for f in fields(TrainConfig)
            if not f.metadata["free"] and (f.name in used or not f.metadata["later"])
        }

    def _set(self) -> list[Field]:
        """The options whose value is not the default."""
        return [f for f in fields(TrainConfig) if getattr(self, f.name) != _default(f)]


def _default(option: Field) -> Any:
    return option.default_factory() if callable(option.default_factory) else option.default


@cache
def _checks() -> dict[str, Check | None]:
    """The check of every option; that of one which names its values by a Literal is to be one of them."""
    checks = {f.name: f.metadata["check"] for f in fields(TrainConfig)}
    hints = get_type_hints(TrainConfig).items()
    return checks | {name: one_of(get_args(hint)) for name, hint in hints if get_origin(hint) is Literal}
