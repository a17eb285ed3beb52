"""Sound files damaged: in their bytes, or made to say something else in whole files of their format."""

from __future__ import annotations

import ast
import io
import json
import struct
import zipfile
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from studies.kit.fuzzing.damage import damaged, seals

__all__ = ["damage", "rewritten"]

_NUMBERS = (0, 1, -1, 2, 0.5, -0.0, 1e308, -1e308, 2**31, 2**63, 10**30, float("nan"), float("inf"))
_TEXTS = (
    "",
    "x",
    "x" * 5000,
    "NaN",
    "[]",
    "{}",
    "null",
    "[" * 3000,
    "\x1b[31m\n\t\0",
    "\ud7ff\u202e\U0001f40d",
    "periodic",
    "u",
)
_KEYS = ("u", "x", "t", "sample", "", "a\nb\x1b[2J", "Größe / 尺寸", "n" * 3000, "..", "time")


def damage(files: Mapping[str, bytes], seed: int, other: bytes = b"") -> dict[str, bytes]:
    """Files that belong together with one of them damaged; the same seed gives the same bytes.

    Half of the time its bytes are (`damaged`), half of the time it becomes a whole file that says something else
    (`rewritten`), which readers look far into; of these some are damaged besides.
    """
    random = np.random.default_rng(seed)
    names = sorted(files)
    name = names[int(random.integers(len(names)))]
    if random.random() < 0.5:
        return {**files, name: damaged(files[name], random, other, seals(files[name]))}
    content = rewritten(files[name], random)
    return {**files, name: content if random.random() < 0.7 else damaged(content, random, other)}


def rewritten(content: bytes, random: np.random.Generator) -> bytes:
    """A file of the same format that says something else; `content` itself where the format is none of those below.

    JSON: a value anywhere in it is another, gone, or there twice. NumPy: another shape, order or type in the header.
    Zip archives (torch.save, .npz): a member damaged, gone or renamed, with right checksums. MATLAB v5: variables of
    other shapes and types. HDF5: the same, attributes, links, groups, types that are no numbers.
    """
    for begins, change in _FORMATS:
        if begins(content):
            return change(content, random)
    return content


def _json(content: bytes, random: np.random.Generator) -> bytes:
    try:
        tree: Any = [json.loads(content)]
    except ValueError:  # numbers that begin like it
        return content
    for _ in range(int(random.integers(1, 4))):
        places = list(_places(tree))
        parent, key = places[int(random.integers(len(places)))]
        kind = int(random.integers(6))
        if kind == 0 and parent is not tree:
            del parent[key]
        elif kind == 1 and isinstance(parent, dict):
            parent[_KEYS[int(random.integers(len(_KEYS)))]] = parent.pop(key)
        elif kind == 2 and isinstance(parent, list):
            parent.insert(0, parent[key])
        elif kind == 3:
            other, name = places[int(random.integers(len(places)))]
            parent[key] = json.loads(json.dumps(other[name]))
        else:
            parent[key] = _value(random)
    return json.dumps(tree[0]).encode()


def _places(tree: Any) -> Any:
    """(container, key) of every value inside."""
    for key in list(tree) if isinstance(tree, dict) else range(len(tree)):
        yield tree, key
        if isinstance(tree[key], (dict, list)):
            yield from _places(tree[key])


def _value(random: np.random.Generator) -> Any:
    values = [None, True, [], {}, [[]], [0] * 50, {"a": 1}, _NUMBERS, _NUMBERS, _TEXTS]
    value = values[int(random.integers(len(values)))]
    return value[int(random.integers(len(value)))] if isinstance(value, tuple) else value


