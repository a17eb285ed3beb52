"""sciops: neural operators and PDE surrogates on grids.

Names load on first use, so that ``import sciops`` costs little more than ``import torch``.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from sciops.version import __version__

_MODULES = (
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
    "uncertainty",
    "runs",
    "reports",
    "plotting",
    "zoo",
)
_NAMES = {
    "Grid": "grids",
    "Budget": "files.budget",
    "restrict": "grids",
    "Symmetry": "symmetry",
    "resample": "resampling",
    "open_dataset": "datasets",
    "validate": "datasets",
    "convert": "datasets",
    "load_public": "datasets",
    "build_model": "models",
    "save_model": "models",
    "load_model": "runs",
    "save_pretrained": "models.hub",
    "from_pretrained": "models.hub",
    "predict": "trained.prediction",
    "check_operator": "models",
    "export_onnx": "models",
}

__all__ = ["__version__", *_MODULES, *_NAMES]

if TYPE_CHECKING:  # for editors and type checkers, which do not run `__getattr__`
    from sciops import (
        datasets,
        evaluation,
        grids,
        lipschitz,
        metrics,
        mixers,
        models,
        pde,
        plotting,
        random_fields,
        reports,
        resampling,
        robustness,
        runs,
        spectral,
        symmetry,
        training,
        uncertainty,
        zoo,
    )
    from sciops.datasets import convert, load_public, open_dataset, validate
    from sciops.files.budget import Budget
    from sciops.grids import Grid, restrict
    from sciops.models import build_model, check_operator, export_onnx, save_model
    from sciops.models.hub import from_pretrained, save_pretrained
    from sciops.resampling import resample
    from sciops.runs import load_model
    from sciops.symmetry import Symmetry
    from sciops.trained.prediction import predict


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        return getattr(importlib.import_module(f"sciops.{_NAMES[name]}"), name)
    if name in _MODULES:
        return importlib.import_module(f"sciops.{name}")
    raise AttributeError(f"module 'sciops' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
