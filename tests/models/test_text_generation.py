"""Generation: the cache changes nothing, filters are the naive ones, draws have the probabilities, beams are exact."""

from __future__ import annotations

import itertools
import math
from functools import cache

import numpy as np
import pytest
import torch

from sciops.models import LanguageModel, beam_search, generate
from sciops.models.sequences.generation import filtered

SYMBOLS = 7
MODELS = {
    "rope": dict(mixer_options={"positions": "rope"}),
    "window": dict(mixer_options={"window": 3}, local=3, positions="sinusoidal"),
    "learned": dict(positions="learned", longest=40),
}
PROMPTS = [[3, 1, 4, 1, 5], [2], [6, 5, 3]]


def made(name: str = "rope") -> LanguageModel:
    torch.manual_seed(0)
    model = LanguageModel(SYMBOLS, width=16, depth=2, **MODELS[name]).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model


def log_p(model, prompt):
    """Of the next token, from the whole sequence, without states."""
    with torch.no_grad():
        return model.eval()(torch.tensor([list(prompt)]))[0, -1].log_softmax(-1)


@pytest.mark.parametrize("name", MODELS)
def test_greedy_with_states_is_greedy_without(name):
    model = made(name)
    found = generate(model, PROMPTS, tokens=12, temperature=0)
    for row, prompt in enumerate(PROMPTS):
        sequence = list(prompt)
        for t in range(12):
            p = log_p(model, sequence)
            token = int(p.argmax())
            assert int(found.tokens[row, t]) == token
            assert float(found.log_probabilities[row, t]) == pytest.approx(float(p[token]), abs=1e-12)
            sequence.append(token)
    assert len({tuple(row) for row in found.tokens.tolist()}) == 3
    alone = generate(model, torch.tensor([PROMPTS[2]]), tokens=12, temperature=0)
    assert torch.equal(alone.tokens[0], found.tokens[2])
    mask = torch.arange(5) < torch.tensor([5, 1, 3])[:, None]
    padded = torch.tensor([p + [-100] * (5 - len(p)) for p in PROMPTS])
    assert torch.equal(generate(model, padded, mask=mask, tokens=12, temperature=0).tokens, found.tokens)
    assert model.training is False


def test_sequences_that_end_stop_and_the_others_go_on():
    model = made()
    free = generate(model, PROMPTS, tokens=12, temperature=0)
    stop = int(free.tokens[1, 3])
    found = generate(model, PROMPTS, tokens=12, temperature=0, stop=stop)
    for row in range(3):
        tokens = free.tokens[row].tolist()
        length = tokens.index(stop) + 1 if stop in tokens else 12
        assert int(found.lengths[row]) == length
        assert found.tokens[row].tolist() == tokens[:length] + [0] * (12 - length)
        assert not found.log_probabilities[row, length:].any()
        torch.testing.assert_close(found.log_probabilities[row, :length], free.log_probabilities[row, :length])
    assert min(found.lengths.tolist()) < 12
    at_once = generate(model, PROMPTS, tokens=12, temperature=0, stop=list(range(SYMBOLS)))
    assert at_once.lengths.tolist() == [1, 1, 1]


def naively_filtered(logits, top_k, top_p):
    p = np.exp(logits - logits.max())
    order = np.argsort(-logits, kind="stable")
    kept = list(order[:top_k])
    mass, enough = p[kept].sum(), []
    for symbol in kept:
        if sum(p[s] for s in enough) / mass >= top_p:
            break
        enough.append(symbol)
    out = np.full_like(logits, -np.inf)
    out[enough] = logits[enough]
    return out


@pytest.mark.parametrize("top_k", [1, 3, 9, 50])
@pytest.mark.parametrize("top_p", [1e-9, 0.3, 0.9, 1.0])
def test_filters_are_the_naive_ones(top_k, top_p):
    logits = np.random.default_rng(0).normal(size=(40, 9)) * 2
    found = filtered(torch.from_numpy(logits), top_k=top_k, top_p=top_p).numpy()
    expected = np.array([naively_filtered(row, top_k, 2.0 if top_p == 1 else top_p) for row in logits])
    np.testing.assert_array_equal(found, expected)


def test_filters_of_equal_logits_keep_as_many_as_asked():
    assert torch.isfinite(filtered(torch.zeros(8), top_k=3)).sum() == 3
    assert torch.isfinite(filtered(torch.zeros(8), top_p=0.5)).sum() == 4


@pytest.mark.parametrize("options", [dict(), dict(temperature=0.5), dict(top_k=3), dict(temperature=2.0, top_p=0.7)])
def test_draws_have_the_probabilities(options):
    model, n = made(), 4000
    draw = torch.Generator().manual_seed(1)
    found = generate(model, torch.tensor([PROMPTS[0]]).expand(n, -1), tokens=2, generator=draw, **options)
    logits = log_p(model, PROMPTS[0]).numpy()
    scaled = logits / options.get("temperature", 1.0)
    p = np.exp(naively_filtered(scaled, options.get("top_k", SYMBOLS), options.get("top_p", 2.0)))
    p /= p.sum()
    counts = np.bincount(found.tokens[:, 0].numpy(), minlength=SYMBOLS)
    assert (np.abs(counts / n - p) <= 5 * np.sqrt(p * (1 - p) / n)).all(), "five standard errors"
    assert not counts[p == 0].any()
    np.testing.assert_allclose(found.log_probabilities[:, 0].numpy(), logits[found.tokens[:, 0].numpy()], atol=1e-12)
    after = {s: log_p(model, [*PROMPTS[0], s]).numpy() for s in set(found.tokens[:, 0].tolist())}
    expected = [after[a][b] for a, b in found.tokens.tolist()]
    np.testing.assert_allclose(found.log_probabilities[:, 1].numpy(), expected, atol=1e-12)


