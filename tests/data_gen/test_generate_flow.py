"""Flow, wave, Poisson and Helmholtz data: the fields obey their equations, and no way of running changes a byte."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import sciops
from data_gen import helmholtz as helmholtz_data
from data_gen import navier_stokes as flow_data
from data_gen import poisson as poisson_data
from data_gen import wave as wave_data
from sciops.datasets.native import content_hash, read_native
from sciops.grids import Grid
from sciops.pde import helmholtz, navier_stokes, poisson
from sciops.pde import wave as wave_equation
from sciops.random_fields import gaussian_random_field

SMALL = {"samples": 5, "chunk": 2, "threads": 1, "progress": False, "seed": 7}
CONFIGS = {
    "poisson": (poisson_data, replace(poisson_data.PRESETS["quick"], **SMALL)),
    "helmholtz": (helmholtz_data, replace(helmholtz_data.PRESETS["quick"], **SMALL)),
    "wave": (wave_data, replace(wave_data.PRESETS["quick"], **SMALL)),
    "navier_stokes": (
        flow_data,
        replace(flow_data.PRESETS["quick"], **SMALL, resolutions=(16, 8), duration=1.0),
    ),
}


def _run(name: str, folder: Path, **changes) -> Path:
    module, config = CONFIGS[name]
    return module.run(replace(config, output=folder / f"{name}.h5", **changes))


def _coefficients(seed: int, number: int, modes: int) -> np.ndarray:
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(number,))).uniform(-1, 1, (modes, modes))


def _sines(x: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Σ weights_ij sin(πix) sin(πjy), the double sum written out."""
    k = np.arange(1, len(weights) + 1)
    return np.einsum("ij,ix,jy->xy", weights, *(np.sin(np.pi * np.outer(k, x)),) * 2)


@pytest.mark.parametrize("name", CONFIGS)
def test_threads_parts_and_shards_give_the_same_bytes(name: str, tmp_path: Path) -> None:
    once = content_hash(_run(name, tmp_path / "once"))
    assert content_hash(_run(name, tmp_path / "threads", threads=3, chunk=5)) == once
    parts = [_run(name, tmp_path / "shards", shard=f"{i}/2") for i in (0, 1)]
    assert parts[0].suffix != ".h5" and content_hash(parts[1]) == once
    assert content_hash(_run(name, tmp_path / "other", seed=8)) != once


def test_poisson_data_are_the_series_of_cno(tmp_path: Path) -> None:
    path = _run("poisson", tmp_path)
    square = np.add.outer(np.arange(1, 17) ** 2, np.arange(1, 17) ** 2).astype(float)
    for n in (33, 17):
        with read_native(path, n) as data:
            assert json.loads(data.attrs["boundary"]) == {"x": "wall", "y": "wall"}
            x = data["x"].values
            for row, number in enumerate(data["sample"].values):
                a = _coefficients(7, int(number), 16)
                np.testing.assert_allclose(data["f"][row], _sines(x, np.pi / 256 * a * square**-0.5), atol=1e-14)
                if n > 17:  # 17 nodes hold 15 of the 16 sines
                    np.testing.assert_allclose(
                        data["u"][row], _sines(x, a * square**-1.5 / (np.pi * 256)), rtol=0, atol=1e-15
                    )
            residual = poisson.residual(data["f"].values, data["u"].values, Grid((n, n)))
            np.testing.assert_allclose(data["residual"], residual, atol=1e-13)
            assert (residual < 1e-12).all()


@pytest.mark.parametrize("boundary", ["neumann", "periodic"])
def test_without_walls_that_hold_it_poisson_data_have_no_mean(boundary: str, tmp_path: Path) -> None:
    path = _run("poisson", tmp_path, boundary=boundary, law="gaussian", resolutions=(24, 16), scheme="finite-volume")
    grid = Grid((24, 24), centering="periodic" if boundary == "periodic" else "node")
    weights = grid.weights()
    with read_native(path, 24) as data:
        assert json.loads(data.attrs["grid"]) == grid.to_dict()
        for name in "fu":
            assert np.abs((weights * data[name].values).sum((1, 2))).max() < 1e-13 * np.abs(data[name]).max()
        rho = poisson.residual(data["f"].values, data["u"].values, grid, boundary=boundary, scheme="finite-volume")
        assert (rho < 1e-11).all()


