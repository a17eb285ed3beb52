"""Preference losses against TRL's formulas written out, and the identities that they are known to have."""

import hashlib
import math

import numpy as np
import pytest
import torch
from torch import nn

from sciops.grids import Grid
from sciops.models import LanguageModel
from sciops.training import TrainConfig, fit
from sciops.training.preference import (
    PREFERENCE_LOSSES,
    Batches,
    FieldPairs,
    FieldPreference,
    PreferenceOptions,
    Ratios,
    TokenPairs,
    TokenPreference,
    preference_loss,
    sequence_log_probability,
    token_pairs,
)

LOGP = np.array([[-3.2, -14.0, -0.4, -40.0], [-5.1, -13.0, -0.4, -2.0]])  # chosen, rejected under the model
REFERENCE = np.array([[-3.0, -16.0, -0.4, -30.0], [-4.0, -12.0, -0.4, -6.0]])
LENGTHS = np.array([[3.0, 5.0, 1.0, 9.0], [4.0, 2.0, 1.0, 9.0]])


def log_sigmoid(x):
    return -math.log1p(math.exp(-x)) if x > 0 else x - math.log1p(math.exp(x))


def sigmoid(x):
    return 1 / (1 + math.exp(-x)) if x > 0 else math.exp(x) / (1 + math.exp(x))


def by_hand(loss_type, c, r, n, m, beta, eps):
    """(loss, dloss/dc, dloss/dr) of one pair."""
    h = c - r
    if loss_type == "sigmoid":
        loss = -(1 - eps) * log_sigmoid(beta * h) - eps * log_sigmoid(-beta * h)
        d = beta * (-(1 - eps) * sigmoid(-beta * h) + eps * sigmoid(beta * h))
        return loss, d, -d
    if loss_type == "robust":
        loss = (-(1 - eps) * log_sigmoid(beta * h) + eps * log_sigmoid(-beta * h)) / (1 - 2 * eps)
        d = beta * (-(1 - eps) * sigmoid(-beta * h) - eps * sigmoid(beta * h)) / (1 - 2 * eps)
        return loss, d, -d
    if loss_type == "hinge":
        d = -beta if beta * h < 1 else 0.0
        return max(0.0, 1 - beta * h), d, -d
    if loss_type == "ipo":
        gap = c / n - r / m - 1 / (2 * beta)
        return gap**2, 2 * gap / n, -2 * gap / m
    if loss_type == "sigmoid_norm":
        d = -beta * sigmoid(-beta * (c / n - r / m))
        return -log_sigmoid(beta * (c / n - r / m)), d / n, -d / m
    slope = lambda x: sigmoid(x) * sigmoid(-x)  # noqa: E731
    if loss_type == "apo_zero":
        loss = (1 - sigmoid(beta * c)) + sigmoid(beta * r)
        return loss, -beta * slope(beta * c), beta * slope(beta * r)
    assert loss_type == "apo_down"
    loss = sigmoid(beta * c) + (1 - sigmoid(beta * h))
    return loss, beta * (slope(beta * c) - slope(beta * h)), beta * slope(beta * h)


@pytest.mark.parametrize("eps", [0.0, 0.2])
@pytest.mark.parametrize("beta", [0.1, 1.5])
@pytest.mark.parametrize("loss_type", PREFERENCE_LOSSES)
def test_values_and_gradients_are_those_written_out(loss_type, beta, eps):
    if eps and loss_type not in ("sigmoid", "robust"):
        with pytest.raises(ValueError, match=f"does nothing to loss_type='{loss_type}'"):
            PreferenceOptions(loss_type=loss_type, label_smoothing=eps)
        return
    ratio = torch.from_numpy(LOGP - REFERENCE).requires_grad_()
    loss = preference_loss(
        Ratios(*ratio, *torch.from_numpy(LENGTHS)),
        PreferenceOptions(loss_type=loss_type, beta=beta, label_smoothing=eps),
    )
    loss.sum().backward()
    expected = np.array(
        [by_hand(loss_type, *(LOGP - REFERENCE)[:, i], *LENGTHS[:, i], beta, eps) for i in range(LOGP.shape[1])]
    )
    np.testing.assert_allclose(loss.detach().numpy(), expected[:, 0], rtol=1e-13, atol=1e-15)
    np.testing.assert_allclose(ratio.grad.numpy(), expected[:, 1:].T, rtol=1e-12, atol=1e-15)


