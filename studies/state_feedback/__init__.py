"""Diagonal state feedback against backpropagation through time: error, time, and how true its gradients are.

    python -m studies.state_feedback
    python -m studies.state_feedback --preset memory      # copying over 26 distractors, tuned rates, verdicts
    python -m studies.state_feedback --preset words       # three layers on words of the text, likewise
    python -m studies.state_feedback --preset full --output runs/state_feedback

A GRU predicts the next character or word of a real text, and the next readings of four sensors on the
Kuramoto–Sivashinsky equation; or it copies symbols and adds numbers that lie many steps back. It is trained by every
way back through time from the same starts on the same batches: exact (BPTT), truncated to stretches (TBPTT) or to
single steps (FT-BPTT), by state feedback in its modes, and by Highway-BP; and once more by BPTT with as many steps, and
a schedule of its own, as fit into the time of state feedback. Held-out error, share of the gap from full truncation to
BPTT that is closed, training time, and cosine and norm ratio of the gradient through training; then the time of one
gradient by length. Where an effect is within the spread of the seeds, the table says so. With tuned rates a table of
claims says whether a mode is better than full truncation, as good as BPTT (to within `comparisons.NEAR` of the gap
between the two), and better than BPTT in the same time, beside what was expected. Last, a Fourier neural
operator that steps the whole field of the same equation is trained on rollouts, Λ the identity or diagonal in the
Fourier basis.

Text: `apt-get install bible-kjv` (or debian-handbook); without either, Python's own reference texts.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from tqdm.auto import tqdm

from sciops.datasets.text import CORPORA, read_corpus
from studies.kit.cells import kept
from studies.kit.choices import require_known
from studies.kit.study import finished, opened, picked
from studies.kit.through_time.gradients import gradient
from studies.kit.through_time.memory import MEMORY, memory_task
from studies.kit.through_time.tasks import Task, recurrent
from studies.kit.timing import interleaved, require_equal
from studies.state_feedback.comparisons import EQUAL_TIME, claims, summary, tuned_rates
from studies.state_feedback.report import answer, draw, print_report
from studies.state_feedback.rollout import ARMS as ROLLOUT_ARMS
from studies.state_feedback.rollout import rollouts
from studies.state_feedback.tasks import SENSORS, sensor_task, text_task
from studies.state_feedback.training import ARMS, train, way_back
from studies.state_feedback.words import word_task


@dataclass(frozen=True)
class Config:
    corpus: str = "auto"  # "bible", "handbook", "python", or "auto": the first that is there
    arms: tuple[str, ...] = tuple(name for name in ARMS if name != "DSF 0.9 linspace")
    """ways back, of `ARMS`; BPTT and FT-BPTT have to be among them"""
    text_lengths: tuple[int, ...] = (64,)  # characters in a sequence
    sensor_lengths: tuple[int, ...] = (64, 256)  # readings in a sequence
    cell: str = "gru"  # "gru" or "lstm"; Highway and gates need one of them
    width: int = 64  # units of a layer
    depth: int = 1  # recurrent layers
    batch: int = 16  # sequences a step
    text_steps: int = 150  # optimiser steps on the text
    memory_tasks: tuple[str, ...] = ()  # of "copy" and "adding"
    memory_lengths: tuple[int, ...] = ()  # steps of a sequence, for each of them
    memory_steps: tuple[int, ...] = ()  # optimiser steps, for each of them
    word_lengths: tuple[int, ...] = ()  # words in a sequence
    word_steps: int = 400  # optimiser steps on the words
    vocabulary: int = 2000  # words that are told apart
    sensor_steps: tuple[int, ...] = (150, 60)  # optimiser steps on the sensors, for each length
    sequences: int = 192  # training sequences of readings
    held_out: int = 48  # sequences of text in validation and in test
    rates: tuple[float, ...] = (6e-3,)  # peak learning rates; every arm has the one with the least validation error
    first_seed: int = 0  # seeds are counted from here
    tuning_seeds: int = 0
    """further seeds, from 100 on, whose validation chooses the rate; 0: all rates are trained with all seeds"""
    equal_time: bool = True  # BPTT once more, with as many steps as fit into the time of state feedback
    seeds: int = 3  # starts and orders of batches, the same for every arm
    truncation: int = 16  # steps in a stretch of TBPTT
    looks: int = 4  # validations in a training
    comparisons: int = 2  # comparisons of the gradient with the true one in a training
    rollout_steps: int = 25  # optimiser steps of the neural operator on rollouts; 0 leaves them out
    rollout_frames: int = 6  # own steps of the operator, all in the loss
    rollout_width: int = 12  # channels of the operator
    timed_lengths: tuple[int, ...] = (64, 256, 1024)  # lengths at which one gradient is timed
    rounds: int = 5  # rounds of timing
    output: Path = Path("runs/state_feedback")  # folder for results.json and the figures


_PAPER = ("BPTT", "TBPTT", "FT-BPTT", "DSF linspace", "DSF gate", "Highway k = 1")
_TUNED: dict[str, Any] = dict(
    arms=_PAPER,
    text_lengths=(),
    sensor_lengths=(),
    sensor_steps=(),
    seeds=5,
    tuning_seeds=1,
    equal_time=False,
    rollout_steps=0,
    timed_lengths=(),
)

PRESETS = {
    "quick": Config(memory_tasks=("copy",), memory_lengths=(20,), memory_steps=(150,)),
    # Seeds below 10 and from 100 on were used in pilots.
    "memory": Config(
        memory_tasks=("copy",),
        memory_lengths=(30,),
        memory_steps=(1000,),
        width=32,
        batch=32,
        held_out=500,
        truncation=8,
        rates=(5e-3, 1e-2, 2e-2, 4e-2),
        looks=10,
        first_seed=10,
        output=Path("runs/state_feedback_memory"),
        **_TUNED | {"seeds": 6},
    ),
    "words": Config(
        word_lengths=(32,),
        word_steps=1000,
        vocabulary=500,
        depth=3,
        held_out=200,
        truncation=8,
        rates=(4e-3, 8e-3, 1.6e-2),
        first_seed=10,
        output=Path("runs/state_feedback_words"),
        **_TUNED | {"arms": _PAPER[:-1], "seeds": 8, "equal_time": True, "timed_lengths": (32, 256)},
    ),
    "full": Config(
        arms=tuple(ARMS),
        text_lengths=(64, 256),
        sensor_lengths=(64, 256, 1024),
        width=256,
        depth=2,
        batch=32,
        text_steps=8000,
        sensor_steps=(4000, 4000, 2000),
        memory_tasks=("copy", "adding", "copy", "adding"),
        memory_lengths=(50, 100, 100, 200),
        memory_steps=(4000, 4000, 8000, 4000),
        word_lengths=(64,),
        word_steps=8000,
        vocabulary=4000,
        sequences=1024,
        held_out=512,
        rates=(1e-3, 3e-3, 6e-3),
        seeds=5,
        looks=10,
        comparisons=10,
        rollout_steps=4000,
        rollout_frames=16,
        rollout_width=48,
        rounds=21,
    ),
}


def run(config: Config) -> dict[str, Any]:
    """Trains, measures, prints, writes results.json and the figures, and returns the results.

    Raises ValueError for a config that does not hold together, RuntimeError where an arm computes another loss than
    BPTT does, or truncation beyond the end another gradient.
    """
    _check(config)
    corpus = find_corpus(config.corpus)
    seeds = range(config.first_seed, config.first_seed + config.seeds)
    folder = opened(config, methods=["state_feedback"], seeds=seeds)
    shape = dict(batch=config.batch, width=config.width, depth=config.depth, cell=config.cell)
    plans: list[tuple[Task, int]] = [
        (text_task(corpus, length=length, held_out=config.held_out, **shape), config.text_steps)
        for length in config.text_lengths
    ]
    for length, steps in zip(config.sensor_lengths, config.sensor_steps):
        plans.append((sensor_task(length, sequences=config.sequences, seed=length, **shape), steps))
    for name, length, steps in zip(config.memory_tasks, config.memory_lengths, config.memory_steps):
        plans.append((memory_task(name, length=length, held_out=config.held_out, **shape), steps))
    for length in config.word_lengths:
        how: dict[str, Any] = shape | {"depth": max(config.depth, 3)}
        size = config.vocabulary
        plans.append(
            (word_task(corpus, vocabulary=size, length=length, held_out=config.held_out, **how), config.word_steps)
        )
    tuned = config.tuning_seeds > 0 and len(config.rates) > 1
    own = config.seeds * (1 if tuned else len(config.rates))
    tries = config.tuning_seeds * len(config.rates) if tuned else 0
    total = len(plans) * (len(config.arms) * (tries + own) + config.equal_time * own)
    text = hashlib.sha256(read_corpus(corpus).encode()).hexdigest()
    given = {"text": text, **shape, **picked(config, "vocabulary sequences held_out")}
    rows: list[dict[str, Any]] = []
    tuning: list[dict[str, Any]] = []
    with tqdm(total=total, unit="training") as bar:

        def trained(task: Task, steps: int, arm: str, **how: Any) -> dict[str, Any]:
            how |= {"steps": steps, **picked(config, "truncation looks comparisons")}
            made_by = {"task": task.name, "arm": ARMS[arm], **given, **how}
            cell = kept(
                folder.path / "cells",
                f"{task.name}-{arm}-{how['rate']:g}-{how['seed']}",
                made_by,
                lambda: train(task, arm, **how),
                unless=lambda row: row["diverged"],
            )
            row = {key: value for key, value in cell.items() if key not in ("name", "spec")}
            folder.log({k: v for k, v in row.items() if k not in ("history", "closeness")})
            bar.set_postfix({"task": task.name, "arm": arm}, refresh=False)
            bar.update()
            return row

        for task, steps in plans:
            check_arms(task, config)
            draws = [dict(seed=seed, rate=rate) for seed in seeds for rate in config.rates]
            chosen: dict[str, float] = {}
            if tuned:
                # seeds from 100 on choose the rate of every arm by their validation and are not in the results
                trial = [dict(seed=100 + i, rate=rate) for i in range(config.tuning_seeds) for rate in config.rates]
                trials = [trained(task, steps, arm, **how) for how in trial for arm in config.arms]
                tuning += tuned_rates(task.name, trials)
                chosen = {row["arm"]: row["rate"] for row in tuning if row["task"] == task.name}
                draws = [dict(seed=seed) for seed in seeds]
            rated = lambda arm, how: how | ({"rate": chosen[arm]} if chosen else {})  # noqa: B023, E731
            # arms take turns, so that the load of the machine is the same for all
            here = [trained(task, steps, arm, **rated(arm, how)) for how in draws for arm in config.arms]
            rows += here
            if config.equal_time:
                fewer = max(1, round(steps * _share_of_time(here)))
                again = [trained(task, fewer, "BPTT", **rated("BPTT", how)) for how in draws]
                rows += [row | {"arm": EQUAL_TIME, "steps": fewer} for row in again]
    tasks = [
        {"name": t.name, "about": t.about, "unit": t.unit, "trivial": t.trivial, "optimiser_steps": n} for t, n in plans
    ]
    rated_rows = summary(tasks, rows)
    results = {
        "corpus": corpus,
        "tasks": tasks,
        "tuning": tuning,
        "runs": rows,
        "summary": rated_rows,
        "claims": claims(rated_rows) if tuned else [],
        "rollout": rollout_rows(config),
        "gradient_seconds": time_gradients(config),
        "truncation": config.truncation,
    }
    return finished(folder, results, draw, print_report, answer=answer)


def rollout_rows(config: Config) -> list[dict[str, Any]]:
    """The trainings of a neural operator that steps the whole field (`rollouts`)."""
    if config.rollout_steps == 0:
        return []
    how = picked(config, "steps frames width", "rollout_") | picked(config, "seeds batch sequences")
    trainings = rollouts(rate=config.rates[0], **how)
    return list(tqdm(trainings, total=len(ROLLOUT_ARMS) * config.seeds, unit="rollout training"))


def _share_of_time(rows: list[dict[str, Any]]) -> float:
    """Time of a training by state feedback (by FT-BPTT where no such arm runs) over that by BPTT, at most 1."""
    fed = [r["seconds"] for r in rows if r["arm"].startswith("DSF")] or [
        r["seconds"] for r in rows if r["arm"] == "FT-BPTT"
    ]
    exact = [r["seconds"] for r in rows if r["arm"] == "BPTT"]
    return min(1.0, (sum(fed) / len(fed)) / (sum(exact) / len(exact)))


def find_corpus(wanted: str) -> str:
    """The corpus to be read; says so where the one that is preferred is not there."""
    if wanted != "auto":
        read_corpus(wanted)
        return wanted
    for name in CORPORA:
        try:
            read_corpus(name)
        except FileNotFoundError as error:
            print(f"{error}")
            continue
        if name == "python":
            print("the text is that of Python's reference, smaller and less like prose")
        return name
    raise AssertionError("Python's own texts are always there")


def check_arms(task: Task, config: Config) -> None:
    """All arms compute the same loss, and truncation to the whole length is BPTT; RuntimeError otherwise."""
    model, batch = task.model(0), task.draw(torch.Generator().manual_seed(0))
    loss, truth = gradient(model, task, batch, ("exact", {}))
    flat = lambda g: torch.cat([v.flatten() for v in g.values()])  # noqa: E731
    for arm in config.arms:
        other, found = gradient(model, task, batch, way_back(arm, config.truncation))
        if not abs(other - loss) <= 1e-5 * abs(loss):
            raise RuntimeError(f"{task.name}, {arm}: the loss is {other:.6g}, that of BPTT {loss:.6g}")
        if arm == "BPTT":
            require_equal(f"{task.name}, {arm}", flat(found), flat(truth), 1e-4)
    whole = gradient(model, task, batch, ("truncated", {"steps": task.steps}))[1]
    require_equal(f"{task.name}, TBPTT with K = T", flat(whole), flat(truth), 1e-5)


def time_gradients(config: Config) -> list[dict[str, Any]]:
    """Median seconds of one forward and backward pass of the sensor model, by length and way back.

    Of "DSF least squares" every 50th pass, with its sweep over the steps, takes much longer; see the training times.
    """
    rows = []
    for length in config.timed_lengths:
        model = recurrent(0, SENSORS, SENSORS, config.width, config.depth, config.cell, residual=True)
        x = torch.randn(config.batch, length, SENSORS, generator=torch.Generator().manual_seed(0))
        ways = {"BPTT, Python loop": ("loop", {})} | {arm: way_back(arm, config.truncation) for arm in config.arms}
        calls = {arm: partial(_pass, model, x, way) for arm, way in ways.items()}
        seconds = interleaved({"forward only": partial(_pass, model, x, None), **calls}, rounds=config.rounds)
        rows += [
            {"length": length, "arm": arm, "seconds": sorted(each)[len(each) // 2]} for arm, each in seconds.items()
        ]
    return rows


def _pass(model: torch.nn.Module, x: torch.Tensor, way: tuple[str, dict[str, Any]] | None) -> None:
    if way is None:
        with torch.no_grad():
            model(x)
        return
    with model.going_back(way[0], **way[1]):
        model(x).square().sum().backward()


def _check(config: Config) -> None:
    unknown = [arm for arm in config.arms if arm not in ARMS]
    if unknown or not {"BPTT", "FT-BPTT"} <= set(config.arms):
        raise ValueError(f"--arms {' '.join(config.arms)}: expected BPTT, FT-BPTT and others of {', '.join(ARMS)}")
    if len(config.sensor_steps) != len(config.sensor_lengths):
        raise ValueError(
            f"--sensor-steps {config.sensor_steps}: expected one number for each of --sensor-lengths "
            f"{config.sensor_lengths}"
        )
    require_known("--memory-tasks", config.memory_tasks, MEMORY)
    if not len(config.memory_tasks) == len(config.memory_lengths) == len(config.memory_steps):
        raise ValueError(
            f"--memory-lengths {config.memory_lengths} and --memory-steps {config.memory_steps}: expected one number "
            f"each for every one of --memory-tasks {config.memory_tasks}"
        )
    for name in ("seeds", "looks", "comparisons", "rounds", "truncation"):
        if getattr(config, name) < 1:
            raise ValueError(f"--{name} {getattr(config, name)}: expected at least 1")
