"""The spectral mixer against torch.fft in float64, its derivatives, symmetries and precision."""

from __future__ import annotations

import itertools
import re

import pytest
import torch
from torch.func import functional_call

from sciops.grids import Grid
from sciops.mixers import SpectralMixer
from sciops.mixers.spectral import fourier
from sciops.models import build_model


def reference(mixer: SpectralMixer, x: torch.Tensor) -> torch.Tensor:
    """irfftn of rfftn times the weights, mode by mode."""
    part = mixer.parts[0]
    weight = torch.complex(part.weight.select(-2, 0), part.weight.select(-2, 1))
    sizes = x.shape[1:-1]
    axes = tuple(range(1, x.ndim - 1))
    spectrum = torch.fft.rfftn(x, dim=axes)
    if part.shared is not None:
        spectrum = spectrum @ part.shared.to(spectrum.dtype)
    result = torch.zeros(*spectrum.shape[:-1], mixer.out_channels, dtype=spectrum.dtype)
    *leading, last = mixer.modes
    frequencies = [[*range(k), *range(-1, -k - 1, -1)] for k in leading] + [list(range(last))]
    for index in itertools.product(*(range(len(f)) for f in frequencies)):
        mode = (slice(None), *(f[i] for f, i in zip(frequencies, index)))
        here = weight[index]
        result[mode] = spectrum[mode] @ here if part.shared is None else spectrum[mode] * here
    return torch.fft.irfftn(result, s=sizes, dim=axes)


CASES = [
    ((8,), (5,)),  # full half spectrum with its Nyquist column
    ((9,), (5,)),
    ((9,), (1,)),
    ((8, 8), (4, 5)),
    ((8, 8), (1, 1)),
    ((16, 16), (5, 4)),
    ((17, 17), (8, 9)),
    ((17, 20), (8, 11)),
    ((20, 17), (3, 4)),
    ((85, 85), (12, 12)),
    ((4, 5, 6), (2, 2, 4)),
    ((5, 4, 7), (1, 2, 3)),
]


def by(method: str, mixer: SpectralMixer) -> SpectralMixer:
    mixer.parts[0].method = method
    return mixer


@pytest.mark.parametrize("method", ["product", "fft"])
@pytest.mark.parametrize("weights", ["dense", "diagonal"])
@pytest.mark.parametrize("sizes, modes", CASES)
def test_equals_the_masked_fft(sizes, modes, weights, method):
    torch.manual_seed(0)
    mixer = by(method, SpectralMixer(3, modes, out_channels=2, weights=weights).double())
    x = torch.randn(2, *sizes, 3, dtype=torch.float64)
    assert (mixer(x) - reference(mixer, x)).abs().max() < 1e-12


def test_the_bias_is_added_once_per_point():
    mixer = SpectralMixer(2, (2, 2), bias=True).double()
    x = torch.randn(1, 6, 7, 2, dtype=torch.float64)
    without = mixer(x)
    with torch.no_grad():
        mixer.bias.copy_(torch.tensor([1.0, -2.0]))
    assert torch.allclose(mixer(x) - without, torch.tensor([1.0, -2.0]).double().expand(1, 6, 7, 2), atol=1e-14)


@pytest.mark.parametrize("basis", ["fourier", "sine", "cosine", "sine-cosine"])
@pytest.mark.parametrize("weights", ["dense", "diagonal"])
def test_first_and_second_derivatives(basis, weights):
    torch.manual_seed(0)
    mixer = SpectralMixer(2, (3, 4), basis=basis, weights=weights).double()
    parameters = dict(mixer.named_parameters())
    x = torch.randn(1, 6, 7, 2, dtype=torch.float64, requires_grad=True)

    def call(x, *values):
        return functional_call(mixer, dict(zip(parameters, values)), (x,))

    arguments = (x, *parameters.values())
    assert torch.autograd.gradcheck(call, arguments)
    assert torch.autograd.gradgradcheck(call, arguments, fast_mode=True)


