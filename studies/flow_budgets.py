"""Whether the flow and wave solvers keep what their equations keep, in one run: energy and enstrophy budgets over time.

    python -m studies.flow_budgets
    python -m studies.flow_budgets --preset full --viscosity 1e-5

For the vorticity w on a torus, with E = ½⟨|u|²⟩, Z = ½⟨w²⟩, P = ½⟨|∇w|²⟩ and −Δψ = w,

    dE/dt = −2νZ − 2αE + ⟨ψf⟩        dZ/dt = −2νP − 2αZ + ⟨wf⟩.

The left sides are measured from the recorded run by central differences of fourth order, the right sides from its
fields; what is left over, as a share of the largest rate, is the closure error. The same without viscosity and forcing,
where E and Z must stay; waves between walls, on a torus and in a medium, whose energy must stay, and standing waves
that are known.
The run fails, with status 2, when a closure or a drift exceeds its tolerance.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sciops.grids import Grid
from sciops.pde import navier_stokes as ns
from sciops.pde import wave
from sciops.plotting import draw_field, draw_spectra, figure, series
from sciops.random_fields import gaussian_random_field
from sciops.spectral import power_spectrum
from studies.kit.answers import listed, met, sentence
from studies.kit.study import finished, opened, picked
from studies.kit.tables import print_table


@dataclass(frozen=True)
class Config:
    points: int = 96  # points per axis of the flow
    samples: int = 2  # initial fields of Li et al.'s law
    viscosity: float = 1e-4  # ν on the unit box
    drag: float = 0.05  # α of the linear drag
    duration: float = 8.0  # time of the forced run
    records: int = 161  # equal times at which fields are kept; rates are differences between them
    dt: float = 1 / 80  # largest step of the flow
    inviscid_duration: float = 6.0  # time of the run without viscosity, drag and forcing
    closure: float = 1e-6  # most that a budget may leave open, of the largest rate
    drift: float = 1e-8  # most that the inviscid E and Z may change, relatively
    round_off: float = 1e-11
    """most that the instantaneous budgets, the wave's energy and its standing waves may be off, relatively"""
    seed: int = 0  # of the initial fields
    output: Path = Path("runs/flow_budgets")  # folder for results.json and the figures


PRESETS = {"quick": Config(), "full": Config(points=256, viscosity=1e-5, duration=20.0, records=401, dt=1 / 256)}


