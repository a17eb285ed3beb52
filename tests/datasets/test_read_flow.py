"""Files that are nearly of the layouts CNO, Poseidon, pdearena or jax-cfd, and one sample file of each layout."""

import h5py
import numpy as np
import pytest

from sciops.datasets import convert, grid_of, open_dataset, validate
from sciops.datasets.formats import find_reader
from sciops.datasets.formats.samples.flow import SAMPLES


def _near_misses(tmp_path):
    def write(name, content):
        with h5py.File(tmp_path / name, "w") as file:
            for key, value in content.items():
                file[key] = value
        return tmp_path / name

    field, flow = np.zeros((4, 4)), np.zeros((2, 3, 4, 4))
    yield write("ranks", {"sample_0/input": field, "sample_0/output": field[0]})
    yield write("odd", {"sample_0/input": field, "sample_0/output": field, "sample_1/input": field})
    yield write("sizes", {"Sample_0/a": field, "Sample_0/u": np.zeros((5, 5)), "Sample_0/bc": 1.0})
    yield write("numbers", {"Sample_0/a": field, "Sample_0/u": field, "Sample_0/bc": np.zeros(3)})
    yield write("three", {"sample_0": np.zeros((3, 3, 4, 4))})
    yield write("oblong", {"velocity": np.zeros((2, 3, 2, 4, 5))})
    yield write("whole", {"solution": np.zeros((2, 3, 2, 4, 4), int)})
    yield write("speed", {"solution": flow, "c": np.zeros((3, 4, 4))})
    yield write("missing", {"train/u": flow, "train/vx": flow})
    yield write("uneven", {"train/u": flow, "train/vx": flow, "train/vy": flow[:, :, :3]})
    yield write("other", {"part/u": flow, "part/vx": flow, "part/vy": flow})
    yield write("stated", {"train/pde_3-5": np.zeros((2, 3, 4)), "train/dt": np.ones(2), "train/dx": np.ones(2)})
    yield write("steps", {"train/pde_3-4": np.zeros((2, 3, 4)), "train/dt": np.ones(3), "train/dx": np.ones(2)})
    axes = {"time": np.arange(3.0), "x": np.arange(4.0), "y": np.arange(4.0)}
    yield write("lengths", {"u": flow, "v": flow, **axes, "x": np.arange(5.0)})
    yield write("component", {"u": flow, **axes})


def test_near_misses_are_no_layout(tmp_path):
    for path in _near_misses(tmp_path):
        assert find_reader(path) is None, path
        with pytest.raises(ValueError, match="an HDF5 file with .* not a known layout") as caught:
            open_dataset(path)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("layout", list(SAMPLES))
def test_samples_have_no_errors_and_go_to_the_native_file(tmp_path, layout):
    SAMPLES[layout](tmp_path / "file", seed=9)
    assert [str(f) for f in validate(tmp_path / "file") if f.severity == "error"] == []
    with open_dataset(tmp_path / "file") as source, open_dataset(convert(source, tmp_path / "n", "native")) as native:
        for name in source.data_vars:
            assert np.array_equal(native[name].values, source[name].values)
            assert grid_of(native, name) == grid_of(source, name)
