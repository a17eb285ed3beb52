"""Options of torch's layers that a rule must read: each changes the norm of its layer, or ends the bound."""

from __future__ import annotations

import pytest
import torch
from small_models import LINE, SQUARE, reason, stretched, twice
from torch import nn

from sciops import Grid
from sciops.lipschitz import RescaledConv, convolution_norm, kernel_gram_bound, lipschitz_bound, spectral_norm


def test_options_of_pooling():
    conv = nn.Conv2d(1, 1, 1, bias=False)
    nn.init.ones_(conv.weight)
    x = torch.rand(1, 1, 5, 5, dtype=torch.float64)
    for pool, most in (
        (nn.AvgPool2d(2, divisor_override=1), 1.0),
        (nn.AvgPool2d(3, 1, 1), 1.25),  # at the walls the windows hold zeros
        (nn.AvgPool2d((2, 3), (1, 2)), 2.0),
        (nn.MaxPool2d(3, 1), 9.0),
        (nn.MaxPool2d(2, 1, dilation=2), 9.0),
        (nn.MaxPool2d(3, 2, 1, ceil_mode=True), 9.0),
    ):
        bound, true = stretched(nn.Sequential(conv, pool), SQUARE, x)
        assert bound <= most * true * (1 + 1e-9), pool
    assert lipschitz_bound(nn.Sequential(conv, nn.AvgPool2d(2, divisor_override=1)), SQUARE).value == pytest.approx(2)
    for pool in (nn.AvgPool2d(2, ceil_mode=True), nn.AvgPool2d(3, 1, 1, count_include_pad=False)):
        assert "no rule" in reason(nn.Sequential(conv, pool), SQUARE)
    assert "indices" in reason(nn.Sequential(conv, nn.MaxPool2d(2, return_indices=True)), SQUARE)


def test_tuples_of_one_number_count_for_all_axes():
    """As torch takes them; other lengths are refused where torch refuses them."""
    conv = nn.Conv2d(1, 1, 1, bias=False)
    nn.init.ones_(conv.weight)
    x = torch.zeros(1, 1, 5, 5, dtype=torch.float64)
    x[0, 0, 2, 2] = 1.0
    for short, long in (
        (nn.MaxPool2d((3,), 1), nn.MaxPool2d(3, 1)),
        (nn.MaxPool2d(3, (1,)), nn.MaxPool2d(3, 1)),
        (nn.MaxPool2d(2, 1, dilation=(2,)), nn.MaxPool2d(2, 1, dilation=2)),
        (nn.AvgPool2d(3, (1,), (1,)), nn.AvgPool2d(3, 1, 1)),
        (nn.Conv2d(1, 1, 3, stride=(2,)), nn.Conv2d(1, 1, 3, stride=2)),
        (nn.Conv2d(1, 1, 3, padding=(1,), dilation=(1,)), nn.Conv2d(1, 1, 3, padding=1)),
        (nn.ConvTranspose2d(1, 1, 3, (2,), output_padding=(1,)), nn.ConvTranspose2d(1, 1, 3, 2, output_padding=1)),
    ):
        long.load_state_dict(short.state_dict())
        bound, _ = stretched(nn.Sequential(conv, short), SQUARE, x)
        assert bound == lipschitz_bound(nn.Sequential(conv, long.double()), SQUARE).value, short
    for layer in (nn.CircularPad2d((1, 1)), nn.MaxPool2d((2, 2, 2), 1)):
        assert "of another length" in reason(nn.Sequential(conv, layer), SQUARE)
    wrong = nn.Conv2d(1, 1, 3, padding=(1,), padding_mode="circular")  # torch pads one axis, and then refuses
    assert "when it was built" in reason(nn.Sequential(wrong), SQUARE)


def test_largest_values_of_padding_alone():
    """Windows of a rounded-up size may lie in the padding, whose largest value is −∞."""
    conv, pool = nn.Conv1d(1, 1, 1), nn.MaxPool1d(2, 3, padding=1, dilation=4, ceil_mode=True)
    assert pool(torch.zeros(1, 1, 3)).item() == -float("inf")
    assert "padding alone" in reason(nn.Sequential(conv, pool), Grid((3,), centering="cell"))
    assert lipschitz_bound(nn.Sequential(conv, pool), Grid((5,), centering="cell")).value is not None
    assert "no output" in reason(nn.Sequential(conv, nn.MaxPool1d(4)), Grid((3,), centering="cell"))


def test_pooling_reads_its_axes_from_its_class():
    """A 2-D window over channels and points of a line, which torch takes for an image without channels."""
    line = Grid((6,), centering="cell")
    model = nn.Sequential(nn.Conv1d(5, 5, 1, bias=False), nn.MaxPool2d(3, 1)).double()
    with torch.no_grad():
        model[0].weight.copy_(torch.eye(5)[:, :, None])
    x = torch.zeros(1, 5, 6, dtype=torch.float64)
    x[0, 2, 2] = 1.0
    matrix = torch.autograd.functional.jacobian(model, x).reshape(-1, 30)
    true = float(torch.linalg.matrix_norm(matrix, 2))
    assert true == pytest.approx(3.0)  # the point is the largest in nine windows
    assert lipschitz_bound(model, line).value == pytest.approx(3.0)


