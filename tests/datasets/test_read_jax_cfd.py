"""jax-cfd files against the arrays they were written from, each value at its true place."""

import numpy as np
import pytest
import xarray as xr
from flow_checks import RNG, check_holds, check_round_trip, notes_of

from sciops.datasets import grid_of, open_dataset
from sciops.datasets.conventions import parameters_of, state_of
from sciops.datasets.formats import find_reader
from sciops.datasets.formats.samples.flow import SAMPLES, _vortices
from sciops.grids import Grid


@pytest.mark.parametrize("layout", ["jax-cfd", "jax-cfd-netcdf3"])
def test_jax_cfd_offsets(tmp_path, layout):
    path = tmp_path / "file"
    SAMPLES[layout](path, seed=7)
    with xr.open_dataset(path, engine="h5netcdf" if layout == "jax-cfd" else "scipy") as plain:
        truth = {name: plain[name].values.astype(np.float32) for name in ("u", "v")}
    check_holds(path, truth)
    with open_dataset(path) as dataset:
        assert find_reader(path).name == "jax-cfd" and state_of(dataset) == ("u", "v")
        assert parameters_of(dataset) == {"viscosity": 0.05} and dataset.attrs["save_grid_size"] == 16
        np.testing.assert_allclose(dataset["time"].values, 0.1 * np.arange(6), rtol=1e-12)
        h = 2 * np.pi / 16
        for name, offset in (("u", (1.0, 0.5)), ("v", (0.5, 1.0))):
            grid = grid_of(dataset, name)
            assert grid.centering == "periodic"
            for points, off in zip(grid.coordinates(), offset):
                np.testing.assert_allclose(points, h * (np.arange(16) + off), rtol=1e-12)
            # the formula at those points, and not at the coordinates in the file, gives the numbers
            exact = _vortices(7, *grid.coordinates(), 2 * np.pi)["uv".index(name)]
            np.testing.assert_allclose(dataset[name].values, exact, atol=1e-6)
        np.testing.assert_allclose(dataset["x"].values, h * (np.arange(16) + 0.5), rtol=1e-12)
        check_round_trip(tmp_path, dataset, "jax-cfd")
    with open_dataset(path, 8) as coarse:  # every second point of each component, where it is
        for name in ("u", "v"):
            exact = _vortices(7, *grid_of(coarse, name).coordinates(), 2 * np.pi)["uv".index(name)]
            np.testing.assert_allclose(coarse[name].values, exact, atol=1e-6)


def test_jax_cfd_without_samples_and_between_walls(tmp_path):
    centres, faces = (np.arange(12) + 0.5) / 12, (np.arange(12) + 1) / 12
    time = np.arange(5) * 0.25
    u = np.exp(-time)[:, None, None] * np.multiply.outer(np.sin(np.pi * faces / 2), 1 + centres)
    v = np.exp(-time)[:, None, None] * np.multiply.outer(1 + centres, faces**2)
    source = xr.Dataset(
        {"u": (("time", "x", "y"), u, {"offset": (1.0, 0.5)}), "v": (("time", "x", "y"), v)},
        {"time": time, "x": centres, "y": centres},
    )
    source.to_netcdf(tmp_path / "file", engine="h5netcdf")
    with open_dataset(tmp_path / "file") as dataset:
        assert dataset["u"].shape == (1, 5, 12, 12) and np.array_equal(dataset["u"][0].values, u)
        assert np.array_equal(dataset["v"][:, [3, 1], 2].values, v[None][:, [3, 1], 2])
        assert grid_of(dataset) == Grid((12, 12), 1.0, "cell") and "boundary" not in dataset.attrs
        np.testing.assert_allclose(grid_of(dataset, "u").coordinates()[0], faces, rtol=1e-12)
        np.testing.assert_allclose(grid_of(dataset, "u").coordinates()[1], centres, rtol=1e-12)
        assert "v has no attribute offset: (0.5, 1.0) is assumed" in notes_of(dataset)
        check_round_trip(tmp_path, dataset, "jax-cfd")


def test_jax_cfd_in_three_dimensions(tmp_path):
    n, shape = 6, (2, 3, 6, 6, 6)
    x = (np.arange(n) + 0.5) / n
    values = {name: RNG.random(shape).astype(np.float32) for name in "uvw"}
    dims = ("sample", "time", "x", "y", "z")
    offsets = np.eye(3) / 2 + 0.5
    source = xr.Dataset(
        {k: (dims, v, {"offset": offsets[i]}) for i, (k, v) in enumerate(values.items())},
        {"sample": [0, 1], "time": [0.0, 1.0, 2.0], "x": x, "y": x, "z": x},
    )
    source.to_netcdf(tmp_path / "file", engine="scipy")
    with open_dataset(tmp_path / "file") as dataset:
        assert state_of(dataset) == ("u", "v", "w")
        for i, name in enumerate("uvw"):
            assert np.array_equal(dataset[name].values, values[name])
            firsts = [points[0] * n for points in grid_of(dataset, name).coordinates()]
            np.testing.assert_allclose(firsts, offsets[i], rtol=1e-12)
        check_round_trip(tmp_path, dataset, "jax-cfd")


def test_netcdf3_that_ends_early(tmp_path):
    path = tmp_path / "file"
    SAMPLES["jax-cfd-netcdf3"](path)
    content = path.read_bytes()
    for length in (8, 100, 400, len(content) - 4000):
        path.write_bytes(content[:length])
        with pytest.raises(ValueError, match="a NetCDF-3 file .*truncated or damaged|binary file of unknown") as caught:
            open_dataset(path)
        assert "\n" not in str(caught.value)
