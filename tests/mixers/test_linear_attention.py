"""Linear attention and means against sums over pairs; no mixer leaves tokens as they are."""

import pytest
import torch
import torch.nn.functional as F

from sciops.grids import Grid
from sciops.mixers import LinearAttention, MeanPool, NoMixer
from sciops.mixers.sequence import linear_attention
from sciops.models import Operator
from sciops.models.sequences.stack import SequenceStack


def close(a, b, tolerance=1e-11):
    torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)


def drawn(*shape, seed=1):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def pairs(mixer, x, weights=None):
    """Σ over all pairs of one sequence (n, channels)."""
    heads, d, n = mixer.heads, mixer.channels // mixer.heads, len(x)
    q, k, v = (x @ mixer.qkv.weight.T).reshape(n, 3, heads, d).unbind(1)
    gamma = mixer.decays or (1.0,) * heads
    weights = torch.ones(n, dtype=x.dtype) if weights is None else weights
    y = torch.zeros(n, heads, d, dtype=x.dtype)
    for h in range(heads):
        for i in range(n):
            total, norm = 0, 0
            for j in range(i + 1 if mixer.causal else n):
                w = weights[j] * gamma[h] ** abs(i - j)
                if mixer.features == "elu":
                    score = (F.elu(q[i, h]) + 1) @ (F.elu(k[j, h]) + 1)
                    norm = norm + w * score
                else:
                    score = q[i, h] @ k[j, h]
                    norm = norm + w * d**0.5
                total = total + w * score * v[j, h]
            y[i, h] = total / norm
    return mixer.out(y.flatten(1))


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("features", ["elu", "identity"])
@pytest.mark.parametrize("decay", [None, 0.9, (0.5, 1.0)])
def test_it_is_the_sum_over_pairs(causal, features, decay):
    torch.manual_seed(0)
    mixer = LinearAttention(8, heads=2, features=features, decay=decay, causal=causal).double()
    x = drawn(2, 11, 8)
    with torch.no_grad():
        for one, got in zip(x, mixer(x)):
            close(got, pairs(mixer, one))


@pytest.mark.parametrize("features", ["elu", "identity"])
@pytest.mark.parametrize("decay", [None, (0.99, 0.3)])
@pytest.mark.parametrize("stretch", [64, 128, 4096])
def test_chunks_and_stretches_do_not_show(features, decay, stretch, monkeypatch):
    """150 tokens are three chunks, in one to three stretches; one token at a time has none."""
    monkeypatch.setattr(linear_attention, "_SEGMENT", stretch)
    torch.manual_seed(0)
    mixer = LinearAttention(8, heads=2, features=features, decay=decay, causal=True).double()
    x = drawn(2, 150, 8)
    with torch.no_grad():
        state, steps = None, []
        for t in range(150):
            y, state = mixer.step(x[:, t], state)
            steps.append(y)
        close(mixer(x), torch.stack(steps, 1))
        first, after = mixer.prefill(x[:, :71])
        second, after = mixer.prefill(x[:, 71:], after)
        close(torch.cat([first, second], 1), torch.stack(steps, 1))
        close(after.matrix, state.matrix)
        close(after.norm, state.norm)
    assert state.matrix.shape == (2, 2, 4, 4) and state.norm.shape == (2, 2, 4 if features == "elu" else 1)


def test_small_features_keep_their_digits():
    """elu(u) + 1 = e^u for u < 0; taken as a difference of almost equal numbers it is 0 in float32 from u = −17 on."""
    torch.manual_seed(0)
    mixer, x = LinearAttention(8, heads=2), drawn(2, 11, 8).float()
    with torch.no_grad():
        mixer.qkv.weight[:16] *= 0.1
        x[..., 0] = 40.0
        mixer.qkv.weight[:16, 0] = -0.5  # queries and keys near −20
        y = mixer(x)
        exact = mixer.double()(x.double())
    assert (y - exact).abs().max() < 1e-4 * (exact - mixer.out.bias).abs().max()


@pytest.mark.parametrize("mixer", [LinearAttention, MeanPool])
def test_a_grid_weighs_the_tokens_that_there_are(mixer):
    torch.manual_seed(0)
    mixer, grid, x = mixer(8).double(), Grid((12,)), drawn(2, 12, 8)
    mask = torch.arange(12) < torch.tensor([[12], [7]])
    y = mixer(torch.where(mask[..., None], x, 1e3), grid, mask=mask)
    close(y[:1], mixer(x[:1], grid))
    # half the weight at the first point alone is a whole one at all others
    doubled = torch.cat([x[1:, :1], x[1:, 1:7].repeat_interleave(2, 1)], 1)
    close(y[1, 1:7], mixer(doubled)[0, 1::2])
    with pytest.raises(ValueError, match=r"x has 12 tokens, but the grid is \(5, 3\): pass the grid x was sampled on"):
        mixer(x, Grid((5, 3)))
    with pytest.raises(ValueError, match=r"x has the points \(3, 4\), but the grid is \(4, 3\)"):
        mixer(x.reshape(2, 3, 4, 8), Grid((4, 3)))


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("options", [{}, {"decay": 0.9}, {"features": "identity"}])
def test_no_tokens_are_a_sequence_too(causal, options):
    for mixer in (LinearAttention(8, causal=causal, **options), MeanPool(8, causal=causal)):
        assert mixer(torch.zeros(2, 0, 8)).shape == (2, 0, 8)
        if causal:
            x = torch.randn(2, 5, 8)
            y, state = mixer.prefill(x[:, 3:], mixer.prefill(x[:, :0], mixer.prefill(x[:, :3])[1])[1])
            close(y, mixer(x)[:, 3:], 1e-5)


