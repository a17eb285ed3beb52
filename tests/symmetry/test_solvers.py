"""Elements that a data set of ours allows map solutions onto solutions of its solver, and the others do not."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch

from data_gen import (
    advection,
    burgers,
    darcy,
    fisher_kpp,
    gray_scott,
    heat,
    helmholtz,
    kdv,
    kuramoto_sivashinsky,
    navier_stokes,
    poisson,
    wave,
)
from sciops import pde
from sciops.datasets import FieldDataset, TrajectoryDataset, build_dataset, open_dataset
from sciops.grids import Grid
from sciops.symmetry import Symmetry, elements_of

SQUARE = {str(e) for e in elements_of("square", 2)} - {"(x, y) → (x, y)"}
SWAP, UPSIDE_DOWN, TURNED = "(x, y) → (y, x)", "(x, y) → (x, −y)", "(x, y) → (−x, −y)"
MIRROR = {"x → −x"}


def checked(data, solve, allowed: set[str], tolerance: float) -> None:
    """`data` allows the elements `allowed` alone, and solve(g x) = g y for them and for no other.

    solve : (channels, *grid) → (channels, *grid), both float64
    """
    one, grid, symmetry = data.batch([0]), data.grid, data.symmetry
    x, y = one["x"], one["y"]
    scale = float(y.abs().max())
    assert float((solve(x[0]) - y[0]).abs().max()) <= tolerance * scale  # it is this problem
    bare = Symmetry(symmetry.inputs, symmetry.outputs)  # what the channels become, whether allowed or not
    for element in elements_of("square", grid.ndim):
        if element.is_identity:
            continue
        reason = symmetry.reason(element, grid)
        assert (reason is None) == (str(element) in allowed), (str(element), reason)
        moved, expected = bare.move(x, element, grid), bare.move(y, element, grid, "outputs")
        off = float((solve(moved[0]) - expected[0]).abs().max()) / scale
        assert off <= tolerance if reason is None else off > 1e-3, (str(element), off)


def generated(module, folder, **options):
    config = replace(module.PRESETS["quick"], samples=1, validation=0, test=0, progress=False, **options)
    return module.run(replace(config, output=folder / "data.h5"))


def small(module, folder, **options):
    """Trajectories of a periodic equation: 16 points per axis, two records."""
    given = {"resolutions": (16,), "duration": 0.2, "every": 0.2, **options}
    if hasattr(module.PRESETS["quick"], "solved_on"):
        given.setdefault("solved_on", 16)
    return TrajectoryDataset(generated(module, folder, **given), dtype=torch.float64)


def steady(path, *inputs):
    return FieldDataset(path, inputs=inputs, dtype=torch.float64)


@pytest.mark.parametrize(
    ("walls", "anisotropy", "inputs", "allowed"),
    [
        ("zero", 1.0, ("a",), SQUARE),
        ("zero", 10.0, ("a_x", "a_y"), SQUARE),
        ("flow_cell", 1.0, ("a",), {UPSIDE_DOWN}),
        ("flow_cell", 10.0, ("a_x", "a_y"), {UPSIDE_DOWN}),
        ("five_spot", 1.0, ("a",), {SWAP}),
        ("five_spot", 1.0, ("a", "f"), SQUARE),
        ("five_spot", 10.0, ("a_x", "a_y"), {SWAP}),
    ],
)
def test_darcy_presets(tmp_path, capsys, walls, anisotropy, inputs, allowed):
    forcing = 0.0 if walls == "flow_cell" else 1.0
    law = {"law": "lognormal", "resolutions": (9,), "modes": 5, "tol": 1e-11}
    path = generated(darcy, tmp_path, walls=walls, anisotropy=anisotropy, forcing=forcing, **law)
    data = steady(path, *inputs)

    def solve(x):
        f = x[1] if "f" in inputs else darcy.wells(data.grid) if walls == "five_spot" else forcing
        a = x[:2] if anisotropy != 1 else x[0]
        given = darcy._WALLS[walls] | {"tensor": anisotropy != 1, "mean": "project", "tol": 1e-11}
        return pde.darcy.solve(a, data.grid, forcing=f, **given).u[None]

    checked(data, solve, allowed, 1e-8)


RAMP, BUMP = np.linspace(0, 1, 9), np.sin(np.pi * np.linspace(0, 1, 9))
ALL = {"(x, y) → (−x, y)", UPSIDE_DOWN, TURNED}


@pytest.mark.parametrize(
    ("walls", "allowed"),
    [
        ({"boundary": ["neumann", "dirichlet"]}, ALL),
        ({"boundary": {"x": ("dirichlet", "neumann"), "y": ("dirichlet", "neumann")}}, {SWAP}),
        ({"boundary": {"x": ("neumann", "dirichlet"), "y": ("dirichlet", "neumann")}}, {"(x, y) → (−y, −x)"}),
        ({"values": 2.0}, SQUARE),
        ({"values": {"x": (1.0, 0.0), "y": (0.0, 1.0)}}, {"(x, y) → (−y, −x)"}),
        ({"values": {"x": (RAMP, RAMP)}}, {"(x, y) → (−x, y)"}),
        ({"values": {"x": (RAMP, RAMP[::-1])}}, {TURNED}),
        ({"values": {"x": (BUMP, BUMP), "y": (BUMP, BUMP)}}, SQUARE),
        ({"boundary": {"x": "robin"}, "transfer": {"x": 2.0}, "flux": {"x": (1.0, 0.0)}}, {UPSIDE_DOWN}),
        ({"boundary": "robin", "transfer": 3.0}, SQUARE),
        ({"boundary": {"x": ("dirichlet", "neumann"), "y": "neumann"}, "flux": {"x": 1.0}}, {UPSIDE_DOWN}),
    ],
    ids=lambda value: "" if isinstance(value, set) else "-".join(value),
)
@pytest.mark.parametrize("centering", ["node", "cell"])
def test_darcy_walls(walls, allowed, centering):
    """Whatever the file says of its sides, as `sciops.pde.darcy.solve` takes it and the attribute `walls` stores it."""
    grid = Grid((9, 9), centering=centering)
    a = np.exp(np.random.default_rng(0).standard_normal((1, 9, 9)))

    def solve(a):
        return torch.as_tensor(pde.darcy.solve(a[0], grid, **walls, tol=1e-11, backend="direct").u)[None]

    fields = {"a": (("sample", "x", "y"), a, {}), "u": (("sample", "x", "y"), solve(torch.from_numpy(a)).numpy(), {})}
    stored = json.dumps(walls, default=np.ndarray.tolist)
    data = steady(build_dataset(fields, grid, layout="native", equation="darcy", forcing=1.0, walls=stored), "a")
    checked(data, solve, allowed, 1e-8)


@pytest.mark.parametrize("boundary", ["dirichlet", "neumann", "periodic"])
def test_poisson_helmholtz_and_waves_with_media(tmp_path, capsys, boundary):
    law = {"boundary": boundary, "law": "gaussian", "modes": 5, "resolutions": (8 if boundary == "periodic" else 9,)}
    data = steady(generated(poisson, tmp_path / "poisson", **law), "f")
    given = {"boundary": boundary, "scheme": "spectral", "mean": "project"}
    checked(data, lambda f: pde.poisson.solve(f[0], data.grid, **given).u[None], SQUARE, 1e-10)

    path = generated(helmholtz, tmp_path / "helmholtz", contrast=0.4, **law)
    with open_dataset(path) as held:
        k, a = float(held["wavenumber"][0]), torch.from_numpy(held["a"].values)

    def helmholtz_of(x, a=None):
        given = {"wavenumber": k, "boundary": boundary, "tol": 1e-10}
        return pde.helmholtz.solve(x[0], data.grid, coefficient=x[1] if a is None else a[0], **given).u[None]

    checked(steady(path, "f", "a"), helmholtz_of, SQUARE, 1e-6)
    checked(steady(path, "f"), partial(helmholtz_of, a=a), set(), 1e-6)  # the medium is not an input

    path = generated(wave, tmp_path / "wave", contrast=0.4, records=2, **law)
    with_medium = TrajectoryDataset(path, inputs=("c",), dtype=torch.float64)

    def wave_of(x):
        solved = pde.wave.solve(x[:2], data.grid, speed=x[2], times=[0.0, 5.0], boundary=boundary)
        return torch.as_tensor(solved.u)[-1]

    checked(with_medium, wave_of, SQUARE, 1e-8)


@pytest.mark.parametrize(
    ("forcing", "allowed"), [("none", SQUARE), ("kolmogorov", {TURNED}), ("li2020", set())], ids=("none", "k", "li")
)
def test_vorticity_and_its_forcing(tmp_path, capsys, forcing, allowed):
    options = {"forcing": forcing, "waves": 2, "strength": 3.0, "modes": 4, "duration": 0.5, "every": 0.5, "dt": 1 / 32}
    data = small(navier_stokes, tmp_path, **options)
    given = {"times": [0.5], "viscosity": 1e-3, "dt": 1 / 32}
    f = navier_stokes._forcing(navier_stokes.NavierStokesConfig(forcing=forcing, waves=2))
    checked(data, lambda w: pde.navier_stokes.solve(w[0], data.grid, forcing=f, **given).u, allowed, 1e-9)


def test_gray_scott(tmp_path, capsys):
    data = small(gray_scott, tmp_path, duration=20.0, every=20.0)
    with open_dataset(data.path) as held:
        rates = {name: float(held[name][0]) for name in ("feed", "kill")}
    given = {"times": [20.0], "diffusivity": (4e-4, 2e-4), **rates}
    checked(data, lambda u: pde.gray_scott.solve(u, data.grid, **given).u[0], SQUARE, 1e-9)


@pytest.mark.parametrize(
    ("module", "allowed", "given"),
    [
        (burgers, MIRROR, {"viscosity": 0.01, "dt": 1 / 250}),  # (x, u) → (−x, −u)
        (kuramoto_sivashinsky, MIRROR, {}),  # as Burgers
        (kdv, set(), {}),  # u_xxx changes its sign with (x, u) → (−x, −u)
        (heat, MIRROR, {}),
        (fisher_kpp, MIRROR, {}),
        (advection, set(), {}),  # a velocity is a direction
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_one_axis(tmp_path, capsys, module, allowed, given):
    data = small(module, tmp_path)
    name = module.__name__.split(".")[-1]
    with open_dataset(data.path) as held:
        given = json.loads(held.attrs.get("parameters", "{}")) | given
    dt = {"dt": module.PRESETS["quick"].dt} if hasattr(module.PRESETS["quick"], "dt") else {}
    start = getattr(module.PRESETS["quick"], "warm_up", 0.0)
    assert start == 0.0 or name == "kuramoto_sivashinsky"
    solve = getattr(pde, name).solve
    checked(data, lambda u: solve(u[0], data.grid, times=[0.2], **dt | given).u, allowed, 1e-7)


def test_a_velocity_that_is_a_channel_turns_round(tmp_path, capsys):
    path = generated(advection, tmp_path, resolutions=(16,), velocities=(0.4, 0.5), duration=0.2, every=0.2)
    data = TrajectoryDataset(path, parameters=("velocity",), dtype=torch.float64)
    solve = lambda x: pde.advection.solve(x[0], data.grid, times=[0.2], velocity=float(x[1, 0])).u  # noqa: E731
    checked(data, solve, MIRROR, 1e-9)
    assert TrajectoryDataset(path).symmetry.vectors == {"velocity": (1.0,)}
