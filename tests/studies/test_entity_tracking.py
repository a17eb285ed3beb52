"""The study of entity tracking runs, reads its trainings back, and its targets see what is off."""

import json
from dataclasses import replace

import pytest
import torch

from studies import entity_tracking
from studies.entity_tracking import timings
from studies.entity_tracking.arms import OFTEN, Training, summary
from studies.entity_tracking.report import targets
from studies.entity_tracking.timings import by_powers, counted_exponent, tile_times, times

TINY = entity_tracking.Config(
    parts=("layers", "blocks", "times", "tiles", "properties"),
    lengths=(32, 64),
    rounds=1,
    seeds=2,
    tested=48,
    length=12,
    chains=2,
    values=4,
    width=16,
    steps=4,
    softmax_steps=(4, 4),
    softmax_rates=(1e-3, 1e-3),
    block_length=16,
    block_width=16,
    block_steps=4,
    blocks=(8,),
    properties=(1, 5),
    property_steps=2,
)


def test_a_tiny_run_leaves_its_numbers_and_is_read_back(tmp_path, capsys, monkeypatch):
    config = replace(TINY, output=tmp_path)
    results = entity_tracking.run(config)
    said = capsys.readouterr().out
    assert "softmax, 2 layers" in said and "pointer systems" in said
    assert [row["bound"] for row in results["layers"]] == [None, 1, 3]
    assert [len(row["accuracies"]) for row in results["layers"]] == [2, 2, 1]
    assert {row["name"] for row in results["blocks"]["far"]} == {
        "dense",
        *(f"level {level}{o}, m = 8" for level in (1, 2) for o in ("", ", overlap")),
    }
    inside, around = results["blocks"]["near"][0]["mass"]["8"]
    assert 0 < inside < around <= 1 + 1e-6
    assert (tmp_path / "figures" / "entity_tracking.png").stat().st_size > 10_000
    assert "2410.05565" in (tmp_path / "citations.bib").read_text()
    read = json.loads((tmp_path / "results.json").read_text())
    assert read["layers"] == results["layers"]
    unmet = [row["what"] for row in results["targets"] if not row["met"]]
    assert any("worst accuracy of any hop" in what for what in unmet)  # four steps teach nothing

    def never(*_, **__):
        raise AssertionError("trained again")

    monkeypatch.setattr("studies.entity_tracking.arms.train_tokens", never)
    monkeypatch.setattr(entity_tracking, "times", never)
    monkeypatch.setattr(entity_tracking, "tile_times", never)
    again = entity_tracking.run(config)
    assert all(again[part] == results[part] for part in TINY.parts)
    few = replace(config, parts=("layers",), tested=1, seeds=1)  # no number of links occurs often
    monkeypatch.undo()
    assert entity_tracking.run(few)["layers"][1]["judged"] == entity_tracking.run(few)["layers"][1]["value"]


def test_links_are_followed_up_to_the_first_that_are_lost():
    def found(values, count, accuracy):
        groups = {"hop": {"value": values, "count": count, "accuracy": accuracy}}
        curve = [{"accuracy": 0.0}] * 2
        record = {"accuracy": 0.5, "groups": groups, "curve": curve, "parameters": 1, "seconds": 1.0}
        return summary(Training("a", {}, "pointers", {}, 1, 1.0, 1), [record])

    often = [OFTEN] * 4
    assert found([0, 1, 2, 3], often, [1.0, 1.0, 0.9, 1.0])["reach"] == [1]
    assert found([0, 1, 2, 3], often, [0.9, 1.0, 1.0, 1.0])["reach"] == [-1]
    rare = found([0, 1, 2, 4], [OFTEN, OFTEN, OFTEN - 1, OFTEN], [1.0, 1.0, 0.1, 1.0])
    assert rare["reach"] == [4] and rare["worst"] == [1.0] and rare["judged"] == [0, 1, 4]
    assert found([0, 1], [1, 1], [1.0, 0.5])["judged"] == [0, 1]


