"""The study of program transforms fills, keeps, refuses and fails cells as it says."""

import json
from dataclasses import replace

import pytest

from studies import program_transforms as study
from studies.program_transforms import cells

TINY = study.Config(models=("mixer none", "effective_coefficient"), cells=("grad", "jvp", "deepcopy", "pickle"))


def test_a_small_run_leaves_its_table_and_reads_it_back(tmp_path, capsys, monkeypatch):
    config = replace(TINY, output=tmp_path)
    results = study.run(config)
    table = json.loads((tmp_path / "results.json").read_text())["table"]
    assert table["mixer none"]["grad"]["ok"] == 0.0 and table["effective_coefficient"]["pickle"]["ok"] == 0.0
    assert "no forward-mode derivatives" in table["effective_coefficient"]["jvp"]["refused"]
    assert "effective_coefficient, jvp" in capsys.readouterr().out
    assert (tmp_path / "figures" / "program_transforms.png").stat().st_size > 10_000
    monkeypatch.setitem(cells.CELLS, "grad", None)  # a cell that was measured is not measured again
    assert study.run(config)["table"] == results["table"]


def test_wrong_values_end_the_run_and_are_not_kept(tmp_path, monkeypatch):
    def wrong(subject, backend):
        raise cells.Wrong("relative error 1e+00")

    config = replace(TINY, models=("mixer none",), cells=("grad",), output=tmp_path)
    monkeypatch.setitem(cells.CELLS, "grad", wrong)
    with pytest.raises(RuntimeError, match="1 cells failed: mixer none, grad"):
        study.run(config)
    assert (tmp_path / "results.json").exists()
    monkeypatch.undo()
    assert study.run(config)["table"]["mixer none"]["grad"]["ok"] == 0.0


def test_refusals(tmp_path):
    for change, words in (
        ({"models": ("nothing",)}, "--models nothing"),
        ({"cells": ("hessian",)}, "--cells hessian"),
        ({"slow": ("nothing",)}, "--slow nothing"),
    ):
        with pytest.raises(ValueError, match=words):
            study.run(replace(TINY, output=tmp_path, **change))
