"""The native file: what is written is read back, by plain xarray too; damaged files say so in one line."""

from __future__ import annotations

import errno
import json
import os
import pickle
import shutil
from pathlib import Path

import h5py
import numpy as np
import pytest
import xarray as xr

from sciops.datasets import open_dataset, validate
from sciops.datasets.native import content_hash, group_name, read_native, resolutions, write_native
from sciops.datasets.native.hdf5.guard import Guard
from sciops.datasets.native.layout import stored_bytes
from sciops.grids import Grid

SHORT = Grid((5, 4), extent=((0, 0.8), (0, 0.75)), domain=(0, 1))  # stops short of the far walls


def dataset(grid: Grid, samples: int = 4, dtype: str = "float64") -> xr.Dataset:
    draw = np.random.default_rng(0)
    coords = {
        name: (name, points, {"centering": grid.centering, "extent": np.array(extent), "domain": np.array(domain)})
        for name, points, extent, domain in zip("xy", grid.coordinates(), grid.extent, grid.domain)
    }
    fields = {name: (("sample", "x", "y"), draw.normal(size=(samples, *grid.shape)).astype(dtype)) for name in "au"}
    split = ("sample", np.array([0, 0, 1, 2], np.int8), {"flag_values": np.arange(3, dtype=np.int8)})
    attrs = {"equation": "darcy", "grid": json.dumps(grid.to_dict()), "coefficient": "values"}
    return xr.Dataset({**fields, "split": split}, coords, attrs)


@pytest.fixture
def written(tmp_path: Path) -> Path:
    groups = [dataset(Grid((9, 9))), dataset(SHORT), dataset(Grid((5, 5), centering="cell"), dtype="float32")]
    return write_native(tmp_path / "a.h5", groups, attrs={"config": {"tau": 3.0}, "splits": {"train": [0, 2]}})


def test_fields_coordinates_and_attributes_come_back(written: Path) -> None:
    for grid, dtype in ((Grid((9, 9)), "float64"), (SHORT, "float64"), (Grid((5, 5), centering="cell"), "float32")):
        expected = dataset(grid, dtype=dtype)
        with read_native(written, grid.shape) as found:
            assert found.drop_attrs().identical(expected.drop_attrs())
            assert Grid.from_dict(json.loads(found.attrs["grid"])) == grid
            assert {"equation": "darcy", "coefficient": "values", "layout": "native"}.items() <= found.attrs.items()
            assert json.loads(found.attrs["config"]) == {"tau": 3.0}
            assert json.loads(found.attrs["splits"]) == {"train": [0, 2]}
            for axis, extent, domain in zip("xy", grid.extent, grid.domain):
                assert found[axis].attrs["centering"] == grid.centering
                assert tuple(found[axis].attrs["extent"]) == extent and tuple(found[axis].attrs["domain"]) == domain


def test_plain_xarray_opens_every_group_and_the_tree(written: Path) -> None:
    # pytest turns every warning of xarray into an error here
    with xr.open_dataset(written, group="r5x4") as plain:
        np.testing.assert_array_equal(plain["u"], dataset(SHORT)["u"])
        np.testing.assert_array_equal(plain["x"], SHORT.coordinates()[0])
    with xr.open_datatree(written) as tree:
        assert set(tree.children) == {"r9", "r5x4", "r5"}
        assert tree["r9"].ds["a"].dims == ("sample", "x", "y") and tree.attrs["sciops_schema"] == "1"


def test_resolutions_finest_first_and_the_finest_is_the_default(written: Path) -> None:
    assert resolutions(written) == ((9, 9), (5, 5), (5, 4))
    with read_native(written) as finest, read_native(written, 9) as nine:
        assert finest.identical(nine)
    with pytest.raises(ValueError, match=r"stores 9×9, 5×5, 5×4; resolution=\(7, 7\): .*nested in it: 5×5"):
        open_dataset(written, 7)
    assert group_name(421) == group_name((421, 421)) == "r421"


