"""What a step of pre-training costs: time in turns, peak memory in a process of its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from sciops.files.json_files import plain
from sciops.training.speech import BestRQ
from studies.kit.timing import crossover, exponent, interleaved, peak_memory
from studies.speech_pretraining.runs import best_rq, maker

if TYPE_CHECKING:
    from studies.speech_pretraining import Config


def step_costs(config: Config, sample_rate: int) -> list[dict[str, Any]]:
    """A row for each mixer and length: median seconds and peak bytes of a step, forward, backward and AdamW.

    Recordings are noise of one length; `config.cost_frames` frames in total a step, so that longer ones come in fewer.
    Seconds are those of the processor, so that other programs do not count. bytes : None where they are not asked for
    """
    rows = []
    given = {f.name: getattr(config, f.name) for f in fields(config)}
    for seconds in config.cost_seconds:
        steps = {mixer: prepared_step(given, mixer, seconds, sample_rate) for mixer in config.mixers}
        times = interleaved(steps, rounds=config.rounds, clock=time.process_time)
        for mixer in config.mixers:
            arguments = (plain(given), mixer, seconds, sample_rate)
            asked = config.memory_seconds is None or seconds in config.memory_seconds
            function = "studies.speech_pretraining.costs:prepared_step"
            rows.append(
                {
                    "mixer": mixer,
                    "length": seconds,
                    "batch": _batch(config.cost_frames, seconds),
                    "seconds": sorted(times[mixer])[len(times[mixer]) // 2],
                    "bytes": peak_memory(function, *arguments) if asked else None,
                }
            )
    return rows


def prepared_step(given: Mapping[str, Any], mixer: str, seconds: float, sample_rate: int) -> Callable[[], None]:
    """The call that makes one step."""
    torch.set_num_threads(int(given["threads"]))
    config = _Given(given)
    torch.manual_seed(0)
    model: BestRQ = best_rq(config, maker(config, mixer, sample_rate)(), 0)
    optimizer = torch.optim.AdamW(model.parameters())
    mel, frames = _noise(int(given["cost_frames"]), seconds, int(given["bins"]))

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        model(mel, frames).loss.backward()
        optimizer.step()

    return step


class _Given:
    def __init__(self, values: Mapping[str, Any]) -> None:
        self.__dict__.update(values)


def _batch(total: int, seconds: float) -> int:
    return max(1, round(total / (100 * seconds)))


def _noise(total: int, seconds: float, bins: int) -> tuple[Tensor, Tensor]:
    batch, frames = _batch(total, seconds), round(100 * seconds)
    return torch.randn(batch, frames, bins), torch.full((batch,), frames)


def exponents(rows: Sequence[Mapping[str, Any]], mixer: str) -> dict[str, float]:
    """p of (time, memory a recording) ~ lengthᵖ between the two longest lengths; empty for less than two."""
    found = {}
    for key in ("seconds", "bytes"):
        own = [row for row in rows if row["mixer"] == mixer and row[key] is not None]
        own = sorted(own, key=lambda row: row["length"])[-2:]
        if len(own) == 2:
            each = [max(row[key] / row["batch"], 1e-12) for row in own]
            found[key] = exponent([row["length"] for row in own], each)
    return found


def crossings(rows: Sequence[Mapping[str, Any]], other: str = "self_attention") -> list[dict[str, Any]]:
    """For each mixer the length in seconds from which a step takes less time, and less memory, than that of `other`.

    0 where it is less at every length, ∞ where it is not at the longest; see `studies.kit.timing.crossover`.
    """
    found = []
    for mixer in dict.fromkeys(row["mixer"] for row in rows):
        if mixer == other:
            continue
        row: dict[str, Any] = {"mixer": mixer}
        for key in ("seconds", "bytes"):
            of = [{r["length"]: r[key] for r in rows if r["mixer"] == m and r[key] is not None} for m in (mixer, other)]
            lengths = sorted(of[0].keys() & of[1].keys())
            row[key] = crossover(lengths, *([values[n] for n in lengths] for values in of))
        found.append(row)
    return found
