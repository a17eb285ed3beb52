"""Whether the time integrator keeps its word, in one run: measured orders on nonlinear equations, and exact solutions.

    python -m studies.integrator_orders
    python -m studies.integrator_orders --preset full --output runs/integrator_orders

Every equation is solved with steps that are halved, by each order, against a run of order 4 with far smaller steps on
the same grid. The measured order is the slope between the two smallest steps whose errors stand clear of the noise,
what two such references differ by. Then solvers meet exact solutions. A slope off by more than 0.1, or an exact
solution missed, ends the run with an error after the results are written.

Grids are as coarse as the solutions allow: where modes much stiffer than 1/step carry weight, exponential Runge–Kutta
methods of order 3 and 4 come to their order from below (Hochbruck & Ostermann 2010), with smaller steps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sciops.grids import Grid
from sciops.pde.evolution import (
    advection,
    burgers,
    fisher_kpp,
    gray_scott,
    heat,
    kdv,
    kuramoto_sivashinsky,
    navier_stokes,
)
from sciops.plotting import series
from sciops.random_fields import gaussian_random_field
from studies.kit.answers import met, sentence
from studies.kit.choices import require_known
from studies.kit.figures import panels, ticks
from studies.kit.study import finished, opened
from studies.kit.tables import grouped, print_table


@dataclass(frozen=True)
class Config:
    equations: tuple[str, ...] = (
        "burgers",
        "kdv",
        "kuramoto_sivashinsky",
        "fisher_kpp",
        "gray_scott",
        "navier_stokes",
    )
    """which of the equations of this study"""
    halvings: int = 3  # how often the first step of an equation is halved
    refinement: int = 4  # the reference takes steps this much smaller than the smallest
    tolerance: float = 0.1  # by how much a slope may differ from the order
    output: Path = Path("runs/integrator_orders")  # folder for results.json and the figure


PRESETS = {"quick": Config(), "full": Config(halvings=5)}

ORDERS = (1, 2, 3, 4)
_CLEAR = 20.0  # times the noise: an error this large tells its order to 1/20


@dataclass(frozen=True)
class Problem:
    """One smooth problem: solve(dt=…, order=…) → Trajectory, and a first step small enough for every order."""

    solve: Callable[..., Any]
    first_step: float
    about: str


def cases() -> dict[str, Problem]:
    """The problems by equation."""
    circle = Grid((64,), 2 * np.pi, "periodic")
    x = circle.coordinates()[0]
    wave = np.sin(x) + 0.3 * np.cos(2 * x + 1)
    line = Grid((32,), 32.0, "periodic")
    k = 2 * np.pi / 32
    long_wave = 3 * np.cos(k * line.coordinates()[0]) + 1.5 * np.sin(2 * k * line.coordinates()[0] + 1)
    plane = Grid((24, 24), (-1, 1), "periodic")
    px, py = plane.meshgrid()
    bump = np.exp(np.cos(np.pi * px) + np.sin(np.pi * py) - 2)
    torus = Grid((32, 32), 2 * np.pi, "periodic")
    vorticity = 3 * gaussian_random_field(torus, 1, tau=3.0, alpha=4.0, seed=0, modes=12, normalize=True)[0]

    def case(
        module: Any, u0: np.ndarray, grid: Grid, end: float, first: float, about: str, **parameters: Any
    ) -> Problem:
        return Problem(lambda **how: module.solve(u0, grid, times=[end], **parameters, **how), first, about)

    grown, reacting = {"diffusivity": 0.1, "rate": 2.0}, {"feed": 0.03, "kill": 0.062, "diffusivity": (2e-4, 1e-4)}
    hill, spots = 0.3 + 0.2 * np.cos(x), np.stack([1 - 0.5 * bump, 0.5 * bump])
    return {
        "burgers": case(burgers, wave, circle, 1.0, 1 / 50, "ν = 0.1, 64 points, t = 1", viscosity=0.1),
        "kdv": case(
            kdv, wave, circle, 1.0, 1 / 200, "c = 1, d = 0.05, 64 points, t = 1", convection=1.0, dispersion=0.05
        ),
        "kuramoto_sivashinsky": case(kuramoto_sivashinsky, long_wave, line, 4.0, 1 / 20, "length 32, 32 points, t = 4"),
        "fisher_kpp": case(fisher_kpp, hill, circle, 2.0, 1 / 10, "ν = 0.1, ρ = 2, 64 points, t = 2", **grown),
        "gray_scott": case(gray_scott, spots, plane, 20.0, 1.0, "spots, 24² points, t = 20", **reacting),
        "navier_stokes": case(
            navier_stokes, vorticity, torus, 1.0, 1 / 80, "ν = 0.02, 32² points, t = 1", viscosity=0.02
        ),
    }


def run(config: Config) -> dict[str, Any]:
    """Measures, prints, writes results.json and figures/integrator_orders.png, and returns the results.

    Raises RuntimeError, after writing, naming what is off; ValueError for an equation that is none of the study's.
    """
    known = cases()
    require_known("--equations", config.equations, known)
    if config.halvings < 1 or config.refinement < 2:
        raise ValueError(
            f"--halvings {config.halvings} --refinement {config.refinement}: expected at least 1 and at least 2"
        )
    folder = opened(config, methods=["etdrk"])
    orders = [row for name in config.equations for row in measure(name, known[name], config)]
    results = {"orders": orders, "exact": exact_checks(), "tolerance": config.tolerance}
    off = [
        f"{row['equation']} of order {row['order']} has slope {row['slope']:.2f}"
        for row in orders
        if not abs(row["slope"] - row["order"]) <= config.tolerance
    ]
    off += [f"{row['what']}: {row['error']:.1e} > {row['most']:.0e}" for row in results["exact"] if not row["met"]]
    how = {"answer": answer, "picture": "integrator_orders.png", "wrong": "; ".join(off)}
    return finished(folder, results, _draw, _print, **how)


def answer(results: dict[str, Any]) -> str:
    """How far the measured orders lie from those of the methods."""
    orders = results["orders"]
    apart = max((abs(row["slope"] - row["order"]) for row in orders), default=0.0)
    equations = len({row["equation"] for row in orders})
    said = f"measured orders of {equations} equations lie within {apart:.2f} of those of the method"
    return sentence(said, f"{met(results['exact'], 'exact solutions')} within their bound")


def measure(name: str, case: Problem, config: Config) -> list[dict[str, Any]]:
    """One row an order: steps, relative errors against the reference, slope at the smallest steps above the noise."""
    steps = [case.first_step / 2**i for i in range(config.halvings + 1)]
    reference = case.solve(dt=steps[-1] / config.refinement, order=4).u

    def error_of(**how: Any) -> float:
        return float(np.linalg.norm(case.solve(**how).u - reference) / np.linalg.norm(reference))

    noise = error_of(dt=0.8 * steps[-1] / config.refinement, order=4)
    rows = []
    for order in ORDERS:
        errors = [error_of(dt=dt, order=order) for dt in steps]
        above = [i for i, error in enumerate(errors) if error > _CLEAR * noise]
        last = above[-1] if above else 0
        slope = float(np.log2(errors[last - 1] / errors[last])) if last else float("nan")
        rows.append(
            {
                "equation": name,
                "problem": case.about,
                "order": order,
                "steps": steps,
                "errors": errors,
                "slope": slope,
                "at": steps[last],
                "noise": noise,
            }
        )
    return rows


def exact_checks() -> list[dict[str, Any]]:
    """Largest errors against exact solutions, with the most that each may be."""
    unit = Grid((256,), 1.0, "periodic")
    x = unit.coordinates()[0]
    two = 2 * np.pi
    waves = lambda x: np.sin(two * x + 0.3) + 0.5 * np.cos(5 * two * x + 1) - 0.2 * np.sin(40 * two * x)  # noqa: E731
    moved = advection.solve(waves(x), unit, times=[100.0], velocity=0.37).u[0]
    plane = Grid((32, 24), ((0, 1), (0, 2)), "periodic")
    px, py = plane.meshgrid()
    mode = np.cos(two * 3 * px + np.pi * 5 * py + 0.4)
    cooled = heat.solve(mode, plane, times=[0.05], diffusivity=0.1).u[0]
    rate = 0.1 * ((two * 3) ** 2 + (np.pi * 5) ** 2)
    flow = burgers.solve(np.sin(two * x), unit, times=[0.5], viscosity=0.02, dt=5e-4).u[0]
    hopf = burgers.cole_hopf(lambda y: -np.cos(two * y) / two, x, 0.5, viscosity=0.02)
    sea = Grid((256,), (-16, 16), "periodic")
    soliton = lambda t: kdv.soliton(sea, t, speed=2.0, centre=-4.0)  # noqa: E731
    swum = kdv.solve(soliton(0.0), sea, times=[4.0], dt=1e-3).u[0]
    level = fisher_kpp.solve(np.full(16, 0.1), Grid((16,), 1.0, "periodic"), times=[3.0], diffusivity=1.0, rate=2.0)
    grown = 0.1 * np.exp(6.0) / (1 + 0.1 * np.expm1(6.0))
    rows = [
        ("advection of three waves, t = 100", moved - waves(x - 37.0), 1e-11),
        ("heat of a plane wave", cooled - np.exp(-rate * 0.05) * mode, 1e-12),
        ("Burgers, the Cole–Hopf integral, ν = 0.02", flow - hopf, 1e-10),
        ("KdV, a soliton after 8 of its widths", swum - soliton(4.0), 1e-8),
        ("Fisher, the logistic curve", level.u - grown, 1e-8),
    ]
    return [
        {"what": what, "error": float(np.abs(error).max()), "most": most, "met": bool(np.abs(error).max() <= most)}
        for what, error, most in rows
    ]


def _print(results: dict[str, Any]) -> None:
    print("measured order of the time integrator: slope between the two smallest steps above noise (error at smallest)")
    found: dict[str, dict[str, str]] = {row["equation"]: {} for row in results["orders"]}
    for row in results["orders"]:
        found[row["equation"]][f"order {row['order']}"] = f"{row['slope']:.3f} ({row['errors'][-1]:.1e})"
    print_table(found, "equation=name", *(f"order {order}" for order in ORDERS))
    met = ("", lambda row: "met" if row["met"] else "MISSED")
    print_table(results["exact"], "=what; error:.1e; at most=most:.0e", met, title="exact solutions: largest error")


def _draw(results: dict[str, Any], path: Path) -> None:
    equations = grouped(results["orders"], "equation")
    caption = "Error against the step of time for every order, with lines of these orders."
    with panels(path, len(equations), 3, width=2.9, height=2.6, caption=caption) as axes:
        for axis, (name, rows) in zip(axes, equations.items()):
            for row, style in zip(rows, series()):
                steps, errors = np.array(row["steps"]), np.array(row["errors"])
                label = f"order {row['order']}: {row['slope']:.2f}"
                axis.loglog(steps, errors, label=label, **style | {"linestyle": "none"})
                anchor = row["steps"].index(row["at"])
                line = errors[anchor] * (steps / steps[anchor]) ** row["order"]
                axis.loglog(steps, line, color=style["color"], linewidth=0.8, linestyle="-")
            axis.set(title=f"{name}\n{rows[0]['problem']}", xlabel="step", ylabel="relative error")
            ticks(axis.xaxis, rows[0]["steps"][::2], "{:.1g}".format)
            low, high = axis.get_ylim()
            axis.set_ylim(low, high * (high / low) ** 0.35)  # room for the names
            axis.legend(loc="upper center", ncols=2, columnspacing=1.0, handletextpad=0.2)


if __name__ == "__main__":
    from sciops.commands.command_line import command

    command(run, PRESETS)
