"""Every layout from a tiny file written exactly as its authors write it; hostile files answer in one line."""

import pickle

import h5py
import numpy as np
import pytest
import scipy.io
import torch
from warm import imports

from sciops.datasets import FieldDataset, grid_of, load_splits, open_dataset, write_sample
from sciops.datasets.checks import description
from sciops.datasets.conventions import build_dataset
from sciops.datasets.formats.containers.hdf5_arrays import H5Array
from sciops.datasets.native import write_native
from sciops.grids import Grid

RNG = np.random.default_rng(0)
A = np.where(RNG.random((4, 9, 9)) > 0.5, 12.0, 3.0).astype(np.float32)
U = RNG.random((4, 9, 9)).astype(np.float32)


def _li_v73(path, a, u):
    """As MATLAB writes v7.3: a 512-byte block of its own, then HDF5 with reversed axes and a class attribute."""
    with h5py.File(path, "w", userblock_size=512) as file:
        for name, array in (("coeff", a), ("sol", u)):
            file[name] = np.transpose(array)
            file[name].attrs["MATLAB_class"] = np.bytes_("single")
    with open(path, "r+b") as file:
        file.write(b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(124) + b"\x00\x02IM")


def _pdebench(path, a, u, *, x=None, beta=0.5):
    n = a.shape[-1]
    centres = ((np.arange(n) + 0.5) / n).astype(np.float32)
    with h5py.File(path, "w") as file:
        file["tensor"], file["nu"] = u[:, None], a
        file["x-coordinate"] = centres if x is None else x
        file["y-coordinate"] = centres
        file.attrs["beta"] = beta


def _check(dataset, a, u):
    """Whole, one sample, scattered and reversed samples, single points: always the stored numbers."""
    for name, truth in (("a", a), ("u", u)):
        assert np.array_equal(dataset[name].values, truth)
        assert np.array_equal(dataset[name][2].values, truth[2])
        assert np.array_equal(dataset[name].isel(sample=[3, 0, 3]).values, truth[[3, 0, 3]])
        assert np.array_equal(dataset[name][::-1, 1:7:2, 3].values, truth[::-1, 1:7:2, 3])
        assert dataset[name][1, 2, 3].item() == truth[1, 2, 3]


def test_li_version_5(tmp_path):
    scipy.io.savemat(
        tmp_path / "x", {"coeff": A, "sol": U, "Kcoeff": A.astype(float), "Kcoeff_x": A * 0.0}, appendmat=False
    )
    dataset = open_dataset(tmp_path / "x")
    _check(dataset, A, U)
    assert dataset.attrs["layout"] == "li2020" and grid_of(dataset) == Grid((9, 9))
    assert np.array_equal(dataset["Kcoeff"].values, A) and dataset["u"].dtype == np.float32


def test_li_version_73_has_its_axes_put_right(tmp_path):
    a, u = A[:, :, :5], U[:, :, :5]
    _li_v73(tmp_path / "x.pt", a, u)  # a misleading ending
    dataset = open_dataset(tmp_path / "x.pt")
    _check(dataset, a, u)
    assert dataset.attrs["layout"] == "li2020" and grid_of(dataset) == Grid((9, 5))
    coarse = open_dataset(tmp_path / "x.pt", (5, 3))
    assert np.array_equal(coarse["u"].values, u[:, ::2, ::2]) and grid_of(coarse) == Grid((5, 3))


@pytest.mark.parametrize("reverse", [False, True])
def test_li_converted_to_plain_hdf5(tmp_path, reverse):
    with h5py.File(tmp_path / "x.mat", "w") as file:
        file["coeff"], file["sol"] = (A.T, U.T) if reverse else (A, U)
    _check(open_dataset(tmp_path / "x.mat"), A, U)


def test_pdebench_lives_on_cells(tmp_path):
    _pdebench(tmp_path / "x", A, U)
    dataset = open_dataset(tmp_path / "x")
    _check(dataset, A, U)
    assert dataset.attrs["forcing"] == 0.5 and "notes" not in dataset.attrs
    assert grid_of(dataset) == Grid((9, 9), centering="cell")
    np.testing.assert_allclose(dataset["x"], (np.arange(9) + 0.5) / 9, rtol=1e-12)
    with pytest.raises(ValueError, match="resolution=5: .* 9×9 cell points"):
        open_dataset(tmp_path / "x", 5)


def test_pdebench_coordinates_that_contradict_cells_are_noted(tmp_path):
    _pdebench(tmp_path / "x", A, U, x=np.linspace(0, 1, 9))
    dataset = open_dataset(tmp_path / "x")
    assert "wall to wall" in dataset.attrs["notes"]
    assert grid_of(dataset) == Grid((9, 9), centering="cell")


