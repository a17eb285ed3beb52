"""The bound of attention on a ball, against Jacobians at sampled and at searched tokens."""

import math
from functools import partial

import pytest
import torch

from sciops.lipschitz import attention_bound, cosine_attention_bound


def attention(x, q, k, v, heads, output=None, query_bias=None, relative=None):
    """(tokens, channels) → (tokens, out), written out head by head."""
    parts = []
    for h, (qh, kh, vh) in enumerate(zip(q.chunk(heads), k.chunk(heads), v.chunk(heads))):
        query = x @ qh.T if query_bias is None else x @ qh.T + query_bias.chunk(heads)[h]
        scores = query @ (x @ kh.T).T / math.sqrt(len(qh))
        scores = scores if relative is None else scores + relative[h]
        parts.append(scores.softmax(-1) @ (x @ vh.T))
    y = torch.cat(parts, -1)
    return y if output is None else y @ output.T


def slope(x, *weights, **options):
    matrix = torch.autograd.functional.jacobian(lambda x: attention(x, *weights, **options), x)
    return float(torch.linalg.matrix_norm(matrix.reshape(-1, x.numel()), 2))


def tokens(n, d, radius, generator, clusters=None):
    x = torch.randn(n, d, generator=generator, dtype=torch.float64)
    if clusters:
        x = torch.randn(clusters, d, generator=generator, dtype=torch.float64)[torch.arange(n) % clusters]
    return radius * x / x.norm(dim=1, keepdim=True)


@pytest.mark.parametrize("heads", [1, 2])
def test_never_below_a_jacobian_in_the_ball(heads):
    generator = torch.Generator().manual_seed(heads)
    draw = lambda *shape: torch.randn(*shape, generator=generator, dtype=torch.float64)  # noqa: E731
    ratios = []
    for i in range(120):
        n, d, radius = 2 + i % 5, 2 + 2 * (i % 2), (0.1, 0.7, 2.0, 5.0)[i % 4]
        q, k, v = draw(3, d, d).unbind()
        output = draw(3, d) if i % 3 else None
        options = dict(heads=heads, output=output)
        if i % 2:
            options["query_bias"] = draw(d)
        relative = draw(heads, n, n) if i % 5 == 0 else None
        spread = 0.0 if relative is None else float(relative.max() - relative.min())
        x = tokens(n, d, radius, generator, clusters=2 if i % 7 == 0 else None)
        bound = float(attention_bound(q, k, v, tokens=n, radius=radius, score_range=spread, **options))
        true = slope(x, q, k, v, relative=relative, **options)
        assert true <= bound * (1 + 1e-12), (i, true, bound)
        ratios.append(bound / true)
    assert min(ratios) < 2.5


def test_never_below_the_worst_tokens_that_ascent_finds():
    """Power iteration in the direction and ascent in the tokens: an attack on the bound itself."""
    generator = torch.Generator().manual_seed(4)
    for seed in range(4):
        q, k, v = torch.randn(3, 3, 3, generator=generator, dtype=torch.float64).unbind()
        radius, weights = (0.5, 1.0, 2.0, 3.0)[seed], dict(q=q, k=k, v=v, heads=1)
        raw = torch.randn(5, 3, generator=generator, dtype=torch.float64).requires_grad_()
        optimizer = torch.optim.Adam([raw], 0.2)
        found = 0.0
        for _ in range(25):
            x = raw * (radius / raw.norm(dim=1, keepdim=True)).clamp(max=1)
            rows = torch.autograd.functional.jacobian(partial(attention, **weights), x, True, vectorize=True)
            value = torch.linalg.matrix_norm(rows.reshape(15, 15), 2)
            found = max(found, float(value.detach()))
            optimizer.zero_grad()
            (-value).backward()
            optimizer.step()
        bound = float(attention_bound(q, k, v, tokens=5, radius=radius))
        assert found <= bound < 8 * found


