"""Modules that studies start with `subprocess.run` begin in processes in which torch and sciops are imported already."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
import warm


@pytest.fixture(autouse=True)
def _forked_modules(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Elsewhere than in the test of the measured memory itself."""
    real = subprocess.run

    def run(command: Any, **options: Any) -> subprocess.CompletedProcess:
        if command[:2] == [sys.executable, "-m"] and command[2].startswith("studies."):
            return warm.python(command[1:], timeout=200, env=options.get("env"))
        return real(command, **options)

    if request.path.name != "test_peak_memory.py":
        monkeypatch.setattr(subprocess, "run", run)
