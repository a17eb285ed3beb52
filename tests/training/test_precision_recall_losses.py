"""Weighted likelihoods: gradients against naive weights in float64, options, fixed points, padding, fields."""

from __future__ import annotations

import math
from dataclasses import fields

import numpy as np
import pytest
import torch

from sciops.training.objectives import OBJECTIVES, PRECISION_RECALL, token_cross_entropy
from sciops.training.objectives.precision_recall import LIKELIHOODS, WEIGHTINGS, LossQuantile, read_objective

P = np.array([0.5, 0.3, 0.15, 0.05])


def drawn(batch: int = 5, n: int = 4, symbols: int = 6, *, padded: bool = True):
    """Logits and targets, with a sequence that ends early and one without targets."""
    random = np.random.default_rng(0)
    z = torch.from_numpy(2 * random.standard_normal((batch, n, symbols)))
    w = torch.from_numpy(random.integers(0, symbols, (batch, n)))
    if padded:
        w[1, 2:], w[3] = -100, -100
    return z, w


def gradient(name: str, z: torch.Tensor, w: torch.Tensor, **options) -> torch.Tensor:
    z = z.clone().requires_grad_()
    PRECISION_RECALL[name](z, w, **options).sum().backward()
    return z.grad


def naive_weights(name: str, q: np.ndarray, asked: np.ndarray, o: dict, p: np.ndarray | None = None) -> np.ndarray:
    """The weights of the card, one target at a time; p: likelihoods by a fixed model."""
    if name in ("truncation", "truncation_recall"):
        rows = [i for i in range(len(q)) if asked[i].any()]
        mean = {i: -np.log(q[i][asked[i]]).mean() for i in rows}
        order = sorted(rows, key=lambda i: -mean[i] if name == "truncation" else mean[i])
        dropped = order[: math.floor(o["drop"] * len(rows))]
        return np.array([[0.0 if i in dropped else 1.0] * q.shape[1] for i in range(len(q))])
    w = np.zeros_like(q)
    for i, t in np.argwhere(asked):
        x = q[i, t]
        if name == "nll":
            w[i, t] = 1
        elif name == "tailr":
            w[i, t] = max(o["least"], x / (o["gamma"] + (1 - o["gamma"]) * x))
        elif name == "tailr_recall":
            w[i, t] = max(o["least"], o["gamma"] / (o["gamma"] + (1 - o["gamma"]) * x))
        elif name == "power":
            w[i, t] = min(o["largest"], x ** o["exponent"])
        elif name == "focal":
            g = o["exponent"]
            w[i, t] = (1 - x) ** g - g * x * (1 - x) ** (g - 1) * np.log(x)
        elif name == "lambda_pr":
            density = o["gamma"] + (1 - o["gamma"]) * x if p is None else p[i, t]
            w[i, t] = x / density if x <= o["lam"] * density else 0
        elif name == "gold":
            total = 0.0
            for k in range(o["suffix"] + 1):
                inside = t + k < q.shape[1] and asked[i, t + k]
                ahead = (p if p is not None else q)[i, t + k] if inside else 1.0
                reward = ahead if o["reward"] == "sum" else np.log(ahead) - o["baseline"]
                total += o["discount"] ** k * max(reward, o["reward_floor"])
            w[i, t] = max(o["least"], x) * (1 if o["reward"] == "none" else total)
    return w


CASES = [
    ("nll", {}),
    ("truncation", {"drop": 0.5}),
    ("truncation_recall", {"drop": 0.5}),
    ("gold", {}),
    ("gold", {"reward": "sum", "suffix": 2, "discount": 0.5, "reward_floor": 0.05}),
    ("gold", {"reward": "log", "least": 0.0, "baseline": -3.0}),
    ("tailr", {"gamma": 0.2}),
    ("tailr", {"gamma": 0.5, "least": 0.3}),
    ("tailr", {"gamma": 1.0}),
    ("tailr_recall", {"gamma": 0.2, "least": 0.4}),
    ("power", {"exponent": 0.7}),
    ("power", {"exponent": -0.7, "largest": 3.0}),
    ("focal", {"exponent": 2.0}),
    ("focal", {"exponent": 0.5}),
    ("lambda_pr", {"lam": 0.6, "gamma": 0.2}),
    ("lambda_pr", {"lam": 3.0, "gamma": 0.2}),
]