def at(h, **options):
    return preference_loss(
        Ratios(torch.tensor([h], dtype=torch.float64), torch.zeros(1).double()), PreferenceOptions(**options)
    )


def test_a_flipped_preference_has_the_complementary_probability():
    for h in (-7.0, 0.3, 20.0):
        assert float((-at(h)).exp() + (-at(-h)).exp()) == pytest.approx(1, abs=1e-14)
    assert float(at(0.0)) == pytest.approx(math.log(2), abs=1e-15)


def test_robust_dpo_is_unbiased_under_flips_and_conservative_dpo_has_a_finite_margin():
    eps = 0.15
    for h in (-3.0, 0.0, 11.0):
        robust = [float(at(s * h, loss_type="robust", label_smoothing=eps)) for s in (1, -1)]
        assert (1 - eps) * robust[0] + eps * robust[1] == pytest.approx(float(at(h)), rel=1e-12)
    best = torch.tensor([math.log((1 - eps) / eps) / 0.1], dtype=torch.float64, requires_grad=True)
    options = PreferenceOptions(label_smoothing=eps)
    preference_loss(Ratios(best, torch.zeros(1).double()), options).sum().backward()
    assert float(best.grad) == pytest.approx(0, abs=1e-16)


def test_the_optimum_of_two_outputs_is_the_tilted_reference():
    """Preferences of a Bradley–Terry model with rewards r: DPO ends at p* ∝ p_ref exp(r/β); IPO at a gap of 1/(2β)."""
    beta, reward = 0.4, torch.tensor([0.9, -0.3], dtype=torch.float64)
    p_ref = torch.tensor([0.3, 0.7], dtype=torch.float64)
    wanted = p_ref * (reward / beta).exp()
    z = (wanted / wanted.sum()).log().requires_grad_()
    ratio = z.log_softmax(0) - p_ref.log()
    first = torch.sigmoid(reward[0] - reward[1])  # probability that the first output is preferred
    options = PreferenceOptions(beta=beta)
    pair = [Ratios(ratio[i : i + 1], ratio[1 - i : 2 - i]) for i in (0, 1)]
    (first * preference_loss(pair[0], options) + (1 - first) * preference_loss(pair[1], options)).sum().backward()
    assert z.grad.abs().max() < 1e-15
    z = torch.zeros(2, dtype=torch.float64, requires_grad=True)
    for _ in range(200):
        ratio = z.log_softmax(0) - p_ref.log()
        loss = preference_loss(Ratios(ratio[:1], ratio[1:]), PreferenceOptions(loss_type="ipo", beta=beta)).sum()
        z = (z - 0.1 * torch.autograd.grad(loss, z)[0]).detach().requires_grad_()
    gap = float((z.detach().log_softmax(0) - p_ref.log()).diff().neg())
    assert gap == pytest.approx(1 / (2 * beta), rel=1e-12)


# --- texts


def language(seed=0, **options):
    torch.manual_seed(seed)
    return LanguageModel(7, **{"width": 8, "depth": 1, "positions": "sinusoidal", **options}).double()


PROMPTS, CHOSEN, REJECTED = [[1, 2], [3]], [[4, 5, 6], [2, 6]], [[5, 6], [1, 1, 1, 6]]


def gradients(model):
    return torch.cat([p.grad.flatten() for p in model.parameters()])


def log_p(model, prompt, text):
    """Sum over the tokens of a text, one at a time."""
    total = 0.0
    for t, token in enumerate(text):
        logits = model(torch.tensor([[*prompt, *text[:t]]]))[0, -1]
        total = total + logits.log_softmax(-1)[token]
    return total


