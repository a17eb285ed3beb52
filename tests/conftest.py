"""Shared fixtures: the real public files where present, one thread per test process, a GPU where there is one."""

from __future__ import annotations

import os
from pathlib import Path

os.environ.setdefault("MPLBACKEND", "Agg")

import pytest
import torch

torch.set_num_threads(1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if torch.cuda.is_available():
        return
    for item in items:
        if "gpu" in item.keywords:
            item.add_marker(pytest.mark.skip(reason="no CUDA device"))


@pytest.fixture(scope="session")
def real_data() -> Path:
    """Folder with neuraloperator's Darcy files: $SCIOPS_DATA, or ../shared/data beside the checkout."""
    folder = Path(os.environ.get("SCIOPS_DATA", Path(__file__).parents[1] / ".." / "shared" / "data"))
    if not (folder / "darcy_train_16.pt").exists():
        pytest.skip("the public Darcy files are not here; set SCIOPS_DATA to their folder")
    return folder.resolve()
