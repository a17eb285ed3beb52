"""Networks side by side learn by the package's rules; tasks are accepted, and verdicts drawn, by the written rule."""

import json
import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from sciops.models import OrthogonalNet
from sciops.training.gradients import backprop, feedback_alignment, forward_only
from studies import forward_only as study
from studies.forward_only import comparison, hard_tasks, rules, side_by_side
from studies.forward_only.networks import Networks
from studies.forward_only.solved_head import solved_head

DOUBLE = torch.empty(0, dtype=torch.float64)
SEEDS = (3, 4)
alignment = sys.modules["sciops.training.gradients.feedback_alignment"]
forward = sys.modules["sciops.training.gradients.forward_only"]


def dense(depth=3):
    def draw(seeds):
        return Networks.dense(7, 6, depth, 4, seeds, DOUBLE)

    def model(net, n):
        found = OrthogonalNet(1, 4, shape=(7,), width=6, depth=depth).double()
        for layer, (group, i) in zip((m for m in found.stack if hasattr(m, "weight")), net.order):
            layer.weight.data.copy_(group.weight[i, n])
            layer.bias.data.copy_(group.bias[i, n, 0])
        return found

    labels = torch.randint(0, 4, (2, 5))
    return draw, model, (7, 6, 4), torch.randn(2, 5, 7, dtype=torch.float64), labels


def spectral(depth=2):
    def draw(seeds):
        return Networks.spectral((2, 3), 4, depth, (3, 8), seeds, DOUBLE)

    def model(net, n):
        found = OrthogonalNet(2, 3, kind="spectral", width=4, depth=depth, modes=[3]).double()
        lift, *hidden, head = (m for m in found.stack if any(True for _ in m.parameters()))
        for layer, group in ((lift, net.groups[0]), (head, net.groups[2])):
            layer.weight.data.copy_(group.weight[0, n])
            layer.bias.data.copy_(group.bias[0, n, 0])
        for i, layer in enumerate(hidden):
            layer.mixer.parts[0].weight.data.copy_(pairs(torch.view_as_real(net.groups[1].weight[i, n])))
            layer.mixer.bias.data.copy_(net.groups[1].bias[i, n, 0].view_as(layer.mixer.bias))
        return found

    return draw, model, (16, 32, 24), torch.randn(2, 5, 8, 2, dtype=torch.float64), torch.randn(2, 5, 8, 3).double()


def pairs(r):
    """(modes, out, in, 2) → (modes, in, 2, out), as `SpectralMixer` keeps it."""
    return r.transpose(1, 2).movedim(-1, -2)


def loss(prediction, batch):
    if batch.y.ndim == 1:
        return F.cross_entropy(prediction, batch.y)
    return ((prediction - batch.y) ** 2).sum() / (2 * len(prediction))


def error(out, y):
    return out.softmax(-1) - F.one_hot(y, 4) if y.ndim == 2 else out - y.reshape(out.shape)


@pytest.mark.parametrize("case", [dense, spectral])
@pytest.mark.parametrize("arm", [rules.ORTHOGONAL, "FOTON", "PEPITA", rules.FEEDBACK, rules.DIRECT, rules.TAKEN[0]])
def test_the_rules_are_those_of_the_package(case, arm, monkeypatch):
    torch.manual_seed(0)
    draw, model, sizes, x, y = case()
    net = draw(SEEDS)
    for group in net.groups:
        group.bias.normal_(0, 0.1)
    learner = rules.Learner(arm, net, draw, SEEDS, sizes, DOUBLE)
    found = learner.gradients(x.reshape(2, -1, x.shape[-1]), lambda out: error(out, y), 5)
    for n in range(2):
        one = model(net, n)
        field = x.ndim == 4
        batch = SimpleNamespace(
            x=x[n].movedim(-1, 1) if field else x[n], y=y[n].movedim(-1, 1) if field else y[n], grid=None
        )
        if arm == rules.ORTHOGONAL:
            backprop(one, loss, batch)
        elif arm == rules.FEEDBACK:
            back = model(learner.back, n)
            monkeypatch.setattr(
                alignment,
                "_layerwise",
                lambda stack, *_, back=back: {i: back.stack[i - len(stack.steps)] for i in stack.linear[1:]},
            )
            feedback_alignment(one, loss, batch)
        elif arm == rules.DIRECT:
            matrices = [m[n] for m in learner.matrices]
            monkeypatch.setattr(alignment, "_direct", lambda stack, *_, given=matrices: dict(zip(stack.linear, given)))
            feedback_alignment(one, loss, batch, method="direct")
        else:
            random = getattr(learner, "random", None)
            monkeypatch.setattr(forward, "random_feedback", lambda *_, one=random, n=n: one[n])
            how = {"FOTON": {}, "PEPITA": {"method": "pepita"}, rules.TAKEN[0]: {"feedback": "random"}}[arm]
            forward_only(one, loss, batch, **how)
        expected = [p.grad for p in one.parameters()]
        own = []
        for group, gradients in zip(net.groups, found):
            for i in range(group.count):
                weight, bias = (g[i, n] for g in gradients)
                own += [pairs(weight) if weight.ndim == 4 else weight, bias[0]]
        own = sorted(own, key=lambda g: float(g.abs().sum()))
        expected = sorted(expected, key=lambda g: float(g.abs().sum()))
        for a, b in zip(own, expected, strict=True):
            assert torch.allclose(a.flatten(), b.flatten(), atol=1e-11 * float(b.abs().max())), arm


