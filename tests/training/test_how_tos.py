"""The how-tos on callbacks and on training further, run as they stand."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

HOW_TO = Path(__file__).parents[2] / "docs" / "how-to"


def ran(name: str) -> dict:
    """The names that the code of a page defines; all of its cells run one after the other."""
    names: dict = {}
    for code in re.findall(r"```\{code-cell\} ipython3\n(.*?)```", (HOW_TO / name).read_text(), re.DOTALL):
        exec(compile(code, name, "exec"), names)
    return names


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_early_stopping_on_a_metric_of_ones_own_and_printed_rates(capsys):
    run = ran("callbacks.md")["run"]
    said = capsys.readouterr().out
    values = [record["validation"] for record in run.history]
    assert run.best == min(values) == values[run.best_epoch - 1] and not run.complete
    assert run.epochs == run.best_epoch + 2 and run.stopped.startswith("a callback ended the training")
    assert re.findall(r"step +(\d+): rate 2.00e-02", said)[:3] == ["1", "9", "17"]


def test_a_coarse_model_is_trained_further_on_a_finer_grid():
    names = ran("fine-tune.md")
    assert names["fine"].start.source == "coarse" and names["fine"].start.left == ()
    assert names["after"] < names["before"]
