"""neuraloperator's models: theirs where they are right, the written-out Fourier sum where they are not."""

import warnings

import pytest
import torch

from sciops import Grid, build_model, resample
from sciops.models.operators import neuralop_resizing
from sciops.models.operators.neuralop import _import, _spectral_classes
from sciops.models.operators.neuralop_spectral import computes

SMALL = dict(width=6, depth=2, modes=(3, 3))


def randn(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


def fourier_sum(conv, x: torch.Tensor, sizes: tuple[int, int]) -> torch.Tensor:
    """irfft2 of R·rfft2(x) on rows −k … k−1 and the kept columns, at any output size."""
    spectrum, weight = torch.fft.rfft2(x.double(), norm="forward"), conv.weight.to_tensor().to(torch.complex128)
    k, columns = conv.n_modes[0] // 2, conv.n_modes[1]
    out = torch.zeros(x.shape[0], weight.shape[1], sizes[0], sizes[1] // 2 + 1, dtype=torch.complex128)
    for i, row in enumerate(range(-k, k)):
        source, target = row % x.shape[2], row % sizes[0]
        out[:, :, target, :columns] = torch.einsum("bic,ioc->boc", spectrum[:, :, source, :columns], weight[:, :, i])
    return torch.fft.irfft2(out, s=sizes, norm="forward") + conv.bias


@pytest.mark.parametrize("shape", [(16, 16), (17, 16), (18, 15), (21, 21)])
@pytest.mark.parametrize("scaling", [None, 0.5, 2])
def test_a_spectral_layer_is_the_fourier_sum_at_every_size_and_scaling(shape, scaling):
    torch.manual_seed(0)
    original, matched = _spectral_classes()
    conv, x = matched(2, 3, (6, 6), resolution_scaling_factor=scaling), randn(2, 2, *shape)
    sizes = tuple(round(n * (scaling or 1)) for n in shape)
    with torch.no_grad():
        ours = conv(x)
        expected = fourier_sum(conv, x, sizes).float()
        torch.testing.assert_close(ours, expected, rtol=1e-4, atol=1e-5)
        theirs = original.forward(conv, x)
    if scaling is None and shape[0] % 2 == 0:
        assert torch.equal(theirs, ours)


@pytest.mark.parametrize("name", ["FNO", "TFNO"])
def test_even_sizes_are_theirs_bit_for_bit_and_compat_shift_is_theirs_everywhere(name):
    torch.manual_seed(0)
    models = _import()
    theirs = getattr(models, name)(n_modes=(6, 4), in_channels=1, out_channels=1, hidden_channels=6, n_layers=2)
    state = theirs.state_dict()
    state.pop("_metadata")
    corrected, compatible = (build_model(f"neuralop:{name}", **SMALL, compat_shift=c) for c in (False, True))
    for model in (corrected, compatible):
        model.model.load_state_dict(dict(state))
    with torch.no_grad():
        even, odd = randn(2, 1, 10, 11), randn(2, 1, 11, 10)
        assert torch.equal(corrected(even), theirs(even)) and torch.equal(compatible(even), theirs(even))
        theirs_rolls = computes(theirs.fno_blocks.convs[0], (11, 10), (11, 10)) == "rolled"
        same, other = (compatible, corrected) if theirs_rolls else (corrected, compatible)
        assert torch.equal(same(odd), theirs(odd))
        assert (other(odd) - theirs(odd)).norm() / theirs(odd).norm() > 1e-3


def test_an_odd_grid_agrees_with_an_even_one_only_when_the_shift_is_corrected():
    """A band-limited periodic field on 15 and 30 points: the same function, so the same answer at shared points."""
    torch.manual_seed(0)
    t = [2 * torch.pi * torch.arange(n) / n for n in (15, 30)]
    x = [(torch.sin(s)[:, None] * torch.cos(2 * s)).expand(1, 1, len(s), len(s)) for s in t]
    gaps = []
    for compat in (False, True):
        torch.manual_seed(0)
        model = build_model("neuralop:FNO", **SMALL, compat_shift=compat, positional_embedding=None)
        with torch.no_grad():
            coarse, fine = model(x[0]), model(x[1])[..., ::2, ::2]
        gaps.append(((coarse - fine).norm() / fine.norm()).item())
    assert gaps[0] < 1e-5 < 1e-3 < gaps[1]


def test_uno_runs_by_name_and_trains_every_parameter(capsys):
    torch.manual_seed(0)
    model = build_model("neuralop:UNO", width=6, depth=4, modes=(3, 3))
    y = model(randn(2, 1, 17, 16))
    y.square().sum().backward()
    assert y.shape == (2, 1, 17, 16) and capsys.readouterr().out == ""
    assert not [name for name, p in model.named_parameters() if p.grad is None]


def test_layers_on_three_axes_change_the_resolution_of_skips_without_moving_modes(monkeypatch):
    from neuralop.layers import spectral_convolution
    from neuralop.models import uno

    def made(**options):
        torch.manual_seed(0)
        return build_model("neuralop:UNO", width=4, depth=3, modes=(3, 3, 3), **options)

    assert neuralop_resizing.keeps_fields(2)
    model, x = made(), randn(1, 1, 9, 10, 9)
    conv = next(m for m in model.modules() if isinstance(m, _spectral_classes()[0]))
    source, target = (Grid(n, centering="periodic") for n in ((9, 10, 9), (5, 7, 12)))
    moved = conv.transform(x, output_shape=target.shape)
    torch.testing.assert_close(moved, resample(x, source, target, "fourier"), rtol=1e-4, atol=1e-5)
    # the whole model is theirs with another `resample`
    with monkeypatch.context() as patch:
        for module in (uno, spectral_convolution):
            patch.setattr(module, "resample", neuralop_resizing.fourier_resample)
        patch.setattr(neuralop_resizing, "keeps_fields", lambda order: True)
        expected = made()(x)
    torch.testing.assert_close(model(x), expected, rtol=0, atol=0)
    if not neuralop_resizing.keeps_fields(3):
        assert (made(compat_shift=True)(x) - expected).norm() > 1e-3 * expected.norm()


def test_the_state_dict_holds_tensors_only_and_the_import_leaves_warnings_alone():
    model = build_model("neuralop:FNO", **SMALL)
    assert all(isinstance(v, torch.Tensor) for v in torch.nn.Sequential(model).state_dict().values())
    filters = list(warnings.filters)
    _import.cache_clear()
    _import()
    assert warnings.filters == filters


def test_what_is_wrong_is_said_in_one_line():
    with pytest.raises(ValueError, match="neuralop:FNN: unknown.*TFNO"):
        build_model("neuralop:FNN", **SMALL)
    with pytest.raises(TypeError, match="unknown option 'colour'.*n_modes"):
        build_model("neuralop:FNO", **SMALL, colour=1)
    with pytest.raises(TypeError, match="both width and hidden_channels"):
        build_model("neuralop:FNO", **SMALL, hidden_channels=3)
    with pytest.raises(TypeError, match="pass x.float"):
        build_model("neuralop:FNO", **SMALL)(randn(1, 1, 8, 8).double())


@pytest.mark.parametrize(
    "name, options, message",
    [
        ("FNO", {}, r"neuralop:FNO: pass modes=\(kx, ky\) \(one number per axis\) and width=…$"),
        ("FNO", {"modes": (3, 3)}, "neuralop:FNO: pass width=…$"),
        ("TFNO", {"width": 4}, "neuralop:TFNO: pass modes="),
        ("UNO", {}, "neuralop:UNO: needs modes="),
        ("FNO", {"modes": (3, 0), "width": 4}, r"modes=\(3, 0\); expected a whole number of 1 or more for each axis"),
        ("FNO", {"modes": "33", "width": 4}, "modes='33'; expected a whole number"),
        ("FNO", {"n_modes": (), "width": 4}, r"n_modes=\(\); expected a whole number"),
        ("FNO", {"modes": (3, 3), "width": 0}, "width=0; expected a whole number"),
        ("FNO", {"modes": (3, 3), "width": 4, "depth": 0}, "depth=0; expected a whole number"),
        ("fno", {}, "neuralop:fno: unknown; .*FNO"),
        ("GINO", {}, "neuralop:GINO is called with input_geom, .*not with one field"),
        ("CODANO", {}, "neuralop:CODANO has no option in_channels"),
    ],
)
def test_what_cannot_be_built_is_said_in_one_line(name, options, message):
    with pytest.raises((TypeError, ValueError), match=message) as error:
        build_model(f"neuralop:{name}", in_channels=1, out_channels=1, **options)
    assert "\n" not in str(error.value)


def test_inputs_that_do_not_fit_are_named():
    model = build_model("neuralop:FNO", in_channels=2, **SMALL)
    for x, message in (
        (randn(1, 1, 8, 8), r"in_channels=2 and modes for 2 axes: got x of shape \(1, 1, 8, 8\)"),
        (randn(1, 2, 8), r"got x of shape \(1, 2, 8\)"),
        (randn(1, 2, 8, 8).numpy(), "got ndarray; expected a tensor"),
        (randn(1, 2, 8, 8).to(torch.complex64), "got torch.complex64; pass real and imaginary parts as channels"),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            model(x)
    assert build_model("neuralop:FNO", modes=3, width=4, depth=1)(randn(1, 1, 9)).shape == (1, 1, 9)


def test_a_grid_too_small_for_all_modes_uses_the_weights_of_its_own_frequencies():
    """A band-limited field on 7 and 14 points with 8 stored rows: the same answer at shared points."""
    torch.manual_seed(0)
    model = build_model("neuralop:FNO", width=6, depth=1, modes=(4, 4), positional_embedding=None)
    conv = model.model.fno_blocks.convs[0]
    t = [2 * torch.pi * torch.arange(n) / n for n in (7, 14)]
    x = [(torch.sin(s)[:, None] * torch.cos(2 * s)).expand(1, 6, len(s), len(s)) for s in t]
    with torch.no_grad():
        torch.testing.assert_close(conv(x[0]), conv(x[1])[..., ::2, ::2], rtol=1e-4, atol=1e-5)
