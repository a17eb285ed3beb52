"""The study of random and systematic errors: theory of its plants, its rules, a small run that leaves its numbers."""

import json
import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.special import ndtr

from studies import embedding_errors as study
from studies.embedding_errors import cells, crossing, plants, report
from studies.kit import accents

pytest.importorskip("sklearn")

TINY = replace(
    study.PRESETS["quick"],
    parts=("plants", "fields"),
    seeds=(0, 1),
    plant_samples=1500,
    plant_steps=2,
    plant_draws=10,
    random_draws=1,
    points=13,
    fields=64,
    field_steps=2,
    field_width=4,
    field_depth=1,
    draws=20,
    workers=1,
)


@pytest.mark.parametrize(
    ("name", "to_b", "own"),
    [
        ("none", ndtr(1), ndtr(1)),
        ("shift 1", (ndtr(2) + ndtr(0)) / 2, ndtr(1)),
        ("noise × 2", ndtr(0.5), ndtr(0.5)),
        ("shift 1, noise × 2", (ndtr(1) + ndtr(0)) / 2, ndtr(0.5)),
        ("turned by 1 rad", ndtr(math.cos(1)), ndtr(1)),
        ("stretched × 3, three classes", (2 * ndtr(5 / 3) + 2 * ndtr(1 / 3) - 1) / 3, (4 * ndtr(1) - 1) / 3),
    ],
)
def test_the_theory_of_a_plant_is_that_of_its_thresholds(name, to_b, own):
    plant = plants.PLANTS[name]
    assert 1 - plant.error({"A": 1.0}, "B") == pytest.approx(to_b, abs=1e-12)
    assert 1 - plant.error({"B": 1.0}, "B") == pytest.approx(own, abs=1e-12)


def test_the_probe_of_both_groups_has_its_threshold_between_them():
    plant = plants.PLANTS["shift 1"]  # a fifth of the samples lies 1 further
    right = (ndtr(1 + 1 - 0.2) + ndtr(1 - 1 + 0.2)) / 2
    assert 1 - plant.error({"A": 0.8, "B": 0.2}, "B") == pytest.approx(right, abs=1e-12)


def test_plants_are_typed_as_they_were_planted():
    for name in ("noise × 2", "turned by 1 rad", "stretched × 3, three classes"):
        plant = plants.PLANTS[name]
        found = plants.planted(name, 12_000, seed=50)
        assert found["verdict"] == plant.verdict == found["required"], name
        for key, expected in found["theory"].items():
            assert found["measured"][key] == pytest.approx(expected, abs=0.035), (name, key)
        assert found["b2"] == pytest.approx(found["b2 in theory"], abs=0.15 + 0.05 * found["b2 in theory"])
        assert found["tau"] == pytest.approx(found["tau in theory"], abs=0.12)
        assert found["identity"] < 1e-12


