"""The classifier against a plain one of loops and torch's own layers; reach, sizes, files, equal parameter counts."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F

from sciops import build_model, load_model, save_model
from sciops.mixers import MIXERS
from sciops.models import Classifier, classifier_arms, match_parameters
from sciops.models.spine.blocks import ResidualBlock

SMALL = dict(in_channels=2, out_channels=5, patch=2, widths=(8, 12), depths=(2, 2), heads=4, window=3)
OPTIONS = {"spectral": {"modes": (2, 3)}, "slices": {"slices": 4}}


def small(mixer, **changes):
    torch.manual_seed(0)
    return Classifier(**SMALL | dict(mixer=mixer, mixer_options=OPTIONS.get(mixer)) | changes).double()


def randn(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def plain(model: Classifier, x: torch.Tensor) -> torch.Tensor:
    """The classifier with full attention, written out: patches by slicing, torch's attention, pooling by loops."""
    norm = lambda layer, z: F.layer_norm(z, z.shape[-1:], layer.weight, layer.bias)  # noqa: E731
    height, width = x.shape[2:]
    x = F.pad(x, (0, width % 2, 0, height % 2))
    first = model.stages[0]
    rows = []
    for i in range(0, x.shape[2], 2):
        cells = []
        for j in range(0, x.shape[3], 2):
            patch = x[:, :, i : i + 2, j : j + 2].flatten(1)
            cells.append(patch @ first.enter.project.weight.flatten(1).T + first.enter.project.bias)
        rows.append(torch.stack(cells, 1))
    z = norm(first.enter.norm, torch.stack(rows, 1))
    n, m = z.shape[1:3]
    for i in range(n):
        for j in range(m):
            waves = [
                f(2**o * math.pi * (k + 0.5) / size)
                for k, size in ((i, n), (j, m))
                for f in (math.sin, math.cos)
                for o in range(4)
            ]
            z[:, i, j] = z[:, i, j] + first.position.weight @ torch.tensor(waves, dtype=z.dtype)
    for number, stage in enumerate(model.stages):
        if number:
            b, n, m, c = z.shape
            whole = torch.zeros(b, n + n % 2, m + m % 2, c, dtype=z.dtype)
            whole[:, :n, :m] = z
            parts = [whole[:, i::2, j::2] for j in (0, 1) for i in (0, 1)]
            z = norm(stage.enter.norm, torch.cat(parts, -1)) @ stage.enter.reduce.weight.T
        for block in stage.blocks:
            b, n, m, c = z.shape
            attention = torch.nn.MultiheadAttention(c, 4, batch_first=True).double()
            attention.load_state_dict(
                {
                    "in_proj_weight": block.mixer.qkv.weight,
                    "in_proj_bias": torch.zeros(3 * c),
                    "out_proj.weight": block.mixer.out.weight,
                    "out_proj.bias": block.mixer.out.bias,
                }
            )
            tokens = norm(block.norm1, z).reshape(b, n * m, c)
            z = z + attention(tokens, tokens, tokens, need_weights=False)[0].view(z.shape)
            z = z + block.mlp_out(F.gelu(block.mlp_in(norm(block.norm2, z))))
    z = norm(model.norm, z)
    return model.head(z.sum((1, 2)) / (z.shape[1] * z.shape[2]))


@pytest.mark.parametrize("size", [(8, 8), (9, 13), (3, 2)])
def test_full_attention_equals_the_plain_classifier(size):
    model, x = small("attention"), randn(2, 2, *size)
    assert (model(x) - plain(model, x)).abs().max() < 1e-12
    assert (small("attention", recompute=True)(x) - plain(model, x)).abs().max() < 1e-12


def test_windows_as_large_as_the_image_are_full_attention():
    model, x = small("window", window=16), randn(2, 2, 9, 13)
    full = small("attention")
    full.load_state_dict(model.state_dict())
    assert (model(x) - full(x)).abs().max() < 1e-12


@pytest.mark.parametrize("mixer", [name for name in MIXERS if name != "none"])
def test_every_mixer_takes_any_size_and_all_weights_learn(mixer):
    model = small(mixer, layer_scale=1.0)
    for size in ((17, 31), (1, 1), (5, 40)):
        x = randn(3, 2, *size)
        logits = model(x)
        assert logits.shape == (3, 5) and torch.isfinite(logits).all()
        # samples of a batch do not meet
        assert (model(x[1:2])[0] - logits[1]).abs().max() < 1e-12
    logits = model(randn(3, 2, 17, 31))
    F.cross_entropy(logits, torch.tensor([0, 1, 2])).backward()
    for name, p in model.named_parameters():
        assert p.grad is not None and p.grad.abs().max() > 0, name


