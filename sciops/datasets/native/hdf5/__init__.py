"""The HDF5 form of native files, and the checks of every HDF5 file that is opened."""
