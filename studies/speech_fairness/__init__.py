"""Does a fairness analysis blame the right factor? A planted population, and a real recogniser on synthesised voices.

    python -m studies.speech_fairness
    python -m studies.speech_fairness --parts planted --replications 2000
    python -m studies.speech_fairness --preset full

arXiv:2605.10615 advises to state the hypothesis, and to look at all factors together: a group may look mistreated only
because it holds more members of another group, which is. The study plants that and counts wrong claims.

planted : speakers whose errors are drawn. Being non-native doubles the rate; ethnicity does nothing, and goes along
    with being non-native. How often does each analysis claim an effect of ethnicity, and find that of being non-native?
recogniser : pocketsphinx, with its own American model, on commands that espeak-ng says in 8 accents and 13 voices, at
    dealt rates and pitches, each in little and in much noise. Every speaker is decoded in both, so that what a draw of
    the population should show is known. In each draw noise falls on speakers by chance, along with a label that does
    nothing ("site"), or mostly on American speakers. Needs espeak-ng; without it the part is left out, and that is
    said. The levels are synthetic voices: nothing follows for people.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sciops.datasets.speech.espeak import ACCENTS, VOICES, installed
from studies.kit.choices import require_installed, require_known
from studies.kit.pool import run_all
from studies.kit.study import finished, opened, picked
from studies.speech_fairness.draws import analysed_draws
from studies.speech_fairness.figures import draw
from studies.speech_fairness.planted import planted_cell, summed
from studies.speech_fairness.report import answer, claims, print_report
from studies.speech_fairness.voices import decoded_cell, population_of

PARTS = ("planted", "recogniser")


@dataclass(frozen=True)
class Config:
    parts: tuple[str, ...] = PARTS  # of "planted" and "recogniser"
    replications: int = 250  # planted populations of each size
    speakers: tuple[int, ...] = (24, 60, 200)  # sizes of a planted population
    effects: tuple[float, ...] = (0.2, 0.4, 0.7)  # log rate ratios of being non-native; the last is that of the table
    alpha: float = 0.05  # level of every test
    margin: float = 1.25  # smallest rate ratio that matters
    accents: tuple[str, ...] = ACCENTS  # of espeak-ng
    voices: tuple[str, ...] = VOICES  # of espeak-ng; accent and voice make a speaker
    sentences: int = 8  # commands that every speaker says
    rates: tuple[int, int] = (150, 190)  # words a minute, one of them dealt to each speaker
    pitches: tuple[int, int] = (35, 65)  # 0 to 99, one of them dealt to each speaker
    snr: tuple[float, float] = (20.0, 5.0)  # dB of pink noise: little and much
    exposed: str = "gmw/en-US"  # the accent whose recordings are mostly noisy
    draws: int = 100  # of who is recorded in noise
    seed: int = 0  # of commands, noise, dealing and draws
    workers: int = 2  # processes side by side, one thread each; 1: none but this one
    output: Path = Path("runs/speech_fairness")  # folder for the cells, results.json, fairness.html and the figures


PRESETS = {
    "quick": Config(),
    "full": Config(
        replications=5000,
        speakers=(12, 24, 60, 200, 600),
        effects=(0.1, 0.2, 0.4, 0.7),
        sentences=60,
        draws=2000,
        output=Path("runs/speech_fairness_full"),
    ),
}

BLOCK = 50  # replications of a cell
OF_VOICES = "voices sentences rates pitches snr seed"


def run(config: Config) -> dict[str, Any]:
    """Draws, decodes, analyses, prints the tables, writes results.json and the figures; returns the results.

    Raises ValueError for unknown parts and accents and for too few replications.
    """
    require_known("--parts", config.parts, PARTS, some=True)
    require_installed({"statsmodels": "'sciops[audit]'"})
    if config.replications < 20 or config.draws < 20 or min(config.speakers, default=0) < 12:
        raise ValueError(
            f"--replications {config.replications} --draws {config.draws} --speakers "
            f"{' '.join(map(str, config.speakers))}: expected at least 20 replications, 20 draws and 12 speakers"
        )
    folder = opened(config, seeds=[config.seed], methods=["fairness"])
    results: dict[str, Any] = {"alpha": config.alpha, "margin": config.margin}
    if "planted" in config.parts:
        results["planted"] = _planted(config, folder.path)
    if "recogniser" in config.parts:
        results["left_out"] = _missing()
        if not results["left_out"]:
            results["recogniser"] = _recogniser(config, folder.path)
    results["claims"] = claims(results, config)
    return finished(folder, results, draw, print_report, config, answer=answer)


def _planted(config: Config, folder: Path) -> list[dict[str, Any]]:
    jobs = []
    for speakers in config.speakers:
        for effect in config.effects:
            for first in range(0, config.replications, BLOCK):
                last = min(first + BLOCK, config.replications)
                options = dict(picked(config, "alpha margin seed"), whole=effect == config.effects[-1])
                jobs.append((folder / "cells", speakers, effect, first, last, options))
    return summed(run_all(planted_cell, jobs, workers=config.workers, unit="block", threads=1, desc="planted"))


def _recogniser(config: Config, folder: Path) -> dict[str, Any]:
    require_known("--accents", config.accents, ACCENTS, some=True)
    require_known("--exposed", [config.exposed], config.accents)
    if len(config.accents) < 2 or len(config.voices) < 5:
        raise ValueError("--accents and --voices: expected at least 2 accents and 5 voices")
    options = picked(config, OF_VOICES)
    jobs = [(folder / "cells", accent, options) for accent in config.accents]
    cells = run_all(decoded_cell, jobs, workers=config.workers, unit="accent", threads=1, desc="decoded")
    return analysed_draws(population_of(cells), config, folder)


def _missing() -> str:
    """Why the recogniser cannot run here; empty where it can."""
    from importlib.util import find_spec

    if installed() is None:
        return "espeak-ng is not installed (apt-get install espeak-ng)"
    for module in ("pocketsphinx", "jiwer"):
        if find_spec(module) is None:
            return f"{module} is not installed (pip install {module})"
    return ""
