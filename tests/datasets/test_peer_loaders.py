"""What the loaders of the projects that own a layout find in the files that we write."""

import json

import numpy as np
import pytest
import torch
import xarray as xr

from sciops.datasets import convert, open_dataset
from sciops.datasets.conventions import build_dataset
from sciops.grids import Grid


def test_neuraloperators_own_data_set_reads_what_we_write(tmp_path, real_data):
    from neuralop.data.datasets.pt_dataset import PTDataset

    rng = np.random.default_rng(0)
    grid = Grid((16, 16), (0, 390 / 420), domain=(0, 1))
    fields = {"a": rng.random((6, 16, 16)) > 0.5, "u": rng.random((6, 16, 16))}
    fields = {name: (("sample", "x", "y"), values.astype("f4"), {}) for name, values in fields.items()}
    options = {"layout": "native", "equation": "darcy", "coefficient": "indicator", "forcing": 1.0}
    dataset = build_dataset(fields, grid, **options)
    for part in ("train", "test"):
        convert(dataset, tmp_path / f"darcy_{part}_16.pt", "neuralop")
        convert(real_data / f"burgers_{part}_16.pt", tmp_path / f"burgers_{part}_16.pt", "neuralop", dtype="float32")
    sizes = {"n_train": 6, "n_tests": [6], "batch_size": 2, "test_batch_sizes": [2]}
    loaded = PTDataset(tmp_path, "darcy", train_resolution=16, test_resolutions=[16], **sizes)
    for part in (loaded.train_db, loaded.test_dbs[16]):
        for i in range(6):
            assert np.array_equal(part[i]["x"][0].numpy(), dataset["a"].values[i])
            assert np.array_equal(part[i]["y"][0].numpy(), dataset["u"].values[i])
    loaded = PTDataset(tmp_path, "burgers", train_resolution=16, test_resolutions=[16], **sizes)
    with open_dataset(real_data / "burgers_train_16.pt") as burgers:
        item = loaded.train_db[5]
        assert item["x"].dtype == item["y"].dtype == torch.float32  # whose loss would refuse the public file's double
        assert np.array_equal(item["y"][0].numpy(), burgers["u"].values[5].astype("f4"))


def _flow(shape, extent, periodic):
    """Velocities on the upper faces of the cells of a box."""
    spacing = [(b - a) / n for n, (a, b) in zip(shape, extent)]
    moved = lambda shifts: tuple((a + s, b + s) for (a, b), s in zip(extent, shifts))  # noqa: E731
    half = [h / 2 for h in spacing]
    grid = Grid(shape, moved(half), "periodic") if periodic else Grid(shape, extent, "cell")
    options = {"layout": "native", "equation": "navier_stokes_velocity", "state": ("u", "v"), "times": [0, 1, 2]}
    u = np.random.default_rng(0).random((2, 3, *shape)).astype("f4")
    dataset = build_dataset({name: (("sample", "time", "x", "y"), u, {}) for name in "uv"}, grid, **options)
    for axis, name in enumerate("uv"):
        shifts = [h if i == axis else h / 2 for i, h in enumerate(spacing)]
        if periodic:
            own = Grid(shape, moved(shifts), "periodic")
        else:
            ends = [(a + s, b - (h - s)) for (a, b), s, h in zip(extent, shifts, spacing)]
            own = Grid(shape, tuple(ends), "node", extent)
        dataset[name].attrs["grid"] = json.dumps(own.to_dict())
    return dataset


@pytest.mark.parametrize(
    ("shape", "extent", "wanted"),
    [
        ((8, 8), ((0.0, 2 * np.pi),) * 2, {"save_grid_size": 8, "domain_size": 2 * np.pi}),
        ((8, 4), ((0.0, 3.0), (0.0, 1.0)), {"save_grid_size_x": 8, "save_grid_size_y": 4, "aspect_ratio": 3.0}),
        ((8, 4), ((0.0, 3.0), (0.0, 2.0)), {}),
        ((8, 8), ((1.0, 3.0),) * 2, {}),
    ],
)
@pytest.mark.parametrize("periodic", [True, False])
def test_jax_cfd_finds_its_grid_in_the_attributes_or_none(tmp_path, shape, extent, wanted, periodic):
    """`grid_from_attrs` wants ndim and save_grid_size with domain_size, or save_grid_size_x, _y with aspect_ratio."""
    stale = {"save_grid_size": 64, "domain_size": 99.0, "save_grid_size_x": 3, "aspect_ratio": 7.0}
    path = convert(_flow(shape, extent, periodic).assign_attrs(stale), tmp_path / "there", "jax-cfd")
    with xr.open_dataset(path, engine="h5netcdf") as there:
        found = {key: there.attrs[key] for key in (*stale, "ndim", "save_grid_size_y") if key in there.attrs}
        assert found == pytest.approx({"ndim": 2, **wanted})
        step = (extent[0][1] - extent[0][0]) / shape[0]
        np.testing.assert_allclose(there["x"], extent[0][0] + (np.arange(shape[0]) + 0.5) * step, rtol=1e-6)
        assert list(there["u"].attrs["offset"]) == [1.0, 0.5] and list(there["v"].attrs["offset"]) == [0.5, 1.0]