def test_a_cliff_is_looked_for_past_as_many_systems_as_heads():
    def of(heads, accuracies):
        rows = enumerate(accuracies, 1)
        return [{"name": f"dense, {heads} heads", "heads": heads, "properties": p, "accuracy": a} for p, a in rows]

    for past, met in ((0.5, True), (0.99, False)):
        rows = targets({"properties": [*of(2, [1.0, 1.0, past]), *of(4, [1.0, 1.0, 1.0])]})
        assert [row["met"] for row in rows] == [True, met]
        assert rows[0]["what"] == "dense, 2 heads: worst accuracy of up to 2 systems"


def row(name, by_seed, bound=None, gain=0.0):
    return {
        "name": name,
        "value": list(range(len(by_seed[0]))),
        "by_seed": by_seed,
        "by_value": by_seed[0],
        "reach": [max((i for i, a in enumerate(r) if min(r[: i + 1]) >= 0.95), default=-1) for r in by_seed],
        "worst": [min(r) for r in by_seed],
        "judged": list(range(len(by_seed[0]))),
        "bound": bound,
        "late_gain": gain,
        "steps": 10,
    }


def test_targets_see_what_is_off():
    good = {"layers": [row("resolvent", [[1.0] * 6] * 2), row("softmax, 1 layer", [[1, 1, 0.5, 0.4, 0.4, 0.4]], 1)]}
    assert all(entry["met"] for entry in targets(good))
    late = {
        "layers": [row("resolvent", [[1.0] * 6, [1.0] * 5 + [0.9]]), row("deep", [[1, 1, 1, 0.5, 0.4, 0.4]], 3, 0.1)]
    }
    worst, reach, past = targets(late)
    assert not worst["met"] and worst["value"] == 0.9
    assert not reach["met"] and reach["value"] == 2 and "still gaining 0.100" in reach["note"]
    assert past["met"]
    beyond = {"layers": [row("resolvent", [[1.0] * 6]), row("softmax, 1 layer", [[1.0] * 6], 1)]}
    assert not targets(beyond)[-1]["met"]  # a bound that is passed is seen
    blocks = {
        "blocks": {"near": [{"name": "dense", "accuracy": 0.99}, {"name": "a", "accuracy": 0.95, "form": [1, True]}]}
    }
    assert not targets(blocks)[0]["met"]


def test_times_compare_equal_operators_only(monkeypatch):
    timed = times((32, 64), width=8, heads=2, rounds=1, dense_to=32, fit_from=32)
    assert {r["n"] for r in timed["rows"] if r["name"] == "dense"} == {32}
    assert all(r["seconds"] > 0 for r in timed["rows"]) and set(timed["exponents"]) == set(timings.CONTESTANTS)
    assert counted_exponent("dense", 64, 1, (512, 16384)) == pytest.approx(2, abs=0.01)
    assert counted_exponent("level 1, m = n^(1/3)", 64, 1, (512, 16384)) < 1.4
    monkeypatch.setattr(timings.BlockResolventAttention, "load_state_dict", lambda self, state: None)
    monkeypatch.setitem(timings.CONTESTANTS, "level 0", dict(level=0, gamma=0.5))
    with pytest.raises(RuntimeError, match="level 0 differs from the dense operator"):
        times((32,), width=8, heads=2, rounds=1, dense_to=32, fit_from=32)


def test_two_ways_to_solve_agree():
    L = torch.eye(13, dtype=torch.float64) - 0.9 * torch.randn(2, 13, 13, dtype=torch.float64).softmax(-1).tril()
    r = torch.randn(2, 13, 3, dtype=torch.float64)
    torch.testing.assert_close(L @ by_powers(L, r), r, rtol=1e-10, atol=1e-10)
    assert [row["m"] for row in tile_times((4, 8), n=16, width=4, rounds=1)] == [4, 8]


def test_refusals(tmp_path):
    with pytest.raises(ValueError, match="--parts speed: expected some of layers"):
        entity_tracking.run(replace(TINY, parts=("speed",), output=tmp_path))
    with pytest.raises(ValueError, match="one of each a depth"):
        entity_tracking.run(replace(TINY, softmax_steps=(1,), output=tmp_path))
