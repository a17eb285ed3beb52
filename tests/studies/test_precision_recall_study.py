"""The study of precision and recall: planted truths of its parts, arms that are what they say, a small run."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from sciops.evaluation import pr_curve
from studies import precision_recall as study
from studies.precision_recall import chain, fields, text
from studies.precision_recall.equation import MEANS, burgers_fields, grid_of

CONFIG = study.Config(
    seeds=(0, 1),
    samples=24,
    neighbours=2,
    other_neighbours=(1, 4),
    splits=2,
    temperatures=(0.5, 1.0),
    chain_steps=4,
    chain_length=3,
    chain_contexts=3,
    text_steps=2,
    text_width=8,
    text_prompt=4,
    text_length=12,
    field_steps=6,
    brief_steps=2,
    points=32,
    train=32,
    workers=1,
)


def test_probabilities_of_the_chain_are_those_of_its_walks():
    made = chain.transitions(0)
    assert (np.count_nonzero(made, -1) == 2).all() and np.allclose(made.sum(-1), 1)
    prompts = ["xxxxxxab", "xxxxxxdc"]
    p = chain.chain_probabilities(made, prompts, 3)
    assert p.sum() == pytest.approx(1) and p.shape == (2, 64)
    every = ["".join(chain.SYMBOLS[k] for k in row) for row in chain.strings(3)]
    for row, prompt in zip(p, prompts):
        for value, string in zip(row, every):
            walk = prompt[-2:] + string
            steps = [made[tuple(chain.SYMBOLS.index(c) for c in walk[i : i + 3])] for i in range(3)]
            assert value == pytest.approx(np.prod(steps) / 2, abs=1e-15)
    written = chain.drawn(made, 4000, seed=1)
    triples = {tuple(map(chain.SYMBOLS.index, written[i : i + 3])) for i in range(3998)}
    assert all(made[triple] > 0 for triple in triples), "no forbidden step is ever taken"
    after = [written[i + 2] for i in range(3998) if written[i : i + 2] == written[:2]]
    share = np.mean([c == after[0] for c in after])
    row = made[chain.SYMBOLS.index(written[0]), chain.SYMBOLS.index(written[1])]
    assert share == pytest.approx(row[chain.SYMBOLS.index(after[0])], abs=0.12)


def test_a_model_that_knows_the_chain_trades_recall_for_nothing_at_temperature_one():
    """Logits that are the chain's own logarithms: P = Q at 1; below, likelier strings; above, forbidden ones too."""
    made = chain.transitions(0)
    prompts = ["aaaaaaab", "aaaaaacd", "aaaaaaba"]
    p = chain.chain_probabilities(made, prompts, 3)
    every = chain.strings(3)
    logits = torch.full((3, 64, 3, 6), -50.0, dtype=torch.float64)
    for i, prompt in enumerate(prompts):
        for j, row in enumerate(every):
            walk = [*(chain.SYMBOLS.index(c) for c in prompt[-2:]), *row]
            for t in range(3):
                logits[i, j, t, 1:5] = torch.from_numpy(np.log(made[walk[t], walk[t + 1]] + 1e-6))
    np.testing.assert_allclose(chain.string_probabilities(logits, 3, 1.0), p, atol=1e-5)
    curves = {t: pr_curve(p.ravel(), chain.string_probabilities(logits, 3, t).ravel()) for t in (0.3, 1.0, 3.0)}
    precise = [curves[t].support_precision for t in (0.3, 1.0, 3.0)]
    assert precise[0] > 1 - 1e-9 and precise[1] > 1 - 1e-4 and precise[2] < 0.98
    assert curves[0.3].f_score(8) < 0.9 < curves[1.0].f_score(8)


def test_logits_of_strings_are_those_of_the_model():
    data = chain.text_of_chain(chain.drawn(chain.transitions(0), 2000, seed=0))
    torch.manual_seed(0)
    model = chain.LanguageModel(len(data.tokenizer), **chain.MODEL).double().eval()
    prompts = ["abcdabcd", "bbbbaaaa"]
    q = chain.string_probabilities(chain.string_logits(model, data, prompts, 2), 2, 0.7)
    for i, j in ((0, 0), (0, 7), (1, 12)):
        string = "".join(chain.SYMBOLS[k] for k in chain.strings(2)[j])
        tokens = torch.from_numpy(np.asarray(data.tokenizer.encode(prompts[i] + string)))
        with torch.no_grad():
            log_p = (model(tokens[None])[0] / 0.7).log_softmax(-1)
        by_hand = sum(float(log_p[t - 1, tokens[t]]) for t in (8, 9))
        assert q[i, j] == pytest.approx(np.exp(by_hand) / 2, rel=1e-9)


def test_prompts_and_reference_are_different_pieces():
    data = text.TextData("t", "", None, np.zeros(0), np.zeros(0), np.arange(1000))
    pieces = text.windows(data, 10, 90, seed=0)
    assert pieces.shape == (90, 10) and len(np.unique(pieces)) == 900
    assert not np.array_equal(pieces, text.windows(data, 10, 90, seed=1))
    with pytest.raises(RuntimeError, match="has 100 pieces of 10 tokens, the study needs 101"):
        text.windows(data, 10, 101, seed=0)
    counts = text.trigrams(np.array([[1, 2, 3, 1, 2, 3], [5, 5, 5, 5, 5, 5]]), 20) ** 2
    assert sorted(counts[0][counts[0] > 0]) == pytest.approx([1, 1, 2]) and counts[1].max() == pytest.approx(4)


