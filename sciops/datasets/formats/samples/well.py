"""Tiny files of The Well, as its format describes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

_SAMPLES, _STATES = 8, 6


def channel(path: Path, *, seed: int = 0) -> None:
    """Decaying vortices in a channel, periodic along x, slipping walls along y, with every kind of field.

    ψ = e^(−2νt) sin(x) sin(y) a on (0, 2π) × (0, π): scalar `tracer`, vector `velocity`, symmetric tensor `strain`, a
    `forcing` without time, a `profile` along y alone that all samples share; ν common, `amplitude` by sample.
    """
    import h5py

    nx, ny, nu = 24, 16, 0.05
    x, y = 2 * np.pi * (np.arange(nx) + 0.5) / nx, np.pi * (np.arange(ny) + 0.5) / ny
    times = 0.5 * np.arange(_STATES)
    a = np.random.default_rng(seed).uniform(0.5, 1.5, _SAMPLES)
    size = np.multiply.outer(a, np.exp(-2 * nu * times))

    def field(fx: np.ndarray, fy: np.ndarray) -> np.ndarray:
        return np.multiply.outer(size, np.multiply.outer(fx, fy))

    sx, cx, sy, cy = np.sin(x), np.cos(x), np.sin(y), np.cos(y)
    stretch, shear = field(cx, cy), np.zeros((_SAMPLES, _STATES, nx, ny))
    strain = np.stack([np.stack([stretch, shear], -1), np.stack([shear, -stretch], -1)], -1)
    with h5py.File(path, "w") as file:
        _root(file, "tiny_channel", 2, {"viscosity": nu})
        _dimensions(file, times, {"x": x, "y": y})
        for name, kind, mask in (("x_periodic", "PERIODIC", nx), ("y_wall", "WALL", ny)):
            _wall(file, name, kind, name[0], mask)
        scalars = {"viscosity": (nu, False, False), "amplitude": (a, True, False)}
        scalars["decay"] = (size[0] / a[0], False, True)
        _scalars(file, scalars)
        t0 = file.create_group("t0_fields")
        _field(t0, "tracer", field(sx, sy), [True, True])
        _field(t0, "forcing", np.multiply.outer(a, np.multiply.outer(cx, sy)), [True, True], time=False)
        _field(t0, "profile", cy, [False, True], sample=False, time=False)
        t1 = file.create_group("t1_fields")
        _field(t1, "velocity", np.stack([field(sx, cy), -field(cx, sy)], -1), [True, True])
        t2 = file.create_group("t2_fields")
        _field(t2, "strain", strain, [True, True])
        t2["strain"].attrs.update({"symmetric": True, "antisymmetric": False})
        for group, names in ((t0, ["tracer", "forcing", "profile"]), (t1, ["velocity"]), (t2, ["strain"])):
            group.attrs["field_names"] = names


def cube(path: Path, *, seed: int = 0) -> None:
    """A decaying wave in a periodic cube: ρ = e^(−k²κt) cos(k·x + φ), its flux −κ∇ρ, κ = 0.1."""
    import h5py

    n, kappa = 16, 0.1
    x = 2 * np.pi * np.arange(n) / n
    times, rng = 0.1 * np.arange(_STATES), np.random.default_rng(seed)
    grid = np.meshgrid(x, x, x, indexing="ij")
    density, flux = [], []
    for _ in range(_SAMPLES):
        k = rng.integers(1, 3, 3)
        theta = sum(one * points for one, points in zip(k, grid)) + rng.uniform(0, 2 * np.pi)
        decay = np.exp(-(k**2).sum() * kappa * times)
        density.append(np.multiply.outer(decay, np.cos(theta)))
        flux.append(np.multiply.outer(np.multiply.outer(decay, np.sin(theta)), kappa * k))
    with h5py.File(path, "w") as file:
        _root(file, "tiny_cube", 3, {"diffusivity": kappa})
        _dimensions(file, times, {"x": x, "y": x, "z": x})
        for axis in "xyz":
            _wall(file, f"{axis}_periodic", "PERIODIC", axis, n)
        _scalars(file, {"diffusivity": (kappa, False, False)})
        t0, t1, t2 = (file.create_group(f"t{i}_fields") for i in range(3))
        _field(t0, "density", np.stack(density), [True] * 3)
        _field(t1, "flux", np.stack(flux), [True] * 3)
        t0.attrs["field_names"], t1.attrs["field_names"], t2.attrs["field_names"] = ["density"], ["flux"], []


def _root(file: Any, name: str, ndim: int, parameters: dict[str, float]) -> None:
    file.attrs["dataset_name"], file.attrs["grid_type"] = name, "cartesian"
    file.attrs["n_spatial_dims"], file.attrs["n_trajectories"] = ndim, _SAMPLES
    file.attrs["simulation_parameters"] = list(parameters)
    file.attrs.update(parameters)


def _dimensions(file: Any, times: np.ndarray, axes: dict[str, np.ndarray]) -> None:
    group = file.create_group("dimensions")
    group.attrs["spatial_dims"] = list(axes)
    for name, values in {"time": times, **axes}.items():
        group[name] = values.astype(np.float32)
        group[name].attrs["sample_varying"], group[name].attrs["time_varying"] = False, name == "time"


def _wall(file: Any, name: str, kind: str, axis: str, n: int) -> None:
    group = file.require_group("boundary_conditions").create_group(name)
    group.attrs["associated_dims"], group.attrs["associated_fields"] = [axis], []
    group.attrs.update({"bc_type": kind, "sample_varying": False, "time_varying": False})
    group["mask"] = np.isin(np.arange(n), (0, n - 1))


def _scalars(file: Any, values: dict[str, tuple[Any, bool, bool]]) -> None:
    group = file.create_group("scalars")
    group.attrs["field_names"] = list(values)
    for name, (value, sample, time) in values.items():
        group[name] = np.asarray(value, np.float32)
        group[name].attrs["sample_varying"], group[name].attrs["time_varying"] = sample, time


def _field(
    group: Any, name: str, values: np.ndarray, along: list[bool], *, sample: bool = True, time: bool = True
) -> None:
    group[name] = values.astype(np.float32)
    group[name].attrs["dim_varying"] = along
    group[name].attrs["sample_varying"], group[name].attrs["time_varying"] = sample, time


SAMPLES = {"the-well": channel, "the-well-3d": cube}
