"""Answer, tables and figure of the plan."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from sciops.plotting import PALETTE, series
from studies.cluster_plan.planning import Law
from studies.kit.answers import sentence
from studies.kit.figures import panels
from studies.kit.tables import print_table


def answer(results: dict[str, Any]) -> str:
    """Cost and slowest stage of the plan, and whether the simulated workers made everything."""
    plan, runs = results["plan"], results["simulated"]["runs"]
    widest = plan["generation"][-1]
    deaths = sum(len(run["deaths"]) for run in runs)
    first = next(iter(plan["limits"].values()))[0]
    chunk = next(iter(plan["limits"]))
    rate = 1 / plan["costs"]["scheduler_part"]
    return sentence(
        f"{plan['samples']:,} samples at {plan['grid']}² take {widest['core_hours']:.1f} core-hours and "
        f"{widest['bytes'] / 1e12:.2f} TB; the slowest stage on {widest['nodes']} nodes is {widest['slowest']}",
        f"with parts of {chunk} samples the first to break is {first['limit']}",
        f"{runs[0]['workers']} simulated workers, of which {deaths} died, made all {sum(r['parts'] for r in runs):,} "
        f"parts of {len(runs)} generations, equal to those of one process",
        f"by its processor time, a scheduler with a core of its own serves {rate:.0f} parts a second",
    )


def show(results: dict[str, Any]) -> None:
    """Prints every table."""
    plan = results["plan"]
    print_table(
        results["samples"],
        "nodes=n; samples; ms=1e3*seconds:.2f; spread:.0%; clock/processor=clock:.2f; part of 4, peak MB=1e-6*peak:.1f",
        title="Darcy samples, one thread, processor time",
    )
    print_table(
        results["stored"],
        ("nodes", lambda row: row["n"]),
        ("type", lambda row: row["dtype"]),
        ("gzip", lambda row: row["gzip"] or "none"),
        "kB a sample=1e-3*bytes:.1f",
        ("of raw", lambda row: f"{row['bytes'] / row['raw']:.2f}"),
        "ms to write=1e3*seconds:.2f",
        title="fields a and u of a sample in the HDF5 file",
    )
    print_table(
        results["steps"],
        "nodes=n; batch; ms a step=1e3*seconds:.0f; clock/processor=clock:.2f; formula MB=1e-6*formula:.0f",
        "measured MB=1e-6*peak:.0f",
        ("formula/measured", lambda row: f"{row['formula'] / row['peak']:.2f}"),
        title="training steps of the fno, one thread",
    )
    print_table(
        plan["laws"],
        ("fixed + c n² nodes", lambda row: row["name"]),
        "fixed:.3g; c=per_node:.3g; checked on=largest; law=predicted:.4g; measured:.4g",
        "error:+.1%",
        title="laws, fitted on all grids but the largest",
    )
    if results["scaling"]:
        print_table(
            _efficiencies(results["scaling"]),
            "work; scaling; 1 process, s=one.seconds:.2f; 2 processes, s=two.seconds:.2f; efficiency=busy:.2f",
            "clock 1=one.clock:.2f; clock 2=two.clock:.2f; by the clock=clock:.2f",
            title="one process and two, processor seconds of the slowest; efficiency 1 is perfect",
        )
    _show_runs(results["simulated"]["runs"])
    costs = plan["costs"]
    print(
        f"\nscheduler: {1e3 * costs['scheduler_part']:.2f} ms a part and {1e3 * costs['scheduler_worker']:.2f} ms for "
        f"each second of a worker; assembly: {1e3 * costs['assembly_part']:.2f} ms a part and "
        f"{1e9 * costs['assembly_byte']:.2f} s a GB (processor time)"
    )
    machine = plan["machine"]
    print(
        f"assumed: {machine['cores']} cores a node, {machine['shared_rate'] / 1e9:g} GB/s of the file system, "
        f"{machine['node_rate'] / 1e9:g} GB/s of a node, {machine['files']:,} files in a folder"
    )
    print_table(
        plan["generation"],
        "samples a part=chunk; parts:,; part MB=1e-6*part_bytes:.0f; nodes; workers; TB=1e-12*bytes:.2f",
        "core-hours=core_hours:.1f; solving h=hours.solving:.3f; scheduler h=hours.scheduler:.3f",
        "writing h=hours.writing:.3f; slowest; Zarr h=zarr_hours:.3f; HDF5 h=hdf5_hours:.3f",
        title=f"{plan['samples']:,} samples at {plan['grid']}², float32",
    )
    print_table(
        [{"chunk": chunk} | row for chunk, rows in plan["limits"].items() for row in rows],
        "samples a part=chunk; limit",
        ("from workers on", lambda row: _count(row["workers"])),
        "why",
        title="what breaks first: the number of workers from which on each costs more than the solves",
    )
    for workers, chunk in plan["least_chunk"].items():
        said = f"parts of {chunk} samples or more" if chunk else "no part size: take --shard, or threads in each worker"
        print(f"{workers} workers take at most half of the scheduler with {said}")
    print_table(
        plan["training"],
        "processes; samples:,; steps:,; step hours=hours:.1f; read MB/s=1e-6*rate:.1f; read hours=read_hours:.2f",
        "slowest; processes that fill the file system=most_processes:,.0f",
        title=f"one epoch of 1 TB, {plan['step_seconds']:.1f} s a step at {plan['grid']}² by the law, a core a process",
    )


def _count(workers: float) -> str:
    return "any" if workers == 0 else "none" if np.isinf(workers) else f"{workers:,.0f}"


def _show_runs(runs: list[dict[str, Any]]) -> None:
    print_table(
        [run | {"dead": len(run["deaths"])} for run in runs],
        "s a part=part_seconds; parts; deaths=dead; attempts; made twice=made_twice; parts/s asked=asked_rate:.0f",
        "sustained=rate:.0f; workers busy=busy_share:.0%; scheduler ms a part=1e3*scheduler_per_part:.2f",
        "process ms a part=1e3*process_per_part:.2f; assembly s=assembly_seconds:.2f",
        title=f"{runs[0]['workers']} simulated workers, one scheduler, one process",
    )


def _efficiencies(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One process beside two: efficiency is t₁ / (2 t₂) for a fixed whole, t₁ / t₂ for a fixed share of each."""
    found = []
    for one in (row for row in rows if row["processes"] == 1):
        (two,) = (
            row
            for row in rows
            if row["processes"] == 2 and (row["work"], row["scaling"]) == (one["work"], one["scaling"])
        )
        factor = 2 if one["scaling"] == "strong" else 1
        ratios = {name: one[key] / (factor * two[key]) for name, key in (("busy", "seconds"), ("clock", "clock"))}
        found.append({"work": one["work"], "scaling": one["scaling"], "one": one, "two": two} | ratios)
    return found


