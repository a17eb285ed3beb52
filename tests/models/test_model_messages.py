"""What a model cannot take is refused in one line that says what to pass."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sciops import load_model, models, save_model
from sciops.datasets import Splits, TensorFields
from sciops.grids import Grid
from sciops.models import build_model, generate
from sciops.models.apply import apply_model
from sciops.training import TrainConfig, fit

GRID = Grid((8, 8))


def small(**options):
    torch.manual_seed(0)
    return build_model("fno", modes=2, width=8, depth=1, **options)


MODELS = {
    "fno": (small, (1, 1, 8, 8)),
    "classifier": (lambda: build_model("classifier", widths=(8,), depths=(1,)), (1, 1, 8, 8)),
    "recurrent": (lambda: build_model("recurrent", width=4), (1, 1, 5)),
    "orthogonal": (lambda: build_model("orthogonal", kind="dense", shape=(4,), width=4), (1, 1, 4)),
    "speech": (lambda: build_model("speech_encoder", out_channels=8, depth=1, bins=8), (1, 2000)),
}


@pytest.mark.parametrize("name", MODELS)
def test_arrays_and_other_precisions_name_the_remedy(name):
    make, shape = MODELS[name]
    model = make()
    for call in (model, lambda x: apply_model(model, x)):
        with pytest.raises(TypeError, match=r"x is numpy.ndarray; .* pass torch.from_numpy\(x\)"):
            call(np.zeros(shape, np.float32))
        with pytest.raises(TypeError, match=r"float64 and the model's weights are float32: pass x.to\(torch.float32\)"):
            call(torch.zeros(shape, dtype=torch.float64))
    model.double()(torch.zeros(shape, dtype=torch.float64))
    with torch.autocast("cpu", torch.bfloat16):
        make()(torch.zeros(shape, dtype=torch.bfloat16))


def test_apply_model_refuses_arrays_for_any_model():
    with pytest.raises(TypeError, match="torch.from_numpy"):
        apply_model(torch.nn.Linear(2, 2), np.zeros((1, 2)), None)
    with pytest.raises(TypeError, match="x is builtins.list"):
        apply_model(torch.nn.Linear(2, 2), [[0.0, 0.0]])
    with pytest.raises(TypeError, match="torch.from_numpy"):
        build_model("language", symbols=5, width=8, depth=1)(np.zeros((1, 3), int))


def test_files_of_a_model_are_their_folder_and_others_are_refused(tmp_path):
    folder = save_model(small(), tmp_path / "model")
    other = tmp_path / "fields.h5"
    other.write_bytes(b"")
    with pytest.raises(ValueError, match=r"fields.h5 is a file, expected the folder .* no model"):
        load_model(other)
    for name in ("config.json", "model.safetensors"):
        with pytest.raises(ValueError, match="pass its folder"):
            models.load_model(folder / name)
        assert torch.equal(load_model(folder / name).lift[0].weight, small().lift[0].weight)
    assert torch.equal(load_model(tmp_path).lift[0].weight, small().lift[0].weight)  # as a command's run holds it


def test_a_run_is_its_best_model(tmp_path):
    def fields(seed):
        random = torch.Generator().manual_seed(seed)
        return TensorFields(*(torch.rand(4, 1, 8, 8, generator=random) for _ in "xy"), GRID)

    data = Splits(train=fields(0), validation=fields(1))
    run = fit(small(grid=GRID), data, TrainConfig(epochs=2, folder=str(tmp_path)))
    loaded, x = load_model(tmp_path), torch.rand(2, 1, 8, 8)
    assert not loaded.training
    assert torch.equal(loaded(x), run.model.eval()(x))


def test_the_smallest_temperatures_take_the_likeliest():
    torch.manual_seed(0)
    model, prompt = build_model("language", symbols=5, width=8, depth=1), torch.tensor([[1, 2]])
    likeliest = generate(model, prompt, tokens=4, temperature=0).tokens
    for temperature in (1e-30, 1e-40, 1e-310):
        assert torch.equal(generate(model, prompt, tokens=4, temperature=temperature).tokens, likeliest)