def run(config: Config) -> dict[str, Any]:
    """Measures, prints, writes results.json and figures/; returns the results. RuntimeError where a budget is open."""
    if config.records < 6:
        raise ValueError(f"--records {config.records}: expected at least 6, for differences of fourth order")
    folder = opened(config, seeds=[config.seed], methods=["etdrk"])
    grid = Grid((config.points,) * 2, centering="periodic")
    # no mode beyond those that the 2/3 rule keeps: what the truncated equation conserves is then E and Z themselves
    modes = min(64, 2 * ((config.points - 1) // 3))
    w0 = gaussian_random_field(grid, config.samples, tau=7.0, alpha=2.5, seed=config.seed, modes=modes)
    times, law = np.linspace(0.0, config.duration, config.records), picked(config, "viscosity drag dt")
    forced = ns.solve(w0, grid, times=times, forcing=ns.li2020_forcing, estimate=True, **law)
    budgets = budgets_over_time(forced.u, forced.times, grid, config)
    results = {
        "budgets": {name: {k: v for k, v in one.items() if k != "lines"} for name, one in budgets.items()},
        "stepping_error": float(np.max(forced.error)),
        "inviscid": _inviscid(w0, grid, config),
        "wave": _waves(config),
    }
    results["checks"] = _checks(results, config)
    failed = "; ".join(row["what"] for row in results["checks"] if not row["met"])
    wrong = failed and f"not within tolerance: {failed}"
    draw = lambda _, figures: _draw(forced, budgets, grid, figures)  # noqa: E731
    return finished(folder, results, draw, _print, answer=answer, wrong=wrong)


def answer(results: dict[str, Any]) -> str:
    """What the budgets leave open, and how many checks hold."""
    said = [f"the budget of {name} closes to {one['closure']:.1e}" for name, one in results["budgets"].items()]
    return sentence(listed(said), met(results["checks"], "checks"))


def budgets_over_time(w: np.ndarray, times: np.ndarray, grid: Grid, config: Config) -> dict[str, dict[str, Any]]:
    """For energy and enstrophy: the closure error over all records and samples, the same instantaneously, and lines
    (records,) of the first sample for the figure.

    w : (samples, time, nx, ny), equally spaced in time
    """
    f = ns.li2020_forcing(grid)
    e, z, p = ns.energy(w, grid), ns.enstrophy(w, grid), ns.palinstrophy(w, grid)
    psi = ns.stream_function(w, grid)
    rate = np.stack(
        [
            ns.tendency(w[:, i], grid, viscosity=config.viscosity, drag=config.drag, forcing=f)
            for i in range(len(times))
        ],
        1,
    )
    nu, alpha, found = config.viscosity, config.drag, {}
    for name, value, weight, lost in (("energy", e, psi, z), ("enstrophy", z, w, p)):
        terms = {"viscosity": -2 * nu * lost, "drag": -2 * alpha * value, "forcing": (weight * f).mean((2, 3))}
        right = sum(terms.values())
        measured = fourth_order_rate(value, times[1] - times[0])
        inner = slice(2, -2)
        scale = max(float(np.abs(term).max()) for term in terms.values())
        instant = (weight * rate).mean((2, 3)) - right
        # what a product of fields can be off by rounding: their sizes multiplied
        size = np.sqrt((weight**2).mean((2, 3)) * (rate**2).mean((2, 3)))
        found[name] = {
            "closure": float(np.abs(measured - right[:, inner]).max() / scale),
            "instantaneous_closure": float((np.abs(instant) / size).max()),
            "first": float(value[0, 0]),
            "last": float(value[0, -1]),
            "lines": {"measured": measured[0], "sum": right[0], **{key: term[0] for key, term in terms.items()}},
        }
    return found


def fourth_order_rate(values: np.ndarray, h: float) -> np.ndarray:
    """d/dt of equally spaced values (…, time) by (v₋₂ − 8v₋₁ + 8v₁ − v₂)/12h, (…, time − 4)."""
    return (values[..., :-4] - 8 * values[..., 1:-3] + 8 * values[..., 3:-1] - values[..., 4:]) / (12 * h)


def _inviscid(w0: np.ndarray, grid: Grid, config: Config) -> dict[str, float]:
    run = ns.solve(w0, grid, times=[0.0, config.inviscid_duration], viscosity=0.0, dt=config.dt)
    drift = {}
    for name, value in (("energy", ns.energy(run.u, grid)), ("enstrophy", ns.enstrophy(run.u, grid))):
        drift[name] = float((np.abs(value[:, 1] - value[:, 0]) / value[:, 0]).max())
    moved = np.linalg.norm(run.u[:, 1] - run.u[:, 0]) / np.linalg.norm(run.u[:, 0])
    return drift | {"moved": float(moved)}


def _waves(config: Config) -> dict[str, float]:
    """Relative drift of energy over a hundred crossings, ten where the speed varies by a factor of four, and the error
    of a standing wave between walls."""
    times = np.linspace(0.0, 100.0, 41)
    found = {}
    for name, grid, boundary in (
        ("periodic", Grid((64, 48), ((0, 1), (0, 2)), "periodic"), None),
        ("walls", Grid((65, 49), ((0, 1), (0, 2))), "dirichlet"),
    ):
        state = np.random.default_rng(config.seed).standard_normal((2, *grid.shape))
        if boundary:
            state[:, [0, -1]] = 0
            state[:, :, [0, -1]] = 0
        energy = wave.energy(wave.solve(state, grid, times=times, boundary=boundary).u, grid, boundary=boundary)
        found[f"energy_{name}"] = float(np.abs(energy - energy[0]).max() / energy[0])
    x, y = grid.meshgrid()
    speed = np.exp(np.log(2) * np.cos(np.pi * x) * np.cos(np.pi * y))
    energy = wave.energy(wave.solve(state, grid, times=times / 10, speed=speed).u, grid, speed=speed)
    found["energy_medium"] = float(np.abs(energy - energy[0]).max() / energy[0])
    mode = np.sin(2 * np.pi * x) * np.sin(1.5 * np.pi * y)
    u = wave.solve(np.stack([mode, 0 * mode]), grid, times=times).u[:, 0]
    exact = np.cos(2.5 * np.pi * times)[:, None, None] * mode
    return found | {"standing_wave": float(np.abs(u - exact).max())}


def _checks(results: dict[str, Any], config: Config) -> list[dict[str, Any]]:
    rows = []
    for name, one in results["budgets"].items():
        rows.append((f"{name} budget over time", one["closure"], config.closure))
        rows.append((f"{name} budget at an instant", one["instantaneous_closure"], config.round_off))
        rows.append((f"inviscid {name} drift", results["inviscid"][name], config.drift))
    rows += [(f"wave {name.replace('_', ', ')}", value, config.round_off) for name, value in results["wave"].items()]
    return [{"what": what, "value": value, "most": most, "met": bool(value <= most)} for what, value, most in rows]


def _print(results: dict[str, Any]) -> None:
    for name, one in results["budgets"].items():
        print(f"{name}: {one['first']:.4e} → {one['last']:.4e}")
    print(f"estimated error of the time stepping {results['stepping_error']:.1e}")
    print(f"inviscid fields moved by {results['inviscid']['moved']:.2f} of their norm")
    met = ("", lambda row: "met" if row["met"] else "MISSED")
    print_table(results["checks"], met, "=what; value:.1e; at most=most:.0e", title="")


def _draw(forced: Any, budgets: dict[str, dict[str, Any]], grid: Grid, folder: Path) -> None:
    caption = "Rates of energy and enstrophy of one flow, measured, and as the sum of viscosity, drag and forcing."
    with figure(folder / "budgets.png", 1, 2, width=3.8, height=3.0, caption=caption) as (_, axes):
        for axis, (name, one) in zip(axes[0], budgets.items()):
            lines = one["lines"]
            for label, style in zip(("viscosity", "drag", "forcing", "sum"), series()):
                axis.plot(forced.times, lines[label], label=label, **style | {"marker": None})
            every = max(1, len(lines["measured"]) // 20)
            hollow = {"color": "black", "fillstyle": "none", "label": "measured"}
            axis.plot(forced.times[2:-2:every], lines["measured"][::every], "o", **hollow)
            axis.set(xlabel="time", ylabel=f"rate of {name}", title=f"{name}: left open {one['closure']:.1e}")
            axis.legend()
    caption = "Vorticity of one flow at the start and at the end, and the mean energy spectrum at three times."
    with figure(folder / "flow.png", 1, 3, width=3.4, height=2.9, caption=caption) as (fig, axes):
        first, last, spectrum = axes[0]
        draw_field(fig, first, forced.u[0, 0], grid, title="w, t = 0", signed=True)
        draw_field(fig, last, forced.u[0, -1], grid, title=f"w, t = {forced.times[-1]:g}", signed=True)
        spectra = {}
        for step in (0, len(forced.times) // 2, -1):
            uv = ns.velocity(forced.u[:, step], grid)
            k, energy = power_spectrum(uv, grid)
            spectra[f"t = {forced.times[step]:g}"] = (k, 0.5 * np.asarray(energy).reshape(-1, 2, len(k)).sum(1).mean(0))
        draw_spectra(spectrum, spectra)
        spectrum.set_title("energy spectrum")
        spectrum.legend()


if __name__ == "__main__":
    from sciops.commands.command_line import command

    command(run, PRESETS)
