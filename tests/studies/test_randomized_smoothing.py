"""The smoothing study counts violations, sees a chosen interval that falls behind, and leaves its numbers."""

import copy
import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from tqdm.auto import tqdm

from sciops.robustness import calibrate
from studies import randomized_smoothing as study
from studies.randomized_smoothing import cases as counts
from studies.randomized_smoothing import gates


def test_scenarios_are_probabilities_with_the_first_class_ahead():
    for classes in (2, 10, 1000):
        for p in counts.scenarios(classes).values():
            assert len(p) == classes and p.sum() == pytest.approx(1) and (p > 0).all() and p[0] > p[1:].max()


def test_a_broken_interval_and_a_poor_choice_are_noticed(monkeypatch):
    p = counts.scenarios(10)["0.35, 0.3, geometric"]
    rows = [
        {"classes": 10, "scenario": "s", "drawn": 100, "alpha": alpha, "true": 0.07, "found": found}
        for alpha, found in counts.measure(p, 100, 5000, 300, np.random.default_rng(0)).items()
    ]
    assert counts.faults(rows, 300, 0.01) == []
    poor = copy.deepcopy(rows)
    poor[0]["found"]["auto"] |= {"gain": -0.02 * poor[0]["found"]["cpm"]["radius"], "gain_error": 0.0, "best": "cpm"}
    assert "the chosen interval lies 2.0 % behind" in counts.faults(poor, 300, 0.01)[0]

    def plug_in(selection, fresh, **_):  # no interval at all: the estimates themselves
        first = selection.argmax(1)
        share = fresh / fresh.sum(1, keepdims=True)
        top = np.take_along_axis(share, first[:, None], 1)[:, 0]
        np.put_along_axis(share, first[:, None], 0.0, 1)
        return first, top, share.max(1)

    monkeypatch.setattr(counts, "bounds_from_counts", plug_in)
    wrong = counts.measure(p, 100, 5000, 300, np.random.default_rng(0))
    assert wrong[0.05]["auto"]["violations"] > 50
    assert "violated" in counts.faults([rows[1] | {"found": wrong[0.05]}], 300, 0.01)[0]


FAST = [name for name in gates.certificates() if not name.startswith(("median", "mean", "center", "certify"))]


@pytest.mark.parametrize("alpha", [0.05, 0.001])
def test_a_gate_tells_the_level_from_one_third_more(alpha):
    limit = gates.gate(alpha)
    assert limit.trials >= 20_000
    # by trials: binomial counts of the level pass, those of 1.3 times the level fail
    rng = np.random.default_rng(0)
    assert (rng.binomial(limit.trials, alpha, 20_000) <= limit.most).all()
    assert (rng.binomial(limit.trials, 1.3 * alpha, 20_000) > limit.most).mean() >= 0.998
    assert limit.false_alarm <= 1e-6 and limit.power >= 0.999


@pytest.mark.parametrize("name", FAST)
def test_every_interval_keeps_its_level(name):
    (row,) = gates.run_gates((name,), 0, tqdm(disable=True))
    assert row["passed"] and row["trials"] >= 20_000 and gates.gate_faults([row]) == []
    if "randomized" in name or name == "conformal set":  # of level α exactly
        assert row["violations"] > 0.8 * row["alpha"] * row["trials"]


@pytest.mark.parametrize("name", [f"votes, {k} classes, randomized" for k in (2, 3, 10)])
def test_an_interval_of_one_third_more_than_its_level_fails(name, monkeypatch, capsys):
    sound = gates.bounds_from_counts
    monkeypatch.setattr(gates, "bounds_from_counts", lambda *a, alpha, **how: sound(*a, alpha=1.3 * alpha, **how))
    rows = gates.run_gates((name,), 0, tqdm(disable=True))
    assert not rows[0]["passed"] and "at most 1150 pass" in gates.gate_faults(rows)[0]
    gates.show_gates(rows)
    assert "FAILED" in capsys.readouterr().out


def test_bounds_that_forget_a_part_of_the_level_fail(monkeypatch):
    sound = gates.bounds_from_counts

    def uncorrected(selection, fresh, *, alpha, rng, **_):
        """Top-two intervals at α/2 each, with the runner-up of the sample itself."""
        first, lower, _ = sound(selection, fresh, alpha=alpha / 2, interval="randomized", rng=rng)
        rest = fresh.copy()
        np.put_along_axis(rest, first[:, None], 0, 1)
        return first, lower, rest.max(1) / fresh.sum(1)

    monkeypatch.setattr(gates, "bounds_from_counts", uncorrected)
    assert not gates.run_gates(("votes, 3 classes, cpm",), 0, tqdm(disable=True))[0]["passed"]


