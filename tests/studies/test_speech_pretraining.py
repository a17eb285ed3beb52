"""The study of speech leaves its numbers, reads records back, tells a gain from none, and stops where none can be."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import stats

from sciops.datasets.speech import espeak
from sciops.training.speech import SpeechTraining
from studies import speech_pretraining as study
from studies.speech_pretraining import data as data_of
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
        pretrain_rates=(1e-2,),
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
        speakers = [[v + s for s in (-0.01, 0.0, 0.01, 0.02, -0.02)] for v in values]
        return [
            {"test": {"phonemes": v, "letters": 0.5}, "speakers": {"phonemes": own, "letters": [0.5] * 5}}
            for v, own in zip(values, speakers)
        ]

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
    assert report.gains({"tuning": mixed})[0]["verdict"] == "too few seeds"  # the speakers alone would decide
    worse = {"polynomial": {"pretrained": of(*without)}, "m": {"pretrained": of(*with_it)}}
    assert report.between({"tuning": worse})[0]["verdict"] == "m better"
    assert (
        report.between({"tuning": worse})[0] | {"arm": "pretrained", "speakers": 5}
        == report.between({"tuning": worse})[0]
    )


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


def test_encoders_named_by_what_mixes(config):
    """Without its gate every token reads the same; without convolutions nothing but the subsampling mixes."""
    encoders = {name: runs.maker(config, name, 16_000)() for name in runs.ENCODERS}
    for name, encoder in encoders.items():
        assert abs(sum(p.numel() for p in encoder.parameters()) - 9_000) <= 270, name
    block = encoders["no_gate"].stack.blocks[0].mixer
    y = block(torch.randn(2, 9, block.channels))
    assert torch.equal(y, y[:, :1].expand_as(y)) and not list(block.to_gate.parameters())
    assert encoders["no_convolution"].stack.blocks[0].local is None
    ways = {name: encoders[name].stack.blocks[0].mixer.polynomial.features for name in ("degree_1", "degree_3")}
    assert abs(ways["degree_1"] - ways["degree_3"]) <= 1  # as many features, whatever the degree, but for rounding


def test_joined_recordings_hold_the_utterances_of_one_speaker(config):
    short, long = (study.prepared(replace(config, joined=seconds)) for seconds in (0.0, 2.0))
    corpus = short.corpus
    groups = data_of.recordings(corpus, np.arange(len(corpus)), 2.0)
    assert sorted(i for group in groups for i in group) == list(range(len(corpus)))
    seconds = np.diff(corpus.ends, prepend=0) / corpus.sample_rate
    assert all(len({corpus.speakers[i] for i in group}) == 1 for group in groups)
    last = {corpus.speakers[group[0]]: group for group in groups}
    alone = [group for group in groups if seconds[group].sum() < 2.0]
    assert all(sum(corpus.speakers[other[0]] == corpus.speakers[g[0]] for other in groups) == 1 for g in alone)
    one = data_of._one_of([corpus[i] for i in next(iter(last.values()))])
    assert len(one.audio) == seconds[next(iter(last.values()))].sum() * corpus.sample_rate
    assert list(one.starts) == sorted(one.starts) and len(one.starts) == len(one.phonemes)
    for part in (short.test, long.test):  # letters are those of the texts, tokens those of the times
        assert [len(t) for t in part.tokens] == [-(-len(f) // 4) for f in part.frames]
        for tokens, phonemes in zip(part.tokens, part.phonemes):
            assert set(tokens.tolist()) - {0} <= set(phonemes)
    assert sum(map(len, short.test.phonemes)) == sum(map(len, long.test.phonemes))
    spoken = np.array([3, 1, 2])
    assert data_of.token_phonemes(spoken, np.array([80, 400, 720]), 9, 100).tolist() == [0, 1, 2]


def test_a_recording_has_one_channel(config):
    flat, heard = (study.prepared(replace(config, channel=deviation)) for deviation in (0.0, 2.0))
    gaps = [b - a for a, b in zip(flat.test.frames, heard.test.frames)]
    assert all(torch.allclose(gap, gap[:1].expand_as(gap), atol=1e-4) for gap in gaps)
    offsets = torch.stack([gap[0] for gap in gaps])
    assert offsets.std(0).min() > 0.5  # each recording its own
    assert not data_of.channel_of(12, 0.0, (0, 1)).any()


def test_phonemes_of_tokens_are_learnt_probed_and_compared(config, monkeypatch, capsys):
    with_accuracy(monkeypatch, 0.9)
    monkeypatch.setattr("studies.speech_pretraining.costs.peak_memory", lambda function, given, mixer, n, _: 1000 * n)
    options = dict(mixers=("polynomial", "self_attention", "none"), tuned=("polynomial", "self_attention", "none"))
    options |= dict(arms=("scratch", "pretrained", "probe"), scratch_only=("no_convolution",), targets="tokens")
    options |= dict(joined=1.0, channel=1.0, test_seconds=(0.0, 3.0), labelled=4, beam=None, rates=(3e-3,))
    options |= dict(cost_seconds=(1.0, 2.0), memory_seconds=(1.0,), cost_frames=200, rounds=1, seeds=(0,), batch=4)
    results = study.run(replace(config, **options))
    said = capsys.readouterr().out
    assert "by length of the test recordings" in said and "no_convolution − none" in said
    names = {path.stem for path in (config.output / "figures").iterdir()}
    assert names == {"costs", "errors", "lengths", "masked", "spectrogram"}
    own = results["tuning"]["polynomial"]
    assert set(own["pretrained"][0]["lengths"]) == {"0", "3"} and set(own["probe"][0]["test"]) == {"phonemes"}
    assert len(own["probe"][0]["speakers"]["phonemes"]) == len(results["data"]["test_speakers"])
    assert [row["bytes"] for row in results["costs"]][:4] == [1000.0] * 3 + [None]
    assert {row["mixer"] for row in results["crossings"]} == {"polynomial", "none"}
    folder = config.output / "records"
    learnt = json.loads(next(folder.glob("probe_polynomial_0_*.json")).read_text())["record"]
    assert learnt["loss"][-1] < learnt["loss"][0]


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
        (dict(scratch_only=("polynomial",)), "--scratch-only polynomial"),
        (dict(joined=-1.0), "--joined -1.0"),
        (dict(pretrain_rates=()), "--pretrain-rates"),
        (dict(beam=0), "--beam 0: expected at least 1"),
        (dict(labelled=3), "--labelled 3: expected at least a batch"),
    ):
        with pytest.raises(ValueError, match=said):
            study.run(replace(config, **options))
