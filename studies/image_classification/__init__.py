"""Classifiers that differ in what moves information between points: accuracy, time and memory at equal size.

    python -m studies.image_classification                       # digits of 8×8 pixels, minutes
    python -m studies.image_classification --preset fashion      # 28×28; see data_gen.fashion_mnist
    python -m studies.image_classification --preset fashion56    # the same images brought to 56×56
    python -m studies.image_classification --preset full --device cuda
    python -m studies.image_classification --preset fashion --init swin.safetensors    # fine-tuning

Multipole, window (shifted, as in Swin), full and spectral stages of one classifier, and ViT and Swin V2 of
transformers: all with the same number of parameters to 3 %, the same images in the same order, epochs and augmentation,
several seeds; each at that of the learning rates which validates best with the first seed. The parameters of the best
validation are tested once. Then what a training step costs, and how that grows with the image. Is multipole attention
within half a point of the best of ViT, Swin V2 and full attention?

With --init, window and multipole classifiers of the file's size start from the weights and, beside them, from nothing.

Runs that are there already are not repeated; a study, or a run, that was stopped resumes.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tqdm.auto import tqdm

from sciops.datasets.images import load_images
from sciops.files.writable import writable_folder
from studies.image_classification.costs import cost_curve, step_costs
from studies.image_classification.report import answer, draw, print_report, summary, targets
from studies.image_classification.runs import NAMES, in_colour, record, specifications
from studies.kit.cells import data_digest
from studies.kit.choices import require_known
from studies.kit.study import finished, opened
from studies.kit.timing import threads


@dataclass(frozen=True)
class Config:
    data: str = "digits"  # digits, fashion-mnist, or a folder that `sciops.datasets.load_images` knows
    size: int | None = None  # pixels per side that images are brought to; as they are unless given
    samples: tuple[int | None, int | None, int | None] = (None, 180, 360)
    """training, validation and test images; None: all, a tenth, all or a tenth"""
    arms: tuple[str, ...] = NAMES  # which classifiers
    parameters: int = 40_000  # of each classifier
    patch: int = 1  # pixels per side of a patch; twice that for ViT
    depths: tuple[int, ...] = (2, 2)  # blocks of every stage
    window: int = 4  # cells per axis of a window
    epochs: int = 12  # passes over the training images
    batch_size: int = 32  # images a step
    learning_rates: tuple[float, ...] = (5e-3,)
    """peak rates of AdamW; of several, each classifier gets the one that validates best with the first seed"""
    weight_decay: float = 0.05  # of matrices
    schedule: Literal["onecycle", "cosine", "constant"] = "onecycle"  # of the rate
    augment: Literal["none", "crop", "flip", "crop_flip"] = "none"  # of training images
    label_smoothing: float = 0.0  # share of a label that is spread over the classes
    mixup: float = 0.0  # α of the shares in which images are mixed
    ema: float | None = None  # decay of averaged parameters
    seeds: tuple[int, ...] = (0, 1, 2)  # of the initial parameters and the order of the images
    init: Path | None = None  # safetensors file of a Swin or Swin V2 to start from
    init_window: int | None = None  # its window, where the file does not tell (Swin V2)
    rounds: int = 5  # in which every classifier's step is timed
    curve: tuple[int, ...] = (16, 32, 64)  # pixels per side for the cost over the size; empty: none
    curve_arms: tuple[str, ...] = ("multipole", "attention")  # whose cost is followed over the size
    curve_batch: int = 4  # images a step there
    curve_rounds: int = 3  # rounds there
    threads: int = 2  # of torch
    device: str = "cpu"  # where everything runs
    precision: Literal["float32", "bf16"] = "float32"  # of the forward pass in training
    data_seed: int = 0  # of the choice of images
    output: Path = Path("runs/image_classification/digits")
    """folder for a record a run, checkpoints, results.json and the figures"""


_FASHION = Config(
    data="fashion-mnist",
    samples=(14_000, 2_000, None),
    parameters=100_000,
    patch=2,
    epochs=3,
    learning_rates=(1e-3, 2.5e-3),
    augment="flip",
    curve=(28, 56, 112, 224),
    curve_arms=("multipole", "window", "attention"),
    curve_batch=2,
    output=Path("runs/image_classification/fashion"),
)
PRESETS = {
    "quick": Config(),
    "fashion": _FASHION,
    "fashion56": Config(
        data="fashion-mnist",
        size=56,
        samples=(8_000, 1_500, 4_000),
        parameters=100_000,
        patch=4,
        epochs=3,
        learning_rates=(2.5e-3,),
        augment="flip",
        curve=(),
        output=Path("runs/image_classification/fashion56"),
    ),
    "full": Config(
        data="fashion-mnist",
        samples=(None, 5_000, None),
        parameters=1_000_000,
        patch=2,
        depths=(2, 4),
        epochs=60,
        batch_size=128,
        learning_rates=(5e-4, 1e-3, 2e-3),
        augment="crop_flip",
        label_smoothing=0.1,
        mixup=0.2,
        ema=0.999,
        curve=(28, 56, 112, 224),
        curve_arms=NAMES,
        curve_batch=8,
        rounds=15,
        curve_rounds=7,
        output=Path("runs/image_classification/full"),
    ),
}


def run(config: Config) -> dict[str, Any]:
    """Trains what is missing, measures, prints the tables, writes results.json and figures; returns the results.

    Raises ValueError for unknown arms, ImportError and FileNotFoundError naming what is to be installed.
    """
    _check(config)
    writable_folder(config.output)
    train, validation, test = config.samples
    data = load_images(
        config.data, train=train, validation=validation, test=test, size=config.size, seed=config.data_seed
    )
    if data.validation is None or data.test is None:
        raise ValueError(f"--samples {config.samples}: expected validation and test images too")
    if config.init is not None:
        data = in_colour(data, config)
    folder = opened(config, seeds=[config.data_seed, *config.seeds], methods=["mano", "adamw"])
    specs = specifications(data.train, config)
    with threads(config.threads):
        records = _trained(specs, data, config)
        costs = step_costs(specs, data.train, config)
        curve = cost_curve(specs, data.train, config)
    images = {part: len(getattr(data, part)) for part in ("train", "validation", "test")}
    results: dict[str, Any] = {"images": images, "grid": data.train.grid.shape, "runs": records, "costs": costs}
    results |= {"curve": curve, "summary": summary(records, costs, images["test"])}
    results["targets"] = targets(results, config)
    return finished(folder, results, draw, print_report, config, answer=answer)


def _check(config: Config) -> None:
    require_known("--arms", (*config.arms, *config.curve_arms), NAMES)
    if not (config.arms and config.seeds and config.learning_rates):
        raise ValueError("--arms, --seeds and --learning-rates: expected at least one of each")


def _trained(specs: dict[str, Any], data: Any, config: Config) -> dict[str, list[dict[str, Any]]]:
    """The records of every arm, one a seed, at its rate; the first seed tries all rates."""
    first, *others = config.seeds
    images = data_digest(data.train, data.validation, data.test)
    records: dict[str, list[dict[str, Any]]] = {}
    runs = len(specs) * (len(config.learning_rates) + len(others))
    with tqdm(total=runs, unit="run", disable=None) as bar:

        def done(name: str, seed: int, rate: float) -> dict[str, Any]:
            bar.set_postfix_str(f"{name}, seed {seed}, rate {rate:g}")
            found = record(name, specs[name], seed, rate, data, images, config)
            bar.update()
            return found

        for name in specs:
            tried = [done(name, first, rate) for rate in config.learning_rates]
            records[name] = [max(tried, key=lambda one: one["validation"])]
        for seed in others:
            for name in specs:
                records[name].append(done(name, seed, records[name][0]["rate"]))
    return records