def test_certify_keeps_its_level_and_one_third_more_is_noticed(monkeypatch):
    name, sound = "certify, votes, randomized", gates.certify
    assert gates.run_gates((name,), 0, tqdm(disable=True))[0]["passed"]
    monkeypatch.setattr(gates, "certify", lambda *a, alpha, **how: sound(*a, alpha=1.3 * alpha, **how))
    assert not gates.run_gates((name,), 0, tqdm(disable=True))[0]["passed"]


def test_certified_accuracy_and_its_order():
    assert study.certified([0.0, 0.2, 0.4], [0.0, 0.2, 0.3]).tolist() == pytest.approx([2 / 3, 2 / 3, 1 / 3])
    radii = {f"soft, {i}, {r}": [0.2, 0.4] for i in study.INTERVALS for r in ("cohen", "paper", "exact")}
    found = {"radii": radii, "attack": {"radii": [0.0, 0.3], "accuracy": [1.0, 0.5]}}
    assert study.digit_faults({"0.1": found}) == []
    low = {"radii": radii | {"soft, cpm, exact": [0.1, 0.4]}, "attack": found["attack"]}
    assert study.digit_faults({"0.1": low}) == ["σ = 0.1, cpm: the exact radius is not the largest"]
    above = found | {"attack": {"radii": [0.0, 0.3], "accuracy": [1.0, -0.5]}}
    assert len(study.digit_faults({"0.1": above})) == len(study.INTERVALS)


def test_a_small_run_leaves_its_numbers(tmp_path, capsys, monkeypatch):
    pytest.importorskip("sklearn")
    config = study.Config(
        classes=(2, 10),
        drawn=(100,),
        trials=40,
        votes=2000,
        samples=400,
        sigmas=(0.25,),
        epochs=2,
        images=6,
        attack_radii=2,
        attack_steps=3,
        attack_noises=4,
        targets=(0.5,),
        most_samples=600,
        certificates=("votes, 2 classes, auto",),
        output=tmp_path,
    )
    state = torch.get_rng_state()
    results = study.run(config)
    torch.set_rng_state(state)
    assert json.loads((tmp_path / "results.json").read_text())["counts"] == results["counts"]
    assert len(results["counts"]) == 2 * (3 + 6) and results["faults"] == []
    digits = results["digits"]["0.25"]
    assert digits["lipschitz"] <= 1.0 + 1e-6 and digits["accuracy"] > 0.3
    assert np.mean(digits["radii"]["votes, auto"]) > 0.05 and digits["chosen_map"]["name"] in ("argmax", "softmax")
    assert [row["certificate"] for row in results["levels"]] == ["votes, 2 classes, auto"]
    accuracy = digits["attack"]["accuracy"]
    assert len(accuracy) == 3 and all(b <= a for a, b in zip(accuracy, accuracy[1:]))
    assert digits["questions"][0]["mean_samples"] <= 600
    for name in ("mean_radii", "intervals", "radii", "early_stopping"):
        assert (tmp_path / "figures" / f"{name}.png").stat().st_size > 10_000
    assert "1902.02918" in (tmp_path / "citations.bib").read_text()
    assert "the target is −1 % or more" in capsys.readouterr().out
    monkeypatch.setattr(study, "faults", lambda *_: ["one interval broke"])
    monkeypatch.setattr(study, "behind_network", lambda *_: digits)
    with pytest.raises(RuntimeError, match="one interval broke"):
        study.run(config)


def test_levels_alone_are_a_command_with_a_printed_result(tmp_path, capsys, monkeypatch):
    config = study.Config(parts=("levels",), certificates=("votes, 3 classes, cpm", "conformal set"), output=tmp_path)
    results = study.run(config)
    out = capsys.readouterr().out
    assert out.count("passed") == 2 and "allowed" in out and "mean certified radius" not in out
    assert json.loads((tmp_path / "results.json").read_text())["levels"] == results["levels"]
    monkeypatch.setattr(gates, "calibrate", lambda scores, alpha: calibrate(scores, alpha=2 * alpha))
    with pytest.raises(RuntimeError, match="conformal set: .* trials violated at α = 0.05, at most 1150 pass"):
        study.run(config)
    for change, message in (
        ({"parts": ("votes",)}, "--parts votes: expected some of counts, digits, levels"),
        ({"parts": ()}, r"--parts \(none\): expected some of"),
        ({"certificates": ("all",)}, "--certificates all: expected some of 'votes, 2 classes, auto'"),
        ({"images": 351}, "--images 351: expected 1 to 350"),
    ):
        with pytest.raises(ValueError, match=message):
            study.run(replace(config, **change))
