"""The study of losses for precision or recall: exact cases, listed answers, choices, a small run."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.integrate import quad

from studies import diversity_losses as study
from studies.diversity_losses import cases, exact, report, runs, selection

PLANTED = {
    0.5: (1.000, 0.0039, 0.0039, 1.000, 0.0369, 0.0235),
    0.7: (0.998, 0.0041, 0.0039, 0.998, 0.0839, 0.0400),
    0.85: (0.980, 0.0059, 0.0041, 0.981, 0.1559, 0.0550),
    1.0: (0.908, 0.0129, 0.0048, 0.912, 0.1900, 0.0826),
    1.3: (0.479, 0.0353, 0.0077, 0.510, 0.2940, 0.1163),
    1.5: (0.176, 0.0355, 0.0074, 0.212, 0.2713, 0.0872),
    2.0: (0.003, 0.0064, 0.0029, 0.006, 0.0530, 0.0061),
}


def test_the_solvable_case():
    for temperature, planted in PLANTED.items():
        found = [
            exact.solvable(temperature, missed)[key] for missed in (0, 6) for key in ("precision", "recall", "alpha")
        ]
        assert (np.abs(np.array(found) - planted) < [6e-4, 6e-5, 6e-5] * 2).all(), temperature
    falling = [exact.solvable(t, 0.0)["precision"] for t in np.linspace(0.3, 3, 20)]
    assert (np.diff(falling) < 0).all()
    one = exact.solvable(1.3, 2.0, covered=3.0, symbols=5, valid=3, seen=2, length=1)
    weights = np.exp(np.array([3, 3, 2, 0, 0]) / 1.3)
    q = weights / weights.sum()
    assert one["precision"] == pytest.approx(q[:3].sum(), rel=1e-12)
    assert one["alpha"] == pytest.approx(np.minimum(q[:3], 1 / 3).sum(), rel=1e-12)
    alike = [exact.solvable(1.2, missed, seen=20, valid=20) for missed in (0.0, 6.0)]
    assert alike[0] == alike[1], "nothing is missed"


def test_the_solvable_case_by_listing_all_sequences():
    size = dict(covered=2.0, symbols=4, valid=3, seen=1, length=3)
    weights = np.exp(np.array([2.0, 0.7, 0.7, 0.0]) / 0.8)
    one = weights / weights.sum()
    q = np.einsum("i,j,k->ijk", one, one, one)
    p = np.zeros((4, 4, 4))
    p[:3, :3, :3] = 1 / 27
    found = exact.solvable(0.8, 0.7, **size)
    assert found["precision"] == pytest.approx(q[p > 0].sum(), rel=1e-12)
    assert found["recall"] == pytest.approx(exact.alpha(p.ravel(), q.ravel(), 0.1) / 0.1, rel=1e-12)
    assert found["alpha"] == pytest.approx(exact.alpha(p.ravel(), q.ravel(), 1.0), rel=1e-12)


def test_divergences_are_mixtures_of_the_curve():
    p, q = np.array([0.7, 0.2, 0.1]), np.array([0.2, 0.35, 0.45])
    kinks = sorted({1.0, *(q / p)})

    def integral(power):
        pieces = zip(kinks, kinks[1:])
        return sum(quad(lambda l: l**power * float(exact.divergence(p, q, l)), a, b)[0] for a, b in pieces)

    for found, exactly, planted in (
        (integral(-2), float((p * np.log(p / q)).sum()), 0.614603),
        (integral(-1), float((q * np.log(q / p)).sum()), 0.622148),
        (2 * integral(-3), float((p**2 / q).sum() - 1), 1.586508),
    ):
        assert found == pytest.approx(exactly, abs=1e-9) and exactly == pytest.approx(planted, abs=1e-6)
    for lam in (0.1, 1.0, 7.0):
        assert exact.alpha(p, q, lam) == pytest.approx(lam * exact.alpha(q, p, 1 / lam), rel=1e-12)
    assert exact.alpha(p, q, 1.0) == pytest.approx(1 - np.abs(p - q).sum() / 2)


def test_fixed_points_of_the_figure():
    rows = exact.fixed_points()
    found = {row["loss"]: np.array(row["q"]) for row in rows}
    law = np.array(exact.LAW)
    expected = {
        "likelihood": law,
        "truncation, drop 0.1": law * [1, 1, 1, 0] / 0.95,
        "GOLD, least 0.2": [0.8, 0.12, 0.06, 0.02],
        "TaiLr, γ 0.1": [0.5906, 0.3099, 0.0994, 0.0],
        "TaiLr, γ 0.1, least 0.2": [0.5841, 0.3060, 0.0974, 0.0125],
        "power, c 0.5": law**2 / (law**2).sum(),
        "power, c −1": np.sqrt(law) / np.sqrt(law).sum(),
        "focal, g 2": [0.4204, 0.3192, 0.1934, 0.0670],
        "λ-PR, λ 0.5, γ 0.1": np.append(law[:3] / 0.95 * (1 - 1 / 11), 1 / 11),
    }
    for name, q in expected.items():
        np.testing.assert_allclose(found[name], q, atol=4e-3, err_msg=name)
    entropies = {row["loss"]: (row["precision side"], row["entropy"]) for row in rows[1:]}
    plain = -(law * np.log(law)).sum()
    assert all((entropy < plain) == sharp for sharp, entropy in entropies.values())


def test_factorisations_are_listed_and_half_are_shown():
    case = cases.multiplication(30)
    group, law = case.groups["validation"], case.laws["validation"]
    for g in range(group.max() + 1):
        assert law[group == g].sum() == pytest.approx(1)
    symbols = "0123456789*=$"

    def text(x, y):
        answer = [symbols[int(t)] for t in y if t != -100]
        return "".join(symbols[int(t)] for t in x[:3]) + "".join(answer)

    listed = [text(x, y) for x, y in zip(case.asked_x, case.asked_y)]
    shown = [text(x, y) for x, y in zip(case.x, case.y)]
    assert listed[0] == "01=1*1$" and {"06=1*6$", "06=2*3$", "06=3*2$", "06=6*1$"} < {*listed}
    assert len({*listed}) == len(listed) == sum(n % a == 0 for n in range(1, 31) for a in range(1, n + 1))
    assert {*shown} < {*listed} and sum(s.startswith("12=") for s in shown) == 3
    model = case.model(0, 8, 1).eval()
    q = case.probabilities(model, [0.7, 1.0])
    i = listed.index("12=3*4$")
    log_q = 0.0
    for t in range(3, 7):
        with torch.no_grad():
            logits = model(torch.tensor([[symbols.index(c) for c in listed[i][:t]]]))[0, -1].double()
        log_q += float((logits / 0.7).log_softmax(0)[symbols.index(listed[i][t])])
    assert q[0, i] == pytest.approx(np.exp(log_q), rel=1e-4)
    measured = case.measure(model, [0.7, 1.0], 0.1)["test"]
    own = np.flatnonzero(case.groups["test"] == 1)
    assert measured["precision"][1][1] == pytest.approx(q[1, own].sum())
    assert measured["recall"][1][1] == pytest.approx(np.minimum(1 / len(own), 10 * q[1, own]).sum())


def test_words_and_displaced_fields_have_laws():
    case = cases.spelling("python", 50)
    for split in ("validation", "test"):
        sums = np.bincount(case.groups[split], case.laws[split])
        np.testing.assert_allclose(sums, 1)
    assert len(case.x) == 50
    for name in ("bins", "gaussian"):
        case = cases.displaced(name, 16, held=4)
        p = case.laws["test"]
        np.testing.assert_allclose(p.sum(-1), 1)
        assert (p > 0).sum(-1).max() == 4
        q = case.probabilities(case.model(0, 4, 1).eval(), case.fields["test"], 0.5)
        assert q.shape == p.shape and (q >= 0).all()
        np.testing.assert_allclose(q.sum(-1), 1, rtol=1e-6)
        assert float(case.y.std()) == pytest.approx(1, abs=0.05)


def record(precision, recall, choice=0):
    both = {"precision": precision, "recall": recall, "alpha": recall}
    return {"measured": {"validation": both, "test": both}, "choice": choice}


def test_choices_are_made_at_the_wanted_precision():
    one = record([[0.95, 0.95], [0.91, 0.91], [0.5, 0.5]], [[0.2, 0.2], [0.4, 0.4], [0.9, 0.9]])
    assert selection.best_temperature(one["measured"], 0.9) == 1
    assert selection.score(one["measured"], (0.4, 0.9, 0.99)) == pytest.approx(((0.9 + 0.4) / 3, 0.9))
    never = record([[0.5, 0.5], [0.6, 0.7]], [[0.9, 0.9], [0.1, 0.1]], choice=1)
    assert selection.best_temperature(never["measured"], 0.9) is None
    assert selection.matched(never["measured"], 0.9) is None and selection.at_precision(never, 0.9) is None
    assert selection.best_choice([never, one], (0.9,)) == 0, "a precision that is reached comes first"
    at, share = selection.matched(one["measured"], 0.9)
    assert at == 1 and share == pytest.approx(0.01 / 0.41)
    np.testing.assert_allclose(selection.at_precision(one, 0.9), 0.4 + share * 0.5)
    np.testing.assert_allclose(selection.at_precision(one, 0.9, "precision"), 0.9)
    assert selection.matched(one["measured"], 0.3) == (2, 0.0), "no temperature is too high"
    assert selection.best_alpha(one).tolist() == [0.9, 0.9]


def test_shuffled_weights_are_those_of_other_targets():
    case = cases.multiplication(20)
    model = case.model(0, 8, 1)
    x, y = case.x[:8], case.y[:8]
    options = {"exponent": -0.5}
    right = runs.losses_of(case, "power", options)(model, x, y)
    shuffled = runs.losses_of(case, "power", options, shuffled_by=0)
    assert shuffled(model, x, y) != shuffled(model, x, y) != right, "another order every time"
    plain = [runs.losses_of(case, "power", {"exponent": 0.0}, shuffled_by=s)(model, x, y) for s in (None, 0)]
    torch.testing.assert_close(plain[0], plain[1])


CONFIG = replace(
    study.PRESETS["quick"],
    tasks=("multiplication", "bins"),
    arms=("likelihood", "power for recall"),
    other_arms=("likelihood", "power for recall"),
    seeds=(0, 1),
    warmup=(3, 2, 2, 2),
    steps=(2, 1, 1, 1),
    batch=8,
    width=8,
    depth=1,
    words=60,
    fields=24,
    temperatures=(0.5, 1.0, 2.0),
    workers=1,
)


def test_a_small_run_leaves_its_numbers_and_is_read_back(tmp_path, capsys, monkeypatch):
    config = replace(CONFIG, output=tmp_path)
    results = study.run(config)
    said = capsys.readouterr().out
    stored = json.loads((tmp_path / "results.json").read_text())
    for name in ("solvable", "tradeoff"):
        assert (tmp_path / "figures" / f"{name}.png").stat().st_size > 10_000
    assert "verine2025improving" in (tmp_path / "citations.bib").read_text()
    assert [(r["task"], r["arm"]) for r in stored["summary"]] == [
        (task, arm) for task in config.tasks for arm in study.arms_of(config, task)
    ]
    for row in results["summary"]:
        assert len(row["alpha"]) == 2 and all(0 <= value <= 1 + 1e-9 for value in row["alpha"])
        if row["arm"] != "likelihood":
            assert row["verdicts"]["alpha"]["winner"] == "too few seeds"
    chosen = [r for r in results["runs"] if r["chosen"] and r["arm"] == "power for recall"]
    assert len(chosen) == 4 and len({r["choice"] for r in chosen if r["task"] == "bins"}) == 1
    assert "what a loss converges to" in said and "claims" in said
    monkeypatch.setattr(runs, "train_by_step", None)  # nothing is trained again
    assert study.run(config)["summary"] == results["summary"]


def test_claims_follow_the_verdicts():
    flat = np.random.default_rng(0).uniform(0.2, 0.3, (5, 6))

    def run_of(arm, seed, better):
        recall = [list(flat[seed] + better)] * 2 + [list(flat[seed] + better + 0.01)]
        sharp = 0.01 * (arm == "TaiLr")
        both = {"precision": [[0.95] * 6, [0.92 + sharp] * 6, [0.4] * 6], "recall": recall, "alpha": recall}
        own = {"task": "words", "arm": arm, "seed": seed, "options": {}, "chosen": True}
        return own | {"measured": {"validation": both, "test": both}}

    level = {"likelihood": 0.0, "TaiLr": -0.1, "power for recall": 0.4, runs.SHUFFLED: 0.1}
    trained = [run_of(arm, seed, value) for arm, value in level.items() for seed in range(5)]
    config = replace(CONFIG, precisions=(0.9, 0.99), seeds=tuple(range(5)))
    rows = report.summary(trained, config)
    assert rows[1]["recall"]["0.99"] is None and rows[1]["verdicts"]["0.99"] is None
    assert rows[2]["verdicts"]["0.9"]["difference"] == pytest.approx(-0.4)
    found = {one["claim"]: one["seen"] for one in report.claims({"summary": rows, "runs": trained}, config)}
    assert list(found.items()) == [
        ("a lower temperature makes the likelihood's model more precise", True),
        ("a higher one brings it less than 0.05 of recall", True),
        ("a loss for recall, then temperature, has more recall at precision 0.9", True),
        ("a loss for recall, then temperature, comes nearer to the law (α_1)", True),
        ("a loss for precision, then temperature, has more recall at precision 0.9", False),
        ("a loss for precision, then temperature, comes nearer to the law (α_1)", False),
        ("a loss for precision is more precise at temperature 1", True),
        ("the best loss for recall, then temperature, beats the best one for precision at precision 0.9", True),
        ("it is the weights: shuffled among the targets they bring less recall at precision 0.9", True),
        ("it is the weights: shuffled among the targets they come less near to the law (α_1)", True),
    ]


def test_unknown_names_are_refused(tmp_path):
    for changes, message in (
        ({"arms": ("adam",)}, "--arms adam: expected some of likelihood"),
        ({"tasks": ("sums",)}, "--tasks sums: expected some of multiplication"),
        ({"other_arms": ("focal",)}, "expected 'likelihood' among them"),
        ({"temperatures": (0.5, 2.0)}, "--temperatures 0.5 2.0: expected 1 among them"),
        ({"seeds": ()}, "--seeds, --precisions: expected at least one"),
    ):
        with pytest.raises(ValueError, match=message):
            study.run(replace(CONFIG, output=tmp_path, **changes))