@pytest.mark.parametrize("mixer", ["multipole", "window", "attention"])
@pytest.mark.parametrize("size", [(17, 31), (12, 12)])
def test_recomputing_changes_no_gradient(mixer, size):
    x, y = randn(2, 2, *size), torch.tensor([0, 3])
    gradients = []
    for recompute in (False, True):
        model = small(mixer, recompute=recompute)
        F.cross_entropy(model(x), y).backward()
        gradients.append([p.grad for p in model.parameters()])
    for a, b in zip(*gradients):
        assert (a - b).abs().max() < 1e-12


def reach(model: Classifier, size: int) -> torch.Tensor:
    """Which pixels the last stage's cell (0, 0) depends on."""
    x = randn(1, 2, size, size).requires_grad_()
    (g,) = torch.autograd.grad(model.features(x)[0, 0, 0].square().sum(), x)
    return g[0].abs().sum(0) > 0


@pytest.mark.parametrize("mixer", ["multipole", "attention", "spectral", "slices"])
def test_one_block_sees_the_whole_image(mixer):
    assert reach(small(mixer, widths=(8,), depths=(1,)), 24).all()


def test_one_window_sees_itself_alone_and_shifts_let_it_grow():
    for shift, depth, cells in ((False, 1, 3), (False, 4, 3), (None, 2, 3), (None, 3, 6)):
        seen = reach(small("window", widths=(8,), depths=(depth,), shift=shift), 24)
        expected = torch.zeros(24, 24, dtype=torch.bool)
        expected[: 2 * cells, : 2 * cells] = True
        assert torch.equal(seen, expected)


def test_a_pyramid_without_upsampling_is_shifted_windows():
    pyramid, windows = small("multipole", shift=True), small("window")
    own = dict(windows.named_parameters())
    with torch.no_grad():
        for name, p in pyramid.named_parameters():
            if name.endswith("mixer.up"):
                p.zero_()
            elif not name.endswith("mixer.down"):
                own[name.replace(".attention.", ".")].copy_(p)
    x = randn(2, 2, 19, 26)
    assert (pyramid(x) - windows(x)).abs().max() < 1e-12


def test_without_position_or_borders_a_moved_image_has_the_same_logits():
    """Whole windows moved around: every stage permutes its windows, and the pool does not see their order."""
    model = small("window", shift=False, position="none", window=2, depths=(1, 1))
    x = randn(2, 2, 24, 16)
    moved = x.roll((8, 8), (2, 3))
    assert (model(moved) - model(x)).abs().max() < 1e-12
    assert (model(x.roll((2, 2), (2, 3))) - model(x)).abs().max() > 1e-3
    located = small("window", shift=False, window=2, depths=(1, 1))
    assert (located(moved) - located(x)).abs().max() > 1e-3


def test_positions_are_one_function_of_the_place_at_all_sizes():
    """Cells of a three times coarser grid have their centres on those of the finer one."""
    position = small("attention").stages[0].position
    fine, coarse = (position(torch.zeros(1, 4 * k, 5 * k, 8, dtype=torch.float64)) for k in (3, 1))
    assert (fine[:, 1::3, 1::3] - coarse).abs().max() < 1e-12


def test_stochastic_depth_keeps_the_mean_and_rests_in_evaluation():
    block = ResidualBlock(
        4, torch.nn.Identity(), norm="none", mlp="plain", mlp_ratio=1, mixer_activation=False, local=None,
        layer_scale=None, dealias=1, periodic=False, drop_path=0.25,
    )  # fmt: skip
    block.mixer.forward = lambda z, grid: torch.ones_like(z)
    torch.nn.init.zeros_(block.mlp_out.weight), torch.nn.init.zeros_(block.mlp_out.bias)
    torch.manual_seed(0)
    x = torch.zeros(20000, 2, 2, 4)
    y = block(x, None, ())
    assert y.unique().tolist() == pytest.approx([0, 1 / 0.75])
    assert (y == y[:, :1, :1, :1]).all()  # a sample is dropped as a whole
    assert abs(y.mean() - 1) < 4 * math.sqrt(0.25 / 0.75 / 20000)
    assert torch.equal(block.eval()(x, None, ()), torch.ones_like(x))
    rates = [b.drop_path for s in small("window", drop_path=0.3).stages for b in s.blocks]
    assert rates == pytest.approx([0, 0.1, 0.2, 0.3])


@pytest.mark.parametrize(
    "options",
    [
        {},
        dict(mixer="window", mixer_options=dict(relative="table", qkv_bias=True), position="none", order="post"),
        dict(mixer=("window", "attention"), heads=(2, 3), norm="rms", mlp="gated", drop_path=0.1, recompute=True),
        dict(mixer=["multipole", "window"], mixer_options=[dict(shift=1), dict(window=5, relative="continuous")]),
        dict(mixer="multipole", mixer_options=dict(sampler="average"), shift=True, layer_scale=0.1),
        dict(mixer="spectral", mixer_options=[dict(modes=(3, 3), basis="cosine"), dict(modes=(2, 2))]),
    ],
)
def test_saved_and_built_again(tmp_path, options):
    torch.manual_seed(0)
    model = build_model("classifier", **SMALL | options).eval()
    x = torch.randn(2, 2, 13, 18)
    loaded = load_model(save_model(model, tmp_path))
    assert torch.equal(loaded(x), model(x)) and loaded.config == model.config
    assert build_model("classifier", **model.config["options"]).config == model.config


