"""A rule speaks of what is run: repeats count, and whatever changes a layer behind its class's back ends the bound."""

from __future__ import annotations

import copy

import pytest
import torch
from small_models import LINE, SQUARE, Residual, Standardised, hooked, nothing, reason, spine, twice
from torch import nn
from torch.nn.modules import module as torch_module
from torch.nn.utils import parametrizations, parametrize, prune

from sciops import Grid, build_model
from sciops.lipschitz import RescaledLinear, RescaledSpectral, fourier_norm, lipschitz_bound, spectral_norm
from sciops.mixers import SpectralMixer
from sciops.models.spine.blocks import ResidualBlock
from sciops.models.wrappers.normalized import Normalized
from sciops.models.wrappers.stepper import Stepper


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


def hooked_before(module):
    module.register_forward_pre_hook(nothing)


def hooked_backward(module):
    module.register_full_backward_hook(nothing)


def forwarded(module):
    module.forward = lambda *inputs, **options: 10 * type(module).forward(module, *inputs, **options)


def called(module):
    module._compiled_call_impl = lambda *inputs, **options: 10 * module._call_impl(*inputs, **options)


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
