"""What trackers are given: the numbers of the log, by the main process alone; one line where they are missing."""

from __future__ import annotations

import importlib.machinery
import sys
import types
from dataclasses import replace

import pytest
import torch
from test_resume import QUIET, data, network

from sciops.files.json_files import read_jsonl
from sciops.training import TrainConfig, fit
from sciops.training.trackers import Trackers


class Writer:
    """Stands for torch's SummaryWriter, which needs tensorboard."""

    made: list[Writer] = []

    def __init__(self, folder: str, purge_step: int | None = None) -> None:
        self.folder, self.purge_step, self.values, self.closed = folder, purge_step, {}, False
        self.made.append(self)

    def add_scalar(self, name: str, value: float, global_step: int) -> None:
        self.values[name, global_step] = value

    def flush(self) -> None:
        pass

    def close(self) -> None:
        self.closed = True


class TrackioRun:
    def __init__(self, **options) -> None:
        self.options, self.values, self.closed = options, {}, False

    def log(self, values: dict, step: int) -> None:
        self.values[step] = values

    def finish(self) -> None:
        self.closed = True


@pytest.fixture
def writers(monkeypatch):
    stand_in = types.ModuleType("torch.utils.tensorboard")
    stand_in.SummaryWriter = Writer
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", stand_in)
    monkeypatch.setattr(torch.utils, "tensorboard", stand_in, raising=False)
    package = types.ModuleType("tensorboard")
    package.__spec__ = importlib.machinery.ModuleSpec("tensorboard", None)
    monkeypatch.setitem(sys.modules, "tensorboard", package)
    monkeypatch.setattr(Writer, "made", [])
    return Writer.made


@pytest.fixture
def runs(monkeypatch):
    made = []
    package = types.ModuleType("trackio")
    package.__spec__ = importlib.machinery.ModuleSpec("trackio", None)
    package.init = lambda **options: made.append(TrackioRun(**options)) or made[-1]
    monkeypatch.setitem(sys.modules, "trackio", package)
    return made


def test_tensorboard_gets_the_numbers_of_the_log_and_a_resumed_run_goes_on(writers, tmp_path):
    config = replace(QUIET, folder=tmp_path, track=("tensorboard",))
    fit(network(), data(), replace(config, stop_after=2))
    fit(network(), data(), replace(config, resume=True))
    assert [w.folder for w in writers] == [str(tmp_path / "tensorboard")] * 2 and all(w.closed for w in writers)
    assert [w.purge_step for w in writers] == [1, 3]
    values = writers[0].values | writers[1].values
    log = read_jsonl(tmp_path / "log.jsonl")
    assert {step for _, step in values} == {1, 2, 3, 4}
    for record in log:
        for name in ("loss", "validation", "rate", "gradient_norm", "seconds", "step"):
            assert values[name, record["epoch"]] == record[name]
    # a run that is complete has nothing to add
    fit(network(), data(), replace(config, resume=True))
    assert len(writers) == 2


def test_trackio_gets_a_run_of_the_folder_with_its_config(runs, tmp_path):
    several = data()
    config = replace(QUIET, folder=tmp_path / "a", track=("trackio",), epochs=2)
    two = types.SimpleNamespace(train=several.train, validation=[several.validation, several.train[1]])
    fit(network(), two, replace(config, stop_after=1))
    fit(network(), two, replace(config, resume=True))
    first, second = runs
    assert first.options["project"] == "sciops" and first.options["name"] == f"{tmp_path.name}-a"
    assert (first.options["resume"], second.options["resume"]) == ("never", "allow")
    assert first.options["config"]["batch_size"] == 8 and first.closed and second.closed
    assert {"validation/8x8", "validation/5x5", "validation", "loss"} <= set(second.values[2])


@pytest.fixture
def wandb(monkeypatch):
    """Stands for wandb: its runs are those of trackio's stand-in."""
    package, made = types.ModuleType("wandb"), []
    package.__spec__ = importlib.machinery.ModuleSpec("wandb", None)
    package.init = lambda **options: made.append(TrackioRun(**options)) or made[-1]
    package.api = types.SimpleNamespace(api_key=None)
    package.made = made
    monkeypatch.setitem(sys.modules, "wandb", package)
    monkeypatch.delenv("WANDB_MODE", raising=False)
    return package


def test_wandb_keeps_a_run_in_the_folder_and_a_resumed_training_continues_it(wandb, tmp_path):
    config = replace(QUIET, folder=tmp_path / "a", track=("wandb",))
    fit(network(), data(), replace(config, stop_after=2))
    fit(network(), data(), replace(config, resume=True))
    first, second = (run.options for run in wandb.made)
    assert first["mode"] == "offline"  # without an account it would ask for one
    assert first["id"] == second["id"] and (first["resume"], second["resume"]) == (None, "allow")
    assert first["name"] == f"{tmp_path.name}-a" and first["dir"] == str(tmp_path / "a")
    assert first["config"]["batch_size"] == 8 and all(run.closed for run in wandb.made)
    values = wandb.made[0].values | wandb.made[1].values
    for record in read_jsonl(tmp_path / "a" / "log.jsonl"):
        assert values[record["epoch"]]["loss"] == record["loss"]


def test_wandb_with_an_account_or_a_mode_is_left_to_itself(wandb, tmp_path, monkeypatch):
    wandb.api.api_key = "a key"
    fit(network(), data(), replace(QUIET, track=("wandb",), epochs=1))
    wandb.api.api_key = None
    monkeypatch.setenv("WANDB_MODE", "disabled")
    fit(network(), data(), replace(QUIET, track=("wandb",), epochs=1))
    assert not any({"mode", "dir", "id"} & run.options.keys() for run in wandb.made)


def test_an_error_closes_them_and_other_processes_log_nothing(writers, tmp_path):
    config = replace(QUIET, folder=tmp_path, track=("tensorboard",))
    with pytest.raises(KeyboardInterrupt), Trackers(config, writes=True) as trackers:
        trackers.log({"epoch": 1, "loss": 0.5})
        raise KeyboardInterrupt
    assert writers[0].closed
    with Trackers(config, writes=False) as trackers:
        trackers.log({"epoch": 1, "loss": 0.5})
    assert len(writers) == 1


def test_what_is_missing_or_unknown_is_one_line(tmp_path, monkeypatch):
    for name, extra in (("tensorboard", "track"), ("trackio", "track"), ("wandb", "wandb")):
        monkeypatch.setattr("importlib.util.find_spec", lambda wanted: None)
        with pytest.raises(ImportError, match=f"track='{name}' needs {name}: pip install 'sciops\\[{extra}\\]'"):
            fit(network(), data(), replace(QUIET, folder=tmp_path, track=(name,)))
    assert not (tmp_path / "log.jsonl").exists()
    with pytest.raises(ValueError, match=r"track=\('mlflow',\): expected some of tensorboard, trackio, wandb"):
        TrainConfig(track=("mlflow",))
    with pytest.raises(ValueError, match="track='tensorboard' writes into the folder of the run: set folder"):
        TrainConfig(track=("tensorboard",))
    # it decides nothing about the outcome
    assert replace(QUIET, track=("trackio",)).identity() == QUIET.identity()