def test_shifts_alternate_where_they_should():
    def shifts(**options):
        blocks = [b for s in Classifier(**SMALL | options).stages for b in s.blocks]
        return [getattr(b.mixer, "attention", b.mixer).shift for b in blocks]

    assert shifts(mixer="window", window=5) == [0, 2, 0, 2]
    assert shifts(mixer="window", shift=False) == [0] * 4
    assert shifts(mixer="multipole") == [0] * 4
    assert shifts(mixer="multipole", shift=True) == [0, 1, 0, 1]
    assert shifts(mixer="window", mixer_options=dict(shift=2)) == [2] * 4
    assert shifts(mixer="window", mixer_options=dict(stride=1)) == [0] * 4


def test_arms_have_equal_parameter_counts_and_run(tmp_path):
    pytest.importorskip("transformers")
    for image, channels, classes, parameters in ((28, 1, 10, 100_000), ((32, 40), 3, 7, 250_000)):
        arms = classifier_arms(image, channels, classes, parameters)
        assert list(arms) == ["multipole", "window", "attention", "spectral", "ViT", "SwinV2"]
        for name, make in arms.items():
            model = make().eval()
            count = sum(p.numel() for p in model.parameters())
            assert abs(count - parameters) <= 0.03 * parameters, name
            assert not any(p.is_meta for p in model.parameters())
            size = (image, image) if isinstance(image, int) else image
            x = torch.randn(2, channels, *size)
            y = model(x)
            assert torch.isfinite(y).all()
            loaded = load_model(save_model(model, tmp_path / f"{name}{classes}"))
            assert torch.equal(loaded(x), y)


def test_arms_of_one_seed_are_equal_and_options_reach_them():
    make = classifier_arms(28, 1, 10, 60_000, only=("window", "spectral"), drop_path=0.2, depths=(1, 1), window=7)
    models = []
    for _ in range(2):
        torch.manual_seed(3)
        models.append(make["window"]())
    assert all(torch.equal(a, b) for a, b in zip(models[0].parameters(), models[1].parameters()))
    options = models[0].config["options"]
    assert options["depths"] == [1, 1] and options["window"] == 7 and options["drop_path"] == 0.2
    # half of the points of 14 and 7 cells
    assert [o["modes"] for o in make["spectral"]().config["options"]["mixer_options"]] == [[7, 7], [3, 3]]


def test_matching_finds_the_width_that_keeps_the_ratio():
    make = lambda width, ratio: torch.nn.Linear(width, round(ratio * width), bias=False)  # noqa: E731
    assert match_parameters(make, 2 * 20 * 20, step=4, mlp_ratio=2.0) == (20, 2.0)
    width, ratio = match_parameters(make, 1234, step=4, mlp_ratio=2.0)
    assert width % 4 == 0 and abs(round(ratio * width) * width - 1234) <= 0.03 * 1234
    with pytest.raises(ValueError, match="3 % parameters"):
        match_parameters(make, 3, step=4)
    with pytest.raises(ValueError, match="'MLP'"):
        classifier_arms(28, 1, 10, 100_000, only=("MLP",))


def test_bad_arguments_are_named():
    for change, match in (
        ({"mixer": "fourier"}, "mixer='fourier'"),
        ({"mixer": ("window",)}, "one for each of 2"),
        ({"depths": (2,)}, r"depths=\(2,\)"),
        ({"widths": (8, 0)}, "widths"),
        ({"widths": (), "depths": ()}, "widths"),
        ({"patch": 0}, "patch"),
        ({"position": "learned"}, "position='learned'"),
        ({"drop_path": 1.0}, "drop_path=1.0"),
        ({"order": "sandwich"}, "order='sandwich'"),
        ({"heads": 3}, "heads=3 do not divide channels=8"),
    ):
        with pytest.raises(ValueError, match=match):
            Classifier(**SMALL | change)
    with pytest.raises(TypeError, match="unknown option 'modes'"):
        Classifier(**SMALL, mixer="window", mixer_options={"modes": (2, 2)})
    with pytest.raises(ValueError, match=r"\(batch, 2, height, width\)"):
        small("window")(randn(1, 3, 8, 8))
    with pytest.raises(TypeError, match="/ 255"):
        small("window")(torch.zeros(1, 2, 8, 8, dtype=torch.uint8))


@pytest.mark.gpu
@pytest.mark.parametrize("mixer", ["multipole", "window", "attention", "spectral"])
def test_same_on_the_gpu(mixer):
    model, x = small(mixer), randn(2, 2, 17, 31)
    expected = model(x)
    assert (model.cuda()(x.cuda()).cpu() - expected).abs().max() < 1e-11
