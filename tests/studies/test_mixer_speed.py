"""The mixer study compares equal layers and networks, and stops where they are not."""

import json
import warnings

import pytest
import torch

pytest.importorskip("neuralop")

from studies import mixer_speed as study  # noqa: E402
from studies.mixer_speed import (
    layer,  # noqa: E402
    network,  # noqa: E402
)


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def test_unequal_layers_are_not_timed():
    conv, mixer = layer.pair(3, 4, "cpu")
    x, g = torch.randn(2, 3, 9, 9, requires_grad=True), torch.randn(2, 3, 9, 9)
    assert layer.check("9²", conv, mixer, x, g) < 1e-6
    with torch.no_grad():
        mixer.parts[0].weight[1, 2, 0, 1, 2] += 1e-3
    with pytest.raises(RuntimeError, match="9², output: differs"):
        layer.check("9²", conv, mixer, x, g)
    with torch.no_grad():
        mixer.parts[0].weight[1, 2, 0, 1, 2] -= 1e-3
    with pytest.raises(RuntimeError, match="gradient of the weights"):
        layer.check("9²", conv, _Doubled(mixer), x, g)


class _Doubled(torch.nn.Module):
    """The same output and input gradient, twice the gradient of the weights."""

    def __init__(self, mixer):
        super().__init__()
        self.mixer = mixer

    def forward(self, x):
        values = {name: 2 * p - p.detach() for name, p in self.mixer.named_parameters()}
        return torch.func.functional_call(self.mixer, values, (x,))


def test_the_twin_has_their_parameters_and_their_gradients():
    torch.manual_seed(0)
    theirs = network.their_fno(4, 2, 3)
    twin = network.Twin(theirs)
    x, g = torch.randn(2, 1, 9, 10), torch.randn(2, 1, 9, 10)
    numbers = [sum(p.numel() * (2 if p.is_complex() else 1) for p in m.parameters()) for m in (theirs, twin)]
    assert numbers[0] == numbers[1]
    for model in (theirs, twin):
        (model(x) * g).sum().backward()
    torch.testing.assert_close(twin(x), theirs(x), rtol=0, atol=1e-6)
    norm = [torch.cat([p.grad.abs().square().flatten() for p in m.parameters()]).sum() for m in (theirs, twin)]
    torch.testing.assert_close(norm[0], norm[1], rtol=1e-4, atol=0)


def test_a_small_run_leaves_its_numbers(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(torch, "compile", lambda model: model)  # the compiler is met in tests/models
    generator = torch.Generator().manual_seed(0)
    data = tmp_path / "data"
    data.mkdir()
    noise = torch.randn(32, 16, 16, generator=generator)
    torch.save({"x": noise > 0, "y": 1 + 0.1 * noise}, data / "darcy_train_16.pt")
    torch.save({"x": noise[:4] > 0, "y": 1 + 0.1 * noise[:4]}, data / "darcy_test_16.pt")
    small = study.Config(
        cases=((1, 4, 3, 16),),
        memory=((1, 4, 3, 32),),
        processes=1,
        network=(4, 1, 3, 12, 2),
        crossing_points=(32,),
        crossing_modes=(4,),
        data=data,
        epochs=4,
        batch=4,
        rounds=2,
        threads=1,
        output=tmp_path / "run",
    )
    results = study.run(small)
    (layer,) = results["layers"]
    times = layer["seconds"]
    assert layer["both"]["median"] == pytest.approx(times["theirs"] / times["ours"])
    assert layer["difference"] < 1e-6 and results["float64"] < 1e-12 and results["step"]["difference"] < 1e-5
    assert max(results["epochs"]["last_loss"].values()) < 0.8
    by_name = {row["what"]: row for row in results["targets"]}
    row = by_name["spectral layer, 16²: forward + backward over ours"]
    assert row["value"] == layer["both"]["median"] and row["met"] == (row["value"] >= 1.5)
    saved = json.loads((tmp_path / "run" / "results.json").read_text())
    assert saved["step"]["ratio"] == results["step"]["ratio"]
    assert (tmp_path / "run" / "figures" / "mixer_speed.png").stat().st_size > 10_000
    assert "channels first" in capsys.readouterr().out
