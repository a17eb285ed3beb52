"""What `solve` promises: true residuals, the right solution, invariances, statuses, errors that name the culprit."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import torch
from scipy.sparse.linalg import spsolve

from sciops.grids import Grid
from sciops.pde import darcy

BOTH = pytest.mark.parametrize("backend", ["numba", "torch"])
KINDS = ["4", "100", "1e4", "lognormal1", "lognormal3"]


@BOTH
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(65, 65), (40, 71)])
def test_residual_and_solution_against_an_independent_matrix(reference_matrix, field, kind, shape, backend):
    grid = Grid(shape)
    a = np.ascontiguousarray(field(kind, 71, 2)[:, : shape[0], : shape[1]])
    solution = darcy.solve(a, grid, backend=backend)
    assert (solution.status == "ok").all() and (solution.residual <= 1e-8).all()
    for i in range(2):
        A, area = reference_matrix(a[i], grid)
        b, u = area.ravel(), solution.u[i, 1:-1, 1:-1].ravel()
        rho = np.linalg.norm(b - A @ u) / np.linalg.norm(b)
        assert abs(rho - solution.residual[i]) <= max(1e-3 * rho, 4 * solution.floor[i])
        exact = spsolve(A.tocsc(), b)
        assert np.abs(u - exact).max() <= 1e-8 * np.abs(exact).max()
    assert np.allclose(darcy.residual(a, solution.u, grid), solution.residual, rtol=1e-3, atol=4 * solution.floor.max())


@pytest.mark.parametrize("kind", ["4", "100", "1e4", "lognormal1", "lognormal3"])
def test_maximum_principle(field, kind):
    """f = 1 ⇒ u > 0 inside; f ≥ 0 in one corner alone as well."""
    a = field(kind, 85, 2)
    assert (darcy.solve(a).u[:, 1:-1, 1:-1] > 0).all()
    corner = np.zeros((85, 85))
    corner[1:20, 1:20] = 1.0
    assert (darcy.solve(a, forcing=corner, tol=1e-11, on_failure="flag").u[:, 1:-1, 1:-1] > 0).all()


def test_a_stiffer_medium_is_less_compliant(field):
    """a₁ ≤ a₂ everywhere ⇒ ∫u₁ ≥ ∫u₂ for f = 1."""
    low = field("4", 64, 3)
    high = low * np.where(field("4", 64, 3, seed=9) > 1, 3.0, 1.0)
    assert (darcy.solve(low).u.sum((1, 2)) > darcy.solve(high).u.sum((1, 2))).all()


@BOTH
def test_the_two_forms_and_the_direct_one_agree(field, backend):
    for n in (12, 34, 85, 100):
        a = field("100", n, 2)
        mine, direct = darcy.solve(a, backend=backend), darcy.solve(a, backend="direct")
        assert np.abs(mine.u - direct.u).max() <= 2e-9 * direct.u.max()
        assert (direct.method == "direct").all() and (direct.status == "ok").all() and (direct.iterations == 0).all()


def test_numba_and_torch_take_the_same_steps(field):
    for kind in ("4", "lognormal1"):
        a = field(kind, 90, 3)
        one, other = (darcy.solve(a, backend=b, tol=1e-6) for b in ("numba", "torch"))
        assert (one.iterations == other.iterations).all()
        assert np.allclose(one.residual, other.residual, rtol=1e-2)
        assert np.abs(one.u - other.u).max() <= 1e-9 * one.u.max()


@BOTH
def test_invariances(field, backend):
    a = field("100", 50, 2)
    f = np.random.default_rng(0).standard_normal((50, 50))

    def u(a, f, tol=1e-10):
        return darcy.solve(a, forcing=f, tol=tol, backend=backend).u

    base = u(a, f)
    size = np.abs(base).max()
    assert np.abs(u(a.transpose(0, 2, 1), f.T).transpose(0, 2, 1) - base).max() <= 1e-9 * size
    assert np.abs(u(7e-9 * a, f) * 7e-9 - base).max() <= 1e-12 * size
    assert np.abs(u(3e30 * a, 1e-200 * f) * 3e230 - base).max() <= 1e-12 * size
    assert np.array_equal(u(1024.0 * a, f) * 1024.0, base)  # powers of two are exact
    assert np.abs(u(a, 1e-30 * f) * 1e30 - base).max() <= 1e-12 * size
    assert np.abs(u(a, 2 * f - 1) - (2 * base - u(a, np.ones((50, 50))))).max() <= 1e-8 * size


def test_extent_scales_the_solution(field):
    """Lengths times L: u times L² (f fixed)."""
    a = field("4", 40, 1)
    u = darcy.solve(a, tol=1e-10).u
    for L in (8.0, 1e-5):
        assert np.abs(darcy.solve(a, Grid((40, 40), L), tol=1e-10).u - L**2 * u).max() <= 1e-10 * L**2 * u.max()


def test_a_sample_does_not_see_its_batch_bitwise(field):
    a = np.concatenate([field("4", 60, 3), field("1e4", 60, 2), field("lognormal1", 60, 2)])
    whole = darcy.solve(a, backend="numba")
    for threads in (1, 2, 5):
        backwards = darcy.solve(a[::-1], backend="numba", threads=threads)
        assert np.array_equal(backwards.u[::-1], whole.u)
        assert np.array_equal(backwards.residual[::-1], whole.residual)
    for i in range(len(a)):
        assert np.array_equal(darcy.solve(a[i], backend="numba").u, whole.u[i])


def test_a_sample_does_not_see_its_batch_in_torch(field):
    a = np.concatenate([field("4", 60, 3), field("1e4", 60, 2), field("lognormal1", 60, 2)])
    whole = darcy.solve(a, backend="torch")
    assert (whole.residual <= 1e-8).all()
    for i in range(len(a)):
        alone = darcy.solve(a[i], backend="torch")
        assert np.abs(alone.u - whole.u[i]).max() <= 1e-9 * whole.u[i].max()
        assert alone.iterations == whole.iterations[i]


@BOTH
def test_three_nodes_are_exact(backend):
    """One unknown: u = h² f / Σ 2 a a' / (a + a')."""
    a = np.random.default_rng(0).random((5, 3, 3)) + 0.1
    centre = a[:, 1, 1]
    d = sum(2 * centre * q / (centre + q) for q in (a[:, 0, 1], a[:, 2, 1], a[:, 1, 0], a[:, 1, 2]))
    solution = darcy.solve(a, forcing=3.0, backend=backend)
    assert np.allclose(solution.u[:, 1, 1], 0.25 * 3.0 / d, rtol=4e-15, atol=0)
    assert (solution.iterations <= 1).all() and np.count_nonzero(solution.u) == 5


@BOTH
def test_constant_coefficient_converges_in_few_steps(backend):
    for n in (4, 5, 6, 7, 8, 9, 12, 34, 64, 100, 422):
        assert darcy.solve(np.ones((n, n)), backend=backend).iterations <= 8


def test_finished_samples_stand_still_until_they_are_looked_at(field, monkeypatch):
    a = np.concatenate([field("4", 60, 3), field("1e4", 60, 2)])
    often = darcy.solve(a, backend="torch")
    monkeypatch.setattr("sciops.pde.darcy.batched.multigrid._unseen", lambda device: 3)
    seldom = darcy.solve(a, backend="torch")
    assert len(set(often.iterations)) > 1 and (often.iterations == seldom.iterations).all()
    assert np.abs(often.u - seldom.u).max() <= 1e-12 * often.u.max()


@pytest.mark.parametrize(("kind", "ceiling"), [("4", 7), ("100", 11), ("lognormal1", 7), ("lognormal3", 8)])
def test_iteration_ceilings(field, kind, ceiling):
    for n in (33, 34, 85, 129, 211, 421):
        solution = darcy.solve(field(kind, n, 4))
        assert (solution.residual <= 1e-8).all() and (solution.iterations <= ceiling).all(), (n, solution.iterations)


@BOTH
def test_no_forcing_is_no_solution(backend, field):
    f = np.zeros((3, 20, 20))
    f[1] = 1.0
    solution = darcy.solve(field("4", 20, 3), forcing=f, backend=backend)
    assert (solution.u[[0, 2]] == 0).all() and (solution.residual[[0, 2]] == 0).all()
    assert (solution.iterations[[0, 2]] == 0).all() and (solution.status == "ok").all()
    assert solution.iterations[1] > 0


@pytest.mark.parametrize("shape", [(3, 1200), (1200, 3), (5, 700)])
def test_strips(reference_matrix, shape):
    """Grids with hardly more than one row of unknowns, spacings far apart."""
    a = np.exp(np.random.default_rng(0).standard_normal(shape))
    A, area = reference_matrix(a, Grid(shape))
    exact = spsolve(A.tocsc(), area.ravel())
    for backend in ("numba", "torch"):
        solution = darcy.solve(a, backend=backend)
        assert solution.residual <= 1e-8 and solution.status in ("ok", "fallback_ok")
        assert np.abs(solution.u[1:-1, 1:-1].ravel() - exact).max() <= 1e-7 * exact.max()


@BOTH
def test_pixel_noise_ends_in_the_direct_solve(field, backend):
    a = np.concatenate([field("pixels", 64, 2), field("4", 64, 1)])
    solution = darcy.solve(a, backend=backend)
    assert list(solution.status) == ["fallback_ok", "fallback_ok", "ok"]
    assert list(solution.method) == ["direct", "direct", f"multigrid-{backend}"]
    assert (solution.residual <= 1e-8).all()
    assert np.allclose(darcy.residual(a, solution.u), solution.residual, rtol=1e-2, atol=solution.floor.max())


@BOTH
def test_mild_noise_and_channels_need_no_help(backend):
    rng = np.random.default_rng(0)
    noise = np.exp(2 * rng.standard_normal((1, 100, 100)))
    channels = np.ones((1, 100, 100))
    channels[:, ::8] = channels[:, :, ::8] = 1e4
    blocks = np.kron(np.where(rng.random((1, 7, 7)) > 0.5, 1e4, 1.0), np.ones((1, 16, 16)))[:, :100, :100]
    solution = darcy.solve(np.concatenate([noise, channels, blocks]), backend=backend)
    assert (solution.residual <= 1e-8).all()
    assert list(solution.status[:2]) == ["ok", "ok"]


@BOTH
def test_contrast_of_a_million_meets_the_floor(field, backend):
    a = field("1e6", 421, 1)
    with pytest.warns(RuntimeWarning, match="sample 0: residual"):
        solution = darcy.solve(a, backend=backend)
    assert solution.status[0] == "floor_limited"
    assert 1e-8 < solution.residual[0] <= 2 * solution.floor[0] < 1e-6
    assert darcy.solve(a, backend=backend, tol=4 * solution.floor[0]).status[0] == "ok"


@pytest.mark.parametrize("backend", ["numba", "torch", "direct"])
def test_a_contrast_beyond_float64_fails_whatever_the_engine(field, backend):
    """1e8 + 1e-8 = 1e8: what stands in the better conductor is lost, and near its floor u leaves more than u = 0."""
    a = np.where(field("2", 64, 2) > 1.5, 1e8, 1e-8)
    a[1] = np.where(a[1] > 1, 100.0, 1.0)
    solution = darcy.solve(a, backend=backend, on_failure="flag")
    assert list(solution.status) == ["failed", "ok"] and np.isnan(solution.u[0]).all()
    with pytest.raises(darcy.SolverError, match=r"sample 0 did not converge: .* contrast 1e\+16"):
        darcy.solve(a, backend=backend)


def test_floor_predicts_what_rounding_the_exact_solution_does(reference_matrix, field):
    """Half an ulp of noise on u changes the residual by about the floor."""
    a = field("100", 100, 1)
    solution = darcy.solve(a, tol=1e-12)
    u = solution.u * (1 + np.finfo(float).eps * np.random.default_rng(0).uniform(-1, 1, solution.u.shape))
    noise = darcy.residual(a, u)[0]
    assert 0.2 * solution.floor[0] < noise < 3 * solution.floor[0]


def test_failure_raises_or_flags_naming_the_sample(field, monkeypatch):
    from sciops.pde.darcy import engines

    a = np.concatenate([field("4", 40, 1), field("pixels", 40, 1), field("4", 40, 1)])
    useless = (torch.zeros(1, 38, 38).double(), torch.ones(1).double(), torch.zeros(1).double())
    monkeypatch.setattr(engines, "_direct", lambda problem, part: useless)
    with pytest.raises(darcy.SolverError, match=r"sample 1 did not converge: residual .* contrast 1e\+04"):
        darcy.solve(a)
    flagged = darcy.solve(a, on_failure="flag")
    assert list(flagged.status) == ["ok", "failed", "ok"] and flagged.residual[1] > 1e-8
    assert np.isnan(flagged.u[1]).all() and np.isfinite(flagged.u[[0, 2]]).all()


def test_fallback_serves_a_low_ceiling(field):
    solution = darcy.solve(field("100", 60, 2), max_iterations=2)
    assert (solution.status == "fallback_ok").all() and (solution.iterations == 2).all()
    assert (solution.residual <= 1e-8).all()


def test_kinds_of_input(field):
    a = field("4", 30, 2)
    u = darcy.solve(a).u
    assert u.dtype == np.float64 and isinstance(u, np.ndarray)
    as_torch = darcy.solve(torch.from_numpy(a))
    assert isinstance(as_torch.u, torch.Tensor) and as_torch.iterations.dtype == torch.int64
    assert np.array_equal(as_torch.u.numpy(), u) and np.array_equal(as_torch.residual.numpy(), darcy.solve(a).residual)
    assert np.array_equal(darcy.solve(a.astype(np.int64)).u, u)
    assert np.array_equal(darcy.solve(a.astype(np.float32)).u, u)  # 1 and 4 are exact in float32
    frozen = a.copy()
    frozen.flags.writeable = False
    assert np.array_equal(darcy.solve(frozen).u, u)
    wide = np.ones((2, 60, 60))
    wide[:, ::2, ::2] = a
    assert np.array_equal(darcy.solve(wide[:, ::2, ::2]).u, u)
    assert np.array_equal(darcy.solve(a, forcing=np.ones((30, 30))).u, u)
    assert np.array_equal(darcy.solve(a, forcing=np.ones((2, 30, 30), dtype=bool)).u, u)
    assert darcy.solve(a[:0]).u.shape == (0, 30, 30)
    single = darcy.solve(a[1])
    assert np.array_equal(single.u, u[1]) and single.status == "ok" and float(single.residual) <= 1e-8


def test_input_is_not_changed_and_no_graph_is_kept(field):
    a = torch.from_numpy(field("4", 30, 1)).requires_grad_()
    before = a.detach().clone()
    assert not darcy.solve(a).u.requires_grad and torch.equal(a.detach(), before)


def test_residual_is_differentiable_in_u(field):
    a = torch.from_numpy(field("4", 12, 1))
    u = darcy.solve(a).u.mul(1.1).requires_grad_()
    darcy.residual(a, u).sum().backward()
    assert torch.isfinite(u.grad).all() and u.grad[:, 1:-1, 1:-1].abs().max() > 0
    assert darcy.residual(a, u.detach())[0] == pytest.approx(0.1, rel=1e-6)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param({(1, 2, 3): 0.0}, r"a\[1, 2, 3\] = 0: expected a positive finite number", id="zero"),
        pytest.param({(0, 9, 9): -1.5}, r"a\[0, 9, 9\] = -1.5", id="negative"),
        pytest.param({(1, 0, 0): np.nan}, r"a\[1, 0, 0\] = nan", id="nan"),
        pytest.param({(0, 4, 4): np.inf}, r"a\[0, 4, 4\] = inf", id="inf"),
    ],
)
def test_bad_coefficients_are_named(change, message):
    a = np.ones((2, 10, 10))
    for index, value in change.items():
        a[index] = value
    with pytest.raises(ValueError, match=message):
        darcy.solve(a)


def test_bad_calls_say_what_was_expected(field):
    a = field("4", 10, 2)
    f = np.ones((10, 10))
    f[3, 4] = np.nan
    for call, message in [
        (lambda: darcy.solve(a, forcing=f), r"forcing\[3, 4\] = nan"),
        (lambda: darcy.solve(a, forcing=np.inf), "forcing.* = inf"),
        (lambda: darcy.solve(a, forcing=np.ones((9, 10))), r"expected a number, \(10, 10\), or \(2, 10, 10\)"),
        (lambda: darcy.solve(a, forcing=np.ones((3, 10, 10))), "expected a number"),
        (lambda: darcy.solve(a[:, None]), r"drop the channel with a\[:, 0\]"),
        (lambda: darcy.solve(a[0, 0]), r"a has shape \(10,\)"),
        (lambda: darcy.solve(a[:, :2]), "at least 3 nodes"),
        (lambda: darcy.solve(a, Grid((10, 11))), r"expected its last axes to be the grid \(10, 11\)"),
        (lambda: darcy.solve(a, Grid((10, 10), centering="periodic")), "periodic"),
        (lambda: darcy.solve(a > 1), "map an indicator to its two values"),
        (lambda: darcy.solve(a, backend="cuda"), "expected 'auto', 'numba', 'torch', 'direct'"),
        (lambda: darcy.solve(a, tol=0), "tol=0"),
        (lambda: darcy.solve(a, on_failure="ignore"), "'raise' or 'flag'"),
        (lambda: darcy.solve(a, threads=0), "threads=0"),
        (lambda: darcy.solve(a, threads="two"), "threads='two'"),
        (lambda: darcy.solve(a, max_iterations=None), "max_iterations=None"),
        (lambda: darcy.solve(a, max_iterations=np.inf), "max_iterations=inf"),
        (lambda: darcy.solve(a, max_iterations=0), "max_iterations=0"),
    ]:
        with pytest.raises(ValueError, match=message):
            call()
    with pytest.raises(TypeError, match="real numbers"):
        darcy.solve(a * 1j)


def test_missing_numba_is_named_and_torch_serves(field, monkeypatch):
    a = field("4", 20, 1)
    monkeypatch.setitem(sys.modules, "sciops.pde.darcy.compiled.batch", None)
    with pytest.raises(ImportError, match=r'pip install "sciops\[fast\]"'):
        darcy.solve(a, backend="numba")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert darcy.solve(a).method[0] == "multigrid-torch"


def test_concurrent_calls(field):
    """Several callers at once, as a data loader or a scheduler would: the same numbers."""
    from concurrent.futures import ThreadPoolExecutor

    a = field("4", 50, 6)
    expected = darcy.solve(a, backend="numba").u
    with ThreadPoolExecutor(3) as pool:
        for u in pool.map(lambda _: darcy.solve(a, backend="numba", threads=2).u, range(6)):
            assert np.array_equal(u, expected)


@pytest.mark.gpu
def test_device_is_kept_and_agrees(field):
    a = np.concatenate([field("100", 85, 8), field("pixels", 85, 1)])
    solution = darcy.solve(torch.from_numpy(a).cuda())
    cpu = darcy.solve(a, backend="torch")
    assert solution.u.is_cuda and solution.residual.is_cuda and (solution.residual <= 1e-8).all()
    assert list(solution.status) == list(cpu.status)
    assert np.abs(solution.u.cpu().numpy() - cpu.u).max() <= 1e-8 * np.abs(cpu.u).max()
    with pytest.raises(ValueError, match="runs on the CPU"):
        darcy.solve(torch.ones(5, 5).cuda(), backend="numba")


def test_a_sample_that_overflows_leaves_its_neighbours_what_they_are():
    """In a batch of which a thread takes many at a time, and with samples that are coarsened in another way between."""
    rng = np.random.default_rng(5)
    a = np.exp(rng.standard_normal((12, 2, 20, 24)))
    a[3, 0] *= 1e3  # halved along one axis alone
    a[7, :, ::2] = 1e-300  # a/(p + q) leaves the range of the numbers that the levels are stored in
    both = darcy.solve(a, tensor=True, backend="numba", on_failure="flag", threads=1)
    for i in range(len(a)):
        alone = darcy.solve(a[i], tensor=True, backend="numba", on_failure="flag", threads=1)
        assert np.array_equal(alone.u, both.u[i], equal_nan=True) and alone.status == both.status[i]
    assert both.status[7] != "ok" and set(np.delete(both.status, 7)) == {"ok"}
