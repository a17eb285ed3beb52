"""JSON of whatever a run is described by, and files that appear only when whole."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import date, datetime
from enum import Enum
from pathlib import Path, PurePath
from typing import Any

import numpy as np
import torch

from sciops.files.untrusted import parse_json, read_text
from sciops.files.whole_files import open_here, replacing


def plain(value: Any) -> Any:
    """`value` in JSON's own kinds: dict, list, str, int, float, bool, None.

    Dataclasses become dicts of their fields, numpy and torch scalars numbers, arrays nested lists, sets sorted lists,
    paths, dates and dtypes text, objects with ``to_dict`` what that returns. JSON has no NaN or infinity: they become
    the strings "nan", "inf" and "-inf", which ``float`` reads back.

    Raises TypeError, naming the type, for anything else.
    """
    if value is None or isinstance(value, (bool, str)):
        return str(value.value) if isinstance(value, Enum) else value
    if isinstance(value, Enum):
        return plain(value.value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(float(value))
    if is_dataclass(value) and not isinstance(value, type):
        if hasattr(value, "to_dict"):
            return plain(value.to_dict())
        return {f.name: plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, (set, frozenset)):
        return sorted((plain(item) for item in value), key=str)
    if isinstance(value, torch.Tensor):
        return plain(value.detach().cpu().tolist())
    if isinstance(value, (np.ndarray, np.generic)):
        return plain(value.tolist())
    if isinstance(value, (PurePath, date, datetime, torch.dtype, torch.device, np.dtype)):
        return str(value)
    if hasattr(value, "to_dict"):
        return plain(value.to_dict())
    raise TypeError(f"{type(value).__name__} has no JSON form; pass numbers, text, lists, dicts or dataclasses")


def write_json(path: str | Path, value: Any) -> Path:
    """Writes `value` to `path` as indented JSON, atomically; returns the path."""
    return write_atomically(path, (json.dumps(plain(value), indent=2, allow_nan=False) + "\n").encode())


def write_atomically(path: str | Path, content: bytes) -> Path:
    """Writes a file that holds either its old or its new content whatever happens: new file, fsync, replace."""
    with replacing(path) as temporary:
        temporary.write_bytes(content)
    return Path(path)


def append_jsonl(path: str | Path, value: Any) -> None:
    """Adds one line to a JSON-lines file in a single write, so that a reader sees whole lines.

    Raises OSError in one line where the path is a link or cannot be written.
    """
    line = (json.dumps(plain(value), allow_nan=False) + "\n").encode()
    with open(path, "ab", buffering=0, opener=open_here) as file:
        file.write(line)


def read_jsonl(path: str | Path) -> list[dict[str, Any]]:
    """The records of a JSON-lines file; a last line that a killed process left unfinished is dropped."""
    lines = read_text(path).split("\n")
    records = [parse_json(line) for line in lines[:-1] if line]
    if lines[-1]:
        try:
            records.append(parse_json(lines[-1]))
        except json.JSONDecodeError:
            pass
    return records
