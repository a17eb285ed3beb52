import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from sciops import Grid
from sciops.datasets import TensorFields
from sciops.files.digest import read_sealed, sealed
from sciops.metrics import relative_l2
from sciops.models import Corrector
from sciops.pde import darcy
from studies.accuracy_for_time import ARMS, PRESETS, Config, run
from studies.accuracy_for_time.solves import fitted_weights


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


def test_sums_of_solves(config, results):
    (kept,) = config.output.glob("fields_*.npz")
    with np.load(kept) as fields:
        a, u = (torch.from_numpy(fields[f"{name}43"]).double()[:, None] for name in "au")
    grid = Grid((43, 43))
    finer = Corrector(nn.Identity(), refine=2, tol=1e-8)
    finer.correct = False
    u_1, u_2 = torch.from_numpy(darcy.solve(a[:, 0].numpy()).u)[:, None], finer(a, grid)
    rows = {row["name"]: row for row in results["summary"][43]}
    expected = float(relative_l2((4 * u_2 - u_1) / 3, u)[-4:].mean())
    assert rows["Richardson extrapolation"]["error"] == pytest.approx(expected, rel=1e-4)
    train = TensorFields(a[:6], 0.3 * u_1[:6] + 0.6 * u_2[:6], grid)
    assert fitted_weights(train) == pytest.approx([0.3, 0.6], abs=1e-5)
    first, second = fitted_weights(TensorFields(a[:6], u[:6], grid))  # those of the row
    assert rows["weighted solves"]["error"] == pytest.approx(
        float(relative_l2(first * u_1 + second * u_2, u)[-4:].mean()), rel=1e-4
    )


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
    rows.append({"name": "fresh", "kind": "endless", "error": 0.004, "averaged": 0.0041})
    ratio, network, endless, hybrid = targets({85: rows}, PRESETS["evening"])
    assert ratio["value"] == pytest.approx(0.35) and ratio["met"]  # the endless arm is another protocol
    assert network["value"] == 0.0055 and not network["met"] and endless["met"] and not hybrid["met"]
    minute = replace(PRESETS["evening"], seconds=60.0)
    assert [row["target"] for row in targets({85: rows}, minute)] == ["≤ 0.5", "≤ 0.011"]
    assert len(targets({85: rows}, replace(minute, samples=(300, 50, 100)))) == 1
    assert len(targets({85: rows}, PRESETS["quick"])) == 1, (
        "errors of short runs are not held against long ones' bounds"
    )


def test_refusals(config):
    with pytest.raises(ValueError, match="--arms nothing"):
        run(Config(arms=("nothing",)))
    with pytest.raises(ValueError, match="--sizes 44"):
        run(Config(sizes=(44,)))
    assert {arm.kind for arm in ARMS.values()} == {"network", "endless", "hybrid", "peer"}


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


def test_a_stream_has_the_law_of_the_sets_and_none_of_their_fields(config, results):
    from studies.kit.fields.darcy import darcy_splits, endless_darcy

    stream = endless_darcy(43, 6, finest=85)
    batch = stream.batch([5, 0, 2])
    assert batch["x"].shape == (3, 1, 43, 43) and set(np.unique(batch["x"])) == {3.0, 12.0}
    assert np.array_equal(stream.batch([2])["y"][0], batch["y"][2])  # a sample alone or among others
    first = endless_darcy(43, 6, finest=85, seed=0)
    first.first = 0  # as the sets are numbered
    fields, _ = darcy_splits(None, (43,), (2, 1, 1), finest=85)
    assert np.array_equal(first.batch([0, 1])["x"], fields[43].train.x)
    np.testing.assert_allclose(first.batch([0, 1])["y"], fields[43].train.y, rtol=1e-6)


def test_an_endless_arm_trains(config, results):
    (row,) = [
        row for row in run(replace(config, arms=("sine-cosine, endless",)))["summary"][43] if row["kind"] == "endless"
    ]
    assert np.isfinite(row["error"]) and row["steps"] > 0
