"""Files of any known layout: one module for each layout, its reader and its writer together.

`containers` reads what kinds of files hold (HDF5, MATLAB, NetCDF, NumPy, torch), `described` gives a meaning to plain
arrays, `shared` holds what several layouts use, `samples` writes tiny files in the layouts of other programs.
"""

from sciops.datasets.formats.opening import (
    READERS,
    WRITERS,
    Probe,
    Reader,
    find_reader,
    open_dataset,
    opened_resolutions,
    probe,
)

__all__ = ["READERS", "WRITERS", "Probe", "Reader", "find_reader", "open_dataset", "opened_resolutions", "probe"]
