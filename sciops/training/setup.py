"""What `fit` sets up before its loop: the model's precision and normalisers, compilation, the random state."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from sciops.datasets import Normalizer
from sciops.grids import Grid
from sciops.models import Normalized, Stepper, apply_model
from sciops.models.apply import in_precision
from sciops.training.config import TrainConfig
from sciops.training.tasks.tasks import task_of
from sciops.uncertainty import training_losses

_AUTOCAST = {"bf16": torch.bfloat16, "fp16": torch.float16}


def wants_normalizers(model: nn.Module, config: TrainConfig) -> bool:
    """Whether normalisers are to be fitted: not of tokens, nor where the config says no or the model has its own.

    Raises ValueError for a `Stepper` without its own: around it they would be of windows in and of frames out, and the
    frame it returns would not be in the units of the frames it takes, so that it could not be rolled out.
    """
    own = any(isinstance(module, Normalized) for module in model.modules())
    wanted = config.normalize and bool(task_of(config).normalized) and not own
    if wanted and any(isinstance(module, Stepper) for module in model.modules()):
        raise ValueError(
            "the Stepper has no statistics of its own: make it with Stepper.normalized(model, data.train), or train it "
            "in the units of the fields with normalize=False"
        )
    return wanted


def own_preparation(
    model: nn.Module, train: Sequence[Any], validation: Sequence[Any], config: TrainConfig
) -> tuple[list[Any], list[Any]]:
    """What models that solve an equation do before a training; the data sets that are trained and validated on.

    A part with a method ``fit_normalizers(*datasets)`` and statistics that are not fitted yet gets those of the
    training fields. A model with a method ``solved(dataset)`` gets data sets that hold its solves, so that they are not
    repeated in every epoch; fields that are read from a disk stay there and are solved batch by batch.
    """

    whole: Any = model

    def solved(dataset: Any) -> Any:
        known = getattr(dataset, "lazy", False) or not hasattr(whole, "solved")
        return dataset if known else whole.solved(dataset, progress=config.progress)

    module: Any
    sets = [solved(dataset) for dataset in train], [solved(dataset) for dataset in validation]
    if config.normalize:
        for module in model.modules():
            if hasattr(module, "fit_normalizers") and not module.normalizers_fitted:
                module.fit_normalizers(*(sets[0] if module is model else train))
    return sets


def prepared(model: nn.Module, normalizers: tuple[Normalizer | None, ...] | None, config: TrainConfig) -> nn.Module:
    """The model in the parameters' precision, wrapped in its normalisers."""
    model = in_precision(model, config.dtype)
    return model if normalizers is None else Normalized(model, *normalizers)


def compiled(front: nn.Module, config: TrainConfig) -> nn.Module:
    """`front`, whose forward is compiled where the config says so; parameters keep their names.

    Raises ValueError for a string that is neither a mode nor a backend of torch.compile, naming those there are.
    """
    if config.compile is False:
        return front
    import torch._dynamo
    import torch._inductor

    modes, backends = torch._inductor.list_mode_options(), torch._dynamo.list_backends(exclude_tags=())
    if config.compile is not True and config.compile not in (*modes, *backends):
        raise ValueError(f"compile={config.compile!r}: expected true, false or one of {', '.join([*modes, *backends])}")
    kind = "mode" if config.compile in modes else "backend"
    front.compile(**({} if config.compile is True else {kind: config.compile}))
    return front


class OnGrid(nn.Module):
    """Calls the model with or without its grid; DistributedDataParallel hides the signature that decides it."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor, grid: Grid, target: Tensor | None = None, done: float = 1.0) -> Tensor:
        """The model's output; with a target the losses of a model of a distribution, (batch,)."""
        if target is not None:
            return training_losses(self.model, x, target, grid, done=done)
        return apply_model(self.model, x, grid)


def autocast(config: TrainConfig, device: torch.device) -> contextlib.AbstractContextManager:
    """Context in which the forward pass runs in the precision of the config; of full precision it does nothing."""
    dtype = _AUTOCAST.get(config.precision)
    return contextlib.nullcontext() if dtype is None else torch.autocast(device.type, dtype=dtype)


def own_random_state(device: torch.device) -> contextlib.AbstractContextManager:
    """Restores torch's global random generators, which dropout uses, when training ends."""
    return torch.random.fork_rng(devices=[device] if device.type == "cuda" else [])


def seed_epoch(config: TrainConfig, epoch: int, rank: int, device: torch.device) -> None:
    """Seeds the generators that dropout draws from by (seed, epoch, rank): a resumed run needs no stored state."""
    seed = int(np.random.SeedSequence((config.seed, epoch, rank)).generate_state(1, np.uint64)[0] >> np.uint64(1))
    torch.default_generator.manual_seed(seed)
    if device.type == "cuda":
        with torch.cuda.device(device):
            torch.cuda.manual_seed(seed)
