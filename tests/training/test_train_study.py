"""The training study on real fields: what it prints is what the saved model does, and it goes on where it stopped."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from sciops.datasets import load_splits
from sciops.mixers import SpectralMixer
from sciops.models import load_model
from sciops.training import evaluate
from studies.train import PRESETS, _option, run


def small(real_data, folder, **changes):
    base = replace(
        PRESETS["real16"],
        data=real_data,
        train_samples=48,
        validation_samples=16,
        epochs=2,
        width=8,
        depth=2,
        modes=3,
        folder=folder,
        progress=False,
    )
    return replace(base, **changes)


def test_results_are_those_of_the_saved_model_and_the_same_command_changes_nothing(real_data, tmp_path, capsys):
    config = small(real_data, tmp_path / "run")
    results = run(config)
    printed = capsys.readouterr().out
    stored = json.loads((tmp_path / "run" / "results.json").read_text())
    model = load_model(tmp_path / "run" / "model")
    for points in (16, 32):
        errors = evaluate(model, load_splits(real_data, points).test)["relative_l2"]
        row = stored["test"][f"{points}×{points}"]["model"]
        np.testing.assert_allclose(row["relative_l2_of_samples"], errors, rtol=1e-6)
        assert f"{errors.mean():.4f} ±" in printed
    history = [json.loads(line) for line in (tmp_path / "run" / "log.jsonl").read_text().splitlines()]
    assert [record["epoch"] for record in history] == [1, 2]
    assert min(record["validation"] for record in history) == stored["validation"]
    for name in ("config.json", "environment.json", "citations.bib", "figures/learning_curve.png"):
        assert (tmp_path / "run" / name).stat().st_size > 0
    again = run(config)
    assert again["seconds"] == results["seconds"]
    assert again["test"]["16×16"]["model"]["relative_l2"] == results["test"]["16×16"]["model"]["relative_l2"]


def test_a_folder_of_another_run_keeps_its_description(real_data, tmp_path):
    run(small(real_data, tmp_path / "run", epochs=1))
    before = (tmp_path / "run" / "config.json").read_bytes()
    with pytest.raises(ValueError, match="trained with weight_decay=0.001, this config has 0.1"):
        run(small(real_data, tmp_path / "run", epochs=1, weight_decay=0.1))
    assert (tmp_path / "run" / "config.json").read_bytes() == before


def test_two_grids_train_together_and_each_is_tested(real_data, tmp_path):
    # the 32-grid file holds test fields alone: strided from it, 16 and 11 points nest
    config = small(real_data / "darcy_test_32.pt", tmp_path / "run", resolution=(16, 32), test_resolutions=(), epochs=1)
    results = run(replace(config, train_samples=None, validation_samples=None, symmetrize=False))
    assert set(results["test"]) == {"16×16", "32×32"}
    record = json.loads((tmp_path / "run" / "log.jsonl").read_text())
    assert set(record["validation_by_grid"]) == {"16x16", "32x32"}


def test_modes_are_what_the_coarsest_training_grid_holds_and_it_says_so(real_data, tmp_path, capsys):
    config = small(real_data / "darcy_test_32.pt", tmp_path / "run", resolution=(32, 16), test_resolutions=(), epochs=1)
    run(replace(config, train_samples=None, validation_samples=None, symmetrize=False, modes=12))
    model = load_model(tmp_path / "run" / "model")
    assert {part.modes for part in model.modules() if isinstance(part, SpectralMixer)} == {(8, 8)}
    assert "modes: 8×8" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("local=true", ("local", True)),
        ("window=4", ("window", 4)),
        ("basis=sine", ("basis", "sine")),
        ("modes=[3, 4]", ("modes", [3, 4])),
        ("a=b=c", ("a", "b=c")),
    ],
)
def test_options_are_json_where_they_can_be(text, expected):
    assert _option(text) == expected


def test_bad_requests_are_one_line(real_data, tmp_path):
    with pytest.raises(ValueError, match="expected name=value"):
        _option("local")
    with pytest.raises(ValueError, match="pass --data FILE"):
        run(replace(PRESETS["quick"], folder=tmp_path))
    with pytest.raises(TypeError, match="unknown option 'bases'"):
        run(small(real_data, tmp_path / "x", options=("bases=sine",)))
