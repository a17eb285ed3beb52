"""The study of levels in small: equal time, the same weights on finer grids, verdicts that point the right way."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

import studies.multipole_levels as study
from sciops.datasets import TensorFields
from sciops.grids import Grid
from studies.multipole_levels.arms import ARMS, FULL, ONE, QUESTIONS
from studies.multipole_levels.cases import CASES, built, known
from studies.multipole_levels.report import compared, pays, verdicts
from studies.multipole_levels.runs import REFERENCE, shifted, steps_of

TINY = study.Config(
    arms=("paper", "linear pyramid", "kernels, one level"), steps=(3, 3), samples=(8, 2, 4), rounds=1, seeds=2
)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    config = replace(TINY, workers=1, shifted=4, output=tmp_path_factory.mktemp("levels"))
    return config, study.run(config)


def test_every_arm_gets_the_same_time_and_finished_trainings_are_read_back(results, monkeypatch):
    config, found = results
    for row in found["rows"]:
        assert row["steps"] == max(2, round(3 * found["times"][row["case"]][REFERENCE] / row["milliseconds"]))
    assert {row["case"] for row in found["rows"]} == {"darcy", "digits"}
    assert {path.name for path in (config.output / "figures").iterdir()} == {"errors.png", "grids.png", "times.png"}
    monkeypatch.setattr("studies.multipole_levels.runs.trained_and_tested", lambda *_: pytest.fail("trained again"))
    again = study.run(config)
    assert [cell["errors"] for cell in again["cells"]] == [cell["errors"] for cell in found["cells"]]


def test_steps_share_the_time_of_the_reference():
    assert steps_of({"spectral": 20.0, "slow": 60.0, "fast": 10.0}, 90) == {"spectral": 90, "slow": 30, "fast": 180}


@pytest.mark.parametrize("case", ["darcy", "files", "flow"])
def test_a_tied_pyramid_is_the_same_network_on_its_own_grid(case):
    """On the grid of training the two ways to run a pyramid, and upsampling, agree; on a finer one they differ."""
    grid = Grid((8, 8), centering="periodic" if case == "flow" else "node")
    fine = Grid((16, 16) if case == "flow" else (15, 15), centering=grid.centering)
    torch.manual_seed(0)
    model = built(case, ARMS["linear pyramid"], grid).eval()
    data = {g.shape[0]: TensorFields(torch.randn(4, 1, *g.shape), torch.randn(4, 1, *g.shape), g) for g in (grid, fine)}

    class Given:
        name, points, group, finer = case, 8, 1, data
        splits = type("Splits", (), {"test": data[8]})

    on_own, on_fine = (shifted(model, Given, n, 4) for n in (8, fine.shape[0]))
    for way, errors in on_own.items():
        np.testing.assert_allclose(errors, on_own["direct, tied"], rtol=1e-5, err_msg=way)
    assert abs(on_fine["direct, tied"] - on_fine["direct, counted"]).max() > 1e-3
    assert model.blocks[0].mixer.reference == grid  # as it was before


def test_questions_are_about_arms_that_differ_in_one_part():
    named = {name for pairs in QUESTIONS.values() for pair in pairs for name in pair} | {*FULL, *ONE, REFERENCE}
    assert named <= set(ARMS)
    for name in ARMS:  # every arm of every case can be built
        for case in CASES:
            if known(case, ARMS[name]):
                assert built(case, ARMS[name], Grid((8, 8), centering="periodic")) is not None
    assert not known("digits", ARMS["hybrid, paper"])


def test_a_part_pays_where_the_error_without_it_is_larger():
    rng = np.random.default_rng(0)
    small = 0.1 + 0.01 * rng.random((5, 20))
    cells = [
        {"case": "darcy", "arm": arm, "seed": i, "errors": list(factor * row), "shift": {}}
        for arm, factor in (("linear pyramid", 1.0), ("kernels, one level", 2.0), ("smooth from 2", 1.5))
        for i, row in enumerate(small)
    ]
    found = {(row["question"], row["with"]): row for row in verdicts(cells)}
    assert found["levels", "linear pyramid"]["winner"] == "first"
    assert found["levels", "linear pyramid"]["ratio"] == pytest.approx(2)
    assert found["attention", "smooth from 2"]["winner"] == "second"
    rows = [{"case": "darcy", "arm": arm, "validation": 0.1} for arm in ("linear pyramid", "smooth from 2")]
    said = {"rows": rows, "verdicts": list(found.values())}
    assert pays(said, "levels") == (1, 0, 1) and pays(said, "attention") == (0, 1, 1)
    assert compared(small, small)["ratio"] == 1


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"arms": ("mano",)}, "--arms mano: expected some of"),
        ({"cases": ("files", "digits")}, "--cases files needs --data"),
        ({"steps": (5,)}, "--steps"),
        ({"sizes": (22, 40)}, "--sizes"),
        ({"shifted": 6}, "--shifted 6: expected a multiple of 4"),
    ],
)
def test_refusals(changes, words, tmp_path):
    with pytest.raises(ValueError, match=words):
        study.run(replace(TINY, output=tmp_path, **changes))