def test_lazy_readers_serve_torch_on_demand(tmp_path):
    _li_v73(tmp_path / "x.mat", A, U)
    on_demand = load_splits(tmp_path / "x.mat", 5, memory_limit=0, validation=1, test=1)
    assert torch.equal(on_demand.train.y[:, 0], torch.from_numpy(U[:2, ::2, ::2]))
    again = pickle.loads(pickle.dumps(open_dataset(tmp_path / "x.mat")))
    _check(again, A, U)


def test_neuraloperator_positions(tmp_path, real_data):
    for n, stride in ((16, 26), (32, 13)):
        dataset = open_dataset(real_data / f"darcy_test_{n}.pt")
        np.testing.assert_allclose(dataset["x"], stride * np.arange(n) / 420, rtol=1e-14)
        grid = grid_of(dataset)
        assert grid.domain == ((0, 1), (0, 1)) and not grid.reaches_walls
    # u falls off linearly towards the wall beyond the last node, so its distance can be read off the fields
    u = np.abs(dataset["u"].values).mean((0, 2))
    wall = dataset["x"].values[-1] + grid.spacing[0] * u[-1] / (u[-2] - u[-1])
    assert abs(wall - 1) < 0.5 * grid.spacing[0]


def test_neuraloperator_indicator_and_walls_on_the_grid(tmp_path):
    u = np.sin(np.pi * np.linspace(0, 1, 21))
    y = torch.from_numpy(np.multiply.outer(u, u)[None].repeat(3, 0))
    x = torch.from_numpy(RNG.random((3, 21, 21)) > 0.5)
    torch.save({"x": x, "y": y}, tmp_path / "x")
    dataset = open_dataset(tmp_path / "x")
    assert grid_of(dataset) == Grid((21, 21)) and dataset.attrs["coefficient"] == "indicator"
    assert np.array_equal(dataset["a"].values, x.numpy().astype(float)) and dataset["a"].mean().item() > 0
    torch.save({"x": x * 9.0 + 3, "y": y}, tmp_path / "x")
    assert open_dataset(tmp_path / "x").attrs["coefficient"] == "values"
    stated = Grid((21, 21), (0, 0.9), domain=(0, 1))
    assert grid_of(open_dataset(tmp_path / "x", grid=stated)) == stated


def test_native_holds_several_grids_and_nests_others(tmp_path):
    fine = build_dataset(
        {"a": (("sample", "x", "y"), A, {}), "u": (("sample", "x", "y"), U, {})},
        Grid((9, 9)),
        layout="native",
        equation="darcy",
        coefficient="values",
    )
    coarse = build_dataset(
        {"a": (("sample", "x", "y"), A[:, ::4, ::4], {}), "u": (("sample", "x", "y"), U[:, ::4, ::4] + 1, {})},
        Grid((3, 3)),
        layout="native",
        equation="darcy",
        coefficient="values",
    )
    write_native(tmp_path / "x", [fine, coarse], attrs={"equation": "darcy"})
    with open_dataset(tmp_path / "x") as dataset:
        _check(dataset, A, U)
    assert np.array_equal(FieldDataset(tmp_path / "x", resolution=3).y[:, 0], U[:, ::4, ::4] + 1)
    assert np.array_equal(FieldDataset(tmp_path / "x", resolution=5).y[:, 0], U[:, ::2, ::2])


class _Malicious:
    def __reduce__(self):
        return (print, ("code ran",))


def _hostile(tmp_path):
    whole = tmp_path / "whole"
    _pdebench(whole, A, U)
    scipy.io.savemat(tmp_path / "whole.mat", {"coeff": A, "sol": U}, do_compression=True)
    torch.save({"x": torch.zeros(2, 3, 3), "y": torch.zeros(2, 3, 3)}, tmp_path / "whole.pt")
    cut = {
        "cut_hdf5": (whole.read_bytes()[:3000], "truncated"),
        "cut_torch": ((tmp_path / "whole.pt").read_bytes()[:700], "truncated"),
        "cut_mat": ((tmp_path / "whole.mat").read_bytes()[:600], "truncated"),
        "empty": (b"", "is empty"),
        "text.h5": (b"hello, no data here\n", "a text file .*write_native.*study language_model"),
        "page.pt": (b"<!DOCTYPE html><html>404</html>", "HTML"),
        "noise": (
            bytes(np.random.default_rng(1).integers(0, 256, 4096, dtype=np.uint8)),
            "not a known layout: .*write_native",
        ),
        "lfs.pt": (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "git lfs pull"),
        "pickle.pt": (pickle.dumps({"x": 1}), "never opened"),
    }
    for name, (content, message) in cut.items():
        (tmp_path / name).write_bytes(content)
        yield tmp_path / name, message
    torch.save({"x": torch.zeros(2, 3, 3), "y": _Malicious()}, tmp_path / "object.pt")
    yield tmp_path / "object.pt", "pickled object.*save plain tensors"
    torch.save({"inputs": torch.zeros(2, 3, 3), "y": torch.zeros(2, 3, 3)}, tmp_path / "keys.pt")
    yield tmp_path / "keys.pt", r"inputs float32\[2, 3, 3\], y.*not a known layout"
    torch.save({"x": torch.zeros(2, 3, 3), "y": torch.zeros(2, 4, 4)}, tmp_path / "shapes.pt")
    yield tmp_path / "shapes.pt", r"y float32\[2, 4, 4\]"
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["group/velocity"] = np.zeros((2, 3))
    yield tmp_path / "other.h5", r"group/velocity float64\[2, 3\]"
    yield tmp_path, "is a folder"
    yield tmp_path / "missing.pt", "no file .*missing.pt: beside it lie"


