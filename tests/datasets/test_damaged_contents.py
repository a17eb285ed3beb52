"""Whole files whose contents are not what their layout says: what random damage found, each refused in one line."""

from __future__ import annotations

import io
import json
import zipfile

import h5py
import numpy as np
import pytest
import torch

from sciops.datasets import convert, describe, open_dataset, validate, write_native
from sciops.datasets.conventions import grid_of, parameters_of, state_of
from sciops.datasets.formats.samples import write_sample
from sciops.doctor import doctor
from sciops.pde.darcy.direct import solve_directly


@pytest.fixture
def native(tmp_path):
    with open_dataset(write_sample("li2020-burgers", tmp_path / "source.mat")) as dataset:
        return write_native(tmp_path / "native.h5", dataset)


def _refused(path, words, layout=None):
    with pytest.raises(ValueError, match=words) as caught:
        open_dataset(path, layout=layout)
    assert "\n" not in str(caught.value) and str(path) in str(caught.value)


@pytest.mark.parametrize("dtype", ["S4", h5py.string_dtype(), np.dtype([("re", "f4"), ("im", "f4")])])
def test_fields_that_are_no_numbers(native, dtype):
    with h5py.File(native, "a") as file:
        group = file[next(iter(file))]
        shape = group["u"].shape
        del group["u"]
        group.create_dataset("u", shape, dtype)
    _refused(native, "native")


def test_groups_that_are_links_to_each_other(native, tmp_path):
    with h5py.File(native, "a") as file:
        name = next(key for key in file if key[0] == "r")
        del file[name]
        file[name], file["r7"] = h5py.SoftLink("/r7"), h5py.SoftLink(f"/{name}")
    _refused(native, "looks like native .*too many links")
    for asked in (describe, validate, lambda path: convert(path, tmp_path / "copy.h5", "native")):
        with pytest.raises(ValueError, match="looks like native .*too many links"):
            asked(native)
    report, well = doctor(native)
    assert not well and "too many links" in report


def test_a_field_without_a_number(tmp_path):
    path = write_sample("npy", tmp_path / "a.npy")
    np.save(path, np.load(path)[:, :0])
    with pytest.raises(ValueError, match="holds u without a number .*time 0"):
        open_dataset(path)


def test_samples_of_another_type_are_refused_where_the_file_is_opened(tmp_path):
    path = write_sample("poseidon-helmholtz", tmp_path / "a.h5")
    with h5py.File(path, "a") as file:
        last = file[max(file)]
        del last["bc"]
        last.create_dataset("bc", (), np.dtype([("re", "f4"), ("im", "f4")]))
    with pytest.raises(ValueError, match=r"bc as complex64\[\] and Sample_0/bc as float64\[\]"):
        open_dataset(path)
    report, well = doctor(path)
    assert not well and "one shape and one type" in report


@pytest.mark.parametrize("name", ["task", "labels", "coefficient", "walls"])
def test_an_array_where_an_attribute_is_a_text(native, name):
    with h5py.File(native, "a") as file:
        for held in (file, file[next(iter(file))]):
            held.attrs[name] = np.zeros(0)
    _refused(native, f"attribute {name} is array.*expected")


@pytest.mark.parametrize("damage", ["scalar axis", "array for a group", "link to nowhere"])
def test_a_group_that_is_not_what_its_name_says(native, tmp_path, damage):
    """Refused alike by all that opens native files, `convert` too, which asks for the resolutions first."""
    with h5py.File(native, "a") as file:
        name = next(key for key in file if key[0] == "r")
        if damage == "scalar axis":
            del file[name]["x"]
            file[name]["x"] = 3.0
        else:
            del file[name]
            file[name] = np.zeros(3) if damage == "array for a group" else h5py.SoftLink("/nowhere")
    _refused(native, f"{name} is not a group of fields with the positions")
    with pytest.raises(ValueError, match="is not a group of fields"):
        convert(native, tmp_path / "copy.h5", "native")


@pytest.mark.parametrize("name, asked", [("grid", grid_of), ("state", state_of), ("parameters", parameters_of)])
def test_an_attribute_of_thousands_of_letters_makes_a_short_message(native, name, asked):
    with open_dataset(native) as dataset:
        dataset = dataset.assign_attrs({name: json.dumps({"n" * 4000: ["\x1b[2J"]})})
        with pytest.raises(ValueError, match=f"attribute {name}") as caught:
            asked(dataset)
    assert len(str(caught.value)) < 400 and str(caught.value).isprintable()


