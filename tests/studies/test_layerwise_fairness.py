"""The study of bias by layer: the rules of its claims, and a small run that leaves its numbers."""

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.special import ndtr

from studies import layerwise_fairness as study
from studies.kit import accents
from studies.layerwise_fairness import cells, report

pytest.importorskip("sklearn")

TINY = replace(
    study.PRESETS["quick"],
    parts=("fields",),
    seeds=(0, 1),
    points=13,
    fields=48,
    field_steps=2,
    field_width=4,
    field_depth=2,
    draws=20,
    workers=1,
)
FOUND = SimpleNamespace(smallest=0.01)


def curve(gap, rho, ratio=1.5):
    layers = ["block 1", "block 2"]
    bias = {"difference": [gap, gap], "ratio": [ratio, 1.0], "log odds": [gap, gap], "spread": [0.0, 0.0]}
    trend = dict.fromkeys(report.TRENDS, rho)
    return {"layers": layers, "bias": bias, "trend": trend, "groups": {}, "onset": None, "warning": ""}


def fields(curves):
    return {"fields": [{"arms": {"FNO, trained": {"identity": c, "content": c}}} for c in curves]}


def test_a_claim_needs_a_verdict_that_outlives_holm():
    clear = fields([curve(0.2 + 0.001 * i, -0.9 + 0.001 * i) for i in range(5)])
    rows = {row["claim"]: row for row in report.claims(clear, FOUND)}
    assert len(rows) == 8
    assert rows["FNO, trained, content: worse for the rarer group from the first layer on"]["seen"]
    assert rows["FNO, trained, content: bias (log odds) largest where the error is least"]["seen"]
    other = rows["FNO, trained, identity: bias (log odds) least where the error is least"]
    assert other["against"] and not other["seen"]
    # p of 0.014 alone: a verdict, but no finding among eight
    weak = fields([curve(gap, 0.0) for gap in (0.06, 0.02, 0.06, 0.10, 0.04)])
    row = report.claims(weak, FOUND)[0]
    assert row["winner"] == "first" and row["p"] > 0.05 and not row["seen"] and not row["against"]


def test_a_ratio_to_no_error_is_left_out():
    rows = report.claims(fields([curve(0.1, 0.5), curve(0.1, 0.5, ratio=None)]), FOUND)
    assert len(rows) == 6 and not any("ratio" in row["claim"] for row in rows)
    assert cells._listed(np.array([1.0, np.inf, np.nan])) == [1.0, None, None]


@pytest.mark.parametrize(
    ("gaps", "p"), [([0.0, 0.0], 1.0), ([0.3], 1.0), ([0.5, 0.5], 0.0), ([1.0, 2.0, 3.0], 0.0741799)]
)
def test_p_values(gaps, p):
    assert report._p_value(np.array(gaps)) == pytest.approx(p, abs=1e-6)


def test_a_shift_that_a_pooled_probe_hides_is_seen():
    def arms(i, shift):
        return {"arms": {"random": {"content": curve(0.001 * i, 0.0), "content, reference probe": curve(shift, 0.0)}}}

    (row,) = report.hidden_shift({"speech": [arms(i, 0.1 + 0.002 * i) for i in range(5)]}, FOUND)
    assert row["seen"] and row["alone"].mean == pytest.approx(0.104) and row["pooled"].mean == pytest.approx(0.002)
    (row,) = report.hidden_shift({"speech": [arms(i, 0.001 * i) for i in range(5)]}, FOUND)
    assert not row["seen"] and not row["against"]
    assert report.hidden_shift({}, FOUND) == []


def test_planted_speech_has_a_shift_that_the_pooled_probe_hides(tmp_path, monkeypatch):
    """Phonemes at ±1 on one axis, which en-029 has moved by 1; the voice and a noise of 0.7 on others."""
    rng = np.random.default_rng(0)
    names = [(accent, f"{accent}+v{i}", i) for accent in accents.ACCENTS for i in range(10) for _ in range(128)]
    accent, speaker, voice = (np.array(column) for column in zip(*names))
    phoneme, at = rng.integers(0, 2, len(names)), np.arange(len(names))
    sentence = at % 8
    h = 0.7 * rng.standard_normal((len(names), 5))
    h[:, 0] += 2 * phoneme - 1 + (accent == cells.GROUP)
    h[:, 1:3] += 6 * np.stack([np.cos(voice), np.sin(voice)], 1)
    names_of = np.array(["a", "t"])
    segments = accents.Segments(at, at, at + 1, names_of[phoneme], speaker, accent, sentence, names_of[phoneme])
    layers = {"log-mel": h}
    monkeypatch.setattr(cells, "accent_states", lambda *_, hold_sentences: (segments, {"random": layers}, {}))
    one = cells.speech_cell(tmp_path, 0, {"strength": 1.0, "draws": 100})["arms"]["random"]
    pooled, alone = (one[task]["bias"]["difference"][0] for task in ("content", "content, reference probe"))
    error = 0.5 * (ndtr(-2 / 0.7) + ndtr(0.0))  # of en-029 by the threshold of the others, at 0
    assert one["content, reference probe"]["groups"][cells.GROUP][0] == pytest.approx(error, abs=0.06)
    assert alone > 0.1 and alone > pooled + 0.05
    assert one["identity"]["groups"]["en-US"][0] < 0.6  # chance is 0.9
    assert 0.4 < one["accent"]["log-mel"] < 0.75  # chance is 0.667, and the shift is little of it
    by_group = one["content"]["groups"]
    assert pooled == pytest.approx(by_group[cells.GROUP][0] - by_group["en-US"][0], abs=1e-12)


def test_a_small_run_leaves_its_numbers_and_resumes(tmp_path, monkeypatch, capsys):
    config = replace(TINY, output=tmp_path)
    results = study.run(config)
    said = capsys.readouterr().out
    assert "input, identity" in said and "claims of arXiv:2604.18249" in said and "inf" not in said
    saved = json.loads((tmp_path / "results.json").read_text())
    assert len(saved["fields"]) == 2 and set(saved["fields"][0]["arms"]) >= {"input", "FNO, random", "MANO, trained"}
    assert (tmp_path / "figures" / "layers.png").stat().st_size > 10_000
    one = results["fields"][0]["arms"]["FNO, trained"]["content"]
    rough, smooth = (np.array(one["groups"][g]) for g in ("rough", "smooth"))
    np.testing.assert_allclose(one["bias"]["difference"], rough - smooth, atol=1e-12)
    assert ((rough >= 0) & (rough <= 1)).all()

    def never(*_):
        raise AssertionError("trained again")

    monkeypatch.setattr(cells, "field_states", never)
    assert study.run(config)["claims"] == results["claims"]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"parts": ("film",)}, "--parts"),
        ({"seeds": ()}, "--seeds"),
        ({"voices": ("m1", "f1")}, "at least 10"),
    ],
)
def test_a_configuration_that_cannot_be_run_is_refused(tmp_path, change, says):
    with pytest.raises(ValueError, match=says):
        study.run(replace(TINY, output=tmp_path, **change))
