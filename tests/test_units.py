"""f(c·fields) = c^n f(fields) for every function that squares or subtracts, from the smallest unit to the largest."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch

from sciops import Grid, spectral
from sciops.arrays.scale import norm_of, power_of_two
from sciops.datasets.fields.normalizers import Normalizer
from sciops.datasets.formats.the_well.folder import _Moments
from sciops.evaluation import correlation, half_widths, paired_verdict, spread
from sciops.evaluation.rollout import frame_errors
from sciops.metrics import METRICS
from sciops.pde import darcy, helmholtz, navier_stokes, poisson, wave
from sciops.pde.darcy import adjoint
from sciops.pde.evolution.step_error import doubling_error
from sciops.resampling import resample
from sciops.robustness import ball_scores, band_scores, field_norm, fraction_scores
from sciops.training.objectives import OBJECTIVES

BOX = Grid((6, 8), centering="periodic")
NODES = Grid((5, 6))
X, Y = np.random.default_rng(1).uniform(0, 1, (2, *NODES.shape))

# units that the squares of a dtype, or for half precision p − u, do not hold; subnormal ones last
UNITS = {
    torch.float16: (1e-3, 2e4, 1e-6),
    torch.bfloat16: (1e-25, 1e30, 1e-38),
    torch.float32: (1e-25, 1e21, 1e30, 1e-41),
    torch.float64: (1e-200, 1e200, 1e-310),
}


def fields():
    """(p, u) of 0.5 to 1.9 with random signs."""
    rng, shape = np.random.default_rng(0), (2, 3, 2, *BOX.shape)
    return torch.from_numpy(rng.uniform(0.5, 1.9, shape) * rng.choice([-1, 1], shape)).unbind(0)


def band(name):
    return lambda p, u: getattr(spectral.band_errors(p, u, BOX), name)


def joined(p, u):
    return torch.complex(*(v.to(torch.promote_types(v.dtype, torch.float32)) for v in (p, u)))


def aliasing(p, u):
    return spectral.aliasing_error(torch.abs, p, BOX, 1, factor=2)


# name → (function of p and u, the power of the unit that its values have)
HOMOGENEOUS = {
    **{name: (partial(metric, grid=BOX), int(name == "max_error")) for name, metric in METRICS.items()},
    **{f"{name} of points": (METRICS[name], 0) for name in ("relative_l2", "relative_l1", "nrmse", "vrmse")},
    "h1 on nodes": (lambda p, u: METRICS["h1"](p[..., :5, :6], u[..., :5, :6], NODES), 0),
    "frame_errors": (lambda p, u: frame_errors(p[None], u[None], ("vrmse",), grid=BOX)["vrmse"], 0),
    "correlation": (partial(correlation, grid=BOX), 0),
    "correlation of points": (correlation, 0),
    "energy_above": (lambda p, u: spectral.energy_above(p, BOX, 2), 0),
    "energy_above, complex": (lambda p, u: spectral.energy_above(joined(p, u), BOX, 2), 0),
    "relative_error of bands": (band("relative_error"), 0),
    "aliasing_error": (aliasing, 0),
    "field_norm": (lambda p, u: field_norm(p, BOX), 1),
    "ball_scores": (partial(ball_scores, grid=BOX), 1),
    "band_scores": (partial(band_scores, grid=BOX), 1),
    "fraction_scores": (partial(fraction_scores, grid=BOX, fraction=0.5), 1),
    "objective relative_l2": (OBJECTIVES["relative_l2"], 0),
    "objective relative_mse": (OBJECTIVES["relative_mse"], 0),
    "objective nrmse": (OBJECTIVES["nrmse"], 0),
    "objective h1": (partial(OBJECTIVES["h1"], grid=BOX), 0),
    "objective relative_gradient": (partial(OBJECTIVES["relative_gradient"], grid=Grid((6, 8))), 0),
}


# name → function of p and u whose values have the unit squared, and are float64 whatever the fields are
POWERS = {
    "power_spectrum": lambda p, u: spectral.power_spectrum(p, BOX).energy,
    "power_spectrum, cosines": lambda p, u: spectral.power_spectrum(p[..., :5, :6], NODES, extension="even").energy,
    "squared_error of bands": band("squared_error"),
    "target_energy of bands": band("target_energy"),
    "prediction_energy of bands": band("prediction_energy"),
    "navier_stokes.energy": lambda p, u: navier_stokes.energy(p, BOX),
    "navier_stokes.enstrophy": lambda p, u: navier_stokes.enstrophy(p, BOX),
    "navier_stokes.palinstrophy": lambda p, u: navier_stokes.palinstrophy(p, BOX),
    "wave.energy": lambda p, u: wave.energy(torch.stack([p, u], 2), BOX, speed=0.7),
    "wave.energy in a medium": lambda p, u: wave.energy(torch.stack([p, u], 2), BOX, speed=np.full(BOX.shape, 0.7)),
}


def compare(functions, dtype, unit, tolerance):
    """Each function of fields in this unit and dtype against itself in float64, in a unit near one."""
    a, b = ((v * unit).to(dtype) for v in fields())
    p, u = (v.double() / unit for v in (a, b))  # with the same roundings
    wrong = {}
    for name, (function, power) in functions.items():
        got, want = function(a, b), torch.as_tensor(function(p, u)).double()
        got = torch.as_tensor(got).double()
        for _ in range(power):  # one by one: unit² may be beyond float64 where the value is not
            got = got / unit
        if not torch.allclose(got, want, rtol=tolerance, atol=1e-3 * tolerance):
            wrong[name] = (got, want)
    assert not wrong


@pytest.mark.parametrize("dtype, unit", [(dtype, unit) for dtype, units in UNITS.items() for unit in units])
def test_errors_and_norms_hold_in_any_unit(dtype, unit):
    subnormal = unit < torch.finfo(dtype).tiny
    digits = {torch.float64: 1e-9 if subnormal else 1e-12, torch.float32: 1e-3 if subnormal else 1e-5}
    compare(HOMOGENEOUS, dtype, unit, digits.get(dtype, 1e-5))


@pytest.mark.parametrize(
    "dtype, unit",
    [*((torch.float32, unit) for unit in (1e-25, 1e21, 1e30)), *((torch.float64, unit) for unit in (1e-140, 1e140))],
)
def test_powers_are_float64_in_units_of_the_field(dtype, unit):
    compare({k: (f, 2) for k, f in POWERS.items()}, dtype, unit, 1e-12 if dtype == torch.float64 else 1e-5)
    assert all(torch.as_tensor(f(*(v.to(dtype) for v in fields()))).dtype == torch.float64 for f in POWERS.values())


@pytest.mark.parametrize("sizes", [(1.0, 1e-25), (1e-25, 1.0), (1e30, 1e-5), (0.0, 1e-25)])
def test_channels_of_very_different_size(sizes):
    """Against the formulas in float64, to which these float32 fields are small numbers."""
    size = torch.tensor(sizes, dtype=torch.float64)[:, None, None]
    u = (fields()[1] * size).float()
    p = u.clone()
    p[:, 1] *= 1.5  # the error is that of the second channel alone
    e, v = p.double() - u.double(), u.double()
    whole = (e.square().sum((1, 2, 3)) / v.square().sum((1, 2, 3))).sqrt()
    each = torch.full_like(whole, 0.25)
    for name, want in {"relative_l2": whole, "relative_mse": whole.square(), "nrmse": each}.items():
        for function in (METRICS[name], OBJECTIVES[name]):
            got = function(p, u, BOX).double()
            torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-37)
    found, wide = (spectral.band_errors(a, b, BOX) for a, b in ((p, u), (p.double(), v)))
    torch.testing.assert_close(found.squared_error, wide.squared_error, rtol=1e-5, atol=0)
    torch.testing.assert_close(found.relative_error, wide.relative_error, rtol=1e-5, atol=0)


def test_a_prediction_far_larger_than_its_target():
    p, u = (torch.full((1, 1, *BOX.shape), value) for value in (1e30, 1.0))
    for name in ("relative_l1", "relative_l2", "h1", "nrmse"):
        assert METRICS[name](p, u, BOX).item() == pytest.approx(1e30, rel=1e-6)
        assert METRICS[name](u, p, BOX).item() == pytest.approx(1.0, rel=1e-6)
    assert OBJECTIVES["relative_l2"](p, u).item() == pytest.approx(1e30, rel=1e-6)
    assert spectral.band_errors(p, u, BOX).relative_error[0, 0].item() == pytest.approx(1e30, rel=1e-6)


def test_one_sample_that_vanishes_and_one_value_beside_a_large_one():
    p, u = (v.float() for v in fields())
    u[1] = 0.0
    assert METRICS["relative_l2"](p, u, BOX).isinf().tolist() == [False, True, False]
    assert not spectral.energy_above(u, BOX, 2)[1].any()
    # the error sits in the smallest value alone
    u[0, 0, 0, 0], u[0, 0, 0, 1] = 1e30, 1e-5
    p = u.clone()
    p[0, 0, 0, 1] = 2e-5
    assert METRICS["relative_l2"](p, u)[0].item() == pytest.approx(1e-35, rel=1e-5)


@pytest.mark.parametrize("unit", [1e-30, 1e-38, 1.0, 1e30])
@pytest.mark.parametrize("name", ["relative_l2", "relative_mse", "nrmse", "h1", "relative_gradient"])
def test_gradients_of_objectives_hold_in_any_unit(name, unit):
    """∂f/∂p has the unit 1/c, and is 0 where the prediction is met."""
    function = OBJECTIVES[name]
    p, u = fields()

    def gradient(p, u):
        p = p.clone().requires_grad_()
        function(p, u, BOX).sum().backward()
        return p.grad

    got = gradient((p * unit).float(), (u * unit).float()).double() * unit
    torch.testing.assert_close(got, gradient(p, u), rtol=1e-3, atol=1e-5)
    assert not gradient((u * unit).float(), (u * unit).float()).any()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_objectives_of_half_precision_are_those_of_float32(dtype):
    p, u = ((v * 2e4).to(dtype) for v in fields())  # p − u is beyond float16
    for name in ("relative_l2", "relative_mse", "nrmse", "h1", "relative_gradient", "mse"):
        q = p.clone().requires_grad_()
        got = OBJECTIVES[name](q, u, BOX)
        torch.testing.assert_close(got, OBJECTIVES[name](p.float(), u.float(), BOX))
        got.sum().backward()
        assert q.grad.dtype == dtype and q.grad.isfinite().all()


# name → (function of the unit of the data, the power of it that the values have)
SOLVES = {
    "darcy.solve by forcing": (lambda c: darcy.solve(1.5 + X, forcing=c * X).u, 1),
    "darcy.solve by walls": (lambda c: darcy.solve(1.5 + X, forcing=0, values={"x": (c, 2 * c)}).u, 1),
    "darcy.solve by coefficient": (lambda c: 1 / darcy.solve(c * (1.5 + X)).u[1:-1, 1:-1], 1),
    "darcy.residual": (lambda c: darcy.residual(c * (1.5 + X), Y / c), 0),
    "darcy.residual by forcing": (lambda c: darcy.residual(1.5 + X, c * Y, forcing=c * X), 0),
    "poisson.solve": (lambda c: poisson.solve(c * X, NODES).u, 1),
    "poisson.residual": (lambda c: poisson.residual(c * X, c * Y, NODES), 0),
    "helmholtz.solve": (lambda c: helmholtz.solve(c * X, NODES, wavenumber=1.0, coefficient=1.5 + X).u, 1),
    "resample": (lambda c: resample(c * X, NODES, Grid((9, 11)), method="cosine"), 1),
}


@pytest.mark.parametrize("unit", [1e-200, 1e-30, 1e200])
@pytest.mark.parametrize("name", SOLVES)
def test_solvers_stop_at_a_relative_residual(name, unit):
    function, power = SOLVES[name]
    np.testing.assert_allclose(np.asarray(function(unit)) / unit**power, function(1.0), rtol=1e-6, atol=1e-14)


def test_walls_that_hold_nothing_refuse_a_mean_in_any_unit():
    f = np.cos(np.pi * np.linspace(0, 1, 9))
    for unit in (1e-200, 1.0, 1e200):
        assert poisson.solve(unit * f, Grid((9,)), boundary="neumann").residual < 1e-12
        with pytest.raises(ValueError, match="has the mean"):
            poisson.solve(unit * (f + 1e-3), Grid((9,)), boundary="neumann")


def test_the_adjoint_of_darcy_flow_in_any_unit():
    """dJ/da of J = Σu has the unit 1/c² of a coefficient c·a."""

    def gradient(unit):
        a = torch.from_numpy(unit * (1.5 + X))[None].requires_grad_()
        (unit * adjoint.solve(a)).sum().backward()
        return a.grad * unit

    for unit in (1e-200, 1e200):
        torch.testing.assert_close(gradient(unit), gradient(1.0), rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("unit", [1e-25, 1e30])
def test_time_stepping_errors_are_relative(unit):
    """Of an equation linear in u: advection and diffusion in float32, with an estimate from longer steps."""
    grid = Grid((16,), centering="periodic")
    x = grid.coordinates()[0]
    fine, double, longest = (torch.from_numpy(np.sin(2 * np.pi * x + s))[None] for s in (0.0, 0.01, 0.09))
    args = [(v * unit).float() for v in (fine, double, longest)]

    def error(fields):
        return doubling_error(*fields, lambda v: 0 * v, 3, expected=8.0)[0]

    torch.testing.assert_close(error(args).double(), error([fine, double, longest]), rtol=1e-3, atol=0)


@pytest.mark.parametrize("unit", [1e-200, 1e200])
def test_statistics_in_any_unit(unit):
    rng = np.random.default_rng(0)
    a, b = rng.uniform(1, 2, (5, 8)), rng.uniform(1, 3, (5, 8))
    near, far = paired_verdict(a, b), paired_verdict(unit * a, unit * b)
    assert near.winner == far.winner
    np.testing.assert_allclose([far.low / unit, far.high / unit], [near.low, near.high], rtol=1e-12)
    np.testing.assert_allclose(half_widths(unit * (a - b)), unit * np.array(half_widths(a - b)), rtol=1e-12)
    one, other = spread(a[0]), spread(unit * a[0])
    np.testing.assert_allclose([other.mean / unit, other.deviation / unit], [one.mean, one.deviation], rtol=1e-12)
    x = rng.standard_normal((4, 2, 8))
    one, other = (_Moments(0), _Moments(0))
    for part in x:  # merged block by block
        one.add(part), other.add(unit * part)
    for name, value in one.results().items():
        assert other.results()[name] / unit == pytest.approx(value, rel=1e-12)
        assert name == "mean" or value == pytest.approx(np.sqrt(np.mean((x - (name == "std") * x.mean()) ** 2)))
    np.testing.assert_allclose(Normalizer.fit(unit * x).std / unit, Normalizer.fit(x).std, rtol=1e-12)


def test_powers_of_two_and_norms():
    v = torch.tensor([[3.0, -5.0], [0.0, 0.0], [torch.inf, 1.0], [1e-42, 0.0], [-3.4e38, 1.0]])
    assert power_of_two(v, 1).flatten().tolist() == [4.0, 1.0, 1.0, 2.0**-126, 2.0**127]
    assert norm_of(torch.tensor([[3e-30, 4e-30]]), 1).item() == pytest.approx(5e-30)
    assert power_of_two(torch.tensor([[3j, 1.0]]), 1).item() == 2.0


def test_empty_batches_and_values_that_are_not_finite():
    none = torch.zeros(0, 2, *BOX.shape)
    assert spectral.power_spectrum(none, BOX).energy.shape[:2] == (0, 2)
    assert len(spectral.band_errors(none, none, BOX).relative_error) == 0 == len(field_norm(none, BOX))
    assert all(len(function(none, none, BOX)) == 0 for function in (METRICS["h1"], OBJECTIVES["h1"]))
    p, u = fields()
    p[0, 0, 0, 0] = torch.nan
    for function in (METRICS["relative_l2"], OBJECTIVES["relative_l2"], OBJECTIVES["h1"]):
        assert function(p, u, BOX).isnan().tolist() == [True, False, False]
    assert spectral.power_spectrum(p, BOX).energy.isnan().all(-1).sum() == 1
