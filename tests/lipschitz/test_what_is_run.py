"""A rule speaks of what is run: repeats count, and whatever changes a layer behind its class's back ends the bound."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from stretching import jacobian
from torch import nn
from torch.nn.modules import module as torch_module
from torch.nn.utils import parametrizations, parametrize, prune

from sciops import Grid, build_model
from sciops.lipschitz import (
    RULES,
    RescaledConv,
    RescaledLinear,
    RescaledSpectral,
    UnboundedError,
    convolution_norm,
    fourier_norm,
    kernel_gram_bound,
    lipschitz_bound,
    log_lipschitz_penalty,
    register,
    spectral_norm,
)
from sciops.lipschitz.bounds.registry import RULES as registry
from sciops.mixers import SpectralMixer
from sciops.models.blocks import ResidualBlock
from sciops.models.normalized import Normalized
from sciops.models.operator import Operator
from sciops.models.stepper import Stepper
from sciops.models.symmetry import SymmetryAveraged
from sciops.symmetry import Symmetry

LINE = Grid((4,), centering="cell")
SQUARE = Grid((5, 5), centering="cell")


def twice(n=3):
    layer = nn.Linear(n, n, bias=False)
    layer.weight.data = 2 * torch.eye(n)
    return layer


def reason(model, grid=LINE, **options):
    """Why there is no bound; fails where there is one."""
    bound = lipschitz_bound(model, grid, **options)
    assert bound.value is None, bound
    return "; ".join(row.reason for row in bound.blocks if row.value is None)


# what was right by its class, and is not what runs


def test_repeats_are_counted():
    layer, shared = twice(), nn.LeakyReLU(3.0)
    tied = nn.Linear(3, 3, bias=False)
    tied.weight = layer.weight
    for model, true in [
        (nn.Sequential(layer, nn.Identity(), layer), 4.0),
        (nn.Sequential(layer, shared, layer, shared), 36.0),
        (nn.Sequential(nn.Sequential(layer, shared), nn.Sequential(layer, shared)), 36.0),
        (nn.Sequential(*[nn.Sequential(layer)] * 3), 8.0),
        (nn.Sequential(layer, tied), 4.0),
    ]:
        assert lipschitz_bound(model, LINE).value == pytest.approx(true, rel=1e-9)
        x = torch.randn(1, 4, 3, generator=torch.Generator().manual_seed(0))
        matrix = torch.autograd.functional.jacobian(model, x.abs()).reshape(12, 12)
        assert float(torch.linalg.matrix_norm(matrix, 2)) <= true * (1 + 1e-6)


class Residual(nn.Sequential):
    def forward(self, x):
        return x + super().forward(x)


class Standardised(nn.Linear):
    def forward(self, x):
        return nn.functional.linear(x, self.weight / self.weight.norm() * 10)


class Called(nn.Linear):
    def __call__(self, x):
        return 10 * super().__call__(x)


class Mixed(Standardised, nn.Linear):
    pass


class Convolved(nn.Conv1d):
    def _conv_forward(self, x, weight, bias):
        return super()._conv_forward(x, 10 * weight, bias)


class Weighted(nn.Linear):
    @property
    def weight(self):
        return self._parameters["weight"] * torch.rand(())


def reclassed():
    layer = twice()
    layer.__class__ = Weighted
    return layer


class Unwrapped(nn.Module):
    def __init__(self, model):
        super().__init__()
        self._orig_mod = model

    def forward(self, x):
        return 10 * self._orig_mod(x)


@pytest.mark.parametrize(
    "model",
    [
        Residual(twice()),
        nn.Sequential(Residual(twice())),
        Standardised(3, 3),
        nn.Sequential(twice(), Called(3, 3)),
        Mixed(3, 3),
        Convolved(3, 3, 1),
        nn.Sequential(reclassed()),
        Unwrapped(twice()),
    ],
    ids=lambda model: type(model).__name__,
)
def test_code_of_its_own_has_no_rule(model):
    assert "no rule for" in reason(model)


class Net(nn.Sequential):
    """With a constructor and a method that the base class does not run."""

    width = 3

    def __init__(self):
        super().__init__(twice(), nn.ReLU())

    def count(self):
        return len(self)


def test_subclasses_that_run_their_base_keep_its_bound():
    assert lipschitz_bound(Net(), LINE).value == pytest.approx(2.0, rel=1e-9)
    assert lipschitz_bound(nn.DataParallel(Net()), LINE).value == pytest.approx(2.0, rel=1e-9)
    assert lipschitz_bound(torch.compile(Net(), backend="eager"), LINE).value == pytest.approx(2.0, rel=1e-9)
    inside = Net()
    inside.compile(backend="eager")
    assert lipschitz_bound(inside, LINE).value == pytest.approx(2.0, rel=1e-9)


def nothing(*_):
    return None


def hooked(module):
    module.register_forward_hook(nothing)


def hooked_before(module):
    module.register_forward_pre_hook(nothing)


def hooked_backward(module):
    module.register_full_backward_hook(nothing)


def forwarded(module):
    module.forward = lambda *inputs, **options: 10 * type(module).forward(module, *inputs, **options)


def called(module):
    module._compiled_call_impl = lambda *inputs, **options: 10 * module._call_impl(*inputs, **options)


def spine(**options):
    options = dict(width=3, depth=1, norm="none", mlp="plain", ndim=1, mixer_options={"modes": (2,)}) | options
    return Operator(1, 1, **options)


def models():
    return {
        "sequence": (nn.Sequential(twice(), nn.ReLU()), LINE),
        "layer": (twice(), LINE),
        "mixer": (SpectralMixer(3, (2,)), LINE),
        "classic": (spine(block="classic", local=True), Grid((6,), centering="periodic")),
        "residual": (spine(), Grid((6,), centering="cell")),
        "normalized": (Normalized(spine()), Grid((6,), centering="cell")),
        "stepper": (Stepper(spine(), channels=1), Grid((6,), centering="cell")),
        "parallel": (nn.DataParallel(nn.Sequential(twice())), LINE),
        "classifier": (
            build_model(
                "classifier", in_channels=1, out_channels=2, patch=2, widths=(3,), depths=(1,), norm="none",
                mixer="spectral", mixer_options={"modes": (2, 2)},
            ),
            SQUARE,
        ),
        "neuralop": (build_model("neuralop:FNO", width=3, depth=1, modes=(2, 2)), SQUARE),
    }  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("change", [hooked, hooked_before, hooked_backward, forwarded, called])
def test_no_part_of_a_model_may_be_changed(change):
    """Every module of every kind of model, one at a time."""
    count = 0
    for name, (model, grid) in models().items():
        assert lipschitz_bound(model, grid).value is not None, name
        for path, _ in model.named_modules():
            altered = copy.deepcopy(model)
            part = altered.get_submodule(path)
            if isinstance(part, (nn.ModuleList, nn.ModuleDict)):
                continue  # never called
            change(part)
            assert "what is run is not what the class says" in reason(altered, grid), (name, path)
            count += 1
    assert count > 40


def test_hooks_of_all_modules():
    handle = torch_module.register_module_forward_hook(nothing)
    try:
        assert "hook of all modules" in reason(nn.Sequential(twice()))
    finally:
        handle.remove()
    assert lipschitz_bound(nn.Sequential(twice()), LINE).value == pytest.approx(2.0)


@pytest.mark.filterwarnings("ignore")
def test_weights_made_by_hooks():
    """Before the next forward the layer still holds the weight of the last one."""
    for make in (
        lambda: nn.utils.weight_norm(twice()),
        lambda: nn.utils.spectral_norm(twice()),
        lambda: prune.l1_unstructured(twice(), "weight", amount=0.5),
    ):
        assert "hook" in reason(nn.Sequential(make()))
        with pytest.raises(TypeError, match="hook"):
            spectral_norm(make())
    mixer = SpectralMixer(3, (2,))
    mixer.register_forward_hook(nothing)
    with pytest.raises(ValueError, match="hook"):
        fourier_norm(mixer, LINE)


@pytest.mark.parametrize(
    ("kind", "name", "model", "grid"),
    [
        (nn.Linear, "forward", lambda: spine(), Grid((6,), centering="cell")),
        (nn.Linear, "forward", lambda: nn.Sequential(nn.Conv1d(1, 1, 1), RescaledLinear(4, 4)), LINE),
        (nn.Conv1d, "_conv_forward", lambda: nn.Sequential(nn.Conv1d(1, 1, 1)), LINE),
        (nn.Sequential, "forward", lambda: nn.Sequential(twice()), LINE),
        (nn.Module, "__call__", lambda: twice(), LINE),
        (nn.Module, "_call_impl", lambda: SpectralMixer(3, (2,)), LINE),
        (ResidualBlock, "forward", lambda: spine(), Grid((6,), centering="cell")),
        (Stepper, "forward", lambda: Stepper(spine(), channels=1), Grid((6,), centering="cell")),
    ],
    ids=lambda value: getattr(value, "__name__", value if isinstance(value, str) else ""),
)
def test_code_of_a_known_class_that_was_replaced(kind, name, model, grid, monkeypatch):
    """As libraries do that patch a layer for all models; a layer that does not run that code keeps its bound."""
    model = model()
    assert lipschitz_bound(model, grid).value is not None
    inherited = getattr(kind, name)
    monkeypatch.setattr(kind, name, lambda self, *inputs, **options: 10 * inherited(self, *inputs, **options))
    if any(isinstance(part, kind) for part in model.modules()):
        assert "replaced" in reason(model, grid)
    else:
        assert lipschitz_bound(model, grid).value is not None


def test_code_of_neuraloperator_that_was_replaced(monkeypatch):
    model, grid = models()["neuralop"]
    kinds = {type(part) for part in model.modules() if type(part).__module__.startswith("neuralop.")}
    assert len(kinds) >= 4
    for kind in kinds:
        with monkeypatch.context() as patch:
            patch.setattr(kind, "forward", lambda self, *inputs, **options: 0.0)
            assert f"{kind.__name__}.forward replaced" in reason(model, grid)
    assert lipschitz_bound(model, grid).value is not None


class Loud(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        result = super().__torch_function__(function, types, args, kwargs or {})
        return 10 * result if function in (nn.functional.linear, nn.functional.batch_norm) else result


def test_tensors_that_are_more_than_numbers():
    linear, norm = twice(), nn.BatchNorm1d(4).eval()
    weight = linear.weight.data
    del linear.weight
    linear.weight = weight.as_subclass(Loud)  # no parameter, a plain attribute
    norm.running_var = norm.running_var.as_subclass(Loud)
    for layer, name in ((linear, "weight"), (norm, "running_var")):
        assert f"{name} of type Loud" in reason(nn.Sequential(twice(), layer))


@pytest.mark.parametrize("after", [nn.Identity(), nn.Tanh()])
def test_complex_weights(after):
    """Their real part is not their size, and tanh of complex numbers has no bound."""
    linear, conv = nn.Linear(3, 3, dtype=torch.complex64), nn.Conv1d(3, 3, 1, dtype=torch.complex64)
    with torch.no_grad():
        linear.weight.copy_(5j * torch.eye(3))
    for layer in (linear, conv):
        assert "complex" in reason(nn.Sequential(layer, after))
    assert spectral_norm(linear).upper.item() == pytest.approx(5.0, rel=1e-6)


class Noisy(nn.Module):
    def forward(self, weight):
        return weight * torch.rand(())


class Tripled(nn.Module):
    def forward(self, weight):
        return 3 * weight


def test_parametrized_weights_are_the_ones_in_use():
    tripled, unit = twice(), parametrizations.spectral_norm(twice())
    parametrize.register_parametrization(tripled, "weight", Tripled())
    assert lipschitz_bound(nn.Sequential(tripled), LINE).value == pytest.approx(6.0, rel=1e-6)
    assert spectral_norm(tripled).upper.item() == pytest.approx(6.0, rel=1e-6)
    assert lipschitz_bound(nn.Sequential(parametrizations.weight_norm(twice())), LINE).value == pytest.approx(2.0)
    assert lipschitz_bound(nn.Sequential(parametrizations.orthogonal(nn.Linear(3, 3))), LINE).value == pytest.approx(
        1.0
    )
    assert lipschitz_bound(nn.Sequential(unit.eval()), LINE).value == pytest.approx(1.0, rel=1e-6)
    noisy = twice()
    parametrize.register_parametrization(noisy, "weight", Noisy())
    assert "changes from call to call" in reason(nn.Sequential(noisy))
    # in training every look at the weight is a step of power iteration, which a question must not take
    torch.manual_seed(0)
    moving = parametrizations.spectral_norm(nn.Linear(9, 9), n_power_iterations=1).train()
    before = {name: b.clone() for name, b in moving.named_buffers()}
    assert "model.eval()" in reason(nn.Sequential(moving))
    assert all(torch.equal(before[name], b) for name, b in moving.named_buffers())
    assert lipschitz_bound(RescaledSpectral(3, (2,)), LINE).value <= 1 + 1e-6


# options that a rule must read


def stretched(model, grid, x):
    matrix, _ = jacobian(model.double(), x, None)
    true = float(np.linalg.norm(matrix.numpy(), 2))
    bound = lipschitz_bound(model, grid).value
    assert true <= bound * (1 + 1e-12)
    return bound, true


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


# models around


def test_swapped_parts_of_the_spine():
    grid = Grid((6,), centering="cell")

    def swap(model, path, part):
        parent, _, name = path.rpartition(".")
        setattr(model.get_submodule(parent), name, part)
        return model

    for path, part, why in (
        ("blocks.0.mlp_in", Standardised(3, 6), "mlp_in"),
        ("blocks.0.after_mixer", Standardised(3, 3), "after_mixer"),
        ("blocks.0.norm1", nn.Sequential(nn.Identity()), "no finite bound"),
        ("blocks.0.mixer", nn.Bilinear(3, 3, 3), "no rule for Bilinear"),
        ("lift", Residual(*spine().lift), "Residual as a pointwise map"),
        ("lift.1", nn.CELU(-1.0), "alpha"),
        ("project.2", Standardised(6, 1), "no rule for Standardised"),
        ("norm", nn.Hardtanh(), "no finite bound"),
        ("blocks.0", nn.Linear(3, 3), "no rule for a block"),
    ):
        assert why in reason(swap(spine(), path, part), grid), path
    plain = lipschitz_bound(spine(), grid).value
    sharper = lipschitz_bound(swap(spine(), "lift.1", nn.LeakyReLU(7.0)), grid)
    assert plain is not None and [b for b in sharper.blocks if b.name == "lift"][0].value is not None


def test_in_place_layers_on_an_input_that_is_used_again():
    first = nn.Sequential(nn.LeakyReLU(-3.0, inplace=True), nn.Conv1d(1, 1, 1))
    assert lipschitz_bound(first, LINE).value is not None
    assert "in place" in reason(Stepper(first, channels=1))
    image = nn.Sequential(nn.Identity(), nn.LeakyReLU(-3.0, inplace=True), nn.Conv2d(1, 1, 1))
    assert "in place" in reason(SymmetryAveraged(image, symmetry=Symmetry.of_scalars()), SQUARE)
    for view in (nn.AlphaDropout(0.3).eval(), nn.FeatureAlphaDropout(0.3).eval(), nn.ChannelShuffle(1)):
        behind = nn.Sequential(view, nn.LeakyReLU(3.0, inplace=True), nn.Conv1d(1, 1, 1, bias=False)).double()
        model, x = Stepper(behind, channels=1), torch.randn(1, 1, 4, dtype=torch.float64)
        bound, kept = lipschitz_bound(model, LINE).value, x.clone()
        view(x).mul_(2.0)
        if not torch.equal(x, kept):  # the layer gave its input itself
            assert bound is None, view
        elif bound is not None:
            assert stretched(model, LINE, kept)[0] == pytest.approx(bound)
    later = nn.Sequential(nn.Conv1d(1, 1, 1), nn.LeakyReLU(-3.0, inplace=True), nn.Conv1d(1, 1, 1))
    assert lipschitz_bound(Stepper(later, channels=1), LINE).value is not None


def test_a_stepper_that_draws_its_number_of_steps():
    """A network that shrinks what it sees: fewer steps leave more."""
    conv = nn.Conv1d(1, 1, 1, bias=False).double()
    nn.init.constant_(conv.weight, 0.5)
    stepper = Stepper(nn.Sequential(conv), channels=1, steps=3, residual=False, gradient="random").train()
    for stepper.drawn in (1, 2, 3):
        assert lipschitz_bound(stepper, LINE).value == pytest.approx(0.5**stepper.drawn, rel=1e-9)
    assert lipschitz_bound(stepper.eval(), LINE).value == pytest.approx((0.25 + 0.0625 + 0.015625) ** 0.5, rel=1e-9)


def test_the_description_of_a_model_is_not_a_proof():
    """Constants beside the frames stay from step to step, whatever `.config` says of the channels."""
    inner = nn.Sequential(nn.Conv1d(2, 1, 1, bias=False)).double()
    with torch.no_grad():
        inner[0].weight.copy_(torch.tensor([0.1, 1.0])[None, :, None])
    inner.config = {"name": "sum", "options": {"in_channels": 1}}
    stepper = Stepper(inner, channels=1, steps=3, residual=False)
    matrix, _ = jacobian(stepper, torch.ones(1, 2, 4, dtype=torch.float64), LINE)
    assert float(np.linalg.norm(matrix.numpy(), 2)) <= lipschitz_bound(stepper, LINE).value


@pytest.mark.parametrize("size", [(1, 1), (3, 3)])
def test_classifiers_of_images_smaller_than_their_stages(size):
    """Stages continue a grid that is too coarse for their mixer by zeros."""
    torch.manual_seed(0)
    model = build_model(
        "classifier", in_channels=1, out_channels=3, mixer="spectral", patch=2, widths=(4, 4), depths=(1, 1),
        norm="none", mixer_options={"modes": (2, 2)},
    )  # fmt: skip
    x = torch.randn(1, 1, *size, dtype=torch.float64)
    bound, true = lipschitz_bound(model, Grid(size, centering="cell")).value, None
    true = float(np.linalg.norm(jacobian(model.double(), x, None)[0].numpy(), 2))
    assert true <= bound


def test_penalties_name_what_was_changed():
    model = spine()
    hooked(model.blocks[0].mlp_in)
    with pytest.raises(ValueError, match="block 0 has no finite bound.*mlp_in: nothing as a forward hook"):
        log_lipschitz_penalty(model, Grid((6,), centering="cell"))


# rules of a user's own


@pytest.fixture
def forgotten():
    """Takes back what a test declares."""
    before = dict(registry)
    yield
    registry.clear()
    registry.update(before)


def test_a_registered_residual(forgotten):
    assert RULES is registry

    @register(Residual)
    def rule(module, setting):
        return 1 + setting.of(nn.Sequential(*module)), "1 + inside"

    for model, true in [
        (Residual(twice()), 3.0),
        (nn.Sequential(Residual(twice()), nn.ReLU(), Residual(twice())), 9.0),
    ]:
        bound = lipschitz_bound(model, LINE)
        assert bound.value == pytest.approx(true, rel=1e-9)
        assert "1 + inside" in str(bound)
    assert "no rule for Bilinear" in reason(Residual(nn.Bilinear(1, 1, 1)))
    model = Residual(twice())
    hooked(model[0])
    assert "hook" in reason(model)
    # on nodes the rule counts every point alike, and the change of norm is counted for it
    assert lipschitz_bound(Residual(twice()), Grid((4,))).value == pytest.approx(3 * 2**0.5, rel=1e-9)


def test_a_registered_residual_around_layers_that_write(forgotten):
    """x + f(x) reads x after f has written to it, so that only `reused=False` allows such an f."""
    register(Residual, lambda module, setting: 1 + setting.of(nn.Sequential(*module)))
    model = nn.Sequential(twice(), Residual(nn.LeakyReLU(3.0, inplace=True)))
    x = -torch.ones(1, 4, 3)
    assert torch.allclose(model(x), 12 * x)  # (3 + 3)·2, more than (1 + 3)·2
    assert "in place" in reason(model)
    assert lipschitz_bound(nn.Sequential(twice(), Residual(nn.LeakyReLU(3.0))), LINE).value == pytest.approx(8.0)
    register(Residual, lambda module, setting: 2 * setting.of(nn.Sequential(*module), reused=False))
    assert lipschitz_bound(model, LINE).value == pytest.approx(12.0)


class Shift(nn.Module):
    """A mixer that moves the field by one point."""

    def forward(self, x, grid=None):
        return 2 * x.roll(1, 1)


class Half(nn.Module):
    def forward(self, x):
        return x.sin() / 2


def test_registered_mixers_and_activations(forgotten):
    model = spine(block="classic", coordinates="none")
    model.blocks[0].mixer, model.lift[1] = Shift(), Half()
    grid = Grid((6,), centering="periodic")
    assert "Shift" in reason(model, grid) and "Half" in reason(model, grid)
    register(Shift, lambda module, setting: 2.0)
    register(Half, lambda module, setting: 0.5)
    model = model.double()
    bound = lipschitz_bound(model, grid)
    rows = {row.name: row.value for row in bound.blocks}
    skip = float(torch.linalg.matrix_norm(model.blocks[0].skip.weight.detach(), 2))
    assert rows["block 0"] == pytest.approx(2 + skip, rel=1e-9)
    x = torch.randn(1, 1, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    assert float(np.linalg.norm(jacobian(model, x, grid)[0].numpy(), 2)) <= bound.value
    penalty = log_lipschitz_penalty(model, grid)
    penalty.backward()
    assert model.blocks[0].skip.weight.grad.abs().sum() > 0


def test_rules_that_refuse_or_are_wrong(forgotten):
    def never(module, setting):
        raise UnboundedError("never")

    register(Shift, never)
    assert reason(Shift()) == "never"
    register(Shift, lambda module, setting: -1.0)
    with pytest.raises(ValueError, match="rule for Shift returned -1.0"):
        lipschitz_bound(Shift(), LINE)
    with pytest.raises(TypeError, match="expected a class"):
        register(Shift(), never)
    register(nn.Linear, lambda module, setting: 7.0)
    assert lipschitz_bound(twice(), LINE).value == pytest.approx(7.0)


def test_a_forward_that_was_replaced_on_the_class(forgotten, monkeypatch):
    register(Shift, lambda module, setting: 2.0)
    monkeypatch.setattr(Shift, "forward", lambda self, x, grid=None: 9 * x)
    assert "Shift.forward was replaced" in reason(Shift())


def test_layers_alone_and_rescaled_ones():
    assert lipschitz_bound(nn.Conv2d(1, 1, 3, padding=1), SQUARE).value is not None
    assert lipschitz_bound(RescaledConv(2, 2), SQUARE).value <= 1 + 1e-5
    assert lipschitz_bound(nn.Linear(3, 3), LINE).value is not None
    assert "number of channels" in reason(nn.Sequential(nn.ReLU()))
    assert "does not run" in reason(nn.Sequential(nn.Linear(3, 4), nn.Linear(3, 3)))
    assert "no output on a grid" in reason(nn.Sequential(nn.Conv1d(1, 1, 3), nn.Conv1d(1, 1, 3)))


class Spectral(nn.Module):
    """A layer written by hand, whose weights multiply the modes of a real field."""

    def __init__(self, channels):
        super().__init__()
        self.weight = nn.Parameter(0.5j * torch.ones(channels, 1))

    def forward(self, x):
        return torch.fft.irfft(self.weight * torch.fft.rfft(x), x.shape[-1])


def test_the_layers_before_and_after_complex_weights_run_on_real_fields(forgotten):
    register(Spectral, lambda module, setting: module.weight.abs().max())
    model, grid = nn.Sequential(Spectral(3), nn.Conv1d(3, 2, 1, bias=False)), Grid((8,), centering="periodic")
    expected = 0.5 * torch.linalg.matrix_norm(model[1].weight[..., 0].double(), 2)
    assert lipschitz_bound(model, grid).value == pytest.approx(expected.item(), rel=1e-6)
    penalty = log_lipschitz_penalty(model, grid)
    assert penalty.dtype == torch.float32 and penalty.item() == pytest.approx(expected.log().item(), rel=1e-5)
