"""What a file is, by its content alone: the name and its ending are never looked at."""

from __future__ import annotations

import contextlib
import math
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from sciops.datasets.formats.containers.complex_pairs import number_type
from sciops.datasets.formats.containers.hdf5_attributes import hdf5_dimensions, hdf5_packing, missing_filter
from sciops.datasets.formats.containers.mat5 import mat5_arrays, mat5_others
from sciops.datasets.formats.containers.netcdf3 import MAGIC, read_header
from sciops.datasets.formats.containers.numpy_files import DESCRIPTION, Unsafe, npy_array, npz_arrays
from sciops.datasets.formats.containers.others import HDF5_OTHERS, MATLAB_OWN, matlab_other, matlab_words, numbers_apart
from sciops.datasets.formats.containers.torch_files import TorchArray, torch_contents
from sciops.datasets.formats.containers.torch_pickle import check_torch_file, pickled
from sciops.datasets.formats.containers.zips import unzipped
from sciops.datasets.native.hdf5.guard import open_survivable, refusal
from sciops.datasets.native.hdf5.inflation import check_chunk
from sciops.datasets.native.hdf5.visit import Refused, stored_elsewhere, survey
from sciops.datasets.native.zarr.store import store_attributes
from sciops.files.budget import Budget, OverBudget, Spending, check_rank, current_budget, over_budget
from sciops.files.messages import shown
from sciops.files.remote import RemotePath, answering, local_or_remote
from sciops.files.untrusted import check_regular
from sciops.files.whole_files import is_store

_LISTED = 8  # arrays that are named in a message
_ANY_FILE = 1 << 24  # bytes that an array may claim in a file of any size
_COMPRESSED, _PLAIN = 1100, 100  # times the bytes stored: DEFLATE reaches 1032:1; a file may be filled to a hundredth
_NO_VARIABLE = b"This is a netCDF dimension but not a netCDF variable"
_HDF5 = b"\x89HDF\r\n\x1a\n"
_TORCH_OLD = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."  # the number that opened torch.save files before torch 1.6


@dataclass(frozen=True)
class Entry:
    """One stored array: its shape and dtype, and the names that the file gives to its axes, () where it gives none."""

    shape: tuple[int, ...]
    dtype: str
    dims: tuple[str, ...] = field(default=(), compare=False)


