"""Highway-BP by depth: members are trainings of their own, all sweeps give exact gradients, claims are judged."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from sciops.training.gradients import Layer
from studies import highway_depth as study
from studies.highway_depth import costs, over_time, report
from studies.highway_depth.networks import ESTIMATED, CausalConvNet, ConvNet, ResidualNet, Transformer, split, together
from studies.highway_depth.training import Arm, MemberAdam, compared

DEPTH = 4
MADE = {
    "pre": lambda: ConvNet("pre", width=3, depth=DEPTH),
    "post": lambda: ConvNet("post", width=3, depth=DEPTH),
    "text": lambda: Transformer(7, length=5, width=8, depth=DEPTH),
    "text, convolutions": lambda: CausalConvNet(7, width=6, depth=DEPTH),
}
TINY = study.Config(
    networks=("resnet, pre", "gru"),
    iterations=(0, 3),
    depth=4,
    depths=(2,),
    rates=(1e-2, 3e-2),
    points=8,
    train=16,
    validation=4,
    test=6,
    width=4,
    batch=4,
    steps=4,
    looks=2,
    probed=(0, 3),
    cost_networks=(),
    time_length=6,
    time_width=4,
    time_batch=4,
    time_steps=3,
    time_scored=4,
    time_iterations=(0, 5),
    time_rates=(1e-2, 2e-2),
)


def _case(kind):
    net = together(MADE[kind], [0, 1, 0]).double()
    shape = (3, 2, 5) if kind.startswith("text") else (2, 3, 6, 6)
    torch.manual_seed(5)
    x = torch.randint(0, 7, shape) if kind.startswith("text") else torch.randn(shape, dtype=torch.float64)
    weight = torch.randn(net(x).shape, dtype=torch.float64)

    def gradient(**how):
        found = torch.autograd.grad((net(x, **how) * weight).sum(), list(net.parameters()), allow_unused=True)
        return [torch.zeros_like(p) if g is None else g for g, p in zip(found, net.parameters())]

    return net, x, gradient


@pytest.mark.parametrize("kind", MADE)
def test_all_sweeps_give_the_exact_gradient_of_every_member(kind):
    net, x, gradient = _case(kind)
    truth = gradient()
    for gamma in (0.0, 0.3, 1.0, ESTIMATED):
        cosine, ratio = compared(gradient(iterations=DEPTH, gamma=gamma), truth, 3)
        assert np.allclose([cosine, ratio], 1, atol=1e-12, rtol=0)
        assert max(compared(gradient(iterations=1, gamma=gamma), truth, 3)[0]) < 1 - 1e-4
    one = together(MADE[kind], [1]).double()
    own = x[1:2] if kind.startswith("text") else x[:, 1:2]
    said = net(x)[1:2] if kind.startswith("text") else net(x)[:, 1:2]
    assert torch.allclose(one(own), said, atol=1e-12)


def test_convolutions_over_a_text_see_no_character_ahead():
    net = CausalConvNet(7, width=6, depth=3).double()
    x = torch.randint(0, 7, (1, 2, 9), generator=torch.Generator().manual_seed(0))
    other = x.clone()
    other[..., 5] = (x[..., 5] + 1) % 7
    same = (net(x) == net(other)).all(-1)
    assert same[..., :5].all() and not same[..., 5:].any()


def test_the_estimated_share_is_that_of_each_member():
    """Of h − c·h it is c, and what is left of J + γK is zero: no sweep is needed."""

    class Shrunk(ResidualNet):
        def __init__(self):
            super().__init__()
            self.members, self.c = 2, nn.Parameter(torch.tensor([0.3, 0.8], dtype=torch.float64))
            self.layers = [Layer(self, lambda net, h: -net.as_state(net.c) * h)] * 3
            self.stem = self.head = lambda h: h

        def by_member(self, state):
            return state

        def as_state(self, values):
            return values[:, None]

    net, x = Shrunk(), torch.randn(2, 7, dtype=torch.float64)
    z, share = split(net.layers[0], net).branch(x.clone().requires_grad_())
    assert torch.allclose(share[:, 0], net.c) and z.abs().max() < 1e-12
    grad = lambda **how: torch.autograd.grad(net(x, **how).square().sum(), net.c)[0]  # noqa: E731
    assert torch.allclose(grad(iterations=0, gamma=ESTIMATED), grad(), atol=1e-12)
    assert not torch.allclose(grad(iterations=0), grad(), rtol=0.1)


def test_every_member_has_the_steps_of_adam_with_its_own_rate_and_clipping():
    net = together(MADE["pre"], [3, 4])
    ones = [together(MADE["pre"], [seed]) for seed in (3, 4)]
    rates, optimizer = (1e-2, 1e-3), MemberAdam(net, torch.tensor([1e-2, 1e-3]))
    own = [torch.optim.Adam(one.parameters(), lr=rate, betas=(0.9, 0.99)) for one, rate in zip(ones, rates)]
    x = torch.randn(2, 2, 6, 6)
    for factor in (1.0, 0.5):
        (net(x).square().mean((0, 2, 3)) * torch.tensor([1.0, 20.0])).sum().backward()
        for i, (one, adam) in enumerate(zip(ones, own)):
            adam.zero_grad()
            (one(x[:, i : i + 1]).square().mean() * (1.0, 20.0)[i]).backward()
            nn.utils.clip_grad_norm_(one.parameters(), 1.0)
            adam.param_groups[0]["lr"] = factor * rates[i]
            adam.step()
        optimizer.step(factor)
    for name, p in net.named_parameters():
        whole = torch.cat([one.get_parameter(name) for one in ones])
        assert torch.allclose(p, whole, atol=1e-5), name


def test_a_small_run_leaves_its_numbers(tmp_path, capsys):
    config = study.Config(**{**vars(TINY), "output": tmp_path})
    results = study.run(config)
    gru = {r["arm"]: r for r in results["summary"] if r["network"] == "gru"}
    assert list(gru) == ["backprop", "k = 0", "k = 5", "fixed point, k = 0"]
    # as many sweeps as matter are exact: the same training, up to rounding; the other rules are not
    assert abs(gru["k = 5"]["difference"]) < 1e-5 and gru["k = 5"]["winner"] == "equivalent"
    assert np.allclose(gru["k = 5"]["cosine"], 1, atol=1e-6) and gru["k = 0"]["cosine"][0] < 1 - 1e-6
    assert gru["fixed point, k = 0"]["cosine"][0] < gru["k = 0"]["cosine"][0]
    rows = {(r["depth"], r["arm"]): r for r in results["summary"] if r["network"] != "gru"}
    arms = ["backprop", "k = 0", "k = 3", "fixed point, k = 2", "k = 1, γ*", "k = 1, γ = 0.5"]
    assert list(rows) == [
        *((4, arm) for arm in arms[:4]),
        (2, "backprop"),
        *((4, arm) for arm in arms[4:]),
    ]
    assert len(rows[4, "k = 3"]["errors"]) == 5 and rows[4, "k = 3"]["rate"] in config.rates
    assert rows[4, "k = 0"]["cosine"][0] < rows[4, "k = 3"]["cosine"][0]
    assert {(r["depth"], r["when"], r["k"]) for r in results["probes"]} == {
        *((4, when, k) for when in ("start", "end") for k in (0, 3)),
        *((2, when, 0) for when in ("start", "end")),
        *((6, when, k) for when in ("start", "end") for k in (0, 3)),
    }
    assert {p.name for p in (tmp_path / "figures").iterdir()} == {"errors.png", "cosines.png"}
    assert "claims of the paper" in capsys.readouterr().out
    again = study.run(config)  # from the cells
    assert again["summary"] == results["summary"]


def test_fewest_sweeps_hold_for_every_larger_number_too():
    def row(k, winner):
        return {"network": "n", "depth": 8, "gamma": 0.0, "iterations": k, "winner": winner}

    rows = [row(0, "equivalent"), row(1, "second"), row(2, "equivalent"), row(4, "first")]
    assert report.enough(rows)[0]["k"] == 2
    assert report.enough([*rows, row(8, "undecided")])[0]["k"] is None


def test_a_training_that_diverged_is_said_so():
    members = [{"seed": s, "test": 1.0 + s} for s in range(5)]
    base = {"network": "transformer", "depth": 2, "iterations": None, "gamma": 0.0, "rate": 1.0, "parameters": 3}
    base |= {"arm": "backprop", "members": members, "choice": [{"rate": 1.0}], "looks": []}
    gone = base | {"arm": "k = 0", "iterations": 0, "members": [*members[:4], {"seed": 4, "test": math.inf}]}
    assert report.summary([base, gone])[1]["shown"] == "a training diverged"


def test_costs_are_of_the_step_that_is_asked_for():
    calls = [costs.step(name, 2, 4, 2, k) for name in ("resnet, post", "transformer") for k in (None, 1)]
    assert all(call() is None for call in calls)


def test_refusals(tmp_path):
    with pytest.raises(ValueError, match="--networks unet: expected some of 'resnet, pre'"):
        study.run(study.Config(networks=("unet",), output=tmp_path))
    with pytest.raises(ValueError, match="--share-networks gru: expected some of 'resnet, pre'"):
        study.run(study.Config(share_networks=("gru",), output=tmp_path))
    with pytest.raises(ValueError, match="γ 'estimated' over time: expected a number"):
        over_time.way_back(Arm(1, "estimated"))
    assert Arm(None).name == "backprop" and Arm(4, 1.0).name == "fixed point, k = 4"
