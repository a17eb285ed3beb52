"""Blockwise resolvents against the matrices they stand for, in float64: solves, limits, leaks, bounds and counts."""

from __future__ import annotations

import math

import pytest
import torch

from sciops.grids import Grid
from sciops.mixers import BlockResolventAttention, ResolventAttention
from sciops.mixers.resolvent.block_attention import multiply_adds
from sciops.mixers.resolvent.block_exact import exact
from sciops.mixers.resolvent.block_layout import block_size, in_blocks, tile_order
from sciops.mixers.resolvent.block_routes import Blocks, routes_of
from sciops.mixers.resolvent.block_solve import applied, structured_solve
from sciops.models import Operator

HEADS, D = 2, 3
VARIANTS = [
    dict(level=1),
    dict(level=1, query="prev", alibi=True),
    dict(level=1, overlap=True),
    dict(level=2, alibi=True),
    dict(level=2, overlap=True),
    dict(level=1, overlap=True, reduced=False),
]


def random(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def close(a, b, tolerance=1e-12):
    torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)


def inverse(A, v, gamma):
    """(1−γ) A (I − γA)⁻¹ V with the inverse formed."""
    return (1 - gamma) * A @ torch.linalg.inv(torch.eye(A.shape[-1], dtype=A.dtype) - gamma * A) @ v


def dense(routes):
    """A_s (batch, heads, n, n), entry by entry."""
    batch, heads, count, m, _ = routes.tiles.shape
    A = torch.zeros(batch, heads, count * m, count * m, dtype=routes.tiles.dtype)
    for b in range(count):
        for c in range(count):
            far = (
                routes.far[:, :, b, :, c]
                if routes.lift is None
                else routes.lift[:, :, b] * routes.far[:, :, b, None, c]
            )
            part = far[..., None] * routes.weights[:, :, c, None, :]
            if b == c:
                part = part + routes.tiles[:, :, b]
            if b == c + 1 and routes.near is not None:
                part = part + routes.near[:, :, b]
            A[:, :, b * m : (b + 1) * m, c * m : (c + 1) * m] = part
    return A


def parts_of(n, m, there=None, seed=0):
    q, k = 1.5 * random(1, HEADS, n, D, seed=seed), 1.5 * random(1, HEADS, n, D, seed=seed + 1)
    gate, score = random(1, HEADS, n, seed=seed + 2), random(1, HEADS, n, seed=seed + 3)
    return Blocks(*(in_blocks(z, m) for z in (q, k, gate, score)), there)


def routes_for(blocks, *, alibi=False, causal=True, **options):
    slopes = torch.tensor([0.3, 0.05], dtype=torch.float64).view(HEADS, 1, 1) if alibi else None
    return routes_of(blocks, causal=causal, slopes=slopes, **options)[0]


@pytest.mark.parametrize("n, m", [(24, 4), (23, 5), (7, 7), (6, 1)])
@pytest.mark.parametrize("gamma", [0.0, 0.9])
def test_level_0_is_the_whole_operator(n, m, gamma):
    q, k, v = (random(2, HEADS, n, D, seed=i).requires_grad_() for i in range(3))
    slopes = torch.tensor([0.3, 0.05], dtype=torch.float64).view(HEADS, 1, 1)
    g = torch.tensor([[[gamma]], [[0.7]]], dtype=torch.float64).requires_grad_()
    at = torch.arange(n)
    apart = at[:, None] - at
    A = (q @ k.mT / math.sqrt(D) - slopes * apart).masked_fill(apart < 0, -torch.inf).softmax(-1)
    expected, got = inverse(A, v, g), exact(q, k, v, g, block=m, slopes=slopes)
    close(got, expected)
    weights = random(2, HEADS, n, D, seed=9)
    for a, b in zip(*(torch.autograd.grad((y * weights).sum(), (q, k, v, g)) for y in (got, expected))):
        close(a, b, 1e-11)


