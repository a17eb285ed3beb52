"""Conversion to another precision: values are NumPy's own rounding, the rest stays exact, and the loss is said."""

import zipfile

import numpy as np
import pytest

from sciops.datasets import (
    blocks,
    check_well,
    content_hash,
    convert,
    open_dataset,
    well_statistics,
    write_native,
    write_sample,
    write_well_folder,
)
from sciops.datasets.conventions import build_dataset, with_grid
from sciops.datasets.formats.casting import Casting
from sciops.datasets.formats.containers.hdf5_arrays import H5Array
from sciops.grids import Grid


def _waves(dtype=np.float64, samples=3, times=5, n=16):
    rng = np.random.default_rng(0)
    fields = {"u": (("sample", "time", "x"), rng.standard_normal((samples, times, n)).astype(dtype), {})}
    fields["residual"] = (("sample",), rng.random(samples) * 1e-9, {})
    options = {"layout": "native", "equation": "heat", "state": ("u",), "parameters": {"viscosity": 1 / 3}}
    return build_dataset(fields, Grid(n, 1.0, "periodic"), times=np.arange(times) / 7, **options)


def test_the_well_takes_double_precision_when_it_is_asked_to_round(tmp_path):
    source = _waves()
    with pytest.raises(ValueError, match="holds float32; u is float64: .*--dtype float32"):
        convert(source, tmp_path / "x", "the-well")
    said = []
    path = convert(source, tmp_path / "x", "the-well", dtype="float32", told=said.append)
    assert not check_well(path)
    with open_dataset(path) as there:
        assert there["u"].dtype == np.float32
        assert np.array_equal(there["u"].values, source["u"].values.astype(np.float32))
        assert np.array_equal(there["time"].values, source["time"].values)  # exact still
    (line,) = said
    largest = float(line.split("at most ")[1].split()[0])
    assert line.startswith("u: float64 to float32") and 1e-8 < largest <= np.finfo(np.float32).eps / 2


def test_a_folder_of_the_well_is_written_from_double_precision(tmp_path):
    source = _waves()
    source["split"] = ("sample", np.arange(3, dtype=np.int8))
    with pytest.raises(ValueError, match="--dtype float32"):
        write_well_folder(source, tmp_path, "waves")
    folder = write_well_folder(source, tmp_path, "waves", dtype="float32", overwrite=True)
    for i, part in enumerate(("train", "valid", "test")):
        with open_dataset(folder / "data" / part / "waves.hdf5") as there:
            assert np.array_equal(there["u"].values, source["u"].values[i : i + 1].astype("f4"))
    exact = source["u"].values[0].astype("f4").astype("f8")
    assert well_statistics(folder / "data" / "train" / "waves.hdf5")["std"]["u"] == pytest.approx(exact.std())


def test_only_fields_are_cast_and_widening_loses_nothing(tmp_path):
    source = _waves()
    narrow = convert(source, tmp_path / "narrow", "native", dtype="float32")
    said = []
    wide = convert(narrow, tmp_path / "wide", "native", dtype="float64", told=said.append)
    with open_dataset(narrow) as one, open_dataset(wide) as other:
        assert (one["u"].dtype, other["u"].dtype) == (np.float32, np.float64)
        assert np.array_equal(one["u"].values, other["u"].values)
        for name in ("residual", "time", "x"):
            assert one[name].dtype == np.float64 and np.array_equal(one[name].values, source[name].values)
    assert said == ["u: float32 to float64, no number changed"]
    assert content_hash(convert(narrow, tmp_path / "again", "native", dtype="float32")) == content_hash(narrow)


@pytest.mark.parametrize("value", [1e39, -1e39, np.float64(np.finfo(np.float32).max) * 1.0001])
def test_numbers_beyond_the_range_are_refused_and_nothing_is_written(tmp_path, value):
    source = _waves()
    source["u"][1, 2, 3] = value
    with pytest.raises(
        ValueError, match=r"^u holds -?[\d.e+]+, beyond the largest float32 \(3\.4e\+38\): scale"
    ) as caught:
        convert(source, tmp_path / "x", "native", dtype="float32")
    assert "\n" not in str(caught.value) and not list(tmp_path.iterdir())


