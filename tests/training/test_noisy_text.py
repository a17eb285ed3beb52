"""Texts with tokens of a blind model: their law, their independence of the prompt, and the states of both models."""

import pytest
import torch
from torch import nn

from sciops.models import LanguageModel, generate
from sciops.training.preference import noisy_generate


def language(seed, symbols=9, **options):
    torch.manual_seed(seed)
    model = LanguageModel(symbols, **{"width": 16, "depth": 2, "positions": "sinusoidal", **options}).double()
    for parameter in model.parameters():  # far from uniform probabilities
        parameter.data.mul_(8)
    return model


class Fixed(nn.Module):
    """The same probabilities after anything."""

    def __init__(self, p):
        super().__init__()
        self.z = nn.Parameter(torch.tensor(p, dtype=torch.float64).log())

    def prefill(self, tokens, *, mask=None, last=True):
        return self.z.expand(len(tokens), -1), torch.zeros(len(tokens))

    def step(self, tokens, state):
        return self.z.expand(len(tokens), -1), state


P, Q = [0.7, 0.2, 0.1], [0.1, 0.3, 0.6]
PROMPT = [[1, 2, 3], [4, 5], [6, 7, 8], [2, 2]]


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def drawn(alpha, n=100_000, **options):
    return noisy_generate(
        Fixed(P),
        Fixed(Q),
        torch.zeros(n, 1, dtype=torch.int64),
        blind_prompt=[0],
        alpha=alpha,
        generator=seeded(),
        **options,
    )


@pytest.mark.parametrize("alpha", [0.3, 0.8])
def test_a_token_has_the_law_of_the_mixture(alpha):
    found = drawn(alpha, tokens=1).tokens.flatten()
    share = torch.bincount(found, minlength=3) / len(found)
    p = (1 - alpha) * torch.tensor(P) + alpha * torch.tensor(Q)
    assert ((share - p).abs() < 3 * (p * (1 - p) / len(found)).sqrt()).all()


def test_a_filter_truncates_the_model_that_was_drawn_not_the_mixture():
    found = drawn(0.5, tokens=1, top_p=0.65)  # of p the first symbol, of q the last and, after it, the second
    share = torch.bincount(found.tokens.flatten(), minlength=3) / 100_000
    p = torch.tensor([0.5, 0.5 * 0.3 / 0.9, 0.5 * 0.6 / 0.9])
    assert ((share - p).abs() < 3 * (p * (1 - p) / 100_000).sqrt()).all()


def test_switches_are_independent_of_sequence_and_token():
    blind = drawn(0.3, n=20_000, tokens=4).blind.double()
    assert blind.mean() == pytest.approx(0.3, abs=3 * (0.21 / blind.numel()) ** 0.5)
    centred = (blind - 0.3) / 0.21**0.5
    for pair in ((centred[1:], centred[:-1]), (centred[:, 1:], centred[:, :-1])):
        product = pair[0] * pair[1]
        assert abs(float(product.mean())) < 3 / product.numel() ** 0.5
    # a switch for the whole batch would leave no spread of a token's share over the batch
    assert (blind.mean(0) - 0.3).abs().max() < 0.02


def test_without_noise_the_texts_are_those_of_the_model_and_with_noise_alone_those_of_the_prior():
    model, blind = language(0), language(1)
    common = {"tokens": 6, "temperature": 0.9, "top_p": 0.95, "stop": 0}
    plain = generate(model, PROMPT, generator=seeded(), **common)
    noisy = noisy_generate(model, blind, PROMPT, blind_prompt=[1], alpha=0, generator=seeded(), **common)
    for a, b in zip(plain, noisy):
        assert torch.equal(a, b)
    assert not noisy.blind.any()
    other = [[8, 8], [1], [3, 4, 5, 6], [7]]
    texts = [
        noisy_generate(model, blind, p, blind_prompt=[1], alpha=1, generator=seeded(), **common)
        for p in (PROMPT, other)
    ]
    assert torch.equal(texts[0].tokens, texts[1].tokens)
    assert torch.equal(texts[0].blind.sum(1), texts[0].lengths)
    kept = noisy_generate(model, blind, PROMPT, blind_prompt=[1], alpha=1, untouched=2, generator=seeded(), **common)
    assert torch.equal(kept.tokens[:, :2], plain.tokens[:, :2]) and not kept.blind[:, :2].any()
    assert kept.blind[:, 2:].any()