@pytest.mark.parametrize("method", ["product", "fft"])
def test_both_ways_have_first_and_second_derivatives(method):
    torch.manual_seed(0)
    mixer = by(method, SpectralMixer(2, (3, 4), compat_shift=True).double())
    weight = mixer.parts[0].weight

    def call(x, value):
        return functional_call(mixer, {"parts.0.weight": value}, (x,))

    for sizes in ((6, 6), (7, 7)):  # 6 columns with the Nyquist one; 7 rows, all used, one of them twice by the shift
        x = torch.randn(1, *sizes, 2, dtype=torch.float64, requires_grad=True)
        assert torch.autograd.gradcheck(call, (x, weight))
        assert torch.autograd.gradgradcheck(call, (x, weight), fast_mode=True)


def test_ffts_are_taken_where_many_modes_are_kept_and_change_nothing():
    """Past the measured crossing both axes go over, each by itself."""
    place = torch.float64, torch.device("cpu")

    def kinds(sizes, modes):
        leading, analysis, synthesis = fourier.tables(sizes, modes, *place)
        return ["fft" if table.ndim == 1 else "product" for table in (*leading, analysis, synthesis)]

    assert kinds((421, 421), (12, 12)) == ["product"] * 3
    assert kinds((1024, 64), (400, 12)) == ["fft", "product", "product"]
    assert kinds((64, 1024), (12, 400)) == ["product", "fft", "fft"]
    torch.manual_seed(0)
    mixer = SpectralMixer(2, (400,)).double()
    x = torch.randn(1, 1024, 2, dtype=torch.float64, requires_grad=True)
    g = torch.randn(1, 1024, 2, dtype=torch.float64)
    found = {}
    for method in ("auto", "product", "fft"):
        y = by(method, mixer)(x)
        found[method] = [y, *torch.autograd.grad(y, [x, mixer.parts[0].weight], g)]
    for auto, product, fft in zip(*found.values()):
        assert torch.equal(auto, fft)
        torch.testing.assert_close(fft, product, rtol=0, atol=1e-12 * float(product.detach().abs().max()))


@pytest.mark.parametrize("sizes, modes", CASES)
def test_the_derivative_is_the_adjoint(sizes, modes):
    torch.manual_seed(0)
    mixer = SpectralMixer(3, modes).double()
    x, y = torch.randn(2, 2, *sizes, 3, dtype=torch.float64)
    x.requires_grad_()
    result = mixer(x)
    (transposed,) = torch.autograd.grad(result, x, y)
    forward, backward = (result * y).sum(), (x * transposed).sum()
    assert abs(forward - backward) < 1e-12 * (result.norm() * y.norm())


def test_accepts_a_cotangent_in_any_layout():
    mixer = SpectralMixer(3, (2, 2)).double()
    x = torch.randn(2, 6, 7, 3, dtype=torch.float64, requires_grad=True)
    g = torch.randn(3, 7, 6, 2, dtype=torch.float64).permute(3, 2, 1, 0)
    permuted = torch.autograd.grad(mixer(x), x, g)[0]
    assert torch.equal(permuted, torch.autograd.grad(mixer(x), x, g.contiguous())[0])
    broadcast = torch.autograd.grad(mixer(x).sum(), x)[0]
    ones = torch.autograd.grad(mixer(x), x, torch.ones_like(x))[0]
    assert torch.allclose(broadcast, ones, atol=1e-14)


@pytest.mark.parametrize("sizes", [(17, 17), (16, 16), (17, 20), (20, 17)])
def test_translations_commute(sizes):
    torch.manual_seed(0)
    mixer = SpectralMixer(3, (5, 6)).double()
    x = torch.randn(2, *sizes, 3, dtype=torch.float64)
    moved = mixer(x.roll((3, 5), (1, 2)))
    assert (moved - mixer(x).roll((3, 5), (1, 2))).abs().max() < 1e-12


def test_a_plane_wave_meets_only_its_own_weight():
    """cos(2π(2i/n + 3j/m)) sits in row 2, column 3: the answer is Re(w e^{i…}) there, exactly."""
    n, m = 12, 15
    mixer = SpectralMixer(1, (3, 4)).double()
    i, j = torch.meshgrid(torch.arange(n), torch.arange(m), indexing="ij")
    for row, place in ((2, 2), (-2, 3 + 1)):  # rows are stored as 0, 1, 2, −1, −2, −3
        phase = 2 * torch.pi * (row * i.double() / n + 3 * j.double() / m)
        re, im = mixer.parts[0].weight[place, 3, 0, :, 0]
        expected = re * phase.cos() - im * phase.sin()
        assert (mixer(phase.cos()[None, ..., None])[0, ..., 0] - expected).abs().max() < 1e-13


