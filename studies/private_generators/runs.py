"""The cells of the study: eight models of one family, trained on random halves of one pool, and all that is scored."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from sciops.evaluation.privacy import (
    deterministic_error_score,
    diffusion_loss_score,
    discriminator_score,
    nearest_sample_score,
    reconstruction_score,
    shadow_masks,
)
from sciops.models.generative import AdversarialNetworks, DiffusionNetworks
from sciops.training.private_generators import GeneratorTraining, train_adversarial, train_diffusion
from studies.kit.cells import kept_arrays
from studies.kit.pool import run_all
from studies.kit.study import picked
from studies.private_generators.records import CLASSES, DATA, Records, drawn_labels

if TYPE_CHECKING:
    from studies.private_generators import Config

FAMILIES = ("diffusion", "GAN")
# family → access → attacks that need it; each access holds what the ones before it hold
ATTACKS = {
    "diffusion": {"samples": ("nearest sample",), "network": ("loss", "deterministic error"), "all": ()},
    "GAN": {"samples": ("nearest sample",), "network": ("reconstruction",), "all": ("discriminator",)},
}


@dataclass(frozen=True)
class Spec:
    """What decides one cell; `setting` says which part of the study it belongs to."""

    setting: str
    data: str
    family: str
    noise: float
    pool: int
    place: int
    pools: int
    records: int
    rate: float
    steps: int
    checkpoints: tuple[int, ...]
    clip: float
    learning_rate: float
    repeats: int
    discriminator_steps: int
    models: int
    points: int
    width: int
    depth: int
    samples: int
    solved: int
    device: str

    @property
    def training(self) -> GeneratorTraining:
        same = "steps rate records noise clip repeats discriminator_steps learning_rate"
        return GeneratorTraining(**picked(self, same))


def specs(config: Config) -> list[Spec]:
    """All cells: the sweep over σ, one option changed at a time, and the setting with many records."""
    found = []
    shared = picked(config, "records rate steps checkpoints repeats discriminator_steps models points")
    shared |= picked(config, "width depth samples solved device") | {"pools": len(config.pools)}
    rates = dict(zip(FAMILIES, (config.learning_rate, config.gan_learning_rate)))

    def spec(family: str, **options: Any) -> Spec:
        return Spec(family=family, learning_rate=rates[family], **options)

    for place, pool in enumerate(config.pools):
        own = {**shared, "pool": pool, "place": place}
        for data in config.data:
            for family in FAMILIES:
                for noise in config.noises:
                    clip = config.clip if noise else float("inf")
                    found.append(spec(family, setting="sweep", data=data, noise=noise, clip=clip, **own))
        if "fields" not in config.data:
            continue
        plain = {
            family: spec(family, setting="", data="fields", noise=config.ablated_noise, clip=config.clip, **own)
            for family in FAMILIES
        }
        last: dict[str, Any] = {"checkpoints": ()}
        found.append(replace(plain["diffusion"], setting=f"K = {config.repeats}"))
        for repeats in config.ablated_repeats:
            found.append(replace(plain["diffusion"], setting=f"K = {repeats}", repeats=repeats, **last))
        found.append(replace(plain["GAN"], setting=f"n_D = {config.discriminator_steps}"))
        for steps in config.ablated_discriminator_steps:
            found.append(replace(plain["GAN"], setting=f"n_D = {steps}", discriminator_steps=steps, **last))
        for family in FAMILIES:
            found.append(replace(plain[family], setting="clip alone", noise=0.0, **last))
            if config.many_records:
                many = picked(config, "records rate noise", "many_")
                found.append(replace(plain[family], setting="many records", **many))
    return found


def run_all_cells(config: Config, folder: Path) -> list[tuple[Spec, dict[str, np.ndarray]]]:
    """Every cell with its arrays; see `cell`."""
    wanted = specs(config)
    # each once, the slowest first, so that two workers end at about the same time
    jobs = sorted(
        {replace(spec, setting="") for spec in wanted}, key=lambda s: (-s.records * s.rate * s.repeats, str(s))
    )
    found = run_all(cell, [(job, folder) for job in jobs], workers=config.workers, unit="stack", threads=1)
    arrays = dict(zip(jobs, found))
    return [(spec, arrays[replace(spec, setting="")]) for spec in wanted]


def cell(spec: Spec, folder: Path | None) -> dict[str, np.ndarray]:
    """member (models, records), and at every checkpoint C, the end last:

    "score NAME" (C, models, records), "moments error" (C, models), "deviation" (C,); "second" at the end
    """
    same = replace(spec, setting="")  # a cell serves every part of the study that asks for it
    name = f"{spec.data}-{spec.family}-{spec.noise:g}-pool{spec.pool}"
    return kept_arrays(folder, name, asdict(same), lambda: _made(spec))


def _made(spec: Spec) -> dict[str, np.ndarray]:
    data = DATA[spec.data](spec.pool, spec.place, spec.pools, records=spec.records, points=spec.points)
    member = shadow_masks(spec.models, 2 * spec.records, coins=True, seed=spec.pool)
    found: dict[str, list[Any]] = {}
    labels = drawn_labels(spec.data, spec.models, spec.samples)
    for step, networks in _trained(spec, data, member):
        generator = torch.Generator(spec.device).manual_seed(spec.pool)
        samples = networks.sample(spec.samples, labels=_to(labels, spec), generator=generator)
        given = data.pool.to(spec.device), _to(data.labels, spec)
        row: dict[str, Any] = {
            f"score {name}": score.detach().cpu().numpy().astype(np.float32)
            for name, score in scores(spec.family, networks, samples, *given).items()
        }
        samples = samples.cpu()
        row |= {"moments error": data.moments_error(samples), "deviation": float(samples.std())}
        if step == spec.steps:
            solved = slice(spec.solved if spec.data == "fields" else None)
            row["second"] = data.second(samples[:, solved], labels)
        for key, value in row.items():
            found.setdefault(key, []).append(value)
    return {"member": member, **{key: np.asarray(values) for key, values in found.items()}}


def _trained(spec: Spec, data: Records, member: np.ndarray) -> Iterator[tuple[int, Any]]:
    generator = torch.Generator().manual_seed(1000 + spec.pool)
    build: Callable[..., Any] = DiffusionNetworks if spec.family == "diffusion" else AdversarialNetworks
    train: Callable[..., Any] = train_diffusion if spec.family == "diffusion" else train_adversarial
    options = {**picked(spec, "width depth"), "classes": CLASSES[spec.data], "generator": generator}
    networks = build(spec.models, data.pool.shape[1], **options).to(spec.device)
    given = [data.pool.to(spec.device), torch.from_numpy(member).to(spec.device)]
    how = {"labels": _to(data.labels, spec), "checkpoints": spec.checkpoints, "seed": spec.pool}
    yield from train(networks, *given, spec.training, **how)


def _to(labels: Tensor | None, spec: Spec) -> Tensor | None:
    return None if labels is None else labels.to(spec.device)


def scores(family: str, networks: Any, samples: Tensor, z: Tensor, labels: Tensor | None) -> dict[str, Tensor]:
    """Name of an attack in `ATTACKS` → (models, records), of the records z."""
    found = {"nearest sample": nearest_sample_score(samples, z)}
    if family == "diffusion":
        found["loss"] = diffusion_loss_score(networks, z, labels, draws=4)
        found["deterministic error"] = deterministic_error_score(networks, z, labels)
    else:
        found["reconstruction"] = reconstruction_score(networks, z, labels, starts=16, steps=15)
        found["discriminator"] = discriminator_score(networks, z, labels)
    return found
