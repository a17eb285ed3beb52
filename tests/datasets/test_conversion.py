"""Round trips between layouts, bit for bit; what a layout cannot hold is refused; files appear only when whole."""

from dataclasses import replace

import h5py
import numpy as np
import pytest
import scipy.io
import torch

from sciops.datasets import FieldDataset, content_hash, convert, describe, grid_of, open_dataset, with_phases
from sciops.datasets.conventions import build_dataset
from sciops.datasets.native import write_native
from sciops.grids import Grid


def _dataset(grid, *, coefficient="values", forcing=1.0, dtype=np.float32, samples=5):
    rng = np.random.default_rng(0)
    a = rng.random((samples, *grid.shape)) + 1
    a = (a > 1.5) * 1.0 if coefficient == "indicator" else a
    u = rng.random((samples, *grid.shape))
    fields = {n: (("sample", "x", "y"), v.astype(dtype), {}) for n, v in (("a", a), ("u", u))}
    fields["split"] = (("sample",), np.array([0, 0, 0, 1, 2], np.int8), {})
    return build_dataset(fields, grid, layout="native", equation="darcy", coefficient=coefficient, forcing=forcing)


def _same(one, other):
    assert grid_of(one).same_points(grid_of(other)) and grid_of(one).domain == grid_of(other).domain
    for key in ("equation", "coefficient", "forcing"):
        assert one.attrs[key] == other.attrs[key]
    for name in ("a", "u"):
        assert one[name].dtype == other[name].dtype
        assert np.array_equal(one[name].values, other[name].values)


UNIT = Grid((9, 6))
SHORT = Grid((16, 16), (0, 390 / 420), domain=(0, 1))
ODD = Grid((7, 8), ((0, 0.7), (0, 0.5)), domain=(0, 1))


@pytest.mark.parametrize(
    ("layout", "grid", "options"),
    [
        ("native", UNIT, {}),
        ("native", ODD, {"coefficient": "indicator", "forcing": 2.0}),
        ("neuralop", UNIT, {"dtype": np.float64}),
        ("neuralop", SHORT, {"coefficient": "indicator"}),
        ("neuralop", ODD, {}),
        ("li2020", UNIT, {}),
        ("li2020", UNIT, {"dtype": np.float64}),
        ("li2020-v7.3", UNIT, {}),
        ("pdebench-darcy", Grid((8, 5), centering="cell"), {"forcing": 0.01}),
    ],
)
def test_round_trip(tmp_path, layout, grid, options):
    source = _dataset(grid, **options)
    path = convert(source, tmp_path / "there", layout)
    with open_dataset(path) as there:
        assert there.attrs["layout"] == layout.removesuffix("-v7.3")
        _same(source, there)
        # and back into the native file, through the lazy reader
        with open_dataset(convert(path, tmp_path / "back", "native")) as back:
            _same(source, back)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["back", "there"]


def test_foreign_programs_find_what_they_expect(tmp_path):
    source = _dataset(UNIT)
    mat = scipy.io.loadmat(convert(source, tmp_path / "a.mat", "li2020"))
    assert np.array_equal(mat["coeff"], source["a"].values) and mat["sol"].dtype == np.float32
    with h5py.File(convert(source, tmp_path / "b.mat", "li2020-v7.3")) as file:
        assert np.array_equal(np.transpose(file["sol"]), source["u"].values)
    assert (tmp_path / "b.mat").read_bytes().startswith(b"MATLAB 7.3 MAT-file")
    marked = _dataset(SHORT, coefficient="indicator")
    pt = torch.load(convert(marked, tmp_path / "c.pt", "neuralop"), weights_only=True)
    assert set(pt) == {"x", "y"} and pt["x"].dtype == torch.bool  # its own rule gives the grid: nothing is added
    cells = _dataset(Grid((8, 8), centering="cell"), forcing=0.1)
    with h5py.File(convert(cells, tmp_path / "d.hdf5", "pdebench-darcy")) as file:
        assert file["tensor"].shape == (5, 1, 8, 8) and file.attrs["beta"] == 0.1
        np.testing.assert_allclose(file["x-coordinate"][:], (np.arange(8) + 0.5) / 8, rtol=1e-6)


def test_public_file_to_native_and_back_is_bit_equal(tmp_path, real_data):
    for name in ("darcy_test_16.pt", "burgers_test_16.pt"):
        path = convert(real_data / name, tmp_path / name, "native")
        again = torch.load(convert(path, tmp_path / f"{name}.pt", "neuralop"), weights_only=True)
        raw = torch.load(real_data / name, weights_only=True)
        assert set(again) == set(raw)
        assert all(again[key].dtype == raw[key].dtype and torch.equal(again[key], raw[key]) for key in raw)


