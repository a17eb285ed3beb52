"""Anisotropy that changes from place to place: lines smoothed both ways, in two forms, instead of a direct solve."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sciops.grids import Grid
from sciops.pde import darcy
from sciops.pde.darcy import five_point as scheme
from sciops.pde.darcy.batched import multigrid as mg
from sciops.pde.darcy.batched.lines import Zebra

D, N, R = "dirichlet", "neumann", "robin"
BOTH = pytest.mark.parametrize("backend", ["numba", "torch"])


def halves(n: int, ratio: float = 1e3) -> np.ndarray:
    """a_x/a_y = ratio in one half of the domain and 1/ratio in the other."""
    a = np.ones((2, n, n))
    a[0, : n // 2], a[1, n // 2 :] = ratio, ratio
    return a


def turning(field, n: int, strength: float) -> np.ndarray:
    g = np.log(field("lognormal1", n, 1)[0])
    return np.exp(np.stack([strength * g, -strength * g]))


@pytest.mark.parametrize("n", range(1, 14))
def test_cyclic_reduction_solves_every_second_line(n):
    rng = np.random.default_rng(n)
    for lines in (1, 2, 5):
        c = torch.from_numpy(np.exp(3 * rng.standard_normal((2, lines, n))))
        c[..., -1] = 0.0
        d = c.clone()
        d[..., 1:] += c[..., :-1]
        d += torch.from_numpy(np.exp(3 * rng.standard_normal((2, lines, n))))
        r, u = torch.from_numpy(rng.standard_normal((2, 2, lines, n)))
        zebra, before = Zebra.of(d, c), u.clone()
        matrix = torch.diag_embed(d) - torch.diag_embed(c[..., :-1], 1) - torch.diag_embed(c[..., :-1], -1)
        expected = torch.linalg.solve(matrix, r[..., None])[..., 0]
        zebra.add(1, r, u)
        assert torch.equal(u[:, ::2], before[:, ::2])
        zebra.add(0, r, u)
        assert (u - before - expected).abs().max() <= 1e-12 * expected.abs().max()
        kept = zebra.select(torch.tensor([True, False]))
        u = torch.zeros(1, lines, n).double()
        kept.add(0, r[:1], u)
        assert (u[:, ::2] - expected[:1, ::2]).abs().max() <= 1e-12 * expected.abs().max()


@pytest.mark.parametrize("kinds", [scheme.DIRICHLET, ((D, N), (N, N)), ((N, N), (N, N))])
@pytest.mark.parametrize("shape", [(33, 33), (18, 41), (4, 30), (30, 5)])
def test_the_cycle_is_symmetric_and_positive(kinds, shape):
    rng = np.random.default_rng(0)
    a, axes = torch.from_numpy(np.exp(3 * rng.standard_normal((1, 2, *shape)))), scheme.axes_of(Grid(shape), kinds)
    closed = kinds == ((N, N), (N, N))
    hierarchy = mg.build(*scheme.conductances(scheme.padded(a, axes), axes), torch.float64, singular=closed, lines=True)
    level = hierarchy.levels[0]

    def inverse(x):
        f = torch.zeros_like(level.inverse)
        level.square(f)[:, 1:-2, 1:-2] = torch.from_numpy(x)
        return level.square(mg.cycle(hierarchy, f))[0, 1:-2, 1:-2].numpy()

    x, y = rng.standard_normal((2, axes[0].size, axes[1].size))
    if closed:
        x, y = x - x.mean(), y - y.mean()
    Bx, By = inverse(x), inverse(y)
    assert (Bx * x).sum() > 0 and (By * y).sum() > 0
    assert abs((Bx * y).sum() - (By * x).sum()) <= 1e-10 * np.sqrt((Bx * x).sum() * (By * y).sum())


@pytest.mark.parametrize("kinds", [scheme.DIRICHLET, ((D, N), (N, N)), ((N, N), (N, N))])
@pytest.mark.parametrize("shape", [(33, 33), (18, 41), (4, 30), (30, 5)])
def test_both_forms_take_the_same_steps(kinds, shape, monkeypatch):
    """To rounding: the first guess, one iteration and more. Samples are kept as they are, without the direct solve."""
    from sciops.pde.darcy import engines

    monkeypatch.setattr(engines, "_status", lambda rho, floor, tol, word: np.full(len(rho), "ok", dtype="<U16"))
    rng = np.random.default_rng(1)
    a, f = np.exp(3 * rng.standard_normal((2, 2, *shape))), rng.standard_normal(shape)
    options = dict(tensor=True, forcing=f, mean="project", boundary={"x": kinds[0], "y": kinds[1]}, tol=1e-13)
    for steps in (1, 3):
        one, other = (darcy.solve(a, backend=b, max_iterations=steps, **options) for b in ("numba", "torch"))
        assert (one.iterations == steps).all() and (other.iterations == steps).all()
        assert np.abs(one.u - other.u).max() <= 1e-8 * np.abs(other.u).max()


@BOTH
def test_anisotropy_that_turns_stays_with_multigrid(backend, field):
    for n in (33, 65, 130):
        for name, a, ceiling in [
            ("halves", halves(n), 14),
            ("smooth", turning(field, n, 2.0), 20),
        ]:
            solution = darcy.solve(a, tensor=True, backend=backend, on_failure="flag")
            assert solution.status in ("ok", "floor_limited") and solution.method == f"multigrid-{backend}", (n, name)
            assert solution.iterations <= ceiling, (n, name, solution.iterations)


@pytest.mark.parametrize(
    "options",
    [
        {"boundary": {"x": (D, N), "y": N}, "values": {"x": (2.0, 0)}},
        {"boundary": N, "mean": "project", "forcing": np.random.default_rng(0).standard_normal((60, 60))},
        {"boundary": R, "transfer": 3.0},
    ],
    ids=["mixed", "closed", "robin"],
)
def test_every_wall(options):
    a = halves(60)
    direct = darcy.solve(a, tensor=True, tol=1e-10, backend="direct", on_failure="flag", **options).u
    for backend in ("numba", "torch"):
        solution = darcy.solve(a, tensor=True, tol=1e-10, backend=backend, on_failure="flag", **options)
        assert solution.method == f"multigrid-{backend}" and solution.iterations <= 26
        assert np.abs(solution.u - direct).max() <= 1e-7 * np.abs(direct).max()


@BOTH
def test_a_small_region_that_turns_is_tried_with_lines_when_points_fail(backend):
    """Too little of the domain for the rule, enough to stop point smoothing; nothing is left to the direct solve."""
    a = np.ones((2, 100, 100))
    a[0, 40:50, 5:15], a[1, 50:60, 5:15] = 1e5, 1e5
    pair = np.stack([a, np.ones((2, 100, 100))])
    solution = darcy.solve(pair, tensor=True, backend=backend, max_iterations=25)
    assert (solution.status == "ok").all() and (solution.method == f"multigrid-{backend}").all()
    assert 25 < solution.iterations[0] <= 45 and solution.iterations[1] <= 8
    direct = darcy.solve(a, tensor=True, backend="direct").u
    assert np.abs(solution.u[0] - direct).max() <= 1e-6 * np.abs(direct).max()


def test_samples_smoothed_in_different_ways_do_not_see_each_other(field):
    plain = np.stack([field("4", 50, 1)[0], field("lognormal1", 50, 1)[0]])
    a = np.stack([halves(50), plain, turning(field, 50, 2.0), 50 * plain])
    whole = darcy.solve(a, tensor=True, backend="numba")
    assert (whole.status == "ok").all()
    back = darcy.solve(a[::-1], tensor=True, backend="numba", threads=2)
    assert np.array_equal(back.u[::-1], whole.u)
    for i in range(4):
        assert np.array_equal(darcy.solve(a[i], tensor=True, backend="numba").u, whole.u[i])
    torch_too = darcy.solve(a, tensor=True, backend="torch")
    assert np.abs(torch_too.u - whole.u).max() <= 1e-6 * np.abs(whole.u).max()
