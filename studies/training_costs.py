"""What a training costs beyond its steps: memory over the steps, evaluation, memory of long sequences.

    python -m studies.training_costs
    python -m studies.training_costs --preset full

Memory over the steps is what a process of its own holds while it trains a Fourier network. Evaluation is that of
``sciops demo``, which is run: errors of all its models on all grids, beside the seconds of their trainings. The encoder
block with LOCOST's state space is held against the same block with torch's fused attention by the bytes of all tensors
that live at once.
"""

from __future__ import annotations

import json
import multiprocessing
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sciops.commands.packages import own_environment
from sciops.plotting import PALETTE, figure, series
from studies.kit.answers import extent, met, sentence
from studies.kit.live_bytes import LiveBytes
from studies.kit.study import finished, opened
from studies.kit.tables import print_table
from studies.kit.timing import print_targets, resident, target, threads

FLAT, EVALUATION, BLOCK = 1.05, 0.25, 1.0  # the most that the targets allow
_SHORT = (
    "the demo trains six passes on 16² points and predicts every test field on 16², twice on 31² and twice on 61²: "
    "four tenths of the points of its forward and backward passes, by as many processes as trained"
)
SETTLED = 100  # steps after which a training holds what it needs
MIXERS = ("state_space", "attention")  # attention by torch's fused kernel
MODES = ("forward", "training")


@dataclass(frozen=True)
class Config:
    steps: int = 800  # of the training whose memory is watched
    points: int = 64  # per axis of its fields
    demo: bool = True  # runs ``sciops demo`` for the share of its evaluation; two minutes
    tokens: tuple[int, ...] = (8192, 32_768)  # of the sequences that a block reads
    channels: int = 64  # of the block
    seed: int = 0  # of fields, weights and sequences
    output: Path = Path("runs/training_costs")  # folder for results.json, the figure and the demo


PRESETS = {"quick": Config(), "full": Config(steps=8000, points=128, tokens=(8192, 32_768, 65_536))}


def run(config: Config) -> dict[str, Any]:
    """Measures, prints, and writes results.json and figures/training_costs.png; returns the results.

    Raises ValueError for too few steps to tell, and RuntimeError where the demo fails.
    """
    if config.steps < 2 * SETTLED:
        raise ValueError(f"--steps {config.steps}: expected at least {2 * SETTLED}, of which {SETTLED} settle")
    folder = opened(config, seeds=[config.seed])
    results: dict[str, Any] = {
        "memory": _memory(config),
        "demo": _demo(config.output / "demo") if config.demo else None,
        "blocks": [_block(n, mode, config) for n in config.tokens for mode in MODES],
    }
    results["targets"] = _targets(results)
    return finished(folder, results, _draw, _print, answer=answer, picture="training_costs.png")


def answer(results: dict[str, Any]) -> str:
    """Growth of the memory, share of the evaluation, a block's memory over that of attention."""
    memory, demo = results["memory"], results["demo"]
    said = [
        f"a training holds {memory['growth']:.3f} times the memory after {memory['steps'][-1]} steps that it holds "
    ]
    said[0] += f"after {SETTLED}"
    if demo:
        said.append(f"the demo evaluates for {demo['share']:.2f} of the time of its trainings")
    for mode in MODES:
        ratios = extent(row["ratio"] for row in results["blocks"] if row["mode"] == mode)
        said.append(f"a state-space block takes {ratios} times the memory of fused attention, {mode}")
    return sentence(*said, met(results["targets"]))


