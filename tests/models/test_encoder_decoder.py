"""EncoderDecoder: T5's decoder with copied weights, cached decoding, padding, searches against brute force."""

from __future__ import annotations

import itertools

import pytest
import torch

from sciops.mixers.sequence import copied, selected
from sciops.models import EncoderDecoder, load_model, save_model
from sciops.models.sequences.t5_decoder import relative_bucket

SYMBOLS = 11


def made(seed=0, **options):
    torch.manual_seed(seed)
    defaults = dict(width=12, heads=3, mixer="self_attention", mixer_options=dict(positions="rope", heads=2))
    return EncoderDecoder(options.pop("symbols", SYMBOLS), **(defaults | options)).double().eval()


def drawn(*shape, seed=1, symbols=SYMBOLS):
    return torch.randint(2, symbols, shape, generator=torch.Generator().manual_seed(seed))


def close(a, b, tolerance=1e-11):
    torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)


@pytest.fixture
def t5(monkeypatch):
    """transformers' T5 of the same sizes, with its norm in the dtype of its input."""
    transformers = pytest.importorskip("transformers")
    from transformers.models.t5 import modeling_t5

    def norm(self, x):
        return self.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.variance_epsilon)

    monkeypatch.setattr(modeling_t5.T5LayerNorm, "forward", norm)
    config = transformers.T5Config(
        vocab_size=SYMBOLS,
        d_model=12,
        d_kv=5,
        d_ff=24,
        num_layers=1,
        num_decoder_layers=3,
        num_heads=3,
        relative_attention_num_buckets=8,
        relative_attention_max_distance=20,
        feed_forward_proj="gated-gelu",
        tie_word_embeddings=True,
        dropout_rate=0.0,
        pad_token_id=0,
        decoder_start_token_id=0,
    )
    torch.manual_seed(3)
    return transformers.T5ForConditionalGeneration(config).double().eval()


def copy_decoder_(model, t5):
    names = {"within": "0.SelfAttention", "across": "1.EncDecAttention"}
    theirs = dict(t5.named_parameters())
    with torch.no_grad():
        model.embedding.weight.copy_(theirs["shared.weight"])
        model.decoder.norm.weight.copy_(theirs["decoder.final_layer_norm.weight"].normal_(1, 0.1))
        model.decoder.positions.weight.copy_(
            theirs["decoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"].normal_(0, 1)
        )
        for i, block in enumerate(model.decoder.blocks):
            at = f"decoder.block.{i}.layer."
            for name, their_name in names.items():
                for letter in "qkvo":
                    getattr(getattr(block, name), letter).weight.copy_(theirs[f"{at}{their_name}.{letter}.weight"])
            for name, their_name in (("gate", "wi_0"), ("value", "wi_1"), ("out", "wo")):
                getattr(block, name).weight.copy_(theirs[f"{at}2.DenseReluDense.{their_name}.weight"])
            for j, norm in enumerate((block.norm1, block.norm2, block.norm3)):
                norm.weight.copy_(theirs[f"{at}{j}.layer_norm.weight"].normal_(1, 0.1))


def test_decoder_is_that_of_t5(t5):
    model = made(head_width=5, decoder_depth=3, buckets=8, max_distance=20)
    copy_decoder_(model, t5)
    source, target = drawn(2, 9), drawn(2, 30, seed=2)
    mask = torch.arange(9) < torch.tensor([9, 4])[:, None]
    with torch.no_grad():
        expected = t5(
            encoder_outputs=(model.encode(source, mask),),
            attention_mask=mask.long(),
            decoder_input_ids=model.shifted(target),
        ).logits
        close(model(source, model.shifted(target), mask), expected)
        assert (model(source, model.shifted(target)) - expected).abs().max() > 1e-3  # the mask matters
    model.decoder.max_distance = 5
    assert (model(source, model.shifted(target), mask) - expected).abs().max() > 1e-3


@pytest.mark.parametrize("buckets, max_distance", [(32, 128), (8, 20), (16, 50), (2, 3)])
def test_buckets_are_those_of_t5(buckets, max_distance):
    attention = pytest.importorskip("transformers.models.t5.modeling_t5").T5Attention
    apart = torch.arange(-5, 400)
    expected = attention._relative_position_bucket(
        -apart, bidirectional=False, num_buckets=buckets, max_distance=max_distance
    )
    assert torch.equal(relative_bucket(apart, buckets=buckets, max_distance=max_distance), expected)


def test_buckets_by_hand():
    got = relative_bucket(torch.tensor([-3, 0, 1, 15, 16, 17, 18, 19, 127, 128, 5000]))
    assert got.tolist() == [0, 0, 1, 15, 16, 16, 16, 17, 31, 31, 31]  # 16·8^{1/16} = 18.2


def test_a_new_decoder_starts_as_t5():
    torch.manual_seed(0)
    model = EncoderDecoder(2000, width=256, heads=4, mixer="self_attention")
    block = model.decoder.blocks[0]
    for weight, spread in (
        (model.embedding.weight, 1.0),
        (block.within.q.weight, (256 * 64) ** -0.5),
        (block.across.k.weight, 256**-0.5),
        (block.within.o.weight, 256**-0.5),
        (block.out.weight, 512**-0.5),
    ):
        assert weight.std().item() == pytest.approx(spread, rel=0.02)


