"""The classifiers of the study of images, and one of them trained and tested."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from sciops.datasets import Splits
from sciops.datasets.images import ImageDataset
from sciops.files.json_files import plain
from sciops.models import classifier_arms, model_from_config
from sciops.runs import file_hash
from sciops.training import TrainConfig, evaluate, fit
from sciops.training.objectives import error_rate
from studies.kit.cells import cell_name, kept
from studies.kit.study import picked

if TYPE_CHECKING:
    from studies.image_classification import Config

NAMES = ("multipole", "window", "attention", "spectral", "ViT", "SwinV2")
PRETRAINED = ", from weights"


def specifications(train: ImageDataset, config: Config) -> dict[str, dict[str, Any]]:
    """name → {"model": description for `model_from_config`, "weights": file or None} of every arm.

    With `config.init`: a window and a multipole classifier of the file's size, from its weights and from nothing.
    """
    channels, classes = train.channels, len(train.classes)
    if config.init is None:
        size = train.grid.shape if train.grid.shape[0] != train.grid.shape[1] else train.grid.shape[0]
        options = dict(patch=config.patch, depths=config.depths, window=config.window, only=config.arms)
        arms = classifier_arms(size, channels, classes, config.parameters, **options)
        return {name: {"model": _described(make), "weights": None} for name, make in arms.items()}
    from sciops.models.images.swin_weights import swin_options

    found = {}
    for mixer in ("multipole", "window"):
        options = swin_options(config.init, mixer=mixer, window=config.init_window) | {"out_channels": classes}
        spec = {"model": {"name": "classifier", "options": options}, "weights": str(config.init)}
        found |= {mixer: spec | {"weights": None}, mixer + PRETRAINED: spec}
    return found


def built(spec: Mapping[str, Any], seed: int) -> nn.Module:
    """The classifier of a specification, with its first weights."""
    torch.manual_seed(seed)
    model = model_from_config(spec["model"])
    if spec["weights"] is not None:
        from sciops.models.images.swin_weights import load_swin_weights

        load_swin_weights(model, spec["weights"])
    return model


def in_colour(data: Splits, config: Config) -> Splits:
    """Grey images as three equal channels where the weights to start from are for three."""
    from sciops.models.images.swin_weights import swin_options

    wanted = swin_options(config.init, window=config.init_window)["in_channels"]
    if wanted == data.train.channels:
        return data
    if data.train.channels != 1:
        raise ValueError(f"--init {config.init} is for {wanted} channels, the images have {data.train.channels}")
    parts = {name: getattr(data, name) for name in ("train", "validation", "test")}
    return Splits(**{name: _repeated(part, wanted) for name, part in parts.items() if part is not None})


def record(
    name: str, spec: Mapping[str, Any], seed: int, rate: float, data: Splits, images: str, config: Config
) -> dict[str, Any]:
    """The run's record, from disk where the same run was made before; a run that was stopped resumes.

    images : `data_digest` of `data`
    """
    settings = training(config, seed, rate)
    made_by = {
        "model": spec["model"],
        "weights": file_hash(spec["weights"]) if spec["weights"] else None,
        "training": settings.identity(),
        "images": images,
        **picked(config, "device threads"),
    }
    label, output = f"{name}_{seed}", Path(config.output)
    settings = replace(settings, folder=output / "checkpoints" / cell_name(label, made_by), resume=True)
    return kept(output / "records", label, made_by, lambda: trained_and_tested(spec, seed, data, settings))


def training(config: Config, seed: int, rate: float) -> TrainConfig:
    """How every arm is trained; a loss that is not finite ends a run at its last good epoch."""
    return TrainConfig(
        objective="cross_entropy",
        learning_rate=rate,
        betas=(0.9, 0.98),
        warmup=0.15,
        normalize=False,  # the images are standardised
        seed=seed,
        on_nonfinite="stop",
        progress=False,
        **picked(config, "epochs batch_size weight_decay schedule augment label_smoothing mixup ema precision device"),
    )


def trained_and_tested(spec: Mapping[str, Any], seed: int, data: Splits, settings: TrainConfig) -> dict[str, Any]:
    """Accuracies in per cent, of the epoch with the best validation, and what the training took.

    stopped : why a run whose loss was not finite ended; its best epoch counts, and a validation of 0 where it has none
    """
    run = fit(built(spec, seed), data, settings)
    wrong = evaluate(run.model, data.test, {"error": error_rate}, batch_size=100)["error"]
    return {
        "accuracy": 100 * (1 - float(wrong.mean())),
        "validation": 0.0 if run.best is None else 100 * (1 - run.best),
        "stopped": run.stopped,
        "rate": settings.learning_rate,
        "best_epoch": run.best_epoch,
        "loss": run.history[-1]["loss"] if run.history else None,
        "curve": [100 * (1 - record["validation"]) for record in run.history if "validation" in record],
        "wrong": np.flatnonzero(wrong),
        "seconds": run.seconds,
        "steps": run.steps,
        "parameters": run.parameters,
    }


def _described(make: Any) -> dict[str, Any]:
    with torch.device("meta"):
        return plain(make().config)


def _repeated(part: ImageDataset, channels: int) -> ImageDataset:
    options = {"classes": part.classes, "levels": part.levels, "size": part.size}
    options |= {"mean": part.mean * channels, "std": part.std * channels}
    return ImageDataset(np.repeat(part.pixels, channels, axis=1), part.labels, **options)