def test_hostile_files_answer_in_one_line(tmp_path, capsys):
    for path, message in _hostile(tmp_path):
        with pytest.raises((ValueError, OSError), match=message) as caught:
            open_dataset(path)
        text = str(caught.value)
        assert "\n" not in text and str(path) in text and len(text) < 800
    assert "code ran" not in capsys.readouterr().out


def test_mat_named_h5_is_read_for_what_it_is(tmp_path):
    scipy.io.savemat(tmp_path / "x.h5", {"coeff": A, "sol": U}, appendmat=False)
    _check(open_dataset(tmp_path / "x.h5"), A, U)
    with pytest.raises(ValueError, match="a MATLAB v5 file with coeff .* layout 'pdebench-darcy' is HDF5 with"):
        open_dataset(tmp_path / "x.h5", layout="pdebench-darcy")
    with pytest.raises(ValueError, match="layout='pdebench': expected one of native"):
        open_dataset(tmp_path / "x.h5", layout="pdebench")


def test_the_room_loads_neither_xarray_nor_h5py():
    code = "import sciops.datasets as d; d.Normalizer, d.FieldDataset; print({'xarray', 'h5py'} & set(sys.modules))"
    done = imports(code, "xarray", "h5py")
    assert done.stdout.strip() == "set()", done.stderr


def test_info_reads_a_bounded_part_of_a_long_trajectory(tmp_path, monkeypatch):
    """Of four samples with thousands of large states one sample alone may fill the memory."""
    path = write_sample("pdebench-ns", tmp_path / "x")
    most, read = [], H5Array._read

    def noted(self, key):
        most.append(read(self, key).size)
        return read(self, key)

    monkeypatch.setattr(H5Array, "_read", noted)
    monkeypatch.setattr(description, "_POINTS", 1000)  # a state has 256 points, a sample 1536
    text = description.describe(path)
    assert 256 <= max(most) <= 1000 and text.count("of evenly spread samples") == 5


def test_a_large_coefficient_is_not_read_when_its_file_opens(tmp_path):
    """Three numbers tell values from an indicator; what is 0 and 1 throughout stays a bool on the disk."""
    x = 3 + 9 * (torch.rand(600, 8, 8) > 0.5)
    torch.save({"x": x.float(), "y": torch.rand(600, 8, 8)}, tmp_path / "values.pt")
    torch.save({"x": x > 6, "y": torch.rand(600, 8, 8)}, tmp_path / "bool.pt")
    late = (x > 6).float()
    late[599, 7, 7] = 0.5
    torch.save({"x": late, "y": torch.rand(600, 8, 8)}, tmp_path / "late.pt")
    for name, kind in (("values", "values"), ("bool", "indicator"), ("late", "values")):
        dataset = open_dataset(tmp_path / f"{name}.pt")
        assert dataset.attrs["coefficient"] == kind and dataset["a"].dtype == np.float32
    dataset = open_dataset(tmp_path / "bool.pt")
    assert not dataset["a"].variable._in_memory
    for part in (np.s_[:], np.s_[5], np.s_[[3, 0], ::-2], np.s_[:, 1, [4, 4]], np.s_[0, 0, 0]):
        assert np.array_equal(dataset["a"][part].values, (x > 6).numpy().astype(np.float32)[part])


def test_zarr_stores_of_version_2_are_named(tmp_path):
    (tmp_path / "train.zarr").mkdir()
    (tmp_path / "train.zarr" / ".zgroup").write_text('{"zarr_format": 2}')
    with pytest.raises(ValueError, match=r"Zarr store of version 2.*xarray.open_zarr\(path\).to_netcdf"):
        open_dataset(tmp_path / "train.zarr")
