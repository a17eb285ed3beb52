"""The stepping study: equal fields before times, orders from errors, one core, what is refused."""

import json
import os
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("rocket_fft")

from studies import stepper_speed as study
from studies.kit.timing import on_cores
from studies.stepper_speed import cases


@pytest.fixture
def tiny(monkeypatch):
    monkeypatch.setitem(cases.CASES, "small", cases.Case("burgers", (32,), 2, 5, 1.0))
    monkeypatch.setitem(cases.CASES, "flat", cases.Case("navier_stokes", (16, 16), 1, 3, 1.0))
    monkeypatch.setattr(cases, "DISPERSIVE", replace(cases.DISPERSIVE, points=(64,)))
    monkeypatch.setattr(study.importlib.util, "find_spec", lambda name: None if name == "exponax" else True)


def test_a_small_run_leaves_its_numbers(tmp_path, tiny):
    results = study.run(study.Config(cases=("small", "flat"), rounds=2, steps=(10, 20), output=tmp_path))
    assert [row["case"] for row in results["rows"]] == ["small", "flat"] and not results["targets"]
    assert all(row["difference"] < 1e-13 and row["torch"]["median"] > 0 for row in results["rows"])
    assert results["orders"]["compiled"] == pytest.approx(4.0, abs=0.3)
    assert "not compared" in json.loads((tmp_path / "report.json").read_text())["answer"]
    assert (tmp_path / "figures" / "stepper_speed.png").stat().st_size > 10_000


def test_contestants_that_end_elsewhere_are_not_timed(monkeypatch):
    ours = cases._ours
    monkeypatch.setattr(
        cases, "_ours", lambda case, grid, u, who: ours(case, grid, u, who) * (1 + (who == "numba") * 1e-7)
    )
    with pytest.raises(RuntimeError, match="contestants end 1.0e-07 apart"):
        cases.contestants(cases.Case("burgers", (32,), 1, 2, 1.0), 0, peer=False)


def test_fields_are_those_of_the_seed_and_of_mean_zero():
    case = cases.CASES["Navier–Stokes 64², batch 8"]
    grid, u = cases.fields(case, 3)
    assert u.shape == (8, *grid.shape) and np.abs(u.mean((1, 2))).max() < 1e-14
    assert np.array_equal(u, cases.fields(case, 3)[1]) and not np.array_equal(u, cases.fields(case, 4)[1])


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="Linux only")
def test_one_core_is_given_back():
    before = os.sched_getaffinity(0)
    with on_cores({max(before)}):
        assert len(os.sched_getaffinity(0)) == 1
    assert os.sched_getaffinity(0) == before


def test_an_unknown_case_is_one_line(tmp_path):
    with pytest.raises(ValueError, match="--cases nothing: expected some of"):
        study.run(study.Config(cases=("nothing",), output=tmp_path))