def complete(name: str, options: dict) -> dict:
    made = WEIGHTINGS[name](**options)
    return {field.name: getattr(made, field.name) for field in fields(made)}


@pytest.mark.parametrize(("name", "options"), CASES)
def test_the_gradient_is_that_of_the_weighted_likelihood(name, options):
    z, w = drawn()
    asked = (w != -100).numpy()
    softmax = z.softmax(-1).numpy()
    onehot = np.eye(z.shape[-1])[w.clamp(min=0).numpy()]
    q = (softmax * onehot).sum(-1)
    weights = naive_weights(name, q, asked, complete(name, options)) * asked
    count = np.maximum(asked.sum(1), 1)
    expected = (weights / count[:, None])[..., None] * (softmax - onehot)
    np.testing.assert_allclose(gradient(name, z, w, **options).numpy(), expected, rtol=1e-12, atol=1e-15)
    value = PRECISION_RECALL[name](z, w, **options).numpy()
    if name not in ("power", "focal"):
        np.testing.assert_allclose(value, (-weights * np.log(q)).sum(1) / count, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize(("name", "options"), [case for case in CASES if case[0] in ("power", "focal", "nll")])
def test_losses_without_stopped_gradients_are_their_own_derivatives(name, options):
    z, w = drawn(3, 2, 4, padded=False)
    assert torch.autograd.gradcheck(lambda z: PRECISION_RECALL[name](z, w, **options), (z.requires_grad_(),))


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("nll", {}),
        ("tailr", {"gamma": 0.0}),
        ("tailr_recall", {"gamma": 1.0}),
        ("power", {"exponent": 0.0}),
        ("power", {"exponent": 1e-9}),
        ("power", {"exponent": -1e-300}),
        ("focal", {"exponent": 0.0}),
        ("truncation", {"drop": 0.0}),
        ("truncation", {"threshold": 1e9}),
        ("truncation_recall", {"drop": 0.0}),
        ("lambda_pr", {"lam": 1.0, "gamma": 0.0}),
    ],
)
def test_the_neutral_setting_is_the_likelihood(name, options):
    z, w = drawn()
    plain = z.clone().requires_grad_()
    loss = token_cross_entropy(plain, w)
    loss.sum().backward()
    found = PRECISION_RECALL[name](z, w, **options)
    exact = name != "power" or options["exponent"] == 0
    torch.testing.assert_close(found, loss.detach(), rtol=0 if exact else 1e-8, atol=0)
    torch.testing.assert_close(gradient(name, z, w, **options), plain.grad, rtol=1e-15 if exact else 1e-8, atol=1e-16)


OPTIONS = {
    "truncation": [("drop", {"drop": 0.3}, {"drop": 0.6}), ("threshold", {"threshold": 2.0}, {"threshold": 3.0})],
    "truncation_recall": [
        ("drop", {"drop": 0.3}, {"drop": 0.6}),
        ("threshold", {"threshold": 2.0}, {"threshold": 3.0}),
    ],
    "gold": [
        ("least", {"least": 0.1}, {"least": 0.4}),
        ("reward", {"reward": "sum"}, {"reward": "log"}),
        ("suffix", {"reward": "sum", "suffix": 1}, {"reward": "sum", "suffix": 2}),
        ("discount", {"reward": "sum", "discount": 0.5}, {"reward": "sum"}),
        ("baseline", {"reward": "log", "baseline": -2.0}, {"reward": "log", "baseline": -4.0}),
        ("reward_floor", {"reward": "sum", "reward_floor": 0.0}, {"reward": "sum", "reward_floor": 0.5}),
    ],
    "tailr": [("gamma", {"gamma": 0.1}, {"gamma": 0.3}), ("least", {"gamma": 0.5}, {"gamma": 0.5, "least": 0.4})],
    "tailr_recall": [
        ("gamma", {"gamma": 0.1}, {"gamma": 0.3}),
        ("least", {"gamma": 0.1}, {"gamma": 0.1, "least": 0.6}),
    ],
    "power": [
        ("exponent", {"exponent": -0.5}, {"exponent": 0.5}),
        ("largest", {"exponent": -0.9}, {"exponent": -0.9, "largest": 2.0}),
    ],
    "focal": [("exponent", {"exponent": 1.0}, {"exponent": 2.0})],
    "lambda_pr": [("lam", {"lam": 0.3}, {"lam": 0.6}), ("gamma", {"gamma": 0.1}, {"gamma": 0.3})],
}


