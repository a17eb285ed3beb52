"""The study of entity tracking runs, reads its trainings back, and its targets see what is off."""

import json
from dataclasses import replace

import pytest
import torch

from sciops.datasets import block_pointers, pointer_chain
from studies import entity_tracking
from studies.entity_tracking import timings
from studies.entity_tracking.arms import OFTEN, Training, parents_of, shared_answers, summary, tuned, with_crossings
from studies.entity_tracking.report import targets, verdicts
from studies.entity_tracking.timings import by_powers, counted_exponent, tile_times, times

TINY = entity_tracking.Config(
    parts=("layers", "crossing", "blocks", "boxes", "language", "times", "tiles", "properties"),
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
    crossing_blocks=4,
    crossing_block=3,
    crossing_width=8,
    crossing_steps=1,
    statements=6,
    statement_steps=1,
    statement_gammas=(0.7,),
    language_width=16,
    language_steps=1,
    properties=(1, 5),
    property_steps=2,
)


def test_a_tiny_run_leaves_its_numbers_and_is_read_back(tmp_path, capsys, monkeypatch):
    (tmp_path / "text.txt").write_text("".join(f"{word} {word[::-1]} {i}\n" for i, word in enumerate(dir(str) * 20)))
    config = replace(TINY, output=tmp_path / "run", corpus=str(tmp_path / "text.txt"))
    results = entity_tracking.run(config)
    said = capsys.readouterr().out
    assert "softmax, 2 layers" in said and "pointer systems" in said
    assert [row["bound"] for row in results["layers"]] == [None, 1, 3]
    assert [len(row["accuracies"]) for row in results["layers"]] == [2, 2, 1]
    banded = {"dense", "level 1, overlap, m = 8", "level 2, overlap, m = 8", "tiles, overlap, m = 8"}
    assert {row["name"] for row in results["blocks"]["far"]} == banded
    near = {row["name"] for row in results["blocks"]["near"]}
    assert near - banded == {"level 1, m = 8", "level 2, m = 8", "tiles alone, m = 8"}
    assert {row["entries"] for row in results["crossing"]["entries"]} == {2}
    assert len(results["language"]["rows"]) == 3 and "reduced system on, off" in said
    assert {row["winner"] for row in results["verdicts"]} == {"too few seeds"}
    inside, around = results["blocks"]["near"][0]["mass"]["8"]
    assert 0 < inside < around <= 1 + 1e-6
    assert (tmp_path / "run" / "figures" / "entity_tracking.png").stat().st_size > 10_000
    assert "2410.05565" in (tmp_path / "run" / "citations.bib").read_text()
    read = json.loads((tmp_path / "run" / "results.json").read_text())
    assert read["layers"] == results["layers"]
    unmet = [row["what"] for row in results["targets"] if not row["met"]]
    assert any("worst accuracy of any hop" in what for what in unmet)  # four steps teach nothing

    def never(*_, **__):
        raise AssertionError("trained again")

    monkeypatch.setattr("studies.entity_tracking.arms.train_tokens", never)
    monkeypatch.setattr("studies.entity_tracking.evidence.train_language", never)
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
    rows = [{"name": "dense", "accuracy": 0.99}, {"name": "a", "accuracy": 0.95, "form": "level 1, overlap"}]
    assert [row["met"] for row in targets({"blocks": {"near": rows}})] == [False]


def test_verdicts_say_whether_the_reduced_system_is_needed():
    def arm(form, accuracy):
        return {"form": form, "m": 4, "accuracies": [accuracy + 1e-3 * s for s in range(5)]}

    made = {"dense": 0.99, "level 1": 0.989, "level 2": 0.9, "tiles alone": 0.6, "tiles, overlap": 0.7}
    rows = [arm(form, accuracy) for form, accuracy in (made | {"level 1, additive": 0.989}).items()]
    found = {row["claim"].partition(": ")[2]: row for row in verdicts({"crossing": {"rows": rows}})}
    assert found["level 1, its reduced system on, off"]["winner"] == "first"
    assert found["level 1, its reduced system on, off"]["difference"] == pytest.approx(-0.389)
    assert found["level 1, dense"]["seen"] and not found["level 2, dense"]["seen"]
    assert not found["level 1, resolvents added without mixed paths"]["seen"]
    text = {"attention": 10.0, "resolvent": 10.5, "short convolutions alone": 30.0}
    rows = [{"name": name, "perplexities": [p] * 5} for name, p in text.items()]
    one, two = verdicts({"language": {"rows": rows}})
    assert one["winner"] == "second" and one["seen"] is False and two["seen"]
    boxes = [{"name": n, "exact": [{"rate": r}] * 5} for n, r in (("softmax, 1 layer", 0.5), ("resolvent", 0.9))]
    assert [row["winner"] for row in verdicts({"boxes": boxes})] == ["first"]


def test_common_answers_of_blocks_are_counted():
    task = block_pointers(20, blocks=6, block=4, values=9, seed=0)
    again = with_crossings(task, 4)
    assert (again.groups["crossings"] == task.groups["crossings"]).all()
    assert shared_answers(task, 4)["crossing"] == 1  # one entry a block: one answer is enough
    chain = pointer_chain(3, length=12, chains=2, values=50, balanced=False, seed=0)
    parents, right, outside = parents_of(chain), 0, 0
    for sample, values in enumerate(chain.targets):
        asked = {}
        for t in range(12):
            root = t
            while parents[sample, root] >= 0:
                root = parents[sample, root]
            if root // 4 != t // 4:
                asked.setdefault(root // 4, []).append(values[t])
        right += sum(max(map(told.count, told)) for told in asked.values())
        outside += sum(map(len, asked.values()))
    found = shared_answers(chain, 4)
    assert found["crossing"] == pytest.approx(right / outside)
    assert found["all"] == pytest.approx(1 - (outside - right) / 36)


def test_rates_are_chosen_on_validation_sequences(tmp_path, monkeypatch):
    seen = []

    def train(net, maker, test, *, rate, seed, **_):
        seen.append((rate, seed))
        return {"accuracy": rate, "groups": {}}

    monkeypatch.setattr("studies.entity_tracking.arms.train_tokens", train)
    model = {"width": 8, "depth": 1, "mixer": "self_attention", "mixer_options": {"heads": 1}}
    options = {"length": 6, "chains": 2, "values": 2}
    arm, records, found = tuned(Training("a", model, "pointers", options, 1, 0.0, 4), (0.1, 0.3, 0.2), (0, 1), tmp_path)
    assert arm.rate == 0.3 and found == {"0.1": 0.1, "0.3": 0.3, "0.2": 0.2}
    assert seen == [(0.1, 1000), (0.3, 1000), (0.2, 1000), (0.3, 0), (0.3, 1)] and len(records) == 2


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