def test_reached_where_all_tokens_attend_alike():
    """No scores: the mean of the values, ‖V‖ exactly; a radius of zero says the same, whatever the scores."""
    v = torch.randn(3, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    zero = torch.zeros(3, 3, dtype=torch.float64)
    expected = float(torch.linalg.matrix_norm(v, 2))
    assert float(attention_bound(zero, zero, v, tokens=6, radius=10.0)) == pytest.approx(expected, rel=1e-10)
    assert slope(torch.zeros(6, 3, dtype=torch.float64), zero, zero, v, 1) == pytest.approx(expected, rel=1e-10)
    assert float(attention_bound(v, v, v, tokens=6, radius=0.0)) == pytest.approx(expected, rel=1e-10)


def test_never_above_the_published_bound():
    """√3 ‖V‖ (‖A‖² R⁴ (4N + 1) + N)^½, Castin et al."""
    generator = torch.Generator().manual_seed(1)
    for i in range(50):
        q, k, v = torch.randn(3, 4, 4, generator=generator, dtype=torch.float64).unbind()
        n, radius = 1 + i, 0.1 * 1.2**i
        a = float(torch.linalg.matrix_norm(q.T @ k, 2)) / 2
        published = math.sqrt(3 * (a**2 * radius**4 * (4 * n + 1) + n)) * float(torch.linalg.matrix_norm(v, 2))
        assert float(attention_bound(q, k, v, tokens=n, radius=radius)) <= published


def test_there_is_no_bound_on_the_whole_space():
    """Tokens 0, s, −s: the slope grows like s², as does the bound."""
    one = torch.ones(1, 1, dtype=torch.float64)
    slopes, bounds = [], []
    for s in (10.0, 100.0, 1000.0):
        x = torch.tensor([[0.0], [s], [-s]], dtype=torch.float64)
        slopes.append(slope(x, one, one, one, 1))
        bounds.append(float(attention_bound(one, one, one, tokens=3, radius=s)))
    assert slopes[1] / slopes[0] == pytest.approx(100, rel=0.02) and slopes[2] / slopes[1] == pytest.approx(
        100, rel=0.02
    )
    assert all(t <= b < 5 * t for t, b in zip(slopes, bounds))


def test_heads_and_output_use_the_smaller_of_two_ways():
    generator = torch.Generator().manual_seed(2)
    q, k, v = torch.randn(3, 4, 4, generator=generator, dtype=torch.float64).unbind()
    output = torch.zeros(2, 4, dtype=torch.float64)
    output[:, :2] = torch.eye(2, dtype=torch.float64)  # the second head is not read
    both = float(attention_bound(q, k, v, tokens=4, radius=1.0, heads=2, output=output))
    first = float(attention_bound(q[:2], k[:2], v[:2], tokens=4, radius=1.0))
    assert both == pytest.approx(first, rel=1e-9)


def test_gradients_reach_the_weights():
    w = torch.randn(3, 4, 2, generator=torch.Generator().manual_seed(3), dtype=torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(lambda w: attention_bound(*w, tokens=5, radius=0.8, heads=2), w)


def test_errors_are_told():
    w = torch.eye(4)
    for options in (dict(radius=math.inf), dict(radius=-1.0), dict(radius=1.0, tokens=0), dict(radius=1.0, heads=3)):
        with pytest.raises(ValueError, match="expected"):
            attention_bound(w, w, w, **{"tokens": 4} | options)


def cosine_attention(x, q, k, v, sharpness, floor, output=None):
    """Scores s·n(q)·n(k) with n(q) = q/√(|q|² + ε²), head by head."""
    n = lambda z: z / (z.square().sum(-1, keepdim=True) + floor**2).sqrt()  # noqa: E731
    parts = []
    for s, qh, kh, vh in zip(sharpness, *(w.chunk(len(sharpness)) for w in (q, k, v))):
        parts.append((s * n(x @ qh.T) @ n(x @ kh.T).T).softmax(-1) @ (x @ vh.T))
    y = torch.cat(parts, -1)
    return y if output is None else y @ output.T


def test_cosines_with_a_floor_never_below_a_jacobian_in_the_ball():
    generator = torch.Generator().manual_seed(5)
    draw = lambda *shape: torch.randn(*shape, generator=generator, dtype=torch.float64)  # noqa: E731
    ratios = []
    for i in range(120):
        n, d, radius, heads = 2 + i % 5, 2 + 2 * (i % 2), (0.1, 0.7, 2.0, 5.0)[i % 4], 1 + i % 2
        q, k, v = (3 ** (i % 3 - 1) * draw(3, d, d)).unbind()
        output, floor, sharpness = draw(3, d) if i % 3 else None, (0.1, 1.0, 3.0)[i % 3], (2 * draw(heads)).exp()
        x = tokens(n, d, radius, generator, clusters=2 if i % 7 == 0 else None) * (i % 11 > 0 or 0.01)
        options = dict(sharpness=sharpness, floor=floor, output=output)
        bound = float(cosine_attention_bound(q, k, v, tokens=n, radius=radius, **options))
        matrix = torch.autograd.functional.jacobian(partial(cosine_attention, q=q, k=k, v=v, **options), x)
        true = float(torch.linalg.matrix_norm(matrix.reshape(-1, x.numel()), 2))
        assert true <= bound * (1 + 1e-12), (i, true, bound)
        ratios.append(bound / true)
    assert min(ratios) < 3


def test_cosines_with_a_floor_grow_like_the_radius_and_those_without_have_no_bound():
    w = torch.eye(4, dtype=torch.float64)
    how = dict(tokens=4, sharpness=[2.0], floor=0.5)
    values = [float(cosine_attention_bound(w, w, w, radius=r, **how)) for r in (0.0, 1e3, 2e3)]
    assert values[2] - values[0] == pytest.approx(2 * (values[1] - values[0]), rel=1e-9)
    for change, words in (({"floor": 0.0}, "floor=0.0"), ({"radius": math.inf}, "radius"), ({"tokens": 0}, "tokens")):
        with pytest.raises(ValueError, match=words):
            cosine_attention_bound(w, w, w, **({"radius": 1.0} | how | change))
    assert torch.autograd.gradcheck(
        lambda w: cosine_attention_bound(*w, radius=1.0, **how),
        torch.randn(3, 4, 2, generator=torch.Generator().manual_seed(6), dtype=torch.float64).requires_grad_(),
    )
