"""Language models: nothing looks ahead, states go on where a stretch ended, files bring the same model back."""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn.functional import linear

from sciops.mixers import MIXERS
from sciops.mixers.sequence import copied, selected
from sciops.models import LanguageModel, build_model, load_model, save_model

SYMBOLS = 11
MODELS = {
    "rope": dict(mixer_options={"positions": "rope"}),
    "learned": dict(positions="learned", longest=20),
    "sinusoidal": dict(positions="sinusoidal", width=15, mixer_options={"heads": 3}, local=4),
    "untied window": dict(tied=False, mixer_options={"window": 3, "positions": "alibi"}),
    "two mixers": dict(mixer=["self_attention"] * 2, mixer_options={"heads": 2}),
}


def made(name: str, **changes) -> LanguageModel:
    torch.manual_seed(0)
    model = LanguageModel(SYMBOLS, **{"width": 16, "depth": 2, **MODELS[name], **changes}).double()
    with torch.no_grad():
        for parameter in model.parameters():  # logits that differ
            parameter.add_(0.2 * torch.randn_like(parameter))
    return model.eval()


def words(batch: int = 3, n: int = 12, seed: int = 0) -> torch.Tensor:
    return torch.randint(0, SYMBOLS, (batch, n), generator=torch.Generator().manual_seed(seed))


def close(a, b, tolerance=1e-11):
    torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", MODELS)
def test_later_tokens_and_padding_do_not_matter(name):
    model, w = made(name), words()
    changed = w.clone()
    changed[:, 7:] = (w[:, 7:] + 1) % SYMBOLS
    close(model(w)[:, :7], model(changed)[:, :7])
    assert not torch.allclose(model(w)[:, 7:], model(changed)[:, 7:])
    lengths = (12, 1, 5)
    mask = torch.arange(12) < torch.tensor(lengths)[:, None]
    y = model(torch.where(mask, w, -100), mask)
    for i, length in enumerate(lengths):
        close(y[i, :length], model(w[i : i + 1, :length])[0])


@pytest.mark.parametrize("name", MODELS)
def test_stretches_and_steps_are_the_whole(name):
    model, w = made(name), words()
    y = model(w)
    first, states = model.prefill(w[:, :4])
    second, states = model.prefill(w[:, 4:7], states)
    close(torch.cat([first, second], 1), y[:, :7])
    with torch.no_grad():
        _, states = model.prefill(w[:, :7])
        for t in range(7, 12):
            if t == 9:
                kept = copied(states)
            z, states = model.step(w[:, t], states)
            close(z, y[:, t])
        assert states.count.tolist() == [12] * 3
        rows = torch.tensor([2, 0])
        z, _ = model.step(w[rows, 9], selected(kept, rows))
        close(z, y[rows, 9])
        z, states = model.step(w[:, 0])
        close(z, y[:, 0])


@pytest.mark.parametrize("name", MODELS)
def test_sequences_of_different_lengths_go_on_together(name):
    model, w, more = made(name), words(), words(3, 4, seed=1)
    lengths = (12, 1, 5)
    mask = torch.arange(12) < torch.tensor(lengths)[:, None]
    with torch.no_grad():
        _, states = model.prefill(torch.where(mask, w, -100), mask=mask)
        stretch, states = model.prefill(more[:, :2], states)
        step, states = model.step(more[:, 2], states)
        for i, length in enumerate(lengths):
            whole = model(torch.cat([w[i, :length], more[i]])[None])[0]
            close(stretch[i], whole[length : length + 2])
            close(step[i], whole[length + 2])


@pytest.mark.parametrize("tied", [True, False])
def test_the_last_logits_alone_are_made_for_the_last_tokens_alone(tied, monkeypatch):
    model, w = made("rope", tied=tied), words()
    mask = torch.arange(12) < torch.tensor((12, 1, 5))[:, None]
    with torch.no_grad():
        whole, after = model.prefill(w, mask=mask)
        seen, logits_of = [], model._logits
        monkeypatch.setattr(model, "_logits", lambda h: seen.append(tuple(h.shape[:-1])) or logits_of(h))
        some, states = model.prefill(w, mask=mask, last=True)
        close(some, whole[torch.arange(3), torch.tensor((11, 0, 4))])
        close(model.prefill(w, last=True)[0], model(w)[:, -1])
        close(model.step(w[:, 0], states)[0], model.step(w[:, 0], after)[0])
    assert seen[:2] == [(3,), (3,)]
    with pytest.raises(ValueError, match="last=True with no tokens"):
        model.prefill(w[:, :0], last=True)


def test_the_formula_with_no_blocks():
    model = made("rope", depth=0, positions="sinusoidal", width=6)
    w = words(2, 5)
    at = torch.arange(5, dtype=torch.float64)[:, None]
    p = torch.stack([f(at / 10_000 ** (2 * k / 6)) for k in range(3) for f in (torch.sin, torch.cos)], -1).squeeze(1)
    x = model.embedding.weight[w] + math.sqrt(2) * 0.02 * p
    x = x / (x.square().mean(-1, keepdim=True) + 1e-6).sqrt() * model.stack.norm.weight
    close(model(w), linear(x, model.embedding.weight), 1e-6)
    assert model(w).shape == (2, 5, SYMBOLS)


