"""Bounds of whole models never lie below the norm of a Jacobian, in the norm they speak of."""

import warnings
from itertools import product

import numpy as np
import pytest
import torch
from torch import nn

from sciops import Grid, build_model
from sciops.datasets.normalizers import Normalizer
from sciops.lipschitz import RescaledConv, RescaledLinear, RescaledResidual, RescaledSpectral
from sciops.lipschitz._attention_layers import _copies
from sciops.lipschitz._mixing import of_finer_grid
from sciops.lipschitz._parts import Setting
from sciops.lipschitz.bounds import lipschitz_bound
from sciops.mixers import MIXERS, Convolution, MultipoleAttention, SliceAttention, SpectralMixer, WindowAttention
from sciops.mixers._windows import Tiling
from sciops.models.apply import apply_model
from sciops.models.blocks import LocalKernel
from sciops.models.dealiasing import on_finer_grid
from sciops.models.latent import Latent
from sciops.models.normalized import Normalized
from sciops.models.operator import Operator
from sciops.models.stepper import Stepper
from sciops.models.symmetry import SymmetryAveraged


def jacobian(model, x, grid):
    """(outputs, inputs) of one sample, by one backward pass over copies of it."""
    count = apply_model(model, x, grid).numel()
    copies = x.expand(count, *x.shape[1:]).clone().requires_grad_()
    y = apply_model(model, copies, grid).reshape(count, -1)
    return torch.autograd.grad(y.diagonal().sum(), copies)[0].reshape(count, -1), y.shape[1]


