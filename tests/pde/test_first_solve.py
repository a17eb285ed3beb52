"""What a first solve says and compiles."""

from __future__ import annotations

import importlib
import os
from pathlib import Path

import numpy as np
import pytest

numba = pytest.importorskip("numba")
announcement = importlib.import_module("sciops.pde.announcement")
SAID = "compiling the solver …\n"


def functions():
    """Two functions of numba's, as large as nothing."""
    return numba.njit(lambda x: x + 1), numba.njit(lambda x: x - 1)


def test_a_compilation_is_announced_once_and_a_loaded_function_not_at_all(capsys):
    first, second = functions()
    with announcement.announced({first, second}, "the solver"):
        assert first(1) + second(2) == 3
    assert capsys.readouterr().err == SAID
    with announcement.announced({first, second}, "the solver"):
        first(1)
    assert capsys.readouterr().err == ""


def test_functions_of_others_are_not_announced(capsys):
    first, second = functions()
    with announcement.announced({first}, "the solver"):
        second(2)
    assert capsys.readouterr().err == ""


def test_what_numba_kept_on_disk_is_not_announced(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    for expected in (SAID, ""):
        kept = numba.njit(cache=True)(_kept)
        with announcement.announced({kept}, "the solver"):
            assert kept(np.float64(2.0)) == 4.0
        assert capsys.readouterr().err == expected


def _kept(x):
    return x * x


def test_what_is_on_disk_from_older_sources_does_not_count(tmp_path, monkeypatch):
    kernels = importlib.import_module("sciops.pde.darcy.compiled.kernels")
    source, old, new = (tmp_path / name for name in ("a.py", "x", "y"))
    source.write_text("")
    monkeypatch.setattr(kernels, "sources", lambda: [source])
    name = Path(kernels.kernel("samples")._cache._impl.filename_base + ".nbi").name  # as numba calls it

    class Last:
        def __init__(self, folder):
            self.stats = type("Stats", (), {"cache_path": str(folder)})

    for folder, kept in ((old, False), (new, True)):
        folder.mkdir()
        index = folder / name
        index.write_text("")
        if not kept:
            os.utime(index, (1, 1))
        monkeypatch.setattr(kernels, "kernel", lambda _, folder=folder: Last(folder))
        assert kernels.kept_on_disk() is kept
    monkeypatch.setattr(kernels, "kernel", lambda _: Last(tmp_path / "none"))
    assert not kernels.kept_on_disk()


def test_a_dry_run_compiles_nothing_and_says_whose_time_it_tells(tmp_path, monkeypatch, capsys):
    from dataclasses import replace

    from data_gen import darcy

    kernels = importlib.import_module("sciops.pde.darcy.compiled.kernels")
    monkeypatch.setattr(kernels, "kept_on_disk", lambda: False)
    monkeypatch.setattr("sciops.pde.darcy.engines.ENGINES", _without_numba())
    config = replace(darcy.PRESETS["quick"], resolutions=(9,), samples=8, output=tmp_path / "x.h5", dry_run=True)
    darcy.run(config)
    said = capsys.readouterr().out
    assert "8 samples" in said and "by the torch form; the compiled solver, compiled once at the start" in said
    assert not (tmp_path / "x.h5").exists()


def _without_numba():
    from sciops.pde.darcy.engines import ENGINES

    def refused(*_):
        raise AssertionError("a dry run would have compiled the solver")

    return ENGINES | {"numba": refused}


def test_a_compiler_that_is_switched_off_is_named(monkeypatch):
    kernels = importlib.import_module("sciops.pde.darcy.compiled.kernels")
    monkeypatch.setattr(numba.config, "DISABLE_JIT", 1)
    with pytest.raises(RuntimeError, match="unset NUMBA_DISABLE_JIT, or pass backend='torch'"):
        kernels.kernel.__wrapped__("relax")


def test_a_workspace_holds_every_array_whose_address_it_passes_on():
    """Also where the memory is not kept for the next call, and where another workspace has taken its place."""
    import gc

    batch = importlib.import_module("sciops.pde.darcy.compiled.batch")
    from sciops.grids import Grid
    from sciops.pde.darcy import five_point

    axes = five_point.axes_of(Grid((12, 14)), five_point.DIRICHLET)
    way = importlib.import_module("sciops.pde.darcy.multigrid").Way
    workspaces = [batch._Workspace(axes, one) for one in (way(), way(transposed=True))]
    gc.collect()
    for workspace in workspaces:
        work, _, shapes, start, _ = workspace.levels
        passed = {workspace.called[0], work, shapes, start, *workspace.places}
        assert passed == {batch.place(array) for array in workspace.arrays}