def test_numbers_next_to_nothing_and_those_that_are_none(tmp_path):
    casting = Casting("float32")
    source = _waves()
    source["u"][0, 0, :6] = [1e-46, 1e-40, 0.0, np.inf, -np.inf, np.nan]
    values = casting.apply(source)["u"].values
    assert np.array_equal(values, source["u"].values.astype(np.float32), equal_nan=True)
    (line,) = casting.account()
    assert "numbers up to 1.0e-40 are less than float32 resolves" in line
    assert float(line.split("at most ")[1].split()[0]) <= 6e-8  # of the others
    with pytest.raises(ValueError, match="dtype='float16': expected one of float32, float64"):
        convert(source, tmp_path / "x", "native", dtype="float16")


def test_a_cast_array_is_read_in_any_shape_and_only_where_asked():
    source = _waves()
    cast = Casting("float32").apply(source)["u"]
    exact = source["u"].values.astype(np.float32)
    assert not cast.variable._in_memory
    for key in ((1,), (slice(0, 2), -1), (np.array([2, 0]), slice(None), 3), (slice(None), np.array([1, 1]))):
        assert np.array_equal(cast[key].values, exact[key] if len(key) == 1 else source["u"][key].values.astype("f4"))


def test_whole_numbers_become_floats_and_masks_stay(tmp_path):
    grid = Grid((4, 4), centering="cell")
    a = np.arange(32, dtype=np.int64).reshape(2, 4, 4) + 1
    fields = {"a": (("sample", "x", "y"), a, {}), "u": (("sample", "x", "y"), a / 7, {})}
    fields["mask"] = (("x", "y"), np.eye(4, dtype=np.int8), {"bc_type": "WALL"})
    cast = Casting("float32").apply(build_dataset(fields, grid, layout="native", equation="darcy"))
    assert cast["a"].dtype == cast["u"].dtype == np.float32 and cast["mask"].dtype == np.int8
    assert np.array_equal(cast["a"].values, a)


@pytest.mark.parametrize(
    ("layout", "sample"),
    [
        *((name, "pdebench-cfd") for name in ("native", "arrays", "the-well", "pdebench-cfd")),
        *((name, name) for name in ("poseidon", "pdearena-ns", "jax-cfd", "li2020-ns-v7.3", "apebench")),
        ("li2020-burgers-v7.3", "pdebench-1d"),
        ("neuralop", "pdebench-1d"),
    ],
)
def test_samples_larger_than_a_block_pass_in_pieces_of_their_times(tmp_path, monkeypatch, layout, sample):
    options = {"layout": "apebench"} if sample == "apebench" else {}
    with open_dataset(write_sample(sample, tmp_path / "source"), **options) as source:
        if layout in ("neuralop", "li2020-burgers-v7.3"):
            source = source.drop_vars("time") if layout == "neuralop" else source
            source = with_grid(source.assign_attrs(equation="burgers", parameters="{}"), Grid(32, 1.0, "periodic"))
        whole = convert(source, tmp_path / "whole", layout)
        evolving = [v for v in source.data_vars.values() if "time" in v.dims]
        step = sum(v[0, 0].nbytes for v in evolving) if len(evolving) > 1 else evolving[0][0, 0].nbytes
        monkeypatch.setattr(blocks, "BLOCK", 2 * step)
        assert source.sizes["time"] > 2
        largest, read = [0], H5Array._read
        monkeypatch.setattr(H5Array, "_read", lambda self, key: largest.append(read(self, key)) or largest[-1])
        pieces = convert(source, tmp_path / "pieces", layout)
        assert sample == "apebench" or 0 < max(np.asarray(one).nbytes for one in largest) <= blocks.BLOCK
    with open_dataset(whole) as one, open_dataset(pieces) as other:
        for dataset in (one, other):
            dataset.attrs.pop("created", None)  # a second may lie between them
        assert one.identical(other)
    assert layout not in ("native", "arrays") or content_hash(pieces) == content_hash(whole)


def test_the_hash_does_not_depend_on_the_pieces(tmp_path, monkeypatch):
    path = write_native(tmp_path / "x.h5", _waves())
    before = content_hash(path)
    for size in (1, 100, 300, 1000):
        monkeypatch.setattr(blocks, "BLOCK", size)
        assert content_hash(path) == before


def test_what_a_layout_has_no_place_for_can_be_left_out(tmp_path):
    source = _waves()
    source["mean"] = (("x",), np.zeros(16), {})
    with pytest.raises(ValueError, match="no place for mean: .*--without mean"):
        convert(source, tmp_path / "x", "apebench")
    convert(source, tmp_path / "x", "apebench", without=["mean"])
    untimed = convert(source, tmp_path / "y", "native", without=["time", "mean", "viscosity"])
    with open_dataset(untimed) as there:
        assert set(there.data_vars) == {"u", "residual"} and "time" not in there.coords
        assert "viscosity" not in there.attrs.get("parameters", "")
    with pytest.raises(ValueError, match="without='mode': the data set holds u, residual, mean, viscosity, time"):
        convert(source, tmp_path / "z", "native", without=["mode"])
    with pytest.raises(ValueError, match="without='time': .*y holds u, residual"):
        convert(untimed, tmp_path / "z", "native", without=["time"])


