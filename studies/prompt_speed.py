"""What it costs to read a long prompt and be ready to go on: prefill beside the forward pass, time and memory.

    python -m studies.prompt_speed
    python -m studies.prompt_speed --preset full

A language model reads the prompt once: by its forward pass, which leaves nothing, and by `prefill`, which leaves the
state from which the next tokens are decoded. Both give the same logits, or the run ends; they take turns on one thread,
without gradients. Memory is the peak of a process of its own beyond weights and prompt. The mixers are those whose
state has a fixed size; self-attention keeps its keys and values, and its time is quadratic in both.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sciops.plotting import figure, series
from studies.kit.answers import extent, met, sentence
from studies.kit.choices import require_known
from studies.kit.study import finished, opened
from studies.kit.tables import print_table
from studies.kit.timing import interleaved, peak_memory, print_targets, ratio, require_equal, target, threads

MIXERS = ("state_space", "linear_attention", "polynomial", "recurrence", "mean_pool")
LEAST, MOST = 0.8, 1.3  # of forward over prefill in time, of prefill over forward in memory


@dataclass(frozen=True)
class Config:
    mixers: tuple[str, ...] = MIXERS  # of the models that read the prompt
    tokens: int = 100_000  # of the prompt
    checked: int = 20_000  # of its tokens on which logits are compared in float64
    width: int = 64  # channels of the models
    depth: int = 2  # their blocks
    rounds: int = 3  # in which both ways take their turn
    processes: int = 3  # whose peaks of memory a median is taken of: one may keep pages that another gives back
    seed: int = 0  # of weights and prompt
    output: Path = Path("runs/prompt_speed")  # folder for results.json and the figure


PRESETS = {"quick": Config(), "full": Config(tokens=1_000_000, width=256, depth=4, rounds=7)}


def run(config: Config) -> dict[str, Any]:
    """Measures, checks, prints, and writes results.json and figures/prompt_speed.png; returns the results.

    Raises RuntimeError where the two ways do not give the same logits; ValueError for a mixer without a state of fixed
    size and for fewer than two tokens.
    """
    require_known("--mixers", config.mixers, MIXERS, some=True)
    if min(config.tokens, config.checked) < 2 or config.processes < 1:
        raise ValueError(
            f"--tokens {config.tokens}, --checked {config.checked}, --processes {config.processes}: expected at least "
            "2, 2 and 1"
        )
    folder = opened(config, seeds=[config.seed])
    with threads(1):
        rows = [_row(name, config) for name in config.mixers]
    results = {"rows": rows, "targets": _targets(rows), "tokens": config.tokens}
    return finished(folder, results, _draw, _print, answer=answer, picture="prompt_speed.png")


def answer(results: dict[str, Any]) -> str:
    """What a prefill costs in forward passes."""
    rows = results["rows"]
    time, memory = extent(1 / row["speed"]["median"] for row in rows), extent(row["memory"] for row in rows)
    said = f"a prefill takes {time} times the time of a forward pass and {memory} times its memory"
    return sentence(said, met(results["targets"]))


def calls(
    mixer: str, tokens: int, width: int, depth: int, seed: int, dtype: str = "float32"
) -> dict[str, Callable[[], Any]]:
    """{"forward", "prefill"} of one model and prompt: both return the logits."""
    import torch

    from sciops.models import build_model

    torch.manual_seed(seed)
    model = build_model("language", symbols=256, width=width, depth=depth, mixer=mixer).to(getattr(torch, dtype)).eval()
    prompt = torch.randint(0, 256, (1, tokens))
    return {
        "forward": torch.inference_mode()(lambda: model(prompt)),
        "prefill": torch.inference_mode()(lambda: model.prefill(prompt)[0]),
    }


def prepared(way: str, mixer: str, tokens: int, width: int, depth: int, seed: int) -> Callable[[], Any]:
    """For `peak_memory`: one way, after a short prompt for what libraries set up on first use."""
    import torch

    torch.set_num_threads(1)
    calls(mixer, 64, width, depth, seed)[way]()
    return calls(mixer, tokens, width, depth, seed)[way]


def _row(mixer: str, config: Config) -> dict[str, Any]:
    sizes = (config.width, config.depth, config.seed)
    both = calls(mixer, min(config.checked, config.tokens), *sizes, dtype="float64")
    difference = require_equal(f"{mixer}: prefill", both["prefill"](), both["forward"](), 1e-11)
    times = interleaved(calls(mixer, config.tokens, *sizes), rounds=config.rounds)
    measured, count = "studies.prompt_speed:prepared", config.processes
    peaks = {
        way: float(np.median([peak_memory(measured, way, mixer, config.tokens, *sizes) for _ in range(count)]))
        for way in ("forward", "prefill")
    }
    return {
        "mixer": mixer,
        "seconds": {way: float(np.median(taken)) for way, taken in times.items()},
        "speed": ratio(times["forward"], times["prefill"]),
        "bytes": peaks,
        "memory": peaks["prefill"] / peaks["forward"],
        "difference": difference,
    }


def _targets(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    found = []
    for row in rows:
        found.append(target(f"{row['mixer']}: forward over prefill", row["speed"]["median"], least=LEAST))
        found.append(target(f"{row['mixer']}: memory of prefill over forward", row["memory"], most=MOST))
    return found


def _print(results: dict[str, Any]) -> None:
    print_table(
        results["rows"],
        "mixer; forward=seconds.forward:.2f; prefill=seconds.prefill:.2f; forward ÷ prefill=speed.median:.2f",
        ("(quartiles)", lambda row: "{low:.2f}–{high:.2f}".format(**row["speed"])),
        "forward MB=1e-6*bytes.forward:.0f; prefill MB=1e-6*bytes.prefill:.0f; ratio=memory:.2f; equal=difference:.0e",
        title=f"a prompt of {results['tokens']:,} tokens, one thread, seconds",
    )
    print_targets(results["targets"])


def _draw(results: dict[str, Any], path: Path) -> None:
    caption = (
        "A long prompt read by the forward pass and by prefill, which leaves the state to decode from: processor time "
        "on one thread (left), peak memory beyond weights and prompt (right)."
    )
    rows = results["rows"]
    names = [row["mixer"].replace("_", " ") for row in rows]
    with figure(path, 1, 2, width=3.6, height=2.6, caption=caption) as (_, axes):
        for axis, part, scale, label in zip(axes[0], ("seconds", "bytes"), (1, 1e-6), ("time (s)", "memory (MB)")):
            for way, style in zip(("forward", "prefill"), series()):
                values = [scale * row[part][way] for row in rows]
                axis.plot(values, range(len(rows)), **{**style, "linestyle": "none"}, label=way)
            axis.set_yticks(range(len(rows)), names)
            axis.set_ylim(len(rows) - 0.5, -0.5)
            axis.set_xlim(left=0)
            axis.set_xlabel(label)
        axes[0, 0].legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2)


if __name__ == "__main__":
    from sciops.commands.command_line import command

    command(run, PRESETS)