OPTIONS = [{}, dict(scaled=True, tied=False, head_width=5, local=3), dict(decoder_depth=0), dict(encoder_depth=0)]


@pytest.mark.parametrize("options", OPTIONS)
def test_cached_decoding_is_the_whole(options):
    model = made(max_distance=20, buckets=8, **options)
    source, target = drawn(3, 7), drawn(3, 40, seed=2)
    mask = torch.arange(7) < torch.tensor([7, 2, 5])[:, None]
    with torch.no_grad():
        whole = model(source, target, mask)
        given = model.given(source, mask)
        logits, state = given.prefill(target[:, :6])
        parts = [logits]
        for t in range(6, 20):
            logits, state = given.step(target[:, t], state)
            parts.append(logits[:, None])
        logits, state = given.prefill(target[:, 20:33], state)
        parts.append(logits)
        close(torch.cat(parts, 1), whole[:, :33])
        kept = copied(state)
        rows = torch.tensor([2, 0, 0, 1, 2])
        moved, _ = given.step(target[rows, 33], selected(state, rows))
        close(moved, whole[rows, 33])
        repeated = torch.arange(3).repeat_interleave(2)
        moved, _ = given.prefill(target[repeated, 33:35], selected(kept, repeated))
        close(moved, whole[repeated, 33:35])


def test_prefixes_of_different_lengths_go_on_together():
    model, source, target = made(), drawn(3, 7), drawn(3, 12, seed=2)
    lengths = torch.tensor([5, 1, 3])
    mask = torch.arange(5) < lengths[:, None]
    with torch.no_grad():
        given = model.given(source)
        first, state = given.prefill(torch.where(mask, target[:, :5], 7), mask=mask)
        whole = model(source, target)
        for i, n in enumerate(lengths.tolist()):
            close(first[i, :n], whole[i, :n])
        last, _ = model.given(source).prefill(target[:, :5], mask=mask, last=True)
        close(last, whole[torch.arange(3), lengths - 1])
        for t in range(3):
            logits, state = given.step(target[torch.arange(3), lengths + t], state)
            close(logits, whole[torch.arange(3), lengths + t])


def test_padding_does_not_matter_on_either_side():
    model, source, target = made(local=3), drawn(3, 9), drawn(3, 6, seed=2)
    n, m = torch.tensor([9, 1, 5]), torch.tensor([2, 6, 4])
    source_mask, target_mask = torch.arange(9) < n[:, None], torch.arange(6) < m[:, None]
    logits = model(source.masked_fill(~source_mask, 10), target.masked_fill(~target_mask, 10), source_mask, target_mask)
    for i in range(3):
        alone = model(source[i : i + 1, : n[i]], target[i : i + 1, : m[i]])
        close(logits[i, : m[i]], alone[0])
        assert not logits[i, m[i] :].any()
    generated = model.generate(source, tokens=5, source_mask=source_mask)
    for i in range(3):
        alone = model.generate(source[i : i + 1, : n[i]], tokens=5)
        assert torch.equal(generated.tokens[i], alone.tokens[0])


def test_gradients_reach_every_parameter_and_no_later_token():
    model, source, target = made(), drawn(2, 5), drawn(2, 6, seed=2)
    x = torch.nn.functional.one_hot(target, SYMBOLS).double().requires_grad_()
    memories = model.decoder.memories(model.encode(source))
    h = model.decoder(x @ model.embedding.weight, memories, None)
    (gradient,) = torch.autograd.grad(h[:, 3].sin().sum(), x, retain_graph=True)
    assert not gradient[:, 4:].any() and gradient[:, :4].abs().sum(-1).min() > 0
    model.logits(h).logsumexp(-1).sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None and parameter.grad.abs().max() > 0, name


def all_targets(model, source, tokens, power):
    """(score, target) of every target of at most `tokens` tokens, by the whole, uncached forward."""
    scored = []
    symbols = range(model.symbols)
    for target in itertools.product(symbols, repeat=tokens):
        length = target.index(model.end) + 1 if model.end in target else tokens
        if any(target[length:]):  # counted once, with zeros after the end
            continue
        y = torch.tensor([target])
        log_p = model(source, model.shifted(y)).log_softmax(-1)[0, range(tokens), y[0]]
        scored.append((log_p[:length].sum().item() / length**power, target))
    return sorted(scored, reverse=True)


@pytest.mark.parametrize("power", [0.0, 1.0])
@torch.no_grad()
def test_a_broad_beam_search_finds_the_best_of_all_targets(power):
    symbols, tokens = 4, 3
    model = made(seed=5, symbols=symbols, start=2)
    source = drawn(2, 6, symbols=symbols)
    mask = torch.arange(6) < torch.tensor([6, 3])[:, None]
    found = model.generate(source, tokens=tokens, source_mask=mask, beams=symbols**tokens, length_power=power)
    for i, n in enumerate((6, 3)):
        ranked = all_targets(model, source[i : i + 1, :n], tokens, power)
        got = [tuple(row) for row in found.tokens[i, : len(ranked)].tolist()]
        assert got == [target for _, target in ranked]
        sums = found.log_probabilities[i, : len(ranked)].sum(-1) / found.lengths[i, : len(ranked)] ** power
        close(sums, torch.tensor([score for score, _ in ranked], dtype=torch.float64))