@pytest.mark.parametrize("case", [dense, spectral])
def test_projected_layers_are_orthogonal_and_a_lost_network_leaves_the_others(case):
    draw, _, _, x, _ = case()
    net, same = draw(SEEDS), draw(SEEDS)
    for one in (net, same):
        torch.manual_seed(1)
        for group in one.groups:
            for p in group.parameters:
                p.add_(0.05 * torch.randn_like(p))
            if hasattr(group, "modes"):
                group.weight[:, :, 0].imag.zero_()
        one.project()
    for group in net.groups[net.lift : -1]:
        product = group.weight @ group.weight.mH
        assert torch.allclose(product, torch.eye(product.shape[-1]).to(product).expand_as(product), atol=1e-7)
    same.project()
    net.groups[0].weight[:, 0] = float("nan")
    net.project()
    rows = x.reshape(2, -1, x.shape[-1])
    assert torch.equal(net.run(rows)[1][1], same.run(rows)[1][1]) and net.run(rows)[1][0].isnan().all()


@pytest.mark.parametrize("name", ["sgd", "adam"])
def test_each_network_has_its_own_rate(name):
    torch.manual_seed(0)
    rates, shares = torch.tensor([0.1, 0.02]), torch.tensor([0.5, 1.0])
    hidden, head = torch.randn(3, 2, 4, 5).double(), torch.randn(1, 2, 2, 4).double()
    gradients = [[torch.randn_like(hidden)], [torch.randn_like(head)]]
    expected = []
    for n in range(2):
        own = [hidden[:, n].clone(), head[:, n].clone()]
        groups = [{"params": [own[0]], "lr": float(rates[n] * shares[n])}, {"params": [own[1]], "lr": float(rates[n])}]
        optimizer = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}[name](groups)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 6)
        for step in range(4):
            for p, (g,) in zip(own, gradients):
                p.grad = (1 + step) * g[:, n]
            optimizer.step()
            schedule.step()
        expected.append(own)
    moving = side_by_side.Optimizer(name, [[hidden], [head]], rates, shares, 6)
    for step in range(4):
        moving.step([[(1 + step) * g] for (g,) in gradients])
    for n in range(2):
        assert torch.allclose(hidden[:, n], expected[n][0], rtol=1e-6)
        assert torch.allclose(head[:, n], expected[n][1], rtol=1e-6)


def tiny():
    x = torch.randn(60, 5, generator=torch.Generator().manual_seed(0))
    parts = tuple((part, (part[:, 0] * part[:, 1] > 0).long()) for part in x.split(20))
    rates = {"sgd": (0.3, 1.0), "adam": (0.01, 0.1)}
    return hard_tasks.HardTask(parts, 5, 2, width=5, steps=8, batch=10, depths=(2, 3), rates=rates, shares=(0.1, 1.0))


