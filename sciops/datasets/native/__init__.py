"""The native file, as HDF5 and as Zarr: its layout, its parts and how they are put together."""

from sciops.datasets.native.files import content_hash, group_name, read_native, resolutions, write_native

__all__ = ["content_hash", "group_name", "read_native", "resolutions", "write_native"]