def test_every_option_of_every_loss_changes_the_gradient():
    z, w = drawn()
    for name, kind in WEIGHTINGS.items():
        listed = OPTIONS.get(name, [])
        assert {option for option, *_ in listed} == {field.name for field in fields(kind)}, name
        for option, first, second in listed:
            a, b = (gradient(name, z, w, **options) for options in (first, second))
            assert (a - b).abs().max() > 1e-3 * a.abs().max(), (name, option)


def test_every_option_of_every_likelihood_changes_the_gradient():
    y = torch.linspace(-1, 1, 12, dtype=torch.float64).view(2, 1, 6)
    base = {"bins": {"bins": 3, "low": -2.0, "high": 2.0}, "gaussian": {}}
    other = {"bins": 6, "low": -0.5, "high": 0.5, "floor": 0.7}
    z = torch.randn(2, 6, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    for name, kind in LIKELIHOODS.items():
        for field in fields(kind):
            options = [base[name], base[name] | {field.name: other[field.name]}]
            channels = [z[:, : o.get("bins", 2)] for o in options]
            a, b = (gradient("nll", x, y, likelihood=name, **o) for x, o in zip(channels, options))
            assert a.shape != b.shape or (a - b).abs().max() > 1e-3, (name, field.name)


def stationary(name: str, steps: int = 120, **options) -> np.ndarray:
    """Where natural gradient descent on four logits ends that see tokens of the law P, in units of Σ p_i w_i."""
    z = torch.zeros(4, dtype=torch.float64)
    w, p = torch.arange(4).view(4, 1), torch.from_numpy(P)
    for _ in range(steps):
        x = z.expand(4, 1, 4).clone().requires_grad_()
        (PRECISION_RECALL[name](x, w, **options) @ p).backward()
        q = z.softmax(0).clamp(min=1e-25)
        total = (-x.grad.squeeze(1).diagonal() / (1 - q).clamp(min=1e-12)).sum()  # Σ p_i w_i
        z = z - (0.4 * x.grad.sum((0, 1)) / (q * total)).nan_to_num(0).clamp(-1, 1)
    return z.softmax(0).numpy()


@pytest.mark.parametrize(
    ("name", "options", "expected"),
    [
        ("nll", {}, P),
        ("power", {"exponent": -1.0}, (0.3790, 0.2936, 0.2076, 0.1198)),
        ("power", {"exponent": -0.5}, (0.4211, 0.2995, 0.1887, 0.0907)),
        ("power", {"exponent": 0.3}, (0.5888, 0.2838, 0.1054, 0.0219)),
        ("power", {"exponent": 0.5}, (0.6849, 0.2466, 0.0616, 0.0068)),
        ("tailr", {"gamma": 1e-9}, P),
        ("tailr", {"gamma": 0.1}, (0.5906, 0.3099, 0.0994, 0.0)),
        ("tailr", {"gamma": 0.5, "steps": 260}, (0.875, 0.125, 0.0, 0.0)),
        ("tailr", {"gamma": 0.1, "least": 0.2}, (0.5841, 0.3060, 0.0974, 0.0125)),
        ("tailr", {"gamma": 0.5, "least": 0.2}, (0.8182, 0.1091, 0.0545, 0.0182)),
        ("focal", {"exponent": 1.0}, (0.4557, 0.3172, 0.1713, 0.0558)),
        ("focal", {"exponent": 2.0}, (0.4204, 0.3192, 0.1934, 0.0670)),
        ("focal", {"exponent": 5.0}, (0.3587, 0.3031, 0.2259, 0.1123)),
    ],
)
def test_fixed_points_on_a_categorical_law(name, options, expected):
    """TaiLr's at γ = 0.1 and 0.5 are the exact ones, q_i = max(0, (p_i/S − γ)/(1 − γ)); plain descent is slow there."""
    np.testing.assert_allclose(stationary(name, **options), expected, atol=6e-5)


def test_fixed_points_by_their_formulas():
    for c in (-1.0, -0.5, 0.3, 0.5):
        q = P ** (1 / (1 - c))
        np.testing.assert_allclose(stationary("power", exponent=c), q / q.sum(), rtol=1e-9)
    for name, options in (("focal", {"exponent": 2.0}), ("tailr_recall", {"gamma": 0.2})):
        q = stationary(name, **options)
        w = naive_weights(name, q[None], np.ones((1, 4), bool), complete(name, options))[0]
        np.testing.assert_allclose(q, P * w / (P * w).sum(), rtol=1e-9)
        assert q[0] < P[0] and q[3] > P[3]
    wide = stationary("tailr_recall", gamma=1e-6)
    np.testing.assert_allclose(wide, np.sqrt(P) / np.sqrt(P).sum(), rtol=1e-4)
    assert stationary("tailr", gamma=1.0)[0] > 1 - 1e-6, "γ = 1 ends at the mode"


def test_planted_derivatives():
    """d/dq at q = 0.3: focal with g = 2, and the power loss with c = 0.7."""
    z = torch.tensor([[[0.3, 0.7]]], dtype=torch.float64).log()
    for name, options, expected in (("focal", {"exponent": 2.0}, -3.3189), ("power", {"exponent": 0.7}, -1.4350)):
        slope = gradient(name, z, torch.zeros(1, 1, dtype=torch.int64), **options)[0, 0, 0] / (0.3 * 0.7)
        assert float(slope) == pytest.approx(expected, abs=5e-5)


@pytest.mark.parametrize("lam", [0.3, 1.0, 2.5])
def test_lambda_pr_with_the_true_law_ascends_the_curve(lam):
    """E_p of its gradient is that of −α_λ = −Σ min(λp, q)."""
    p = torch.from_numpy(P)
    z = torch.tensor([0.3, -0.2, 0.5, 0.1], dtype=torch.float64, requires_grad=True)
    w = torch.arange(4).view(4, 1)
    loss = PRECISION_RECALL["lambda_pr"](z.expand(4, 1, 4), w, reference=p.log().view(4, 1), lam=lam) @ p
    (ours,) = torch.autograd.grad(loss, z)
    (exact,) = torch.autograd.grad(-torch.minimum(lam * p, z.softmax(0)).sum(), z)
    torch.testing.assert_close(ours, exact, rtol=1e-12, atol=1e-15)


def test_lambda_pr_has_many_optima_and_its_neighbours():
    w, p = torch.arange(4).view(4, 1), torch.from_numpy(P)
    uniform = torch.zeros(4, 1, 4, dtype=torch.float64)
    reference = p.log().view(4, 1)
    assert not gradient("lambda_pr", uniform, w, reference=reference, lam=0.3).any(), "q ≥ λp already: α = λ"
    assert torch.minimum(0.3 * p, torch.full((4,), 0.25)).sum() == pytest.approx(0.3 * 0.85 + 0.015 + 0.03)
    at_p = p.log().expand(4, 1, 4)
    found = gradient("lambda_pr", at_p, w, reference=reference, lam=1.0)
    expected = gradient("nll", at_p, w)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-15)  # q = p has all weights 1, the mean gradient 0
    z, t = drawn()
    for gamma in (0.05, 0.4, 1.0):
        for lam in (1.0, 4.0):
            ours, theirs = gradient("lambda_pr", z, t, lam=lam, gamma=gamma), gradient("tailr", z, t, gamma=gamma)
            torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-15)
    lam, gamma = 0.5, 0.2
    limit = lam * gamma / (1 - lam * (1 - gamma))  # from which on a token is not reinforced
    for q, dropped in ((limit - 1e-6, False), (limit + 1e-6, True)):
        z = torch.tensor([[[q, 1 - q]]], dtype=torch.float64).log()
        found = gradient("lambda_pr", z, torch.zeros(1, 1, dtype=torch.int64), lam=lam, gamma=gamma)
        assert bool(found.any()) != dropped


