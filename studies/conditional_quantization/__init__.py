"""Conditional quantization against ensembles, dropout, quantiles and flows, where several fields are true.

    python -m studies.conditional_quantization
    python -m studies.conditional_quantization --cases mirror --steps 1000
    python -m studies.conditional_quantization --preset full       # also the start of a flow on 64²: hours

Conditional quantization (arXiv:2502.07151) learns n functions and their weights, the best n points for the law of the
output given the input. The study trains it on problems whose exact law is known: a 1-D coefficient or its mirror image;
a coefficient on a square, seen by four pooled sensors, or one of its mirror images; and on digits seen by half. Every
arm has the same network, as many parameters, as many processor seconds of training, and the rate that validates best
with the first seed. Does it beat ideal posterior samples of the same number, as theory says? Are the weights
probabilities? Does it beat the others by the energy score and the Wasserstein distance?
"""

from __future__ import annotations

import time
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from tqdm.auto import tqdm

from studies.conditional_quantization.arms import (
    ARMS,
    FIRST,
    OURS,
    build,
    has_weights,
    step_seconds,
    width_of,
)
from studies.conditional_quantization.cases import CASES, case_of, data_of
from studies.conditional_quantization.figures import draw
from studies.conditional_quantization.report import answer, print_report, summary
from studies.conditional_quantization.training import Spec, ideal_sampler, refitted, trained
from studies.kit.cells import kept
from studies.kit.choices import require_installed, require_known
from studies.kit.pool import pool
from studies.kit.study import finished, opened
from studies.kit.timing import interleaved

_PLAIN = ("quantized", "ensemble", "flow", "one point")  # arms of cases whose exact law is not known


@dataclass(frozen=True)
class Config:
    cases: tuple[str, ...] = ("mirror", "sensors", "digits")  # problems
    arms: tuple[str, ...] = FIRST  # ways to model the law; of digits and vorticity four of them
    steps: int = 150  # of "quantized"; the others take as much processor time
    width: int = 20  # channels of the network of "quantized"; the others have as many parameters
    rates: tuple[float, ...] = (3e-3, 1e-2)  # peak rates to choose from
    fields: tuple[int, int] = (8000, 256)  # training and test fields of "mirror"
    sensor_fields: tuple[int, int] = (2400, 96)  # of "sensors"
    digits: tuple[int, int] = (1280, 320)  # of "digits"
    vorticity_fields: tuple[int, int] = (2000, 200)  # of "vorticity"
    points: int = 64  # per axis, of "vorticity"
    bank: int = 6000  # coefficients that stand for the prior in the exact law of "sensors"
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)  # of the initial weights and the order of the fields
    workers: int = 2  # processes that train side by side, one thread each; 1: none but this one
    output: Path = Path("runs/conditional_quantization")  # folder for the cells, results.json and the figures


PRESETS = {
    "quick": Config(),
    "medium": Config(steps=600, fields=(8000, 512), output=Path("runs/conditional_quantization_medium")),
    "full": Config(
        cases=tuple(CASES),
        arms=tuple(ARMS),
        steps=4000,
        width=48,
        rates=(1e-3, 3e-3, 1e-2),
        fields=(20000, 1000),
        sensor_fields=(20000, 500),
        bank=40000,
        output=Path("runs/conditional_quantization_full"),
    ),
}


