"""Cosines and norm ratios of a rule's gradient: their definition, and that looking changes nothing."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from sciops.datasets import Splits, TensorFields
from sciops.files.json_files import read_jsonl
from sciops.grids import Grid
from sciops.models import build_model
from sciops.training import GRADIENTS, TrainConfig, fit
from sciops.training.gradients import compared, groups_of

QUIET = TrainConfig(epochs=3, batch_size=4, accumulate=2, precision="float64", progress=False)


def data() -> Splits:
    x = torch.rand(12, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    return Splits(TensorFields(x, 3 + 2 * x + x.roll(1, -1), Grid((8, 8))))


def network(dropout: float = 0.0) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = build_model("fno", in_channels=1, out_channels=1, width=6, depth=2, modes=(3, 3), norm="layer")
        model.project.insert(1, nn.Dropout(dropout))
        model.project.insert(1, Counting())
        return model


class Counting(nn.Module):
    """A buffer that every training step changes, as running statistics do."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return x


def test_the_numbers_are_what_they_say():
    g = {"a": torch.tensor([3.0, 0.0]), "b": torch.tensor([[1.0]]), "c": None, "d": torch.tensor([1 + 1j])}
    t = {"a": torch.tensor([3.0, 4.0]), "b": torch.tensor([[-2.0]]), "c": torch.tensor([5.0]), "d": None}
    found = compared(g, t, {"first": ["a"], "second": ["b"], "third": ["c"], "fourth": ["d"], "none": []})
    assert found["cosine"]["first"] == pytest.approx(0.6) and found["norm_ratio"]["first"] == pytest.approx(0.6)
    assert found["cosine"]["second"] == -1 and found["norm_ratio"]["second"] == 0.5
    assert math.isnan(found["cosine"]["third"]) and found["norm_ratio"]["third"] == 0
    assert math.isnan(found["cosine"]["fourth"]) and found["norm_ratio"]["fourth"] == math.inf
    assert math.isnan(found["cosine"]["none"]) and math.isnan(found["norm_ratio"]["none"])
    assert found["cosine"]["all"] == pytest.approx((9 - 2) / math.sqrt((9 + 1 + 2) * (25 + 4 + 25)))
    tiny = {"a": torch.tensor([1e-100], dtype=torch.float64)}
    assert compared(tiny, tiny, {})["cosine"]["all"] == pytest.approx(1)


def test_groups_of_models():
    groups = groups_of(network())
    assert set(groups) == {"stem", "blocks", "head"}
    assert all(name.startswith("lift") for name in groups["stem"])
    assert all(name.startswith(("norm", "project")) for name in groups["head"])
    names = [name for name, _ in network().named_parameters()]
    assert sorted(sum(groups.values(), [])) == sorted(names)
    classifier = build_model(
        "classifier", in_channels=1, out_channels=2, patch=2, widths=(4, 8), depths=(1, 1), heads=2
    )
    groups = groups_of(classifier)
    assert any("stages.1.enter" in name for name in groups["blocks"]) and groups["head"][-1] == "head.bias"
    assert all("stages.0" in name for name in groups["stem"])
    assert groups_of(nn.Linear(2, 2)) == {}


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_backpropagation_agrees_with_itself_and_the_run_is_the_same(tmp_path, dropout):
    """Also where dropout draws: both gradients see the same units dropped."""
    for rule, options in (("backprop", {}), ("highway", {"iterations": 1})):
        config = replace(QUIET, gradients=rule, gradient_options=options)
        plain = fit(network(dropout), data(), config)
        looked = fit(network(dropout), data(), replace(config, diagnose_every=2, folder=tmp_path / rule))
        for a, b in zip(plain.model.state_dict().values(), looked.model.state_dict().values()):
            assert torch.equal(a, b)
        assert [r["step"] for record in looked.history for r in record.get("diagnosis", [])] == [1, 3, 5, 7, 9]
        assert read_jsonl(tmp_path / rule / "log.jsonl")[1]["diagnosis"] == looked.history[1]["diagnosis"]
        assert not any("diagnosis" in record for record in plain.history)
        for record in looked.history:
            for row in record["diagnosis"]:
                assert set(row["cosine"]) == set(row["norm_ratio"]) == {"stem", "blocks", "head", "all"}
                assert row["cosine"]["head"] == pytest.approx(1, abs=1e-12)  # exact behind the stack in both
                exact = row["cosine"]["blocks"] > 1 - 1e-12 and abs(row["norm_ratio"]["stem"] - 1) < 1e-12
                assert exact == (rule == "backprop")


def test_a_rule_of_a_known_angle(monkeypatch):
    """A rule that doubles the gradient of the last layer and turns that of the lift round."""

    def bent(model: nn.Module, loss_fn, batch) -> Tensor:
        loss = loss_fn(model(batch.x, batch.grid), batch)
        named = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
        factors = {"lift": -1.0, "project": 2.0}
        found = torch.autograd.grad(loss, [p for _, p in named])
        for (name, p), g in zip(named, found):
            g = factors.get(next((k for k in factors if k in name.split(".")), ""), 1.0) * g
            p.grad = g if p.grad is None else p.grad + g
        return loss.detach()

    monkeypatch.setitem(GRADIENTS, "bent", bent)
    run = fit(network(), data(), replace(QUIET, epochs=1, gradients="bent", diagnose_every=1))
    for row in run.history[0]["diagnosis"]:
        assert row["cosine"]["stem"] == pytest.approx(-1) and row["norm_ratio"]["stem"] == pytest.approx(1)
        assert row["cosine"]["blocks"] == pytest.approx(1) and row["norm_ratio"]["blocks"] == pytest.approx(1)
        assert 1 < row["norm_ratio"]["head"] <= 2


def test_resumed_runs_keep_what_was_found(tmp_path):
    config = replace(QUIET, gradients="highway", gradient_options={"iterations": 0}, diagnose_every=2)
    whole = fit(network(), data(), config)
    fit(network(), data(), replace(config, folder=tmp_path, stop_after=1))
    halves = fit(network(), data(), replace(config, folder=tmp_path, resume=True))
    assert [r["diagnosis"] for r in whole.history] == [r["diagnosis"] for r in halves.history]