def test_level_0_keeps_no_matrix_for_the_backward_pass():
    def kept(n):
        sizes = []
        q, k, v = (random(1, HEADS, n, D, seed=i).requires_grad_() for i in range(3))
        with torch.autograd.graph.saved_tensors_hooks(lambda t: sizes.append(t.numel()) or t, lambda t: t):
            exact(q, k, v, 0.9, block=8)
        return sum(sizes)

    assert kept(32) == 5 * HEADS * 32 * D and kept(64) == 2 * kept(32)


@pytest.mark.parametrize("options", [dict(causal=True), dict(), dict(causal=True, positions="alibi", gamma="learned")])
def test_level_0_in_place_of_resolvent_attention(options):
    torch.manual_seed(0)
    whole = ResolventAttention(8, heads=2, **options).double()
    for block in (1, 4, 32):
        mixer = BlockResolventAttention(8, heads=2, level=0, block=block, **options).double()
        mixer.load_state_dict(whole.state_dict())
        x = random(2, 13, 8)
        close(mixer(x), whole(x), 1e-11)
        close(mixer(x[:, :12].reshape(2, 3, 4, 8)), whole(x[:, :12].reshape(2, 3, 4, 8)), 1e-11)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("n, m", [(20, 4), (23, 5), (5, 1), (28, 28), (54, 27)])
def test_structured_solves_are_solves_with_their_matrix(variant, n, m):
    blocks = parts_of(n, m)
    routes = routes_for(blocks, **variant)
    A, count = dense(routes), routes.tiles.shape[2]
    v = random(1, HEADS, count, m, D, seed=7)
    flat = v.flatten(2, 3)
    assert A.min() >= 0 and not A.triu(1).any()
    close(A.sum(-1), torch.ones_like(A[..., 0]))
    close(applied(routes, v).flatten(2, 3), A @ flat)
    for gamma in (0.0, 0.5, 0.9, 0.99):
        identity = torch.eye(count * m, dtype=torch.float64)
        expected = torch.linalg.solve_triangular(identity - gamma * A, flat, upper=False)
        close(structured_solve(routes, v, gamma, "lower").flatten(2, 3), expected)
        S = inverse(A, identity, gamma)
        assert S.min() > -1e-14
        close(S.sum(-1), torch.ones_like(S[..., 0]))


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("how", ["lower", "dense", 400])
def test_gradients_are_those_through_the_matrix(variant, how):
    if how != "lower" and (variant.get("overlap") or variant.get("query")):
        return
    there = None
    if how != "lower":
        there = in_blocks(torch.ones(1, 1, 14, dtype=torch.bool), 4)
    inputs = [z.requires_grad_() for z in parts_of(14, 4)[:4]]
    v = random(1, HEADS, 4, 4, D, seed=8).requires_grad_()
    gamma = torch.tensor([0.8, 0.3], dtype=torch.float64).view(HEADS, 1, 1, 1).requires_grad_()
    routes = routes_for(Blocks(*inputs, there), causal=how == "lower", **variant)
    x = structured_solve(routes, v, gamma, how).flatten(2, 3)
    A = dense(routes)
    expected = torch.linalg.solve(torch.eye(16, dtype=torch.float64) - gamma[..., 0] * A, v.flatten(2, 3))
    close(x, expected)
    weights, of = random(1, HEADS, 16, D, seed=9), (*inputs, v, gamma)
    got, wanted = (
        torch.autograd.grad((z * weights).sum(), of, retain_graph=True, allow_unused=True) for z in (x, expected)
    )
    for a, b in zip(got, wanted):
        assert (a is None) == (b is None)
        if a is not None:
            close(a, b, 1e-10)


