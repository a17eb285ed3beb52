"""The study of speech leaves its numbers, reads records back, tells a gain from none, and stops where none can be."""

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from sciops.datasets.speech import espeak
from sciops.training.speech import SpeechTraining
from studies import speech_pretraining as study
from studies.speech_pretraining import report, runs


@pytest.fixture
def config(tmp_path):
    return study.Config(
        family="tones",
        text="python",
        sentences=24,
        each=3,
        shortest=4,
        longest=9,
        validation=0.2,
        test=0.3,
        labelled=6,
        mixers=("polynomial", "none"),
        tuned=("polynomial",),
        arms=("scratch", "pretrained"),
        parameters=9_000,
        depth=1,
        front_channels=2,
        bins=12,
        codes=4,
        pretrain_steps=5,
        batch=8,
        pretrain_rate=1e-2,
        steps=4,
        labelled_batch=4,
        rates=(1e-3, 3e-3),
        beam=2,
        seeds=(0, 1),
        cost_seconds=(),
        corpora=tmp_path / "corpora",
        output=tmp_path / "out",
    )


def with_accuracy(monkeypatch, accuracy):
    """What the study's pre-trainings found, but for the accuracy: five steps learn nothing to rely on."""
    true = study._pretrainings

    def doctored(*arguments):
        records = true(*arguments)
        for one in records["polynomial"] + records["none"]:
            one["after"]["accuracy"] = accuracy
        return records

    monkeypatch.setattr(study, "_pretrainings", doctored)


def test_a_small_run_leaves_its_numbers_and_is_read_back(config, capsys, monkeypatch):
    with_accuracy(monkeypatch, 0.9)
    results = study.run(config)
    said = capsys.readouterr().out
    assert "language of tones" in said and "masked acc." in said and "against scratch" in said
    stored = json.loads((config.output / "results.json").read_text())
    assert stored["summary"] == results["summary"] and len(stored["gains"]) == 2
    assert {path.name for path in (config.output / "figures").iterdir()} == {
        "errors.png",
        "masked.png",
        "spectrogram.png",
    }
    assert "chiu2022self" in (config.output / "citations.bib").read_text()
    row = results["summary"][0]
    assert abs(row["parameters"] - 9_000) <= 270 and row["uniform"] == 1 / 4
    assert row["accuracy"] == 0.9 and 1 / 4 <= row["commonest"] < 1
    own = results["tuning"]["polynomial"]
    for arm, steps in (("scratch", 4), ("pretrained", 4)):
        assert [len(run["loss"]) for run in own[arm]] == [steps] * 2
        tried = [
            json.loads(path.read_text())["record"]
            for path in (config.output / "records").glob(f"{arm}_polynomial_0_*.json")
        ]
        best = min(tried, key=lambda one: sum(one["validation"].values()))
        assert len(tried) == 2 and own[arm][0]["rate"] == own[arm][1]["rate"] == best["rate"]
        assert {"letters", "phonemes", "letters_beam", "phonemes_beam"} == set(own[arm][0]["test"])
    longer = runs.fine_tuned(replace(config, beam=None), "polynomial", "longer", 1e-3, 0, study.prepared(config))
    assert len(longer["loss"]) == 9 and set(longer["test"]) == {"letters", "phonemes"}
    # both arms start from the same heads, and the pre-trained encoder is another one
    assert own["scratch"][0]["loss"][0] != own["pretrained"][0]["loss"][0]
    monkeypatch.setattr(study, "draw", lambda *_: None)
    monkeypatch.setattr(runs, "fit_steps", None)
    monkeypatch.setattr(runs, "pretrain", None)
    assert study.run(config)["summary"] == results["summary"]
    with_accuracy(monkeypatch, 0.0)
    with pytest.raises(RuntimeError, match="no encoder finds masked codes"):
        study.run(config)


