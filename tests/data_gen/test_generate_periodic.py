"""Generators of the periodic equations: one function on every grid, true labels, shards, failures, published laws."""

import importlib
import json
from dataclasses import replace

import numpy as np
import pytest
import torch

import sciops
from data_gen import burgers, fisher_kpp, gray_scott, heat, kuramoto_sivashinsky
from data_gen.kit import evolution
from data_gen.kit.evolution import records
from data_gen.kit.initial_fields import initial_fields
from sciops import Grid, restrict
from sciops.datasets.native import content_hash
from sciops.pde import burgers as burgers_equation
from sciops.pde import gray_scott as gray_scott_equation

NAMES = ("advection", "heat", "burgers", "kdv", "kuramoto_sivashinsky", "fisher_kpp", "gray_scott")
MODULES = {name: importlib.import_module(f"data_gen.{name}") for name in NAMES}


def quick(name, folder, **changes):
    preset = MODULES[name].PRESETS["quick"]
    return replace(preset, **({"samples": 10, "output": folder / f"{name}.h5", "progress": False} | changes))


def groups(path):
    names = [f"r{n}" for n in (64, 32, 16) if _has(path, f"r{n}")]
    return {name: sciops.open_dataset(path, resolution=int(name[1:])) for name in names}


def _has(path, name):
    import h5py

    with h5py.File(path) as file:
        return name in file


def short(name):
    """What is the same after a shorter time."""
    return {
        "gray_scott": {"duration": 40.0},
        "kuramoto_sivashinsky": {"warm_up": 2.0, "duration": 5.0},
        "kdv": {"duration": 2.5},
    }.get(name, {})


@pytest.mark.parametrize("name", NAMES)
def test_nested_labels_are_the_fine_solution_at_the_coarse_points(name, tmp_path):
    config = quick(name, tmp_path, **short(name))
    path = MODULES[name].run(config)
    assert [finding for finding in sciops.validate(path) if finding.severity != "note"] == []
    (_, fine), (_, coarse) = groups(path).items()
    state = json.loads(fine.attrs["state"])
    grids = [Grid.from_dict(json.loads(group.attrs["grid"])) for group in (fine, coarse)]
    np.testing.assert_allclose(fine.time, records(config), rtol=1e-15)
    for variable in state:
        assert fine[variable].dims[:2] == ("sample", "time")
        assert np.array_equal(restrict(fine[variable].values, *grids), coarse[variable].values)
        assert np.isfinite(fine[variable].values).all()
    assert fine.attrs["task"] == "trajectory" and fine.attrs["equation"] == name
    assert json.loads(fine.attrs["boundary"])["x"] == "periodic"