@torch.no_grad()
def test_greedy_and_sampled_targets_are_those_of_the_whole_model():
    model, source = made(seed=2), drawn(4, 6)
    greedy = model.generate(source, tokens=12)
    target = greedy.tokens
    log_p = model(source, model.shifted(target)).log_softmax(-1)
    for i, length in enumerate(greedy.lengths.tolist()):
        assert torch.equal(log_p[i, :length].argmax(-1), target[i, :length])
        assert length == 12 or target[i, length - 1] == model.end
    drawn_once = model.generate(source, tokens=12, temperature=1.0, generator=torch.Generator().manual_seed(0))
    again = model.generate(source, tokens=12, temperature=1.0, generator=torch.Generator().manual_seed(0))
    assert torch.equal(drawn_once.tokens, again.tokens) and not torch.equal(drawn_once.tokens, target)
    log_p = model(source, model.shifted(drawn_once.tokens)).log_softmax(-1).gather(-1, drawn_once.tokens[..., None])
    there = torch.arange(12) < drawn_once.lengths[:, None]
    close(drawn_once.log_probabilities, log_p.squeeze(-1) * there)


def test_generation_leaves_training_and_dropout_as_they_were():
    model, source = made(dropout=0.5).train(), drawn(2, 6)
    assert torch.equal(model.generate(source, tokens=8).tokens, model.generate(source, tokens=8).tokens)
    assert model.training and not torch.equal(model(source, source), model(source, source))


def test_saved_models_are_the_same(tmp_path):
    model = made(mixer=["self_attention", "self_attention"], tied=False, scaled=True, start=3, end=2, head_width=5)
    save_model(model, tmp_path)
    again = load_model(tmp_path)
    source, target = drawn(2, 5), drawn(2, 4)
    assert torch.equal(again(source, target), model(source, target))
    assert (again.start, again.end, again.config) == (3, 2, model.config)


def test_half_precision_follows_float64():
    model, source, target = made(), drawn(2, 9), drawn(2, 7)
    mask = torch.arange(9) < torch.tensor([9, 4])[:, None]
    exact = model(source, target, mask)
    for dtype, tolerance in ((torch.float32, 1e-5), (torch.bfloat16, 0.05)):
        logits = model.to(dtype)(source, target, mask)
        assert logits.dtype == dtype
        assert (logits.double() - exact).norm() / exact.norm() < tolerance


def test_refusals():
    for options, message in (
        (dict(heads=5), "do not divide width"),
        (dict(decoder_depth=-1), "decoder_depth=-1"),
        (dict(encoder_depth=-1), "encoder_depth=-1: expected a whole number of at least 0"),
        (dict(head_width=0), "head_width=0: expected a whole number of at least 1"),
        (dict(max_distance=16), "a distance above buckets / 2"),
        (dict(end=SYMBOLS), "two of the symbols"),
        (dict(mixer="window"), "expected one for sequences"),
    ):
        with pytest.raises(ValueError, match=message):
            made(**options)
    model = made()
    with pytest.raises(ValueError, match="whole numbers"):
        model(torch.zeros(1, 3), drawn(1, 3))
    with pytest.raises(ValueError, match="one target a source"):
        model(drawn(2, 3), drawn(1, 3))
    with pytest.raises(ValueError, match="tokens after padding"):
        model(drawn(1, 3), drawn(1, 3), torch.tensor([[True, False, True]]))
    with pytest.raises(ValueError, match="pass no temperature"):
        model.generate(drawn(1, 3), tokens=3, beams=2, temperature=1.0)
    with pytest.raises(ValueError, match="beams=0: expected a whole number of at least 1"):
        model.generate(drawn(1, 3), tokens=3, beams=0)
    with pytest.raises(ValueError, match="3 sequences of 2 sources"):
        model.given(drawn(2, 3)).prefill(drawn(3, 4))
    with pytest.raises(ValueError, match="tokens from .* to 11: expected 0 … 10"):
        model(drawn(1, 3), torch.tensor([[2, SYMBOLS]]))
    with pytest.raises(TypeError, match="unknown option"):
        made(mixer_options=dict(windows=3))


@torch.no_grad()
def test_self_attention_of_the_decoder_is_one_kernel(monkeypatch):
    seen = []
    attend = torch.nn.functional.scaled_dot_product_attention

    def recorded(q, k, v, *, attn_mask, **options):
        seen.append(attn_mask)
        return attend(q, k, v, attn_mask=attn_mask, **options)

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", recorded)
    made(encoder_depth=0)(drawn(2, 5), drawn(2, 6), torch.ones(2, 5, dtype=torch.bool))
    # torch takes biases of three axes through the whole table of scores
    assert len(seen) == 4 and all(bias.ndim == 4 for bias in seen)
