"""sciops: neural operators and PDE surrogates on grids.

Names load on first use, so that ``import sciops`` costs little more than ``import torch``.
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

_ROOMS = (
    "grids",
    "resampling",
    "random_fields",
    "metrics",
    "symmetry",
    "datasets",
    "pde",
    "mixers",
    "models",
    "training",
    "spectral",
    "lipschitz",
    "robustness",
    "evaluation",
    "runs",
    "plotting",
)
_NAMES = {
    "Grid": "grids",
    "Budget": "_budget",
    "restrict": "grids",
    "Symmetry": "symmetry",
    "resample": "resampling",
    "open_dataset": "datasets",
    "validate": "datasets",
    "convert": "datasets",
    "build_model": "models",
    "save_model": "models",
    "load_model": "models",
    "check_operator": "models",
    "export_onnx": "models",
}

__all__ = ["__version__", *_ROOMS, *_NAMES]


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        return getattr(importlib.import_module(f"sciops.{_NAMES[name]}"), name)
    if name in _ROOMS:
        return importlib.import_module(f"sciops.{name}")
    raise AttributeError(f"module 'sciops' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
