"""The resolvent of attention against inverses, series and rows one by one, in float64."""

from __future__ import annotations

import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

from sciops.mixers import ResolventAttention, SelfAttention
from sciops.mixers.resolvent.dense import iterations, resolvent
from sciops.models import Operator


def random(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def stochastic(*shape, kind="lower", seed=0):
    """Rows that sum to 1, (…, n, n)."""
    scores = 2 * random(*shape, seed=seed)
    n = shape[-1]
    seen = torch.ones(n, n, dtype=torch.bool)
    seen = seen.tril() if kind == "lower" else seen.triu() if kind == "upper" else seen
    return scores.masked_fill(~seen, -torch.inf).softmax(-1)


def inverse(A, v, gamma):
    """(1−γ) A (I − γA)⁻¹ V with the inverse formed."""
    return (1 - gamma) * A @ torch.linalg.inv(torch.eye(A.shape[-1], dtype=A.dtype) - gamma * A) @ v


def close(a, b, tolerance=1e-12):
    torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("gamma", [0.0, 0.01, 0.5, 0.9, 0.99])
@pytest.mark.parametrize("kind", ["lower", "upper", "full"])
def test_all_forms_are_the_dense_inverse(gamma, kind):
    A, v = stochastic(2, 3, 19, 19, kind=kind), random(2, 3, 19, 4, seed=1)
    expected = inverse(A, v, gamma)
    hows = ["dense", iterations(gamma, 1e-15)] + ([kind] if kind != "full" else [])
    for how in hows:
        close(resolvent(A, v, gamma, how), expected)
    close(resolvent(A, v, torch.tensor(gamma, dtype=torch.float64), "dense"), expected)
    series, term = torch.zeros_like(v), v
    for power in range(int(32 / (1 - gamma))):
        term = A @ term
        series = series + (1 - gamma) * gamma**power * term
    close(series, expected)
    close(A @ (gamma * expected + (1 - gamma) * v), expected)  # the fixed point
    if kind == "lower":
        rows = []
        for i in range(19):
            z = [gamma * y + (1 - gamma) * v[..., j, :] for j, y in enumerate(rows)]
            known = sum((A[..., i, j, None] * z[j] for j in range(i)), torch.zeros_like(v[..., 0, :]))
            own = A[..., i, i, None]
            rows.append((known + (1 - gamma) * own * v[..., i, :]) / (1 - gamma * own))
        close(torch.stack(rows, -2), expected)


@pytest.mark.parametrize("kind", ["lower", "full"])
@pytest.mark.parametrize("gamma", [0.3, 0.9, 0.99])
def test_rows_are_weights_that_sum_to_one(gamma, kind):
    A = stochastic(25, 25, kind=kind)
    S = resolvent(A, torch.eye(25, dtype=torch.float64), gamma, "dense" if kind == "full" else kind)
    assert S.min() > -1e-15
    close(S.sum(-1), torch.ones(25, dtype=torch.float64))
    strict = stochastic(25, 25).tril(-1)
    strict = strict / strict.sum(-1, keepdim=True).clamp_min(1e-300)
    leaking = resolvent(strict, torch.eye(25, dtype=torch.float64), gamma, "lower").sum(-1)
    assert leaking[0] == 0 and (leaking < 1 - 1e-4).all()  # what the diagonal is kept for


def test_a_chain_of_links_keeps_its_root():
    n, gamma = 17, 0.9
    chain = torch.zeros(n, n, dtype=torch.float64)
    chain[torch.arange(1, n), torch.arange(n - 1)] = 1
    strict = resolvent(chain, torch.eye(n, dtype=torch.float64), gamma, "lower")
    chain[0, 0] = 1
    kept = resolvent(chain, torch.eye(n, dtype=torch.float64), gamma, "lower")
    close(kept[-1, 0], torch.tensor(gamma ** (n - 2), dtype=torch.float64))
    close(strict[-1, 0], torch.tensor((1 - gamma) * gamma ** (n - 2), dtype=torch.float64))
    hops = torch.arange(1, n - 1, dtype=torch.float64)
    close(kept[-1, 1:-1].flip(0), (1 - gamma) * gamma ** (hops - 1))


@pytest.mark.parametrize("how", ["lower", "upper", "dense", 60])
@pytest.mark.parametrize("gamma", [0.05, 0.6, "tensor"])
def test_gradients(how, gamma):
    kind = how if isinstance(how, str) and how != "dense" else "full"
    A, v = stochastic(2, 6, 6, kind=kind).requires_grad_(), random(2, 6, 3).requires_grad_()
    seen = A.detach() > 0
    inputs = (A, v)
    if gamma == "tensor":
        inputs += (torch.tensor([[[0.6]], [[0.3]]], dtype=torch.float64).requires_grad_(),)

    def mapped(A, v, g=gamma):
        return resolvent(A * seen, v, g, how)

    assert gradcheck(mapped, inputs)
    if how in ("lower", "dense"):
        assert gradgradcheck(mapped, inputs)
    weights = random(2, 6, 3, seed=5)
    got = torch.autograd.grad((mapped(*inputs) * weights).sum(), inputs)
    expected = torch.autograd.grad(
        (inverse(A * seen, v, inputs[2] if len(inputs) > 2 else gamma) * weights).sum(), inputs
    )
    for a, b in zip(got, expected):
        close(a, b, 1e-11)


def test_the_memory_of_the_backward_pass_is_one_matrix():
    A, v = stochastic(3, 40, 40).requires_grad_(), random(3, 40, 8).requires_grad_()
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t.numel()) or t, lambda t: t):
        resolvent(A, v, 0.9, "lower")
    assert sum(kept) == A.numel() + 2 * v.numel()


