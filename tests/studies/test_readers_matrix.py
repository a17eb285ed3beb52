"""The table of layouts: what it fills in, and that it notices what is wrong."""

from __future__ import annotations

import json

import numpy as np
import pytest

from sciops.datasets import WRITERS
from sciops.datasets.formats import READERS
from sciops.datasets.formats.samples import SAMPLES
from studies import readers_matrix


def test_every_layout_passes_every_verb(tmp_path, capsys):
    results = readers_matrix.run(readers_matrix.Config(batch=20, output=tmp_path))
    assert results["failed"] == [] and set(results["table"]) == set(SAMPLES)
    assert json.loads((tmp_path / "results.json").read_text())["failed"] == []
    assert (tmp_path / "figures" / "readers_matrix.png").exists()
    # no reader without a tiny file in its layout, none without a writer
    assert {row["reader"] for row in results["table"].values()} == set(READERS) - {"native"}
    assert set(READERS) <= set(WRITERS)


def test_a_writer_that_changes_values_is_noticed(tmp_path, monkeypatch, capsys):
    write = WRITERS["pdebench-1d"]

    def wrong(groups, path):
        write([group.assign(u=group["u"] + np.float32(1e-3)) for group in groups], path)

    monkeypatch.setitem(WRITERS, "pdebench-1d", wrong)
    with pytest.raises(SystemExit):
        readers_matrix.run(readers_matrix.Config(layouts=("pdebench-1d",), output=tmp_path))
    assert "pdebench-1d, round trip: Unsound: u has other values" in capsys.readouterr().out


def test_an_unknown_layout_is_refused():
    with pytest.raises(ValueError, match="--layouts hdf6: expected some of"):
        readers_matrix.run(readers_matrix.Config(layouts=("hdf6",)))
