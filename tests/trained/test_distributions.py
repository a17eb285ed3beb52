"""`sciops train --model quantized:fno`, `sciops.predict` and `sciops evaluate` of a model of a distribution."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

import sciops
from sciops import cli
from sciops.datasets import write_native
from sciops.trained.evaluation import evaluate_on
from sciops.uncertainty import law_of, nearest_error, weight_calibration


@pytest.fixture(scope="module")
def quantized_run(darcy_file, tmp_path_factory):
    from studies import train

    folder = tmp_path_factory.mktemp("runs") / "quantized"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(train, "draw_all", lambda *_: None)
        small = ["--epochs", "2", "--width", "8", "--depth", "1", "--modes", "4", "--batch-size", "4"]
        cli.main(
            ["train", "--data", str(darcy_file), "--output", str(folder), *small]
            + ["--model", "quantized:fno", "--options", "points=3"]
        )
    return folder


def test_a_run_predicts_its_mean_and_evaluate_prints_its_scores(quantized_run, darcy_file, capsys):
    cli.main(["evaluate", str(quantized_run), "--data", str(darcy_file), "--solutions", "0", "--batch-size", "3"])
    said = capsys.readouterr().out
    results = json.loads((quantized_run / "evaluation" / "darcy" / "results.json").read_text())
    own = results["distribution"]
    assert own["kind"] == "quantized" and own["points"] == 3 and results["model"].startswith("quantized:")
    with sciops.open_dataset(darcy_file) as data:
        part = data.isel(sample=slice(16, 20)).load()
    a, u = (part[name].values.astype(np.float32)[:, None] for name in ("a", "u"))
    law = law_of(sciops.load_model(quantized_run), a)
    guess = sciops.predict(quantized_run, part)["u"].values
    np.testing.assert_allclose(guess, law.mean[:, 0], rtol=1e-4, atol=1e-7)
    assert own["nearest"]["mean"] == pytest.approx(float(nearest_error(law, u).mean()), rel=1e-4)
    distance = nearest_error(law, u, relative=False)
    assert own["quantization"] == pytest.approx(float(distance.square().mean().sqrt()), rel=1e-4)
    winners = (
        (torch.from_numpy(u).double()[:, None] - law.points)
        .square()
        .mul(torch.from_numpy(law.grid.weights()))
        .sum((2, 3, 4))
        .argmin(1)
    )
    assert own["weights"]["log_loss"] == pytest.approx(weight_calibration(law.weights, winners).log_loss, rel=1e-4)
    for words in (
        "quantized, 3 points",
        "nearest point",
        "W2 by the nearest point",
        "stated weight",
        "spread over error",
    ):
        assert words in said, words
    assert ("energy score" in said) == ("energy_score" in own) and own.get("energy_score", own["nearest"])[
        "samples"
    ] == 4
    recorded = json.loads((quantized_run / "results.json").read_text())
    assert recorded["model"] == "quantized:fno" and (quantized_run / "citations.bib").exists() is not None


def test_inputs_that_repeat_are_compared_with_their_samples(quantized_run, darcy_file, tmp_path):
    pytest.importorskip("ot")
    with sciops.open_dataset(darcy_file) as data:
        twice = data.isel(sample=[0, 1, 0]).load()
    twice["u"].values[2] *= 1.1
    found = evaluate_on(quantized_run, write_native(tmp_path / "twice.h5", twice.drop_vars("split")), solutions=0)
    scores = found.distribution
    assert scores.wasserstein.shape == (1,) and scores.repeats == 2
    a = twice["a"].values.astype(np.float32)[:1, None]
    law = law_of(sciops.load_model(quantized_run), a)
    weights = torch.from_numpy(law.grid.weights())
    y = torch.from_numpy(twice["u"].values[[0, 2]]).double()
    d = (y[:, None] - law.points[0, :, 0].double()).square().mul(weights).sum((2, 3)).min(1).values
    assert scores.wasserstein[0] ** 2 >= float(d.mean()) * (1 - 1e-6)  # the nearest point is the least there is


def test_other_models_have_no_scores(darcy_run, darcy_file):
    assert evaluate_on(darcy_run, darcy_file, solutions=0).distribution is None