@pytest.mark.parametrize("level", [1, 2])
@pytest.mark.parametrize("gamma", [0.0, 0.05, 0.9])
def test_the_mixer_is_the_operator_of_its_matrix(level, gamma):
    torch.manual_seed(0)
    mixer = BlockResolventAttention(
        HEADS * D, heads=HEADS, gamma=gamma, level=level, block=4, causal=True, summary="learned"
    ).double()
    x = random(2, 18, HEADS * D)
    q, k, v = mixer._projected(x, None)
    gate, score = mixer.gates(x, x.dtype)
    routes = routes_for(Blocks(*(in_blocks(z, 4) for z in (q, k, gate, score)), None), level=level)
    y = inverse(dense(routes)[..., :18, :18], v, gamma)
    close(mixer(x), mixer.out(y.transpose(1, 2).flatten(-2)))
    additive = BlockResolventAttention(
        HEADS * D, heads=HEADS, gamma=gamma, level=level, block=4, causal=True, summary="learned", combine="additive"
    ).double()
    additive.load_state_dict(mixer.state_dict())
    D_part = dense(routes._replace(far=torch.zeros_like(routes.far)))
    W = torch.block_diag(*torch.ones(5, 1, 4)).double() * routes.weights.flatten(2)[..., None, :]
    padded = in_blocks(v, 4).flatten(2, 3)
    if level == 1:
        U = torch.block_diag(*torch.ones(5, 4, 1)).double() * routes.lift.flatten(2)[..., None]
        far = U @ inverse(routes.far, W @ padded, gamma)
    else:
        E = routes.far.flatten(2, 3)
        far = (1 - gamma) * E @ torch.linalg.inv(torch.eye(5, dtype=torch.float64) - gamma * W @ E) @ W @ padded
    split = (inverse(D_part, padded, gamma) + far)[..., :18, :]
    close(additive(x), additive.out(split.transpose(1, 2).flatten(-2)))
    if gamma == 0.9:
        assert (split - y).norm() > 0.05 * y.norm()  # the paths that go through both are missing
    if gamma == 0.0:
        close(split, y)


def test_limits():
    torch.manual_seed(0)
    whole = ResolventAttention(8, heads=2, causal=True).double()
    one = BlockResolventAttention(8, heads=2, level=1, block=16, causal=True).double()
    two = BlockResolventAttention(8, heads=2, level=2, block=16, causal=True).double()
    x = random(2, 16, 8)
    one.load_state_dict(whole.state_dict(), strict=False)
    two.load_state_dict(whole.state_dict())
    close(one(x), whole(x))
    close(two(x), whole(x))
    alone = BlockResolventAttention(8, heads=2, level=1, block=4, causal=True).double()
    alone.load_state_dict(one.state_dict())
    alone.lift.bias.data.fill_(-800.0)  # ρ = 0: blocks know nothing of each other
    close(alone(x).flatten(0, 1), whole(x.reshape(8, 4, 8)).flatten(0, 1))
    # blocks of one token at level 2 see every token: the whole attention
    single = BlockResolventAttention(8, heads=2, level=2, block=1, causal=True).double()
    single.load_state_dict(whole.state_dict())
    close(single(x), whole(x))
    # with the block before in full, two blocks are all there is
    both = BlockResolventAttention(8, heads=2, level=2, block=8, overlap=True, causal=True).double()
    both.load_state_dict(whole.state_dict())
    close(both(x), whole(x))


@pytest.mark.parametrize("overlap", [False, True])
def test_without_the_reduced_system_tiles_are_left(overlap):
    torch.manual_seed(0)
    options = dict(heads=2, block=4, overlap=overlap, reduced=False, causal=True)
    one = BlockResolventAttention(8, level=1, **options).double()
    two = BlockResolventAttention(8, level=2, **options).double()
    whole = ResolventAttention(8, heads=2, causal=True).double()
    one.load_state_dict(whole.state_dict(), strict=False)
    two.load_state_dict(whole.state_dict())
    x = random(2, 18, 8)
    close(one(x), two(x))
    if overlap:  # two blocks are all there is
        close(one(x[:, :8]), whole(x[:, :8]))
    else:
        close(one(x)[:, :16].reshape(8, 4, 8), whole(x[:, :16].reshape(8, 4, 8)))
    for mixer in (one, two):
        _, state = mixer.prefill(x[:, :5])
        steps = []
        with torch.no_grad():
            for t in range(5, 18):
                y, state = mixer.step(x[:, t], state)
                steps.append(y)
        close(torch.stack(steps, 1), mixer(x)[:, 5:])


