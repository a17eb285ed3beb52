"""CNO files against the arrays they were written from, each value at its true place."""

import json

import h5py
import numpy as np
import xarray as xr
from flow_checks import RNG, check_holds, check_round_trip

from sciops.datasets import convert, grid_of, open_dataset
from sciops.datasets.conventions import split_indices
from sciops.datasets.formats import cno
from sciops.datasets.formats.samples.flow import SAMPLES
from sciops.grids import Grid


def _groups(path, prefix, count, suffix="", shape=(6, 6), extra=()):
    values = RNG.random((2, count, *shape)).astype(np.float32)
    with h5py.File(path, "w") as file:
        for i in range(count):
            file[f"{prefix}_{i}{suffix}/input"], file[f"{prefix}_{i}{suffix}/output"] = values[:, i]
        for name in extra:
            file[name] = RNG.random()
    return values


def test_cno_darcy(tmp_path):
    path = tmp_path / "file"
    SAMPLES["cno"](path, seed=1)
    with h5py.File(path) as file:
        a, u = (np.stack([file[f"sample_{i}/{k}"][:] for i in range(8)]) for k in ("input", "output"))
        low = float(file["min_u"][()])
    check_holds(path, {"a": a, "u": u})
    with open_dataset(path) as dataset:
        assert dataset.attrs["equation"] == "darcy" and dataset.attrs["coefficient"] == "values"
        assert grid_of(dataset) == Grid((16, 16)) and dataset.attrs["positions"].startswith("seen")
        assert dataset["u"].attrs["training_min"] == low and "split" not in dataset
        again = check_round_trip(tmp_path, dataset, "cno")
    with h5py.File(again) as file:
        assert file["sample_7/input"].shape == (16, 16) and file["max_u0"][()] == 12.0


def test_cno_equation_order_and_splits(tmp_path, monkeypatch):
    documented = {"darcy": (256, 128, 128), "poisson": (1024, 128, 256), "allen_cahn": (256, 128, 128)}
    assert documented == cno.SPLITS_OF
    # one file of its true size; the others as if theirs were 12 and 13
    monkeypatch.setattr(cno, "SPLITS_OF", documented | {"poisson": (8, 2, 3), "allen_cahn": (6, 4, 2)})
    for prefix, suffix, extra, count, equation, counts in (
        ("sample", "", ("min_u0",), 512, "darcy", (256, 128, 128)),
        ("sample", "", ("min_u0",), 12, "darcy", None),
        ("Sample", "", ("min_inp", "max_inp"), 13, "poisson", (8, 2, 3)),
        ("Sample", "", ("min_u0",), 12, "allen_cahn", (6, 4, 2)),
        ("Sample", "", ("min_u0",), 13, "allen_cahn", None),
        ("Sample", "_t_5", ("min_u0",), 12, "wave", None),
        ("Sample", "", (), 12, "cno", None),
    ):
        path = tmp_path / f"{equation}{count}"
        values = _groups(path, prefix, count, suffix, (4, 4), extra)
        with open_dataset(path) as dataset:
            assert dataset.attrs["equation"] == equation and dataset.attrs["task"] == "steady"
            # sample 10 comes after sample 9, not after sample 1
            assert np.array_equal(dataset["u"].values, values[1])
            assert np.array_equal(dataset["f" if equation == "poisson" else "a"].values, values[0])
            if counts is None:
                assert "split" not in dataset
            else:
                found = [split_indices(dataset, name) for name in ("train", "validation", "test")]
                assert tuple(map(len, found)) == counts and np.array_equal(np.concatenate(found), np.arange(count))


def test_cno_walls_are_seen(tmp_path):
    """u that vanishes on the wall: nodes on it, cells half a cell inside; anything else is only assumed."""
    for grid in (Grid((16, 16)), Grid((16, 16), centering="cell")):
        x, y = grid.meshgrid()
        source = xr.Dataset(
            {
                name: (("sample", "x", "y"), np.tile(np.sin(np.pi * x) * np.sin(np.pi * y), (5, 1, 1)))
                for name in ("f", "u")
            },
            attrs={"equation": "poisson", "grid": json.dumps(grid.to_dict())},
        )
        with open_dataset(convert(source, tmp_path / grid.centering, "cno")) as there:
            assert grid_of(there) == grid and there.attrs["positions"].startswith("seen")
    noise = tmp_path / "noise"
    _groups(noise, "sample", 6, shape=(8, 8))
    with open_dataset(noise) as dataset:
        assert dataset.attrs["positions"].startswith("assumed") and grid_of(dataset) == Grid((8, 8))
    # a grid that the numbers would not tell is stated
    odd = Grid((8, 8), ((0, 2), (0, 2)), "cell")
    with open_dataset(noise) as dataset:
        stated = dataset.assign_attrs(grid=json.dumps(odd.to_dict())).load()
    with open_dataset(convert(stated, tmp_path / "odd", "cno")) as there:
        assert grid_of(there) == odd and there.attrs["positions"] == "stored"
