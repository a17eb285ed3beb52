"""Long-memory tasks of the state-feedback study: their answers, that truncation cannot learn one, shares of the gap."""

import math

import pytest
import torch

from studies import state_feedback as study
from studies.kit.through_time import memory
from studies.kit.through_time.gradients import gradient
from studies.state_feedback import comparisons
from studies.state_feedback.comparisons import closed_shares, share_verdicts, summary
from studies.state_feedback.training import way_back
from studies.state_feedback.words import word_task

TINY = dict(batch=8, width=8, depth=1, cell="gru", held_out=20)


def test_copying_asks_for_the_marked_symbols():
    x, y = memory.copying(50, 9, torch.Generator().manual_seed(0))
    assert torch.equal(x[:, :2, :8].argmax(-1), y) and x[:, :2, 8].all() and not x[:, 2:, 8].any()
    assert torch.equal(x[:, 2:7].sum(-1), torch.ones(50, 5))  # distractors: one symbol, no mark
    assert not x[:, 7:, :9].any() and x[:, 7:, 9].all() and not x[:, :7, 9].any()


def test_adding_asks_for_the_marked_sum():
    x, y = memory.adding(20_000, 10, torch.Generator().manual_seed(0))
    assert torch.equal(x[..., 1].sum(1), torch.full((20_000,), 2.0)) and torch.equal(
        x[:, :5, 1].sum(1), torch.ones(20_000)
    )
    torch.testing.assert_close((x[..., 0] * x[..., 1]).sum(1), y)
    task = memory.memory_task("adding", length=10, **TINY)
    assert float(y.var()) == pytest.approx(task.trivial, rel=0.03)
    fixed = [torch.cat([y for _, y in part]) for part in (task.validation, task.test)]
    assert not torch.equal(*fixed)


def test_gates_begin_slow_and_the_rest_as_ever():
    net = memory.memory_task("copy", length=30, **TINY).model(3)
    plain = memory.recurrent(3, 10, 8, 8, 1, "gru", residual=False)
    bias = net.cells[0].bias_ih_l0[8:16] + net.cells[0].bias_hh_l0[8:16]
    assert bias.min() >= 0 and bias.max() <= math.log(29)
    same = [n for n, p in net.named_parameters() if torch.equal(p, plain.get_parameter(n))]
    assert len(same) == len(list(net.parameters())) - 2


def test_only_the_last_step_reaches_the_weights_under_truncation():
    """Of inputs before the questions full truncation sees nothing: their gradient vanishes, that of BPTT does not."""
    task = memory.memory_task("copy", length=12, **TINY)
    model, (x, y) = task.model(0), task.draw(torch.Generator().manual_seed(0))
    for arm, reached in (("BPTT", True), ("FT-BPTT", False), ("TBPTT", False), ("DSF linspace", True)):
        x = x.detach().requires_grad_()
        name, options = way_back(arm, 2)
        with model.going_back(name, **options):
            (got,) = torch.autograd.grad(task.loss(model, (x, y)), x)
        assert bool(got[:, :2].abs().sum() > 0) == reached, arm
    assert gradient(model, task, (x, y), way_back("BPTT", 2))[0] == pytest.approx(task.trivial, rel=0.2)


def test_words_follow_one_another():
    how = TINY | {"held_out": 4}
    task = word_task("python", vocabulary=300, length=12, **how)
    x, y = task.validation[0]
    assert torch.equal(x.argmax(-1)[:, 1:], y[:, :-1]) and x.shape == (4, 12, 300) and y.max() <= 299
    assert 1 < task.trivial < 300


def test_shares_of_the_gap_are_paired_by_seed():
    found = closed_shares([1.5, 1.6, 1.7], [1.0, 1.1, 1.2], [2.0, 2.1, 2.2])
    assert found["by seed"] == pytest.approx([0.5] * 3) and found["low"] == pytest.approx(0.5)
    assert closed_shares([1.0, 1.0], [1.0, 1.0], [2.0, 0.5]) is None
    assert closed_shares([1.0, math.inf], [1.0, 1.0], [2.0, 2.0]) is None

    def row(arm, seed, test):
        looks = [{"step": 0, "cosine": 1.0, "norm_ratio": 1.0}]
        return dict(task="t", arm=arm, seed=seed, rate=1.0, test=test, validation=test, seconds=1.0, diverged=False,
                    closeness=looks)  # fmt: skip

    tests = {"BPTT": 1.0, "FT-BPTT": 2.0, "DSF gate": 1.2, "DSF linspace": 1.6, "TBPTT": 2.0}
    rows = summary([{"name": "t"}], [row(a, s, v + 0.01 * s * s) for a, v in tests.items() for s in range(5)])
    assert {r["arm"]: r["shares"]["mean"] for r in rows}["DSF linspace"] == pytest.approx(0.4)
    assert all(r["against_equal_time"] is None for r in rows)
    says = {(r["first"], r["second"]): (r["says"], round(r["gap"], 6)) for r in share_verdicts(rows)}
    assert says["DSF gate", "DSF linspace"] == ("more", 0.4) and says["DSF linspace", "TBPTT"] == ("more", 0.4)
    assert "gate, linspace" in comparisons.verdicts(rows)[0] and "equal time" not in comparisons.verdicts(rows)[0]
    assert "not as good as BPTT, to within 10% of the gap: gate, linspace" in comparisons.verdicts(rows)[0]


