"""Precision and recall of generated samples: of surrogates of one equation, and of a language model by temperature.

    python -m studies.precision_recall
    python -m studies.precision_recall --parts fields --samples 1000
    python -m studies.precision_recall --preset full

A model can fail in two ways: it makes samples that should not be (low precision), or leaves out some that should (low
recall). The study plants each failure and looks which number sees it.

chain : a language model learns a Markov chain with forbidden transitions. Chain and model have exact probabilities of
    all short strings, so that the curves by temperature are exact; samples of both show what a sample can know of them.
text : a character model learns a real text and continues prompts at several temperatures; hidden states of another
    model, trained with another seed, are compared with those of the real continuations.
fields : solutions of Burgers' equation from four families of initial fields, beside those of an FNO, of an FNO that
    trained briefly, one that knows two of the families, one with a coarse input, and of the FNO with smoothed, noisy,
    repeated and exchanged outputs; as fields, spectra, activations of another FNO, and pairs of input and output.

Every score stands beside its split-half ceiling and the number of samples it needs. arXiv:2402.10693 says that lower
temperatures buy precision with recall.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from studies.kit.choices import require_known
from studies.kit.pool import run_all
from studies.kit.study import finished, opened, picked
from studies.precision_recall import fields
from studies.precision_recall.chain import chain_cell
from studies.precision_recall.fields import field_cell
from studies.precision_recall.report import answer, claims, draw, print_report, three
from studies.precision_recall.text import reader_of, text_cell

PARTS = ("chain", "text", "fields")


@dataclass(frozen=True)
class Config:
    parts: tuple[str, ...] = PARTS  # of "chain", "text" and "fields"
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)  # of the models, the prompts and the fields that they are given
    samples: int = 400  # generated samples; the reference of text and fields has twice as many, for its halves
    neighbours: int = 4  # k
    other_neighbours: tuple[int, ...] = (1, 2, 8, 16)  # k of the ablation
    splits: int = 4  # random halves of the reference for a ceiling
    smallest: float = 0.05  # smallest difference of a score that counts
    temperatures: tuple[float, ...] = (0.25, 0.5, 0.75, 1.0, 1.25, 1.5)  # of the language models
    chain_steps: int = 120  # steps of the model of the chain
    chain_length: int = 4  # symbols of a string, of four
    chain_contexts: int = 16  # prompts before it
    corpus: str = "auto"
    """a name in sciops.datasets.text.CORPORA, a text file or a folder of them; auto: the first corpus that is there"""
    text_steps: int = 200  # steps of the models of the text
    text_width: int = 48  # channels of theirs
    text_prompt: int = 16  # characters of a prompt
    text_length: int = 64  # characters of its continuation
    field_steps: int = 300  # steps of the FNOs
    brief_steps: int = 20  # steps of the one that trains briefly
    points: int = 64  # of the fields
    train: int = 512  # training fields
    noise: float = 0.1  # deviation of the noise, times that of the fields
    workers: int = 2  # processes that train side by side, one thread each; 1: none but this one
    output: Path = Path("runs/precision_recall")  # folder for the cells, results.json and the figures


PRESETS = {
    "quick": Config(),
    "full": Config(
        seeds=tuple(range(10)),
        samples=2000,
        splits=20,
        smallest=0.02,
        chain_steps=200,
        text_steps=4000,
        text_width=256,
        field_steps=4000,
        brief_steps=200,
        corpus="bible",
        points=256,
        train=2000,
        output=Path("runs/precision_recall_full"),
    ),
}

CELLS = {"chain": chain_cell, "text": text_cell, "fields": field_cell}
SHARED = "samples neighbours other_neighbours splits smallest"
OF = {
    "chain": f"{SHARED} temperatures chain_steps chain_length chain_contexts",
    "text": f"{SHARED} temperatures corpus text_steps text_width text_prompt text_length",
    "fields": f"{SHARED} field_steps brief_steps points train noise",
}


def run(config: Config) -> dict[str, Any]:
    """Trains, compares, prints the tables, writes results.json and the figures; returns the results.

    Raises ValueError for unknown parts, and RuntimeError for a text that is too short.
    """
    require_known("--parts", config.parts, PARTS, some=True)
    if not config.seeds or not config.temperatures:
        raise ValueError("--seeds and --temperatures: expected at least one of each")
    folder = opened(config, seeds=config.seeds, methods=["precision_recall"])
    if "fields" in config.parts:  # data and reader, made once before several processes ask for them
        fields.reader_of(folder.path, _options("fields", config))
    if "text" in config.parts:
        reader_of(folder.path, _options("text", config))
    jobs = [(part, folder.path, seed, config) for seed in config.seeds for part in config.parts]
    found = run_all(one_cell, jobs, workers=config.workers, threads=1, unit="cell")
    results: dict[str, Any] = {part: [r for r in found if r["part"] == part] for part in config.parts}
    results["temperatures"] = three(config)
    results["claims"] = claims(results, config)
    return finished(folder, results, draw, print_report, config, answer=answer)


def one_cell(part: str, folder: Path, seed: int, config: Config) -> dict[str, Any]:
    """The record of one part and seed, read back where it is there."""
    return {"part": part, "seed": seed, **CELLS[part](folder, seed, _options(part, config))}


def _options(part: str, config: Config) -> dict[str, Any]:
    """What decides the cells of a part."""
    options = picked(config, OF[part])
    return options | {"fields": fields_needed(config)} if part == "fields" else options


def fields_needed(config: Config) -> int:
    """Training fields, the reference, and those that every seed chooses its inputs from."""
    return config.train + 2 * (max(config.seeds) + 2) * config.samples
