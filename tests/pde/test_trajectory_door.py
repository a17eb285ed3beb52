"""The time loop: output times, steps, the estimate against the true error, batches, kinds, refusals, blow-up."""

import numpy as np
import pytest
import torch

from sciops import Grid
from sciops.pde.evolution.fourier import FourierSpace
from sciops.pde.evolution.trajectory import evolve, evolve_exactly
from sciops.pde.inputs import constant, initial, output_times

GRID = Grid((32,), 2 * np.pi, "periodic")
X = GRID.coordinates()[0]
FIELDS = np.stack([np.sin(X) + 0.2, np.cos(2 * X) - 0.4 * np.sin(X + 1), 0.7 + 0 * X])


def burgers(u0, times, **options):
    start = initial(u0, GRID)
    space = FourierSpace(GRID, start.field)
    d, mask = space.cast(space.derivative()), space.mask(2)
    options = dict(dt=0.01, linear=0.1 * space.laplacian) | options
    return evolve(
        start,
        space,
        times=times,
        nonlinear=lambda v: -0.5 * d * mask * space.forward(space.inverse(mask * v) ** 2),
        **options,
    )


def test_output_times_do_not_change_the_solution():
    """Times on multiples of the step give the states of one long run; the field at 0 is u0 itself."""
    many = burgers(FIELDS, np.linspace(0, 1, 11))
    assert many.u.shape == (3, 11, 32) and many.steps == 100 and many.dt == pytest.approx(0.01)
    assert np.array_equal(many.u[:, 0], FIELDS)
    for j in (3, 10):
        np.testing.assert_allclose(burgers(FIELDS, [many.times[j]]).u[:, 0], many.u[:, j], atol=1e-14)
    uneven = burgers(FIELDS, [0.013, 0.5, 1.0])
    assert uneven.steps == 2 + 49 + 50 and uneven.dt == pytest.approx(0.01)
    np.testing.assert_allclose(uneven.u[:, 1:], many.u[:, [5, 10]], atol=1e-9)


def test_steps_are_at_most_dt_and_as_few_as_can_be():
    assert burgers(FIELDS, [1.0], dt=0.3).steps == 4
    assert burgers(FIELDS, [1.0], dt=0.3).dt == 0.25
    assert burgers(FIELDS, [0.0], dt=0.3).steps == 0
    assert burgers(FIELDS, [0.1, 0.2, 0.3], dt=0.1).steps == 3


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_the_estimate_is_the_error(order):
    exact = burgers(FIELDS, [1.0], dt=1 / 1000).u[:, -1]
    got = burgers(FIELDS, [0.3, 1.0], dt=1 / 50, order=order, estimate=True)
    error = np.linalg.norm(got.u[:, -1] - exact, axis=1) / np.linalg.norm(exact, axis=1)
    np.testing.assert_allclose(got.error[:2], error[:2], rtol=0.15)
    assert got.error.shape == (3,) and got.error[2] < 1e-15  # a constant field stays as it is
    assert burgers(FIELDS, [1.0]).error is None


def test_a_sample_does_not_depend_on_its_batch():
    together = burgers(FIELDS, [0.5, 1.0], estimate=True)
    for i in range(3):
        alone = burgers(FIELDS[i], [0.5, 1.0], estimate=True)
        assert alone.u.shape == (2, 32) and np.ndim(alone.error) == 0
        np.testing.assert_allclose(alone.u, together.u[i], atol=1e-14)
        np.testing.assert_allclose(alone.error, together.error[i], rtol=1e-3, atol=1e-15)


def test_kinds_precisions_and_gradients():
    want = burgers(FIELDS, [1.0])
    got = burgers(torch.from_numpy(FIELDS), torch.tensor([1.0]))
    assert isinstance(got.u, torch.Tensor) and np.array_equal(got.u.numpy(), want.u)
    single = burgers(FIELDS.astype(np.float32), [1.0])
    assert single.u.dtype == np.float32
    np.testing.assert_allclose(single.u, want.u, atol=2e-5)
    assert burgers(np.rint(FIELDS).astype(int), [0.0]).u.dtype == np.float64
    u0 = torch.tensor(FIELDS, requires_grad=True)
    burgers(u0, [0.2], dt=0.05).u[:, 0].square().sum().backward()
    h, direction = 1e-6, np.cos(3 * X)
    ends = [(burgers(FIELDS + s * h * direction, [0.2], dt=0.05).u ** 2).sum() for s in (1, -1)]
    assert float((u0.grad.numpy() * direction).sum()) == pytest.approx((ends[0] - ends[1]) / (2 * h), rel=1e-6)


def test_exact_propagators_see_the_whole_time():
    start = initial(FIELDS, GRID)
    space = FourierSpace(GRID, start.field)
    got = evolve_exactly(
        start, space, times=[0, 2.0], at=lambda v, t: v * space.cast(torch.exp(0.1 * t * space.laplacian))
    )
    assert np.array_equal(got.u[:, 0], FIELDS) and (got.dt, got.steps, got.error) == (0.0, 0, None)
    np.testing.assert_allclose(got.u[0, 1], 0.2 + np.exp(-0.2) * np.sin(X), atol=1e-15)