def test_rewards_of_a_fixed_model():
    z, w = drawn()
    other = torch.from_numpy(np.random.default_rng(5).standard_normal(z.shape))
    asked, index = (w != -100).numpy(), w.clamp(min=0).unsqueeze(-1)
    q, p = (x.softmax(-1).gather(-1, index).squeeze(-1).numpy() for x in (z, other))
    for options in ({"reward": "sum"}, {"reward": "log", "baseline": -2.0}):
        weights = naive_weights("gold", q, asked, complete("gold", options), p) * asked
        found = PRECISION_RECALL["gold"](z, w, reference=torch.from_numpy(np.log(p)), **options)
        np.testing.assert_allclose(found, (-weights * np.log(q)).sum(1) / np.maximum(asked.sum(1), 1), rtol=1e-12)


@pytest.mark.parametrize(("name", "options"), CASES)
def test_padding_is_not_seen_and_sequences_without_targets_are_not_counted(name, options):
    z, w = drawn()
    noisy = z.masked_fill((w == -100).unsqueeze(-1), torch.nan)
    assert torch.equal(gradient(name, noisy, w, **options), gradient(name, z, w, **options))
    found = PRECISION_RECALL[name](noisy, w, **options)
    assert found.isfinite().all() and found[3] == 0
    without = [0, 1, 2, 4]
    torch.testing.assert_close(PRECISION_RECALL[name](z[without], w[without], **options), found[without])


