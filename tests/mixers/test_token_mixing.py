"""Y = A X + B Y: known mixers, each by its own recurrence or sum, as one triangular system."""

import pytest
import torch
import torch.nn.functional as F

from sciops.mixers import solve_links, solve_mixing
from sciops.mixers.recurrence.links import Links

N, D = 23, 4


def linked_matrix(weights, links):
    """B (batch, heads, n, n) of weights (batch, heads, n, r) at links (n, r) or (batch, n, r), −1 left out."""
    links = (links if links.ndim == 2 else links.unsqueeze(1)).expand_as(weights)
    b = weights.new_zeros(*weights.shape[:-1], weights.shape[-2])
    return b.scatter_add(-1, links.clamp(min=0), weights.masked_fill(links < 0, 0))


def drawn(*shape, seed=0, dtype=torch.float64):
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def close(a, b, tolerance=1e-12):
    torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)


def attention(seed=0, window=None):
    scores = drawn(2, N, N, seed=seed)
    apart = torch.arange(N)[:, None] - torch.arange(N)
    unseen = (apart < 0) if window is None else (apart < 0) | (apart >= window)
    return scores, unseen, scores.masked_fill(unseen, -torch.inf).softmax(-1)


@pytest.mark.parametrize("method", ["solve", "powers"])
@pytest.mark.parametrize("n", [1, 2, 7, 16, 23])
def test_the_system_is_the_inverse(method, n):
    a, b, x = drawn(2, n, n), drawn(2, n, n, seed=1).tril(-1), drawn(2, n, D, seed=2)
    close(solve_mixing(a, b, x, method=method), torch.linalg.inv(torch.eye(n) - b) @ a @ x, 1e-9)
    d = a.diagonal(dim1=-2, dim2=-1)
    whole = b + drawn(n, n, seed=3).triu()  # on and above the diagonal nothing is read
    close(
        solve_mixing(d, whole, x, method=method, diagonal=True),
        solve_mixing(torch.diag_embed(d), b, x, method=method),
        1e-9,
    )


@pytest.mark.parametrize("window", [None, 5])
def test_softmax_and_local_attention(window):
    scores, unseen, p = attention(window=window)
    x = drawn(2, N, D, seed=1)
    expected = torch.stack(
        [
            torch.stack(
                [
                    sum(scores[b, i, j].exp() * x[b, j] for j in range(N) if not unseen[i, j])
                    / sum(scores[b, i, j].exp() for j in range(N) if not unseen[i, j])
                    for i in range(N)
                ]
            )
            for b in range(2)
        ]
    )
    close(solve_mixing(p, torch.zeros(N, N), x), expected)


def test_a_gated_recurrence():
    gate, x = drawn(2, N).sigmoid(), drawn(2, N, D, seed=1)
    h, expected = torch.zeros(2, D, dtype=torch.float64), []
    for i in range(N):
        g = gate[:, i, None]
        h = g * x[:, i] + (1 - g) * h if i else x[:, 0] * g
        expected.append(h)
    below = torch.diag_embed(1 - gate[:, 1:], offset=-1)
    close(solve_mixing(gate, below, x, diagonal=True), torch.stack(expected, 1))
    table = Links((1,)).table(torch.arange(N), N - 1)
    linked = solve_links(gate[:, None], (1 - gate)[:, None, :, None], table, x[:, None], chunk=4)
    close(linked[:, 0], torch.stack(expected, 1))


def test_linear_attention_with_decay_is_a_sum_over_states():
    """SSD: H_i = a_i H_{i−1} + B_i x_iᵀ, y_i = C_iᵀ H_i is Σ_s diag(C_s) (I − B)^{-1} diag(B_s) x."""
    states = 3
    a, b, c, x = drawn(N).sigmoid(), drawn(N, states, seed=1), drawn(N, states, seed=2), drawn(N, D, seed=3)
    h, expected = torch.zeros(states, D, dtype=torch.float64), []
    for i in range(N):
        h = a[i] * h + torch.outer(b[i], x[i])
        expected.append(c[i] @ h)
    below = torch.diag_embed(a[1:], offset=-1)
    got = sum(c[:, s, None] * solve_mixing(b[:, s], below, x, diagonal=True) for s in range(states))
    close(got, torch.stack(expected))


def test_s4d_is_one_recurrence_a_complex_mode():
    modes = 3
    decay = torch.polar(drawn(modes).sigmoid(), drawn(modes, seed=1))
    b, c = (torch.complex(drawn(modes, seed=s), drawn(modes, seed=s + 1)) for s in (2, 4))
    x = drawn(N, D, seed=6)
    kernel = torch.stack([(c * b * decay**t).sum().real for t in range(N)])
    expected = torch.stack([sum(kernel[i - j] * x[j] for j in range(i + 1)) for i in range(N)])
    got = 0
    for m in range(modes):
        below = torch.diag_embed(decay[m].expand(N - 1), offset=-1)
        got = got + c[m] * solve_mixing(b[m].expand(N), below, x.to(below.dtype), diagonal=True)
    close(got.real, expected)


def test_a_running_mean_is_the_causal_polynomial_mixers_past():
    x, i = drawn(N, D), torch.arange(1.0, N + 1, dtype=torch.float64)
    features = torch.cat([x, x**2, x[:, :1] * x], 1)
    expected = torch.stack([features[: t + 1].mean(0) for t in range(N)])
    below = torch.diag_embed(((i - 1) / i)[1:], offset=-1)
    close(solve_mixing(1 / i, below, features, diagonal=True), expected)


