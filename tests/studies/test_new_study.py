"""The study in the docs is written into a folder of studies and run by its name, as a user would run it."""

import json
from pathlib import Path

import pytest

import studies
from sciops import cli

DOCS = Path(__file__).parents[2] / "docs/how-to/new-study.md"


def test_a_study_in_one_file_runs_and_reads_its_cells_back(tmp_path, monkeypatch, capsys):
    (tmp_path / "new_study.py").write_text(DOCS.read_text().split("```python\n")[1].split("```")[0])
    monkeypatch.setattr(studies, "__path__", [*studies.__path__, str(tmp_path)])
    output = tmp_path / "run"

    def run(*flags: str) -> tuple[str, dict, dict]:
        cli.main(["study", "new_study", "--seeds", "2", "--epochs", "1", "--output", str(output), *flags])
        written = {path.name: path.stat().st_mtime_ns for path in (output / "cells").iterdir()}
        return capsys.readouterr().out, json.loads((output / "results.json").read_text()), written

    said, results, cells = run()
    assert len(cells) == 4 and set(results["errors"]) == {"two modes", "six modes"} and "relative L2" in said
    assert (output / "figures/errors.png").stat().st_size > 1000
    assert run() == (said, results, cells)
    with pytest.raises(SystemExit) as stop:
        run("--arms", "nine")
    assert stop.value.code == 2
    assert "--arms nine: expected some of 'two modes', 'six modes'" in capsys.readouterr().err
