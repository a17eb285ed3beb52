"""Structured recurrences against token-by-token loops, their averages, and what they keep."""

import math

import pytest
import torch

from sciops.mixers import StructuredRecurrence
from sciops.mixers.recurrence.linked import linked_products, products
from sciops.mixers.recurrence.links import Links
from sciops.models import Operator

PATTERNS = [
    dict(pattern="powers"),
    dict(pattern="powers", cache_efficient=True),
    dict(pattern="squares"),
    dict(pattern="squares", cache_efficient=True),
    dict(pattern="dense"),
    dict(pattern="first_order"),
    dict(pattern="order", order=3),
    dict(pattern=(1, 4, 6), cache_efficient=True),
    dict(pattern=(2, 7)),
    dict(pattern="powers", coefficients="chacal", gamma=0.8),
    dict(pattern="dense", coefficients="chacal"),
]
NAMED = [pytest.param(o, id="-".join(f"{v}" for v in o.values())) for o in PATTERNS]


def close(a, b, tolerance=1e-12):
    torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)


def made(channels=8, **options):
    torch.manual_seed(0)
    mixer = StructuredRecurrence(channels, **options).double()
    with torch.no_grad():
        for parameter in mixer.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return mixer


def drawn(*shape, seed=1):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def links_of(options, i, row=None):
    """[(index of the bias, position)] of token i, counted from 0, by the formulas in a loop."""
    pattern, order = options["pattern"], options.get("order")
    if pattern == "order":
        f = list(range(1, order + 1))
    elif isinstance(pattern, tuple):
        f = list(pattern)
    else:
        rule = {"powers": lambda k: 2**k, "squares": lambda k: k * k + 1, "dense": lambda k: k + 1}
        f = [1] if pattern == "first_order" else [rule[pattern](k) for k in range(i + 1)]
    out, a = {}, 1
    for k, one in enumerate(f):
        if k:
            a *= -(-(one - f[k - 1]) // a)
        if one > i:
            break
        position = a * -(-(i + 1 - one) // a) - 1 if options.get("cache_efficient") else i - one
        out.setdefault(position, k)
    if row is not None and i >= row:
        out.setdefault(i - row, -1)
    return [(k, position) for position, k in out.items()]


def naive(mixer, x, options, direction=0, row=None):
    """(y, z) before the output projection, one sequence (n, channels), token by token and head by head."""
    heads, d = mixer.heads, mixer.channels // mixer.heads
    q, k, v = (x @ mixer.qkv.weight.T).reshape(-1, 3, heads, d).unbind(1)
    itself = (x @ mixer.itself.weight.T + mixer.itself.bias).reshape(-1, mixer.biases.shape[0], heads)[:, direction]
    y = torch.zeros(len(x), heads, d, dtype=x.dtype)
    for h in range(heads):
        for i in range(len(x)):
            linked = links_of(options, i, row)
            scores = [itself[i, h]]
            for index, j in linked:
                bias = mixer.biases[direction, h, index]
                scores.append(q[i, h] @ k[j, h] / d**0.5 + bias - math.log(len(linked)))
            p = torch.stack(scores).softmax(0)
            if options.get("coefficients") == "chacal":  # y_i = (1 − γ) Σ_j p_ij v_j + γ Σ_j p_ij y_j, itself as well
                g = mixer.gamma
                total = sum(w * (g * y[j, h] + (1 - g) * v[j, h]) for w, (_, j) in zip(p[1:], linked))
                y[i, h] = (total + (1 - g) * p[0] * v[i, h]) / (1 - g * p[0])
            else:
                y[i, h] = p[0] * v[i, h] + sum(w * y[j, h] for w, (_, j) in zip(p[1:], linked))
    return y.flatten(1)


@pytest.mark.parametrize("options", NAMED)
def test_it_is_the_recurrence_it_is_defined_by(options):
    x = drawn(2, 21, 8)
    mixer = made(heads=2, causal=True, **options)
    with torch.no_grad():
        expected = torch.stack([mixer.out(naive(mixer, one, options)) for one in x])
        close(mixer(x), expected)


@pytest.mark.parametrize("merge", ["sum", "concatenate"])
@pytest.mark.parametrize("options", NAMED[:5])
def test_both_directions(options, merge):
    x = drawn(2, 13, 8)
    mixer = made(heads=2, merge=merge, **options)
    with torch.no_grad():
        for one, got in zip(x, mixer(x)):
            ways = [naive(mixer, one, options), naive(mixer, one.flip(0), options, direction=1).flip(0)]
            close(got, mixer.out(sum(ways) if merge == "sum" else torch.cat(ways, -1)))


@pytest.mark.parametrize("options", [NAMED[1], NAMED[2], NAMED[8]])
@pytest.mark.parametrize("rows", [True, False])
def test_a_field_is_read_row_by_row_with_the_row_before(options, rows):
    x = drawn(1, 4, 6, 8)
    mixer = made(heads=2, causal=True, rows=rows, **options)
    with torch.no_grad():
        expected = mixer.out(naive(mixer, x[0].flatten(0, 1), options, row=6 if rows else None))
        close(mixer(x), expected.reshape(x.shape))


def matrix(mixer, x):
    """M with y = M v in every head: the outputs for values that are unit vectors."""
    q, k, _, itself = mixer._projected(x)
    n = x.shape[1]
    units = torch.eye(n, dtype=x.dtype).expand(*q.shape[:2], n, n)
    return mixer._solved(q, k, units, itself[0], 0, None)[0]


@pytest.mark.parametrize("options", NAMED)
def test_outputs_are_averages_of_the_values_before(options):
    with torch.no_grad():
        m = matrix(made(heads=2, causal=True, **options), drawn(2, 70, 8))
    close(m.sum(-1), torch.ones(2, 2, 70, dtype=torch.float64))
    assert m.min() > -1e-14 and not m.triu(1).any()
    if options["pattern"] != (2, 7):  # these offsets leave out neighbours; the others reach every token
        below = torch.ones(70, 70).tril().bool()
        assert (m[..., below] > 0).all()


def test_a_token_starts_with_half_of_its_weight_on_itself():
    torch.manual_seed(0)
    for pattern in ("powers", "dense"):
        mixer = StructuredRecurrence(16, pattern=pattern, causal=True).double()
        with torch.no_grad():
            m = matrix(mixer, 1e-6 * drawn(1, 50, 16))
        own = m.diagonal(dim1=-2, dim2=-1)
        close(own[..., 0], torch.ones_like(own[..., 0]))
        close(own[..., 1:], torch.full_like(own[..., 1:], 0.5), 1e-5)


def test_dense_chacal_is_the_resolvent_of_its_attention():
    mixer, x, g = made(heads=2, pattern="dense", coefficients="chacal", gamma=0.85, causal=True), drawn(2, 30, 8), 0.85
    with torch.no_grad():
        q, k, _, itself = mixer._projected(x)
        p = mixer._dense(q, k, itself[0], 0)
        close(p.sum(-1), torch.ones(2, 2, 30, dtype=torch.float64))
        close(matrix(mixer, x), (1 - g) * p @ torch.linalg.inv(torch.eye(30) - g * p), 1e-11)


def test_a_sparse_pattern_of_all_tokens_is_the_dense_one():
    """Offsets 1 … n − 1 along links, in several chunks, against the dense system: outputs and gradients."""
    n, x = 150, drawn(2, 150, 8)
    sparse, dense = made(pattern=tuple(range(1, n)), causal=True), made(pattern="dense", causal=True)
    sparse.load_state_dict(dense.state_dict())
    close(sparse(x), dense(x), 1e-11)
    probe = drawn(*x.shape, seed=3)
    for a, b in zip(*(torch.autograd.grad((m(x) * probe).sum(), list(m.parameters())) for m in (sparse, dense))):
        close(a, b, 1e-10)


@pytest.mark.parametrize("tile", [64, 0])
def test_products_along_links_have_the_right_gradients(tile, monkeypatch):
    monkeypatch.setattr("sciops.mixers.recurrence.linked._TILE", tile)
    q, keys = drawn(2, 2, 5, 3).requires_grad_(), drawn(2, 2, 7, 3, seed=2).requires_grad_()
    for links in (torch.tensor([[-1, 0], [6, 2], [1, 1], [-1, -1], [3, 5]]), torch.randint(-1, 7, (2, 5, 2))):
        assert torch.autograd.gradcheck(linked_products, (q, keys, links))
        whole = q @ keys.mT
        at = links.expand(2, 5, 2)[:, None].expand(2, 2, 5, 2)
        expected = whole.gather(-1, at.clamp(min=0)).masked_fill(at < 0, 0)
        close(products(q.detach(), keys.detach(), links), expected.detach())


@pytest.mark.parametrize("options", NAMED)
def test_the_cache_holds_what_the_count_says_and_no_more(options):
    mixer, n = made(heads=2, causal=True, **options), 90
    kind = Links(mixer.links.pattern, mixer.links.cache_efficient)
    with torch.no_grad():
        x = drawn(1, n, 8)
        _, state = mixer.prefill(x[:, :40])
        for t in range(40, n):
            cost = mixer.decode_cost(t)
            assert cost.links == len(links_of(options, t))
            assert cost.multiply_adds == (2 * cost.links + 1) * 8 and cost.numbers == 2 * 8 * cost.kept
            if state.at is None:
                assert cost.kept == t == int(state.count)
            else:
                kept = {int(j) for j in state.at[0] if j >= 0}
                assert cost.kept == len(kept) and kept == {j for j in kind.kept(torch.tensor(t), t).tolist() if j >= 0}
                assert {j for _, j in links_of(options, t)} <= kept
                assert state.keys.shape[1] <= max(
                    len(links_of({**options, "cache_efficient": False}, t)), kind.window or 0
                )
                assert not state.outputs[:, (state.at[0] < 0)].any()
            _, state = mixer.step(x[:, t], state)


@pytest.mark.parametrize("options", [NAMED[1], NAMED[4]])
def test_under_autocast_only_the_projections_are_in_half(options):
    mixer, x = made(heads=2, causal=True, **options).float(), drawn(2, 80, 8).float()
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        whole = mixer(x)
        _, state = mixer.prefill(x[:, :79])
        last, state = mixer.step(x[:, 79], state)
        q, k, v, itself = mixer._projected(x)
        rounded = mixer._solved(q, k, v, itself[0], 0, None)[0]
    assert whole.dtype == torch.bfloat16 and state.outputs.dtype == torch.float32
    close(last.double(), whole[:, 79].double(), 0.02)
    with torch.no_grad():
        exact = mixer.double()._solved(*(part.double() for part in (q, k, v, itself[0])), 0, None)[0]
    close(rounded.double(), exact, 1e-5)


@pytest.mark.parametrize("pattern, bound", [("powers", lambda n: math.log2(n) + 1), ("squares", lambda n: n**0.5 + 1)])
def test_the_cost_of_a_token_grows_as_it_should(pattern, bound):
    for n in (2**8, 2**11, 2**14):
        plain, small = (
            StructuredRecurrence(8, pattern=pattern, cache_efficient=efficient, causal=True).decode_cost(n)
            for efficient in (False, True)
        )
        assert plain.links <= bound(n) and small.links == small.kept <= plain.links
        assert plain.kept == n
    dense = StructuredRecurrence(8, pattern="dense", causal=True).decode_cost(2**14)
    assert dense.links == dense.kept == 2**14


@pytest.mark.parametrize("ndim", [1, 2])
@pytest.mark.parametrize("options", [dict(pattern="squares", cache_efficient=True), dict(pattern="dense")])
def test_it_carries_an_operator(ndim, options):
    torch.manual_seed(0)
    model = Operator(1, 1, width=8, depth=2, mixer="recurrence", mixer_options=options, ndim=ndim)
    x = torch.randn(2, 1, *(9,) * ndim)
    y = model(x)
    assert torch.isfinite(y).all() and y.shape == x.shape
    (y * torch.randn_like(y)).sum().backward()
    assert all(p.grad is not None and torch.isfinite(p.grad).all() for p in model.parameters())


def test_options_that_do_not_fit_are_refused():
    for options in (
        dict(heads=3),
        dict(pattern="cubes"),
        dict(pattern=(2, 2)),
        dict(pattern=()),
        dict(pattern=(0, 1)),
        dict(pattern=(2, 3), cache_efficient=True),
        dict(pattern="dense", cache_efficient=True),
        dict(pattern="order", order=0),
        dict(coefficients="signed"),
        dict(gamma=1.0),
        dict(merge="product"),
    ):
        with pytest.raises(ValueError, match="expected|needs|divide"):
            StructuredRecurrence(8, **options)