def test_grids_and_splits_are_chosen(tmp_path):
    fine, coarse = _dataset(Grid((9, 9))), _dataset(Grid((5, 5)))
    write_native(tmp_path / "both", [fine, coarse], attrs={"equation": "darcy"})
    for shape, truth in ((9, fine), (5, coarse)):
        with open_dataset(convert(tmp_path / "both", tmp_path / f"copy{shape}", "native"), shape) as copy:
            assert np.array_equal(copy["u"].values, truth["u"].values)
    convert(tmp_path / "both", tmp_path / "train", "neuralop", resolution=5, split="train")
    assert np.array_equal(open_dataset(tmp_path / "train")["u"].values, coarse["u"].values[:3])


@pytest.mark.parametrize(
    ("layout", "grid", "options", "message"),
    [
        ("pdebench-darcy", UNIT, {}, "holds cell centres .* 9×6 node points"),
        ("neuralop", Grid((8, 8), centering="cell"), {}, "holds values at nodes.*pdebench-darcy"),
        ("li2020", Grid((8, 8), centering="cell"), {}, "holds values at nodes"),
        ("li2020", SHORT, {}, "walls on the grid.*stops at"),
        ("li2020-v7.3", UNIT, {"coefficient": "indicator"}, "holds coefficient values.*with_phases"),
        ("neuralop", UNIT, {"forcing": 2.0}, "source of 1"),
        ("excel", UNIT, {}, "expected one of native, arrays, the-well"),
    ],
)
def test_what_a_layout_cannot_hold_is_refused(tmp_path, layout, grid, options, message):
    with pytest.raises(ValueError, match=message) as caught:
        convert(_dataset(grid, **options), tmp_path / "x", layout)
    assert "\n" not in str(caught.value) and not list(tmp_path.iterdir())


def test_nothing_is_overwritten_or_left_half_written(tmp_path, monkeypatch):
    source = _dataset(UNIT)
    convert(source, tmp_path / "x", "li2020")
    before = (tmp_path / "x").read_bytes()
    with pytest.raises(FileExistsError, match="remove it, or pass overwrite=True"):
        convert(source, tmp_path / "x", "native")
    monkeypatch.setattr(torch, "save", lambda *_: (_ for _ in ()).throw(OSError("disk gone")))
    with pytest.raises(OSError, match="disk gone"):
        convert(source, tmp_path / "x", "neuralop", overwrite=True)
    assert (tmp_path / "x").read_bytes() == before and len(list(tmp_path.iterdir())) == 1


def test_a_damaged_sample_is_told_in_one_line_by_whatever_reads_it(tmp_path):
    path = convert(_dataset(UNIT), tmp_path / "damaged", "native")
    with h5py.File(path) as file:
        place = file["r9x6/u"].id.get_chunk_info(3).byte_offset
    with open(path, "r+b") as file:
        file.seek(place + 10)
        file.write(b"\x55\xaa")
    readers = {
        "describe": lambda: describe(path),
        "convert": lambda: convert(path, tmp_path / "copy", "neuralop"),
        "native": lambda: convert(path, tmp_path / "copy", "native"),
        "torch": lambda: FieldDataset(path),
        "hash": lambda: content_hash(path),
    }
    for name, read in readers.items():
        with pytest.raises(OSError, match=f"^{path}: damaged, .*sciops validate") as caught:
            read()
        assert "\n" not in str(caught.value), name
    assert [p.name for p in tmp_path.iterdir()] == ["damaged"]
    with pytest.raises(ValueError, match="holds no file"):
        (tmp_path / "folder").mkdir()
        describe(tmp_path / "folder")


def test_description_says_what_is_there(tmp_path, real_data):
    source = with_phases(_dataset(SHORT, coefficient="indicator"), 3.0, 12.0)
    text = describe(convert(source, tmp_path / "x", "native"))
    for part in ("native", "16×16 node points", "[0, 0.928571], walls at 0 and 1", "values 3 12", "train 3", "next"):
        assert part in text, text
    text = describe(real_data / "darcy_train_16.pt")
    for part in ("neuralop", "-0.42788 … 2.05719", "their values not stated", "sample 767", "fit_two_phase"):
        assert part in text, text
    assert "darcy_test_32.pt" in describe(real_data) and "50 samples, 32×32" in describe(real_data)


def test_a_generated_flow_goes_to_the_layouts_of_flows(tmp_path):
    """The forcing of a flow is a name, not a number, and its drag of 0 is none."""
    from data_gen.navier_stokes import PRESETS, run

    config = replace(PRESETS["quick"], samples=2, resolutions=(16,), duration=1.0, every=0.5, dt=0.05, progress=False)
    path = run(replace(config, output=tmp_path / "flow.h5", solved_on=16))
    with open_dataset(path) as flow, open_dataset(convert(path, tmp_path / "flow.mat", "li2020-ns-v7.3")) as there:
        assert flow.attrs["forcing"] == "li2020" and np.array_equal(there["w"].values, flow["w"].values)
        assert np.array_equal(there["time"].values, flow["time"].values)
    with open_dataset(convert(path, tmp_path / "flow.hdf5", "the-well", dtype="float32")) as well:
        assert well.attrs["forcing"] == "li2020" and "drag" in well.attrs["parameters"]