@pytest.mark.parametrize(("name", "options"), CASES)
def test_no_samples_half_precision_and_impossible_targets(name, options):
    loss = PRECISION_RECALL[name]
    none = torch.zeros(0, 3, 5, requires_grad=True)
    found = loss(none, torch.zeros(0, 3, dtype=torch.int64), **options)
    found.sum().backward()
    assert found.shape == (0,) and none.grad.shape == none.shape
    z, w = drawn()
    for dtype in (torch.float16, torch.bfloat16):
        half = z.to(dtype).requires_grad_()
        value = loss(half, w, **options)
        value.sum().backward()
        assert value.dtype == torch.float32 and half.grad.dtype == dtype and half.grad.isfinite().all()
        torch.testing.assert_close(value.double(), loss(half.detach().double(), w, **options), rtol=1e-5, atol=1e-5)
    far = torch.tensor([[[-60000.0, 60000.0]]], dtype=torch.float16, requires_grad=True)  # q = 0 even in float64
    value = loss(far, torch.zeros(1, 1, dtype=torch.int64), **options)
    value.sum().backward()
    assert value.isfinite().all() and far.grad.isfinite().all()
    bad = z.clone()
    bad[0, 0] = torch.nan
    assert loss(bad, w, **options)[0].isnan(), "a prediction that is NaN is not left out"


def test_weights_are_held_fixed_and_transforms_agree():
    z, w = drawn()
    likelihood, _ = read_objective("nll", {})
    for name, options in CASES:
        weighting = WEIGHTINGS[name](**options)
        scores = likelihood.scores(z.clone().requires_grad_(), w)
        assert not scores.log_share.requires_grad and not weighting.weights(scores).detach().requires_grad
        ours = torch.func.grad(lambda z, name=name, options=options: PRECISION_RECALL[name](z, w, **options).sum())(z)
        torch.testing.assert_close(ours, gradient(name, z, w, **options), rtol=1e-12, atol=1e-15)


