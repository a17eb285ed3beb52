"""Tasks on spoken words that need distant tokens: how often a word is said, and what a key word says about all others.

Recordings are a key word and words of a small vocabulary in random order, by one speaker. Three tasks on them:

count : how often the word at each place is said in the whole recording. Each word needs another part of what the
    recording holds, chosen by the word: the polynomial mixer has that product, gate times state, in its formula.
name : the name that the word at each place has, by one of a few permutations of names, which the first word chooses.
    All words need the same part of the recording, and it decides together with the word.
key : that first word itself, at every place. All words need the same part, whatever they are: a control in which
    nothing but a mean is needed.

What was expected of every comparison is `report.EXPECTED`, written before the first training with the seeds of the
study, after pilots with seed 100 that were judged on validation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from sciops.mixers import MIXERS
from studies.kit.choices import require_known
from studies.speech_pretraining.distant.recordings import spoken
from studies.speech_pretraining.distant.report import between, gains, summary
from studies.speech_pretraining.distant.trainings import own_settings, trained
from studies.speech_pretraining.runs import ENCODERS, pretrained

if TYPE_CHECKING:
    from studies.speech_pretraining import Config


@dataclass(frozen=True)
class Distant:
    """What is said, and how encoders learn from it."""

    tasks: tuple[Literal["count", "name", "key"], ...] = ()  # of them; none: the study leaves this part out
    vocabulary: tuple[str, ...] = ("one", "two", "three", "five", "six", "eight")  # words that are counted and named
    keys: tuple[str, ...] = ("red", "blue", "green", "black")  # one of them is the first word of every recording
    words: int = 8  # of the vocabulary in a recording
    most: int = 3  # counts from here on are one class
    pauses: tuple[float, float] = (0.04, 0.12)  # least and longest, in seconds
    accents: tuple[str, ...] = ("gmw/en-US", "gmw/en-GB-x-rp", "gmw/en-GB-scotland", "gmw/en-029")  # of espeak-ng
    voices: tuple[str, ...] = ("m1", "m2", "m3", "m4", "m5", "m6", "m7", "m8", "f1", "f2", "f3", "f4", "f5")
    """of espeak-ng; accents × voices speakers"""
    paces: tuple[int, ...] = (220, 260)  # words a minute; a word is said in any of them
    pitches: tuple[int, ...] = (40, 60)  # a word is said in any of them
    recordings: int = 1600  # to learn from, in pre-training too
    validated: int = 120  # recordings of validation
    tested: int = 260  # recordings of the test
    validation: float = 0.15  # share of the speakers for validation
    test: float = 0.25  # share of the speakers for the test
    mixers: tuple[str, ...] = ("polynomial_4d", "mean_pool", "self_attention", "none")  # encoders, trained from nothing
    controls: tuple[str, ...] = ("polynomial_4d", "mean_pool", "self_attention", "none")
    """those that are trained on the tasks after the first too"""
    longer: tuple[str, ...] = ()  # those that are trained on the first task with twice the steps too
    pretrained: tuple[str, ...] = ()  # those that are pre-trained and trained on the first task too
    parameters: int = 20_000  # of each encoder
    depth: int = 2  # blocks
    local: int = 7  # length of the depthwise convolutions
    front_channels: int = 4  # of the convolutions in front
    bins: int = 16  # of mel
    codes: int = 256  # of the quantiser
    steps: tuple[int, ...] = ()  # of a training on each task
    labelled_batch: int = 8  # recordings a step there
    rates: tuple[float, ...] = (8e-3,)
    """peak rates there; of several, each encoder gets the one with the fewest validation errors of the first seed"""
    pretrain_steps: int = 200  # of BEST-RQ
    batch: int = 8  # recordings a step there
    pretrain_rates: tuple[float, ...] = (8e-3,)
    """peak rates there; of several, each encoder gets the one with the least validation loss of the first seed"""
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)  # of weights, codes, masks and orders


def check(distant: Distant) -> None:
    """Raises ValueError for options that do not fit one another."""
    known = dict.fromkeys((*ENCODERS, *MIXERS))
    require_known("--distant.mixers", distant.mixers, known, some=True)
    for name in ("controls", "longer", "pretrained"):
        require_known(f"--distant.{name}", getattr(distant, name), distant.mixers)
    for name, wanted in (("steps", len(distant.tasks)), ("rates", 0), ("pretrain_rates", 0), ("seeds", 0)):
        got = getattr(distant, name)
        if not got or (wanted and len(got) != wanted):
            said = f"{wanted}, one for each of --distant.tasks" if wanted else "at least one"
            raise ValueError(
                f"--distant.{name.replace('_', '-')} {' '.join(map(str, got)) or '(none)'}: expected {said}"
            )
    if distant.words < 2 or distant.most < 2:
        raise ValueError(f"--distant.words {distant.words}, --distant.most {distant.most}: expected at least 2")


def number_of_trainings(distant: Distant) -> int:
    """Number of trainings, pre-trainings among them."""
    tries = len(distant.rates) + len(distant.seeds) - 1
    before = len(distant.pretrain_rates) + len(distant.seeds) - 1
    many = (len(distant.mixers) + (len(distant.tasks) - 1) * len(distant.controls)) * tries
    many += len(distant.pretrained) * (tries + before)
    return many + len(distant.longer) * len(distant.seeds)


def compared(config: Config, bar: Any) -> dict[str, Any]:
    """The records of all trainings, and rows and verdicts on them."""
    distant, data = config.distant, spoken(config)

    def best_of(made: Any, rates: Sequence[float], score: Any) -> list[dict[str, Any]]:
        """Records by seed at the rate that is best with the first."""
        best = min((made(rate, 0) for rate in rates), key=score)
        return [best, *(made(best["rate"], i) for i in range(1, len(distant.seeds)))]

    def on_task(
        task: str, mixer: str, rates: Sequence[float], *, before: Sequence[Mapping[str, Any]] = (), times: int = 1
    ) -> list[dict[str, Any]]:
        def made(rate: float, i: int) -> dict[str, Any]:
            start = before[i] if before else None
            record = trained(config, task, mixer, rate, distant.seeds[i], data, start, times=times)
            bar.update()
            return record

        return best_of(made, rates, lambda record: record["validation"])

    def before(mixer: str) -> list[dict[str, Any]]:
        def made(rate: float, i: int) -> dict[str, Any]:
            record = pretrained(own_settings(config), mixer, rate, distant.seeds[i], data)
            bar.update()
            return record

        return best_of(made, distant.pretrain_rates, lambda record: record["validation"]["loss"])

    found: dict[str, dict[str, dict[str, Any]]] = {}
    first = distant.tasks[0]
    for task in distant.tasks:
        mixers = distant.mixers if task == first else distant.controls
        found[task] = {mixer: {"scratch": on_task(task, mixer, distant.rates)} for mixer in mixers}
    for mixer in distant.longer:
        chosen = found[first][mixer]["scratch"][0]["rate"]
        found[first][mixer]["longer"] = on_task(first, mixer, (chosen,), times=2)
    earlier = {mixer: before(mixer) for mixer in distant.pretrained}
    for mixer, records in earlier.items():
        found[first][mixer]["pretrained"] = on_task(first, mixer, distant.rates, before=records)
    results: dict[str, Any] = {"data": data.about | {"hash": data.hash}, "tasks": found, "pretraining": earlier}
    return results | {"summary": summary(results), "between": between(results), "gains": gains(results)}
