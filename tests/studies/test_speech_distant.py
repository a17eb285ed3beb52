"""The tasks that need distant tokens ask what they say, and their verdicts say what was found."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from studies import speech_pretraining as study
from studies.speech_pretraining import distant, runs
from studies.speech_pretraining.distant import recordings, report, trainings


@pytest.fixture
def config(tmp_path):
    own = distant.Distant(
        tasks=("count", "key"),
        vocabulary=("one", "two", "six"),
        keys=("red", "blue"),
        words=5,
        accents=("gmw/en-US",),
        voices=("m1", "m2", "m3", "f1", "f2"),
        recordings=8,
        validated=2,
        tested=4,
        validation=0.2,
        test=0.4,
        mixers=("polynomial_4d", "mean_pool"),
        controls=("mean_pool",),
        longer=("mean_pool",),
        pretrained=("polynomial_4d",),
        parameters=9_000,
        depth=1,
        front_channels=2,
        bins=12,
        codes=4,
        steps=(3, 2),
        labelled_batch=4,
        rates=(3e-3,),
        pretrain_steps=2,
        batch=4,
        seeds=(0,),
    )
    folders = {"corpora": tmp_path / "corpora", "output": tmp_path / "out"}
    return study.Config(family="tones", mixers=(), tuned=(), cost_seconds=(), distant=own, **folders)


def test_targets_are_naive_counts_names_and_keys(config):
    data = recordings.spoken(config)
    assert set(data.test.speakers).isdisjoint(data.unlabelled.speakers) and data.about["family"] == "tones"
    permutations = data.about["permutations"]
    assert len(permutations) == 2 and all(sorted(row) == [0, 1, 2] for row in permutations)
    words = data.symbols["words"]
    for name in recordings.PARTS:
        part = getattr(data, name)
        targets = {task: data.targets[task][name] for task in ("count", "name", "key")}
        for i, said in enumerate(part.said):
            names = [words[k - 1] for k in said]
            assert names[0] in ("red", "blue") and len(names) == 6
            assert all(a != b for a, b in zip(names, names[1:])) and set(names[1:]) <= {"one", "two", "six"}
            classes = data.symbols["count"]
            often = [str(names.count(one)) if names.count(one) < 3 else "3+" for one in names[1:]]
            assert targets["count"][i][0] == 0 and [classes[k - 1] for k in targets["count"][i][1:]] == often
            row = permutations[("red", "blue").index(names[0])]
            assert targets["name"][i].tolist() == [0, 0, *(row[k - 1] + 1 for k in said[2:])]
            assert [data.symbols["key"][k - 1] for k in targets["key"][i][2:]] == [names[0]] * 4
            assert targets["key"][i][:2].tolist() == [0, 0]
            # every word is heard at some tokens, in order, and pauses lie around it
            place = part.place[i].tolist()
            heard = [k for k, before in zip(place, [-1, *place]) if k != before]
            assert [k for k in heard if k] == [1, 2, 3, 4, 5, 6] and len(place) == -(-len(part.frames[i]) // 4)


def test_a_word_has_the_likeliest_class_of_all_its_tokens():
    said, place = [np.array([2, 1])], [torch.tensor([0, 1, 1, 2, 2, 0])]
    part = recordings.Recordings([torch.zeros(24, 3)], place, said, ["a"])
    p = torch.tensor([[0.5, 0.5], [0.1, 0.9], [0.6, 0.4], [0.8, 0.2], [0.3, 0.7], [0.9, 0.1]])
    logits = torch.cat([torch.full((6, 1), 9.0), p.log()], 1)[None]  # a score that no class has

    class Given(torch.nn.Module):
        heads = {"words": torch.nn.Identity()}

        def encoded(self, mel, frames):
            return logits, frames

    # products 0.1·0.6 < 0.9·0.4 → 2; 0.8·0.3 > 0.2·0.7 → 1
    assert trainings.word_errors(Given(), "words", part, said) == (0.0, [0.0])
    assert trainings.word_errors(Given(), "words", part, [np.array([1, 1])]) == (0.5, [0.5])
    assert trainings.word_errors(Given(), "words", part, [np.array([0, 2])]) == (1.0, [1.0])


def test_a_small_run_says_what_was_expected_and_is_read_back(config, capsys, monkeypatch):
    results = study.run(config)["distant"]
    said = capsys.readouterr().out
    assert "words of tones" in said and "from the word alone" in said and "as expected" in said
    assert {path.name for path in (config.output / "figures").iterdir()} == {"distant.png", "distant_curves.png"}
    assert set(results["tasks"]["count"]["mean_pool"]) == {"scratch", "longer"}
    assert set(results["tasks"]["key"]) == {"mean_pool"}
    runs_of = results["tasks"]["count"]["polynomial_4d"]
    assert [len(run["curve"]) for run in runs_of["scratch"]] == [3]
    assert len(results["tasks"]["count"]["mean_pool"]["longer"][0]["curve"]) == 6
    assert runs_of["scratch"][0]["curve"][0] != runs_of["pretrained"][0]["curve"][0]
    main = [row for row in results["between"] if row["main"]]
    assert [(row["task"], row["first"], row["second"]) for row in main] == [report.MAIN] and "corrected" not in main[0]
    assert distant.number_of_trainings(config.distant) == len(list((config.output / "records").glob("*.json")))
    monkeypatch.setattr(trainings, "fit_steps", None)
    monkeypatch.setattr(runs, "pretrain", None)
    assert study.run(config)["distant"]["summary"] == results["summary"]


def test_arms_of_the_preset_have_one_number_of_parameters():
    own = study.PRESETS["distant"]
    inner = trainings.own_settings(own)
    for name in own.distant.mixers:
        encoder = runs.maker(inner, name, 22_050)()
        assert abs(sum(p.numel() for p in encoder.parameters()) - own.distant.parameters) <= 600, name


def test_verdicts_name_a_better_encoder_an_equivalent_one_or_none():
    def of(values, spread=0.0):
        return [{"speakers": [v + spread * s for s in (-1, 0, 1, 2, -2)]} for v in values]

    low, high = of((0.01, 0.02, 0.0, 0.01, 0.02)), of((0.2, 0.25, 0.22, 0.21, 0.2))
    row = {"first": "a", "second": "b", "expected": report.ABOVE} | report.judged(high, low, "a", "b")
    assert row["verdict"] == "b better" and report.met(row) == "yes"
    row |= report.judged(low, high, "a", "b")
    assert row["verdict"] == "a better" and report.met(row) == "no"
    near = of((0.02, 0.01, 0.01, 0.0, 0.01))
    row |= report.judged(low, near, "a", "b") | {"expected": report.SAME}
    assert row["verdict"] == "equivalent" and report.met(row) == "yes"
    row |= report.judged(of((0.5, 0.0, 0.4, 0.1, 0.0)), low, "a", "b")
    assert report.met(row) == "undecided" and report.met(row | {"expected": report.UNKNOWN}) is None
    row |= report.judged(high, low, "a", "b")
    assert report.met(row) == "no"  # expected the same


def test_refusals(config):
    for options, said in (
        (dict(mixers=("maxwell",)), "--distant.mixers maxwell"),
        (dict(longer=("none",)), "--distant.longer none"),
        (dict(steps=(3,)), "--distant.steps 3: expected 2, one for each"),
        (dict(pretrain_rates=()), "--distant.pretrain-rates"),
        (dict(words=1), "--distant.words 1"),
        (dict(keys=()), "at least two and a key"),
        (dict(keys=("one",)), "all different"),
    ):
        with pytest.raises(ValueError, match=said):
            study.run(replace(config, distant=replace(config.distant, **options)))
