"""What a fresh interpreter pays for sciops, for `studies.analysis_speed`."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np

from studies.kit.timing import interleaved, ratio

HEAVY = (
    "neuralop",
    "transformers",
    "matplotlib",
    "scipy",
    "h5py",
    "xarray",
    "numba",
    "dask",
    "zarr",
    "pooch",
    "tyro",
    "pandas",
)
ROOMS = "import sciops; [getattr(sciops, name) for name in sciops.__all__]"
_WORDS = {
    "import torch": ("-c", "import torch"),
    "import sciops": ("-c", "import sciops"),
    "every room of sciops": ("-c", ROOMS),
    "sciops --help": ("-m", "sciops", "--help"),
}


def loaded(code: str, names: tuple[str, ...] = HEAVY) -> list[str]:
    """Those of `names` that are in ``sys.modules`` after `code` in a fresh interpreter."""
    look = f"{code}\nimport sys\nprint(*(name for name in {names!r} if name in sys.modules))"
    return subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True).stdout.split()


def require_light() -> None:
    """RuntimeError where ``import sciops``, or naming all of its rooms, loads a package that is heavy."""
    for code in ("import sciops", ROOMS):
        heavy = loaded(code)
        if heavy:
            raise RuntimeError(f"{code.split(';')[0]} loads {', '.join(heavy)}; import them where they are used")


def measure(rounds: int) -> dict[str, Any]:
    """Seconds of whole processes, from their start to their end, in turns; ratios to ``import torch``."""
    require_light()
    calls = {
        name: lambda words=words: subprocess.run([sys.executable, *words], check=True, stdout=subprocess.DEVNULL)
        for name, words in _WORDS.items()
    }
    seconds = interleaved(calls, rounds=rounds)
    torch_alone = seconds["import torch"]
    return {
        "seconds": {name: float(np.median(values)) for name, values in seconds.items()},
        "all_seconds": seconds,
        "ratio": {name: ratio(values, torch_alone) for name, values in seconds.items()},
    }
