"""Standardisation: exact in float64, blind to how the data are cut, faithful through casts and state dicts."""

import numpy as np
import pytest
import torch

from sciops.datasets import Normalizer


def test_large_mean_small_spread_keeps_its_standard_deviation():
    # one pass in float32 (⟨x²⟩ − ⟨x⟩²) loses every digit here: 1e12 has a spacing of 65536
    x = 1e6 + torch.randn(64, 2, 9, 7, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    fitted = Normalizer.fit(x)
    exact = x.numpy().transpose(1, 0, 2, 3).reshape(2, -1)
    np.testing.assert_allclose(fitted.mean.numpy(), exact.mean(1), rtol=1e-15)
    np.testing.assert_allclose(fitted.std.numpy(), exact.std(1), rtol=1e-12)
    z = fitted.encode(x)
    assert abs(z.mean()) < 1e-9 and abs(z.std(correction=0) - 1) < 1e-9
    assert fitted.encode(x.float()).std(correction=0).sub(1).abs() < 2e-3  # float32 itself rounds 1e6 + t to 1/16


def test_fit_does_not_depend_on_blocks_or_grids():
    generator = torch.Generator().manual_seed(1)
    fine = torch.randn(10, 3, 8, 8, generator=generator, dtype=torch.float64) * 5 + 1e3
    coarse = torch.randn(4, 3, 5, 6, generator=generator, dtype=torch.float64) - 7
    blocks = Normalizer.fit(iter([fine[:3], coarse, fine[3:]]))
    flat = torch.cat([b.transpose(0, 1).reshape(3, -1) for b in (fine, coarse)], 1)
    torch.testing.assert_close(blocks.mean, flat.mean(1), rtol=1e-13, atol=0)
    torch.testing.assert_close(blocks.std, flat.std(1, correction=0), rtol=1e-13, atol=0)


def test_constant_channel_encodes_to_zero_and_decodes_back():
    x = torch.full((3, 1, 4, 4), 0.1)
    fitted = Normalizer.fit(x)
    assert fitted.std.item() == 1
    assert torch.equal(fitted.encode(x), torch.zeros_like(x))
    assert torch.equal(fitted.decode(fitted.encode(x)), x)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_round_trip_keeps_dtype(dtype):
    x = torch.randn(8, 2, 6, 6, generator=torch.Generator().manual_seed(2), dtype=torch.float64) * 3 + 2
    fitted = Normalizer.fit(x)
    x = x.to(dtype)
    back = fitted.decode(fitted.encode(x))
    assert back.dtype == dtype
    assert (back - x).abs().max() <= 16 * torch.finfo(dtype).eps * x.abs().max()


def test_casts_of_the_module_keep_the_fitted_values():
    fitted = Normalizer.fit(1e6 + torch.randn(50, 1, 4, 4, generator=torch.Generator().manual_seed(3)))
    mean, std = fitted.mean.clone(), fitted.std.clone()
    model = torch.nn.Sequential(fitted, torch.nn.Conv2d(1, 1, 1))
    model.half().float().double().to(torch.bfloat16)
    assert torch.equal(fitted.mean, mean) and torch.equal(fitted.std, std)
    assert model[1].weight.dtype == torch.bfloat16
    twin = Normalizer(1)
    twin.load_state_dict(fitted.state_dict())
    assert torch.equal(twin.mean, mean) and twin.mean.dtype == torch.float64


def test_gradient_passes_through():
    fitted = Normalizer.fit(torch.tensor([[[1.0, 3.0]]]))
    x = torch.zeros(1, 1, 2, requires_grad=True)
    fitted.encode(x).sum().backward()
    torch.testing.assert_close(x.grad, torch.ones_like(x))  # std of {1, 3} is 1


def test_refusals_are_one_line():
    with pytest.raises(ValueError, match="channel 1 .* not finite"):
        Normalizer.fit(torch.tensor([[[1.0], [float("nan")]]]))
    with pytest.raises(ValueError, match="training split is empty"):
        Normalizer.fit(torch.zeros(0, 1, 4))
    with pytest.raises(ValueError, match="fitted on 2 channels"):
        Normalizer(2).encode(torch.zeros(1, 3, 4))


@pytest.mark.gpu
def test_moves_to_a_device_and_casts_without_losing_the_fit():
    x = 1e6 + torch.randn(50, 1, 4, 4, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    fitted = Normalizer.fit(x)
    mean = fitted.mean.clone()
    there = fitted.encode(x.cuda())  # before the module moves: buffers follow the input
    fitted.to("cuda", torch.float32)
    assert fitted.mean.is_cuda and torch.equal(fitted.mean.cpu(), mean)
    torch.testing.assert_close(fitted.encode(x.cuda()), there, rtol=0, atol=0)
    torch.testing.assert_close(there.cpu(), fitted.cpu().encode(x), rtol=0, atol=1e-12)