def test_a_sample_is_a_chunk_of_its_own_with_a_checksum(written: Path) -> None:
    with h5py.File(written) as file:
        assert file["r9/u"].chunks == (1, 9, 9) and file["r9/u"].fletcher32
        start, size = file["r9/u"].id.get_chunk_info(2).byte_offset, file["r9/u"].id.get_chunk_info(2).size
    damaged = bytearray(written.read_bytes())
    damaged[start + size // 2] ^= 1
    written.write_bytes(damaged)
    with read_native(written, 9) as found:
        np.testing.assert_array_equal(found["u"][1], dataset(Grid((9, 9)))["u"][1])
        with pytest.raises(OSError, match="read"):
            found["u"][2].load()


def test_compression_and_booleans_lose_nothing(tmp_path: Path) -> None:
    plain = dataset(Grid((33, 33)))
    plain["a"] = plain["a"] > 0
    write_native(tmp_path / "plain.h5", plain)
    write_native(tmp_path / "packed.h5", plain, compression=4)
    assert (tmp_path / "packed.h5").stat().st_size < (tmp_path / "plain.h5").stat().st_size
    with read_native(tmp_path / "packed.h5") as packed:
        assert packed["a"].dtype == bool and packed.drop_attrs().equals(plain.drop_attrs())
    assert content_hash(tmp_path / "packed.h5") == content_hash(tmp_path / "plain.h5")


def test_the_hash_follows_the_fields_and_nothing_else(written: Path, tmp_path: Path) -> None:
    with read_native(written, 9) as nine, read_native(written, (5, 4)) as short, read_native(written, 5) as cells:
        again = write_native(tmp_path / "b.h5", [cells, nine, short], attrs={"created": "another day"})
        assert content_hash(again) == content_hash(written)
        changed = nine.load().copy(deep=True)
        changed["u"][3, 8, 8] = np.nextafter(changed["u"][3, 8, 8], np.inf)
        other = write_native(tmp_path / "c.h5", [cells, changed, short])
    assert content_hash(other) != content_hash(written)


def test_the_hash_of_another_file_is_that_of_its_bytes(tmp_path: Path) -> None:
    (tmp_path / "abc").write_bytes(b"abc")
    assert content_hash(tmp_path / "abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


@pytest.mark.parametrize("share", [0.02, 0.5, 0.999])
def test_a_truncated_file_is_named_with_a_remedy(written: Path, share: float) -> None:
    whole = written.read_bytes()
    written.write_bytes(whole[: int(share * len(whole))])
    for reader in (read_native, resolutions, content_hash):
        with pytest.raises(OSError, match=r"a\.h5: truncated .*copy it again, or remove it and generate it") as caught:
            reader(written)
        assert "\n" not in str(caught.value)


def test_what_is_no_native_file_is_told_from_one(written: Path, tmp_path: Path) -> None:
    (tmp_path / "text.h5").write_text("not HDF5")
    with pytest.raises(ValueError, match="not an HDF5 file"):
        read_native(tmp_path / "text.h5")
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["tensor"] = np.zeros(3)
    with pytest.raises(ValueError, match=r"no native file .*sciops\.open_dataset"):
        read_native(tmp_path / "other.h5")
    with pytest.raises(FileNotFoundError, match="no such file"):
        read_native(tmp_path / "absent.h5")
    with pytest.raises(ValueError, match="no resolution 7; it holds 9, 5, 5x4"):
        read_native(written, 7)
    with h5py.File(shutil.copy(written, tmp_path / "new.h5"), "a") as file:
        file.attrs["sciops_schema"] = "2"
    with pytest.raises(ValueError, match="schema 2, and this sciops reads schema 1; upgrade"):
        read_native(tmp_path / "new.h5")


def test_writing_is_all_or_nothing(written: Path, tmp_path: Path) -> None:
    before = written.read_bytes()
    bad = dataset(Grid((9, 9))).assign(name=("sample", list("abcd")))
    with pytest.raises(TypeError, match="variable name of r9 has dtype <U1; a native file holds real numbers"):
        write_native(written, bad, overwrite=True)
    with pytest.raises(ValueError, match="each of another resolution"):
        write_native(written, [dataset(Grid((9, 9))), dataset(Grid((9, 9)))], overwrite=True)
    with pytest.raises(FileExistsError, match="is there already: remove it, or pass overwrite=True"):
        write_native(written, dataset(Grid((9, 9))))
    assert written.read_bytes() == before and [p.name for p in tmp_path.iterdir()] == ["a.h5"]
    with read_native(written, 9) as lazy:  # a file may be rewritten from itself
        write_native(written, lazy, overwrite=True)
    assert resolutions(written) == ((9, 9),)


def test_a_full_disk_is_noticed_before_hdf5_meets_it(tmp_path: Path, monkeypatch) -> None:
    asked = []

    def no_space(descriptor, offset, size):
        asked.append(size)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", no_space, raising=False)
    data = dataset(Grid((65, 33)), samples=4)
    with pytest.raises(OSError, match=r"no space left on the device for .*a\.h5; free some and run the same command"):
        write_native(tmp_path / "a.h5", data)
    assert not list(tmp_path.iterdir())
    monkeypatch.undo()
    size = write_native(tmp_path / "a.h5", data).stat().st_size
    assert data.nbytes < size <= asked[0] <= size + (1 << 20)


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="open files are listed in /proc on Linux alone")
def test_no_handle_stays_open(written):
    """xarray's copies do not close the file they read from; ours do."""

    def handles() -> list[str]:
        links = [f"/proc/self/fd/{fd}" for fd in os.listdir("/proc/self/fd")]
        return [os.readlink(link) for link in links if os.path.islink(link) and os.readlink(link) == str(written)]

    for resolution in (None, 5, (3, 3)):
        with open_dataset(written, resolution) as opened:
            opened["u"][0].values  # noqa: B018
            assert len(handles()) == 1
        assert handles() == []
    with open_dataset(written, grid=Grid((9, 9), extent=2.0)):
        pass
    assert handles() == []


def test_a_load_opens_the_file_once_beside_the_look_at_its_kind(written, monkeypatch):
    looked, check = [], Guard.check
    monkeypatch.setattr(Guard, "check", lambda guard, path: looked.append(path) or check(guard, path))
    for load in (lambda: open_dataset(written).load().close(), lambda: validate(written, solutions=0)):
        looked.clear()
        load()
        assert len(looked) == 2  # of all resolutions


def test_a_data_set_that_was_pickled_reads_the_file_by_itself(written, tmp_path, monkeypatch):
    monkeypatch.chdir(written.parent)
    with open_dataset(written.name) as opened:
        copied = pickle.dumps(opened["u"].isel(sample=[2, 0]))  # before anything of it is kept in memory
        expected = opened["u"].values
    monkeypatch.chdir("/")
    assert np.array_equal(pickle.loads(copied).values, expected[[2, 0]])


@pytest.mark.parametrize("name", ["x", "y", "split", "seed", "time"])
def test_damage_in_positions_and_numbers_of_samples_is_noticed(tmp_path: Path, name: str) -> None:
    whole = dataset(Grid((9, 9))).assign(seed=("sample", np.arange(4))).assign_coords(time=np.arange(3.0))
    path = write_native(tmp_path / "a.h5", whole)
    raw = bytearray(path.read_bytes())
    with h5py.File(path) as file:
        raw[file[f"r9/{name}"].id.get_chunk_info(0).byte_offset + 1] ^= 4
    path.write_bytes(raw)
    with pytest.raises(OSError, match=rf"^{path}: damaged, .*sciops validate") as caught:
        content_hash(path)
    assert "\n" not in str(caught.value)
    if name in ("split", "seed"):
        assert [finding.field for finding in validate(path) if "checksum" in finding.message] == [name]
    else:  # read when the file is opened
        with pytest.raises(OSError, match=rf"^{path}: damaged"):
            open_dataset(path)


def test_numbers_of_a_great_many_samples_are_written_part_by_part(tmp_path: Path) -> None:
    seeds = np.arange(70_001)
    path = write_native(tmp_path / "a.h5", {"r2": xr.Dataset({"seed": ("sample", seeds)}, attrs={"grid": "{}"})})
    with h5py.File(path) as file:
        assert file["r2/seed"].chunks == (1 << 15,) and np.array_equal(file["r2/seed"], seeds)
    assert stored_bytes([(("sample",), (70_001,), np.dtype(int))]) >= path.stat().st_size


def test_a_hash_is_of_arrays_alone(tmp_path):
    """A group that holds itself ended a study in a traceback, before its fields were opened."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        group = file.create_group("r16")
        group["itself"] = group
        file.attrs["sciops_schema"] = "1"
    with pytest.raises(ValueError, match="a.h5: r16/itself is a group where a native file has arrays"):
        content_hash(tmp_path / "a.h5")
