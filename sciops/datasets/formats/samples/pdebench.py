"""Tiny PDEBench files, as its generators write them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

_SAMPLES, _POINTS, _STATES = 8, 32, 11


def darcy(path: Path, *, seed: int = 0) -> None:
    """u of −∇·(ν∇u) = β with β = 1 and u = 0 on the wall for a two-valued ν, to a few per cent: sines times 1/ν."""
    import h5py

    rng, n = np.random.default_rng(seed), 16
    x = _centres(n)
    phase = rng.uniform(0, 2 * np.pi, (_SAMPLES, 2, 1, 1))
    wave = np.sin(4 * x[:, None] + phase[:, 0]) + np.sin(4 * x[None, :] + phase[:, 1])
    nu = np.where(wave > 0, 1.0, 0.1)
    solution = np.multiply.outer(np.sin(np.pi * x), np.sin(np.pi * x)) / (2 * np.pi**2)
    u = solution / nu.mean((1, 2), keepdims=True)
    with h5py.File(path, "w") as file:
        file["tensor"] = u[:, None].astype(np.float32)
        file["nu"] = nu.astype(np.float32)
        file["x-coordinate"] = file["y-coordinate"] = x.astype(np.float32)
        file.attrs["beta"] = 1.0


def advection(path: Path, *, seed: int = 0) -> None:
    """u(x, t) = u₀(x − βt) with β = 0.4, exactly."""
    beta, (x, times) = 0.4, (_centres(_POINTS), 0.05 * np.arange(_STATES))
    rng = np.random.default_rng(seed)
    amplitude, phase = rng.uniform(0.2, 1, (_SAMPLES, 2, 1, 1)), rng.uniform(0, 2 * np.pi, (_SAMPLES, 2, 1, 1))
    moved = 2 * np.pi * (x[None] - beta * times[:, None])
    u = sum(amplitude[:, k] * np.sin((k + 1) * moved + phase[:, k]) for k in range(2))
    _scalar(path, u, x, times[-1] / (_STATES - 1), {"beta": beta})


def burgers(path: Path, *, seed: int = 0) -> None:
    """u_t + u u_x = (Nu/π) u_xx with Nu = 0.1, by a spectral method."""
    number = 0.1
    x, u0 = _centres(_POINTS), _waves(seed)

    def slope(u: np.ndarray) -> np.ndarray:
        return -_derivative(0.5 * u * u) + number / np.pi * _derivative(_derivative(u))

    _scalar(path, _march(slope, u0, 0.05), x, 0.05, {"Nu": number})


def reaction(path: Path, *, seed: int = 0) -> None:
    """u_t = Nu u_xx + ρ u (1 − u) with Nu = 0.01, ρ = 1 and 0 < u < 1, by a spectral method."""
    nu, rho = 0.01, 1.0
    x, u0 = _centres(_POINTS), 0.5 + 0.2 * _waves(seed)

    def slope(u: np.ndarray) -> np.ndarray:
        return nu * _derivative(_derivative(u)) + rho * u * (1 - u)

    _scalar(path, _march(slope, u0, 0.05), x, 0.05, {"Nu": nu, "rho": rho})


def flow(path: Path, *, seed: int = 0, ndim: int = 2) -> None:
    """Plane sound waves of small amplitude in a gas at rest, exact to the square of the amplitude.

    ρ' = ε sin θ, v = (c/ρ₀) ε sin θ n, p' = c² ε sin θ with θ = k·x − c|k|t, n = k/|k|, c² = γ p₀/ρ₀.
    """
    import h5py

    n = 16
    rng = np.random.default_rng(seed)
    times, x = 0.05 * np.arange(6), _centres(n)
    rest, pressure, gamma, epsilon = 1.0, 1.0, 5 / 3, 0.02
    speed = np.sqrt(gamma * pressure / rest)
    grid = np.meshgrid(*[x] * ndim, indexing="ij")
    fields: dict[str, list[np.ndarray]] = {name: [] for name in ("density", "pressure", "Vx", "Vy", "Vz")[: 2 + ndim]}
    for _ in range(_SAMPLES):
        wave = 2 * np.pi * rng.integers(0, 3, ndim)
        wave[0] = max(wave[0], 2 * np.pi)
        size = float(np.sqrt((wave**2).sum()))
        place = sum(k * points for k, points in zip(wave, grid)) + rng.uniform(0, 2 * np.pi)
        theta = place[None] - speed * size * times.reshape(-1, *[1] * ndim)
        sound = epsilon * np.sin(theta)
        fields["density"].append(rest + sound)
        fields["pressure"].append(pressure + speed**2 * sound)
        for name, k in zip(("Vx", "Vy", "Vz"), wave):
            fields[name].append(speed / rest * sound * k / size)
    with h5py.File(path, "w") as file:
        for name, values in fields.items():
            file[name] = np.stack(values).astype(np.float32)
        for axis in "xyz"[:ndim]:
            file[f"{axis}-coordinate"] = x.astype(np.float32)
        file["t-coordinate"] = (0.05 * np.arange(len(times) + 1)).astype(np.float32)
        file.attrs["eta"], file.attrs["zeta"] = 1e-8, 1e-8
        if ndim > 1:
            file.attrs["M"] = 0.02


def flow_1d(path: Path, *, seed: int = 0) -> None:
    """A sound wave along one axis, as `flow` has it."""
    flow(path, seed=seed, ndim=1)


def flow_3d(path: Path, *, seed: int = 0) -> None:
    """The same over three axes."""
    flow(path, seed=seed, ndim=3)


def advection_alone(path: Path, *, seed: int = 0) -> None:
    """The first of those advected profiles as PDEBench's test files are: without an axis of samples."""
    advection(path, seed=seed)
    _without_samples(path, ("tensor",))