@pytest.mark.parametrize("layout", ["neuralop", "li2020", "li2020-v7.3", "cno", "pdebench-darcy"])
@pytest.mark.parametrize("what", ["walls", "f"])
def test_other_walls_and_sources_are_not_written_as_zero_and_one(tmp_path, layout, what):
    grid = Grid((8, 8), centering="cell") if layout == "pdebench-darcy" else Grid((8, 8))
    rng = np.random.default_rng(0)
    fields = {n: (("sample", "x", "y"), (1 + rng.random((2, 8, 8))).astype("f4"), {}) for n in ("a", "u", "f")}
    dataset = build_dataset(fields, grid, layout="native", equation="darcy", coefficient="values")
    if what == "walls":
        dataset = dataset.drop_vars("f").assign_attrs(walls='{"boundary": {"x": "neumann", "y": "dirichlet"}}')
    with pytest.raises(ValueError, match=f"layout '{layout}' means (u = 0 on the wall|a constant source).*native"):
        convert(dataset, tmp_path / "x", layout)
    with open_dataset(convert(dataset, tmp_path / "well", "the-well", told=str)) as there:
        assert there.attrs.get("walls") == dataset.attrs.get("walls") and ("f" in there) == ("f" in dataset)


def test_a_flow_of_another_forcing_is_not_written_as_that_of_li_et_al(tmp_path):
    w = np.random.default_rng(0).standard_normal((2, 3, 8, 8)).astype("f4")
    options = {"layout": "native", "equation": "navier_stokes", "state": ("w",), "times": [0, 1, 2]}
    options["parameters"] = {"viscosity": 1e-3, "drag": 0.0}
    grid = Grid((8, 8), 1.0, "periodic")
    fields = {"w": (("sample", "time", "x", "y"), w, {})}
    flow = build_dataset(fields, grid, forcing="li2020", **options)
    with open_dataset(convert(flow, tmp_path / "x", "li2020-ns")) as there:
        assert np.array_equal(there["w"].values, w) and "drag" not in there.attrs["parameters"]
    with pytest.raises(ValueError, match="means the forcing of its authors, li2020; the data set has 'none'"):
        convert(flow.assign_attrs(forcing="none"), tmp_path / "y", "li2020-ns")
    dragged = build_dataset(fields, grid, **{**options, "parameters": {"viscosity": 1e-3, "drag": 0.1}})
    with pytest.raises(ValueError, match="no place for drag"):
        convert(dragged, tmp_path / "y", "li2020-ns")


def test_an_indicator_is_given_its_values(tmp_path):
    marks = np.random.default_rng(0).random((3, 9, 9)) > 0.5
    fields = {n: (("sample", "x", "y"), marks.astype("f4"), {}) for n in "au"}
    options = {"layout": "native", "equation": "darcy", "coefficient": "indicator", "forcing": 1.0}
    source = convert(build_dataset(fields, Grid((9, 9)), **options), tmp_path / "marks.pt", "neuralop")
    with pytest.raises(ValueError, match="--phases LOW HIGH"):
        convert(source, tmp_path / "x.mat", "li2020")
    with open_dataset(convert(source, tmp_path / "x.mat", "li2020", phases=(3, 12), dtype="float32")) as there:
        assert there.attrs["coefficient"] == "values" and there["a"].dtype == np.float32
        assert np.array_equal(there["a"].values, np.where(marks, 12, 3))
    for phases, words in (((3, -1), "high=-1"), ((3, 12), "holds coefficient values already")):
        path = tmp_path / ("marks.pt" if "high" in words else "x.mat")
        with pytest.raises(ValueError, match=words):
            convert(path, tmp_path / "y", "native", phases=phases)


def test_an_archive_of_arrays_does_not_hold_the_time_of_day(tmp_path):
    with open_dataset(write_sample("pdebench-1d", tmp_path / "source")) as source:
        path = convert(source, tmp_path / "arrays", "arrays")
    with zipfile.ZipFile(path) as archive:
        assert {info.date_time for info in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
