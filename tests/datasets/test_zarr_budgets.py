"""Small Zarr stores that would take a machine's memory or time are refused in one line."""

from __future__ import annotations

import json

import numpy as np
import pytest

from sciops.datasets import (
    open_dataset,
    write_native,
)
from sciops.datasets.formats.samples import write_sample
from sciops.files.budget import Budget, OverBudget, opening_within


@pytest.fixture
def store(tmp_path):
    pytest.importorskip("zarr")
    with open_dataset(write_sample("pdebench-darcy", tmp_path / "source.h5")) as source:
        return write_native(tmp_path / "native.zarr", source, compression=3)


def _rewrite(file, change):
    about = json.loads(file.read_text())
    change(about)
    file.write_text(json.dumps(about))


def test_a_zarr_chunk_far_larger_than_its_array_is_refused_when_the_store_is_opened(store):
    group = next(store.glob("r*"))

    def change(about):
        about["shape"] = [1, *about["shape"][1:]]
        for grid in (about["chunk_grid"], about["codecs"][0]):
            grid["configuration"]["chunk_shape"] = [1, 4000, 4000]

    _rewrite(group / "u" / "zarr.json", change)
    (group / "u" / "c.0.0.0").write_bytes(np.random.default_rng(0).bytes(90_000))
    with opening_within(Budget(bytes=1e7)), pytest.raises(OverBudget, match=r"u: a chunk takes \S+e\+0[78] bytes"):
        open_dataset(store)


def test_a_zarr_chunk_that_states_another_length_is_not_unpacked(store):
    """Within a whole shard and read alone; the checksum of the chunk is right."""
    import google_crc32c
    from numcodecs import Zstd

    file = next(store.glob("r*")) / "u" / "c.0.0.0"
    content = file.read_bytes()
    count = open_dataset(store).sizes["sample"]
    index = np.frombuffer(content[-4 - 16 * count : -4], "<u8").reshape(count, 2).copy()
    chunk = Zstd(level=19).encode(bytes(1 << 24))
    chunk += google_crc32c.value(chunk).to_bytes(4, "little")
    index[0] = len(content), len(chunk)
    raw = index.tobytes()
    file.write_bytes(content + chunk + raw + google_crc32c.value(raw).to_bytes(4, "little"))
    dataset = open_dataset(store)
    assert np.isfinite(dataset["u"][1:].values).all()
    for part in (slice(0, 1), slice(None)):
        with pytest.raises(OSError, match="a chunk that states 16777216 bytes, .* belong there"):
            dataset["u"][part].values  # noqa: B018


def test_folders_of_a_store_are_counted(store):
    entries = 1 + sum(path.is_dir() for path in store.rglob("*"))
    with opening_within(Budget(objects=entries)):
        open_dataset(store).close()
    with opening_within(Budget(objects=entries - 1)), pytest.raises(OverBudget, match="it takes"):
        open_dataset(store)


def test_codecs_around_the_shards_of_a_store_are_refused(store):
    zstd = {"name": "zstd", "configuration": {"level": 3, "checksum": False}}
    _rewrite(next(store.glob("r*")) / "u" / "zarr.json", lambda about: about["codecs"].append(zstd))
    with pytest.raises(ValueError, match="codecs sharding_indexed, zstd; expected bytes, zstd, crc32c"):
        open_dataset(store)
