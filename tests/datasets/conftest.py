"""Files that tests of several modules start from."""

import pytest

from sciops.datasets import open_dataset, write_native, write_sample


@pytest.fixture
def native(tmp_path):
    """A native file with packed fields."""
    with open_dataset(write_sample("pdebench-darcy", tmp_path / "source.h5")) as source:
        return write_native(tmp_path / "native.h5", source, compression=4)


@pytest.fixture
def channel(tmp_path):
    """A file of The Well under a misleading name."""
    return write_sample("the-well", tmp_path / "named.pt")
