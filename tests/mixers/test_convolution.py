import numpy as np
import pytest
import torch

from sciops.grids import Grid
from sciops.mixers.convolution import Convolution


def _reference(mixer, x, mode):
    """The sum of the definition, point by point, over a field continued by numpy."""
    w, b, r = mixer.weight.detach().numpy(), mixer.bias.detach().numpy(), mixer.size // 2
    wide = np.pad(x.numpy(), [(0, 0), *[(r, r)] * mixer.axes, (0, 0)], mode=mode)
    y = np.zeros(x.shape) + b
    for offset in np.ndindex(*w.shape[2:]):
        window = tuple(slice(o, o + n) for o, n in zip(offset, x.shape[1:-1]))
        y += wide[(slice(None), *window)] @ w[(slice(None), slice(None), *offset)].T
    return torch.from_numpy(y)


@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize("size", [1, 3, 5])
def test_it_is_the_sum_over_the_neighbours(axes, size):
    torch.manual_seed(0)
    shape = (9, 7, 6)[:axes]
    x = torch.randn(2, *shape, 4, dtype=torch.float64)
    for padding, mode in (("replicate", "edge"), ("zeros", "constant")):
        mixer = Convolution(4, size=size, padding=padding, axes=axes).double()
        torch.nn.init.normal_(mixer.bias)
        torch.testing.assert_close(mixer(x), _reference(mixer, x, mode), rtol=1e-12, atol=1e-12)
        periodic = mixer(x, Grid(shape, centering="periodic"))
        torch.testing.assert_close(periodic, _reference(mixer, x, "wrap"), rtol=1e-12, atol=1e-12)


def test_it_has_derivatives_of_second_order():
    mixer = Convolution(2).double()
    x = torch.randn(1, 4, 3, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(
        lambda x, w: torch.func.functional_call(mixer, {"weight": w}, (x,)), (x, mixer.weight)
    )


def test_refusals():
    for options in ({"size": 2}, {"padding": "ones"}, {"axes": 4}):
        with pytest.raises(ValueError, match=next(iter(options))):
            Convolution(4, **options)
    with pytest.raises(ValueError, match=r"2 grid axes, 4 channels"):
        Convolution(4)(torch.zeros(1, 8, 4))
    with pytest.raises(ValueError, match="reaches around"):
        Convolution(4, size=9)(torch.zeros(1, 3, 3, 4), Grid((3, 3), centering="periodic"))
