"""PDEBench's files with one group per sample, read sample by sample."""

import multiprocessing
import pickle
import warnings

import h5py
import numpy as np
import pytest
from pdebench_files import numbers_in, replace_array

from sciops.datasets import convert, open_dataset, write_sample
from sciops.datasets.conventions import parameters_of, state_of
from sciops.datasets.formats.containers.yaml_lines import settings


def test_groups_of_any_names_in_natural_order(tmp_path):
    path = write_sample("pdebench-groups-shallow-water", tmp_path / "x")
    truth = numbers_in(path)["h"]
    with h5py.File(path, "a") as file:
        radii = [settings(file[name].attrs["config"])["sim.dam_radius"] for name in sorted(file)]
        for number, name in enumerate(sorted(file)):
            file.move(name, f"run{4 * number}")
    dataset = open_dataset(path)
    assert np.array_equal(dataset["h"].values, truth) and "sample" not in dataset.coords
    assert np.array_equal(dataset["dam_radius"], radii) and parameters_of(dataset)["gravity"] == 1.0
    assert np.array_equal(dataset["seed"], np.arange(8))
    with h5py.File(path, "a") as file:
        for number in range(8):
            file.move(f"run{4 * number}", f"{100 - 7 * number:05d}")
    again = open_dataset(path)
    assert np.array_equal(again["h"].values, truth[::-1])
    assert np.array_equal(again["sample"], 100 - 7 * np.arange(8)[::-1])
    back = open_dataset(convert(path, tmp_path / "back", "pdebench-groups"))
    assert np.array_equal(back["sample"], again["sample"]) and np.array_equal(back["dam_radius"], again["dam_radius"])


def test_groups_that_do_not_belong_together_are_refused(tmp_path):
    path = write_sample("pdebench-groups", tmp_path / "x")
    with h5py.File(path, "a") as file:
        del file["0003/data"]
        file["0003/data"] = np.zeros((11, 16, 15, 2), np.float32)
    with pytest.raises(ValueError, match=r"group 0003 holds float32\[11, 16, 15, 2\].*one shape") as caught:
        open_dataset(path)
    assert "\n" not in str(caught.value)
    replace_array(path, "0003/data", None)
    with pytest.raises(ValueError, match="group 0003 holds nothing as data"):
        open_dataset(path)
    path = write_sample("pdebench-groups", tmp_path / "y")
    replace_array(path, "0007/grid/x", np.linspace(0, 1, 16))
    with pytest.raises(ValueError, match="0000/grid/x and 0007/grid/x differ"):
        open_dataset(path)


def test_groups_without_settings_are_of_an_unknown_equation(tmp_path):
    path = write_sample("pdebench-groups", tmp_path / "x")
    with h5py.File(path, "a") as file:
        for group in file.values():
            group.attrs.pop("config")
    dataset = open_dataset(path)
    assert dataset.attrs["equation"] == "unknown" and "the equation is not known" in dataset.attrs["notes"]
    assert state_of(dataset) == ("u0", "u1") and "parameters" not in dataset.attrs
    back = open_dataset(convert(path, tmp_path / "back", "pdebench-groups"))
    assert np.array_equal(back["u1"].values, dataset["u1"].values) and back.attrs["grid"] == dataset.attrs["grid"]


def test_one_sample_is_read_from_its_group_alone(tmp_path, monkeypatch):
    dataset = open_dataset(write_sample("pdebench-groups", tmp_path / "x"))
    touched, original = [], h5py.Dataset.__getitem__

    def counting(self, args, **options):
        touched.append((self.name, original(self, args, **options).nbytes))
        return original(self, args, **options)

    monkeypatch.setattr(h5py.Dataset, "__getitem__", counting)
    dataset["v"].isel(sample=5, time=slice(2, 4)).load()
    assert touched == [("/0005/data", 2 * 16 * 16 * 4)]
    touched.clear()
    dataset["u"].isel(sample=[6, 1], x=3).load()
    assert sorted(name for name, _ in touched) == ["/0001/data", "/0006/data"]


def test_files_far_beyond_memory_open_and_serve_single_samples(tmp_path):
    """Holes in a file take no room on disk: hundreds of gigabytes that were never written."""
    with h5py.File(tmp_path / "scalar", "w") as file:
        data = file.create_dataset("tensor", (200_000, 201, 1024), "f4", fill_time="never")
        data[77_777, 5], data[-1, -1, -1] = np.arange(1024), 1
        file.attrs["beta"] = 1.0
    dataset = open_dataset(tmp_path / "scalar")
    assert dataset["u"].nbytes > 1.6e11
    assert np.array_equal(dataset["u"][77_777, 5], np.arange(1024)) and not dataset["u"][5].any()
    coarse = open_dataset(tmp_path / "scalar", 128)
    assert np.array_equal(coarse["u"][77_777, 5], np.arange(0, 1024, 8))
    with h5py.File(tmp_path / "flow", "w") as file:
        shape = (40, 1000, 512, 512)
        for name, last in (("velocity", 2), ("particles", 1)):
            file.create_dataset(name, (*shape, last), "f4", fill_time="never")[-1, -1, -1, -1] = 1
        file.create_dataset("force", (40, 512, 512, 2), "f4", fill_time="never")[-1, -1, -1] = 1
        file["velocity"][27, 6, :, :, 1] = 3
        file["t"] = np.tile(np.arange(1000, dtype=np.float32), (40, 1))
    flow = open_dataset(tmp_path / "flow")
    assert flow["vy"].nbytes > 4e10
    assert (flow["vy"][27, 6] == 3).all() and not flow["vx"][27, 6].any()
    assert np.array_equal(flow["vy"][27, 5:8, 0, 0], [0, 3, 0])


def _sum_of(dataset):
    return float(sum(dataset[name].values.sum(dtype=np.float64) for name in state_of(dataset)))


def test_no_handle_stays_open_and_other_processes_read_on(tmp_path):
    for layout in ("pdebench-1d", "pdebench-groups", "pdebench-ns"):
        path = write_sample(layout, tmp_path / layout)
        dataset = open_dataset(path)
        total = _sum_of(dataset.copy(deep=False))
        assert _sum_of(pickle.loads(pickle.dumps(open_dataset(path)))) == total
        fresh = open_dataset(path)
        fresh["time"].load()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # fork beside threads
            with multiprocessing.get_context("fork").Pool(1) as pool:
                assert pool.apply(_sum_of, (fresh,)) == total
        with h5py.File(path, "a"):  # HDF5's lock would refuse while somebody reads
            pass
