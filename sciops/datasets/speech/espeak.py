"""Speech that espeak-ng says, with every phoneme's first sample: accents, voices, rates and pitches crossed.

The corpus is made in one fresh process in one order, since the library's noise goes on from call to call: so the same
configuration gives the same bytes.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sciops.datasets.speech import espeak_library
from sciops.datasets.speech.corpus import SpeechCorpus, cached_corpus
from sciops.datasets.speech.espeak_library import INSTALL, SAMPLE_RATE, library_path
from sciops.files.json_files import plain
from sciops.files.untrusted import parse_json

ACCENTS = (
    "gmw/en-US",
    "gmw/en-GB-x-rp",
    "gmw/en-GB-scotland",
    "gmw/en-029",
    "gmw/en",
    "gmw/en-GB-x-gbclan",
    "gmw/en-GB-x-gbcwmd",
    "gmw/en-US-nyc",
)
VOICES = (*(f"m{i}" for i in range(1, 9)), *(f"f{i}" for i in range(1, 6)))
# whispers, robots, creatures and machines: no accents of people
_NOVELTY = ("robosoft", "robot", "whisper", "croak", "demonic", "announcer", "tweaky", "storm", "grandma", "grandpa")
_NOVELTY += ("fast", "kaukovalta", "unirobot", "anxious", "aunty", "boris", "serious")
PAUSES = ("_", "_:", "_!", "_|", "_^_")


@dataclass(frozen=True)
class EspeakConfig:
    """What is said, and by whom: combinations of accent, voice, rate and pitch; accent and voice make a speaker."""

    sentences: tuple[str, ...]
    """what is said"""
    accents: tuple[str, ...] = ("gmw/en-US", "gmw/en-GB-x-rp", "gmw/en-GB-scotland", "gmw/en-029")
    """voice files of espeak-ng; see `ACCENTS`"""
    voices: tuple[str, ...] = ("m1", "m3", "f2", "f4")
    """variants of a voice; see `VOICES`"""
    rates: tuple[int, ...] = (160, 190)
    """words a minute, 80 to 450"""
    pitches: tuple[int, ...] = (40, 60)
    """0 to 99"""
    each: int | None = None
    """combinations that say each sentence; None: all of them. Fewer are dealt so that all say equally much, to one"""
    seed: int = 0
    """of that deal"""


def installed() -> str | None:
    """Version of the espeak-ng that is installed; None where none is."""
    if library_path() is None:
        return None
    return _process(None, "--version").stdout.strip() or None


def design(config: EspeakConfig) -> list[tuple[int, str, str, int, int]]:
    """(sentence, accent, voice, rate, pitch) of every utterance, in the order they are made.

    Raises ValueError for an empty factor, a novelty voice, and rates and pitches outside what espeak-ng has.
    """
    for name in ("sentences", "accents", "voices", "rates", "pitches"):
        values = getattr(config, name)
        if not values or len(set(values)) < len(values):
            raise ValueError(f"{name}={values!r}: expected at least one, and each once")
    for name, low, high in (("rates", 80, 450), ("pitches", 0, 99)):
        if not all(low <= value <= high for value in getattr(config, name)):
            raise ValueError(f"{name}={getattr(config, name)!r}: expected {low} to {high}")
    for voice in config.voices:
        if any(odd in voice.lower() for odd in _NOVELTY):
            raise ValueError(f"voice {voice!r} is a novelty, not a speaker: expected such as {', '.join(VOICES)}")
    everyone = list(itertools.product(config.accents, config.voices, config.rates, config.pitches))
    each = len(everyone) if config.each is None else config.each
    if not 1 <= each <= len(everyone):
        raise ValueError(f"each={each}: expected 1 to {len(everyone)}, the combinations of the factors")
    rng, waiting, plan = np.random.default_rng(config.seed), [], []
    for sentence in range(len(config.sentences)):
        speakers: list[int] = []
        while len(speakers) < each:
            waiting = waiting or rng.permutation(len(everyone)).tolist()
            # whoever says this sentence already waits for the next
            turn = next((k for k in waiting if k not in speakers), None)
            if turn is None:
                waiting += rng.permutation(len(everyone)).tolist()
                continue
            waiting.remove(turn)
            speakers.append(turn)
        plan += [(sentence, *everyone[k]) for k in sorted(speakers)]
    return plan


def espeak_corpus(config: EspeakConfig, path: str | Path) -> SpeechCorpus:
    """The corpus of `config`, from `path` where it is there already, else made by a fresh process and kept there.

    Phonemes are espeak-ng's mnemonics as the accent says them (surface labels), pauses among them (`PAUSES`); they
    differ between accents for the same word. Recordings of about 2 s cost a few ms each.

    Raises FileNotFoundError where espeak-ng is not installed and the file is not there; ValueError for factors it does
    not have, and for a file that another configuration made; RuntimeError where its process ends early.
    """
    design(config)  # refuses before anything is started
    return cached_corpus(path, {"program": "espeak-ng", **plain(config)}, lambda: _made(config))


def _made(config: EspeakConfig) -> SpeechCorpus:
    if library_path() is None:
        raise FileNotFoundError(f"espeak-ng is not here: {INSTALL}")
    plan = [(config.sentences[sentence], *rest) for sentence, *rest in design(config)]
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "said.npz"
        given = json.dumps({"plan": plan, "output": str(output)})
        done = _process(given)
        if done.returncode == 3:
            raise ValueError(done.stderr.strip().splitlines()[-1])
        if done.returncode or not output.exists():
            last = (done.stderr.strip().splitlines() or [f"it ended with status {done.returncode}"])[-1]
            raise RuntimeError(f"espeak-ng's process did not make the corpus: {last}")
        with np.load(output, allow_pickle=False) as file:
            said = {name: file[name] for name in file.files}
    named = parse_json(said["named"].tobytes())
    symbols = tuple(sorted(set(named["phonemes"])))
    number = {symbol: i for i, symbol in enumerate(symbols)}
    texts, accents, voices, rates, pitches = zip(*plan)
    return SpeechCorpus(
        audio=said["audio"],
        ends=said["ends"],
        sample_rate=SAMPLE_RATE,
        texts=texts,
        speakers=tuple(f"{accent.removeprefix('gmw/')}+{voice}" for accent, voice in zip(accents, voices)),
        sentences=texts,
        phonemes=np.array([number[name] for name in named["phonemes"]], np.int32),
        starts=said["starts"],
        phoneme_ends=said["phoneme_ends"],
        symbols=symbols,
        factors={"accent": list(accents), "voice": list(voices), "rate": list(rates), "pitch": list(pitches)},
        about={
            "made_by": {"program": "espeak-ng", **plain(config)},
            "versions": {"espeak-ng": named["version"]},
        },
    )


def _process(given: str | None, *arguments: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-P", espeak_library.__file__, *arguments]
    return subprocess.run(command, input=given, capture_output=True, text=True, check=False)
