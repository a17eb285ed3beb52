"""The study of reading on demand: its file is what it says, its ways agree to the bit, and a difference ends it."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from sciops.datasets import open_dataset
from sciops.grids import Grid
from sciops.spectral import power_spectrum
from studies import lazy_loading as study
from studies.kit.fields.smooth import write_fields

SMALL = study.Config(
    points=20,
    train=48,
    validation=8,
    memory_limit=40_000,
    models=((6, 1),),
    modes=4,
    epochs=2,
    ways=("memory", "thread"),
)


def test_fields_of_all_grids_are_samples_of_one_function_and_a_seed_decides_them(tmp_path):
    path = write_fields(tmp_path / "a.h5", (33, 17), train=70, validation=3, test=2, seed=5)
    with open_dataset(path, 33) as fine, open_dataset(path, 17) as coarse:
        a, u = fine["a"].values, fine["u"].values
        for name in ("a", "u"):
            np.testing.assert_allclose(coarse[name].values, fine[name].values[:, ::2, ::2], rtol=0, atol=1e-6)
        assert list(np.bincount(fine["split"].values)) == [70, 3, 2]
    # u − a²/4 is smoother than a: its energy falls faster by one more power of k² + 9/π²
    grid = Grid((33, 33))
    rough, smooth = (
        power_spectrum(f, grid, extension="even").energy.mean(0)
        for f in (a.astype(float), u - 0.25 * a.astype(float) ** 2)
    )
    ratio = (smooth / rough)[1:6]  # ten cosines of half a wave reach to wavenumber 5
    assert (np.diff(ratio) < 0).all() and ratio[4] < 0.05 * ratio[0]
    again = write_fields(tmp_path / "b.h5", (17,), train=5, validation=0, test=0, seed=5)
    with open_dataset(again) as data:
        np.testing.assert_array_equal(data["a"].values, a[:5, ::2, ::2])


@pytest.mark.slow
def test_a_small_run_leaves_its_numbers(tmp_path, capsys):
    results = study.run(replace(SMALL, output=tmp_path))
    memory, thread = results["rows"]
    assert memory["loss"] == thread["loss"] and memory["ratio"] == 1
    assert results["file_bytes"] > 2 * results["memory_limit"]
    ratio = np.median(memory["all_epoch_seconds"][0]) / np.median(thread["all_epoch_seconds"][0])
    assert thread["ratio"] == pytest.approx(ratio, rel=1e-12) and thread["met"] == (ratio >= study.TARGET)
    assert thread["peak"] > 50e6
    saved = json.loads((tmp_path / "results.json").read_text())
    assert saved["rows"][1]["ratio"] == thread["ratio"]
    assert (tmp_path / "figures" / "lazy_loading.png").stat().st_size > 10_000
    assert "equal to the bit" in capsys.readouterr().out


def test_losses_that_differ_and_files_that_fit_are_refused(tmp_path):
    one = {"way": "thread", "loss": [0.5, 0.25], "validation": [1.0, 0.5]}
    study._check(one, one)
    with pytest.raises(RuntimeError, match=r"thread: loss .*0.2500.* is not .*0.25., that of memory"):
        study._check(one, one | {"loss": [0.5, np.nextafter(0.25, 1)]})
    with pytest.raises(ValueError, match="less than twice memory_limit"):
        study.run(replace(SMALL, memory_limit=10**6, output=tmp_path))
    with pytest.raises(ValueError, match="expected memory, then some of thread, fork, spawn"):
        study.run(replace(SMALL, ways=("thread",), output=tmp_path))
