"""The smooth pyramid of multipole attention: definition by loops, exact identities, reference grid, bound."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch
from test_window_attention import random_, windowed

from sciops import build_model
from sciops.grids import Grid
from sciops.lipschitz import lipschitz_bound
from sciops.mixers import MultipoleAttention, WindowAttention
from sciops.mixers.windows.reference_grid import interpolation, transfer_matrices
from sciops.mixers.windows.smooth import depthwise, interpolated, means

DOUBLE = dict(dtype=torch.float64)


def smooth(channels: int = 4, **options) -> MultipoleAttention:
    torch.manual_seed(0)
    return MultipoleAttention(channels, heads=2, pyramid="smooth", **options).double()


def naive_mean(x: torch.Tensor, rate: int) -> torch.Tensor:
    n, m = (-(-s // rate) for s in x.shape[1:3])
    cells = [
        [x[:, i * rate : i * rate + rate, j * rate : j * rate + rate].mean((1, 2)) for j in range(m)] for i in range(n)
    ]
    return torch.stack([torch.stack(row, 1) for row in cells], 1)


def naive_fine(r: torch.Tensor, rate: int, sizes: tuple[int, int]) -> torch.Tensor:
    y = torch.zeros(r.shape[0], *sizes, r.shape[-1], dtype=r.dtype)
    for i in range(sizes[0]):
        for j in range(sizes[1]):
            for a, p in weights_of_cell(i, rate, r.shape[1]):
                for b, q in weights_of_cell(j, rate, r.shape[2]):
                    y[:, i, j] += p * q * r[:, a, b]
    return y


def weights_of_cell(i: int, rate: int, count: int) -> list[tuple[int, float]]:
    t = (i + 0.5) / rate - 0.5
    left = math.floor(t)
    return [(min(max(left, 0), count - 1), 1 - (t - left)), (min(max(left + 1, 0), count - 1), t - left)]


def naive_kernel(x: torch.Tensor, kernel: torch.Tensor) -> torch.Tensor:
    y = torch.zeros_like(x)
    for i in range(x.shape[1]):
        for j in range(x.shape[2]):
            for a in (-1, 0, 1):
                for b in (-1, 0, 1):
                    if 0 <= i + a < x.shape[1] and 0 <= j + b < x.shape[2]:
                        y[:, i, j] += kernel[:, a + 1, b + 1] * x[:, i + a, j + b]
    return y


@pytest.mark.parametrize(
    "sizes, options",
    [
        ((8, 8), {"window": 2}),
        ((7, 11), {"window": 2, "attention_from": 1}),
        ((9, 6), {"window": 3, "attention_from": "none"}),
        ((13, 10), {"window": 2, "rate": 3, "aggregate": "vcycle_damped", "attention_from": 0}),
        ((3, 2), {"window": 4}),
        ((10, 7), {"window": 2, "sampler": "average", "levels": 2}),
    ],
)
def test_equals_the_definition_by_loops(sizes, options):
    layer = random_(smooth(**options))
    x = torch.randn(2, *sizes, 4, **DOUBLE)
    eye = torch.eye(4, **DOUBLE)
    down, up = (layer.down, layer.up) if layer.sampler == "conv" else (eye, eye)
    count = layer.level_count(sizes)
    fields = [x]
    for _ in range(count - 1):
        fields.append(naive_mean(fields[-1], layer.rate) @ down.t())
    outputs = [naive_kernel(x, layer.kernels[level]) for level, x in enumerate(fields)]
    if layer.attention is not None:
        for level in range(min(layer.attention_from, count - 1), count):
            outputs[level] = outputs[level] + windowed(layer.attention, fields[level])
    result = outputs[-1]
    for step, own in enumerate(outputs[-2::-1], start=1):
        a = 1 / step if layer.aggregate == "vcycle_damped" else 1.0
        result = own + a * naive_fine(result @ up.t(), layer.rate, tuple(own.shape[1:3]))
    assert (layer(x) - result).abs().max() < 1e-12


@pytest.mark.parametrize("n", [8, 7, 11, 43])
def test_samplers_keep_constants_and_interpolation_keeps_lines(n):
    one = torch.ones(1, n, n, 2, **DOUBLE)
    coarse = means(one, 2)
    assert (coarse - 1).abs().max() < 1e-15 and (interpolated(coarse, 2, (n, n)) - 1).abs().max() < 1e-15
    m = coarse.shape[1]
    line = (2 * torch.arange(m, **DOUBLE) + 0.5)[None, :, None, None].expand(1, m, m, 1)  # centres of the coarse cells
    fine = interpolated(line, 2, (n, n))[0, :, 0, 0]
    assert (fine - torch.arange(n, **DOUBLE))[1 : 2 * m - 1].abs().max() < 1e-13


@pytest.mark.parametrize("n, exact", [(8, True), (16, True), (11, False), (43, False)])
def test_norms_of_the_samplers_in_the_mesh_norm(n, exact):
    """‖M‖ = ‖B‖ = 1 per axis for even sizes, with h_l² as the weight of a cell of level l."""
    m = -(-n // 2)
    fine = interpolated(torch.eye(m, **DOUBLE)[..., None], 2, (n,))[..., 0].t()
    norm = float(torch.linalg.matrix_norm(fine, 2)) / math.sqrt(2)
    assert norm == pytest.approx(1, abs=1e-12) if exact else norm <= 1 + 1e-12
    mean = means(torch.eye(n, **DOUBLE)[..., None], 2)[..., 0].t()
    area = torch.full((m,), 2.0, **DOUBLE)
    area[-1] -= 2 * m - n  # the last cell counts with the children that exist
    assert float(torch.linalg.matrix_norm(area.sqrt()[:, None] * mean, 2)) == pytest.approx(1, abs=1e-12)


def test_it_starts_linear_and_every_cell_depends_on_every_other():
    layer = smooth(window=4)
    x, z = torch.randn(2, 1, 22, 22, 4, **DOUBLE)
    assert (layer(x + z) - layer(x) - layer(z)).abs().max() < 1e-12
    x.requires_grad_()
    (gradient,) = torch.autograd.grad(layer(x)[0, 11, 5].sum(), x)
    assert (gradient.abs().sum(-1) > 0).sum() == 484
    one = smooth(window=4, levels=1, attention_from="none")
    (gradient,) = torch.autograd.grad(one(x)[0, 11, 5].sum(), x)
    assert (gradient.abs().sum(-1) > 0).sum() == 9
    layer(x).square().sum().backward()
    assert not layer.attention.qkv.weight.grad.any() and layer.attention.out.weight.grad.abs().max() > 0


def test_the_papers_form_is_the_default_and_has_the_same_parameters_as_ever():
    torch.manual_seed(0)
    layer = MultipoleAttention(8)
    assert set(layer.state_dict()) == {
        "down", "up", "attention.norm.weight", "attention.norm.bias",
        "attention.qkv.weight", "attention.out.weight", "attention.out.bias",
    }  # fmt: skip
    assert layer.pyramid == "paper" and layer.down.shape == (8, 8, 2, 2)
    with_kernels = MultipoleAttention(8, kernels=True).double()
    with_kernels.load_state_dict(layer.state_dict(), strict=False)
    torch.nn.init.zeros_(with_kernels.kernels)
    x = torch.randn(1, 9, 7, 8, **DOUBLE)
    assert (with_kernels(x) - layer.double()(x)).abs().max() < 1e-12


def test_periodic_grids_have_no_first_cell():
    layer = random_(smooth(window=2, levels=3, attention_from="none"))
    x, grid = torch.randn(1, 16, 16, 4, **DOUBLE), Grid((16, 16), centering="periodic")
    moved = layer(x.roll((4, -8), (1, 2)), grid)
    assert (moved - layer(x, grid).roll((4, -8), (1, 2))).abs().max() < 1e-12
    assert (layer(x) - layer(x, grid)).abs().max() > 1e-3
    kernel = layer.kernels[0]
    assert (depthwise(x, kernel, True)[:, 5:9] - depthwise(x, kernel)[:, 5:9])[:, :, 1:-1].abs().max() < 1e-14


CASES = [
    (Grid((22, 22)), Grid((43, 43))),
    (Grid((22, 22)), Grid((85, 64))),
    (Grid((16, 16), (0, 390 / 420), domain=(0, 1)), Grid((32, 32), (0, 403 / 420), domain=(0, 1))),
    (Grid((8, 9), centering="cell"), Grid((16, 20), centering="cell")),
    (Grid((8, 8), centering="periodic"), Grid((24, 11), centering="periodic")),
    (Grid((22, 22)), Grid((15, 43))),
]


@pytest.mark.parametrize("reference, grid", CASES)
def test_transfer_keeps_constants_and_lines(reference, grid):
    up, down = transfer_matrices(reference, grid, torch.float64, torch.device("cpu"))
    for axis, (p, r) in enumerate(zip(up, down)):
        assert (p.sum(1) - 1).abs().max() < 1e-12 and (r.sum(1) - 1).abs().max() < 1e-12
        assert r.min() >= -0.51 and p.shape == (grid.shape[axis], reference.shape[axis])
        a, b = reference.axes[axis], grid.axes[axis]
        if reference.centering != "periodic":
            assert np.abs(interpolation(a, b) @ a.coordinates()[0] - b.coordinates()[0]).max() < 1e-12
    assert transfer_matrices(reference, reference, torch.float64, torch.device("cpu")) is None


def test_a_reference_grid_changes_nothing_on_itself_and_defines_the_layer_elsewhere():
    reference, fine = Grid((11, 11)), Grid((21, 21))
    layer, free = random_(smooth(window=2, reference=reference)), random_(smooth(window=2))
    free.load_state_dict(layer.state_dict())
    x = torch.randn(2, 11, 11, 4, **DOUBLE)
    assert torch.equal(layer(x), free(x)) and torch.equal(layer(x, reference), free(x))
    z = torch.randn(2, 21, 21, 4, **DOUBLE)
    (p, q), (r, s) = transfer_matrices(reference, fine, torch.float64, torch.device("cpu"))
    expected = torch.einsum("ai,bj,nijc->nabc", p, q, free(torch.einsum("ia,jb,nabc->nijc", r, s, z)))
    assert (layer(z, fine) - expected).abs().max() < 1e-12
    with pytest.raises(ValueError, match="pass grid="):
        layer(z)
    with pytest.raises(ValueError, match="domain"):
        layer(z, Grid((21, 21), (0, 2)))


def test_models_take_it_save_it_and_run_on_finer_grids():
    options = dict(in_channels=1, out_channels=1, width=8, depth=2, heads=2, window=4)
    for n in (22, 43):
        model = build_model("mano", **options, grid=Grid((n, n)), pyramid="smooth")
        assert model.blocks[0].mixer.reference == Grid((n, n))
        again = build_model(**json.loads(json.dumps({"name": "mano"} | model.config["options"])))
        again.load_state_dict(model.state_dict())
        x = torch.randn(1, 1, 85, 85)
        assert torch.equal(model(x), again(x)) and model(x).shape == x.shape
    assert build_model("mano", **options, grid=Grid((8, 8))).blocks[0].mixer.reference is None
    free = build_model("mano", **options, grid=Grid((8, 8)), pyramid="smooth", reference=None)
    assert free.blocks[0].mixer.reference is None


@pytest.mark.parametrize(
    "options, words",
    [
        ({"attention_from": -1}, "attention_from=-1"),
        ({"attention_from": "none", "kernels": False}, "pass kernels=True"),
        ({"reference": 16}, "reference=16"),
        ({"reference": Grid((4,))}, "1 axes"),
        ({"axes": 4}, "axes=4"),
    ],
)
def test_refusals(options, words):
    with pytest.raises(ValueError, match=words):
        smooth(**options)
    with pytest.raises(ValueError, match="pyramid='round'"):
        MultipoleAttention(4, pyramid="round")


@pytest.mark.parametrize(
    "n, centering, options, most",
    [
        (8, "cell", {}, 1.002),
        (16, "cell", {}, 3),
        (16, "periodic", {}, 3),
        (22, "node", {"aggregate": "learned_per_level"}, 3),
        (13, "cell", {"sampler": "average"}, 3),
    ],
)
def test_the_bound_is_above_the_norm_and_not_far(n, centering, options, most):
    layer = smooth(16, window=4, attention_from="none", **options)
    grid = Grid((n, n), centering=centering)
    x = torch.randn(1, n, n, 16, **DOUBLE)
    for _ in range(40):
        x = (x / x.norm()).detach().requires_grad_()
        y = layer(x, grid)
        (x,) = torch.autograd.grad(y, x, y.detach())
    lower = float(x.norm()) ** 0.5
    bound = lipschitz_bound(layer, grid).value
    assert lower * (1 - 1e-9) <= bound <= most * lower * (2 if centering == "node" else 1)


def test_the_bound_with_a_reference_grid_and_with_attention():
    layer = smooth(4, window=2, attention_from="none", reference=Grid((8, 8), centering="cell"))
    grid = Grid((16, 12), centering="cell")
    x = torch.randn(1, 16, 12, 4, **DOUBLE)
    columns = torch.autograd.functional.jacobian(lambda x: layer(x, grid), x).reshape(x.numel(), x.numel())
    assert float(torch.linalg.matrix_norm(columns, 2)) <= lipschitz_bound(layer, grid).value
    attending = random_(smooth(4, window=2, attention_from=1, norm=False))
    grid = Grid((8, 8), centering="cell")
    assert lipschitz_bound(attending, grid).value is None
    bound = lipschitz_bound(attending, grid, radius=1.0).value
    x = torch.randn(1, 8, 8, 4, **DOUBLE)
    x = x / x.norm(dim=-1, keepdim=True)
    columns = torch.autograd.functional.jacobian(attending, x).reshape(x.numel(), x.numel())
    assert float(torch.linalg.matrix_norm(columns, 2)) <= bound < math.inf


def test_scores_are_cosines_with_a_floor():
    torch.manual_seed(0)
    layer = WindowAttention(6, heads=2, window=3, norm=False, cosine=True, cosine_floor=0.7).double()
    x = torch.randn(2, 3, 3, 6, **DOUBLE)
    q, k, v = (part.reshape(2, 9, 2, 3).transpose(1, 2) for part in (x @ layer.qkv.weight.T).chunk(3, -1))
    y = torch.zeros(2, 2, 9, 3, **DOUBLE)
    for b in range(2):
        for h in range(2):
            for i in range(9):
                a, scores = q[b, h, i], []
                for j in range(9):
                    c = k[b, h, j]
                    scores.append(layer.log_scale[h].exp() * (a @ c) / ((a @ a + 0.49) * (c @ c + 0.49)).sqrt())
                y[b, h, i] = torch.cat([s.reshape(1) for s in scores]).softmax(0) @ v[b, h]
    expected = layer.out(y.transpose(1, 2).reshape(2, 3, 3, 6))
    assert (layer(x) - expected).abs().max() < 1e-13
    zero = torch.zeros(1, 3, 3, 6, **DOUBLE)
    assert torch.autograd.functional.jacobian(layer, zero).isfinite().all()
    for options in ({"cosine_floor": 0.5}, {"cosine": True, "cosine_floor": -1.0}):
        with pytest.raises(ValueError, match="cosine_floor="):
            WindowAttention(6, heads=2, **options)


def test_the_bound_of_a_pyramid_with_bounded_scores():
    grid = Grid((8, 8), centering="cell")
    for floor in (0.0, 0.5):
        layer = random_(smooth(4, window=2, attention_from=1, norm=False, cosine=True, cosine_floor=floor))
        found = lipschitz_bound(layer, grid, radius=1.0)
        if not floor:
            assert found.value is None and "cosine_floor" in str(found)
            continue
        x = torch.randn(1, 8, 8, 4, **DOUBLE)
        x = x / x.norm(dim=-1, keepdim=True)
        columns = torch.autograd.functional.jacobian(layer, x).reshape(x.numel(), x.numel())
        assert float(torch.linalg.matrix_norm(columns, 2)) <= found.value < math.inf


def test_models_by_name_are_smooth_and_refuse_other_forms():
    options = dict(in_channels=1, out_channels=1, width=8, depth=2, heads=2, window=2, grid=Grid((9, 9)))
    smooth_one, linear = (build_model(name, **options) for name in ("smooth_mano", "linear_pyramid"))
    mixer = smooth_one.blocks[0].mixer
    assert (mixer.pyramid, mixer.attention_from, mixer.reference) == ("smooth", 2, Grid((9, 9)))
    assert linear.blocks[0].mixer.attention is None
    x, z = torch.randn(2, 1, 9, 9, 8, **DOUBLE)
    layer = linear.double().blocks[0].mixer
    assert (layer(x) + 3 * layer(z) - layer(x + 3 * z)).abs().max() < 1e-12
    for model in (smooth_one, linear):
        again = build_model(**json.loads(json.dumps({"name": model.config["name"]} | model.config["options"])))
        again.load_state_dict(model.state_dict())
    for name, more, words in (
        ("smooth_mano", {"pyramid": "paper"}, "use mano"),
        ("linear_pyramid", {"attention_from": 2}, "use smooth_mano"),
        ("linear_pyramid", {"pyramid": "paper"}, "use mano"),
    ):
        with pytest.raises(ValueError, match=words):
            build_model(name, **options, **more)
    plain = build_model("linear_pyramid", **options, norm="none", mlp="plain")
    assert lipschitz_bound(plain, Grid((9, 9))).value < math.inf
