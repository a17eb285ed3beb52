"""The native file, as HDF5 and as Zarr: how it is laid out, made in parts and put together."""
