"""Data that PDEBench's layouts cannot hold and files that only resemble them are refused."""

import h5py
import numpy as np
import pytest

from sciops.datasets import convert, open_dataset, write_sample
from sciops.datasets.conventions import build_dataset
from sciops.datasets.formats.containers.yaml_lines import settings
from sciops.grids import Grid


def _trajectory(grid, names=("u",), equation="advection", dtype=np.float32, times=(0.0, 0.1), **options):
    dims = ("sample", "time", *"xyz"[: grid.ndim])
    fields = {name: (dims, np.zeros((2, 2, *grid.shape), dtype), {}) for name in names}
    return build_dataset(fields, grid, layout="native", equation=equation, times=times, state=names, **options)


PERIODIC, CELLS = Grid((8,), (0, 1), "periodic"), Grid((8, 8), None, "cell")


FLOW = ("density", "pressure", "vx", "vy")


@pytest.mark.parametrize(
    ("layout", "dataset", "message"),
    [
        ("pdebench-1d", _trajectory(Grid((8,)), parameters={"velocity": 1.0}), "periodic fields; .* 8 node points"),
        ("pdebench-1d", _trajectory(Grid((8, 8))), "holds 1-D fields"),
        ("pdebench-1d", _trajectory(PERIODIC, ("u", "v")), "holds one field"),
        ("pdebench-1d", _trajectory(PERIODIC, equation="kdv"), "is of 'kdv'"),
        ("pdebench-1d", _trajectory(PERIODIC), "states velocity for advection; the data set has none"),
        ("pdebench-1d", _trajectory(PERIODIC, dtype=np.int32), "holds floats; u is int32"),
        ("pdebench-1d", _trajectory(PERIODIC, times=None, parameters={"velocity": 1.0}), "does not know them"),
        (
            "pdebench-1d",
            _trajectory(PERIODIC).assign(velocity=("sample", np.array([1.0, 2.0]))),
            "velocity differ by sample",
        ),
        (
            "pdebench-1d",
            _trajectory(PERIODIC, parameters={"velocity": 1.0}).assign(f=(("sample", "x"), np.zeros((2, 8)))),
            "no place for f",
        ),
        ("pdebench-cfd", _trajectory(CELLS), "holds density, pressure, vx, vy in 2-D; the data set evolves u"),
        ("pdebench-cfd", _trajectory(Grid((8, 8)), FLOW, "compressible_navier_stokes"), "values of cells"),
        ("pdebench-cfd", _trajectory(CELLS, FLOW, "euler"), "is of 'euler'"),
        (
            "pdebench-cfd",
            _trajectory(CELLS, FLOW, "compressible_navier_stokes", parameters={"gamma": 1.4}),
            "no place for gamma",
        ),
        ("pdebench-groups", _trajectory(CELLS, ("u", "w"), "diffusion_reaction"), "holds u, v for diffusion_reaction"),
        ("pdebench-groups", _trajectory(CELLS, ("u", "v"), "diffusion_reaction"), "needs Du, Dv"),
        ("pdebench-groups", _trajectory(Grid((8, 8)), ("h",), "shallow_water"), "values of cells"),
        ("pdebench-groups", _trajectory(CELLS, ("h",), "burgers"), "is of 'burgers'"),
        (
            "pdebench-groups",
            _trajectory(
                CELLS, ("h",), "shallow_water", parameters={"gravity": 1.0}, boundary={"x": "wall", "y": "wall"}
            ),
            "means open for shallow_water",
        ),
        ("pdebench-ns", _trajectory(CELLS, ("vx", "vy"), "navier_stokes_velocity"), "the force fx, fy"),
    ],
)
def test_what_a_layout_cannot_hold_is_refused(tmp_path, layout, dataset, message):
    with pytest.raises(ValueError, match=message) as caught:
        convert(dataset, tmp_path / "x", layout)
    assert "\n" not in str(caught.value) and not list(tmp_path.iterdir())


def test_steady_data_is_no_trajectory(tmp_path):
    path = write_sample("pdebench-darcy", tmp_path / "x")
    for layout in ("pdebench-1d", "pdebench-cfd", "pdebench-groups", "pdebench-ns"):
        with pytest.raises(ValueError, match="holds trajectories; the data set is steady"):
            convert(path, tmp_path / "y", layout)


@pytest.mark.parametrize(
    "arrays",
    [
        {"tensor": (1, 10, 201, 64)},  # rank 4 without nu: no Darcy, and no 1-D file either
        {"tensor": (4, 0, 8)},
        {"density": (2, 3, 8, 8), "pressure": (2, 3, 8, 8), "Vx": (2, 3, 8, 8)},  # Vy is not there
        {"density": (2, 3, 8), "pressure": (2, 3, 8), "Vx": (2, 3, 9)},
        {"velocity": (2, 3, 8, 8, 2), "particles": (2, 3, 8, 8, 1), "force": (2, 8, 8, 2), "t": (3, 2)},
        {"velocity": (2, 3, 8, 8, 3), "particles": (2, 3, 8, 8, 1), "force": (2, 8, 8, 2), "t": (2, 3)},
        {"0000/data": (3, 8, 8, 2), "0000/grid/x": (8,), "0000/grid/t": (3,)},
        {"0000/data": (3, 8, 1), "0000/grid/x": (8,), "0000/grid/t": (3,), "more": (2,)},
    ],
)
def test_wrong_ranks_are_no_known_layout(tmp_path, arrays):
    with h5py.File(tmp_path / "x", "w") as file:
        for name, shape in arrays.items():
            file[name] = np.zeros(shape, np.float32)
    with pytest.raises(ValueError, match="not a known layout"):
        open_dataset(tmp_path / "x")


def test_tables_of_contents_that_lie(tmp_path):
    with h5py.File(tmp_path / "axis", "w") as file:
        file.create_dataset("tensor", (1, 1, 2**40), "f4", chunks=(1, 1, 1024))
        file.create_dataset("x-coordinate", (2**40,), "f4", chunks=(1024,))
        file.attrs["beta"] = 1.0
    with h5py.File(tmp_path / "hole", "w") as file:
        file.create_dataset("tensor", (1, 1, 2**32), "f4", fill_time="never")[0, 0, -1] = 1
    for name in ("axis", "hole"):
        with pytest.raises(ValueError, match="1099511627776|an axis of 4294967296 points") as caught:
            open_dataset(tmp_path / name)
        assert "damaged" in str(caught.value) and "\n" not in str(caught.value)
    with h5py.File(tmp_path / "words", "w") as file:
        file["tensor"] = np.array([[[b"a", b"b"]]])
    with h5py.File(tmp_path / "records", "w") as file:
        file["tensor"] = np.zeros((2, 2, 4), [("re", "f4"), ("im", "f4")])
    for name in ("words", "records"):
        with pytest.raises(ValueError, match="not a known layout"):
            open_dataset(tmp_path / name)


def test_settings_are_text_and_never_code():
    text = 'a: 1E-3\nb: !!python/object/apply:os.system ["true"]\n'
    text += 'sim:\n  c: [1, 2.5]\n  d:\n  - x\n  - 3\n# e: 1\nf: "g"\n'
    found = settings(text)
    assert found["a"] == 1e-3 and found["sim.c"] == [1.0, 2.5] and found["sim.d"] == ["x", 3.0] and found["f"] == "g"
    assert isinstance(found["b"], str) and "e" not in found
    for odd in (None, 3, "", "- 1", ":\n:", "\n\n  - \n", "a:\n    - b\n  c: 1", b"a: 1\xff"):
        settings(odd)
