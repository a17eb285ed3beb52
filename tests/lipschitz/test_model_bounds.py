"""Bounds of whole models never lie below the norm of a Jacobian, in the norm they speak of."""

from itertools import product

import numpy as np
import pytest
import torch
from stretching import louder, random_case, stretch, token_radius
from torch import nn

from sciops import Grid, build_model
from sciops.lipschitz.bounds.bound import lipschitz_bound
from sciops.lipschitz.bounds.mixing import of_finer_grid
from sciops.lipschitz.bounds.parts import Setting
from sciops.mixers import MIXERS
from sciops.mixers.windows.tiling import Tiling
from sciops.models.spine.dealiasing import on_finer_grid
from sciops.models.spine.operator import Operator


def test_two_hundred_random_models():
    tightest = []
    for seed in range(200):
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
    assert tiling.copies == pytest.approx(norms[0] * norms[1], rel=1e-10) and norms[0] > 1.4


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
