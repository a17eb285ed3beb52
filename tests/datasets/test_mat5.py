"""Our reader of MATLAB v5 files against SciPy's, bit for bit, and against damage that ends SciPy's process."""

from __future__ import annotations

import struct
import zlib

import numpy as np
import pytest
import scipy.io
import scipy.sparse

from sciops.datasets.formats import probe
from sciops.datasets.formats.containers.mat5 import mat5_arrays, mat5_values

TYPES = ("f8", "f4", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8")


@pytest.fixture
def content():
    random = np.random.default_rng(0)
    arrays = {f"a_{kind}": (100 * random.standard_normal((3, 4, 2))).astype(kind) for kind in TYPES}
    return arrays | {
        "x": random.standard_normal((2, 1, 3, 2, 2)),
        "row": np.arange(5.0)[None],
        "one": np.array([[2.5]]),
        "none": np.zeros((0, 3)),
        "large": random.standard_normal((300, 400)),
        "complex": random.standard_normal((4, 3)) + 1j * random.standard_normal((4, 3)),
        "complex_single": (random.standard_normal((2, 3, 2)) * 1j).astype(np.complex64),
        "imaginary": np.array([[1j]]),
        "large_complex": random.standard_normal((90, 80)) * (1 + 1j),
    }


@pytest.mark.parametrize("packed", [False, True])
def test_every_number_is_the_one_that_scipy_reads(packed, content, tmp_path):
    others = {"text": "words", "cell": np.array([1, "a"], dtype=object), "record": {"u": 1.0}}
    others["sparse"] = 1j * scipy.sparse.eye(3, format="csc")
    scipy.io.savemat(tmp_path / "a.mat", content | others, do_compression=packed)
    arrays, theirs = mat5_arrays(tmp_path / "a.mat"), scipy.io.loadmat(tmp_path / "a.mat")
    assert list(arrays) == list(content)
    shapes = {name: (tuple(shape), kind) for name, shape, kind in scipy.io.whosmat(tmp_path / "a.mat")}
    for name, one in arrays.items():
        values = mat5_values(tmp_path / "a.mat", one)
        kind = one.kind.removeprefix("complex ")
        assert (one.shape, kind) == shapes[name] and one.dtype == theirs[name].dtype
        assert (kind != one.kind) == ("complex" in name or name == "imaginary")
        assert np.array_equal(values, theirs[name]) and np.array_equal(values, content[name])
        assert (one.packed is None) != packed
        assert packed or name == "none" or one.kind != kind or not values.flags.owndata
    assert probe(tmp_path / "a.mat").others.keys() == others.keys()
    assert probe(tmp_path / "a.mat").arrays["x"].shape == (2, 1, 3, 2, 2)


def test_narrow_numbers_booleans_and_the_other_byte_order(tmp_path):
    """MATLAB stores whole doubles as bytes, and on big-endian machines in their order; written here by hand."""
    for order, mark in (("<", b"IM"), (">", b"MI")):

        def element(kind, body, order=order):
            return struct.pack(order + "II", kind, len(body)) + body.ljust(-(-len(body) // 8) * 8, b"\0")

        def variable(name, flags, body, order=order, element=element):
            head = element(6, struct.pack(order + "II", flags, 0)) + element(5, struct.pack(order + "ii", 2, 3))
            return element(14, head + element(1, name) + body)

        narrow = variable(b"narrow", 6, element(2, bytes([1, 2, 3, 4, 5, 250])))
        truth = variable(b"truth", 9 | 0x0200, element(2, bytes([1, 0, 0, 1, 1, 0])))
        version = struct.pack(order + "H", 0x0100)
        path = tmp_path / "a.mat"
        both = element(2, bytes([1, 2, 3, 4, 5, 6])) + element(3, struct.pack(order + "6h", 0, 0, 0, -7, 0, 300))
        pair = variable(b"pair", 6 | 0x0800, both)
        path.write_bytes(b"MATLAB 5.0 MAT-file".ljust(124) + version + mark + narrow + truth + pair)
        theirs = scipy.io.loadmat(path)
        assert theirs["pair"][1, 1] == 4 - 7j
        arrays = mat5_arrays(path)
        assert arrays["narrow"].dtype == np.float64 and arrays["narrow"].parts[0].dtype.itemsize == 1
        assert arrays["truth"].kind == "logical"
        for name, one in arrays.items():
            assert np.array_equal(mat5_values(path, one), theirs[name])
        assert mat5_values(path, arrays["narrow"]).tolist() == [[1, 3, 5], [2, 4, 250]]


@pytest.mark.parametrize("packed", [False, True])
def test_damage_is_refused_by_value_errors_alone(packed, content, tmp_path):
    scipy.io.savemat(tmp_path / "a.mat", content, do_compression=packed)
    sound = (tmp_path / "a.mat").read_bytes()
    random, refused = np.random.default_rng(1), 0
    for _ in range(600):
        data = bytearray(sound[: len(sound) if random.random() < 0.8 else int(random.integers(128, len(sound)))])
        for _ in range(3):
            data[128 + int(random.integers(1200))] = int(random.integers(256))
        (tmp_path / "b.mat").write_bytes(data)
        try:
            for one in mat5_arrays(tmp_path / "b.mat").values():
                assert mat5_values(tmp_path / "b.mat", one).shape == one.shape
        except (ValueError, zlib.error):
            refused += 1
    assert 200 < refused < 600 if not packed else refused > 200


def test_objects_of_matlab_are_named_and_not_called_damage(tmp_path):
    """A table or a string has no dimensions; what it holds lies in a variable without a name."""

    def element(kind, body):
        return struct.pack("<II", kind, len(body)) + body.ljust(-(-len(body) // 8) * 8, b"\0")

    table = element(6, struct.pack("<II", 17, 0)) + element(1, b"tab") + element(1, b"MCOS") + element(1, b"table")
    rest = element(6, struct.pack("<II", 9, 0)) + element(5, struct.pack("<ii", 1, 8)) + element(1, b"")
    path = tmp_path / "a.mat"
    content = element(14, table) + element(14, rest + element(2, bytes(8)))
    path.write_bytes(b"MATLAB 5.0 MAT-file".ljust(124) + b"\x00\x01IM" + content)
    assert probe(path).arrays == {} and probe(path).others == {"tab": "an object"}


def test_packed_variables_that_hold_more_or_less_than_they_state_are_refused(tmp_path):
    def packed(rows, body):
        def element(kind, content):
            return struct.pack("<II", kind, len(content)) + content.ljust(-(-len(content) // 8) * 8, b"\0")

        head = element(6, struct.pack("<II", 6, 0)) + element(5, struct.pack("<ii", rows, 1)) + element(1, b"u")
        whole = head + struct.pack("<II", 9, 8 * rows) + body
        data = zlib.compress(struct.pack("<II", 14, len(head) + 8 + 8 * rows) + whole)
        return b"MATLAB 5.0 MAT-file".ljust(124) + b"\x00\x01IM" + struct.pack("<II", 15, len(data)) + data

    path = tmp_path / "a.mat"
    path.write_bytes(packed(4, np.arange(4.0).tobytes()))
    assert mat5_values(path, mat5_arrays(path)["u"]).ravel().tolist() == [0, 1, 2, 3]
    path.write_bytes(packed(4, bytes(1 << 26)))
    with pytest.raises(ValueError, match="holds more than the 96 bytes that its header states"):
        mat5_values(path, mat5_arrays(path)["u"])
    path.write_bytes(packed(4, bytes(8)))
    with pytest.raises(ValueError, match="ends after"):
        mat5_values(path, mat5_arrays(path)["u"])
