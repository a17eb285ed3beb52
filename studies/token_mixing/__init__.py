"""Between recurrence and attention: what links to earlier outputs let one layer do, and what a decoded token costs.

    python -m studies.token_mixing                       # small and short: that everything runs, no evidence
    python -m studies.token_mixing --preset order        # copying by all mixers at two depths: the paper's order or not
    python -m studies.token_mixing --preset medium       # three tasks
    python -m studies.token_mixing --preset full

Every causal linear mixer is Y = A X + B Y (arXiv:2605.31367). The study trains the same small model with nine choices
of A and B on copying, associative recall and multi-hop look-ups, and sets the order of the accuracies beside the
paper's; for copying over lengths, depths and five seeds, with a verdict on every pair. Then it counts the links and the
cached tokens of a decoded token, and how they grow with the length. A state that holds other tokens than counted ends
the run with an error after the results are written.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from studies.kit.choices import require_known
from studies.kit.pool import run_all
from studies.kit.study import finished, opened, picked
from studies.token_mixing.copying import CONTROLS, Side, analysis, best_rate, trained
from studies.token_mixing.report import answer, claims, draw, print_report, summary
from studies.token_mixing.runs import EXPECTED, MIXERS_OF, TASKS, Spec, counts, growth, live_cache, train_once


@dataclass(frozen=True)
class Config:
    tasks: tuple[str, ...] = TASKS  # of "copy", "recall" and "multi-hop"
    arms: tuple[str, ...] = tuple(MIXERS_OF)  # mixers, by their names in the table
    seeds: tuple[int, ...] = (0, 1)  # of the initial weights and the samples
    steps: tuple[int, int, int] = (2000, 1200, 1000)  # of copy, recall and multi-hop
    depth: tuple[int, int, int] = (2, 2, 1)
    """blocks, likewise; recall needs a look at the neighbour before the look-up, sparse links to copy in two leaps"""
    batch: int = 32  # sequences a step, fresh ones
    rate: float = 4e-3  # peak of the one-cycle rate of AdamW
    width: int = 64  # channels of the model
    heads: int = 4  # heads of every mixer
    reach: int = 6
    """window of the local attention and order of "order k", about the links of the sparse patterns at these lengths"""
    copy_length: int = 24  # symbols to copy
    alphabet: int = 16  # they are drawn from
    recall_length: int = 32  # tokens of a recall
    pairs: int = 6  # keys and values in it
    recall_symbols: int = 48  # they are drawn from
    chain_length: int = 32  # tokens of a multi-hop look-up
    chains: int = 4  # in it
    values: int = 16  # of their roots
    samples: int = 1000  # test sequences
    order_depths: tuple[int, ...] = ()  # blocks of the copying whose order is decided pair by pair; none leaves it out
    order_lengths: tuple[int, ...] = (7, 8, 10)  # its symbols: no offset of 2^k or k² + 1, one of 2^k, one of k² + 1
    order_seeds: tuple[int, ...] = (0, 1, 2, 3, 4)  # its seeds
    order_rates: tuple[float, ...] = (1e-2, 2e-2, 4e-2)
    """its peak rates; each mixer and depth has the one that is best on validation at `order_tuning` symbols"""
    order_tuning: int = 9  # symbols in the trainings that choose the rate, of the seed 100
    order_steps: int = 300  # its steps
    order_batch: int = 16  # its sequences a step
    order_width: int = 32  # its channels
    order_heads: int = 4  # its heads
    order_reach: int = 4  # its window and order; two windows do not reach the answer
    order_alphabet: int = 8  # its alphabet
    order_samples: int = 400  # its sequences of validation and of test
    lengths: tuple[int, ...] = tuple(2**i for i in range(8, 15))  # at which a decoded token is counted
    states_to: int = 4096  # longest of them at which a real state is looked at, but for the dense recurrence (512)
    workers: int = 1  # processes that train side by side, one thread each
    output: Path = Path("runs/token_mixing")  # folder for results.json, the figures and a record of every training


PRESETS = {
    "quick": Config(
        steps=(220, 160, 220),
        depth=(1, 2, 1),
        width=32,
        heads=2,
        copy_length=12,
        alphabet=8,
        recall_length=24,
        pairs=4,
        recall_symbols=32,
        chain_length=16,
        chains=2,
        values=8,
        reach=4,
        samples=300,
        order_depths=(1, 2),
        order_lengths=(7,),
        order_seeds=(0, 1),
        order_rates=(2e-2,),
        order_steps=60,
        order_samples=100,
        states_to=1024,
        workers=2,
        output=Path("runs/token_mixing_quick"),
    ),
    "order": Config(tasks=(), order_depths=(1, 2), states_to=1024, output=Path("runs/token_mixing_order")),
    "medium": Config(),
    "full": Config(
        seeds=(0, 1, 2, 3, 4),
        steps=(6000, 6000, 6000),
        batch=64,
        recall_length=64,
        pairs=8,
        recall_symbols=128,
        samples=2000,
        order_depths=(1, 2),
        order_lengths=(12, 13, 15, 16, 17, 24),
        order_tuning=14,
        order_steps=4000,
        order_batch=32,
        order_width=64,
        order_reach=6,
        order_alphabet=16,
        order_samples=2000,
        states_to=16384,
        workers=2,
        output=Path("runs/token_mixing_full"),
    ),
}


def run(config: Config) -> dict[str, Any]:
    """Trains, counts, prints, writes results.json, figures/accuracy.png and figures/cost.png; returns the results.

    Raises ValueError for unknown names and for no blocks; RuntimeError, after writing, for a state that differs.
    """
    require_known("--tasks", config.tasks, TASKS)
    require_known("--arms", config.arms, MIXERS_OF)
    if min(config.order_depths, default=1) < 1:
        raise ValueError(f"--order-depths {' '.join(map(str, config.order_depths))}: expected at least 1 block each")
    folder = opened(config, seeds=config.seeds, methods=["token_mixing"])
    results: dict[str, Any] = {"runs": _train(config, folder.path / "trainings"), "cost": _costs(config)}
    results["summary"] = summary(results["runs"], config)
    results["order"] = analysis(_order(config, folder.path / "trainings"), config.order_reach)
    results["claims"] = claims(results, config)
    wrong = [f"{arm} after {n} tokens" for arm, row in results["cost"].items() for n, a, b in row["states"] if a != b]
    wrong = f"a state holds other tokens than counted: {', '.join(wrong)}" if wrong else ""
    return finished(folder, results, draw, print_report, config, answer=answer, wrong=wrong)


def sizes_of(task: str, config: Config) -> dict[str, int]:
    """Options of the maker of a task."""
    return {
        "copy": dict(length=config.copy_length, alphabet=config.alphabet),
        "recall": dict(length=config.recall_length, pairs=config.pairs, symbols=config.recall_symbols),
        "multi-hop": dict(length=config.chain_length, chains=config.chains, values=config.values),
    }[task]


def specs(config: Config) -> list[Spec]:
    """The trainings, seed by seed, so that a run that is stopped has all mixers of the first."""
    return [
        Spec(
            task=task,
            sizes=sizes_of(task, config),
            arm=arm,
            depth=config.depth[TASKS.index(task)],
            steps=config.steps[TASKS.index(task)],
            seed=seed,
            **picked(config, "reach width heads batch rate samples"),
        )
        for seed in config.seeds
        for task in config.tasks
        for arm in config.arms
    ]


def _train(config: Config, folder: Path) -> list[dict[str, Any]]:
    jobs = ((spec, folder) for spec in specs(config))
    return run_all(train_once, jobs, workers=config.workers, threads=1, unit="training")


def sides(config: Config) -> list[Side]:
    """The copying trainings whose order is decided, without rates and seeds: every mixer at every depth; then the
    controls at the last depth."""
    base: dict[str, Any] = dict(
        lengths=config.order_lengths,
        seeds=config.order_seeds,
        rates=config.order_rates,
        part="test",
        **picked(config, "alphabet reach width heads steps batch samples", "order_"),
    )
    wanted = [(arm, depth) for depth in config.order_depths for arm in config.arms]
    wanted += [(arm, config.order_depths[-1]) for arm in CONTROLS] if config.order_depths else []
    return [Side(arm=arm, depth=depth, **base) for arm, depth in wanted]


def _order(config: Config, folder: Path) -> list[dict[str, Any]]:
    """Records of the test, each at the rate that was the best in trainings of another length and seed."""
    rest: dict[str, Any] = dict(workers=config.workers, threads=1, unit="mixer")
    test = sides(config)
    if len(config.order_rates) > 1:
        tuning = [replace(side, lengths=(config.order_tuning,), seeds=(100,), part="validation") for side in test]
        found = run_all(trained, ((side, folder) for side in tuning), desc="rates", **rest)
        test = [replace(side, rates=(best_rate(own, side.rates),)) for side, own in zip(test, found)]
    return run_all(trained, ((side, folder) for side in test), desc="order", **rest)


def _costs(config: Config) -> dict[str, Any]:
    """By mixer: counts by length, their growths, and [n, tokens in a real state, tokens counted]."""
    table = {}
    for arm in config.arms:
        row: dict[str, Any] = counts(arm, config.reach, config.lengths)
        for key, expected in zip(("links", "cache"), EXPECTED[arm]):
            row[f"{key} growth"] = growth(config.lengths, row[key]) | {"expected": expected}
        longest = min(config.states_to, 512 if arm == "dense recurrence" else config.states_to)
        row["states"] = [[n, *live_cache(arm, config.reach, n)] for n in config.lengths if n <= longest]
        table[arm] = row
    return table