def test_helmholtz_data_keep_their_wavenumbers_off_the_eigenvalues(tmp_path: Path) -> None:
    path = _run("helmholtz", tmp_path, samples=40, wavenumbers=(5.0, 30.0))
    with read_native(path, 33) as fine, read_native(path, 17) as coarse:
        k = fine["wavenumber"].values
        np.testing.assert_array_equal(k, coarse["wavenumber"])
        np.testing.assert_allclose(coarse["f"], fine["f"][:, ::2, ::2], rtol=0, atol=1e-13)
        levels = np.pi**2 * np.add.outer(np.arange(1, 40) ** 2, np.arange(1, 40) ** 2)
        assert (np.abs(levels.ravel() - k[:, None] ** 2).min(1) >= 0.01 * k**2).all()
        assert 5 < k.min() < 10 and 25 < k.max() < 30
        u = helmholtz.solve(fine["f"].values, Grid((33, 33)), wavenumber=k).u
        np.testing.assert_allclose(fine["u"], u, rtol=0, atol=1e-13 * np.abs(u).max())
    path = _run("helmholtz", tmp_path / "screened", screened=True, law="gaussian")
    with read_native(path, 17) as data:
        u = helmholtz.solve(data["f"].values, Grid((17, 17)), screening=data["screening"].values).u
        np.testing.assert_allclose(data["u"], u, rtol=0, atol=1e-13 * np.abs(u).max())


def test_wave_data_are_the_exact_series_at_every_record(tmp_path: Path) -> None:
    path = _run("wave", tmp_path, duration=2.5, speed=0.3)
    root = np.sqrt(np.add.outer(np.arange(1, 25) ** 2, np.arange(1, 25) ** 2))
    with read_native(path, 33) as data, read_native(path, 17) as coarse:
        np.testing.assert_allclose(data["time"], [0, 0.5, 1, 1.5, 2, 2.5])
        assert json.loads(data.attrs["state"]) == ["u", "v"]
        assert json.loads(data.attrs["parameters"]) == {"speed": 0.3, "damping": 0.0}
        np.testing.assert_allclose(coarse["u"][:, 0], data["u"][:, 0, ::2, ::2], rtol=0, atol=1e-15)
        a = np.pi / 24**2 * _coefficients(7, 3, 24) * root**-2.0
        for step, t in enumerate(data["time"].values):
            phase = 0.3 * np.pi * root * t
            u = _sines(data["x"].values, a * np.cos(phase))
            v = _sines(data["x"].values, -0.3 * np.pi * root * a * np.sin(phase))
            np.testing.assert_allclose(data["u"][3, step], u, rtol=0, atol=1e-14)
            np.testing.assert_allclose(data["v"][3, step], v, rtol=0, atol=1e-14)


def test_waves_in_random_media_are_those_of_the_speed_beside_them(tmp_path: Path) -> None:
    path = _run("wave", tmp_path, contrast=0.3, sines=6, duration=2.0, damping=0.1)
    fine = Grid((33, 33))
    with read_native(path, 33) as data, read_native(path, 17) as less:
        c = data["c"].values
        np.testing.assert_allclose(less["c"], c[:, ::2, ::2], rtol=1e-13)
        assert np.abs(np.log(c / 0.1)).max() < 0.3 * 3**0.5 and 0.2 < np.log(c / 0.1).std() < 0.4
        assert json.loads(data.attrs["parameters"]) == {"damping": 0.1} and data["c"].dims == ("sample", "x", "y")
        state = np.stack([data["u"][:, 0], data["v"][:, 0]], 1)
        u = wave_equation.solve(state, fine, times=data["time"].values, speed=c, damping=0.1).u
        np.testing.assert_allclose(data["u"], u[:, :, 0], rtol=0, atol=1e-12)
        np.testing.assert_allclose(less["u"], u[:, :, 0, ::2, ::2], rtol=0, atol=0.05 * np.abs(u[:, :, 0]).max())
        assert {finding.severity for finding in sciops.validate(path)} <= {"note"}
    again = wave_data.make(replace(CONFIGS["wave"][1], contrast=0.3, sines=6, damping=0.1, duration=2.0), [(3, 5)])
    with read_native(path, 33) as data:
        np.testing.assert_array_equal(again["r33/c"], data["c"][3:5])
        np.testing.assert_array_equal(again["r33/u"], data["u"][3:5])