def held_by_steps(steps: int, points: int, seed: int) -> list[tuple[int, int]]:
    """(steps done, bytes that this process holds) at twenty and more times in a training of a Fourier network."""
    import torch

    from sciops import Grid, build_model
    from sciops.datasets import Splits, TensorFields
    from sciops.training import TrainConfig, fit

    torch.set_num_threads(1)
    torch.manual_seed(seed)
    grid, fields, batch = Grid((points, points)), 80, 4
    train, validation = (TensorFields(*torch.randn(2, n, 1, points, points), grid) for n in (fields, 8))
    held, done, every = [], 0, max(1, min(SETTLED, steps // 20))

    def watch(_: Any, record: dict[str, Any]) -> None:
        nonlocal done
        if "gradient_norm" in record and "validation" not in record:  # of a step, not of an epoch
            done += 1
            if done % every == 0:
                held.append((done, resident()))

    training = TrainConfig(epochs=-(-steps * batch // fields), batch_size=batch, progress=False, seed=seed)
    model = build_model("fno", width=16, depth=3, modes=(12, 12))
    fit(model, Splits(train, validation, None), training, callbacks=[watch])
    return held


def _memory(config: Config) -> dict[str, Any]:
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        held = pool.submit(held_by_steps, config.steps, config.points, config.seed).result()
    steps, bytes_held = zip(*held)
    settled = next(b for n, b in held if n >= SETTLED)
    return {"steps": steps, "bytes": bytes_held, "growth": bytes_held[-1] / settled}


def _demo(folder: Path) -> dict[str, float]:
    """{"training", "evaluation": seconds, "share"} of ``sciops demo`` into the folder."""
    command = [sys.executable, "-m", "sciops", "demo", "--output", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, env=own_environment())
    if done.returncode:
        raise RuntimeError(f"{' '.join(command[2:])}: {(done.stderr.strip().splitlines() or ['no message'])[-1]}")
    seconds = json.loads((folder / "results.json").read_text())["seconds"]
    return {**seconds, "share": seconds["evaluation"] / seconds["training"]}


def block_bytes(mixer: str, mode: str, tokens: int, channels: int, seed: int) -> int:
    """Bytes of tensors at once, beyond weights and input, of an encoder block on one sequence."""
    import torch

    from sciops.mixers import SelfAttention, StateSpaceMixer
    from sciops.models.sequences.stack import SequenceBlock

    torch.manual_seed(seed)
    made = StateSpaceMixer(channels) if mixer == "state_space" else SelfAttention(channels)
    block = SequenceBlock(channels, made, causal=False)
    x, g = torch.randn(2, 1, tokens, channels)
    x.requires_grad_(mode == "training")
    weights = list(block.parameters())
    with LiveBytes(x, g, *weights) as live:
        if mode == "training":
            torch.autograd.grad(block(x), [x, *weights], g)
        else:
            with torch.no_grad():
                block(x)
    return live.peak


def _block(tokens: int, mode: str, config: Config) -> dict[str, Any]:
    with threads(2):
        found = {mixer: block_bytes(mixer, mode, tokens, config.channels, config.seed) for mixer in MIXERS}
    return {"tokens": tokens, "mode": mode, "bytes": found, "ratio": found[MIXERS[0]] / found[MIXERS[1]]}


def _targets(results: dict[str, Any]) -> list[dict[str, Any]]:
    memory, demo = results["memory"], results["demo"]
    last = memory["steps"][-1]
    found = [target(f"memory of a training, {last} steps over {SETTLED}", memory["growth"], most=FLAT)]
    if demo:
        found.append(target("evaluation over training, sciops demo", demo["share"], most=EVALUATION, note=_SHORT))
    for row in results["blocks"]:
        if row["tokens"] >= 32_768:  # of shorter sequences the kernels stay, which is faster
            what = f"state-space block, {row['tokens']} tokens, {row['mode']}: memory over fused attention's"
            found.append(target(what, row["ratio"], most=BLOCK))
    return found


def _print(results: dict[str, Any]) -> None:
    memory, demo = results["memory"], results["demo"]
    rows = [{"steps": n, "MB": 1e-6 * b} for n, b in zip(memory["steps"], memory["bytes"])]
    print_table(rows, "steps; MB:.1f", title="memory of a process that trains")
    if demo:
        print_table([demo], "training, s=training:.1f; evaluation, s=evaluation:.1f; share:.3f", title="sciops demo")
    columns = "tokens; mode; state space, MB=1e-6*bytes.state_space:.1f; attention, MB=1e-6*bytes.attention:.1f"
    print_table(results["blocks"], columns, "ratio:.2f", title="an encoder block, bytes of tensors at once")
    print_targets(results["targets"])


def _draw(results: dict[str, Any], path: Path) -> None:
    memory, demo, blocks = results["memory"], results["demo"], results["blocks"]
    caption = (
        "Memory of a process that trains a Fourier network (left); seconds of training and of evaluation in the demo "
        "(middle); bytes of all tensors at once in an encoder block with a state space and with fused attention "
    )
    with figure(path, 1, 3 if demo else 2, width=2.9, height=2.6, caption=caption) as (_, axes):
        over_steps, *phases, sequences = axes[0]
        over_steps.plot(memory["steps"], [1e-6 * b for b in memory["bytes"]], **next(series()))
        over_steps.set(xlabel="training steps", ylabel="memory of the process (MB)")
        over_steps.set_ylim(0, 1.3e-6 * max(memory["bytes"]))
        for axis in phases:
            axis.bar(["training", "evaluation"], [demo["training"], demo["evaluation"]], color=PALETTE[:2], width=0.6)
            axis.set_ylabel("seconds in the demo")
        styles = dict(zip([(mixer, mode) for mixer in MIXERS for mode in MODES], series()))
        for (mixer, mode), style in styles.items():
            own = [row for row in blocks if row["mode"] == mode]
            values = [1e-3 * row["bytes"][mixer] / row["tokens"] for row in own]
            sequences.plot([row["tokens"] for row in own], values, label=f"{mixer.replace('_', ' ')}, {mode}", **style)
        sequences.set_xscale("log", base=2)
        sequences.set(xlabel="tokens", ylabel="memory a token (kB)")
        sequences.set_ylim(bottom=0)
        sequences.legend(fontsize="x-small")


if __name__ == "__main__":
    from sciops.commands.command_line import command

    command(run, PRESETS)
