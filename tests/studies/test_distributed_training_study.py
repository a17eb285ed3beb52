"""The study of several processes: a row of its table, and what it refuses."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from warm import launch

from studies import distributed_training as study

SMALL = study.Config(
    points=(9, 5), train=11, validation=3, test=2, batch_size=4, epochs=2, width=4, depth=1, modes=2, compiled=()
)


@pytest.mark.slow
def test_a_small_run_leaves_its_numbers(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(study, "launch", launch)
    results = study.run(replace(SMALL, arms=("one", "several-one"), output=tmp_path))
    one, both = results["rows"]["one"], results["rows"]["several-one"]
    assert both["processes"] == [2, 1] and len(both["loss"]) == len(one["loss"]) == 2
    worst = max(abs(p - q) / q for p, q in zip(both["validation"], one["validation"]))
    assert both["validation_difference"] == worst <= 1e-10
    assert both["test"]["9×9"] == pytest.approx(one["test"]["9×9"], rel=1e-9)
    saved = json.loads((tmp_path / "results.json").read_text())
    assert saved["rows"]["several-one"]["loss"] == both["loss"]
    assert (tmp_path / "figures" / "distributed_training.png").stat().st_size > 10_000
    assert "2 → 1" in capsys.readouterr().out


def test_more_than_rounding_ends_the_run():
    row = {"loss": [1.0, 0.5], "validation": [2.0, 1.0], "gradient_norm": [1.0, 1.0]}
    rows = {"one": row, "several": row | {"loss": [1.0, 0.5 + 1e-14]}}
    study._compare("several", rows)
    assert rows["several"]["loss_difference"] == pytest.approx(2e-14, rel=1e-2)
    with pytest.raises(RuntimeError, match="several: validation differs from one by 1.0e-06, more than rounding"):
        study._compare("several", {"one": row, "several": row | {"validation": [2.0, 1.000001]}})
    with pytest.raises(RuntimeError, match="several: 1 epochs, one has 2"):
        study._compare("several", {"one": row, "several": {key: value[:1] for key, value in row.items()}})
    with pytest.raises(ValueError, match="'fsdp float32' is compared with 'one float32'"):
        study._compare("fsdp float32", {"one": row, "fsdp float32": row})


def test_what_a_process_says_is_passed_on_in_one_line(tmp_path):
    with pytest.raises(RuntimeError, match=r"studies.train --epochs 0 failed: error: .*epochs=0: expected") as caught:
        study.launch("studies.train", ["--epochs", "0"])
    assert "\n" not in str(caught.value)
    with pytest.raises(ValueError, match="--arms .*expected some of one, several"):
        study.run(replace(SMALL, arms=("three",), output=tmp_path))
