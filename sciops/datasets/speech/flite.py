"""Speech that flite says, with every phone's first sample: a second family of voices, derived from recordings."""

from __future__ import annotations

import itertools
import shutil
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sciops.datasets.speech.corpus import SpeechCorpus, Utterance, cached_corpus, joined
from sciops.datasets.speech.folders import read_wav
from sciops.files.json_files import plain

INSTALL = "apt-get install flite"
# awb_time says clock times only; kal is kal16 at 8 kHz, so the two are one speaker
VOICES = ("slt", "rms", "awb", "kal16")


@dataclass(frozen=True)
class FliteConfig:
    """What is said, and by whom: every voice at every rate says every sentence."""

    sentences: tuple[str, ...]
    """what is said"""
    voices: tuple[str, ...] = VOICES
    """of flite; all of one sample rate"""
    stretches: tuple[float, ...] = (1.0,)
    """durations, times the voice's own; 0.5 to 2"""
    pitches: tuple[int | None, ...] = (None,)
    """mean pitch in Hz; None leaves the voice its own"""


def installed() -> str | None:
    """Version of the flite that is installed; None where none is."""
    if shutil.which("flite") is None:
        return None
    lines = subprocess.run(["flite", "--version"], capture_output=True, text=True, check=False).stdout.splitlines()
    return next((line.split()[1] for line in lines if "version:" in line), "unknown")


def flite_corpus(config: FliteConfig, path: str | Path, *, workers: int = 1) -> SpeechCorpus:
    """The corpus of `config`, from `path` where it is there already, else made and kept there.

    Phones are those of flite's American lexicon, pauses being "pau", whatever the voice: canonical labels. flite prints
    where each ends, to the ms; a phone starts where the one before ended. A process an utterance, about 0.1 s each.
    workers : how many run at a time; the corpus does not depend on it

    Raises FileNotFoundError where flite is not installed and the file is not there, ValueError for voices it does not
    have and for a file that another configuration made.
    """
    if not config.sentences or not config.voices or not config.stretches or not config.pitches:
        raise ValueError("sentences, voices, stretches and pitches: expected at least one of each")
    if not all(0.5 <= stretch <= 2 for stretch in config.stretches):
        raise ValueError(f"stretches={config.stretches}: expected 0.5 to 2")
    return cached_corpus(path, {"program": "flite", **plain(config)}, lambda: _made(config, workers))


def _made(config: FliteConfig, workers: int) -> SpeechCorpus:
    version = installed()
    if version is None:
        raise FileNotFoundError(f"the program flite is not here: {INSTALL}")
    said = subprocess.run(["flite", "-lv"], capture_output=True, text=True, check=True).stdout
    known = said.partition(":")[2].split()
    for voice in config.voices:
        if voice not in known or voice == "awb_time":
            raise ValueError(f"voice {voice!r}: this flite has {', '.join(v for v in known if v != 'awb_time')}")
    plan = list(itertools.product(config.sentences, config.voices, config.stretches, config.pitches))
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(workers) as pool:
        jobs = [pool.submit(_said, *one, Path(folder) / f"{i}.wav") for i, one in enumerate(plan)]
        utterances = [job.result() for job in jobs]
    factors = {name: [one[i] for one in plan] for i, name in ((1, "voice"), (2, "stretch"), (3, "pitch"))}
    made_by = {"program": "flite", **plain(config)}
    return joined(utterances, factors=factors, made_by=made_by, versions={"flite": version})


def _said(text: str, voice: str, stretch: float, pitch: int | None, wav: Path) -> Utterance:
    command = ["flite", "-voice", voice, "-psdur", "--setf", f"duration_stretch={stretch}"]
    command += [] if pitch is None else ["--setf", f"int_f0_target_mean={pitch}"]
    done = subprocess.run([*command, "-t", text, "-o", str(wav)], capture_output=True, text=True, check=False)
    if done.returncode or not wav.exists():
        last = (done.stderr.strip().splitlines() or [f"status {done.returncode}"])[-1]
        raise RuntimeError(f"flite cannot say {text!r}: {last}")
    audio, rate = read_wav(wav)
    wav.unlink()
    pairs = [item.rpartition(":") for item in done.stdout.split()]
    phones = tuple(name for name, _, _ in pairs)
    ends = np.array([float(end) for _, _, end in pairs])
    starts = np.rint(np.concatenate([[0.0], ends[:-1]]) * rate).astype(np.int64)
    return Utterance(audio, rate, text, voice.replace("kal16", "kal"), text, phones, starts)