def test_arms_are_what_they_say(monkeypatch):
    monkeypatch.setattr(fields, "trained", lambda learnt, *_: learnt)
    monkeypatch.setattr(fields, "predicted", lambda learnt, x, grid: x)  # the input itself
    n, grid = 32, grid_of(64)
    data = burgers_fields(None, 3 * n, 64)
    np.testing.assert_allclose(data["u"].mean(1), data["a"].mean(1), atol=1e-3)  # the mean flow is preserved
    np.testing.assert_allclose(data["a"].mean(1), np.tile(MEANS, 3 * n // 4), atol=1e-10)
    a, u = (torch.from_numpy(data[name])[:, None] for name in ("a", "u"))
    few = torch.arange(2 * n) % 4 < 2
    given = {"every": (a[:n], u[:n]), "two families": (a[: 2 * n][few], u[: 2 * n][few])}
    made = fields.outputs((a, u), given, grid, 0, {"field_steps": 1, "brief_steps": 1, "noise": 0.1})
    assert list(made) == list(fields.ARMS) and all(len(y) == n for _, y in made.values())
    assert set(made["two families"][1].mean(-1).flatten().numpy().round(6)) == {-1.0, -0.333333}
    assert len(np.unique(made["repeats"][1].numpy(), axis=0)) == fields.REPEATED
    whole = made["FNO"][1]
    smooth = torch.fft.rfft(made["smoothed"][1])
    torch.testing.assert_close(smooth[..., :5], torch.fft.rfft(whole)[..., :5])
    assert smooth[..., 5:].abs().max() < 1e-12 < torch.fft.rfft(whole)[..., 5:].abs().max()
    assert float((made["noise"][1] - whole).std() / u[:n].std()) == pytest.approx(0.1, rel=0.1)
    exchanged = made["exchanged"][1]
    assert not torch.equal(exchanged, whole)
    torch.testing.assert_close(exchanged.sort(0).values, whole.sort(0).values)


def test_claims_follow_the_verdict():
    def record(shift):
        scores = {"precision": 0.9, "recall": 0.85}
        arms = {arm: {f: dict(scores) for f in fields.FEATURES} for arm in fields.ARMS}
        arms["two families"]["fields"] = {"precision": 0.9, "recall": 0.4 + shift}
        arms["noise"]["fields"] = {"precision": 0.88 + shift, "recall": 0.85}
        return {"arms": arms}

    config = replace(CONFIG, seeds=tuple(range(5)), smallest=0.05)
    rows = study.claims({"fields": [record(0.01 * s) for s in range(5)]}, config)
    found = {row["claim"]: row["seen"] for row in rows}
    assert found["fields, as fields: recall of 'two families' against the FNO"]
    assert found["fields, as fields: precision of 'two families' against the FNO"], "equal scores are equivalent"
    assert not found["fields, as fields: precision of 'noise' against the FNO"]
    few = study.claims({"fields": [record(0)] * 2}, config)
    assert not any(row["seen"] for row in few) and {row["verdict"].split("] ")[1] for row in few} == {"too few seeds"}


def test_a_small_run_leaves_its_numbers(tmp_path, capsys):
    letters = np.random.default_rng(0).integers(0, 6, 9000)
    (tmp_path / "text.txt").write_text("".join("abcd e"[k] for k in letters))
    config = replace(CONFIG, seeds=(0,), corpus=str(tmp_path / "text.txt"), output=tmp_path / "run")
    results = study.run(config)
    said = capsys.readouterr().out
    stored = json.loads((config.output / "results.json").read_text())
    assert stored["claims"] == results["claims"] and len(stored["fields"]) == len(stored["text"]) == 1
    for name in ("plane", "curves", "features", "samples"):
        assert (config.output / "figures" / f"{name}.png").stat().st_size > 10_000
    assert "lebronnec2024exploring" in (config.output / "citations.bib").read_text()
    assert "24 samples of each cloud; ±0.05 needs 385 at least, more than there are" in said
    cell = results["fields"][0]["arms"]["repeats"]["fields"]
    assert cell["twins"] == pytest.approx(2 / 3), "8 of 16 outputs come twice"
    assert cell["samples"] == 24 and min(cell["needed"].values()) >= 385
    assert set(cell["ceiling"]) == {"precision", "recall", "density", "coverage"}
    solver = results["fields"][0]["arms"]["solver"]
    assert solver["error"] == 0
    cells = sorted((config.output / "cells").iterdir())
    times = [path.stat().st_mtime_ns for path in cells]
    study.run(config)
    assert [path.stat().st_mtime_ns for path in cells] == times, "a second run reads its cells"


def test_refusals(tmp_path):
    for changes, message in (
        ({"parts": ("images",)}, "--parts images: expected some of chain"),
        ({"parts": ()}, "--parts"),
        ({"seeds": ()}, "at least one of each"),
    ):
        with pytest.raises(ValueError, match=message):
            study.run(replace(CONFIG, output=tmp_path, **changes))