@pytest.mark.parametrize("options", [{}, {"mixer": "recurrence", "mixer_options": {"pattern": "powers"}}])
def test_both_states_have_seen_the_same_text(options):
    """Probabilities recomputed from whole sequences, without states, for texts of different lengths."""
    model, blind = language(0, **options), language(1, **options)
    found = noisy_generate(
        model, blind, PROMPT * 2, blind_prompt=[1, 2], tokens=7, alpha=0.5, stop=[5, 7], generator=seeded(3)
    )
    assert 1 < len(set(found.lengths.tolist())) and found.blind.any() and not found.blind.all()
    for prompt, text, p, used in zip(PROMPT * 2, found.texts(), found.log_probabilities, found.blind):
        for t, token in enumerate(text):
            with torch.no_grad():
                whole = [1, 2, *text[:t]] if used[t] else [*prompt, *text[:t]]
                z = (blind if used[t] else model)(torch.tensor([whole]))[0, -1]
            assert float(p[t]) == pytest.approx(float(z.log_softmax(-1)[token]), abs=1e-10)


def test_a_banned_token_is_drawn_from_neither_and_a_prior_keeps_to_the_models_support():
    found = drawn(0.5, tokens=2, banned=[2])
    share = torch.bincount(found.tokens.flatten(), minlength=3) / found.tokens.numel()
    p = 0.5 * torch.tensor([7 / 9, 2 / 9, 0]) + 0.5 * torch.tensor([0.25, 0.75, 0])
    assert share[2] == 0 and (share - p).abs().max() < 0.005
    only = noisy_generate(
        Fixed([1.0, 0.0, 0.0]),
        Fixed([0.0, 0.4, 0.6]),
        [[0]] * 50,
        blind_prompt=[0],
        tokens=3,
        alpha=1.0,
        generator=seeded(),
    )
    assert not only.tokens.any() and not only.blind.any() and torch.isfinite(only.log_probabilities).all()


def test_the_models_are_left_in_their_mode_and_one_model_can_be_both():
    model = language(0, dropout=0.3).train()
    found = noisy_generate(model, model, PROMPT, blind_prompt=[1], tokens=3, alpha=0.5, generator=seeded())
    assert model.training and found.tokens.shape == (4, 3)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"alpha": 1.2}, "alpha=1.2: expected the probability"),
        ({"alpha": float("nan")}, "alpha=nan"),
        ({"untouched": -1}, "untouched=-1"),
        ({"blind_prompt": []}, "expected at least one token"),
        ({"blind_prompt": [0.5]}, "expected at least one token"),
        ({"banned": [9]}, r"banned=\[9\]: expected tokens of 0 … 8"),
        ({"banned": range(9)}, "at least one token that may be drawn"),
        ({"blind": language(1, symbols=5)}, "models of 9 and of 5 symbols"),
        ({"prompt": []}, "no prompts"),
        ({"tokens": 0}, "tokens=0"),
    ],
)
def test_wrong_inputs_are_refused_in_one_line(changes, said):
    given = {"blind": language(1), "prompt": PROMPT, "blind_prompt": [1], "tokens": 2, "alpha": 0.5, **changes}
    with pytest.raises(ValueError, match=said) as error:
        noisy_generate(language(0), given.pop("blind"), given.pop("prompt"), **given)
    assert "\n" not in str(error.value)
