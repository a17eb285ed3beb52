"""Every command that `sciops info` and `sciops doctor` propose works as it stands, on a tiny file of every layout."""

import importlib.metadata
import re
import shlex

import pytest

import sciops.training
import studies.resolution_shift
from sciops import cli
from sciops.datasets import describe
from sciops.datasets.formats.samples import SAMPLES, write_sample


class Reached(Exception):
    """The command was read, its file opened, its model built and tried: only the training is left out."""


@pytest.fixture
def without_training(monkeypatch, tmp_path):
    def reached(*_):
        raise Reached

    monkeypatch.setattr(sciops.training, "fit", reached)
    monkeypatch.setattr(studies.resolution_shift, "_train_all", reached)
    monkeypatch.chdir(tmp_path)


def _proposals(text):
    """The commands among the lines from "next" on, without the remarks beside them."""
    lines = text[text.index("\nnext ") :].strip().removeprefix("next").splitlines()
    return [re.split(r" {3,}|; in Python", line.strip())[0] for line in lines]


def _follow(commands):
    kinds = set()
    for command in commands:
        if command.startswith("in Python: "):
            code = command.removeprefix("in Python: ")
            if code.startswith("sciops.open_dataset("):
                eval(code, {"sciops": sciops}).close()
            continue
        program, verb, *words = shlex.split(command)
        assert program == "sciops", command
        kinds.add(verb)
        small = {"train": ["--width", "4", "--depth", "1"], "study": ["--seeds", "1"]}[verb]
        with pytest.raises(Reached):
            cli.main([verb, *words, *small])
    return kinds


@pytest.mark.parametrize("layout", SAMPLES)
def test_what_is_proposed_for_a_file_works(tmp_path, without_training, layout):
    path = write_sample(layout, tmp_path / "a file")
    assert _follow(_proposals(describe(path))) == {"train"}


def test_what_is_proposed_for_a_generated_file_works(tmp_path, without_training):
    path = tmp_path / "darcy.h5"
    size = ["--samples", "10", "--resolutions", "17", "9", "--threads", "1", "--no-progress"]
    cli.main(["generate", "darcy", "--preset", "quick", *size, "--output", str(path)])
    assert _follow(_proposals(describe(path))) == {"train", "study"}


def test_the_extras_that_doctor_proposes_exist(capsys):
    cli.main(["doctor"])
    proposed = set(re.findall(r"^\s*\[(\w+)\]", capsys.readouterr().out, re.MULTILINE))
    assert proposed and proposed <= set(importlib.metadata.metadata("sciops").get_all("Provides-Extra"))