@pytest.mark.parametrize("name", NAMES)
def test_solved_labels_start_from_one_function_and_answer_to_their_own_grid(name, tmp_path):
    changes = short(name) | {"labels": "solved", "samples": 4, "validation": 1, "test": 1, "warm_up": 0.0}
    config = quick(name, tmp_path, **changes)
    module = MODULES[name]
    made = module.make(config, [(0, 4)])
    sizes = config.resolutions
    grids = [Grid((n,), centering="periodic") for n in sizes]
    for variable in ("A", "B") if name == "gray_scott" else ("u",):
        starts = [made[f"r{n}/{variable}"][:, 0] for n in sizes]
        if name != "gray_scott":  # its waves of 32² values lose modes on 16²
            np.testing.assert_allclose(restrict(starts[0], *grids), starts[1], atol=1e-12)
    alone = module.make(replace(config, resolutions=sizes[1:]), [(0, 4)])
    for key in alone:
        np.testing.assert_allclose(made[key], alone[key], rtol=1e-6 if "error" in key else 1e-11, atol=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_a_sample_does_not_depend_on_its_part(name, tmp_path):
    config = quick(name, tmp_path, **short(name))
    together = MODULES[name].make(config, [(0, 10)])
    some = MODULES[name].make(config, [(2, 4), (7, 8)])
    for key, values in some.items():
        np.testing.assert_array_equal(values, together[key][[2, 3, 7]])


def test_threads_share_the_samples_and_change_no_bit(tmp_path, monkeypatch):
    monkeypatch.setattr(evolution, "_MOST_SAMPLES", 3)
    config, seen, solve = quick("gray_scott", tmp_path, duration=40.0), [], gray_scott_equation.solve

    def watched(u0, *arguments, **options):
        seen.append((len(u0), torch.get_num_threads()))
        return solve(u0, *arguments, **options)

    monkeypatch.setattr(gray_scott_equation, "solve", watched)
    alone, shared = (gray_scott.make(replace(config, threads=n), [(0, 7), (9, 10)]) for n in (1, 3))
    assert all(np.array_equal(alone[key], shared[key]) for key in alone)
    assert seen == [(3, 1)] * 8  # 0 … 8 and 9 … 11, twice: every block as a whole


def test_shards_make_the_file_of_one_run(tmp_path):
    whole = burgers.run(quick("burgers", tmp_path, chunk=3))
    for shard in ("0/2", "1/2"):
        burgers.run(quick("burgers", tmp_path, chunk=3, shard=shard, output=tmp_path / "shards.h5"))
    assert content_hash(whole) == content_hash(tmp_path / "shards.h5")


def test_the_states_solve_the_equation_from_the_first_one(tmp_path):
    config = quick("burgers", tmp_path)
    made = burgers.make(config, [(0, 10)])
    grid = Grid((128,), 1.0, "periodic")
    u0 = initial_fields(config, grid, [(0, 10)])
    solution = burgers_equation.solve(u0, grid, times=records(config), viscosity=0.01, dt=1e-3)
    difference = restrict(solution.u, grid, Grid((64,), 1.0, "periodic")) - made["r64/u"]
    assert np.abs(difference).max() < 1e-6 and made["r64/error"].max() < 1e-6
    assert np.array_equal(made["r64/u"][:, 0], restrict(u0, grid, Grid((64,), 1.0, "periodic")))


def test_a_warm_up_is_left_out_of_the_record(tmp_path):
    config = quick("kuramoto_sivashinsky", tmp_path, samples=3, duration=5.0, warm_up=5.0)
    late = kuramoto_sivashinsky.make(config, [(0, 3)])["r64/u"]
    whole = kuramoto_sivashinsky.make(replace(config, warm_up=0.0, duration=10.0), [(0, 3)])["r64/u"]
    np.testing.assert_allclose(late, whole[:, 5:], atol=1e-11)


def test_heat_of_an_exponential_and_on_two_axes(tmp_path):
    config = replace(heat.PRESETS["brandstetter2022"], resolutions=(64, 32), warm_up=0.0)
    u0 = heat.make(config, [(0, 5)])["r64/u"][:, 0]
    waves = initial_fields(config, Grid((64,), config.length, "periodic"), [(0, 5)])
    np.testing.assert_allclose(u0, np.exp(10 * (2 * waves - 1)), rtol=1e-13)
    plane = replace(heat.PRESETS["plane"], resolutions=(32,), samples=3)
    made = heat.make(plane, [(0, 3)])
    assert made["r32/u"].shape == (3, 11, 32, 32)
    decay = np.abs(np.fft.rfft2(made["r32/u"])[:, :, 1, 0])
    np.testing.assert_allclose(decay[:, 1:] / decay[:, :-1], np.exp(-0.01 * 4 * np.pi**2 * 0.1), rtol=1e-10)


def test_failures_are_named_or_marked(tmp_path):
    wild = quick("burgers", tmp_path, sigma=2e4, viscosity=1e-4, dt=0.1, every=0.5, estimate=False)
    with pytest.raises(
        RuntimeError, match=r"samples 0, 1.* blew up by t=\d.*; pass a smaller --dt, or --allow-failures"
    ):
        burgers.run(wild)
    kept = sciops.open_dataset(burgers.run(replace(wild, allow_failures=True)), resolution=64)
    failed = kept.status.values == 1
    assert failed.any() and np.isnan(kept.u.values[failed]).all() and np.isfinite(kept.u.values[~failed]).all()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (dict(every=0.3), "--duration 1.0 --every 0.3: expected a whole number of records"),
        (dict(duration=-1.0), "--duration -1.0: expected a finite number above 0"),
        (dict(warm_up=-1.0), "--warm-up -1.0: expected a finite number of at least 0"),
        (dict(dt=0.0), "--dt 0.0: expected a finite number above 0"),
        (dict(solved_on=96), "--solved-on 96 --resolutions 64 32: expected a multiple of every resolution"),
        (dict(viscosity=-1.0), "viscosity=-1.0"),
        (dict(terms=0, law="waves"), "terms=0"),
        (dict(resolutions=(64, 64)), "expected different sizes"),
        (dict(order=7), "order=7"),
    ],
)
def test_refusals(changes, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        burgers.run(quick("burgers", tmp_path, **changes))
    assert not (tmp_path / "burgers.h5").exists()


@pytest.mark.parametrize(
    ("name", "coefficient", "option"),
    [
        ("burgers", "viscosity", "viscosities"),
        ("heat", "diffusivity", "diffusivities"),
        ("advection", "velocity", "velocities"),
    ],
)
def test_a_coefficient_for_each_sample(name, coefficient, option, tmp_path):
    """The file has it, the solutions are of it, validation solves with it, and other samples do not change it."""
    module, interval = MODULES[name], (0.004, 0.1)
    config = quick(name, tmp_path, samples=40, **{option: interval})
    path = module.run(config)
    assert [finding for finding in sciops.validate(path) if finding.severity != "note"] == []
    data = sciops.open_dataset(path, resolution=64)
    values = data[coefficient].values
    assert (values > interval[0]).all() and (values < interval[1]).all()
    middle = np.log(interval).mean()
    assert abs(np.log(values).mean() - middle) < 0.5 and np.log(values).std() == pytest.approx(0.93, abs=0.25)
    assert coefficient not in json.loads(data.attrs["parameters"])
    one = {coefficient: float(values[7]), option: None}
    alone = module.make(replace(config, **one), [(7, 8)])
    np.testing.assert_allclose(alone["r64/u"][0], data["u"].values[7], atol=1e-12)
    np.testing.assert_array_equal(module.make(config, [(7, 9)])[f"r64/{coefficient}"], values[7:9])
    with pytest.raises(ValueError, match=f"{coefficient} between 1 and 0.1: expected two positive numbers, low first"):
        module.run(replace(config, **{option: (1.0, 0.1)}))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (dict(axes=2), "--law waves: waves have one axis and the box 2; take --law gaussian"),
        (dict(axes=4, law="gaussian"), "--axes 4: expected 1, 2 or 3"),
        (dict(solved_on=0), "--solved-on 0: expected a positive number"),
    ],
)
def test_refusals_of_heat(changes, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        heat.run(quick("heat", tmp_path, **changes))


def test_unknown_patterns_are_refused(tmp_path):
    with pytest.raises(ValueError, match="--patterns stars: expected of gliders"):
        gray_scott.run(quick("gray_scott", tmp_path, patterns=("spots", "stars")))


def test_presets_hold_what_the_benchmarks_publish():
    """Samples, points, records, end of the record, as their papers and programs state them."""
    want = {
        ("advection", "pdebench"): (10000, 1024, 201, 2.0),
        ("burgers", "pdebench"): (10000, 1024, 201, 2.0),
        ("fisher_kpp", "pdebench"): (10000, 1024, 101, 1.0),
        ("burgers", "li2020"): (1300, 8192, 2, 1.0),
        ("burgers", "neuraloperator"): (1000, 128, 17, 0.96),
        ("kdv", "brandstetter2022"): (1536, 256, 140, 100.0),
        ("kdv", "brandstetter2022-easy"): (1536, 256, 140, 50.0),
        ("kuramoto_sivashinsky", "brandstetter2022"): (1536, 256, 140, 100.0),
        ("heat", "brandstetter2022"): (1536, 256, 140, 18.0),
        ("gray_scott", "the_well"): (1200, 128, 1001, 10000.0),
    }
    for (name, preset), (samples, points, count, end) in want.items():
        config = MODULES[name].PRESETS[preset]
        assert (config.samples, max(config.resolutions), len(records(config))) == (samples, points, count)
        assert config.warm_up + config.duration == pytest.approx(end, rel=1e-12)
        assert records(config)[1] == pytest.approx(config.every, rel=1e-12)


def test_fisher_starts_between_nought_and_one():
    config = replace(fisher_kpp.PRESETS["pdebench"], resolutions=(256,))
    u = fisher_kpp.make(config, [(0, 20)])["r256/u"]
    assert u.min() > -1e-3 and u.max() < 1 + 1e-3
    mean = u.astype(np.float64).mean(2)
    assert (np.diff(mean, axis=1) > 0).all()  # 0 < u < 1 grows everywhere


def test_the_law_of_the_public_burgers_file(real_data):
    """Root mean squares of the coefficients of u0, mode by mode: 800 of theirs, 800 of ours, and the law."""
    theirs = torch.load(real_data / "burgers_train_16.pt", weights_only=True)["x"].numpy()
    config = burgers.PRESETS["neuraloperator"]
    ours = initial_fields(config, Grid((16,), 1.0, "periodic"), [(0, 800)])
    size = [np.sqrt((np.abs(np.fft.rfft(u)) ** 2).mean(0))[1:6] for u in (theirs, ours)]
    np.testing.assert_allclose(size[1] / size[0], 1, atol=0.12)  # each right to 2.5 per cent: 3 deviations
    law = 625 * ((2 * np.pi * np.arange(1, 6)) ** 2 + 25) ** -2.0 * 16
    np.testing.assert_allclose(size[0] / law, 1, atol=0.08)


def test_species_of_the_well():
    config = gray_scott.PRESETS["the_well"]
    fine, coarse = Grid((64, 64), (-1, 1), "periodic"), Grid((32, 32), (-1, 1), "periodic")
    for law in ("gaussians", "waves"):
        chosen = replace(config, law=law)
        a, b = (gray_scott.initial_species(chosen, grid, [(0, 12)]) for grid in (fine, coarse))
        assert a.shape == (12, 2, 64, 64)
        np.testing.assert_allclose(a[:, :, ::2, ::2], b, atol=1e-12)
        if law == "gaussians":
            assert a.min() > -0.05 and a.max() < 1.05
    both = gray_scott.initial_species(config, coarse, [(0, 12)])
    assert np.array_equal(both[:6], gray_scott.initial_species(replace(config, law="gaussians"), coarse, [(0, 6)]))
    assert np.array_equal(both[6:], gray_scott.initial_species(replace(config, law="waves"), coarse, [(6, 12)]))


def test_waves_lie_about_a_steady_state_of_the_kinetics():
    for feed, kill in gray_scott_equation.PATTERNS.values():
        (a, _), (b, _) = gray_scott._steady_state(feed, kill)
        np.testing.assert_allclose([-a * b * b + feed * (1 - a), a * b * b - (feed + kill) * b], 0, atol=1e-15)


def test_rates_go_round_the_patterns(tmp_path):
    config = quick("gray_scott", tmp_path, patterns=("spots", "maze"), samples=5, duration=20.0)
    made = gray_scott.make(config, [(0, 5)])
    assert made["r32/feed"].tolist() == [0.03, 0.029, 0.03, 0.029, 0.03]
    assert made["r16/kill"].tolist() == [0.062, 0.057, 0.062, 0.057, 0.062]
