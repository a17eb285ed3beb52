"""Opens files one after another, each within bounds, and says what came of it: ``python -m studies._fuzz_worker``.

A line on the standard input is a path, and the answer a line of JSON: {"outcome", "detail", "seconds", "megabytes"}.
"""

from __future__ import annotations

import json
import sys
import time
import traceback
from pathlib import Path

_EXPECTED = (ValueError, OSError, ImportError)
_LONGEST = 1500  # characters of a message


def main() -> None:
    import warnings

    import torch

    import sciops
    from sciops.datasets import samples  # noqa: F401  the parsers are loaded before the clock starts
    from sciops.datasets.readers import READERS, probe  # noqa: F401

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    answer = sys.stdout
    sys.stdout = sys.stderr
    print(json.dumps({"ready": sciops.__version__}), file=answer, flush=True)
    for line in sys.stdin:
        print(json.dumps(attempt(Path(line.rstrip("\n")))), file=answer, flush=True)


def attempt(path: Path) -> dict[str, object]:
    """Opens the file, reads a sample of every field, closes it; and what `sciops validate` says of it."""
    _forget_peak()
    before, started = _megabytes("VmRSS"), time.perf_counter()
    try:
        outcome, detail = "opened", _use(path)
    except _EXPECTED as error:
        text = str(error)
        sound = "\n" not in text and 0 < len(text) <= _LONGEST
        outcome, detail = ("refused", text) if sound else ("bad message", text[:_LONGEST])
    except MemoryError as error:
        outcome, detail = "memory", str(error)
    except BaseException as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        text = " ".join(str(error).split())[:200]
        outcome, detail = "crash", f"{type(error).__name__} at {Path(where.filename).name}:{where.lineno}: {text}"
    seconds = time.perf_counter() - started
    return {
        "outcome": outcome,
        "detail": detail,
        "seconds": round(seconds, 4),
        "megabytes": round(_megabytes("VmHWM") - before, 1),
    }


def _use(path: Path) -> str:
    import numpy as np

    from sciops.datasets import grid_of, open_dataset, validate

    with open_dataset(path) as dataset:
        layout = str(dataset.attrs["layout"])
        grid_of(dataset)
        for variable in dataset.variables.values():
            first = variable.isel(sample=slice(0, 1)) if "sample" in variable.dims else variable
            np.asarray(first.values)
    validate(path, solutions=0)
    return layout


def _forget_peak() -> None:
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        pass


def _megabytes(name: str) -> float:
    try:
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith(name + ":"):
                return int(line.split()[1]) / 1024
    except OSError:
        pass
    return 0.0


if __name__ == "__main__":
    main()
