"""How right and how fast the Darcy solver is, in one run: order, maximum principle, speed against pyamg and spsolve.

Times are per sample at the same true residual, medians over repeats in which the solvers take turns; everything runs
on one thread. Assembly is charged to sciops alone. Solutions are compared with each other and residuals recomputed
with a matrix assembled here; any disagreement ends the run. --preset cold measures the first solve of a machine alone,
for which the solver is compiled.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from sciops.grids import Grid
from sciops.pde import darcy
from studies.kit.choices import require_installed
from studies.kit.solver_cases import fields, matrix_of
from studies.kit.study import device_name, finished, opened
from studies.kit.timing import exponent, interleaved, print_targets, ratio, target, threads
from studies.solver_speed.cold import first_solves, show
from studies.solver_speed.device import on_device
from studies.solver_speed.peers import compare, timed, with_pyamg, with_spsolve
from studies.solver_speed.report import answer, draw, print_device, print_report, targets
from studies.solver_speed.traffic import bytes_moved, rate_within, workspace


@dataclass(frozen=True)
class Config:
    size: int = 421  # nodes per axis of the speed comparison
    samples: int = 8  # fields per batch
    repeats: int = 3  # rounds in which every solver takes its turn
    growth: tuple[int, ...] = (85, 129, 211, 421, 1025)  # nodes per axis for the growth of time with the unknowns
    hard_sizes: tuple[int, ...] = (85, 211, 421)  # nodes per axis for contrasts 1e4:1, 1e6:1 and pixel noise
    hard_samples: int = 4  # fields of each hard kind
    small_sizes: tuple[int, ...] = (43, 85)  # nodes per axis of many small systems in one call
    small_samples: int = 1000  # of these in the call
    slow_peers_to: int = 421  # largest size at which spsolve takes part in the growth
    cold: bool = False  # only the first solve of a machine and of a process, which compiles the solver (ten seconds)
    device: str = "cpu"  # cuda: the torch form is timed on the device as well, in large batches
    only_device: bool = False  # leaves out what runs on the CPU alone
    device_sizes: tuple[int, ...] = (85, 211, 421)  # nodes per axis on the device
    device_samples: int = 64  # fields per batch on the device
    tol: float = 1e-8  # true relative residual for everyone
    seed: int = 0  # of the random fields
    output: Path = Path("runs/solver_speed")  # folder for results.json and the figure


PRESETS = {
    "quick": Config(),
    "full": Config(samples=16, repeats=7, hard_sizes=(64, 85, 211, 421, 1025), hard_samples=8, slow_peers_to=1025),
    "cold": Config(cold=True, output=Path("runs/solver_speed_cold")),
    "gpu": Config(device="cuda", only_device=True, output=Path("runs/solver_speed_gpu")),
}

COLD_TARGET, CACHED_TARGET = 12.0, 1.5  # processor seconds


def run(config: Config) -> dict[str, Any]:
    """Measures, checks, prints, and writes results.json and figures/solver_speed.png; returns the results."""
    if config.cold:
        return _run_cold(config)
    if config.only_device:
        return _run_on_device(config)
    require_installed({"pyamg": "pyamg", "numba": '"sciops[fast]"'})
    folder = opened(config, seeds=[config.seed])
    with threads(1):
        results = {
            "order": _order(),
            "maximum_principle": _maximum_principle(config),
            "speed": _speed(config),
            "hard": _hard(config),
            "growth": _growth(config),
            "small": _small(config),
            "device": on_device(config) if config.device != "cpu" else None,
        }
    results["targets"] = targets(results)
    return finished(folder, results, draw, print_report, answer=answer, picture="solver_speed.png")


def _run_cold(config: Config) -> dict[str, Any]:
    """Measures the first solves alone, prints them and writes results.json."""
    require_installed({"numba": '"sciops[fast]"'})
    folder, found = opened(config, seeds=[config.seed]), first_solves()
    rows = [
        target("CPU seconds of the first solve, compiling", found["compiled"]["cpu_seconds"], most=COLD_TARGET),
        target("CPU seconds of the first solve, from the disk", found["cached"]["cpu_seconds"], most=CACHED_TARGET),
    ]
    results = {"cold": found, "targets": rows}
    folder.write_results(results)
    show(found)
    print_targets(rows)
    print(f"\nresults.json in {folder.path}")
    return results


def _run_on_device(config: Config) -> dict[str, Any]:
    """Measures the torch form on the device alone, prints and writes results.json."""
    if config.device == "cpu":
        raise ValueError("--only-device with --device cpu: expected a device such as cuda")
    require_installed({"numba": '"sciops[fast]"'})
    folder = opened(config, seeds=[config.seed])
    with threads(1):
        found = on_device(config)
    rows = [
        target(
            f"Darcy {row['kind']}, {row['n']}², batch {row['batch']}: one core's time over the device's",
            row["compiled_seconds"] / row["seconds"],
        )
        for row in found
    ]
    results = {"device": found, "name": device_name(config.device), "targets": rows}
    folder.write_results(results)
    print_device(found)
    print_targets(rows)
    print(f"\nresults.json in {folder.path}")
    return results


def _order() -> list[dict[str, float]]:
    """max|u − u_exact| (n − 1)² for a = 1 + ½ sin(3x+1) cos(2y), u = sin πx sin 2πy: a constant at order 2."""
    rows = []
    for n in (17, 33, 65, 100, 129, 257, 421):
        x, y = Grid((n, n)).meshgrid()
        a, u = 1 + 0.5 * np.sin(3 * x + 1) * np.cos(2 * y), np.sin(np.pi * x) * np.sin(2 * np.pi * y)
        ax, ay = 1.5 * np.cos(3 * x + 1) * np.cos(2 * y), -np.sin(3 * x + 1) * np.sin(2 * y)
        ux = np.pi * np.cos(np.pi * x) * np.sin(2 * np.pi * y)
        uy = 2 * np.pi * np.sin(np.pi * x) * np.cos(2 * np.pi * y)
        f = -(ax * ux + ay * uy - 5 * np.pi**2 * a * u)
        error = np.abs(darcy.solve(a, forcing=f, tol=1e-10, threads=1).u - u).max()
        rows.append({"n": n, "error": float(error), "constant": float(error * (n - 1) ** 2)})
    constants = [row["constant"] for row in rows]
    if max(constants) > 1.02 * min(constants):
        raise RuntimeError(f"error·(n − 1)² = {constants} is not constant: the scheme is not of order 2")
    return rows


def _maximum_principle(config: Config) -> list[dict[str, Any]]:
    rows = []
    for kind in ("12/3", "100:1", "1e4:1"):
        solution = darcy.solve(fields(kind, 211, config.hard_samples, config.seed + 1), tol=config.tol, threads=1)
        inside = solution.u[:, 1:-1, 1:-1]
        rows.append({"kind": kind, "n": 211, "minimum": float(inside.min()), "maximum": float(inside.max())})
        if not inside.min() > 0:
            raise RuntimeError(f"{kind}: u = {inside.min()} inside for f = 1 breaks the maximum principle")
    return rows


def _speed(config: Config) -> dict[str, Any]:
    both = {"pyamg": with_pyamg, "spsolve": with_spsolve}
    rows, ratios = {}, {}
    for kind, peers in (("12/3", both), ("100:1", {"pyamg": with_pyamg})):
        a = fields(kind, config.size, config.samples, config.seed)
        rows[kind] = compare(a, config.repeats, peers, tol=config.tol)
        seconds = {row["solver"]: np.array(row["all_seconds"]) for row in rows[kind]}
        for form in ("numba", "torch"):
            for peer in peers:
                times = seconds[peer] / seconds[form]
                ratios[f"{form} over {peer}, {kind}"] = {
                    "median": float(np.median(seconds[peer]) / np.median(seconds[form])),
                    "least": float(times.min()),
                    "most": float(times.max()),
                }
    return {"rows": rows, "ratios": ratios}


def _hard(config: Config) -> list[dict[str, Any]]:
    """How samples of high contrast end: never above the tolerance without a status that says so."""
    rows = []
    for n in config.hard_sizes:
        for kind in ("1e4:1", "pixels 1e4:1", "1e6:1"):
            a = fields(kind, n, config.hard_samples, config.seed + 2)
            seconds, solution = timed(darcy.solve, a, tol=config.tol, threads=1, on_failure="flag")
            for i, status in enumerate(solution.status):
                A, b = matrix_of(a[i])
                rho = np.linalg.norm(b - A @ solution.u[i, 1:-1, 1:-1].ravel()) / np.linalg.norm(b)
                # rounding in this matrix's own product is of the size of the floor
                allowed = config.tol if status in ("ok", "fallback_ok") else 2 * solution.floor[i]
                if status == "failed" or not rho <= 1.1 * allowed + 2 * solution.floor[i]:
                    raise RuntimeError(f"{kind}, n = {n}, sample {i}: status {status} at true residual {rho:.1e}")
            names, counts = np.unique(solution.status, return_counts=True)
            rows.append(
                {
                    "kind": kind,
                    "n": n,
                    "status": {str(name): int(count) for name, count in zip(names, counts)},
                    "iterations": int(solution.iterations.max()),
                    "residual": float(solution.residual.max()),
                    "floor": float(solution.floor.max()),
                    "seconds": seconds / len(a),
                }
            )
    return rows


def _growth(config: Config) -> dict[str, Any]:
    """Times over sizes, and the exponent p of time ~ unknowns^p from the smallest to the largest."""
    numba: dict[int, list[float]] = {n: [] for n in config.growth}
    batches = {n: fields("12/3", n, max(2, min(config.samples, 4 * 10**6 // n**2)), config.seed) for n in config.growth}
    rows = []
    for _ in range(config.repeats):
        for n, a in batches.items():
            seconds, solution = timed(darcy.solve, a, tol=config.tol, threads=1)
            numba[n].append(seconds / len(a))
            if not (solution.residual <= config.tol).all():
                raise RuntimeError(f"n = {n}: residual {solution.residual.max():.1e}")
    for n, a in batches.items():
        rows.append({"solver": "numba", "n": n, "seconds": float(np.median(numba[n]))})
        peers = {"pyamg": with_pyamg, "spsolve": with_spsolve} if n <= config.slow_peers_to else {"pyamg": with_pyamg}
        others = compare(a, 1, peers, tol=config.tol)
        rows += [{k: row[k] for k in ("solver", "n", "seconds")} for row in others if row["solver"] != "numba"]
    low, high = min(config.growth), max(config.growth)
    exponents = {}
    for solver in ("numba", "torch", "pyamg"):
        t = {row["n"]: row["seconds"] for row in rows if row["solver"] == solver}
        exponents[solver] = exponent([(n - 2) ** 2 for n in (low, high)], [t[low], t[high]])
    return {"rows": rows, "exponents": exponents, "from": low, "to": high}


def _small(config: Config) -> list[dict[str, Any]]:
    """Many small systems in one call: milliseconds a sample on one thread and on two, and their ratio."""
    rows = []
    for n in config.small_sizes:
        a = fields("12/3", n, config.small_samples, config.seed)
        calls = {count: partial(darcy.solve, a, tol=config.tol, threads=count) for count in (1, 2)}
        found = calls[2]()
        if not (found.residual <= config.tol).all():
            raise RuntimeError(f"n = {n}: a residual is above {config.tol:.0e}")
        times = interleaved({str(count): call for count, call in calls.items()}, rounds=max(3, config.repeats))
        per_sample = {who: float(np.median(taken)) / len(a) for who, taken in times.items()}
        moved = bytes_moved(n - 2, float(np.mean(found.iterations)))
        rate = rate_within(workspace(n - 2))
        row = {"n": n, "batch": len(a), "seconds": per_sample, "ratio": ratio(times["1"], times["2"])}
        rows.append({**row, "bytes": moved, "rate": rate, "share": moved / rate / per_sample["1"]})
    return rows