@pytest.mark.parametrize("gamma, tolerance", [(0.9, 1e-6), (0.5, 1e-3), (0.99, 1e-2)])
def test_fixed_point_iterations_keep_their_bound(gamma, tolerance):
    A, v = stochastic(30, 30, kind="full"), random(30, 3)
    exact, steps = inverse(A, v, gamma), iterations(gamma, tolerance)
    assert gamma**steps <= tolerance < gamma ** (steps - 1)
    error = (resolvent(A, v, gamma, steps) - exact).abs().max()
    assert error <= tolerance * exact.abs().max()
    constant = torch.ones(30, 1, dtype=torch.float64)  # where the bound is attained
    close((1 - resolvent(A, constant, gamma, steps)).max(), torch.tensor(gamma**steps, dtype=torch.float64))


def test_without_chains_it_is_softmax_attention():
    torch.manual_seed(0)
    x = random(2, 21, 8)
    for positions in ("none", "rope", "alibi"):
        for options in (dict(causal=True), dict(causal=False, bidirectional="fixed_point")):
            mixer = ResolventAttention(8, gamma=0.0, positions=positions, **options).double()
            plain = SelfAttention(8, positions=positions, causal=options["causal"]).double()
            plain.load_state_dict(mixer.state_dict())
            close(mixer(x), plain(x))


@pytest.mark.parametrize("bidirectional", ["sum", "fixed_point", "dense"])
def test_bidirectional_forms_by_their_matrices(bidirectional):
    torch.manual_seed(0)
    mixer = ResolventAttention(8, heads=2, gamma=0.8, bidirectional=bidirectional, tolerance=1e-15).double()
    x = random(2, 13, 8)
    q, k, v = mixer.qkv(x).unflatten(-1, (3, 2, 4)).permute(2, 0, 3, 1, 4)
    scores, everywhere = q @ k.mT / 2, torch.ones(13, 13, dtype=torch.bool)

    def part(seen):
        return inverse(scores.masked_fill(~seen, -torch.inf).softmax(-1), v, 0.8)

    past, future, full = part(everywhere.tril()), part(everywhere.triu()), part(everywhere)
    y = (past + future) / 2 if bidirectional == "sum" else full
    close(mixer(x), mixer.out(y.transpose(1, 2).flatten(-2)), 1e-11)
    field = x[:, :12].reshape(2, 3, 4, 8)
    close(mixer(field).flatten(1, 2), mixer(x[:, :12]))


