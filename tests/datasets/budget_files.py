"""Files for the tests of budgets, and the memory that a refused call takes."""

from __future__ import annotations

import io
import zipfile

import numpy as np


def write_zeros(path, members, *, kind=zipfile.ZIP_DEFLATED):
    """An archive of arrays of zeros, name → bytes of each."""
    with zipfile.ZipFile(path, "w", kind) as archive:
        for name, size in members.items():
            inside = io.BytesIO()
            np.save(inside, np.zeros(size, np.uint8))
            archive.writestr(name, inside.getvalue())
    return path
