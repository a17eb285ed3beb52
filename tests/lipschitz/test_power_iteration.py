"""Power iteration stays below, at every step and for every map, and comes near."""

import pytest
import torch
from torch import nn

from sciops.lipschitz import dense_norm, power_iteration


def gaussian(*shape, dtype=torch.float64, seed=0):
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex128])
def test_below_at_every_step_and_rising(dtype):
    matrix = gaussian(9, 6, dtype=dtype)
    truth = float(torch.linalg.svdvals(matrix.to(torch.complex128))[0])
    values = [float(power_iteration(matrix, iterations=k)) for k in (1, 3, 10, 200)]
    assert all(value <= truth for value in values)
    assert values == sorted(values)
    assert values[0] < 0.95 * truth and values[-1] == pytest.approx(truth, rel=1e-9)


def test_a_matrix_and_the_layer_it_makes_agree():
    layer = nn.Linear(6, 9, dtype=torch.float64)
    same = power_iteration(layer, (6,), iterations=25)
    assert float(same) == pytest.approx(float(power_iteration(layer.weight, iterations=25)), rel=1e-9)


def test_affine_maps_count_without_their_offset():
    conv = nn.Conv2d(2, 3, 3, padding=1, padding_mode="reflect", stride=2, dtype=torch.float64)
    with torch.no_grad():
        conv.bias.fill_(100.0)
        basis = torch.eye(2 * 30, dtype=torch.float64).reshape(-1, 2, 5, 6)
        dense = (conv(basis) - conv.bias[:, None, None]).flatten(1)
    truth = float(torch.linalg.svdvals(dense)[0])
    value = float(power_iteration(conv, (2, 5, 6), iterations=300))
    assert value <= truth and value == pytest.approx(truth, rel=1e-6)


def test_complex_maps_use_the_adjoint_not_the_transpose():
    matrix = gaussian(7, 5, dtype=torch.complex128)
    value = power_iteration(lambda v: v @ matrix.mT, (5,), iterations=400, like=matrix)
    assert float(value) == pytest.approx(float(torch.linalg.svdvals(matrix)[0]), rel=1e-8)


def test_it_certifies_nothing_where_the_gap_is_small():
    matrix = torch.diag(torch.linspace(0.9, 1.0, 200, dtype=torch.float64))
    below = float(power_iteration(matrix, iterations=20))
    assert below < 0.99 < 1.0 <= float(dense_norm(matrix).upper)


def test_zero_maps_and_seeds():
    assert float(power_iteration(torch.zeros(3, 4))) == 0.0
    matrix = gaussian(8, 8)
    one = power_iteration(matrix, iterations=2, generator=torch.Generator().manual_seed(1))
    assert float(one) != float(power_iteration(matrix, iterations=2))
    assert float(power_iteration(matrix, iterations=2)) == float(power_iteration(matrix, iterations=2))
    with pytest.raises(ValueError, match="needs the shape of one input"):
        power_iteration(lambda v: v)


def test_a_layer_of_complex_weights_is_a_map_of_real_fields():
    class Modes(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.tensor([1.0, 3j, -2.0, 0.5 + 0.5j], dtype=torch.complex128))

        def forward(self, x):
            return torch.fft.irfft(torch.fft.rfft(x) * self.weight, n=x.shape[-1])

    value = float(power_iteration(Modes(), (1, 7), iterations=300))
    assert 3 * (1 - 1e-9) < value <= 3
    linear = torch.nn.Linear(2, 2, bias=False, dtype=torch.complex128)
    exact = float(torch.linalg.matrix_norm(linear.weight.detach(), 2))
    assert float(power_iteration(linear, (2,), iterations=300, like=linear.weight)) == pytest.approx(exact, rel=1e-6)