def test_ties_are_kept_and_thresholds():
    z, w = drawn(4, 3, 5, padded=False)
    same = z[:1].expand(4, -1, -1), w[:1].expand(4, -1)
    assert torch.equal(PRECISION_RECALL["truncation"](*same, drop=0.5), token_cross_entropy(*same))
    losses = token_cross_entropy(z, w)
    limit = float(losses.sort().values[1])
    kept = PRECISION_RECALL["truncation"](z, w, threshold=limit)
    assert torch.equal(kept, torch.where(losses <= limit, losses, 0))
    kept = PRECISION_RECALL["truncation_recall"](z, w, threshold=limit)
    assert torch.equal(kept, torch.where(losses >= limit, losses, 0))


def test_a_quantile_of_the_latest_losses():
    follow = LossQuantile(0.25, size=8, every=4)
    losses = torch.arange(8.0)
    assert follow.update(losses[:5]) is None, "nothing is dropped before the buffer is full"
    assert follow.update(losses[5:]) == 5.0  # two of eight lie beyond
    assert follow.update(torch.full((2,), 100.0)) == 5.0, "not yet computed again"
    assert follow.update(torch.full((2,), 100.0)) == 100.0 and follow.threshold == 100.0
    assert LossQuantile(0.25, size=8, every=4, easiest=True).update(losses) == 2.0


def gaussian(name: str, start: tuple[float, float], steps: int = 120, **options) -> tuple[float, float]:
    """(mean, deviation) of one Gaussian that learns ½N(−1, 0.2²) + ½N(1, 0.2²), by quadrature."""
    u = torch.linspace(-2.2, 2.2, 221, dtype=torch.float64)
    p = sum(torch.exp(-((u - m) ** 2) / 0.08) for m in (-1, 1))
    x = torch.tensor([start[0], math.log(start[1])], dtype=torch.float64)
    for _ in range(steps):
        now = x.clone().requires_grad_()
        prediction = now.view(1, 2, 1).expand(221, 2, 1)
        loss = PRECISION_RECALL[name](prediction, u.view(221, 1, 1), likelihood="gaussian", **options)
        (loss @ (p / p.sum())).backward()
        sigma2 = float(torch.exp(2 * x[1]))
        step = 0.3 * now.grad * torch.tensor([sigma2, 0.5])  # natural gradient
        x = x - step.clamp(-0.3, 0.3)
    return float(x[0]), float(x[1].exp())


def test_precision_picks_a_mode_and_recall_widens():
    mean, wide = gaussian("nll", (0.8, 0.3))
    assert abs(mean) < 1e-3 and wide == pytest.approx(math.sqrt(1.04), rel=1e-3)
    mean, narrow = gaussian("power", (0.8, 0.3), exponent=0.7)
    assert mean == pytest.approx(1.0, abs=0.05) and narrow == pytest.approx(0.2 * math.sqrt(0.3), rel=0.1)
    mean, wider = gaussian("power", (0.8, 0.3), exponent=-0.5)
    assert abs(mean) < 1e-2 and wider > 1.005 * wide


def test_a_single_gaussian_has_the_temperature_of_the_exponent():
    u = torch.linspace(-8, 8, 801, dtype=torch.float64)
    p = torch.exp(-(u**2) / 2) / torch.exp(-(u**2) / 2).sum()
    for c in (-0.5, 0.5):
        prediction = torch.tensor([0.0, math.log(math.sqrt(1 - c))], dtype=torch.float64, requires_grad=True)
        options = {"exponent": c, "likelihood": "gaussian", **({"largest": 1e6} if c < 0 else {})}
        losses = PRECISION_RECALL["power"](prediction.view(1, 2, 1).expand(801, 2, 1), u.view(801, 1, 1), **options)
        (found,) = torch.autograd.grad(losses @ p, prediction)
        assert found.abs().max() < 1e-6


