"""Speech that installed synthesisers say: real sentences by crossed accents, voices, rates and pitches, with phonemes.

python -m data_gen.speech --installed                         # which synthesisers are here?
python -m data_gen.speech                                     # espeak-ng: 400 sentences, 2 speakers each
python -m data_gen.speech --family flite --sentences 200      # flite's four voices
python -m data_gen.speech --family tones                      # a language of tones, needs no program

The file is made once: the same command finds it, another configuration asks for another file.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from sciops._json import plain
from sciops.command import command
from sciops.datasets.speech import (
    EspeakConfig,
    FliteConfig,
    SpeechCorpus,
    TonesConfig,
    espeak,
    espeak_corpus,
    flite,
    flite_corpus,
    noisy,
    sentences,
    tones_corpus,
)
from sciops.datasets.speech.corpus import cached_corpus
from sciops.datasets.text import CORPORA, read_corpus

__all__ = ["PRESETS", "SpeechConfig", "run"]


@dataclass(frozen=True)
class SpeechConfig:
    """What is said, by whom, and where it is kept."""

    family: Literal["espeak", "flite", "tones"] = "espeak"
    """which synthesiser"""
    text: str = "bible"
    """bible, handbook or python (`sciops.datasets.text`), or a text file"""
    sentences: int = 400
    """how many different ones"""
    shortest: int = 20
    """characters of a sentence at least"""
    longest: int = 50
    """characters of a sentence at most"""
    each: int = 2
    """speakings of each sentence by espeak-ng and tones; flite's voices each say every sentence once"""
    accents: tuple[str, ...] = EspeakConfig.accents
    """of espeak-ng, voice files"""
    voices: tuple[str, ...] = ()
    """of espeak-ng or flite; all usual ones unless given"""
    rates: tuple[int, ...] = EspeakConfig.rates
    """of espeak-ng, words a minute"""
    pitches: tuple[int, ...] = EspeakConfig.pitches
    """of espeak-ng, 0 to 99"""
    snr: float | None = None
    """dB of additive noise; none unless given"""
    noise: Literal["white", "pink"] = "white"
    """its kind"""
    seed: int = 0
    """of the choice of sentences, who says them, and the noise"""
    workers: int = 2
    """programs of flite at a time"""
    installed: bool = False
    """only say which synthesisers are installed"""
    output: Path = Path("runs/speech.safetensors")
    """the file"""


PRESETS = {
    "default": SpeechConfig(),
    "full": SpeechConfig(
        sentences=20_000,
        longest=120,
        each=2,
        accents=espeak.ACCENTS,
        voices=espeak.VOICES,
        rates=(150, 175, 200),
        pitches=(35, 50, 65),
        output=Path("runs/speech_full.safetensors"),
    ),
}


def run(config: SpeechConfig) -> SpeechCorpus | dict[str, str | None]:
    """Makes the corpus where it is not there yet, prints what it holds, returns it; with `installed` the versions.

    Raises FileNotFoundError naming what is to be installed, ValueError for factors that are not there, texts with too
    few sentences, and a file that another configuration made.
    """
    if config.installed:
        found = {"espeak-ng": espeak.installed(), "flite": flite.installed()}
        for name, version in found.items():
            install = (espeak if name == "espeak-ng" else flite).INSTALL
            print(f"{name}: {version or f'not installed ({install})'}")
        return found
    said = sentences(
        _text(config.text), config.sentences, shortest=config.shortest, longest=config.longest, seed=config.seed
    )
    if config.snr is None:
        corpus = _clean(config, said, config.output)
    else:
        made_by = {k: v for k, v in plain(config).items() if k not in ("output", "workers", "installed")}

        def make() -> SpeechCorpus:
            # the clean one lies beside it, for other ratios
            clean = _clean(config, said, config.output.with_name(f"{config.output.stem}_clean.safetensors"))
            made = noisy(clean, config.snr, kind=config.noise, seed=config.seed)
            return SpeechCorpus(**{**vars(made), "about": {**made.about, "made_by": made_by}})

        corpus = cached_corpus(config.output, made_by, make)
        if set(corpus.sentences) != set(said):
            raise ValueError(f"{config.output} says other sentences: {config.text} has changed; remove it")
    print(
        f"{config.output}: {len(corpus)} recordings, {corpus.seconds / 60:.1f} min at {corpus.sample_rate} Hz, "
        f"{len(set(corpus.sentences))} sentences, {len(set(corpus.speakers))} speakers, {len(corpus.symbols)} phonemes"
    )
    print(f"hash {corpus.hash()}")
    return corpus


def _clean(config: SpeechConfig, said: tuple[str, ...], path: Path) -> SpeechCorpus:
    if config.family == "flite":
        chosen = FliteConfig(said, voices=config.voices or FliteConfig.voices)
        return flite_corpus(chosen, path, workers=config.workers)
    if config.family == "tones":
        tones = TonesConfig(said, each=config.each, seed=config.seed)
        return cached_corpus(path, {"program": "tones", **plain(tones)}, lambda: tones_corpus(tones))
    chosen = EspeakConfig(
        said,
        accents=config.accents,
        voices=config.voices or EspeakConfig.voices,
        rates=config.rates,
        pitches=config.pitches,
        each=config.each,
        seed=config.seed,
    )
    return espeak_corpus(chosen, path)


def _text(name: str) -> str:
    if name in CORPORA:
        return read_corpus(name)
    path = Path(name)
    if not path.is_file():
        raise FileNotFoundError(f"--text {name}: expected {', '.join(CORPORA)}, or a text file")
    return path.read_text(encoding="utf-8", errors="replace")


if __name__ == "__main__":
    command(run, PRESETS)
