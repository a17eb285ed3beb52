"""What is stored in a file and is not an array of numbers: what it is, and how to save it as one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sciops.files.messages import shown

_TEXT, _RECORDS = "a text", "a table of records (save each of its columns as an array)"
HDF5_OTHERS = {"O": "texts or references", "S": _TEXT, "V": _RECORDS}
_PLAIN_OTHERS = {"S": _TEXT, "U": _TEXT, "V": _RECORDS, "M": "dates (save numbers)", "m": "durations (save numbers)"}
MATLAB_OWN = ("#refs#", "#subsystem#")  # where MATLAB's HDF5 files keep what cells and objects hold
_MATLAB_HINTS = {
    "a cell array": "save each cell as an array of its own",
    "a structure": "save its fields as arrays: save('file.mat', '-struct', 'name')",
    "a sparse matrix": "save full(name)",
}


def matlab_words(what: str) -> str:
    """What a MATLAB variable is, and how to save it as numbers where that is known."""
    return f"{what} ({_MATLAB_HINTS[what]})" if what in _MATLAB_HINTS else what


def matlab_other(item: Any) -> str | None:
    """What a variable of a MATLAB v7.3 file is, where it is neither numbers nor a structure, whose fields are seen."""
    if "MATLAB_sparse" in item.attrs:
        return matlab_words("a sparse matrix")
    if item.attrs.get("MATLAB_empty", 0):
        return "an empty array"
    kind = item.attrs.get("MATLAB_class", b"")
    kind = kind.decode("ascii", "replace") if isinstance(kind, bytes) else str(kind)
    if kind in ("cell", "char"):
        return matlab_words("a cell array") if kind == "cell" else _TEXT
    if kind in ("", "struct", "double", "single", "logical") or kind.removeprefix("u").startswith("int"):
        return None
    return f"an object of class {shown(kind, 40)}"


def numbers_apart(found: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """(the arrays of numbers, what each of the others is)."""
    numbers = {name: one for name, one in found.items() if one.dtype.kind in "biufc"}
    kinds = {
        name: _PLAIN_OTHERS.get(one.dtype.kind, str(one.dtype)) for name, one in found.items() if name not in numbers
    }
    return numbers, kinds
