"""Runs side by side: seeds of one model belong together, verdicts are those of the calibrated rule, and only where the
data is the same."""

import json

import numpy as np
import pytest
from run_folders import BAD, training
from test_page import Reader
from test_report import _refused

from sciops import cli
from sciops.evaluation import paired_verdict
from sciops.reports import compare


def _errors(seeds, shift=0.0):
    rng = np.random.default_rng(0)
    return np.linspace(0.1, 0.2, 12) + 0.01 * rng.standard_normal((seeds, 12)) + shift


def _two(tmp_path, seeds, shift=0.05):
    runs = []
    for model, errors in (("fno", _errors(seeds)), ("mano", _errors(seeds, shift))):
        runs += [training(tmp_path / f"{model}{s}", errors[s], model=model, seed=s) for s in range(seeds)]
    return runs


def _table(comparison, title):
    return next(table for table in comparison.tables if table.title == title)


def test_five_seeds_give_the_verdict_of_the_calibrated_rule(tmp_path):
    found = compare(_two(tmp_path, 5))
    verdict = paired_verdict(_errors(5), _errors(5, 0.05))
    row = dict(zip(_table(found, "Verdicts").columns, _table(found, "Verdicts").rows[0]))
    assert verdict.winner == "first"
    assert row == {
        "test grid": "17×17",
        "first": "fno",
        "second": "mano",
        "first − second [95 %]": f"{verdict.difference:+.3g} [{verdict.low:+.3g}, {verdict.high:+.3g}]",
        "first better in": "100%",
        "verdict": "fno",
        "seeds": "5",
        "samples": "12",
    }
    assert [row[:2] for row in _table(found, "Errors over seeds").rows] == [("fno", "5"), ("mano", "5")]
    assert [row[0] for row in _table(found, "Options that differ").rows] == ["seed", "model"]
    assert "fno has the smallest relative L2 error at 17×17" in found.answer and "more than chance" in found.answer


def test_one_seed_gives_no_verdict_and_says_why(tmp_path):
    found = compare(_two(tmp_path, 1))
    assert "that takes 5 seeds of each, there is 1" in found.answer
    assert _table(found, "Verdicts").rows[0][5] == "too few seeds"


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"data": "other"}, "other data"),
        ({"test_samples": 3}, "other test fields (test_samples: –"),
        ({"errors": (0.1, 0.2)}, "other numbers of test samples"),
        ({"errors": (0.1, 0.2, np.inf)}, "an error is not finite"),
    ],
)
def test_errors_of_other_fields_are_not_compared(tmp_path, change, why):
    with np.errstate(invalid="ignore"):
        runs = [training(tmp_path / "a"), training(tmp_path / "b", **{"model": "mano", **change})]
    (row,) = _table(compare(runs), "Verdicts").rows
    assert row[5].startswith("not comparable: ") and why in row[5] and row[3] == "–"


def test_the_same_training_twice_counts_once(tmp_path):
    runs = [training(tmp_path / name, _errors(1)[0], model=model) for name, model in (("a", "fno"), ("b", "fno"))]
    found = compare([*runs, training(tmp_path / "c", _errors(1)[0] + 0.1, model="mano")])
    assert [row[-1] for row in _table(found, "Runs").rows] == ["finished", "repeats a", "finished"]
    assert [row[6] for row in _table(found, "Verdicts").rows] == ["1"]


def test_a_run_without_results_stands_beside_the_others(tmp_path):
    found = compare([training(tmp_path / "a"), training(tmp_path / "b", model="mano", finished=False)])
    assert [row[-1] for row in _table(found, "Runs").rows] == ["finished", "no results yet"]
    assert found.answer == "a alone has a test error at 17×17: 0.2."


def test_the_command_prints_and_writes_a_page(tmp_path, capsys):
    runs = [training(tmp_path / "x" / "run"), training(tmp_path / "y" / "run", model="mano", options=(BAD,))]
    cli.main(["compare", *map(str, runs), "--output", str(tmp_path / "page.html")])
    text = capsys.readouterr().out
    assert "Options that differ" in text and str(runs[0]) in text and "wrote" in text
    seen = Reader((tmp_path / "page.html").read_text())
    assert [tag for tag, _ in seen.tags].count("script") == 1 and BAD in seen.texts
    assert not [tag for tag, has in seen.tags if tag == "img"]


def test_what_cannot_be_compared_is_refused_in_one_line(tmp_path, capsys):
    run, study = training(tmp_path / "run"), training(tmp_path / "study")
    (study / "results.json").write_text(json.dumps({"rows": []}))
    assert "two or more runs, got 1" in _refused(capsys, "compare", str(run))
    assert "is given twice" in _refused(capsys, "compare", str(run), f"{run}/../run")
    assert "expected a run of sciops train" in _refused(capsys, "compare", str(run), str(study))
    assert "no such folder" in _refused(capsys, "compare", str(run), str(tmp_path / "none"))