@pytest.mark.skipif(np.dtype(np.longdouble).itemsize == 8, reason="no extended precision here")
def test_numbers_in_extended_precision(native):
    with h5py.File(native, "a") as file:
        group = file[next(key for key in file if key[0] == "r")]
        values = group["u"][()].astype(np.longdouble)
        del group["u"]
        group["u"] = values
    _refused(native, "holds u in extended precision .*save it as float64")


def test_attributes_that_are_no_json_or_no_number(native):
    for name, value, words in (
        ("grid", "[", "attribute grid is '\\[', and a JSON object is expected"),
        ("notes", '[{"a": 1}]', "attribute notes is .*and a JSON list of texts is expected"),
        ("parameters", np.zeros(3), "attribute parameters is array"),
        ("forcing", np.zeros(2), "attribute forcing is array.*one number is expected"),
        ("equation", 3.0, "does not say its equation"),
    ):
        with h5py.File(native, "a") as file:
            group = file[next(iter(file))]
            kept = {held: held.attrs.get(name) for held in (file, group)}
            for held in (file, group):
                held.attrs[name] = value
        _refused(native, words)
        with h5py.File(native, "a") as file:
            for held, old in zip((file, file[next(iter(file))]), kept.values()):
                if old is None:
                    del held.attrs[name]
                else:
                    held.attrs[name] = old
    open_dataset(native).close()


def test_attributes_of_no_known_type_compare_with_nothing(native):
    with h5py.File(native, "a") as file:
        group = file[next(iter(file))]
        for holder in (file, group, group["x"], group["u"]):
            for name in ("centering", "units", "grid_mapping", "solved_on", "coefficient"):
                holder.attrs[name] = np.void(b"abc")
    (error,) = [finding for finding in validate(native) if finding.field == "x"]
    assert error.severity == "error" and "says centering" in error.message


def test_arrays_that_state_more_than_is_stored_or_could_be(tmp_path, native):
    """What was never written reads as zeros: by the terabyte, in a file of a kilobyte."""
    path = tmp_path / "unfilled.h5"
    for shape, chunks in (((8, 11, 2**20), (1, 11, 1024)), ((2**40, 11, 16), (1, 11, 16))):
        with h5py.File(path, "w") as file:
            file.create_dataset("tensor", shape, np.float32, chunks=chunks)
        _refused(path, f"tensor has shape \\[{shape[0]}, 11, {shape[2]}\\], .* bytes, of which 0 are stored")
    with h5py.File(path, "w") as file:  # a little of it, as of a file that is filled to a fifth
        tensor = file.create_dataset("tensor", (40, 11, 2**16), np.float32, chunks=(1, 11, 2**16))
        tensor[:8] = 1.0
    with open_dataset(path) as dataset:
        assert dataset["u"].shape == (40, 11, 2**16) and float(dataset["u"][7, 3, 5]) == 1
    with h5py.File(native, "a") as file:
        group = file[next(iter(file))]
        del group["u"]
        group.create_dataset("u", (8, 2**40), np.float32, chunks=(1, 16))
    _refused(native, "u has shape .* of which 0 are stored")


def test_names_that_are_no_text(tmp_path):
    path = write_sample("pdebench-1d", tmp_path / "a.h5")
    content = path.read_bytes()
    assert b"tensor\0" in content
    path.write_bytes(content.replace(b"tensor\0", b"tens\xff\xfe\0"))
    _refused(path, "t-coordinate.*which is not a known layout")


@pytest.mark.parametrize("shape", [(), (3,), (2, 3)])
def test_the_words_of_a_layout_over_arrays_of_another_rank(tmp_path, shape):
    path = tmp_path / "a.h5"
    for names in (
        ("solution", "c"),
        ("solution",),
        ("source", "solution"),
        ("velocity",),
        ("u", "v", "t"),
        ("tensor", "nu"),
    ):
        with h5py.File(path, "w") as file:
            for name in names:
                file[name] = np.ones(shape, np.float32)
        _refused(path, "not a known layout")


