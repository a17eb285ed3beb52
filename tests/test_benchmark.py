"""sciops benchmark: cells that are kept, own metrics and figures, failures that are named, and its exit status."""

import csv
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import sciops
from sciops import cli
from sciops.commands import benchmark
from sciops.commands.benchmark import Config, run
from sciops.datasets import build_dataset, load_splits, write_native
from sciops.metrics import metric_of, relative_l2
from sciops.reports import read_run
from sciops.training import evaluate
from studies import train

NAME = __name__


def largest(prediction, target, grid):
    return (prediction - target).abs().flatten(1).amax(1) * grid.size


def a_number(prediction, target, grid):
    return (prediction - target).abs().mean()


def draw(rows, path):
    path.write_bytes(f"{len(rows)} rows".encode())


def broken(rows, path):
    raise KeyError("no such column")


@pytest.fixture(scope="module")
def fields(tmp_path_factory):
    """Two files of u = a² on 9² nodes."""
    folder, grid, where = tmp_path_factory.mktemp("fields"), sciops.Grid((9, 9)), ("sample", "x", "y")
    for seed, name in enumerate(("first", "second")):
        a = np.random.default_rng(seed).standard_normal((12, 9, 9))
        dataset = build_dataset({"a": (where, a), "u": (where, a**2)}, grid, layout="test", equation="square")
        write_native(folder / f"{name}.h5", dataset)
    return folder


@pytest.fixture
def undrawn(monkeypatch):
    monkeypatch.setattr(train, "draw_all", lambda *_: None)
    monkeypatch.setattr(benchmark, "draw_errors", lambda rows, path: path.write_bytes(b"") and path or path)


def _config(fields, tmp_path, **changes):
    how = {
        "train": ("epochs=1", "width=4", "depth=1", "modes=2", "batch_size=8", "test_samples=3"),
        "models": ("fno", "fno width=3"),
    }
    return Config(**({"data": (fields / "first.h5",), "output": tmp_path / "out", **how} | changes))


def test_cells_are_trained_once_and_scored_by_own_metrics(fields, tmp_path, undrawn, monkeypatch, capsys):
    trained = []
    monkeypatch.setattr(train, "run", lambda config, run=train.run: trained.append(config.model) or run(config))
    config = _config(
        fields, tmp_path, metric=(f"{NAME}:largest",), figure=f"{NAME}:draw", models=("fno", "neuralop:Nope")
    )
    rows = run(config)
    said = capsys.readouterr().out
    assert trained == ["fno", "neuralop:Nope"] and "failed: neuralop:Nope on first, seed 0: " in said
    stored = json.loads((tmp_path / "out" / "results.json").read_text())
    assert stored["rows"] == rows and stored["failed"][0]["cell"] == "neuralop:Nope on first, seed 0"
    model, test = sciops.load_model(rows[0]["run"]), load_splits(fields / "first.h5", test=3).test
    own = {"l2": relative_l2, "own": largest}
    errors = {name: values.mean() for name, values in evaluate(model, test, own).items()}
    assert rows[0]["relative_l2"] == pytest.approx(errors["l2"], rel=1e-5)
    assert rows[0][f"{NAME}:largest"] == pytest.approx(errors["own"], rel=1e-5)
    with open(tmp_path / "out" / "results.csv", newline="") as file:
        table = list(csv.DictReader(file))
    assert [row["model"] for row in table] == ["fno", "neuralop:Nope"] and float(table[0]["relative_l2"]) == rows[0][
        "relative_l2"
    ]
    assert (tmp_path / "out" / "figures" / "own.png").read_bytes() == b"2 rows"
    page = (tmp_path / "out" / "report.html").read_text()
    assert "1 of 2 cells failed." in page and "Nope" in page
    trained.clear()
    more = run(replace(config, models=("fno", "fno width=3")))
    assert trained == ["fno"] and more[0] == rows[0] and [row["model"] for row in more] == ["fno", "fno width=3"]
    assert read_run(more[1]["run"]).config["width"] == 3
    answer = read_run(tmp_path / "out").summary["answer"]
    assert answer.startswith("On first: ") and "no verdict: that takes 5 seeds of each, there is 1" in answer


