import json
from dataclasses import replace

import numpy as np
import pytest

from sciops.files.digest import read_sealed, sealed
from sciops.metrics import relative_l2
from sciops.pde import darcy
from studies.accuracy_for_time import ARMS, PRESETS, Config, run


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    return Config(
        sizes=(43,),
        finest=85,
        samples=(6, 2, 4),
        seconds=0.2,
        arms=("sine-cosine", "effective coefficient"),
        threads=1,
        output=tmp_path_factory.mktemp("accuracy"),
    )


@pytest.fixture(scope="module")
def results(config):
    return run(config)


def test_solver_rows_are_the_solver_on_the_coarse_coefficient(config, results):
    (kept,) = config.output.glob("fields_*.npz")
    with np.load(kept) as fields:
        a, u = fields["a43"][-4:].astype(float), fields["u43"][-4:]
    assert set(np.unique(a)) == {3.0, 12.0}
    expected = relative_l2(darcy.solve(a).u, u.astype(float)).mean()
    rows = {row["name"]: row for row in results["summary"][43]}
    assert rows["native solve"]["error"] == pytest.approx(expected, rel=1e-5)
    # the effective coefficient starts as a solve, the network from nothing
    assert rows["effective coefficient"]["error"] < 0.3 * rows["sine-cosine"]["error"]
    assert rows["effective coefficient"]["kind"] == "hybrid"
    assert (config.output / "figures" / "accuracy_for_time.png").exists()


def test_runs_that_are_there_are_not_repeated(config, results):
    record = next((config.output / "records").glob("sine*.json"))
    stored = read_sealed(record)
    stored["record"]["error"] = 0.125
    record.write_text(json.dumps(sealed(stored)))
    again = run(config)
    assert {row["name"]: row["error"] for row in again["summary"][43]}["sine-cosine"] == 0.125


def test_a_run_of_another_training_or_on_other_fields_is_not_reused(config, results, monkeypatch):
    monkeypatch.setattr("studies.accuracy_for_time.trained_and_tested", lambda *_: pytest.fail("trained anew"))
    run(config)
    for changes in ({"validate_every": 1 + config.validate_every}, {"data_seed": 1}, {"seconds": 2 * config.seconds}):
        with pytest.raises(pytest.fail.Exception, match="trained anew"):
            run(replace(config, **changes, arms=("sine-cosine",)))


def test_targets_compare_like_with_like():
    from studies.accuracy_for_time.report import targets

    rows = [
        {"name": "ours", "kind": "network", "error": 0.007, "averaged": 0.0055},
        {"name": "with a solver", "kind": "hybrid", "error": 0.003, "averaged": 0.003},
        {"name": "theirs", "kind": "peer", "error": 0.02, "averaged": 0.015},
    ]
    ratio, network, hybrid = targets({85: rows}, PRESETS["evening"])
    assert ratio["value"] == pytest.approx(0.35) and ratio["met"]
    assert network["value"] == 0.0055 and network["met"] and not hybrid["met"]
    assert len(targets({85: rows}, PRESETS["quick"])) == 1, (
        "errors of short runs are not held against long ones' bounds"
    )


def test_refusals(config):
    with pytest.raises(ValueError, match="--arms nothing"):
        run(Config(arms=("nothing",)))
    with pytest.raises(ValueError, match="--sizes 44"):
        run(Config(sizes=(44,)))
    assert {arm.kind for arm in ARMS.values()} == {"network", "hybrid", "peer"}


def test_a_surrogate_pays_after_what_it_cost():
    from studies.accuracy_for_time.report import pays_after

    solves = [{"error": 0.02, "milliseconds": 1.0}, {"error": 0.01, "milliseconds": 5.0}]
    row = {"error": 0.015, "milliseconds": 3.0, "seconds": 60.0}
    assert pays_after(row, solves, 20.0) == "40,000"  # 80 s for 2 ms each; the solve of error 0.02 is no match
    assert pays_after(row | {"error": 0.03}, solves, 20.0) == "never"
    assert pays_after(row | {"error": 0.001}, solves, 20.0) == "no solve"
    assert pays_after(row, solves, None) == "unknown"


def test_coarser_solves_are_less_accurate_and_every_row_says_when_it_pays(results):
    rows = {row["name"]: row for row in results["summary"][43]}
    assert rows["solve, 2× coarser"]["error"] > 1.2 * rows["native solve"]["error"]
    assert rows["sine-cosine"]["pays after"] and results["generation"] > 0
