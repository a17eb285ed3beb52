"""The frame of a study: options by name, what is written and printed, and the error of a study that has to fail."""

import importlib
import json
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from studies.kit.answers import extent, listed, met, sentence
from studies.kit.choices import require_installed
from studies.kit.study import device_name, finished, opened, picked

NO_CUDA = pytest.mark.skipif(torch.cuda.is_available(), reason="there is one")


@dataclass(frozen=True)
class Config:
    steps: int = 3
    text_steps: int = 5
    output: Path = Path("runs/none")


def test_options_go_by_name_with_and_without_a_prefix():
    assert picked(Config(), "steps") == {"steps": 3} and picked(Config(), "steps", "text_") == {"steps": 5}
    with pytest.raises(AttributeError, match="text_rate"):
        picked(Config(), "steps rate", "text_")


def test_a_study_that_has_to_fail_fails_after_everything_is_written(tmp_path, capsys):
    config = Config(output=tmp_path)
    folder = opened(config, seeds=[0])
    assert json.loads((tmp_path / "config.json").read_text())["text_steps"] == 5

    def draw(results, config, path):
        path.write_text(f"{results['error']} after {config.steps} steps")

    def show(results, config):
        print(f"error {results['error']}")

    def answer(results):
        return sentence(f"the error is {results['error']}") if results else ""

    how = {"answer": answer, "picture": "one.png", "wrong": "above its bound"}
    with pytest.raises(RuntimeError, match="^above its bound$"):
        finished(folder, {"error": 0.5}, draw, show, config, **how)
    assert json.loads((tmp_path / "results.json").read_text()) == {"error": 0.5}
    assert (tmp_path / "figures" / "one.png").read_text() == "0.5 after 3 steps"
    page = f"sciops report {tmp_path} makes a page of them\n"
    assert json.loads((tmp_path / "report.json").read_text())["answer"] == "The error is 0.5."
    said = capsys.readouterr().out
    assert said == f"error 0.5\n\nThe error is 0.5.\nresults.json and figures/one.png in {tmp_path}\n{page}"
    assert finished(folder, {}, lambda *_: None, lambda _: None, answer=answer) == {}
    assert f"results.json and figures in {tmp_path}" in capsys.readouterr().out


def test_sentences_are_put_together_from_numbers_and_names():
    assert listed([]) == "" and listed(["a", "b"]) == "a and b" and listed("abc") == "a, b and c"
    assert extent([2.0, 1.0, 3.0]) == "1 to 3" and extent([1.0, 1.0001]) == "1" and extent([]) == "–"
    assert met([]) == "" and met([{"met": True}, {"met": False}, {"met": None}]) == "1 of 2 targets are met"
    assert met([{"seen": True}], "claims", "seen") == "1 of 1 claims are seen"
    assert sentence("", "") == "" and sentence("one holds", "", "two do not") == "One holds; two do not."


def test_what_is_not_installed_is_named_with_its_package():
    require_installed({"json": "none"})
    with pytest.raises(ImportError, match="needs no_such_module: pip install 'sciops.cluster.'"):
        require_installed({"json": "none", "no_such_module": "'sciops[cluster]'"})


@dataclass(frozen=True)
class OnDevice:
    device: str
    output: Path


@pytest.mark.parametrize(
    ("device", "line"),
    [
        pytest.param("cuda", "there is no CUDA device here", marks=NO_CUDA),
        pytest.param("cuda:1", "there is no CUDA device here", marks=NO_CUDA),
        ("gpu", "expected 'auto', 'cpu', 'cuda', 'cuda:1' or 'mps'"),
        ("", "expected 'auto', 'cpu'"),
    ],
)
def test_a_device_that_is_not_there_is_one_line_before_anything_is_written(tmp_path, device, line):
    with pytest.raises(ValueError, match=f"^device='{device}': {line}"):
        opened(OnDevice(device, tmp_path / "run"))
    with pytest.raises(ValueError, match=f"^device='{device}': {line}"):
        device_name(device)
    assert not list(tmp_path.iterdir())
    assert opened(OnDevice("cpu", tmp_path / "run")).path.exists() and device_name("cpu") == "cpu"


@NO_CUDA
@pytest.mark.parametrize("name", ["attention_cost", "mixer_speed", "solver_speed"])
def test_studies_of_speed_refuse_a_device_that_is_not_there(tmp_path, name):
    study = importlib.import_module(f"studies.{name}")
    with pytest.raises(ValueError, match="^device='cuda': there is no CUDA device here"):
        study.run(study.Config(device="cuda", output=tmp_path / "run"))
    assert not list(tmp_path.iterdir())
