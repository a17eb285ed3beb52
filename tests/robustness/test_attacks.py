"""Attacks stay feasible, reach the norm of linear maps, agree with brute force, and never pass a certificate."""

import numpy as np
import pytest
import torch

from sciops.grids import Grid
from sciops.pde import darcy
from sciops.random_fields import gaussian_random_field
from sciops.robustness import (
    GaussianFieldNoise,
    dense_jacobian_norm,
    distance_to,
    distance_to_solver,
    field_norm,
    jacobian_norm,
    pgd,
    random_perturbations,
    self_difference,
)
from sciops.robustness.attacks.projection import project_l2, project_linf
from sciops.robustness.field_norm import weights_like

GRIDS = [Grid((9,)), Grid((5, 4)), Grid((4, 6), centering="periodic"), Grid((7,), 2.0, "cell")]


def linear(source, target, seed=0):
    """A random linear map between grids, and its norm between their L² norms by a dense SVD."""
    matrix = torch.randn(target.size, source.size, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    left, sizes, right = torch.linalg.svd(matrix, full_matrices=False)
    matrix = left @ torch.diag(sizes * 0.7 ** torch.arange(len(sizes))) @ right  # a gap after the first
    w_in, w_out = (torch.as_tensor(g.weights()).flatten() for g in (source, target))
    norm = torch.linalg.matrix_norm(w_out.sqrt()[:, None] * matrix / w_in.sqrt(), 2)

    def operator(x):
        return (x.flatten(1) @ matrix.T).reshape(-1, 1, *target.shape)

    return operator, float(norm)


def fields(grid, batch, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(batch, 1, *grid.shape, dtype=torch.float64, generator=generator)


@pytest.mark.parametrize("source", GRIDS)
@pytest.mark.parametrize("target", GRIDS[:2])
def test_linear_operators_are_attacked_to_their_norm(source, target):
    operator, norm = linear(source, target)
    a, epsilon = fields(source, 3), torch.tensor([0.1, 1.0, 0.0])
    objective = self_difference(operator, a, target)
    found = pgd(objective, a, source, epsilon=epsilon, seed=0)
    exact = norm * epsilon.double()
    torch.testing.assert_close(found.value, exact, rtol=1e-3, atol=1e-12)
    assert (found.value <= exact * (1 + 1e-9) + 1e-12).all()
    torch.testing.assert_close(found.value, objective(a + found.delta), rtol=1e-12, atol=1e-12)
    random = random_perturbations(objective, a, source, epsilon=epsilon, samples=20, seed=1)
    assert (random.value <= found.value + 1e-12).all() and (random.value[:2] < 0.98 * exact[:2]).all()
    torch.testing.assert_close(random.value, random.history.amax(0))
    torch.testing.assert_close(found.value, found.history.amax((0, 1)))
    assert found.history.shape == (3, 51, 3)
    # power iteration gets there as well, from below, and its direction is the worst perturbation
    size, direction = jacobian_norm(operator, a, source, target=target, iterations=200, seed=0)
    torch.testing.assert_close(size, torch.full_like(size, norm), rtol=1e-6, atol=0)
    assert (size <= norm * (1 + 1e-12)).all()
    torch.testing.assert_close(field_norm(direction, source), torch.ones(3, dtype=torch.float64))
    torch.testing.assert_close(
        objective(a + direction * epsilon.reshape(-1, 1, *(1,) * source.ndim)), exact, rtol=1e-6, atol=1e-12
    )
    dense = dense_jacobian_norm(operator, a, source, target=target, rows=3)
    torch.testing.assert_close(dense, torch.full_like(dense, norm), rtol=1e-12, atol=0)


def test_projection_is_the_nearest_point_of_ball_and_box():
    """Optimality in the weighted norm: ⟨y − p, z − p⟩_w ≤ 0 for every feasible z."""
    generator = torch.Generator().manual_seed(0)
    n, trials = 12, 40
    weights = torch.rand(n, dtype=torch.float64, generator=generator) + 0.1
    y = 3 * torch.randn(trials, n, dtype=torch.float64, generator=generator)
    lower = -torch.rand(trials, n, dtype=torch.float64, generator=generator)
    upper = torch.rand(trials, n, dtype=torch.float64, generator=generator)
    lower[:, 0], upper[:, 1] = 0, 0
    epsilon = torch.linspace(0.0, 2.5, trials, dtype=torch.float64)
    root = weights.sqrt()
    p = project_l2(y, epsilon, weights, lower, upper)
    assert ((p * root).norm(dim=1) <= epsilon * (1 + 1e-12)).all() and (p >= lower).all() and (p <= upper).all()
    some = 2 * torch.randn(500, trials, n, dtype=torch.float64, generator=generator)
    z = some.maximum(lower).minimum(upper)
    size = (z * root).norm(dim=2)
    z = z * torch.where(size > epsilon, epsilon / size.clamp_min(1e-300), 1.0)[..., None]  # feasible, if not nearest
    slope = (weights * (y - p) * (z - p)).sum(2)
    assert slope.max() <= 1e-12
    # clipping after scaling is feasible as well, and farther away
    naive = (y * (epsilon / (y * root).norm(dim=1))[:, None]).maximum(lower).minimum(upper)
    gain = ((naive - y) * root).norm(dim=1) - ((p - y) * root).norm(dim=1)
    assert gain.min() >= -1e-12 and gain.max() > 1e-3
    torch.testing.assert_close(project_l2(p, epsilon, weights, lower, upper), p, rtol=1e-12, atol=1e-14)
    free = project_l2(y, epsilon, weights)
    torch.testing.assert_close((free * root).norm(dim=1), epsilon.minimum((y * root).norm(dim=1)))
    cube = project_linf(y, epsilon, lower, upper)
    assert torch.equal(cube, torch.stack([b.clamp(-e, e) for b, e in zip(y, epsilon)]).maximum(lower).minimum(upper))


@pytest.mark.parametrize("norm", ["l2", "linf"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_every_perturbation_is_feasible(norm, dtype):
    grid, least, most = Grid((6, 7)), 0.3, 2.0
    a = (0.31 + fields(grid, 3).abs()).clamp(max=most).to(dtype)
    signs, epsilon = torch.randn(grid.shape, dtype=dtype, generator=torch.Generator().manual_seed(3)), 0.4
    seen = []

    def objective(x):
        seen.append(x.detach().double() - a.double())
        assert float(x.detach().min()) >= least and float(x.detach().max()) <= most and x.dtype == dtype
        return (signs * x.sqrt()).flatten(1).sum(1)

    how = dict(epsilon=epsilon, norm=norm, lower=torch.tensor(least, dtype=dtype), upper=most)
    found = pgd(objective, a, grid, steps=15, restarts=2, seed=0, **how)
    random = random_perturbations(objective, a, grid, samples=10, seed=0, **how)
    assert len(seen) == 2 * 16 + 10
    size = (lambda d: field_norm(d, grid)) if norm == "l2" else (lambda d: d.flatten(1).abs().amax(1))
    slack = 1e-12 if dtype == torch.float64 else 1e-6
    assert max(float(size(d).max()) for d in seen) <= epsilon + slack
    torch.testing.assert_close(found.size, size(found.delta))
    assert (found.size > 0.9 * epsilon).all() and (found.value > random.value).all()
    assert ((a.double() + found.delta).flatten(1).amin(1) < least + 1e-6).all()  # the bound is felt
    with pytest.raises(ValueError, match="below lower=0.5"):
        pgd(objective, a, grid, epsilon=0.1, lower=0.5, seed=0)


def test_sandwich_of_a_nonlinear_operator():
    grid = Grid((8,))
    first, bound1 = linear(grid, grid, seed=1)
    second, bound2 = linear(grid, grid, seed=2)
    operator = lambda x: second(torch.tanh(first(x)))  # noqa: E731
    a = 0.1 * fields(grid, 4)
    certificate = bound1 * bound2
    slope, direction = jacobian_norm(operator, a, grid, seed=0, iterations=300)
    dense = dense_jacobian_norm(operator, a, grid)
    torch.testing.assert_close(slope, dense, rtol=1e-5, atol=0)
    assert (slope <= dense * (1 + 1e-12)).all() and (dense <= certificate).all()
    for epsilon in (0.01, 0.3):
        objective = self_difference(operator, a, grid)
        random = random_perturbations(objective, a, grid, epsilon=epsilon, samples=30, seed=0)
        found = pgd(objective, a, grid, epsilon=epsilon, seed=0, starts=[direction * epsilon])
        assert (random.value < found.value).all() and (found.value <= certificate * epsilon).all()
        assert (found.value >= objective(a + direction * epsilon) * (1 - 1e-12)).all()
    objective = self_difference(operator, a, grid)
    assert (pgd(objective, a, grid, epsilon=1e-5, seed=0).value >= 0.999e-5 * dense).all()
    constant = pgd(objective, a, grid, epsilon=1e-5, seed=0, step=2.5 / 50)  # slower, and as valid
    assert (constant.value >= 0.9e-5 * dense).all() and (constant.value <= certificate * 1e-5).all()


def test_linf_attack_of_a_linear_functional_is_exact():
    grid = Grid((6,))
    c = torch.randn(6, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    a = fields(grid, 2)
    found = pgd(lambda x: (x[:, 0] * c).sum(1), a, grid, epsilon=0.2, norm="linf", steps=5, seed=0)
    expected = (a[:, 0] * c).sum(1) + 0.2 * c.abs().sum()
    torch.testing.assert_close(found.value, expected, rtol=1e-12, atol=0)


def test_steps_follow_the_gradient_of_the_weighted_norm():
    """One step from 0 towards w⁻¹g/‖w⁻¹g‖_w: no direction of the same length in ‖·‖_h does better."""
    grid = Grid((9,))
    c = torch.randn(9, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    a = torch.zeros(1, 1, 9, dtype=torch.float64)
    found = pgd(lambda x: (x[:, 0] * c).sum(1), a, grid, epsilon=1.0, steps=1, step=1.0, restarts=0, starts=[a], seed=0)
    weights = weights_like(grid, a)
    assert float(found.value[0]) == pytest.approx(float((c.square() / weights).sum().sqrt()), rel=1e-12)


def test_solver_objective_has_the_gradient_of_finite_differences():
    grid = Grid((9, 9))
    a = torch.from_numpy(np.exp(0.5 * gaussian_random_field(grid, 2, tau=3, alpha=2, seed=0, modes=12)))[:, None]
    operator = lambda x: 0.05 * torch.sin(3 * x)  # noqa: E731
    objective = distance_to_solver(operator, grid, tol=1e-12)
    direct = field_norm(operator(a) - torch.as_tensor(darcy.solve(a[:, 0].numpy(), grid, tol=1e-12).u)[:, None], grid)
    torch.testing.assert_close(objective(a), direct, rtol=1e-10, atol=0)
    x = a.clone().requires_grad_(True)
    (gradient,) = torch.autograd.grad(objective(x).sum(), x)
    for seed in range(3):
        v = torch.randn(a.shape, dtype=a.dtype, generator=torch.Generator().manual_seed(seed))
        t = 1e-5
        slope = (objective(a + t * v) - objective(a - t * v)) / (2 * t)
        exact = (gradient * v).flatten(1).sum(1)
        assert ((slope - exact).abs() <= 1e-5 * exact.abs()).all()


def test_solver_attack_finds_errors_that_a_fixed_truth_hides():
    grid, least = Grid((9, 9)), 0.2
    a = torch.from_numpy(np.exp(0.5 * gaussian_random_field(grid, 2, tau=3, alpha=2, seed=1, modes=12)))[:, None]
    truth = torch.as_tensor(darcy.solve(a[:, 0].numpy(), grid).u)[:, None]
    constant = lambda x: truth + 0 * x  # noqa: E731   exact at a, and deaf
    assert float(self_difference(constant, a, grid)(1.3 * a).max()) == 0
    assert float(distance_to(constant, truth, grid)(1.3 * a).max()) == 0
    how = dict(epsilon=0.2, lower=least, seed=0)
    found = pgd(distance_to_solver(constant, grid), a, grid, steps=25, restarts=1, **how)
    random = random_perturbations(distance_to_solver(constant, grid), a, grid, samples=20, **how)
    assert (found.value > 2 * random.value).all() and float((a + found.delta).min()) >= least
    # starts of one's own: a smooth perturbation is a better start than white noise
    smooth = pgd(
        distance_to_solver(constant, grid), a, grid, steps=2, restarts=1, start_noise=GaussianFieldNoise(1.0), **how
    )
    assert (smooth.value > random.value).all()


def test_refusals():
    grid = Grid((4,))
    a = torch.ones(1, 1, 4)
    good = lambda x: x.flatten(1).sum(1)  # noqa: E731
    for objective, options, message in (
        (good, dict(epsilon=-1.0), "epsilon=-1.0"),
        (good, dict(epsilon=1.0, norm="l1"), "norm='l1'"),
        (good, dict(epsilon=1.0, steps=0), "steps=0: expected a whole number of at least 1"),
        (good, dict(epsilon=1.0, restarts=0), "at least one start"),
        (good, dict(epsilon=1.0, upper=0.5), "above upper=0.5"),
        (lambda x: x.sum(), dict(epsilon=1.0), r"shape \(\); expected one number a sample"),
        (lambda x: good(x) / 0, dict(epsilon=1.0), "not finite"),
    ):
        with pytest.raises(ValueError, match=message):
            pgd(objective, a, grid, seed=0, **options)
    with pytest.raises(TypeError, match="int64"):
        pgd(good, a.long(), grid, epsilon=1.0, seed=0)
    with pytest.raises(ValueError, match="axes to be the grid"):
        pgd(good, a, Grid((5,)), epsilon=1.0, seed=0)
