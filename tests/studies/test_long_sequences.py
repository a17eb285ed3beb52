"""The study of long sequences checks what it times, keeps its records, and tells near from far."""

import json
import math

import pytest
import torch

from sciops.mixers import StateSpaceMixer
from studies import long_sequences as study
from studies.kit.live_bytes import LiveBytes
from studies.kit.timing import exponent
from studies.long_sequences import burgers, layers, needle, stacks


def config(tmp_path, **options):
    small = dict(
        channels=8,
        state=4,
        lengths=(32, 64, 128),
        memory_lengths=(32, 64),
        fused_to=64,
        written_bytes=64 * 32**2,
        rounds=1,
        needle_arms=("state space", "attention, sinusoidal"),
        needle_train=12,
        needle_tests=(30,),
        needle_samples=40,
        needle_steps=3,
        needle_width=8,
        stack_lengths=(256, 512, 1024),
        stack_fused_to=512,
        stack_arms=stacks.ARMS,
        stack_sparse_to=512,
        stack_scores_to=256,
        burgers_arms=("state space", "FNO"),
        burgers_refinements=(1, 2),
        burgers_train=4,
        burgers_test=2,
        burgers_steps=2,
        burgers_batch=2,
        burgers_width=8,
        burgers_modes=4,
        seeds=2,
    )
    return study.Config(**small | dict(output=tmp_path) | options)


@pytest.fixture
def small_problem(monkeypatch):
    monkeypatch.setattr(burgers, "POINTS", 32)
    monkeypatch.setattr(burgers, "VISCOSITY", 0.1)
    monkeypatch.setattr(layers, "peak_memory", lambda function, name, mode, length, *rest: 1000 * length)
    monkeypatch.setattr(
        stacks, "_measured", lambda how: {"bytes": 100 * how[2] + how[2] ** 2 * (how[0] == stacks.SPARSE)}
    )


def test_a_small_run_leaves_its_numbers_and_reads_them_back(tmp_path, small_problem, monkeypatch, capsys):
    results = study.run(config(tmp_path))
    assert max(results["checks"].values()) < 1e-11
    found = results["summary"]
    by_name = {row["what"]: row for row in found["targets"]}
    assert by_name["exponent of memory, training, 32…64"]["value"] == pytest.approx(1.0)
    ratio = by_name["training memory over attention, written out, 32 tokens"]
    assert ratio["value"] == pytest.approx(1.0) and not ratio["met"]
    for row in results["times"]:
        assert (layers.FUSED in row["seconds"]) == (row["length"] <= 64)
        assert (layers.WRITTEN in row["seconds"]) == (row["length"] <= 32)
    lines = {(row["length"], row["mode"]): row for row in found["stacks"]}
    assert stacks.SPARSE not in lines[1024, stacks.FORWARD]["bytes"]  # whose windows come and go
    last = lines[1024, stacks.TRAINING]
    assert last["bytes"][stacks.FUSED] == pytest.approx(102_400) and last["bytes"][stacks.SPARSE] == pytest.approx(
        102_400 + 1024**2  # the law of both, continued from 256 and 512
    )
    assert last["extrapolated"] == [stacks.FUSED, stacks.SPARSE] and stacks.SCORES not in last["bytes"]
    assert stacks.FUSED not in {row["arm"] for row in results["stacks"] if row["length"] == 1024}
    far = found["needle"][0]["lengths"]["30"]
    both = [row["lengths"]["30"] for row in results["needle"] if row["arm"] == "state space"]
    assert far["far"][0] == pytest.approx(sum(row["far"] for row in both) / 2)
    state, blind, fno = found["burgers"]
    assert blind["arm"].endswith(burgers.BLIND) and blind["errors"]["32"] == state["errors"]["32"]
    assert blind["errors"]["64"] != state["errors"]["64"]
    assert abs(state["parameters"] / fno["parameters"] - 1) < 0.2
    for name in ("cost", "memory", "generalisation"):
        assert (tmp_path / "figures" / f"{name}.png").stat().st_size > 10_000
    said = capsys.readouterr().out
    assert "missed" in said and "50 % less memory" in said
    saved = json.loads((tmp_path / "results.json").read_text())

    def never(*args, **options):
        raise AssertionError("a finished part was made again")

    for module, name in ((layers, "_timed"), (stacks, "_measured"), (needle, "_trained"), (burgers, "_trained")):
        monkeypatch.setattr(module, name, never)
    monkeypatch.setattr(study, "draw", lambda *args: None)
    assert json.dumps(study.run(config(tmp_path))) == json.dumps(saved)


