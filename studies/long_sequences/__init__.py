"""What a state space does with long sequences: its cost, lengths never seen in training, and grids never seen.

    python -m studies.long_sequences
    python -m studies.long_sequences --preset medium --output runs/long_sequences
    python -m studies.long_sequences --preset full

One encoder layer on 1k to 64k tokens beside attention written out and fused; the memory of two layers on 16k to 256k
tokens, with and without recomputation, beside fused and sparse attention; a needle found in sequences 4 and 16
times as long as those of training; Burgers' equation learnt on 256 points and asked for on 1024. Finished parts lie in
the output folder as records and are read back when the command is given again. Layers that differ from dense float64
references end the run before anything is timed.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from studies.kit.choices import require_known
from studies.kit.study import finished, opened
from studies.long_sequences import burgers, layers, needle, stacks
from studies.long_sequences.report import answer, draw, print_tables, summary


@dataclass(frozen=True)
class Config:
    parts: tuple[str, ...] = ("cost", "stacks", "needle", "burgers")  # which parts of the study
    channels: int = 64  # of the layer that is timed
    state: int = 32  # real numbers a channel of every state space
    lengths: tuple[int, ...] = (1024, 2048, 4096, 8192, 16384, 32768, 65536)  # tokens, for the times
    memory_lengths: tuple[int, ...] = (1024, 4096, 16384, 65536)  # tokens, for the peak memory
    memory_modes: tuple[str, ...] = ("training",)  # of training (forward and backward) and forward (without gradients)
    fused_to: int = 8192  # longest sequence for fused attention
    written_bytes: float = 2e9  # most memory for the matrices of attention written out
    rounds: int = 3  # in which every mixer takes its turn; fewer above 16k tokens
    stack_arms: tuple[str, ...] = (
        stacks.SSM,
        stacks.FUSED,
        stacks.SCORES,
    )  # mixers of the stacks of layers whose memory is measured
    stack_lengths: tuple[int, ...] = (2048, 8192)  # tokens there
    stack_depth: int = 2  # layers of a stack
    stack_fused_to: int = 8192  # longest sequence for fused attention there; its law is continued beyond
    stack_sparse_to: int = 8192  # for sparse attention with a mean of every 16 tokens, whose time is quadratic
    stack_scores_to: int = 2048  # for the same with its scores in memory
    needle_arms: tuple[str, ...] = needle.ARMS[:3]  # models of the needle task
    needle_train: int = 64  # tokens in training
    needle_tests: tuple[int, ...] = (256, 1024)  # tokens of the other test sequences
    needle_samples: int = 64  # test sequences a length
    needle_steps: int = 500  # of training
    needle_batch: int = 64  # sequences a step
    needle_noise: int = 4  # symbols of the noise
    needle_state: int = 4
    """real numbers a channel of the state space there: the fewer modes, the fewer sequences until it is learnt"""
    needle_rate: float = 1e-2  # peak learning rate
    needle_width: int = 16  # channels
    needle_depth: int = 1  # blocks
    burgers_arms: tuple[str, ...] = tuple(burgers.ARMS)  # models of Burgers' equation
    burgers_refinements: tuple[int, ...] = (1, 2, 4)  # test grids in multiples of 256 points
    burgers_train: int = 256  # functions in training
    burgers_test: int = 32  # test functions
    burgers_steps: int = 100  # of training
    burgers_batch: int = 8  # functions a step
    burgers_rate: float = 3e-3  # peak learning rate
    burgers_width: int = 24  # channels of the state spaces; the FNO has those that give as many parameters
    burgers_modes: int = 16  # Fourier modes of the FNO
    burgers_dt_max: float = 0.03
    """largest Δ at the start: the fastest mode, ω = π(state/2 − 1), stays below the grid's own frequency"""
    seeds: int = 3  # trainings an arm
    seed: int = 0  # of the layers that are timed
    output: Path = Path("runs/long_sequences")  # folder for records, results.json and the figures


_LONG_STACKS: dict[str, Any] = dict(
    stack_arms=(stacks.SSM, stacks.FUSED, stacks.SPARSE, stacks.SCORES),
    stack_lengths=(8192, 16384, 32768, 65536, 131_072, 262_144),
    stack_fused_to=16384,
    stack_sparse_to=32768,
    stack_scores_to=16384,
)

PRESETS = {
    "quick": Config(),
    "medium": Config(
        memory_lengths=(1024, 2048, 4096, 8192, 16384, 32768, 65536),
        memory_modes=("training", "forward"),
        fused_to=32768,
        **_LONG_STACKS,
        needle_train=256,
        needle_tests=(1024, 4096),
        needle_samples=128,
        needle_arms=needle.ARMS,
        needle_steps=1200,
        burgers_train=512,
        burgers_test=64,
        burgers_steps=800,
    ),
    "full": Config(
        memory_lengths=(1024, 2048, 4096, 8192, 16384, 32768, 65536),
        memory_modes=("training", "forward"),
        fused_to=65536,
        **_LONG_STACKS | dict(stack_arms=stacks.ARMS, stack_depth=4, stack_sparse_to=262_144),
        written_bytes=8e9,
        rounds=9,
        needle_train=256,
        needle_samples=256,
        needle_tests=(512, 1024, 2048, 4096, 16384),
        needle_noise=16,
        needle_rate=3e-3,
        needle_arms=needle.ARMS,
        needle_steps=20_000,
        needle_batch=64,
        needle_width=64,
        needle_depth=4,
        burgers_refinements=(1, 2, 4, 8),
        burgers_train=1024,
        burgers_test=128,
        burgers_steps=30_000,
        burgers_batch=16,
        burgers_width=64,
        seeds=5,
    ),
}


def run(config: Config) -> dict[str, Any]:
    """Checks, measures, trains, prints, and writes results.json and figures/; returns the results.

    Raises ValueError for arms, modes and sizes that are none of the study's, RuntimeError for a layer that is wrong.
    """
    for flag, given, known in (
        ("--parts", config.parts, Config.parts),
        ("--needle-arms", config.needle_arms, needle.ARMS),
        ("--burgers-arms", config.burgers_arms, tuple(burgers.ARMS)),
        ("--memory-modes", config.memory_modes, layers.MODES),
        ("--stack-arms", config.stack_arms, stacks.ARMS),
    ):
        require_known(flag, given, known)
    if config.seeds < 1 or len(config.lengths) < 2:
        raise ValueError(
            f"--seeds {config.seeds} --lengths {config.lengths}: expected at least 1 and at least 2 lengths"
        )
    folder = opened(config, seeds=range(config.seeds), methods=["fno"])
    records = folder.path / "records"
    results: dict[str, Any] = {"checks": layers.checks(config.channels, config.state, config.seed)}
    for name, part, measure in (
        ("times", "cost", layers.times),
        ("memory", "cost", layers.memory),
        ("stacks", "stacks", stacks.memory),
        ("needle", "needle", needle.trainings),
        ("burgers", "burgers", burgers.trainings),
    ):
        results[name] = measure(config, records) if part in config.parts else []
    results["summary"] = summary(results)
    return finished(folder, results, draw, print_tables, answer=answer)
