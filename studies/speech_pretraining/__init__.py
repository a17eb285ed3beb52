"""Whether the polynomial mixer is ahead of mean pooling and near attention on speech, and whether BEST-RQ helps them.

    python -m studies.speech_pretraining                       # minutes, on one core
    python -m studies.speech_pretraining --preset distant      # tasks that need distant tokens: half an hour
    python -m studies.speech_pretraining --preset medium       # recordings of 10 s, five seeds: a quarter of an hour
    python -m studies.speech_pretraining --preset short        # recordings of a second, three seeds, CTC: 20 minutes
    python -m studies.speech_pretraining --preset full --device cuda

Real sentences are said by espeak-ng (`data_gen.speech`), once; without it a language of tones stands in. Encoders of
equal parameters learn to name the random-projection codes of masked frames of all training recordings, and are then
fine-tuned by CTC, to letters and phonemes together, on the few that are labelled. Beside them the same encoders start
from nothing, with the same fine-tuning steps ("scratch") and with those of pre-training on top ("longer"); "probe" are
linear maps on the frozen pre-trained encoder. Rates, one grid for all encoders, are chosen by validation with the first
seed: of pre-training by the loss on masked frames, of CTC by the error rates. The test is on new sentences by new
speakers, once a training. An encoder of convolutions alone says what a mixer adds.

`--joined SECONDS` joins the utterances of a speaker to recordings of at least that length, `--channel` gives each a
frequency response of its own, and `--targets tokens` fine-tunes to the phoneme of each token, whose times are known.

`--preset distant` asks what a mixer carries: recordings of spoken words, where the answer at each word needs the whole
recording (`distant`).

Every training leaves a record, which is read back when the study runs again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tqdm.auto import tqdm

from sciops.mixers import MIXERS
from sciops.runs import RunFolder
from studies.kit.choices import require_known
from studies.kit.study import finished
from studies.kit.timing import threads
from studies.speech_pretraining.costs import crossings, step_costs
from studies.speech_pretraining.data import Speech, prepared
from studies.speech_pretraining.distant import Distant, check, compared, number_of_trainings
from studies.speech_pretraining.distant import report as distant_report
from studies.speech_pretraining.report import answer, between, draw, gains, print_report, summary
from studies.speech_pretraining.runs import ARMS, ENCODERS, fine_tuned, pretrained


@dataclass(frozen=True)
class Config:
    family: Literal["auto", "espeak", "tones"] = "auto"  # who speaks; auto: espeak-ng where it is installed, tones else
    text: str = "bible"  # corpus of `sciops.datasets.text`; Python's own help where that is not installed
    sentences: int = 400  # how many different ones
    each: int = 4  # speakings of each
    shortest: int = 10  # characters of a sentence at least
    longest: int = 20  # characters of a sentence at most
    accents: tuple[str, ...] = ("gmw/en-US", "gmw/en-GB-x-rp")  # of espeak-ng
    voices: tuple[str, ...] = ("m1", "m3", "m5", "m7", "f1", "f2", "f3", "f4")
    """of espeak-ng; accents × voices speakers"""
    paces: tuple[int, ...] = (160, 190)  # words a minute, each speaker all of them
    pitches: tuple[int, ...] = (40, 60)  # each speaker all of them
    joined: float = 0.0  # seconds to which utterances of a speaker are joined; 0: every utterance is a recording
    channel: float = 0.0  # deviation of what each recording's own channel adds to its log energies (`data.channel_of`)
    targets: Literal["ctc", "tokens"] = "ctc"  # of fine-tuning: texts and phonemes by CTC, or the phoneme of each token
    test_seconds: tuple[float, ...] = ()  # lengths to which the test is joined too, for the fine-tuned encoders
    validation: float = 0.12  # share of sentences, and of speakers, for validation
    test: float = 0.2  # share of sentences, and of speakers, for the test
    labelled: int = 160  # training recordings whose texts and phonemes are known
    mixers: tuple[str, ...] = ("polynomial", "self_attention", "mean_pool", "none")
    """encoders: names in `runs.ENCODERS` or `sciops.mixers.MIXERS`"""
    tuned: tuple[str, ...] = ("polynomial", "self_attention", "mean_pool", "none")  # those that are fine-tuned
    scratch_only: tuple[str, ...] = ()  # further encoders, trained on the labelled part alone
    arms: tuple[str, ...] = ("scratch", "pretrained")  # of scratch, pretrained, longer and probe
    parameters: int = 60_000  # of each encoder
    depth: int = 2  # blocks
    local: int = 7  # length of the depthwise convolutions
    front_channels: int = 6  # of the convolutions in front
    bins: int = 40  # of mel
    dropout: float = 0.0  # in blocks
    codes: int = 256  # of the quantiser; published 8192
    probability: float = 0.15  # with which a frame begins a masked span
    span: int = 4  # frames of a masked span
    pretrain_steps: int = 250  # of BEST-RQ
    batch: int = 16  # recordings a step there
    pretrain_rates: tuple[float, ...] = (3e-3,)
    """peak rates of AdamW there; of several, each mixer gets that with the least validation loss of the first seed"""
    steps: int = 150  # of CTC
    labelled_batch: int = 8  # recordings a step there
    rates: tuple[float, ...] = (3e-3,)
    """peak rates there; of several, each mixer and arm gets the one that validates best with the first seed"""
    beam: int | None = None  # prefixes of the beam search of the test, beside the best path; none unless given
    seeds: tuple[int, ...] = (0, 1, 2)  # of weights, codes, masks and orders
    cost_seconds: tuple[float, ...] = (2.0, 8.0)  # lengths of recordings for the cost of a step; empty: none
    cost_frames: int = 1600  # frames of a step there, in all its recordings
    memory_seconds: tuple[float, ...] | None = None  # lengths of them at which memory is measured; by default all
    rounds: int = 3  # in which every mixer's step is timed
    distant: Distant = Distant()  # recordings of words whose answers need distant tokens
    threads: int = 1  # of torch
    device: str = "cpu"  # where models are trained; costs are measured on the CPU
    data_seed: int = 0  # of sentences, parts and the choice of labelled ones
    corpora: Path = Path("runs/speech_corpora")  # folder for what was synthesised
    output: Path = Path("runs/speech_pretraining/quick")  # folder for records, results.json and the figures


PRESETS = {
    "quick": Config(distant=Distant(tasks=("key",), recordings=800, steps=(200,), seeds=(0, 1))),
    "short": Config(
        sentences=1200,
        longest=25,
        tuned=("polynomial", "self_attention", "mean_pool"),
        arms=("scratch", "pretrained", "longer"),
        labelled=400,
        pretrain_steps=1500,
        steps=500,
        rates=(1e-3, 3e-3),
        seeds=(0, 1, 2),
        cost_seconds=(2.0, 8.0, 32.0),
        cost_frames=3200,
        output=Path("runs/speech_pretraining/short"),
    ),
    "medium": Config(
        sentences=800,
        each=10,
        longest=25,
        accents=("gmw/en-US", "gmw/en-GB-x-rp", "gmw/en-GB-scotland", "gmw/en-029"),
        voices=("m1", "m2", "m3", "m4", "m5", "m7", "f1", "f2", "f3", "f4"),
        paces=(175,),
        pitches=(50,),
        validation=0.15,
        test=0.25,
        joined=10.0,
        channel=2.0,
        targets="tokens",
        test_seconds=(0.0, 4.0, 60.0),
        labelled=96,
        mixers=("polynomial", "polynomial_4d", "self_attention", "mean_pool", "none"),
        tuned=("polynomial_4d", "mean_pool"),
        scratch_only=("polynomial", "self_attention", "none", "no_convolution", "degree_1", "no_gate"),
        arms=("scratch", "pretrained"),
        parameters=40_000,
        front_channels=4,
        bins=24,
        pretrain_steps=250,
        batch=2,
        pretrain_rates=(3e-3, 8e-3),
        steps=200,
        labelled_batch=2,
        rates=(4e-3, 1.2e-2),
        seeds=(0, 1, 2, 3, 4),
        cost_seconds=(1.0, 5.0, 10.0, 20.0, 60.0),
        cost_frames=6000,
        memory_seconds=(10.0, 60.0),
        output=Path("runs/speech_pretraining/medium"),
    ),
    "distant": Config(
        mixers=(),
        tuned=(),
        cost_seconds=(),
        distant=Distant(
            tasks=("count", "name"),
            mixers=("polynomial_4d", "polynomial", "mean_pool", "self_attention", "none", "degree_1", "no_gate"),
            controls=("polynomial_4d", "mean_pool", "self_attention", "none", "degree_1", "no_gate"),
            longer=("mean_pool",),
            steps=(800, 300),
            rates=(4e-3, 8e-3, 1.6e-2),
        ),
        output=Path("runs/speech_pretraining/distant"),
    ),
    "full": Config(
        sentences=12_000,
        each=4,
        longest=80,
        shortest=20,
        accents=("gmw/en-US", "gmw/en-GB-x-rp", "gmw/en-GB-scotland", "gmw/en-029"),
        voices=("m1", "m2", "m3", "m4", "m5", "m6", "m7", "m8", "f1", "f2", "f3", "f4", "f5"),
        validation=0.1,
        test=0.1,
        labelled=1000,
        arms=("scratch", "pretrained", "longer"),
        parameters=5_000_000,
        depth=8,
        local=15,
        front_channels=32,
        bins=80,
        dropout=0.1,
        codes=8192,
        pretrain_steps=50_000,
        batch=64,
        pretrain_rates=(1e-3,),
        steps=10_000,
        labelled_batch=16,
        rates=(3e-4, 1e-3, 3e-3),
        beam=16,
        seeds=(0, 1, 2, 3, 4),
        cost_seconds=(2.0, 10.0, 40.0, 80.0),
        cost_frames=8000,
        output=Path("runs/speech_pretraining/full"),
    ),
}


def run(config: Config) -> dict[str, Any]:
    """Trains what is missing, measures, prints the tables, writes results.json and figures; returns the results.

    Raises ValueError for unknown mixers and arms, and a corpus too small for its parts; RuntimeError, after writing,
    where no encoder finds masked codes above the commonest one: then nothing was learned that could help.
    """
    _check(config)
    folder = RunFolder(config.output)
    seeds = tuple(dict.fromkeys((*(config.seeds if config.mixers else ()), *_seeds_of(config.distant))))
    folder.describe(config, seeds=seeds, methods=["best_rq", "polynomial_speech", "ctc", "adamw"])
    results: dict[str, Any] = {}
    data = None
    with threads(config.threads):
        if config.mixers:
            data = prepared(config)
            results |= _on_sentences(config, data)
        if config.distant.tasks:
            with tqdm(total=number_of_trainings(config.distant), desc="trainings on words") as bar:
                results["distant"] = compared(config, bar)
    learnt = any(row["accuracy"] > row["commonest"] for row in results.get("summary", ()) if "accuracy" in row)
    wrong = "no encoder finds masked codes above the share of the commonest code: pass more steps"

    def show(results: dict[str, Any]) -> None:
        if "summary" in results:
            print_report(results, config)
        if "distant" in results:
            distant_report.print_report(results["distant"], config)

    def picture(results: dict[str, Any], path: Path) -> None:
        if data is not None:
            draw(results, data, path)
        if "distant" in results:
            distant_report.draw(results["distant"], path)

    wrong = "" if learnt or not config.mixers else wrong
    return finished(folder, results, picture, show, answer=answer, wrong=wrong)


def _seeds_of(distant: Distant) -> tuple[int, ...]:
    return distant.seeds if distant.tasks else ()


def _on_sentences(config: Config, data: Speech) -> dict[str, Any]:
    """Records, rows and verdicts of the trainings on sentences, and the cost of a step."""
    tunings = len(config.tuned) * len(config.arms) + len(config.scratch_only)
    tunings *= len(config.rates) + len(config.seeds) - 1
    jobs = len(config.mixers) * (len(config.pretrain_rates) + len(config.seeds) - 1) + tunings
    with tqdm(total=jobs, desc="trainings") as bar:
        before = _pretrainings(config, data, bar)
        tuning = {mixer: _tuned(config, mixer, config.arms, data, bar, before[mixer]) for mixer in config.tuned}
        for mixer in config.scratch_only:
            tuning[mixer] = _tuned(config, mixer, ("scratch",), data, bar)
    costs = step_costs(config, data.sample_rate) if config.cost_seconds else []
    results: dict[str, Any] = {
        "data": data.about | {"hash": data.hash},
        "pretraining": before,
        "tuning": tuning,
        "costs": costs,
    }
    results |= {"summary": summary(results), "gains": gains(results), "between": between(results)}
    return results | {"crossings": crossings(costs)}


def _pretrainings(config: Config, data: Speech, bar: Any) -> dict[str, list[dict[str, Any]]]:
    """Records by mixer, a seed each, at the rate with the least validation loss of the first seed."""

    def made(mixer: str, rate: float, seed: int) -> dict[str, Any]:
        record = pretrained(config, mixer, rate, seed, data)
        bar.update()
        return record

    records: dict[str, list[dict[str, Any]]] = {}
    for mixer in config.mixers:
        tried = [made(mixer, rate, config.seeds[0]) for rate in config.pretrain_rates]
        best = min(tried, key=lambda run: run["validation"]["loss"])
        records[mixer] = [best, *(made(mixer, best["rate"], seed) for seed in config.seeds[1:])]
    return records


def _tuned(
    config: Config,
    mixer: str,
    arms: Sequence[str],
    data: Speech,
    bar: Any,
    before: Sequence[Mapping[str, Any] | None] = (),
) -> dict[str, list[dict[str, Any]]]:
    """Records by arm, a seed each, at the rate that validates best with the first seed; `before` by seed."""

    def made(arm: str, rate: float, i: int) -> dict[str, Any]:
        start = before[i] if arm in ("pretrained", "probe") else None
        record = fine_tuned(config, mixer, arm, rate, config.seeds[i], data, start)
        bar.update()
        return record

    records: dict[str, list[dict[str, Any]]] = {}
    for arm in arms:
        tried = [made(arm, rate, 0) for rate in config.rates]
        best = min(tried, key=lambda run: sum(run["validation"].values()))
        records[arm] = [best, *(made(arm, best["rate"], i) for i in range(1, len(config.seeds)))]
    return records


def _check(config: Config) -> None:
    if config.distant.tasks:
        check(config.distant)
        if not config.mixers:
            return
    require_known(
        "--mixers", (*config.mixers, *config.tuned, *config.scratch_only), dict.fromkeys((*ENCODERS, *MIXERS))
    )
    twice = [name for name in config.scratch_only if name in config.tuned]
    if twice:
        raise ValueError(f"--scratch-only {twice[0]}: expected encoders that are not among --tuned")
    missing = [name for name in config.tuned if name not in config.mixers]
    if missing:
        raise ValueError(f"--tuned {missing[0]}: expected among --mixers {' '.join(config.mixers)}")
    wrong = [arm for arm in config.arms if arm not in ARMS]
    if config.beam is not None and config.beam < 1:
        raise ValueError(f"--beam {config.beam}: expected at least 1 prefix")
    if config.labelled < config.labelled_batch:
        raise ValueError(
            f"--labelled {config.labelled}: expected at least a batch, --labelled-batch {config.labelled_batch}"
        )
    if not 0 <= config.joined < math.inf or not all(0 <= seconds < math.inf for seconds in config.test_seconds):
        raise ValueError(f"--joined {config.joined}, --test-seconds {config.test_seconds}: expected at least 0 seconds")
    if not config.pretrain_rates:
        raise ValueError("--pretrain-rates: expected at least one, such as 3e-3")
    if wrong or not config.seeds or not config.rates or not config.tuned:
        raise ValueError(f"--arms {' '.join(config.arms)}: expected of {', '.join(ARMS)}; and seeds, rates and --tuned")