def speech(rng, voices=12, each=240, features=5):
    """Phonemes of one accent, in sentences that all voices say; a voice has an offset of its own."""
    voice = np.repeat(np.arange(voices), each)
    sentence = np.tile(np.arange(each) // 10, voices)
    phoneme = rng.integers(0, 4, len(voice))
    centers = 2.0 * rng.standard_normal((4, features))
    h = (
        rng.standard_normal((len(voice), features))
        + centers[phoneme]
        + 0.2 * rng.standard_normal((voices, features))[voice]
    )
    return h, np.array(list("aeiu"))[phoneme], voice.astype(str), sentence


def test_the_four_cells_of_planted_speech_are_typed_right():
    rng = np.random.default_rng(0)
    h, phoneme, voice, sentence = speech(rng)
    other = crossing.some_recordings(
        np.unique(np.stack([voice.astype(int), sentence]), axis=1, return_inverse=True)[1], 0
    )
    first, half = voice.astype(int) < 6, sentence < 12
    folds = [(first == v) & (half == s) for v in (True, False) for s in (True, False)]
    asked = [(first != v) & (half != s) for v in (True, False) for s in (True, False)]
    options = {"train": np.stack(folds), "test": np.stack(asked), "draws": 200, "strength": 1.0, "smallest": 0.02}
    rows = crossing.crossed(h, phoneme, voice, other, 0, shift=4.0, noise=2.0, **options)
    assert [row["verdict"] for row in rows] == [row["required"] for row in rows]
    none, shifted, noisy, both = rows
    assert both["gap"] > max(shifted["gap"], noisy["gap"]) > none["gap"] + 0.1
    assert both["systematic"] < shifted["systematic"]  # noise hides a part of the shift


def test_a_probe_that_has_heard_the_test_sentences_finds_what_is_not_there():
    rng = np.random.default_rng(4)
    voice = np.repeat(np.arange(12), 240)
    token = np.tile(np.arange(240), 12)  # said alike by every voice
    phoneme = rng.integers(0, 4, 240)[token]
    place = 2.0 * rng.standard_normal((240, 40)) + 0.8 * rng.standard_normal((4, 40))[phoneme[:240]]
    h = place[token] + 0.3 * rng.standard_normal((2880, 40))
    first, half = voice < 6, token // 10 < 12
    train = np.stack([(first == v) & (half == s) for v in (True, False) for s in (True, False)])
    test = np.stack([(first != v) & (half != s) for v in (True, False) for s in (True, False)])
    options = {"train": train, "test": test, "draws": 100, "strength": 1.0, "smallest": 0.02}
    found = crossing.held_out(h, np.array(list("aeiu"))[phoneme], voice.astype(str), token // 10, 0, **options)
    assert found["voices"]["systematic"] > 0.2 and found["voices"]["verdict"].startswith("systematic")
    # 60 tokens to learn from leave some by chance
    assert abs(found["voices and sentences"]["systematic"]) < found["voices"]["systematic"] / 3


def test_training_and_test_segments_share_no_voice_and_no_sentence():
    names = [
        (f"{a}+m{v}", a, f"s{s}") for a in ("en-US", "en-029") for v in range(4) for s in range(6) for _ in range(2)
    ]
    speaker, accent, sentence = (np.array(column) for column in zip(*names))
    at = np.arange(len(names))
    segments = accents.Segments(at, 4 * at, 4 * at + 4, accent, speaker, accent, sentence, accent)
    folds = accents.blocks(segments, seed=0)
    voice = np.array([name.split("+")[1] for name in speaker])
    for train, test in folds:
        assert train.any() and test.any()
        assert not {*voice[train]} & {*voice[test]} and not {*sentence[train]} & {*sentence[test]}
    assert np.all(sum(test.astype(int) for _, test in folds) == 1)
    moved = segments.jittered(3, seed=0)
    assert (moved.first >= 0).all() and (moved.last > moved.first).all() and (moved.first != segments.first).any()
    assert (np.abs(moved.last - segments.last) <= 3).all()


def test_segments_are_means_of_their_frames():
    import torch

    states = [torch.arange(12.0).reshape(6, 2), torch.ones(3, 2)]
    at = np.array([0, 0, 1])
    segments = accents.Segments(at, np.array([0, 3, 2]), np.array([4, 6, 9]), *[at] * 5)
    found = accents.pooled_segments(states, segments, 2)
    np.testing.assert_allclose(found, [[1, 2], [3, 4], [1, 1]])


def parts(irreducible, systematic, centred, whitened=0.0):
    rng = np.random.default_rng(0)
    values = {"irreducible": irreducible, "systematic": systematic, "centred": centred, "whitened": whitened}
    return [
        {"gap": irreducible + systematic} | {name: v + 0.002 * rng.standard_normal() for name, v in values.items()}
        for _ in range(5)
    ]


@pytest.mark.parametrize(
    ("given", "verdict"),
    [
        ((0.0, 0.0, 0.0), "none"),
        ((0.1, 0.0, 0.0), "random"),
        ((0.0, 0.1, 0.0), "systematic, removed by centring"),
        ((0.0, 0.1, 0.1), "systematic, removed by whitening"),
        ((0.0, 0.1, 0.1, 0.1), "systematic, structural"),
        ((0.1, 0.1, 0.0), "both"),
    ],
)
def test_a_gap_is_typed_over_seeds(given, verdict):
    assert report.typed(parts(*given), 0.02) == verdict
    assert report.typed(parts(*given)[:4], 0.02) == "too few seeds"


def test_bias_and_variance_over_trainings_add_up():
    rng = np.random.default_rng(1)
    target = 1 + 0.1 * rng.standard_normal((40, 8, 8))
    group = np.repeat(["smooth", "rough"], 20)
    off = 0.2 * (group == "rough")[:, None, None]  # off alike in every training
    trainings = [
        {"prediction": target + off + 0.1 * rng.standard_normal(target.shape), "target": target, "group": group}
    ]
    trainings += [
        trainings[0] | {"prediction": target + off + 0.1 * rng.standard_normal(target.shape)} for _ in range(7)
    ]
    found = report.exact_split(trainings, SimpleNamespace(draws=200))
    assert found["identity"] < 1e-12
    assert found["gap"]["bias"][0] == pytest.approx(0.04, rel=0.1) and found["gap"]["bias"][1] > 0.03
    assert abs(found["gap"]["variance"][0]) < 0.002
    assert found["groups"]["smooth"]["variance"] == pytest.approx(0.01, rel=0.1)


def field_seed(i, gain):
    one = {
        "gains": {"rough": gain + 0.001 * i},
        "geometry": {"rough": {"within": 1.2 + 0.01 * i}, "smooth": {"within": 1.0}},
        "splits": {"rough": {"reference": {"gap": 0.1, "irreducible": 0.02, "systematic": 0.08 + 0.001 * i}}},
        "link": [0.3 + 0.01 * i, 0.1, 0.5],
    }
    return {network: {"arms": {"trained": {"block 1": {"content": one}}}} for network in cells.NETWORKS}


def test_claims_are_seen_reversed_or_not_seen():
    rows = report.claims({"fields": [field_seed(i, 0.0) for i in range(5)]}, SimpleNamespace(smallest=0.02))
    found = {row["claim"]: row for row in rows if row["claim"].startswith("FNO")}
    assert not found["FNO: a probe of rough fields alone has fewer errors in them"]["seen"]
    assert found["FNO: classes of rough fields scatter more"]["seen"]
    assert found["FNO: random above systematic error"]["against"]
    assert found["FNO: fields far from their class have more errors"]["seen"]


def test_scatter_and_shift_of_a_group_are_those_planted():
    rng = np.random.default_rng(2)
    cluster = np.repeat(np.arange(40), 100)
    group, y = np.where(cluster % 2 == 0, "A", "B"), rng.integers(0, 3, 4000)
    centers = 4.0 * np.eye(3)
    h = rng.standard_normal((4000, 3)) * np.where(group == "B", 1.5, 1.0)[:, None] + centers[y]
    h[group == "B"] += [0.0, 0.0, 2.0]
    for single in (False, True):
        labels = np.arange(4000) if single else cluster
        a, b = (cells._geometry(h, y, group, labels, "A", g) for g in "AB")
        assert b["within"] / a["within"] == pytest.approx(2.25, rel=0.05)
        assert (a["within"] + b["within"]) / 2 == pytest.approx(1.0, abs=0.02)
        # a third of the squared distance 32/3 of three corners from their centre
        assert b["shift"] == pytest.approx(4 / (32 / 3), rel=0.15) and b["common"] == pytest.approx(
            b["shift"], rel=0.05
        )
        assert a["separation"] == pytest.approx(1.5 * b["separation"], rel=0.05)


def test_a_small_run_leaves_its_numbers_and_resumes(tmp_path, monkeypatch, capsys):
    config = replace(TINY, output=tmp_path)
    few = {name: plants.PLANTS[name] for name in ("none", "turned by 1 rad")}
    monkeypatch.setattr(plants, "PLANTS", few)
    results = study.run(config)
    said = capsys.readouterr().out
    assert "split exactly over 2 trainings" in said and "claims of arXiv:2604.22631" in said and "inf" not in said
    saved = json.loads((tmp_path / "results.json").read_text())
    assert len(saved["plants"]) == 2 and {*saved["plants"][0]["plants"]} == {*few}
    for name in ("plants.png", "layers.png"):
        assert (tmp_path / "figures" / name).stat().st_size > 10_000
    one = results["fields"][0]["FNO"]["arms"]["trained"]["block 1"]["content"]
    split = one["splits"]["rough"]["reference"]
    assert split["gap"] == pytest.approx(split["irreducible"] + split["systematic"], abs=1e-12)
    assert results["split"]["MANO"]["identity"] < 1e-10

    def never(*_):
        raise AssertionError("trained again")

    monkeypatch.setattr(cells, "field_states", never)
    monkeypatch.setattr(plants, "adversarial", never)
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