def test_the_state_of_a_mean_keeps_no_sums_of_tokens():
    _, state = MeanPool(8, causal=True).prefill(torch.randn(2, 100, 8))
    assert state.total.untyped_storage().nbytes() == 4 * state.total.numel()


@pytest.mark.parametrize("features", ["elu", "identity"])
def test_a_grid_gives_its_quadrature_weights(features):
    torch.manual_seed(0)
    mixer, grid, x = LinearAttention(8, heads=2, features=features).double(), Grid((4, 3)), drawn(1, 4, 3, 8)
    weights = torch.from_numpy(grid.weights()).flatten()
    assert weights.min() < weights.max()
    with torch.no_grad():
        close(mixer(x, grid)[0].flatten(0, 1), pairs(mixer, x[0].flatten(0, 1), weights))
        close(mixer(x)[0].flatten(0, 1), pairs(mixer, x[0].flatten(0, 1)))


@pytest.mark.parametrize("causal", [True, False])
def test_a_mean_is_a_mean(causal):
    torch.manual_seed(0)
    mixer, x = MeanPool(8, hidden=5, causal=causal).double(), drawn(2, 13, 8)
    with torch.no_grad():
        s = F.gelu(mixer.of_summary(x))
        for i, got in enumerate(mixer(x).unbind(1)):
            mean = s[:, : i + 1 if causal else None].mean(1)
            local = x[:, i] @ mixer.of_token.weight.T + mixer.of_token.bias
            close(got, mixer.out(F.gelu(local + mean @ mixer.of_mean.weight.T)))
        if not causal:
            field, grid = drawn(1, 4, 3, 8), Grid((4, 3))
            weights = torch.from_numpy(grid.weights() / grid.weights().sum()).flatten()
            mean = (weights[:, None] * F.gelu(mixer.of_summary(field[0].flatten(0, 1)))).sum(0)
            expected = mixer.out(F.gelu(mixer.of_token(field[0]) + mixer.of_mean(mean)))
            close(mixer(field, grid)[0], expected)


def test_a_mean_has_the_weights_of_attention():
    count = sum(p.numel() for p in MeanPool(64).parameters() if p.ndim == 2)
    assert count == 4 * 64**2


def test_without_a_mixer_tokens_do_not_hear_of_each_other():
    torch.manual_seed(0)
    stack, x = SequenceStack(8, 2, mixer="none", causal=True).double(), drawn(2, 6, 8)
    with torch.no_grad():
        y = stack(x)
        close(y, torch.stack([stack(x[:, t : t + 1])[:, 0] for t in range(6)], 1))
        first, state = stack.prefill(x[:, :4])
        steps = []
        for t in (4, 5):
            out, state = stack.step(x[:, t], state)
            steps.append(out)
        close(torch.cat([first, torch.stack(steps, 1)], 1), y)
    assert not NoMixer(8)(x).any() and not list(NoMixer(8).parameters())
    with pytest.raises(ValueError, match="causal=True"):
        NoMixer(8).prefill(x)


@pytest.mark.parametrize("ndim", [1, 2])
@pytest.mark.parametrize("mixer", ["linear_attention", "mean_pool", "none"])
def test_they_carry_an_operator(mixer, ndim):
    torch.manual_seed(0)
    model = Operator(1, 1, width=8, depth=2, mixer=mixer, ndim=ndim)
    x = torch.randn(2, 1, *(9,) * ndim)
    y = model(x)
    assert torch.isfinite(y).all() and y.shape == x.shape
    (y * torch.randn_like(y)).sum().backward()
    for name, parameter in model.named_parameters():
        unseen = mixer == "none" and (".norm1." in name or name.endswith("after_mixer.weight"))  # about a mixer's 0
        assert (parameter.grad.abs().max() > 0) != unseen, name


def test_options_that_do_not_fit_are_refused():
    for options in (dict(heads=3), dict(features="exp"), dict(decay=1.5), dict(decay=(0.5, 0.5)), dict(decay=0.0)):
        with pytest.raises(ValueError, match="expected|divide"):
            LinearAttention(8, **options)
    with pytest.raises(ValueError, match="hidden=0"):
        MeanPool(8, hidden=0)