def test_blow_up_names_sample_time_and_remedy():
    rough = np.stack([FIELDS[2], 400 * FIELDS[0]])
    with pytest.raises(RuntimeError, match=r"sample 1 is not finite at t=\S+ with steps of 0.25; pass a smaller dt"):
        burgers(rough, [100.0], dt=0.25)
    with pytest.raises(RuntimeError, match="sample 0 and 1 more"):
        burgers(rough[[1, 1]], [100.0], dt=0.25)
    late = burgers(FIELDS, [100.0], dt=0.5, estimate=True)
    assert np.isfinite(late.u).all()


def test_a_flagged_sample_says_when_and_leaves_the_others_alone():
    rough, times = np.stack([FIELDS[0], 400 * FIELDS[0], FIELDS[1]]), [0.0, 1.0, 2.0]
    got = burgers(rough, times, dt=0.25, on_failure="flag", estimate=True)
    assert got.failed_at[1] in times and np.isnan(got.failed_at[[0, 2]]).all()
    assert np.isnan(got.u[1]).all() and got.error[1] == np.inf
    alone = burgers(rough[[0, 2]], times, dt=0.25)
    assert alone.failed_at is None
    np.testing.assert_allclose(got.u[[0, 2]], alone.u, atol=1e-14)
    assert burgers(rough[1], times, dt=0.25, on_failure="flag").failed_at == got.failed_at[1]


def test_a_coarse_run_that_blows_up_makes_the_estimate_infinite():
    fast = 12 * FIELDS[:1]
    steps = next(n for n in range(8, 200, 2) if _survives(fast, 1 / n))
    got = burgers(fast, [2.0], dt=1 / steps, estimate=True)
    assert np.isfinite(got.u).all() and got.error[0] > 1e-3 and got.error[0] != np.finfo(np.float64).max


def _survives(u0, dt):
    try:
        return bool(np.isfinite(burgers(u0, [2.0], dt=dt, estimate=True).u).all())
    except RuntimeError:
        return False


@pytest.mark.parametrize(
    ("arguments", "options", "error", "message"),
    [
        ((FIELDS, [1.0]), dict(dt=0.0), ValueError, "dt=0.0: expected a positive number"),
        ((FIELDS, [1.0]), dict(dt=-1), ValueError, "dt=-1"),
        ((FIELDS, [1.0]), dict(dt=np.nan), ValueError, "dt=nan"),
        ((FIELDS, [1.0]), dict(dt=1e-12), ValueError, "takes 1.0e.12 steps; pass a larger dt"),
        ((FIELDS, [1.0]), dict(order=5), ValueError, "order=5: expected 1, 2, 3 or 4"),
        ((FIELDS, [1.0, 0.5]), {}, ValueError, r"times=\[1.0, 0.5\]: expected increasing times"),
        ((FIELDS, [-1.0]), {}, ValueError, "from 0 on"),
        ((FIELDS, [np.nan]), {}, ValueError, "expected finite numbers, such as times"),
        ((FIELDS, []), {}, ValueError, "expected finite numbers, such as times"),
        ((FIELDS, "soon"), {}, ValueError, "times='soon': expected finite numbers, such as times"),
        ((FIELDS[:, :16], [1.0]), {}, ValueError, r"shape \(3, 16\); expected its last axes to be the grid"),
        ((FIELDS[None], [1.0]), {}, ValueError, r"expected \(batch, 32\) or \(32\)"),
        ((FIELDS[:0], [1.0]), {}, ValueError, r"u0 has shape \(0, 32\): expected at least one sample"),
        ((FIELDS + 1j, [1.0]), {}, TypeError, "complex128; expected float32 or float64"),
        ((torch.zeros(32, dtype=torch.bfloat16), [1.0]), {}, TypeError, "bfloat16"),
        ((np.where(X < 0.1, np.nan, FIELDS), [1.0]), {}, ValueError, r"u0\[0, 0\] = nan: expected finite"),
    ],
)
def test_refusals(arguments, options, error, message):
    with pytest.raises(error, match=message):
        burgers(*arguments, **options)


def test_fields_before_the_grid():
    u0 = np.stack([FIELDS, 2 * FIELDS], 1)
    start = initial(u0, GRID, fields=2)
    assert start.field.shape == (3, 2, 32) and not start.single and initial(u0[0], GRID, fields=2).single
    with pytest.raises(ValueError, match=r"expected \(batch, 2, 32\) or \(2, 32\)"):
        initial(FIELDS, GRID, fields=2)
    with pytest.raises(ValueError, match="2 axes: this equation is solved on 1"):
        initial(np.zeros((4, 4)), Grid((4, 4), centering="periodic"), axes=(1,))


def test_constants_are_numbers_or_one_a_sample():
    start = initial(FIELDS, GRID)
    assert constant(0.1, "viscosity", start, above=0).shape == (1, 1)
    assert constant(torch.tensor([1.0, 2, 3]), "viscosity", start).shape == (3, 1)
    for value, message in (
        (0.0, r"viscosity=0.0: expected a finite number above 0"),
        ([1.0, 2.0], r"viscosity has shape \(2,\); expected a number, or one for each of 3 samples"),
        (np.nan, "viscosity=nan"),
    ):
        with pytest.raises(ValueError, match=message):
            constant(value, "viscosity", start, above=0)


def test_times_are_float64_from_any_kind():
    assert output_times(3).tolist() == [3.0] and output_times(torch.tensor([0.0, 2.0])).dtype == np.float64