def run(config: Config) -> dict[str, Any]:
    """Trains what is missing, prints the tables, writes results.json and the figures; returns the results.

    Raises ValueError for unknown cases and arms, ImportError where a package of the scores is missing.
    """
    require_known("--cases", config.cases, CASES, some=True)
    require_known("--arms", config.arms, ARMS)
    if OURS not in config.arms or not config.seeds or not config.rates:
        raise ValueError(f"--arms, --seeds, --rates: expected {OURS} among the arms, and at least one of each")
    require_installed({"scoringrules": "'sciops[audit]'", "ot": "'sciops[audit]'", "sklearn": "'sciops[audit]'"})
    folder = opened(config, seeds=config.seeds, methods=["quantized", "flow", "dropout", "fno"])
    cells, first = folder.path / "cells", config.seeds[0]
    best: dict[tuple[str, str], dict[str, Any]] = {}
    with pool(config.workers, threads=1) as executor, tqdm(unit="training", disable=None) as bar:
        planned = {case: executor.submit(_plan, case, config, cells) for case in config.cases}
        plans = {case: future.result() for case, future in planned.items()}
        sampled = {case: executor.submit(_ideal, case, plan[0], config, cells) for case, plan in plans.items()}
        specs = [spec for plan in plans.values() for spec in plan]
        tried = [replace(spec, rate=rate, seed=first) for spec in specs for rate in config.rates]
        bar.reset(len(specs) * (len(config.rates) + len(config.seeds) - 1))
        call = partial(_train, executor, bar, cells)
        for record in call(tried):
            case = (record["case"], record["arm"])
            if case not in best or record["validation"] < best[case]["validation"]:
                best[case] = record
        rest = [
            replace(spec, rate=best[spec.case, spec.arm]["rate"], seed=seed)
            for spec in specs
            for seed in config.seeds[1:]
        ]
        chosen = [*best.values(), *call(rest)]
        ideal = {case: future.result() for case, future in sampled.items()}
    results: dict[str, Any] = {
        "runs": sorted(chosen, key=lambda r: (config.cases.index(r["case"]), config.arms.index(r["arm"]), r["seed"])),
        "facts": {name: case_of(*plans[name][0].data).facts for name in config.cases},
        "ideal": ideal,
    }
    results["summary"] = summary(results, config)
    return finished(folder, results, draw, print_report, config, answer=answer)


def _plan(case: str, config: Config, cells: Path) -> list[Spec]:
    """The trainings of a case with the first seed, one an arm, their steps by the time that a step takes."""
    data = data_of(case, config)
    arms = [arm for arm in config.arms if case in ("mirror", "sensors") or arm in _PLAIN]
    made_by = {"data": data, "arms": arms, "width": config.width, "steps": config.steps}

    def measure() -> dict[str, Any]:
        one = case_of(*data)
        widths = {arm: width_of(one, arm, config.width) for arm in arms}
        ours = build(one, OURS, 0, widths[OURS])
        again = {OURS: lambda: refitted(ours, one, 0, config.steps)}
        refit = min(interleaved(again, rounds=3, warmup=0, clock=time.process_time)[OURS])
        return {"widths": widths, "seconds": step_seconds(one, widths), "refit": refit}

    found = kept(cells, f"{case}-steps", made_by, measure)
    whole = config.steps * found["seconds"][OURS] + found["refit"]  # time of a training of "quantized"
    return [
        Spec(
            case=case,
            arm=arm,
            seed=config.seeds[0],
            rate=config.rates[0],
            steps=max(8, round((whole - found["refit"] * has_weights(arm)) / found["seconds"][arm])),
            width=found["widths"][arm],
            train=data[1],
            test=data[2],
            points=config.points,
            bank=config.bank,
        )
        for arm in arms
    ]


def _train(executor: Executor, bar: Any, cells: Path, specs: list[Spec]) -> list[dict[str, Any]]:
    futures = [executor.submit(trained, cells, spec) for spec in specs]
    for future in futures:
        future.add_done_callback(lambda _: bar.update())
    return [future.result() for future in futures]


def _ideal(name: str, spec: Spec, config: Config, cells: Path) -> dict[str, Any]:
    """Scores of ideal posterior samples, by number; empty where the modes are not known."""

    def made() -> dict[str, Any]:
        case = case_of(*spec.data)
        numbers = (2, 4, 8) if case.weights is not None else ()
        return {str(n): ideal_sampler(case, n, len(config.seeds)) for n in numbers}

    found = kept(cells, f"{name}-ideal", {"data": spec.data, "seeds": len(config.seeds)}, made)
    return {key: value for key, value in found.items() if key not in ("name", "spec")}
