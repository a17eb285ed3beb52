"""Files of tensors (safetensors) that others wrote, opened within the budget of a file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

from sciops.files.budget import OverBudget, Spending
from sciops.files.untrusted import check_regular, panics_as_errors, parse_json

_LONGEST_HEADER = 100_000_000  # bytes; the format's own bound
_OF_A_TENSOR = b'"data_offsets"'  # stands in the header once for each


class DamagedTensors(ValueError):
    """Not a whole safetensors file; the message says why, and the caller which file."""


@contextmanager
def opened_tensors(path: str | os.PathLike[str], *, framework: Literal["pt", "numpy"] = "pt") -> Iterator[Any]:
    """The open file, as ``safetensors.safe_open`` gives it, when its tensors are as few as the budget allows.

    The format holds every tensor uncompressed and at a place of its own, so that the tensors take as many bytes as the
    file has. They are counted in the header before the library parses it.

    Raises what `check_regular` raises and OverBudget, which name the file, and DamagedTensors.
    """
    from safetensors import SafetensorError, safe_open

    spent = Spending(check_regular(path))
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header = file.read(min(length, spent.size, _LONGEST_HEADER))
    spent.take(bytes=8 * len(header), objects=header.count(_OF_A_TENSOR), what="its header")
    try:
        count = len(parse_json(header, source=path)) - 1  # whatever its escapes
        spent.take(objects=max(0, count - spent.objects), what="its header")
    except OverBudget:
        raise
    except (ValueError, TypeError) as error:
        raise DamagedTensors(f"not a whole safetensors file, its header: {error}") from None
    del header
    try:
        with panics_as_errors(), safe_open(str(path), framework=framework) as file:
            yield file
            spent.take(what="reading it")
    except SafetensorError as error:
        raise DamagedTensors(f"not a whole safetensors file, {' '.join(str(error).split())[:200]}") from None
