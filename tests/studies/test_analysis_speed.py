"""The study's references are other ways to the same numbers, and what differs from them ends the run."""

import functools
import json

import numpy as np
import pytest
import torch

from sciops.grids import Grid
from sciops.spectral import power_spectrum
from studies import analysis_speed as study
from studies.analysis_speed import reading, spectra, start


def test_counted_shells_hold_the_mean_square_and_each_wave_its_own():
    x, y = Grid((12, 12), 2 * np.pi, "periodic").meshgrid()
    u = 3 + np.cos(3 * x + 4 * y) + np.sin(2 * x)
    expected = np.zeros(9)
    expected[[0, 5, 2]] = 9, 0.5, 0.5
    np.testing.assert_allclose(spectra.counted_spectrum(u), expected, atol=1e-14)


def test_a_spectrum_with_one_wrong_shell_ends_the_run():
    u = np.random.default_rng(0).standard_normal((2, 9, 9))
    energy = power_spectrum(u, Grid((9, 9), centering="periodic")).energy
    assert spectra.require_shells("spectra", energy, u, 1e-12) < 1e-13
    energy[1, 4] *= 1 + 1e-9
    with pytest.raises(RuntimeError, match="spectra: a shell differs by 1.0e-09"):
        spectra.require_shells("spectra", energy, u, 1e-12)
    with pytest.raises(RuntimeError, match="differs by nan"):
        spectra.require_shells("spectra", np.full_like(energy, np.nan), u, 1e-12)


def test_ways_of_reading_agree_and_one_wrong_bit_ends_the_run():
    stored = np.random.default_rng(1).standard_normal((9, 4, 4)).astype(np.float32)
    rows = np.array([7, 2, 3, 0])
    for way in (reading.by_list, reading.by_rows):
        np.testing.assert_array_equal(way(stored, rows), stored[rows])
    np.testing.assert_array_equal(reading.by_slice(stored, np.arange(2, 6)), stored[2:6])
    batch = {key: torch.from_numpy(stored[rows])[:, None].clone() for key in ("x", "y")}
    reading.require_same("shuffled", batch, [stored[rows], stored[rows]])
    batch["y"][3, 0, 1, 1] = torch.nextafter(batch["y"][3, 0, 1, 1], torch.tensor(9.0))
    with pytest.raises(RuntimeError, match="shuffled: y of a batch"):
        reading.require_same("shuffled", batch, [stored[rows], stored[rows]])


def test_import_loads_nothing_heavy(monkeypatch):
    assert start.loaded("import sciops", (*start.HEAVY, "torch")) == []
    assert start.loaded(start.ROOMS) == []
    monkeypatch.setattr(start, "ROOMS", "import sciops; import xarray")
    with pytest.raises(RuntimeError, match="import sciops loads xarray, pandas|pandas, xarray|xarray"):
        start.require_light()


@pytest.mark.slow
def test_a_small_run_leaves_its_numbers(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(start, "require_light", lambda: None)  # seen above, in as many interpreters
    monkeypatch.setattr(start, "interleaved", functools.partial(start.interleaved, warmup=0))
    small = study.Config(
        points=24, batch=3, cube=16, channels=2, samples=10, read=4, rounds=1, threads=1, output=tmp_path
    )
    results = study.run(small)
    assert all(0 < row["error"] <= row["most"] for row in results["equalities"])
    assert results["memory"]["input_bytes"] == 2 * 4 * 16**3 and results["memory"]["share"] >= 1
    for row in results["reading"]["orders"].values():
        seconds = row["seconds"]
        np.testing.assert_allclose(row["ratio"]["median"], seconds[row["fastest"]] / seconds["sciops"])
        np.testing.assert_allclose(row["rate"]["sciops"] * seconds["sciops"], 2 * 4 * 10 * 24**2)
        assert row["fastest"] == min(set(seconds) - {"sciops"}, key=seconds.get)
    assert results["start"]["ratio"]["import torch"]["median"] == 1
    by_what = {row["what"]: row for row in results["targets"]}
    assert by_what["import sciops: time over import torch"]["met"]
    assert len(by_what) == 5 and all(what in capsys.readouterr().out for what in list(by_what)[:1])
    assert json.loads((tmp_path / "results.json").read_text())["targets"] == results["targets"]
    assert (tmp_path / "figures" / "analysis_speed.png").stat().st_size > 10_000
    assert not (tmp_path / "fields.h5").exists()