def test_the_exit_status_is_1_only_where_every_cell_failed(fields, tmp_path, undrawn, capsys):
    words = ["benchmark", "--data", str(fields / "first.h5"), str(fields / "second.h5"), "--models", "neuralop:Nope"]
    with pytest.raises(
        SystemExit, match="every cell failed: neuralop:Nope on first, seed 0; neuralop:Nope on second, seed 0"
    ):
        cli.main([*words, "--output", str(tmp_path / "out")])
    assert len(json.loads((tmp_path / "out" / "results.json").read_text())["failed"]) == 2
    assert "2 of 2 cells failed" in (tmp_path / "out" / "report.html").read_text()


def test_a_figure_that_fails_leaves_what_was_trained(fields, tmp_path, undrawn):
    with pytest.raises(RuntimeError, match="broken.*KeyError 'no such column'"):
        run(_config(fields, tmp_path, figure=f"{NAME}:broken", models=("fno",)))
    page = (tmp_path / "out" / "report.html").read_text()
    assert "Figure not shown: " in page and "own.png does not exist" in page
    assert len(json.loads((tmp_path / "out" / "results.json").read_text())["rows"]) == 1


def test_the_figure_has_a_row_a_model_and_a_panel_a_grid(tmp_path):
    row = {"grid": "9×9", "kind": "model", "relative_l2": 0.5}
    rows = [row | {"model": model, "data": data} for model in ("fno", "mano") for data in ("a", "b")]
    rows += [rows[0] | {"relative_l2": "inf"}, {"model": "fno", "data": "a", "seed": 1, "error": "failed"}]
    path = benchmark.draw_errors(rows, tmp_path / "figure.png")
    assert path.stat().st_size > 5000


@pytest.mark.parametrize(
    ("words", "part"),
    [
        ((), "expected at least one of each"),
        (("--data", "none.h5"), "none.h5: no such file or folder"),
        (("--data", "FILE", "--models"), "--models"),
        (("--data", "FILE", "FILE"), "is given twice"),
        (("--data", "FILE", "--models", "fno", "nope"), "model 'nope': expected one of operator"),
        (("--data", "FILE", "--models", "FILE"), "put beside each other by sciops compare"),
        (("--data", "FILE", "--seeds", "0"), "--seeds 0: expected at least 1"),
        (("--data", "FILE", "--train-preset", "nope"), "expected one of quick, real16"),
        (("--data", "FILE", "--train", "epochs"), "expected name=value, such as epochs=20"),
        (("--data", "FILE", "--train", "epoch=3"), "expected an option of sciops train"),
        (("--data", "FILE", "--train", "epochs=few"), "few"),
        (("--data", "FILE", "--train", "epochs=0"), "epochs=0"),
        (("--data", "FILE", "--train", "seed=3"), "seed is set by the benchmark itself"),
        (("--data", "FILE", "--metric", "l2"), "expected one of relative_l2"),
        (("--data", "FILE", "--metric", "no_such_module:f"), "PYTHONPATH"),
        (("--data", "FILE", "--metric", "math:nope"), "math has no function 'nope'"),
        (("--data", "FILE", "--figure", "draw"), "expected module:function"),
    ],
)
def test_wrong_options_are_refused_before_a_training(fields, tmp_path, monkeypatch, capsys, words, part):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stop:
        cli.main(["benchmark", *(str(fields / "first.h5") if word == "FILE" else word for word in words)])
    text = capsys.readouterr().err.strip()
    assert stop.value.code == 2 and text.startswith("error: ") and "\n" not in text and part in text, text
    assert not list(Path.cwd().iterdir())


def test_a_metric_gives_one_number_a_sample():
    import torch

    grid, u = sciops.Grid((5, 5)), torch.ones(3, 1, 5, 5)
    assert metric_of("relative_l2") is relative_l2
    assert metric_of(f"{NAME}:largest")(u, 0 * u, grid).tolist() == [25, 25, 25]
    with pytest.raises(ValueError, match=r"returned shape \(\): expected one number a sample, \(3,\)"):
        metric_of(f"{NAME}:a_number")(u, 0 * u, grid)
