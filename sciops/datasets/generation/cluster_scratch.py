"""Where the workers of a cluster on this machine keep their temporary files."""

from __future__ import annotations

import tempfile
from pathlib import Path


def scratch_path() -> Path:
    """The path beside which the folders of workers of this machine are `hidden`."""
    return Path(tempfile.gettempdir()) / "sciops-cluster"
