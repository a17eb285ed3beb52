"""Tiny files of plain arrays: MATLAB, torch, NumPy, as their programs write them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

_SAMPLES, _POINTS = 8, 16


def li2020(path: Path, *, seed: int = 0) -> None:
    """`coeff` and `sol` single, as scipy and MATLAB's save -v7 write them; 17 nodes, walls on the grid."""
    import scipy.io

    coeff, sol = darcy_fields(seed, np.linspace(0, 1, 17))
    scipy.io.savemat(path, {"coeff": coeff, "sol": sol}, appendmat=False)


def li2020_hdf5(path: Path, *, seed: int = 0) -> None:
    """The same as MATLAB's save -v7.3."""
    coeff, sol = darcy_fields(seed, np.linspace(0, 1, 17))
    _save_v73(path, {"coeff": coeff, "sol": sol})


def li2020_ns(path: Path, *, seed: int = 0) -> None:
    """`a` (N, n, n), `u` (N, n, n, T), `t` (1, T) with t = 1 … T, single."""
    import scipy.io

    scipy.io.savemat(path, _taylor_green(seed), appendmat=False)


def li2020_ns_hdf5(path: Path, *, seed: int = 0) -> None:
    """The same as MATLAB's save -v7.3."""
    _save_v73(path, _taylor_green(seed))


def li2020_burgers(path: Path, *, seed: int = 0) -> None:
    """`a` and `u` (N, n) double: u at time 0 and at time 1, ν = 0.1."""
    import scipy.io

    u = _cole_hopf(seed, 64, np.array([0.0, 1.0]), 0.1)
    scipy.io.savemat(path, {"a": u[:, 0], "u": u[:, 1]}, appendmat=False)


def li2020_burgers_trajectory(path: Path, *, seed: int = 0) -> None:
    """`input` (N, n), `output` (N, T, n) from time 0 on, `tspan`, `visc`, as physics_informed's loader reads them."""
    import scipy.io

    times = np.linspace(0, 1, 11)
    u = _cole_hopf(seed, 32, times, 0.05)
    content = {"input": u[:, 0], "output": u, "tspan": times[None], "visc": np.array([[0.05]])}
    scipy.io.savemat(path, content, appendmat=False)


def neuralop(path: Path, *, seed: int = 0) -> None:
    """{"x" bool, "y" float32}, both (N, 16, 16) at every 26th of 421 nodes."""
    import torch

    coeff, sol = darcy_fields(seed, 26 * np.arange(_POINTS) / 420)
    content = {"x": torch.from_numpy(coeff > 6), "y": torch.from_numpy(100 * sol)}
    torch.save(content, path)


def neuralop_burgers(path: Path, *, seed: int = 0) -> None:
    """{"x" (N, 16), "y" (N, 17, 16), "visc" (1, 1)} double, a time step of 0.06 that is not in the file."""
    import torch

    u = torch.from_numpy(_cole_hopf(seed, _POINTS, 0.06 * np.arange(17), 0.01, most=0.2))
    torch.save({"x": u[:, 0].clone(), "y": u, "visc": torch.full((1, 1), 0.01, dtype=torch.float64)}, path)


def neuralop_navier_stokes(path: Path, *, seed: int = 0) -> None:
    """{"x", "y"} float32 (N, 16, 16): waves of one length as forcing of a flow at rest, and its vorticity at t = 5.

    Such waves carry each other nowhere: w = f (1 − exp(−νk²t)) / νk², ν = 10⁻².
    """
    import torch

    rng, x = np.random.default_rng(seed), np.arange(_POINTS) / _POINTS
    size, phase = rng.uniform(-1, 1, (_SAMPLES, 3, 1, 1)), rng.uniform(0, 1, (_SAMPLES, 3, 1, 1))
    rate = 1e-2 * 4 * np.pi**2 * 25
    waves = [(5, 0), (3, 4), (4, -3)]
    f = sum(
        (size[:, i] + np.sign(size[:, i])) * np.cos(2 * np.pi * (k * x[:, None] + l_ * x[None] + phase[:, i]))
        for i, (k, l_) in enumerate(waves)
    )
    w = f * (1 - np.exp(-5 * rate)) / rate
    torch.save({"x": torch.from_numpy(f.astype(np.float32)), "y": torch.from_numpy(w.astype(np.float32))}, path)


