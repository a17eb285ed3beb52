"""Complex arrays in every kind of file: listed, opened as they are or as two real fields, refused by real layouts."""

import json
import pickle

import h5py
import numpy as np
import pytest
import scipy.io
import torch

from sciops.datasets import convert, describe, describe_arrays, inventory, open_dataset, validate
from sciops.datasets.conventions import state_of
from sciops.datasets.formats import probe
from sciops.grids import Grid

RNG = np.random.default_rng(0)
GRID = Grid(6, ((-5.0, 5.0),), "periodic")
KINDS = ("npy", "npz", "packed npz", "hdf5", "julia", "v5", "packed v5", "v7.3", "pt")


def _matlab_hdf5(path, arrays):
    """As MATLAB writes v7.3: a block of its own, classes as attributes, complex numbers as pairs."""
    with h5py.File(path, "w", userblock_size=512) as file:
        for name, values in arrays.items():
            file[name] = values
            file[name].attrs["MATLAB_class"] = np.bytes_("double")
    with open(path, "r+b") as file:
        file.write(b"MATLAB 7.3 MAT-file".ljust(124) + b"\0\2IM")


def _pairs(values, names):
    pairs = np.empty(values.shape, [(name, values.real.dtype) for name in names])
    pairs[names[0]], pairs[names[1]] = values.real, values.imag
    return pairs


def _save(path, kind, values):
    """The array as `psi` in a file of that kind; its name in the table of contents."""
    with open(path, "wb") as file:
        if kind == "npy":
            np.save(file, values)
            return "(the array)"
        if kind == "npz":
            np.savez(file, psi=values)
        if kind == "packed npz":
            np.savez_compressed(file, psi=values)
        if kind == "pt":
            torch.save({"psi": torch.from_numpy(values)}, file)
    if kind in ("hdf5", "julia"):
        with h5py.File(path, "w") as file:
            file["psi"] = values if kind == "hdf5" else _pairs(values, ("re", "im"))
    if kind.endswith("v5"):
        scipy.io.savemat(path, {"psi": values}, appendmat=False, do_compression="packed" in kind)
    if kind == "v7.3":
        _matlab_hdf5(path, {"psi": _pairs(values, ("real", "imag"))})
    return "psi"


@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_complex_arrays_are_listed_and_open_as_two_real_fields(tmp_path, kind, single):
    values = (RNG.standard_normal((4, 6, 3)) + 1j * RNG.standard_normal((4, 6, 3))).astype("c8" if single else "c16")
    path = tmp_path / "file"
    name = _save(path, kind, values)
    assert "complex" in probe(path).arrays[name].dtype and "complex" in probe(path).describe()
    with pytest.raises(ValueError, match="'real_imaginary': True"):  # the advice
        open_dataset(path)
    about = {"dims": ("sample", "x", "time"), "units": "m", "real_imaginary": True}
    describe_arrays(path, {"psi": about}, grid=GRID, state=("psi_real", "psi_imag"))
    dataset = open_dataset(path)
    assert state_of(dataset) == ("psi_real", "psi_imag") and dataset["psi_imag"].attrs["units"] == "m"
    for key in (np.s_[:], np.s_[1], np.s_[[3, 0], 1:, ::-1], np.s_[0, 0, 0]):
        truth = values.transpose(0, 2, 1)[key]
        for one in (dataset, pickle.loads(pickle.dumps(dataset))):
            assert np.array_equal(one["psi_real"][key].values, truth.real)
            assert np.array_equal(one["psi_imag"][key].values, truth.imag)
    assert dataset["psi_real"].dtype == values.real.dtype
    with open_dataset(convert(path, tmp_path / "native.h5", "native")) as there:
        assert np.array_equal(there["psi_imag"].values, values.imag.transpose(0, 2, 1))


def test_parts_of_components(tmp_path):
    values = RNG.standard_normal((4, 2, 6)) * (1 + 2j)
    _save(tmp_path / "file", "npz", values)
    about = {"dims": ("sample", "channel", "x"), "components": ("p", "q"), "array": "psi", "real_imaginary": True}
    describe_arrays(tmp_path / "file", {"psi": about}, grid=GRID)
    dataset = open_dataset(tmp_path / "file")
    assert list(dataset) == ["p_real", "p_imag", "q_real", "q_imag"]
    assert np.array_equal(dataset["q_imag"].values, values[:, 1].imag)
    assert dataset["q_imag"].attrs["long_name"] == "imaginary part of psi, q"


