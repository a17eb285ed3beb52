"""The study of certified operators keeps its order, notices what breaks it, and leaves its numbers."""

import copy
import json
from dataclasses import replace

import numpy as np
import pytest

from studies import certified_operators as study
from studies.certified_operators import coverage as coverage_part

CONFIG = study.Config(
    grids=(9, 17),
    train_samples=16,
    held_out=24,
    calibration=12,
    field_modes=8,
    width=4,
    depth=2,
    modes=3,
    epochs=2,
    penalties=(0.0, 0.01),
    shares=(0.01, 0.05),
    attacked=2,
    steps=3,
    random_samples=5,
    power_iterations=10,
    coverage_steps=2,
    smoothing_grids=(9, 17),
    smoothing_samples=200,
    smoothing_slack=0.25,
    noise_modes=4,
)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("certified")
    return study.run(replace(CONFIG, output=folder)), folder


def test_a_small_run_keeps_the_order_and_leaves_its_numbers(results, capsys):
    found, folder = results
    assert found["faults"] == [] and json.loads((folder / "results.json").read_text())["linear"] == found["linear"]
    for name in ("sandwich.png", "certificates.png"):
        assert (folder / "figures" / name).stat().st_size > 10_000
    plain, regular = found["models"]
    assert (plain["penalty"], regular["penalty"]) == (0.0, 0.01)
    # the certificate is that of one operator, whatever the grid; the penalty makes it smaller
    assert plain["bounds"]["17"] == pytest.approx(plain["bounds"]["9"], rel=1e-6)
    assert regular["bounds"]["9"] < plain["bounds"]["9"]
    for row in plain["sandwich"] + regular["sandwich"]:
        for random, attack, bound in zip(row["random"], row["attack"], row["certificate"]):
            assert 0 < random <= attack <= bound
        assert row["least"] >= CONFIG.least
    assert {row["points"] for row in plain["sandwich"]} == {9, 17}
    # at small ε the attack finds the slope of the whole Jacobian
    first, slope = plain["sandwich"][0], plain["slopes"][0]
    ratio = np.array(first["attack"]) / np.array(first["certificate"]) * slope["bound"]
    assert ratio[0] == pytest.approx(slope["dense"][0], rel=0.05)
    assert len(plain["conformal"]["splits"]) == CONFIG.splits
    assert all(row["abstained"] or row["moved"] <= row["smoothed"] for row in plain["smoothing"])
    study.show(found, CONFIG)
    printed = capsys.readouterr().out
    assert "random spectral layer" in printed and "penalty 0.01" in printed and "beta" not in printed.lower()


def test_inversions_are_noticed(results):
    found, _ = results
    assert study.inversions(found) == []

    def broken(change):
        other = copy.deepcopy(found)
        change(other)
        return study.inversions(other)

    def low_certificate(r):
        r["models"][0]["sandwich"][1]["certificate"][0] = 0.0

    def strong_random(r):
        r["models"][1]["sandwich"][0]["random"][1] = 1e3

    def low_bound(r):
        r["models"][0]["slopes"][0]["bound"] = 1e-12

    def weak_attack(r):
        r["linear"][0]["attack"] = 0.9
        r["linear"][0]["random"] = 0.1

    def weak_solver(r):
        r["models"][0]["solver"][0]["distances"]["solver inside"] = [0.0, 0.0]

    for change, words in (
        (low_certificate, "attack .* above certificate"),
        (strong_random, "random .* above attack"),
        (low_bound, "dense .* above certificate"),
        (weak_attack, "the attack reaches 0.9000 of the norm"),
        (weak_solver, "above inside"),
    ):
        faults = broken(change)
        assert len(faults) >= 1
        with pytest.raises(AssertionError, match=words):
            raise AssertionError("; ".join(faults))


def test_coverage_and_smoothing_faults_are_noticed(results):
    found, _ = results
    good = found["models"][0]["conformal"]
    assert coverage_part.coverage_faults(good) == []
    low = dict(good, splits=[dict(split, clean=0.1) for split in good["splits"]])
    assert "mean coverage 0.1000" in coverage_part.coverage_faults(low)[0]
    assert "grew by more" in coverage_part.coverage_faults(dict(good, beyond=3))[0]
    worse = dict(good, splits=[dict(split, inflated=split["clean"] - 0.2) for split in good["splits"]])
    assert len(coverage_part.coverage_faults(worse)) == len(good["splits"])
    rows = [dict(points=9, moved=2.0, smoothed=1.0, abstained=False, cameron_martin=0.5)]
    assert "moved 2" in study.smoothing_faults(rows)[0]
    rows = [dict(rows[0], moved=0.5), dict(rows[0], moved=0.5, points=17, cameron_martin=0.6)]
    assert "is not that at 9" in study.smoothing_faults(rows)[0]


def test_a_certificate_that_is_too_small_ends_the_run(tmp_path, monkeypatch):
    monkeypatch.setattr(study, "certificate", lambda model, grid: 1e-9)
    monkeypatch.setattr(study, "draw", lambda *_: None)
    config = replace(CONFIG, grids=(9,), output=tmp_path, smoothing_grids=(), penalties=(0.0,), chosen=0.0, splits=2)
    with pytest.raises(RuntimeError, match="above certificate"):
        study.run(config)
    assert json.loads((tmp_path / "results.json").read_text())["faults"]


def test_refusals(tmp_path):
    with pytest.raises(ValueError, match="expected 0 and chosen=0.01 among them"):
        study.run(replace(CONFIG, penalties=(0.0,), output=tmp_path))
    with pytest.raises(ValueError, match="held_out=12"):
        study.run(replace(CONFIG, held_out=12, output=tmp_path))