def test_helmholtz_in_random_media(tmp_path: Path) -> None:
    path = _run("helmholtz", tmp_path, contrast=0.3, wavenumbers=(5.0, 9.0))
    with read_native(path, 33) as data, read_native(path, 17) as less:
        np.testing.assert_allclose(less["a"], data["a"][:, ::2, ::2], rtol=1e-13)
        again = helmholtz.solve(
            data["f"].values,
            Grid((33, 33)),
            wavenumber=data["wavenumber"].values,
            coefficient=data["a"].values,
            tol=1e-11,
        )
        np.testing.assert_allclose(data["u"], again.u, rtol=0, atol=1e-5 * np.abs(again.u).max())
        assert (data["residual"] <= 1e-8).all() and 0.2 < np.log(data["a"]).std() < 0.4


def test_flow_is_solved_on_the_fine_grid_and_given_at_the_points_of_the_others(tmp_path: Path) -> None:
    path = _run("navier_stokes", tmp_path)
    fine = Grid((32, 32), centering="periodic")
    w0 = gaussian_random_field(fine, 5, tau=7.0, alpha=2.5, seed=7, modes=24)
    times = [0.0, 0.5, 1.0]
    options = {"viscosity": 1e-3, "forcing": navier_stokes.li2020_forcing}
    w = navier_stokes.solve(w0, fine, times=times, dt=1 / 16, **options).u
    exact = navier_stokes.solve(w0, fine, times=[1.0], dt=1 / 64, **options).u[:, 0]
    for n, stride in ((16, 2), (8, 4)):
        with read_native(path, n) as data:
            np.testing.assert_allclose(data["time"], times)
            np.testing.assert_allclose(data["w"], w[:, :, ::stride, ::stride], rtol=0, atol=1e-12)
            assert (data["status"] == 0).all() and json.loads(data.attrs["state"]) == ["w"]
            # what the file says of its error is the error
            true = np.linalg.norm(w[:, -1] - exact, axis=(1, 2)) / np.linalg.norm(exact, axis=(1, 2))
            np.testing.assert_allclose(data["error"], true, rtol=0.3)


def test_a_viscosity_for_each_flow(tmp_path: Path) -> None:
    path = _run("navier_stokes", tmp_path, viscosities=(1e-4, 1e-2))
    with read_native(path, 16) as data:
        nu = data["viscosity"].values
        assert len(set(nu)) == 5 and (nu > 1e-4).all() and (nu < 1e-2).all()
        assert json.loads(data.attrs["parameters"]) == {"drag": 0.0}
        config = replace(CONFIGS["navier_stokes"][1], viscosity=float(nu[3]))
        np.testing.assert_array_equal(flow_data.make(config, [(3, 4)])["r16/w"][0], data["w"].values[3])


def test_flow_of_its_own_on_every_grid_starts_from_one_field(tmp_path: Path) -> None:
    path = _run("navier_stokes", tmp_path, labels="solved", resolutions=(24, 12), estimate=False, side=2.0)
    with read_native(path, 24) as fine, read_native(path, 12) as coarse:
        np.testing.assert_allclose(coarse["w"][:, 0], fine["w"][:, 0, ::2, ::2], rtol=0, atol=1e-14)
        assert "error" not in fine
        grid = Grid((12, 12), 2.0, "periodic")
        again = navier_stokes.solve(
            coarse["w"][:, 0].values,
            grid,
            times=coarse["time"].values,
            viscosity=1e-3,
            forcing=navier_stokes.li2020_forcing,
            dt=1 / 16,
        )
        np.testing.assert_allclose(coarse["w"], again.u, rtol=0, atol=1e-12)