def test_heads_and_sequences_do_not_mix_and_one_token_is_its_value():
    torch.manual_seed(0)
    mixer = ResolventAttention(8, heads=2, causal=True).double()
    mixer.out.weight.data, mixer.out.bias.data = torch.eye(8).double(), torch.zeros(8).double()
    x = random(3, 9, 8).requires_grad_()
    (gradient,) = torch.autograd.grad(mixer(x)[1].sum(), x)
    assert not gradient[[0, 2]].any() and gradient[1].any()
    (gradient,) = torch.autograd.grad(mixer(x)[..., :4].sum(), mixer.qkv.weight)
    assert not gradient.unflatten(0, (3, 8))[:, 4:].any()
    close(mixer(x[:, :1]), mixer.qkv(x[:, :1])[..., 16:])


def test_strict_decoding_and_its_first_token():
    torch.manual_seed(0)
    mixer = ResolventAttention(8, causal=True, strict=True, gamma="learned").double()
    x = random(2, 12, 8)
    whole = mixer(x)
    close(whole[:, 0], mixer.out.bias.expand(2, -1))
    _, state = mixer.prefill(x[:, :5])
    for t in range(5, 12):
        y, state = mixer.step(x[:, t], state)
        close(y, whole[:, t])


def test_autocast_solves_in_full_precision():
    torch.manual_seed(0)
    mixer = ResolventAttention(8, causal=True, gamma=0.99)
    x = random(2, 50, 8).float().requires_grad_()
    with torch.autocast("cpu", torch.bfloat16):
        y = mixer(x)
    y.float().sum().backward()
    exact = mixer(x.detach())
    assert y.dtype == torch.bfloat16 and x.grad.isfinite().all()
    assert (y.float() - exact).norm() < 0.03 * exact.norm()


@pytest.mark.gpu
@pytest.mark.parametrize(
    "options",
    [dict(causal=True, gamma="learned"), dict(), dict(bidirectional="fixed_point"), dict(bidirectional="dense")],
)
def test_devices_agree(options):
    torch.manual_seed(0)
    mixer, x = ResolventAttention(8, heads=2, **options).double(), random(2, 21, 8).requires_grad_()
    here = torch.autograd.grad(mixer(x).sin().sum(), [x, *mixer.parameters()])
    there, y = mixer.cuda(), x.detach().cuda().requires_grad_()
    for a, b in zip(here, torch.autograd.grad(there(y).sin().sum(), [y, *there.parameters()])):
        close(b.cpu(), a, 1e-9)


@pytest.mark.parametrize("ndim", [1, 2])
@pytest.mark.parametrize("bidirectional", ["sum", "fixed_point"])
def test_it_mixes_in_the_spine(ndim, bidirectional):
    torch.manual_seed(0)
    options = dict(heads=2, gamma="learned", bidirectional=bidirectional)
    model = Operator(1, 1, width=8, depth=1, mixer="resolvent", mixer_options=options, ndim=ndim)
    y = model(random(2, 1, *(6, 5)[:ndim]).float())
    assert y.shape == (2, 1, *(6, 5)[:ndim]) and y.isfinite().all()
    y.square().sum().backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for n, p in model.named_parameters() if "mixer" in n)


def test_refusals():
    for options, said in (
        (dict(heads=3), "heads=3 do not divide"),
        (dict(gamma=1.0), "expected 0 ≤ γ < 1 or 'learned'"),
        (dict(gamma="free"), "or 'learned'"),
        (dict(positions="sine"), "positions='sine'"),
        (dict(positions="rope", heads=8), "odd"),
        (dict(bidirectional="both"), "expected 'sum', 'fixed_point' or 'dense'"),
        (dict(tolerance=0), "tolerance=0"),
    ):
        with pytest.raises(ValueError, match=said):
            ResolventAttention(8, **options)
