"""How fast Darcy data are made, from the draw of a field to the file: beside a pyamg pipeline, by phases, by cores.

    python -m studies.generation_speed --preset quick

The law is that of Li et al. (two phases 12 and 3, τ = 3, α = 2), fields are stored as float32. Both pipelines draw the
same fields with the same function and solve to the same true residual. The file is read back and must hold what was
made; pyamg's solutions must be those of sciops; residuals are recomputed with a matrix assembled apart.
"""

from __future__ import annotations

import contextlib
import functools
import io
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from data_gen import darcy as generator
from sciops.plotting import PALETTE, figure
from studies.generation_speed import peer
from studies.kit.answers import met, sentence
from studies.kit.choices import require_installed
from studies.kit.pool import pool
from studies.kit.study import finished, opened, picked
from studies.kit.tables import print_table
from studies.kit.timing import interleaved, on_cores, print_targets, ratio, require_equal, target, threads


@dataclass(frozen=True)
class Config:
    size: int = 421  # nodes per axis
    samples: int = 44  # samples of a run of the generator
    peer_samples: int = 4  # samples of a run of the pyamg pipeline, shared by its processes
    rounds: int = 5  # rounds in which everyone takes a turn
    compressions: tuple[int, ...] = (1, 4)  # gzip levels to compare with none
    compile: bool = True  # whether to compile the solver into an empty cache and time first calls (ten seconds)
    tol: float = 1e-8  # true relative residual of every solution
    seed: int = 0  # of the fields
    output: Path = Path("runs/generation_speed")  # folder for results.json and the figure


PRESETS = {"quick": Config(), "full": Config(samples=132, peer_samples=16, rounds=7, compressions=(1, 4, 9))}

FASTER, SOLVER_SHARE, TWO_CORES, FIRST_CALL = 20.0, 0.6, 1.5, 1.0
_FIRST_CALL = """
import time
import numpy as np
from sciops.pde import darcy
a = np.ones((1, 33, 33))
start = time.perf_counter()
darcy.solve(a, threads=1)
print(time.perf_counter() - start)
"""


def run(config: Config) -> dict[str, Any]:
    """Measures, checks, prints, and writes results.json and figures/generation_speed.png; returns the results.

    Raises RuntimeError when a file or a solution is not what it must be; ValueError with fewer than two cores.
    """
    require_installed({"pyamg": "pyamg", "numba": '"sciops[fast]"'})
    cores = sorted(os.sched_getaffinity(0))[:2]
    if len(cores) < 2:
        raise ValueError("one core here: expected at least two, one run on both is compared with one on one")
    folder = opened(config, seeds=[config.seed])
    with threads(1), tempfile.TemporaryDirectory(dir=folder.path) as place, _peers(Path(place)) as peers:
        law = _law(config, Path(place))
        results: dict[str, Any] = {"equality": _equality(law, config, peers)}
        results["pipelines"] = _pipelines(law, config, cores, peers)
        results["phases"] = _phases(law, config, cores)
        results["compression"] = _compression(law, config)
        results["first_call"] = _first_calls(Path(place)) if config.compile else None
    results["targets"] = _targets(results, config)
    return finished(folder, results, _draw, _print, config, answer=answer, picture="generation_speed.png")


def answer(results: dict[str, Any]) -> str:
    """Speed of the whole generator against a pipeline around pyamg, and on two cores against one."""
    pipelines, share = results["pipelines"], results["phases"]["solver_share"]
    return sentence(
        f"the generator is {pipelines['faster']['median']:.1f} times as fast as a pipeline around pyamg on two cores, "
        f"and {pipelines['cores']['median']:.2f} times as fast on two cores as on one",
        f"the solver takes {share:.0%} of the time",
        met(results["targets"]),
    )


