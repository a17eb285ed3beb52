"""The search for bounds below the truth measures rightly, finds what is wrong, and keeps what it found."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from sciops import Grid
from sciops.lipschitz import RULES
from sciops.lipschitz.bounds import lookup, sequence
from studies import lipschitz_fuzz as study
from studies.lipschitz_fuzz import own
from studies.lipschitz_fuzz.truth import Case, differences, inputs, jacobian, largest_token, stretches

TINY = study.Config(models=18, points=2, planted=(10.0,), plants=10)


def generator():
    return torch.Generator().manual_seed(0)


@pytest.mark.parametrize("centering", ["node", "cell"])
def test_stretches_of_linear_maps_are_their_norms(centering):
    grid = Grid((3, 2), centering=centering)
    conv = nn.Conv2d(2, 1, 3, padding=1).double()
    case = Case(conv, grid, (1, 2, 3, 2))
    points = inputs(case, 2, generator())
    matrix = conv(torch.eye(12, dtype=torch.float64).reshape(12, 2, 3, 2)) - conv(torch.zeros(1, 2, 3, 2).double())
    matrix = matrix.detach().reshape(12, 6).T.numpy()
    w = np.sqrt(grid.weights().ravel())
    for quadrature, scaled in ((False, matrix), (True, w[:, None] * matrix / np.tile(w, 2))):
        true = np.linalg.norm(scaled, 2)
        assert stretches(case, points, quadrature, generator()) == pytest.approx((true, true), rel=1e-12)
    assert np.allclose(differences(case, points[0], 6), matrix, atol=1e-8)


def test_layers_that_torch_does_not_differentiate_are_measured_by_differences():
    """tanh's gradient needs what the next layer overwrites."""
    layers = nn.Sequential(nn.Tanh(), nn.LeakyReLU(-3.0, inplace=True)).double()
    case = Case(layers, Grid((4,)), (1, 1, 4))
    x = -0.01 * torch.ones(1, 1, 4, dtype=torch.float64)
    with pytest.raises(RuntimeError):
        jacobian(case, x, 4)
    steepest, quotient = stretches(case, [x], False, generator())
    assert steepest == 0.0 and quotient == pytest.approx(3.0, rel=1e-3)


def test_values_that_are_not_finite_are_no_small_stretch():
    class Root(nn.Module):
        def forward(self, x):
            return x.sqrt()  # nan where a step makes x negative

    case = Case(Root(), Grid((4,)), (1, 1, 4))
    assert stretches(case, [torch.ones(1, 1, 4, dtype=torch.float64)], False, generator()) == (np.inf, np.inf)
    assert stretches(case, [-torch.ones(1, 1, 4, dtype=torch.float64)], False, generator()) == (np.inf, np.inf)


def test_the_largest_token_counts_and_leaves_no_hook():
    linear = nn.Linear(2, 2)
    with largest_token(linear) as largest:
        linear(torch.tensor([[3.0, 4.0], [0.0, 1.0]]))
        assert len(linear._forward_pre_hooks) == 1
    assert largest == [5.0] and not linear._forward_pre_hooks


def test_every_kind_is_drawn_and_nothing_lies_below(tmp_path, capsys):
    before = dict(RULES)
    config = replace(TINY, output=tmp_path)
    results = study.run(config)
    assert results["models"] == 18 and results["findings"] == [] and RULES == before
    assert [row["kind"] for row in results["kinds"]] == list(study.KINDS)
    assert sum(row["bounded"] for row in results["kinds"]) > 6
    assert all(row["least"] >= 1 - 1e-4 for row in results["kinds"] if row["bounded"])
    assert results["planted"][0]["found"] >= 5
    assert (tmp_path / "figures" / "lipschitz_fuzz.png").stat().st_size > 10_000
    assert "10 times too small" in capsys.readouterr().out
    cells = {path: path.stat().st_mtime_ns for path in (tmp_path / "cells").iterdir()}
    again = study.run(config)  # read back
    assert json.dumps(again) == json.dumps(results)
    assert cells == {path: path.stat().st_mtime_ns for path in (tmp_path / "cells").iterdir()}


@pytest.mark.parametrize("kind", ["hooks", "replaced methods", "weights made or changed"])
def test_the_search_finds_rules_that_do_not_look_at_what_is_run(kind, monkeypatch, tmp_path):
    """With the guard taken away, each kind shows at least one bound below the truth."""
    for module, name in ((lookup, "changed"), (lookup, "changed_inside"), (sequence, "changed")):
        monkeypatch.setattr(module, name, lambda module: None)
    found = [study.attempt(kind, study.KINDS[kind], i, TINY)["outcome"] for i in range(12)]
    assert "below" in found


def test_a_finding_ends_the_run_after_its_results_are_written(tmp_path, monkeypatch):
    monkeypatch.setattr(study, "KINDS", {"wrong rules": own.planted(10.0)})
    with pytest.raises(RuntimeError, match="below: wrong rules 0"):
        study.run(replace(TINY, models=4, output=tmp_path))
    (finding, *_) = json.loads((tmp_path / "results.json").read_text())["findings"]
    assert finding["jacobian"] > finding["bound"] and "Planted" in finding["model"]


def test_a_search_that_finds_no_planted_rule_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(own, "planted", lambda factor: study.KINDS["linear maps"])
    with pytest.raises(RuntimeError, match="the search is blind"):
        study.run(replace(TINY, models=1, kinds=("linear maps",), output=tmp_path))


def test_rules_are_taken_back_where_a_composition_ends():
    before = dict(RULES)
    with pytest.raises(ZeroDivisionError), own.declared({own.Planted: lambda m, s: 1.0, nn.ReLU: lambda m, s: 9.0}):
        assert own.Planted in RULES and RULES[nn.ReLU] is not before[nn.ReLU]
        raise ZeroDivisionError
    assert RULES == before


def test_refusals(tmp_path):
    with pytest.raises(ValueError, match="--kinds nothing"):
        study.run(replace(TINY, output=tmp_path, kinds=("nothing",)))
    with pytest.raises(ValueError, match="factors above 1"):
        study.run(replace(TINY, output=tmp_path, planted=(0.5,)))
