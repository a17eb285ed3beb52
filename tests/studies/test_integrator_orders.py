"""The integrator study measures slopes it can tell, sees a wrong order, and leaves its numbers."""

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from studies import integrator_orders as study

CONFIG = study.Config(halvings=3)


def with_errors(error):
    """A case whose solution is 1 and whose error at a step is error(dt, order)."""

    def solve(dt, order):
        return SimpleNamespace(u=np.array([1.0 + error(dt, order), 1.0]))

    return study.Problem(solve, 0.1, "made up")


def test_slopes_are_those_of_the_errors():
    rows = study.measure("made up", with_errors(lambda dt, order: 0.3 * dt**order), CONFIG)
    for row in rows:
        assert row["slope"] == pytest.approx(row["order"], abs=0.05)  # but for the error of the reference
    wrong = study.measure("made up", with_errors(lambda dt, order: dt ** min(order, 2)), CONFIG)
    assert [round(row["slope"]) for row in wrong[:3]] == [1, 2, 2]


def test_errors_in_the_noise_tell_no_order():
    rng = np.random.default_rng(0)
    rows = study.measure("noisy", with_errors(lambda dt, order: dt**order + 1e-7 * rng.standard_normal()), CONFIG)
    fourth = rows[3]
    assert (
        fourth["at"] > fourth["steps"][-1]
        and fourth["errors"][fourth["steps"].index(fourth["at"])] > 20 * fourth["noise"]
    )
    nothing = study.measure("noise", with_errors(lambda dt, order: rng.standard_normal()), CONFIG)
    assert any(not abs(row["slope"] - row["order"]) <= 0.1 for row in nothing)


def test_exact_solutions_are_met():
    rows = study.exact_checks()
    assert len(rows) == 5 and all(row["met"] for row in rows)


def test_a_small_run_leaves_its_numbers_and_a_wrong_slope_ends_it(tmp_path, capsys, monkeypatch):
    config = study.Config(equations=("fisher_kpp", "burgers"), halvings=2, output=tmp_path)
    monkeypatch.setattr(study, "exact_checks", lambda: [{"what": "one", "error": 0.0, "most": 1.0, "met": True}])
    results = study.run(config)
    assert [(row["equation"], row["order"]) for row in results["orders"]] == [
        (name, order) for name in config.equations for order in (1, 2, 3, 4)
    ]
    assert all(abs(row["slope"] - row["order"]) < 0.1 for row in results["orders"])
    assert json.loads((tmp_path / "results.json").read_text())["orders"] == results["orders"]
    assert (tmp_path / "figures" / "integrator_orders.png").stat().st_size > 10_000
    assert "cox2002" in (tmp_path / "citations.bib").read_text()
    assert "fisher_kpp" in capsys.readouterr().out
    with pytest.raises(RuntimeError, match=r"fisher_kpp of order \d has slope"):
        study.run(replace(config, equations=("fisher_kpp",), tolerance=1e-6))
    monkeypatch.setattr(study, "exact_checks", lambda: [{"what": "one", "error": 2.0, "most": 1.0, "met": False}])
    with pytest.raises(RuntimeError, match="one: 2.0e.00 > 1e.00"):
        study.run(replace(config, equations=("fisher_kpp",)))


def test_refusals(tmp_path):
    with pytest.raises(ValueError, match="--equations maxwell: expected some of burgers, kdv"):
        study.run(study.Config(equations=("burgers", "maxwell"), output=tmp_path))
    with pytest.raises(ValueError, match="--halvings 0 --refinement 4: expected at least 1"):
        study.run(study.Config(halvings=0, output=tmp_path))