def _law(config: Config, place: Path) -> generator.DarcyConfig:
    how = {"dtype": "float32", "threads": 2, "output": place / "data.h5", "progress": False}
    return generator.DarcyConfig(resolutions=(config.size,), **picked(config, "samples seed tol"), **how)


def _generated(law: generator.DarcyConfig, **changes: Any) -> Path:
    """Runs the generator from the start, without output."""
    law.output.unlink(missing_ok=True)
    with contextlib.redirect_stdout(io.StringIO()):
        return generator.run(replace(law, **changes))


@contextlib.contextmanager
def _peers(place: Path) -> Iterator[Callable[..., float]]:
    """A call that runs the pyamg pipeline on a number of samples by two waiting processes; its largest residual."""
    kept = {name: os.environ.get(name) for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")}
    os.environ.update(dict.fromkeys(kept, "1"))  # two processes on two cores: more threads would only be in the way
    try:
        with pool(2) as executor:

            def call(law: generator.DarcyConfig, samples: int, cores: list[int]) -> float:
                middle = samples // 2
                shares = [(0, middle), (middle, samples)]
                jobs = [
                    executor.submit(peer.generate, law, place / f"peer{k}.h5", *share, core)
                    for k, (share, core) in enumerate(zip(shares, cores))
                ]
                return max(job.result() for job in jobs)

            yield call
    finally:
        for name, value in kept.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


def _equality(law: generator.DarcyConfig, config: Config, peers: Callable[..., float]) -> dict[str, float]:
    """The file holds what is made again here; both pipelines' solutions are one, at the residual that was asked for."""
    import h5py
    import torch

    _generated(law)
    count = min(config.peer_samples, law.samples)
    cores = sorted(os.sched_getaffinity(0))[:2]
    peers(law, count, cores)
    a = generator.coefficients(law, _grid(config), [(0, count)])
    exact = generator.make(replace(law, dtype="float64"), [(0, count)])[f"r{config.size}/u"]
    with h5py.File(law.output, "r") as file:
        stored = {name: file[f"r{config.size}/{name}"][:] for name in "au"}
    if not (
        np.array_equal(stored["a"][:count], a.astype("f4")) and np.array_equal(stored["u"][:count], exact.astype("f4"))
    ):
        raise RuntimeError(f"{law.output} does not hold the samples that are made again from their numbers")
    made = generator.make(law, [(0, law.samples)])
    for name in "au":
        if not np.array_equal(stored[name], made[f"r{config.size}/{name}"]):
            raise RuntimeError(f"{law.output}: {name} is not read back as it was made")
    others = np.concatenate([_read(law.output.with_name(f"peer{k}.h5"), "u") for k in (0, 1)])
    difference, residuals = 0.0, {"sciops": 0.0, "pyamg": 0.0}
    for i in range(count):
        u, _ = peer.solve(a[i], config.tol)
        if not np.array_equal(others[i], u.astype("f4")):
            raise RuntimeError(f"the pyamg pipeline's file does not hold its solution {i}")
        tensors = torch.from_numpy(exact[i]), torch.from_numpy(u)
        difference = max(difference, require_equal(f"solution {i}", *tensors, 10 * config.tol))
        for name, field in (("sciops", exact[i]), ("pyamg", u)):
            residuals[name] = max(residuals[name], _residual(a[i], field))
    worst = max(residuals, key=residuals.get)
    if not residuals[worst] <= 1.01 * config.tol:
        raise RuntimeError(f"{worst}: true residual {residuals[worst]:.1e}, expected at most {config.tol:.0e}")
    return {"difference": difference, **{f"residual, {name}": value for name, value in residuals.items()}}


def _grid(config: Config):
    return generator.Grid((config.size, config.size))


def _read(path: Path, name: str) -> np.ndarray:
    import h5py

    with h5py.File(path, "r") as file:
        return file[name][:]


def _residual(a: np.ndarray, u: np.ndarray) -> float:
    A, b = peer.matrix_of(a)
    return float(np.linalg.norm(b - A @ u[1:-1, 1:-1].ravel()) / np.linalg.norm(b))


def _pipelines(
    law: generator.DarcyConfig, config: Config, cores: list[int], peers: Callable[..., float]
) -> dict[str, Any]:
    """Seconds per sample of whole pipelines that take turns, and their ratios."""

    def on(some: list[int]) -> None:
        with on_cores(some):
            _generated(law, threads=len(some))

    calls = {
        "sciops, 2 cores": (lambda: on(cores), law.samples),
        "sciops, 1 core": (lambda: on(cores[:1]), law.samples),
        "pyamg, 2 cores": (lambda: peers(law, config.peer_samples, cores), config.peer_samples),
    }
    taken = interleaved({name: call for name, (call, _) in calls.items()}, rounds=config.rounds)
    seconds = {name: [value / calls[name][1] for value in values] for name, values in taken.items()}
    return {
        "seconds": {name: float(np.median(values)) for name, values in seconds.items()},
        "all_seconds": seconds,
        "faster": ratio(seconds["pyamg, 2 cores"], seconds["sciops, 2 cores"]),
        "cores": ratio(seconds["sciops, 1 core"], seconds["sciops, 2 cores"]),
    }


def _phases(law: generator.DarcyConfig, config: Config, cores: list[int]) -> dict[str, Any]:
    """Seconds per sample on one core: of the whole, and of its phases by the functions that it calls."""
    from sciops.datasets.generation import writer
    from sciops.pde import darcy

    grid, some = _grid(config), range(min(law.samples, 11))
    a = [generator.coefficients(law, grid, [(i, i + 1)]) for i in some]
    made = generator.make(law, [(0, law.samples)])
    plan_of = functools.partial(writer.Plan, law.output, law.samples, 11, {}, {f"r{config.size}": grid})

    def write() -> None:
        law.output.unlink(missing_ok=True)
        writer.generate(
            plan_of(), lambda ranges: {k: v[ranges[0][0] : ranges[-1][1]] for k, v in made.items()}, progress=False
        )

    phases = {
        "sampling": (lambda: [generator.coefficients(law, grid, [(i, i + 1)]) for i in some], len(some)),
        "solving": (lambda: [darcy.solve(field, grid, tol=law.tol, threads=1) for field in a], len(some)),
        "writing": (write, law.samples),
        "whole": (lambda: _generated(law, threads=1), law.samples),
    }
    with on_cores(cores[:1]):
        taken = interleaved({name: call for name, (call, _) in phases.items()}, rounds=config.rounds)
    seconds = {name: float(np.median(taken[name])) / count for name, (_, count) in phases.items()}
    law.output.unlink()
    return {"seconds": seconds, "solver_share": seconds["solving"] / seconds["whole"]}


def _compression(law: generator.DarcyConfig, config: Config) -> list[dict[str, Any]]:
    """Time and size per sample, written on two cores and read back, for every gzip level and none."""
    rows = []
    levels = [None, *config.compressions]
    sizes: dict[Any, int] = {}

    def write(level: int | None) -> None:
        sizes[level] = _generated(law, compression=level).stat().st_size
        shutil.copy(law.output, law.output.with_name(f"{level}.h5"))

    taken = interleaved({str(level): functools.partial(write, level) for level in levels}, rounds=2, warmup=0)
    reading = {
        str(level): functools.partial(_read, law.output.with_name(f"{level}.h5"), f"r{config.size}/u")
        for level in levels
    }
    read = interleaved(reading, rounds=3)
    for level in levels:
        rows.append(
            {
                "gzip": level,
                "seconds": float(np.median(taken[str(level)])) / law.samples,
                "bytes": sizes[level] / law.samples,
                "read_seconds": float(np.median(read[str(level)])) / law.samples,
            }
        )
        law.output.with_name(f"{level}.h5").unlink()
    return rows


def _first_calls(place: Path) -> dict[str, float]:
    """Seconds of the first solve of a fresh process: with an empty cache on disk, and with what that one left there."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(place / "numba")}

    def first() -> float:
        done = subprocess.run(
            [sys.executable, "-c", _FIRST_CALL], env=environment, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise RuntimeError(f"the first call failed: {(done.stderr.strip().splitlines() or ['no message'])[-1]}")
        return float(done.stdout)

    return {"compiled": first(), "cached": float(np.median([first() for _ in range(3)]))}


def _targets(results: dict[str, Any], config: Config) -> list[dict[str, Any]]:
    rows = [
        target(
            f"whole pipeline over pyamg's, {config.size}², 2 cores",
            results["pipelines"]["faster"]["median"],
            least=FASTER,
        ),
        target("share of the solver in the whole", results["phases"]["solver_share"], least=SOLVER_SHARE),
        target("2 cores over 1", results["pipelines"]["cores"]["median"], least=TWO_CORES),
    ]
    if results["first_call"]:
        rows.append(target("first call, cached on disk (s)", results["first_call"]["cached"], most=FIRST_CALL))
    return rows


def _print(results: dict[str, Any], config: Config) -> None:
    equality, milliseconds = results["equality"], "=name; ms per sample=1e3*value:.2f"
    print(
        f"{config.size}² nodes, float32, files read back equal; solutions of both pipelines "
        f"{equality['difference']:.1e} apart, true residuals {equality['residual, sciops']:.1e} (sciops) and "
        f"{equality['residual, pyamg']:.1e} (pyamg)"
    )
    print_table(results["pipelines"]["seconds"], milliseconds, title="whole pipeline")
    for name, words in (("faster", "pyamg over sciops, 2 cores"), ("cores", "1 core over 2")):
        value = results["pipelines"][name]
        print(f"{words:<27} {value['median']:>5.2f} (quartiles {value['low']:.2f} … {value['high']:.2f})")
    print_table(results["phases"]["seconds"], milliseconds, title="one core")
    columns = "gzip; ms per sample=1e3*seconds:.1f; MB per sample=1e-6*bytes:.2f; ms to read u=1e3*read_seconds:.2f"
    print_table(results["compression"], columns, title="")
    if results["first_call"]:
        first = results["first_call"]
        print(
            f"\nfirst solve of a process: {first['compiled']:.1f} s compiling, {first['cached']:.2f} s from the cache"
        )
    print_targets(results["targets"])


def _draw(results: dict[str, Any], config: Config, path: Path) -> None:
    caption = "Time per sample on one core by phase, and of whole pipelines."
    with figure(path, 1, 2, width=3.8, height=2.6, caption=caption) as (_, axes):
        phases, pipelines = axes[0]
        seconds = results["phases"]["seconds"]
        left = 0.0
        for name, color in zip(("sampling", "solving", "writing"), PALETTE):
            phases.barh(["phases"], 1e3 * seconds[name], left=left, color=color, label=name, height=0.5)
            left += 1e3 * seconds[name]
        phases.barh(["whole run"], 1e3 * seconds["whole"], color="0.6", height=0.5)
        phases.set(xlabel="time per sample (ms)", title=f"one core, {config.size}² nodes", ylim=(-0.6, 2.3))
        phases.legend(loc="upper left", ncol=3)
        names = list(results["pipelines"]["seconds"])
        for name, color in zip(names, (PALETTE[0], PALETTE[5], PALETTE[1])):
            value = 1e3 * results["pipelines"]["seconds"][name]
            pipelines.barh([name], value, color=color, height=0.6)
            pipelines.annotate(f"{value:.1f}", (value, name), xytext=(3, 0), textcoords="offset points", va="center")
        pipelines.set(xlabel="time per sample (ms)", title="whole pipeline")
        pipelines.set_xlim(right=1.15 * pipelines.get_xlim()[1])
        pipelines.invert_yaxis()
