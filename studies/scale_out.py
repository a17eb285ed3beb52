"""Does a cluster that loses a worker write the file that one process writes, and how fast?

Darcy samples are generated three times: in this process; by a local dask cluster of which one worker is killed with
SIGKILL when half of the samples are there; and by an unharmed cluster into a Zarr store. The run ends with an error
unless a worker was killed in time and all three hold the same fields, bit for bit. Times do not count the start of the
cluster, but what the killed worker's successor needs to start.

    python -m studies.scale_out --preset quick
    python -m studies.scale_out --preset full10k
"""

from __future__ import annotations

import contextlib
import importlib
import os
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from data_gen import darcy
from sciops.datasets.native import content_hash
from sciops.plotting import series
from studies.kit.answers import listed, sentence
from studies.kit.choices import require_installed
from studies.kit.figures import panels
from studies.kit.study import finished, opened, picked

SERIAL, KILLED, ZARR = "one process", "cluster, a worker killed", "cluster into Zarr"


@dataclass(frozen=True)
class Config:
    samples: int = 384  # how many
    resolution: int = 64  # nodes per axis
    modes: int = 192  # cosine modes of the coefficient's field per axis
    chunk: int = 8  # samples per part: what one task makes
    workers: int = 2  # processes of the cluster, one thread each
    seed: int = 0  # of the fields
    keep: bool = False  # keep the three files
    output: Path = Path("runs/scale_out")  # folder for results.json and the figure


PRESETS = {"quick": Config(), "full10k": Config(samples=10_000, chunk=50)}


@dataclass
class Generation:
    """One generation: seconds it took, and (seconds, samples finished) while it ran."""

    seconds: float = 0.0
    finished: list[tuple[float, int]] = field(default_factory=list)
    killed: tuple[float, int] | None = None
    path: Path | None = None


def run(config: Config) -> dict[str, Any]:
    """Generates, kills, compares, prints, and writes results.json and figures/scale_out.png; returns the results.

    Raises RuntimeError when two of the files differ or no worker could be killed in time; ImportError without dask,
    cryptography or zarr.
    """
    require_installed(dict.fromkeys(("distributed", "cryptography", "zarr"), "'sciops[cluster]'"))
    folder = opened(config, seeds=[config.seed])
    data = folder.path / "data"
    shutil.rmtree(data, ignore_errors=True)
    law = picked(config, "samples modes chunk seed")
    base = darcy.DarcyConfig(resolutions=(config.resolution,), threads=1, **law)
    _warm(base)
    arms = {SERIAL: _watched(replace(base, output=data / "serial.h5"))}
    start = time.perf_counter()
    with _cluster(config.workers) as cluster:
        _warm_workers(cluster, base)
        cluster_start = time.perf_counter() - start
        there = replace(base, scheduler=cluster.scheduler_address)
        victim = next(nanny.pid for nanny in cluster.workers.values())
        arms[KILLED] = _watched(replace(there, output=data / "killed.h5"), lambda: os.kill(victim, signal.SIGKILL))
        if victim in [nanny.pid for nanny in cluster.workers.values()]:
            raise RuntimeError(f"worker {victim} was to be killed and is still there")
        arms[ZARR] = _watched(replace(there, output=data / "store.zarr"))
    results = _results(config, arms, cluster_start)
    draw = lambda _, path: _draw(config, arms, path)  # noqa: E731
    finished(folder, results, draw, _print, answer=answer, picture="scale_out.png")
    if len(set(results["hashes"].values())) > 1:
        raise RuntimeError(f"the files differ ({results['hashes']}): they are kept in {data}")
    if not config.keep:
        shutil.rmtree(data)
    return results


def answer(results: dict[str, Any]) -> str:
    """Whether all files are equal, and the speed of the cluster over one process."""
    ratios = results["over_one_process"]
    equal = "equal" if len(set(results["hashes"].values())) == 1 else "not equal"
    speeds = listed(f"{name} {ratio:.2f}" for name, ratio in ratios.items())
    return sentence(
        f"{len(results['hashes'])} files, one of them with a worker killed, are {equal}",
        f"speed over one process: {speeds}",
    )


