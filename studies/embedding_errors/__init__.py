"""Whether a group is served worse because its embeddings scatter (random error) or lie elsewhere (systematic error).

    python -m studies.embedding_errors
    python -m studies.embedding_errors --parts plants fields
    python -m studies.embedding_errors --preset full

arXiv:2604.22631 finds that probes trained on one group alone sometimes serve that group better, that speakers and
groups whose phoneme embeddings scatter more are recognised worse, that scatter is probably the greater hindrance, and
that adversarial fine-tuning changes neither. The study asks the same of populations with closed-form errors, of an
encoder of ours over accents of synthetic voices, and of the layers of Darcy surrogates over smooth and rough
coefficients, whose squared errors split exactly into bias and variance over trainings.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from studies.embedding_errors.cells import field_arrays, field_cell, plant_cell, random_cell, speech_cell
from studies.embedding_errors.figures import draw
from studies.embedding_errors.report import answer, claims, exact_split, print_report
from studies.kit import accents
from studies.kit.choices import require_known
from studies.kit.fields import rough
from studies.kit.pool import run_all
from studies.kit.study import finished, opened, picked

PARTS = ("plants", "speech", "fields")
CELLS = {"plants": plant_cell, "random": random_cell, "speech": speech_cell, "fields": field_cell}
OPTIONS = {
    "plants": "plant_samples plant_steps plant_draws",
    "random": "random_draws",
    "speech": f"{accents.OPTIONS} each strength draws smallest fewest low_snr jitters shift noise",
    "fields": f"{rough.OPTIONS} strength draws",
}


@dataclass(frozen=True)
class Config:
    parts: tuple[str, ...] = PARTS  # of "plants", "speech", which needs espeak-ng, and "fields"
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)  # of plants, weights, masks, and who trains the probes
    plant_samples: int = 24_000  # of a planted population
    plant_steps: int = 300  # of adversarial training on a planted population
    plant_draws: int = 400  # of estimates whose truth is known
    random_draws: int = 60  # random groups
    sentences: int = 96  # that are said
    each: int = 9  # voices of all accents together that say each sentence
    voices: tuple[str, ...] = (*(f"m{i}" for i in range(1, 8)), *(f"f{i}" for i in range(1, 6)))  # of espeak-ng
    classes: int = 24  # most frequent phonemes
    fewest: int = 20  # segments of a phoneme that every accent must have
    snr: float = 15.0  # dB of white noise
    low_snr: float = 0.0  # dB of the noise that is planted in the audio
    shift: float = 4.0  # planted on features, in deviations within phonemes
    noise: float = 1.0  # planted on features, times the covariance within phonemes
    jitters: tuple[int, ...] = (2,)  # frames by which the ends of segments are moved
    depth: int = 4  # blocks of the encoder
    width: int = 48  # its channels
    pretrain_steps: int = 160  # of BEST-RQ
    tune_steps: int = 70  # of fine-tuning on phonemes
    batch: int = 16  # recordings a step
    rate: float = 3e-3  # peak rate of pre-training
    tune_rate: float = 1e-3  # peak rate of fine-tuning
    share: float = 0.1  # of the recordings in other accents that pre-training hears
    points: int = 17  # of a field along an axis
    fields: int = 500  # coefficients of each roughness; half are for the probes
    field_steps: int = 80  # of a surrogate
    field_width: int = 12  # channels of a surrogate
    field_depth: int = 4  # its blocks
    strength: float = 10.0  # penalty of the probes
    draws: int = 1000  # resamples of voices or fields
    smallest: float = 0.02  # smallest difference of errors that counts
    workers: int = 2  # processes
    output: Path = Path("runs/embedding_errors")  # folder for the cells, results.json and the figures


PRESETS = {
    "quick": Config(),
    "full": Config(
        seeds=tuple(range(10)),
        plant_samples=200_000,
        plant_steps=2000,
        plant_draws=2000,
        random_draws=1000,
        sentences=1000,
        each=12,
        voices=(*(f"m{i}" for i in range(1, 9)), *(f"f{i}" for i in range(1, 6))),
        classes=36,
        depth=8,
        width=144,
        jitters=(1, 2, 4),
        pretrain_steps=10_000,
        tune_steps=2000,
        batch=32,
        rate=1e-3,
        tune_rate=3e-4,
        points=61,
        fields=4000,
        field_steps=5000,
        field_width=32,
        output=Path("runs/embedding_errors_full"),
    ),
}


def run(config: Config) -> dict[str, Any]:
    """Trains, probes, prints the tables, writes results.json and the figures; returns the results.

    Raises ValueError for unknown parts and too few voices, FileNotFoundError where espeak-ng is missing.
    """
    require_known("--parts", config.parts, PARTS, some=True)
    if len(config.voices) < 10:
        raise ValueError(f"--voices: {len(config.voices)}; expected at least 10, half of which test the probes")
    if not config.seeds:
        raise ValueError("--seeds: expected at least one")
    folder = opened(config, seeds=config.seeds, methods=["embedding_errors"])
    data = folder.path / "data"
    options = {part: picked(config, names) for part, names in OPTIONS.items()}
    if "speech" in config.parts:  # made once, before several processes ask for it
        accents.accents_corpus(data, options["speech"])
    if "fields" in config.parts:
        rough.rough_fields(data, config.fields, config.points)
    jobs = [(part, folder.path, seed, options[part]) for part in config.parts for seed in config.seeds]
    if "plants" in config.parts:
        jobs += [("random", folder.path, clusters, options["random"]) for clusters in (10, 40)]
    records = run_all(one_cell, jobs, workers=config.workers, unit="cell")
    results: dict[str, Any] = {part: [r for r in records if r["part"] == part] for part in OPTIONS}
    if results["fields"]:
        results["split"] = {
            network: exact_split(
                [field_arrays(folder.path, network, seed, options["fields"]) for seed in config.seeds], config
            )
            for network in rough.NETWORKS
            if len(config.seeds) > 1
        }
    results |= {"claims": claims(results, config), "smallest": config.smallest}
    return finished(folder, results, draw, print_report, config, answer=answer)


def one_cell(part: str, folder: Path, seed: int, options: dict[str, Any]) -> dict[str, Any]:
    """The record of one part and seed, read back where it is there."""
    return {"part": part, "seed": seed, **CELLS[part](folder, seed, options)}