def hdf5(path: Path, *, seed: int = 0) -> None:
    """Arrays of any names in HDF5, as generic loaders read them by a list of fields, described in `<file>.json`."""
    import h5py

    heat, description = _heat(seed), _heat_description()
    about = {"dims": ["sample", "time", "x", ""], "units": "K", "long_name": "temperature"}
    description["arrays"] = {
        "u": {**about, "array": "fields/temperature"},
        "initial": {**about, "dims": ["sample", "x"], "array": "fields/initial"},
    }
    description["times"] = {"array": "times", "units": "s"}
    with h5py.File(path, "w") as file:
        file.create_dataset("fields/temperature", data=heat["u"][..., None].astype(np.float32), compression="gzip")
        file["fields/initial"], file["times"] = heat["initial"].astype(np.float32), 0.25 * np.arange(1, 10)
    path.with_name(path.name + ".json").write_text(json.dumps(description))


def npy(path: Path, *, seed: int = 0) -> None:
    """One array (N, T, n), and its description in `<file>.json`."""
    with open(path, "wb") as file:
        np.save(file, _heat(seed)["u"])
    path.with_name(path.name + ".json").write_text(json.dumps(_heat_description()))


def npz(path: Path, *, seed: int = 0) -> None:
    """The same, with the state at time 0, in an archive that holds its description."""
    description = _heat_description()
    description["arrays"]["initial"] = {"dims": ["sample", "x"], "units": "K", "long_name": "temperature at time 0"}
    with open(path, "wb") as file:
        np.savez(file, **_heat(seed), **{"sciops.json": np.array(json.dumps(description))})


def apebench(path: Path, *, seed: int = 0) -> None:
    """An array (N, T + 1, 1, n) single, and the scenario as the scraper writes it, in `<file>.json`."""
    times, x = 0.1 * np.arange(11), np.arange(32) / 32
    u = _advected(seed, x, times, 0.25)[:, :, None].astype(np.float32)
    info = {"num_spatial_dims": 1, "num_points": 32, "num_channels": 1, "domain_extent": 1.0, "dt": 0.1}
    info |= {"advection_coef": 0.25, "num_train_samples": _SAMPLES, "train_temporal_horizon": 10}
    with open(path, "wb") as file:
        np.save(file, u)
    path.with_name(path.name + ".json").write_text(json.dumps({"name": "1d_phy_adv", "info": info}))


