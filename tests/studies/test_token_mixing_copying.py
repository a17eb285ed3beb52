"""Copying by all mixers: networks trained side by side are those trained alone, and links that lead nowhere show."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from studies import token_mixing as study
from studies.token_mixing import copying
from studies.token_mixing.copying import FAR, Side

SIDE = Side(
    arm="2^k",
    depth=1,
    lengths=(3, 4),
    alphabet=4,
    reach=2,
    width=8,
    heads=2,
    steps=6,
    batch=3,
    samples=20,
    seeds=(0, 1),
    rates=(0.02, 0.1),
    part="test",
)


def alone(side, length, seed, rate):
    """A loop in torch alone, as by the book."""
    net = copying.network(side, seed).double()
    optimizer = torch.optim.AdamW(net.parameters(), lr=rate, betas=(0.9, 0.98), weight_decay=0.01)
    cycle = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, side.steps, cycle_momentum=False)
    rng = np.random.default_rng([length, seed, 2])
    for _ in range(side.steps):
        task = copying._made(length, side, side.batch, int(rng.integers(2**62)))
        tokens, targets = torch.from_numpy(task.tokens), torch.from_numpy(task.targets)
        optimizer.zero_grad()
        F.cross_entropy(net(tokens).flatten(0, 1), targets.flatten()).backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        cycle.step()
    asked = copying._made(length, side, side.samples, 10**9 + 1)
    with torch.no_grad():
        said = net(torch.from_numpy(asked.tokens)).argmax(-1).numpy()
    return (said == asked.targets)[asked.asked].mean()


@pytest.mark.parametrize("arm", ["2^k", "attention"])
def test_side_by_side_is_one_by_one(arm):
    side = replace(SIDE, arm=arm)
    together = copying.train_side_by_side(side, dtype=torch.float64)["accuracy"]
    for i, length in enumerate(side.lengths):
        for j, seed in enumerate(side.seeds):
            for k, rate in enumerate(side.rates):
                assert together[i][j][k] == pytest.approx(alone(side, length, seed, rate), abs=1e-6)


def test_links_of_inputs_take_values_and_not_outputs():
    side = replace(SIDE, arm="2^k, of inputs")
    mixer = copying.network(side, 0).double().stack.blocks[0].mixer
    x = torch.randn(1, 9, side.width, dtype=torch.float64, requires_grad=True)
    reached = torch.autograd.grad(mixer(x)[0, 8].sum(), x)[0][0].abs().sum(-1) > 0
    assert reached.tolist() == [i in (0, 4, 6, 7, 8) for i in range(9)]  # 8 − 2^k and itself, not 8 − 2 − 1
    q, k, v, itself = mixer._projected(x)
    y, _ = mixer._solved(q, k, v, itself[0], 0, None)
    links = mixer.links.table(torch.arange(9), 8)
    p_self, p = mixer._weights(q, k, links, itself[0], 0)
    for i in range(9):
        expected = p_self[0, :, i, None] * v[0, :, i]
        for column, j in enumerate(links[i].tolist()):
            if j >= 0:
                expected = expected + p[0, :, i, column, None] * v[0, :, j]
        torch.testing.assert_close(y[0, :, i], expected)


def test_links_to_the_answer_are_counted():
    count = lambda arm, length, depth=1: copying.links_to_answer(arm, 4, length, depth)  # noqa: E731
    assert [count("2^k", m) for m in (7, 8, 10)] == [3, 1, 2]
    assert [count("k²+1", m) for m in (7, 8, 10)] == [2, 3, 1]
    assert [count("order k", m) for m in (7, 8, 10)] == [2, 2, 3]
    assert count("first order", 7) == 7 and count("attention", 10) == 1 == count("dense recurrence", 10)
    assert count("local attention", 7, 2) == FAR and count("local attention", 6, 2) == 2
    assert count("2·2^k", 7) == FAR and count("2·2^k", 8) == 1 and count("2·2^k", 10) == 2
    assert count("2^k, of inputs", 7, 2) == FAR and count("2^k, of inputs", 10, 2) == 2


def test_even_links_never_hear_of_an_odd_distance():
    side = replace(SIDE, arm="2·2^k", depth=2)
    net = copying.network(side, 0).double()
    x = torch.randn(1, 15, side.width, dtype=torch.float64, requires_grad=True)
    reached = torch.autograd.grad(net.stack(x)[0, 14].sum(), x)[0][0].abs().sum(-1) > 0
    assert reached.tolist() == [i % 2 == 0 for i in range(15)]


def record(arm, values, depth=1):
    """As `trained` gives it: values (seed, length)."""
    table = np.array(values, dtype=float).T[..., None]
    spec = {"arm": arm, "depth": depth, "lengths": [7, 8], "rates": [0.01], "alphabet": 8}
    return {"spec": spec, "accuracy": table.tolist(), "late": (0 * table).tolist(), "shifted": None, "steps": 5}


def test_the_order_is_read_off_the_seeds():
    noise = 0.002 * np.random.default_rng(0).standard_normal((4, 5, 2))
    middle = [[0.9, 0.2], [0.8, 0.5], [0.3, 0.9], [0.9, 0.3], [0.2, 0.8]]
    values = {"dense recurrence": 0.98 + noise[0], "2^k": middle, "order k": 0.5 + noise[1], "k²+1": 0.3 + noise[2]}
    found = copying.analysis([record(arm, table) for arm, table in values.items()], 4)["1"]
    says = {(row["better"], row["worse"]): row["says"] for row in found["pairs"]}
    assert says["dense recurrence", "order k"] == "confirmed" and says["k²+1", "order k"] == "contradicted"
    assert says["2^k", "order k"] == "undecided"
    near = {(row["better"], row["worse"]) for row in found["pairs"] if row["neighbours"]}
    assert near == {("dense recurrence", "k²+1"), ("k²+1", "2^k"), ("2^k", "order k")}
    gap = next(row for row in found["pairs"] if row["worse"] == "order k" and row["better"] == "k²+1")
    assert gap["gap"] == pytest.approx(-20, abs=0.5) and gap["low"] < gap["gap"] < gap["high"]
    few = copying.analysis([record(arm, table[:2]) for arm, table in values.items()], 4)["1"]
    assert {row["says"] for row in few["pairs"]} == {"too few seeds"}
    assert copying.correlated(
        [np.array([[0.1], [0.1]]), np.array([[0.5], [0.6]]), np.array([[0.9], [0.9]])], [1, 2, 3]
    )["mean"] == pytest.approx(1)


def test_a_rate_is_the_best_on_validation():
    assert copying.best_rate({"accuracy": [[[0.1, 0.5, 0.4]], [[0.2, 0.5, 0.4]]]}, (1, 2, 3)) == 2
    assert copying.best_rate({"accuracy": [[[0.50001, 0.50002]]]}, (1, 2)) == 1


def test_a_small_run_says_what_it_decides(tmp_path, capsys):
    quick = study.PRESETS["quick"]
    config = replace(
        quick, tasks=(), arms=("first order", "2^k"), order_steps=3, order_samples=4, order_rates=(0.01, 0.1)
    )
    config = replace(
        config, order_width=8, order_heads=2, lengths=(16, 32, 64), states_to=16, workers=1, output=tmp_path
    )
    found = study.run(config)["order"]
    assert set(found) == {"1", "2"} and set(found["2"]["arms"]) == {"first order", "2^k", *copying.CONTROLS}
    assert found["1"]["arms"]["2^k"]["rate"] in (0.01, 0.1)
    assert found["1"]["arms"]["2^k"]["by length"]["7"]["shifted"] is not None
    assert json.loads((tmp_path / "results.json").read_text())["order"]["1"]["pairs"][0]["says"] == "too few seeds"
