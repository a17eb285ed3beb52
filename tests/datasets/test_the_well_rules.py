"""The written rules of The Well: each broken one is found, and such files open where they can be understood."""

import json

import h5py
import numpy as np
import pytest
from well_files import store_values

from sciops.datasets import (
    check_well,
    open_dataset,
)


def _drop(place, key=None):
    def change(file):
        if key is None:
            del file[place]
        else:
            del file[place].attrs[key]

    return change


def _set(place, key, value):
    def change(file):
        file[place].attrs[key] = value

    return change


@pytest.mark.parametrize(
    ("change", "finding"),
    [
        (_drop("/", "dataset_name"), "attribute dataset_name is missing"),
        (_set("/", "n_trajectories", "8"), "n_trajectories is '8', not a whole number"),
        (_drop("/", "viscosity"), "viscosity is not a root attribute"),
        (_drop("scalars/viscosity"), "viscosity is not a dataset in scalars"),
        (_set("/", "simulation_parameters", "viscosity"), "simulation_parameters is 'viscosity', not a list"),
        (_drop("t2_fields"), "group t2_fields is missing"),
        (_drop("dimensions/time", "time_varying"), "/dimensions/time: attribute time_varying is None"),
        (_set("dimensions/time", "time_varying", False), r"/dimensions/time: shape \(6,\), expected \(\)"),
        (_set("dimensions/x", "sample_varying", 0), "sample_varying is .*0.*, not a boolean"),
        (_set("dimensions", "spatial_dims", ["x"]), "spatial_dims names 1, n_spatial_dims is 2"),
        (_drop("t0_fields/tracer", "dim_varying"), "dim_varying is None"),
        (_set("t0_fields/forcing", "time_varying", True), r"forcing: shape \(8, 24, 16\), expected \(8, 6, 24, 16\)"),
        (store_values("t0_fields/profile", np.zeros(16)), "profile: holds float64, not float32"),
        (store_values("t2_fields/strain", np.zeros((8, 6, 24, 16, 4), "f4")), r"expected \(8, 6, 24, 16, 2, 2\)"),
        (_drop("t2_fields/strain", "symmetric"), "attribute symmetric is None"),
        (store_values("scalars/viscosity", np.zeros(1, "f4")), r"viscosity: shape \(1,\), expected \(\)"),
        (_set("scalars", "field_names", ["viscosity", "amplitude", "decay", "more"]), "/scalars/more: is missing"),
        (_set("boundary_conditions/x_periodic", "associated_dims", "x"), "associated_dims is 'x', not a list"),
        (_set("boundary_conditions/x_periodic", "bc_type", "SLIP"), "bc_type is 'SLIP', not one of WALL"),
        (_drop("boundary_conditions/y_wall/mask"), "mask is missing"),
        (store_values("boundary_conditions/y_wall/mask", np.zeros(24, bool)), r"mask: shape \(24,\), expected \(16,\)"),
        (store_values("boundary_conditions/y_wall/mask", np.zeros(16, "i1")), "mask: holds int8, not bool"),
        (store_values("boundary_conditions/y_wall/values", np.zeros(3, "f4")), "3 values for 2 true entries"),
    ],
)
def test_each_broken_rule_is_found(channel, change, finding):
    import re

    assert check_well(channel) == []
    with h5py.File(channel, "a") as file:
        change(file)
    found = check_well(channel)
    assert found and any(re.search(finding, line) for line in found), found
    assert all("\n" not in line and line.startswith("/") for line in found)


def test_files_against_the_rules_open_where_they_can_be_understood(channel):
    """As The Well's own script for dummy data writes them: a string for a list, no time_varying on dimensions."""
    before = open_dataset(channel)
    with h5py.File(channel, "a") as file:
        for name in ("time", "x", "y"):
            del file[f"dimensions/{name}"].attrs["time_varying"]
        for name in ("x_periodic", "y_wall"):
            file[f"boundary_conditions/{name}"].attrs["associated_dims"] = name[0]
        file["t0_fields"].attrs["field_names"] = ["tracer"]  # forgets two
        del file.attrs["n_trajectories"]
    dataset = open_dataset(channel)
    assert "against the format: /: attribute n_trajectories is missing" in json.loads(dataset.attrs["notes"])
    for key in ("boundary", "grid", "parameters"):
        assert dataset.attrs[key] == before.attrs[key]
    assert set(dataset.data_vars) == set(before.data_vars)


def test_shapes_that_contradict_their_flags_are_refused(channel):
    with h5py.File(channel, "a") as file:
        file["t1_fields/velocity"].attrs["time_varying"] = False
    with pytest.raises(ValueError, match=r"t1_fields/velocity is float32\[8, 6, 24, 16, 2\].*gives \[8, 24, 16, 2\]"):
        open_dataset(channel)
    with h5py.File(channel, "a") as file:
        file["t1_fields/velocity"].attrs.update({"time_varying": True, "dim_varying": [True]})
    with pytest.raises(ValueError, match="dim_varying = .True. for the dimensions x, y") as caught:
        open_dataset(channel)
    assert "\n" not in str(caught.value)
    with h5py.File(channel, "a") as file:
        del file["dimensions/y"]
    with pytest.raises(ValueError, match="dimensions names x, y, and holds no y"):
        open_dataset(channel)


def test_other_groups_are_no_well(tmp_path):
    with h5py.File(tmp_path / "x", "w") as file:
        file.attrs["grid_type"] = "cartesian"
        file["dimensions/time"] = np.zeros(3)
    with pytest.raises(ValueError, match="not a known layout"):
        open_dataset(tmp_path / "x")
    (tmp_path / "text").write_text("no data")
    with pytest.raises(ValueError, match="not an HDF5 file"):
        check_well(tmp_path / "text")
    with h5py.File(tmp_path / "links", "w") as file:
        file["t0_fields"] = h5py.SoftLink("/t0_fields")
        file["dimensions"] = h5py.SoftLink("/nowhere")
    assert any("group dimensions is missing" in line for line in check_well(tmp_path / "links"))
