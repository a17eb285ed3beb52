"""Opens a native file, whichever kind of store it is."""

from __future__ import annotations

import os
from pathlib import Path

from sciops.datasets.native.hdf5.store import Hdf5Store
from sciops.datasets.native.store import Store


def open_store(path: str | os.PathLike[str]) -> Store:
    """A native file or Zarr store, its schema checked.

    Raises FileNotFoundError, ValueError (of another kind or of a newer schema) or OSError (truncated, damaged), in one
    line with the remedy.
    """
    if Path(path).is_dir():
        from sciops.datasets.native.zarr.store import ZarrStore  # zarr is an extra

        return ZarrStore(path)
    return Hdf5Store(path)