def test_log_probabilities_are_sums_over_the_tokens_of_the_texts_alone():
    model, pairs = language(), token_pairs(PROMPTS, CHOSEN, REJECTED)
    expected = torch.stack(
        [torch.stack([log_p(model, p, t) for p, t in zip(PROMPTS, side)]) for side in (CHOSEN, REJECTED)]
    )
    objective = TokenPreference(language(1))
    found = objective.log_probabilities(model, pairs)
    torch.testing.assert_close(found, expected, rtol=1e-13, atol=0)
    assert objective.lengths(pairs).tolist() == [[3, 2], [2, 4]]
    # other padding, and other targets at the prompt's places, change nothing
    padded = token_pairs(PROMPTS, CHOSEN, REJECTED, padding=5)
    assert not torch.equal(padded.tokens, pairs.tokens)
    torch.testing.assert_close(objective.log_probabilities(model, padded), found, rtol=1e-14, atol=0)
    # a sequence twice over has twice the log-probability of equal tokens
    logits = torch.randn(1, 1, 7, dtype=torch.float64)
    once = sequence_log_probability(logits, torch.tensor([[3]]))
    torch.testing.assert_close(
        sequence_log_probability(logits.expand(1, 2, 7), torch.tensor([[3, 3]])), 2 * once, rtol=1e-15, atol=0
    )


def test_at_the_reference_the_loss_is_log_2_and_the_gradient_half_beta_times_the_difference():
    model, pairs = language(dropout=0.5).train(), token_pairs(PROMPTS[:1], CHOSEN[:1], REJECTED[:1])
    objective = TokenPreference(model, beta=0.3)
    loss = objective(model, pairs)
    assert float(loss.detach()) == math.log(2)  # exactly: dropout is off in both
    assert model.training and model.dropout.training
    loss.backward()
    found = gradients(model)
    model.zero_grad()
    model.eval()
    (-0.15 * (log_p(model, PROMPTS[0], CHOSEN[0]) - log_p(model, PROMPTS[0], REJECTED[0]))).backward()
    torch.testing.assert_close(found, gradients(model), rtol=1e-11, atol=1e-14)
    # equal texts teach nothing; the gradient is proportional to a small β
    model.zero_grad()
    objective(model, token_pairs(PROMPTS, CHOSEN, CHOSEN)).backward()
    assert gradients(model).abs().max() < 1e-16
    small = []
    moved = language(3)
    for beta in (1e-6, 2e-6):
        moved.zero_grad()
        TokenPreference(model, beta=beta)(moved, pairs).backward()
        small.append(gradients(moved))
    torch.testing.assert_close(small[1], 2 * small[0], rtol=1e-5, atol=1e-14)


def test_the_anchor_is_the_likelihood_of_the_preferred_text_a_token():
    model, pairs = language(), token_pairs(PROMPTS, CHOSEN, REJECTED)
    plain, anchored = TokenPreference(language(1)), TokenPreference(language(1), rpo_alpha=0.7)
    with torch.no_grad():
        nll = -(plain.log_probabilities(model, pairs)[0] / torch.tensor([3.0, 2.0])).mean()
        torch.testing.assert_close(anchored(model, pairs), plain(model, pairs) + 0.7 * nll, rtol=1e-14, atol=0)


def digest(model):
    return hashlib.sha256(b"".join(p.detach().numpy().tobytes() for p in model.state_dict().values())).hexdigest()


def test_fit_raises_the_margin_and_leaves_the_reference_alone():
    model, pairs = language(), token_pairs(PROMPTS, CHOSEN, REJECTED)
    objective = TokenPreference(model, rpo_alpha=0.2)
    before = digest(objective.reference)
    known = objective.with_reference(pairs, batch_size=1)
    torch.testing.assert_close(known.reference, objective.log_probabilities(model, pairs), rtol=1e-13, atol=0)
    config = TrainConfig(steps=15, epochs=1, learning_rate=1e-2, schedule="constant", device="cpu", progress=False)
    fit(model, Batches(known, batch_size=2, seed=0), config, loss=TokenPreference(rpo_alpha=0.2))
    assert digest(objective.reference) == before != digest(model)
    ratios = objective.log_ratios(model, pairs)
    assert (ratios.margin > 0.5).all() and (ratios.chosen > 0).all()


def test_batches_are_functions_of_the_step_and_see_every_pair_once_an_epoch():
    pairs = TokenPairs(torch.arange(7).expand(2, 7)[..., None], torch.zeros(2, 7, 1, dtype=torch.int64))
    batches = Batches(pairs, batch_size=3, seed=4)
    seen = [batches(step).tokens[0, :, 0].tolist() for step in range(4)]
    assert seen == [Batches(pairs, batch_size=3, seed=4)(step).tokens[0, :, 0].tolist() for step in range(4)]
    assert len({*seen[0], *seen[1]}) == 6 and len({*seen[2], *seen[3]}) == 6 and seen[:2] != seen[2:]
    assert len(Batches(pairs, batch_size=99, seed=0)(0)) == 7