@pytest.mark.parametrize("sizes, modes", [((9,), (4,)), ((8, 9), (3, 5)), ((6, 5, 4), (2, 1, 3))])
def test_the_form_for_compilers_has_the_same_values(sizes, modes, monkeypatch):
    torch.manual_seed(0)
    mixer = SpectralMixer(3, modes, out_channels=2)
    x = torch.randn(2, *sizes, 3)
    g = torch.randn(2, *sizes, 2)

    def values():
        v = x.clone().requires_grad_()
        y = mixer(v)
        return y.detach(), *torch.autograd.grad(y, [v, mixer.parts[0].weight], g)

    eager = values()
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    for a, b in zip(values(), eager):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("basis", ["fourier", "sine", "cosine", "sine-cosine"])
def test_autocast_changes_nothing(basis):
    torch.manual_seed(0)
    mixer = SpectralMixer(4, (4, 4), basis=basis)
    x = torch.randn(2, 12, 12, 4, requires_grad=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = mixer(x)
        half = mixer(x.bfloat16())
    assert inside.dtype == torch.float32 and torch.equal(inside, mixer(x))
    assert half.dtype == torch.bfloat16
    assert torch.equal(half, mixer(x.bfloat16().float()).bfloat16())


def test_half_precision_modules_compute_in_float32():
    torch.manual_seed(0)
    mixer = SpectralMixer(4, (4, 4)).bfloat16()
    x = torch.randn(2, 12, 12, 4).bfloat16()
    wide = SpectralMixer(4, (4, 4))
    wide.load_state_dict(mixer.state_dict())
    assert torch.equal(mixer(x), wide(x.float()).bfloat16())


def test_tables_of_inference_serve_training():
    mixer = SpectralMixer(2, (3, 3))
    x = torch.randn(1, 23, 29, 2)
    with torch.inference_mode():
        expected = mixer(x)
    x.requires_grad_()
    result = mixer(x)
    result.sum().backward()
    assert torch.equal(result.detach(), expected.clone()) and x.grad.abs().sum() > 0


def test_saves_modes_not_the_grid():
    mixer = SpectralMixer(4, (2, 3))
    saved = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t) or t, lambda t: t):
        x = torch.randn(2, 64, 64, 4, requires_grad=True)
        mixer(x)
    tables = 64 * 2 * (3 + 3 + 3)  # counted with every repetition
    assert sum(t.numel() for t in saved) < x.numel() / 8 + 4 * tables


@pytest.mark.parametrize("weights", ["dense", "diagonal"])
@pytest.mark.parametrize("basis, modes", [("fourier", (5, 6)), ("sine", (9, 7)), ("cosine", (9, 7))])
def test_gain_at_the_start_is_a_tenth_per_mode(basis, modes, weights):
    """A field inside the band keeps a hundredth of its mean square on average."""
    torch.manual_seed(0)
    channels = 64
    projector = SpectralMixer(channels, modes, basis=basis, weights="diagonal").double()
    with torch.no_grad():
        projector.parts[0].weight.zero_()
        if basis == "fourier":
            projector.parts[0].weight.select(-2, 0).fill_(1.0)
            projector.parts[0].weight[-1, 0] = 0.0  # row −kx of column 0 has no partner: irfft2 keeps half of it
        else:
            projector.parts[0].weight.fill_(1.0)
        projector.parts[0].shared.copy_(torch.eye(channels))
    x = projector(torch.randn(4, 20, 20, channels, dtype=torch.float64))
    assert (projector(x) - x).abs().max() < 1e-11  # a projection
    mixer = SpectralMixer(channels, modes, basis=basis, weights=weights).double()
    gain = (mixer(x).square().sum() / x.square().sum()).item()
    assert 0.0085 < gain < 0.0115