def flow_alone(path: Path, *, seed: int = 0) -> None:
    """The first of those plane waves in the same way."""
    flow(path, seed=seed)
    _without_samples(path, ("density", "pressure", "Vx", "Vy"))


def diffusion_reaction(path: Path, *, seed: int = 0) -> None:
    """u_t = Du Δu + u − u³ − k − v, v_t = Dv Δv + u − v between walls without flux, by finite volumes."""
    n, steps, (du, dv, k) = 16, 11, (1e-3, 5e-3, 5e-3)
    x = 2 * _centres(n) - 1

    def slope(state: np.ndarray) -> np.ndarray:
        u, v = state[:, 0], state[:, 1]
        return np.stack([du * _laplacian(u, x) + u - u**3 - k - v, dv * _laplacian(v, x) + u - v], 1)

    cosines = np.cos(np.pi * np.arange(3)[:, None] * (x + 1) / 2)
    modes = np.stack([rng.uniform(-1, 1, (2, 3, 3)) for _, rng in _draws(seed)])
    starts = np.einsum("sfij,ix,jy->sfxy", modes, cosines, cosines)
    for number, data in enumerate(np.moveaxis(_march(slope, starts, 0.1, steps), 2, -1)):
        sim = {"Du": "0.001", "Dv": "0.005", "k": "0.005", "t": 1, "tdim": steps, "x_left": -1.0, "x_right": 1.0}
        sim |= {"xdim": n, "y_bottom": -1.0, "y_top": 1.0, "ydim": n, "n": 1, "seed": number}
        _group(path, number, data, {"x": x, "y": x}, 0.1 * np.arange(steps), "2d_diff-react", sim, compression="lzf")


def shallow_water(path: Path, *, seed: int = 0) -> None:
    """h = 1 + Σ a cos kx cos ly cos(√(g(k² + l²)) t): small standing waves of depth 1 under g = 1."""
    n, steps = 16, 11
    x, times = 5 * _centres(n) - 2.5, 0.1 * np.arange(steps)
    for number, rng in _draws(seed):
        h = np.ones((steps, n, n))
        for i, j in ((1, 0), (0, 1), (1, 1), (2, 1)):
            k, l_ = np.pi * i / 5, np.pi * j / 5
            shape = np.multiply.outer(np.cos(k * (x + 2.5)), np.cos(l_ * (x + 2.5)))
            h += 0.05 * rng.uniform(-1, 1) * np.multiply.outer(np.cos(np.hypot(k, l_) * times), shape)
        sim = {"T_end": 1.0, "n_time_steps": steps - 1, "xdim": n, "ydim": n, "gravity": 1.0}
        sim |= {"dam_radius": round(float(rng.uniform(0.3, 0.7)), 6), "inner_height": 2.0, "seed": number}
        _group(path, number, h[..., None], {"x": x, "y": x}, times, "2d_rdb", sim)