@pytest.mark.parametrize("gamma", [0.0, 0.5, 0.9, 0.99])
def test_chacal(gamma):
    _, _, p = attention()
    x = drawn(2, N, D, seed=1)
    eye = torch.eye(N, dtype=torch.float64)
    series, term = torch.zeros_like(x), x
    for _ in range(4000 if gamma else 1):
        term = p @ term
        series, term = series + (1 - gamma) * term, gamma * term
    rest = 1 - gamma * p.diagonal(dim1=-2, dim2=-1)[..., None]
    got = solve_mixing((1 - gamma) * p / rest, gamma * p / rest, x)
    close(got, series, 1e-11)
    close(got, (1 - gamma) * p @ torch.linalg.inv(eye - gamma * p) @ x, 1e-11)


def test_the_delta_rule():
    """S_i = S_{i−1} + β_i (v_i − S_{i−1} k_i) k_iᵀ, o_i = S_i q_i, with outputs u_i = β_i (v_i − S_{i−1} k_i)."""
    q, k, v = (drawn(N, D, seed=s) for s in range(3))
    k, beta = F.normalize(k, dim=-1), drawn(N, seed=3).sigmoid()
    s, expected = torch.zeros(D, D, dtype=torch.float64), []
    for i in range(N):
        s = s + beta[i] * torch.outer(v[i] - s @ k[i], k[i])
        expected.append(s @ q[i])
    u = solve_mixing(beta, -beta[:, None] * (k @ k.T), v, diagonal=True)
    close((q @ k.T).tril() @ u, torch.stack(expected))


def a_table(batched, n=N, r=4):
    """Random links, some missing, some twice."""
    links = (torch.rand(3, n, r, generator=torch.Generator().manual_seed(0)) * torch.arange(n)[:, None]).long()
    links[torch.rand(3, n, r, generator=torch.Generator().manual_seed(1)) < 0.3] = -1
    links[:, 0] = -1
    return links if batched else links[0]


@pytest.mark.parametrize("batched", [True, False])
@pytest.mark.parametrize("chunk", [1, 7, 16, N, 100])
def test_links_are_a_sparse_matrix(batched, chunk):
    links = a_table(batched)
    parts = [drawn(3, 2, N).requires_grad_(), 0.5 * drawn(3, 2, N, 4, seed=1), drawn(3, 2, N, D, seed=2)]
    parts = [part.detach().requires_grad_() for part in parts]
    alpha, weights, x = parts
    y = solve_links(alpha, weights, links, x, chunk=chunk)
    dense = solve_mixing(alpha, linked_matrix(weights, links), x, diagonal=True)
    close(y, dense)
    probe = drawn(3, 2, N, D, seed=3)
    for got, expected in zip(
        torch.autograd.grad((y * probe).sum(), parts), torch.autograd.grad((dense * probe).sum(), parts)
    ):
        close(got, expected, 1e-11)


@pytest.mark.parametrize("batched", [True, False])
def test_gradients_are_those_of_finite_differences(batched):
    links = a_table(batched, n=6, r=2)
    alpha, weights, x = (
        drawn(*shape, seed=s).requires_grad_() for s, shape in enumerate([(3, 1, 6), (3, 1, 6, 2), (3, 1, 6, 2)])
    )
    assert torch.autograd.gradcheck(lambda *p: solve_links(p[0], p[1], links, p[2], chunk=4), (alpha, weights, x))


def test_half_precisions_are_solved_in_float32():
    a, b, x = drawn(N).sigmoid(), 0.2 * drawn(N, N, seed=1).tril(-1), drawn(N, D, seed=2)
    y = solve_mixing(a.bfloat16(), b.bfloat16(), x.bfloat16(), diagonal=True)
    assert y.dtype == torch.bfloat16
    close(y.double(), solve_mixing(a, b, x, diagonal=True), 0.1)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert (
            solve_mixing(a.float(), b.float(), x.float(), diagonal=True).double() - solve_mixing(a, b, x, diagonal=True)
        ).abs().max() < 1e-5


def test_errors_name_what_was_expected():
    a, x = torch.ones(2, 3, 4), torch.ones(2, 3, 4, 5)
    with pytest.raises(ValueError, match="links at or after"):
        solve_links(a, torch.ones(2, 3, 4, 1), torch.arange(4)[:, None], x)
    with pytest.raises(ValueError, match="chunk=0"):
        solve_links(a, torch.ones(2, 3, 4, 1), -torch.ones(4, 1, dtype=torch.int64), x, chunk=0)
    with pytest.raises(ValueError, match="expected"):
        solve_links(a, torch.ones(2, 3, 4, 2), -torch.ones(4, 1, dtype=torch.int64), x)
    with pytest.raises(ValueError, match="diagonal=True"):
        solve_mixing(a, torch.ones(4, 4), x)
    with pytest.raises(ValueError, match=r"x \(4,\): expected"):
        solve_mixing(torch.ones(4), torch.ones(4, 4), torch.ones(4), diagonal=True)
    with pytest.raises(TypeError, match=r"expected a complex x, x.to\(torch.complex64\)"):
        solve_mixing(a, 1j * torch.ones(4, 4), x, diagonal=True)
    with pytest.raises(TypeError, match="links of torch.float32: expected torch.int64"):
        solve_links(a, torch.ones(2, 3, 4, 1), -torch.ones(4, 1), x)
    with pytest.raises(ValueError, match=r"weights \(4,\), .*: expected"):
        solve_links(a, torch.ones(4), -torch.ones(4, 1, dtype=torch.int64), x)
    with pytest.raises(ValueError, match="'solve' or 'powers'"):
        solve_mixing(a, torch.ones(4, 4), x, diagonal=True, method="inverse")
