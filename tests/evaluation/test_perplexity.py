"""The cost of a text: every token once, what it is conditioned on, and scales that do not depend on the tokenizer."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import nn

from sciops.datasets import tokenizer_for
from sciops.evaluation import score_text
from sciops.models import LanguageModel

TEXT = "the cat sat on the mat, and the hat sät on the cat. " * 3


class Counting(nn.Module):
    """Says p(w) for every next token, whatever came before."""

    def __init__(self, p: np.ndarray) -> None:
        super().__init__()
        self.p = nn.Parameter(torch.from_numpy(p).log())

    def forward(self, tokens):
        return self.p.expand(*tokens.shape, -1)


def made() -> LanguageModel:
    torch.manual_seed(0)
    model = LanguageModel(9, width=16, depth=2, mixer_options={"positions": "alibi"}, dropout=0.5).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model


@pytest.mark.parametrize("count", [2, 7, 8, 9, 40, 43])
@pytest.mark.parametrize(("context", "stride"), [(8, 8), (8, 3), (8, 1), (100, 100), (1, 1)])
def test_every_token_is_asked_once_with_the_context_it_should_have(count, context, stride):
    model = made()
    tokens = np.random.default_rng(count).integers(0, 9, count).astype(np.uint8)
    expected, model = 0.0, model.eval()
    asked = {}
    starts = [*range(0, count - 1 - context + 1, stride)]
    for s in starts:  # by the definition: a window answers for what has not been asked
        for t in range(s + 1, s + context + 1):
            asked.setdefault(t, s)
    for t in range(1, count):
        s = asked.get(t, max(0, count - 1 - context))
        with torch.no_grad():
            logits = model(torch.from_numpy(tokens[s:t].astype(np.int64))[None])[0, -1]
        expected -= float(logits.log_softmax(-1)[int(tokens[t])])
    found = score_text(model.train(), tokens, context=context, stride=stride, batch_size=3)
    assert found.tokens == count - 1 and model.training
    assert found.nats == pytest.approx(expected, rel=1e-11)


def test_perplexities_are_those_of_counts():
    for kind, size in (("characters", 50), ("bpe", 280)):
        if kind == "bpe":
            pytest.importorskip("tokenizers")
        tokenizer = tokenizer_for(TEXT, size, kind)
        tokens = tokenizer.encode(TEXT)
        p = (np.bincount(tokens[1:], minlength=len(tokenizer)) + 1e-9) / (len(tokens) - 1)
        rest = tokenizer.decode(tokens[1:])
        found = score_text(Counting(p / p.sum()), tokens, context=16, text=rest)
        entropy = -(p[p > 1e-6] * np.log(p[p > 1e-6])).sum()
        assert found.perplexity == pytest.approx(math.exp(entropy), rel=1e-5)
        assert found.character_perplexity == pytest.approx(math.exp(entropy * (len(tokens) - 1) / len(rest)), rel=1e-5)
        bits = entropy * (len(tokens) - 1) / math.log(2)
        assert found.bits_per_byte == pytest.approx(bits / len(rest.encode()), rel=1e-5)
        assert len(rest.encode()) > len(rest)


def test_parts_that_were_in_evaluation_mode_stay_so():
    model = made().train()
    model.stack.blocks[0].eval()
    before = [module.training for module in model.modules()]
    score_text(model, [1, 2, 3], context=4)
    assert [module.training for module in model.modules()] == before


def test_a_model_that_is_far_off_has_an_infinite_perplexity():
    model = Counting(np.ones(3))
    model.p = nn.Parameter(torch.tensor([0.0, 1000.0, 0.0]))
    found = score_text(model, [1, 0, 2], context=4, text="ab")
    assert found.nats == 2000.0 and found.perplexity == found.character_perplexity == math.inf
    assert found.bits_per_byte == pytest.approx(1000 / math.log(2))


def test_errors_say_what_was_expected():
    for tokens, options, message in (
        ([1], {}, "at least 2 whole numbers"),
        ([1.0, 2.0], {}, "at least 2 whole numbers"),
        ([1, 2], {"stride": 9}, "1 ≤ stride ≤ context"),
        ([1, 2, -100], {}, "tokens hold -100"),
        ([1, 2], {"text": ""}, "text=''"),
    ):
        with pytest.raises(ValueError, match=message):
            score_text(made(), tokens, context=4, **options)
    with pytest.raises(ValueError, match="pass text to score_text"):
        score_text(made(), [1, 2, 3], context=4).bits_per_byte  # noqa: B018
