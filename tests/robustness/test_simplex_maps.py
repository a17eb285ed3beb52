"""Simplex maps equal plain references, and their constants are attained and never exceeded."""

import math

import numpy as np
import pytest
import torch
from scipy import optimize

from sciops.robustness.smoothing.simplex_maps import SimplexMap, soft_radius, sparsemax


def test_sparsemax_is_the_projection():
    z = torch.randn(200, 7, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * 2
    p = sparsemax(z)
    assert (p >= 0).all() and torch.allclose(p.sum(-1), torch.ones(200, dtype=torch.float64), atol=1e-14)
    for row, got in zip(z.numpy(), p.numpy()):
        tau = optimize.brentq(lambda t, r=row: np.maximum(r - t, 0).sum() - 1, row.min() - 1, row.max(), xtol=1e-14)
        np.testing.assert_allclose(got, np.maximum(row - tau, 0), atol=1e-12)
    far = torch.tensor([[1e12, 1e12 - 0.25, 0.0]], dtype=torch.float64)
    assert sparsemax(far).tolist() == [[0.625, 0.375, 0.0]]


@pytest.mark.parametrize("name", ["softmax", "sparsemax"])
@pytest.mark.parametrize("scale", [0.3, 4.0])
@pytest.mark.parametrize("classes", [2, 5])
def test_constants_bound_every_jacobian_and_are_attained(name, scale, classes):
    simplex = SimplexMap(name, scale)
    z = torch.randn(300, classes, generator=torch.Generator().manual_seed(1), dtype=torch.float64) / scale
    z[0] = 0
    if name == "softmax":
        z[1] = torch.tensor([0.0, 0.0] + [-60 / scale] * (classes - 2))  # two classes at one half
    jacobian = torch.func.vmap(torch.func.jacrev(simplex))(z)
    whole, parts = torch.linalg.matrix_norm(jacobian, 2), jacobian.norm(dim=-1)
    assert whole.max() <= simplex.lipschitz * (1 + 1e-12)
    assert parts.max() <= simplex.component_lipschitz(classes) * (1 + 1e-12)
    assert whole.max() == pytest.approx(simplex.lipschitz, rel=1e-9)
    assert parts.max() == pytest.approx(simplex.component_lipschitz(classes), rel=1e-9)


def test_maps_grow_into_argmax():
    z = torch.randn(50, 4, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    votes = SimplexMap()(z)
    for name in ("softmax", "sparsemax"):
        assert torch.allclose(SimplexMap(name, 1e7)(z), votes, atol=1e-12)
    assert SimplexMap()(torch.tensor([[1.0, 2.0, 2.0]])).tolist() == [[0, 1, 0]]
    assert SimplexMap().lipschitz == math.inf and SimplexMap("probabilities").component_lipschitz(9) == 1
    p = z.float().softmax(-1)
    assert torch.allclose(SimplexMap("probabilities")(p), p.double(), atol=1e-6)
    for bad in (z, p / 2):
        with pytest.raises(ValueError, match="expected probabilities; map logits with"):
            SimplexMap("probabilities")(bad)
    with pytest.raises(ValueError, match="simplex map 'hardmax' with scale 1.0"):
        SimplexMap("hardmax")
    with pytest.raises(ValueError, match="scale -1"):
        SimplexMap("softmax", -1)


@pytest.mark.parametrize("name", ["softmax", "sparsemax"])
def test_infinite_logits_have_no_soft_map_but_minus_infinity_excludes(name):
    inf = math.inf
    for row in ([inf, 0.0], [inf, inf], [-inf, -inf], [1e308, 0.0], [math.nan, 0.0]):
        with pytest.raises(ValueError, match=f"{name} needs a finite largest output in every row"):
            SimplexMap(name, 500.0)(torch.tensor([[0.0, 1.0], row], dtype=torch.float64))
    z = torch.tensor([[0.3, -inf, 0.1]], dtype=torch.float64)
    kept = SimplexMap(name)(z[:, [0, 2]])
    assert torch.equal(SimplexMap(name)(z), torch.tensor([[kept[0, 0], 0.0, kept[0, 1]]], dtype=torch.float64))
    assert SimplexMap()(torch.tensor([[inf, 0.0]])).tolist() == [[1, 0]]  # a vote is well defined
    with pytest.raises(ValueError, match="expected probabilities"):
        SimplexMap("probabilities")(torch.tensor([[math.nan, 1.0]]))


def test_the_soft_radius_is_the_larger_of_its_two():
    top, other = np.array([0.9, 0.6]), np.array([0.05, 0.3])
    for simplex in (SimplexMap("softmax", 3.0), SimplexMap("sparsemax", 0.5)):
        both = soft_radius(top, other, simplex, sigma=0.1, lipschitz=1.0, classes=4)
        plain = (top - other) / (math.sqrt(2) * simplex.lipschitz)
        pair = (top - other) / (2 * simplex.component_lipschitz(4))
        assert (both >= plain).all() and (both >= pair).all()