def draw(results: dict[str, Any], path: Path) -> None:
    """Cost by grid with the laws, and parts per second of the simulated workers."""
    caption = (
        "Left: processor time of a Darcy sample and of a training step by grid, with the law of all grids but the "
        "largest. Right: parts per second of simulated workers; crosses: deaths; dashed: no time lost between parts."
    )
    with panels(path, 2, 2, width=4.4, height=3.2, caption=caption) as (cost, rate):
        laws = results["plan"]["laws"]
        lines = {
            "Darcy sample": ("samples", "sample, processor s"),
            "training step": ("steps", "training step, processor s"),
        }
        for (label, (key, name)), style in zip(lines.items(), series()):
            n, seconds = np.array([(row["n"], row["seconds"]) for row in results[key]]).T
            fitted = Law(laws[name]["fixed"], laws[name]["per_node"])
            fine = np.geomspace(n.min(), n.max(), 60)
            cost.plot(n, 1e3 * seconds, label=label, **{**style, "linestyle": "none"})
            cost.plot(fine, 1e3 * fitted(fine), color=style["color"], linestyle="--", label=f"law, {label}")
            cost.plot(n[-1:], 1e3 * seconds[-1:], "o", color=style["color"], markersize=11, fillstyle="none")
        cost.set(xscale="log", yscale="log", xlabel="nodes per axis (circled: not fitted)", ylabel="processor ms")
        cost.set_xticks(ticks := sorted({row["n"] for row in results["samples"]}), [str(n) for n in ticks])
        cost.set_xticks([], minor=True)
        cost.legend(loc="center right", fontsize="x-small")
        runs = results["simulated"]["runs"]
        for run, color in zip(runs, PALETTE):
            times = np.sort([when for when, _ in run["made"]])
            edges = np.linspace(0, times[-1], 16)
            counts, _ = np.histogram(times, edges)
            middle, per_second = (edges[1:] + edges[:-1]) / 2, counts / np.diff(edges)
            rate.plot(middle, per_second, color=color, label=f"parts of {run['part_seconds']:g} s")
            rate.plot([0, times[-1]], [run["asked_rate"]] * 2, color=color, linestyle="--", linewidth=0.8)
            deaths = np.array(run["deaths"])
            rate.plot(deaths, np.interp(deaths, middle, per_second), "x", color=color, markersize=5)
        rate.set(xlabel="seconds", ylabel="parts per second", yscale="log")
        rate.legend(loc="best", fontsize="x-small")