def test_fields_by_naive_formulas():
    random = np.random.default_rng(0)
    y = random.uniform(-1.2, 1.2, (3, 2, 4))
    z = random.standard_normal((3, 2 * 5, 4))
    expected = np.zeros(3)
    for i, c, x in np.ndindex(3, 2, 4):
        logits = z[i, 5 * c : 5 * c + 5, x]
        index = min(4, max(0, math.floor((y[i, c, x] + 1) / 0.4)))
        expected[i] -= (logits[index] - np.log(np.exp(logits).sum())) / 8
    made = {"likelihood": "bins", "bins": 5, "low": -1.0, "high": 1.0}
    found = PRECISION_RECALL["nll"](torch.from_numpy(z), torch.from_numpy(y), **made)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    mean, log_sigma = z[:, :2], z[:, 2:4]
    deviation = np.exp(2 * log_sigma) + 0.3**2
    density = np.exp(-((y - mean) ** 2) / (2 * deviation)) / np.sqrt(2 * np.pi * deviation)
    head = torch.from_numpy(z[:, :4])
    found = PRECISION_RECALL["nll"](head, torch.from_numpy(y), likelihood="gaussian", floor=0.3)
    np.testing.assert_allclose(found, -np.log(density).reshape(3, -1).mean(1), rtol=1e-12)
    weights = np.exp(-((y - mean) ** 2) / (2 * deviation))  # of the density over its largest value
    tailr = weights / (0.2 + 0.8 * weights)
    found = PRECISION_RECALL["tailr"](head, torch.from_numpy(y), likelihood="gaussian", floor=0.3, gamma=0.2)
    np.testing.assert_allclose(found, -(tailr * np.log(density)).reshape(3, -1).mean(1), rtol=1e-12)


@pytest.mark.parametrize(("name", "options"), [case for case in CASES if case[1].get("reward", "none") == "none"])
def test_weights_of_gaussian_fields_do_not_see_the_units(name, options):
    y, z = torch.randn(6, 1, 4, dtype=torch.float64), torch.randn(6, 2, 4, dtype=torch.float64)
    unit = 1e6
    scaled = torch.cat([unit * z[:, :1], z[:, 1:] + math.log(unit)], 1)
    a = gradient(name, z, y, likelihood="gaussian", **options)
    b = gradient(name, scaled, unit * y, likelihood="gaussian", **options)
    torch.testing.assert_close(
        b * torch.tensor([unit, 1.0], dtype=torch.float64).view(1, 2, 1), a, rtol=1e-9, atol=1e-12
    )


def test_samples_of_fields():
    generator = torch.Generator().manual_seed(0)
    bins, _ = read_objective("nll", {"likelihood": "bins", "bins": 4, "low": 0.0, "high": 2.0})
    z = torch.tensor([0.1, 0.2, 0.3, 0.4]).log().view(1, 4, 1).expand(20_000, 4, 1)
    assert bins.indices(torch.tensor([-9.0, 0.0, 0.49, 0.5, 1.99, 2.0, 9.0])).tolist() == [0, 0, 0, 1, 3, 3, 3]
    drawn_ = bins.sample(z, generator=generator)
    values, counts = drawn_.unique(return_counts=True)
    assert values.tolist() == [0.25, 0.75, 1.25, 1.75] and (counts / 20_000 - z[0, :, 0].exp()).abs().max() < 0.012
    cold = bins.sample(z, temperature=0.5, generator=generator)
    sharp = torch.tensor([0.1, 0.2, 0.3, 0.4]) ** 2
    assert (cold.unique(return_counts=True)[1] / 20_000 - sharp / sharp.sum()).abs().max() < 0.012
    assert (bins.sample(z[:3], temperature=0) == 1.75).all()
    normal, _ = read_objective("nll", {"likelihood": "gaussian"})
    head = torch.tensor([3.0, math.log(2.0)]).view(1, 2, 1).expand(20_000, 2, 1)
    for temperature in (1.0, 0.25):
        fields_ = normal.sample(head, temperature=temperature, generator=generator)
        assert float(fields_.mean()) == pytest.approx(3, abs=0.06)
        assert float(fields_.std()) == pytest.approx(2 * math.sqrt(temperature), rel=0.03)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        (
            "tailr",
            {"gama": 0.1},
            "objective 'tailr' with likelihood='tokens' has no option 'gama'; it takes gamma, least",
        ),
        ("tailr", {"gamma": 1.5}, r"gamma=1.5: expected a number in \[0, 1\]"),
        ("tailr", {"gamma": "large"}, "gamma='large': expected a number"),
        ("tailr", {"likelihood": "poisson"}, "likelihood='poisson': expected one of tokens, bins, gaussian"),
        ("tailr", {"bins": 4}, "has no option 'bins'"),
        ("nll", {"likelihood": "bins"}, "likelihood='bins': pass bins, a whole number"),
        ("nll", {"likelihood": "bins", "bins": 4, "low": 1.0, "high": 1.0}, "low below high"),
        ("power", {"exponent": 2.0}, "exponent=2.0: expected a finite number of at most 1"),
        ("power", {"exponent": 0.5, "largest": 3.0}, "largest=3.0 does nothing with exponent=0.5"),
        ("gold", {"suffix": 3}, "suffix=3 does nothing with reward='none'"),
        ("gold", {"reward": "sump"}, "reward='sump': expected one of none, sum, log"),
        ("truncation", {"drop": 1.0}, r"drop=1.0: expected a share in \[0, 1\)"),
        ("truncation", {"drop": 0.1, "threshold": 1.0}, "set one of them"),
        ("lambda_pr", {"lam": 0.0}, "lam=0.0: expected a positive number"),
        ("focal", {"exponent": -1.0}, "exponent=-1.0: expected a number of at least 0"),
        ("mse", {}, "objective 'mse': expected one of nll, truncation"),
    ],
)
def test_options_that_do_not_fit_are_refused_in_one_line(name, options, message):
    with pytest.raises(ValueError, match=message) as error:
        read_objective(name, options)
    assert "\n" not in str(error.value)