def test_the_record_begins_after_the_warm_up(tmp_path: Path) -> None:
    options = {"forcing": "kolmogorov", "waves": 2, "side": 2 * np.pi, "drag": 0.1, "resolutions": (16,)}
    cold = _run("navier_stokes", tmp_path / "cold", **options)
    warm = _run("navier_stokes", tmp_path / "warm", warm_up=0.5, duration=0.5, **options)
    with read_native(cold) as a, read_native(warm) as b:
        np.testing.assert_array_equal(b["time"], [0.0, 0.5])
        np.testing.assert_allclose(b["w"], a["w"][:, 1:], rtol=0, atol=1e-13)


@pytest.mark.filterwarnings("ignore:overflow")
def test_a_flow_that_blows_up_is_named_or_marked(tmp_path: Path) -> None:
    wild = {"strength": 1e4, "viscosity": 0.0, "duration": 4.0}
    with pytest.raises(RuntimeError, match=r"samples? \d.* blew up by t=\d.*--allow-failures"):
        _run("navier_stokes", tmp_path, **wild)
    path = _run("navier_stokes", tmp_path / "allowed", allow_failures=True, **wild)
    with read_native(path, 16) as data:
        failed = data["status"].values == flow_data.STATUS.index("failed")
        assert failed.any()
        np.testing.assert_array_equal(np.isnan(data["w"].values).any((1, 2, 3)), failed)


@pytest.mark.parametrize(
    ("name", "changes", "words"),
    [
        ("navier_stokes", {"solved_on": 20}, "--solved-on 20 --resolutions 16 8: expected a multiple of every"),
        ("navier_stokes", {"duration": 1.3}, "whole number of records"),
        ("navier_stokes", {"viscosity": -1.0}, "--viscosity -1.0"),
        ("navier_stokes", {"warm_up": -1.0}, "--warm-up -1.0"),
        ("navier_stokes", {"dt": 0.0}, "--dt 0.0"),
        ("navier_stokes", {"solved_on": -16}, "--solved-on -16: expected a positive number"),
        ("navier_stokes", {"side": 1.5}, "this forcing has the period 1"),
        ("navier_stokes", {"forcing": "kolmogorov", "waves": 0}, "whole number of waves"),
        ("wave", {"speed": 0.0}, "--speed 0.0"),
        ("wave", {"contrast": -1.0}, "--contrast -1.0: expected between 0, uniform, and 3"),
        ("helmholtz", {"contrast": 4.0}, "--contrast 4.0"),
        ("helmholtz", {"contrast": 0.1, "tol": 0.0}, "--tol 0"),
        ("wave", {"records": 1}, "--records 1"),
        ("wave", {"scheme": "finite-volume"}, "take --scheme spectral"),
        ("poisson", {"boundary": "periodic"}, "--law gaussian"),
        ("helmholtz", {"boundary": "neumann"}, "--law gaussian"),
        ("helmholtz", {"wavenumbers": (3.0, 2.0)}, "the smaller first"),
        ("helmholtz", {"gap": 0.9, "wavenumbers": (20.0, 21.0)}, "leaves next to no wavenumber"),
    ],
)
def test_refusals_come_before_anything_is_written(name: str, changes: dict, words: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=words):
        _run(name, tmp_path, **changes)
    assert not list(tmp_path.rglob("*.h5"))


def test_presets_are_those_of_their_sources() -> None:
    for module, _ in CONFIGS.values():
        assert "quick" in module.PRESETS and len(module.PRESETS) > 1
    law = wave_data.PRESETS["cno2023"]
    assert (law.sines, law.power, law.speed, law.duration, law.boundary) == (24, -1.0, 0.1, 5.0, "dirichlet")
    law = poisson_data.PRESETS["cno2023"]
    assert (law.sines, law.power, law.boundary) == (16, -0.5, "dirichlet")
    law = flow_data.PRESETS["li2020-1e-5"]
    assert (law.viscosity, law.duration, law.tau, law.alpha, law.solved_on) == (1e-5, 20.0, 7.0, 2.5, 256)
