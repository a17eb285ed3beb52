"""Fields into .npy streams in blocks along the samples, so that a file larger than memory passes through."""

from __future__ import annotations

from collections.abc import Sequence
from typing import IO, TYPE_CHECKING

import numpy as np

from sciops.datasets.formats.shared.hdf5_writing import blocks_of

if TYPE_CHECKING:
    import xarray as xr


def write_npy(file: IO[bytes], fields: Sequence[xr.DataArray], *, channels: int | None = None) -> None:
    """One array (samples, …) of the fields' numbers; `channels` is the axis where several are stacked."""
    shape, dtype = list(fields[0].shape), fields[0].dtype
    if channels is not None:
        shape.insert(channels, len(fields))
    header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": tuple(shape)}
    np.lib.format.write_array_header_1_0(file, header)
    if not fields[0].ndim:
        file.write(np.ascontiguousarray(fields[0].values).tobytes())
        return
    for _, blocks in blocks_of(fields):
        whole = blocks[0] if channels is None else np.stack(blocks, channels)
        file.write(np.ascontiguousarray(whole, dtype).tobytes())
