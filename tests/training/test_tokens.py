"""Tokens in the loop: the loss by its formula, whole numbers on their way, runs that resume, texts that are learned."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from test_resume import assert_same, without_clock

from sciops import Grid
from sciops.datasets import Splits, TensorFields, TokenSequences, TokenWindows, open_tokens, write_tokens
from sciops.evaluation import score_text
from sciops.models import LanguageModel, Normalized, load_model, save_model
from sciops.training import TrainConfig, evaluate, fit
from sciops.training.objectives import token_cross_entropy

QUIET = TrainConfig(
    objective="token_cross_entropy", epochs=3, batch_size=8, learning_rate=3e-3, schedule="cosine", progress=False
)


def text(count: int = 400, seed: int = 0) -> np.ndarray:
    """w_{t+1} = 3·w_t + noise modulo 7: a third of a nat is left where it is known."""
    random = np.random.default_rng(seed)
    words = [1]
    for noisy in random.random(count - 1) < 0.1:
        words.append(int((3 * words[-1] + 1 + noisy) % 7))
    return np.array(words, np.uint8)


def data(**options) -> Splits:
    return Splits(TokenWindows(text(), 16, **options), TokenWindows(text(200, seed=1), 16))


def model(seed: int = 0, **options) -> LanguageModel:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return LanguageModel(7, width=16, depth=1, mixer_options={"positions": "rope"}, **options)


def test_the_loss_by_its_formula():
    random = np.random.default_rng(0)
    z, w = random.standard_normal((4, 6, 5)) * 3, random.integers(0, 5, (4, 6))
    w[1, 2:], w[2] = -100, -100
    for smoothing in (0.0, 0.2):
        expected = np.zeros(4)
        for i in range(4):
            asked = [t for t in range(6) if w[i, t] != -100]
            for t in asked:
                log_p = z[i, t] - np.log(np.exp(z[i, t]).sum())
                expected[i] -= ((1 - smoothing) * log_p[w[i, t]] + smoothing * log_p.mean()) / len(asked)
        found = token_cross_entropy(torch.from_numpy(z), torch.from_numpy(w), smoothing=smoothing)
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-12)
    assert expected[2] == 0


def test_the_loss_of_half_precision_is_that_of_its_values():
    z, w = torch.randn(2, 300, 50, generator=torch.Generator().manual_seed(0)).bfloat16(), torch.arange(600) % 50
    found = token_cross_entropy(z, w.view(2, 300))
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.double(), token_cross_entropy(z.double(), w.view(2, 300)), rtol=1e-6, atol=0)
    with pytest.raises(ValueError, match=r"logits of shape \(300, 2, 50\) for targets of shape \(2, 300\)"):
        token_cross_entropy(z.transpose(0, 1), w.view(2, 300))


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_one_step_is_that_of_a_plain_loop(smoothing):
    rows = [text(n, seed=n) for n in (9, 4, 17, 12)]
    sequences = TokenSequences(rows)
    config = replace(
        QUIET, epochs=1, batch_size=4, schedule="constant", precision="float64", clip=None, label_smoothing=smoothing
    )
    run = fit(model(), Splits(sequences), config)
    plain = model().double()
    optimizer = torch.optim.AdamW(
        [
            {"params": [p for p in plain.parameters() if (p.ndim >= 2) == m], "weight_decay": d}
            for m, d in ((1, 1e-3), (0, 0))
        ],
        lr=3e-3,
    )
    losses = []
    for row in rows:
        row = torch.from_numpy(row.astype(np.int64))
        losses.append(torch.nn.functional.cross_entropy(plain(row[None, :-1])[0], row[1:], label_smoothing=smoothing))
    loss = torch.stack(losses).mean()
    loss.backward()
    optimizer.step()
    assert run.history[0]["loss"] == pytest.approx(float(loss.detach()), rel=1e-12)
    for a, b in zip(run.model.parameters(), plain.parameters()):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)


def test_a_text_is_learned_and_validation_is_its_cost():
    run = fit(model(), data(stride=3), replace(QUIET, epochs=12, learning_rate=1e-2))
    assert not isinstance(run.model, Normalized), "whole numbers are not normalised"
    # the noise has an entropy of 0.325 nats, seven symbols have 1.95
    before = score_text(model(), data().validation.tokens, context=16)
    assert 0.2 < run.best < 0.45 and 1.9 < before.nats / before.tokens < 2.0
    last = fit(model(), data(stride=3), replace(QUIET, epochs=2, keep="last"))
    validation = data().validation
    whole = score_text(last.model, validation.tokens[: 16 * len(validation) + 1], context=16)
    assert last.history[-1]["validation"] == pytest.approx(whole.nats / whole.tokens, rel=1e-6)
    nats = evaluate(last.model, validation, {"nats": token_cross_entropy})["nats"]
    assert nats.mean() == pytest.approx(last.history[-1]["validation"], rel=1e-6)


def test_a_run_stopped_and_resumed_is_the_same_bits_and_a_mapped_file_too(tmp_path):
    config = replace(QUIET, batch_size=4)
    whole = fit(model(dropout=0.1), data(), replace(config, folder=tmp_path / "a"))
    fit(model(dropout=0.1), data(), replace(config, folder=tmp_path / "b", stop_after=1))
    resumed = fit(model(dropout=0.1), data(), replace(config, folder=tmp_path / "b", resume=True))
    mapped = Splits(TokenWindows(open_tokens(write_tokens(tmp_path / "t", text())), 16), data().validation)
    from_file = fit(model(dropout=0.1), mapped, config)
    for other in (resumed, from_file):
        for a, b in zip(whole.model.parameters(), other.model.parameters()):
            assert torch.equal(a, b)
        assert without_clock(whole.history) == without_clock(other.history)
    assert_same(tmp_path / "a", tmp_path / "b")
    with pytest.raises(ValueError, match="trained on other fields"):
        changed = Splits(TokenWindows(text(seed=5), 16), data().validation)
        fit(model(dropout=0.1), changed, replace(config, folder=tmp_path / "b", resume=True))
    save_model(whole.model, tmp_path / "model")
    x = data().train.batch([0])["x"]
    assert torch.equal(load_model(tmp_path / "model")(x), whole.model(x))


def test_micro_batches_and_texts_of_other_lengths():
    config = replace(QUIET, epochs=1, precision="float64", clip=None)
    one, three = (fit(model(), data(), replace(config, accumulate=k)).model for k in (1, 3))
    for a, b in zip(one.parameters(), three.parameters()):
        torch.testing.assert_close(a, b, rtol=1e-8, atol=1e-8)
    several = Splits([TokenWindows(text(), 16), TokenWindows(text(seed=2), 5)], data().validation)
    assert np.isfinite(fit(model(), several, config).history[0]["loss"])


def test_half_precision_trains():
    run = fit(model(), data(), replace(QUIET, precision="bf16", epochs=6))
    assert run.history[-1]["validation"] < run.history[0]["validation"]


def test_what_does_not_fit_is_refused_in_one_line():
    for options, message in (
        (dict(mixup=0.2), "mixup=0.2 does nothing to tokens"),
        (dict(augment="flip"), "augment='flip' does nothing to tokens"),
        (dict(gradient_weight=1.0), "gradient_weight=1.0"),
    ):
        with pytest.raises(ValueError, match=message):
            replace(QUIET, **options)
    fields = TensorFields(torch.randn(4, 1, 8), torch.randn(4, 1, 8), Grid((8,)))
    with pytest.raises(ValueError, match=r"expects whole numbers \(1, n\) in x and y: sciops.datasets.TokenWindows"):
        fit(model(), Splits(fields), QUIET)
    with pytest.raises(ValueError, match=r"expected logits \(batch, n, symbols\)"):
        fit(torch.nn.Sequential(torch.nn.Embedding(7, 5), torch.nn.Flatten()), data(), QUIET)