def darcy_fields(seed: int, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A coefficient of 3 and 12, and the solution for f = 1; a bump in its place on nodes that do not span the box."""
    phase = np.random.default_rng(seed).uniform(0, 2 * np.pi, (_SAMPLES, 2, 1, 1))
    wave = np.sin(4 * x[:, None] + phase[:, 0]) + np.sin(5 * x[None, :] + phase[:, 1])
    coeff = np.where(wave > 0, 12.0, 3.0)
    if x[-1] == 1:
        from sciops.grids import Grid
        from sciops.pde import darcy

        return coeff.astype(np.float32), darcy.solve(coeff, Grid(wave.shape[1:])).u.astype(np.float32)
    bump = np.multiply.outer(x * (1 - x), x * (1 - x))
    return coeff.astype(np.float32), (bump / coeff.mean((1, 2), keepdims=True)).astype(np.float32)


def _taylor_green(seed: int) -> dict[str, np.ndarray]:
    """w = A sin 2π(x + α) sin 2π(y + β) exp(−8π²νt) with ν = 10⁻³: an exact solution without forcing."""
    rng = np.random.default_rng(seed)
    size, phases = rng.uniform(0.5, 2, (_SAMPLES, 1, 1)), rng.uniform(0, 1, (_SAMPLES, 2, 1))
    x = np.arange(_POINTS) / _POINTS
    waves = np.sin(2 * np.pi * (x + phases))
    a = size * waves[:, 0, :, None] * waves[:, 1, None, :]
    t = np.arange(1.0, 7.0)
    u = a[..., None] * np.exp(-8 * np.pi**2 * 1e-3 * t)
    return {"a": a.astype(np.float32), "u": u.astype(np.float32), "t": t[None].astype(np.float32)}


def _cole_hopf(seed: int, n: int, times: np.ndarray, nu: float, most: float = 0.45) -> np.ndarray:
    """(N, T, n) exact solutions u = −2ν φ_x/φ of Burgers' equation, φ = 1 + Σ c_k exp(−ν(2πk)²t) cos(2πkx + p_k)."""
    rng = np.random.default_rng(seed)
    size = rng.uniform(most / 2, most, (_SAMPLES, 2, 1, 1))
    phase = rng.uniform(0, 2 * np.pi, (_SAMPLES, 2, 1, 1))
    x, k = np.arange(n) / n, 2 * np.pi * np.arange(1, 3)[:, None, None]
    decayed = size * np.exp(-nu * k**2 * times[:, None])
    phi = 1 + (decayed * np.cos(k * x + phase)).sum(1)
    return 2 * nu * (k * decayed * np.sin(k * x + phase)).sum(1) / phi


def _heat(seed: int) -> dict[str, np.ndarray]:
    """u_t = D u_xx from u = S sin(2πx + p), D = 0.02, at t = ¼, ½, …, and that initial state: exact."""
    rng = np.random.default_rng(seed)
    size, phase = rng.uniform(0.5, 2, (_SAMPLES, 1)), rng.uniform(0, 2 * np.pi, (_SAMPLES, 1))
    initial = size * np.sin(2 * np.pi * np.arange(32) / 32 + phase)
    fade = np.exp(-0.02 * 4 * np.pi**2 * 0.25 * np.arange(1, 10))
    return {"u": initial[:, None] * fade[:, None], "initial": initial}


def _heat_description() -> dict[str, object]:
    return {
        "arrays": {"u": {"dims": ["sample", "time", "x"], "units": "K", "long_name": "temperature"}},
        "grid": {"shape": [32], "extent": [[0.0, 1.0]], "centering": "periodic"},
        "equation": "heat",
        "state": ["u"],
        "times": {"start": 0.25, "step": 0.25, "units": "s"},
        "parameters": {"diffusivity": 0.02},
    }


def _advected(seed: int, x: np.ndarray, times: np.ndarray, speed: float) -> np.ndarray:
    """(N, T, n) u₀(x − ct) on one unit period."""
    rng = np.random.default_rng(seed)
    size, phase = rng.uniform(0.2, 1, (_SAMPLES, 2, 1, 1)), rng.uniform(0, 2 * np.pi, (_SAMPLES, 2, 1, 1))
    moved = 2 * np.pi * (x - speed * times[:, None])
    return sum(size[:, k] * np.sin((k + 1) * moved + phase[:, k]) for k in range(2))


def _save_v73(path: Path, content: dict[str, np.ndarray]) -> None:
    """As MATLAB writes HDF5: a block of 512 bytes of its own, then every array with its axes reversed."""
    import h5py

    with h5py.File(path, "w", userblock_size=512) as file:
        for name, array in content.items():
            file[name] = np.transpose(array)
            file[name].attrs["MATLAB_class"] = np.bytes_({"float32": "single", "float64": "double"}[str(array.dtype)])
    with open(path, "r+b") as file:
        file.write(b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(124) + b"\x00\x02IM")


SAMPLES = {
    "li2020": li2020,
    "li2020-v7.3": li2020_hdf5,
    "li2020-ns": li2020_ns,
    "li2020-ns-v7.3": li2020_ns_hdf5,
    "li2020-burgers": li2020_burgers,
    "li2020-burgers-trajectory": li2020_burgers_trajectory,
    "neuralop": neuralop,
    "neuralop-burgers": neuralop_burgers,
    "neuralop-navier-stokes": neuralop_navier_stokes,
    "npy": npy,
    "npz": npz,
    "hdf5": hdf5,
    "apebench": apebench,
}