@contextlib.contextmanager
def _cluster(workers: int) -> Iterator[Any]:
    """A cluster of this machine that clients of this process may join."""
    import dask

    from sciops.datasets.generation.cluster_local import client_certificates, local_cluster

    with local_cluster(workers) as cluster, dask.config.set(client_certificates(cluster.security)):
        yield cluster


def _warm(config: darcy.DarcyConfig) -> None:
    """Imports, and compiles or loads what was compiled before: one sample on a small grid."""
    importlib.import_module("zarr")
    darcy.make(replace(config, resolutions=(9,)), [(0, 1)])


def _warm_workers(cluster: Any, config: darcy.DarcyConfig) -> None:
    from distributed import Client

    with Client(cluster, set_as_default=False) as client:
        client.run(_warm, config)


def _watched(config: darcy.DarcyConfig, kill: Callable[[], None] | None = None) -> Generation:
    """Generates while another thread counts finished parts, and calls `kill` once when half of the samples are there.

    Raises RuntimeError when all samples were there before that.
    """
    arm, over = Generation(), threading.Event()
    parts = config.output.with_name(config.output.name + ".parts")
    began = time.perf_counter()

    def watch() -> None:
        while not over.wait(0.01):
            count = sum(1 for _ in parts.glob("part-*")) if parts.is_dir() else 0
            done, now = min(count * config.chunk, config.samples), time.perf_counter() - began
            if done and (not arm.finished or done > arm.finished[-1][1]):
                arm.finished.append((now, done))
            if kill is not None and arm.killed is None and config.samples / 2 <= done < config.samples:
                kill()
                arm.killed = (now, done)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        arm.path = darcy.run(config)
    finally:
        arm.seconds = time.perf_counter() - began
        over.set()
        watcher.join()
    if kill is not None and arm.killed is None:
        raise RuntimeError("all samples were there before a worker could be killed: take more --samples")
    return arm


def _results(config: Config, arms: dict[str, Generation], cluster_start: float) -> dict[str, Any]:
    rates = {name: config.samples / arm.seconds for name, arm in arms.items()}
    return {
        "samples": config.samples,
        "seconds": {name: arm.seconds for name, arm in arms.items()},
        "samples_per_second": rates,
        "over_one_process": {name: rate / rates[SERIAL] for name, rate in rates.items() if name != SERIAL},
        "cluster_start_seconds": cluster_start,
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "killed": dict(zip(("seconds", "samples_finished"), arms[KILLED].killed)),
        "finished": {name: arm.finished for name, arm in arms.items()},
        "hashes": {name: content_hash(arm.path) for name, arm in arms.items()},
    }


def _draw(config: Config, arms: dict[str, Generation], path: Path) -> None:
    caption = "Samples that were finished against time, in one process and on a cluster whose worker is killed."
    with panels(path, 1, 1, width=4.6, height=3.0, caption=caption) as (panel,):
        for (name, arm), style in zip(arms.items(), series()):
            seconds, done = zip((0.0, 0), *arm.finished)
            panel.plot(seconds, done, label=name, **{**style, "marker": None})
            panel.plot([arm.seconds], [config.samples], **{**style, "linestyle": "none"})
            if arm.killed is not None:
                panel.plot(*arm.killed, marker="x", color="black", linestyle="none", label="SIGKILL", zorder=3)
        panel.set(xlabel="seconds (mark: file complete)", ylabel="samples finished")
        panel.legend(loc="lower right")


def _print(results: dict[str, Any]) -> None:
    title = f"{results['samples']} samples, {results['cores']} cores"
    print(f"\n{title:<32} {'seconds':>10} {'samples/s':>11} {'ratio':>7}  sha256")
    for name, seconds in results["seconds"].items():
        ratio = results["over_one_process"].get(name, 1.0)
        rate, digest = results["samples_per_second"][name], results["hashes"][name][:12]
        print(f"{name:<32} {seconds:>10.1f} {rate:>11.1f} {ratio:>7.2f}  {digest}")
    killed = results["killed"]
    print(f"killed after {killed['seconds']:.1f} s with {killed['samples_finished']} samples finished")
    print(f"starting the cluster took {results['cluster_start_seconds']:.1f} s, not counted above")


if __name__ == "__main__":
    from sciops.commands.command_line import command

    command(run, PRESETS)