def test_a_rejected_text_is_cut_to_the_length_of_the_preferred_one():
    pairs = token_pairs(PROMPTS, CHOSEN, REJECTED, cut=True)
    assert TokenPreference().lengths(pairs).tolist() == [[3, 2], [2, 2]]


# --- fields


class Point(nn.Module):
    """A field that is its own parameter, for every input."""

    def __init__(self, field):
        super().__init__()
        self.field = nn.Parameter(field.clone())

    def forward(self, x):
        return self.field.expand(len(x), *self.field.shape)


GRID = Grid((5, 4))


def fields(samples=2, seed=0):
    generator = torch.Generator().manual_seed(seed)
    x, chosen, rejected = torch.randn(3, samples, 1, 5, 4, generator=generator, dtype=torch.float64)
    return FieldPairs(x, chosen, rejected, GRID)


def test_the_margin_of_gaussian_fields_is_linear_in_the_prediction():
    pairs, sigma = fields(), 0.6
    model, reference = (Point(torch.randn(1, 5, 4, dtype=torch.float64)) for _ in range(2))
    objective = FieldPreference(reference, deviation=sigma, beta=2.0)
    h = objective.log_ratios(model, pairs).margin
    expected = ((model.field - reference.field) * (pairs.chosen - pairs.rejected)).mean((1, 2, 3)) / sigma**2
    torch.testing.assert_close(h, expected, rtol=1e-12, atol=1e-14)
    # the loss is that of the formulas, on the same ratios
    loss = objective(model, pairs)
    anchor = ((model.field - pairs.chosen) ** 2).mean() / (2 * sigma**2)
    torch.testing.assert_close(loss, -torch.log(torch.sigmoid(2 * h)).mean() + anchor, rtol=1e-12, atol=0)


def descended(objective, pairs, start, rate, steps):
    model, path = Point(start), []
    for _ in range(steps):
        model.zero_grad()
        objective(model, pairs).backward()
        with torch.no_grad():
            model.field -= rate * model.field.grad
        path.append(model.field.detach().clone())
    return path


def test_ipo_moves_a_field_by_the_length_of_the_formula_and_no_further():
    pairs, sigma, beta = fields(1), 0.5, 0.8
    start = torch.zeros(1, 5, 4, dtype=torch.float64)
    objective = FieldPreference(Point(start), deviation=sigma, loss_type="ipo", beta=beta, rpo_alpha=0.0)
    gap = (pairs.chosen - pairs.rejected)[0]
    size = gap.square().mean().sqrt()
    moved = descended(objective, pairs, start, 0.4 * 20 * sigma**4 / float(size) ** 2, 80)[-1]
    torch.testing.assert_close(moved, sigma**2 / (2 * beta * size) * gap / size, rtol=1e-9, atol=1e-12)


def test_dpo_alone_does_not_stop_and_with_an_anchor_it_ends_beyond_the_truth():
    """One number: s = βh obeys ds/dt = k σ(−s), hence s + e^s − 1 = k t: first linear, then logarithmic in t."""
    one = torch.ones(1, 1, 1, 1, dtype=torch.float64)
    pairs, sigma, beta, rate = FieldPairs(one, 0.2 * one, -0.4 * one), 0.7, 1.5, 8e-3
    free = FieldPreference(Point(0 * one[0]), deviation=sigma, beta=beta, rpo_alpha=0.0)
    path = torch.stack(descended(free, pairs, 0 * one[0], rate, 700)).flatten()
    s = beta * path * 0.6 / sigma**2
    k = rate * (beta * 0.6 / sigma**2) ** 2
    t = torch.arange(1, len(s) + 1).double()
    torch.testing.assert_close(s + s.exp() - 1, k * t, rtol=0.01, atol=0)
    assert path[-1] > 4 * 0.2 and (path.diff() > 0).all()  # far beyond the truth, 0.2, and still moving
    kappa = 2.0
    anchored = FieldPreference(Point(0 * one[0]), deviation=sigma, beta=beta, rpo_alpha=kappa)
    end = float(descended(anchored, pairs, 0 * one[0], 0.1, 80)[-1])
    h = end * 0.6 / sigma**2
    assert end == pytest.approx(0.2 + beta / kappa * sigmoid(-beta * h) * 0.6, abs=1e-12)
    assert 0.2 < end < 0.2 + beta / kappa * 0.6


