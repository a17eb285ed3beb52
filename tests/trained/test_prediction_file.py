"""`sciops predict`: the file holds what `sciops.predict` says and its errors, whole or not at all."""

from __future__ import annotations

import numpy as np
import pytest

import sciops
from sciops import cli
from sciops.datasets import convert, validate
from sciops.metrics import relative_l2
from sciops.trained.prediction_file import write_predictions


def _refused(capsys, *words):
    with pytest.raises(SystemExit) as stop:
        cli.main([str(word) for word in words])
    text = capsys.readouterr().err.strip()
    assert stop.value.code == 2 and text.startswith("error: ") and "\n" not in text, text
    return text


@pytest.mark.parametrize("ending", ["h5", "zarr"])
def test_the_file_holds_predictions_and_errors(darcy_run, darcy_file, tmp_path, capsys, ending):
    output = tmp_path / "deep" / f"p.{ending}"
    words = [
        "predict",
        darcy_run,
        "--data",
        darcy_file,
        "--output",
        output,
        "--samples",
        "7",
        "2:5",
        "--batch-size",
        "3",
    ]
    cli.main([str(word) for word in words])
    with sciops.open_dataset(darcy_file) as data, sciops.open_dataset(output) as written:
        part = data.isel(sample=[7, 2, 3, 4])
        expected, truth = sciops.predict(darcy_run, part)["u"].values, part["u"].values.astype(np.float32)
        np.testing.assert_allclose(written["u_predicted"], expected, rtol=1e-4, atol=1e-6)
        np.testing.assert_array_equal(written["u_error"], written["u_predicted"].values - truth)
        own = relative_l2(written["u_predicted"].values, truth)
        np.testing.assert_allclose(written["relative_l2"], own, rtol=1e-5)
        np.testing.assert_array_equal(written["sample"], [7, 2, 3, 4])
        assert (
            sciops.datasets.grid_of(written) == sciops.datasets.grid_of(data) and written.attrs["equation"] == "darcy"
        )
    said = capsys.readouterr().out
    assert f"4 samples, relative L2 error {own.mean():.4g} on average" in said
    assert f"(sample {[7, 2, 3, 4][int(own.argmax())]})" in said
    assert not [finding for finding in validate(output) if finding.severity == "error"]
    assert [path.name for path in output.parent.iterdir()] == [output.name]
    cli.main(["info", str(output)])
    assert "sciops train" not in capsys.readouterr().out


def test_other_layouts_splits_and_data_without_the_truth(darcy_run, darcy_file, tmp_path):
    other = convert(darcy_file, tmp_path / "d.mat", "li2020")
    found = write_predictions(darcy_run, other, tmp_path / "p.h5")
    assert len(found.samples) == 20
    part = write_predictions(darcy_run, darcy_file, tmp_path / "test.h5", split="test")
    np.testing.assert_array_equal(part.samples, [16, 17, 18, 19])
    np.testing.assert_allclose(part.relative_l2, found.relative_l2[16:], rtol=1e-4)
    bare = convert(darcy_file, tmp_path / "bare.h5", "native", without=["u"])
    assert "whose truth the data do not hold" in str(write_predictions(darcy_run, bare, tmp_path / "q.h5"))
    with sciops.open_dataset(tmp_path / "p.h5") as one, sciops.open_dataset(tmp_path / "q.h5") as two:
        assert set(two.data_vars) == {"u_predicted"}
        np.testing.assert_allclose(one["u_predicted"], two["u_predicted"], rtol=1e-5)


def test_rollouts_are_written_with_their_times(wave_run, wave_file, tmp_path):
    found = write_predictions(wave_run, wave_file, tmp_path / "p.h5", samples=[3, 4, 5], batch_size=2)
    longer = write_predictions(wave_run, wave_file, tmp_path / "q.h5", samples=[3, 4, 5], steps=9)
    with sciops.open_dataset(wave_file) as data, sciops.open_dataset(tmp_path / "p.h5") as short:
        expected = sciops.predict(wave_run, data.isel(sample=[3, 4, 5]), steps=9)["u"]
        np.testing.assert_allclose(short["u_predicted"], expected[:, :7], rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(short["time"], data["time"][2:])
        truth = data["u"].values[3:6, 2:].astype(np.float32)
        frames = relative_l2(short["u_predicted"].values.reshape(21, 32), truth.reshape(21, 32)).reshape(3, 7)
        np.testing.assert_allclose(short["relative_l2"], frames, rtol=1e-4)
    with sciops.open_dataset(tmp_path / "q.h5") as long:
        np.testing.assert_allclose(long["u_predicted"], expected, rtol=1e-4, atol=1e-5)
        assert set(long.data_vars) == {"u_predicted"}
    assert "over the first 7 of 9 frames" in str(longer) and "over the first" not in str(found)


def test_what_cannot_be_is_said_in_one_line(darcy_run, darcy_file, wave_run, wave_file, tmp_path, capsys):
    there = tmp_path / "there.h5"
    there.write_bytes(b"mine")
    fine = ("predict", darcy_run, "--data", darcy_file, "--output")
    assert "--overwrite" in _refused(capsys, *fine, there) and there.read_bytes() == b"mine"
    assert "sciops convert writes it" in _refused(capsys, *fine, tmp_path / "p.npy")
    assert "the data itself" in _refused(capsys, *fine, darcy_file, "--overwrite")
    assert "expected numbers from 0 and ranges" in _refused(capsys, *fine, tmp_path / "p.h5", "--samples", "1:x")
    assert "that is not a sample" in _refused(capsys, *fine, tmp_path / "p.h5", "--samples", "3:3")
    assert "samples holds 40" in _refused(capsys, *fine, tmp_path / "p.h5", "--samples", "40")
    assert "expected one of train" in _refused(capsys, *fine, tmp_path / "p.h5", "--split", "tset")
    assert "nested in it: " in _refused(capsys, *fine, tmp_path / "p.h5", "--resolution", "16")
    assert "this one is steady" in _refused(capsys, *fine, tmp_path / "p.h5", "--steps", "3")
    assert "batch_size=0" in _refused(capsys, *fine, tmp_path / "p.h5", "--batch-size", "0")
    of_waves = ("predict", darcy_run, "--data", wave_file, "--output", tmp_path / "p.h5")
    assert "trajectories, a time-dependent task" in _refused(capsys, *of_waves)
    of_fields = ("predict", wave_run, "--data", darcy_file, "--output", tmp_path / "p.h5")
    assert "is steady, nothing in it evolves" in _refused(capsys, *of_fields)
    assert "no such folder" in _refused(capsys, "predict", tmp_path / "none", *fine[2:], tmp_path / "p.h5")
    assert "no such file" in _refused(capsys, *fine[:3], tmp_path / "none.h5", "--output", tmp_path / "p.h5")
    assert "--output" in _refused(capsys, *fine[:4])
    (tmp_path / "cut.h5").write_bytes(darcy_file.read_bytes()[:5000])
    assert "cut.h5" in _refused(capsys, *fine[:3], tmp_path / "cut.h5", "--output", tmp_path / "p.h5")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cut.h5", "there.h5"]
