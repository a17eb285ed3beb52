"""What BEST-RQ asks for and hides: codes against a search, masks against the published shares."""

import itertools

import numpy as np
import pytest
import torch

from sciops.training import speech


def test_codes_are_the_nearest_ones():
    quantizer = speech.RandomProjectionQuantizer(12, codes=9, code_channels=4, seed=3).double()
    x = torch.randn(2, 5, 12, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    got = quantizer(x)
    assert torch.allclose(quantizer.codebook.norm(dim=1), torch.ones(9).double(), atol=1e-6)
    for b, t in itertools.product(range(2), range(5)):
        v = np.array([sum(float(x[b, t, i]) * float(quantizer.projection[i, j]) for i in range(12)) for j in range(4)])
        v /= np.linalg.norm(v)
        distances = [np.linalg.norm(v - quantizer.codebook[k].numpy()) for k in range(9)]
        assert int(got[b, t]) == int(np.argmin(distances))
    big = torch.randn(5000, 12, dtype=torch.float64)
    assert torch.equal(quantizer(big), torch.cat([quantizer(part) for part in big.split(777)]))
    bound = (6 / 16) ** 0.5
    assert quantizer.projection.abs().max() <= bound and quantizer.projection.std() > bound / 3
    same, other = (speech.RandomProjectionQuantizer(12, codes=9, code_channels=4, seed=s) for s in (3, 4))
    assert torch.equal(same.codebook.double(), quantizer.codebook) and not torch.equal(same.codebook, other.codebook)
    assert not list(quantizer.parameters()) and len(quantizer.state_dict()) == 2


def test_codes_are_those_of_float32_whatever_a_model_is_trained_in():
    quantizer = speech.RandomProjectionQuantizer(52, codes=1024)
    x = torch.randn(300, 52, generator=torch.Generator().manual_seed(2))
    expected = quantizer(x)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(quantizer(x), expected)
    rounded = x.bfloat16()
    assert torch.equal(quantizer(rounded), quantizer(rounded.float()))


def test_frames_are_stacked_in_order():
    x = torch.arange(2 * 11 * 3).reshape(2, 11, 3)
    got = speech.stacked(x, 4)
    assert got.shape == (2, 2, 12)
    for b, i in itertools.product(range(2), range(2)):
        assert got[b, i].tolist() == [int(x[b, 4 * i + j, c]) for j in range(4) for c in range(3)]


def test_masks_hide_what_was_published():
    tokens = torch.tensor([50, 10, 31])
    mask = speech.span_mask(tokens, generator=torch.Generator().manual_seed(0))
    assert mask.sum(1).tolist() == [30, 6, 19] and not mask[1, 10:].any() and not mask[2, 31:].any()
    one = speech.span_mask(tokens, per_sequence=False, generator=torch.Generator().manual_seed(0))
    assert (one == one[:1]).all() and one.sum(1).tolist() == [6] * 3 and not one[:, 10:].any()
    share = np.mean(
        [
            float(speech.span_mask(torch.tensor([400]), probability=0.04, length=16, generator=g).float().mean())
            for g in (torch.Generator().manual_seed(s) for s in range(20))
        ]
    )
    assert share == pytest.approx(1 - (1 - 0.16) ** 4, abs=0.02)  # spans that may overlap
    assert speech.span_mask(torch.tensor([1])).tolist() == [[True]]
    for wrong in (dict(length=6), dict(length=0), dict(probability=0.0)):
        with pytest.raises(ValueError, match="multiple of 4"):
            speech.span_mask(tokens, **wrong)
    with pytest.raises(ValueError, match="at least one whole token"):
        speech.span_mask(torch.tensor([3, 0]))


def test_hidden_frames_are_noise_and_the_others_are_left():
    x = torch.full((2, 4003, 13), 7.0)
    mask = speech.span_mask(torch.tensor([1000, 1000]), generator=torch.Generator().manual_seed(1))
    y = speech.hidden(x, mask, generator=torch.Generator().manual_seed(2))
    spread = torch.nn.functional.pad(mask.repeat_interleave(4, 1), (0, 3))
    assert (y[~spread] == 7).all()
    noise = y[spread]
    assert abs(float(noise.mean())) < 2e-3 and float(noise.std()) == pytest.approx(0.1, abs=2e-3)