def test_prompts_and_ends_of_numpy_s_are_those_of_lists():
    model = made()
    mapped = np.array(PROMPTS[0], np.uint16)
    mapped.flags.writeable = False  # as a file of tokens that is mapped
    expected = generate(model, [PROMPTS[0]], tokens=12, temperature=0)
    assert torch.equal(generate(model, [mapped], tokens=12, temperature=0).tokens, expected.tokens)
    assert torch.equal(generate(model, mapped[None], tokens=12, temperature=0).tokens, expected.tokens)
    stop = expected.tokens[0, 3]
    ended = generate(model, [mapped], tokens=12, temperature=0, stop=int(stop)).tokens
    assert not torch.equal(ended, expected.tokens)
    for same in (stop, np.int64(stop), [np.int64(stop)]):
        assert torch.equal(generate(model, [mapped], tokens=12, temperature=0, stop=same).tokens, ended)


def test_the_same_generator_draws_the_same():
    model = made()
    draws = [generate(model, PROMPTS, tokens=9, generator=torch.Generator().manual_seed(s)).tokens for s in (0, 0, 1)]
    assert torch.equal(draws[0], draws[1]) and not torch.equal(draws[0], draws[2])


@pytest.mark.parametrize("power", [0.0, 1.0])
def test_wide_beams_find_the_best_of_all_continuations(power):
    model, tokens, stop = made(), 3, 2
    found = beam_search(model, PROMPTS, tokens=tokens, beams=SYMBOLS**tokens, stop=stop, length_power=power)
    for row, prompt in enumerate(PROMPTS):
        after = cache(lambda said, prompt=prompt: log_p(model, [*prompt, *said]).tolist())
        ranked = []
        for words in itertools.product(range(SYMBOLS), repeat=tokens):
            length = words.index(stop) + 1 if stop in words else tokens
            if any(words[length:]):
                continue  # the same one as that with zeros
            score = sum(after(words[:t])[words[t]] for t in range(length))
            ranked.append((score / length**power, words))
        ranked.sort(reverse=True)
        sums = found.log_probabilities[row].sum(-1) / found.lengths[row] ** power
        for k, (score, words) in enumerate(ranked[:20]):
            assert tuple(found.tokens[row, k].tolist()) == words
            assert float(sums[k]) == pytest.approx(score, abs=1e-11)
        assert math.isinf(float(sums[len(ranked)])), "no continuation is there twice"


def test_one_beam_is_greedy_and_more_are_not_worse():
    model = made("window")
    greedy = generate(model, PROMPTS, tokens=8, temperature=0)
    one = beam_search(model, PROMPTS, tokens=8, beams=1)
    assert torch.equal(one.tokens[:, 0], greedy.tokens)
    torch.testing.assert_close(one.log_probabilities[:, 0], greedy.log_probabilities)
    for beams in (2, 5, SYMBOLS + 2):
        many = beam_search(model, PROMPTS, tokens=8, beams=beams).log_probabilities.sum(-1)
        assert (many[:, 0] >= greedy.log_probabilities.sum(-1) - 1e-12).all()
        assert (many.diff(dim=1) <= 1e-12).all()


def test_errors_say_what_was_expected():
    model = made()
    for options, message in (
        (dict(temperature=-1), "temperature=-1"),
        (dict(top_k=0), "top_k=0"),
        (dict(top_p=1.5), "top_p=1.5: expected a probability"),
        (dict(tokens=0), "tokens=0"),
    ):
        with pytest.raises(ValueError, match=message):
            generate(model, PROMPTS, **{"tokens": 1, **options})
    with pytest.raises(ValueError, match="prompt 1 is empty"):
        generate(model, [[1], [], [2]], tokens=1)
    for one in ([1, 2, 3], np.array([1, 2]), "abc", [[1.5, 2.0]]):
        with pytest.raises(ValueError, match=r"expected a list of prompts.*\[prompt\] for one alone"):
            generate(model, one, tokens=1)
    with pytest.raises(ValueError, match="no prompts"):
        generate(model, [], tokens=1)
    with pytest.raises(ValueError, match="beams=0"):
        beam_search(model, PROMPTS, tokens=1, beams=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_small_temperatures_take_the_likeliest_and_the_filters_still_hold(dtype):
    """p^{1/T} overflows long before T = 0, whose limit is the argmax."""
    model = made().to(dtype)
    greedy = generate(model, PROMPTS, tokens=6, temperature=0)
    for temperature in (1e-20, 1e-40, 1e-45, 1e-300, 5e-324):
        for filters in ({}, {"top_k": 2}, {"top_p": 0.5}):
            found = generate(model, PROMPTS, tokens=6, temperature=temperature, **filters)
            assert torch.equal(found.tokens, greedy.tokens), temperature
    warm = generate(model, [[1]] * 400, tokens=1, temperature=1e30, generator=torch.Generator().manual_seed(0))
    assert warm.tokens.flatten().bincount(minlength=SYMBOLS).min() > 30  # nearly uniform
    for temperature in (-1e-40, math.inf, math.nan, None, "1"):
        with pytest.raises(ValueError, match="expected a finite number of at least 0"):
            generate(model, PROMPTS, tokens=1, temperature=temperature)


def test_a_model_without_probabilities_says_so():
    model = made()
    with torch.no_grad():
        next(model.parameters()).fill_(math.nan)
    for make in (
        lambda: generate(model, PROMPTS, tokens=3, temperature=0),
        lambda: beam_search(model, PROMPTS, tokens=2),
    ):
        with pytest.raises(ValueError, match="the model's probabilities of token 1 are NaN"):
            make()