def _npy(content: bytes, random: np.random.Generator) -> bytes:
    length = struct.unpack("<H", content[8:10])[0]
    header = ast.literal_eval(content[10 : 10 + length].decode("latin1"))
    body = content[10 + length :]
    kind = int(random.integers(6))
    if kind == 0:
        header["shape"] = _shape(header["shape"], random)
    elif kind == 1:
        types = ("<f4", ">f8", "<f2", "|b1", "<c8", "<U3", "|S8", "<M8[s]", "|V8", [("a", "<f4"), ("b", "<f4")], "<i8")
        header["descr"] = types[int(random.integers(len(types)))]
    elif kind == 2:
        header["fortran_order"] = True
    elif kind == 3:
        size = max(1, len(body) // 8)
        body = np.full(size, _NUMBERS[int(random.integers(len(_NUMBERS)))], "<f8").tobytes()[: len(body)]
    elif kind == 4:
        header.pop(list(header)[int(random.integers(len(header)))])
    else:
        header["shape"] = (len(body) // 8,)
    if random.random() < 0.5 and "descr" in header and "shape" in header:  # as long as the header says
        size = np.dtype(header["descr"]).itemsize * int(np.prod(header["shape"], dtype=object))
        body = (body * 2)[:size].ljust(size, b"\0") if 0 <= size < 1 << 20 else body
    text = (repr(header).ljust(117) + "\n").encode("latin1")
    return content[:8] + struct.pack("<H", len(text)) + text + body


def _shape(shape: tuple[int, ...], random: np.random.Generator) -> tuple[int, ...]:
    lengths = list(shape)
    kind, axis = int(random.integers(7)), int(random.integers(max(1, len(lengths))))
    if not lengths or kind == 0:
        return (*lengths, 1)
    if kind == 1:
        lengths.pop(axis)
    elif kind == 2:
        lengths.insert(axis, 1)
    elif kind == 3:
        lengths.reverse()
    else:
        lengths[axis] = (0, 1, 2, 3, lengths[axis] + 1, 2**20, 2**40, 2**62)[int(random.integers(8))]
    return tuple(lengths)


def _zip(content: bytes, random: np.random.Generator) -> bytes:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {info.filename: archive.read(info) for info in archive.infolist()}
    name = list(members)[int(random.integers(len(members)))]
    telling = [one for one in members if one.endswith(("data.pkl", ".json.npy", ".json", "byteorder"))]
    if telling and random.random() < 0.5:
        name = telling[int(random.integers(len(telling)))]
    kind = int(random.integers(8))
    if kind == 0:
        members.pop(name)
    elif kind == 1:
        members[_KEYS[int(random.integers(len(_KEYS)))] + ".npy"] = members.pop(name)
    elif kind == 2:
        members[name] = members[list(members)[int(random.integers(len(members)))]]
    elif kind < 5:
        members[name] = rewritten(members[name], random)
    else:
        members[name] = damaged(members[name], random)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED if random.random() < 0.2 else zipfile.ZIP_STORED) as archive:
        for one, data in members.items():
            archive.writestr(one, data)
    return packed.getvalue()


def _mat5(content: bytes, random: np.random.Generator) -> bytes:
    import scipy.io

    held = scipy.io.loadmat(io.BytesIO(content))
    held = {name: values for name, values in held.items() if not name.startswith("__")}
    for _ in range(int(random.integers(1, 3))):
        name = list(held)[int(random.integers(len(held)))] if held else "u"
        kind = int(random.integers(8))
        if kind == 0:
            held.pop(name, None)
        elif kind == 1:
            held["other"] = held.get(name, 1.0)
        elif kind == 2:
            held[name] = ("text", {"field": 1.0}, np.array([[1.0, "cell"]], dtype=object))[int(random.integers(3))]
        elif kind == 3:
            import scipy.sparse

            held[name] = scipy.sparse.csc_matrix(np.eye(4))
        else:
            held[name] = odd_array(np.asarray(held.get(name, 1.0)), random)
    packed = io.BytesIO()
    scipy.io.savemat(packed, held, do_compression=bool(random.random() < 0.3))
    return packed.getvalue()


def odd_array(values: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """The numbers with another shape, type or value."""
    kind, axis = int(random.integers(9)), int(random.integers(max(1, values.ndim)))
    if values.dtype.kind not in "iufb" or values.ndim == 0:
        return np.asarray(_NUMBERS[int(random.integers(len(_NUMBERS)))], np.float64)
    if kind == 0:
        return values.T
    if kind == 1:
        return values[None]
    if kind == 2:
        return values.take(0, axis) if values.shape[axis] else values[..., None]
    if kind == 3:
        return values[(slice(None),) * axis + (slice(0, int(random.integers(4))),)]
    if kind == 4:
        return np.concatenate([values, values], axis)
    if kind == 5:
        types = (np.float16, ">f8", np.int8, np.uint64, np.complex64, np.bool_, np.longdouble)
        with np.errstate(all="ignore"):
            return values.astype(types[int(random.integers(len(types)))])
    if kind == 6:
        return np.full(values.shape, _NUMBERS[int(random.integers(len(_NUMBERS)))], np.float64)
    if kind == 7:
        changed = values.astype(np.float64)
        changed.flat[: max(1, changed.size // 3)] = _NUMBERS[int(random.integers(len(_NUMBERS)))]
        return changed
    return random.permutation(values)


def _hdf5(content: bytes, random: np.random.Generator) -> bytes:
    import h5py

    held = io.BytesIO(content)
    with h5py.File(held, "r+") as file:
        for _ in range(int(random.integers(1, 4))):
            objects = ["/"]
            file.visit(objects.append)
            name = objects[int(random.integers(len(objects)))]
            changes = _OF_ARRAYS if isinstance(file[name], h5py.Dataset) else _OF_GROUPS
            change = changes[int(random.integers(len(changes)))]
            try:
                change(file, name, random)
            except (ValueError, TypeError, OSError, KeyError, RuntimeError, OverflowError):
                continue  # the format does not allow this change here
    return held.getvalue()


def _change_attribute(file: Any, name: str, random: np.random.Generator) -> None:
    import h5py

    held = file[name].attrs
    key = list(held)[int(random.integers(len(held)))] if len(held) else "config"
    old = held.get(key)
    kind = int(random.integers(7))
    if kind == 0:
        del held[key]
    elif kind == 1 and isinstance(old, (str, bytes)):
        text = old.encode() if isinstance(old, str) else old
        held[key] = _json(text, random).decode() if text[:1] in b"{[" and text else _TEXTS[int(random.integers(4))]
    elif kind == 2:
        held[key] = _TEXTS[int(random.integers(len(_TEXTS)))]
    elif kind == 3:
        odd = (h5py.Empty("f8"), np.void(b"abc"), file.ref, np.zeros((3, 3)), np.zeros(0), np.array([b"a", b"bc"]), 1j)
        held[key] = odd[int(random.integers(len(odd)))]
    elif kind == 4:
        held[_KEYS[int(random.integers(len(_KEYS)))] or "k"] = 1.0
    else:
        held[key] = float(_NUMBERS[int(random.integers(len(_NUMBERS)))])


def _change_numbers(file: Any, name: str, random: np.random.Generator) -> None:
    """Another array under the same name, with the same attributes."""
    if file[name].nbytes > 1 << 26:  # an absurd shape that another change has stated
        return
    attrs, values = dict(file[name].attrs), odd_array(np.asarray(file[name][()]), random)
    packed = {"chunks": True, "compression": "gzip"} if random.random() < 0.3 and values.ndim else {}
    del file[name]
    made = file.create_dataset(name, data=values, **packed)
    for key, value in attrs.items():
        if key not in ("DIMENSION_LIST", "REFERENCE_LIST", "CLASS", "NAME", "_Netcdf4Dimid"):
            made.attrs[key] = value


def _change_type(file: Any, name: str, random: np.random.Generator) -> None:
    import h5py

    shape = file[name].shape
    types = [h5py.string_dtype(), np.dtype([("re", "f4"), ("im", "f4")]), h5py.ref_dtype, h5py.vlen_dtype("f4"), "S4"]
    types += [h5py.enum_dtype({"no": 0, "yes": 1}, "i1"), np.dtype("(2,2)f4"), np.dtype("V5"), np.dtype("f2"), "c16"]
    del file[name]
    file.create_dataset(name, shape, types[int(random.integers(len(types)))])


def _change_shape(file: Any, name: str, random: np.random.Generator) -> None:
    """An array of any stated size of which nothing is stored."""
    shape, dtype = _shape(file[name].shape, random), file[name].dtype
    del file[name]
    file.create_dataset(name, shape, dtype, chunks=tuple(min(max(n, 1), 16) for n in shape) or None)


def _change_links(file: Any, name: str, random: np.random.Generator) -> None:
    import h5py

    kind, key = int(random.integers(8)), _KEYS[int(random.integers(len(_KEYS)))] or "k"
    if kind == 0:
        del file[name]
    elif kind == 1:
        file.move(name, key)
    elif kind == 2:
        del file[name]
        file[name] = h5py.SoftLink(("/", name, "/nowhere", "/u")[int(random.integers(4))])
    elif kind == 3:
        del file[name]
        file[name] = h5py.ExternalLink(("/etc/passwd", "file", "nowhere")[int(random.integers(3))], "/")
    elif kind == 4:
        file[name + "/" + key] = file["/"]
    elif kind == 5:
        del file[name]
        file.create_group(name)
    elif kind == 6:
        for i in range(300):
            file[f"{key}{i}"] = np.float32(i)
    else:
        file[key] = np.zeros((2,) * int(random.integers(9)), np.float32)


_OF_GROUPS = (_change_attribute, _change_attribute, _change_links)
_OF_ARRAYS = (*_OF_GROUPS, _change_numbers, _change_numbers, _change_shape, _change_type)

_FORMATS: tuple[tuple[Callable[[bytes], bool], Callable[[bytes, np.random.Generator], bytes]], ...] = (
    (lambda content: b"\x89HDF\r\n\x1a\n" in content[:1024], _hdf5),
    (lambda content: content.startswith(b"\x93NUMPY"), _npy),
    (lambda content: content.startswith(b"PK\x03\x04"), _zip),
    (lambda content: content.startswith(b"MATLAB 5.0"), _mat5),
    (lambda content: content[:1] in (b"{", b"["), _json),
)
