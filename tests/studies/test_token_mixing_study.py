"""The study of token mixing: a small run leaves its numbers, wrong counts and orders show."""

import json
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
import torch

from sciops.runs import plain
from studies import token_mixing as study
from studies.token_mixing import report, runs

ARMS = ("first order", "2^k, pruned", "dense recurrence")
CONFIG = replace(
    study.PRESETS["quick"],
    arms=ARMS,
    steps=(4, 3, 4),
    width=8,
    copy_length=5,
    recall_length=16,
    pairs=2,
    recall_symbols=20,
    chain_length=8,
    samples=20,
    lengths=(16, 32, 64, 128),
    order_depths=(),
    states_to=64,
    workers=1,
)


def test_a_small_run_leaves_its_numbers_and_is_read_back(tmp_path, capsys, monkeypatch):
    config = replace(CONFIG, output=tmp_path)
    results = study.run(config)
    said = capsys.readouterr().out
    assert json.loads((tmp_path / "results.json").read_text())["summary"] == plain(results["summary"])
    for name in ("accuracy", "cost"):
        assert (tmp_path / "figures" / f"{name}.png").stat().st_size > 10_000
    assert len(results["runs"]) == 3 * 3 * 2 == len(list((tmp_path / "trainings").iterdir()))
    table = results["summary"]["copy"]["arms"]
    assert table["2^k, pruned"]["paper"] == 75.47 and len(table["2^k, pruned"]["accuracy"]) == 2
    for task, row in results["summary"].items():
        for arm, entry in row["arms"].items():
            records = [r for r in results["runs"] if (r["spec"]["task"], r["spec"]["arm"]) == (task, arm)]
            assert [r["seed"] for r in records] == [0, 1]
            assert entry["mean"] == pytest.approx(np.mean([runs.score(task, r) for r in records]))
    assert "states that hold the tokens counted: 9 of 9" in said and "left out" in said
    monkeypatch.setattr(runs, "train_tokens", None)  # nothing is trained again
    assert plain(study.run(config)["summary"]) == plain(results["summary"])


def test_costs_grow_as_they_are_known_to():
    config = replace(study.PRESETS["medium"], states_to=256)
    for arm, row in study._costs(config).items():
        assert tuple(row[f"{key} growth"]["best"] for key in ("links", "cache")) == runs.EXPECTED[arm], arm
        assert all(held == counted for _, held, counted in row["states"])
    exact = runs.counts("2^k", 6, (256,))
    assert exact["links"] == [8.0] and exact["most cache"] == [255.0]


def test_a_growth_is_told_from_its_neighbours():
    lengths = tuple(2**i for i in range(8, 15))
    n = np.array(lengths, dtype=float)
    for name, values in (("log n", 3 * np.log2(n) + 1), ("√n", 2 * np.sqrt(n) - 5), ("n", n), ("constant", 0 * n + 7)):
        assert runs.growth(lengths, values.tolist())["best"] == name


def test_a_state_that_holds_more_ends_the_run(tmp_path, monkeypatch):
    monkeypatch.setattr(study, "live_cache", lambda arm, reach, n: (n + 1, n))
    with pytest.raises(RuntimeError, match="first order after 16 tokens"):
        study.run(replace(CONFIG, tasks=(), arms=("first order",), output=tmp_path))
    assert (tmp_path / "results.json").exists()


def test_a_state_of_attention_is_looked_at_too(monkeypatch):
    assert runs.live_cache("attention", 6, 32) == (32, 32) and runs.live_cache("local attention", 6, 32) == (5, 5)
    prefill = runs.SelfAttention.prefill

    def wasteful(self, x, state=None):
        y, state = prefill(self, x, state)
        return y, state._replace(keys=torch.cat([state.keys, state.keys], dim=1))

    monkeypatch.setattr(runs.SelfAttention, "prefill", wasteful)
    assert runs.live_cache("attention", 6, 32) == (64, 32)


def test_a_training_that_fails_ends_those_that_wait(tmp_path, monkeypatch):
    begun = []

    def fails(spec, folder):
        begun.append(spec)
        raise RuntimeError("the loss is not finite")

    monkeypatch.setattr(study, "train_once", fails)
    monkeypatch.setattr("studies.kit.pool.ProcessPoolExecutor", lambda workers, **_: Slow(1))
    with pytest.raises(RuntimeError, match="not finite"):
        study.run(replace(CONFIG, workers=2, output=tmp_path))
    assert len(begun) < 4


class Slow(ThreadPoolExecutor):
    def submit(self, call, *given):
        return super().submit(lambda: (time.sleep(0.02), call(*given)))


def test_claims_and_ranks_notice_the_wrong_order():
    paper = [row[0] for row in runs.PAPER.values()]
    assert report.rank_correlation(paper, paper) == pytest.approx(1)
    assert report.rank_correlation([-value for value in paper], paper) == pytest.approx(-1)
    config = study.PRESETS["medium"]

    def seen(values):
        tables = {
            task: {"arms": {arm: {"accuracy": [values(arm, i)] * 2} for arm in config.arms}}
            for i, task in enumerate(config.tasks)
        }
        return [row["seen"] for row in report.claims({"summary": tables}, config)]

    assert all(seen(lambda arm, i: runs.PAPER[arm][i]))
    assert not any(seen(lambda arm, i: 100 - runs.PAPER[arm][i])[1:5])


def test_scores_and_guesses():
    hops = {"value": [0, 1, 2, 3], "accuracy": [1.0, 1.0, 0.5, 0.2], "count": [10, 10, 10, 20]}
    assert runs.score("multi-hop", {"groups": {"hop": hops}}) == pytest.approx(30)
    task = runs.maker("multi-hop", dict(length=32, chains=4, values=16))(2000, seed=0)
    # the value of a root drawn among the sequence's four
    roots = np.sort(np.where(task.groups["hop"] == 0, task.targets, 10**6), axis=1)[:, :4]
    drawn = roots[np.arange(2000)[:, None], np.random.default_rng(0).integers(0, 4, task.targets.shape)]
    assert 100 * (drawn == task.targets).mean() == pytest.approx(
        runs.chance("multi-hop", dict(length=32, chains=4, values=16)), abs=1
    )


def test_unknown_names_are_refused(tmp_path):
    with pytest.raises(ValueError, match="--arms cubes: expected some of attention"):
        study.run(replace(CONFIG, arms=("cubes",), output=tmp_path))


def test_copying_with_no_blocks_is_refused(tmp_path):
    with pytest.raises(ValueError, match="--order-depths 0 1: expected at least 1 block each"):
        study.run(study.Config(order_depths=(0, 1), output=tmp_path))
