"""The study of private generators: its records, its comparison at equal utility, and a small run."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from sciops.evaluation.privacy import gaussian_epsilon
from sciops.training.private import spent_epsilon
from studies import private_generators as study
from studies.private_generators import analysis, mechanisms, records, report, runs

CONFIG = replace(
    study.PRESETS["quick"],
    noises=(0.0, 1.0),
    pools=(0, 1),
    records=40,
    steps=6,
    checkpoints=(3,),
    width=6,
    depth=1,
    samples=24,
    solved=4,
    points=6,
    ablated_repeats=(1,),
    ablated_discriminator_steps=(1,),
    many_records=64,
    release_models=16,
    workers=1,
)


@pytest.fixture
def few(monkeypatch):
    monkeypatch.setattr(records, "_REFERENCE", 200)
    monkeypatch.setattr(records, "_SOLVED", 20)
    monkeypatch.setattr(mechanisms, "_RUNS", 3)
    monkeypatch.setattr(mechanisms, "_CANARIES", 60)
    monkeypatch.setattr(analysis, "_DRAWS", 5)
    records._law.cache_clear()
    yield
    records._law.cache_clear()


def test_effective_permeability_is_that_of_layers_and_within_its_bounds():
    """Layers along the flow have the arithmetic mean, across it the harmonic mean; else it lies between bounds."""
    column = np.log([1.0, 2.0, 5.0, 0.5, 3.0, 1.0])
    along, across = np.tile(column, (6, 1)), np.tile(column[:, None], (1, 6))
    found = np.exp(records.log_effective(np.stack([along, across]).reshape(2, -1), 6))
    np.testing.assert_allclose(found, [np.exp(column).mean(), 1 / np.exp(-column).mean()], rtol=1e-6)
    fields = np.random.default_rng(0).standard_normal((8, 6, 6))
    k, a = np.exp(records.log_effective(fields.reshape(8, -1), 6)), np.exp(fields)
    assert (k >= (1 / (1 / a).mean(1)).mean(1) - 1e-9).all() and (k <= 1 / (1 / a.mean(2)).mean(1) + 1e-9).all()


def test_pools_of_digits_are_disjoint_and_none_is_held_out():
    pools = [records.digits(0, place, 3, records=20, points=8) for place in range(3)]
    rows = torch.cat([one.pool for one in pools])
    assert len(torch.unique(rows, dim=0)) == 120
    assert pools[0].labels.shape == (40,) and 0 <= pools[0].second(pools[0].pool[None], pools[0].labels[None]) < 0.6
    with pytest.raises(ValueError, match="expected at most"):
        records.digits(0, 0, 10, records=128, points=8)


def test_equal_utility_takes_the_first_place_on_each_path_that_reaches_the_worse_best():
    first = np.array([0.9, 0.7, 0.5]), np.array([0.5, 0.6, 0.7])
    second = np.array([0.8, 0.4, 0.2]), np.array([0.5, 0.6, 0.9])
    assert analysis.equal_utility(*first, *second) == pytest.approx((0.5, 0.7, 0.575))
    # a path that begins beyond it counts from its first checkpoint; one that rises again is left where it first came
    rising = np.array([0.45, 0.6, 0.4]), np.array([0.55, 0.8, 0.9])
    assert analysis.equal_utility(*first, *rising) == pytest.approx((0.5, 0.7, 0.55))


def test_an_attack_is_chosen_on_the_other_pools():
    spec = next(one for one in runs.specs(CONFIG) if one.family == "diffusion")
    areas = {
        "nearest sample": np.array([[0.5], [0.5], [0.5]]),
        "loss": np.array([[0.9], [0.6], [0.6]]),
        "deterministic error": np.array([[0.5], [0.7], [0.7]]),
    }
    member = np.zeros((3, 8, 4), dtype=bool)
    group = analysis.Group(spec, {}, member, areas, np.zeros((3, 1)), np.zeros(3), 1.0)
    assert [group.chosen("network", p) for p in range(3)] == ["deterministic error", "loss", "loss"]
    np.testing.assert_allclose(group.leakage("network")[:, 0], [0.5, 0.6, 0.6])
    assert group.attacks("samples") == ["nearest sample"]


def test_the_limit_in_the_figure_is_the_gaussian_mechanism_of_the_spent_epsilon():
    for epsilon in (0.7, 9.6, 600.0):
        assert gaussian_epsilon(1e-5, analysis.gaussian_mu(epsilon, 1e-5)) == pytest.approx(epsilon, rel=1e-6)
    assert report.shown(math.inf) == report.shown("inf") == "∞" and report.shown(8.58) == "8.58"


def test_few_shadows_cost_the_likelihood_ratio_and_not_the_difference():
    """The mean release with 8 models: the closed form is reached by the difference alone."""
    found = mechanisms.release(100, 20, 0.0, 8, (0, 1, 2, 3, 4))
    assert found["theory"]["area"] == pytest.approx(0.673, abs=1e-3)
    assert found["relative_online"]["area"] == pytest.approx(found["theory"]["area"], abs=0.03)
    assert found["online"]["area"] < found["theory"]["area"] - 0.05


def test_one_step_of_training_is_the_gaussian_mechanism(few):
    found = mechanisms.one_step(1.0, 1e-5)
    assert found["epsilon"] == pytest.approx(gaussian_epsilon(1e-5, 1.0))
    assert found["area"] == pytest.approx(found["theory"], abs=0.08)
    assert found["independent"]["above"] == found["one training"]["above"] == 0


def test_a_small_run_leaves_its_numbers_and_is_resumed(few, tmp_path, capsys):
    config = replace(CONFIG, output=tmp_path)
    results = study.run(config)
    kept = json.loads((tmp_path / "results.json").read_text())
    assert [row["epsilon"] for row in kept["settings"] if row["data"] == "digits"][0] == "inf"
    many = next(row for row in results["settings"] if row["setting"] == "many records")
    wanted = spent_epsilon(noise=1.0, rate=config.many_rate, steps=6, delta=1e-5, accountant="pld")
    assert many["records"] == 64 and many["epsilon"] == pytest.approx(wanted)
    for row in results["rows"]:
        assert row["low"] - 0.1 < row["area"] < row["high"] + 0.1 and row["area"] == pytest.approx(
            np.mean(row["areas"])
        )
        assert row["pooled epsilon"] >= 0 and row["one training"]["largest"] >= row["one training"]["median"]
    assert {(row["family"], row["access"]) for row in results["rows"]} == {
        (family, access) for family in runs.FAMILIES for access in analysis.ACCESS if runs.ATTACKS[family][access]
    }
    assert len(results["gaps"]) == 3 * (2 * 2 + 1)
    assert all(one["end"]["says"] == "too few seeds" for one in results["gaps"] if abs(one["end"]["difference"]) > 0.2)
    for one in results["null"]:
        assert abs(one["area"] - 0.5) < 0.1
    assert {row["setting"] for row in results["ablation"]} == {"K = 4", "K = 1", "n_D = 2", "n_D = 1", "clip alone"}
    printed = capsys.readouterr().out
    assert "∞" in printed and study.answer(results) in printed
    assert "2509.03341" in (tmp_path / "citations.bib").read_text()
    assert {path.name for path in (tmp_path / "figures").iterdir()} >= {"roc.png", "leakage_utility.png"}
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "cells").iterdir()}
    runs.run_all_cells(config, tmp_path / "cells")
    assert before == {path: path.stat().st_mtime_ns for path in (tmp_path / "cells").iterdir()}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"data": ("faces",)}, "--data faces"),
        ({"noises": (1.0, 1.0)}, "--noises 1.0 1.0"),
        ({"pools": (3,)}, "--pools 3: expected at least 2"),
        ({"models": 7}, "--models 7: expected an even number"),
        ({"checkpoints": (6,)}, "--checkpoints 6: expected steps below"),
    ],
)
def test_wrong_options_are_refused(change, says, tmp_path):
    with pytest.raises(ValueError, match=says):
        study.run(replace(CONFIG, output=tmp_path, **change))
