"""Features of fields and texts: distances are those of the fields, models are read as they are, clouds are prepared."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from sciops import Grid, build_model
from sciops.evaluation import (
    activation_features,
    channel_units,
    field_features,
    joint_features,
    joint_weight,
    prdc,
    prepared,
    spectrum_features,
    text_features,
)
from sciops.models import LanguageModel

RING = Grid(32, centering="periodic")


def normal(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape)


@pytest.mark.parametrize("grid", [Grid((5, 7)), Grid((6, 4), centering="cell"), RING])
def test_distances_are_those_of_the_fields(grid):
    u, v = normal(0, 3, 2, *grid.shape), normal(1, 3, 2, *grid.shape)
    units = channel_units(u, grid)
    f, g = (field_features(x, grid, units=units) for x in (u, v))
    w = grid.weights() / grid.weights().sum()
    for i in range(3):
        naive = sum((w * (u[i, c] - v[i, c]) ** 2).sum() / units[c] ** 2 for c in range(2))
        assert ((f[i] - g[i]) ** 2).sum() == pytest.approx(naive, rel=1e-12)
    for c in range(2):
        moved = u[:, c] - u[:, c].mean(0)
        assert units[c] == pytest.approx(np.sqrt((w * moved**2).sum() / 3), rel=1e-12)
    one = field_features(u[:, 0], grid)
    assert one.shape == (3, grid.size) and one.dtype == u.dtype


def test_fields_on_finer_grids_have_the_same_distances():
    def waves(n, a):
        (x,) = Grid(n).coordinates()
        return field_features(np.sin(3 * x + a[:, None]) * np.exp(x), Grid(n))

    coarse, fine = (waves(n, np.array([0.0, 1.0])) for n in (33, 257))
    size = [np.linalg.norm(f[0] - f[1]) for f in (coarse, fine)]
    assert size[0] == pytest.approx(size[1], rel=2e-3)
    unweighted = [np.linalg.norm(f[0] - f[1]) for f in (coarse * 33**0.5, fine * 257**0.5)]
    assert unweighted[1] / unweighted[0] > 2.5


def test_kinds_of_fields():
    u = torch.from_numpy(normal(0, 4, *RING.shape)).half()
    found = field_features(u, RING)
    assert isinstance(found, torch.Tensor) and found.dtype == torch.float32
    np.testing.assert_allclose(found, field_features(u.float().numpy(), RING), rtol=1e-6)
    assert channel_units(np.ones((3, 1, 32)), RING) == [1]


def test_spectra_and_moments():
    from scipy import stats

    (x,) = RING.coordinates()
    u = normal(0, 5, 2, 32)
    found = spectrum_features(u, RING)
    assert found.shape == (5, 2 * (17 + 4))
    np.testing.assert_allclose(spectrum_features(np.roll(u, 11, -1), RING), found, rtol=1e-9, atol=1e-9)
    first = found[:, :21]
    moments = [u[:, 0].mean(1), u[:, 0].std(1), stats.skew(u[:, 0], axis=1), stats.kurtosis(u[:, 0], axis=1)]
    np.testing.assert_allclose(first[:, 17:], np.stack(moments, 1), rtol=1e-9, atol=1e-12)
    energy = np.abs(np.fft.rfft(u[:, 0]) / 32) ** 2 * np.array([1, *[2] * 15, 1])
    np.testing.assert_allclose(first[:, :17], np.log10(energy), rtol=1e-9, atol=1e-9)
    louder = spectrum_features(10 * u, RING)[:, :17]
    np.testing.assert_allclose(louder, first[:, :17] + 2, rtol=1e-9)
    smooth = spectrum_features(np.cos(2 * np.pi * x)[None], RING)
    assert smooth[0, 1] == pytest.approx(np.log10(0.5)) and smooth[0, 5] == pytest.approx(np.log10(0.5) - 12)
    still = spectrum_features(np.stack([np.zeros(32), np.full(32, 1.1)]), RING)
    assert np.isfinite(still).all() and (still[:, 18:] == [[0, 0, 0]] * 2).all() and still[0, 0] == -300
    assert spectrum_features(torch.ones(2, 8, 8), Grid((8, 8)), extension="even").dtype == torch.float32


def test_activations_are_those_of_the_layer():
    torch.manual_seed(0)
    model = build_model("fno", in_channels=1, out_channels=1, width=6, depth=2, modes=4, grid=RING).double().train()
    x = torch.from_numpy(normal(0, 5, 1, 32))
    seen = {}
    handle = model.blocks[1].mixer.register_forward_hook(lambda _, __, y: seen.update(y=y.detach()))
    with torch.no_grad():
        model(x, grid=RING)
    handle.remove()
    y = seen["y"]  # (batch, points, channels)
    expected = torch.cat([y.mean(1), y.std(1, correction=0)], 1)
    for size in (2, 64):
        got = activation_features(model, x, RING, layer="blocks.1.mixer", batch_size=size)
        torch.testing.assert_close(got, expected, rtol=1e-10, atol=1e-10)
    whole = activation_features(model, x.numpy(), RING, layer="blocks.1.mixer", pool=False)
    np.testing.assert_allclose(whole, y.mT.flatten(1) / 32**0.5, rtol=1e-10, atol=1e-10)
    handle = model.project.register_forward_pre_hook(lambda _, given: seen.update(y=given[0].detach()))
    last = activation_features(model, x, RING)
    handle.remove()
    hidden = model.project[1](model.project[0](seen["y"]))  # what the last linear map takes
    torch.testing.assert_close(last, torch.cat([hidden.mean(1), hidden.std(1, correction=0)], 1).detach())
    assert model.training
    with pytest.raises(ValueError, match="no such layer"):
        activation_features(model, x, RING, layer="blocks.7")
    with pytest.raises(ValueError, match="expected one layer"):
        activation_features(model, x, RING, layer="blocks.*.mixer")
    with pytest.raises(ValueError, match=r"x has shape \(5, 32\)"):
        activation_features(model, x[:, 0], RING)


def test_outputs_of_other_inputs_show_in_pairs_alone():
    random = np.random.default_rng(0)
    a, b = random.standard_normal((2, 400, 3))
    turn = np.linalg.qr(random.standard_normal((3, 3)))[0]
    u, v = 5 * a @ turn, 5 * b @ turn
    shuffled = v[random.permutation(400)]
    w = joint_weight(a, u)
    assert w == pytest.approx(np.sqrt(a.var(0).sum() / u.var(0).sum())) == pytest.approx(1 / 5, rel=0.01)
    alone = [prdc(u, outputs, splits=0).precision for outputs in (v, shuffled)]
    pairs = [
        prdc(joint_features(a, u, weight=w), joint_features(b, outputs, weight=w), splits=0).precision
        for outputs in (v, shuffled)
    ]
    assert alone[0] == alone[1] > 0.9 and pairs[0] > 0.9 and pairs[1] < 0.4
    assert joint_features(a, u, weight=2.0).shape == (400, 6)
    with pytest.raises(ValueError, match="expected pairs"):
        joint_features(a, u[:7])
    with pytest.raises(ValueError, match="expected both above 0"):
        joint_weight(a, np.ones((400, 2)))


class Reader(nn.Module):
    """Embedding and a running mean; hands a tuple on, as other packages do."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(11, 4)
        self.states = nn.Identity()
        self.inner = Tupled()

    def forward(self, tokens, attention_mask=None):
        h = self.embedding(tokens).cumsum(1)
        return self.inner(h if attention_mask is None else h * attention_mask[..., None])