def test_arrays_that_do_not_fit_are_refused_in_one_line():
    z, w = drawn()
    field, head = torch.zeros(2, 1, 8), torch.zeros(2, 2, 8)
    for arguments, options, message in (
        ((z, w.T), {}, r"logits of shape \(5, 4, 6\) for targets of shape \(4, 5\)"),
        ((z, w), {"reference": torch.zeros(5, 3)}, "objective 'nll' takes no reference"),
        ((field, field), {"likelihood": "gaussian"}, r"expected \(batch, 2·channels, \*grid\)"),
        ((head, torch.zeros(2, 2, 8)), {"likelihood": "gaussian"}, r"likelihood='gaussian': expected \(2, 4, 8\)"),
        ((head, torch.zeros(2, 8)), {"likelihood": "gaussian"}, r"expected targets \(batch, channels, \*grid\)"),
        ((head, field), {"likelihood": "bins", "bins": 3, "low": 0.0, "high": 1.0}, "expected .batch, channels·3"),
    ):
        with pytest.raises(ValueError, match=message):
            PRECISION_RECALL["nll"](*arguments, **options)
    with pytest.raises(ValueError, match=r"reference has shape \(5, 3\): expected \(5, 4\)"):
        PRECISION_RECALL["lambda_pr"](z, w, reference=torch.zeros(5, 3))
    with pytest.raises(ValueError, match="gamma=0.3 does nothing with a reference"):
        PRECISION_RECALL["lambda_pr"](z, w, reference=torch.zeros(5, 4), gamma=0.3)
    with pytest.raises(ValueError, match="reward='none' uses no reference"):
        PRECISION_RECALL["gold"](z, w, reference=torch.zeros(5, 4))
    with pytest.raises(ValueError, match="for fields expected reward='none'"):
        PRECISION_RECALL["gold"](head, field, likelihood="gaussian", reward="sum")
    missing = field.clone()
    missing[0, 0, 0] = torch.nan
    for options in ({"likelihood": "gaussian"}, {"likelihood": "bins", "bins": 2, "low": 0.0, "high": 1.0}):
        found = PRECISION_RECALL["nll"](head, missing, **options)
        assert found.isnan().tolist() == [True, False]


def test_they_are_objectives():
    assert all(OBJECTIVES[name] is PRECISION_RECALL[name] for name in WEIGHTINGS)
