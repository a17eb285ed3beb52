"""`sciops info RUN`: what was trained on what, and commands that work."""

from __future__ import annotations

import json
import shlex
import shutil

import numpy as np
import pytest

import sciops
from sciops import cli
from sciops.models import build_model, save_model
from sciops.runs import RunFolder
from sciops.trained import evaluation_report
from sciops.trained.description import describe_run, facts_of


def test_every_command_that_is_proposed_works(darcy_run, tmp_path, capsys, monkeypatch):
    for figure in ("draw_errors", "draw_samples"):  # to draw them takes as long as all the rest
        monkeypatch.setattr(evaluation_report, figure, lambda *_: None)
    run = shutil.copytree(darcy_run, tmp_path / "a run")
    cli.main(["info", str(run)])
    text = capsys.readouterr().out
    results = json.loads((run / "results.json").read_text())
    row = results["test"]["17×17"]["model"]
    assert f"17×17: relative L2 {row['relative_l2']:.4g} ± {row['standard_error']:.1g} on 4 test samples" in text
    assert (
        "17×17 node points" in text
        and f"{results['parameters']:,} parameters" in text
        and "task         steady" in text
    )
    for _ in range(2):  # the second time there are predictions already
        proposed = facts_of(run)["next"]
        for command in proposed[:-1]:
            words = shlex.split(command)
            assert words[0] == "sciops"
            cli.main(words[1:] + ["--solutions", "0"] * (words[1] == "evaluate"))
    expression = proposed[-1].removeprefix("in Python: ")
    assert eval(expression, {"sciops": sciops, "a": np.ones((2, 17, 17))}).shape == (2, 17, 17)
    capsys.readouterr()
    cli.main(["info", str(run / "evaluation" / "darcy")])
    assert "worst samples" in capsys.readouterr().out


def test_rollouts_and_machine_output(wave_run, capsys):
    text = describe_run(wave_run)
    assert "task         step, history 2" in text and "over all frames of 2 test trajectories (persistence" in text
    cli.main(["info", "--json", str(wave_run)])
    facts = json.loads(capsys.readouterr().out)
    assert facts["kind"] == "training" and facts["model"] == "fno" and facts["grid"]["centering"] == "periodic"


def test_runs_that_were_stopped_and_folders_of_other_kinds(darcy_run, tmp_path, capsys):
    run = shutil.copytree(darcy_run, tmp_path / "run")
    about = json.loads((run / "environment.json").read_text())
    moved = about | {"data": {str(tmp_path / "gone.h5"): ""}, "command": ["sciops", "train", "--data", "d.h5"]}
    (run / "environment.json").write_text(json.dumps(moved))
    (run / "results.json").unlink()
    text = describe_run(run)
    assert "not there any more" in text and "stopped, or at work: 2 of 2 epochs" in text
    assert "next         sciops train --data d.h5      resumes the training" in text and "sciops evaluate" not in text
    for name in ("best.safetensors", "last.safetensors"):
        (run / name).unlink()
    shutil.rmtree(run / "model")
    assert "next         sciops train --data d.h5      makes it again" in describe_run(run)
    (run / "config.json").write_text("[]")
    with pytest.raises(ValueError, match="config.json is damaged: expected a JSON object"):
        describe_run(run)
    (run / "config.json").write_text("{}")
    (run / "results.json").write_text('{"test": [1]}')
    with pytest.raises(ValueError, match="has no attribute 'items'") as error:
        describe_run(run)
    assert "\n" not in str(error.value)
    alone = save_model(build_model("fno", width=4, depth=1, modes=(2, 2)), tmp_path / "alone")
    assert "fno" in describe_run(alone) and "sciops.load_model(" in describe_run(alone)
    RunFolder(tmp_path / "study").describe({"samples": 3})
    cli.main(["info", str(tmp_path / "study")])
    assert "builtins" in capsys.readouterr().out
