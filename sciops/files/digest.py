"""One digest over all that a file gives back: names, dtypes, shapes and bytes of arrays, and the text beside them."""

from __future__ import annotations

import hashlib
import json
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sciops.files.json_files import plain
from sciops.files.messages import shown
from sciops.files.untrusted import read_json, refusing

# What reading an archive of arrays may raise: a changed bit in its own tables may ask for another version of the
# format, a password or the whole memory.
DAMAGED = (
    zipfile.BadZipFile,
    zlib.error,
    KeyError,
    TypeError,
    ValueError,
    EOFError,
    OSError,
    RuntimeError,
    MemoryError,
)
_KEY = "digest"  # where a record keeps its own


def digest_of(arrays: Mapping[str, Tensor | np.ndarray], about: Any = None) -> str:
    """SHA-256 of arrays and of what is said about them; it differs wherever anything that is read back differs.

    Each array counts by name, dtype, shape and its bytes in C order, in the order of the names; `about` as JSON with
    sorted keys, so that neither the order of a mapping nor white space matters.
    """
    digest = hashlib.sha256(canonical(about).encode())
    for name in sorted(arrays):
        kind, shape, content = _content(arrays[name])
        digest.update(canonical([name, kind, shape, len(content)]).encode())
        digest.update(content)
    return digest.hexdigest()


def canonical(value: Any) -> str:
    """The value as JSON on one line with sorted keys: equal values are equal text."""
    return json.dumps(plain(value), sort_keys=True, separators=(",", ":"), allow_nan=False)


def sealed(record: Mapping[str, Any], arrays: Mapping[str, Tensor | np.ndarray] | None = None) -> dict[str, Any]:
    """The record with one entry more, "digest", that covers all others and the arrays."""
    return {**record, _KEY: digest_of(arrays or {}, record)}


def is_sealed(record: Mapping[str, Any]) -> bool:
    """Whether the record has a digest at all; those written before there was one have none."""
    return _KEY in record


def is_whole(record: Mapping[str, Any], arrays: Mapping[str, Tensor | np.ndarray] | None = None) -> bool:
    """Whether a record and its arrays are what `sealed` saw; False for one without a digest."""
    return record.get(_KEY) == digest_of(arrays or {}, {key: value for key, value in record.items() if key != _KEY})


def read_sealed(path: str | Path) -> dict[str, Any]:
    """The record of a JSON file, without its digest; one from before there was a digest is taken as it is.

    Raises ValueError in one line where the file is not such a record or changed since it was written.
    """
    with refusing(f"{path} is damaged ({{error}}); delete it, and it is made again", ValueError):
        record = read_json(path)
    if not isinstance(record, dict):
        raise ValueError(f"{path} holds no JSON object; delete it, and it is made again")
    if is_sealed(record) and not is_whole(record):
        raise ValueError(f"{path} changed since it was written; delete it, and it is made again")
    return {key: value for key, value in record.items() if key != _KEY}


def first_difference(found: Any, saved: Any, at: str = "") -> str:
    """ "model.options.depth is 3 there, 2 was saved" of two values in JSON's kinds, or an empty string."""
    if isinstance(found, Mapping) and isinstance(saved, Mapping):
        for key in [*saved, *(key for key in found if key not in saved)]:
            name = f"{at}.{shown(str(key), 60)}" if at else shown(str(key), 60)
            if key not in saved:
                return f"{name} is {_short(canonical(found[key]))} there and was not saved"
            if key not in found:
                return f"{name} is gone, {_short(canonical(saved[key]))} was saved"
            if difference := first_difference(found[key], saved[key], name):
                return difference
        return ""
    there, before = canonical(found), canonical(saved)  # 1, 1.0 and true are equal to Python
    return "" if there == before else f"{at} is {_short(there)} there, {_short(before)} was saved"


def _short(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."


def _content(array: Tensor | np.ndarray) -> tuple[str, list[int], memoryview]:
    if isinstance(array, Tensor):
        kind, flat = str(array.dtype).removeprefix("torch."), array.detach().cpu().contiguous().reshape(-1)
        content = flat.view(torch.uint8).numpy() if flat.numel() else np.zeros(0, np.uint8)
    else:
        kind = array.dtype.str  # with the order of bytes
        content = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return kind, list(array.shape), content.data
