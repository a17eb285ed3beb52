"""From a laptop to a cluster: what samples and training steps cost here, and the plan for a million and a terabyte.

    python -m studies.cluster_plan --preset quick
    python -m studies.cluster_plan --preset quick --nodes 2 8 --cores 128 --shared-rate 50e9

Measures processor seconds, stored bytes and peak memory of Darcy samples and FNO steps by grid; fits
fixed + per_node·n² to all grids but the largest, and says how far the law is off there. Then simulated workers make
parts under a real dask scheduler while some die and some are slow: every part has to be there, and the assembled file
has to be that of one process, or the run ends with an error. Last, the plan for many nodes, from these numbers and from
rates of the cluster, which are options. Where other work shares the machine, clock times say little; processor seconds
are printed beside them.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from studies.cluster_plan import costs, workers
from studies.cluster_plan.planning import (
    Costs,
    Machine,
    assembly_law,
    checked_law,
    generation,
    law,
    least_chunk,
    limits,
    training,
)
from studies.cluster_plan.report import answer, draw, show
from studies.kit.cells import kept
from studies.kit.choices import require_installed
from studies.kit.launch import launch
from studies.kit.study import finished, opened, picked

__all__ = ["PRESETS", "Config", "answer", "run"]


@dataclass(frozen=True)
class Config:
    grids: tuple[int, ...] = (43, 85, 211, 421)  # nodes per axis of the samples; the last is the plan's
    modes: int = 192  # cosine modes of the coefficient's field per axis
    least: int = 8  # samples that are timed on each grid, at least
    seconds: float = 1.0  # processor seconds of timed samples on each grid, at least
    stored: int = 4  # samples that are written to measure their bytes
    train_grids: tuple[int, ...] = (43, 85, 211)  # nodes per axis of the training steps
    width: int = 32  # of the fno
    depth: int = 4  # of the fno
    network_modes: int = 12  # of the fno, per axis
    batch: int = 4  # samples of a step
    steps: int = 3  # timed steps on each grid
    scaling: bool = True  # whether to measure one process against two
    scaling_samples: int = 32  # Darcy samples of one process
    workers: int = 200  # simulated
    parts: int = 1000  # of each simulated generation
    part_seconds: tuple[float, ...] = (4.0, 2.0, 0.5)  # mean time of a simulated part, a generation each
    failures: float = 0.01  # share of parts whose worker dies half-way
    stragglers: float = 0.02  # share of parts that take `slower` times as long
    slower: float = 3.0
    restart: float = 2.0  # seconds until a dead worker is replaced
    samples: int = 1_000_000  # of the plan
    chunks: tuple[int, ...] = (11, 64, 256)  # samples per part of the plan; 11 is the default at 421 nodes
    nodes: tuple[int, ...] = (1, 4, 16)  # of the plan
    cores: int = 64  # of a node
    shared_rate: float = 20e9  # bytes a second of the cluster's file system in all
    node_rate: float = 2e9  # bytes a second that one node reads or writes
    files: int = 100_000  # entries of a folder that the file system serves well
    data_bytes: float = 1e12  # of the training
    seed: int = 0
    output: Path = Path("runs/cluster_plan")  # folder for the cells, results.json and the figure


PRESETS = {
    "quick": Config(),
    "full": Config(seconds=10.0, steps=10, parts=4000, part_seconds=(8.0, 4.0, 2.0, 1.0, 0.5), scaling_samples=128),
}


def run(config: Config) -> dict[str, Any]:
    """Measures what is not yet kept, plans, prints, and writes results.json and figures/cluster_plan.png.

    Raises ValueError with fewer than three grids of samples or of steps; RuntimeError where the file of the simulated
    workers is not that of one process; ImportError without dask or cryptography.
    """
    require_installed(dict.fromkeys(("distributed", "cryptography"), "'sciops[cluster]'"))
    for name in ("grids", "train_grids"):
        if len(set(getattr(config, name))) < 3:
            grids = " ".join(map(str, getattr(config, name)))
            raise ValueError(
                f"--{name.replace('_', '-')} {grids}: expected at least three, two for a law and one to check it on"
            )
    folder = opened(config, seeds=[config.seed], methods=["fno"])
    measured = _measured(config, folder.path)
    results = measured | {"plan": plan(config, measured)}
    return finished(folder, results, draw, show, answer=answer, picture="cluster_plan.png")


def _measured(config: Config, folder: Path) -> dict[str, Any]:
    cells, place = folder / "cells", folder / "scratch"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    how = picked(config, "modes seed")
    network = {"width": config.width, "depth": config.depth, "modes": config.network_modes}
    found: dict[str, Any] = {"samples": [], "stored": [], "steps": []}
    for n in config.grids:
        timing = how | picked(config, "least seconds")
        row = kept(cells, f"sample-{n}", {"n": n} | timing, lambda n=n, timing=timing: costs.sample_cost(n, **timing))
        peak = kept(cells, f"peak-{n}", {"n": n} | how, lambda n=n: {"peak": costs.part_peak(n, **how)})
        found["samples"].append(row | {"peak": peak["peak"]})
        size = how | {"samples": config.stored}
        rows = kept(
            cells,
            f"stored-{n}",
            {"n": n} | size,
            lambda n=n, size=size: {"rows": costs.stored_bytes(n, place, **size)},
        )
        found["stored"] += rows["rows"]
    for n in config.train_grids:
        made_by = {"n": n, "network": network} | picked(config, "batch steps")
        row = kept(cells, f"step-{n}", made_by, lambda made_by=made_by: costs.step_cost(**made_by))
        found["steps"].append(row)
    found["scaling"] = _scaling(config, cells, network) if config.scaling else []
    found["simulated"] = _simulated(config, cells, place)
    found["assembly"] = kept(cells, "assembly", {}, lambda: {"rows": _assemblies(place)})["rows"]
    shutil.rmtree(place)
    return found


def _scaling(config: Config, cells: Path, network: dict[str, int]) -> list[dict[str, Any]]:
    options = {"n": config.grids[-2], "samples": config.scaling_samples, "train_n": config.train_grids[-2]}
    options |= {"network": network} | picked(config, "modes seed steps batch")

    def measure() -> dict[str, Any]:
        rows = []
        for processes in (1, 2):
            said = launch("studies.cluster_plan.scaling", [json.dumps(options)], processes=processes)
            rows += json.loads(said.splitlines()[-1])
        return {"rows": rows}

    return kept(cells, "scaling", options, measure)["rows"]


def _simulated(config: Config, cells: Path, place: Path) -> dict[str, Any]:
    names = "workers parts part_seconds failures stragglers slower restart seed"

    def measure() -> dict[str, Any]:
        with workers.simulator(config.workers) as simulator:
            idle = simulator.idle(3.0)
            law_of = picked(config, "parts failures stragglers slower restart seed")
            cases = [workers.Case(samples=2, seconds=s, spread=0.1, **law_of) for s in config.part_seconds]
            return {"idle": idle, "runs": [simulator.run(case, place) for case in cases]}

    return kept(cells, "simulated", picked(config, names), measure)


def _assemblies(place: Path) -> list[dict[str, Any]]:
    """Of few and many tiny parts, and of few large ones."""
    return [workers.assembly_cost(*shape, place) for shape in ((200, 2, 3), (800, 2, 3), (16, 8, 211), (32, 8, 211))]


def plan(config: Config, measured: dict[str, Any]) -> dict[str, Any]:
    """Laws, costs and plans from what was measured."""
    grids = [row["n"] for row in measured["samples"]]
    laws = {
        "sample, processor s": checked_law(grids, [row["seconds"] for row in measured["samples"]]),
        "part of 4 samples, peak bytes": checked_law(grids, [row["peak"] for row in measured["samples"]]),
    }
    train_grids, seconds = ([row[key] for row in measured["steps"]] for key in ("n", "seconds"))
    laws["training step, processor s"] = checked_law(train_grids, seconds)
    finest = max(measured["samples"], key=lambda row: row["n"])
    (stored,) = (
        row for row in measured["stored"] if (row["n"], row["dtype"], row["gzip"]) == (finest["n"], "float32", None)
    )
    simulated = measured["simulated"]
    each = simulated["idle"] / config.workers
    runs = simulated["runs"]
    by_part, by_byte = assembly_law(measured["assembly"])
    found = Costs(
        sample_seconds=finest["seconds"],
        sample_bytes=stored["bytes"],
        # an upper bound: what the workers say meanwhile is in it
        scheduler_part=min(run["scheduler_per_part"] for run in runs),
        scheduler_worker=each,
        assembly_part=by_part,
        assembly_byte=by_byte,
    )
    machine = Machine(**picked(config, "cores shared_rate node_rate files"))
    step = law(train_grids, seconds)(finest["n"])
    shape = {"step_seconds": step, "data_bytes": config.data_bytes} | picked(config, "batch")
    most = max(config.nodes) * config.cores
    return {
        "laws": laws,
        "costs": vars(found),
        "machine": vars(machine),
        "grid": finest["n"],
        "samples": config.samples,
        "generation": [
            generation(found, machine, samples=config.samples, chunk=chunk, nodes=nodes)
            for chunk in config.chunks
            for nodes in config.nodes
        ],
        "limits": {chunk: limits(found, machine, samples=config.samples, chunk=chunk) for chunk in config.chunks},
        "least_chunk": {count: _least(found, count) for count in sorted({config.workers, most})},
        "step_seconds": step,
        "training": [
            training(machine, processes=nodes * config.cores, sample_bytes=stored["bytes"], **shape)
            for nodes in config.nodes
        ],
    }


def _least(found: Costs, count: int) -> int | None:
    """Samples per part that so many workers need; None where one scheduler cannot serve them."""
    try:
        return least_chunk(found, workers=count)
    except ValueError:
        return None
