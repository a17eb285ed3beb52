"""The study of operators by regime: its problems, its controls, and a small run that leaves its numbers."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from sciops.grids import restrict
from sciops.pde import darcy
from studies import operator_fairness as study
from studies.operator_fairness import analysis, networks, problems, runs

CONFIG = replace(
    study.PRESETS["quick"],
    arms=("FNO", "neuralop:FNO"),
    boundaries=("zero", "periodic"),
    contrasts=(4, 100),
    roughness=(3.0, 15.0),
    points=8,
    train=16,
    validation=5,
    test=5,
    seeds=(0, 1),
    rates=(5e-3,),
    steps=3,
    width=4,
    depth=2,
    modes=3,
    extra=8,
    extra_steps=2,
    workers=1,
)


@pytest.fixture(scope="module")
def test_set():
    config = replace(CONFIG, boundaries=tuple(problems.BOUNDARIES), test=2)
    return config, problems.problem_set(config, None, "test")


def test_every_problem_satisfies_its_equation(test_set):
    config, found = test_set
    coarse, fine = problems.grids(config)
    for boundary in config.boundaries:
        rows = [i for i, k in enumerate(found.regime) if problems.regimes(config)[k][0] == boundary]
        a, u = (10 ** found.x_fine[rows, 0].double()).numpy(), found.y_fine[rows, 0].double().numpy()
        left = darcy.residual(a, u, fine, **problems.BOUNDARIES[boundary](fine))
        assert np.max(left) < 1e-3  # u is kept in single precision
    np.testing.assert_allclose(found.y[:, 0], restrict(found.y_fine[:, 0], fine, coarse), atol=1e-6)


def test_a_field_is_the_same_in_every_regime(test_set):
    config, found = test_set
    table = problems.regimes(config)
    first = found.field == found.field[0]
    for tau in config.roughness:
        own = [i for i in np.flatnonzero(first) if table[found.regime[i]][2] == tau]
        signs = np.sign(found.x[own, 0].numpy())
        assert (signs == signs[0]).all() and len(own) == len(table) // len(config.roughness)
    for i in np.flatnonzero(first):
        boundary, contrast, _ = table[found.regime[i]]
        torch.testing.assert_close(found.x[i, 0].max() - found.x[i, 0].min(), torch.tensor(np.log10(contrast)).float())
        assert found.x[i, 1:].mean((1, 2)).tolist() == [float(b == boundary) for b in config.boundaries]


def test_no_field_is_in_two_sets():
    fields = [problems.problem_set(CONFIG, None, name).field for name in ("train", "validation", "test", "all")]
    fields.append(problems.problem_set(CONFIG, None, "worst", 3).field)
    assert len({*np.concatenate(fields).tolist()}) == sum(len({*one.tolist()}) for one in fields)
    assert {*problems.problem_set(CONFIG, None, "worst", 3).regime.tolist()} == {3}


@pytest.mark.parametrize("arm", networks.ARMS)
def test_features_are_those_of_every_block_and_weights_come_back(arm):
    net, x = networks.built(arm, CONFIG, 0), torch.randn(3, 3, 8, 8)
    coarse, _ = problems.grids(CONFIG)
    found = networks.features(arm, net, x, coarse)
    assert [name for name in found if name.startswith("pooled")] == [
        "pooled, input",
        "pooled, block 1",
        "pooled, block 2",
    ]
    assert found["pooled, block 2"].shape == (3, 2 * CONFIG.width)
    np.testing.assert_allclose(found["pooled, input"][:, :3], x.mean((2, 3)), atol=1e-6)
    boxes = found["coarse, block 1"].reshape(3, CONFIG.width, 16)
    np.testing.assert_allclose(boxes.mean(-1), found["pooled, block 1"][:, : CONFIG.width], atol=1e-5)
    other = networks.with_weights(networks.built(arm, CONFIG, 1), networks.weights_of(net))
    torch.testing.assert_close(networks.predicted(other, x, coarse), networks.predicted(net, x, coarse))


def test_a_planted_record_of_use_blames_roughness_and_the_regression_does_not():
    """Errors depend on contrast alone; the thinned rows have rough fields mostly at high contrast."""
    config = replace(CONFIG, test=20)
    regime = np.tile(np.arange(8), 20)
    test = problems.Problems(*4 * [torch.empty(0)], field=np.arange(20).repeat(8), regime=regime)
    factors = runs.factors_of(config, regime)
    noise = 0.05 * np.random.default_rng(0).standard_normal((5, len(regime)))
    found = analysis.in_use(np.exp(noise) * np.where(factors["contrast"] == "1:100", 0.2, 0.1), factors, test, config)
    rough = next(one for one in found["effects"] if one["factor"] == "roughness")
    assert rough["marginal_low"] > 1.2 and rough["verdict"] == "alike"
    split = found["kitagawa"]
    assert abs(split["rate_effect"]) < 0.1 * split["composition_effect"]


def test_a_small_run_leaves_its_numbers_and_is_resumed(tmp_path, capsys):
    config = replace(CONFIG, output=tmp_path)
    results = study.run(config)
    kept = json.loads((tmp_path / "results.json").read_text())
    assert {*kept["arms"]} == {"FNO", "neuralop:FNO"} and len(kept["peers"]["by level"]) == 6
    for one in kept["arms"].values():
        assert len(one["cells"]) == 8 and len(one["effects"]) == 4
        assert all(effect["verdict"] == "too few seeds" for effect in one["effects"])
        assert {*one["checks"]} == {"ensemble", *runs.MORE}
        worst = {key: one["worst"]["split"][key] for key in ("bias", "variance", "variance share")}
        assert worst["variance share"] == pytest.approx(worst["variance"] / (worst["bias"] + worst["variance"]))
        for read in one["layers"]["read"].values():
            shapes = [np.shape(read[kind]) for kind in ("trained", "untrained", "shuffled")]
            assert shapes == [(2, 3), (2, 2), (2, 3)]
        assert np.mean(one["layers"]["read"]["boundary"]["trained"]) < 0.2  # the model is told the boundary
    printed = capsys.readouterr().out
    assert "worst regime, chosen on validation fields" in printed and study.answer(results) in printed
    assert {path.name for path in (tmp_path / "figures").iterdir()} >= {"regimes.png", "effects.png", "layers.png"}
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "cells").iterdir()}
    again = runs.run_all_arms(config, tmp_path)
    assert before == {path: path.stat().st_mtime_ns for path in (tmp_path / "cells").iterdir()}
    assert analysis.analysed(again, config)["peers"] == results["peers"]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"arms": ("CNO",)}, "--arms CNO"),
        ({"boundaries": ("zero",)}, "--boundaries zero: expected at least 2"),
        ({"contrasts": (4, 4)}, "--contrasts 4 4"),
        ({"seeds": (1,)}, "--seeds 1"),
        ({"test": 1}, "--test 1"),
    ],
)
def test_wrong_options_are_refused(change, says, tmp_path):
    with pytest.raises(ValueError, match=says):
        study.run(replace(CONFIG, output=tmp_path, **change))
