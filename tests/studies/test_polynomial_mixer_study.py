"""The study of the polynomial mixer keeps its numbers, tells slopes and crossovers, and does not time what is wrong."""

import json
import math

import pytest
import torch

from sciops.grids import Grid
from sciops.metrics import relative_l2
from studies import polynomial_mixer as study
from studies.kit.mixers.burgers import burgers_error, burgers_task
from studies.kit.mixers.fields import FieldNet
from studies.mixer_zoo.darcy import darcy_error, darcy_task
from studies.polynomial_mixer.cost import LAYERS, break_even, crossover, slopes
from studies.polynomial_mixer.report import claims, summaries

BURGERS = dict(points=32, train=12, test=4)


def config(tmp_path, **options):
    tiny = dict(
        lengths=(64, 128, 256),
        memory_lengths=(4096,),
        attention_to=128,
        attention_memory_to=4096,
        unfused_to=64,
        layer_width=8,
        rounds=1,
        field_arms=("none", "polynomial V1", "attention"),
        points=32,
        fields=(12, 4),
        field_steps=2,
        field_width=8,
        recall_arms=("polynomial V1", "hybrid", "attention"),
        recall_length=16,
        recall_pairs=2,
        recall_symbols=20,
        recall_steps=2,
        recall_width=8,
        output=tmp_path,
    )
    return study.Config(**(tiny | options))


def test_a_small_run_leaves_its_numbers(tmp_path, capsys, monkeypatch):
    measured = []
    monkeypatch.setattr(
        "studies.polynomial_mixer.cost.peak_memory",
        lambda *call: measured.append(call) or (50 if call[1][0] == "V" else 200),
    )
    results = study.run(config(tmp_path))
    kept = json.loads((tmp_path / "results.json").read_text())
    assert kept["summary"]["fields"] == results["summary"]["fields"]
    assert {call[1] for call in measured} == set(LAYERS[:3])
    lengths = {name: [row["n"] for row in results["times"] if row["layer"] == name] for name in LAYERS}
    assert lengths == dict(zip(LAYERS, ([64, 128, 256], [64, 128, 256], [64, 128], [64])))
    assert results["summary"]["cost"][0]["saved"]["V1"]["attention"] == (4096, 0.75)
    assert len(results["fields"]) == 6 and len(results["recall"]) == 6
    assert all(0 <= row["accuracy"] <= 1 for row in results["recall"])
    for name in ("cost", "quality"):
        assert (tmp_path / "figures" / f"{name}.png").stat().st_size > 10_000
    printed = capsys.readouterr().out
    assert "V1 faster than attention from n =" in printed and "too short a training" in printed

    def never(*args, **options):
        raise AssertionError("trained again")

    monkeypatch.setattr(study, "burgers_error", never)
    monkeypatch.setattr(study, "train_tokens", never)
    monkeypatch.setattr(study, "times", never)
    monkeypatch.setattr(study, "memory", never)
    again = study.run(config(tmp_path))
    assert again["fields"] == json.loads(json.dumps(results["fields"])) and again["times"] == results["times"]
    assert again["summary"]["fields"] == results["summary"]["fields"]
    with pytest.raises(ValueError, match="--field-arms mixture"):
        study.run(config(tmp_path, field_arms=("mixture",)))


def test_a_layer_that_is_not_its_formula_is_not_timed(tmp_path, monkeypatch):
    monkeypatch.setattr("torch.sigmoid", lambda x: x.sigmoid() * 1.01)  # what the check compares with is no sigmoid
    with pytest.raises(RuntimeError, match="V1: differs from its reference"):
        study.run(config(tmp_path, field_arms=(), recall_arms=()))


def test_slopes_and_crossovers_are_those_of_the_numbers():
    rows = [
        {"layer": name, "causal": False, "n": n, "forward": t(n), "both": 3 * t(n)}
        for n in (64, 256, 1024, 4096)
        for name, t in (("V1", lambda n: 40.0 * n), ("V2", lambda n: 9.0 * n), ("attention", lambda n: 0.1 * n**2))
    ]
    assert slopes(rows, "forward") == pytest.approx({"V1": 1, "V2": 1, "attention": 2})
    assert crossover(rows, "V1", "both") == pytest.approx(400)
    assert crossover(rows, "V2", "forward") == pytest.approx(90)
    assert crossover(rows[6:], "V2", "forward") == 0.0
    assert crossover(rows[:6], "V1", "forward") == math.inf
    assert math.isnan(crossover(rows[:2], "V1", "forward"))  # attention was not timed


