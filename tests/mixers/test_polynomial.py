"""The polynomial mixer against token-by-token loops and dense matrices, and what its structure implies."""

import math

import numpy as np
import pytest
import torch

from sciops.grids import Grid
from sciops.mixers import PolynomialMixer
from sciops.mixers.quadrature import token_weights
from sciops.mixers.sequence import copied
from sciops.mixers.sequence.polynomial import PolynomialState
from sciops.mixers.sequence.running_means import running_means
from sciops.models import Operator
from sciops.models.sequences.stack import SequenceStack

D, N = 6, 19
VARIANTS = [
    dict(),
    dict(degree=3, expansion=1, gate="hardsigmoid"),
    dict(variant="coefficients"),
    dict(variant="coefficients", degree=4, expansion=5 / 3, gate="hardsigmoid", activation="gelu"),
    dict(degree=3, gate_heads=4, groups=2, expansion=2),
    dict(variant="coefficients", degree=3, gate_heads=3, groups=3),
]
ids = lambda o: ",".join(f"{k}={v}" for k, v in o.items()) or "default"  # noqa: E731


def made(channels=D, seed=0, **options):
    torch.manual_seed(seed)
    mixer = PolynomialMixer(channels, **options).double()
    with torch.no_grad():
        for parameter in mixer.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return mixer.eval()


def tokens(batch=2, n=N, channels=D, seed=1):
    return torch.randn(batch, n, channels, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def close(a, b, tolerance=1e-12):
    torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)


# the formulas of the paper, one token at a time and with no code of the mixer