def test_refuses_modes_beyond_the_grid_and_names_the_remedy():
    x = torch.randn(1, 16, 16, 2)
    message = r"modes=\(32, 32\) do not fit a 16×16 grid: at most \(8, 9\); .* grid of at least 64×62 points"
    with pytest.raises(ValueError, match=message):
        SpectralMixer(2, (32, 32))(x)
    SpectralMixer(2, (32, 32))(torch.randn(1, 64, 62, 2))
    for sizes in ((63, 62), (64, 61)):
        with pytest.raises(ValueError, match="do not fit"):
            SpectralMixer(2, (32, 32))(torch.randn(1, *sizes, 2))


@pytest.mark.parametrize("sizes", [(6, 7), (7, 6), (9, 40)])
def test_clipped_modes_are_the_low_ones(sizes):
    torch.manual_seed(0)
    wide = SpectralMixer(2, (8, 9), clip_modes=True).double()
    kx, ky = min(8, sizes[0] // 2), min(9, sizes[1] // 2 + 1)
    narrow = SpectralMixer(2, (kx, ky)).double()
    with torch.no_grad():
        rows = [*range(kx), *range(8, 8 + kx)]
        narrow.parts[0].weight.copy_(wide.parts[0].weight[rows, :ky])
    x = torch.randn(1, *sizes, 2, dtype=torch.float64)
    assert torch.equal(wide(x), narrow(x))


@pytest.mark.parametrize("sizes, most", [((8, 8), (4, 5)), ((5, 7), (2, 4)), ((7, 1), (3, 1))])
def test_a_model_of_default_modes_says_what_a_small_grid_needs_and_clips_when_asked(sizes, most):
    torch.manual_seed(0)
    x = torch.randn(2, 1, *sizes, dtype=torch.float64)
    options = dict(in_channels=1, out_channels=1, width=4, depth=2)
    with pytest.raises(ValueError, match=re.escape(f"at most {most}; pass modes={most}, clip_modes=True or a grid")):
        build_model("fno", **options).double()(x)
    clipped = build_model("fno", clip_modes=True, **options).double()
    fitting = build_model("fno", modes=most, **options).double()
    state = clipped.state_dict()
    kept = [*range(most[0]), *range(12, 12 + most[0])]
    fitting.load_state_dict({k: v[kept, : most[1]] if ".mixer." in k else v for k, v in state.items()})
    assert torch.equal(clipped(x), fitting(x))


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match="basis='wavelet'"):
        SpectralMixer(2, (2, 2), basis="wavelet")
    with pytest.raises(ValueError, match="weights='sparse'"):
        SpectralMixer(2, (2, 2), weights="sparse")
    with pytest.raises(ValueError, match=r"modes=\(0, 2\)"):
        SpectralMixer(2, (0, 2))
    with pytest.raises(ValueError, match="compat_shift"):
        SpectralMixer(2, (2, 2), basis="sine", compat_shift=True)
    with pytest.raises(ValueError, match="expected .batch, 2 grid axes, 2 channels"):
        SpectralMixer(2, (2, 2))(torch.randn(1, 8, 8, 3))
    with pytest.raises(ValueError, match="pass the grid of x"):
        SpectralMixer(2, (2, 2), basis="sine")(torch.randn(1, 8, 8, 2), Grid((9, 9)))
    with pytest.raises(TypeError, match="complex64"):
        SpectralMixer(2, (2, 2))(torch.randn(1, 8, 8, 2, dtype=torch.complex64))


@pytest.mark.gpu
@pytest.mark.parametrize("method", ["product", "fft"])
def test_same_on_the_gpu(method):
    mixer = SpectralMixer(3, (5, 6)).double()
    x = torch.randn(2, 17, 20, 3, dtype=torch.float64, requires_grad=True)
    g = torch.randn(2, 17, 20, 3, dtype=torch.float64)
    expected = torch.autograd.grad((mixer(x) * g).sum(), [x, mixer.parts[0].weight])
    mixer = by(method, mixer.cuda())
    moved = x.detach().cuda().requires_grad_()
    found = torch.autograd.grad((mixer(moved) * g.cuda()).sum(), [moved, mixer.parts[0].weight])
    assert (mixer(moved).cpu() - mixer.cpu()(x)).abs().max() < 1e-12
    for a, b in zip(found, expected):
        assert (a.cpu() - b).abs().max() < 1e-11