def test_options_of_activations():
    square = lambda layer: nn.Sequential(twice(), layer)  # noqa: E731
    for layer, slope in (
        (nn.PReLU(4, 5.0), 5.0),
        (nn.LeakyReLU(-3.0), 3.0),
        (nn.ELU(4.0), 4.0),
        (nn.CELU(0.1), 1.0),
        (nn.Softplus(3.0), 1.0),
        (nn.Hardsigmoid(), float(torch.tensor(1 / 6))),  # as torch's gradient has it
        (nn.Softmax(-1), 0.5),
        (nn.RReLU(0.2, 3.0).eval(), 1.6),
        (nn.Threshold(0.5, 0.5), 1.0),
    ):
        assert lipschitz_bound(square(layer), LINE).value == pytest.approx(2 * slope, rel=1e-9), layer
    for layer, why in (
        (nn.CELU(-1.0), "alpha=-1.0"),
        (nn.Softplus(1.0, threshold=1.0), "jumps"),
        (nn.Hardshrink(), "jumps"),
        (nn.Threshold(0.5, 0.0), "jumps"),
        (nn.RReLU().train(), "training"),
        (nn.Dropout(0.3).train(), "training"),
        (nn.GLU(), "no rule"),
    ):
        assert why in reason(square(layer)), layer
    assert lipschitz_bound(square(nn.Dropout(0.0).train()), LINE).value == pytest.approx(2.0)


def test_norms_without_eps_and_with_their_statistics():
    for layer, why in (
        (nn.LayerNorm(3, eps=0.0), "eps=0.0"),
        (nn.LayerNorm(3), "no useful bound"),
        (nn.RMSNorm(3), "no useful bound"),
        (nn.BatchNorm1d(4).train(), "training"),
        (nn.BatchNorm1d(4, track_running_stats=False).eval(), "training"),
        (nn.InstanceNorm1d(4, track_running_stats=True), "statistics"),
    ):
        assert why in reason(nn.Sequential(twice(), layer)), layer
    norm = nn.RMSNorm(3)  # the eps of float32, where nothing else is said
    slope = torch.finfo(torch.float32).eps ** -0.5
    assert lipschitz_bound(nn.Sequential(norm, twice()), LINE, vacuous=True).value == pytest.approx(2 * slope)


def test_padding_that_was_set_after_the_layer_was_built():
    """torch pads by what it was given in the constructor, whatever the attribute says."""
    layer = nn.Conv1d(1, 1, 1, padding=3, padding_mode="circular")
    layer.padding = (0,)
    with pytest.raises(ValueError, match="when it was built"):
        spectral_norm(layer, grid=4)
    assert "when it was built" in reason(nn.Sequential(layer))


@pytest.mark.parametrize("kind", ["reflect", "replicate", "circular", "zero"])
def test_layers_that_pad(kind):
    layer = {"reflect": nn.ReflectionPad2d, "replicate": nn.ReplicationPad2d, "circular": nn.CircularPad2d}
    pad = layer.get(kind, nn.ZeroPad2d)((1, 2, 3, 0))
    conv = nn.Conv2d(1, 1, 1, bias=False)
    nn.init.ones_(conv.weight)
    bound, true = stretched(nn.Sequential(conv, pad), SQUARE, torch.rand(1, 1, 5, 5, dtype=torch.float64))
    assert bound == pytest.approx(true, rel=1e-9)


@pytest.mark.parametrize(
    ("k", "stride", "dilation"), [(1, 1, 1), (2, 1, 1), (3, 1, 1), (3, 2, 1), (3, 1, 2), (4, 3, 1)]
)
@pytest.mark.parametrize("axes", [1, 2])
def test_bounds_of_kernels_and_wide_circular_padding(axes, k, stride, dilation):
    """On every grid while there are no more outputs than points; wider padding counts the copies of each output."""
    generator = torch.Generator().manual_seed(1)
    weight = torch.randn(2, 1, *(k,) * axes, dtype=torch.float64, generator=generator)
    bound, exceeded = float(kernel_gram_bound(weight)), False
    for n in (1, 2, 3, 5)[: 5 - axes]:
        for p in range(n + 1):
            outputs = n + 2 * p - dilation * (k - 1)
            if outputs < 1:
                continue
            options = dict(padding=p, padding_mode="circular", stride=stride, dilation=dilation)
            layer = (nn.Conv1d, nn.Conv2d)[axes - 1](1, 2, k, bias=False, **options).double()
            layer.weight.data = weight
            points = torch.eye(n**axes, dtype=torch.float64).reshape(-1, 1, *(n,) * axes)
            true = float(torch.linalg.matrix_norm(layer(points).detach().flatten(1), 2))
            copies = (-(-outputs // n)) ** axes
            assert true <= bound * copies**0.5 * (1 + 1e-12)
            assert true <= float(convolution_norm(weight, grid=(n,) * axes, **options).upper)
            assert true <= bound * (1 + 1e-12) or outputs > n
            exceeded |= true > bound
    assert exceeded or stride > 1 or k == 4


def test_layers_alone_and_rescaled_ones():
    assert lipschitz_bound(nn.Conv2d(1, 1, 3, padding=1), SQUARE).value is not None
    assert lipschitz_bound(RescaledConv(2, 2), SQUARE).value <= 1 + 1e-5
    assert lipschitz_bound(nn.Linear(3, 3), LINE).value is not None
    assert "number of channels" in reason(nn.Sequential(nn.ReLU()))
    assert "does not run" in reason(nn.Sequential(nn.Linear(3, 4), nn.Linear(3, 3)))
    assert "no output on a grid" in reason(nn.Sequential(nn.Conv1d(1, 1, 3), nn.Conv1d(1, 1, 3)))