@pytest.mark.parametrize("level", [1, 2])
def test_all_later_tokens_see_a_block_through_one_distribution(level):
    m, gamma = 4, 0.9
    A = dense(routes_for(parts_of(16, m), level=level))
    S = (1 - gamma) * A @ torch.linalg.inv(torch.eye(16, dtype=A.dtype) - gamma * A)
    for c in range(3):
        later = S[:, :, (c + 1) * m :, c * m : (c + 1) * m]
        assert (torch.linalg.matrix_rank(later, rtol=1e-10) == 1).all()
        shares = later / later.sum(-1, keepdim=True)
        close(shares, shares[:, :, :1].expand_as(shares), 1e-9)
    q, k = 1.5 * random(1, HEADS, 16, D), 1.5 * random(1, HEADS, 16, D, seed=1)
    at = torch.arange(16)
    A = (q @ k.mT).masked_fill(at[:, None] < at, -torch.inf).softmax(-1)  # the operator of ResolventAttention
    S = (1 - gamma) * A @ torch.linalg.inv(torch.eye(16, dtype=A.dtype) - gamma * A)
    assert (torch.linalg.matrix_rank(S[:, :, m:, :m], rtol=1e-10) == m).all()


@pytest.mark.parametrize("query", ["first", "prev", "mean"])
def test_a_query_of_the_whole_block_leaks(query):
    torch.manual_seed(0)
    mixer = BlockResolventAttention(8, heads=2, level=1, block=4, query=query).double()
    mixer.causal = True  # what the constructor refuses for "mean"
    x = random(1, 16, 8).requires_grad_()
    leak = 0.0
    for t in range(16):
        (gradient,) = torch.autograd.grad(mixer(x)[:, t].sin().sum(), x)
        leak = max(leak, float(gradient[:, t + 1 :].abs().max()) if t < 15 else 0.0)
    assert leak > 1e-4 if query == "mean" else leak == 0


@pytest.mark.parametrize("level", [1, 2])
@pytest.mark.parametrize("bidirectional", ["fixed_point", "dense"])
def test_bidirectional_forms_by_their_matrices(level, bidirectional):
    torch.manual_seed(0)
    mixer = BlockResolventAttention(
        HEADS * D, heads=HEADS, gamma=0.8, level=level, block=4, bidirectional=bidirectional, tolerance=1e-15
    ).double()
    n = 18
    x = random(2, n, HEADS * D)
    q, k, v = mixer._projected(x, None)
    gate, score = mixer.gates(x, x.dtype)
    there = in_blocks(torch.ones(1, 1, n, dtype=torch.bool), 4)
    blocks = Blocks(*(in_blocks(z, 4) for z in (q, k, gate, score)), there)
    A = dense(routes_for(blocks, level=level, causal=False, query="mean"))
    assert A[0, 0, :n, :n].min() > 0 and not A[..., :n, n:].any()
    close(A[..., :n, :].sum(-1), torch.ones_like(A[..., :n, 0]))
    y = inverse(A[..., :n, :n], v, 0.8)
    close(mixer(x), mixer.out(y.transpose(1, 2).flatten(-2)))
    mixer.tolerance = 1e-3
    scale = y.abs().max()
    if bidirectional == "fixed_point":
        crude = mixer(x)
        mixer.out, keep = torch.nn.Identity(), mixer.out
        error = (mixer(x) - y.transpose(1, 2).flatten(-2)).abs().max()
        mixer.out = keep
        assert 0 < error <= 5 * 1e-3 * scale / (1 - 0.8) and (crude - mixer.out(y.transpose(1, 2).flatten(-2))).any()