def dense_weight(mixer):
    """W_p or W_h with its zeros, rows ordered branch by branch."""
    p = mixer.polynomial
    groups, rows, inputs = p.weight.shape
    whole = torch.zeros(p.branches, groups, rows // p.branches, groups, inputs, dtype=torch.float64)
    for g in range(groups):
        whole[:, g, :, g] = p.weight[g].unflatten(0, (p.branches, -1))
    return whole.reshape(groups * rows, groups * inputs)


def feature(mixer, x):
    """F of one token x (channels,)."""
    p = mixer.polynomial
    z = dense_weight(mixer) @ x
    phi = {
        "gelu": lambda v: 0.5 * v * (1 + torch.erf(v / math.sqrt(2))),
        "clipped": lambda v: torch.where(v > 0, v, 0.01 * v).clamp(-0.1, 6),
        "identity": lambda v: v,
    }[p.activation]
    if p.variant == "coefficients":
        return sum(p.alpha[k] * phi(z) ** (k + 1) for k in range(p.degree))
    g = phi(z + p.bias).chunk(p.degree)
    return torch.cat([math.prod(g[1 : k + 1], start=g[0]) for k in range(p.degree)])


def gate(mixer, x):
    """S of one token, one number a feature."""
    z = mixer.to_gate.weight @ x + mixer.to_gate.bias
    s = 1 / (1 + torch.exp(-z)) if mixer.gate == "sigmoid" else (z / 6 + 0.5).clamp(0, 1)
    return s.repeat_interleave(mixer.features // mixer.gate_heads)


def turned(f, angle_of):
    """Pairs (c, c + half) of f as complex numbers, times exp(i·angle)."""
    half = len(f) // 2
    rates = 10_000.0 ** (-torch.arange(half, dtype=torch.float64) / half)
    z = torch.complex(f[:half], f[half:]) * torch.exp(1j * angle_of * rates)
    return torch.cat([z.real, z.imag])


def naive(mixer, x, seen, weights=None):
    """y (n, channels) by loops over i and over the j that `seen(i)` lists."""
    weights = torch.ones(len(x), dtype=torch.float64) if weights is None else weights
    rows = []
    for i in range(len(x)):
        h = torch.zeros(mixer.features, dtype=torch.float64)
        for j in seen(i):
            f = feature(mixer, x[j])
            h = h + weights[j] * (turned(f, float(j - i)) if mixer.rope else f)
        h = h / max(float(weights[list(seen(i))].sum()), 1e-300)
        y = mixer.out.weight @ (gate(mixer, x[i]) * h)
        rows.append(y if mixer.out.bias is None else y + mixer.out.bias)
    return torch.stack(rows)


@torch.no_grad()
@pytest.mark.parametrize("options", VARIANTS, ids=ids)
def test_the_layer_is_its_formula(options):
    x = tokens()
    for rope in (False, True):
        mixer, causal = (made(**options, rope=rope, causal=c) for c in (False, True))
        for b in range(2):
            close(mixer(x)[b], naive(mixer, x[b], lambda i: range(N)))
            close(causal(x)[b], naive(causal, x[b], lambda i: range(i + 1)))


@torch.no_grad()
def test_padding_weighs_nothing_and_is_not_read():
    x, length = tokens(batch=1), 11
    mask = torch.arange(N)[None] < length
    spoilt = torch.where(mask[..., None], x, torch.nan)
    for options in VARIANTS:
        for causal in (False, True):
            mixer = made(**options, causal=causal)
            expected = naive(mixer, x[0, :length], lambda i, c=causal: range(i + 1 if c else length))
            close(mixer(spoilt, mask=mask)[0, :length], expected)


@torch.no_grad()
def test_points_weigh_as_the_quadrature_says():
    grid = Grid((5, 4), ((0, 1), (0, 3)))
    x, mixer = tokens(1, 20), made(degree=3)
    weights = torch.from_numpy(grid.weights()).flatten()
    assert weights.max() / weights.min() > 3.9
    expected = naive(mixer, x[0], lambda i: range(20), weights)
    close(mixer(x.reshape(1, 5, 4, D), grid)[0].reshape(20, D), expected)
    close(mixer(x, grid)[0], expected)  # the same field, flattened by the caller
    assert (mixer(x)[0] - expected).abs().max() > 1e-3
    even = Grid((5, 4), centering="cell")
    close(mixer(x.reshape(1, 5, 4, D), even).reshape(1, 20, D), mixer(x))
    half = torch.arange(20)[None] < 9
    close(mixer(x, grid, mask=half)[0, :9], naive(mixer, x[0, :9], lambda i: range(9), weights))
    with pytest.raises(ValueError, match=r"20 tokens, but the grid is \(4, 4\)"):
        mixer(x, Grid((4, 4)))


@torch.no_grad()
@pytest.mark.parametrize("options", VARIANTS, ids=ids)
@pytest.mark.parametrize("block", [1, 4, 7])
def test_a_block_sees_itself_whole(options, block):
    x, mixer = tokens(1), made(**options, causal=True, block=block)
    close(mixer(x)[0], naive(mixer, x[0], lambda i: range(min(N, (i // block + 1) * block))))
    if block == 1:
        plain = made(**options, causal=True)
        close(mixer(x), plain(x))


@torch.no_grad()
@pytest.mark.parametrize("rope", [False, True])
@pytest.mark.parametrize("chunk", [2, None])
def test_blocks_go_on_a_whole_number_at_a_time(rope, chunk, monkeypatch):
    monkeypatch.setattr("sciops.mixers.sequence.polynomial._LEAST", 1)
    x, mixer = tokens(3), made(causal=True, block=4, rope=rope, chunk=chunk)
    expected = mixer(x)
    state, parts = None, []
    for part in x.split([4, 12, 3], dim=1):
        y, state = mixer.prefill(part, state)
        parts.append(y)
    close(torch.cat(parts, 1), expected)
    lengths = torch.tensor([8, 12, 4])
    mask = torch.arange(12) < lengths[:, None]
    y, state = mixer.prefill(torch.where(mask[..., None], x[:, :12], torch.nan), mask=mask)
    more, _ = mixer.prefill(x[:, :7], state)
    for i, length in enumerate(lengths):
        alone = mixer(torch.cat([x[i, :length], x[i, :7]])[None])[0]
        close(torch.cat([y[i, :length], more[i]]), alone)
    with pytest.raises(ValueError, match="begins at token 5, within a block of 4"):
        mixer.prefill(x[:, :4], mixer.prefill(x[:, :5])[1])
    with pytest.raises(ValueError, match="pass a whole block to prefill"):
        mixer.step(x[:, 0])


@torch.no_grad()
def test_a_channel_is_mixed_by_a_matrix_of_rank_one():
    """y_c = s_c ⊗ 1/n f_c, or the lower triangle of s_{i,c}/i where causal: linear attention whose keys are 1."""
    x = tokens(1)
    for causal in (False, True):
        mixer = made(causal=causal)
        f, s = (torch.stack([part(mixer, token) for token in x[0]]) for part in (feature, gate))
        ones = torch.ones(N, N, dtype=torch.float64)
        mean = ones.tril() / torch.arange(1, N + 1)[:, None] if causal else ones / N
        matrices = s.T[:, :, None] * mean  # (features, n, n)
        assert (torch.linalg.matrix_rank(matrices) == (N if causal else 1)).all()
        mixed = torch.einsum("cij,jc->ic", matrices, f)
        close(mixer(x)[0], mixed @ mixer.out.weight.T + mixer.out.bias)


@torch.no_grad()
@pytest.mark.parametrize("options", VARIANTS, ids=ids)
def test_order_does_not_matter_unless_causal_or_turned(options):
    x, order = tokens(), torch.randperm(N, generator=torch.Generator().manual_seed(3))
    close(made(**options)(x[:, order]), made(**options)(x)[:, order], 1e-13)
    for other in (dict(causal=True), dict(causal=True, block=4), dict(rope=True)):
        mixer = made(**options, **other)
        y = mixer(x)
        assert (mixer(x[:, order]) - y[:, order]).abs().max() > 1e-3 * y.abs().max()
    field, mixer = x[:, :18].reshape(2, 3, 6, D), made(**options)
    close(mixer(field.transpose(1, 2)), mixer(field).transpose(1, 2), 1e-13)


@pytest.mark.parametrize("options", VARIANTS, ids=ids)
def test_later_tokens_change_no_bit(options):
    mixer, x = made(**options, causal=True, rope=True), tokens(n=70)
    changed = x.clone()
    changed[:, 41:] += 5.0
    assert torch.equal(mixer(x)[:, :41], mixer(changed)[:, :41])
    assert not torch.equal(mixer(x)[:, 41:], mixer(changed)[:, 41:])
    x.requires_grad_()
    (gradient,) = torch.autograd.grad(mixer(x)[:, 40].sin().sum(), x)
    assert not gradient[:, 41:].any() and (gradient[:, :41].abs().amax((0, 2)) > 0).all()


@torch.no_grad()
@pytest.mark.parametrize("sizes", [(1, 18), (7, 12), (2, 2, 15)])
def test_stretches_weigh_by_their_tokens(sizes):
    """Means of means would weigh a short first stretch like a long one."""
    x, mixer = tokens(), made(causal=True)
    state, y = None, None
    for part in x.split(list(sizes), dim=1):
        y, state = mixer.prefill(part, state)
    f = torch.stack([torch.stack([feature(mixer, token) for token in row]) for row in x])
    close(state.total, f.sum(1))
    assert state.count.tolist() == [N, N]
    close(y, mixer(x)[:, -sizes[-1] :])
    means = torch.stack([part.mean(1) for part in f.split(list(sizes), dim=1)]).mean(0)
    assert (means - f.mean(1)).abs().max() > 1e-3  # and that would be seen


def test_the_state_does_not_grow():
    mixer = made(causal=True, degree=3)
    for n in (1, 64):
        state = mixer.prefill(tokens(n=n))[1]
        assert isinstance(state, PolynomialState) and state.total.shape == (2, 3 * 2 * D)
    half = made(causal=True).bfloat16()
    assert half.prefill(tokens().bfloat16())[1].total.dtype == torch.float32


@torch.no_grad()
def test_mean_pooling_is_its_simplest_case():
    x = tokens()
    mixer = PolynomialMixer(D, degree=1, expansion=1, activation="identity", gate="hardsigmoid").double()
    mixer.to_gate.weight.zero_(), mixer.to_gate.bias.fill_(3.0)  # an open gate
    pooled = x.mean(1) @ mixer.polynomial.weight[0].T + mixer.polynomial.bias
    expected = (pooled @ mixer.out.weight.T + mixer.out.bias)[:, None].expand_as(x)
    close(mixer(x), expected)


@torch.no_grad()
@pytest.mark.parametrize("degree", [1, 2, 3])
def test_the_degree_is_the_degree(degree):
    """With identities for φ, F(t·x) has a vanishing finite difference of order degree + 1, and none of order degree."""
    x, t = tokens(1, 1), torch.arange(degree + 2, dtype=torch.float64)
    for variant in ("branch", "coefficients"):
        mixer = made(degree=degree, variant=variant, activation="identity")
        powers = mixer.polynomial.powers(t[:, None] * x[0])
        f = mixer.polynomial.combined(powers)
        scale = f.abs().max()
        assert f.diff(n=degree + 1, dim=0).abs().max() < 1e-12 * scale
        assert f.diff(n=degree, dim=0).abs().max() > 1e-3 * scale
    mixer = made(degree=3, activation="identity")
    cut = mixer.features // 3
    mixer.polynomial.weight[0, cut:] = 0.0  # g_2 = g_3 = 1: what is left is of degree 1, three times
    mixer.polynomial.bias[cut:] = 1.0
    f = mixer.polynomial.combined(mixer.polynomial.powers(x))
    close(f[..., :cut], f[..., cut : 2 * cut]), close(f[..., :cut], f[..., 2 * cut :])


@torch.no_grad()
@pytest.mark.parametrize("centering, rate", [("node", 2), ("cell", 2), ("periodic", None)])
def test_finer_samples_of_a_function_give_the_same_function(centering, rate):
    """The mean converges like the quadrature, to the integral; the sum of the features does not converge."""

    def field(grid):
        (s,) = grid.coordinates()
        waves = [np.sin(2 * np.pi * k * s + k) if centering == "periodic" else np.exp(0.7 * k * s) for k in range(D)]
        return torch.from_numpy(np.stack(waves, -1))[None]

    mixer = made()
    at = lambda n: Grid((n,), centering=centering)  # noqa: E731
    mean = lambda n: mixer._means(field(at(n)), token_weights(field(at(n)), None, at(n), torch.float64).unsqueeze(1))  # noqa: E731
    exact = mean(4097 if centering == "node" else 4096)
    cells = (16, 64)
    errors = [float((mean(m + (centering == "node")) - exact).norm() / exact.norm()) for m in cells]
    if rate is None:
        assert errors[1] < 4**-8 * errors[0]  # smooth and periodic: faster than any power
    else:
        assert abs(math.log(errors[0] / errors[1]) / math.log(4) - rate) < 0.1
        assert errors[1] < 1e-3
    if centering == "node":  # shared points have the same value
        coarse, fine = (mixer(field(at(m + 1)), at(m + 1)) for m in cells)
        assert (fine[:, ::4] - coarse).abs().max() < 2 * errors[0] * fine.abs().max()
        unweighted = [mixer(field(at(m + 1))) for m in cells]
        assert (unweighted[1][:, ::4] - unweighted[0]).abs().max() > 5 * (fine[:, ::4] - coarse).abs().max()
    sums = [m * mean(m + (centering == "node")) for m in cells]
    assert (sums[1] - sums[0]).norm() > 2.9 * sums[0].norm()


def test_gradients_are_those_of_finite_differences():
    for options in (VARIANTS[0], VARIANTS[3], VARIANTS[4], dict(rope=True)):
        for causal in (False, True):
            mixer = made(4, **{k: v for k, v in options.items() if k not in ("gate",)}, causal=causal)
            names = [name for name, _ in mixer.named_parameters()]

            def call(x, *parameters, mixer=mixer, names=names):
                return torch.func.functional_call(mixer, dict(zip(names, parameters)), (x,))

            x = tokens(1, 5, 4).requires_grad_()
            assert torch.autograd.gradcheck(call, (x, *mixer.parameters()), fast_mode=True)
            assert torch.autograd.gradgradcheck(call, (x, *mixer.parameters()), fast_mode=True)


def test_clipped_units_have_gradients_off_their_kinks():
    mixer = made(4, variant="coefficients", degree=3)
    x = tokens(1, 5, 4)
    z = x @ mixer.polynomial.weight[0].detach().T
    assert min(float((z - kink).abs().min()) for kink in (0.0, -10.0, 6.0)) > 1e-4
    assert torch.autograd.gradcheck(mixer, (x.requires_grad_(),))


@pytest.mark.parametrize("options", [*VARIANTS, dict(rope=True)], ids=ids)
@pytest.mark.parametrize("block", [None, 3])
def test_long_sequences_by_stretches_are_the_same(options, block, monkeypatch):
    """Outputs and gradients, of second order too, whatever is worked on at a time and computed again."""
    monkeypatch.setattr("sciops.mixers.sequence.polynomial._LEAST", 1)
    x = tokens(n=N).requires_grad_()
    mask = torch.arange(N) < torch.tensor([[N], [8]])
    for causal in (True,) if block else (False, True):
        found = []
        for chunk in (None, 8, 14):
            mixer = made(**options, causal=causal, block=block, chunk=chunk)
            y = mixer(x, mask=mask)
            gradients = torch.autograd.grad(y.sin().sum(), [x, *mixer.parameters()], create_graph=True)
            (second,) = torch.autograd.grad(sum(g.square().sum() for g in gradients), x)
            with torch.no_grad():
                close(mixer(x, mask=mask), y)
            found.append([y, *gradients, second])
        for other in found[1:]:
            for a, b in zip(found[0], other):
                close(b, a, 1e-11)


@pytest.mark.parametrize("causal", [False, True])
def test_stretches_are_taken_again_in_the_precision_of_the_first_time(causal):
    x, found = tokens(1, 600).float().requires_grad_(), []
    for chunk in (None, 256):
        torch.manual_seed(0)
        mixer = PolynomialMixer(D, causal=causal, chunk=chunk)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = mixer(x).float().square().sum()
        found.append([loss, *torch.autograd.grad(loss, [x, *mixer.parameters()])])
    for a, b in zip(*found):
        assert (a - b).norm() <= 0.02 * a.norm()


def test_gradients_reach_an_earlier_prefill_once():
    """The state depends on the parameters that the stretch after it reads; also in gradients of second order."""
    x, found = tokens(1, 600).requires_grad_(), []
    for chunk in (None, 256):
        mixer = made(causal=True, chunk=chunk)
        _, state = mixer.prefill(x[:, :290])
        y = mixer.prefill(x[:, 290:], state)[0]
        gradients = torch.autograd.grad(y.square().sum(), [x, *mixer.parameters()], create_graph=True)
        second = torch.autograd.grad(sum(g.square().sum() for g in gradients), [x, *mixer.parameters()])
        found.append([*gradients, *second])
    for a, b in zip(*found):
        close(b, a, 1e-9)


def test_gradients_belong_to_the_parameters_of_the_way_there():
    """`functional_call` takes its parameters back before the way back."""
    x, found = tokens(1, 600).requires_grad_(), []
    for chunk in (None, 256):
        mixer, noise = made(chunk=chunk), torch.Generator().manual_seed(3)
        others = {
            name: (p.detach() + 0.1 * torch.randn(p.shape, dtype=p.dtype, generator=noise)).requires_grad_()
            for name, p in mixer.named_parameters()
        }
        y = torch.func.functional_call(mixer, others, (x,))
        found.append(torch.autograd.grad(y.square().sum(), [x, *others.values()]))
    for a, b in zip(*found):
        close(b, a, 1e-10)


def test_training_keeps_inputs_of_stretches_alone():
    """What autograd saves for one long sequence is a small multiple of the input, not of the features."""
    x = torch.randn(1, 4096, 8).requires_grad_()
    saved = {}
    for chunk in (None, 256):
        mixer, sizes = PolynomialMixer(8, degree=3, expansion=4, chunk=chunk), {}

        def keep(tensor, sizes=sizes):
            if tensor.numel():
                sizes[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            y = mixer(x)
        saved[chunk] = sum(sizes.values()) / (x.numel() * 4)
        assert torch.isfinite(torch.autograd.grad(y.sum(), x)[0]).all()
    assert saved[None] > 30 and saved[256] < 3


@torch.no_grad()
def test_cross_reads_what_its_mask_shows():
    x, context = tokens(2, 5), tokens(2, 9, seed=4)
    mask = torch.rand(2, 5, 9, generator=torch.Generator().manual_seed(5)) < 0.5
    mask[0, 2] = False
    for options in VARIANTS:
        mixer = made(**options)
        for b in range(2):
            f = torch.stack([feature(mixer, token) for token in context[b]])
            for rows, got in ((mask, mixer.cross(x, context, mask)), (None, mixer.cross(x, context))):
                expected = []
                for i in range(5):
                    seen = [j for j in range(9) if rows is None or rows[b, i, j]]
                    h = f[seen].sum(0) / max(1, len(seen))
                    y = mixer.out.weight @ (gate(mixer, x[b, i]) * h)
                    expected.append(y if mixer.out.bias is None else y + mixer.out.bias)
                close(got[b], torch.stack(expected))
        close(mixer.cross(x, x), mixer(x))
        close(
            mixer.cross(x, x, torch.ones(5, 5, dtype=torch.bool).tril().expand(2, 5, 5)),
            made(**options, causal=True)(x),
        )
        padded = torch.where((torch.arange(9) < 6)[:, None], context, torch.nan)
        close(mixer.cross(x, padded, (torch.arange(9) < 6).expand(2, 1, 9)), mixer.cross(x, context[:, :6]))
    turned_mixer = made(rope=True)
    close(turned_mixer.cross(x, x), turned_mixer(x))
    with pytest.raises(ValueError, match=r"expected booleans \(2, 5, 9\) or \(2, 1, 9\)"):
        mixer.cross(x, context, mask[:, :4])
    with pytest.raises(ValueError, match="expected as many sequences"):
        mixer.cross(x, context[:1])


@torch.no_grad()
@pytest.mark.parametrize("options", VARIANTS, ids=ids)
def test_rope_sees_differences_of_positions_alone(options):
    """Tokens that come after others whose features are 0 are mixed as if they came first, but for the count."""
    mixer = made(**options, causal=True, rope=True)
    x, first = tokens(), tokens(seed=7)
    zeros = PolynomialState(torch.zeros(2, mixer.features, dtype=torch.float64), torch.full((2,), 5))
    y, _ = mixer.prefill(x, copied(zeros))
    bias = 0.0 if mixer.out.bias is None else mixer.out.bias
    count = torch.arange(1, N + 1, dtype=torch.float64)[None, :, None]
    close((y - bias) * (count + 5), (mixer(x) - bias) * count, 1e-11)
    swapped = first.clone()
    swapped[:, [3, 9]] = first[:, [9, 3]]
    assert (mixer(swapped)[:, -1] - mixer(first)[:, -1]).abs().max() > 1e-4
    with pytest.raises(ValueError, match="along one axis"):
        made(**options, rope=True)(tokens(1, 4).reshape(1, 2, 2, D))


@torch.no_grad()
def test_half_precision_accumulates_in_full():
    """4096 equal tokens: a bfloat16 running sum would stop at 256 of them, a float16 product of four would overflow."""
    mixer = PolynomialMixer(4, causal=True, degree=1, activation="identity").bfloat16()
    x = torch.ones(1, 4096, 4, dtype=torch.bfloat16)
    y = mixer(x)
    close(y[:, -1].float(), y[:, 0].float(), 0.02)
    state = mixer.prefill(x)[1]
    one = mixer.prefill(x[:, :1])[1]
    close(state.total / 4096, one.total, 0.02)  # a product of one token may round its features otherwise
    steep = PolynomialMixer(4, degree=4).half()
    steep.polynomial.bias.fill_(20.0), steep.out.weight.fill_(1e-5)
    assert torch.isfinite(steep(torch.ones(1, 8, 4, dtype=torch.float16))).all()  # 20⁴ > 65504
    with torch.autocast("cpu", dtype=torch.bfloat16):
        wide = PolynomialMixer(4, causal=True, degree=1, activation="identity")
        assert wide.prefill(x.float())[1].total.dtype == torch.float32


def test_parameters_are_counted_as_published():
    for d, k, e in ((8, 2, 2), (12, 3, 1)):
        count = lambda mixer: sum(p.numel() for p in mixer.parameters())  # noqa: E731
        branch = PolynomialMixer(d, degree=k, expansion=e)
        assert count(branch) == 3 * k * e * d * d + 2 * k * e * d + d  # with biases
        shared = PolynomialMixer(d, degree=k, expansion=e, variant="coefficients")
        assert count(shared) == 3 * e * d * d + k * e * d + e * d  # with b_s
    assert shared.polynomial.alpha.abs().max() <= 1e-3 and not shared.to_gate.bias.any()


def test_running_means_are_sums_over_counts():
    total, seen = tokens(n=1, seed=9)[:, 0], torch.rand(2, 100, generator=torch.Generator().manual_seed(9)) + 1
    for n in (1, 2, 31, 32, 33, 100):
        f = tokens(n=n)
        means, after = running_means(f, total, seen[:, :n])
        sums = total[:, None] + f.cumsum(1)
        close(means, sums / seen[:, :n, None].double(), 1e-13)
        close(after, sums[:, -1], 1e-13)


@pytest.mark.parametrize("variant", ["branch", "coefficients"])
@pytest.mark.parametrize("ndim", [1, 2])
def test_an_operator_is_built_with_it(variant, ndim):
    torch.manual_seed(0)
    model = Operator(1, 1, width=8, depth=2, mixer="polynomial", mixer_options=dict(variant=variant), ndim=ndim)
    x = torch.randn(2, 1, *(7,) * ndim, requires_grad=True)
    y = model(x)
    assert y.shape == x.shape and torch.isfinite(y).all()
    y.square().sum().backward()
    assert all(p.grad is not None and p.grad.abs().max() > 0 for p in model.parameters())
    (gradient,) = torch.autograd.grad(model(x)[:, 0].flatten(1)[:, 0].sum(), x)
    assert gradient.flatten(1)[:, -1].abs().min() > 0  # every point sees every other


def test_a_stack_alternates_with_attention_in_a_window():
    torch.manual_seed(0)
    options = dict(polynomial=dict(degree=2), self_attention=dict(window=4))
    stack = SequenceStack(8, 4, mixer=("polynomial", "self_attention"), mixer_options=options, causal=True).double()
    x = tokens(channels=8)
    with torch.no_grad():
        _, states = stack.prefill(x[:, :7])
        got = []
        for t in range(7, N):
            y, states = stack.step(x[:, t], states)
            got.append(y)
        close(torch.stack(got, 1), stack(x)[:, 7:], 1e-11)


def test_errors_say_what_was_expected():
    wrong = [
        (dict(variant="third"), "'branch' or 'coefficients'"),
        (dict(expansion=0), "pass a larger expansion"),
        (dict(degree=0), "degree=0: expected a whole number of at least 1"),
        (dict(groups=4), "groups=4 do not divide channels=6"),
        (dict(gate_heads=5), "gate_heads=5 do not divide the 24 features"),
        (dict(block=4), "pass causal=True"),
        (dict(block=0, causal=True), "block=0"),
        (dict(rope=True, expansion=0.5, degree=1), "3 is odd"),
        (dict(activation="relu"), "activation='relu'"),
        (dict(gate="tanh"), "gate='tanh'"),
        (dict(chunk=0), "chunk=0"),
    ]
    for options, message in wrong:
        with pytest.raises(ValueError, match=message):
            PolynomialMixer(D, **options)
    with pytest.raises(ValueError, match="pass causal=True"):
        PolynomialMixer(D).prefill(torch.zeros(1, 2, D))


@pytest.mark.gpu
@torch.no_grad()
@pytest.mark.parametrize(
    "options", [dict(), dict(causal=True, rope=True), dict(causal=True, block=4, groups=2)], ids=ids
)
def test_a_gpu_gives_the_same(options):
    mixer, x = made(**options, chunk=256), tokens(n=600)
    mask = torch.arange(600) < torch.tensor([[600], [301]])
    expected = mixer(x, mask=mask)
    close(mixer.cuda()(x.cuda(), mask=mask.cuda()).cpu(), expected, 1e-10)
