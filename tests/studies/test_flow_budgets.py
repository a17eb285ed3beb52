"""The budgets study finds closed budgets closed, an open one open, and then fails."""

import json
from dataclasses import replace

import numpy as np
import pytest

from sciops.commands.command_line import command
from sciops.grids import Grid
from sciops.pde import navier_stokes as ns
from studies import flow_budgets as study

SMALL = study.Config(points=24, samples=1, duration=2.0, records=41, dt=1 / 20, inviscid_duration=1.0, drift=1e-6)


def test_the_measured_rate_is_exact_on_quartics():
    t = np.linspace(0, 2, 21)
    np.testing.assert_allclose(study.fourth_order_rate(t**4 - t, 0.1), (4 * t**3 - 1)[2:-2], rtol=0, atol=1e-11)


def test_a_small_run_closes_and_leaves_its_numbers(tmp_path, capsys):
    results = study.run(replace(SMALL, output=tmp_path))
    assert len(results["checks"]) == 10 and all(row["met"] for row in results["checks"])
    assert results["budgets"]["enstrophy"]["last"] > results["budgets"]["enstrophy"]["first"]
    saved = json.loads((tmp_path / "results.json").read_text())
    assert saved["budgets"] == results["budgets"]
    for name in ("budgets", "flow"):
        assert (tmp_path / "figures" / f"{name}.png").stat().st_size > 10_000
    assert "MISSED" not in capsys.readouterr().out


def test_another_viscosity_than_the_run_had_leaves_the_budgets_open():
    grid = Grid((24, 24), centering="periodic")
    times = np.linspace(0, 1, 21)
    w0 = 3 * np.sin(4 * np.pi * grid.meshgrid()[0]) * np.sin(2 * np.pi * grid.meshgrid()[1]) + ns.li2020_forcing(grid)
    options = {"drag": SMALL.drag, "forcing": ns.li2020_forcing, "dt": 1 / 20}
    closure = {}
    for nu in (1e-3, 2e-3):
        w = ns.solve(w0[None], grid, times=times, viscosity=nu, **options).u
        found = study.budgets_over_time(w, times, grid, replace(SMALL, viscosity=1e-3))
        closure[nu] = [one["closure"] for one in found.values()]
    assert max(closure[1e-3]) < 1e-5 and min(closure[2e-3]) > 0.1


def test_a_missed_tolerance_ends_the_command_with_status_2(tmp_path, capsys):
    short = replace(SMALL, points=16, duration=0.5, records=11, inviscid_duration=0.25)
    presets = {"small": replace(short, output=tmp_path)}
    with pytest.raises(SystemExit) as stop:
        command(study.run, presets, ["--closure", "1e-15"])
    said = capsys.readouterr()
    assert stop.value.code == 2 and "error: not within tolerance: energy budget over time" in said.err
    assert "MISSED" in said.out and (tmp_path / "results.json").exists()


def test_too_few_records_are_refused(tmp_path):
    with pytest.raises(ValueError, match="expected at least 6"):
        study.run(replace(SMALL, records=5, output=tmp_path))