def diffusion_sorption(path: Path, *, seed: int = 0) -> None:
    """R(u) u_t = D u_xx with u = 1 at x = 0, a constant start in (0, 0.2), and Freundlich's retardation R."""
    n, steps, (d, por, rho, kf, nf) = 32, 11, (5e-4, 0.29, 2880.0, 3.5e-4, 0.874)
    x = _centres(n)

    def slope(u: np.ndarray) -> np.ndarray:
        h = x[1] - x[0]
        last = (u[:, -2:-1] - u[:, -1:]) / h * d
        padded = np.concatenate([np.ones_like(last), u, last], 1)
        retardation = 1 + (1 - por) / por * rho * kf * nf * (u + 1e-6) ** (nf - 1)
        return d / retardation * (padded[:, 2:] - 2 * u + padded[:, :-2]) / h**2

    starts = np.array([np.full(n, rng.uniform(0, 0.2)) for _, rng in _draws(seed)])
    for number, data in enumerate(_march(slope, starts, 25.0, steps, substeps=100)):
        sim = {"D": 0.0005, "por": 0.29, "rho_s": 2880, "k_f": 0.00035, "n_f": 0.874, "sol": 1.0, "t": 250}
        sim |= {"tdim": steps, "x_left": 0.0, "x_right": 1.0, "xdim": n, "n": 1, "seed": number}
        _group(path, number, data[..., None], {"x": x}, 25.0 * np.arange(steps), "1d_diff-sorp", sim, compression="lzf")


def incompressible(path: Path, *, seed: int = 0) -> None:
    """Vortices between slipping walls that decay as exp(−2π²νt), and a tracer c constant along their streamlines.

    The force f = ∇c/10 acts as c f = ∇(c²/20), which the pressure takes up.
    """
    import h5py

    n, steps, nu = 16, 6, 0.01
    x = _centres(n)
    rng = np.random.default_rng(seed)
    sine, cosine = np.sin(np.pi * x), np.cos(np.pi * x)
    times = np.tile((0.1 * np.arange(steps)).astype(np.float32), (_SAMPLES, 1))
    size = rng.uniform(0.5, 1.5, (_SAMPLES, 1)) * np.exp(-2 * np.pi**2 * nu * times)
    vortex = np.stack([np.multiply.outer(sine, cosine), -np.multiply.outer(cosine, sine)], -1)
    tracer = np.multiply.outer(sine, sine) ** 2
    slope = 0.2 * np.pi * np.multiply.outer(sine * cosine, sine**2)
    arrays = {
        "velocity": np.multiply.outer(size, vortex),
        "particles": np.broadcast_to(tracer[..., None], (_SAMPLES, steps, n, n, 1)),
        "force": np.broadcast_to(np.stack([slope, slope.T], -1), (_SAMPLES, n, n, 2)),
        "t": times,
    }
    config = (
        f"sim_name: ns_sim_2d\ndomain_size:\n- 1\n- 1\ngrid_size:\n- {n}\n- {n}\nparticle_extrapolation: BOUNDARY\n"
    )
    config += f"velocity_extrapolation: ZERO\nNU: {nu}\nforce_extrapolation: ZERO\nseed: {seed}\nn_steps: 501\n"
    config += "DT: 0.001\nframe_int: 100\nn_batch: 8\n"
    with h5py.File(path, "w") as file:
        file.attrs["config"], file.attrs["latestIndex"] = config, steps - 1
        for name, values in arrays.items():
            chunks = (1, 1, *values.shape[2:])
            options = {"compression": "lzf", "chunks": chunks, "shuffle": True}
            file.create_dataset(name, data=values.astype(np.float32), **options)


