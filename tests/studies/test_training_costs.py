"""What trainings cost beyond their steps: a small run, counted memory, what is refused."""

import json
import subprocess
from types import SimpleNamespace

import pytest
import torch

from studies import training_costs as study


def held(steps, points, seed):
    return [(n, 1000 + n) for n in range(100, steps + 1, 100)]


class Here:
    """Stands for the pool of one process: calls at once."""

    def __init__(self, workers, mp_context):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *about):
        pass

    def submit(self, function, *given):
        return SimpleNamespace(result=lambda: held(*given))


@pytest.fixture(autouse=True)
def _no_processes(monkeypatch):
    monkeypatch.setattr(study, "ProcessPoolExecutor", Here)


def test_a_small_run_leaves_its_numbers(tmp_path, monkeypatch):
    def demo(command, **options):
        folder = tmp_path / "demo"
        folder.mkdir()
        (folder / "results.json").write_text(json.dumps({"seconds": {"training": 8.0, "evaluation": 2.0}}))
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(study, "subprocess", SimpleNamespace(run=demo))
    results = study.run(study.Config(steps=400, tokens=(128,), channels=8, output=tmp_path))
    assert results["memory"]["growth"] == 1400 / 1100 and results["demo"]["share"] == 0.25
    assert [row["met"] for row in results["targets"]] == [False, True]  # 128 tokens are too few for a target
    assert (tmp_path / "figures" / "training_costs.png").stat().st_size > 10_000


def test_a_demo_that_fails_ends_the_study(tmp_path, monkeypatch):
    failed = subprocess.CompletedProcess([], 2, "", "one line\nthe reason")
    monkeypatch.setattr(study, "subprocess", SimpleNamespace(run=lambda command, **options: failed))
    with pytest.raises(RuntimeError, match="sciops demo .*: the reason"):
        study.run(study.Config(tokens=(128,), channels=8, output=tmp_path))


def test_a_training_is_watched_to_its_last_step():
    threads = torch.get_num_threads()
    try:
        seen = study.held_by_steps(40, 32, 0)
    finally:
        torch.set_num_threads(threads)
    assert [n for n, _ in seen] == list(range(2, 41, 2)) and all(b > 10**7 for _, b in seen)


@pytest.mark.parametrize("mixer", study.MIXERS)
def test_a_training_holds_more_than_a_forward_pass(mixer):
    forward, training = (study.block_bytes(mixer, mode, 256, 8, 0) for mode in study.MODES)
    assert 256 * 8 * 4 < forward < training


def test_too_few_steps_are_refused(tmp_path):
    with pytest.raises(ValueError, match="--steps 150: expected at least 200"):
        study.run(study.Config(steps=150, output=tmp_path))
