"""The zoo's classifier of handwritten digits: real images that come with scikit-learn."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np

from sciops.datasets import load_images
from sciops.files.json_files import write_json
from sciops.models import classifier_arms, load_model, save_model
from sciops.training import TrainConfig, evaluate, fit
from sciops.training.objectives import error_rate
from sciops.zoo import ModelCard, write_card
from studies.zoo.machine import this_machine

NAME = "digits-multipole"
_ARM, _PARAMETERS, _CHECKED = "multipole", 60_000, 60
_SIZES = {"validation": 180, "test": 360}
_TRAINING = TrainConfig(
    objective="cross_entropy",
    epochs=20,
    batch_size=32,
    learning_rate=5e-3,
    weight_decay=0.05,
    betas=(0.9, 0.98),
    warmup=0.15,
    normalize=False,  # the images are standardised
    progress=False,
)


def trained(name: str, output: Path, into: Path | None) -> ModelCard:
    """Trains, tests, and writes the model's folder with its card."""
    import torch

    data = load_images("digits", channels=1, **_SIZES)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(_TRAINING.seed)
        model = classifier_arms(8, 1, 10, _PARAMETERS, patch=1, only=[_ARM])[_ARM]()
    found = fit(model, data, _TRAINING)
    save_model(found.model, output / "runs" / name)
    card = ModelCard(
        name=name,
        title="Classifier of handwritten digits of 8×8 pixels, with multipole attention.",
        equation="",
        law="scikit-learn's 1797 handwritten digits, 8×8 pixels of 17 levels (UCI, 43 writers)",
        data="# comes with scikit-learn: pip install 'sciops[vision]'",
        training=f"sciops study zoo --models {name}",
        model="classifier",
        parameters=found.parameters,
        grid="8×8 pixels",
        train_samples=len(data.train),
        test_samples=len(data.test),
        metric="error_rate",
        seeds={"choice of images": 0, "weights": _TRAINING.seed},
        limits=(
            "Digits of this size and style alone; training and test images share their writers.",
            "Test images are a random part of the set: another choice of images gives another error, by about 0.01.",
        ),
        seconds=float(found.seconds),
        **measured(name, output / "runs" / name, output),
        **this_machine(),
    )
    for place in filter(None, (output / "models", into)):
        _publish(output / "runs" / name, place / name, card)
    return card


def measured(name: str, folder: Path, output: Path) -> dict[str, Any]:
    """What the card states of the model's errors, on all test images."""
    wrong = np.array(errors(name, folder, output, _SIZES["test"]))
    ends = {"error": float(wrong.mean()), "spread": float(wrong.std(ddof=1)), "worst": float(wrong.max())}
    return ends | {"check": tuple(map(float, wrong[:_CHECKED]))}


def errors(name: str, folder: Path, output: Path, count: int) -> list[float]:
    """0 or 1 for each of the first test images."""
    data = load_images("digits", channels=1, **_SIZES)
    wrong = evaluate(load_model(folder), data.test, {"error": error_rate}, batch_size=100)["error"]
    return list(np.asarray(wrong[:count], dtype=float))


def _publish(source: Path, folder: Path, card: ModelCard) -> None:
    (folder / "model").mkdir(parents=True, exist_ok=True)
    for file in ("config.json", "model.safetensors"):
        shutil.copyfile(source / file, folder / "model" / file)
    write_json(folder / "environment.json", {"config_class": "studies.zoo.Config"})
    write_card(folder, card)