def test_initial_weights_are_gpt2_s():
    torch.manual_seed(0)
    model = LanguageModel(500, width=64, depth=8, local=3, tied=False, positions="learned", longest=100)
    model.requires_grad_(False)
    assert model.embedding.weight.std() == pytest.approx(0.02, rel=0.05)
    assert model.head.weight.std() == pytest.approx(0.02, rel=0.05)
    last = [w for b in model.stack.blocks for w in (b.mlp_out.weight, b.mixer.out.weight)]
    inner = [w for b in model.stack.blocks for w in (b.mlp_in.weight, b.mlp_gate.weight)]
    assert torch.stack([w.std() for w in last]).mean() == pytest.approx(0.02 / math.sqrt(8 * 3), rel=0.02)
    assert torch.stack([w.std() for w in inner]).mean() == pytest.approx(0.02, rel=0.02)
    assert not any(b.mlp_out.bias.any() for b in model.stack.blocks)
    loss = torch.nn.functional.cross_entropy(model(words(8, 50)).flatten(0, 1), words(8, 50, seed=3).flatten())
    assert float(loss) == pytest.approx(math.log(500), abs=0.05), "nothing is preferred at the start"


def test_tied_weights_are_one_and_get_both_gradients():
    model = made("rope")
    assert made("untied window").head is not None and model.head is None
    weight = model.embedding.weight
    output = weight.detach().clone().requires_grad_()
    h = model.stack(model.embedding(words()))
    split = torch.autograd.grad(linear(h, output).sin().sum(), [weight, output])
    (whole,) = torch.autograd.grad(model(words()).sin().sum(), weight)
    close(whole, split[0] + split[1])


@pytest.mark.parametrize("name", MODELS)
def test_saved_models_come_back(name, tmp_path):
    model = made(name)
    save_model(model, tmp_path)
    again = load_model(tmp_path)
    assert again.config == model.config
    assert torch.equal(again(words()), model(words()))


def test_built_by_name():
    model = build_model("language", symbols=5, width=8, depth=1)
    assert model(words(1, 3) % 5).shape == (1, 3, 5)
    with pytest.raises(ValueError, match="takes tokens, not in_channels=3 .* pass symbols"):
        build_model("language", symbols=5, in_channels=3)


def test_every_mixer_of_sequences_has_its_last_map_where_it_is_looked_for():
    from sciops.mixers import SequenceMixer

    for name, kind in MIXERS.items():
        if issubclass(kind, SequenceMixer):
            mixer = kind(8, causal=name != "sparse_attention")  # which has no causal form
            if any(True for _ in mixer.parameters()):
                assert isinstance(mixer.out, torch.nn.Linear), name


def test_errors_say_what_was_expected():
    for options, message in (
        (dict(symbols=0), "symbols=0: expected a whole number of at least 1"),
        (dict(depth=-1), "depth=-1"),
        (dict(positions="rope"), "positions='rope': expected one of none, sinusoidal, learned"),
        (dict(positions="learned"), "learned positions need longest"),
        (dict(longest=5), "with longest=5"),
        (dict(positions="learned", longest=2.5), "longest=2.5: expected a whole number of at least 1 or None"),
        (dict(mixer="spectral"), "expected one for sequences"),
        (dict(mixer=()), r"mixer=\(\): expected one for sequences"),
    ):
        with pytest.raises(ValueError, match=message):
            LanguageModel(**{"symbols": 5, "width": 8, "depth": 1, **options})
    model = made("learned")
    with pytest.raises(ValueError, match="a sequence of 21 tokens: .*longest=20"):
        model(words(1, 21))
    _, states = model.prefill(words(1, 20))
    with pytest.raises(ValueError, match="longest=20"):
        model.step(words(1, 1)[0], states)
    with pytest.raises(ValueError, match=r"expected whole numbers \(batch, n\)"):
        model(words().double())
    with pytest.raises(ValueError, match=r"expected \(batch,\)"):
        model.step(words())
    for bad in (torch.tensor([[1, SYMBOLS]]), torch.tensor([[-1, 0]])):
        with pytest.raises(ValueError, match=r"tokens from .*: expected 0 … 10; pass symbols"):
            model(bad)
    for mask in (torch.ones(3, 12, dtype=torch.int64), torch.ones(3, 11, dtype=torch.bool)):
        with pytest.raises(ValueError, match="expected booleans of the same shape"):
            model(words(), mask)


def test_a_stretch_of_nothing_leaves_the_states_as_they_are():
    model, w = made("rope"), words()
    with torch.no_grad():
        nothing, states = model.prefill(w[:, :0])
        assert nothing.shape == (3, 0, SYMBOLS) and states.count.tolist() == [0, 0, 0]
        y, _ = model.prefill(w, states)
    close(y, model(w))


def test_learned_positions_of_whole_sequences_need_no_look_at_the_values():
    model = made("learned").to("meta")  # tensors without values; on a GPU a look at them is a wait
    assert model(words().to("meta")).shape == (3, 12, SYMBOLS)
