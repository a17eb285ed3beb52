"""The study of fresh samples: what is held out is in no data set and no stream, and a small run says everything."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch

from sciops.runs import plain
from studies import fresh_samples as study
from studies.fresh_samples.training import held, stream

CONFIG = study.Config(
    size=12,
    modes=16,
    counts=(8, 24),
    steps=6,
    batch_size=4,
    network_modes=4,
    width=4,
    depth=1,
    fields=(4, 16),
    seeds=(0, 1),
    workers=1,
)


def test_what_is_held_out_is_in_no_training():
    validation, test = held(12, 16, 0, (4, 16))
    trained = stream(12, 16, 0).subset(range(64))
    apart = torch.cdist(torch.cat([validation.x, test.x]).flatten(1), trained.x.flatten(1))
    assert apart.min() > 1 and not torch.equal(validation.x[0], test.x[0])


def test_a_small_run_writes_its_table_and_figure(tmp_path, capsys):
    config = replace(CONFIG, output=tmp_path)
    results = study.run(config)
    said = capsys.readouterr().out
    assert "endless" in said and "ms to make" in said and "too few seeds" in said
    assert [row["fields"] for row in results["summary"]["rows"]] == ["8", "24", "endless"]
    assert [row["passes"] for row in results["summary"]["rows"]] == [3.0, 1.0, 1.0]
    assert json.loads((tmp_path / "report.json").read_text())["answer"].startswith("In equally many steps")
    assert [path.name for path in (tmp_path / "figures").iterdir()] == ["fresh_samples.png"]
    again = study.run(config)
    assert plain(again["runs"]) == plain(results["runs"])
    for wrong in ({"counts": (8, 8)}, {"counts": (0,)}, {"seeds": (0,)}):
        with pytest.raises(ValueError, match="expected"):
            study.run(replace(config, **wrong))