@dataclass
class Probe:
    """A file's kind and table of contents.

    kind : "hdf5", "mat5" (MATLAB up to v7), "torch" (torch.save), "zarr" (a store of version 3), "npz", "zip", or a
        phrase for what else it is
    arrays : path inside the file → `Entry`, where the kind has any
    others : path inside the file → what it is and how to save it, for what is stored and is not an array of numbers
    attrs : root attributes of an HDF5 file or a Zarr store
    matlab : whether an HDF5 file was written by MATLAB (v7.3), which stores every array with its axes reversed
    budget : what opening the file may take
    store : the `Store` of a native file, once its reader has opened it
    """

    path: Path
    kind: str
    matlab: bool = False
    attrs: dict[str, Any] = field(default_factory=dict)
    budget: Budget = field(default_factory=current_budget)
    store: Any = None
    _stated: float = field(default=0.0, init=False, repr=False)

    @property
    def arrays(self) -> dict[str, Entry]:
        return self._contents[0]

    @property
    def others(self) -> dict[str, str]:
        return self._contents[1]

    @cached_property
    def _contents(self) -> tuple[dict[str, Entry], dict[str, str]]:
        contents: dict[str, Callable[[], tuple[dict[str, Entry], dict[str, str]]]] = {
            "hdf5": self._hdf5_arrays,
            "mat5": self._mat5_arrays,
            "torch": self._torch_arrays,
            "npy": self._numpy_arrays,
            "npz": self._numpy_arrays,
            "netcdf3": self._netcdf3_arrays,
        }
        return contents[self.kind]() if self.kind in contents else ({}, {})

    @cached_property
    def tensors(self) -> Any:
        """What a torch.save file holds, mapped from disk where the format allows; nothing in it is executed."""
        import torch

        with readable(self.path, "a torch.save file"):
            check_torch_file(self.path, Spending(self.path, budget=self.budget))
            try:
                # files from before torch 1.6 cannot be mapped
                mapped = zipfile.is_zipfile(self.path)
                return torch.load(self.path, weights_only=True, mmap=mapped, map_location="cpu")
            except Exception as error:
                if "weights_only" not in str(error) and "Unsupported" not in str(error):
                    raise
                raise pickled(self.path, _named_global(str(error))) from None

    @cached_property
    def torch_arrays(self) -> tuple[dict[str, TorchArray], dict[str, str]]:
        """`torch_contents` of a torch.save file."""
        with readable(self.path, "a torch.save file"):
            return torch_contents(self.tensors, Spending(self.path, budget=self.budget))

    def describe(self) -> str:
        """One line on what was found."""
        others = self._describe_others()
        if not self.arrays:
            return f"{_KINDS[self.kind]} without arrays{others}" if self.kind in _KINDS else self.kind
        first = [(shown(name, 60), entry) for name, entry in list(self.arrays.items())[:_LISTED]]
        listed = ", ".join(f"{name} {shown(entry.dtype, 40)}{list(entry.shape)}" for name, entry in first)
        more = f", … ({len(self.arrays)} arrays)" if len(self.arrays) > _LISTED else ""
        return f"{_KINDS[self.kind]} with {listed}{more}{others}"

    def _describe_others(self) -> str:
        first = [f"{shown(name, 60)}, {shown(what, 300)}" for name, what in list(self.others.items())[: _LISTED // 2]]
        more = f"; … ({len(self.others)} of these)" if len(self.others) > _LISTED // 2 else ""
        return f"; not an array of numbers: {'; '.join(first)}{more}" if first else ""

    def stored(self, *names: str) -> bool:
        """Whether the file holds an array under each of these names."""
        return all(name in self.arrays for name in names)

    def _hdf5_arrays(self) -> tuple[dict[str, Entry], dict[str, str]]:
        import h5py

        found: dict[str, Entry] = {}
        others: dict[str, str] = {}
        size, spent = self.path.stat().st_size, Spending(self.path, budget=self.budget)

        def visit(name: str | bytes, item: Any) -> None:
            spent.take(objects=1, what="its table of contents")
            if not isinstance(name, str):  # a name of bytes is not text in any code
                return
            if self.matlab:
                if name.startswith(MATLAB_OWN) or any(name.startswith(f"{sparse}/") for sparse in others):
                    return
                what = matlab_other(item)
                if what is not None:
                    others[name] = what
                    return
            if not isinstance(item, h5py.Dataset):
                return
            dtype, shape = number_type(item.dtype), item.shape  # h5py asks the library each time
            if shape is not None and dtype.kind in HDF5_OTHERS:
                others[name] = HDF5_OTHERS[dtype.kind]
            if dtype.kind not in "biufc" or shape is None or (len(shape) == 1 and _is_bare_dimension(item)):
                return
            other = stored_elsewhere(item)
            if other is not None:
                raise ValueError(
                    f"{self.path} keeps the numbers of {name} in another file ({other}), which is not opened: "
                    "write them into one file"
                )
            missing = missing_filter(item)
            if missing is not None:
                raise ValueError(
                    f"{self.path} keeps {shown(name, 60)} packed by the filter {missing}, which this HDF5 library does "
                    "not have: import hdf5plugin first, or repack the file with h5repack -f GZIP=4"
                )
            check_chunk(self.path, name, item, self.budget)
            stored, ratio = size, _COMPRESSED
            if math.prod(shape) * dtype.itemsize > max(size, _ANY_FILE):
                # counting what is stored visits every chunk: where the file is as long as its arrays there is no need
                stored = item.id.get_storage_size()
                ratio = _COMPRESSED if item.id.get_create_plist().get_nfilters() else _PLAIN
            self._check_size(name, shape, dtype.itemsize, stored, ratio)
            packing = hdf5_packing(item)
            found[name] = Entry(tuple(shape), str(packing.dtype if packing else dtype), hdf5_dimensions(item))

        with readable(self.path, "an HDF5 file"):
            with open_survivable(self.path) if self.store is None else contextlib.nullcontext(self.store.file) as file:
                file.visititems(visit)
        return found, others

    def _mat5_arrays(self) -> tuple[dict[str, Entry], dict[str, str]]:
        with readable(self.path, "a MATLAB file"):
            found = mat5_arrays(self.path)
            for name, one in found.items():
                self._check_size(name, one.shape, one.dtype.itemsize, ratio=_COMPRESSED)
            entries = {name: Entry(one.shape, one.kind) for name, one in found.items()}
            return entries, {name: matlab_words(what) for name, what in mat5_others(self.path).items()}

    def _torch_arrays(self) -> tuple[dict[str, Entry], dict[str, str]]:
        found, others = self.torch_arrays
        spent = Spending(self.path, budget=self.budget)
        for name, one in found.items():
            if one.stacked:  # put together in memory
                size = sum(tensor.numel() * tensor.element_size() for tensor in one.tensors)
                spent.take(bytes=size, what="all its lists together")
            for tensor in one.tensors:
                self._check_size(name, tuple(tensor.shape), tensor.element_size())
        return {name: Entry(one.shape, one.kind) for name, one in found.items()}, others

    def _numpy_arrays(self) -> tuple[dict[str, Entry], dict[str, str]]:
        with readable(self.path, "a NumPy file"):
            found = {"(the array)": npy_array(self.path)} if self.kind == "npy" else npz_arrays(self.path)
            return _entries(found)

    def _netcdf3_arrays(self) -> tuple[dict[str, Entry], dict[str, str]]:
        with readable(self.path, "a NetCDF-3 file"):
            numbers, others = numbers_apart(read_header(self.path)[0])
            return {name: Entry(one.shape, one.value_dtype.name, one.dims) for name, one in numbers.items()}, others

    def _check_size(
        self, name: str, shape: tuple[int, ...], itemsize: int, stored: int | None = None, ratio: int = _PLAIN
    ) -> None:
        """Raises ValueError for an array that so many stored bytes (by default the file's) cannot be.

        No lossless code packs numbers so well, and what was never written reads as zeros: a few damaged bytes would
        have them read by the terabyte.
        """
        check_rank(self.path, shown(name, 60), len(shape))
        size = self.path.stat().st_size
        stated, stored = math.prod(shape) * itemsize, size if stored is None else stored
        self._stated += stated
        if stated > _ANY_FILE + ratio * stored:
            raise ValueError(
                f"{self.path} says that {shown(name, 60)} has shape {list(shape)}, {stated:.3g} bytes, of which "
                f"{stored} are stored: it is damaged or was never filled; write it again"
            )
        # the budget of a file that packs its numbers at a hundredth: many arrays are no better than one
        if self._stated > self.budget.bytes + _PLAIN * size:
            raise over_budget(self.path, "bytes", self._stated, self.budget, "all that it states to hold")


def _entries(found: Mapping[str, Any]) -> tuple[dict[str, Entry], dict[str, str]]:
    numbers, others = numbers_apart(found)
    return {name: Entry(one.shape, one.dtype.name) for name, one in numbers.items()}, others


_KINDS = {
    "hdf5": "an HDF5 file",
    "mat5": "a MATLAB v5 file",
    "torch": "a torch.save file",
    "zarr": "a Zarr store",
    "npy": "a NumPy .npy array",
    "npz": "a NumPy .npz archive",
    "netcdf3": "a NetCDF-3 file",
}


def probe(path: str | Path) -> Probe:
    """Looks into a file.

    Raises FileNotFoundError, IsADirectoryError or ValueError (empty, truncated, damaged), each in one line that says
    what to do.
    """
    path = local_or_remote(path)
    if isinstance(path, RemotePath):
        return _probe_remote(path)
    if is_store(path):
        return Probe(path, "zarr", attrs=store_attributes(path))
    if path.is_dir() and any((path / name).is_file() for name in (".zgroup", ".zarray")):
        raise ValueError(
            f"{path} is a Zarr store of version 2, which is not read: write it once as NetCDF, "
            "xarray.open_zarr(path).to_netcdf('data.nc'), and open that"
        )
    if path.is_dir():
        inside = sorted(p.name for p in path.iterdir())[:6]
        raise IsADirectoryError(
            f"{path} is a folder ({', '.join(inside) or 'empty'}): name one file in it, or pass the folder to "
            "sciops.datasets.load_splits"
        )
    if not path.exists():
        near = sorted(p.name for p in path.parent.iterdir() if p.is_file())[:6] if path.parent.is_dir() else []
        hint = f"beside it lie {', '.join(near)}" if near else "check the folder's name"
        raise FileNotFoundError(f"no file {path}: {hint}")
    check_regular(path)
    with open(path, "rb") as file:
        head = file.read(1024)
    if not head:
        raise ValueError(f"{path} is empty: the copy or download did not finish; fetch it again")
    offsets = [0] + [512 << k for k in range(12)]  # HDF5 allows a block of another program's before its signature
    if any(_at(path, offset, len(_HDF5)) == _HDF5 for offset in offsets):
        return _probe_hdf5(path, matlab=head.startswith(b"MATLAB 7.3"))
    if head.startswith(b"MATLAB 5.0 MAT-file") or (head.startswith(b"MATLAB") and head[126:128] in (b"IM", b"MI")):
        return Probe(path, "mat5")
    if head.startswith(_TORCH_OLD):
        return Probe(path, "torch")
    if head.startswith(b"\x93NUMPY"):
        return Probe(path, "npy")
    if head.startswith(MAGIC):
        with readable(path, "a NetCDF-3 file"):
            return Probe(path, "netcdf3", attrs=read_header(path)[1])
    if head.startswith(b"PK\x03\x04"):
        return Probe(path, _zip_kind(path))
    return Probe(path, _other_kind(head))


@contextlib.contextmanager
def readable(path: Path, what: str) -> Iterator[None]:
    """Turns whatever a parser says about a damaged file into one line."""
    try:
        yield
    except (FileNotFoundError, MemoryError, ImportError, KeyboardInterrupt):
        raise
    except Unsafe as error:
        raise ValueError(f"{path} {error}") from None
    except Exception as error:
        text = shown(str(error), 160)
        if str(error).startswith(str(path)) and isinstance(error, ValueError):
            raise
        raise ValueError(
            f"{path} starts like {what} but cannot be read ({text or type(error).__name__}): it is truncated or "
            "damaged; fetch or write it again and compare its size"
        ) from None


def _probe_hdf5(path: Path, *, matlab: bool) -> Probe:
    with readable(path, "an HDF5 file"), open_survivable(path) as file:
        try:
            outside, _ = survey(file, current_budget().objects)
        except Refused as refused:
            raise refusal(path, refused.status, current_budget()) from None
        if outside is not None:
            raise ValueError(
                f"{path} keeps {outside[0]} in another file ({outside[1]}), which is not opened: write them into one"
            )
        attrs = {key: file.attrs[key] for key in file.attrs}
        ours = "sciops_schema" in attrs
        matlab = matlab or not ours and any("MATLAB_class" in item.attrs for item in file.values())
    return Probe(path, "hdf5", matlab, attrs)


def _probe_remote(path: RemotePath) -> Probe:
    """Of files on a server, those of HDF5 are read."""
    file = path.open()
    with answering(path):
        file.seek(0)
        head = file.read(len(_HDF5))
    if head != _HDF5:
        raise ValueError(f"{path} does not start like an HDF5 file, which can be read on a server: download it first")
    found = _probe_hdf5(path, matlab=False)
    if "sciops_schema" in found.attrs:
        raise ValueError(f"{path} is a native file, which is read from the disk: download it first")
    return found


def _is_bare_dimension(item: Any) -> bool:
    """Whether an array is NetCDF-4's way to keep the length of a dimension that has no coordinate."""
    import h5py

    return item.is_scale and h5py.h5ds.get_scale_name(item.id).startswith(_NO_VARIABLE)


def _zip_kind(path: Path) -> str:
    try:
        with unzipped(path, Spending(path)) as archive:
            names = archive.namelist()
    except (PermissionError, OverBudget):
        raise
    except zipfile.BadZipFile:
        raise ValueError(
            f"{path} starts like a zip archive, as torch.save and np.savez write them, but its end is missing: it is "
            "truncated; fetch it again and compare its size"
        ) from None
    except Exception as error:
        if str(error).startswith(str(path)) and isinstance(error, ValueError):
            raise
        # a version or a name that zipfile does not know, an offset outside the file, …
        raise ValueError(
            f"{path} starts like a zip archive but cannot be read ({shown(str(error), 160)}): it is damaged; fetch it "
            "again"
        ) from None
    if any(name.endswith("/data.pkl") or name == "data.pkl" for name in names):
        return "torch"
    arrays = [name for name in names if name != DESCRIPTION]
    return "npz" if arrays and all(name.endswith(".npy") for name in arrays) else "a zip archive"


def _other_kind(head: bytes) -> str:
    if head.startswith(b"\x1f\x8b"):
        return "a gzip archive (unpack it first)"
    if head.startswith(b"version https://git-lfs"):
        return "a Git LFS pointer, not the data (run git lfs pull)"
    if head[:1] == b"\x80":
        return "a Python pickle (never opened, since that could run code: save plain arrays instead)"
    if head.lstrip()[:1] == b"<":
        return "an HTML or XML page (a download that failed?)"
    try:
        head.decode("utf-8")
    except UnicodeDecodeError as error:
        if error.start < len(head) - 4:
            return "a binary file of unknown kind"
    return (
        "a text file (columns of numbers: write them once with sciops.datasets.write_native; prose, for a language "
        "model: sciops study language_model --corpus FILE)"
    )


def _at(path: Path, offset: int, length: int) -> bytes:
    with open(path, "rb") as file:
        file.seek(offset)
        return file.read(length)


def _named_global(message: str) -> str:
    marker = "GLOBAL "
    if marker not in message:
        return ""
    return message.split(marker, 1)[1].split()[0].rstrip(".")
