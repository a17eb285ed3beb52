"""Explains a wrong result: which variables of two runs differ, in how many values, and by how much."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from sciops.datasets.native.opening import open_store
from sciops.files.json_files import read_jsonl
from studies.crash_recovery.commands import timeless


def explain(reference: Path, found: Path, names: list[str]) -> list[dict[str, Any]]:
    """The variables in which files of one name differ between two folders, or files that one of them lacks.

    Parameters
    ----------
    reference, found : path
        Folders of the undisturbed run and of the resumed one.
    names : list of str
        Files in them: native files, safetensors, JSON, or any other, of which the bytes are compared.

    Returns
    -------
    list of dict
        {"file", "variable", ...} with "what" for a variable or file that one side lacks or that changed its shape or
        type; else with "values" (that differ in any bit), "of", and for numbers "absolute" (the greatest difference
        of finite values, None where there is none), for floating-point numbers also "ulps" (the greatest difference in
        units of the last place).
    """
    rows = []
    for name in names:
        try:
            a, b = variables(reference / name), variables(found / name)
        except (OSError, ValueError, KeyError) as error:
            rows.append({"file": name, "variable": "", "what": f"cannot be read: {' '.join(str(error).split())[:200]}"})
            continue
        said = {key: _compared(a.get(key), b.get(key)) for key in sorted(a.keys() | b.keys())}
        of_file = [{"file": name, "variable": key, **row} for key, row in said.items() if row]
        rows += of_file or [{"file": name, "variable": "", "what": "holds the same values in another arrangement"}]
    return rows


def described(row: Mapping[str, Any]) -> str:
    """A row of `explain` in words."""
    name = " ".join(filter(None, (row["file"], row["variable"])))
    if "what" in row:
        return f"{name} {row['what']}"
    much = f", by at most {row['absolute']:.3g}" if row.get("absolute") is not None else ""
    last = f" ({row['ulps']} units in the last place)" if "ulps" in row else ""
    return f"{name} differs in {row['values']} of {row['of']} values{much}{last}"


def variables(path: Path) -> dict[str, np.ndarray]:
    """Name → values of what a file holds; of JSON, all values below one path of keys, whatever their place in lists."""
    if not path.exists():
        return {}
    if path.suffix in (".h5", ".zarr"):
        with contextlib.closing(open_store(path)) as store:
            names = [f"{g}/{n}" for g in store.groups() for n in store.arrays(g, strict=True)[1]]
            return {name: np.asarray(store.read(name, ...)) for name in names}
    if path.suffix == ".safetensors":
        from safetensors.numpy import load_file

        return load_file(path)
    if path.suffix in (".json", ".jsonl"):
        found: dict[str, list[Any]] = {}
        _collect(timeless(read_jsonl(path) if path.suffix == ".jsonl" else json.loads(path.read_text())), "", found)
        return {key: _array(values) for key, values in found.items()}
    return {"bytes": np.frombuffer(path.read_bytes(), np.uint8)}


def _collect(value: Any, key: str, found: dict[str, list[Any]]) -> None:
    if isinstance(value, dict):
        for name, part in value.items():
            _collect(part, f"{key}/{name}" if key else str(name), found)
    elif isinstance(value, list):
        for part in value:
            _collect(part, key, found)
    else:
        found.setdefault(key, []).append(value)


def _array(values: list[Any]) -> np.ndarray:
    """Numbers as float64, anything else as text."""
    numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
    return np.array(values, dtype=np.float64) if numbers else np.array([json.dumps(value) for value in values])


def _compared(a: np.ndarray | None, b: np.ndarray | None) -> dict[str, Any] | None:
    """What `explain` says of a variable, None where it is the same to the bit."""
    if a is None or b is None:
        return {"what": "is missing" if b is None else "is new"}
    text = a.dtype.kind == b.dtype.kind == "U"  # of another length where the longest text is another
    if a.shape != b.shape or (a.dtype != b.dtype and not text):
        return {"what": f"was {a.dtype} {a.shape}, is {b.dtype} {b.shape}"}
    if a.dtype.kind != "f":
        different = np.asarray(a != b)
    else:
        kind = f"u{a.dtype.itemsize}"
        first, second = (np.ascontiguousarray(x).view(kind).reshape(x.shape) for x in (a, b))
        different = first != second
    count = int(different.sum())
    if not count:
        return None
    row: dict[str, Any] = {"values": count, "of": a.size}
    if a.dtype.kind in "fiub":
        gaps = np.abs(a[different].astype(np.float64) - b[different].astype(np.float64))
        finite = gaps[np.isfinite(gaps)]
        row["absolute"] = float(finite.max()) if finite.size else None
    if a.dtype.kind == "f":
        # the bits of floating-point numbers, with the sign folded, are in the order of the numbers
        sign = np.array(1 << (8 * a.dtype.itemsize - 1), kind)
        one, other = (np.where(bits & sign, ~bits, bits | sign)[different] for bits in (first, second))
        row["ulps"] = int((np.maximum(one, other) - np.minimum(one, other)).max())
    return row