def test_memory_alone_is_reported(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("studies.polynomial_mixer.cost.peak_memory", lambda function, name, n, *_: 10 * n)
    only = dict(lengths=(), memory_lengths=(64, 128), attention_memory_to=128, field_arms=(), recall_arms=())
    study.run(config(tmp_path, **only))
    said = capsys.readouterr().out
    assert "exponent of memory" in said and "exponent of time" not in said and "faster than" not in said
    assert "V1: share of attention's training memory saved, n = 128" in said


def test_fewer_products_from_the_break_even_on():
    """Degree and expansion 2: V1 has 12 d² products a token, V2 6 d²; a causal query sees half of the keys."""
    d = 64
    for name, own in (("V1", 12 * d**2), ("V2", 6 * d**2)):
        for causal in (False, True):
            n = break_even(name, d, causal)
            assert own == 4 * d**2 + 2 * n * d * (0.5 if causal else 1)


def test_claims_follow_the_numbers():
    def results(polynomial, seconds):
        fields = [
            {"arm": arm, "seed": s, "error": e, "error_fine": e, "parameters": 1, "seconds": 1.0}
            for s in (0, 1)
            for arm, e in (("none", 0.5), ("polynomial V1", polynomial), ("attention", 0.1))
        ]
        recall = [
            {"arm": arm, "seed": 0, "accuracy": a, "parameters": 1, "seconds": 1.0}
            for arm, a in (("polynomial V1", 0.4), ("hybrid", 0.9 - polynomial), ("attention", 0.99))
        ]
        times = [
            {"layer": name, "causal": False, "n": n, "forward": seconds(n), "both": seconds(n)}
            for name in LAYERS
            for n in (64, 128, 256)
        ]
        memory = [{"layer": name, "causal": False, "n": 64, "bytes": 40 if name == "V1" else 100} for name in LAYERS]
        found = {"times": times, "memory": memory, "fields": fields, "recall": recall, "width": 64}
        found["summary"] = summaries(found)
        return {row["what"]: row["met"] for row in claims(found)}

    good, bad = results(0.2, lambda n: n), results(0.45, lambda n: n**1.3)
    assert good["V1: exponent of time in length, forward"] and not bad["V1: exponent of time in length, forward"]
    assert good["polynomial V1: share of the gap from none to attention closed"]
    assert not bad["polynomial V1: share of the gap from none to attention closed"]
    assert good["recall: hybrid ahead of polynomial V1, accuracy"]
    assert not bad["recall: hybrid ahead of polynomial V1, accuracy"]
    assert good["V1: share of attention's training memory saved, n = 64"]
    assert not good["V2: share of attention's training memory saved, n = 64"]


def test_tasks_hold_solutions_of_their_equations():
    task = burgers_task(**BURGERS)
    assert torch.equal(task.test_fine[1][:, ::2], task.test[1]) and len(task.train[0]) == 12
    units = [task.train[i].std() for i in (0, 1)]
    assert all(abs(unit - 1) < 0.01 for unit in units)
    assert (task.train[1].mean(1) / task.train[1].abs().max()).abs().max() < 1e-5  # the mean of u is conserved, here 0
    flow = darcy_task(points=17, train=12, test=4)
    assert torch.equal(flow.test_fine[1][:, ::2, ::2], flow.test[1])
    assert not flow.test[1][:, 0].any() and (flow.test[1][:, 1:-1, 1:-1] > 0).all()


@pytest.mark.parametrize("mixer", ["none", "polynomial"])
def test_a_network_is_the_same_function_on_the_finer_grid(mixer):
    """Where its input is smooth: the convolution keeps its reach, the mean its integral."""
    task = burgers_task(**BURGERS)
    torch.manual_seed(0)
    net = FieldNet(task, mixer, None, width=8, depth=2)
    fields = [torch.sin(2 * torch.pi * torch.arange(n) / n)[None] for n in (32, 64)]
    with torch.no_grad():
        coarse, fine = (net(x, Grid((len(x[0]),), 1.0, "periodic")) for x in fields)
    assert float(relative_l2(fine[:, ::2], coarse).max()) < 1e-5


def test_training_lowers_the_error_and_repeats():
    record = burgers_error("polynomial", seed=0, steps=60, data=BURGERS, width=16, depth=2)
    start = burgers_error("polynomial", seed=0, steps=1, data=BURGERS, width=16, depth=2)
    assert record["error"] < 0.7 * start["error"]
    again = burgers_error("polynomial", seed=0, steps=60, data=BURGERS, width=16, depth=2)
    assert again["error"] == record["error"]
    flow = dict(data=dict(points=17, train=12, test=4), width=8, depth=1, seed=0)
    assert darcy_error("polynomial", steps=30, **flow)["error"] < darcy_error("polynomial", steps=1, **flow)["error"]
