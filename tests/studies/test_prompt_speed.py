"""The prompt study: equal logits before times, what is left, what is refused."""

import json

import pytest

from sciops.models.sequences.language import LanguageModel
from studies import prompt_speed as study

SMALL = dict(tokens=300, checked=200, width=8, depth=1, rounds=1)


def test_a_small_run_leaves_its_numbers(tmp_path, monkeypatch):
    monkeypatch.setattr(study, "peak_memory", lambda function, way, *rest: {"forward": 1000, "prefill": 1200}[way])
    results = study.run(study.Config(mixers=("state_space", "mean_pool"), output=tmp_path, **SMALL))
    assert [row["mixer"] for row in results["rows"]] == ["state_space", "mean_pool"] and len(results["targets"]) == 4
    assert all(row["difference"] < 1e-12 and row["memory"] == 1.2 for row in results["rows"])
    assert "1.2 times its memory" in json.loads((tmp_path / "report.json").read_text())["answer"]
    assert (tmp_path / "figures" / "prompt_speed.png").stat().st_size > 10_000


def test_a_prefill_with_other_logits_ends_the_run(tmp_path, monkeypatch):
    prefill = LanguageModel.prefill
    monkeypatch.setattr(LanguageModel, "prefill", lambda self, x: (prefill(self, x)[0] * (1 + 1e-9), None))
    with pytest.raises(RuntimeError, match="mean_pool: prefill: differs"):
        study.run(study.Config(mixers=("mean_pool",), output=tmp_path, **SMALL))


def test_what_is_refused(tmp_path):
    with pytest.raises(ValueError, match="--mixers self_attention: expected some of"):
        study.run(study.Config(mixers=("self_attention",), output=tmp_path))
    with pytest.raises(ValueError, match="--tokens 1, "):
        study.run(study.Config(tokens=1, output=tmp_path))
