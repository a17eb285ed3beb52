"""What stands at padding is not read, NaN and ∞ included: neither in a result nor in a gradient."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from mixer_variants import ALL, CHANNELS, made
from torch import nn

from sciops.mixers import SequenceMixer
from sciops.models import build_model
from sciops.training.gradients import highway_rnn
from sciops.training.objectives import OBJECTIVES
from sciops.training.speech import ctc_loss

LENGTHS = torch.tensor([13, 5])
MASK = torch.arange(13) < LENGTHS[:, None]


def with_padding(x, value):
    return x.masked_fill(~MASK.reshape(*MASK.shape, *(1,) * (x.ndim - 2)), value).requires_grad_()


def alike(function, x, parameters=()):
    """The value and all gradients are the same for 0 and for NaN at padding."""
    found = []
    for value in (0.0, torch.nan):
        given = with_padding(x, value)
        y = function(given)
        grads = torch.autograd.grad(y.square().sum(), [given, *parameters], allow_unused=True)
        found.append((y.detach(), *(g for g in grads if g is not None)))
    for clean, dirty in zip(*found, strict=True):
        assert torch.equal(clean, dirty) and clean.isfinite().all()


@pytest.mark.parametrize("name, options, sizes", [case for case in ALL if len(case.values[2]) == 1])
def test_mixers(name, options, sizes):
    mixer = made(name, options)
    if isinstance(mixer, SequenceMixer):
        x = torch.randn(2, *sizes, CHANNELS, generator=torch.Generator().manual_seed(1))
        alike(lambda x: mixer(x, mask=MASK).masked_fill(~MASK.unsqueeze(-1), 0), x, list(mixer.parameters()))


def test_ctc_loss():
    logits = torch.randn(2, 13, 4, generator=torch.Generator().manual_seed(1))
    alike(lambda z: ctc_loss(z, LENGTHS, [[1, 2, 2], [3]]), logits)
    expected = ctc_loss(logits[1:, :5], LENGTHS[1:], [[3]])
    assert torch.allclose(ctc_loss(logits, LENGTHS, [[1, 2, 2], [3]])[1:], expected)


def test_token_cross_entropy():
    logits = torch.randn(2, 13, 4, generator=torch.Generator().manual_seed(1))
    target = torch.ones(2, 13, dtype=torch.int64).masked_fill(~MASK, -100)
    for smoothing in (0.0, 0.1):
        alike(partial(OBJECTIVES["token_cross_entropy"], target=target, smoothing=smoothing), logits)


def test_cross_entropy_of_a_class_that_is_ruled_out():
    logits = torch.tensor([[1.0, 2.0, -torch.inf]], requires_grad=True)
    loss = OBJECTIVES["cross_entropy"](logits, torch.tensor([[1.0, 0.0, 0.0]]))
    loss.sum().backward()
    assert torch.allclose(loss, torch.tensor(2.0).exp().add(torch.tensor(1.0).exp()).log() - 1)
    assert logits.grad.isfinite().all()
    half = OBJECTIVES["cross_entropy"](torch.tensor([[1.0, 2.0, -30.0]]).half(), torch.tensor([[1.0, 0.0, 0.0]]).half())
    assert half.dtype == torch.float32


def test_highway_rnn():
    torch.manual_seed(0)
    rnn = nn.GRU(3, 4, 2)
    x = torch.randn(2, 13, 3)
    alike(lambda x: highway_rnn(rnn, x.transpose(0, 1), mask=MASK.T)[0], x, list(rnn.parameters()))


def test_recurrent_models():
    torch.manual_seed(0)
    model = build_model("recurrent", in_channels=3, width=4, layout="sequence")
    alike(lambda x: model(x, lengths=LENGTHS), torch.randn(2, 13, 3), list(model.parameters()))


def test_speech_encoder():
    torch.manual_seed(0)
    model = build_model("speech_encoder", out_channels=8, depth=1, bins=8).eval()
    encode = lambda x: model.encode(x, LENGTHS)[0]  # noqa: E731
    alike(encode, torch.randn(2, 13, 8), [p for p in model.front.parameters()])