def test_complex_fields_stay_complex_where_nobody_asks_for_parts(tmp_path):
    values = RNG.standard_normal((4, 6)) + 1j
    values[2, 3] = 1 + 1j * np.nan
    path = tmp_path / "file"
    _save(path, "v5", values)
    describe_arrays(path, {"psi": ("sample", "x")}, grid=GRID)
    assert np.array_equal(open_dataset(path)["psi"].values, values, equal_nan=True)
    finite = np.abs(np.delete(values.ravel(), 15))
    assert f"|psi| {finite.min():.6g} … {finite.max():.6g}" in describe(path)
    assert inventory(path)["grids"][0]["variables"]["psi"]["dtype"] == "complex128"
    found = {(f.severity, f.sample): f.message for f in validate(path)}
    assert found["error", 2] == "holds NaN or infinity" and "models take real ones" in found["warning", None]
    for layout, options in (("native", {}), ("cno", {}), ("arrays", {"dtype": "float32"})):
        with pytest.raises(ValueError, match="holds complex numbers in psi, .* real ones: describe it as two real"):
            convert(path, tmp_path / "refused", layout, **options)
    with open_dataset(convert(path, tmp_path / "again.npz", "arrays")) as there:
        assert np.array_equal(there["psi"].values, values, equal_nan=True)


def test_parts_of_real_numbers_and_complex_numbers_in_a_layout_of_real_ones_are_refused(tmp_path):
    _save(tmp_path / "real", "hdf5", np.zeros((4, 6)))
    about = {"dims": ("sample", "x"), "real_imaginary": True}
    with pytest.raises(ValueError, match="opens psi as real and imaginary parts; it is float64: leave"):
        describe_arrays(tmp_path / "real", {"psi": about}, grid=GRID)
    torch.save({"x": torch.ones(3, 8, 8), "y": torch.ones(3, 8, 8, dtype=torch.complex64)}, tmp_path / "darcy.pt")
    with pytest.raises(ValueError, match="holds u of type complex64; neuralop holds real numbers: describe"):
        open_dataset(tmp_path / "darcy.pt")


@pytest.mark.parametrize("hdf5", [False, True])
def test_what_is_not_an_array_of_numbers_is_named(tmp_path, hdf5):
    path = tmp_path / "a.mat"
    if not hdf5:
        import scipy.sparse

        others = {"s": {"u": 1.0}, "c": np.array([1, "a"], dtype=object), "w": "word"}
        scipy.io.savemat(path, {"v": np.ones((2, 3)), "m": scipy.sparse.eye(3, format="csc")} | others)
    else:
        _matlab_hdf5(path, {"v": np.ones((3, 2)), "w": np.frombuffer("word".encode("utf-16-le"), "u2")[:, None]})
        with h5py.File(path, "r+") as file:
            file["w"].attrs["MATLAB_class"] = np.bytes_("char")
            file["#refs#/a"] = np.ones(3)
            file["c"] = np.array([file["#refs#/a"].ref], h5py.ref_dtype)
            file["c"].attrs["MATLAB_class"] = np.bytes_("cell")
            file["m/data"] = np.ones(3)
            file["m"].attrs["MATLAB_sparse"] = np.uint64(3)
            file["s/u"] = np.ones((1, 1))
            file["s"].attrs["MATLAB_class"] = np.bytes_("struct")
    found = probe(path)
    assert set(found.arrays) == ({"v", "s/u"} if hdf5 else {"v"})  # the fields of a structure are arrays there
    said = {"c": "a cell array", "m": "a sparse matrix (save full(name))", "w": "a text"}
    said |= {} if hdf5 else {"s": "a structure (save its fields"}
    assert found.others.keys() == said.keys() and all(found.others[name].startswith(said[name]) for name in said)
    assert all(f"{name}, {what}" in found.describe() for name, what in said.items())
    with pytest.raises(ValueError, match="names m, which is not an array of numbers there: a sparse matrix"):
        describe_arrays(path, {"m": ("x", "y")}, grid=Grid((3, 3)))


def test_texts_beside_numbers_are_not_fields(tmp_path):
    np.savez(tmp_path / "a.npz", u=np.ones((2, 6)), about="words", table=np.zeros(3, [("a", "f8"), ("b", "i4")]))
    found = probe(tmp_path / "a.npz")
    assert set(found.arrays) == {"u"} and set(found.others) == {"about", "table"}
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["u"], file["about"], file["table"] = np.ones((2, 6)), "words", np.zeros(3, [("a", "f8"), ("b", "i4")])
    found = probe(tmp_path / "a.h5")
    assert set(found.arrays) == {"u"} and set(found.others) == {"about", "table"}
    (tmp_path / "a.h5.json").write_text(
        json.dumps({"arrays": {"table": ["x"]}, "grid": {"shape": 3, "centering": "cell"}})
    )
    with pytest.raises(ValueError, match="names table, which is not an array of numbers there: a table of records"):
        open_dataset(tmp_path / "a.h5")