def test_descriptions_of_characters_that_are_none(tmp_path):
    path = tmp_path / "a.npz"
    text = np.frombuffer(np.uint32([123, 2**31, 125]).tobytes(), "<U3")
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(buffer, {"descr": "<U3", "fortran_order": False, "shape": (1,)})
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("sciops.json.npy", buffer.getvalue() + text.tobytes())
        archive.writestr("u.npy", _npy(np.zeros((2, 4))))
    _refused(path, "code point not in range")


@pytest.mark.parametrize("order", ["<", ">"])
def test_descriptions_in_any_byte_order(tmp_path, order):
    about = {"arrays": {"u": {"dims": ["sample", "x"]}}, "grid": {"shape": [4], "centering": "periodic"}}
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        text = json.dumps(about)
        archive.writestr("sciops.json.npy", _npy(np.array(text, f"{order}U{len(text) + 7}")))
        archive.writestr("u.npy", _npy(np.arange(8.0).reshape(2, 4)))
    assert open_dataset(tmp_path / "a.npz")["u"].values.tolist() == [[0, 1, 2, 3], [4, 5, 6, 7]]


@pytest.mark.parametrize("field", [6, 8, 28])
def test_zip_archives_of_other_versions_and_places(tmp_path, field):
    """Version needed, flags, method, and the length of the name in every entry of the directory at the end."""
    path = write_sample("neuralop", tmp_path / "a.pt")
    content = bytearray(path.read_bytes())
    place = content.find(b"PK\x01\x02")
    while place >= 0:
        content[place + field : place + field + 2] = b"\xff\x7f"
        place = content.find(b"PK\x01\x02", place + 4)
    path.write_bytes(content)
    with pytest.raises(ValueError) as caught:
        open_dataset(path)
    assert "\n" not in str(caught.value) and ("cannot be read" in str(caught.value) or "truncated" in str(caught.value))


def test_scenarios_of_infinite_numbers(tmp_path):
    path = write_sample("apebench", tmp_path / "a.npy")
    beside = tmp_path / "a.npy.json"
    about = json.loads(beside.read_text())
    about["info"]["num_points"] = float("inf")
    beside.write_text(json.dumps(about))
    _refused(path, "numbers do not say what their axes mean")
    with open_dataset(path, layout="apebench") as dataset:
        assert dataset.attrs["positions"] == "assumed: one unit period"


def test_coefficients_beyond_all_numbers_fail_as_a_solution_not_as_a_program(tmp_path):
    """LU without factors gives NaN, whose residual the caller sees; validate and info go on."""
    along_y, along_x = torch.zeros(1, 3, 4, dtype=torch.float64), torch.zeros(1, 4, 3, dtype=torch.float64)
    assert solve_directly(along_y, along_x, torch.ones(1, 3, 3, dtype=torch.float64)).isnan().all()
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        coeff = np.full((2, 17, 17), 1e-300)
        coeff[:, ::2] = 1e300
        file["coeff"], file["sol"] = coeff, np.random.default_rng(0).random((2, 17, 17))
    validate(path)
    assert "layout       li2020" in describe(path)


def _npy(array):
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def test_numbers_under_a_filter_that_is_not_here(tmp_path, native):
    """Neither damaged nor readable: LZ4 is a filter that h5py's library does not have."""
    with h5py.File(native, "r+") as file:
        created = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        created.set_chunk((4,))
        created.set_filter(32004, h5py.h5z.FLAG_OPTIONAL)
        space = h5py.h5s.create_simple((4,))
        stored = h5py.h5d.create(file.id, b"packed", h5py.h5t.IEEE_F64LE, space, created)
        stored.write_direct_chunk((0,), bytes(100))
    for action in (open_dataset, validate, describe):
        with pytest.raises(ValueError, match="keeps packed packed by the filter 32004 .*import hdf5plugin") as caught:
            action(native)
        assert "\n" not in str(caught.value) and "damaged" not in str(caught.value)


def test_deep_json_in_attributes_and_beside_files(tmp_path, native):
    deep = '{"a":' * 5000 + "1" + "}" * 5000
    with h5py.File(native, "r+") as file:
        file.attrs["config"] = deep
    with pytest.raises(ValueError, match="config is .* a JSON object is expected"):
        open_dataset(native)
    np.save(tmp_path / "u.npy", np.zeros((3, 4)))
    for name in ("u.npy.json", "u.json", "sciops.json"):
        (tmp_path / name).write_text(deep)
    with pytest.raises(ValueError, match="describe_arrays"):
        open_dataset(tmp_path / "u.npy")
