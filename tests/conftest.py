"""Shared fixtures: the real public files where present, one thread per test process, a GPU where there is one."""

from __future__ import annotations

import gc
import importlib.util
import inspect
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("MPLBACKEND", "Agg")
# Before numpy is imported in the workers that this process begins, and here unless a plugin has imported it. Threads of
# OpenBLAS that wait for each other keep all cores busy: two of them on two busy cores take fifty times the processor's
# time of one for a small SVD.
os.environ.setdefault("SCIOPS_TEST_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", os.environ["SCIOPS_TEST_THREADS"])
os.environ.setdefault("OPENBLAS_NUM_THREADS", os.environ["SCIOPS_TEST_THREADS"])

import numpy as np
import pytest
import torch

from sciops import plotting

torch.set_num_threads(int(os.environ["SCIOPS_TEST_THREADS"]))


_EXACT = {"array_equal", "assert_array_equal", "equal", "assert_equal", "identical", "assert_identical", "equals"}
_EXACT |= {"all", "sha256", "hexdigest", "content_hash", "tobytes", "read_bytes"}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--exact", action="store_true", help="only the tests that compare numbers or bytes exactly")
    parser.addoption(
        "--row-dependent", action="store_true", help="with products whose last bit depends on the number of rows"
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--row-dependent"):
        import row_dependent

        products = row_dependent.products()
        products.__enter__()
        config.add_cleanup(lambda: products.__exit__(None, None, None))


def pytest_sessionstart(session: pytest.Session) -> None:
    if "PYTEST_XDIST_WORKER" in os.environ:
        import warm

        gc.disable()  # until everything is imported, which stays
        warm.start()  # before threads and tests: a run of all files imports these modules in any case


def pytest_collection_finish(session: pytest.Session) -> None:
    gc.freeze()
    gc.enable()
    if len(session.items) > 1000:
        _compile_half_of_the_darcy_solver(os.environ.get("PYTEST_XDIST_WORKER"))


def _compile_half_of_the_darcy_solver(worker: str | None) -> None:
    """The first worker compiles the solver, the second its form that smooths lines, for all processes of this run.

    Each is eight seconds where numba's cache on disk does not hold it yet.
    """
    if worker in ("gw0", "gw1") and importlib.util.find_spec("numba"):
        from sciops.pde import darcy

        a = np.ones((2, 12, 12))
        if worker == "gw1":
            a[0, :6], a[1, 6:] = 1e3, 1e3
        darcy.solve(a, tensor=True, backend="numba")


def _compares_exactly(function: Any) -> bool:
    """Whether the test, or a helper of its module that it calls, names one of the exact comparisons."""
    seen, waiting = set(), [function.__code__]
    while waiting:
        code = waiting.pop()
        seen.add(code)
        if _EXACT & set(code.co_names):
            return True
        inner = [c for c in code.co_consts if isinstance(c, type(code))]
        called = (inspect.unwrap(function.__globals__.get(name)) for name in code.co_names)
        waiting += {*inner, *(f.__code__ for f in called if inspect.isfunction(f))} - seen
    return False


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--exact"):
        others = [item for item in items if not _compares_exactly(inspect.unwrap(item.function))]
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if item not in others]
    # files with slow tests first, then the folders of long ones, so that no worker ends alone with one of them
    slow = {item.path for item in items if "slow" in item.keywords}
    items.sort(key=lambda item: (item.path not in slow, item.path.parent.name not in ("studies", "training")))
    if torch.cuda.is_available():
        return
    for item in items:
        if "gpu" in item.keywords:
            item.add_marker(pytest.mark.skip(reason="no CUDA device"))


@pytest.fixture(scope="module", autouse=True)
def _figures_drawn_once(request: pytest.FixtureRequest) -> Iterator[None]:
    """Not again for their layout and their margins: tests other than those of plotting see that they are there."""
    with pytest.MonkeyPatch.context() as patch:
        if request.path.name != "test_plotting.py":
            patch.setitem(plotting.STYLE, "savefig.bbox", None)
            patch.setitem(plotting.STYLE, "figure.constrained_layout.use", False)
            patch.setitem(plotting.STYLE, "axes.titley", 1.0)  # where titles stand is not looked for either
        yield


@pytest.fixture(scope="session")
def real_data() -> Path:
    """Folder with neuraloperator's Darcy files: $SCIOPS_DATA, or ../shared/data beside the checkout."""
    folder = Path(os.environ.get("SCIOPS_DATA", Path(__file__).parents[1] / ".." / "shared" / "data"))
    if not (folder / "darcy_train_16.pt").exists():
        pytest.skip("the public Darcy files are not here; set SCIOPS_DATA to their folder")
    return folder.resolve()
