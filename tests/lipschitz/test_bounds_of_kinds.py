"""Bounds of wrappers, steppers, neuraloperator's models, sequences of layers and classifiers."""

import warnings

import numpy as np
import pytest
import torch
from stretching import jacobian, stretch, token_radius, weighted_norm
from torch import nn

from sciops import Grid, build_model
from sciops.datasets.fields.normalizers import Normalizer
from sciops.lipschitz import RescaledConv, RescaledLinear, RescaledResidual, RescaledSpectral
from sciops.lipschitz.bounds.bound import lipschitz_bound
from sciops.models.spine.operator import Operator
from sciops.models.wrappers.latent import Latent
from sciops.models.wrappers.normalized import Normalized
from sciops.models.wrappers.stepper import Stepper
from sciops.models.wrappers.symmetry import SymmetryAveraged
from sciops.symmetry import Symmetry


def spine(axes=2, **options):
    options = (
        dict(width=3, depth=1, norm="none", mlp="plain", mixer_options={"modes": (2,) * axes}, ndim=axes) | options
    )
    return Operator(options.pop("in_channels", 1), options.pop("out_channels", 1), **options)


def normalizer(channels, seed):
    generator = torch.Generator().manual_seed(seed)
    return Normalizer.fit(
        torch.randn(40, channels, 4, generator=generator, dtype=torch.float64)
        * 3 ** torch.randn(1, channels, 1, generator=generator, dtype=torch.float64)
    )


@pytest.mark.parametrize("centering", ["node", "periodic", "cell"])
@pytest.mark.parametrize("seed", range(4))
def test_wrappers(centering, seed):
    torch.manual_seed(seed)
    grid = Grid((6, 6), centering=centering)
    fine = Grid((9, 7), centering=centering)
    pair = spine(in_channels=2, out_channels=2)
    wall = "zero" if seed % 2 else "none"
    models = [
        (Normalized(pair, normalizer(2, seed), normalizer(2, seed + 9)), 2, grid),
        (
            SymmetryAveraged(spine(wall=wall), ("transpose", "square")[seed % 2], symmetry=Symmetry.of_scalars()),
            1,
            grid,
        ),
        (Latent(spine(wall=wall), grid), 1, fine),
        (Latent(spine(wall=wall), grid), 1, Grid((5, 5), centering=centering)),
        (Latent(spine(), grid, input_method="nearest", output_method="linear"), 1, fine),
        (nn.DataParallel(spine()), 1, grid),
    ]
    if centering == "node":
        models.append((Latent(spine(wall="zero"), grid, input_method="cosine", output_method="sine"), 1, fine))
    for model, channels, where in models:
        model = model.double()
        x = torch.randn(1, channels, *where.shape, dtype=torch.float64)
        inner = getattr(model, "module", model)
        true, bound = stretch(inner, where, x), lipschitz_bound(model, where)
        assert true <= bound.value * (1 + 1e-10), f"{type(inner).__name__}\n{bound}"


@pytest.mark.parametrize("steps", [1, 2, 4])
@pytest.mark.parametrize("gradient", ["full", "pushforward"])
@pytest.mark.parametrize(("history", "constants"), [(1, 0), (1, 1), (3, 0), (2, 1)])
def test_steppers(history, constants, gradient, steps):
    for seed in range(2):
        torch.manual_seed(seed)
        model = spine(1, in_channels=2 * history + constants, out_channels=2)
        residual = bool(seed)
        stepper = Stepper(
            model, channels=2, history=history, steps=steps, residual=residual, gradient=gradient
        ).double()
        grid = Grid((6,), centering="periodic")
        x = torch.randn(1, 2 * history + constants, 6, dtype=torch.float64)
        # gradients stop between the frames of a pushforward; the map itself does not
        stepper.gradient = "full"
        matrix = jacobian(stepper, x, grid)[0]
        stepper.gradient = gradient
        matrix = matrix[-12:] if gradient == "pushforward" else matrix
        true = weighted_norm(matrix, grid, grid)
        bound = lipschitz_bound(stepper, grid)
        assert true <= bound.value * (1 + 1e-10)
        assert bound.blocks[-1].value == pytest.approx(bound.value, rel=1e-10)