def test_a_hinge_without_a_reference_is_the_triplet_loss_of_squared_errors():
    pairs, sigma, beta = fields(3), 0.9, 0.7
    model = Point(torch.randn(1, 5, 4, dtype=torch.float64))
    options = {"loss_type": "hinge", "beta": beta, "rpo_alpha": 0.0, "reference_free": True}
    found = FieldPreference(deviation=sigma, **options)(model, pairs)
    good, bad = (((model.field - u) ** 2).mean((1, 2, 3)) for u in (pairs.chosen, pairs.rejected))
    margin = 2 * sigma**2 / beta
    expected = (margin + good - bad).relu().mean() * beta / (2 * sigma**2)
    torch.testing.assert_close(found, expected, rtol=1e-13, atol=0)


def test_fields_in_half_precision_have_losses_in_single():
    pairs = fields()
    half = FieldPairs(pairs.x.half(), 300 * pairs.chosen.half(), 300 * pairs.rejected.half(), GRID)
    model = Point(torch.zeros(1, 5, 4).half())
    loss = FieldPreference(model, deviation=300.0)(model, half)
    assert loss.dtype == torch.float32 and torch.isfinite(loss)


# --- wrong inputs


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: PreferenceOptions(loss_type="dpo"), "loss_type='dpo': expected one of sigmoid, robust"),
        (lambda: PreferenceOptions(beta=float("nan")), "beta=nan: expected a positive number"),
        (lambda: PreferenceOptions(label_smoothing=0.5), "label_smoothing=0.5: expected the share"),
        (lambda: PreferenceOptions(rpo_alpha=-1), "rpo_alpha=-1: expected a number of at least 0"),
        (lambda: TokenPreference(language(), reference_free=True), "pass None"),
        (lambda: TokenPreference()(language(), token_pairs(PROMPTS, CHOSEN, REJECTED)), "has no reference"),
        (lambda: FieldPreference(deviation=0), "deviation=0: expected a positive number"),
        (lambda: FieldPreference(deviation=1, loss_type="sigmoid_norm"), "for fields pass 'sigmoid'"),
        (lambda: token_pairs(PROMPTS, CHOSEN[:1], REJECTED), "2 prompts, 1 preferred and 2 rejected"),
        (lambda: token_pairs([], [], []), "at least one"),
        (lambda: token_pairs([[1], []], CHOSEN, REJECTED), "the prompt of pair 1 is empty"),
        (lambda: token_pairs(PROMPTS, CHOSEN, [[1], []]), "the rejected text of pair 1 is empty"),
        (lambda: TokenPairs(torch.zeros(3, 4), torch.zeros(3, 4)), "token_pairs makes them"),
        (lambda: FieldPairs(torch.zeros(2, 1, 4), torch.zeros(2, 1, 4), torch.zeros(1, 1, 4)), "as many of each"),
        (lambda: FieldPairs(*torch.zeros(3, 2, 1, 4, 5), GRID), "expected its last axes to be the grid"),
        (lambda: Batches(fields(), batch_size=0, seed=0), "batch_size=0 of 2 samples"),
        (lambda: preference_loss(Ratios(torch.zeros(2), torch.zeros(3))), "log-ratios of shapes"),
        (
            lambda: FieldPreference(Point(torch.zeros(2, 5, 4)), deviation=1)(Point(torch.zeros(2, 5, 4)), fields()),
            "set out_channels",
        ),
    ],
)
def test_wrong_inputs_are_refused_in_one_line(call, said):
    with pytest.raises(ValueError, match=said) as error:
        call()
    assert "\n" not in str(error.value)


def test_an_unknown_option_names_the_nearest():
    with pytest.raises(TypeError, match="did you mean 'beta'"):
        TokenPreference(betta=1.0)