def weighted_norm(matrix, grid, out_grid):
    """‖V^½ J W^−½‖₂, channels first."""
    w = np.tile(np.sqrt(grid.weights().ravel()), matrix.shape[1] // grid.size)
    v = np.tile(np.sqrt(out_grid.weights().ravel()), matrix.shape[0] // out_grid.size)
    return float(np.linalg.norm(v[:, None] * matrix.double().numpy() / w, 2))


def stretch(model, grid, x, out_grid=None):
    return weighted_norm(jacobian(model, x, grid)[0], grid, out_grid or grid)


def token_radius(model, x, grid):
    """The largest token that enters a mixer or a gated map of the spine."""
    largest = [0.0]

    def note(_, inputs):
        largest.append(float(inputs[0].detach().norm(dim=-1).max()))

    kinds = (*MIXERS.values(), nn.Linear)
    hooks = [m.register_forward_pre_hook(note) for m in model.modules() if isinstance(m, kinds)]
    with torch.no_grad():
        apply_model(model, x, grid)
    for hook in hooks:
        hook.remove()
    return max(largest) * (1 + 1e-9)


def louder(model, factor):
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(factor)
    return model


def random_case(seed):
    """A small model, the grid and whether its bound is one for a ball."""
    rng = np.random.default_rng(seed)
    pick = lambda *values: values[rng.integers(len(values))]  # noqa: E731
    axes = pick(1, 1, 1, 2)
    shape = tuple(int(rng.integers(5, 9)) if axes == 1 else int(rng.integers(5, 7)) for _ in range(axes))
    centering = pick("periodic", "node", "cell")
    grid = Grid(shape, centering=centering)
    width, depth = int(rng.integers(2, 5)), int(rng.integers(1, 3))
    block = pick("classic", "residual")
    gated = block == "residual" and rng.random() < 0.2
    options = dict(width=width, depth=depth, block=block, norm="none", ndim=axes)
    options |= dict(coordinates=pick("none", "linear", "periodic", "wall"), wall=pick("none", "zero"))
    options |= dict(local=rng.random() < 0.3, local_padding=pick("zeros", "replicate"), dealias=pick(1, 1, 2))
    if block == "residual":
        options |= dict(mlp="gated" if gated else "plain", mixer_activation=rng.random() < 0.5)
        options |= dict(layer_scale=pick(None, 0.7))
    if rng.random() < 0.3:
        options |= dict(reference_spacing=float(2.2 * grid.spacing[0]))
    mixer = pick("spectral", "spectral", "spectral", "convolution", "attention", "window", "multipole", "slices")
    if mixer == "spectral":
        basis = pick("fourier", "fourier", "sine", "cosine", "sine-cosine")
        most = 2 if basis == "fourier" else 3
        given = dict(modes=(most,) * axes, basis=basis, weights=pick("dense", "diagonal"))
    elif mixer == "convolution":
        given = dict(padding=pick("zeros", "replicate"), axes=axes)
    else:
        heads = pick(1, width)
        given = dict(heads=heads)
        if mixer == "slices":
            given |= dict(slices=3, local=axes == 2 and rng.random() < 0.5, weighted=rng.random() < 0.5)
        elif mixer == "attention":
            given |= dict(norm=False)
        else:
            given |= dict(norm=False, window=pick(2, 3))
            given |= dict(stride=pick(None, 1)) if mixer == "window" else {}
        if mixer == "multipole":
            given |= dict(axes=axes, sampler=pick("conv", "average"))
            given |= dict(aggregate=pick("sum", "vcycle_damped", "learned_per_level"))
    torch.manual_seed(seed)
    model = Operator(pick(1, 2), pick(1, 2), mixer=mixer, mixer_options=given, **options).double()
    for one in model.modules():
        if isinstance(one, (WindowAttention, MultipoleAttention, SliceAttention)):
            louder(one, float(rng.uniform(0.5, 2.5)))
        elif isinstance(one, (SpectralMixer, Convolution, LocalKernel)):
            louder(one, float(rng.uniform(1, 20)))
    local = gated or mixer in ("attention", "window", "multipole", "slices")
    return model, grid, local


def test_five_hundred_random_models():
    tightest = []
    for seed in range(500):
        model, grid, local = random_case(seed)
        x = 3 ** (seed % 3 - 1) * torch.randn(1, model.in_channels, *grid.shape, dtype=torch.float64)
        radius = token_radius(model, x, grid) if local else None
        bound = lipschitz_bound(model, grid, radius=radius)
        assert bound.value is not None, f"{seed}: {bound}"
        true = stretch(model, grid, x)
        assert true <= bound.value * (1 + 1e-10), f"{seed}: {true}\n{bound}\n{model}"
        assert np.prod([b.value for b in bound.blocks]) == pytest.approx(bound.value, rel=1e-9)
        if not local:
            tightest.append(bound.value / true)
    assert min(tightest) < 10  # products of norms are loose, by this much in the best of cases


ALONE = [
    ("spectral", {"modes": 2}, 1 + 1e-9),
    ("spectral", {"modes": 2, "basis": "cosine", "weights": "diagonal"}, 3),
    ("spectral", {"modes": 2, "basis": "sine-cosine"}, 3),
    ("convolution", {"padding": "replicate"}, 2.1),
    ("convolution", {"padding": "zeros", "size": 5}, 2.1),
    ("attention", {"norm": False, "heads": 2}, 60),
    ("attention", {"norm": False, "qkv_bias": True}, 60),
    ("window", {"norm": False, "window": 3, "stride": 1}, 60),
    ("window", {"norm": False, "window": 2, "shift": 1, "relative": "table"}, 60),
    ("multipole", {"norm": False, "heads": 1}, 200),
    ("multipole", {"norm": False, "sampler": "average", "rate": 3, "aggregate": "learned_per_level"}, 200),
    ("slices", {"slices": 3}, 2000),
    ("slices", {"slices": 2, "weighted": True}, 2000),
]


@pytest.mark.parametrize(("name", "options", "most"), ALONE, ids=lambda v: v if isinstance(v, str) else None)
@pytest.mark.parametrize("axes", [1, 2])
def test_mixers_alone(name, options, most, axes):
    """Without the maps around them, whose norms would hide that a factor is missing."""
    options = dict(options)
    if "modes" in options:
        options["modes"] = (options["modes"],) * axes
    if name in ("convolution", "multipole") or "relative" in options:
        options["axes"] = axes
    ratios = []
    for seed, (centering, gain) in enumerate([(c, g) for c in ("periodic", "cell", "node") for g in (0.3, 1.0, 2.0)]):
        torch.manual_seed(seed)
        grid = Grid((7,) if axes == 1 else (5, 6), centering=centering)
        mixer = louder(MIXERS[name](4, **options).double(), gain)
        with torch.no_grad():
            for label, p in mixer.named_parameters():
                if "qv_bias" in label or "relative" in label:
                    p.normal_()

        x = torch.randn(1, 4, *grid.shape, dtype=torch.float64)
        radius = float(x.norm(dim=1).max()) * (1 + 1e-9)
        bound = lipschitz_bound(mixer, grid, radius=radius)
        true = stretch(_ChannelsFirst(mixer), grid, x)
        assert true <= bound.value * (1 + 1e-10), f"{centering}: {true}\n{bound}"
        if centering != "node":
            ratios.append(bound.value / true)
    assert min(ratios) < most


@pytest.mark.parametrize(("sizes", "window", "stride"), [((7,), 3, 1), ((5, 6), 2, 1), ((8, 5), 3, 2)])
def test_overlapping_windows_copy_and_average(sizes, window, stride):
    """‖cut‖·‖join‖ as matrices: Jacobians of attention do not come near enough to see that factor."""
    tiling = Tiling(sizes, window, stride)
    count = int(np.prod(sizes))
    cut = tiling.cut(torch.eye(count, dtype=torch.float64).reshape(count, *sizes, 1), False)
    cells = cut.numel() // count
    join = tiling.join(torch.eye(cells, dtype=torch.float64).reshape(-1, tiling.tokens, 1), False)
    norms = [float(torch.linalg.matrix_norm(m.reshape(rows, -1), 2)) for m, rows in ((cut, count), (join, cells))]
    assert _copies(tiling) == pytest.approx(norms[0] * norms[1], rel=1e-10) and norms[0] > 1.4


@pytest.mark.parametrize(("n", "centering"), [(4, "periodic"), (5, "periodic"), (4, "node"), (4, "cell")])
def test_nonlinearities_on_a_finer_grid(n, centering):
    """Against every pattern of slopes ±1 on the finer grid, from the map itself: the slope of f at each point is ±1."""
    grid = Grid((n,), centering=centering)
    eye = torch.eye(n, dtype=torch.float64)[..., None]
    points = on_finer_grid(lambda u: u, (eye,), grid, 1, False).shape[1] * 2 - (centering == "node")
    signs = torch.tensor(list(product((-1.0, 1.0), repeat=points)), dtype=torch.float64)
    worst = {True: 0.0, False: 0.0}
    for pattern in signs[: len(signs) // 2]:
        matrix = on_finer_grid(lambda u, s=pattern: u * s[:, None], (eye,), grid, 2, False)[..., 0].T
        for weighted in worst:
            w = torch.from_numpy(grid.weights() if weighted else np.ones(n)).sqrt()
            worst[weighted] = max(worst[weighted], float(torch.linalg.matrix_norm(w[:, None] * matrix / w, 2)))
    for weighted, true in worst.items():
        gain, _ = of_finer_grid(2, False, Setting(grid, weighted, torch.float64, None, False))
        assert true <= gain * (1 + 1e-12) and gain < 1.5 * true


class _ChannelsFirst(nn.Module):
    def __init__(self, mixer):
        super().__init__()
        self.mixer = mixer

    def forward(self, x, grid=None):
        return self.mixer(x.movedim(1, -1), grid).movedim(-1, 1)


def test_the_periodic_solve():
    """(−Δ + 1)⁻¹ has norm 1, attained by constants; so has the mixer, at every resolution."""
    mixer = MIXERS["spectral"](1, (4, 4)).double()
    rows, columns = torch.tensor([0.0, 1, 2, 3, -1, -2, -3, -4]), torch.arange(4.0)
    with torch.no_grad():
        mixer.parts[0].weight.zero_()
        mixer.parts[0].weight[:, :, 0, 0, 0] = 1 / (1 + 4 * torch.pi**2 * (rows[:, None] ** 2 + columns**2))
    for n in (8, 16, 31):
        assert lipschitz_bound(mixer, Grid((n, n), centering="periodic")).value == pytest.approx(1, abs=1e-11)


def test_a_linear_classic_block_is_exact():
    """One block without activation: the bound is lift · block · project with the block mode by mode."""
    torch.manual_seed(0)
    model = build_model("fno", width=3, depth=1, modes=(3, 3), block="classic").double()
    grid = Grid((8, 7), centering="periodic")
    block = model.blocks[0]

    def alone(x):
        return block(x.movedim(1, -1), grid, (1, 1)).movedim(-1, 1)

    x = torch.zeros(1, 3, 8, 7, dtype=torch.float64)
    count = x[0].numel()
    y = alone(torch.eye(count, dtype=torch.float64).reshape(count, 3, 8, 7)) - alone(x)
    true = np.linalg.norm(y.detach().reshape(count, -1).T.numpy(), 2)
    assert dict((b.name, b.value) for b in lipschitz_bound(model, grid).blocks)["block 0"] == pytest.approx(
        true, rel=1e-12
    )


@pytest.mark.parametrize("options", [{}, {"basis": "sine", "coordinates": "none"}])
def test_the_bound_is_the_same_at_every_resolution(options):
    model = build_model("fno", width=4, depth=2, modes=(4, 4), norm="none", mlp="plain", **options)
    centering = "node" if options else "periodic"
    bounds = [lipschitz_bound(model, Grid((n, n), centering=centering)).value for n in (32, 64, 128)]
    assert bounds == pytest.approx([bounds[0]] * 3, rel=1e-11)


WITHOUT = [
    ("fno", {"modes": (3, 3)}, "RMSNorm"),
    ("fno", {"modes": (3, 3), "norm": "instance"}, "InstanceNorm"),
    ("fno", {"modes": (3, 3), "norm": "none"}, "gated"),
    ("mano", {}, "LayerNorm"),
    ("operator", {"mixer": "attention", "mixer_options": {"norm": False}, "norm": "none", "mlp": "plain"}, "softmax"),
    ("operator", {"mixer": "slices", "norm": "none", "mlp": "plain"}, "slice attention"),
    ("hybrid", {"norm": "none", "mlp": "plain", "modes": (3, 3)}, "LayerNorm"),
    ("corrector", {"width": 4, "modes": (3, 3), "norm": "none", "mlp": "plain"}, "solver"),
    ("effective_coefficient", {"norm": "none", "mlp": "plain"}, "solver"),
]


@pytest.mark.parametrize(("name", "options", "reason"), WITHOUT)
def test_models_without_a_bound_say_why(name, options, reason):
    model = (
        build_model(name, **{"width": 4, "depth": 2} | options) if name != "corrector" else build_model(name, **options)
    )
    bound = lipschitz_bound(model, Grid((9, 9)))
    assert bound.value is None
    assert any(b.value is None and reason in b.reason for b in bound.blocks)
    assert reason in str(bound) and "none" in str(bound).splitlines()[0]


@pytest.mark.parametrize("name", ["fno", "mano", "hybrid"])
@pytest.mark.parametrize("norm", ["rms", "layer", "instance"])
def test_vacuous_bounds_are_bounds(name, norm):
    """Near the point where the slope of a norm is largest the model stretches by more than any other bound allows."""
    torch.manual_seed(0)
    options = dict(width=4, depth=1, norm=norm, window=2, modes=(2, 2))
    options = {k: v for k, v in options.items() if k not in {"fno": ("window",), "mano": ("modes",)}.get(name, ())}
    model = build_model(name, **options).double()
    grid = Grid((5, 5))
    bound = lipschitz_bound(model, grid, vacuous=True, radius=1e3)
    for scale in (0.0, 1e-3, 1.0):
        x = scale * torch.randn(1, 1, 5, 5, dtype=torch.float64)
        assert stretch(model, grid, x) <= bound.value


def test_the_slopes_of_norms_are_reached():
    for norm in ("rms", "layer", "instance"):
        model = Operator(1, 1, width=4, depth=0, norm=norm, ndim=1, coordinates="none").double()
        with torch.no_grad():
            for p in (*model.lift.parameters(), *model.project.parameters()):
                p.zero_()
        row = {b.name: b for b in lipschitz_bound(model, Grid((6,), centering="cell"), vacuous=True).blocks}["norm"]
        x = 1e-9 * torch.randn(1, 6, 4, dtype=torch.float64)
        matrix = torch.autograd.functional.jacobian(model.norm, x).reshape(24, 24)
        assert float(torch.linalg.matrix_norm(matrix, 2)) == pytest.approx(row.value, rel=1e-6)


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
        (SymmetryAveraged(spine(wall=wall), ("transpose", "square")[seed % 2]), 1, grid),
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


def test_errors_are_told():
    model = build_model("fno", width=3, depth=1, modes=(6, 6), norm="none", mlp="plain")
    with pytest.raises(ValueError, match="do not fit"):
        lipschitz_bound(model, Grid((8, 8)))
    with pytest.raises(ValueError, match="radius"):
        lipschitz_bound(model, Grid((16, 16)), radius=-1)


@pytest.mark.gpu
def test_the_same_on_a_gpu():
    for seed in range(40):
        model, grid, local = random_case(seed)
        radius = 2.0 if local else None
        expected = lipschitz_bound(model, grid, radius=radius).value
        assert lipschitz_bound(model.cuda(), grid, radius=radius).value == pytest.approx(expected, rel=1e-9)