NEURALOP = [
    ("FNO", {}),
    ("FNO", {"fno_skip": "identity", "channel_mlp_skip": "linear"}),
    ("FNO", {"fno_skip": None, "channel_mlp_skip": None}),
    ("FNO", {"use_channel_mlp": False, "positional_embedding": None}),
    ("FNO", {"domain_padding": 0.3}),
    ("FNO", {"preactivation": True, "stabilizer": "tanh"}),
    ("FNO", {"norm": "batch_norm"}),
    ("FNO", {"norm": "batch_norm", "preactivation": True}),
    ("FNO", {"separable": True}),
    ("FNO", {"resolution_scaling_factor": 2, "depth": 1}),
    ("FNO", {"compat_shift": True}),
    ("TFNO", {"rank": 0.5}),
    ("UNO", {"depth": 3}),
    ("UNO", {"depth": 5, "domain_padding": 0.25}),
    ("UNO", {"depth": 3, "channel_mlp_skip": "linear", "horizontal_skip": "identity"}),
]


@pytest.mark.parametrize(("name", "options"), NEURALOP, ids=lambda v: v if isinstance(v, str) else "-".join(v))
def test_neuralop_models(name, options):
    options = {"width": 3, "depth": 2, "modes": (3, 3)} | options
    if name == "UNO":
        options |= {"lifting_channels": 4, "projection_channels": 4}
    for seed, grid in enumerate((Grid((8, 8), centering="periodic"), Grid((7, 9)), Grid((9, 8), centering="cell"))):
        torch.manual_seed(seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = build_model(f"neuralop:{name}", **options).eval()
            for module in model.modules():
                if isinstance(module, nn.BatchNorm2d):
                    module.running_var.copy_(torch.rand(3) + 0.1)
            x = torch.randn(1, 1, *grid.shape)
            matrix, count = jacobian(model, x, grid)
        factor = round((count / grid.size) ** 0.5)
        out = grid if factor == 1 else Grid(tuple(n * factor for n in grid.shape), centering=grid.centering)
        true, bound = weighted_norm(matrix, grid, out), lipschitz_bound(model, grid)
        assert true <= bound.value * (1 + 1e-5), f"{true}\n{bound}"


def test_neuralop_without_a_bound():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for norm, reason in (("instance_norm", "InstanceNorm"), ("group_norm", "GroupNorm")):
            model = build_model("neuralop:FNO", width=3, depth=1, modes=(3, 3), norm=norm)
            bound = lipschitz_bound(model, Grid((8, 8)))
            assert bound.value is None and reason in str(bound)
        model = build_model("neuralop:FNO", width=3, depth=1, modes=(3, 3), norm="batch_norm").train()
        assert "model.eval()" in str(lipschitz_bound(model, Grid((8, 8))))


def test_sequences_of_layers():
    torch.manual_seed(0)
    grid = Grid((8, 6), centering="cell")
    conv = lambda *a, **k: nn.Conv2d(*a, **k)  # noqa: E731
    fields = [
        nn.Sequential(conv(2, 3, 3, padding=1), nn.ReLU(), conv(3, 2, 3, padding="same", padding_mode="circular")),
        nn.Sequential(conv(2, 4, 3, padding=1, groups=2), nn.GELU(), nn.Sequential(nn.Dropout(0.3), conv(4, 1, 1))),
        nn.Sequential(conv(2, 2, 5, padding=2, padding_mode="reflect"), nn.SiLU(), nn.BatchNorm2d(2), nn.Tanh()),
        nn.Sequential(RescaledConv(2, 3), nn.ReLU(), RescaledConv(3, 2, padding="circular")),
    ]
    flat = [
        nn.Sequential(conv(2, 3, 3, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(18, 4)),
        nn.Sequential(nn.Flatten(), RescaledLinear(96, 5), RescaledResidual(5), nn.Linear(5, 3)),
        nn.Sequential(conv(2, 3, 3), nn.MaxPool2d(2), nn.AvgPool2d(2), nn.AdaptiveAvgPool2d(1), nn.Flatten()),
        nn.Sequential(conv(2, 2, 3, padding=1), nn.MaxPool2d(3, 1), nn.LeakyReLU(), nn.AvgPool2d(3, 2)),
    ]
    last = nn.Sequential(nn.Linear(2, 3), RescaledSpectral(3, (2, 2)), nn.ReLU(), nn.Linear(3, 1))
    for model in (*fields, *flat, last):
        model = model.double().eval()
        bound = lipschitz_bound(model, grid)
        for scale in (0.3, 3.0):
            shape = (1, 8, 6, 2) if model is last else (1, 2, 8, 6)
            matrix, _ = jacobian(model, scale * torch.randn(shape, dtype=torch.float64), None)
            true = float(np.linalg.norm(matrix.numpy(), 2))
            assert true <= bound.value * (1 + 1e-10), str(bound)
        assert bound.norm.startswith("Euclidean" if model in flat else "quadrature")
    assert lipschitz_bound(fields[3], grid).value <= 1 + 1e-4
    ends = lipschitz_bound(fields[0], Grid((8, 6))).value / lipschitz_bound(fields[0], grid).value
    assert ends == pytest.approx(2, rel=1e-9)
    unknown = lipschitz_bound(nn.Sequential(conv(2, 2, 3), nn.Upsample(scale_factor=2)), grid)
    assert unknown.value is None and "no rule for Upsample" in str(unknown)
    assert "no rule for Bilinear" in str(lipschitz_bound(nn.Bilinear(2, 2, 2), grid))


@pytest.mark.parametrize("mixer", ["multipole", "window", "attention", "spectral"])
def test_classifiers(mixer):
    grid = Grid((11, 9), centering="cell")
    for seed in range(3):
        torch.manual_seed(seed)
        options = {"qkv_bias": True, "relative": "table"} if mixer in ("window", "multipole") and seed else {}
        options = {"modes": (2, 2)} if mixer == "spectral" else options
        layout = dict(patch=2, widths=(4, 4), depths=(1, 2), heads=2, window=3, norm="none")
        layout |= dict(order=("pre", "post")[seed % 2], layer_scale=(None, 0.5)[seed % 2], mixer_options=options)
        model = build_model("classifier", in_channels=1, out_channels=3, mixer=mixer, **layout).double()
        with torch.no_grad():
            for name, p in model.named_parameters():
                if "qv_bias" in name or "relative" in name:
                    p.normal_()
        x = torch.randn(1, 1, 11, 9, dtype=torch.float64)
        radius = None if mixer == "spectral" else token_radius(model, x, None)
        matrix, _ = jacobian(model, x, None)
        bound = lipschitz_bound(model, grid, radius=radius)
        assert float(np.linalg.norm(matrix.numpy(), 2)) <= bound.value * (1 + 1e-10)
        assert bound.norm.startswith("Euclidean")
    default = build_model("classifier", in_channels=1, out_channels=3, widths=(8, 8))
    assert "LayerNorm" in str(lipschitz_bound(default, Grid((28, 28), centering="cell")))


def test_a_drop_in_mixer_that_cannot_stretch():
    model = build_model("fno", width=3, depth=2, modes=(3, 3), block="classic").double()
    for block in model.blocks:
        block.mixer = RescaledSpectral(3, (3, 3), shrink=False).double()
        nn.init.zeros_(block.skip.weight)
    rows = {b.name: b.value for b in lipschitz_bound(model, Grid((8, 8), centering="periodic")).blocks}
    assert 0.9 < rows["block 1"] <= 1 + 1e-12 and 0.9 * 1.1289 < rows["block 0"] <= 1.12890415


@pytest.mark.parametrize(
    ("method", "back"), [("linear", "cubic"), ("fourier", "fourier"), ("nearest", "linear"), ("cosine", "sine")]
)
@pytest.mark.parametrize("centering", ["node", "cell", "periodic"])
def test_resampling_alone(centering, method, back):
    """Around the identity, so that nothing hides the two resamplings."""
    if centering == "periodic" and method == "cosine":
        pytest.skip("cosines need walls")
    inner = nn.Sequential(nn.Conv2d(1, 1, 1, bias=False)).double()
    nn.init.ones_(inner[0].weight)
    for shape, latent in (((6, 9), (8, 5)), ((5, 5), (9, 9)), ((9, 9), (5, 5))):
        grid = Grid(shape, centering=centering)
        model = Latent(inner, Grid(latent, centering=centering), input_method=method, output_method=back)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # values on the wall, misaligned periods: told, and bounded all the same
            true = stretch(model, grid, torch.randn(1, 1, *shape, dtype=torch.float64))
        bound = lipschitz_bound(model, grid).value
        assert true <= bound * (1 + 1e-10) and bound < 6 * true
