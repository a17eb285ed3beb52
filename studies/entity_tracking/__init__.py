"""Following chains of links: one layer of resolvent attention against layers of softmax attention, and its block forms.

    python -m studies.entity_tracking
    python -m studies.entity_tracking --preset medium --output runs/entity_tracking_medium
    python -m studies.entity_tracking --preset full --parts times

Pointer chains: every token of a sequence names its parent, and the value of the root of its chain is asked for. L
layers of softmax attention can follow 2^L − 1 links (arXiv:2410.05565); the resolvent (1−γ)A(I−γA)⁻¹ follows all in
one. Parts:

layers      accuracy by links for softmax attention of 1 to 4 layers and one layer of the resolvent
gammas      the same for other γ
blocks      the structured forms of arXiv:2605.22476's kind on chains of near links, and with a tenth of far ones, each
            with its reduced system and without; the form without overlap trained longer and started otherwise
crossing    chains whose links go from block to block, to one token of each: what the reduced system is for
boxes       a world of boxes in statements, exact match, trained until it is learnt
language    small language models of a text: what the resolvent costs or gains where nothing has to be tracked
times       seconds of all forms over lengths; the exponent; what is saved against the dense operator
tiles       two ways to solve with many small triangles
properties  several pointer systems in the same tokens: what happens beyond one system a head
tasks       variables that are overwritten, and the world of boxes, a short run each

"quick" shows that everything runs and what the resolvent does; its deep softmax models are NOT trained long enough to
say anything about them. "medium" trains those until more steps change little, with several seeds. Trainings and times
are kept in records/ and read back. Use one thread (OMP_NUM_THREADS=1) on small machines.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from studies.entity_tracking.arms import Training, block_model, resolvent_model, softmax_model, summary, trained
from studies.entity_tracking.evidence import blocks, boxes, crossing, language
from studies.entity_tracking.figures import draw
from studies.entity_tracking.report import answer, print_all, targets, verdicts
from studies.entity_tracking.timings import tile_times, times
from studies.kit.cells import kept
from studies.kit.choices import require_known
from studies.kit.study import finished, opened

PARTS = ("layers", "gammas", "crossing", "blocks", "boxes", "language", "times", "tiles", "properties", "tasks")


@dataclass(frozen=True)
class Config:
    parts: tuple[str, ...] = PARTS  # which parts
    seeds: int = 3  # trainings of one layer
    deep_seeds: int = 1  # trainings of softmax models of more than one layer
    block_seeds: int = 1
    """trainings with several pointer systems, on overwritten variables and on boxes in sentences"""
    arm_seeds: int = 1  # trainings of each arm of blocks, crossing, boxes and language, whose rate is chosen before
    tested: int = 1024  # test sequences; a fourth as many of the world of boxes
    length: int = 32  # tokens of a pointer chain
    chains: int = 4  # chains in a sequence, of random lengths
    values: int = 16  # values of roots: guessing gives 1/values, or what a chain's share is where values are seen
    width: int = 64  # channels of the models
    steps: int = 300  # training steps of one layer of the resolvent and of its block forms
    rate: float = 3e-3  # largest rate of the same
    softmax_steps: tuple[int, ...] = (300, 400, 300, 200)  # training steps of softmax models of 1, 2, … layers
    softmax_rates: tuple[float, ...] = (3e-3, 2e-3, 2e-3, 2e-3)  # their largest rates
    gammas: tuple[float, ...] = (0.5, 0.8, 0.9, 0.95)  # γ that are compared
    block_length: int = 32  # tokens of the chains for block forms
    block_width: int = 64  # channels there: at least twice as many as tokens, whose names have to be told apart
    block_steps: int = 120  # training steps there
    local: int = 8  # farthest parent on chains of near links
    blocks: tuple[int, ...] = (8,)  # tokens a block
    long_links: float = 0.1  # share of far links in the second task for block forms
    block_rates: tuple[float, ...] = (3e-3,)  # largest rates to choose from there, on near links, and in crossing
    longer: int = 2  # times as many steps for block forms without overlap
    crossing_blocks: int = 8  # blocks of the chains from block to block
    crossing_block: int = 4  # tokens in each
    crossing_width: int = 64  # channels of the models there
    crossing_steps: int = 120  # training steps there
    statements: int = 16  # statements of a story about boxes
    world: tuple[int, int] = (3, 3)  # boxes and items there
    statement_steps: int = 120  # training steps there
    statement_rates: tuple[float, ...] = (5e-3,)  # largest rates to choose from there
    statement_gammas: tuple[float, ...] = (0.7, 0.9)  # γ of the resolvents there
    corpus: str = "python"  # text of the language models, as of studies.language_model
    language_width: int = 64  # their channels, in two blocks of four heads
    language_steps: int = 20  # their training steps, of 8 windows of 64 tokens
    language_rates: tuple[float, ...] = (3e-3,)  # largest rates to choose from there
    lengths: tuple[int, ...] = (512, 1024, 2048, 4096)  # lengths that are timed
    dense_to: int = 16384  # the dense operator is timed up to this length
    heads: int = 1  # heads of what is timed
    rounds: int = 3  # times each is timed
    properties: tuple[int, ...] = (2, 4, 6)  # pointer systems in the same tokens
    property_heads: int = 4  # heads there
    property_steps: int = 200  # training steps there
    task_steps: int = 100  # training steps on overwritten variables and on boxes
    output: Path = Path("runs/entity_tracking")  # folder for results.json, records and the figure


_MEDIUM = Config(
    deep_seeds=3,
    steps=500,
    arm_seeds=5,
    block_steps=200,
    block_rates=(3e-3, 6e-3),
    crossing_blocks=10,
    crossing_width=80,
    crossing_steps=200,
    statement_steps=1000,
    statement_rates=(5e-3, 1e-2),
    statement_gammas=(0.7,),
    language_steps=300,
    language_rates=(5e-3, 1e-2),
    softmax_steps=(800, 2000, 3000, 8000),
    property_steps=5000,
    properties=(2, 4, 5, 6),
    task_steps=600,
    lengths=(512, 1024, 2048, 4096, 8192, 16384),
)
PRESETS = {
    "quick": Config(),
    "medium": _MEDIUM,
    "full": replace(
        _MEDIUM,
        seeds=5,
        deep_seeds=5,
        block_seeds=3,
        arm_seeds=10,
        steps=1500,
        block_length=64,
        block_width=128,
        blocks=(8, 16),
        block_steps=1500,
        crossing_steps=1000,
        statement_steps=10_000,
        statement_gammas=(0.7, 0.9),
        language_steps=4000,
        softmax_steps=(1500, 10_000, 20_000, 20_000),
        property_steps=3000,
        properties=(1, 2, 3, 4, 5, 6, 7, 8),
        task_steps=10_000,
        rounds=15,
    ),
}


def run(config: Config) -> dict[str, Any]:
    """Trains, times, prints, writes results.json and figures/entity_tracking.png, and returns the results.

    Raises ValueError for unknown parts and lists of steps and rates of different lengths.
    """
    require_known("--parts", config.parts, PARTS, some=True)
    if len(config.softmax_steps) != len(config.softmax_rates):
        raise ValueError(
            f"--softmax-steps {len(config.softmax_steps)} of them, --softmax-rates {len(config.softmax_rates)}: "
            "expected one of each a depth"
        )
    folder = opened(config, seeds=range(config.seeds), methods=["resolvent"])
    results: dict[str, Any] = {}
    for part in (part for part in PARTS if part in config.parts):
        results[part] = _PARTS[part](config, folder.path / "records")
        folder.write_results(results)
    results["targets"], results["verdicts"] = targets(results), verdicts(results)
    return finished(folder, results, draw, print_all, answer=answer, picture="entity_tracking.png")


def _chain(config: Config) -> dict[str, Any]:
    return {"length": config.length, "chains": config.chains, "values": config.values, "balanced": False}


def _layers(config: Config, folder: Path) -> list[dict[str, Any]]:
    task = _chain(config)
    arm = Training(
        "resolvent, 1 layer", resolvent_model(config.width), "pointers", task, config.steps, config.rate, config.tested
    )
    rows = [summary(arm, trained(arm, range(config.seeds), folder)) | {"layers": 1, "bound": None}]
    for depth, (steps, rate) in enumerate(zip(config.softmax_steps, config.softmax_rates), 1):
        name = f"softmax, {depth} layer" + "s" * (depth > 1)
        arm = Training(name, softmax_model(config.width, depth), "pointers", task, steps, rate, config.tested)
        seeds = range(config.seeds if depth == 1 else config.deep_seeds)
        rows.append(summary(arm, trained(arm, seeds, folder)) | {"layers": depth, "bound": 2**depth - 1})
    return rows


def _gammas(config: Config, folder: Path) -> list[dict[str, Any]]:
    rows = []
    for gamma in config.gammas:
        # named and spelled as in the part before, so that its training is read back
        model = resolvent_model(config.width, **({} if gamma == 0.9 else {"gamma": gamma}))
        name = "resolvent, 1 layer" if gamma == 0.9 else f"γ = {gamma:g}"
        arm = Training(name, model, "pointers", _chain(config), config.steps, config.rate, config.tested)
        rows.append(summary(arm, trained(arm, range(config.seeds), folder)) | {"name": f"γ = {gamma:g}"})
    return rows


def _times(config: Config, folder: Path) -> dict[str, Any]:
    spec = {"lengths": config.lengths, "width": config.width, "heads": config.heads, "rounds": config.rounds}
    spec |= {"dense_to": config.dense_to, "fit_from": min(2048, max(config.lengths) // 2)}
    return kept(folder, "times", spec | {"threads": torch.get_num_threads()}, lambda: times(**spec))


def _tiles(config: Config, folder: Path) -> list[dict[str, float]]:
    spec = {"sizes": (8, 16, 32, 64, 128), "n": 4096, "width": config.width, "rounds": config.rounds}
    make = lambda: {"rows": tile_times(**spec)}  # noqa: E731
    return kept(folder, "tiles", spec | {"threads": torch.get_num_threads()}, make)["rows"]


def _properties(config: Config, folder: Path) -> list[dict[str, Any]]:
    rows, heads, width = [], config.property_heads, 2 * config.width
    for p in config.properties:
        task = {"length": 16, "chains": 2, "values": 4, "properties": p}
        models = {
            f"dense, {heads} heads": resolvent_model(width, heads),
            f"level 1 with overlap, {heads} heads": block_model(width, heads, level=1, block=8, overlap=True),
            f"dense, {2 * heads} heads": resolvent_model(width, 2 * heads),
        }
        for name, model in models.items():
            arm = Training(
                f"{name}, {p} systems", model, "packed", task, config.property_steps, config.rate, config.tested
            )
            row = summary(arm, trained(arm, range(config.block_seeds), folder))
            rows.append(row | {"name": name, "properties": p, "heads": model["mixer_options"]["heads"]})
    return rows


def _tasks(config: Config, folder: Path) -> dict[str, list[dict[str, Any]]]:
    width, position = config.width, {"positions": "alibi"}
    written = {"length": 48, "variables": 8, "values": config.values}
    rows = []
    for name, model in {
        "softmax, 1 layer": softmax_model(width, 1, 4, **position),
        "softmax, 2 layers": softmax_model(width, 2, 4, **position),
        "resolvent, 1 layer": resolvent_model(width, 4, **position),
    }.items():
        arm = Training(f"{name}, overwrite", model, "overwrite", written, config.task_steps, config.rate, config.tested)
        rows.append(summary(arm, trained(arm, range(config.block_seeds), folder)) | {"name": name})
    world, mixed = {"operations": 6, "boxes": 5, "items": 20}, softmax_model(width, 2, 4, **position)
    both = {**mixed, "mixer": ["self_attention", "resolvent"]}
    both["mixer_options"] = {name: {"heads": 4, **position} for name in both["mixer"]}
    of_boxes = []
    for name, model in {"softmax, 2 layers": mixed, "softmax, then resolvent": both}.items():
        options = {**model, "local": 4}
        tested = max(1, config.tested // 4)
        arm = Training(f"{name}, boxes", options, "boxes", world, config.task_steps, config.rate, tested, batch=16)
        records = trained(arm, range(config.block_seeds), folder)
        matches = [record["exact_match"] for record in records]
        row = summary(arm, records, "operations") | {"name": name, "exact": [m["rate"] for m in matches]}
        of_boxes.append(row | {"exact_by_operations": matches[0]["operations"]})
    return {"overwrite": rows, "boxes": of_boxes}


_PARTS = {
    "layers": _layers,
    "gammas": _gammas,
    "blocks": blocks,
    "crossing": crossing,
    "boxes": boxes,
    "language": language,
    "times": _times,
    "tiles": _tiles,
    "properties": _properties,
    "tasks": _tasks,
}