def test_a_gain_is_told_from_none():
    def of(*values):
        return [{"test": {"phonemes": v, "letters": 0.5}} for v in values]

    without, with_it = (0.5, 0.6, 0.55, 0.52, 0.58), (0.4, 0.45, 0.45, 0.41, 0.44)
    rows = report.gains({"tuning": {"m": {"scratch": of(*without), "pretrained": of(*with_it)}}})
    per, cer = rows
    gaps = np.subtract(without, with_it)
    assert per["mean"] == pytest.approx(0.12) and per["verdict"] == "lower"
    half = stats.t.ppf(0.975, 4) * stats.sem(gaps)
    assert (per["low"], per["high"]) == pytest.approx((0.12 - half, 0.12 + half))
    assert cer["mean"] == 0 and cer["verdict"] == "equivalent"
    three = {"m": {"scratch": of(*without[:3]), "pretrained": of(*with_it[:3])}}
    assert report.gains({"tuning": three})[0]["verdict"] == "too few seeds"
    mixed = {"m": {"scratch": of(0.5, 0.6, 0.4, 0.3, 0.6), "pretrained": of(*with_it)}}
    assert report.gains({"tuning": mixed})[0]["verdict"] == "undecided"
    worse = {"polynomial": {"pretrained": of(*without)}, "m": {"pretrained": of(*with_it)}}
    assert report.between({"tuning": worse})[0]["verdict"] == "m better"


def test_parts_share_nothing_and_targets_are_what_was_said(config):
    data = study.prepared(config)
    assert data.about["family"] == "tones" and data.about["recordings"]["labelled"] == 6
    letters = data.symbols["letters"]
    texts = {"".join(letters[k - 1] for k in one) for one in data.test.letters}
    trained = {"".join(letters[k - 1] for k in one) for one in data.unlabelled.letters}
    assert texts and not texts & trained and texts <= set(data.corpus.texts)
    for one, said in zip(data.test.letters, data.test.phonemes):
        spoken = [data.symbols["phonemes"][k - 1] for k in said]
        assert spoken == [letters[k - 1] for k in one if letters[k - 1] != " "]
    with pytest.raises(ValueError, match="--labelled 9999"):
        study.prepared(replace(config, labelled=9999))


def test_a_stopped_fine_tuning_goes_on_where_it_was(config, monkeypatch, tmp_path):
    data, true, steps = study.prepared(config), runs.ctc_loss, []
    whole = runs.fine_tuned(replace(config, output=tmp_path / "whole"), "none", "scratch", 1e-3, 0, data)

    def stopped(*arguments):
        steps.append(1)
        if len(steps) == 7:  # two a step
            raise KeyboardInterrupt
        return true(*arguments)

    every = lambda **options: SpeechTraining(checkpoint_every=1, **options)  # noqa: E731
    monkeypatch.setattr(runs, "SpeechTraining", every)
    monkeypatch.setattr(runs, "ctc_loss", stopped)
    with pytest.raises(KeyboardInterrupt):
        runs.fine_tuned(config, "none", "scratch", 1e-3, 0, data)
    again = runs.fine_tuned(config, "none", "scratch", 1e-3, 0, data)
    assert len(steps) == 7 + 2 and again["loss"] == whole["loss"] and again["test"] == whole["test"]
    assert [path.suffix for path in (config.output / "records").iterdir()] == [".json"]


def test_without_espeak_tones_stand_in(config, monkeypatch):
    from studies.speech_pretraining.data import family_of

    monkeypatch.setattr(espeak, "library_path", lambda: None)
    assert family_of(replace(config, family="auto")) == "tones"
    assert family_of(replace(config, family="espeak")) == "espeak"


def test_refusals(config):
    for options, said in (
        (dict(mixers=("maxwell",)), "--mixers maxwell"),
        (dict(tuned=("mean_pool",)), "--tuned mean_pool"),
        (dict(arms=("half",)), "--arms half"),
        (dict(beam=0), "--beam 0: expected at least 1"),
        (dict(labelled=3), "--labelled 3: expected at least a batch"),
    ):
        with pytest.raises(ValueError, match=said):
            study.run(replace(config, **options))
