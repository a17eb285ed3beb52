"""The spine of sequence models: states, padding and the convolution beside the mixer."""

from __future__ import annotations

import pytest
import torch

from sciops.models.sequences.stack import DepthwiseConvolution, SequenceStack


def stack(**options):
    torch.manual_seed(0)
    options = {"causal": True, "mixer": ("self_attention",), "local": 4, **options}
    return SequenceStack(8, 3, **options).double().eval()


def tokens(n=15):
    return torch.randn(3, n, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("local", [0, 1, 4])
def test_prefill_and_steps_are_the_whole(local):
    model, x = stack(local=local), tokens()
    with torch.no_grad():
        y, states = model.prefill(x[:, :6])
        outputs = [y]
        for t in range(6, 12):
            y, states = model.step(x[:, t], states)
            outputs.append(y[:, None])
        y, states = model.prefill(x[:, 12:], states)
        torch.testing.assert_close(torch.cat([*outputs, y], 1), model(x), rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("causal, local", [(True, 4), (False, 5)])
def test_padding_does_not_matter(causal, local):
    model, x, lengths = stack(causal=causal, local=local), tokens(), (15, 2, 9)
    mask = torch.arange(15) < torch.tensor(lengths)[:, None]
    y = model(torch.where(mask[..., None], x, 7.0), mask)
    for i, length in enumerate(lengths):
        torch.testing.assert_close(y[i, :length], model(x[i : i + 1, :length])[0], rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("causal, local", [(True, 4), (False, 5)])
def test_padding_may_hold_anything(causal, local):
    model, x = stack(causal=causal, local=local), tokens()
    mask = torch.arange(15) < torch.tensor([15, 2, 9])[:, None]
    y, expected = (model(torch.where(mask[..., None], x, fill), mask) for fill in (-torch.inf, 0.0))
    assert torch.equal(y[mask], expected[mask])
    y[mask].square().sum().backward()
    assert all(p.grad.isfinite().all() for p in model.parameters())
    if causal:
        with torch.no_grad():
            _, spoilt = model.prefill(torch.where(mask[..., None], x, torch.nan), mask=mask)
            _, states = model.prefill(torch.where(mask[..., None], x, 0.0), mask=mask)
            assert torch.equal(model.step(x[:, 0], spoilt)[0], model.step(x[:, 0], states)[0])


def test_sequences_of_different_lengths_go_on_together():
    model, x, lengths = stack(), tokens(), (15, 2, 9)
    mask = torch.arange(15) < torch.tensor(lengths)[:, None]
    with torch.no_grad():
        _, states = model.prefill(torch.where(mask[..., None], x, 7.0), mask=mask)
        y, _ = model.step(x[:, 0], states)
        for i, length in enumerate(lengths):
            whole = model(torch.cat([x[i, :length], x[i, :1]])[None])
            torch.testing.assert_close(y[i], whole[0, -1], rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("size, causal", [(1, True), (4, True), (5, False)])
def test_the_convolution_is_its_sum(size, causal):
    torch.manual_seed(0)
    layer, x = DepthwiseConvolution(8, size, causal=causal).double(), tokens(9)
    first = 1 - size if causal else -(size // 2)
    expected = layer.bias.expand(3, 9, 8).clone()
    for i in range(9):
        for j in range(size):
            if 0 <= i + first + j < 9:
                expected[:, i] = expected[:, i] + layer.weight[:, 0, j] * x[:, i + first + j]
    torch.testing.assert_close(layer(x), expected, rtol=1e-12, atol=1e-12)


def test_layers_are_what_forward_takes():
    model, x = stack(), tokens()
    h = x
    for block in model.blocks:
        for g, _ in block.layers():
            h = h + g(h)
    torch.testing.assert_close(model.norm(h), model(x), rtol=1e-12, atol=1e-12)


def test_errors_say_what_was_expected():
    with pytest.raises(ValueError, match="expected one for sequences, self_attention"):
        stack(mixer="spectral")
    with pytest.raises(ValueError, match="odd number where it is not causal"):
        stack(causal=False, local=4)
    with pytest.raises(ValueError, match="norm='instance': expected one of rms, layer, none"):
        stack(norm="instance")
    with pytest.raises(ValueError, match="dropout=1"):
        stack(dropout=1)
    with pytest.raises(ValueError, match="say causal=False, the stack causal=True"):
        stack(mixer_options=dict(causal=False))
    with pytest.raises(TypeError, match="unknown option 'span'"):
        stack(mixer_options=dict(span=3))
