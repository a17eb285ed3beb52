"""The study, whole, on a dataset of a few fields: its tables agree with what can be said without a network."""

import functools
import json
import re
from dataclasses import replace

import numpy as np
import pytest

from data_gen import darcy
from sciops import datasets
from studies import resolution_shift
from studies.resolution_shift.arms import ARMS
from studies.resolution_shift.case import load_case
from studies.resolution_shift.report import contents


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shift")
    data = darcy.run(
        replace(darcy.PRESETS["quick"], samples=24, resolutions=(29, 15, 8), threads=1, output=folder / "darcy.h5")
    )
    return replace(
        resolution_shift.PRESETS["quick"],
        data=data,
        recipe="darcy",
        arms=("fno", "mano", "fno+dealias", "fno+multi", "fno+latent", "fno+period"),
        band=2,
        train_grids=(8,),
        test_grids=(8, 15, 29),
        seeds=1,
        epochs=1,
        workers=1,
        output=folder / "study",
    )


@pytest.fixture(scope="module")
def results(tiny):
    return resolution_shift.run(tiny)


def _error(results, arm, test, way):
    return next(
        r["relative_l2"]["mean"]
        for r in results["errors"]
        if (r["arm"], r["train"], r["test"], r["way"])
        == (arm, 8 if arm != "reference" or "+" in way else test, test, way)
    )


def test_on_the_training_grid_direct_and_low_plus_up_are_the_same(results):
    for arm in ("fno", "mano", "fno+latent"):
        assert _error(results, arm, 8, "direct") == _error(results, arm, 8, "low + sine")


def test_references_need_no_network(results):
    """Labels are the finest solve sampled: the native solve there is exact, and coarse solves get better."""
    assert _error(results, "reference", 29, "native") < 1e-6
    assert _error(results, "reference", 15, "native") < _error(results, "reference", 8, "native")
    assert _error(results, "reference", 29, "truth + sine") < _error(results, "reference", 29, "truth + fourier naive")


def test_a_fixed_latent_grid_takes_the_shift_out_of_the_network(results):
    mismatch = {
        (r["arm"], r["test"], r["input"]): r["mean"]
        for r in results["equivariance"]
        if r["arm"] in ("fno", "fno+latent")
    }
    assert mismatch["fno+latent", 15, "low-passed input"] < mismatch["fno", 15, "low-passed input"]


def test_everything_that_was_promised_is_on_disk(tiny, results):
    assert json.loads((tiny.output / "results.json").read_text())["verdicts"]
    report = (tiny.output / "report.md").read_text()
    title, _, answer = report.splitlines()[:3]
    assert (tiny.output / "report.html").read_text().count('src="data:image/') == 6
    assert title.startswith("# Trained on 8 points, wanted on 29: no verdict for ") and answer.startswith(
        "**No verdict"
    )
    assert results["answer"] == answer.strip("*") and "too few seeds" in answer and "latent" not in answer
    assert "Trained on 8, wanted on 29" in report and "floor" in report and "native" in report
    figures = {p.name for p in (tiny.output / "figures").glob("*.png")}
    assert figures == {"errors.png", "verdicts.png", "layers.png", "spectra.png", "layer_spectra.png", "fields.png"}
    assert all(f"](figures/{name})" in report for name in figures)
    for link in re.findall(r"!\[[^\]]+\]\((.+)\)$", report, re.MULTILINE):
        assert (tiny.output / link).exists()


def test_arms_that_differ_in_how_they_are_applied_are_trained_once(tiny, results):
    """The latent arm runs the weights of fno on 8 points, wherever it is asked."""
    assert len(list((tiny.output / "models").iterdir())) == 4
    for way in ("low + cubic", "low + sine"):
        assert _error(results, "fno+latent", 29, way) == _error(results, "fno", 29, way)
    assert "fno+latent has the weights of fno" in (tiny.output / "report.md").read_text()


def _judged(tiny, results, winners):
    """The title and the answer where the verdicts on 29 points were these."""
    verdicts = [
        v | {"winner": winners[v["arm"]]} for v in results["verdicts"] if v["test"] == 29 and v["arm"] in winners
    ]
    return contents(tiny, results | {"verdicts": verdicts}, tiny.output / "none")[:2]


def test_the_answer_follows_the_verdicts(tiny, results):
    title, answer = _judged(tiny, results, {"fno": "second", "mano": "second", "fno+multi": "first"})
    assert title == (
        "Trained on 8 points, wanted on 29: evaluate fno and mano on 8 and upsample; evaluate fno+multi on 29 directly"
    )
    assert answer.index("upsample: fno (") < answer.index("directly: fno+multi (") and "No verdict" not in answer
    title, answer = _judged(tiny, results, {"fno": "undecided"})
    assert title.endswith("no verdict for fno") and "undecided" in answer