def test_the_error_against_the_whole_operator_keeps_its_bound():
    identity, gamma, ratios = torch.eye(24, dtype=torch.float64), 0.8, []
    for seed in range(30):
        blocks = parts_of(24, 4, seed=10 * seed)
        q, k = blocks.q.flatten(2, 3), blocks.k.flatten(2, 3)
        A = (q @ k.mT / math.sqrt(D)).masked_fill(torch.ones(24, 24).triu(1).bool(), -torch.inf).softmax(-1)
        for level in (1, 2):
            S = dense(routes_for(blocks, level=level))
            off = (A - S).abs().sum(-1).amax(-1)
            error = (inverse(A, identity, gamma) - inverse(S, identity, gamma)).abs().sum(-1).amax(-1)
            ratios.append((error * (1 - gamma) / off).max())
    assert 0.1 < max(ratios) <= 1


@pytest.mark.parametrize("query, overlap, combine", [("prev", True, "woodbury"), ("prev", False, "additive")])
def test_decoding_with_a_query_of_the_block_before(query, overlap, combine):
    torch.manual_seed(0)
    mixer = BlockResolventAttention(
        8, heads=2, level=1, block=3, query=query, overlap=overlap, combine=combine, causal=True, summary="learned"
    ).double()
    x, lengths = random(3, 20, 8), torch.tensor([7, 0, 12])
    mask = torch.arange(12) < lengths[:, None]
    _, state = mixer.prefill(torch.where(mask[..., None], x[:, :12], 50.0), mask=mask)
    more, got = random(3, 11, 8, seed=4), []
    y, state = mixer.prefill(more[:, :2], state)
    got += list(y.unbind(1))
    with torch.no_grad():
        for t in range(2, 11):
            y, state = mixer.step(more[:, t], state)
            got.append(y)
    for i, length in enumerate(lengths):
        whole = mixer(torch.cat([x[i, :length], more[i]])[None])[0, length:]
        close(torch.stack(got, 1)[i], whole, 1e-11)
    assert state.keys.shape[1] <= 2 * (23 // 3 + 2) and state.ring.shape[1] == 3 * (1 + overlap)


@pytest.mark.parametrize("bidirectional", ["sum", "fixed_point"])
@pytest.mark.parametrize("level", [1, 2])
def test_tiles_of_a_grid_are_blocks(level, bidirectional):
    order = tile_order((5, 6), 4, torch.device("cpu"))
    assert order.shape == (9, 4) and order[1].tolist() == [2, 3, 8, 9] and order[-1].tolist() == [28, 29, -1, -1]
    assert sorted(order[order >= 0].tolist()) == list(range(30))
    torch.manual_seed(0)
    options = dict(level=level, block=4, bidirectional=bidirectional, tolerance=1e-15)
    mixer = BlockResolventAttention(8, heads=2, **options).double()
    field = random(2, 4, 6, 8)
    order = tile_order((4, 6), 4, torch.device("cpu")).flatten()
    as_sequence = torch.empty_like(field.flatten(1, 2))
    as_sequence[:, order] = mixer(field.flatten(1, 2)[:, order])
    close(mixer(field).flatten(1, 2), as_sequence)
    # a rim that tiles go beyond: outputs where there are points, and nothing of what is not there
    y = mixer(random(2, 5, 7, 8))
    assert y.shape == (2, 5, 7, 8) and y.isfinite().all()
    constant = mixer(random(1, 1, 1, 8).expand(1, 5, 7, 8))
    close(constant, constant[:, :1, :1].expand_as(constant))  # rows sum to 1


def test_the_block_of_auto_is_that_of_the_sequence():
    assert [block_size("auto", level, 4096) for level in (0, 1, 2)] == [256, 16, 64]
    assert block_size(10, 1, 4) == 4
    torch.manual_seed(0)
    mixer = BlockResolventAttention(8, heads=2, level=2, causal=True).double()
    x, mask = random(3, 40, 8), torch.arange(40) < torch.tensor([[40], [9], [17]])
    y = mixer(x, mask=mask)
    for i, length in enumerate((40, 9, 17)):
        close(y[i, :length], mixer(x[i : i + 1, :length])[0])
    with pytest.raises(ValueError, match="block='auto' follows from the whole length"):
        mixer.prefill(x)


def test_counts_of_work_grow_as_they_should():
    lengths = [2**i for i in range(12, 22, 3)]

    def exponent(level, overlap=False):
        counts = []
        for n in lengths:
            block = 256 if level < 1 else block_size("auto", level, n)
            counts.append(multiply_adds(n, channels=64, heads=4, level=level, block=block, overlap=overlap)["total"])
        return math.log(counts[-1] / counts[0]) / math.log(lengths[-1] / lengths[0])

    assert exponent(-1) == pytest.approx(2, abs=0.01) and exponent(0) == pytest.approx(2, abs=0.05)
    assert exponent(1) == pytest.approx(4 / 3, abs=0.03) and exponent(1, True) == pytest.approx(4 / 3, abs=0.03)
    assert exponent(2) == pytest.approx(3 / 2, abs=0.03)
    # entry by entry: scores and solve of a sequence of two blocks of two tokens, d = 1
    few = multiply_adds(4, channels=1, heads=1, level=0, block=2)
    assert few["scores"] == 4 + 8 and few["local"] == 4 + 2 * 2 * 3
    few = multiply_adds(4, channels=1, heads=1, level=1, block=2)
    assert few == {"scores": 8 + 1, "local": 2 * 3 * 2, "blocks": (1 + 4) + (4 + 1), "total": 31}


@pytest.mark.gpu
@pytest.mark.parametrize("options", [dict(level=0), dict(level=1, overlap=True), dict(level=2), dict(gamma="learned")])
def test_devices_agree(options):
    torch.manual_seed(0)
    mixer = BlockResolventAttention(8, heads=2, block=4, causal=True, **options).double()
    x = random(2, 21, 8).requires_grad_()
    here = torch.autograd.grad(mixer(x).sin().sum(), [x, *mixer.parameters()])
    there = mixer.cuda()
    y = x.detach().cuda().requires_grad_()
    for a, b in zip(here, torch.autograd.grad(there(y).sin().sum(), [y, *there.parameters()])):
        close(b.cpu(), a, 1e-9)
    state, got = None, []
    with torch.no_grad():
        for t in range(21):
            out, state = there.step(y[:, t], state)
            got.append(out)
        close(torch.stack(got, 1), there(y), 1e-9)


@pytest.mark.parametrize("ndim", [1, 2])
@pytest.mark.parametrize("level", [0, 1, 2])
def test_it_mixes_in_the_spine(ndim, level):
    torch.manual_seed(0)
    options = dict(heads=2, gamma="learned", level=level, summary="learned", block=4)
    model = Operator(1, 1, width=8, depth=1, mixer="block_resolvent", mixer_options=options, ndim=ndim)
    shape = (18, 7)[:ndim]
    y = model(random(2, 1, *shape).float(), Grid(shape))
    assert y.shape == (2, 1, *shape) and y.isfinite().all()
    y.square().sum().backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for n, p in model.named_parameters() if "mixer" in n)


def test_refusals():
    for options, said in (
        (dict(level=3), "level=3"),
        (dict(block=0), "block=0"),
        (dict(combine="sum"), "combine='sum'"),
        (dict(query="last"), "query='last'"),
        (dict(summary="max"), "summary='max'"),
        (dict(query="mean", causal=True), "pass 'first' or 'prev'"),
        (dict(overlap=True, bidirectional="dense"), "block after block"),
        (dict(level=0, reduced=False), "pass level=1 or level=2"),
    ):
        with pytest.raises(ValueError, match=said):
            BlockResolventAttention(8, **options)