def test_a_small_run_leaves_its_numbers_and_resumes(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(hard_tasks.HARD, "digits", tiny)
    hard_tasks.hard_task.cache_clear()
    config = study.Config(hard=("digits",), hard_depths=(2, 3), ablation_depth=3, angles=2, workers=1, output=tmp_path)
    results = study.run(config)
    said = capsys.readouterr().out
    hard_tasks.hard_task.cache_clear()
    stored = json.loads((tmp_path / "results.json").read_text())["hard"]
    assert stored["verdicts"] == results["hard"]["verdicts"] and "last layer alone" in said
    for name in ("hard", "hard_cosines"):
        assert (tmp_path / "figures" / f"{name}.png").stat().st_size > 10_000
    rows = results["hard"]["rows"]
    assert len(rows) == 8 + 10 and all(len(row["errors"]) == 5 for row in rows)
    assert {v["depth"] for v in stored["verdicts"] if v["second"] in rules.TAKEN} == {3}
    assert "lillicrap2014random" in (tmp_path / "citations.bib").read_text()
    monkeypatch.setattr(comparison, "train", None)  # all cells are kept
    monkeypatch.setitem(hard_tasks.HARD, "digits", tiny)
    again = study.run(config)
    hard_tasks.hard_task.cache_clear()
    assert again["hard"]["verdicts"] == results["hard"]["verdicts"]


def test_still_layers_stay_and_a_seed_has_one_network(monkeypatch):
    seen = []
    monkeypatch.setattr(side_by_side, "_errors", lambda task, net, *_: seen.append(net) or np.zeros((4, 1)))
    task = tiny()
    for arm, moved in ((rules.HEAD, [False, False, True]), (rules.ENDS, [True, False, True]), ("FOTON", [True] * 3)):
        side_by_side.train(task, arm, 3, "sgd", (5, 5, 6, 6), (0.1, 1.0, 0.1, 1.0), (1.0,) * 4)
        start = task.networks(3, (5, 5, 6, 6), torch.empty(0))
        changed = [not torch.equal(a.weight, b.weight) for a, b in zip(seen[-1].groups, start.groups)]
        assert changed == moved
        assert torch.equal(start.groups[0].weight[:, 0], start.groups[0].weight[:, 1])


@pytest.mark.parametrize("points", [1, 8])
def test_the_solved_head_is_the_best_one(points):
    """Its training loss has no slope left: seen by a second part that is the training data."""
    random = torch.Generator().manual_seed(0)
    if points == 1:
        task = tiny()
        parts = (task.parts[0], task.parts[0], task.parts[1])
        y = task.parts[0][1]
        task = replace(task, parts=parts)
    else:
        x, y = (torch.randn(6, points, 1, generator=random) for _ in range(2))
        task = hard_tasks.HardTask(((x, y),) * 3, 1, 1, width=3, steps=1, batch=2, depths=(2,), points=8, modes=3)
    kept = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hard_tasks.HardTask, "errors", lambda self, out, y: kept.append(out) or out.new_zeros(2, 1))
        solved_head(task, 2, (0, 1))
    net = task.networks(2, (0, 1), DOUBLE)
    rows = task.parts[0][0].double().reshape(-1, task.inputs)
    h = net.run(rows.expand(2, *rows.shape))[0][-1]
    slope = h.mT @ task.error(kept[0], y.expand(2, *y.shape)) / len(rows)
    assert float(slope.abs().max()) < 1e-4


def made_up(head, foton, true):
    """Cells of one task and depth with these errors of an arm, five seeds and ten samples."""
    noise = 0.01 * np.random.default_rng(0).standard_normal((5, 10))
    means = {arm: true for arm in rules.LEARNERS} | {rules.HEAD: head, "FOTON": foton}
    return {
        ("t", 4, arm): {"test": m + noise * (1 + i), "pilot": np.full((3, 2), m)}
        for i, (arm, m) in enumerate(means.items())
    }


@pytest.mark.parametrize(("head", "accepted"), [(0.41, True), (0.39, False)])
def test_power_is_twice_the_error(head, accepted):
    found = made_up(head, 0.3, 0.2)
    power = comparison._power("t", 4, found, {"pilot": 0.6})
    assert power["accepted"] is accepted
    assert not comparison._power("t", 4, found, {"pilot": 0.39})["accepted"]
    verdict = comparison._verdict(power, "FOTON", rules.HEAD, False, "?", found)
    assert verdict["holds"] and verdict["power"] is accepted and verdict["low"] < verdict["difference"] < 0
    lists = comparison.tallies({"verdicts": [verdict]})
    assert [row["holds"] for row in lists] == ([["t 4"]] if accepted else [])


def test_near_counts_as_kept_up_and_far_does_not():
    for foton, winner, holds in ((0.205, "equivalent", True), (0.3, "second", False), (0.1, "first", True)):
        found = made_up(0.5, foton, 0.2)
        verdict = comparison._verdict(
            {"task": "t", "depth": 4, "accepted": True}, "FOTON", rules.ORTHOGONAL, True, "?", found
        )
        assert (verdict["winner"], verdict["holds"]) == (winner, holds)
    found["t", 4, "FOTON"]["test"][0, 0] = np.inf
    verdict = comparison._verdict({"task": "t", "depth": 4, "accepted": True}, "FOTON", rules.HEAD, False, "?", found)
    assert verdict["winner"] == "a training diverged" and not verdict["holds"]


def test_refusals(tmp_path):
    for changes, message in (
        ({"hard": ("x",)}, "--hard x: expected some of digits"),
        ({"pilots": (0, 100)}, "--pilots"),
        ({"hard": ()}, "at least one task"),
    ):
        with pytest.raises(ValueError, match=message):
            study.run(replace(study.Config(), output=tmp_path, **changes))