class Tupled(nn.Module):
    def forward(self, h):
        return h, None


def test_hidden_states_of_texts():
    torch.manual_seed(0)
    model = LanguageModel(11, width=8, depth=2).double().train()
    tokens = torch.from_numpy(np.random.default_rng(0).integers(0, 11, (7, 6)))
    found = text_features(model, tokens, batch_size=3)
    model.eval()
    with torch.no_grad():
        states = model.stack(model.embedding(tokens))
        torch.testing.assert_close(found, states[:, -1], rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(states @ model.embedding.weight.T, model(tokens), rtol=1e-12, atol=1e-12)
        first = model.stack.blocks[0](model.embedding(tokens))
    torch.testing.assert_close(text_features(model, tokens.numpy(), pool="mean"), states.mean(1))
    torch.testing.assert_close(text_features(model, tokens, layer="stack.blocks.0"), first[:, -1])
    mask = torch.arange(6) < torch.tensor([6, 1, 2, 3, 4, 5, 6])[:, None]
    padded = text_features(model, torch.where(mask, tokens, 0), mask=mask, batch_size=2)
    mean = text_features(model, torch.where(mask, tokens, 0), mask=mask, pool="mean")
    for i, row in enumerate(mask):
        alone = tokens[i : i + 1, : int(row.sum())]
        torch.testing.assert_close(padded[i], text_features(model, alone)[0], rtol=1e-10, atol=1e-10)
        torch.testing.assert_close(mean[i], text_features(model, alone, pool="mean")[0], rtol=1e-10, atol=1e-10)


def test_hidden_states_of_other_models():
    torch.manual_seed(0)
    model = Reader()
    tokens = torch.from_numpy(np.random.default_rng(0).integers(0, 11, (3, 5)))
    expected = model.embedding(tokens).cumsum(1).detach()
    torch.testing.assert_close(text_features(model, tokens, layer="inner"), expected[:, -1])
    left = torch.tensor([[0, 0, 1, 1, 1], [1, 1, 1, 0, 0], [0, 1, 1, 0, 0]]).bool()
    found = text_features(model, tokens, mask=left, layer="inner")
    torch.testing.assert_close(found, expected[torch.arange(3), torch.tensor([4, 2, 2])])
    for change, message in (
        ({"layer": "nothing"}, "layer='nothing': this model has embedding, states, inner"),
        ({"layer": "states"}, "expected one output"),
        ({"layer": "inner", "pool": "first"}, "pool='first'"),
        ({"layer": "inner", "mask": torch.zeros(3, 5)}, "3 of 3 texts have no token, the first is text 0"),
        ({"layer": "inner", "mask": torch.ones(3, 4)}, r"mask has shape \(3, 4\)"),
        ({"layer": "inner", "batch_size": 0}, "batch_size=0"),
    ):
        with pytest.raises(ValueError, match=message):
            text_features(model, tokens, **change)
    with pytest.raises(ValueError, match="expected whole numbers"):
        text_features(model, tokens.float(), layer="inner")


def distances(v):
    v = np.asarray(v)
    return np.linalg.norm(v[:, None] - v, axis=-1)


@pytest.mark.parametrize("shape", [(40, 6), (12, 30)])
@pytest.mark.parametrize("fit", ["union", "reference"])
def test_components_are_those_of_a_singular_value_decomposition(shape, fit):
    n, d = shape
    shrink = 0.6 ** np.arange(d)
    x, y = normal(0, n, d) * shrink, normal(1, n, d) * shrink + 0.1
    fitted = x if fit == "reference" else np.concatenate([x, y])
    _, s, rows = np.linalg.svd(fitted - fitted.mean(0), full_matrices=False)
    share = np.cumsum(s**2) / (s**2).sum()
    for explained in (0.5, 0.9, 1.0):
        r = int((share < explained - 1e-13).sum()) + 1
        found = prepared(x, y, explained=explained, fit=fit)
        assert found.reference.shape == (n, r)
        both = np.concatenate([found.reference, found.generated])
        np.testing.assert_allclose(distances(both), distances(np.concatenate([x, y]) @ rows[:r].T), atol=1e-7)
        centred = [v - x.mean(0) for v in (x, y)]
        expected = [((v @ rows[:r].T) ** 2).sum() / (v**2).sum() for v in centred]
        assert found.kept == pytest.approx(tuple(expected), abs=1e-7)
        with_rest = prepared(x, y, explained=explained, fit=fit, residual=True)
        lengths = [np.linalg.norm(v - fitted.mean(0), axis=1) for v in (x, y)]
        np.testing.assert_allclose(np.linalg.norm(with_rest.reference, axis=1), lengths[0], rtol=1e-6)
        np.testing.assert_allclose(np.linalg.norm(with_rest.generated, axis=1), lengths[1], rtol=1e-6)


def test_what_leaves_the_components_of_the_reference_is_seen_by_its_distance():
    smooth = normal(0, 500, 2) @ normal(9, 2, 40)
    rough = normal(1, 500, 2) @ normal(9, 2, 40) + 0.7 * normal(2, 500, 40)
    scores = {}
    for residual in (False, True):
        found = prepared(smooth, rough, fit="reference", explained=0.999, residual=residual)
        scores[residual] = prdc(found.reference, found.generated, splits=0).precision
    assert found.kept[0] > 0.999 and found.kept[1] < 0.9
    assert scores[False] > 0.8 and scores[True] < 0.05


def test_normalisations():
    x, y = normal(0, 30, 4) * [1, 10, 0.1, 1], normal(1, 30, 4)
    x[:, 3] = 2.5
    rows = prepared(x, y, normalize="l2", explained=None)
    scaled = prepared(7 * x, y * np.arange(1, 31)[:, None], normalize="l2", explained=None)
    for one, other in zip(rows[:2], scaled[:2]):
        np.testing.assert_allclose(np.linalg.norm(one, axis=1), 1, rtol=1e-12)
        np.testing.assert_allclose(one, other, rtol=1e-12)
    assert not prepared(0 * x, y, normalize="l2", explained=None).reference.any()
    z = prepared(x, y, normalize="zscore", explained=None)
    other = np.sqrt(np.mean(x[:, :3].var(0)))
    unit = np.array([*x[:, :3].std(0), other])
    np.testing.assert_allclose(distances(np.concatenate(z[:2])), distances(np.concatenate([x, y]) / unit), rtol=1e-9)
    single = prepared(torch.from_numpy(x).float(), torch.from_numpy(y).float(), normalize="zscore")
    assert single.reference.dtype == torch.float32 and isinstance(single.generated, torch.Tensor)
    constant = prepared(np.ones((5, 3)), np.ones((5, 3)), normalize="zscore", residual=True)
    assert not constant.reference.any() and constant.kept == (1, 1)


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: prepared(np.ones((4, 2)), np.ones((4, 2)), normalize="row"), "normalize='row'"),
        (lambda: prepared(np.ones((4, 2)), np.ones((4, 2)), explained=0), "explained=0"),
        (lambda: prepared(np.ones((4, 2)), np.ones((4, 2)), fit="both"), "fit='both'"),
        (lambda: field_features(np.ones((4, 31)), RING), "expected its last axes to be the grid (32,)"),
        (lambda: field_features(np.ones(32), RING), "u has shape (32,): expected (samples, *(32,))"),
        (lambda: field_features(np.ones((4, 2, 32)), RING, units=[1.0]), "units has 1 entries: expected 2 numbers"),
        (lambda: field_features(np.ones((4, 1, 32)), RING, units=[0.0]), "numbers above 0"),
        (lambda: field_features(1j * np.ones((4, 32)), RING), "u is complex128"),
        (lambda: spectrum_features(np.ones((4, 32)), RING, floor=2), "floor=2"),
        (lambda: joint_features(np.ones((4, 2)), np.ones((4, 2)), weight=0), "weight=0"),
        (lambda: joint_features(np.ones((4, 2)), np.ones(4)), "outputs has shape (4,)"),
    ],
)
def test_one_line_says_what_is_wrong(call, message):
    with pytest.raises(ValueError) as error:
        call()
    assert message in str(error.value) and "\n" not in str(error.value)
