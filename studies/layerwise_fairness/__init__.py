"""At which depth of an encoder a group is served worse: identity and content probes of every layer.

    python -m studies.layerwise_fairness
    python -m studies.layerwise_fairness --parts fields
    python -m studies.layerwise_fairness --preset full

arXiv:2604.18249 finds that self-supervised speech encoders are biased from their first layers on, that the bias of
speaker identification is least where its error is least, that the bias of recognition is largest where its error is
least, and that fine-tuning does not change that. The study probes an encoder of ours, pre-trained mostly on one accent
of synthetic voices, and surrogates of Darcy flow trained mostly on smooth coefficients. Bias is shown on four scales:
a constant handicap in log odds gives a ratio that is largest where the error is least, with no layer being special.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from studies.kit import accents
from studies.kit.choices import require_known
from studies.kit.fields import rough
from studies.kit.pool import run_all
from studies.kit.study import finished, opened, picked
from studies.layerwise_fairness.cells import field_cell, speech_cell
from studies.layerwise_fairness.report import answer, claims, draw, hidden_shift, print_report

PARTS = ("speech", "fields")
CELLS = {"speech": speech_cell, "fields": field_cell}


@dataclass(frozen=True)
class Config:
    parts: tuple[str, ...] = PARTS  # of "speech", which needs espeak-ng, and "fields"
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)  # of weights, masks, and who trains the probes
    sentences: int = 24  # that every voice of every accent says
    voices: tuple[str, ...] = ("m1", "m2", "m3", "m4", "m5", "m6", "f1", "f2", "f3", "f4")  # of espeak-ng
    classes: int = 24  # most frequent phonemes
    snr: float = 15.0  # dB of white noise
    depth: int = 4  # blocks of the encoder
    width: int = 48  # its channels
    pretrain_steps: int = 150  # of BEST-RQ
    tune_steps: int = 60  # of fine-tuning on phonemes
    batch: int = 16  # recordings a step
    rate: float = 3e-3  # peak rate of pre-training
    tune_rate: float = 1e-3  # peak rate of fine-tuning
    share: float = 0.1  # of the recordings in other accents that pre-training hears
    points: int = 25  # of a field along an axis
    fields: int = 500  # coefficients of each roughness; half are for the probes
    field_steps: int = 100  # of a surrogate
    field_width: int = 12  # channels of a surrogate
    field_depth: int = 4  # its blocks
    strength: float = 10.0  # penalty of the probes
    draws: int = 1000  # resamples of speakers or fields
    smallest: float = 0.01  # smallest difference of errors that counts
    workers: int = 2  # processes
    output: Path = Path("runs/layerwise_fairness")  # folder for the cells, results.json and the figures


PRESETS = {
    "quick": Config(),
    "full": Config(
        seeds=tuple(range(10)),
        sentences=100,
        voices=(*(f"m{i}" for i in range(1, 9)), *(f"f{i}" for i in range(1, 6))),
        classes=36,
        depth=8,
        width=144,
        pretrain_steps=10_000,
        tune_steps=2000,
        batch=32,
        rate=1e-3,
        tune_rate=3e-4,
        points=61,
        fields=4000,
        field_steps=5000,
        field_width=32,
        output=Path("runs/layerwise_fairness_full"),
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
    folder = opened(config, seeds=config.seeds, methods=["layerwise_fairness"])
    options = {"speech": f"{accents.OPTIONS} strength draws", "fields": f"{rough.OPTIONS} strength draws"}
    data = folder.path / "data"
    if "speech" in config.parts:  # made once, before several processes ask for it
        accents.accents_corpus(data, picked(config, options["speech"]))
    if "fields" in config.parts:
        rough.rough_fields(data, config.fields, config.points)
    jobs = [(part, folder.path, seed, picked(config, options[part])) for part in config.parts for seed in config.seeds]
    records = run_all(one_cell, jobs, workers=config.workers, threads=1, unit="cell")
    results: dict[str, Any] = {part: [r for r in records if r["part"] == part] for part in config.parts}
    results |= {"claims": claims(results, config), "hidden shift": hidden_shift(results, config)}
    return finished(folder, results, draw, print_report, config, answer=answer)


def one_cell(part: str, folder: Path, seed: int, options: dict[str, Any]) -> dict[str, Any]:
    """The record of one part and seed, read back where it is there."""
    return {"part": part, "seed": seed, **CELLS[part](folder, seed, options)}
