"""Commands that synthetic speakers say, in two levels of noise, and what a recogniser makes of them."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from sciops.datasets.speech import EspeakConfig, add_noise, espeak_corpus, resampled
from sciops.datasets.speech.corpus import pcm
from sciops.datasets.speech.espeak import installed
from studies.kit.cells import kept

SAMPLE_RATE = 16_000  # of the recogniser's acoustic model
LEVELS = ("quiet", "noisy")
KINDS = ("substitutions", "deletions", "insertions")
WORDS = {
    "verb": "move take bring send open close",
    "colour": "red green blue yellow black white",
    "thing": "box door window table lamp wheel",
    "place": "kitchen garden station office",
    "number": "one two three four five six seven eight nine",
}
RULE = "<verb> the [<colour>] <thing> [to the <place>] [at <number>]"


@dataclass(frozen=True)
class Population:
    """Every speaker in both levels of noise.

    speakers : (speakers,) names, accent and voice
    factors : name → (speakers,) levels: accent, voice, rate and pitch
    words : (sentences,) words of each command
    errors : (speakers, sentences, levels, kinds) substitutions, deletions and insertions
    """

    speakers: np.ndarray
    factors: Mapping[str, np.ndarray]
    words: np.ndarray
    errors: np.ndarray


def grammar() -> str:
    """The closed vocabulary as JSGF: all that the recogniser can hear."""
    rules = "".join(f"<{name}> = {' | '.join(words.split())};\n" for name, words in WORDS.items())
    return f"#JSGF V1.0;\ngrammar commands;\npublic <command> = {RULE};\n{rules}"


def commands(count: int, seed: int) -> tuple[str, ...]:
    """Different sentences of the grammar, of 3 to 9 words."""
    rng, found = np.random.default_rng([seed, 1]), {}
    while len(found) < count:
        said = {name: str(rng.choice(words.split())) for name, words in WORDS.items()}
        with_colour, with_place, with_number = rng.random(3) < 0.5
        text = f"{said['verb']} the{' ' + said['colour'] if with_colour else ''} {said['thing']}"
        text += f" to the {said['place']}" if with_place else ""
        found[text + (f" at {said['number']}" if with_number else "")] = None
    return tuple(found)


def dealt(accent: str, options: Mapping[str, Any]) -> dict[str, tuple[int, int]]:
    """voice → (rate, pitch): each of the four combinations equally often among male and among female voices, to one."""
    rng = np.random.default_rng([options["seed"], 2, *accent.encode()])
    combinations = [(rate, pitch) for rate in options["rates"] for pitch in options["pitches"]]
    found = {}
    for family in sorted({voice[0] for voice in options["voices"]}):
        voices = [voice for voice in options["voices"] if voice[0] == family]
        order = rng.permutation(len(combinations))
        for i, k in enumerate(rng.permutation(len(voices))):
            found[voices[k]] = combinations[order[i % len(combinations)]]
    return {voice: found[voice] for voice in options["voices"]}


def decoded_cell(folder: Path, accent: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Errors of all speakers of one accent: {"accent", "voices", "dealt", "words", "errors"}."""
    programs = {"espeak-ng": installed(), "pocketsphinx": version("pocketsphinx"), "jiwer": version("jiwer")}
    made_by = dict(options, accent=accent, words=WORDS, rule=RULE, programs=programs)
    return kept(folder, f"decoded-{accent.rpartition('/')[2]}", made_by, lambda: _decoded(accent, options))


def population_of(cells: Sequence[Mapping[str, Any]]) -> Population:
    """The speakers of all accents together."""
    speakers, factors = [], {name: [] for name in ("accent", "voice", "rate", "pitch")}
    for cell in cells:
        rates, pitches = ({pair[i] for pair in cell["dealt"].values()} for i in (0, 1))
        for voice, (rate, pitch) in cell["dealt"].items():
            speakers.append(f"{short(cell['accent'])}+{voice}")
            factors["accent"].append(short(cell["accent"]))
            factors["voice"].append({"m": "male", "f": "female"}[voice[0]])
            factors["rate"].append("fast" if rate == max(rates) else "slow")
            factors["pitch"].append("high" if pitch == max(pitches) else "low")
    return Population(
        np.array(speakers, dtype=object),
        {name: np.array(levels, dtype=object) for name, levels in factors.items()},
        np.array(cells[0]["words"], dtype=float),
        np.concatenate([np.array(cell["errors"], dtype=float) for cell in cells]),
    )


def short(accent: str) -> str:
    """en-US of gmw/en-US."""
    return accent.rpartition("/")[2]


def counted(reference: str, heard: str) -> tuple[int, int, int]:
    """Substitutions, deletions and insertions of words, by jiwer."""
    import jiwer

    found = jiwer.process_words(reference, heard)
    return found.substitutions, found.deletions, found.insertions


class Recogniser:
    """pocketsphinx with the American English model of its own package, and the commands as its grammar."""

    def __init__(self) -> None:
        from pocketsphinx import Config, Decoder, get_model_path

        model = {"hmm": get_model_path("en-us/en-us"), "dict": get_model_path("en-us/cmudict-en-us.dict")}
        self._decoder = Decoder(Config(**model, lm=None, loglevel="FATAL"))
        self._decoder.add_jsgf_string("commands", grammar())
        self._decoder.activate_search("commands")

    def __call__(self, audio: np.ndarray) -> str:
        """The words of (samples,) float audio at 16 kHz; empty where nothing fits the grammar."""
        self._decoder.start_utt()
        self._decoder.process_raw(pcm(audio).tobytes(), full_utt=True)
        self._decoder.end_utt()
        found = self._decoder.hyp()
        return found.hypstr if found else ""


def _decoded(accent: str, options: Mapping[str, Any]) -> dict[str, Any]:
    texts, plan = commands(options["sentences"], options["seed"]), dealt(accent, options)
    recogniser = Recogniser()
    errors = np.zeros((len(plan), len(texts), len(LEVELS), len(KINDS)), dtype=int)
    voices = list(plan)
    with tempfile.TemporaryDirectory() as folder:
        for number, pair in enumerate(sorted(set(plan.values()))):
            mine = tuple(voice for voice in voices if plan[voice] == pair)
            said = EspeakConfig(texts, accents=(accent,), voices=mine, rates=pair[:1], pitches=pair[1:])
            corpus = resampled(espeak_corpus(said, Path(folder) / f"{number}.safetensors"), SAMPLE_RATE)
            for i in range(len(corpus)):
                one = corpus[i]
                speaker, sentence = voices.index(corpus.factors["voice"][i]), texts.index(one.text)
                for level, snr in enumerate(options["snr"]):
                    # the same noise in both levels, of another loudness
                    rng = np.random.default_rng([options["seed"], 3, speaker, sentence, *accent.encode()])
                    heard = recogniser(add_noise(one.audio, snr, rng, kind="pink"))
                    errors[speaker, sentence, level] = counted(one.text, heard)
    return {
        "accent": accent,
        "dealt": {voice: list(pair) for voice, pair in plan.items()},
        "words": [len(text.split()) for text in texts],
        "errors": errors.tolist(),
    }
