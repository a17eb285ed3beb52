"""Processes that studies start begin with torch and sciops imported already."""

from __future__ import annotations

import multiprocessing
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import warm

from studies.kit import study

_FRESH = {"test_peak_memory.py", "test_scale_out.py"}  # the measured memory itself, and workers of dask
_FORKED = {"spawn": "forkserver"}


@pytest.fixture(scope="module", autouse=True)
def _answers_are_sentences() -> Iterator[None]:
    """What a study says it found, in every test that runs it, is empty or one line in the form of a sentence."""
    write = study.write_json

    def written(path: Any, record: dict[str, Any]) -> Any:
        answer = record["answer"]
        assert not answer or (answer[-1] == "." and answer[0] == answer[0].upper() and "\n" not in answer), answer
        return write(path, record)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(study, "write_json", written)
        yield


@pytest.fixture(scope="module", autouse=True)
def _forked_processes(request: pytest.FixtureRequest) -> Iterator[None]:
    """``python -m studies.…`` and pools of spawned processes are forked from the server of `warm`."""
    real, contexts = subprocess.run, multiprocessing.get_context

    def run(command: Any, **options: Any) -> subprocess.CompletedProcess:
        if command[:2] == [sys.executable, "-m"] and command[2].startswith("studies."):
            return warm.python(command[1:], timeout=200, env=options.get("env"))
        return real(command, **options)

    with pytest.MonkeyPatch.context() as patch:
        if request.path.name not in _FRESH:
            patch.setattr(subprocess, "run", run)
            patch.setattr(multiprocessing, "get_context", lambda kind=None: contexts(_FORKED.get(kind, kind)))
        yield
