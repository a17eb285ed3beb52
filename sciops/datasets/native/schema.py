"""The version of the native layout, in HDF5 and in Zarr, and the order of its groups."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

SCHEMA = "1"


def check_schema(path: Any, attrs: Mapping[str, Any], otherwise: str) -> None:
    """Raises ValueError unless root attributes name this schema; `otherwise` says what a file without one is."""
    schema = attrs.get("sciops_schema")
    if schema is None:
        raise ValueError(f"{path}: {otherwise}")
    if str(schema) != SCHEMA:
        raise ValueError(f"{path}: schema {schema}, and this sciops reads schema {SCHEMA}; upgrade sciops")


def finest_first(path: Any, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
    """Group name → grid shape in the order of the points. Raises ValueError when there is no group."""
    if not shapes:
        raise ValueError(f"{path}: a native file without a group such as /r85; generate it again")
    return dict(sorted(shapes.items(), key=lambda item: (-math.prod(item[1]), item[0])))