def _scalar(path: Path, u: np.ndarray, x: np.ndarray, step: float, attrs: dict[str, float]) -> None:
    import h5py

    with h5py.File(path, "w") as file:
        file["tensor"] = u.astype(np.float32)
        file["x-coordinate"] = x.astype(np.float32)
        file["t-coordinate"] = (step * np.arange(u.shape[1] + 1)).astype(np.float32)
        file.attrs.update(attrs)


def _without_samples(path: Path, names: tuple[str, ...]) -> None:
    import h5py

    with h5py.File(path, "r+") as file:
        for name in names:
            first = file[name][0]
            del file[name]
            file[name] = first


def _group(
    path: Path,
    number: int,
    data: np.ndarray,
    axes: dict[str, np.ndarray],
    times: np.ndarray,
    name: str,
    sim: Mapping[str, object],
    **options: str,
) -> None:
    import h5py

    text = f"work_dir: .\ndata_dir: data\nupload: false\nname: {name}\nsim:\n"
    text += "".join(f"  {key}: {value}\n" for key, value in sim.items())
    text += "plot:\n  t_idx: 1.0\n  dim: 2\n"
    with h5py.File(path, "w" if number == 0 else "a") as file:
        group = file.create_group(f"{number:04d}")
        group.create_dataset("data", data=data, dtype="float32", **options)
        for axis, points in {**axes, "t": times}.items():
            group.create_dataset(f"grid/{axis}", data=points, dtype="float32", **options)
        group.attrs["config"] = text


def _draws(seed: int) -> list[tuple[int, np.random.Generator]]:
    return [(i, np.random.default_rng([seed, i])) for i in range(_SAMPLES)]


def _centres(n: int) -> np.ndarray:
    return (np.arange(n) + 0.5) / n


def _waves(seed: int) -> np.ndarray:
    """Two sines a sample of amplitude below 1 in sum."""
    rng = np.random.default_rng(seed)
    amplitude, phase = rng.uniform(0.1, 0.5, (_SAMPLES, 2, 1)), rng.uniform(0, 2 * np.pi, (_SAMPLES, 2, 1))
    k = np.arange(1, 3)[:, None]
    return (amplitude * np.sin(2 * np.pi * k * _centres(_POINTS) + phase)).sum(1)


def _derivative(u: np.ndarray) -> np.ndarray:
    n = u.shape[-1]
    wave = 2j * np.pi * np.arange(n // 2 + 1)
    wave[n // 3 :] = 0  # dealiased
    return np.fft.irfft(wave * np.fft.rfft(u), n)


def _laplacian(u: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Of (samples, x, y), with no flux through the walls."""
    padded = np.pad(u, ((0, 0), (1, 1), (1, 1)), mode="edge")
    around = padded[:, 2:, 1:-1] + padded[:, :-2, 1:-1] + padded[:, 1:-1, 2:] + padded[:, 1:-1, :-2]
    return (around - 4 * u) / (x[1] - x[0]) ** 2


def _march(
    slope: Callable[[np.ndarray], np.ndarray], u: np.ndarray, step: float, states: int = _STATES, substeps: int = 20
) -> np.ndarray:
    """Runge–Kutta of order 4 for (samples, …); the states lie along a new second axis."""
    kept, h = [u], step / substeps
    for _ in range(states - 1):
        for _ in range(substeps):
            a = slope(u)
            b = slope(u + 0.5 * h * a)
            c = slope(u + 0.5 * h * b)
            u = u + h / 6 * (a + 2 * b + 2 * c + slope(u + h * c))
        kept.append(u)
    return np.stack(kept, 1)


SAMPLES = {
    "pdebench-darcy": darcy,
    "pdebench-1d": burgers,
    "pdebench-1d-advection": advection,
    "pdebench-1d-reaction": reaction,
    "pdebench-1d-alone": advection_alone,
    "pdebench-cfd": flow,
    "pdebench-cfd-1d": flow_1d,
    "pdebench-cfd-3d": flow_3d,
    "pdebench-cfd-alone": flow_alone,
    "pdebench-groups": diffusion_reaction,
    "pdebench-groups-shallow-water": shallow_water,
    "pdebench-groups-sorption": diffusion_sorption,
    "pdebench-ns": incompressible,
}
