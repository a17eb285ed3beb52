"""Tiny files of flow and wave benchmarks, as their programs write them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

_SAMPLES, _POINTS, _STEPS = 8, 16, 6


def cno(path: Path, *, seed: int = 0) -> None:
    """`sample_{i}/{input, output}` single on nodes, and the ranges: a two-valued coefficient and its solution."""
    import h5py

    from sciops.datasets.formats.samples.arrays import darcy_fields

    a, u = darcy_fields(seed, np.linspace(0, 1, _POINTS))
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
    u, v, _ = _vortices(seed, x, x, 1.0)
    with h5py.File(path, "w") as file:
        for i in range(_SAMPLES):
            file[f"sample_{i}"] = np.stack([u[i], v[i]], 1).astype(np.float32)


def poseidon_netcdf(path: Path, *, seed: int = 0) -> None:
    """`velocity` (N, T, 3, n, n) as NetCDF-4 with named dimensions and no coordinates: the same flow and a tracer."""
    import xarray as xr

    x = np.arange(_POINTS) / _POINTS
    velocity = np.stack(_vortices(seed, x, x, 1.0), 2).astype(np.float32)
    dims = ("member", "time", "channel", "x", "y")
    xr.Dataset({"velocity": (dims, velocity)}).to_netcdf(path, engine="h5netcdf")


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


def pdearena_swe(path: Path, *, seed: int = 0, samples: int | None = None) -> None:
    """One standing wave on the globe as SpeedyWeather writes it, from north to south; `samples` of them, collected.

    η = A sin φ cos φ cos(λ + p) cos ωt on a layer of depth H at rest, ω² = 6 g H / a², small enough to be exact.
    """
    import xarray as xr

    rng, (nlat, nlon), (g, depth, a) = np.random.default_rng(seed), (16, 32), (9.81, 8000.0, 6.371e6)
    lat, lon = np.degrees(np.arcsin(np.polynomial.legendre.leggauss(nlat)[0]))[::-1], 360 / nlon * np.arange(nlon)
    hours, omega = np.arange(0, 2 * _STEPS, 2, dtype=np.int32), np.sqrt(6 * g * depth) / a
    size = rng.uniform(5, 20, (samples or 1, 1, 1, 1))
    east = np.radians(lon) + rng.uniform(0, 2 * np.pi, (samples or 1, 1, 1, 1))
    north, beat = np.radians(lat)[:, None], omega * 3600 * hours[:, None, None]
    flow, wave = g * size / (a * omega) * np.sin(beat), np.sin(north) * np.cos(north) * np.cos(east)
    fields = {
        "u": (flow * np.sin(north) * np.sin(east), "m/s", "zonal wind"),
        "v": (-flow * np.cos(2 * north) * np.cos(east), "m/s", "meridional wind"),
        "vor": (0 * size * wave * beat, "1/s", "relative vorticity"),
        "div": (size * omega / depth * np.sin(beat) * wave, "1/s", "divergence"),
        "pres": (size * np.cos(beat) * wave, "m", "interface displacement"),
    }
    variables = {}
    for name, (values, units, words) in fields.items():
        level = () if name == "pres" else ("lev",)
        dims = ("b",) * (samples is not None) + ("time", *level, "lat", "lon")
        values = values if name == "pres" else values[:, :, None]
        values = (values if samples else values[0]).astype(np.float32)
        variables[name] = (dims, values, {"units": units, "long_name": words, "missing_value": np.float32(-999999)})
    axes = {
        "time": ("time", hours, {"units": "hours since 2000-01-01 00:00:0.0", "long_name": "time"}),
        "lev": ("lev", np.ones(1, np.int32), {"units": "1", "long_name": "vertical model levels"}),
        "lat": ("lat", lat, {"units": "degrees_north", "long_name": "latitude"}),
        "lon": ("lon", lon, {"units": "degrees_east", "long_name": "longitude"}),
    }
    xr.Dataset(variables, axes).to_netcdf(path, engine="h5netcdf")


def pdearena_swe_collected(path: Path, *, seed: int = 0) -> None:
    """Eight of them along an axis `b` before the others."""
    pdearena_swe(path, seed=seed, samples=_SAMPLES)


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


def _vortices(seed: int, x: np.ndarray, y: np.ndarray, length: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(u, v, c), each (N, T, len(x), len(y)): an exact decaying flow, ν = 0.05 on 2π, carried along by a stream (U, V),
    and a tracer that is constant along its streamlines.

    u = U + A cos k(x − Ut + α) sin k(y − Vt + β) e^(−2νk²t),  v = V − A sin k(x − Ut + α) cos k(y − Vt + β) e^(−2νk²t)
    """
    rng = np.random.default_rng(seed)
    size, stream = rng.uniform(0.5, 1, (_SAMPLES, 1, 1, 1)), rng.uniform(-0.3, 0.3, (_SAMPLES, 2, 1, 1, 1))
    shift = rng.uniform(0, length, (_SAMPLES, 2, 1, 1, 1))
    k, t = 2 * np.pi / length, 0.1 * np.arange(_STEPS)[:, None, None]
    a = k * (x[:, None] - stream[:, 0] * t + shift[:, 0])
    b = k * (y[None, :] - stream[:, 1] * t + shift[:, 1])
    fade = size * np.exp(-2 * 0.05 * t)
    swirl = (stream[:, 0] + fade * np.cos(a) * np.sin(b), stream[:, 1] - fade * np.sin(a) * np.cos(b))
    return *swirl, np.cos(a) * np.cos(b)


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
    "poseidon-netcdf": poseidon_netcdf,
    "poseidon-helmholtz": poseidon_helmholtz,
    "pdearena-ns": pdearena_ns,
    "pdearena-ks": pdearena_ks,
    "pdearena-swe": pdearena_swe,
    "pdearena-swe-collected": pdearena_swe_collected,
    "jax-cfd": jax_cfd,
    "jax-cfd-netcdf3": jax_cfd_netcdf3,
}
