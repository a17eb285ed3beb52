"""The study of forward-only learning: arms are what they say, a broken rule shows, a small run leaves its numbers."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from sciops.models import orthogonality_defect
from studies import forward_only as study
from studies.forward_only import runs

CONFIG = study.Config(
    hard=(),
    tasks=("darcy", "dense:digits"),
    images="digits",
    depths=(3,),
    ablation_depth=3,
    ablations=("no projection", "random F"),
    image_depths=(1,),
    image_samples=(200, 60, 60),
    fields=(60, 20, 20),
    width=16,
    steps=25,
    batch=20,
    rates=(0.03, 0.1),
    scales=(0.02,),
    hidden=(1.0,),
    angles=3,
    seeds=(0, 1),
    workers=1,
)


def spec(**changes):
    return replace(study._specs(("dense:digits", "foton", 2), {}, 0, CONFIG)[1], **changes)


def test_a_small_run_leaves_its_numbers(tmp_path, capsys):
    results = study.run(replace(CONFIG, rates=(0.1,), steps=20, angles=2, output=tmp_path))
    said = capsys.readouterr().out
    assert json.loads((tmp_path / "results.json").read_text())["summary"] == results["summary"]
    for name in ("errors", "cosines"):
        assert (tmp_path / "figures" / f"{name}.png").stat().st_size > 10_000
    assert "caillon2025forward" in (tmp_path / "citations.bib").read_text()
    rows = {(r["task"], r["arm"], r["depth"]): r for r in results["summary"]}
    assert len(rows) == 2 * 5 + 2 * 2 + 5
    for row in rows.values():
        assert len(row["errors"]) == 2 and 0 < row["test"] < 1.2
    angles = rows["dense:digits", "foton", 3]["angles"]
    assert [a["step"] for a in angles] == [0, 19] and angles[0]["hidden"] > 0.5
    for a in rows["dense:digits", "backprop, orthogonal", 3]["angles"]:
        assert a["hidden"] == pytest.approx(1, abs=1e-5) and a["ratio"] == pytest.approx(1, abs=1e-5)
    assert rows["dense:digits", "foton", 3]["test"] < rows["dense:digits", "head alone", 3]["test"]
    exact = [c for c in results["claims"] if "without activations" in c["claim"]]
    assert len(exact) == 3 and all(c["seen"] == [1, 3] and not c["not seen"] for c in exact)
    assert "FOTON errs less than PEPITA" in said and "principal components" in said


def test_the_choice_walks_to_the_best_rate(monkeypatch):
    """A valley at 3e-4 of one arm and at the upper end of another is found from the middle, and nothing else tried."""
    valley = {"foton": 3e-4, "backprop, free": 1.0}

    def made_up(spec):
        far = abs(np.log(spec.rate / valley[spec.arm]))
        return {"validation": far, "loss": far, "test": far, "train": far, "angles": []}

    monkeypatch.setattr(study, "train_once", made_up)
    config = replace(CONFIG, rates=(1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1, 3e-1, 1.0))
    found = study._train([("darcy", arm, 2) for arm in valley], config)
    for arm, rate in valley.items():
        chosen = {r["rate"] for r in found if r["arm"] == arm and r["chosen"]}
        assert chosen == {rate}
        assert [r["seed"] for r in found if r["arm"] == arm and r["chosen"]] == [0, 1]
    assert sorted({r["rate"] for r in found if r["arm"] == "foton"}) == [1e-4, 3e-4, 1e-3, 3e-3, 1e-2]


def test_arms_keep_the_constraint_that_they_name(monkeypatch):
    seen = {}

    def remember(model, after=None):
        seen["model"] = model

    for arm, constrained in (("foton", True), ("backprop, orthogonal", True), ("backprop, free", False)):
        monkeypatch.setattr(runs, "angle", lambda model, task, batch: remember(model) or {"hidden": 1.0})
        runs.train_once(spec(arm=arm))
        defect = max(orthogonality_defect(m) for m in seen["model"].stack[:-1] if isinstance(m, nn.Linear))
        assert (defect < 1e-4) == constrained


def test_only_the_head_is_trained_alone():
    torch.manual_seed(0)
    task = runs.task_of("dense:digits", CONFIG.image_samples)
    start = task.net(width=16, depth=2, activation="tanh").state_dict()
    seen = []
    original = nn.Module.eval

    class Spy:
        def __get__(self, model, owner):
            return lambda: seen.append(model) or original(model)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nn.Module, "eval", Spy())
        runs.train_once(spec(arm="head alone", angles=0))
    end = next(m for m in seen if hasattr(m, "stack")).state_dict()
    changed = {name for name in start if not torch.equal(start[name], end[name])}
    assert changed == {"stack.5.weight", "stack.5.bias"}


def test_a_broken_rule_is_noticed(monkeypatch):
    right = study.claims({"linear": {"dense": {"3": runs.linear_difference("dense", 3)}}, "summary": []}, CONFIG)
    assert right[0]["seen"] == [3]
    whole = runs.forward_only

    def halved(model, loss_fn, batch, **options):
        loss = whole(model, loss_fn, batch, **options)
        next(model.parameters()).grad.mul_(0.5)
        return loss

    monkeypatch.setattr(runs, "forward_only", halved)
    wrong = study.claims({"linear": {"dense": {"3": runs.linear_difference("dense", 3)}}, "summary": []}, CONFIG)
    assert wrong[0]["not seen"] == [3]


def test_claims_need_every_seed():
    def row(arm, *errors):
        return {"task": "t", "arm": arm, "depth": 5, "errors": errors}

    rows = [row("foton", 0.2, 0.3), row("pepita", 0.25, 0.29), row("head alone", 0.4, 0.4)]
    said = {c["claim"]: c["seen"] for c in study.claims({"linear": {}, "summary": rows}, CONFIG)}
    assert said["t: FOTON errs less than PEPITA"] == []
    assert [seen for claim, seen in said.items() if "last layer alone" in claim] == [[5]]


def test_hidden_layers_have_their_own_rate():
    torch.manual_seed(0)
    frozen = runs.train_once(spec(arm="backprop, free", hidden=0.0, angles=0))
    alone = runs.train_once(spec(arm="head alone", angles=0))
    assert frozen == alone
    assert runs.train_once(spec(arm="backprop, free", hidden=0.5, angles=0)) != alone


def test_runs_that_diverge_come_last():
    record = runs.train_once(
        spec(task="darcy", samples=CONFIG.fields, arm="backprop, free", activation="identity", rate=1e6)
    )
    assert record["test"] == float("inf")
    assert study._order({"validation": 0.9, "loss": 2.0}) < study._order(record)
    assert study._order({"validation": 0.9, "loss": np.nan}) > study._order({"validation": 0.9, "loss": 1e9})


def test_refusals(tmp_path):
    for changes, message in (
        ({"arms": ("adam",)}, "--arms adam: expected some of foton"),
        ({"ablations": ("x",)}, "--ablations x"),
        ({"tasks": ("burgers",)}, "--tasks 'burgers'"),
        ({"rates": ()}, "at least one of each"),
    ):
        with pytest.raises(ValueError, match=message):
            study.run(replace(CONFIG, output=tmp_path, **changes))
