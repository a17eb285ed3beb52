"""The Zarr form of native files."""
