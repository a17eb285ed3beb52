"""`sciops train --from RUN`: the architecture and the weights of another run, on other fields."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace

import numpy as np
import pytest

from sciops import Grid, cli, load_model
from sciops.datasets import build_dataset, write_native
from sciops.training import evaluate
from studies import train
from studies.train import PRESETS, run


def field_file(folder, points: int, inputs: int = 1):
    """u the sum over a shrinking neighbourhood of the inputs, on a grid of the unit box."""
    random, grid = np.random.default_rng(0), Grid((points, points))
    modes = random.standard_normal((16, inputs, 3, 3))
    x, y = (np.cos(np.pi * np.arange(3)[:, None] * t) for t in grid.coordinates())
    a = np.einsum("scij,ix,jy->scxy", modes, x, y)
    fields = {name: (("sample", "x", "y"), a[:, i], {}) for i, name in enumerate(("a", "b")[:inputs])}
    fields["u"] = (("sample", "x", "y"), np.tanh(a.sum(1)), {})
    return write_native(folder / f"{points}_{inputs}.h5", build_dataset(fields, grid, layout="native", equation="sums"))


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    """A run on 9², its files and its folder."""
    folder = tmp_path_factory.mktemp("first")
    options = dict(validation_samples=2, test_samples=4, batch_size=4, width=4, depth=1, modes=2, progress=False)
    config = replace(PRESETS["quick"], data=field_file(folder, 9), folder=folder / "run", epochs=2, **options)
    run(config)
    return config


def further(first, folder, **changes):
    base = dict(start_from=first.folder, validation_samples=2, test_samples=4, batch_size=4, progress=False, epochs=1)
    return replace(PRESETS["quick"], folder=folder / "further", **base | changes)


def test_a_run_on_another_grid_has_the_architecture_and_records_the_weights(first, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(train, "draw_all", lambda *_: None)
    source = shutil.copytree(first.folder, tmp_path / "source")
    config = further(first, tmp_path, data=field_file(tmp_path, 14), learning_rate=1e-12, start_from=source)
    results = run(config)
    said = capsys.readouterr().out
    assert f"from {source}: fno, width 4, depth 1, modes [2, 2], " in said
    stored = json.loads((config.folder / "config.json").read_text())
    last = json.loads((config.folder / "environment.json").read_text())
    assert stored["start_from"] == str(source) and len(stored["start_digest"]) == 64 and last["data"]
    test = train.load_parts(config, "steady", None, validation=2, test=4).test
    expected = evaluate(load_model(first.folder), test)["relative_l2"].mean()
    assert results["test"]["14×14"]["model"]["relative_l2"] == pytest.approx(expected, rel=1e-4)
    with pytest.raises(ValueError, match="holds other weights: sha256 .*, --start-digest is 0000"):
        run(replace(config, start_digest="0000", folder=tmp_path / "other"))
    shutil.rmtree(source)  # a resumed run does not need it
    again = run(replace(config, start_digest=stored["start_digest"]))
    assert again["seconds"] == results["seconds"]
    assert json.loads((config.folder / "config.json").read_text())["start_digest"] == stored["start_digest"]
    with pytest.raises(ValueError, match="trained with start_from='.*source', this config has '.*run'"):
        run(replace(config, start_from=first.folder))


def test_another_equation_has_a_first_layer_of_its_own(first, tmp_path, monkeypatch):
    monkeypatch.setattr(train, "draw_all", lambda *_: None)
    config = further(first, tmp_path, data=field_file(tmp_path, 9, inputs=2), inputs=("a", "b"))
    with pytest.warns(UserWarning, match=r"1 do not fit and start anew: lift.0.weight \(8, 3\) there, \(8, 4\) here"):
        run(config)


def test_every_training_leaves_a_picture_of_a_named_sample(first, monkeypatch):
    drawn = []
    monkeypatch.setattr("sciops.plotting.plot_prediction", lambda *fields, **how: drawn.append((fields, how)))
    assert (first.folder / "figures" / "prediction.png").stat().st_size > 0
    results = run(first)
    (a, truth, prediction, grid), how = drawn[0]
    sample = train.load_parts(first, "steady", None, validation=2, test=4).test.batch([0])
    np.testing.assert_array_equal(a, sample["x"])
    np.testing.assert_array_equal(truth, sample["y"])
    error = results["test"]["9×9"]["model"]["relative_l2_of_samples"][0]
    assert how["labels"] == [f"test sample 0, relative L2 {error:.3g}"] and grid.shape == (9, 9)
    assert float(np.linalg.norm(prediction - truth) / np.linalg.norm(truth)) == pytest.approx(error, rel=1e-5)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--width", "7"], "--width 7: --from .* takes the architecture of that run; leave --width out"),
        (["--options", "basis=sine"], "--options basis=sine: --from .* leave --options out"),
    ],
)
def test_options_of_the_architecture_are_refused(flags, message, first, tmp_path, capsys):
    _refused(
        ["--from", str(first.folder), "--data", str(first.data), "--folder", str(tmp_path), *flags], message, capsys
    )


def test_wrong_sources_are_refused_in_one_line_and_leave_no_run(first, tmp_path, capsys):
    _refused(
        ["--from", str(tmp_path / "no"), "--data", str(first.data)], "no: no run, model or checkpoint here", capsys
    )
    _refused(["--from", str(first.data), "--data", str(first.data)], "is damaged or no checkpoint", capsys)
    longer = ["--data", str(first.data), "--folder", str(first.folder), "--epochs", "9", "--no-progress"]
    flags = "--width 4 --depth 1 --modes 2 --batch-size 4 --validation-samples 2 --test-samples 4".split()
    _refused([*longer, *flags], "schedule='onecycle' .* start another run from this one: start_from=.*--from", capsys)


def _refused(arguments, message, capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(["train", *arguments])
    said = capsys.readouterr().err
    assert stop.value.code == 2 and said.startswith("error: ") and said.count("\n") == 1
    assert re.search(message, said), said
