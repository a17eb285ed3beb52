"""The scale-out study: a real kill, equal files, and an error when they are not."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import warm

pytest.importorskip("distributed")
pytest.importorskip("cryptography")
pytest.importorskip("zarr")

from studies import scale_out as study

SMALL = study.Config(samples=120, resolution=33, modes=16, chunk=3)


@pytest.mark.slow
def test_a_small_run_kills_a_worker_and_finds_equal_files(tmp_path, capsys):
    with warm.dask_workers():
        results = study.run(replace(SMALL, output=tmp_path / "run"))
    assert json.loads((tmp_path / "run/results.json").read_text())["hashes"] == results["hashes"]
    assert len(results["hashes"]) == 3 and len(set(results["hashes"].values())) == 1
    assert 60 <= results["killed"]["samples_finished"] < 120
    for name, finished in results["finished"].items():
        seconds, done = np.array(finished).T
        assert (np.diff(seconds) > 0).all() and (np.diff(done) > 0).all() and done[-1] <= 120
        assert results["samples_per_second"][name] == pytest.approx(120 / results["seconds"][name])
    assert (tmp_path / "run/figures/scale_out.png").stat().st_size > 10_000
    assert not (tmp_path / "run/data").exists() and "SIGKILL" not in capsys.readouterr().err


def test_files_that_differ_end_the_run_and_are_kept(tmp_path, monkeypatch, capsys):
    def other_seed(config, kill=None):
        arm = study.Generation(1.0, [(0.5, 1)], (0.5, 1) if kill else None)
        seed = 1 if config.output.suffix == ".zarr" else 0
        arm.path = study.darcy.run(replace(config, scheduler=None, seed=seed, progress=False))
        return arm

    class Cluster:
        scheduler_address = "tcp://nowhere:1"
        workers = property(lambda self: {0: type("Nanny", (), {"pid": next(self.pids)})})

        def __init__(self):
            self.pids = iter(range(100))

        def __enter__(self):
            return self

        def __exit__(self, *error):
            return None

    monkeypatch.setattr(study, "_watched", other_seed)
    monkeypatch.setattr(study, "_warm_workers", lambda cluster, config: None)
    monkeypatch.setattr(study, "_cluster", lambda workers: Cluster())
    with pytest.raises(RuntimeError, match="the files differ"):
        study.run(replace(SMALL, samples=4, resolution=9, output=tmp_path / "run"))
    assert (tmp_path / "run/data/serial.h5").is_file() and (tmp_path / "run/results.json").is_file()


def test_a_kill_that_comes_too_late_ends_the_run(tmp_path):
    config = study.darcy.DarcyConfig(
        samples=4, resolutions=(9,), modes=8, chunk=4, threads=1, progress=False, output=tmp_path / "x.h5"
    )
    with pytest.raises(RuntimeError, match="before a worker could be killed: take more --samples"):
        study._watched(config, lambda: None)
