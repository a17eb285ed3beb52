"""All studies in one command: what is kept, what is run again, what fails, and the page that is made of it."""

import importlib
import json
import sys
from dataclasses import fields, replace

import pytest

from studies import benchmarks as study
from studies.benchmarks.docs_page import page
from studies.kit.timing import target

_STUDY = '''"""A study of nothing, in no time."""

import time
from dataclasses import dataclass
from pathlib import Path

from sciops.runs import RunFolder
from studies.kit.timing import target


@dataclass(frozen=True)
class Config:
    output: Path = Path("runs/{name}")


PRESETS = {{"quick": Config()}}


def run(config):
    folder = RunFolder(config.output)
    folder.describe(config)
    with (config.output.parent / "order.txt").open("a") as order:
        order.write("{name} ")
    {body}
    rows = [target("speed | rate", 3, least=2), target("memory", 4, most=2, note="the cache is small")]
    folder.write_results({{"targets": rows, "more": [1]}})


if __name__ == "__main__":
    from sciops.commands.command_line import command

    command(run, PRESETS)
'''


@pytest.fixture
def small_studies(tmp_path, monkeypatch):
    """Three studies in a package of their own: one is well, one breaks its equality, one does not end."""
    package = tmp_path / "packages" / "studies"
    package.mkdir(parents=True)
    bodies = {
        "well": "",
        "broken": 'raise RuntimeError("0.1 away\\nfrom its reference")',
        "endless": "time.sleep(60)",
    }
    for name, body in bodies.items():
        (package / f"{name}.py").write_text(_STUDY.format(name=name, body=body))
    monkeypatch.setattr(sys.modules["studies"], "__path__", [*sys.modules["studies"].__path__, str(package)])
    # a child finds the package by its path, and the modules of this one beside it
    (package / "__init__.py").write_text(f"__path__ = {sys.modules['studies'].__path__!r}\n")
    monkeypatch.setenv("PYTHONPATH", str(package.parent))
    monkeypatch.chdir(tmp_path)  # python -m looks in the working directory first
    yield tmp_path / "out"
    for name in bodies:
        sys.modules.pop(f"studies.{name}", None)


def test_studies_run_once_and_again_only_when_asked(small_studies, capsys):
    config = study.Config(studies=("well",), output=small_studies, page=small_studies / "page.md")
    results = study.run(config)
    assert [row["met"] for row in results["targets"]] == [True, False]
    assert results["studies"]["well"]["results"] == {"more": [1]}
    said = capsys.readouterr().out
    assert "well  speed | rate" in said and "missed" in said and "1 of 2 targets met" in said
    assert json.loads((small_studies / "results.json").read_text())["targets"] == results["targets"]
    assert (small_studies / "figures" / "benchmarks.png").stat().st_size > 5_000
    about = "1 of 2 targets are met; missed by most: well, memory: 4, target ≤ 2."
    assert json.loads((small_studies / "report.json").read_text())["answer"] == about
    text = (small_studies / "page.md").read_text()
    assert "| speed \\| rate | ≥ 2 | 3 | met |" in text and "A study of nothing" in text
    assert "* Missed, memory: the cache is small" in text
    again = study.run(config)
    assert again["studies"] == results["studies"]
    assert (small_studies / "order.txt").read_text() == "well "
    study.run(study.Config(studies=("well",), output=small_studies, fresh=True))
    assert (small_studies / "order.txt").read_text() == "well well "


def test_the_others_run_and_the_status_is_one(small_studies):
    config = study.Config(studies=("broken", "well"), output=small_studies)
    with pytest.raises(SystemExit) as stop:
        study.run(config)
    message = stop.value.code  # text: Python prints it and exits with status 1
    assert isinstance(message, str) and "\n" not in message and "0.1 away from its reference" in message
    assert "failed: broken" in message and "well" not in message.replace(str(small_studies), "")
    results = json.loads((small_studies / "results.json").read_text())
    assert {row["study"] for row in results["targets"]} == {"well"}
    assert "Failed: 0.1 away" in page(results)
    with pytest.raises(SystemExit):
        study.run(config)  # what failed is run again, what was well is not
    assert (small_studies / "order.txt").read_text() == "broken well broken "


def test_a_limit_stops_a_study(small_studies):
    with pytest.raises(SystemExit, match="endless: stopped after its limit of 0.5 s"):
        study.run(study.Config(studies=("endless",), output=small_studies, limit=0.5))


def test_what_is_not_there_is_refused_before_anything_runs(small_studies):
    with pytest.raises(ValueError, match="no studies/nothing; expected of mixer_speed"):
        study.run(study.Config(studies=("well", "nothing"), output=small_studies))
    with pytest.raises(ValueError, match="well has no preset 'full'; expected one of quick"):
        study.run(study.Config(studies=("well",), study_preset="full", output=small_studies))
    assert not small_studies.exists()


def test_margins_are_above_one_where_targets_are_met():
    for value in (0.5, 0.97, 1.0, 1.2, 3.0):
        for bounds in ({"least": 0.9}, {"most": 1.1}, {"least": 0.9, "most": 1.1}):
            row = target("x", value, **bounds)
            assert (study.margin(row) >= 1) == row["met"]
    assert study.margin(target("x", 3.0, least=1.5)) == 2 and study.margin(target("x", 3.0, most=1.5)) == 0.5


def test_on_a_device_equality_comes_first_and_nothing_takes_more_than_eight_minutes():
    preset = study.PRESETS["gpu"]
    assert preset.studies[0] == "device_equality" and preset.limit * len(preset.studies) <= 600
    for name in preset.studies:
        assert importlib.import_module(f"studies.{name}").PRESETS["gpu"].device == "cuda"


@pytest.mark.gpu
def test_the_whole_script_on_a_device(tmp_path):
    results = study.run(replace(study.PRESETS["gpu"], output=tmp_path))
    assert results["seconds"] < 480 and not any(record["error"] for record in results["studies"].values())


@pytest.mark.parametrize("name", study.STUDIES)
def test_each_study_can_be_run_by_name(name):
    presets = importlib.import_module(f"studies.{name}").PRESETS
    assert {"quick", "full"} <= set(presets)
    assert all("output" in {field.name for field in fields(preset)} for preset in presets.values())