def test_a_wrong_layer_ends_the_run_before_it_is_timed(tmp_path, monkeypatch):
    monkeypatch.setattr(layers, "times", None)
    mix = StateSpaceMixer.mix
    monkeypatch.setattr(StateSpaceMixer, "mix", lambda self, *args: mix(self, *args) * (1 + 1e-9))
    with pytest.raises(RuntimeError, match="state space: differs from its reference"):
        study.run(config(tmp_path))


@pytest.mark.parametrize("name", stacks.ARMS)
def test_recomputed_stacks_have_the_gradients_of_plain_ones(name):
    plain, again, forward = (
        stacks.step(name, mode, 300, 8, 4, 2, 0)[0]() for mode in (stacks.TRAINING, stacks.RECOMPUTED, stacks.FORWARD)
    )
    assert forward.shape == (1, 300, 8)
    for one, other in zip(plain, again, strict=True):
        assert (one - other).norm() <= 1e-5 * one.norm()


def test_bytes_that_live_at_once():
    x = torch.ones(1000, requires_grad=True)
    with LiveBytes(x) as live:
        y = x * 2  # kept by the sine's derivative
        z = y.sin()
        assert live.now == 8000
        y = y[:10].view(2, 5)
        assert live.now == 8000
        del y, z
        assert live.now == 0
    with torch.no_grad(), LiveBytes(x) as live:
        for _ in range(5):
            z = x + 1
    assert live.peak == 8000 and live.now == 4000  # the last and the one it replaces
    del z


def test_sparse_attention_with_its_scores_is_sparse_attention():
    layers_of = [stacks.mixer(name, 300, 8, 4, False).double() for name in (stacks.SPARSE, stacks.SCORES)]
    layers_of[1].load_state_dict(layers_of[0].state_dict())
    x = torch.randn(2, 300, 8, dtype=torch.float64)
    assert (layers_of[0](x) - layers_of[1](x)).abs().max() < 1e-12


def test_slopes_and_crossings_are_those_of_the_powers():
    assert exponent([8, 16, 64], [8.0, 16.0 * 2, 64.0 * 8]) == pytest.approx(2.0)
    rows = [
        {"mode": "training", "length": n, "seconds": {layers.SSM: 100.0 * n, layers.FUSED: 1.0 * n**2}}
        for n in (32, 64, 128, 256)
    ]
    assert layers.crossover(rows, "training") == pytest.approx(100.0)
    assert layers.crossover(rows[:2], "training") is None
    assert layers.crossover(rows[2:], "training") == 128


def test_far_needles_are_those_that_training_never_had():
    result = {
        "accuracy": 0.5,
        "groups": {"distance": {"value": [3, 11, 12], "accuracy": [1.0, 0.5, 0.25], "count": [1, 3, 4]}},
    }
    assert needle.by_distance(result, 12) == {"accuracy": 0.5, "near": 2.5 / 4, "far": 0.25}
    assert needle.by_distance(result, 20)["far"] is None


def test_the_sinusoids_tell_places_apart(tmp_path):
    positions = torch.zeros(1, 50, 8)
    added = needle.Sinusoidal(torch.nn.Identity(), 8)(positions)
    assert (torch.cdist(added, added)[0] + 9 * torch.eye(50)).min() > 0.05
    assert added[0, 7, 1] == pytest.approx(math.sin(7 * 1e4 ** (-2 / 8)))


def test_unknown_arms_are_named(tmp_path):
    with pytest.raises(ValueError, match="--needle-arms magic: expected some of 'state space'"):
        study.run(config(tmp_path, needle_arms=("magic",)))
