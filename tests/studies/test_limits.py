"""The limits of the benchmarks: operations as torch counts them, and the slower of products and memory."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from sciops.mixers import MultipoleAttention, SpectralMixer
from studies.attention_cost import arms
from studies.attention_cost.report import operations
from studies.kit.limits import Rates, measured_rates
from studies.mixer_speed import layer


def counted(call):
    with FlopCounterMode(display=False) as counter:
        call()
    return counter.get_total_flops()


@pytest.mark.parametrize(("n", "window", "levels"), [(16, 2, True), (16, 4, True), (16, 4, False)])
def test_operations_of_multipole_attention(n, window, levels):
    attention = MultipoleAttention(8, heads=arms.HEADS, window=window, levels="auto" if levels else 1)
    x = torch.randn(1, n, n, 8)
    forward = counted(lambda: arms.multipole_reference(attention, x))
    assert operations(n, 8, window, levels) == 3 * forward


@pytest.mark.parametrize("case", [(2, 4, 3, 16), (1, 2, 4, 9)])
def test_operations_and_bytes_of_a_spectral_layer(case):
    batch, channels, modes, n = case
    mixer = SpectralMixer(channels, (modes, modes + 1))
    x = torch.randn(batch, n, n, channels, requires_grad=True)
    found = counted(lambda: mixer(x).sum().backward())
    operations, moved = layer.work(case)
    assert operations == found
    assert moved == 4 * x.numel() * 4


def test_the_slower_of_products_and_memory_is_the_limit():
    rates = Rates(operations=100.0, bytes=10.0)
    assert rates.least_seconds(400.0, 20.0) == 4.0
    assert rates.least_seconds(400.0, 60.0) == 6.0
    found = measured_rates(1, size=64, megabytes=1, rounds=1)
    assert found.operations > 0 and found.bytes > 0