def test_as_good_is_to_within_a_tenth_of_the_gap():
    looks = [{"step": 0, "cosine": 1.0, "norm_ratio": 1.0}]

    def row(arm, seed, test):
        history = [{"step": n, "validation": 2.0 * 0.1 ** (n / 20)} for n in (0, 10, 20, 30)]
        return dict(task="t", arm=arm, seed=seed, rate=1.0, test=test, validation=test, seconds=1.0, diverged=False,
                    closeness=looks, history=history)  # fmt: skip

    noise = {"DSF gate": 0.02, "DSF linspace": 0.02, "DSF Hutchinson": 0.2}
    tests = {"BPTT": 1.0, "FT-BPTT": 2.0, "DSF gate": 1.05, "DSF linspace": 1.2, "DSF Hutchinson": 1.2}
    runs = [row(a, s, v + noise.get(a, 0.0) * (s - 2)) for a, v in tests.items() for s in range(5)]
    rows = summary([{"name": "t", "trivial": 2.0}], runs)
    assert all(r["learnt"] == 30 for r in rows)
    claim = next(c["claim"] for c in comparisons.claims(rows) if "as good" in c["claim"])
    says = {c["arm"]: c["says"] for c in comparisons.claims(rows) if c["claim"] == claim}
    assert says == {"DSF gate": "yes", "DSF linspace": "no", "DSF Hutchinson": "undecided"}
    line = comparisons.verdicts(rows)[0]
    assert "DSF as good as BPTT, to within 10% of the gap: gate" in line and "not as good as BPTT" in line
    assert not any("same time" in c["claim"] for c in comparisons.claims(rows))


def test_a_rate_at_the_edge_of_its_grid_is_said():
    trials = [{"arm": "a", "rate": r, "validation": v} for r, v in ((1.0, 3.0), (2.0, 1.0), (4.0, 2.0))]
    trials += [{"arm": "b", "rate": r, "validation": v} for r, v in ((1.0, 3.0), (2.0, 2.0), (4.0, 1.0))]
    found = comparisons.tuned_rates("t", trials)
    assert [(r["rate"], r["edge"]) for r in found] == [(2.0, False), (4.0, True)]
    assert found[0]["validation"] == {"1": 3.0, "2": 1.0, "4": 2.0}


def test_a_small_run_tunes_on_other_seeds(tmp_path, capsys, monkeypatch):
    arms = ("BPTT", "FT-BPTT", "DSF gate")
    config = study.Config(
        **{**study._TUNED, "arms": arms, "seeds": 2}, memory_tasks=("copy", "adding"), memory_lengths=(5, 6),
        memory_steps=(3, 2), word_lengths=(6,), word_steps=2, vocabulary=50, corpus="python", width=8, batch=4,
        held_out=6, looks=1, comparisons=1, rates=(0.01, 0.02), output=tmp_path,
    )  # fmt: skip
    found = study.run(config)
    assert {r["seed"] for r in found["runs"]} == {0, 1} and len(found["runs"]) == 3 * len(arms) * 2
    assert all(len({r["rate"] for r in found["runs"] if (r["task"], r["arm"]) == key}) == 1
               for key in {(r["task"], r["arm"]) for r in found["runs"]})  # fmt: skip
    printed = capsys.readouterr().out
    assert "too few seeds" in printed and "validation error by rate" in printed and "expected of copy, T = 5" in printed
    assert len(list((tmp_path / "cells").glob("*.json"))) == len(arms) * 3 * (2 + 2)
    with monkeypatch.context() as patch:
        patch.setattr(study, "finished", lambda folder, results, *rest, **options: results)
        patch.setattr(study, "train", lambda *task, **options: pytest.fail("a training that is kept is trained again"))
        assert study.run(config)["runs"] == found["runs"]
    with pytest.raises(ValueError, match="--memory-lengths .5,. and --memory-steps .1, 2.: expected one number each"):
        study.run(
            study.Config(memory_tasks=("copy", "adding"), memory_lengths=(5,), memory_steps=(1, 2), output=tmp_path)
        )
    with pytest.raises(ValueError, match="--memory-tasks sorting: expected some of"):
        study.run(study.Config(memory_tasks=("sorting",), memory_lengths=(5,), memory_steps=(1,), output=tmp_path))
    with pytest.raises(ValueError, match="--memory-length 4: expected at least 5"):
        memory.memory_task("copy", length=4, **TINY)
