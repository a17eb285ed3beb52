"""Tiny files of flow and wave benchmarks, as their programs write them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

_SAMPLES, _POINTS, _STEPS = 8, 16, 6


def cno(path: Path, *, seed: int = 0) -> None:
    """`sample_{i}/{input, output}` single on nodes, and the ranges: a two-valued coefficient and its solution."""
    import h5py

    from sciops.datasets._samples_arrays import _darcy

    a, u = _darcy(seed, np.linspace(0, 1, _POINTS))
    with h5py.File(path, "w") as file:
        for i in range(_SAMPLES):
            file[f"sample_{i}/input"], file[f"sample_{i}/output"] = a[i], u[i]
        file["min_u0"], file["max_u0"], file["min_u"], file["max_u"] = a.min(), a.max(), u.min(), u.max()


def cno_poisson(path: Path, *, seed: int = 0) -> None:
    """`Sample_{i}/{input, output}` and `min_inp` …: −Δu = f with u = 0 on the wall, exact on the nodes."""
    import h5py

    f, u = _poisson(seed, np.linspace(0, 1, _POINTS), 1.0)
    with h5py.File(path, "w") as file:
        for i in range(_SAMPLES):
            file[f"Sample_{i}/input"], file[f"Sample_{i}/output"] = f[i], u[i]
        file["min_inp"], file["max_inp"], file["min_out"], file["max_out"] = f.min(), f.max(), u.min(), u.max()


def poseidon_wave(path: Path, *, seed: int = 0) -> None:
    """`solution` (N, T, 1, n, n) and `c` (N, n, n): u_tt = c² Δu, standing waves of a constant speed a sample."""
    import h5py

    rng = np.random.default_rng(seed)
    x, t = np.linspace(0, 1, _POINTS), 0.05 * np.arange(_STEPS)
    speed, size = rng.uniform(1, 2, (_SAMPLES, 1, 1, 1)), rng.uniform(0.5, 1, (_SAMPLES, 2, 1, 1, 1))
    shape = [np.multiply.outer(np.sin(k * np.pi * x), np.sin(np.pi * x)) for k in (1, 2)]
    beat = [np.cos(speed * np.pi * np.sqrt(k * k + 1) * t[:, None, None]) for k in (1, 2)]
    u = sum(size[:, i] * beat[i] * shape[i] for i in range(2))
    with h5py.File(path, "w") as file:
        file["solution"] = u[:, :, None].astype(np.float32)
        file["c"] = np.broadcast_to(speed[:, 0], (_SAMPLES, _POINTS, _POINTS)).astype(np.float32)


def poseidon_samples(path: Path, *, seed: int = 0) -> None:
    """`sample_{i}` (T, 2, n, n): a decaying vortex array in a uniform stream, on one unit period."""
    import h5py

    x = np.arange(_POINTS) / _POINTS
    u, v = _vortices(seed, x, x, 1.0)
    with h5py.File(path, "w") as file:
        for i in range(_SAMPLES):
            file[f"sample_{i}"] = np.stack([u[i], v[i]], 1).astype(np.float32)


def poseidon_helmholtz(path: Path, *, seed: int = 0) -> None:
    """`Sample_{i}/{a, u, bc}`: u = bc + sines, which solves −Δu = f for some f, constant a."""
    import h5py

    rng = np.random.default_rng(seed)
    _, bump = _poisson(seed, np.linspace(0, 1, _POINTS), 20.0)
    with h5py.File(path, "w") as file:
        for i in range(_SAMPLES):
            bc = rng.uniform(0.25, 0.5)
            file[f"Sample_{i}/a"] = np.full((_POINTS, _POINTS), rng.uniform(1, 1.5), np.float32)
            file[f"Sample_{i}/u"], file[f"Sample_{i}/bc"] = (bc + bump[i]).astype(np.float32), bc


def pdearena_ns(path: Path, *, seed: int = 0) -> None:
    """Group train: smoke at cells and a decaying circulation on the lower faces of a closed box, t and x as stated."""
    import h5py

    rng = np.random.default_rng(seed)
    n, length, dt, tmin = _POINTS, 32.0, 1.5, 18.0
    h = length / n
    faces, centres, k = h * np.arange(n), h * (np.arange(n) + 0.5), np.pi / length
    size, phase = rng.uniform(0.5, 1, (_SAMPLES, 1, 1, 1)), rng.uniform(0, 1, (_SAMPLES, 1, 1, 1))
    fade = np.exp(-0.02 * dt * np.arange(_STEPS))[:, None, None]
    # v = (ψ_y, −ψ_x) with ψ = sin² kx sin² ky: no flow through the walls or along them
    vx = size * fade * np.multiply.outer(np.sin(k * faces) ** 2, np.sin(2 * k * centres))
    vy = -size * fade * np.multiply.outer(np.sin(2 * k * centres), np.sin(k * faces) ** 2)
    smoke = 1 + size * fade**2 * np.multiply.outer(np.cos(k * centres), np.cos(2 * k * centres)) + phase
    with h5py.File(path, "w") as file:
        group = file.create_group("train")
        group["u"], group["vx"], group["vy"] = smoke, vx, vy
        group["t"] = np.tile(np.linspace(tmin, tmin + dt * _STEPS, _STEPS), (_SAMPLES, 1))
        group["x"] = group["y"] = np.tile(np.linspace(0, length, n), (_SAMPLES, 1))
        group["dx"] = group["dy"] = np.full(_SAMPLES, length / (n - 1))
        group["dt"], group["buo_y"] = np.full(_SAMPLES, dt), rng.uniform(0.2, 0.5, _SAMPLES)


def pdearena_ks(path: Path, *, seed: int = 0) -> None:
    """Group train: `pde_{T}-{n}`, its own length, time step and viscosity a sample, by a spectral method."""
    import h5py

    rng, n = np.random.default_rng(seed), 32
    length, dt, v = (rng.uniform(low, high, _SAMPLES) for low, high in ((18, 22), (0.18, 0.22), (0.5, 1.5)))
    k = 2 * np.pi * np.fft.rfftfreq(n, 1 / n) / length[:, None]
    growth = k**2 - v[:, None] * k**4
    modes = np.zeros((_SAMPLES, n // 2 + 1), complex)
    modes[:, 1:4] = n * (rng.standard_normal((_SAMPLES, 3)) + 1j * rng.standard_normal((_SAMPLES, 3))) / 8
    substeps = 64
    half = np.exp(0.5 * dt[:, None] / substeps * growth)

    def slope(m: np.ndarray) -> np.ndarray:
        return np.where(np.arange(n // 2 + 1) < n // 3, -0.5j * k * np.fft.rfft(np.fft.irfft(m, n) ** 2), 0)

    kept = [modes]
    for _ in range(9):
        for _ in range(substeps):  # the midpoint rule with the linear part exact
            step = dt[:, None] / substeps
            middle = half * (modes + 0.5 * step * slope(modes))
            modes = half * half * modes + step * half * slope(middle)
        kept.append(modes)
    u = np.fft.irfft(np.stack(kept, 1), n)
    with h5py.File(path, "w") as file:
        group = file.create_group("train")
        group[f"pde_{len(kept)}-{n}"] = u
        group["t"] = 20 + np.arange(len(kept)) * dt[:, None]
        group["x"] = np.arange(n) * (length / n)[:, None]
        group["dx"], group["dt"], group["v"] = length / n, dt, v


def jax_cfd(path: Path, *, seed: int = 0, netcdf3: bool = False) -> None:
    """u, v on the faces of a periodic box, (sample, time, x, y), as xarray writes it."""
    import xarray as xr

    n, length = _POINTS, 2 * np.pi
    h = length / n
    faces, centres = h * np.arange(1, n + 1), h * (np.arange(n) + 0.5)
    u, v = _vortices(seed, faces, centres, length)[0], _vortices(seed, centres, faces, length)[1]
    dims = ("sample", "time", "x", "y")
    dataset = xr.Dataset(
        {
            "u": (dims, u.astype(np.float32), {"offset": (1.0, 0.5)}),
            "v": (dims, v.astype(np.float32), {"offset": (0.5, 1.0)}),
        },
        {"sample": np.arange(_SAMPLES), "time": 0.1 * np.arange(_STEPS), "x": centres, "y": centres},
        {"viscosity": 0.05, "domain_size": length, "save_grid_size": n, "ndim": 2},
    )
    if netcdf3:
        dataset.to_netcdf(path, engine="scipy", format="NETCDF3_64BIT")
    else:
        dataset.to_netcdf(path, engine="h5netcdf")


def jax_cfd_netcdf3(path: Path, *, seed: int = 0) -> None:
    """The same as NetCDF-3."""
    jax_cfd(path, seed=seed, netcdf3=True)


def _vortices(seed: int, x: np.ndarray, y: np.ndarray, length: float) -> tuple[np.ndarray, np.ndarray]:
    """(u, v), each (N, T, len(x), len(y)): an exact decaying flow, ν = 0.05 on 2π, carried along by a stream (U, V).

    u = U + A cos k(x − Ut + α) sin k(y − Vt + β) e^(−2νk²t),  v = V − A sin k(x − Ut + α) cos k(y − Vt + β) e^(−2νk²t)
    """
    rng = np.random.default_rng(seed)
    size, stream = rng.uniform(0.5, 1, (_SAMPLES, 1, 1, 1)), rng.uniform(-0.3, 0.3, (_SAMPLES, 2, 1, 1, 1))
    shift = rng.uniform(0, length, (_SAMPLES, 2, 1, 1, 1))
    k, t = 2 * np.pi / length, 0.1 * np.arange(_STEPS)[:, None, None]
    a = k * (x[:, None] - stream[:, 0] * t + shift[:, 0])
    b = k * (y[None, :] - stream[:, 1] * t + shift[:, 1])
    fade = size * np.exp(-2 * 0.05 * t)
    return stream[:, 0] + fade * np.cos(a) * np.sin(b), stream[:, 1] - fade * np.sin(a) * np.cos(b)


def _poisson(seed: int, x: np.ndarray, size: float) -> tuple[np.ndarray, np.ndarray]:
    """(f, u) with −Δu = f on the unit square and u = 0 on its wall: sums of sines."""
    rng = np.random.default_rng(seed)
    amplitude = size * rng.uniform(0.5, 1.5, (_SAMPLES, 2, 1, 1))
    waves = [np.multiply.outer(np.sin(k * np.pi * x), np.sin(np.pi * x)) for k in (1, 2)]
    f = sum(amplitude[:, i] * waves[i] for i in range(2))
    u = sum(amplitude[:, i] * waves[i] / (np.pi**2 * ((i + 1) ** 2 + 1)) for i in range(2))
    return f.astype(np.float32), u.astype(np.float32)


SAMPLES: dict[str, Callable[..., None]] = {
    "cno": cno,
    "cno-poisson": cno_poisson,
    "poseidon": poseidon_wave,
    "poseidon-samples": poseidon_samples,
    "poseidon-helmholtz": poseidon_helmholtz,
    "pdearena-ns": pdearena_ns,
    "pdearena-ks": pdearena_ks,
    "jax-cfd": jax_cfd,
    "jax-cfd-netcdf3": jax_cfd_netcdf3,
}