def test_a_second_run_trains_nothing_and_finds_the_same(tiny, results, monkeypatch):
    monkeypatch.setattr(resolution_shift, "train_one", None)
    monkeypatch.setattr(resolution_shift, "draw", lambda *_: None)
    again = resolution_shift.run(tiny)
    assert [r["relative_l2"] for r in again["errors"]] == [r["relative_l2"] for r in results["errors"]]


def test_a_stale_model_is_not_reused(tiny, results, monkeypatch):
    """fno+multi also trains on the largest test grid, fno does not; options, seconds and data change every model."""
    trained = []
    monkeypatch.setattr(datasets, "load_splits", functools.cache(datasets.load_splits))
    monkeypatch.setattr(
        resolution_shift, "_train_all", lambda _, jobs, *rest: trained.append({j.arm: j.folder for j in jobs})
    )
    monkeypatch.setattr(resolution_shift, "evaluate", lambda *_: {})
    monkeypatch.setattr(resolution_shift, "contents", lambda *_: ("title", "answer", []))
    monkeypatch.setattr(resolution_shift, "draw", lambda *_: None)
    tiny = replace(tiny, arms=("fno", "fno+multi"), band=None)

    def folders(**changes):
        resolution_shift.run(replace(tiny, **changes))
        return trained[-1]

    before = folders()
    assert all((tiny.output / folder / "results.json").exists() for folder in before.values()), "those of the run above"
    other_grid = folders(test_grids=(8, 15))
    assert other_grid["fno"] == before["fno"] and other_grid["fno+multi"] != before["fno+multi"]
    assert folders(test_samples=1) == before and folders(symmetrize=True) == before
    for changes in ({"seconds": 5.0}, {"epochs": 2}, {"batch_size": 3}, {"train_samples": 10}, {"augment": "none"}):
        changed = folders(**changes)
        assert all(changed[arm] != before[arm] for arm in before), changes
    arm = ARMS["darcy"]["fno"]
    monkeypatch.setitem(ARMS["darcy"], "fno", replace(arm, options={**arm.options, "width": 16}))
    changed = folders()
    assert changed["fno"] != before["fno"] and changed["fno+multi"] == before["fno+multi"]


def test_causes_compare_losses_and_bands_add_up_to_the_error(results):
    causes = {(r["arm"], r["test"]): r for r in results["causes"]}
    fno = _error(results, "fno", 15, "direct") - _error(results, "fno", 15, "low + sine")
    assert causes["fno+period", 15]["base_loss"] == pytest.approx(fno) and causes["fno+period", 15]["base"] == "fno"
    assert {r["arm"] for r in results["layers"]["claims"]} == {"fno", "mano", "fno+dealias", "fno+multi"}
    squared = next(r for r in results["errors"] if (r["arm"], r["test"], r["way"]) == ("fno", 15, "direct"))
    bands = sum(r["direct_error"] for r in results["layers"]["bands"] if r["arm"] == "fno")
    # bands take sine modes, which leave out what the network has on the walls
    assert 0.5 * squared["relative_mse"]["mean"] < bands <= 1.01 * squared["relative_mse"]["mean"]


def test_bad_input_is_refused_in_one_line(tiny):
    with pytest.raises(ValueError, match="fno"):
        resolution_shift.run(replace(tiny, arms=("fnu",)))
    with pytest.raises(FileNotFoundError, match="no such file"):
        resolution_shift.run(replace(tiny, data=tiny.output / "missing.h5"))
    for wrong, said in (
        ({"rates": (1e-3,)}, "decays"),
        ({"predictions": ("weather",)}, "weather"),
        ({"predictions": ("Darcy, two phases",)}, "truncated"),
    ):
        with pytest.raises(ValueError, match=said):
            resolution_shift.run(replace(tiny, **wrong))
    with pytest.raises(FileNotFoundError, match="choices"):
        resolution_shift.run(replace(tiny, choices=tiny.output / "missing.json"))
    with pytest.raises(ValueError, match="test grid"):
        resolution_shift.run(replace(tiny, train_grids=(29,), test_grids=(8,)))


def test_arms_lower_their_modes_to_the_grid(tiny):
    grid = load_case(replace(tiny, train_grids=(8,), test_grids=(8,))).grid(8)
    assert ARMS["darcy"]["fno"].resolved(grid)["modes"] == (4, 4)
    assert np.all(np.array(ARMS["darcy"]["sine-cosine"].resolved(grid)["modes"]) <= 6)
