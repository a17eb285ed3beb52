"""Data sets for the tests of PDEBench's layouts."""

import h5py
import numpy as np


def numbers_in(path):
    """Our variable → the numbers in the file, by plain h5py."""
    with h5py.File(path) as file:
        if "tensor" in file:
            return {"u": file["tensor"][()]}
        if "velocity" in file:
            v, f = file["velocity"][()], file["force"][()]
            found = {"vx": v[..., 0], "vy": v[..., 1], "particles": file["particles"][..., 0]}
            return found | {"fx": f[..., 0], "fy": f[..., 1]}
        if "density" in file:
            names = [n for n in ("density", "pressure", "Vx", "Vy", "Vz") if n in file]
            return {name.lower(): file[name][()] for name in names}
        data = np.stack([file[name]["data"][()] for name in sorted(file)])
        names = {2: ("u", "v"), 1: ("h",) if data.ndim == 5 else ("u",)}[data.shape[-1]]
        return {name: data[..., i] for i, name in enumerate(names)}


def replace_array(path, name, values):
    with h5py.File(path, "a") as file:
        del file[name]
        if values is not None:
            file[name] = values
