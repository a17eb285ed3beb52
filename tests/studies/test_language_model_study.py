"""The study of language models on a tiny text: the saved models say what the table says, and nonsense is noticed."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import studies.language_model as study
from sciops.datasets import load_tokenizer
from sciops.evaluation import score_text
from sciops.models import load_model

WORDS = "the cat sat on the mat and the dog sat on the cat while a bird sang to the moon".split()


@pytest.fixture
def config(tmp_path):
    random = np.random.default_rng(0)
    text = " ".join(WORDS[i] for i in random.integers(0, len(WORDS), 4000))
    (tmp_path / "text.txt").write_text(text)
    return study.Config(
        arms=("attention", "polynomial + local"),
        corpus=str(tmp_path / "text.txt"),
        kind="characters",
        vocabulary=40,
        width=16,
        depth=2,
        context=32,
        steps=60,
        scored=500,
        sampled=20,
        rate=1e-2,
        device="cpu",
        output=tmp_path / "run",
    )


def test_the_table_is_that_of_the_saved_models(config, capsys, monkeypatch):
    results = study.run(config)
    stored = json.loads((config.output / "results.json").read_text())
    data = study.text_data(config.corpus, kind="characters", size=40, folder=config.output)
    for row, run in zip(stored["rows"], stored["runs"]):
        assert row["arm"] == run["arm"]
        folder = config.output / run["model"]
        model, tokenizer = load_model(folder), load_tokenizer(folder)
        tokens = tokenizer.encode(tokenizer.decode(data.test[:501]))
        found = score_text(model, tokens, context=32, stride=16, text=tokenizer.decode(tokens[1:]))
        assert row["perplexity"] == pytest.approx(found.perplexity, rel=1e-5)
        assert row["bits_per_byte"] == pytest.approx(found.bits_per_byte, rel=1e-5)
        assert row["bits_per_byte"] == pytest.approx(math.log2(row["perplexity"]), rel=1e-9), "a character is a byte"
        assert row["perplexity"] < 0.8 * row["unigram_perplexity"]
    counts = [row["parameters"] for row in stored["rows"]]
    assert max(counts) / min(counts) < 1.1
    assert set(results["samples"]) == set(config.arms) and all(results["samples"].values())
    assert (config.output / "figures" / "language_model.png").stat().st_size > 0
    said = capsys.readouterr().out
    assert f"{stored['rows'][0]['perplexity']:.2f}" in said
    again = study.run(config)
    assert again["runs"] == stored["runs"] and again["samples"] == results["samples"], "read back"
    text = Path(config.corpus)
    text.write_text(text.read_text().replace("cat", "cxt"))
    monkeypatch.setattr(study, "train_language", lambda *_, **__: pytest.fail("trained anew"))
    for other in (dict(steps=61), dict(vocabulary=12), {}):  # the last: the same options, another text
        with pytest.raises(pytest.fail.Exception, match="trained anew"):
            study.run(replace(config, **other))
    changed = study.text_data(config.corpus, kind="characters", size=40, folder=config.output)
    assert "x" in changed.tokenizer.symbols and "x" not in data.tokenizer.symbols, (
        "the tokenizer is of the text that is there"
    )


def test_models_that_learn_nothing_and_unknown_names_are_said(config, monkeypatch):
    with pytest.raises(ValueError, match="--arms attentions: expected some of 'no mixer'"):
        study.run(replace(config, arms=("attentions",)))
    with pytest.raises(FileNotFoundError, match="corpus 'nowhere'"):
        study.run(replace(config, corpus="nowhere"))
    with pytest.raises(ValueError, match=r"tokens to train on and .* to validate, expected more than context=5000"):
        study.run(replace(config, context=5000))
    broken = replace(config, arms=("attention",), steps=1, rate=1e-9)
    with pytest.raises(RuntimeError, match="no better than the frequencies of tokens: attention"):
        study.run(broken)
    assert (broken.output / "results.json").exists()
